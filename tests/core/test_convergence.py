"""Events in any order, repeated or lost: the VDUs end up the same."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.epc import LINKS, ROLES, Epc
from support.plans import records
from vpnaas.vdu.programs import source

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


@cache
def reference(preshared, technology="wireguard", **more):
    epc = Epc(preshared, technology, **more)
    epc.finish()
    return epc.shape() if technology == "wireguard" else ipsec_shape(epc)


@pytest.mark.slow
@settings(max_examples=90)
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


@settings(max_examples=60)
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


@pytest.mark.slow
@settings(max_examples=60)
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


def test_the_same_histories_give_the_same_steps():
    first, second = list(records(1)), list(records(1))
    assert first == second
    # Records that are compared have the tunnels in them.
    for word in ("wg-quick@wg-s6a", "swanctl", "charon"):
        assert any(word in line for line in first)
