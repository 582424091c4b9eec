"""A VDU that forwards names firewalls of others that drop what it forwards."""

import pytest
from support.juju import pair
from vpnaas.features import foreign_firewall
from vpnaas.status import link_status
from vpnaas.vdu.steps import Results

FORWARD = "/proc/sys/net/ipv4/ip_forward"
DOCKER = {"family": "ip", "table": "filter", "name": "FORWARD", "hook": "forward", "policy": "drop"}


def reason(charm) -> str:
    charm.reconcile()
    return link_status("s6a", charm.plans["s6a"], charm.juju.world.clock).reason


@pytest.mark.parametrize("technology", ["wireguard", "ipsec"])
@pytest.mark.parametrize(("hook", "name"), [("forward", "FORWARD"), ("input", "INPUT")])
def test_a_chain_that_drops_is_named_where_the_vdu_forwards(technology, hook, name):
    juju, hss, mme, _ = pair(technology)
    hss.vdu.chains = [dict(DOCKER, hook=hook, name=name)]
    assert reason(hss) == ""
    hss.vdu.files[FORWARD] = "1\n"
    assert f"also forwarded ones: {name} of table ip filter" in reason(hss)
    assert hss.states() == {"s6a": "up"}
    hss.vdu.chains = []
    assert reason(hss) == ""


@pytest.mark.parametrize(
    "chain",
    [
        dict(DOCKER, policy="accept"),
        dict(DOCKER, hook="output"),
        dict(DOCKER, table="osm_vpnaas_gateway"),
        {"family": "ip", "table": "nat", "name": "DOCKER"},
        {},
    ],
)
def test_other_chains_are_of_no_interest(chain):
    juju, hss, mme, _ = pair()
    hss.vdu.files[FORWARD] = "1\n"
    hss.vdu.chains = [chain]
    assert reason(hss) == ""


def test_the_old_iptables_counts_too_and_an_nft_without_json_does_not():
    results = Results(
        {
            "firewall" + FORWARD: {"text": "1\n"},
            "firewall/chains": {"code": 0, "out": "table ip filter"},
        }
    )
    assert foreign_firewall.found(results) == []
    (step,) = (each for each in foreign_firewall.observe() if each.id == "firewall/iptables")
    assert step.body["only_if"] == "/proc/net/ip_tables_names"
    results = Results(
        {
            "firewall" + FORWARD: {"text": "1\n"},
            "firewall/iptables": {"code": 0, "out": "FORWARD"},
        }
    )
    assert foreign_firewall.found(results) == ["FORWARD of iptables"]
