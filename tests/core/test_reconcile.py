"""The pure reconcile, end to end on the model."""

import json

import pytest
from support.juju import pair
from support.model_world import WgPeer, public_of
from vpnaas.base.links import KEEPALIVE
from vpnaas.params.intent import Intent, manual_peer
from vpnaas.status import Memory, link_status

LAPTOP = "Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE="
PEER = {
    "link": "s6a",
    "name": "laptop",
    "public-key": LAPTOP,
    "allowed-prefixes": "172.16.6.50/32",
}


def test_two_related_vnfs_bring_their_link_up_by_themselves():
    juju, hss, mme, _ = pair()
    assert (hss.states(), mme.states()) == ({"s6a": "up"}, {"s6a": "up"})
    peer = hss.interface("s6a").peers[public_of(mme.interface("s6a").private)]
    assert peer.allowed == {"172.16.6.2/32"}
    assert peer.endpoint == "192.168.8.2:51821"


def test_a_settled_reconcile_takes_one_round_trip_and_changes_nothing():
    juju, hss, mme, _ = pair()
    hss.vdu.commands.clear()
    assert hss.reconcile() == 1
    writes = [c for c in hss.vdu.commands if c[:2] == ["wg", "set"] or "restart" in c]
    assert writes == []


def test_no_reconcile_needs_more_than_three_round_trips():
    for options in ({}, {"preshared-key": True}):
        juju, hss, mme, _ = pair(**options)
        assert max(hss.reconcile(), mme.reconcile(rotate=frozenset(["s6a"]))) <= 3


def test_an_unchanged_peer_is_never_bounced():
    juju, hss, mme, _ = pair()
    interface = hss.interface("s6a")
    other = juju.deploy(
        "mme2", {"s6a": "requirer"}, {"ens3": "10.0.0.3/24", "ens4": "192.168.8.3/24"}
    )
    other.configure("s6a", "172.16.6.3/24", **{"underlay-interface": "ens4"})
    juju.relate("s6a", "hss", "mme2")
    juju.settle()
    assert hss.interface("s6a") is interface
    assert interface.bounces == 0
    assert len(interface.peers) == 2
    assert hss.states() == {"s6a": "up"}


def test_a_handshake_from_before_the_clock_was_set_back_says_nothing():
    juju, hss, mme, _ = pair()
    mme.interface("s6a").peers.clear()
    juju.world.clock -= 3600
    hss.reconcile()
    assert hss.states() == {"s6a": "down"}


def test_removal_takes_the_peer_away_at_once():
    juju, hss, mme, relation = pair()
    juju.unrelate(relation)
    hss.reconcile()
    assert hss.interface("s6a").peers == {}
    assert hss.states() == {"s6a": "waiting"}


def test_rotation_switches_after_acknowledgement_and_forgets_the_old_key():
    juju, hss, mme, _ = pair()
    old = public_of(hss.interface("s6a").private)
    hss.reconcile(rotate=frozenset(["s6a"]))
    # Phase one: the peer has not been heard, so the old key stays in use.
    hss.reconcile()
    assert public_of(hss.interface("s6a").private) == old
    juju.settle()
    new = public_of(hss.interface("s6a").private)
    assert new != old
    assert set(mme.interface("s6a").peers) == {new}
    assert mme.interface("s6a").peers[new].allowed == {"172.16.6.129/32"}
    assert hss.plans["s6a"].state.generation == 2
    assert hss.states() == mme.states() == {"s6a": "up"}


def test_a_peer_that_proved_its_next_key_gets_its_prefixes_before_the_databag_says_so():
    juju, hss, mme, _ = pair()
    hss.reconcile(rotate=frozenset(["s6a"]))
    mme.reconcile()
    (staged,) = [k for k, p in mme.interface("s6a").peers.items() if not p.allowed]
    mme.interface("s6a").peers[staged].handshake = juju.world.clock
    mme.reconcile()
    assert mme.interface("s6a").peers[staged].allowed == {"172.16.6.129/32"}


def watches(vnf):
    return len([c for c in vnf.vdu.commands if c[0] == "systemd-run"])


def test_a_next_key_has_a_preshared_key_that_nobody_knows_until_it_is_used():
    juju, hss, mme, _ = pair()
    hss.reconcile(rotate=frozenset(["s6a"]))
    mme.reconcile()
    peers = mme.interface("s6a").peers
    (staged,) = [key for key, peer in peers.items() if not peer.allowed]
    gate = mme.vdu.files["/etc/osm-vpnaas/s6a/gate.psk"].strip()
    assert peers[staged].preshared == gate
    waiting = json.loads(mme.vdu.files["/etc/osm-vpnaas/s6a/handover.json"])
    assert waiting == {staged: ["172.16.6.129/32", "", "0"]}
    mme.reconcile()
    assert (watches(mme), peers[staged].preshared) == (1, gate)
    # The key is used, and the watch does not do what it is for.
    peers[staged].received = 148
    mme.reconcile()
    assert (watches(mme), peers[staged].allowed) == (2, set())
    # The offer tells of the switch before any watch did.
    juju.settle()
    peer = mme.interface("s6a").peers[staged]
    assert (peer.preshared, peer.allowed) == ("", {"172.16.6.129/32"})
    assert mme.states() == {"s6a": "up"}


WATCH = "/run/osm-vpnaas-handover-s6a"
"""It is there as long as the watch runs."""


def test_a_watch_that_ended_starts_again_while_the_peer_has_not_switched():
    juju, hss, mme, relation = pair()
    hss.reconcile(rotate=frozenset(["s6a"]))
    mme.reconcile()
    for started in (2, 3):
        del mme.vdu.files[WATCH]  # After half an hour; another peer of hss still makes it wait.
        mme.reconcile()
        mme.reconcile()
        assert watches(mme) == started
    # No key is left to wait for: the peer uses it, or gave the rotation up.
    del mme.vdu.files[WATCH]
    staged = hss.plans["s6a"].state.next_public_key
    peer = mme.interface("s6a").peers[staged]
    peer.allowed, peer.handshake = {"172.16.6.129/32"}, juju.world.clock
    mme.reconcile()
    assert watches(mme) == 3
    peer.allowed, peer.handshake = set(), 0
    relation.ends["hss"]["vpnaas-next-public-key"] = ""
    mme.reconcile()
    assert watches(mme) == 3


@pytest.mark.parametrize("preshared", [False, True])
def test_a_rotation_survives_a_reboot_of_the_peer(preshared):
    juju, hss, mme, _ = pair(**{"preshared-key": preshared})
    hss.reconcile(rotate=frozenset(["s6a"]))
    mme.reconcile()
    staged = hss.plans["s6a"].state.next_public_key
    gate = mme.vdu.files["/etc/osm-vpnaas/s6a/gate.psk"].strip()
    mme.vdu.reboot()
    assert mme.interface("s6a").peers[staged].preshared == gate
    assert WATCH not in mme.vdu.files
    mme.reconcile()
    assert (watches(mme), WATCH in mme.vdu.files) == (2, True)
    assert mme.interface("s6a").peers[staged].preshared == gate
    juju.settle()
    assert set(mme.interface("s6a").peers) == {staged}
    assert mme.interface("s6a").peers[staged].preshared != gate
    assert hss.states() == mme.states() == {"s6a": "up"}


def test_an_interface_that_starts_with_a_next_key_has_its_gate():
    juju, hss, mme, _ = pair()
    hss.reconcile(rotate=frozenset(["s6a"]))
    del mme.vdu.interfaces["wg-s6a"]
    mme.reconcile()
    staged = hss.plans["s6a"].state.next_public_key
    gate = mme.vdu.files["/etc/osm-vpnaas/s6a/gate.psk"].strip()
    assert mme.interface("s6a").peers[staged].preshared == gate
    mme.reconcile()
    assert watches(mme) == 1


def test_the_watch_gives_a_key_nothing_that_its_peer_has_lost():
    juju, hss, mme, relation = pair()
    hss.configure("s6a", "172.16.6.129/24", **{"allowed-prefixes": "10.1.0.0/24"})
    mme.configure("s6a", "172.16.6.2/24", **{"accept-prefixes": "10.0.0.0/8"})
    hss.reconcile(rotate=frozenset(["s6a"]))
    mme.reconcile()
    path = "/etc/osm-vpnaas/s6a/handover.json"
    (gift,) = json.loads(mme.vdu.files[path]).values()
    assert gift[0] == "10.1.0.0/24,172.16.6.129/32"
    relation.ends["hss"]["vpnaas-allowed-prefixes"] = ""
    mme.vdu.commands.clear()
    mme.reconcile()
    (gift,) = json.loads(mme.vdu.files[path]).values()
    assert gift[0] == "172.16.6.129/32"
    words = [" ".join(command) for command in mme.vdu.commands]
    stop = next(i for i, text in enumerate(words) if text.startswith("systemctl stop osm-vpnaas-"))
    change = next(i for i, text in enumerate(words) if text.startswith("wg set wg-s6a peer"))
    assert stop < change
    assert watches(mme) == 1


def test_another_inner_address_of_the_same_subnet_keeps_address_and_routes():
    juju, hss, mme, _ = pair()
    hss.configure("s6a", "172.16.6.129/24", **{"allowed-prefixes": "10.1.0.0/24"})
    mme.configure("s6a", "172.16.6.2/24", **{"accept-prefixes": "10.0.0.0/8"})
    hss.reconcile()
    mme.reconcile()
    assert mme.interface("s6a").routes == {"10.1.0.0/24"}
    mme.configure("s6a", "172.16.6.7/24", **{"accept-prefixes": "10.0.0.0/8"})
    mme.reconcile()
    interface = mme.interface("s6a")
    assert interface.addresses == {"172.16.6.7/24"}
    assert interface.routes == {"10.1.0.0/24"}
    assert interface.bounces == 0


def test_what_the_watch_let_in_is_not_touched_again():
    juju, hss, mme, _ = pair()
    hss.reconcile(rotate=frozenset(["s6a"]))
    mme.reconcile()
    peers = mme.interface("s6a").peers
    (staged,) = [key for key, peer in peers.items() if not peer.allowed]
    peers[staged] = let_in = WgPeer({"172.16.6.129/32"}, peers[staged].endpoint)
    (old,) = [key for key in peers if key != staged]
    peers[old].allowed.clear()
    mme.reconcile()
    juju.settle()
    assert mme.interface("s6a").peers == {staged: let_in}
    assert mme.interface("s6a").peers[staged] is let_in


@pytest.mark.parametrize("technology", ["wireguard", "ipsec"])
def test_both_ends_may_rotate_at_the_same_time(technology):
    juju, hss, mme, _ = pair(technology)
    hss.reconcile(rotate=frozenset(["s6a"]))
    mme.reconcile(rotate=frozenset(["s6a"]))
    juju.settle()
    assert hss.plans["s6a"].state.generation == mme.plans["s6a"].state.generation == 2
    assert hss.states() == mme.states() == {"s6a": "up"}


def test_the_mtu_follows_the_narrower_end():
    juju, hss, mme, _ = pair()
    mme.configure("s6a", "172.16.6.2/24", mtu=1300, **{"underlay-interface": "ens4"})
    mme.reconcile()
    juju.settle()
    assert hss.interface("s6a").mtu == mme.interface("s6a").mtu == 1300


def test_a_reboot_needs_no_charm():
    juju, hss, mme, _ = pair()
    before = public_of(hss.interface("s6a").private)
    hss.vdu.reboot()
    assert public_of(hss.interface("s6a").private) == before
    assert juju.world.ping(hss.vdu, "172.16.6.2")


def test_a_failed_apply_publishes_nothing_and_the_next_reconcile_mends_it():
    juju, hss, mme, relation = pair()
    before = dict(relation.ends["hss"])
    hss.reconcile(rotate=frozenset(["s6a"]))
    staged = dict(relation.ends["hss"])
    assert staged != before
    mme.reconcile()
    hss.vdu.fail_on = "promote/set"
    hss.reconcile()
    assert relation.ends["hss"] == staged
    assert "failed on purpose" in hss.error
    hss.vdu.fail_on = None
    juju.changed.add("hss")
    juju.settle()
    assert hss.states() == mme.states() == {"s6a": "up"}


SOCKET = "osm-vpnaas-responder-s6a.socket"


@pytest.mark.parametrize("cut", ["put/etc/systemd/system/", "put/etc/osm", "enable", "restart"])
def test_a_measurement_responder_that_was_cut_off_half_way_is_mended(cut):
    juju, hss, _, _ = pair()
    hss.vdu.fail_on = "s6a/responder/" + cut
    hss.configure("s6a", "172.16.6.130/24", **{"underlay-interface": "ens4"})
    hss.reconcile()
    hss.vdu.fail_on = None
    hss.reconcile()
    assert "172.16.6.130%wg-s6a:5199" in hss.vdu.listening[SOCKET]
    assert SOCKET in hss.vdu.enabled
    assert hss.reconcile() == 1


@pytest.mark.parametrize("loss", ["stopped", "disabled", "elsewhere"])
def test_a_measurement_responder_that_does_not_run_as_written_is_started_again(loss):
    juju, hss, _, _ = pair()
    before = dict(hss.vdu.listening)
    assert "172.16.6.129%wg-s6a:5199" in before[SOCKET]
    if loss == "stopped":
        hss.vdu._systemctl(["stop", SOCKET])
    elif loss == "disabled":
        hss.vdu._systemctl(["disable", SOCKET])
    else:  # Started before its file was written anew.
        hss.vdu.listening[SOCKET] = "LISTEN 0 128 172.16.6.12%wg-s6a:5199 0.0.0.0:*\n"
    hss.reconcile()
    assert hss.vdu.listening == before
    assert SOCKET in hss.vdu.enabled


@pytest.mark.parametrize("place", ["0.0.0.0", "*", "172.16.6.129", "127.0.0.1", "[::]"])
def test_who_has_the_port_of_measurements_is_named_and_the_link_is_up(place):
    juju, hss, _, _ = pair()
    before, free = dict(hss.vdu.listening), place in ("127.0.0.1", "[::]")
    hss.vdu.listeners["5199"] = f'LISTEN 0 5 {place}:5199 {place}:* users:(("nginx",pid=7,fd=3))\n'
    if not free:
        hss.vdu._systemctl(["stop", SOCKET])
    for _ in range(2):
        assert hss.reconcile() == 1
        assert hss.states() == {"s6a": "up"}
        what = "TCP port 5199 of the VDU, where peers ask for measurements, is used by nginx"
        assert hss.plans["s6a"].waiting == (() if free else (what + ": end it",))
    del hss.vdu.listeners["5199"]
    hss.reconcile()
    assert hss.vdu.listening == before
    assert hss.plans["s6a"].waiting == ()


def test_preshared_keys_agree_and_nothing_secret_travels():
    juju, hss, mme, relation = pair(**{"preshared-key": True})
    assert hss.states() == mme.states() == {"s6a": "up"}
    (one,), (two,) = hss.interface("s6a").peers.values(), mme.interface("s6a").peers.values()
    assert one.preshared == two.preshared != ""
    for bag in relation.ends.values():
        assert one.preshared not in "".join(bag.values())


def test_a_link_that_needs_a_preshared_key_stays_down_without_one():
    juju, hss, mme, relation = pair(**{"preshared-key": True})
    juju.unrelate(relation)
    juju.settle()
    again = juju.relate("s6a", "hss", "mme")
    hss.reconcile()
    assert hss.interface("s6a").peers == {}
    juju.settle()
    assert again.id and hss.states() == {"s6a": "up"}


def test_garbage_instead_of_a_wrapped_key_does_not_displace_the_key_in_use():
    juju, hss, mme, relation = pair(**{"preshared-key": True})
    (before,) = mme.interface("s6a").peers.values()
    key = before.preshared
    relation.ends["hss"]["vpnaas-wrapped-preshared-key"] = "QUFB" * 128
    mme.reconcile()
    (after,) = mme.interface("s6a").peers.values()
    assert after.preshared == key
    assert juju.world.ping(mme.vdu, "172.16.6.129")


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("version", "2", "version"),
        ("public-key", "; reboot", "WireGuard key"),
        ("public-key", "A" * 43 + "=", "WireGuard key"),
        ("inner-address", "172.16.6.129", "own inner address|already"),
        ("inner-address", "10.9.9.9", "outside our inner subnet"),
        ("inner-address", "$(id)", "not an IP address"),
        ("allowed-prefixes", "0.0.0.0/0", "too wide"),
        ("allowed-prefixes", "10.0.0.0/24", "not accepted"),
        ("endpoint-address", "172.16.6.77", "lies inside the tunnel"),
        ("endpoint-port", "0", "out of range"),
        ("mtu", "68", "out of range"),
        ("technology", "none", "as on this side"),
        ("technology", "rot13", "unknown"),
    ],
)
def test_hostile_offers_are_refused_and_the_running_tunnel_stays(key, value, sentence):
    juju, hss, mme, relation = pair()
    before = hss.vdu.files["/etc/wireguard/wg-s6a.conf"]
    relation.ends["mme"]["vpnaas-" + key] = value
    hss.reconcile()
    assert hss.vdu.files["/etc/wireguard/wg-s6a.conf"] == before
    assert juju.world.ping(hss.vdu, "172.16.6.2")
    (problem,) = hss.plans["s6a"].problems
    assert any(part in problem for part in sentence.split("|"))
    assert hss.states() == {"s6a": "blocked"}


def test_a_newcomer_cannot_take_the_prefix_or_key_of_a_peer_that_runs():
    juju, hss, mme, relation = pair()
    stolen = dict(relation.ends["mme"])
    juju.deploy("mallory", {"s6a": "requirer"}, {"ens4": "192.168.8.66/24"})
    thief = juju.relate("s6a", "hss", "mallory")
    thief.ends["mallory"] = stolen
    hss.reconcile()
    assert [peer.label for peer in hss.plans["s6a"].peers] == ["mme"]
    assert "already in use by mme" in hss.plans["s6a"].problems[0]


def test_switching_technology_leaves_nothing_of_the_other_behind():
    juju, hss, mme, _ = pair()
    for charm, inner in ((hss, "172.16.6.129/24"), (mme, "172.16.6.2/24")):
        charm.configure("s6a", inner, technology="none", **{"underlay-interface": "ens4"})
    juju.changed |= {"hss", "mme"}
    juju.settle()
    assert hss.interface("s6a") is None
    assert hss.states() == mme.states() == {"s6a": "clear"}
    up = hss.vdu.files["/etc/osm-vpnaas/s6a/clear.up"]
    assert "route replace 172.16.6.2/32 via 192.168.8.2 dev ens4 src 172.16.6.129" in up
    for charm, inner in ((hss, "172.16.6.129/24"), (mme, "172.16.6.2/24")):
        charm.configure("s6a", inner, **{"underlay-interface": "ens4"})
    juju.changed |= {"hss", "mme"}
    juju.settle()
    assert hss.states() == mme.states() == {"s6a": "up"}
    assert "/etc/osm-vpnaas/s6a/clear.up" not in hss.vdu.files


def test_keepalive_only_where_this_side_is_behind_nat():
    juju, hss, mme, _ = pair()
    mme.configure("s6a", "172.16.6.2/24", gateway="203.0.113.9", **{"underlay-interface": "ens4"})
    mme.reconcile()
    juju.settle()
    (towards_hss,) = mme.interface("s6a").peers.values()
    (towards_mme,) = hss.interface("s6a").peers.values()
    assert (towards_hss.keepalive, towards_mme.keepalive) == (str(KEEPALIVE), "off")
    assert towards_mme.endpoint == "203.0.113.9:51821"


def test_a_link_in_clear_stays_when_the_address_of_the_pair_comes_and_goes():
    juju, hss, mme, _ = pair()
    virtual = {"technology": "none", "underlay-interface": "ens4", "gateway": "192.168.8.254"}
    hss.configure("s6a", "172.16.6.129/24", **virtual)
    mme.configure("s6a", "172.16.6.2/24", technology="none", **{"underlay-interface": "ens4"})
    juju.changed |= {"hss", "mme"}
    juju.settle()
    assert hss.states() == {"s6a": "clear"}
    for present in (True, False):
        if present:
            hss.vdu.underlay["ens9"] = "192.168.8.254/24"
        else:
            del hss.vdu.underlay["ens9"]
        hss.vdu.commands.clear()
        hss.reconcile()
        assert not [c for c in hss.vdu.commands if c[:2] == ["systemctl", "stop"]]


@pytest.mark.parametrize("host", ["203.0.113.9", "192.168.8.129", "192.168.8.255", "2001:db8::9"])
def test_a_peer_in_clear_that_is_no_next_hop_is_refused_alone(host):
    juju, hss, mme, relation = pair("none")
    before = hss.vdu.files["/etc/osm-vpnaas/s6a/clear.up"]
    other = juju.relate("s6a", "hss", "other")
    offered = {"vpnaas-inner-address": "172.16.6.9", "vpnaas-endpoint-address": host}
    other.ends["other"] = {**relation.ends["mme"], **offered}
    hss.reconcile()
    assert hss.vdu.files["/etc/osm-vpnaas/s6a/clear.up"] == before
    (problem,) = hss.plans["s6a"].problems
    assert problem.startswith(f"other: {host} is no next hop on ens4")
    assert problem.endswith("an address of another host on 192.168.8.0/24")
    other.ends["other"]["vpnaas-endpoint-address"] = "192.168.8.9"
    hss.reconcile()
    assert hss.plans["s6a"].problems == ()


def test_a_peer_of_wireguard_does_not_live_on_in_clear_when_one_end_switches_alone():
    juju, hss, mme, _ = pair()
    hss.configure("s6a", "172.16.6.129/24", technology="none", **{"underlay-interface": "ens4"})
    hss.reconcile()
    juju.settle()
    assert "route" not in hss.vdu.files["/etc/osm-vpnaas/s6a/clear.up"]
    assert "as on this side" in hss.plans["s6a"].problems[0]
    assert hss.states() == mme.states() == {"s6a": "blocked"}


@pytest.mark.parametrize("technology", ["wireguard", "ipsec"])
def test_preshared_keys_of_relations_that_are_gone_do_not_stay(technology):
    juju, hss, mme, relation = pair(technology, **{"preshared-key": True})
    kept = f"rel-{relation.id}"
    other = juju.deploy("other", {"s6a": "requirer"}, {"ens4": "192.168.8.3/24"})
    options = {"underlay-interface": "ens4", "preshared-key": True}
    other.configure("s6a", "172.16.6.3/24", technology=technology, **options)
    gone = juju.relate("s6a", "hss", "other")
    juju.settle()
    for vdu in (hss.vdu, other.vdu):
        assert [path for path in vdu.files if f"rel-{gone.id}" in path]
    juju.unrelate(gone)
    # The relation goes while the VDU takes no change, and again nobody has a record of it.
    hss.vdu.fail_on = "psk-gone"
    hss.reconcile()
    hss.vdu.fail_on = None
    juju.changed |= {"hss", "other"}
    juju.settle()
    for vdu in (hss.vdu, other.vdu):
        assert not [path for path in vdu.files if f"rel-{gone.id}" in path and "psk" in path]
        assert not [path for path in vdu.files if f"preshared-rel-{gone.id}" in path]
        assert not [path for path in vdu.files if f"rel-{gone.id}.secret" in path]
    assert [path for path in hss.vdu.files if path.endswith(f"preshared-{kept}")]
    assert hss.states() == mme.states() == {"s6a": "up"}


def test_a_peer_that_wants_a_preshared_key_holds_up_no_other():
    juju, hss, mme, _ = pair()
    other = juju.deploy("other", {"s6a": "requirer"}, {"ens4": "192.168.8.3/24"})
    wants = {"underlay-interface": "ens4", "preshared-key": True}
    other.configure("s6a", "172.16.6.3/24", **wants)
    juju.relate("s6a", "hss", "other")
    juju.settle()
    assert hss.states() == mme.states() == other.states() == {"s6a": "up"}
    before = hss.plans["s6a"].state.generation
    mme.reconcile(rotate=frozenset(["s6a"]))
    juju.settle()
    assert mme.plans["s6a"].state.generation == before + 1
    assert hss.states() == mme.states() == other.states() == {"s6a": "up"}


@pytest.mark.parametrize("technology", ["wireguard", "ipsec"])
def test_a_peer_without_a_tunnel_here_holds_up_no_rotation(technology):
    juju, hss, mme, _ = pair(technology)
    other = juju.deploy("other", {"s6a": "requirer"}, {"ens4": "192.168.8.3/24"})
    # Its data are refused here, so it has no tunnel and never acknowledges a key.
    other.configure("s6a", "172.16.9.3/24", technology=technology, **{"underlay-interface": "ens4"})
    juju.relate("s6a", "hss", "other")
    juju.settle()
    assert [peer.label for peer in hss.plans["s6a"].peers] == ["mme"]
    hss.reconcile(rotate=frozenset(["s6a"]))
    hss.reconcile()
    assert hss.plans["s6a"].waiting == ("key rotation waits for mme",)
    juju.settle()
    assert hss.plans["s6a"].state.generation == 2
    assert mme.states() == {"s6a": "up"}


def test_a_manual_peer_without_a_recent_handshake_is_idle() -> None:
    juju, hss, _, _ = pair()
    hss.intent = hss.intent.with_peer(manual_peer(PEER))
    hss.reconcile()
    seen = {}
    for age in (60, 400):
        hss.interface("s6a").peers[LAPTOP].handshake = juju.world.clock - age
        hss.reconcile()
        link = link_status("s6a", hss.plans["s6a"], juju.world.clock)
        seen[age] = [p["state"] for p in link.details["peers"] if p["peer"] == "laptop"]
        assert link.state == "up"
    assert seen == {60: ["up"], 400: ["idle"]}


@pytest.mark.parametrize(
    ("keepalive", "states"),
    [(0, ["idle", "idle", "up", "idle"]), (-1, ["pending", "down", "up", "down"])],
)
def test_a_manual_peer_that_we_keep_calling_is_down_without_an_answer(
    keepalive: int, states: list[str]
) -> None:
    juju, hss, _, _ = pair()
    peer = dict(PEER, name="mme2", endpoint="192.168.8.66:51821", keepalive=keepalive)
    hss.intent = hss.intent.with_peer(manual_peer(peer))
    seen, memory = [], Memory()
    for passed, age in ((0, None), (30, None), (30, 1), (300, 301)):
        juju.world.clock += passed
        hss.reconcile()
        if age is not None:
            hss.interface("s6a").peers[LAPTOP].handshake = juju.world.clock - age
            hss.reconcile()
        now = juju.world.clock
        link = link_status("s6a", hss.plans["s6a"], now, before=memory, at=now)
        memory = link.memory
        seen += [p["state"] for p in link.details["peers"] if p["peer"] == "mme2"]
        assert link.state == (seen[-1] if keepalive else "up")
    assert seen == states
    assert ("mme2" in link.reason) == bool(keepalive), link.reason


@pytest.mark.parametrize("inner", ["", "10.20.0.0/24"])
def test_what_carries_a_tunnel_is_put_back(inner):
    """Somebody sets the interface down, changes its MTU, or removes an address or a route."""
    juju, hss, mme, _ = pair()
    mme.configure(
        "s6a", "172.16.6.2/24", **{"underlay-interface": "ens4", "accept-prefixes": inner or "none"}
    )
    hss.configure(
        "s6a",
        "172.16.6.129/24",
        **{"underlay-interface": "ens4", "allowed-prefixes": inner or "none"},
    )
    juju.changed |= {"hss", "mme"}
    juju.settle()
    tunnel = mme.interface("s6a")
    whole = (set(tunnel.addresses), set(tunnel.routes), tunnel.mtu)
    assert tunnel.routes == ({inner} if inner else set())
    damage = {
        "down": tunnel.down,
        "mtu": lambda: setattr(tunnel, "mtu", 1280),
        "address": tunnel.addresses.clear,
        "route": tunnel.routes.clear,
        "subnet": lambda: tunnel.lost.add("172.16.6.0/24"),
    }
    for what, done in damage.items():
        done()
        mme.reconcile()
        assert not mme.error, what
        assert (tunnel.addresses, tunnel.routes, tunnel.mtu) == whole, what
        assert (tunnel.up, tunnel.lost) == (True, set()), what
        mme.vdu.commands.clear()
        mme.reconcile()
        assert not [c for c in mme.vdu.commands if "set" in c or "replace" in c], what
    assert tunnel.bounces == 0


@pytest.mark.parametrize(
    ("endpoint", "keepalive", "sent"),
    [
        ("192.0.2.7:51820", -1, str(KEEPALIVE)),
        ("none", -1, "off"),
        ("192.0.2.7:51820", 0, "off"),
        ("192.0.2.7:51820", 9, "9"),
    ],
)
def test_the_keepalive_to_a_manual_peer_may_be_the_charms_choice(endpoint, keepalive, sent) -> None:
    _, hss, _, _ = pair()
    peer = {
        "link": "s6a",
        "name": "laptop",
        "public-key": LAPTOP,
        "allowed-prefixes": "172.16.6.50/32",
        "endpoint": endpoint,
        "keepalive": keepalive,
    }
    hss.intent = Intent.from_json(hss.intent.with_peer(manual_peer(peer)).to_json())
    hss.reconcile()
    assert hss.interface("s6a").peers[LAPTOP].keepalive == sent
