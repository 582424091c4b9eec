"""An inner subnet must not draw the VDU's own networks into the tunnel."""

import pytest
from support.juju import pair
from vpnaas.status import link_status


@pytest.mark.parametrize(
    ("inner", "network"),
    [
        ("10.0.0.99/25", "10.0.0.0/24 of ens3"),  # management: the charm would lock itself out
        ("192.168.8.7/24", "192.168.8.0/24 of ens4"),
        ("192.168.0.7/16", "192.168.8.0/24 of ens4"),
    ],
)
def test_a_subnet_the_vdu_is_on_is_refused_and_the_tunnel_stays(inner, network):
    juju, hss, mme, _ = pair()
    before = hss.interface("s6a")
    assert hss.states()["s6a"] == "up"
    hss.configure("s6a", inner, **{"underlay-interface": "ens4"})
    hss.reconcile()
    plan = hss.plans["s6a"]
    assert plan.unusable
    assert plan.problems[0].startswith(f"configure: inner-address: {inner} overlaps {network}; ")
    assert hss.interface("s6a") == before
    juju.settle()
    assert mme.interface("s6a").peers


@pytest.mark.parametrize("technology", ["wireguard", "ipsec"])
def test_a_subnet_from_where_osm_logs_in_is_refused_and_the_tunnel_stays(technology):
    juju, hss, _, _ = pair(technology)
    hss.vdu.login = "172.21.248.20"
    hss.configure("s6a", "172.21.0.1/16", technology=technology, **{"underlay-interface": "ens4"})
    hss.reconcile()
    assert hss.plans["s6a"].problems[0] == (
        "configure: inner-address: the subnet of 172.21.0.1/16 contains 172.21.248.20, "
        "from where OSM logs in; allowed: a subnet without it"
    )
    made = {**hss.vdu.interfaces, **hss.vdu.plain}
    assert not [route for each in made.values() for route in each.routes if "172.21" in route]


@pytest.mark.parametrize("technology", ["wireguard", "ipsec", "none"])
def test_a_peer_takes_no_prefix_from_where_osm_logs_in(technology):
    juju, hss, mme, _ = pair(technology)
    options = {"technology": technology, "underlay-interface": "ens4"}
    accepts = {"accept-prefixes": "172.21.0.0/16"}
    hss.configure("s6a", "172.16.6.129/24", **options, **accepts)
    mme.configure("s6a", "172.16.6.2/24", **options, **{"allowed-prefixes": "172.21.248.16/28"})
    hss.vdu.login = "172.21.248.20"
    juju.changed |= {"hss", "mme"}
    juju.settle()
    assert hss.plans["s6a"].problems == (
        "mme: 172.21.248.16/28 contains 172.21.248.20, from where OSM logs in; "
        "allowed: prefixes without it",
    )
    # What ran goes on. With a prefix that a peer has, the login gets through.
    assert hss.states()["s6a"] in ("blocked", "clear")
    hss.vdu.login = "172.21.248.99"
    hss.reconcile()
    hss.vdu.login = "172.21.248.20"
    hss.reconcile()
    assert hss.plans["s6a"].problems == ()


def test_a_tunnel_over_the_management_network_says_so():
    """The NICs come in another order than the package says."""
    juju, hss, mme, _ = pair()
    mme.vdu.underlay = {"ens4": "10.0.0.2/24", "ens3": "192.168.8.2/24"}
    mme.reconcile()
    said = "the tunnel runs over the management network: ens4 has the address of OSM's login"
    assert said in link_status("s6a", mme.plans["s6a"], juju.world.clock).reason
    assert not hss.plans["s6a"].waiting
