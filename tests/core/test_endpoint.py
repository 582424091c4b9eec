"""Which address of the underlay a VNF offers its peers."""

import ipaddress
import json

import pytest
from support.juju import pair
from vpnaas.peers.offer import PREFIX
from vpnaas.status import link_status
from vpnaas.vdu import facts
from vpnaas.vdu.steps import Results


def shown(*addresses):
    """What `ip -j address show` prints of an interface with these addresses, in this order."""
    rows = [
        {"family": "inet", "local": local, "prefixlen": int(length), "scope": "global"}
        for local, _, length in (address.partition("/") for address in addresses)
    ]
    return {"ifname": "ens4", "mtu": 1500, "addr_info": rows}


def test_addresses_keep_the_order_of_the_kernel():
    printed = {
        "facts/now": "1",
        "facts/addresses": json.dumps([shown("192.168.8.2/24", "10.9.0.2/24")]),
        "facts/default": "[]",
    }
    results = Results({name: {"code": 0, "out": out, "err": ""} for name, out in printed.items()})
    interface = facts.parse(results).interfaces["ens4"]
    assert [str(address) for address in interface.addresses] == ["192.168.8.2/24", "10.9.0.2/24"]


def test_addresses_that_somebody_else_has_or_that_pass_are_not_offered_first():
    """The newest comes first in what the kernel lists of IPv6."""
    marks = ("deprecated", "temporary", "dadfailed", "mngtmpaddr")
    rows = [
        {"family": "inet6", "local": f"fd00::{n}", "prefixlen": 64, "scope": "global", mark: True}
        for n, mark in enumerate(marks, start=1)
    ]
    found = facts.addresses({"ifname": "ens4", "addr_info": rows})
    assert [str(each.ip) for each in found] == ["fd00::4", "fd00::1", "fd00::2"]


@pytest.mark.parametrize("technology", ["wireguard", "none"])
def test_an_inner_address_on_the_underlay_is_never_offered(technology, monkeypatch):
    """In clear the underlay has the inner address too, also while WireGuard takes over from it."""
    _, hss, _, relation = pair()
    real = facts.addresses

    def with_inner(item):
        inner = shown("172.16.6.129/32")["addr_info"] if item["ifname"] == "ens4" else []
        return real(dict(item, addr_info=inner + item["addr_info"]))

    monkeypatch.setattr(facts, "addresses", with_inner)
    options = {"technology": technology, "underlay-interface": "ens4"}
    hss.configure("s6a", "172.16.6.129/24", **options)
    hss.reconcile()
    assert hss.error == ""
    assert relation.ends["hss"][PREFIX + "technology"] == technology
    assert relation.ends["hss"][PREFIX + "endpoint-address"] == "192.168.8.129"


@pytest.mark.parametrize(
    ("options", "endpoint", "keepalive"),
    [
        ({}, "203.0.113.7", "25"),
        ({"technology": "ipsec"}, "203.0.113.7", None),
        ({"gateway": "198.51.100.4"}, "198.51.100.4", "25"),
        ({"underlay-interface": "ens4"}, "192.168.8.129", "off"),
        ({"technology": "none"}, "10.0.0.1", None),
    ],
    ids=["over management", "by IPsec", "typed in", "another underlay", "in clear"],
)
def test_a_floating_address_is_found_where_the_underlay_is_management(options, endpoint, keepalive):
    """OSM logs in to the floating address of management, which is on no interface."""
    _, hss, mme, relation = pair()
    hss.management = ipaddress.ip_address("203.0.113.7")
    technology = options.get("technology", "wireguard")
    hss.configure("s6a", "172.16.6.129/24", **options)
    mme.configure("s6a", "172.16.6.2/24", technology=technology)
    hss.juju.changed |= {"hss", "mme"}
    hss.juju.settle()
    assert hss.error == ""
    assert relation.ends["hss"][PREFIX + "endpoint-address"] == endpoint
    if keepalive:
        (peer,) = hss.plans["s6a"].peers
        assert str(peer.keepalive or "off") == keepalive


def test_every_peer_has_its_live_endpoint():
    """`wg show all endpoints` names the interface once, and ends no row of one without peers."""
    juju, hss, _, _ = pair()
    hss.roles["s11"] = "provider"
    hss.configure("s11", "172.16.1.1/24", **{"underlay-interface": "ens4"})
    nics = {"ens3": "10.0.0.3/24", "ens4": "192.168.8.3/24"}
    other = juju.deploy("mme2", {"s6a": "requirer"}, nics)
    other.configure("s6a", "172.16.6.3/24", **{"underlay-interface": "ens4"})
    juju.relate("s6a", "hss", "mme2")
    juju.settle()
    # The interface without peers once before and once after the one with two.
    for order in (("wg-s11", "wg-s6a"), ("wg-s6a", "wg-s11")):
        hss.vdu.interfaces = {name: hss.vdu.interfaces[name] for name in order}
        hss.reconcile()
        live = {name: plan.state.live for name, plan in hss.plans.items()}
        found = {peer.endpoint for peer in live["s6a"].peers.values()}
        assert found == {"192.168.8.2:51821", "192.168.8.3:51821"}
        assert live["s11"].peers == {}


@pytest.mark.parametrize(
    ("silent", "endpoint"), [(100, "198.51.100.1:40000"), (200, "192.168.8.2:51821")]
)
def test_a_roamed_endpoint_that_fell_silent_gives_way_to_the_offered_one(silent, endpoint):
    """A NAT that forgot both ends would part them for ever: wg keeps the last address it heard."""
    _, hss, _, _ = pair()
    (peer,) = hss.vdu.interfaces["wg-s6a"].peers.values()
    peer.endpoint = "198.51.100.1:40000"
    peer.handshake = hss.juju.world.clock - silent
    hss.reconcile()
    assert peer.endpoint == endpoint


@pytest.mark.parametrize(("age", "shown"), [(5, 5), (-3, 0), (-3600, 3600)])
def test_a_handshake_after_the_look_at_the_clock_has_no_negative_age(age, shown):
    """Where the clock was set back since, it is at least as long ago as the jump shows."""
    _, hss, _, _ = pair()
    (peer,) = hss.vdu.interfaces["wg-s6a"].peers.values()
    known = link_status("s6a", hss.plans["s6a"], peer.handshake + age)
    assert known.details["peers"][0]["last-handshake-s"] == shown
