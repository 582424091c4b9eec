"""Preshared keys with a post-quantum half: agreement, refusal, no silent downgrade, renewal."""

import base64
import io

import pytest
from support.juju import pair
from support.model_world import public_of
from vpnaas.base.errors import InputError
from vpnaas.params.intent import link_params
from vpnaas.vdu.programs import kem

REQUIRE, PREFER = {"post-quantum": "require"}, {"post-quantum": "prefer"}


def keys(*charms):
    """Return the preshared keys in force, of each charm's only peer."""
    return [next(iter(c.interface("s6a").peers.values())).preshared for c in charms]


def ask(juju, options, *charms):
    """Configure charms that have a link, and let everybody see it."""
    for charm in charms:
        inner = {"hss": "172.16.6.129/24", "mme": "172.16.6.2/24"}[charm.name]
        charm.configure("s6a", inner, **{"underlay-interface": "ens4"}, **options)
        juju.changed.add(charm.name)
    juju.settle()


def hybrid(charm):
    (peer,) = charm.plans["s6a"].peers
    return peer.hybrid


def before_hybrid_keys(charm):
    """Make a charm one of an earlier release, which neither reads nor writes what is new."""
    reconcile = charm.reconcile
    words = ["vpnaas-" + word for word in ("post-quantum", "kem-key", "sealed-preshared-key")]

    def earlier(**options):
        (relation,) = charm.juju.relations
        other = relation.ends[relation.remote(charm.name)]
        hidden = {word: other.pop(word) for word in words if word in other}
        changed = set(charm.juju.changed)
        before = dict(relation.ends[charm.name])
        trips = reconcile(**options)
        other.update(hidden)
        own = relation.ends[charm.name]
        for word in words:
            own.pop(word, None)
        charm.juju.changed = changed | ({relation.remote(charm.name)} if own != before else set())
        return trips

    charm.reconcile = earlier


@pytest.mark.parametrize("technology", ["wireguard", "ipsec"])
@pytest.mark.parametrize("options", [REQUIRE, PREFER])
def test_both_ends_get_the_same_key_and_its_halves_stay_on_the_vdus(technology, options):
    juju, hss, mme, relation = pair(technology, **options)
    assert hss.states() == mme.states() == {"s6a": "up"}
    assert hybrid(hss) and hybrid(mme)
    (name,) = [peer.name for peer in hss.plans["s6a"].peers]
    path = f"/etc/osm-vpnaas/s6a/preshared-{name}"
    key = hss.vdu.files[path]
    assert key == mme.vdu.files[path]
    secrets = [key.strip(), mme.vdu.files["/etc/osm-vpnaas/s6a/kem.key"].strip()]
    result = "".join("".join(bag.values()) for bag in relation.ends.values())
    said = "".join(word for c in (hss, mme) for words in c.vdu.commands for word in words)
    for secret in secrets:
        assert secret not in result and secret not in said
    assert not [p for c in (hss, mme) for p in c.vdu.files if p.endswith(".part")]
    public = base64.b64decode(relation.ends["mme"]["vpnaas-kem-key"])
    sealed = base64.b64decode(relation.ends["hss"]["vpnaas-sealed-preshared-key"])
    assert (len(public), len(sealed)) == (1184, 1120)


def test_one_end_that_asks_is_enough():
    for asking in ("hss", "mme"):
        juju, hss, mme, _ = pair()
        ask(juju, REQUIRE, {"hss": hss, "mme": mme}[asking])
        assert hss.states() == mme.states() == {"s6a": "up"}
        one, two = keys(hss, mme)
        assert one == two != "" and hybrid(hss) and hybrid(mme)


@pytest.mark.parametrize("unable", ["hss", "mme"])
def test_a_vdu_without_ml_kem_is_refused_or_taken_as_the_operator_says(unable):
    for options, up in ((REQUIRE, False), (PREFER, True)):
        juju, hss, mme, relation = pair()
        {"hss": hss, "mme": mme}[unable].vdu.has_kem = False
        ask(juju, options, hss, mme)
        assert relation.ends[unable]["vpnaas-post-quantum"] == "unable"
        for charm in (hss, mme):
            (state,) = charm.states().values()
            assert (state == "up") == up
            reasons = "; ".join(charm.plans["s6a"].problems + charm.plans["s6a"].waiting)
            whose = "this VDU has no ML-KEM" if charm.name == unable else "its VDU has no ML-KEM"
            assert whose in reasons
            if not up:
                assert "allowed: ML-KEM at both ends, or post-quantum: prefer" in reasons
                assert state == "blocked" and not charm.interface("s6a").peers
        if up:
            one, two = keys(hss, mme)
            assert one == two != "" and not hybrid(hss) and not hybrid(mme)


@pytest.mark.parametrize("old", ["hss", "mme"])
def test_a_charm_of_before_hybrid_keys_is_refused_or_taken_as_the_operator_says(old):
    for options, up in ((REQUIRE, False), (PREFER, True)):
        juju, hss, mme, relation = pair()
        new = mme if old == "hss" else hss
        before_hybrid_keys({"hss": hss, "mme": mme}[old])
        ask(juju, {}, *juju.charms.values())
        ask(juju, options, new)
        new.reconcile()  # It looks again, as by update-status.
        reasons = "; ".join(new.plans["s6a"].problems + new.plans["s6a"].waiting)
        assert "its charm has no post-quantum keys" in reasons
        assert (new.states()["s6a"] == "up") == up
        assert bool(new.interface("s6a").peers) == up


def test_a_link_that_requires_it_is_never_downgraded():
    juju, hss, mme, relation = pair(**REQUIRE)
    before = keys(hss, mme)
    hss.vdu.has_kem = False
    for _ in range(3):
        hss.reconcile()
        mme.reconcile()
    # What runs stays, with the key it has; no other is agreed.
    assert keys(hss, mme) == before
    assert hss.states() == mme.states() == {"s6a": "blocked"}
    hss.vdu.has_kem = True
    juju.changed |= {"hss", "mme"}
    juju.settle()
    assert hss.states() == mme.states() == {"s6a": "up"} and keys(hss, mme) == before


def test_a_running_link_without_it_ends_where_it_is_required_and_cannot_be_had():
    juju, hss, mme, relation = pair(**{"preshared-key": True})
    mme.vdu.has_kem = False
    ask(juju, REQUIRE, hss)
    assert not hss.interface("s6a").peers
    assert hss.states() == {"s6a": "blocked"}


@pytest.mark.parametrize("end", ["hss", "mme"])
def test_a_rotation_makes_the_preshared_key_anew(end):
    juju, hss, mme, relation = pair(**REQUIRE)
    (before,) = set(keys(hss, mme))
    charm = {"hss": hss, "mme": mme}[end]
    public = public_of(charm.interface("s6a").private)
    charm.reconcile(rotate=frozenset(["s6a"]))
    juju.settle()
    (after,) = set(keys(hss, mme))
    assert after not in ("", before)
    assert public_of(charm.interface("s6a").private) != public
    assert hss.states() == mme.states() == {"s6a": "up"}
    assert hybrid(hss) and hybrid(mme)


@pytest.mark.parametrize("word", ["wrapped-preshared-key", "sealed-preshared-key"])
def test_a_forged_half_does_not_displace_the_key_in_use(word):
    juju, hss, mme, relation = pair(**REQUIRE)
    (before,) = keys(mme)
    bag = relation.ends["hss"]
    raw = bytearray(base64.b64decode(bag["vpnaas-" + word]))
    raw[7] ^= 1
    bag["vpnaas-" + word] = base64.b64encode(raw).decode()
    mme.reconcile()
    assert keys(mme) == [before]


@pytest.mark.parametrize("word", ["kem-key", "sealed-preshared-key", "post-quantum"])
def test_a_peer_that_writes_garbage_is_told_apart(word):
    juju, hss, mme, relation = pair(**REQUIRE)
    before = keys(hss, mme)
    for charm, other in ((hss, "mme"), (mme, "hss")):
        relation.ends[other]["vpnaas-" + word] = "$(reboot)"
        charm.reconcile()
        assert word in "; ".join(charm.plans["s6a"].problems)
    assert keys(hss, mme) == before


def test_without_a_vpn_there_is_no_key_to_protect():
    with pytest.raises(InputError, match="post-quantum.*technology none has no keys"):
        link_params({"link": "s6a", "technology": "none", "inner-address": "172.16.6.2/24",
                     **PREFER})  # fmt: skip
    with pytest.raises(InputError, match="post-quantum.*prefer"):
        link_params({"link": "s6a", "inner-address": "172.16.6.2/24", "post-quantum": "yes"})


def test_the_key_depends_on_both_halves_and_on_what_was_sent():
    one, two = bytes(32), bytes([1]) * 32
    made = kem.combine((one, two), b"public", b"cipher", b"wrapped")
    assert len(made) == 64
    others = [
        kem.combine(*words)
        for words in (
            ((two, two), b"public", b"cipher", b"wrapped"),
            ((one, one), b"public", b"cipher", b"wrapped"),
            ((one, two), b"Public", b"cipher", b"wrapped"),
            ((one, two), b"public", b"Cipher", b"wrapped"),
            ((one, two), b"public", b"cipher", b"Wrapped"),
        )
    ]
    assert len({made[:32], made[32:], *(other[:32] for other in others)}) == 7


def test_what_was_sealed_to_another_key_is_not_opened(tmp_path, capsys):
    mlkem = kem.library()
    key, other, part, wrapped, sealed, new = (str(tmp_path / str(n)) for n in range(6))
    (tmp_path / "2").write_text(base64.b64encode(bytes(32)).decode() + "\n")
    (tmp_path / "3").write_bytes(b"ciphertext")
    assert kem.main(["public", key], io.StringIO(), mlkem) == 0
    public = capsys.readouterr().out
    kem.main(["public", other], io.StringIO(), mlkem)
    kem.main(["seal", part, wrapped, sealed, new], io.StringIO(public), mlkem)
    made = (tmp_path / "5").read_text()
    (tmp_path / "5").unlink()
    text = (tmp_path / "4").read_text()
    with pytest.raises(ValueError, match="another key"):
        kem.main(["open", other, part, wrapped, new], io.StringIO(text), mlkem)
    assert not (tmp_path / "5").exists()
    kem.main(["open", key, part, wrapped, new], io.StringIO(text), mlkem)
    assert (tmp_path / "5").read_text() == made
    assert (tmp_path / "0").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "5").stat().st_mode & 0o777 == 0o600
