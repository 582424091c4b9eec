"""Rendering of a gateway pair, and what makes no pair."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nft_support import gateway
from support.waiting import wait_until
from vpnaas.base.errors import InputError
from vpnaas.base.links import BUSY_PORT
from vpnaas.features.pair import standby
from vpnaas.features.pair.params import PRIMARY, SECONDARY
from vpnaas.features.pair.standby import SPAN, keepalived_conf
from vpnaas.vdu.programs import gateway_watch, source

pytestmark = pytest.mark.slow

CHILD = (
    "{{name=s1c uniqueid={id} reqid={id} state={state} mode=TUNNEL protocol=ESP encap=yes "
    "spi-in=23d4bc3b spi-out=c8dbc4fc bytes-in=9 packets-in={into} use-in=1 bytes-out=9 "
    "packets-out={out} use-out=0 rekey-time=3382 life-time=3958 install-time=2 "
    "local-ts=[10.200.0.0/16] remote-ts=[{ts}]}}"
)


def listed(ike: int, *children: str) -> str:
    inside = " ".join(f"s1c-{number} {child}" for number, child in enumerate(children))
    head = f"list-sa event {{s1c_cell {{uniqueid={ike} version=2 state=ESTABLISHED remote-id=a"
    return f"{head} child-sas {{{inside}}}}}}}\nlist-sas reply {{}}\n"


def child(ts: str, into: int, out: int, id: int = 1, state: str = "INSTALLED") -> str:
    return CHILD.format(id=id, state=state, into=into, out=out, ts=ts)


ONE, TWO, THREE = "10.41.0.1/32", "10.41.0.2/32 10.42.0.2/32", "10.41.0.3/32"


def test_peers_with_most_packets_since_the_last_look_come_first() -> None:
    before = listed(1, child(ONE, 100, 100)) + listed(2, child(TWO, 50, 0))
    before += listed(3, child(THREE, 7, 7))
    # Both CHILD_SAs of a rekeying count; one that was rekeyed before counts from zero.
    after = listed(1, child(ONE, 100, 105)) + listed(3, child(THREE, 7, 7))
    after += listed(4, child(TWO, 20, 0), child(TWO, 10, 0, 2, "REKEYED"))
    looks = [gateway_watch.tunnels(text) for text in (before, after)]
    assert [tunnel.packets for tunnel in looks[0]] == [200, 50, 14]
    by_number = {tunnel.ike: tunnel for tunnel in looks[1]}
    packets = {tunnel.peer: tunnel.packets for tunnel in looks[0]}
    busy = gateway_watch.busiest(packets, looks[1])
    assert busy == [by_number["4"].peer, by_number["1"].peer]
    # A peer that called again has two IKE_SAs for a while.
    twice = gateway_watch.tunnels(listed(12, child(ONE, 1, 1)) + listed(9, child(ONE, 3, 4)))
    assert [(tunnel.ike, tunnel.packets) for tunnel in twice] == [("12", 9)]
    # The other gateway knows the same peers by other numbers.
    other = gateway_watch.tunnels(listed(9, child(TWO, 0, 0)))
    assert gateway_watch.unpacked(b"".join(busy))[0] == other[0].peer


@given(st.binary(max_size=2048))
def test_any_datagram_names_peers_or_none(data: bytes) -> None:
    peers = gateway_watch.unpacked(data)
    assert len(peers) <= gateway_watch.MOST
    assert all(len(peer) == gateway_watch.DIGEST for peer in peers)
    assert data.startswith(b"".join(peers))


def test_the_program_and_the_charm_agree_on_files_and_port() -> None:
    assert gateway_watch.FIFO == standby.FIRST_FIFO
    assert gateway_watch.PORT == BUSY_PORT
    assert f"first={standby.FIRST_FIFO}\n" in source("gateway_turn.sh")
    assert standby.FIRST_LOCK == standby.FIRST_FIFO + "-lock"
    text = standby.firewall(gateway())
    assert f'iifname "ens5" ip saddr 10.9.0.2 udp dport {BUSY_PORT} accept' in text
    assert f"udp dport {BUSY_PORT} counter drop" in text


def test_configuration_names_all_that_decides_who_is_active() -> None:
    text = keepalived_conf(gateway(advert=1050))
    for line in (
        "advert_int 1.05",
        "priority 60",
        "10.9.0.254/32 dev ens5",
        f'notify_master "/usr/bin/dash {standby.TURN_PROGRAM} claim s1c s1u"',
        f'notify_master_rx_lower_pri "/usr/bin/dash {standby.TURN_PROGRAM} again s1c s1u"',
        "vrrp_higher_prio_send_advert true",
        f'vrrp_notify_fifo_script "/usr/bin/dash {standby.TURN_PROGRAM} record"',
        f'file "{standby.HEALTH_FILE}"',
    ):
        assert line in text
    assert "priority 50" in keepalived_conf(gateway(role=SECONDARY))


def test_keepalived_runs_nothing_that_a_symbolic_link_leads_to() -> None:
    """Keepalived 2.3 says "Wrong file type found in script path", and runs it not at all."""
    run = re.findall(r'(?:notify_\w+|fifo_script) "(\S+) ', keepalived_conf(gateway()))
    assert len(run) == 3
    assert {str(Path(program).resolve(strict=True)) for program in run} == set(run)


@pytest.mark.parametrize(
    ("shared", "before"),
    [
        ("192.0.2.9/24", "10.9.0.254/32 dev ens5"),
        ("2001:db8::9/64", "virtual_ipaddress_excluded {"),
    ],
)
def test_a_shared_address_may_be_of_another_ip_version(shared: str, before: str) -> None:
    text = keepalived_conf(
        gateway(shared_address=ipaddress.ip_interface(shared), shared_identity="gw")
    )
    host = ipaddress.ip_address(shared.partition("/")[0])
    assert f"{before}\n        {host}/{host.max_prefixlen} dev ens4\n    }}\n" in text


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"other": ipaddress.ip_address("10.9.0.1")}, "other"),
        ({"own": ipaddress.ip_address("10.8.0.1")}, "own"),
        ({"own": ipaddress.ip_address("10.9.0.254")}, "own"),
    ],
)
def test_what_makes_no_pair_is_refused(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        gateway(**changed)


@given(peers=st.integers(1, 5000), up=st.integers(0, 6000))
def test_health_grows_with_tunnels_and_is_full_with_all(peers: int, up: int) -> None:
    health = gateway_watch.health(up, peers, SPAN)
    assert 0 <= health <= gateway_watch.health(up + 1, peers, SPAN)
    assert gateway_watch.health(peers, peers, SPAN) == SPAN
    assert standby.BASE[PRIMARY] + SPAN < 255


def test_the_watch_tells_a_daemon_from_none_where_there_are_no_tunnels_to_count() -> None:
    assert gateway_watch.health(0, 0, SPAN) == gateway_watch.health(5, 4, SPAN) == SPAN
    assert gateway_watch.health(-1, 0, SPAN) == gateway_watch.health(-1, 4, SPAN) == 0


def test_a_primary_without_tunnels_never_beats_a_standby_with_all() -> None:
    assert standby.BASE[PRIMARY] < standby.BASE[SECONDARY] + gateway_watch.health(10, 10, SPAN)
    # Equal ones keep the primary.
    assert standby.BASE[PRIMARY] > standby.BASE[SECONDARY]


def test_programs_of_a_pair_use_the_files_that_the_charm_looks_at() -> None:
    assert gateway_watch.AWAY == standby.AWAY_FILE
    assert f"record={standby.RECORD_FILE}\n" in source("gateway_turn.sh")


def test_changes_in_quick_succession_are_recorded_in_their_order(tmp_path: Path) -> None:
    """Notify programs of keepalived run side by side, so that a late one may have the last word."""
    record, fifo, program = tmp_path / "here/standby", tmp_path / "turns", tmp_path / "turn"
    program.write_text(source("gateway_turn.sh").replace(standby.RECORD_FILE, str(record)))
    os.mkfifo(fifo)
    with subprocess.Popen(("sh", program, "record", fifo)) as reader:
        with fifo.open("w", encoding="ascii") as result:
            for state in ("BACKUP", *("MASTER", "BACKUP") * 20, "MASTER", "MASTER_RX_LOWER_PRI"):
                result.write(f'INSTANCE "secgw" {state} 210\n')
                result.flush()
        assert reader.wait(120) == 0
    state, since, takeovers = record.read_text(encoding="ascii").split()
    assert (state, takeovers) == ("active", "21")
    assert 0 <= time.time() - int(since) < 60
    # No change is told beside the FIFO.
    assert not re.search("notify_(backup|fault|stop) ", keepalived_conf(gateway()))


def test_many_repeated_claims_at_once_are_one(tmp_path: Path) -> None:
    """keepalived asks for each advertisement of a lower priority; a slow charon piled them up."""
    swanctl, program, log = (tmp_path / name for name in ("swanctl", "turn", "log"))
    swanctl.write_text(f"#!/bin/sh\necho $3 >>{log}\n")
    swanctl.chmod(0o755)
    text = source("gateway_turn.sh").replace("/usr/sbin/swanctl", str(swanctl))
    for path in ("/run/osm-vpnaas-again", "/run/osm-vpnaas-first"):
        assert path in text
        text = text.replace(path, str(tmp_path / path[-5:]))
    program.write_text(text)
    claims = [subprocess.Popen(("sh", program, "again", "s1c", "s1u")) for _ in range(40)]
    assert [claim.wait(120) for claim in claims] == [0] * 40
    claimed = log.read_text(encoding="ascii").split()
    assert claimed.count("s1c") == claimed.count("s1u")
    # One; more where this machine needed longer than the half second to start them all.
    assert 1 <= claimed.count("s1c") <= 4
    # A take-over does not wait for it, nor does a later change.
    for verb in ("claim", "again"):
        assert subprocess.run(("sh", program, verb, "s1c"), check=False).returncode == 0
    assert len(log.read_text(encoding="ascii").split()) == len(claimed) + 2


@pytest.mark.parametrize("address", ["127.0.0.1", "192.0.2.1"])
def test_the_watch_claims_at_once_but_repeats_at_intervals(tmp_path: Path, address: str) -> None:
    """It serves the FIFO of `gateway-turn`, which then asks no swanctl.

    It repeats no claim once the other gateway is active, which has the address then.
    """
    fifo, vici, log = (tmp_path / name for name in ("first", "vici", "log"))
    program = tmp_path / "turn"
    text = source("gateway_turn.sh").replace("/usr/sbin/swanctl", f"touch {log}; true")
    text = text.replace("/run/osm-vpnaas-again", str(tmp_path / "again"))
    program.write_text(text.replace("/run/osm-vpnaas-first", str(fifo)))
    asked: list[float] = []
    requests: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(vici))
        server.listen()

        def charon() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    if request := client.recv(4096):
                        requests.append(request)
                        asked.append(time.monotonic())
                        client.sendall(bytes([0, 0, 0, 1, 1]))

        threading.Thread(target=charon, daemon=True).start()
        watch = gateway_watch.Watch(address, "s1c", "127.0.0.2", str(fifo), str(vici))
        threading.Thread(target=watch.serve, daemon=True).start()
        for number in range(3):
            subprocess.run(("sh", program, "claim", "s1c"), check=True)
            wait_until(lambda count=number + 1: len(asked) == count, "a claim at once")
        last = asked[-1]
        for _ in range(8):
            os.write(watch.fifo, b"again\n")
        if address == "127.0.0.1":
            wait_until(lambda: len(asked) == 4, "a repeated claim")
            assert asked[3] - last >= 0.9
        else:
            time.sleep(3)
            assert len(asked) == 3
        watch.socket.close()
        server.shutdown(socket.SHUT_RDWR)
    body = b"\0\5rekey\3\5child\0\3s1c"
    assert set(requests) == {bytes([0, 0, 0, len(body)]) + body}
    assert not log.exists()


def test_the_watch_takes_its_port_when_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_watch, "output", lambda *_: "")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("", 0))
        monkeypatch.setattr(gateway_watch, "PORT", other.getsockname()[1])
        fifo = tmp_path / "first"
        watch = gateway_watch.Watch("127.0.0.1", "s1c", "127.0.0.2", str(fifo), "none")
        watch.look()
        assert watch.socket.getsockname()[1] != gateway_watch.PORT
    watch.look()
    assert watch.socket.getsockname()[1] == gateway_watch.PORT
    watch.socket.close()


def test_the_unit_of_the_watch_has_all_its_arguments() -> None:
    assert "{}" not in standby.watch_unit(gateway())


# -- a path that loses packets -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        # Half-open IKE_SAs of a flood come between the two counts of one look.
        ([2, 1, 2, 0, 2], [150, 150, 150, 150, 150]),
        # What is lost is lost in the next look, too.
        ([2, 1, 1, 0, 0], [150, 150, 75, 75, 0]),
        # A daemon that is gone counts at once; one that is too busy to answer keeps its share.
        ([2, -1, 1, 2], [150, 0, 75, 150]),
        ([2, None, None, None, None, 2], [150, 150, 150, 0, 0, 150]),
        ([None, 1], [0, 75]),
    ],
)
def test_a_flood_of_requests_does_not_move_the_service(
    looks: list[int | None], expected: list[int]
) -> None:
    share = gateway_watch.Share(2, 150)
    now, seen = 100.0, []
    for up in looks:
        now += 5.5 if up is None else 0.5
        seen.append(share.after(up, now))
    assert seen == expected


def test_a_flood_that_goes_on_does_not_move_it_either(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each count is wrong, a list is not; what a list does not have is lost."""
    program = tmp_path / "swanctl"
    program.write_text(
        "#!/bin/sh\n[ $1 = --stats ] && exec echo IKE_SAs: 40 total, 39 half-open\n"
        f"cat {tmp_path}/sas; echo 'list-sas reply {{}}'\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    form = "list-sa event {{s1c_a {{uniqueid={} version=2 state={} remote-id=a}}}}\n"
    share = gateway_watch.Share(2, 150)
    share.after(2, 0.0)
    for states, expected in (("ESTABLISHED", 150), ("DELETING", 75)):
        text = form.format(1, "ESTABLISHED") + form.format(2, states) + form.format(3, "CONNECTING")
        (tmp_path / "sas").write_text(text)
        assert [share.look() for _ in range(4)][1::2] == [expected] * 2
    (tmp_path / "sas").unlink()
    program.write_text("#!/bin/sh\nexit 111\n")
    assert (gateway_watch.listed(), share.look()) == (-1, 0)


def test_a_daemon_that_is_too_busy_is_told_from_one_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for text, expected in (("sleep 60", None), ("exit 111", -1), ("echo $N", 5)):
        program = tmp_path / "swanctl"
        program.write_text(f"#!/bin/sh\nN='IKE_SAs: 7 total, 2 half-open'\nexec {text}\n")
        if "echo" in text:
            program.write_text("#!/bin/sh\necho IKE_SAs: 7 total, 2 half-open\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.setattr(gateway_watch, "SECONDS", 0.5)
        assert gateway_watch.established() == expected
