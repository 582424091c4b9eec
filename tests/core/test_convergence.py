"""Events in any order, repeated or lost: the VDUs end up the same."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.juju import Juju
from support.model_world import public_of
from vpnaas.vdu.programs import source

LINKS = {
    "s6a": ("hss", "mme", "172.16.6.1/24", "172.16.6.2/24"),
    "s11": ("spgwc", "mme", "172.16.1.1/24", "172.16.1.2/24"),
}
ROLES = {
    "hss": {"s6a": "provider"},
    "mme": {"s6a": "requirer", "s11": "requirer"},
    "spgwc": {"s11": "provider"},
}
NICS = {
    "hss": {"ens3": "10.0.0.1/24", "ens4": "192.168.8.1/24"},
    "mme": {"ens3": "10.0.0.2/24", "ens4": "192.168.8.2/24", "ens5": "192.168.10.2/24"},
    "spgwc": {"ens3": "10.0.0.3/24", "ens4": "192.168.10.1/24"},
}

names = st.sampled_from(sorted(ROLES))
links = st.sampled_from(sorted(LINKS))
events = st.one_of(
    st.tuples(st.just("event"), names),
    st.tuples(st.just("configure"), names),
    st.tuples(st.just("rotate"), names),
    st.tuples(st.just("reboot"), names),
    st.tuples(st.just("lose"), names),
    st.tuples(st.just("fail"), names, st.sampled_from(["apply", "promote", "genkey", "after"])),
    st.tuples(st.just("die"), names, st.integers(0, 80)),
    st.tuples(st.just("settle"), names),
    st.tuples(st.just("relate"), links),
    st.tuples(st.just("unrelate"), links),
    st.tuples(st.just("later"), st.integers(1, 500)),
)


class Epc:
    def __init__(self, preshared, technology="wireguard", **more):
        self.more = more
        self.juju = Juju()
        self.preshared = preshared
        self.technology = technology
        for name, roles in ROLES.items():
            self.juju.deploy(name, roles, NICS[name])
        self.related = {}

    def relate(self, link):
        if link not in self.related:
            provider, requirer, _, _ = LINKS[link]
            relation = self.juju.relate(link, provider, requirer)
            # Juju never gives an id twice.
            relation.id = 100 + len(self.juju.world.vdus) + next(self.juju.world.serial)
            self.related[link] = relation

    def configure(self, name):
        for link, (provider, requirer, one, two) in LINKS.items():
            if name in (provider, requirer):
                inner = one if name == provider else two
                underlay = "ens5" if (name, link) == ("mme", "s11") else "ens4"
                options = {"underlay-interface": underlay, "preshared-key": self.preshared}
                options.update(self.more)
                self.juju.charms[name].configure(link, inner, technology=self.technology, **options)

    def play(self, event):
        kind, what = event[0], event[1]
        charm = self.juju.charms.get(what)
        if kind == "event":
            charm.reconcile()
        elif kind == "configure":
            self.configure(what)
            charm.reconcile()
        elif kind == "rotate":
            charm.reconcile(rotate=frozenset(charm.intent.links))
        elif kind == "reboot":
            charm.vdu.reboot()
        elif kind == "lose":
            self.juju.changed.discard(what)
        elif kind == "fail":
            charm.vdu.fail_on = event[2]
            charm.reconcile()
            charm.vdu.fail_on = None
        elif kind == "die":
            charm.vdu.steps_left = event[2]
            charm.reconcile()
            charm.vdu.steps_left = None
        elif kind == "settle":
            self.juju.settle()
        elif kind == "relate":
            self.relate(what)
        elif kind == "unrelate" and what in self.related:
            self.juju.unrelate(self.related.pop(what))
        elif kind == "later":
            self.juju.world.clock += what

    def finish(self):
        """All is related and configured in the end, and the periodic update-status comes."""
        for link in LINKS:
            self.relate(link)
        for name in ROLES:
            self.configure(name)
        for _ in range(2):
            self.juju.changed |= set(ROLES)
            self.juju.settle()

    def shape(self):
        """The VDU state with each key replaced by whose it is."""
        owners = {}
        for name, charm in self.juju.charms.items():
            for interface, wg in charm.vdu.interfaces.items():
                owners[public_of(wg.private)] = f"{name}/{interface}"
        view = {}
        for name, charm in self.juju.charms.items():
            for interface, wg in charm.vdu.interfaces.items():
                peers = {
                    owners.get(key, "stranger"): (p.allowed, p.endpoint, p.keepalive)
                    for key, p in wg.peers.items()
                }
                view[f"{name}/{interface}"] = (wg.port, wg.mtu, wg.addresses, wg.routes, peers)
        return view


def ipsec_shape(epc):
    """The VDU state of IPsec links; keys differ from history to history, associations must be."""
    view = {}
    for name, charm in epc.juju.charms.items():
        charon = charm.vdu.charon
        assert {sa.name for sa in charon.sas} == set(charon.connections)
        assert len(charon.sas) == len(charon.connections)
        view[name] = sorted(
            (c.local_addrs, c.remote_addrs, c.local_ts, c.remote_ts)
            for c in charon.connections.values()
        )
        for interface, made in charm.vdu.plain.items():
            view[f"{name}/{interface}"] = (made.addresses, made.mtu, made.routes)
    return view


def reference(preshared, technology="wireguard", **more):
    epc = Epc(preshared, technology, **more)
    epc.finish()
    return epc.shape() if technology == "wireguard" else ipsec_shape(epc)


@pytest.mark.slow
@settings(max_examples=150)
@given(st.booleans(), st.lists(events, max_size=25))
def test_any_order_duplication_and_loss_converges(preshared, history):
    epc = Epc(preshared)
    for event in history:
        epc.play(event)
    epc.finish()
    assert epc.shape() == reference(preshared)
    for charm in epc.juju.charms.values():
        assert set(charm.states().values()) == {"up"}
        assert charm.error == ""


@settings(max_examples=100)
@given(st.booleans(), st.lists(events, max_size=25))
def test_any_order_converges_with_ipsec_as_well(preshared, history):
    epc = Epc(preshared, "ipsec")
    for event in history:
        epc.play(event)
    epc.finish()
    assert ipsec_shape(epc) == reference(preshared, "ipsec")
    for charm in epc.juju.charms.values():
        assert set(charm.states().values()) == {"up"}
        assert charm.error == ""


@settings(max_examples=25)
@given(st.booleans(), st.lists(events, max_size=25))
def test_any_order_converges_with_certificates_as_well(preshared, history):
    epc = Epc(preshared, "ipsec", credentials="cert")
    for event in history:
        epc.play(event)
    epc.finish()
    assert ipsec_shape(epc) == reference(preshared, "ipsec", credentials="cert")
    for charm in epc.juju.charms.values():
        assert set(charm.states().values()) == {"up"}
        assert charm.error == ""


def test_a_key_gets_a_certificate_again_in_the_second_in_which_its_last_one_was_revoked():
    epc = Epc(False, "ipsec", credentials="cert")
    for event in (
        ("configure", "hss"),
        ("configure", "mme"),
        ("relate", "s6a"),
        ("settle", "hss"),
        ("unrelate", "s6a"),
        ("event", "hss"),
    ):
        epc.play(event)
    epc.finish()
    for charm in epc.juju.charms.values():
        assert set(charm.states().values()) == {"up"}


@pytest.mark.slow
@settings(max_examples=100)
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "version", "technology", "inner-address", "allowed-prefixes", "mtu",
                "endpoint-address", "endpoint-port", "public-key", "key-generation",
                "next-public-key", "acknowledged-keys", "preshared-key", "wrap-key",
                "wrapped-preshared-key",
            ]
        ),
        st.one_of(
            st.text(max_size=60),
            st.sampled_from(
                ["$(reboot)", "; rm -rf /", "a\nPostUp = id", "172.16.6.1", "0.0.0.0/0", "-1", ""]
            ),
        ),
        min_size=1,
        max_size=4,
    )
)  # fmt: skip
def test_no_databag_displaces_the_tunnel_or_reaches_a_command(garbage):
    epc = Epc(False)
    epc.finish()
    hss = epc.juju.charms["hss"]
    before = epc.shape()
    relation = epc.related["s6a"]
    good = dict(relation.ends["mme"])
    relation.ends["mme"].update({"vpnaas-" + key: value for key, value in garbage.items()})
    # What is said anyway may hold a short piece of garbage by chance.
    usual = {word for command in hss.vdu.commands for word in command}
    hss.vdu.commands.clear()
    hss.reconcile()
    own = epc.shape()["hss/wg-s6a"]
    legitimate = hss.plans["s6a"].problems == ()
    if not legitimate:
        assert own == before["hss/wg-s6a"]
        for command in hss.vdu.commands:
            for value in garbage.values():
                if len(value) > 3 and value not in good.values():
                    assert not any(value in word for word in set(command) - usual), command
    for command in hss.vdu.commands:
        words = [word for word in command if word != source("echo.py")]
        assert not any("\n" in word or "$(" in word for word in words)
    # And the tunnel is as before once the peer is honest again.
    relation.ends["mme"] = good
    epc.juju.changed |= set(ROLES)
    epc.juju.settle()
    assert epc.shape() == before
