"""An inner subnet must not draw the VDU's own networks into the tunnel."""

import pytest
from support.juju import pair
from support.model_world import PlainInterface
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


@pytest.mark.parametrize("length", ["24", "32"])
def test_the_address_of_the_underlay_itself_is_refused_and_the_tunnel_stays(length):
    _, hss, _, _ = pair()
    before, address = hss.interface("s6a"), hss.vdu.underlay["ens4"].partition("/")[0]
    hss.configure("s6a", f"{address}/{length}", **{"underlay-interface": "ens4"})
    hss.reconcile()
    said = f"configure: inner-address: {address} is the address of ens4 itself; allowed: an address"
    assert hss.plans["s6a"].problems[0].startswith(said)
    assert hss.interface("s6a") == before


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


@pytest.mark.parametrize("technology", ["wireguard", "ipsec"])
def test_a_subnet_of_a_tunnel_of_somebody_else_is_refused(technology):
    _, hss, _, _ = pair(technology)
    hss.vdu.plain["wg-home"] = PlainInterface(addresses={"10.9.0.1/24"})
    hss.configure("s6a", "10.9.0.7/24", technology=technology, **{"underlay-interface": "ens4"})
    hss.reconcile()
    said = "configure: inner-address: 10.9.0.7/24 overlaps 10.9.0.0/24 of wg-home; "
    assert hss.plans["s6a"].problems[0].startswith(said)


BEHIND = "10.43.0.0/24"


def with_route(technology, **route):
    """Return both ends, the MME with a prefix to which the HSS has a route of somebody else."""
    juju, hss, mme, _ = pair(technology)
    hss.vdu.routes.append({"dst": BEHIND, **route})
    options = {"technology": technology, "underlay-interface": "ens4"}
    hss.configure("s6a", "172.16.6.129/24", **options, **{"accept-prefixes": "10.43.0.0/16"})
    mme.configure("s6a", "172.16.6.2/24", **options, **{"allowed-prefixes": BEHIND})
    juju.changed |= {"hss", "mme"}
    juju.settle()
    return juju, hss


def routes_of_ours(hss):
    return {route for each in (*hss.vdu.interfaces.values(), *hss.vdu.plain.values())
            for route in each.routes}  # fmt: skip


@pytest.mark.parametrize("technology", ["wireguard", "ipsec"])
@pytest.mark.parametrize(
    ("route", "way"),
    [
        ({"dev": "ens3", "gateway": "10.0.0.254"}, "ens3"),
        ({"dev": "wg-home"}, "wg-home"),
        ({"type": "blackhole"}, "blackhole"),
        ({"nexthops": [{"dev": "ens3"}, {"dev": "ens4"}]}, "several interfaces"),
    ],
)
def test_a_route_of_somebody_else_is_not_replaced(technology, route, way):
    juju, hss = with_route(technology, **route)
    before = list(hss.vdu.routes)
    assert hss.plans["s6a"].problems == (
        f"mme: the VDU has a route of somebody else to {BEHIND} by {way}; allowed: prefixes"
        f" without one; `ip route del {BEHIND}` takes it away",
    )
    assert hss.states() == {"s6a": "blocked"}
    assert (hss.vdu.routes, routes_of_ours(hss)) == (before, set())
    # What ran goes on.
    assert hss.plans["s6a"].peers
    hss.vdu.routes.clear()
    hss.reconcile()
    juju.settle()
    assert (hss.states(), routes_of_ours(hss)) == ({"s6a": "up"}, {BEHIND})


def test_a_link_in_clear_replaces_no_route_of_somebody_else_either():
    juju, hss = with_route("none", dev="ens4", gateway="192.168.8.254")
    said = f"mme: the VDU has a route of somebody else to {BEHIND} by ens4; "
    assert hss.plans["s6a"].problems[0].startswith(said)
    up = "/etc/osm-vpnaas/s6a/clear.up"
    assert BEHIND not in hss.vdu.files[up]
    hss.vdu.routes.clear()
    hss.reconcile()
    assert hss.plans["s6a"].problems == ()
    assert f"route replace {BEHIND} via 192.168.8.2 dev ens4" in hss.vdu.files[up]
    # Now it is ours, also if a step after its file failed.
    hss.vdu.routes = [{"dst": BEHIND, "dev": "ens4", "gateway": "192.168.8.2"}]
    del hss.vdu.files["/etc/osm-vpnaas/s6a/applied.json"]
    hss.reconcile()
    assert hss.plans["s6a"].problems == ()
    assert BEHIND in hss.vdu.files[up]


@pytest.mark.parametrize("technology", ["wireguard", "ipsec"])
@pytest.mark.parametrize(
    "route",
    [{"metric": 100}, {"table": "100"}, {"dst": "10.43.0.0/16"}, {"dst": "10.43.0.7/32"}],
)
def test_a_route_that_ours_does_not_replace_is_no_problem(technology, route):
    _, hss = with_route(technology, dev="ens3", **route)
    assert (hss.states(), hss.plans["s6a"].problems) == ({"s6a": "up"}, ())
    assert (len(hss.vdu.routes), routes_of_ours(hss)) == (1, {BEHIND})


@pytest.mark.parametrize("technology", ["wireguard", "ipsec"])
def test_a_running_tunnel_takes_its_route_back_and_a_new_one_does_not(technology):
    juju, hss = with_route(technology, dev="ens3", metric=100)
    theirs = {"dst": BEHIND, "dev": "ens3"}
    for each in (*hss.vdu.interfaces.values(), *hss.vdu.plain.values()):
        each.routes.clear()
    hss.vdu.routes = [theirs]
    hss.reconcile()
    assert (hss.states(), routes_of_ours(hss), hss.vdu.routes) == ({"s6a": "up"}, {BEHIND}, [])
    # The tunnel goes, and their route comes first.
    hss.vdu.interfaces.clear()
    hss.vdu.plain.clear()
    hss.vdu.routes = [theirs]
    hss.reconcile()
    assert hss.states() == {"s6a": "blocked"}
    assert (hss.vdu.routes, routes_of_ours(hss)) == ([theirs], set())


def test_a_link_that_leaves_the_clear_keeps_its_prefix():
    juju, hss = with_route("none", dev="ens3", metric=100)
    # In clear, the route is one of the underlay.
    hss.vdu.routes = [{"dst": BEHIND, "dev": "ens4", "gateway": "192.168.8.2"}]
    options = {"technology": "wireguard", "underlay-interface": "ens4"}
    hss.configure("s6a", "172.16.6.129/24", **options, **{"accept-prefixes": "10.43.0.0/16"})
    mme = juju.charms["mme"]
    mme.configure("s6a", "172.16.6.2/24", **options, **{"allowed-prefixes": BEHIND})
    mme.reconcile()
    hss.reconcile()
    assert "route of somebody else" not in str(hss.plans["s6a"].problems)
    assert BEHIND in hss.vdu.files["/etc/wireguard/wg-s6a.conf"]


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
