"""Cells that reach the core through a security gateway; S1-C and S1-U have a tunnel each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import SECGW, gone
from e2e_support import NEIGHBOURS, Lab, Service, Vnf, captured, ipsec_only

pytestmark = [pytest.mark.lab, pytest.mark.long]

MME, SGW = "10.43.1.10", "10.43.2.10"
SECOND = "10.44.1.5"


@pytest.fixture(scope="module")
def secgw(lab: Lab) -> Iterator[Service]:
    lab.onboard(*SECGW)
    service = lab.create("secgw", "secgw_ns", "secgw")
    for address in (MME, SGW):
        service["core"].out("ip", "address", "add", f"{address}/32", "dev", "lo")
    yield service
    gone(service)


def associations(vnf: Vnf) -> int:
    """Return how many IKE SAs are established."""
    return vnf.out("swanctl", "--list-sas").count(", ESTABLISHED, IKEv2")


def test_two_cells_reach_the_core_and_only_ipsec_is_on_the_backhaul(
    secgw: Service, tmp_path: Path
) -> None:
    with captured(secgw, "backhaul", tmp_path / "backhaul.pcap") as capture:
        for cell in ("cell1", "cell2"):
            for address in (MME, SGW):
                assert secgw[cell].pings(address), (cell, address)
    assert capture.count(ipsec_only()) >= 8
    other = f"not {NEIGHBOURS} and not {ipsec_only()}"
    assert capture.count(other) == 0, capture.sample(other)
    assert associations(secgw["gateway"]) == 4


def test_the_core_reaches_each_cell_by_the_tunnel_meant_for_it(secgw: Service) -> None:
    core = secgw["core"]
    for host in (11, 12):
        assert core.pings(f"10.41.0.{host}", "-I", MME), host
        assert core.pings(f"10.42.0.{host}", "-I", SGW), host
    # The MME's addresses are not among the traffic selectors of S1-U.
    assert not core.pings("10.42.0.11", "-I", MME, tries=5)


def test_a_second_inner_address_uses_the_same_tunnel(secgw: Service) -> None:
    """One tunnel and two inner addresses: the second belongs to a radio of its own."""
    cell = secgw["cell1"]
    cell.out("ip", "address", "add", f"{SECOND}/32", "dev", "lo")
    assert not cell.pings(SGW, "-I", SECOND, tries=5)
    for _ in range(2):  # The second time nothing changes.
        cell.action(
            "configure",
            link="s1u",
            technology="ipsec",
            inner_address="10.42.0.11/24",
            underlay_interface="ens4",
            allowed_prefixes=f"{SECOND}/32",
            accept_prefixes="10.43.2.0/24",
        )
    with secgw.controller() as controlled:
        controlled.settle()
    assert cell.pings(SGW, "-I", SECOND, tries=50)
    assert cell.pings(SGW)
    assert associations(secgw["gateway"]) == 4


def test_without_its_daemon_a_cell_sends_nothing_in_clear(secgw: Service, tmp_path: Path) -> None:
    cell = secgw["cell2"]
    cell.out("systemctl", "stop", "osm-vpnaas-ipsec-keeper", "strongswan")
    try:
        with captured(secgw, "backhaul", tmp_path / "down.pcap") as capture:
            assert not cell.pings(MME, tries=10)
            assert not cell.pings(SGW, tries=10)
        clear = f"ip proto \\icmp and host 192.168.120.12 or net 10.43.0.0/16 and not {NEIGHBOURS}"
        assert capture.count(clear) == 0, capture.sample(clear)
        assert secgw["cell1"].pings(MME)
    finally:
        cell.out("systemctl", "start", "strongswan", "osm-vpnaas-ipsec-keeper")
    secgw.wait(lambda: cell.pings(MME), "the cell's tunnel is back", 60)
