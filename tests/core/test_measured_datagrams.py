"""Numbered datagrams: what measures UDP where packets are lost."""

from __future__ import annotations

import json
import random
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from vpnaas.base.errors import VpnaasError
from vpnaas.features.measure import measure
from vpnaas.peers.peer import Peer
from vpnaas.vdu.programs import responder, throughput_client
from vpnaas.vdu.steps import Results

pytestmark = pytest.mark.slow

PROGRAM = str(Path(responder.__file__))
PEER = Peer("rel-1", "hss", (), "wireguard", inner_address=measure.fields.address("t", "192.0.2.1"))


class Relay:
    """A path that drops datagrams of both directions."""

    def __init__(self, to: int, drops: Callable[[], bool]) -> None:
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.sock.settimeout(0.2)
        self.port, self.to, self.drops = self.sock.getsockname()[1], to, drops
        self.over = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        client: Any = None
        while not self.over:
            try:
                data, sender = self.sock.recvfrom(65535)
            except OSError:
                continue
            if sender[1] != self.to:
                client = sender
            if not self.drops():
                self.sock.sendto(data, client if sender[1] == self.to else ("127.0.0.1", self.to))

    def close(self) -> None:
        self.over = True
        self.thread.join()
        self.sock.close()


class FarEnd:
    """The responder of the other VDU, behind a path that may drop; it has no iperf3."""

    def __init__(self, drops: Callable[[], bool], older: bool = False) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.drops, self.older = drops, older
        self.relays: list[Relay] = []
        self.served: list[dict[str, Any]] = []
        self.patched = threading.Lock()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=[connection], daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        lines = connection.makefile("rw")
        request = json.loads(lines.readline())
        self.served.append(request)

        def answer(message: dict[str, Any]) -> None:
            if message.get("datagrams"):
                self.relays.append(Relay(message["port"], self.drops))
                message = {**message, "port": self.relays[-1].port}
            lines.write(json.dumps(message) + "\n")
            lines.flush()

        if self.older or "datagrams" not in request:
            answer({"port": 9})
            return
        # The client may call again before the thread of its last call has put `answer` back.
        with self.patched, pytest.MonkeyPatch.context() as patch:
            patch.setattr(responder, "answer", answer)
            responder.datagrams(connection, "127.0.0.1", responder.planned(request["datagrams"]))

    def close(self) -> None:
        self.listening.close()
        for relay in self.relays:
            relay.close()


@pytest.fixture
def far_end() -> Iterator[Callable[..., FarEnd]]:
    made: list[FarEnd] = []

    def make(*args: Any, **kwargs: Any) -> FarEnd:
        made.append(FarEnd(*args, **kwargs))
        return made[-1]

    yield make
    for end in made:
        end.close()


def measured(
    far: FarEnd | SimpleNamespace, direction: str = "bidirectional", **changes: Any
) -> Any:
    request = {
        "responder": ["127.0.0.1", far.port],
        "address": "127.0.0.1",
        "path": "tunnel",
        "seconds": 1,
        "options": [],
        "keep": "",
        "most": 5,
        "datagrams": measure.numbered(1, 2, 1200, direction),
        "program": PROGRAM,
        "tries": 1,
        **changes,
    }
    done = subprocess.run(
        [sys.executable, "-c", Path(throughput_client.__file__).read_text()],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=True,
    )
    return Results({"udp": {"code": 0, "out": done.stdout}})


@pytest.mark.parametrize("direction", ["upload", "download", "bidirectional"])
def test_loss_of_each_direction_is_measured_where_iperf3_could_not_start(
    far_end: Callable[..., FarEnd], direction: str, tmp_path: Path
) -> None:
    chance = random.Random(7)  # noqa: S311
    kept = tmp_path / "report.json"
    far = far_end(lambda: chance.random() < 0.2)
    for _ in range(10):
        results = measured(far, direction, keep=str(kept))
        figures = measure.rates(measure.report_of(results, "udp", PEER, "tunnel"), "udp")
        if json.loads(kept.read_text())["start"]["late-ms"] < 100:
            break  # Else the machine was busy, and less was sent than asked for.
    ways = ["", "-reverse"] if direction == "bidirectional" else [""]
    for way in ways:
        assert 8 < figures["loss-percent" + way] < 32
        assert figures["packets" + way] == 208
        assert figures["jitter-ms" + way] >= 0
        assert 1 < figures["mbps" + way] < 2
    assert ("loss-percent-reverse" in figures) == (direction == "bidirectional")
    assert json.loads(kept.read_text())["start"]["method"] == "numbered datagrams"


def test_a_full_disk_costs_the_kept_report_and_not_the_result(
    far_end: Callable[..., FarEnd], tmp_path: Path
) -> None:
    kept = tmp_path / "report.json"
    kept.symlink_to("/dev/full")
    far, chance = far_end(lambda: chance.random() < 0.2), random.Random(7)  # noqa: S311
    results = measured(far, keep=str(kept))
    test = measure.ThroughputTest.parse({"link": "s6a", "protocol": "udp", "duration": 1})
    summary = test.summary(PEER, Results({"iperf3": {"code": 0, "out": results.output("udp")}}))
    assert summary["kept"] == "nowhere: the VDU's disk is full"
    assert summary["packets"] > 0
    assert not kept.is_symlink()


def test_what_a_starved_sender_did_not_send_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = {"seconds": 0.4, "rate": 100.0, "size": 100, "token": "00" * 8}
    times = iter([0.0, 0.0, 0.01])  # Begun, in time once, and then kept from running for long.
    monkeypatch.setattr(responder.time, "monotonic", lambda: next(times, 2.0))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        looks = iter([False, False, False, True])
        counts = responder.exchange(
            sock, sock.getsockname(), plan, True, lambda passed: next(looks)
        )
    assert 0 < counts["sent"] < 10


@pytest.mark.parametrize("direction", ["upload", "download", "bidirectional"])
def test_udp_that_is_blocked_is_named(far_end: Callable[..., FarEnd], direction: str) -> None:
    results = measured(far_end(lambda: True), direction)
    with pytest.raises(VpnaasError) as failed:
        measure.report_of(results, "udp", PEER, "tunnel")
    assert str(failed.value) == (
        "measurement to hss failed: no datagram came back (50 sent), TCP passes: UDP is blocked or"
        " lost"
    )


def iperf3(folder: Path, text: str) -> dict[str, str]:
    program = folder / "iperf3"
    program.write_text("#!/bin/sh\n" + text)
    program.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


FAULTS = [
    (
        "unable to read from stream socket: Resource temporarily unavailable",
        "iperf3's streams of UDP did not start: datagrams are lost",
    ),
    (
        "unable to connect to server: Connection refused",
        "no TCP connection to the iperf3 server of hss over the tunnel; a firewall may drop it",
    ),
    ("control socket has closed unexpectedly", "the connection to hss broke during"),
    ("the server is busy running a test. try again later", "busy with another measurement"),
    ("something that nobody has seen", "iperf3 ended with exit code 1"),
]


@pytest.mark.parametrize(("said", "sentence"), FAULTS)
def test_no_text_of_iperf3_reaches_the_operator(
    far_end: Callable[..., FarEnd],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: str,
    sentence: str,
) -> None:
    path = iperf3(tmp_path, f"""echo '{{"error": "error - {said}"}}'; exit 1\n""")
    monkeypatch.setenv("PATH", path["PATH"])
    for changes in ({"datagrams": None}, {}):
        # An older responder knows iperf3 only.
        results = measured(far_end(lambda: False, older=True), **changes)
        with pytest.raises(VpnaasError) as failed:
            measure.report_of(results, "udp", PEER, "tunnel")
        assert sentence in str(failed.value)
        assert said not in str(failed.value)


def test_streams_that_did_not_start_are_measured_otherwise(
    far_end: Callable[..., FarEnd], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = '{"error": "error - unable to read from stream socket: Success"}'
    monkeypatch.setenv("PATH", iperf3(tmp_path, f"echo '{said}'; exit 1\n")["PATH"])
    results = measured(far_end(lambda: False))
    report = measure.report_of(results, "udp", PEER, "tunnel")
    assert measure.rates(report, "udp")["loss-percent"] == 0


def test_a_far_end_that_cannot_be_reached_is_named(far_end: Callable[..., FarEnd]) -> None:
    far = far_end(lambda: False)
    far.listening.close()
    with socket.create_server(("127.0.0.1", 0)) as free:
        far.port = free.getsockname()[1]
    with pytest.raises(VpnaasError, match=r"nothing listens on TCP port 5199 of 192.0.2.1"):
        measure.report_of(measured(far), "udp", PEER, "tunnel")


RESPONDER = """import sys
sys.path.insert(0, sys.argv[1])
from vpnaas.vdu.programs import responder
responder.targets = lambda _: {"tunnel": "127.0.0.1"}
responder.main()
"""


@pytest.mark.parametrize(
    ("program", "mode", "sentence"),
    [
        ("#!/bin/sh\n", 0o644, "other end refuses: iperf3 cannot be started: Permission denied"),
        ("no program", 0o755, "other end refuses: iperf3 cannot be started: Exec format error"),
        ("#!/bin/sh\nexit 7\n", 0o755, "refuses: iperf3 did not start and ended with exit code 7"),
        ("", 0, "the responder of hss ended without an answer; its status or journal says why"),
    ],
)
def test_an_iperf3_of_the_other_end_that_cannot_be_started_is_named(
    tmp_path: Path, program: str, mode: int, sentence: str
) -> None:
    (tmp_path / "iperf3").write_text(program)
    (tmp_path / "iperf3").chmod(mode)
    words = [sys.executable, "-c", RESPONDER, str(Path(PROGRAM).parents[3])]
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                subprocess.run(
                    words if program else ["true"],
                    stdin=connection,
                    stdout=connection,
                    env={"PATH": str(tmp_path) if program else "/usr/bin:/bin"},
                    check=False,
                )

        thread = threading.Thread(target=serve)
        thread.start()
        asked = ["127.0.0.1", listening.getsockname()[1]]
        results = measured(SimpleNamespace(port=0), responder=asked, datagrams=None)
        thread.join()
    with pytest.raises(VpnaasError, match=re.escape(sentence)):
        measure.report_of(results, "udp", PEER, "tunnel")


def test_an_iperf3_that_cannot_be_started_is_named(
    far_end: Callable[..., FarEnd], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    iperf3(tmp_path, "")
    (tmp_path / "iperf3").write_text("no program")
    monkeypatch.setenv("PATH", str(tmp_path))
    results = measured(far_end(lambda: False), datagrams=None)
    with pytest.raises(VpnaasError, match="iperf3 of the VDU cannot be started: Exec format error"):
        measure.report_of(results, "udp", PEER, "tunnel")


PING = "4 packets transmitted, 4 received\nrtt min/avg/max/mdev = 1.0/1.0/1.0/0.1 ms\ntime=1.0 ms\n"
TCP = {"start": {}, "end": {"sum_sent": {}, "sum_received": {"bits_per_second": 3e6}}}


def test_a_part_that_failed_does_not_take_the_others() -> None:
    test = measure.LinkTest.parse({"link": "s6a"})
    blocked = {"code": 0, "out": json.dumps({"cause": "udp", "detail": "50"})}
    answers = {"tcp": {"code": 0, "out": json.dumps(TCP)}, "udp": blocked}
    answers["ping"] = {"code": 0, "out": PING}
    figures = test.summary(PEER, Results(answers))
    assert figures["tcp"]["mbps"] == 3
    assert "UDP is blocked or lost" in figures["udp"]["error"]
    assert figures["echoes"]["received"] == 4
    for part in answers:
        answers[part] = {"code": 2, "out": "", "err": "Traceback: connect: Network is unreachable"}
    with pytest.raises(VpnaasError) as failed:
        test.summary(PEER, Results(answers))
    assert "Traceback" not in str(failed.value)
    assert "connect:" not in str(failed.value)
    assert "the VDU has no route to it" in str(failed.value)


@pytest.mark.parametrize(
    "given",
    [
        {"seconds": 0},
        {"rate": 0},
        {"rate": float("nan")},
        {"size": 3},
        {"size": None},
        {"token": "00"},
        {"token": "no hexadecimal"},
    ],
)
def test_a_plan_that_cannot_be_is_not_understood(given: Any) -> None:
    good = {"seconds": 5, "rate": 5, "size": 100, "down": True, "token": "ab" * 8}
    assert responder.planned(good) == good
    for wrong in ({**good, **given}, {}, []):
        with pytest.raises((ValueError, KeyError, TypeError)):
            responder.planned(wrong)


def test_a_load_that_was_stopped_has_a_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, far_end: Callable[..., FarEnd]
) -> None:
    report = {**TCP, "error": "interrupt - the client has terminated"}
    path = iperf3(tmp_path, f"echo '{json.dumps(report)}'; exit 1\n")
    monkeypatch.setenv("PATH", path["PATH"])
    results = measured(far_end(lambda: False), datagrams=None)
    assert measure.report_of(results, "udp", PEER, "tunnel")["end"] == TCP["end"]


def test_streams_are_tried_again_where_there_is_a_plain_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, far_end: Callable[..., FarEnd]
) -> None:
    lost = '{"error": "error - unable to read from stream socket: Success"}'
    text = f"""if mkdir {tmp_path}/first; then echo '{lost}'; exit 1; fi
echo '{json.dumps(TCP)}'
"""
    monkeypatch.setenv("PATH", iperf3(tmp_path, text)["PATH"])
    alone = {"responder": None, "port": 5201, "datagrams": None}
    report = measure.answer(measured(far_end(bool), **alone, tries=1), "udp", "x")
    with pytest.raises(VpnaasError, match="streams of UDP did not start"):
        measure.checked(report, {"peer": "x", "address": "x", "path": "x"})
    (tmp_path / "first").rmdir()
    report = measure.answer(measured(far_end(bool), **alone, tries=3), "udp", "x")
    assert report["end"] == TCP["end"]
