"""Tunnels inside tunnels, and paths narrower than the underlay, on the model."""

import base64
import json

import pytest
from support.juju import Charm, Juju, pair
from support.model_world import public_of
from vpnaas.params.intent import manual_peer
from vpnaas.status import link_status
from vpnaas.tunnels import nesting

OUTER = {"hss": "172.16.6.129", "mme": "172.16.6.2"}


def inside(juju: Juju, link: str, subnet: str, gateways: dict[str, str], **options) -> None:
    """Relate HSS and MME by one more link, each reached at an address given."""
    for name, host in (("hss", 1), ("mme", 2)):
        charm = juju.charms[name]
        charm.roles[link] = "provider" if name == "hss" else "requirer"
        given = {"underlay-interface": "ens4", "gateway": gateways[name], **options}
        charm.configure(link, f"{subnet}.{host}/24", **given)
    juju.relate(link, "hss", "mme")
    juju.settle()


def told(charm: Charm, link: str) -> dict:
    return dict(link_status(link, charm.plans[link], charm.juju.world.clock).details)


def test_the_mtu_follows_the_tunnel_outside():
    juju, hss, mme, _ = pair()
    inside(juju, "s11", "172.16.1", OUTER)
    for charm in (hss, mme):
        assert charm.interface("s6a").mtu == 1420
        assert charm.interface("s11").mtu == 1340
        assert told(charm, "s11")["peers"][0]["through"] == "s6a"
        assert "through" not in told(charm, "s6a")["peers"][0]
    # It follows a change of the tunnel outside within the same reconcile.
    mme.configure("s6a", "172.16.6.2/24", mtu=1400, **{"underlay-interface": "ens4"})
    mme.reconcile()
    assert (mme.interface("s6a").mtu, mme.interface("s11").mtu) == (1400, 1320)
    juju.settle()
    assert hss.interface("s11").mtu == 1320


@pytest.mark.parametrize(("technology", "overhead"), [("wireguard", 80), ("ipsec", 85)])
@pytest.mark.parametrize("size", [1450, 1444, 1440, 1425, 1424, 1400])
def test_a_link_follows_a_network_as_tenants_have_on_openstack(
    technology, overhead, size, monkeypatch
):
    """Neutron's VXLAN networks have 1450 bytes, those behind another tunnel less."""
    monkeypatch.setattr("support.model.ModelVdu.nic_mtu", size)
    juju, hss, mme, _ = pair(technology)
    inner = 80
    if size < 1445:  # of WireGuard, IPv4's shorter header counts there
        inner, overhead = 60, overhead - 20 * (technology == "wireguard")
    assert hss.plans["s6a"].mtu == mme.plans["s6a"].mtu == size - overhead
    inside(juju, "s11", "172.16.1", OUTER)
    if size - overhead - inner >= 1280:
        assert hss.plans["s11"].mtu == mme.plans["s11"].mtu == size - overhead - inner
        assert hss.states()["s11"] == "up"
    else:  # ESP in UDP and WireGuard take 125 bytes together
        assert technology == "ipsec"
        (problem,) = hss.plans["s11"].problems
        assert f"only {size - overhead} bytes get to" in problem


def test_a_peer_by_ipv6_needs_its_longer_header(monkeypatch):
    monkeypatch.setattr("support.model.ModelVdu.nic_mtu", 1400)
    juju, hss, mme, _ = pair()
    assert hss.plans["s6a"].mtu == 1340
    hss.vdu.underlay["ens4"] += " 2001:db8::1/64"
    hss.reconcile()
    juju.settle()
    assert hss.plans["s6a"].mtu == mme.plans["s6a"].mtu == 1320
    inside(juju, "s11", "172.16.1", OUTER)
    (problem,) = hss.plans["s11"].problems
    assert "only 1320 bytes get to" in problem


def test_a_route_somebody_added_counts_too():
    juju, hss, _, _ = pair()
    hss.vdu.routes.append({"dst": "203.0.113.0/24", "dev": "wg-s6a", "gateway": "172.16.6.2"})
    inside(juju, "s11", "172.16.1", {"hss": "198.51.100.1", "mme": "203.0.113.2"})
    assert told(hss, "s11")["peers"][0]["through"] == "s6a"
    assert hss.interface("s11").mtu == 1340


def test_ipsec_inside_wireguard_starts_from_the_inner_address():
    juju, hss, mme, _ = pair()
    inside(juju, "s11", "172.16.1", OUTER, technology="ipsec")
    conf = mme.vdu.files["/etc/swanctl/conf.d/osm-vpnaas-s11.conf"]
    assert "local_addrs = 172.16.6.2\n" in conf
    assert "remote_addrs = 172.16.6.129\n" in conf
    assert mme.plans["s11"].mtu < 1420 - 50


def test_nested_deeper_is_refused_and_nothing_else_suffers():
    juju, hss, mme, _ = pair()
    inside(juju, "s11", "172.16.1", OUTER)
    inside(juju, "sxab", "172.30.55", {"hss": "172.16.1.1", "mme": "172.16.1.2"})
    for charm, far in ((hss, "172.16.1.2"), (mme, "172.16.1.1")):
        (problem,) = charm.plans["sxab"].problems
        assert problem.endswith(
            f"{far} is reached through the tunnel of s11, which itself runs through that of s6a; "
            "allowed: tunnels nested once"
        )
        assert charm.interface("sxab").peers == {}
        assert charm.states()["s11"] == charm.states()["s6a"] == "up"


def test_two_tunnels_inside_each_other_are_refused():
    juju, hss, mme, _ = pair()
    inside(juju, "s11", "172.16.1", OUTER)
    for name in ("hss", "mme"):
        host = OUTER[name]
        given = {"gateway": {"hss": "172.16.1.1", "mme": "172.16.1.2"}[name]}
        juju.charms[name].configure("s6a", f"{host}/24", **{"underlay-interface": "ens4", **given})
        juju.changed.add(name)
    juju.settle()
    # Only what is new is refused; what ran goes on, with its MTU.
    assert hss.plans["s11"].problems == ()
    (problem,) = hss.plans["s6a"].problems
    assert problem.endswith("allowed: tunnels nested once")
    assert hss.interface("s6a").peers[public_of(mme.interface("s6a").private)].endpoint == (
        "192.168.8.2:51821"
    )
    assert (hss.interface("s6a").mtu, hss.interface("s11").mtu) == (1420, 1340)


def test_an_endpoint_inside_its_own_tunnel_is_refused():
    juju, hss, mme, _ = pair()
    mme.configure(
        "s6a",
        "172.16.6.2/24",
        **{
            "underlay-interface": "ens4",
            "gateway": "10.99.0.2",
            "allowed-prefixes": "10.99.0.0/24",
        },
    )
    hss.configure(
        "s6a",
        "172.16.6.129/24",
        **{"underlay-interface": "ens4", "accept-prefixes": "10.99.0.0/16"},
    )
    juju.changed |= {"hss", "mme"}
    juju.settle()
    (problem,) = hss.plans["s6a"].problems
    assert "10.99.0.2 lies inside its tunnel; allowed: an address of the underlay" in problem
    # What ran goes on.
    (peer,) = hss.interface("s6a").peers.values()
    assert (peer.endpoint, peer.allowed) == ("192.168.8.2:51821", {"172.16.6.2/32"})


def test_ipsec_inside_ipsec_is_refused():
    juju, hss, _, _ = pair("ipsec")
    inside(juju, "s11", "172.16.1", OUTER, technology="ipsec")
    (problem,) = hss.plans["s11"].problems
    assert problem.endswith("and both are IPsec; allowed: WireGuard for one of them")


ROUTED = {"dst": "203.0.113.0/24", "dev": "ens4", "gateway": "192.168.8.1"}
FAR = {"hss": "198.51.100.1", "mme": "203.0.113.2"}
REFUSED = "From 192.168.8.1 icmp_seq=1 Frag needed and DF set (mtu = 1420)\n"


def behind_a_router() -> tuple[Juju, Charm]:
    juju, hss, _, _ = pair()
    hss.vdu.routes.append(ROUTED)
    inside(juju, "s11", "172.16.1", FAR)
    return juju, hss


def test_what_a_router_says_of_the_path_sets_the_mtu_and_is_kept():
    _, hss = behind_a_router()
    assert hss.interface("s11").mtu == 1420
    hss.vdu.pings["203.0.113.2"] = (1, REFUSED)
    hss.reconcile()
    assert hss.interface("s11").mtu == 1340
    assert json.loads(hss.vdu.files[nesting.PATHS_FILE]) == {"203.0.113.2": 1420}
    del hss.vdu.pings["203.0.113.2"]
    assert hss.reconcile() == 2  # Silence is no news, and changes nothing.
    assert hss.interface("s11").mtu == 1340
    hss.vdu.pings["203.0.113.2"] = (0, "1 packets transmitted, 1 received\n")
    hss.reconcile()
    assert hss.interface("s11").mtu == 1420
    assert nesting.PATHS_FILE not in hss.vdu.files
    asked = [c for c in hss.vdu.commands if "-M" in c]
    assert {(c[c.index("-s") + 1], c[-1]) for c in asked} == {("1472", "203.0.113.2")}


def test_every_path_is_asked_in_its_turn():
    juju, hss = behind_a_router()
    for number in range(3, 3 + nesting.MAX_PROBES):
        peer = {
            "link": "s11",
            "name": f"p{number}",
            "public-key": base64.b64encode(bytes([number]) * 32).decode(),
            "allowed-prefixes": f"172.16.1.{number}",
            "endpoint": f"203.0.113.{number}:51821",
        }
        hss.intent = hss.intent.with_peer(manual_peer(peer))
    asked = set()
    for _ in range(4):
        hss.vdu.commands.clear()
        hss.reconcile()
        now = [c[-1] for c in hss.vdu.commands if "-M" in c]
        assert len(now) <= nesting.MAX_PROBES
        asked |= set(now)
        juju.world.clock += 60
    assert len(asked) == nesting.MAX_PROBES + 1


def test_neighbours_are_not_asked():
    _, hss, _, _ = pair()
    hss.vdu.routes.append({"dst": "192.168.8.0/24", "dev": "ens4"})
    hss.vdu.commands.clear()
    assert hss.reconcile() == 1
    assert not [c for c in hss.vdu.commands if "-M" in c]


def test_what_the_kernel_knows_already_is_understood():
    _, hss = behind_a_router()
    hss.vdu.pings["203.0.113.2"] = (1, "ping: local error: message too long, mtu=1380\n")
    hss.reconcile()
    assert hss.interface("s11").mtu == 1300


@pytest.mark.parametrize("kept", ["[]", "{", '{"x": 1}', '{"203.0.113.2": "much"}', "null"])
def test_what_was_kept_and_is_not_ours_does_no_harm(kept):
    _, hss = behind_a_router()
    hss.vdu.files[nesting.PATHS_FILE] = kept
    hss.reconcile()
    assert (hss.error, hss.interface("s11").mtu) == ("", 1420)


def test_a_path_that_leaves_too_little_is_said_and_the_tunnel_stays():
    _, hss = behind_a_router()
    hss.vdu.pings["203.0.113.2"] = (1, "Frag needed and DF set (mtu = 1300)\n")
    hss.reconcile()
    (problem,) = hss.plans["s11"].problems
    assert problem.endswith("only 1300 bytes get to 203.0.113.2; allowed: at least 1360")
    assert len(hss.interface("s11").peers) == 1
