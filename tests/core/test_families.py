"""IPv4 and IPv6 on one link: routes in clear, and what has no route."""

from __future__ import annotations

import ipaddress

import pytest
from support.juju import pair
from vpnaas.features.gateway.gateway_tuning import sysctls
from vpnaas.params.intent import link_params
from vpnaas.peers.peer import Peer
from vpnaas.tunnels import clear

OUTER = ipaddress.ip_address("fd00:131::1")


def lines(inner: str, down: bool = False) -> list[str]:
    """Return the `ip -batch` file of a link in clear over IPv6 with prefixes of both families."""
    given = {"link": "lan", "inner-address": inner, "technology": "none"}
    prefixes = tuple(ipaddress.ip_network(text) for text in ("10.82.0.0/16", "fd00:82::/48"))
    peer = Peer("rel-1", "hub/0", prefixes, technology="none", endpoint=(OUTER, 51820))
    return clear.render(link_params(given), "ens4", [peer], down).splitlines()


def test_in_clear_a_route_has_a_next_hop_and_a_source_of_a_family_that_works() -> None:
    assert lines("fd00:81::10/64") == [
        "address replace fd00:81::10/128 dev ens4 nodad",
        "route replace 10.82.0.0/16 via inet6 fd00:131::1 dev ens4",
        "route replace fd00:82::/48 via fd00:131::1 dev ens4 src fd00:81::10",
    ]
    assert lines("10.81.0.10/24") == [
        "address replace 10.81.0.10/32 dev ens4 label ens4:lan",
        "route replace 10.82.0.0/16 via inet6 fd00:131::1 dev ens4 src 10.81.0.10",
        "route replace fd00:82::/48 via fd00:131::1 dev ens4",
    ]
    assert lines("fd00:81::10/64", down=True)[0] == "address del fd00:81::10/128 dev ens4"


@pytest.mark.parametrize("technology", ["none", "wireguard"])
def test_an_ipv6_prefix_behind_an_ipv4_address_needs_a_tunnel(technology: str) -> None:
    juju, hss, mme, _ = pair(technology)
    options = {"technology": technology, "underlay-interface": "ens4"}
    hss.configure("s6a", "172.16.6.129/24", **options, **{"allowed-prefixes": "fd00:82::/48"})
    mme.configure("s6a", "172.16.6.2/24", **options, **{"accept-prefixes": "fd00:82::/48"})
    juju.changed |= {"hss", "mme"}
    juju.settle()
    problems = " ".join(mme.plans["s6a"].problems)
    refused = "192.168.8.129 does not lead to fd00:82::/48 in clear"
    assert (refused in problems) == (technology == "none")
    assert bool(problems) == (technology == "none")


def test_a_gateway_forwards_both_families() -> None:
    found = sysctls(32)
    assert (found["net.ipv4.ip_forward"], found["net.ipv6.conf.all.forwarding"]) == (1, 1)
