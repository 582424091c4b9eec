"""IPsec behind the same link model: the pure reconcile on the model, and what is refused."""

import base64
import contextlib
import io
import json
import re
from types import SimpleNamespace

import pytest
from support.juju import Juju, pair
from support.model_charon import RULE, ModelSa
from vpnaas.base import fields
from vpnaas.base.errors import InputError
from vpnaas.params.intent import MANUAL, Intent, link_params, manual_peer
from vpnaas.params.ipsec import OPTIONS, WEAK, IpsecParams, Proposal, options
from vpnaas.status import link_status
from vpnaas.tunnels.ipsec import algorithms
from vpnaas.tunnels.ipsec.names import (
    DAEMON_FILE,
    DROPIN_FILE,
    KEEP,
    KEEPER_FILE,
    PRESHARED,
    PROGRAM,
    UP,
    interface_id,
)
from vpnaas.tunnels.ipsec.observed import STATE
from vpnaas.vdu.programs import ipsec
from vpnaas.vdu.programs.charon import message
from vpnaas.vdu.steps import Results

CONF = "/etc/swanctl/conf.d/osm-vpnaas-s6a.conf"
KEY = "MCowBQYDK2VwAyEAZXzl4qop5ouc36kXfoFNKd0SsGngWfeugKTbEYz1vng="


def ipsec_pair(**options):
    return pair("ipsec", **options)


def names(charm):
    return sorted(sa.name for sa in charm.vdu.charon.sas)


def test_two_related_vnfs_bring_their_link_up_by_themselves():
    juju, hss, mme, _ = ipsec_pair()
    assert (hss.states(), mme.states()) == ({"s6a": "up"}, {"s6a": "up"})
    assert juju.world.ping(hss.vdu, "172.16.6.2")
    (sa,) = hss.vdu.charon.sas
    assert sa.remote_ts == ("172.16.6.2/32",)
    assert hss.vdu.plain["xf-s6a"].addresses == {"172.16.6.129/24"}


def test_the_requirer_keeps_the_tunnel_up_and_the_provider_answers_from_anywhere():
    juju, hss, mme, _ = ipsec_pair()
    assert hss.vdu.charon.made + mme.vdu.charon.made == 1
    assert "remote_addrs = 192.168.8.2, %any\n" in hss.vdu.files[CONF]
    assert "remote_addrs = 192.168.8.129\n" in mme.vdu.files[CONF]
    assert hss.vdu.files[KEEP.format("s6a")] == "[]\n"
    (name,) = mme.vdu.charon.connections
    assert f'"{name}"' in mme.vdu.files[KEEP.format("s6a")]


def test_a_settled_reconcile_takes_one_round_trip_and_changes_nothing():
    juju, hss, mme, _ = ipsec_pair()
    for charm in (hss, mme):
        charm.vdu.commands.clear()
        assert charm.reconcile() == 1
        for command in charm.vdu.commands:
            assert not {"--load-conns", "--load-creds", "--initiate", "restart"} & set(command)


@pytest.mark.parametrize("port", [500, 4500])
def test_another_ike_daemon_is_named_and_ours_starts_when_it_is_gone(port):
    juju, hss, mme, _ = ipsec_pair()
    mme.vdu.taken[port] = "pluto"
    mme.reconcile()
    said = f"s6a: UDP port {port} of the VDU is used by pluto; allowed: no other IKE daemon"
    assert mme.plans["s6a"].problems[0].startswith(said)
    assert mme.states() == {"s6a": "blocked"}
    del mme.vdu.taken[port]
    sockets, mme.vdu.sockets = mme.vdu.sockets, dict  # it came up beside the other one
    mme.vdu.commands.clear()
    mme.reconcile()
    assert ["systemctl", "restart", "strongswan.service"] in mme.vdu.commands
    mme.vdu.sockets = sockets
    mme.reconcile()
    assert mme.states() == {"s6a": "up"}


def test_a_charon_with_other_ports_is_named():
    juju, hss, mme, _ = ipsec_pair()
    mme.vdu.sockets = lambda: {1500: "charon-systemd", 14500: "charon-systemd"}
    mme.reconcile()
    (problem,) = mme.plans["s6a"].problems
    assert problem.startswith("charon of the VDU does not have UDP ports 500 and 4500")
    del mme.vdu.sockets
    mme.reconcile()
    assert mme.plans["s6a"].problems == ()


def test_what_charon_says_that_does_not_start_is_in_a_sentence():
    juju, hss, mme, _ = ipsec_pair()
    mme.vdu.charon.stop()
    mme.vdu.journal = "00[CFG] invalid config file '/etc/strongswan.conf'\n00[LIB] abort\n"
    mme.vdu.fail_on = "s6a/apply/daemon"
    mme.reconcile()
    said = "says: 00[CFG] invalid config file '/etc/strongswan.conf'; 00[LIB] abort"
    first, second = mme.plans["s6a"].problems
    assert first.endswith(said)
    assert "strongSwan did not load its connection" in second


def test_a_vdu_that_does_not_say_who_has_its_ports_is_taken_as_it_is():
    juju, hss, mme, _ = ipsec_pair()
    mme.vdu._cmd_ss = lambda argv, text: (127, "") if argv[1] == "-Hlunp" else (0, "")
    mme.vdu.commands.clear()
    mme.reconcile()
    assert ["systemctl", "restart", "strongswan.service"] not in mme.vdu.commands
    assert mme.states() == {"s6a": "up"}


def test_swanctl_that_hangs_is_the_problem_of_links_with_ipsec_only():
    juju, hss, mme, _ = ipsec_pair()
    mme.roles["s11"] = "requirer"
    mme.configure("s11", "172.16.11.2/24", **{"underlay-interface": "ens4"})
    mme.vdu.fail_on = "ipsec/sas"
    mme.reconcile()
    assert mme.states() == {"s6a": "blocked", "s11": "waiting"}


def test_what_carries_a_tunnel_is_put_back():
    """systemd-networkd removes rules and routes that it did not make; people do other things."""
    juju, hss, mme, _ = ipsec_pair()
    vdu, link, tun = mme.vdu, mme.vdu.plain["xf-s6a"], mme.vdu.plain["ipsec0"]
    before = mme.vdu.charon.made, (link.mtu, tun.mtu)
    damage = {
        "rule": lambda: vdu.rules.discard(RULE),
        "rule of somebody else in its place": lambda: vdu.rules.symmetric_difference_update(
            {RULE, ("10.0.0.0/8", 220, "220"), ("all", 220, "7")}
        ),
        "route": lambda: vdu.charon.lost_routes.add("172.16.6.129/32"),
        "tun down": lambda: setattr(tun, "up", False),
        "tun mtu": lambda: setattr(tun, "mtu", 1280),
        "link down": lambda: setattr(link, "up", False),
        "link mtu": lambda: setattr(link, "mtu", 1280),
        "subnet": lambda: link.lost.add("172.16.6.0/24"),
    }
    for what, done in damage.items():
        done()
        mme.reconcile()
        assert not mme.error, what
        assert RULE in vdu.rules, what
        assert (link.up, tun.up, link.lost, vdu.charon.lost_routes) == (True, True, set(), set())
        vdu.commands.clear()
        mme.reconcile()
        again = [c for c in vdu.commands if {"set", "replace", "pref"} & set(c)]
        assert not again, what
    assert before == (mme.vdu.charon.made, (link.mtu, tun.mtu))
    assert mme.states() == {"s6a": "up"}


@pytest.mark.parametrize("damage", ["rule", "route", "tun", "states"])
def test_a_restart_ends_with_a_tunnel(damage):
    """`restart` takes the tunnel down and up, and repairs what carries it on the way."""
    juju, hss, mme, _ = ipsec_pair()
    (sa,) = mme.vdu.charon.sas
    {
        "rule": lambda: mme.vdu.rules.discard(RULE),
        "route": lambda: mme.vdu.charon.lost_routes.add("172.16.6.129/32"),
        "tun": lambda: mme.vdu.plain.pop("ipsec0"),
        "states": lambda: setattr(sa, "lost", True),
    }[damage]()
    mme.reconcile(restart=frozenset({"s6a"}))
    assert not mme.error
    assert mme.states() == {"s6a": "up"}
    assert RULE in mme.vdu.rules
    assert not mme.vdu.charon.lost_routes
    assert mme.vdu.charon.sas[0].id != sa.id


def test_states_that_somebody_flushed_are_told_and_made_anew():
    juju, hss, mme, _ = ipsec_pair()
    (sa,) = mme.vdu.charon.sas
    sa.lost = True
    mme.vdu.fail_on = "s6a/apply/stale"
    mme.reconcile()
    mme.vdu.fail_on = None
    assert mme.states() == {"s6a": "blocked"}
    mme.reconcile()
    assert mme.states() == {"s6a": "up"}
    assert [each.lost for each in mme.vdu.charon.sas] == [False]
    assert mme.vdu.charon.sas[0].id != sa.id


def test_a_probe_that_did_not_end_is_no_answer_and_leaves_nothing_for_the_next():
    juju, hss, mme, _ = ipsec_pair()
    before = mme.vdu.files[CONF]
    mme.vdu.fail_on = "ipsec/esp"
    mme.reconcile()
    assert mme.states() == {"s6a": "blocked"}
    assert mme.vdu.files[CONF] == before
    mme.vdu.fail_on = None
    mme.vdu.commands.clear()
    mme.reconcile()
    assert mme.states() == {"s6a": "up"}
    probes = [c[3] if c[1] == "xfrm" else c[2] for c in mme.vdu.commands if is_probe(c)]
    assert probes == ["delete", "add", "delete", "delete", "add", "delete"]


def is_probe(words):
    return words[:3] == ["ip", "xfrm", "state"] or "vpnaas-probe" in words


def test_an_address_or_the_tun_that_is_gone_comes_back():
    juju, hss, mme, _ = ipsec_pair()
    mme.vdu.plain["xf-s6a"].addresses.clear()
    mme.reconcile()
    assert mme.vdu.plain["xf-s6a"].addresses == {"172.16.6.2/24"}
    del mme.vdu.plain["ipsec0"]
    mme.reconcile()
    assert "ipsec0" in mme.vdu.plain
    mme.reconcile()
    assert mme.states() == {"s6a": "up"}


FOREIGN = "s6a_office"
"""Of somebody else on the VDU, with a name that begins like those of the link."""


def test_a_connection_of_somebody_else_with_a_name_like_ours_stays():
    juju, hss, mme, _ = ipsec_pair()
    mme.vdu.files["/etc/swanctl/conf.d/office.conf"] = f"connections {{\n  {FOREIGN} {{\n  }}\n}}\n"
    mme.vdu.charon.swanctl(["--load-conns"])
    foreign = ModelSa(FOREIGN, 77, "198.51.100.7:4500", ("10.99.0.0/16",), ("10.98.0.0/16",))
    mme.vdu.charon.sas.append(foreign)
    mme.vdu.commands.clear()
    assert mme.reconcile() == 1
    for command in mme.vdu.commands:
        assert not {"--load-conns", "--load-creds", "--terminate", "load"} & set(command)
    mme.configure("s6a", "none", technology="ipsec")
    mme.reconcile()
    juju.settle()
    assert mme.vdu.charon.sas == [foreign]


def test_what_swanctl_took_of_other_links_is_loaded_again():
    """swanctl loads nothing while it cannot read one file, and forgets what it had loaded."""
    *_, mme, _ = ipsec_pair()
    loads = [*PROGRAM, "load"]
    mme.vdu.commands.clear()
    mme.configure("s6a", "172.16.6.2/24", technology="ipsec", **{"ipsec-options": "dpd-delay=10"})
    mme.reconcile()
    creds = ["swanctl", "--load-creds", "--noprompt"]
    assert mme.vdu.commands.index(creds) < mme.vdu.commands.index(loads)
    mme.vdu.commands.clear()
    mme.configure("s6a", "none", technology="ipsec")
    mme.reconcile()
    assert mme.vdu.commands.index(["swanctl", "--load-conns"]) < mme.vdu.commands.index(loads)


def test_loading_a_link_leaves_connections_of_somebody_else(monkeypatch):
    *_, mme, _ = ipsec_pair()
    old = "s6a_rel-1_00000000_00000000"
    asked = []

    class Daemon:
        def ask(self, command, body=b""):
            asked.append((command, body))
            return {"conns": [FOREIGN, old, "s6a_x_y", "s6aa_rel-1_00000000_00000000"]}

    monkeypatch.setattr(ipsec, "open", lambda _: io.StringIO(mme.vdu.files[CONF]), raising=False)
    monkeypatch.setattr(ipsec, "outlived", lambda _: False)
    monkeypatch.setattr(ipsec, "Daemon", Daemon)
    ipsec.load(["s6a"])
    unloaded = [body for command, body in asked if command == "unload-conn"]
    assert unloaded == [message({"name": old})]


def test_a_preshared_key_is_loaded_as_swanctl_loads_it(monkeypatch):
    """Decoded: else a peer set up by hand has another key."""
    key = bytes(range(32))
    file = f"secret = 0s{base64.b64encode(key).decode()}\n"
    asked = {}
    monkeypatch.setattr(ipsec, "content", lambda _: file)
    section = {"id-0": "@near", "id-1": "@far", "include": "/etc/swanctl/x.secret"}
    ipsec.share(SimpleNamespace(ask=asked.__setitem__), {"ike-s6a-rel-1": section})
    assert b"\x03\x04data\x00\x20" + key in asked["load-shared"]


@pytest.mark.parametrize("trouble", ["none", "an old certificate", "a certificate file is gone"])
def test_trouble_of_one_link_leaves_no_other_link_unloaded(monkeypatch, trouble):
    """Beside a file of somebody else that swanctl cannot read, swanctl takes all away."""
    *_, mme, _ = ipsec_pair()
    gone = trouble == "a certificate file is gone"
    loaded, links = [], ["a1", "s6a", "zz"]

    class Daemon:
        def ask(self, command, body=b""):
            if command == "load-conn":
                loaded.append(next(link for link in links if body[2:].startswith(link.encode())))
            return {"conns": [], "success": "yes"}

    def opened(path):
        link = next(link for link in links if path.endswith(f"-{link}.conf"))
        text = mme.vdu.files[CONF].replace("s6a_", link + "_")
        more = "      certs = /gone.pem\n" if gone and link == "s6a" else ""
        return io.StringIO(text.replace("    remote {\n", "    remote {\n" + more))

    def swanctl(words):
        loaded.clear()
        return 22 * (words[1] == "--load-conns")

    monkeypatch.setattr(ipsec, "open", opened, raising=False)
    monkeypatch.setattr(
        ipsec, "outlived", lambda conns: trouble == "an old certificate" and "s6a" in str(conns)
    )
    monkeypatch.setattr(ipsec, "Daemon", Daemon)
    monkeypatch.setattr(ipsec.subprocess, "call", swanctl)
    with pytest.raises(SystemExit) if gone else contextlib.nullcontext():
        ipsec.load(links)
    assert loaded == (["a1", "zz"] if gone else links)


def test_an_unchanged_peer_is_never_bounced():
    juju, hss, mme, _ = ipsec_pair()
    (before,) = hss.vdu.charon.sas
    other = juju.deploy(
        "mme2", {"s6a": "requirer"}, {"ens3": "10.0.0.3/24", "ens4": "192.168.8.3/24"}
    )
    other.configure("s6a", "172.16.6.3/24", technology="ipsec", **{"underlay-interface": "ens4"})
    juju.relate("s6a", "hss", "mme2")
    juju.settle()
    assert before in hss.vdu.charon.sas
    assert len(hss.vdu.charon.sas) == 2
    assert hss.states() == other.states() == {"s6a": "up"}


def test_a_charon_that_lacks_a_cipher_is_named_and_keeps_what_runs():
    """As without the package libstrongswan-standard-plugins, which others only recommend."""
    juju, hss, mme, _ = ipsec_pair()
    mme.vdu.charon.algorithms.remove("AES_GCM_16")
    before = dict(mme.vdu.files)
    mme.reconcile()
    assert mme.states() == {"s6a": "blocked"}
    assert mme.vdu.files == before
    assert names(mme)
    sentence = str(mme.plans["s6a"])
    assert "aes256gcm-curve25519 needs AES_GCM_16, which charon on this VDU lacks" in sentence
    assert "libstrongswan-standard-plugins" in sentence
    mme.vdu.charon.algorithms.append("AES_GCM_16")
    mme.reconcile()
    assert mme.states() == {"s6a": "up"}


@pytest.mark.parametrize(
    ("proposal", "loaded", "missing"),
    [
        ("aes256gcm-curve25519", "AES_GCM_16 PRF_HMAC_SHA2_384 CURVE_25519", ()),
        ("aes256gcm-curve25519", "AES_CBC PRF_HMAC_SHA2_384", ("AES_GCM_16", "CURVE_25519")),
        (
            "aes256-sha256-ecp256",
            "AES_GCM_16 PRF_HMAC_SHA2_256 ECP_256",
            ("AES_CBC", "HMAC_SHA2_256_128"),
        ),
        ("3gpp", "AES_GCM_16 PRF_HMAC_SHA2_256 MODP_2048", ()),
        ("3gpp", "AES_CBC HMAC_SHA2_256_128 PRF_HMAC_SHA2_256 ECP_256", ()),
        ("3gpp", "AES_GCM_16 PRF_HMAC_SHA2_256 CURVE_25519", ("ECP_384 or ECP_256 or MODP_2048",)),
        ("aes256gcm-curve25519", "", ()),
    ],
)
def test_what_a_proposal_lacks(proposal, loaded, missing):
    text = "ke:\n" + "".join(f"  {name}[openssl]\n" for name in loaded.split())
    results = Results({"ipsec/algorithms": {"code": 0, "out": text}})
    assert algorithms.lacking(Proposal.parse("p", proposal), results) == missing


def test_every_word_of_a_proposal_has_a_name():
    for text in ("aes192gcm-curve448", "aes128gcm-ecp521", "chacha20poly1305-ecp384", "3gpp"):
        assert algorithms.lacking(Proposal.parse("p", text), Results({})) == ()
        one = Results({"ipsec/algorithms": {"code": 0, "out": "  NULL[openssl]\n"}})
        assert algorithms.lacking(Proposal.parse("p", text), one)
    one = Results({"ipsec/algorithms": {"code": 0, "out": "  NULL[openssl]\n"}})
    for integrity in ("sha256", "sha384", "sha512"):
        for cipher in ("aes256", "aes192", "aes128"):
            proposal = Proposal.parse("p", f"{cipher}-{integrity}-ecp256")
            assert len(algorithms.lacking(proposal, one)) == 4


def test_removal_ends_the_association_at_once():
    juju, hss, mme, relation = ipsec_pair()
    juju.unrelate(relation)
    hss.reconcile()
    assert hss.vdu.charon.sas == []
    assert hss.vdu.charon.connections == {}
    assert hss.states() == {"s6a": "waiting"}


@pytest.mark.parametrize("who", ["hss", "mme"])
def test_rotation_makes_before_it_breaks(who):
    juju, hss, mme, _ = ipsec_pair()
    charm = juju.charms[who]
    old = charm.plans["s6a"].state.public_key
    charm.reconcile(rotate=frozenset(["s6a"]))
    charm.reconcile()
    # The peer has not been heard, so the old key stays in use.
    assert charm.plans["s6a"].state.public_key == old
    assert len(hss.vdu.charon.sas) == 1
    juju.settle()
    state = charm.plans["s6a"].state
    assert (state.generation, state.next_public_key) == (2, "")
    assert state.public_key != old
    assert old not in hss.vdu.files[CONF] + mme.vdu.files[CONF]
    assert hss.states() == mme.states() == {"s6a": "up"}
    assert len(hss.vdu.charon.sas) == len(mme.vdu.charon.sas) == 1
    # The new association was there before the old one went.
    steps = [command for command in charm.vdu.commands if command[0] == "swanctl"]
    made = max(i for i, command in enumerate(steps) if "--initiate" in command)
    ended = max(i for i, command in enumerate(steps) if "--terminate" in command)
    assert made < ended
    # The peer's answer to the end of a CHILD_SA tells that it sends by the new one.
    assert "--child" in steps[ended - 1] and "--child" not in steps[ended]


@pytest.mark.parametrize("who", ["hss", "mme"])
@pytest.mark.parametrize("options", [{"credentials": "pubkey"}, {"credentials": "psk"}])
def test_no_rotation_leaves_an_end_without_a_tunnel(who, options, monkeypatch):
    juju, hss, mme, _ = ipsec_pair(**options)
    (before,) = names(hss)
    changes = []
    for charon in (hss.vdu.charon, mme.vdu.charon):

        def swanctl(words, charon=charon, real=charon.swanctl):
            answer = real(words)
            if words[0] in ("--initiate", "--terminate"):
                changes.append(len(charon.sas))
            return answer

        monkeypatch.setattr(charon, "swanctl", swanctl)
    juju.charms[who].reconcile(rotate=frozenset(["s6a"]))
    juju.settle()
    hss.reconcile(), mme.reconcile()
    assert juju.charms[who].plans["s6a"].state.generation == 2
    assert 0 not in changes
    assert hss.states() == mme.states() == {"s6a": "up"}
    # A public key that proves nothing changes nothing.
    assert (names(hss) == [before]) == (changes == []) == (options["credentials"] == "psk")


def test_a_reboot_brings_back_all_but_the_association_which_the_keeper_opens():
    juju, hss, mme, _ = ipsec_pair()
    mme.vdu.reboot()
    assert mme.vdu.charon.connections
    assert mme.vdu.plain["xf-s6a"].addresses == {"172.16.6.2/24"}
    kept = mme.vdu.files[KEEP.format("s6a")]
    (name,) = mme.vdu.charon.connections
    assert f'"{name}"' in kept


@pytest.mark.parametrize("options", [{"preshared-key": True}, {"credentials": "psk"}])
def test_preshared_keys_agree_and_nothing_secret_travels(options):
    juju, hss, mme, relation = ipsec_pair(**options)
    assert hss.states() == mme.states() == {"s6a": "up"}
    (secret,) = {
        text
        for charm in (hss, mme)
        for path, text in charm.vdu.files.items()
        if path.endswith(".secret")
    }
    key = secret.split("0s")[1].strip()
    for bag in relation.ends.values():
        assert key not in "".join(bag.values())
    for charm in (hss, mme):
        assert key not in charm.vdu.files[CONF]
        assert all(key not in word for command in charm.vdu.commands for word in command)


def test_a_peer_that_goes_takes_its_preshared_key_along():
    juju, hss, mme, relation = ipsec_pair(**{"preshared-key": True})
    path = PRESHARED.format("s6a", "rel-1")
    assert path in hss.vdu.files
    juju.unrelate(relation)
    juju.settle()
    assert path not in hss.vdu.files
    assert "secrets" not in hss.vdu.files[CONF]


def test_what_is_not_a_key_never_reaches_the_configuration():
    juju, hss, mme, relation = ipsec_pair(**{"preshared-key": True})
    path = PRESHARED.format("s6a", "rel-1")
    before = mme.vdu.files[path]
    relation.ends["hss"]["vpnaas-wrapped-preshared-key"] = "QUFB" * 128
    mme.reconcile()
    assert mme.vdu.files[path] == before
    assert mme.states() == {"s6a": "up"}


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("public-key", "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=", "IKEv2 public key"),
        ("public-key", KEY + "\n}", "not allowed"),
        ("ike-identity", "x\n  secrets {", "not allowed"),
        ("ike-identity", "a b", "IKE identity"),
        ("ike-identity", "%any", "IKE identity"),
        ("ike-identity", "", "IKE identity"),
        ("proposal", "aes256-sha1-modp1024", "too weak"),
        ("proposal", "aes128gcm-curve25519", "as on this side"),
        ("credentials", "psk", "as on this side"),
        ("credentials", "eap", "unknown"),
        ("technology", "wireguard", "WireGuard key"),
        ("inner-address", "172.16.6.129", "own inner address|already"),
        ("allowed-prefixes", "10.0.0.0/24", "not accepted"),
        ("endpoint-address", "172.16.6.77", "lies inside the tunnel"),
    ],
)
def test_hostile_offers_are_refused_and_the_running_tunnel_stays(key, value, sentence):
    juju, hss, mme, relation = ipsec_pair()
    before, sas = hss.vdu.files[CONF], list(hss.vdu.charon.sas)
    relation.ends["mme"]["vpnaas-" + key] = value
    hss.reconcile()
    assert hss.vdu.files[CONF] == before
    assert hss.vdu.charon.sas == sas
    (problem,) = hss.plans["s6a"].problems
    assert any(part in problem for part in sentence.split("|"))
    assert hss.states() == {"s6a": "blocked"}


def test_a_newcomer_cannot_take_the_identity_of_a_peer_that_runs():
    juju, hss, mme, relation = ipsec_pair()
    stolen = dict(relation.ends["mme"])
    stolen.update({"vpnaas-inner-address": "172.16.6.66", "vpnaas-public-key": KEY})
    juju.deploy("mallory", {"s6a": "requirer"}, {"ens4": "192.168.8.66/24"})
    thief = juju.relate("s6a", "hss", "mallory")
    thief.ends["mallory"] = stolen
    hss.reconcile()
    assert [peer.label for peer in hss.plans["s6a"].peers] == ["mme"]
    assert "IKE identity is already in use by mme" in hss.plans["s6a"].problems[0]


@pytest.mark.parametrize("other", ["wireguard", "none"])
def test_switching_technology_leaves_nothing_of_the_other_behind(other):
    juju, hss, mme, _ = ipsec_pair()
    charms = ((hss, "172.16.6.129/24"), (mme, "172.16.6.2/24"))

    def switch(technology):
        for charm, inner in charms:
            charm.configure("s6a", inner, technology=technology, **{"underlay-interface": "ens4"})
        juju.changed |= {"hss", "mme"}
        juju.settle()

    switch(other)
    for charm, _ in charms:
        assert CONF not in charm.vdu.files
        assert charm.vdu.charon.sas == []
        assert "xf-s6a" not in charm.vdu.plain
        assert charm.states() == {"s6a": {"wireguard": "up", "none": "clear"}[other]}
    switch("ipsec")
    for charm, _ in charms:
        assert charm.interface("s6a") is None
        assert charm.states() == {"s6a": "up"}


@pytest.mark.parametrize("first", ["hss", "mme"])
def test_a_preshared_key_goes_on_from_wireguard_to_ipsec(first):
    juju, hss, mme, _ = pair("wireguard", **{"preshared-key": True})
    inner = {"hss": "172.16.6.129/24", "mme": "172.16.6.2/24"}
    for name in sorted(inner, key=lambda name: name != first):
        options = {"underlay-interface": "ens4", "preshared-key": True}
        juju.charms[name].configure("s6a", inner[name], technology="ipsec", **options)
        juju.changed.add(name)
        juju.settle()
    hss.reconcile(), mme.reconcile()
    assert hss.states() == mme.states() == {"s6a": "up"}


def test_a_peer_of_ipsec_does_not_live_on_as_wireguard_when_one_end_switches_alone():
    juju, hss, mme, _ = ipsec_pair()
    hss.configure("s6a", "172.16.6.129/24", **{"underlay-interface": "ens4"})
    hss.reconcile()
    juju.settle()
    assert hss.interface("s6a").peers == {}
    assert hss.states() == mme.states() == {"s6a": "blocked"}


def test_a_narrower_acceptance_ends_the_wide_association():
    juju, hss, mme, _ = ipsec_pair()
    wide = {"underlay-interface": "ens4", "accept-prefixes": "10.45.0.0/16"}
    hss.configure("s6a", "172.16.6.129/24", technology="ipsec", **wide)
    mme.configure(
        "s6a",
        "172.16.6.2/24",
        technology="ipsec",
        **{"underlay-interface": "ens4", "allowed-prefixes": "10.45.0.0/16"},
    )
    juju.changed |= {"hss", "mme"}
    juju.settle()
    assert hss.vdu.plain["xf-s6a"].routes == {"10.45.0.0/16"}
    (sa,) = hss.vdu.charon.sas
    assert "10.45.0.0/16" in sa.remote_ts
    mme.configure("s6a", "172.16.6.2/24", technology="ipsec", **{"underlay-interface": "ens4"})
    juju.changed |= {"hss", "mme"}
    juju.settle()
    (sa,) = hss.vdu.charon.sas
    assert sa.remote_ts == ("172.16.6.2/32",)
    assert hss.vdu.plain["xf-s6a"].routes == set()
    assert hss.states() == {"s6a": "up"}


def test_with_esp_in_the_kernel_the_link_has_an_xfrm_interface():
    juju, hss, mme, relation = ipsec_pair()
    hss.vdu.esp = True
    hss.vdu.reboot()
    hss.reconcile()
    number = interface_id("s6a")
    assert f"link add xf-s6a type xfrm if_id {number}\n" in hss.vdu.files[UP.format("s6a")]
    assert hss.vdu.files[CONF].count(f"= {number}\n") == 2
    assert "esn-noesn" in hss.vdu.files[CONF]


def priorities(charm):
    return [int(n) for n in re.findall(r"^ *priority = (\d+)$", charm.vdu.files[CONF], re.M)]


def test_each_rotation_of_the_peer_makes_a_tunnel_of_lower_precedence():
    juju, hss, mme, _ = ipsec_pair()
    assert priorities(hss) == priorities(mme) == []
    for charm in (hss, mme):
        charm.vdu.esp = True
        charm.vdu.reboot()
    before = 0
    for _ in range(2):
        juju.settle()
        mme.reconcile(rotate=frozenset(["s6a"]))
        hss.reconcile()
        # Both keys are known now. A priority is lower the higher its number is.
        own, following = [0, *priorities(hss)][-2:]
        assert own == before < following
        before = following
        juju.settle()
        assert priorities(hss) == [following]
        assert hss.states() == mme.states() == {"s6a": "up"}
        assert len(hss.vdu.charon.sas) == 1
    # The end that rotates sends by its new tunnel at once.
    assert priorities(mme) == []


@pytest.mark.parametrize(("options", "kernel"), [({}, False), ({"start": "trap"}, True)])
def test_without_the_kernel_or_with_a_trap_there_is_no_precedence(options, kernel):
    text = ",".join(f"{key}={value}" for key, value in options.items())
    juju, hss, mme, _ = ipsec_pair(**({"ipsec-options": text} if text else {}))
    for charm in (hss, mme):
        charm.vdu.esp = kernel
        charm.vdu.reboot()
    juju.settle()
    hss.reconcile(rotate=frozenset(["s6a"]))
    juju.settle()
    assert mme.plans["s6a"].state.generation == hss.plans["s6a"].state.generation - 1 == 1
    assert priorities(mme) == []


def test_post_quantum_exchanges_need_a_strongswan_that_has_them():
    juju, hss, mme, _ = ipsec_pair()
    before = hss.vdu.files[CONF]
    options = {"underlay-interface": "ens4", "proposal": "aes256gcm-curve25519-mlkem768"}
    hss.configure("s6a", "172.16.6.129/24", technology="ipsec", **options)
    hss.reconcile()
    assert hss.plans["s6a"].unusable
    assert "needs ML_KEM_768, which charon on this VDU lacks" in hss.plans["s6a"].problems[0]
    assert hss.vdu.files[CONF] == before
    # A daemon of any version is asked, since some know the name and have no implementation.
    hss.vdu.charon.algorithms.append("ML_KEM_768")
    hss.reconcile()
    assert not hss.plans["s6a"].unusable


def test_a_connection_that_swanctl_did_not_load_is_told():
    juju, hss, mme, relation = ipsec_pair()
    juju.unrelate(relation)
    juju.settle()
    hss.vdu.charon._load_conns = lambda: None
    juju.relate("s6a", "hss", "mme")
    juju.settle()
    assert "did not load its connection" in hss.plans["s6a"].problems[0]


def test_extended_sequence_numbers_need_the_kernel():
    juju, hss, mme, _ = ipsec_pair()
    before = hss.vdu.files[CONF]
    options = {"underlay-interface": "ens4", "ipsec-options": "esn=yes"}
    hss.configure("s6a", "172.16.6.129/24", technology="ipsec", **options)
    hss.reconcile()
    assert hss.plans["s6a"].unusable
    assert "kernel has no ESP" in hss.plans["s6a"].problems[0]
    assert hss.vdu.files[CONF] == before


def test_the_file_is_what_swanctl_reads():
    juju, hss, mme, _ = ipsec_pair(
        proposal="aes256-sha512-ecp384",
        **{"ipsec-options": "encap=yes,dpd-delay=5,child-packets=1000000,copy-dscp=no"},
    )
    text = hss.vdu.files[CONF]
    state = hss.plans["s6a"].state
    (peer,) = hss.plans["s6a"].peers
    assert re.sub(r"_[0-9a-f]{8}_[0-9a-f]{8}", "_DIGESTS", text) == (
        f"""# Written by osm-vpnaas; changes are overwritten by the next reconcile.
connections {{
  s6a_rel-1_DIGESTS {{
    version = 2
    proposals = aes256-sha512-prfsha512-ecp384
    unique = replace
    local_addrs = 192.168.8.129
    local_port = 4500
    remote_addrs = 192.168.8.2, %any
    remote_port = 4500
    encap = yes
    mobike = no
    dpd_delay = 5s
    rekey_time = 14400s
    keyingtries = 1
    local {{
      auth = pubkey
      id = @{state.identity}
      pubkeys = 0s{state.public_key}
    }}
    remote {{
      auth = pubkey
      id = @{peer.identity}
      pubkeys = 0s{peer.public_key}
    }}
    children {{
      s6a {{
        local_ts = 172.16.6.129/32
        remote_ts = 172.16.6.2/32
        esp_proposals = aes256-sha512-ecp384-noesn
        mode = tunnel
        rekey_time = 3600s
        rekey_bytes = 0
        rekey_packets = 1000000
        replay_window = 128
        copy_df = yes
        copy_dscp = no
        start_action = none
        dpd_action = clear
        close_action = none
      }}
    }}
  }}
}}
"""
    )


def test_a_manual_peer_is_pinned_by_its_key_and_called_by_its_name():
    juju, hss, mme, _ = ipsec_pair()
    peer = manual_peer(
        {"link": "s6a", "name": "laptop", "public-key": KEY, "allowed-prefixes": "172.16.6.50"}
    )
    hss.intent = hss.intent.with_peer(peer)
    hss.reconcile()
    assert "id = @laptop" in hss.vdu.files[CONF]
    assert f"pubkeys = 0s{KEY}" in hss.vdu.files[CONF]
    assert Intent.from_json(hss.intent.to_json()) == hss.intent
    hss.intent = hss.intent.without_peer("s6a", "laptop")
    hss.reconcile()
    assert KEY not in hss.vdu.files[CONF]


def laptop(hss, prefixes="10.9.0.0/24,10.9.8.0/24"):
    """Add a manual peer with prefixes to a VNF; return the name of its connection."""
    peer = {"link": "s6a", "name": "laptop", "public-key": KEY, "allowed-prefixes": prefixes}
    hss.intent = hss.intent.with_peer(manual_peer(peer))
    hss.reconcile()
    (name,) = [name for name in hss.vdu.charon.connections if "laptop" in name]
    return name


def looked(hss, label="laptop"):
    """Reconcile; return the status of the link a minute later, and the view of one peer."""
    hss.reconcile()
    plan, clock = hss.plans["s6a"], hss.vdu.world.clock
    first = link_status("s6a", plan, clock, at=0)
    status = link_status("s6a", plan, clock, before=first.memory, at=60)
    return status, next(p for p in status.details["peers"] if p["peer"] == label)


def noted(hss, part, name, why):
    document = {part: {name: {"at": hss.vdu.world.clock, "why": why}}}
    hss.vdu.files[STATE] = json.dumps(document)


TAKEN = ("10.9.0.5/32",)


@pytest.mark.parametrize(
    ("prefixes", "theirs", "lacking"),
    [
        ("10.9.0.0/24,10.9.8.0/24", TAKEN, "10.9.0.0/24,10.9.8.0/24"),
        ("10.9.0.0/24,10.9.8.0/24", ("10.9.0.0/24",), "10.9.8.0/24"),
        ("10.9.0.0/24,10.9.8.0/24", ("10.9.0.0/24", "10.9.8.0/24[tcp/80]"), "10.9.8.0/24"),
        ("10.9.0.0/24,fd09::/64", ("10.9.0.0/24",), "fd09::/64"),
    ],
)
def test_a_peer_that_narrows_selectors_is_named_with_what_lacks(prefixes, theirs, lacking):
    juju, hss, mme, _ = ipsec_pair()
    name = laptop(hss, prefixes)
    hss.vdu.charon.sas.append(ModelSa(name, 99, "192.0.2.9:4500", theirs, ("172.16.6.129/32",)))
    status, view = looked(hss)
    assert (view["state"], view["selectors"]) == ("up", ",".join(sorted(theirs)))
    assert f"ask its owner for {lacking}, or for a CHILD_SA for each prefix" in view["reason"]
    assert "laptop: it took " + ", ".join(sorted(theirs)) + " only" in status.reason


def test_a_peer_with_a_child_for_each_prefix_has_all():
    juju, hss, mme, _ = ipsec_pair()
    name = laptop(hss)
    for number, prefix in enumerate(("10.9.0.0/24", "10.9.8.0/24"), 99):
        child = ModelSa(name, number, "192.0.2.9:4500", (prefix,), ("172.16.6.129/32",))
        hss.vdu.charon.sas.append(child)
    status, view = looked(hss)
    assert (view["state"], status.reason) == ("up", "")
    assert view["selectors"] == "10.9.0.0/24,10.9.8.0/24"
    # The same if the peer takes part of our own prefixes.
    for sa in hss.vdu.charon.sas:
        if sa.name == name:
            sa.local_ts = ("172.16.6.128/32",)
    assert "of our prefixes 172.16.6.129/32" in looked(hss)[0].reason


@pytest.mark.parametrize(
    ("prefixes", "children", "lacks"),
    [
        # A child for each half of an agreed prefix.
        ("10.9.0.0/23", (("172.16.6.129/32", "10.9.0.0/24"), ("172.16.6.129/32", "10.9.1.0/24"),
                         ("10.1.0.0/16", "10.9.0.0/24"), ("10.1.0.0/16", "10.9.1.0/24")), ""),
        ("10.9.0.0/24", (("172.16.6.129/32", "10.9.0.0/24"), ("10.1.0.0/17", "10.9.0.0/24"),
                         ("10.1.128.0/17", "10.9.0.0/24")), ""),
        # All prefixes of both ends, but not every pair of them.
        ("10.9.0.0/24", (("172.16.6.129/32", "10.9.0.0/25"), ("10.1.0.0/16", "10.9.0.128/25")),
         "172.16.6.129/32 and 10.9.0.0/24, 10.1.0.0/16 and 10.9.0.0/24"),
        ("10.9.0.0/24,10.9.8.0/24",
         (("172.16.6.129/32", "10.9.0.0/24"), ("172.16.6.129/32", "10.9.8.0/24"),
          ("10.1.0.0/16", "10.9.8.0/24")), "10.1.0.0/16 and 10.9.0.0/24"),
        # Two versions of IP share no packet.
        ("10.9.0.0/24,fd09::/64", (("172.16.6.129/32 10.1.0.0/16", "10.9.0.0/24"),
                                   ("fd01::/64", "fd09::/64")), ""),
    ],
)  # fmt: skip
def test_children_of_a_foreign_peer_are_compared_pair_by_pair(prefixes, children, lacks):
    juju, hss, mme, _ = ipsec_pair()
    own = "10.1.0.0/16" + (",fd01::/64" if ":" in prefixes else "")
    hss.configure("s6a", "172.16.6.129/24", technology="ipsec",
                  **{"underlay-interface": "ens4", "allowed-prefixes": own})  # fmt: skip
    name = laptop(hss, prefixes)
    for number, (ours, theirs) in enumerate(children, 99):
        hss.vdu.charon.sas.append(
            ModelSa(name, number, "192.0.2.9:4500", (theirs,), tuple(ours.split()))
        )
    view = looked(hss)[1]
    assert view["state"] == "up"
    reason = f"no CHILD_SA joins {lacks}: ask its owner for one for each pair of prefixes"
    assert view.get("reason", "") == (reason if lacks else "")


def test_an_association_without_a_child_is_down_with_the_last_refusal():
    juju, hss, mme, _ = ipsec_pair()
    name = laptop(hss)
    hss.vdu.charon.sas.append(ModelSa(name, 99, "192.0.2.9:4500", ()))
    status, view = looked(hss)
    assert (status.state, view["state"], view["ike"]) == ("down", "down", "established")
    assert "laptop: it proved itself, but there is no CHILD_SA" in status.reason
    why = "it asks for 10.1.0.0/24 to 172.16.6.129/32, which is not allowed here"
    noted(hss, "refused", f"s6a_{MANUAL}laptop", why)
    status, view = looked(hss)
    assert (status.state, f"laptop: {why} (" in status.reason) == ("down", True)
    assert "no handshake" not in status.reason


def test_the_last_refusal_is_the_reason_of_a_peer_that_is_down():
    juju, hss, mme, _ = ipsec_pair()
    peer = hss.plans["s6a"].peers[0]
    mme.vdu.charon.stop()
    hss.vdu.charon.sas.clear()
    mme.vdu.charon.connections.clear()
    assert looked(hss, "mme")[0].reason == "no handshake with mme"
    # The address of a caller that showed no known identity.
    noted(hss, "refused", str(peer.endpoint[0]), "it calls itself them")
    assert looked(hss, "mme")[0].reason.startswith("mme: it calls itself them (")
    noted(hss, "refused", "s6a_" + peer.name, "its certificate is revoked")
    status, view = looked(hss, "mme")
    assert status.state == view["state"] == "down"
    assert status.reason.startswith("mme: its certificate is revoked (")


@pytest.mark.parametrize(
    ("endpoint", "start", "state"),
    [("192.168.8.77:4500", "start", "down"), ("192.168.8.77:4500", "trap", "idle"),
     ("none", "start", "idle")],
)  # fmt: skip
def test_a_manual_peer_that_we_keep_calling_is_down_without_an_answer(endpoint, start, state):
    juju, hss, mme, _ = ipsec_pair(**{"ipsec-options": f"start={start}"})
    peer = {"link": "s6a", "name": "cell", "public-key": KEY, "allowed-prefixes": "172.16.6.50"}
    hss.intent = hss.intent.with_peer(manual_peer(dict(peer, endpoint=endpoint)))
    hss.reconcile()
    plan, clock = hss.plans["s6a"], juju.world.clock
    before = link_status("s6a", plan, clock, at=clock).memory
    shown = link_status("s6a", plan, clock + 30, before=before, at=clock + 30).details["peers"]
    assert {view["peer"]: view["state"] for view in shown} == {"mme": "up", "cell": state}


@pytest.mark.parametrize("text", ["[]", "{", '{"refused": {"s6a_rel-2": 5}}', '{"refused": []}'])
def test_notes_out_of_form_are_no_notes(text):
    juju, hss, mme, _ = ipsec_pair()
    hss.vdu.files[STATE] = text
    assert looked(hss, "mme")[0].reason == ""


def test_links_with_different_mtus_agree_on_that_of_the_tun_they_share():
    juju, options = Juju(), {"underlay-interface": "ens4", "technology": "ipsec"}
    roles = {"s6a": "provider", "s11": "provider"}
    one = juju.deploy("one", roles, {"ens3": "10.0.0.1/24", "ens4": "192.168.8.1/24"})
    for number, link in enumerate(roles, 6):
        one.configure(link, f"172.16.{number}.1/24", **options)
        nics = {"ens3": f"10.0.0.{number}/24", "ens4": f"192.168.8.{number}/24"}
        other = juju.deploy(link, {link: "requirer"}, nics)
        # Only the offer of this peer tells its MTU.
        mtu = {"mtu": 1300} if link == "s6a" else {}
        other.configure(link, f"172.16.{number}.2/24", **options, **mtu)
        juju.relate(link, "one", link)
    juju.settle()
    for mtu in (1300, 1280, 1400):
        juju.charms["s6a"].configure("s6a", "172.16.6.2/24", mtu=mtu, **options)
        juju.changed.add("s6a")
        juju.settle()
        assert one.reconcile() == 1
        assert [plan.steps for plan in one.plans.values()] == [(), ()]
        assert {link: plan.mtu for link, plan in one.plans.items()} == {"s6a": mtu, "s11": 1400}
        assert f"mtu {mtu}\n" in one.vdu.files[DROPIN_FILE]
        assert one.states() == {"s6a": "up", "s11": "up"}


@pytest.mark.parametrize("endpoint", ["none", "192.168.8.77:4500"])
@pytest.mark.parametrize("change", ["public-key", "allowed-prefixes"])
def test_a_manual_peer_that_is_added_again_loses_the_tunnel_of_before(endpoint, change):
    juju, hss, mme, _ = ipsec_pair()
    prefixes = "172.16.6.50,10.9.0.0/16"
    peer = {"link": "s6a", "name": "laptop", "public-key": KEY, "allowed-prefixes": prefixes}
    hss.intent = hss.intent.with_peer(manual_peer(dict(peer, endpoint=endpoint)))
    hss.reconcile()
    (name,) = [name for name in hss.vdu.charon.connections if "man-laptop" in name]
    sa = ModelSa(name, next(juju.world.serial), "192.168.8.77:4500", ("172.16.6.50/32",))
    hss.vdu.charon.sas.append(sa)
    # Other algorithms, or nothing new, interrupt nothing.
    options = {"technology": "ipsec", "underlay-interface": "ens4", "proposal": "aes128gcm-ecp256"}
    hss.configure("s6a", "172.16.6.129/24", **options)
    hss.reconcile()
    assert sa in hss.vdu.charon.sas
    peer[change] = {"public-key": KEY[:-3] + "nk=", "allowed-prefixes": "172.16.6.50"}[change]
    hss.intent = hss.intent.with_peer(manual_peer(dict(peer, endpoint=endpoint)))
    hss.reconcile()
    assert sa not in hss.vdu.charon.sas
    assert [name.partition("_")[2][:5] for name in names(hss)] == ["rel-1"]


def test_a_manual_peer_gets_a_preshared_key_encrypted_to_its_own_key():
    juju, hss, mme, _ = ipsec_pair(credentials="psk")
    wrap = "30820" + "1a2300d06092a864886f70d01010105000382018f003082018a0282018100"
    key = base64.b64encode(bytes.fromhex(wrap) + b"PRIVATE cell".ljust(389, b"=")).decode()
    peer = {"link": "s6a", "name": "cell", "public-key": key, "allowed-prefixes": "172.16.6.50"}
    hss.intent = hss.intent.with_peer(manual_peer(peer))
    hss.reconcile()
    agreed = hss.plans["s6a"].state.agreed["man-cell"]
    wrapped = agreed.wrapped
    assert agreed.identity and wrapped
    assert hss.plans["s6a"].problems == ()
    text = hss.vdu.files[CONF]
    assert "include /etc/swanctl/osm-vpnaas-s6a-man-cell.secret" in text
    secret = hss.vdu.files["/etc/osm-vpnaas/s6a/preshared-man-cell"].strip()
    assert secret not in text
    assert secret not in wrapped
    assert hss.vdu.files["/etc/swanctl/osm-vpnaas-s6a-man-cell.secret"] == f"secret = 0s{secret}\n"
    assert hss.reconcile() == 1
    assert hss.plans["s6a"].steps == ()
    assert hss.states() == mme.states() == {"s6a": "up"}
    hss.intent = hss.intent.without_peer("s6a", "cell")
    hss.reconcile()
    assert [path for path in hss.vdu.files if "man-cell" in path] == []
    assert [path for path in hss.vdu.files if path.endswith(".secret")] != []


def test_another_key_type_is_rotated_to_and_the_tunnel_stays_up():
    juju, hss, mme, _ = ipsec_pair()
    before = {charm: charm.plans["s6a"].state.public_key for charm in (hss, mme)}
    options = {"technology": "ipsec", "underlay-interface": "ens4"}
    mme.configure("s6a", "172.16.6.2/24", **options, **{"ipsec-options": "key-type=ecdsa-p256"})
    mme.reconcile()
    assert fields.ipsec_key_type(mme.plans["s6a"].state.next_public_key) == fields.P256
    assert mme.plans["s6a"].state.public_key == before[mme]
    juju.settle()
    after = {charm: charm.plans["s6a"].state.public_key for charm in (hss, mme)}
    assert fields.ipsec_key_type(after[mme]) == fields.P256
    assert after[hss] == before[hss]
    assert hss.states() == mme.states() == {"s6a": "up"}
    assert mme.reconcile() == 1
    assert mme.plans["s6a"].steps == ()


def test_a_manual_peer_with_a_key_of_the_other_technology_is_refused():
    juju, hss, mme, _ = ipsec_pair()
    key = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="
    peer = manual_peer(
        {"link": "s6a", "name": "laptop", "public-key": key, "allowed-prefixes": "172.16.6.50"}
    )
    with pytest.raises(InputError, match="IKEv2 public key"):
        hss.intent.with_peer(peer)


@pytest.mark.parametrize("first", ["hss", "mme"])
def test_a_changed_proposal_ends_no_tunnel_before_its_successor_is_there(first):
    juju, hss, mme, _ = ipsec_pair()
    charms = {"hss": hss, "mme": mme}
    proposal = "aes128gcm-ecp256"
    before = names(mme)
    order = [first, "mme" if first == "hss" else "hss"]
    for turn, name in enumerate(order):
        inner = {"hss": "172.16.6.129/24", "mme": "172.16.6.2/24"}[name]
        options = {"technology": "ipsec", "underlay-interface": "ens4", "proposal": proposal}
        charms[name].configure("s6a", inner, **options)
        for _ in range(3):
            charms[name].reconcile()
            assert juju.world.ping(hss.vdu, "172.16.6.2")
            assert juju.world.ping(mme.vdu, "172.16.6.129")
        if turn == 0:
            # The other end has not heard of it: nothing changes, and the status says who lacks it.
            assert names(mme) == before
            assert "as on this side" in charms[name].plans["s6a"].problems[0]
            juju.settle()
            assert names(mme) == before
            assert juju.world.ping(hss.vdu, "172.16.6.2")
    juju.settle()
    for _ in range(2):
        hss.reconcile(), mme.reconcile()
    assert names(mme) != before
    assert len(names(mme)) == len(names(hss)) == 1
    for charm in (hss, mme):
        (connection,) = charm.vdu.charon.connections.values()
        assert connection.proposals[0] == Proposal.parse("", proposal).ike()
        assert charm.states() == {"s6a": "up"}
    assert mme.reconcile() == 1
    assert mme.plans["s6a"].steps == ()


@pytest.mark.parametrize("weak", sorted(WEAK))
def test_weak_algorithms_are_refused_with_the_reason(weak):
    for text in (f"{weak}-sha256-curve25519", f"aes256-{weak}-curve25519", f"aes256gcm-{weak}"):
        with pytest.raises(InputError, match="too weak: " + re.escape(WEAK[weak])):
            Proposal.parse("proposal", text)


@pytest.mark.parametrize(
    ("text", "ike", "esp"),
    [
        ("auto", "aes256gcm16-prfsha384-curve25519", "aes256gcm16-curve25519-esn-noesn"),
        ("aes128gcm-ecp256", "aes128gcm16-prfsha256-ecp256", "aes128gcm16-ecp256-esn-noesn"),
        (
            "chacha20poly1305-curve448",
            "chacha20poly1305-prfsha384-curve448",
            "chacha20poly1305-curve448-esn-noesn",
        ),
        (
            "aes256-sha384-ecp521",
            "aes256-sha384-prfsha384-ecp521",
            "aes256-sha384-ecp521-esn-noesn",
        ),
        (
            "aes256gcm-curve25519-mlkem768",
            "aes256gcm16-prfsha384-curve25519-ke1_mlkem768",
            "aes256gcm16-curve25519-ke1_mlkem768-esn-noesn",
        ),
        (
            "3gpp",
            "aes256gcm16-aes128gcm16-prfsha384-prfsha256-ecp384-ecp256-modp2048, "
            "aes256-aes128-sha384-sha256-prfsha384-prfsha256-ecp384-ecp256-modp2048",
            "aes256gcm16-aes128gcm16-ecp384-ecp256-modp2048-esn-noesn, "
            "aes256-aes128-sha384-sha256-ecp384-ecp256-modp2048-esn-noesn",
        ),
    ],
)
def test_proposals_in_strongswan_s_words(text, ike, esp):
    proposal = Proposal.parse("proposal", text)
    assert (proposal.ike(), proposal.esp("auto")) == (ike, esp)


def test_the_list_of_3gpp_has_nothing_weak_but_group_14():
    proposal = Proposal.parse("proposal", "3gpp")
    words = {word for suite in proposal.ike().split(", ") for word in suite.split("-")}
    assert words & set(WEAK) == {"modp2048"}
    # AES-CBC with SHA-384: 40 + 8 + 8 + IV 16 + padding 17 + 24.
    assert proposal.overhead() == 113


@pytest.mark.parametrize(
    "text",
    [
        "aes256", "3gpp-aes256", "3GPP", "aes256gcm", "aes256-curve25519", "curve25519",
        "aes256gcm-sha256-curve25519",
        "aes256gcm-curve25519-ecp256", "aes256gcm-curve25519,3des", "AES256GCM-curve25519", "-",
        "aes256gcm-curve25519-mlkem768-mlkem768", "aes256gcm-curve25519\n",
    ],
)  # fmt: skip
def test_what_is_no_proposal_is_refused(text):
    with pytest.raises(InputError, match="proposal"):
        Proposal.parse("proposal", text)


@pytest.mark.parametrize("text", ["version=1", "ike-version=ikev1", "esn=yes,keyexchange=ikev1"])
def test_ikev1_is_refused_with_the_reason(text):
    with pytest.raises(InputError, match=r"IKEv1 is obsolete \(RFC 9395\)"):
        options("ipsec-options", text)


@pytest.mark.parametrize(
    "text",
    [
        "esn", "esn=maybe", "x=1", "esn=yes,esn=no", "dpd-delay=0", "replay-window=31", ",",
        "child-packets=1", "encap=true", "ike-rekey=1 day", "copy-dscp=", "start=always",
    ],
)  # fmt: skip
def test_options_out_of_form_are_refused(text):
    with pytest.raises(InputError, match="ipsec-options"):
        options("ipsec-options", text)


def test_options_survive_being_stored():
    text = (
        "child-mbytes=5000,child-packets=100000,child-rekey=600,copy-df=no,"
        "copy-dscp=yes,dpd-delay=30,encap=yes,esn=no,ike-rekey=3600,key-type=ecdsa-p256,mobike=yes,"
        "pool=10.60.0.0/24,replay-window=0,revocation=strict,same-address=yes,start=trap"
    )
    assert {part.partition("=")[0] for part in text.split(",")} == set(OPTIONS)
    params = link_params(
        {
            "link": "s6a",
            "inner-address": "172.16.6.2/24",
            "technology": "ipsec",
            "proposal": "aes256-sha256-ecp256",
            "ipsec-options": text,
        }
    )
    assert params.ipsec.options() == text
    assert link_params(params.to_params()) == params
    assert IpsecParams().options() == ""


def test_ipsec_links_share_one_port_and_no_other_vpn_may_have_it():
    def params(link, inner, **more):
        return link_params({"link": link, "inner-address": inner, **more})

    one = params("s6a", "172.16.6.2/24", technology="ipsec")
    assert one.listen_port == 4500
    intent = Intent().with_link(one)
    assert intent.with_link(params("s11", "172.16.1.2/24", technology="ipsec"))
    with pytest.raises(InputError, match="taken by link s6a"):
        intent.with_link(params("s11", "172.16.1.2/24", **{"listen-port": 4500}))
    with pytest.raises(InputError, match="listen-port"):
        params("s6a", "172.16.6.2/24", technology="ipsec", **{"listen-port": 500})


@pytest.mark.parametrize(
    "text",
    ["", "x", KEY[:-2] + "==", "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE", KEY + KEY, "$(id)"],
)
def test_what_is_no_public_key_is_refused(text):
    with pytest.raises(InputError, match="IKEv2 public key"):
        fields.ipsec_key("key", text)


def test_new_settings_of_the_daemon_come_into_force_also_after_a_failure():
    _, _, mme, _ = ipsec_pair()
    for path in (DAEMON_FILE, KEEPER_FILE):
        mme.vdu.files[path] = "of an earlier release"
    mme.break_off("apply/reload")
    mme.vdu.commands.clear()
    mme.reconcile()
    assert ["systemctl", "restart", "strongswan.service"] in mme.vdu.commands
    assert "charon {" in mme.vdu.files[DAEMON_FILE]


def test_an_interface_that_its_unit_made_only_half_is_made_anew():
    _, hss, _, _ = ipsec_pair()
    hss.vdu.active.remove("osm-vpnaas-ipsec@s6a.service")
    hss.reconcile()
    assert "osm-vpnaas-ipsec@s6a.service" in hss.vdu.active
    hss.vdu.commands.clear()
    assert hss.reconcile() == 1
