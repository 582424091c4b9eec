"""A link that is declared and related, and that the parameters switch off."""

import copy

import pytest
from support.juju import pair
from support.model import ModelVdu
from support.model_world import PlainInterface, WgInterface, WgPeer
from vpnaas.base.errors import InputError
from vpnaas.params.intent import Intent
from vpnaas.peers import offer
from vpnaas.tunnels.ipsec import transition
from vpnaas.tunnels.ipsec.names import CONF, KEEP, UNIT, UP

TECHNOLOGIES = ["wireguard", "ipsec", "none"]
INTERFACE = {"wireguard": "wg-s6a", "ipsec": "xf-s6a"}


def has_interface(charm, technology):
    held = {**charm.vdu.interfaces, **charm.vdu.plain}
    return INTERFACE.get(technology, "") in held


@pytest.mark.parametrize("technology", TECHNOLOGIES)
def test_it_leaves_nothing_behind_and_blocks_nobody(technology):
    juju, hss, mme, relation = pair(technology)
    assert hss.states()["s6a"] in ("up", "clear")
    mme.configure("s6a", "none", technology=technology)
    mme.reconcile()
    juju.settle()
    assert mme.states() == {"s6a": "off"}
    assert hss.states() == {"s6a": "waiting"}
    (reason,) = [plan.waiting for plan in hss.plans.values()]
    assert reason == ("every related peer has switched this link off",)
    assert not has_interface(mme, technology)
    assert {k: v for k, v in relation.ends["mme"].items() if v} == {
        "vpnaas-version": "1",
        "vpnaas-technology": "off",
    }
    # Another link may have the address next.
    assert not [path for path in mme.vdu.files if "osm-vpnaas-responder-s6a" in path]
    # Neither end has the other any more, and there is nothing left to do.
    assert hss.plans["s6a"].peers == ()
    mme.vdu.commands.clear()
    assert mme.reconcile() == 1


@pytest.mark.parametrize("technology", TECHNOLOGIES)
def test_it_comes_back(technology):
    juju, hss, mme, _ = pair(technology)
    mme.configure("s6a", "none")
    mme.reconcile()
    juju.settle()
    mme.configure("s6a", "172.16.6.2/24", technology=technology, **{"underlay-interface": "ens4"})
    mme.reconcile()
    juju.settle()
    assert mme.states() == hss.states()
    assert mme.states()["s6a"] in ("up", "clear")


ABSENT = [step.id.replace("s6a/", "", 1) for step in transition.absent("s6a")]


@pytest.mark.parametrize("to", ["none", "wireguard"])
@pytest.mark.parametrize("step", ABSENT)
def test_what_fails_half_way_is_finished_by_the_next_reconcile(step, to):
    juju, hss, mme, _ = pair("ipsec")
    options = {"technology": to, "underlay-interface": "ens4"} if to != "none" else {}
    mme.configure("s6a", "172.16.6.2/24" if options else "none", **options)
    mme.break_off(step)
    mme.reconcile()
    assert mme.error == ""
    assert mme.vdu.charon.connections == {}
    assert mme.vdu.charon.sas == []
    assert "xf-s6a" not in mme.vdu.plain
    assert UNIT.format("s6a") not in mme.vdu.enabled
    left = {CONF.format("s6a"), UP.format("s6a"), KEEP.format("s6a")}
    assert not left & set(mme.vdu.files)
    assert ("/etc/osm-vpnaas/s6a/applied.json" in mme.vdu.files) == bool(options)
    mme.vdu.commands.clear()
    mme.reconcile()
    assert not any(command[0] == "swanctl" for command in mme.vdu.commands)


def test_a_gateway_waits_for_no_peer_that_declines():
    juju, hss, mme, _ = pair()
    other = juju.deploy("mme2", {"s6a": "requirer"}, {"ens3": "10.0.0.3/24"})
    other.configure("s6a", "none")
    juju.relate("s6a", "hss", "mme2")
    juju.settle()
    assert hss.states() == {"s6a": "up"}
    assert hss.plans["s6a"].waiting == ()
    assert other.states() == {"s6a": "off"}


def test_the_intent_remembers_it_and_forgets_what_stood_on_the_link():
    on = {"link": "s6a", "inner-address": "172.16.6.2/24"}
    intent = Intent().configured(on).configured(dict(on, **{"inner-address": "none"}))
    assert (dict(intent.links), intent.off) == ({}, frozenset(["s6a"]))
    assert Intent.from_json(intent.to_json()) == intent
    assert Intent().empty and not intent.empty
    assert intent.configured(on).off == frozenset()
    with pytest.raises(InputError, match="peer relation: intent: not in the form"):
        Intent.from_json('{"version": 1, "links": [], "peers": [], "off": [1]}')


def test_what_declines_is_no_offer():
    bag = offer.declined()
    assert offer.declines(bag)
    assert offer.decode(bag, "peer") is None
    assert not offer.declines({})


@pytest.mark.parametrize("technology", ["wireguard", "none", "off"])
def test_a_tunnel_of_somebody_else_under_our_name_keeps_its_file(technology):
    _, hss, _, _ = pair("none")
    path = "/etc/wireguard/wg-s6a.conf"
    theirs = "[Interface]\nListenPort = 40000\nPrivateKey = cHJpdmF0ZQ==\n"
    hss.vdu.files[path] = theirs
    hss.vdu.enabled.add("wg-quick@wg-s6a.service")
    address = "none" if technology == "off" else "172.16.6.129/24"
    wanted = "none" if technology == "off" else technology
    hss.configure("s6a", address, technology=wanted, **{"underlay-interface": "ens4"})
    hss.reconcile()
    assert hss.vdu.files[path] == theirs
    assert "wg-quick@wg-s6a.service" in hss.vdu.enabled
    if technology != "wireguard":
        assert hss.states()["s6a"] in ("off", "clear", "waiting")
        return
    assert hss.plans["s6a"].problems == (
        "/etc/wireguard/wg-s6a.conf: somebody else wrote this file of the VDU; allowed: none "
        "there; stop wg-quick@wg-s6a.service and move the file away",
    )
    assert hss.states() == {"s6a": "blocked"}
    del hss.vdu.files[path]
    hss.reconcile()
    assert hss.vdu.files[path].startswith("# Written by osm-vpnaas")


WG, ADDRESS, OVER = "wg-s6a", "172.16.6.129/24", {"underlay-interface": "ens4"}
OTHERS = {
    "wireguard": WgInterface("c29tZWJvZHk=", "40000", peers={"peer of somebody": WgPeer()}),
    "without a key": WgInterface(),
    "bridge": PlainInterface(kind="bridge", addresses={"10.9.9.1/24"}),
}


@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize("technology", ["ipsec", "wireguard", "none", "off"])
def test_an_interface_of_somebody_else_stays_under_the_name_of_an_ipsec_link(technology, up):
    juju, hss, mme, _ = pair("none")
    theirs = PlainInterface(kind="bridge", addresses={"10.9.9.1/24"}, up=up)
    hss.vdu.plain["xf-s6a"] = copy.deepcopy(theirs)
    for charm, address in ((hss, ADDRESS), (mme, "172.16.6.2/24")):
        wanted = "wireguard" if technology == "off" else technology
        charm.configure("s6a", address, technology=wanted, **OVER)
    if technology == "off":
        hss.configure("s6a", "none")
    juju.changed |= {"hss", "mme"}
    juju.settle()
    assert hss.error == ""
    assert hss.vdu.plain["xf-s6a"] == theirs
    assert (hss.states()["s6a"] == "blocked") == (technology == "ipsec")
    if technology != "ipsec":
        return
    assert UP.format("s6a") not in hss.vdu.files
    assert hss.plans["s6a"].problems[0].startswith("xf-s6a: somebody else made this interface of")
    del hss.vdu.plain["xf-s6a"]
    hss.reconcile()
    juju.settle()
    assert hss.states() == {"s6a": "up"}


def test_an_interface_that_an_ipsec_link_has_left_is_used_again():
    """The kernel keeps it, as it may crash where one is deleted."""
    juju, hss, _, _ = pair("ipsec")
    hss.configure("s6a", "none")
    hss.reconcile()
    hss.vdu.plain["xf-s6a"] = PlainInterface(kind="xfrm", up=False)
    hss.configure("s6a", ADDRESS, technology="ipsec", **OVER)
    hss.reconcile()
    juju.settle()
    assert hss.states() == {"s6a": "up"}


@pytest.mark.parametrize("lost", [UP, CONF, "unit"])
def test_ours_of_an_ipsec_link_is_known_by_what_is_left(lost):
    juju, hss, _, _ = pair("ipsec")
    if lost == "unit":
        hss.vdu.active.discard(UNIT.format("s6a"))
    else:
        del hss.vdu.files[lost.format("s6a")]
    hss.reconcile()
    juju.settle()
    assert hss.states() == {"s6a": "up"}


@pytest.mark.parametrize("technology", ["wireguard", "ipsec", "none", "off"])
@pytest.mark.parametrize("kind", OTHERS)
def test_an_interface_of_somebody_else_under_our_name_stays(technology, kind):
    _, hss, _, _ = pair("none")
    wired = isinstance(OTHERS[kind], WgInterface)
    held = hss.vdu.interfaces if wired else hss.vdu.plain
    held[WG] = copy.deepcopy(OTHERS[kind])
    said = (
        "wg-s6a: somebody else made this interface of the VDU; allowed: none of that name;"
        " delete or rename it"
    )
    for wanted in (technology, "off"):
        if wanted == "off":
            hss.configure("s6a", "none")
        else:
            hss.configure("s6a", ADDRESS, technology=wanted, **OVER)
        hss.reconcile()
        assert hss.error == ""
        assert held[WG] == OTHERS[kind]
        assert f"/etc/wireguard/{WG}.conf" not in hss.vdu.files
        problems = hss.plans["s6a"].problems if wanted != "off" else ()
        assert (said in problems) == (wanted == "wireguard")
        assert hss.states() == {"s6a": "blocked"} or wanted != "wireguard"


def test_a_link_comes_up_once_the_interface_of_somebody_else_is_gone():
    juju, hss, _, _ = pair("wireguard")
    hss.configure("s6a", "none")
    hss.reconcile()
    hss.vdu.interfaces[WG] = copy.deepcopy(OTHERS["wireguard"])
    hss.configure("s6a", ADDRESS, **OVER)
    hss.reconcile()
    assert hss.states() == {"s6a": "blocked"}
    del hss.vdu.interfaces[WG]
    hss.reconcile()
    juju.settle()
    assert hss.states() == {"s6a": "up"}


def test_an_interface_that_somebody_makes_at_boot_before_ours_stays():
    """Our unit then fails. Its file and our record are there."""
    juju, hss, _, _ = pair("wireguard")
    hss.vdu.interfaces[WG] = copy.deepcopy(OTHERS["wireguard"])
    hss.reconcile()
    assert hss.vdu.interfaces[WG] == OTHERS["wireguard"]
    assert hss.states() == {"s6a": "blocked"}
    assert hss.plans["s6a"].problems[0].startswith("wg-s6a: somebody else made this interface")
    del hss.vdu.interfaces[WG]
    hss.reconcile()
    juju.settle()
    assert hss.states() == {"s6a": "up"}


def test_an_interface_may_have_our_name_as_its_other_name():
    _, hss, _, _ = pair("none")
    row = ModelVdu._ip_row
    hss.vdu._ip_row = lambda name, *more: dict(
        row(name, *more), altnames=["enp0s3", WG] if name == "ens3" else []
    )
    hss.configure("s6a", ADDRESS, technology="wireguard", **OVER)
    hss.reconcile()
    assert hss.plans["s6a"].problems[0].startswith("wg-s6a: somebody else made this interface")


@pytest.mark.parametrize("lost", ["conf", "keys", "record", "staged", "folder"])
def test_ours_is_never_taken_for_that_of_somebody_else(lost):
    juju, hss, _, _ = pair("wireguard")
    folder, conf = "/etc/osm-vpnaas/s6a/", f"/etc/wireguard/{WG}.conf"
    if lost == "staged":  # It switched to the staged key and lost its file on the way.
        hss.vdu.files[folder + "next.key"] = hss.vdu.files[folder + "private.key"]
        hss.vdu.files[folder + "private.key"] = hss.juju.world.secret()
    paths = {"conf": [conf], "keys": [folder + "private.key"], "record": [folder + "applied.json"]}
    paths["folder"] = [path for path in hss.vdu.files if path.startswith(folder)]
    for path in paths.get(lost, [conf, folder + "applied.json"]):
        del hss.vdu.files[path]
    hss.reconcile()
    juju.settle()
    assert hss.states() == {"s6a": "up"}
    assert hss.error == ""


def test_ours_that_wg_does_not_know_any_more_is_made_anew():
    """A daemon of WireGuard in userspace may lose its socket."""
    _, hss, _, _ = pair("wireguard")
    kept = hss.vdu.interfaces.pop(WG)
    hss.vdu.plain[WG] = PlainInterface(kind="tun", addresses=kept.addresses)
    hss.reconcile()
    assert "s6a/apply/start" in [step.id for step in hss.plans["s6a"].steps]
    assert "somebody else" not in str(hss.plans["s6a"].problems)


@pytest.mark.parametrize("off", [False, True])
def test_ours_is_known_wherever_a_reconcile_ends(off):
    """It dies after each step in turn: on its way up, and on its way down."""
    juju, hss, _, _ = pair("wireguard")
    if not off:
        hss.configure("s6a", "none")
        hss.reconcile()
    before = copy.deepcopy(hss.vdu)
    for steps in range(200):
        hss.vdu = copy.deepcopy(before)
        hss.configure("s6a", "none" if off else ADDRESS, **OVER)
        hss.vdu.steps_left = steps
        hss.reconcile()
        ended, hss.vdu.steps_left = hss.vdu.steps_left >= 0, None
        hss.configure("s6a", ADDRESS, **OVER)
        hss.reconcile()
        assert hss.states()["s6a"] != "blocked", (steps, hss.plans["s6a"].problems)
        if ended:
            return
    raise AssertionError("it never ended")
