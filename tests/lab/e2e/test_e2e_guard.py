"""Packets of a secured link leave by its tunnel or not at all, also while there is no tunnel.

Cast: hss, mme, spgwc, spgwu, enb (`epc_ns`).

Seen:
- with the tunnel down nothing leaves in clear, and the counter of the guard rises;
- the next look of the charm restores flushed rules.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from e2e_support import Service, Vnf
from e2e_wire import captured
from support.filters import NEIGHBOURS
from vpnaas.features import repair

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.schedule(worker="epc")]


@dataclass(frozen=True)
class Way:
    """What a link carries from one VNF to another.

    Attributes:
        link: Its name at both ends.
        near, far: member-vnf-index of the sender and of the receiver.
        source, target: Their inner addresses.
        gateway: The receiver's address on the underlay.
        transport, port: Of the protocol that the link is for.
    """

    link: str
    near: str
    far: str
    source: str
    target: str
    gateway: str
    transport: str
    port: int


WAYS = (
    Way(
        "s6a", near="mme", far="hss", source="172.16.6.2", target="172.16.6.129",
        gateway="192.168.8.129", transport="tcp", port=3868,
    ),
    Way(
        "s11", near="mme", far="spgwc", source="172.16.1.102", target="172.16.1.104",
        gateway="192.168.10.4", transport="udp", port=2123,
    ),
    Way(
        "sxab", near="spgwu", far="spgwc", source="172.30.55.102", target="172.30.55.101",
        gateway="192.168.16.101", transport="udp", port=8805,
    ),
    Way(
        "s1c", near="enb", far="mme", source="192.168.247.10", target="192.168.247.102",
        gateway="192.168.7.102", transport="sctp", port=36412,
    ),
    Way(
        "s1u", near="enb", far="spgwu", source="192.168.248.10", target="192.168.248.159",
        gateway="192.168.9.159", transport="udp", port=2152,
    ),
)  # fmt: skip
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
def without_tunnel(near: Vnf, way: Way) -> Iterator[None]:
    """Take a tunnel down at one end, and send what it carried over the underlay instead."""
    unit = f"wg-quick@wg-{way.link}.service"
    near.out("systemctl", "stop", unit)
    near.out("ip", "address", "add", f"{way.source}/32", "dev", "lo")
    near.out("ip", "route", "add", f"{way.target}/32", "via", way.gateway, "src", way.source)
    try:
        yield
    finally:
        near.out("ip", "route", "del", f"{way.target}/32")
        near.out("ip", "address", "del", f"{way.source}/32", "dev", "lo")
        near.out("systemctl", "start", unit)


def send(vnf: Vnf, way: Way) -> None:
    vnf.out("python3", "-c", SEND, way.source, way.target, way.transport, str(way.port))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.link)
def test_nothing_leaves_in_clear_while_the_tunnel_is_down(
    epc: Service, tmp_path: Path, way: Way
) -> None:
    left, right = epc[way.near], epc[way.far]
    with without_tunnel(left, way):
        before = dropped(left, "output")
        with captured(epc, way.link, tmp_path / "guarded.pcap") as capture:
            send(left, way)
            # The same packet to a port that is nobody's: the way is open, and we would see it.
            send(left, replace(way, transport="udp", port=UNGUARDED))
        assert capture.count(f"udp dst port {UNGUARDED}") == 3
        assert dropped(left, "output") >= before + 3
        other = f"not {NEIGHBOURS} and not port {UNGUARDED} and host {way.target}"
        assert capture.count(other) == 0, capture.sample(other)

        # Where one end has no guard, the other takes nothing in.
        left.out("systemctl", "stop", repair.UNIT)
        left.out("nft", "delete", "table", "inet", "osm_vpnaas_guard")
        before = dropped(right, "input")
        try:
            with captured(epc, way.link, tmp_path / "open.pcap") as capture:
                send(left, way)
            assert capture.count(f"host {way.target} and not icmp") >= 3
            assert dropped(right, "input") >= before + 3
        finally:
            left.out("systemctl", "start", repair.UNIT)
    assert left.pings(way.target)


def test_a_flushed_guard_is_mended_by_the_next_look(epc: Service) -> None:
    epc["hss"].out("systemctl", "stop", repair.UNIT)
    epc["hss"].out("nft", "flush", "ruleset")
    assert epc["hss"].status("s6a")["state"] == "up"
    assert dropped(epc["hss"], "input") == 0
