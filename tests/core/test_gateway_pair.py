"""A peer of a gateway pair: which two may lead to the same prefix, and who may not."""

from __future__ import annotations

import ipaddress
import json
import re
from pathlib import Path

import attr
import pytest
import yaml
from support.juju import Charm, Juju, Relation
from vpnaas.base.errors import InputError
from vpnaas.params.gateway import SharedAddress
from vpnaas.params.intent import link_params, manual_peer
from vpnaas.status import link_status
from vpnaas.tunnels.technology import Echo

CORE = "10.43.1.0/24"
PAIR = {"standby-gateways": "192.168.120.1,192.168.120.2"}
ROOT = Path(__file__).parents[2]


def gateway(juju: Juju, number: int, technology: str = "ipsec") -> tuple[Charm, Relation]:
    """Add a gateway with the core behind it, related to the cell."""
    name = f"gateway{number}"
    nics = {"ens3": f"10.0.0.{number}/24", "ens4": f"192.168.120.{number}/24"}
    made = juju.deploy(name, {"s1c": "provider"}, nics)
    made.configure(
        "s1c",
        "10.41.0.1/24",
        technology=technology,
        **{"underlay-interface": "ens4", "allowed-prefixes": CORE},
    )
    return made, juju.relate("s1c", name, "cell")


def service(
    technology: str = "ipsec", *, cell: dict[str, str] | None = None, gateways: int = 2
) -> tuple[Juju, Charm, list[Charm], list[Relation]]:
    """Return gateways with the same core behind them, a cell, and their relations, settled."""
    juju = Juju()
    peer = juju.deploy("cell", {"s1c": "requirer"}, {"ens4": "192.168.120.11/24"})
    peer.configure(
        "s1c",
        "10.41.0.11/24",
        technology=technology,
        **{
            "underlay-interface": "ens4",
            "accept-prefixes": CORE,
            **(PAIR if cell is None else cell),
        },
    )
    made = [gateway(juju, number, technology) for number in range(1, gateways + 1)]
    juju.changed |= set(juju.charms)
    juju.settle()
    return juju, peer, [charm for charm, _ in made], [relation for _, relation in made]


@pytest.mark.parametrize(("technology", "state"), [("ipsec", "up"), ("none", "clear")])
def test_both_gateways_of_a_pair_lead_to_the_same_prefix(technology: str, state: str) -> None:
    _, cell, gateways, _ = service(technology)
    assert cell.states() == {"s1c": state}
    assert [gateway.states() for gateway in gateways] == [{"s1c": state}] * 2
    prefixes = [[str(prefix) for prefix in peer.prefixes] for peer in cell.plans["s1c"].peers]
    assert prefixes == [["10.41.0.1/32", CORE]] * 2


def test_a_cell_has_the_same_address_from_both_gateways_of_a_pair() -> None:
    options = {"ipsec-options": "pool=10.41.0.64/26", "underlay-interface": "ens4"}
    juju, cell, gateways, relations = service()
    for each in gateways:
        each.configure(
            "s1c", "10.41.0.1/24", technology="ipsec", **options, **{"allowed-prefixes": CORE}
        )
    cell.configure(
        "s1c",
        "pool",
        technology="ipsec",
        **{"underlay-interface": "ens4", "accept-prefixes": CORE, **PAIR},
    )
    juju.changed |= set(juju.charms)
    juju.settle()
    first, second = (
        relation.ends[f"gateway{number}"]["vpnaas-assigned-addresses"]
        for number, relation in enumerate(relations, 1)
    )
    assert first == second
    # A gateway whose last hook ran before the cell's sees the tunnel at the next update-status.
    for charm in (cell, *gateways):
        charm.reconcile()
    assert cell.states() == {"s1c": "up"}
    assert [each.states() for each in gateways] == [{"s1c": "up"}] * 2
    # A gateway that gave another one follows what the cell has from the first.
    relations[1].ends["gateway2"]["vpnaas-assigned-addresses"] = "10.41.0.126/24"
    gateways[1].vdu.files.clear()
    juju.changed |= set(juju.charms)
    juju.settle()
    assert relations[1].ends["gateway2"]["vpnaas-assigned-addresses"] == first
    assert cell.states() == {"s1c": "up"}


def test_a_standby_gateway_asks_nobody_as_answers_go_to_the_active_one() -> None:
    juju, _, gateways, _ = service()
    for number, each in enumerate(gateways):
        each.virtual = ipaddress.ip_address("192.168.121.254")
        each.vdu.underlay["ens5"] = "192.168.121.1/24" + " 192.168.121.254/24" * (number == 0)
        for sa in each.vdu.charon.sas:
            sa.age = 60
        each.reconcile()
    assert [bool(each.plans["s1c"].echoes) for each in gateways] == [True, False]
    juju.world.ping = lambda *_: False
    for each in gateways:
        each.reconcile(doubted=frozenset({"s1c"}))
    # The daemon's own checks speak for the tunnels of the standby gateway.
    assert [each.states() for each in gateways] == [{"s1c": "down"}, {"s1c": "up"}]


def test_the_answer_of_one_gateway_does_not_speak_for_the_other() -> None:
    juju, cell, (_, second), _ = service()
    for peer in cell.plans["s1c"].peers:
        assert peer.echo_address() == ipaddress.ip_address("10.41.0.1")
    juju.world.clock += 3600
    plan = cell.plans["s1c"]
    echoes = {peer.name: Echo(3, 3, 1.0) for peer in plan.peers}
    ended = attr.evolve(plan, state=attr.evolve(plan.state, sas=plan.state.sas[:1]), echoes=echoes)
    shown = link_status("s1c", ended, juju.world.clock, at=juju.world.clock)
    assert sorted(peer["state"] == "up" for peer in shown.details["peers"]) == [False, True]


def test_manual_peers_know_the_shared_address_and_identity_only() -> None:
    juju, _, (first, _), _ = service()
    first.shared = SharedAddress(ipaddress.ip_interface("192.168.120.254/24"), "gw.secgw.example")
    key = "MCowBQYDK2VwAyEAZXzl4qop5ouc36kXfoFNKd0SsGngWfeugKTbEYz1vng="
    given = {"link": "s1c", "name": "field", "public-key": key, "allowed-prefixes": "10.44.9.1/32"}
    first.intent = first.intent.with_peer(manual_peer({**given, "endpoint": "192.168.120.50:4500"}))
    # Whoever is active has the address for now; it is no way to reach this gateway.
    first.vdu.underlay["ens4"] += " 192.168.120.254/24"
    juju.changed |= set(juju.charms)
    juju.settle()
    conf = first.vdu.files["/etc/swanctl/conf.d/osm-vpnaas-s1c.conf"]
    related, manual = sorted(
        re.findall(r"local_addrs = (.*)\n(?:.*\n)*?.*  id = @(.*)\n", conf),
        key=lambda found: found[1] == "gw.secgw.example",
    )
    assert manual == ("192.168.120.254", "gw.secgw.example")
    assert related[0] == "192.168.120.1"
    shared = json.loads(first.vdu.files["/etc/osm-vpnaas/s1c/ipsec.shared"])
    assert [name.startswith("s1c_man-field_") for name in shared] == [True]
    assert list(shared.values()) == [True]
    # It is called when the address moves here, and by nobody else.
    assert "man-field" not in first.vdu.files["/etc/osm-vpnaas/s1c/ipsec.keep"]
    assert first.reconcile() == 1


def test_a_pair_that_is_settled_changes_nothing() -> None:
    _, cell, _, _ = service()
    before = list(cell.vdu.charon.sas)
    assert len(before) == 2
    assert cell.reconcile() == 1
    assert cell.vdu.charon.sas == before


@pytest.mark.parametrize("declared", [{}, {"standby-gateways": "192.168.120.1,192.168.120.9"}])
def test_gateways_that_the_operator_did_not_declare_are_no_pair(declared: dict[str, str]) -> None:
    _, cell, _, _ = service(cell=declared)
    # Which of them comes first is chance.
    (first,) = [peer.label for peer in cell.plans["s1c"].peers]
    assert first in ("gateway1", "gateway2")
    (problem,) = cell.plans["s1c"].problems
    assert f"is already in use by {first}" in problem


@pytest.mark.parametrize("endpoint", ["192.168.120.3", "192.168.120.1", "192.168.120.2"])
@pytest.mark.parametrize("running", [1, 2])
def test_a_third_gateway_gets_no_packet_of_the_pair(endpoint: str, running: int) -> None:
    juju, cell, _, _ = service(gateways=running)
    before = list(cell.vdu.charon.sas)
    _, relation = gateway(juju, 3)
    juju.settle()
    # It says what a member would say, and more.
    relation.ends["gateway3"].update(
        {"vpnaas-standby-group": "secgw", "vpnaas-endpoint-address": endpoint}
    )
    cell.reconcile()
    assert [sa.name for sa in cell.vdu.charon.sas] == [sa.name for sa in before]
    labels = [peer.label for peer in cell.plans["s1c"].peers]
    if (endpoint, running) == ("192.168.120.2", 1):
        assert labels == ["gateway1", "gateway3"]  # It calls where gateway3 is not.
    else:
        assert labels == ["gateway1", "gateway2"][:running]


def test_a_gateway_never_takes_two_cells_for_a_pair() -> None:
    """With the shipped parameters, and a second cell that has the address of the first one."""
    given = yaml.safe_load((ROOT / "params" / "secgw_ha.yaml").read_text(encoding="utf-8"))
    params = {
        vnf["member-vnf-index"]: vnf["additionalParams"] for vnf in given["additionalParamsForVnf"]
    }
    params["cell2"]["s1c_inner_address"] = params["cell1"]["s1c_inner_address"]
    juju = Juju()
    for name, address in (
        ("gateway1", "192.168.120.1"),
        ("gateway2", "192.168.120.2"),
        ("cell1", "192.168.120.11"),
        ("cell2", "192.168.120.31"),
    ):
        role = "provider" if name.startswith("gateway") else "requirer"
        charm = juju.deploy(name, {"s1c": role}, {"ens4": f"{address}/24"})
        of = params[name]
        charm.configure(
            "s1c",
            of["s1c_inner_address"],
            technology=of["vpn_technology"],
            **{
                "underlay-interface": "ens4",
                "allowed-prefixes": of["s1c_allowed_prefixes"],
                "accept-prefixes": of["s1c_accept_prefixes"],
                "standby-gateways": of.get("vpn_standby_gateways", "none"),
                "ipsec-options": of["vpn_ipsec_options"],
            },
        )
    for cell in ("cell1", "cell2"):
        for number in (1, 2):
            relation = juju.relate("s1c", f"gateway{number}", cell)
            relation.ends[cell] = {"vpnaas-standby-group": "secgw"}
        juju.settle()
    assert juju.charms["cell1"].states() == {"s1c": "up"}
    for number in (1, 2):
        charm = juju.charms[f"gateway{number}"]
        assert [peer.label for peer in charm.plans["s1c"].peers] == ["cell1"]
        assert "10.41.0.11/32 is already in use by cell1" in charm.plans["s1c"].problems[0]


def test_a_gateway_has_no_pair_to_call() -> None:
    juju, _, (first, _), _ = service()
    first.configure(
        "s1c",
        "10.41.0.1/24",
        technology="ipsec",
        **{"underlay-interface": "ens4", "allowed-prefixes": CORE, **PAIR},
    )
    first.reconcile()
    assert "configure: standby-gateways" in first.plans["s1c"].problems[0]
    assert len(first.vdu.charon.sas) == 1


@pytest.mark.parametrize(
    ("bag", "sentence"),
    [
        ({"endpoint-address": "192.168.120.9"}, "is already in use by gateway1"),
        ({"endpoint-address": "192.168.120.1"}, "is already in use by gateway1"),
        ({"allowed-prefixes": "10.43.1.0/25"}, "10.41.0.1/32 is already in use by gateway1"),
        ({"inner-address": "10.41.0.2"}, f"{CORE} is already in use by gateway1"),
    ],
)
def test_what_unrelated_peers_may_not_a_member_that_is_none_may_not(
    bag: dict[str, str], sentence: str
) -> None:
    _, cell, _, relations = service()
    before = dict(cell.vdu.files)
    relations[1].ends["gateway2"].update({f"vpnaas-{key}": text for key, text in bag.items()})
    cell.reconcile()
    (problem,) = cell.plans["s1c"].problems
    assert sentence in problem
    # The member stays as it was, and the other one as well.
    conf = "/etc/swanctl/conf.d/osm-vpnaas-s1c.conf"
    assert cell.vdu.files[conf] == before[conf]
    assert len(cell.vdu.charon.sas) == 2


def test_the_operator_who_takes_the_pair_back_keeps_one_of_it() -> None:
    juju, cell, _, _ = service()
    cell.configure(
        "s1c",
        "10.41.0.11/24",
        technology="ipsec",
        **{"underlay-interface": "ens4", "accept-prefixes": CORE},
    )
    cell.reconcile()
    juju.settle()
    assert [peer.label for peer in cell.plans["s1c"].peers] == ["gateway1"]
    assert len(cell.vdu.charon.sas) == 1


def test_wireguard_makes_no_pair() -> None:
    with pytest.raises(InputError, match="standby-gateways"):
        link_params({"link": "s1c", "inner-address": "10.41.0.11/24", **PAIR})


@pytest.mark.parametrize("text", ["192.168.120.1", "192.168.120.1,192.168.120.1", "secgw", "a,b,c"])
def test_a_pair_is_two_addresses(text: str) -> None:
    with pytest.raises(InputError, match="standby-gateways"):
        link_params(
            {
                "link": "s1c",
                "technology": "ipsec",
                "inner-address": "10.41.0.11/24",
                "standby-gateways": text,
            }
        )
