"""A peer of a gateway pair: which two may lead to the same prefix, and who may not."""

from __future__ import annotations

import pytest
from support.juju import Charm, Juju, Relation
from vpnaas.base.errors import InputError
from vpnaas.params.intent import link_params

CORE = "10.43.1.0/24"
GROUP = {"standby-group": "secgw"}


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
            **(GROUP if cell is None else cell),
        },
    )
    made, relations = [], []
    for number in range(1, gateways + 1):
        name = f"gateway{number}"
        nics = {"ens3": f"10.0.0.{number}/24", "ens4": f"192.168.120.{number}/24"}
        made.append(juju.deploy(name, {"s1c": "provider"}, nics))
        made[-1].configure(
            "s1c",
            "10.41.0.1/24",
            technology=technology,
            **{"underlay-interface": "ens4", "allowed-prefixes": CORE, **GROUP},
        )
        relations.append(juju.relate("s1c", name, "cell"))
    juju.changed |= set(juju.charms)
    juju.settle()
    return juju, peer, made, relations


@pytest.mark.parametrize(("technology", "state"), [("ipsec", "up"), ("none", "clear")])
def test_both_gateways_of_a_pair_lead_to_the_same_prefix(technology: str, state: str) -> None:
    _, cell, gateways, _ = service(technology)
    assert cell.states() == {"s1c": state}
    assert [gateway.states() for gateway in gateways] == [{"s1c": state}] * 2
    prefixes = [[str(prefix) for prefix in peer.prefixes] for peer in cell.plans["s1c"].peers]
    assert prefixes == [["10.41.0.1/32", CORE]] * 2


def test_a_pair_that_is_settled_changes_nothing() -> None:
    _, cell, _, _ = service()
    before = list(cell.vdu.charon.sas)
    assert len(before) == 2
    assert cell.reconcile() == 1
    assert cell.vdu.charon.sas == before


def test_a_pair_that_only_its_members_speak_of_is_none() -> None:
    for declared in ({}, {"standby-group": "another"}):
        _, cell, _, _ = service(cell=declared)
        # Which of them comes first is chance.
        (first,) = [peer.label for peer in cell.plans["s1c"].peers]
        assert first in ("gateway1", "gateway2")
        (problem,) = cell.plans["s1c"].problems
        assert f"is already in use by {first}" in problem


def test_a_pair_has_two_members() -> None:
    _, cell, _, _ = service(gateways=3)
    assert len(cell.plans["s1c"].peers) == 2
    (problem,) = cell.plans["s1c"].problems
    assert "is already in use by" in problem


@pytest.mark.parametrize(
    ("bag", "sentence"),
    [
        ({"standby-group": ""}, "is already in use by gateway1"),
        ({"standby-group": "other"}, "is already in use by gateway1"),
        ({"standby-group": "No Name"}, "standby-group: 'No Name' is not a name"),
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
    with pytest.raises(InputError, match="standby-group"):
        link_params({"link": "s1c", "inner-address": "10.41.0.11/24", **GROUP})
