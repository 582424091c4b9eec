"""Pools of inner addresses, for manual peers that ask: what is rendered, and what is refused."""

import pytest
from support.juju import pair
from vpnaas.base.errors import InputError
from vpnaas.extras import guard
from vpnaas.params import pools
from vpnaas.params.intent import Intent, link_params, manual_peer

CONF = "/etc/swanctl/conf.d/osm-vpnaas-s6a.conf"
UP = "/etc/osm-vpnaas/s6a/ipsec.up"
KEY = "MCowBQYDK2VwAyEAZXzl4qop5ouc36kXfoFNKd0SsGngWfeugKTbEYz1vng="
POOL = "10.60.0.0/24+2001:db8:60::/64"


def asking(**changes):
    given = {"link": "s6a", "name": "cell", "public-key": KEY, "allowed-prefixes": "pool"}
    return manual_peer({**given, **changes})


def with_cell(pool=POOL):
    juju, hss, mme, _ = pair("ipsec", **{"ipsec-options": f"pool={pool}"})
    hss.intent = hss.intent.with_peer(asking())
    hss.reconcile()
    juju.settle()
    return juju, hss, mme


def test_who_asks_gets_addresses_of_the_pool_and_others_go_on():
    juju, hss, mme = with_cell()
    assert hss.error == ""
    assert hss.plans["s6a"].problems == ()
    assert hss.states()["s6a"] == mme.states()["s6a"] == "up"
    conf = hss.vdu.files[CONF]
    assert "pools = osm-vpnaas-s6a-4, osm-vpnaas-s6a-6\n" in conf
    assert conf.count("remote_ts = dynamic\n") == conf.count("pools = ") == 1
    assert "  osm-vpnaas-s6a-4 {\n    addrs = 10.60.0.0/24\n  }\n" in conf
    assert "  osm-vpnaas-s6a-6 {\n    addrs = 2001:db8:60::/64\n  }\n" in conf
    for prefix in POOL.split("+"):
        assert f"route replace {prefix} dev xf-s6a\n" in hss.vdu.files[UP]
    assert ["swanctl", "--load-pools"] in hss.vdu.commands
    hss.vdu.commands.clear()
    assert hss.reconcile() == 1


def test_what_has_an_address_of_the_pool_comes_out_of_the_tunnel():
    _, hss, _ = with_cell()
    forward = hss.vdu.files[guard.FILE].partition("chain forward")[2]
    assert "ip saddr 10.60.0.0/24 counter drop" in forward
    assert "ip6 saddr 2001:db8:60::/64 counter drop" in forward


def test_without_anybody_who_asks_there_is_none():
    _, hss, _ = with_cell()
    hss.intent = hss.intent.without_peer("s6a", "cell")
    hss.vdu.commands.clear()
    hss.reconcile()
    assert "pools" not in hss.vdu.files[CONF]
    assert ["swanctl", "--load-pools"] in hss.vdu.commands
    assert "10.60.0.0/24" not in hss.vdu.files[UP] + hss.vdu.files[guard.FILE]


def test_it_survives_being_stored():
    on = {
        "link": "s6a",
        "technology": "ipsec",
        "inner-address": "172.16.6.2/24",
        "ipsec-options": f"pool={POOL}",
    }
    intent = Intent().with_link(link_params(on)).with_peer(asking())
    assert Intent.from_json(intent.to_json()) == intent
    assert pools.show(intent.links["s6a"].ipsec.pool) == POOL


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("10.60.0.0/24+10.61.0.0/24", "two prefixes of one IP version"),
        ("10.0.0.0/8", "out of range"),
        ("10.60.0.0/31", "out of range"),
        ("2001:db8::/48", "out of range"),
        ("10.60.0.1/24", "not a prefix"),
        ("all", "not a prefix"),
    ],
)
def test_pools_out_of_form_are_refused(text, reason):
    with pytest.raises(InputError, match=reason):
        pools.parse("pool", text)


@pytest.mark.parametrize(
    ("pool", "whose"),
    [
        ("172.16.6.128/25", "our own network on the link"),  # has .129, our own
        ("192.168.8.0/25", "a network of ens4"),
        ("10.0.0.0/12", "a network of ens3"),
    ],
)
def test_a_pool_hands_out_nothing_that_is_taken(pool, whose):
    _, hss, _, _ = pair("ipsec")
    common = {"technology": "ipsec", "underlay-interface": "ens4"}
    hss.configure("s6a", "172.16.6.129/24", **common, **{"ipsec-options": f"pool={pool}"})
    hss.reconcile()
    assert hss.plans["s6a"].unusable
    assert whose in hss.plans["s6a"].problems[0]


def test_a_related_peer_takes_no_address_of_the_pool():
    _, hss, _, _ = pair("ipsec")
    common = {"technology": "ipsec", "underlay-interface": "ens4"}
    hss.configure("s6a", "172.16.6.129/24", **common, **{"ipsec-options": "pool=172.16.6.0/26"})
    hss.reconcile()
    (problem, *_) = hss.plans["s6a"].problems
    assert problem.startswith("mme: 172.16.6.2/32 overlaps our pool 172.16.6.0/26")


@pytest.mark.parametrize(
    ("changes", "options", "reason"),
    [
        ({}, "none", "has no pool"),
        ({"endpoint": "192.0.2.1:4500"}, f"pool={POOL}", "connects to this VNF"),
        ({"allowed-prefixes": "none"}, f"pool={POOL}", "or pool"),
    ],
)
def test_who_may_ask(changes, options, reason):
    on = {"link": "s6a", "technology": "ipsec", "inner-address": "172.16.6.2/24"}
    intent = Intent().with_link(link_params({**on, "ipsec-options": options}))
    with pytest.raises(InputError, match=reason):
        intent.with_peer(asking(**changes))
