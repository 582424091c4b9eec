"""Which of the kernel's messages make the keepers of links act, and what they put back."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from ipaddress import ip_interface, ip_network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from vpnaas.params.intent import LinkParams
from vpnaas.peers.peer import Peer
from vpnaas.tunnels.wireguard.interface import Configuration, render
from vpnaas.vdu.nftables import nft_table
from vpnaas.vdu.programs import hold, ipsec, netlink

OTHER = 24
"""RTM_NEWROUTE, which the program causes itself."""


def message(kind: int, address: str = "192.0.2.1", prefixlen: int = 24) -> bytes:
    """Return a message of the kernel about an address (rtnetlink(7))."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    packed = socket.inet_pton(family, address)
    body = struct.pack("=BBBBI", family, prefixlen, 0, 0, 2)
    body += struct.pack("=HH", 4 + len(packed), 1) + packed
    return netlink.HEADER.pack(netlink.HEADER.size + len(body), kind, 0, 0, 0) + body


@pytest.mark.parametrize(("address", "width"), [("172.16.6.2", 32), ("fd00::2", 128)])
def test_the_addresses_of_links_in_clear_do_not_wake_each_other(address: str, width: int) -> None:
    # `ip address replace` causes such a message each time, also if nothing changes.
    assert not counts(hold.matters, message(hold.NEWADDR, address, width))
    assert counts(hold.matters, message(hold.DELADDR, address, width))


@pytest.mark.parametrize(("address", "length"), [("192.168.8.2", 24), ("2001:db8::2", 64)])
def test_an_underlay_that_comes_back_matters(address: str, length: int) -> None:
    back = message(hold.NEWADDR, address, length)
    assert counts(hold.matters, back)
    assert counts(hold.matters, message(OTHER) + back)
    assert not counts(hold.matters, message(OTHER))
    assert not counts(hold.matters, back[:10])


def counts(which: Callable[[int, bytes], bool], data: bytes) -> bool:
    return any(which(*each) for each in netlink.messages(data))


def packet(kind: int, head: bytes, **attributes: bytes) -> bytes:
    """Return a message of the kernel with attributes by number, as in `_1`."""
    body = head
    for name, value in attributes.items():
        body += struct.pack("=HH", 4 + len(value), int(name[1:])) + value.ljust(4, b"\0")
    return netlink.HEADER.pack(netlink.HEADER.size + len(body), kind, 0, 0, 0) + body


def rule(kind: int, family: int, priority: int) -> bytes:
    """Return a message of the kernel about a rule that leads to a table."""
    head = struct.pack("=BBBBBBBBI", family, 0, 0, 0, 220, 0, 0, 1, 0)
    return packet(kind, head, _15=struct.pack("=I", 220), _6=struct.pack("=I", priority))


def state(flags: int, name: bytes = b"ens4") -> bytes:
    """Return a message of the kernel about an interface."""
    return packet(netlink.NEWLINK, struct.pack("=BBHiII", 0, 0, 1, 7, flags, 0), _3=name)


@pytest.mark.parametrize(
    ("data", "tells"),
    [
        (state(0x1043), False),
        (state(0x1002), True),
        (packet(hold.DELLINK, bytes(16)), True),
        (message(hold.DELADDR), True),
        (message(netlink.DELROUTE), True),
        (rule(netlink.DELRULE, socket.AF_INET, 32765), True),
        (message(hold.NEWADDR), False),
        (message(OTHER), False),
        *((packet(kind, bytes(4)), kind in (0xA02, 0xA05, 0xA08)) for kind in range(0xA00, 0xA0C)),
    ],
)
def test_what_may_carry_a_tunnel_counts_where_it_goes_away(data: bytes, tells: bool) -> None:
    assert counts(hold.takes, data) == tells


def test_what_wg_quick_makes_of_a_file_is_put_back() -> None:
    text = render(configuration("10.0.0.1/24", "10.0.0.2/32", "10.9.0.0/16", "fd00::/64"))
    assert hold.wireguard("wg-s6a", text) == [
        "link set wg-s6a mtu 1420 up",
        "address replace 10.0.0.1/24 dev wg-s6a",
        "route replace 10.0.0.0/24 dev wg-s6a proto kernel scope link src 10.0.0.1",
        "route replace 10.9.0.0/16 dev wg-s6a",
        "route replace fd00::/64 dev wg-s6a",
    ]


def configuration(own: str, *prefixes: str) -> Configuration:
    params = LinkParams("s6a", "wireguard", ip_interface(own), 51820)
    theirs = tuple(map(ip_network, prefixes))
    peer = Peer("rel-1", "mme", theirs, "wireguard", public_key="A" * 43 + "=")
    return Configuration(params, 1420, (peer,))


@pytest.mark.parametrize("damage", ["rules", "chain", "nothing"])
def test_a_table_is_loaded_again_where_rules_are_missing(
    monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    script = nft_table("osm_vpnaas_guard", "    # drop\n    chain input {\n        drop\n    }\n")
    there = {"rules": "chain input {\n}", "chain": "", "nothing": script}[damage]
    shown = SimpleNamespace(stdout=there.encode(), returncode=0)
    done: list[list[str]] = []
    monkeypatch.setattr(hold.subprocess, "run", lambda *_, **__: shown)
    monkeypatch.setattr(hold.subprocess, "call", done.append)
    hold.table("guard.nft", script)
    assert done == ([] if damage == "nothing" else [["nft", "-f", "guard.nft"]])


def test_a_unit_that_does_not_start_ends_no_reconcile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    systemctl = tmp_path / "systemctl"
    systemctl.write_text('#!/bin/sh\n[ "$1" = is-active ] || exec sleep 5\n')
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "wg-none.conf").write_text(render(configuration("10.0.0.1/24", "10.0.0.2/32")))
    monkeypatch.setattr(hold, "FILES", (f"{tmp_path}/wg-*.conf",))
    monkeypatch.setattr(hold, "TABLES", ())
    monkeypatch.setattr(hold, "LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(hold, "ANSWER", 0.5)
    started = time.monotonic()
    hold.hold_tunnels()
    assert time.monotonic() < started + 3  # and so others get the lock
    told = capsys.readouterr()
    assert "wg-none is gone" in told.out and "timed out" in told.err


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ipsec.Watch]:
    """A watch of the keeper of IPsec whose programs are only noted, in `done`."""
    monkeypatch.setattr(ipsec, "SETTINGS", str(tmp_path / "settings"))
    (tmp_path / "settings").write_text("kernel-netlink {\n  fwmark = !0x6f73\n }\n")
    monkeypatch.setattr(ipsec, "listen", lambda *_: socket.socket(socket.AF_UNIX))
    made = ipsec.Watch()
    made.done, held = [], list(made.sockets)
    monkeypatch.setattr(ipsec.subprocess, "call", lambda words, **_: made.done.append(words))
    yield made
    for each in held:
        each.close()


def told(watch: ipsec.Watch, data: bytes) -> None:
    for each in netlink.messages(data):
        watch.route(*each)


def test_the_keeper_of_ipsec_notices_that_a_rule_of_charon_goes(watch: ipsec.Watch) -> None:
    told(watch, rule(32, socket.AF_INET, 220))  # RTM_NEWRULE
    told(watch, rule(netlink.DELRULE, socket.AF_INET, 221))
    gone = rule(netlink.DELRULE, socket.AF_INET, 220)
    told(watch, gone[:20])
    assert not watch.any()
    told(watch, gone + rule(netlink.DELRULE, socket.AF_INET6, 220))
    assert watch.families == {2, 10}


def test_it_puts_the_rule_back_as_charon_had_it(watch: ipsec.Watch) -> None:
    told(watch, rule(netlink.DELRULE, socket.AF_INET, 220))
    watch.mend()
    words = "ip -4 rule add not fwmark 0x6f73 pref 220 table 220"
    assert [" ".join(each) for each in watch.done[1:]] == [words]


@pytest.mark.parametrize("kind", ipsec.GONE)
def test_only_a_flush_is_looked_at_without_a_pause(
    watch: ipsec.Watch, monkeypatch: pytest.MonkeyPatch, kind: int
) -> None:
    looks: list[str] = []
    monkeypatch.setattr(ipsec, "lost", lambda: looks.append("look") or [])
    watch.pause = ipsec.time.monotonic() + 100
    watch.state(kind, b"")
    watch.mend()
    assert len(looks) == (kind in ipsec.FLUSHED)


FLUSH = """
import subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from vpnaas.vdu.programs import ipsec
watch = ipsec.Watch()
selector = ["src", "10.7.0.1/32", "dst", "10.7.0.2/32", "dir", "out"]
subprocess.check_call(["ip", "xfrm", "policy", "add", *selector])
print(ipsec.kernel("policy", r"^src (\\S+) dst (\\S+)"))
watch.mend = lambda: None
watch.until(time.monotonic() + 0.1)
print(watch.suspicious)
subprocess.check_call(["ip", "xfrm", "policy", "flush"])
watch.until(time.monotonic() + 0.1)
print(watch.suspicious)
"""


def test_the_kernel_tells_of_a_flush() -> None:
    words = ("unshare", "--user", "--map-root-user", "--net", sys.executable, "-c", FLUSH)
    folder = str(Path(ipsec.__file__).parents[3])
    done = subprocess.run([*words, folder], capture_output=True, text=True, check=False)
    if "not supported" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip("no policies of IPsec in this kernel, or no user namespaces")
    assert done.stdout.splitlines() == ["{'10.7.0.1/32 10.7.0.2/32'}", "False", "True"], done.stderr


class Flood:
    """A socket on which others' messages never end, and one of them is ours."""

    def __init__(self, ours: bytes) -> None:
        self.ours = ours

    def recv(self, size: int) -> bytes:
        data, self.ours = self.ours, message(OTHER)
        return data


def test_a_flood_of_messages_holds_up_nothing(
    watch: ipsec.Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ipsec.select, "select", lambda sockets, *_: (sockets, [], []))
    flood: Any = Flood(rule(netlink.DELRULE, socket.AF_INET, 220))
    watch.routing, watch.sockets = flood, [flood]
    watch.until(ipsec.time.monotonic() + 0.1)
    assert len(watch.done) == 2

    def act() -> None:
        raise StopIteration

    flood = Flood(message(netlink.DELROUTE))
    with pytest.raises(StopIteration):
        hold.watch([flood], hold.takes, act, hold.LONGEST)


def test_it_puts_back_the_routes_of_tunnels_that_are_up(
    watch: ipsec.Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    watch.routing = ours
    listed = "local-ts=[10.7.0.1/32] remote-ts=[10.7.0.2/32]"
    monkeypatch.setattr(ipsec, "swanctl", lambda *_: listed)
    head = struct.pack("=BBBBBBBBI", socket.AF_INET, 32, 0, 0, 220, 4, 0, 1, 0)
    for host in (b"\x0a\x07\0\2", b"\x0a\x07\0\3"):
        told(watch, packet(netlink.DELROUTE, head, _15=struct.pack("=I", 220), _1=host))
    watch.mend()
    theirs.setblocking(False)
    ((kind, body),) = netlink.messages(theirs.recv(1 << 16))
    assert (kind, body[-4:]) == (ipsec.NEWROUTE, b"\x0a\x07\0\2")
    with pytest.raises(BlockingIOError):
        theirs.recv(1)


SAS = (
    "list-sa event {{s6a_rel-1_0000000a_0000000b {{uniqueid=4 version=2 state=ESTABLISHED "
    "child-sas {{s6a-1 {{name=s6a uniqueid=1 state=INSTALLED mode=TUNNEL protocol=ESP "
    "spi-in=0a7cecb6 spi-out=c8dbc4fc bytes-in=9 "
    "local-ts=[10.7.0.1/32] remote-ts=[10.7.0.2/32]}}}}}}}}\n"
)
STATES = "src 192.0.2.1 dst 192.0.2.2\n\tproto esp spi 0x{} reqid 1 mode tunnel\n"
POLICY = "src 10.7.0.1/32 dst 10.7.0.2/32 \n\tdir out priority 371327\n"


@pytest.mark.parametrize(
    ("spis", "policies", "gone"),
    [
        (("0a7cecb6", "c8dbc4fc"), POLICY, []),
        (("0a7cecb6",), POLICY, ["4"]),
        ((), POLICY, ["4"]),
        (("0a7cecb6", "c8dbc4fc"), "", ["4"]),
    ],
)
def test_flushed_states_and_policies_are_missed(
    monkeypatch: pytest.MonkeyPatch, spis: tuple[str, ...], policies: str, gone: list[str]
) -> None:
    shown = {"state": "".join(map(STATES.format, spis)), "policy": policies}
    monkeypatch.setattr(ipsec.glob, "glob", lambda _: ["/etc/osm-vpnaas/s6a/ipsec.up"])
    monkeypatch.setattr(ipsec.os.path, "exists", lambda _: False)
    monkeypatch.setattr(ipsec, "swanctl", lambda *_: SAS.format())
    run = lambda words, **_: SimpleNamespace(stdout=shown[words[2]].encode(), returncode=code)  # noqa: E731
    code = 0
    monkeypatch.setattr(ipsec.subprocess, "run", run)
    assert ipsec.lost() == gone
    code = 2  # the kernel does not say
    assert ipsec.lost() == []
