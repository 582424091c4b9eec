"""The service of the security gateway with WireGuard: the same packages, another technology.

Cast: gateway, core, cell1, cell2 (`secgw_ns`).

Seen:
- cells and core meet, and the backhaul has WireGuard only;
- a rotation at the gateway keeps every cell;
- without its tunnel nothing leaves gateway or cell in clear;
- a cell that is scaled out joins and leaves.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e_core import MME, SGW, http_server, tried, with_core
from e2e_support import Lab, Service, Vdu, scraped
from e2e_wire import captured, wireguard_only
from support.filters import NEIGHBOURS
from vpnaas.features import repair

from operate.join import End, join, part

pytestmark = [pytest.mark.lab, pytest.mark.long]

NAME = "secgw-wg"
UNTRUSTED = "192.168.120.1"
#: The links' UDP ports.
S1C, S1U = 51823, 51825
WIREGUARD = f"({wireguard_only(S1C)} or {wireguard_only(S1U)})"
#: What a ping carries (its option -p), to be found in a capture or not.
MARKER = b"osm-vpnaas-secgw"
MARKED = ("-p", MARKER.hex(), "-s", "64")
GTPU = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    for _ in range(5):
        s.sendto(sys.argv[2].encode(), (sys.argv[1], 2152))
"""
"""Sends datagrams to the port of GTP-U (TS 29.281)."""
CELLS = {"cell1": 11, "cell2": 12}
"""The last byte of a cell's addresses."""


@pytest.fixture(scope="module")
def secgw(lab: Lab) -> Iterator[Service]:
    with with_core(lab, NAME, "secgw_ns", "secgw_wireguard") as service:
        yield service


def all_reach_the_core(secgw: Service) -> None:
    """Let every cell and the core reach each other by either link, through the gateway."""
    core = secgw["core"]
    for cell, host in CELLS.items():
        for address, inner in ((MME, f"10.41.0.{host}"), (SGW, f"10.42.0.{host}")):
            assert secgw[cell].pings(address, *MARKED), (cell, address)
            assert core.pings(inner, "-I", address, *MARKED), (cell, inner)


def test_cells_and_core_meet_and_only_wireguard_is_on_the_backhaul(
    secgw: Service, tmp_path: Path
) -> None:
    with (
        captured(secgw, "backhaul", tmp_path / "backhaul.pcap") as backhaul,
        captured(secgw, "trusted", tmp_path / "trusted.pcap") as trusted,
    ):
        all_reach_the_core(secgw)
    for port in (S1C, S1U):
        assert backhaul.count(wireguard_only(port)) >= 8
    other = f"not {NEIGHBOURS} and not {WIREGUARD}"
    assert backhaul.count(other) == 0, backhaul.sample(other)
    assert not backhaul.holds(MARKER)
    # It can fail: behind the gateway the same packets are in clear.
    assert trusted.holds(MARKER)
    for link in ("s1c", "s1u"):
        answer = secgw["gateway"].status(link)
        assert (answer["state"], answer["technology"]) == ("up", "wireguard")
        assert len(answer["peers"]) == 2
    assert secgw["gateway"].run("ip", "link", "show", "xf-s1c").returncode != 0


def test_the_core_reaches_each_cell_by_the_tunnel_meant_for_it(secgw: Service) -> None:
    # The MME's addresses are not among what a cell accepts of S1-U.
    assert not secgw["core"].pings("10.42.0.11", "-I", MME, tries=5)


def test_the_gateway_answers_strangers_on_no_port(secgw: Service) -> None:
    gateway, cell = secgw["gateway"], secgw["cell1"]
    with http_server(gateway):
        assert tried(cell, UNTRUSTED, 8080) == {"8080": "silence"}
        # It can fail: the same without the firewall.
        gateway.action("configure-gateway", firewall=False)
        assert tried(cell, UNTRUSTED, 8080) == {"8080": "open"}
        gateway.action("configure-gateway")
        assert tried(cell, UNTRUSTED, 8080) == {"8080": "silence"}


def test_rotation_at_the_gateway_keeps_every_cell(secgw: Service) -> None:
    gateway = secgw["gateway"]
    before = {link: gateway.public_key(f"wg-{link}") for link in ("s1c", "s1u")}
    gateway.action("rotate-keys", link="all")
    secgw.note_secrets()
    for link, key in before.items():
        assert gateway.public_key(f"wg-{link}") != key
        for cell in CELLS:
            assert secgw[cell].peers(f"wg-{link}") == {gateway.public_key(f"wg-{link}")}
    all_reach_the_core(secgw)


def test_prometheus_finds_every_cell_by_link(secgw: Service) -> None:
    result = scraped(secgw["core"], secgw["gateway"])
    up = {key: value for key, value in result.items() if key[0] == "vpnaas_peer_up"}
    cells = {secgw[cell].application for cell in CELLS}
    assert up == {
        ("vpnaas_peer_up", link, cell, "wireguard"): 1 for link in ("s1c", "s1u") for cell in cells
    }


def test_without_its_tunnel_nothing_leaves_the_gateway_or_a_cell_in_clear(
    secgw: Service, tmp_path: Path
) -> None:
    gateway, cell, core = secgw["gateway"], secgw["cell1"], secgw["core"]
    ends = {"gateway": gateway, "cell1": cell}
    for vnf in ends.values():
        vnf.out("systemctl", "stop", repair.UNIT)  # it would put all back at once
        vnf.out("ip", "link", "set", "wg-s1u", "down")
    # Worse: somebody routes the inner addresses in clear.
    gateway.out("ip", "route", "replace", "10.42.0.11", "via", "192.168.120.11")
    cell.out("ip", "route", "replace", SGW, "via", UNTRUSTED)
    try:
        with captured(secgw, "backhaul", tmp_path / "down.pcap") as capture:
            assert not core.pings("10.42.0.11", "-I", SGW, *MARKED, tries=10)
            cell.run("python3", "-c", GTPU, SGW, MARKER.decode())
        assert not capture.holds(MARKER)
        clear = f"(net 10.42.0.0/16 or net 10.43.0.0/16) and not {NEIGHBOURS}"
        assert capture.count(clear) == 0, capture.sample(clear)
        # The other link is none the worse.
        assert cell.pings(MME)
    finally:
        gateway.run("ip", "route", "del", "10.42.0.11", "via", "192.168.120.11")
        cell.run("ip", "route", "del", SGW, "via", UNTRUSTED)
        for vnf in ends.values():
            vnf.out("ip", "link", "set", "wg-s1u", "up")
            vnf.out("systemctl", "start", repair.UNIT)
    # Looked at by the charms, as every five minutes, both ends have all their routes again.
    with secgw.controller() as controlled:
        controlled.update_status()
    all_reach_the_core(secgw)


#: Of each link: inner address of the added cell, what lies behind the gateway, an address there.
ADDED = {"s1c": ("10.41.0.21", "10.43.1.0/24", MME), "s1u": ("10.42.0.21", "10.43.2.0/24", SGW)}


def test_a_cell_that_is_scaled_out_joins_and_leaves(secgw: Service) -> None:
    """The operator joins the added cell, and the gateway forgets it when it leaves."""
    lab, gateway, cell, core = secgw.lab, secgw["gateway"], secgw["cell1"], secgw["core"]
    keys = {link: gateway.peers(f"wg-{link}") for link in ADDED}
    assert {len(known) for known in keys.values()} == {2}
    assert cell.pings(MME)
    scale = ("vnf-scale", NAME, "cell1", "--scaling-group", "cells", "--wait")
    lab.done(*scale)
    first, second = lab.engine.vnf(NAME, "cell1")["vdur"]
    assert (second["count-index"], second["status"]) == (1, "ACTIVE")
    # A fixed address counts up, and the first instance and its peer were left alone.
    addresses = [vdur["interfaces"][1]["ip-address"] for vdur in (first, second)]
    assert addresses == ["192.168.120.11", "192.168.120.12"]
    assert cell.pings(MME)
    assert {link: gateway.peers(f"wg-{link}") for link in ADDED} == keys
    added = Vdu(secgw, "cell1", second["vim-id"])
    osm = lab.client()
    ends = {
        link: (
            End.parse(f"{NAME}/cell1/cell/1:{link}"),
            End.parse(f"{NAME}/gateway:{link}@{UNTRUSTED}", behind),
        )
        for link, (_, behind, _) in ADDED.items()
    }
    for link, (inner, _, _) in ADDED.items():
        given = {"link": link, "inner-address": f"{inner}/24", "underlay-interface": "ens4"}
        osm.action(NAME, "cell1", "configure", given, instance=("cell", 1))
        join(osm, *ends[link])
    for link, (inner, _, behind) in ADDED.items():
        secgw.wait(lambda to=behind: added.pings(to), f"the added cell reaches the core by {link}")
        assert core.pings(inner, "-I", behind), link
        assert len(gateway.peers(f"wg-{link}")) == 3
        assert cell.pings(behind)
    for link in ADDED:
        part(osm, *ends[link])
        # At once, before the instance goes.
        assert gateway.peers(f"wg-{link}") == keys[link]
    assert not added.pings(MME, tries=5)
    lab.done(*scale, "--scale-in")
    assert [v["count-index"] for v in lab.engine.vnf(NAME, "cell1")["vdur"]] == [0]
    for other in ("cell1", "cell2"):
        assert secgw[other].pings(MME) and secgw[other].pings(SGW)
    assert {link: gateway.peers(f"wg-{link}") for link in ADDED} == keys
