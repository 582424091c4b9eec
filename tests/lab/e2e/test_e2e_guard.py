"""Packets of a secured link leave by its tunnel or not at all, also while there is no tunnel.

Cast: hss, mme, spgwc, spgwu, enb (`epc_ns`).

Seen:
- with the tunnel down nothing leaves in clear, and the counter of the guard rises;
- the next look of the charm restores flushed rules.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from e2e_support import Service, Vnf
from e2e_wire import captured
from support.filters import NEIGHBOURS
from vpnaas.extras import repair

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.schedule(worker="epc")]

#: Link, its ends (who sends first), inner addresses, far underlay address, transport, port.
LINKS = (
    ("s6a", "mme", "hss", "172.16.6.2", "172.16.6.129", "192.168.8.129", "tcp", 3868),
    ("s11", "mme", "spgwc", "172.16.1.102", "172.16.1.104", "192.168.10.4", "udp", 2123),
    ("sxab", "spgwu", "spgwc", "172.30.55.102", "172.30.55.101", "192.168.16.101", "udp", 8805),
    ("s1c", "enb", "mme", "192.168.247.10", "192.168.247.102", "192.168.7.102", "sctp", 36412),
    ("s1u", "enb", "spgwu", "192.168.248.10", "192.168.248.159", "192.168.9.159", "udp", 2152),
)
UNGUARDED = 7777

SEND = """
import socket, struct, sys
source, target, transport, port = sys.argv[1:4] + [int(sys.argv[4])]
for number in (port, port, port):
    if transport == "tcp":
        with socket.socket() as s:
            s.bind((source, 0)); s.setblocking(False)
            s.connect_ex((target, number))
            import time; time.sleep(0.1)
    elif transport == "udp":
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.bind((source, 0))
            try: s.sendto(b"in the clear", (target, number))
            except PermissionError: pass
    else:
        # An SCTP INIT needs no SCTP in the kernel: ports, tag, checksum, chunk.
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, 132) as s:
            s.bind((source, 0))
            try: s.sendto(struct.pack("!HHII", 40000, number, 0, 0) + bytes(20), (target, 0))
            except PermissionError: pass
"""


def dropped(vnf: Vnf, chain: str) -> int:
    shown = json.loads(vnf.out("nft", "-j", "list", "chain", "inet", "osm_vpnaas_guard", chain))
    return sum(
        part["counter"]["packets"]
        for item in shown["nftables"]
        for part in item.get("rule", {}).get("expr", [])
        if "counter" in part
    )


@contextmanager
def without_tunnel(near: Vnf, link: str, source: str, target: str, gateway: str) -> Iterator[None]:
    """Take a tunnel down at one end, and send what it carried over the underlay instead."""
    near.out("systemctl", "stop", f"wg-quick@wg-{link}.service")
    near.out("ip", "address", "add", f"{source}/32", "dev", "lo")
    near.out("ip", "route", "add", f"{target}/32", "via", gateway, "src", source)
    try:
        yield
    finally:
        near.out("ip", "route", "del", f"{target}/32")
        near.out("ip", "address", "del", f"{source}/32", "dev", "lo")
        near.out("systemctl", "start", f"wg-quick@wg-{link}.service")


def send(vnf: Vnf, source: str, target: str, transport: str, port: int) -> None:
    vnf.out("python3", "-c", SEND, source, target, transport, str(port))


@pytest.mark.parametrize(
    ("link", "near", "far", "source", "target", "gateway", "transport", "port"),
    LINKS,
    ids=[link[0] for link in LINKS],
)
def test_nothing_leaves_in_clear_while_the_tunnel_is_down(
    epc: Service,
    tmp_path: Path,
    link: str,
    near: str,
    far: str,
    source: str,
    target: str,
    gateway: str,
    transport: str,
    port: int,
) -> None:
    left, right = epc[near], epc[far]
    with without_tunnel(left, link, source, target, gateway):
        before = dropped(left, "output")
        with captured(epc, link, tmp_path / "guarded.pcap") as capture:
            send(left, source, target, transport, port)
            # The same packet to a port that is nobody's: the way is open, and we would see it.
            send(left, source, target, "udp", UNGUARDED)
        assert capture.count(f"udp dst port {UNGUARDED}") == 3
        assert dropped(left, "output") >= before + 3
        other = f"not {NEIGHBOURS} and not port {UNGUARDED} and host {target}"
        assert capture.count(other) == 0, capture.sample(other)

        # Where one end has no guard, the other takes nothing in.
        left.out("systemctl", "stop", repair.UNIT)
        left.out("nft", "delete", "table", "inet", "osm_vpnaas_guard")
        before = dropped(right, "input")
        try:
            with captured(epc, link, tmp_path / "open.pcap") as capture:
                send(left, source, target, transport, port)
            assert capture.count(f"host {target} and not icmp") >= 3
            assert dropped(right, "input") >= before + 3
        finally:
            left.out("systemctl", "start", repair.UNIT)
    assert epc[near].pings(target)


def test_a_flushed_guard_is_mended_by_the_next_look(epc: Service) -> None:
    epc["hss"].out("systemctl", "stop", repair.UNIT)
    epc["hss"].out("nft", "flush", "ruleset")
    assert epc["hss"].status("s6a")["state"] == "up"
    assert dropped(epc["hss"], "input") == 0
