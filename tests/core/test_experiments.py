"""What the VDU's programs of experiments make of frames and datagrams, and what is refused."""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.ports import free_port
from vpnaas import actions
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import Results

from experiments.vdu import orders as experiments
from experiments.vdu import send, signalling_meter, watch

IMSI = "001010000000001"


def udp(source: int, target: int, data: bytes) -> bytes:
    return ipv4(17, struct.pack("!HHHH", source, target, 8 + len(data), 0) + data)


def ipv4(protocol: int, data: bytes, place: int = 0) -> bytes:
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(data), 7, place, 64, protocol, 0)
    return b"\2" * 12 + b"\x08\0" + head + b"\x0a\0\0\1\x0a\0\0\2" + data


def ipv6(protocol: int, data: bytes) -> bytes:
    return (
        b"\2" * 12
        + b"\x86\xdd"
        + struct.pack("!IHBB", 6 << 28, len(data), protocol, 64)
        + (b"\xfd" * 32 + data)
    )


IKE = b"\1" * 16 + b"\x2e\x20\x22\x08" + b"\0" * 4 + struct.pack("!I", 40) + b"\0" * 12


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (udp(51820, 51820, b"\1\0\0\0" + b"x" * 144), "wg"),
        (udp(4000, 7, b"\4\0\0\0" + b"x" * 92), "wg"),
        (udp(51820, 51820, b"\4\0\0\0" + b"x" * 1448), "wg"),
        (udp(51820, 51820, b"\4\0\0\0" + b"x" * 27), "udp"),
        (udp(51820, 51820, b"\1\0\0\0" + b"x" * 145), "udp"),
        (ipv4(50, b"x" * 60), "esp"),
        (udp(4500, 4500, b"\0\0\1\1" + b"x" * 60), "esp"),
        (udp(4500, 4500, b"\xff"), "esp"),
        (udp(4500, 4500, b"\0\0\0\0" + IKE), "isakmp"),
        (udp(500, 500, IKE), "isakmp"),
        (udp(500, 500, IKE + b"x"), "udp"),
        (b"\xff" * 12 + b"\x08\x06" + b"\0" * 28, "arp"),
        (b"\xff" * 12 + b"\x81\0\0\5\x08\x06" + b"\0" * 28, "arp"),
        (ipv4(6, struct.pack("!HH", 40000, 3868) + b"\0" * 16), "diameter"),
        (ipv4(6, struct.pack("!HH", 40000, 41000) + b"\0" * 16), "tcp"),
        (ipv4(132, b"\0" * 12), "sctp"),
        (udp(2152, 2152, b"x" * 40), "gtp-u"),
        (udp(68, 67, b"x" * 240), "dhcp"),
        (ipv6(58, b"\x87" + b"\0" * 23), "icmpv6-nd"),
        (ipv6(0, b"\x3a\0" + b"\0" * 6 + b"\x8f" + b"\0" * 7), "icmpv6-mld"),
        (ipv6(58, b"\x80" + b"\0" * 7), "icmpv6"),
        (b"\xff" * 12 + b"\x88\xcc" + b"\0" * 20, "ethertype-88cc"),
        (b"\xff" * 12 + b"\x08\0" + b"E", "ip"),
    ],
)
def test_frames_are_known_by_their_form(frame: bytes, kind: str) -> None:
    assert watch.kind(frame, {}) == kind


def test_later_fragments_are_of_the_first_ones_kind() -> None:
    seen: dict[bytes, str] = {}
    data = struct.pack("!HHHH", 51820, 51820, 104, 0) + b"\4\0\0\0" + b"x" * 92
    assert watch.kind(ipv4(17, data, 0x2000), seen) == "wg"
    assert watch.kind(ipv4(17, b"x" * 64, 13), seen) == "wg"
    assert watch.kind(ipv4(17, b"x" * 64, 13), {}) == "fragment"


@pytest.mark.parametrize(
    "packed",
    [
        IMSI.encode(),
        # TBCD with a filler at its end, as in GTPv2-C (TS 29.274 clause 8.3)
        bytes.fromhex("00010100000000" + "f1"),
        # the first digit beside the type of identity, as in NAS (TS 24.008 clause 10.5.1.4)
        bytes.fromhex("09" + "10100000000010"),
    ],
)
def test_identities_are_found_in_the_forms_that_protocols_have(packed: bytes) -> None:
    frame = udp(2123, 2123, b"before" + packed + b"after")
    assert any(form in frame for form in watch.digits(IMSI))
    assert not any(form in frame for form in watch.digits("001010000000002"))


@pytest.mark.parametrize("digits", ["262420", "26242001", "262420001", "1000000001", IMSI])
def test_noise_tells_no_identity(digits: str) -> None:
    """Three bytes are in one of 6000 encrypted frames of 1400 bytes by chance."""
    forms = watch.digits(digits)
    assert forms[0] == digits.encode()
    assert all(len(form) >= 5 for form in forms)
    # The number of a subscriber (MSIN) has 9 or 10 digits, and begins at a byte.
    assert len(forms) == {6: 1, 8: 1, 9: 2}.get(len(digits), 3)


@pytest.mark.lab
@pytest.mark.parametrize("program", ["capture", "meter"])
def test_frames_of_before_the_choice_of_an_interface_are_not_seen(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A packet socket receives from all interfaces until bind, a tunnel's own packets too."""
    seen: list[bytes] = []
    to = ("127.0.0.1", free_port())

    class Early(socket.socket):
        def bind(self, address: Any, /) -> None:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.sendto(b"too early", to)
            super().bind(address)

    class Meter:
        last = 0.0

        def answered(self) -> int:
            return 0

        def packet(self, packet: bytes, _: float) -> None:
            seen.append(packet)

        def summary(self) -> dict[str, Any]:
            return {}

    monkeypatch.setattr(watch.socket, "socket", Early)
    if program == "meter":
        monkeypatch.setitem(signalling_meter.METERS, "s6a", Meter)
        request = {"link": "s6a", "interface": "lo", "seconds": 0.1, "count": 1, "idle": 0}
        signalling_meter.main(request)
    else:
        with watch.Link("lo", []).tap as tap:
            while select.select([tap], [], [], 0.1)[0]:
                seen.append(tap.recv(2000))
    assert not [frame for frame in seen if b"too early" in frame]


def test_what_arrived_of_a_stream_and_of_strangers() -> None:
    request = {"addresses": [], "port": 7777, "budget": 0.01}
    listener = watch.Arrivals(request)
    for number, delay in ((0, 0.001), (1, 0.02), (1, 0.03), (5, 0.001)):
        data = watch.HEAD.pack(watch.STREAM, number, 100.0 + number, 1) + b"s"
        listener.datagram(data, 100.0 + number + delay)
    listener.datagram(send.datagram(send.TOKEN, 0, "a>b"), 1.0)
    for stranger in (b"", b"x" * 500, watch.HEAD.pack(b"VPNx", 1, 1.0, 1) + b"s"):
        listener.datagram(stranger, 1.0)
    result = listener.summary()
    assert result["tokens"] == ["a>b"]
    assert result["other-datagrams"] == 3
    stream = result["streams"]["s"]
    assert (stream["received"], stream["arrivals"], stream["within-budget"]) == (3, 4, 2)
    assert (stream["first"], stream["last"], stream["longest-run-lost"]) == (0, 5, 3)
    assert stream["delay-ms"] == {"min": 1.0, "median": 1.0, "p99": 20.0, "max": 20.0}
    assert (stream["began-at"], stream["ended-at"]) == (100.001, 105.001)
    # Datagrams 2 to 4 were lost. The sender paused for a second between two datagrams.
    assert (stream["gap-at"], stream["gap-ms"]) == (101.03, 2971)
    within = dict(stream["delay-ms-within"])
    assert (within[50], within[100]) == (1.0, 20.0)


def test_a_pause_of_the_sender_is_no_gap() -> None:
    listener = watch.Arrivals({"addresses": [], "port": 7777, "budget": 0.01})
    for number, sent in enumerate((100.0, 100.005, 103.0)):
        listener.datagram(watch.HEAD.pack(watch.STREAM, number, sent, 1) + b"s", sent + 0.002)
    assert listener.summary()["streams"]["s"]["gap-ms"] == 0


@pytest.mark.parametrize("sent", [float("nan"), float("inf"), -1.0, 1e300])
def test_a_datagram_with_an_impossible_time_spoils_no_stream(sent: float) -> None:
    listener = watch.Arrivals({"addresses": [], "port": 7777, "budget": 0.01})
    for time in (100.0, sent, 101.0):
        listener.datagram(watch.HEAD.pack(watch.STREAM, int(time == 101.0), time, 1) + b"s", 101.0)
    summary = listener.summary()
    json.dumps(summary, allow_nan=False)
    assert (summary["streams"]["s"]["received"], summary["other-datagrams"]) == (2, 1)


def test_an_answer_stays_bounded_whatever_arrives() -> None:
    listener = watch.Arrivals({"addresses": [], "port": 7777, "budget": 0.01})
    for number in range(2000):
        for mark in (watch.STREAM, watch.TOKEN):
            name = f"{number:050d}".encode()
            listener.datagram(watch.HEAD.pack(mark, number, 1.0, 50) + name, 1.0)
    result = listener.summary()
    assert (len(result["streams"]), len(result["tokens"])) == (16, watch.MOST_NAMES)
    assert result["tokens-left-out"] == 2000 - watch.MOST_NAMES
    assert result["other-datagrams"] == 2000 - 16


def test_an_answer_can_be_read_whatever_arrives() -> None:
    """Names have any bytes and lengths, and times are as far from the truth as may be."""
    listener = watch.Arrivals({"addresses": [], "port": 7777, "budget": 0.01})
    names = [b"%05d" % number + 95 * b"\\" for number in range(1000)]
    names += [b"%05d" % number + 250 * b"x" for number in range(1000)]
    names += [b"", b"\n", b"\x7f", b"\xff" * 20, "ä".encode()]
    for name in names:
        for mark in (watch.STREAM, watch.TOKEN):
            for number, sent in ((7, 0.0), (watch.NUMBERS - 1, float(watch.LATEST - 1))):
                data = watch.HEAD.pack(mark, number, sent, len(name)) + name
                listener.datagram(data, 1764000000.123456)
    result = listener.summary()
    shown = json.dumps({**result, "ran-until-stopped": True}, separators=(",", ":"))
    assert len(shown) < actions.OUTPUT_LIMIT
    assert len(result["streams"]) == 16
    assert 150 < len(result["tokens"]) < watch.MOST_NAMES
    assert result["tokens-left-out"] == 2 * (1000 - len(result["tokens"]))
    assert result["other-datagrams"] == 2 * (1000 - 16) + 2 * 2 * 1005


def test_a_long_stream_loses_nothing() -> None:
    listener = watch.Arrivals({"addresses": [], "port": 7777, "budget": 0.01})
    count = watch.MOST + 50_000
    for number in range(count):
        if number == 10 or number in range(240_000, 240_005):
            continue
        delay = 0.001 if number % 2 else 0.02
        data = watch.HEAD.pack(watch.STREAM, number, 100.0 + number / 1000, 1) + b"s"
        listener.datagram(data, 100.0 + number / 1000 + delay)
    beyond = watch.HEAD.pack(watch.STREAM, watch.NUMBERS, 100.0, 1) + b"s"
    listener.datagram(beyond, 100.0)
    result = listener.summary()
    stream = result["streams"]["s"]
    assert (stream["received"], stream["arrivals"]) == (count - 6, count - 6)
    assert (stream["first"], stream["last"], stream["longest-run-lost"]) == (0, count - 1, 5)
    assert stream["within-budget"] == count // 2 - 2
    assert result["other-datagrams"] == 1
    assert watch.NUMBERS >= 10_000 * 600  # what start-stream allows


def test_the_programs_reach_each_other(tmp_path: Path) -> None:
    """Both programs as systemd starts them, over loopback."""
    port = free_port()
    notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notified.bind(str(tmp_path / "notify"))
    notified.settimeout(20)
    request = {"watch": "arrivals", "addresses": ["127.0.0.1"], "port": port, "budget": 0.5,
               "seconds": 60, "result": str(tmp_path / "arrived")}  # fmt: skip
    (tmp_path / "listen").write_text(json.dumps(request))
    program, sending = tmp_path / "watch.py", tmp_path / "send.py"
    for path in (program, sending):
        path.write_text(source(path.name, "experiments.vdu"))
    words = [sys.executable, "-I", str(program), str(tmp_path / "listen")]
    environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}
    with notified, subprocess.Popen(words, env=environment) as listener:
        assert notified.recv(100) == b"READY=1"
        stream = {"address": "127.0.0.1", "port": port, "name": "s", "rate": 200, "size": 100,
                  "senders": 5, "seconds": 1, "result": str(tmp_path / "sent")}  # fmt: skip
        (tmp_path / "stream").write_text(json.dumps(stream))
        sender = [sys.executable, "-I", str(sending)]
        subprocess.run([*sender, str(tmp_path / "stream")], check=True, timeout=120)
        one = attempt(to="10.0.0.1", ports=[port, 1], datagram=port, token="t", say="00")
        tried = {"attempts": [{**one, "to": "127.0.0.1"}], "patience": 1.0, "interface": "lo"}
        done = subprocess.run(
            sender, input=json.dumps(tried), capture_output=True, text=True, check=True, timeout=30
        )
        listener.terminate()
        assert listener.wait(120) == 0
    result = json.loads((tmp_path / "arrived").read_text())
    assert json.loads((tmp_path / "sent").read_text())["sent"] == 200
    assert result["streams"]["s"]["received"] == 200
    assert (result["tokens"], result["connections"]) == (["t"], 1)
    answer = json.loads(done.stdout)
    assert answer["open"] == [[0, port]]
    assert answer["outcomes"] == {"probe": {"tcp open": 1, "tcp refused": 1, "udp sent": 1}}


def test_an_attempt_by_force_without_its_route_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """By another route it would say nothing about the target's management interface."""
    asked: list[str] = []
    monkeypatch.setattr(send, "_route", lambda verb, words: asked.append(verb))
    port = free_port()
    one = {**attempt(to="192.0.2.1", datagram=port, ports=[port, 1]), "to": "127.0.0.1"}
    listed = [{**one, "label": "routed"}, {**one, "label": "forced", "via": "127.0.0.2"}]
    request = {"attempts": listed, "patience": 1.0, "interface": "lo"}
    assert send.attempts(request)["outcomes"] == {
        "routed": {"tcp refused": 2, "udp sent": 1},
        "forced": {"tcp unrouted": 2, "udp unrouted": 1},
    }
    assert asked == ["del", "add"]


def test_many_senders_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send.signal, "signal", lambda *_: None)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(120)
        given = {"link": "n3", "senders": 5, "rate": 1000}
        start = next(s for s in experiments.stream(given, "127.0.0.1") if s.id == "request")
        request = json.loads(str(start.body["text"]))
        result = send.stream({**request, "port": listener.getsockname()[1], "seconds": 0.02})
        ports = [listener.recvfrom(2000)[1][1] for _ in range(result["sent"])]
    assert result["sent"] == 20
    assert len(set(ports[:5])) == 5
    assert ports[5:] == ports[:-5]


def attempt(**keys: Any) -> dict[str, Any]:
    step = experiments.attempts({"attempts": json.dumps([keys])}, "lo")
    (parsed,) = json.loads(str(step.body["stdin"]))["attempts"]
    return dict(parsed)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "not a JSON list"),
        ("{}", "not a JSON list"),
        ("[]", "0 attempts"),
        ("[1]", "not a JSON list"),
        ("[" * 100000, "not a JSON list"),
        (json.dumps([{"to": "10.0.0.1"}] * 2001), "2001 attempts"),
        ("[" + " " * 500000 + "]", "500002 characters"),
        ('[{"to": "host"}]', r"attempts\[0\]: to"),
        ('[{"to": "10.0.0.1", "shell": "x"}]', "unknown key shell"),
        ('[{"to": "10.0.0.1", "ports": [0]}]', "ports"),
        ('[{"to": "10.0.0.1", "ports": "some"}]', "not a list of ports"),
        ('[{"to": "fd00::1", "source": "10.0.0.2"}]', "two versions"),
        ('[{"to": "fd00::1", "source": "fd00::2"}]', "only IPv4"),
        ('[{"to": "10.0.0.1", "say": "0"}]', "not hexadecimal"),
        ('[{"to": "10.0.0.1", "token": "\\u0000"}]', "printable"),
        (json.dumps([{"to": "10.0.0.1", "ports": "all"}] * 2), "131070 ports"),
    ],
)
def test_attempts_that_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        experiments.attempts({"attempts": text}, "ens3")


@pytest.mark.parametrize("name", ["none", "sshd", "python3", "a b", "-9", "x" * 16, ""])
def test_processes_that_a_fault_spares(name: str) -> None:
    with pytest.raises(InputError, match="inject-fault: process"):
        experiments.fault({"fault": "process", "process": name}, "")


def test_a_cut_link_comes_back_whatever_happens() -> None:
    steps = [step.body for step in experiments.fault({"fault": "link", "seconds": 7}, "ens4")]
    words = [" ".join(step["argv"]) for step in steps]
    mend = next(n for n, text in enumerate(words) if "--on-active=7s" in text)
    assert "delete table inet osm_vpnaas_fault" in words[mend]
    assert words[-1] == "nft -f -"
    assert mend < len(words) - 1
    assert "oifname ens4 drop" in steps[-1]["stdin"]


@pytest.mark.parametrize("text", ["12345", "1" * 17, "00101000000000x", ",".join(["123456"] * 9)])
def test_identities_that_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="start-capture: identities"):
        experiments.identities(text)


UNITS = [each for each in vars(experiments).values() if type(each) is experiments.Unit]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_is_sent_with_its_program(unit: experiments.Unit) -> None:
    (text,) = [step.body["text"] for step in unit.start({"seconds": 1}) if step.id == "program"]
    compile(text, unit.program, "exec")
    assert "def main(" in text


def test_experiments_are_off_unless_day_1_allows_them() -> None:
    experiments.require_allowed("yes")
    for option in ("", "no"):
        with pytest.raises(VpnaasError, match="allow_experiments must be yes"):
            experiments.require_allowed(option)
    with pytest.raises(InputError):
        experiments.require_allowed("True")


def test_a_result_that_is_missing_names_what_to_start() -> None:
    with pytest.raises(VpnaasError, match="no capture runs here; run start-capture first"):
        experiments.CAPTURE.result(Results({"result": {"text": None}}))


def test_ports_that_listen_are_read_from_the_kernel() -> None:
    head = "  sl  local_address rem_address   st\n"
    rows = "   0: 0100007F:1F90 00000000:0000 0A\n   1: 00000000:0016 00000000:0000 0A\n"
    other = "   2: 0100007F:0050 0100007F:9999 01\n"
    result = Results({"tcp": {"text": head + rows + other}, "tcp6": {"text": None}})
    assert experiments.listening(result) == [22, 8080]
