"""Addresses in parameters of network functions that the VDU, its links or others have already."""

from __future__ import annotations

from types import SimpleNamespace

import attr
import pytest
from oai import addresses
from oai.kinds import FUNCTIONS
from oai.nf_actions import NfActions
from oai.params import Common
from oai.part import of
from support.functions import Vdu, acting, function_state, params, parts, reconcile
from support.juju import pair
from vpnaas.base import fields
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.params.intent import link_params
from vpnaas.peers.peer import Peer
from vpnaas.tunnels.technology import LinkPlan
from vpnaas.vdu import facts
from vpnaas.vdu.facts import Interface, VduFacts

PLANS = {
    "s1u": LinkPlan(
        link_params(
            {
                "link": "s1u",
                "inner-address": "192.168.248.159/24",
                "accept-prefixes": "10.60.0.0/16",
            }
        ),
        peers=(
            Peer(
                name="rel-1",
                label="enb",
                prefixes=(fields.network("test", "10.61.0.0/24"),),
                technology="wireguard",
                endpoint=(fields.address("test", "10.62.0.9"), 51825),
            ),
        ),
        endpoint=(fields.address("test", "192.168.9.5"), 51825),
    )
}


def seen(**interfaces: str) -> facts.VduFacts:
    made = {
        name: facts.Interface(name, 1500, (fields.interface_address("test", address),))
        for name, address in interfaces.items()
    }
    return facts.VduFacts(0, made, "ens3", fields.address("test", "10.63.0.7"))


MACHINE = seen(ens3="10.64.3.9/24", ens6="10.65.0.3/24", docker0="172.17.0.1/16")
POOLS = [("spgwc", "ue-pool"), ("spgwu", "ue-pool"), ("smf", "ue-pool"), ("upf", "ue-pool")]
POOLS += [("n3iwf", "inner-pool")]
SERVERS = [(kind, name) for kind in ("spgwc", "smf") for name in ("dns", "second-dns")]


def check(kind: str, given: Common, vdu: facts.VduFacts = MACHINE) -> None:
    addresses.check(kind, given, vdu, addresses.of_links(PLANS))


@pytest.mark.parametrize(("kind", "name"), POOLS + SERVERS)
@pytest.mark.parametrize(
    ("used", "owner"),
    [
        ("10.64.3.0/24", "ens3 of the VDU"),
        ("172.17.0.0/16", "docker0 of the VDU"),
        ("10.63.0.7/32", "where OSM logs in from"),
        ("192.168.248.0/24", "the inner subnet of link s1u"),
        ("10.60.0.0/16", "an accepted prefix of link s1u"),
        ("10.61.0.0/24", "a prefix of enb of link s1u"),
        ("10.62.0.9/32", "an endpoint of link s1u"),
        ("192.168.9.5/32", "an endpoint of link s1u"),
    ],
)
def test_what_somebody_else_has_is_refused(kind: str, name: str, used: str, owner: str) -> None:
    network = fields.network("test", used)
    wide = network.supernet(new_prefix=min(network.prefixlen, 20))
    one = network[-1] if "/32" in used else network[9]
    value = str(wide if (kind, name) in POOLS else one)
    with pytest.raises(InputError) as refused:
        check(kind, params(kind, **{name: value}))
    assert str(refused.value).startswith(f"{name}: ")
    assert f"{network}, {owner}; allowed: a" in str(refused.value)


@pytest.mark.parametrize(("kind", "name"), POOLS)
def test_what_is_free_is_taken_and_own_devices_are_not_foreign(kind: str, name: str) -> None:
    check(kind, params(kind))
    given = params(kind)
    pool = fields.network("test", getattr(given, name.replace("-", "_")))
    for device in FUNCTIONS[kind].devices:
        check(kind, given, seen(**{device + "0": f"{pool[1]}/{pool.prefixlen}"}))
    with pytest.raises(InputError, match=r"tap7 of the VDU"):
        check(kind, given, seen(tap7=f"{pool[1]}/{pool.prefixlen}"))


def test_an_n3iwf_gives_no_addresses_of_a_slice() -> None:
    upf = attr.evolve(of("upf", params("upf"), True), ue_pool="10.45.0.0/16")
    used = addresses.of_functions("n3iwf", {"n3": (("upf", upf),)})
    with pytest.raises(InputError, match=r"inner-pool: .* the UEs' pool of upf"):
        addresses.check("n3iwf", params("n3iwf"), MACHINE, used)
    with pytest.raises(InputError, match=r"inner address of the N3IWF: 10.65.0.1 is in .* ens6"):
        addresses.check("n3ue", params("n3ue"), MACHINE, (), "10.65.0.1")


def test_an_action_is_refused_and_a_conflict_that_came_later_is_told() -> None:
    vdu = Vdu()
    vdu.interfaces["ens3"] = "10.0.0.5/24"
    assert reconcile(vdu, function_state("spgwu")).state == "ready"
    vdu.interfaces["ens9"] = "10.250.7.1/24"
    outcome = reconcile(vdu, function_state("spgwu"))
    assert (outcome.state, outcome.restarted) == ("failed", False)
    assert "ue-pool: 10.250.0.0/16 overlaps 10.250.7.0/24, ens9 of the VDU" in outcome.reason
    with pytest.raises(InputError, match="ens9 of the VDU"):
        reconcile(vdu, function_state("spgwu", requested=True))
    # Another pool ends it, and its own device is no reason to wait.
    other = params("spgwu", **{"ue-pool": "10.251.0.0/16"})
    agreed = {
        link: tuple((label, attr.evolve(part, ue_pool="")) for label, part in related)
        for link, related in parts("spgwu").items()
    }
    vdu.interfaces["tun0"] = "10.250.0.1/16"
    asked = function_state("spgwu", params=other, parts=agreed, requested=True)
    assert reconcile(vdu, asked).state == "ready"
    assert vdu.restarted == ["spgwu", "spgwu"]


@pytest.mark.parametrize("device", ["ens3", "ens5", "ogstun"])
def test_a_user_plane_takes_no_interface_of_others_for_its_device(
    device: str,
) -> None:
    link = SimpleNamespace(underlay_interface="ens5")
    state = SimpleNamespace(intent=SimpleNamespace(links={"n3": link}), management=None)
    seen = VduFacts(0, {"ens3": Interface("ens3", 1500, ())}, default_interface="ens3")
    charm = {"charm_state": lambda: state, "facts": lambda vdu: seen}
    function = acting(NfActions, "upf", Vdu(), **charm).function
    given = params("upf", **{"tun-device": device})
    if device == "ogstun":
        function.check_device(given)
        return
    with pytest.raises(InputError, match=f"tun-device: {device} is the interface of management or"):
        function.check_device(given)


@pytest.mark.parametrize("kind", ["spgwu", "upf"])
def test_a_device_of_somebody_else_with_the_name_of_that_of_ues_stays(kind: str) -> None:
    """Our rules drop what comes by it, such as SSH by a VPN of the operator."""
    vdu, asked = Vdu(), function_state(kind)
    vdu.interfaces["tun0"] = "10.8.0.1/24"
    with pytest.raises(InputError, match="tun0: somebody else made this interface of the VDU"):
        reconcile(vdu, attr.evolve(asked, requested=True))
    outcome = reconcile(vdu, asked)
    assert (outcome.state, vdu.restarted, vdu.tables) == ("failed", [], set())
    del vdu.interfaces["tun0"]
    assert reconcile(vdu, asked).state == "ready"
    # While ours runs, the device is ours, also with addresses of the pool before.
    vdu.interfaces["tun0"] = "10.8.0.1/24"
    assert reconcile(vdu, attr.evolve(asked, restart=True)).state == "ready"


def test_a_restart_that_did_nothing_says_so() -> None:
    vdu = Vdu()
    vdu.interfaces["ens9"] = "10.250.7.1/24"
    group, restart = acting(NfActions, "spgwu"), function_state("spgwu", restart=True)
    group.function.reconcile_for = lambda request: reconcile(vdu, restart)
    with pytest.raises(VpnaasError, match=r"nothing was restarted: ue-pool: .* ens9 of the VDU"):
        group.restart_nf({})
    del vdu.interfaces["ens9"]
    assert group.restart_nf({})["state"] == "ready"
    assert vdu.restarted == ["spgwu"]


def test_a_device_of_the_network_function_blocks_no_link_and_its_networks_do() -> None:
    juju, hss, mme, _ = pair()
    beside = addresses.beside("spgwu", params("spgwu", **{"ue-pool": "172.16.6.0/24"}))
    hss.vdu.underlay["tun0"] = "172.16.6.1/24"
    hss.reconcile()
    assert hss.plans["s6a"].unusable
    # Nothing waits for the other: the link goes on, and the network function is refused.
    hss.reconcile(beside=beside)
    assert hss.states()["s6a"] == "up"
    del hss.vdu.underlay["tun0"]
    beside = addresses.beside("spgwu", params("spgwu", **{"ue-pool": "10.77.0.0/16"}))
    hss.configure("s6a", "10.77.3.1/24", **{"underlay-interface": "ens4"})
    hss.reconcile(beside=beside)
    assert hss.plans["s6a"].problems == (
        "configure: inner-address: 10.77.3.1/24 overlaps 10.77.0.0/16 of the spgwu (ue-pool);"
        " allowed: a subnet that is on none of the VDU's own networks",
    )


def test_a_peer_takes_nothing_of_the_network_function() -> None:
    juju, hss, mme, _ = pair()
    beside = addresses.beside("spgwu", params("spgwu", **{"ue-pool": "10.77.0.0/16"}))
    options = {"underlay-interface": "ens4"}
    hss.configure("s6a", "172.16.6.129/24", **options, **{"accept-prefixes": "10.0.0.0/8"})
    mme.configure("s6a", "172.16.6.2/24", **options, **{"allowed-prefixes": "10.77.3.0/24"})
    mme.reconcile()
    hss.reconcile(beside=beside)
    assert hss.plans["s6a"].problems == (
        "mme: 10.77.3.0/24 overlaps 10.77.0.0/16 of the spgwu (ue-pool);"
        " allowed: prefixes that no network function of the VDU uses",
    )
    assert hss.states()["s6a"] == "blocked"


def test_manual_peers_do_not_send_the_tunnel_into_itself() -> None:
    juju, hss, _, _ = pair()
    juju.relations.clear()
    given = {"underlay-interface": "ens4", "allowed-prefixes": "192.168.0.0/16"}
    hss.configure("s6a", "172.16.6.129/24", **given)
    hss.reconcile()
    assert hss.plans["s6a"].problems == (
        "configure: allowed-prefixes: 192.168.0.0/16 contains 192.168.8.129, where peers reach"
        " s6a; allowed: prefixes without it",
    )
