"""Cells scale: an added one is joined by the operator, and gone from the gateway when it leaves."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from e2e_core import MME, SGW, with_core
from e2e_support import Lab, Service, Vdu

from operate.client import Client
from operate.join import End, join, part

pytestmark = [pytest.mark.lab, pytest.mark.long]

UNTRUSTED = "192.168.120.1"
#: Of each link: inner address of the added cell, what lies behind the gateway, an address there.
LINKS = {"s1c": ("10.41.0.21", "10.43.1.0/24", MME), "s1u": ("10.42.0.21", "10.43.2.0/24", SGW)}


@pytest.fixture(scope="module")
def secgw(lab: Lab) -> Iterator[Service]:
    with with_core(lab, "scaled", "secgw_ns", "secgw_wireguard") as service:
        yield service


def test_a_cell_joins_and_leaves(secgw: Service) -> None:
    lab, gateway, cell, core = secgw.lab, secgw["gateway"], secgw["cell1"], secgw["core"]
    keys = {link: gateway.peers(f"wg-{link}") for link in LINKS}
    assert {len(known) for known in keys.values()} == {2}
    assert cell.pings(MME)
    scale = ("vnf-scale", "scaled", "cell1", "--scaling-group", "cells", "--wait")
    lab.done(*scale)
    first, second = lab.engine.vnf("scaled", "cell1")["vdur"]
    assert (second["count-index"], second["status"]) == (1, "ACTIVE")
    # A fixed address counts up, and the first instance and its peer were left alone.
    addresses = [vdur["interfaces"][1]["ip-address"] for vdur in (first, second)]
    assert addresses == ["192.168.120.11", "192.168.120.12"]
    assert cell.pings(MME)
    assert {link: gateway.peers(f"wg-{link}") for link in LINKS} == keys
    added = Vdu(secgw, "cell1", second["vim-id"])
    osm = Client((sys.executable, "-m", "lab.cli", "--home", str(lab.home)), pause=0.1)
    ends = {
        link: (
            End.parse(f"scaled/cell1/cell/1:{link}"),
            End.parse(f"scaled/gateway:{link}@{UNTRUSTED}", behind),
        )
        for link, (_, behind, _) in LINKS.items()
    }
    for link, (inner, _, _) in LINKS.items():
        given = {"link": link, "inner-address": f"{inner}/24", "underlay-interface": "ens4"}
        osm.action("scaled", "cell1", "configure", given, instance=("cell", 1))
        join(osm, *ends[link])
    for link, (inner, _, behind) in LINKS.items():
        secgw.wait(lambda to=behind: added.pings(to), f"the added cell reaches the core by {link}")
        assert core.pings(inner, "-I", behind), link
        assert len(gateway.peers(f"wg-{link}")) == 3
        assert cell.pings(behind)
    for link in LINKS:
        part(osm, *ends[link])
        # At once, before the instance goes.
        assert gateway.peers(f"wg-{link}") == keys[link]
    assert not added.pings(MME, tries=5)
    lab.done(*scale, "--scale-in")
    assert [v["count-index"] for v in lab.engine.vnf("scaled", "cell1")["vdur"]] == [0]
    for other in ("cell1", "cell2"):
        assert secgw[other].pings(MME) and secgw[other].pings(SGW)
    assert {link: gateway.peers(f"wg-{link}") for link in LINKS} == keys
