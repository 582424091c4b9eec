"""Certificates behind the same link model: made, renewed, refused, revoked, in any order."""

import base64
import datetime
import io
import subprocess
import time

import attr
import pytest
from cryptography import x509 as real
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID
from helm_ee import offers
from hypothesis import given, settings
from hypothesis import strategies as st
from support import authority as made
from support.ends_certs import Operator, b64, do, strange_key
from support.juju import pair
from vpnaas.base import x509
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.features.certificate_actions import keys_of
from vpnaas.params.intent import Intent, manual_peer
from vpnaas.peers.inputs import CharmState
from vpnaas.peers.offer import Remote
from vpnaas.status import link_status
from vpnaas.tunnels.ipsec import certificates
from vpnaas.tunnels.ipsec.names import CERTIFICATE, CHAIN, NEXT_CERTIFICATE, TRUST
from vpnaas.vdu.programs import ipsec
from vpnaas.vdu.programs.ipsec import sections
from vpnaas.vdu.steps import Results

pytestmark = pytest.mark.slow

CONF = "/etc/swanctl/conf.d/osm-vpnaas-s6a.conf"
REQUEST = "/etc/osm-vpnaas/s6a/request.pem"
KEY = "MCowBQYDK2VwAyEAZXzl4qop5ouc36kXfoFNKd0SsGngWfeugKTbEYz1vng="
MONTH = 2592000
WEAK = rsa.generate_private_key(65537, 1024)  # noqa: S505


def operated():
    juju, hss, mme, relation = pair("ipsec", credentials="cert-external")
    operator = Operator()
    for serial, charm in (("0102", hss), ("0103", mme)):
        charm.reconcile()
        operator.bring(charm, operator.sign(charm, serial=serial))
    juju.settle()
    hss.reconcile(), mme.reconcile()
    return juju, hss, mme, operator


def held(charm):
    return charm.plans["s6a"].state.held


def test_a_clock_outside_a_certificates_life_is_told():
    juju, hss, mme, _ = operated()
    assert mme.plans["s6a"].waiting == ()
    juju.world.clock += 4 * MONTH
    mme.reconcile()
    (text,) = [each for each in mme.plans["s6a"].waiting if "clock" in each]
    assert text.startswith("the clock of this VDU shows 1970-")
    # What runs is not touched.
    assert mme.states() == {"s6a": "up"}


def revoke(charm, label):
    remotes = {}
    for relation in charm.juju.relations:
        bag = relation.ends[label]
        remotes["s6a"] = (Remote.read(relation.id, label, bag),)
    charm_state = CharmState(intent=charm.intent, roles=charm.roles, remotes=remotes)
    keys = keys_of(charm_state, "s6a", label)
    charm.intent = charm.intent.with_revoked("s6a", keys)
    charm.intent = Intent.from_json(charm.intent.to_json())  # As it persists.
    charm.reconcile()


@pytest.mark.parametrize("technology", ["ipsec", "wireguard"])
def test_a_revoked_peer_is_off_at_once_and_comes_back_with_another_key_only(technology):
    juju, hss, mme, _ = pair(technology)
    mme.reconcile()
    stolen = mme.plans["s6a"].state.public_key
    revoke(hss, "mme")
    assert hss.plans["s6a"].peers == ()
    assert hss.vdu.charon.sas == []
    assert hss.vdu.charon.connections == {}
    assert all(not interface.peers for interface in hss.vdu.interfaces.values())
    assert "its key was revoked" in hss.plans["s6a"].waiting[0]
    juju.changed |= {"hss", "mme"}
    juju.settle()
    assert hss.plans["s6a"].peers == ()
    # What the revoked end says, sends its operator to the end that knows why.
    problems = link_status("s6a", mme.plans.get("s6a"), juju.world.clock)
    if technology == "ipsec":
        assert problems.state == "pending"
        assert problems.reason == "waiting for hss to confirm our key; see its status"
    else:  # the last handshake is recent enough still
        assert problems.state == "up"
    mme.reconcile(rotate=frozenset(["s6a"]))
    juju.settle()
    mme.reconcile(), hss.reconcile()
    assert mme.plans["s6a"].state.public_key != stolen
    assert hss.states() == mme.states() == {"s6a": "up"}


def test_a_revoked_peer_comes_back_with_a_certificate_of_another_key():
    juju, hss, mme, operator = operated()
    revoke(hss, "mme")
    juju.settle()
    assert hss.plans["s6a"].peers == ()
    mme.reconcile(rotate=frozenset(["s6a"])), mme.reconcile()
    operator.bring(mme, operator.sign(mme, "next-request", serial="0104"))
    for _ in range(2):
        juju.changed |= {"hss", "mme"}
        juju.settle()
    assert hss.states() == mme.states() == {"s6a": "up"}
    assert held(mme).own.serial == "0104"


@pytest.mark.parametrize("technology", ["ipsec", "wireguard"])
def test_a_revoked_key_does_not_come_back_as_the_next_one(technology):
    juju, hss, mme, relation = pair(technology)
    mme.reconcile()
    stolen = mme.plans["s6a"].state.public_key
    revoke(hss, "mme")
    mme.reconcile(rotate=frozenset(["s6a"]))
    juju.settle()
    relation.ends["mme"]["vpnaas-next-public-key"] = stolen
    hss.reconcile()
    (peer,) = hss.plans["s6a"].peers
    assert stolen not in peer.public_keys()
    assert stolen not in relation.ends["hss"]["vpnaas-acknowledged-keys"]


def test_a_link_that_is_switched_off_trusts_no_authority():
    _, hss, mme, _ = operated()
    foreign = "/etc/swanctl/x509ca/operator.pem"
    mme.vdu.files[foreign] = "of the operator"
    for charm in (hss, mme):
        assert [path for path in charm.vdu.files if "x509ca/osm-vpnaas" in path]
        charm.vdu.files[CHAIN.format("s6a", 0)] = "of an operator's intermediate authority"
        charm.configure("s6a", "none")
        charm.reconcile()
        assert not [path for path in charm.vdu.files if "x509ca/osm-vpnaas" in path]
    assert foreign in mme.vdu.files


# -- hostile data ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("credentials", "whose", "cleared"),
    [("pubkey", "peer", True), ("pubkey", "another", False), ("cert-external", "peer", False)],
)
def test_charon_forgets_a_certificate_of_a_key_that_a_peer_uses_without_it(
    monkeypatch, credentials, whose, cleared
):
    made_pair = operated() if credentials == "cert-external" else pair("ipsec")
    _, hss, mme, _ = made_pair
    keys = {"peer": base64.b64decode(mme.plans["s6a"].state.public_key), "another": None}
    data = base64.b64decode(stranger(key=keys[whose])).hex()
    listing = "list-cert event {type=X509 flag=NONE data=0x" + data + "}"
    calls = []

    def no_daemon():
        raise OSError

    monkeypatch.setattr(ipsec, "open", lambda _: io.StringIO(hss.vdu.files[CONF]), raising=False)
    monkeypatch.setattr(ipsec, "swanctl", lambda *_: listing)
    monkeypatch.setattr(ipsec, "Daemon", no_daemon)
    monkeypatch.setattr(subprocess, "call", lambda words: calls.append(words[1:]) or 0)
    ipsec.load(["s6a"])
    clear, connections = ["--load-creds", "--noprompt", "--clear"], ["--load-conns"]
    assert calls == [*([clear, connections] if cleared else []), connections]


def real_request(key, digest=None, common="x"):
    name = real.Name([real.NameAttribute(NameOID.COMMON_NAME, common)])
    built = real.CertificateSigningRequestBuilder().subject_name(name).sign(key, digest)
    return base64.b64encode(built.public_bytes(serialization.Encoding.DER)).decode()


def without_checks(charm):
    """Return the files of a VDU but those openssl was asked about."""
    return {path: text for path, text in charm.vdu.files.items() if "/check" not in path}


def stranger(serial="0105", authority=False, names=(), key=None, span=None):
    """Return a certificate of an authority nobody knows."""
    return b64(
        made.certificate(
            strange_key("stranger"), "stranger", "stranger", key or strange_key("stranger"),
            serial, span or (0, 2_000_000), names, authority,
        )
    )  # fmt: skip


def proving(charm, issuer):
    """Return a certificate of a charm's key and identity that names an issuer who did not sign."""
    state = charm.plans["s6a"].state
    key, names = base64.b64decode(state.public_key), (state.identity,)
    signer = strange_key("forger")
    return b64(made.certificate(signer, issuer, state.identity, key, "0107", (0, 2_000_000), names))


@pytest.mark.parametrize(
    ("field", "change", "reason"),
    [
        ("certificate", lambda h, m: "MIIB", "not a certificate"),
        ("certificate", lambda h, m: proving(h, "stranger"), "another authority issued it"),
        ("certificate", lambda h, m: proving(h, "operator"), "openssl says"),
        ("intermediate-certificates", lambda h, m: "MIIB", "not a certificate"),
        ("certificate", lambda h, m: stranger(), "it is for another key"),
        (
            "certificate",
            lambda h, m: stranger(
                key=base64.b64decode(h.plans["s6a"].state.public_key), names=("somebody",)
            ),
            "it names 'somebody'",
        ),
    ],
)
def test_a_hostile_certificate_cannot_displace_what_runs(field, change, reason):
    juju, hss, mme, _ = operated()
    (relation,) = juju.relations
    (before,) = mme.vdu.charon.sas
    files = without_checks(mme)
    relation.ends["hss"]["vpnaas-" + field] = change(hss, mme)
    mme.reconcile()
    assert mme.error == ""
    assert any(reason in problem for problem in mme.plans["s6a"].problems)
    assert mme.vdu.charon.sas == [before]
    assert without_checks(mme) == files


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.dictionaries(
        st.sampled_from(
            ["certificate", "next-certificate", "intermediate-certificates", "public-key",
             "next-public-key", "ike-identity", "acknowledged-keys"]
        ),
        st.one_of(
            st.text(max_size=60),
            st.binary(max_size=80).map(lambda raw: base64.b64encode(raw).decode()),
            st.sampled_from([stranger(), stranger(authority=True), "", "$(reboot)",
                             b64(made.request(strange_key("a"), "a"))]),
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(["hss", "mme"]),
)  # fmt: skip
def test_no_databag_displaces_the_tunnel_or_stays(garbage, writer):
    juju, hss, mme, _ = operated()
    (relation,) = juju.relations
    reader = juju.charms[relation.remote(writer)]
    good = dict(relation.ends[writer])
    relation.ends[writer].update({"vpnaas-" + key: value for key, value in garbage.items()})
    reader.vdu.commands.clear()
    reader.reconcile()
    assert reader.error == ""
    for command in reader.vdu.commands:
        assert not any("\n" in word or "$(" in word for word in command)
    relation.ends[writer] = good
    juju.world.clock += 1
    for _ in range(2):
        juju.changed |= {"hss", "mme"}
        juju.settle()
    assert hss.states() == mme.states() == {"s6a": "up"}


# -- certificates of an operator ------------------------------------------------------------------


def test_links_wait_for_the_operators_certificates_and_come_up_with_them():
    juju, hss, mme, _ = pair("ipsec", credentials="cert-external")
    assert hss.states() == {"s6a": "waiting"}
    assert "see show-csr" in hss.plans["s6a"].waiting[0]
    juju, hss, mme, _ = operated()
    assert hss.states() == mme.states() == {"s6a": "up"}
    assert mme.reconcile() == 1
    assert mme.plans["s6a"].steps == ()


@pytest.mark.parametrize(
    ("bring", "reason"),
    [
        (lambda o, h, m: (o.sign(h), o.root), "it is for another key"),
        (lambda o, h, m: (o.sign(m, names=("x",)), o.root), "it names 'x'"),
        (lambda o, h, m: (o.sign(m, span=(0, 10)), o.root), "it is valid from 1970-01-01"),
        (lambda o, h, m: (o.sign(m), Operator("wrong").root), "another authority issued it"),
        (lambda o, h, m: (o.sign(m), Operator(seed="forger").root), "openssl says"),
        (lambda o, h, m: (o.sign(m), o.sign(m)), "its key may not sign certificates"),
        (lambda o, h, m: ("MIIB", o.root), "not a certificate"),
        (lambda o, h, m: ("A" * 6001, o.root), "6001 characters are too many"),
        (lambda o, h, m: (h.vdu.files[REQUEST], o.root), "it is a certificate request"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(bring, reason):
    juju, hss, mme, operator = operated()
    files = without_checks(mme)
    (before,) = mme.vdu.charon.sas
    with pytest.raises(VpnaasError, match=reason):
        operator.bring(mme, *bring(operator, hss, mme))
    assert mme.vdu.charon.sas == [before]
    assert without_checks(mme) == files
    mme.reconcile()
    assert mme.states() == {"s6a": "up"}


def test_a_staged_key_waits_for_the_operators_certificate():
    juju, hss, mme, operator = operated()
    key = mme.plans["s6a"].state.public_key
    mme.reconcile(rotate=frozenset(["s6a"]))
    juju.settle()
    mme.reconcile()
    assert "set-certificate" in mme.plans["s6a"].waiting[0]
    assert mme.plans["s6a"].state.public_key == key
    operator.bring(mme, operator.sign(mme, "next-request", serial="0104"))
    assert mme.plans["s6a"].state.public_key == key  # The peer does not know it yet.
    juju.settle()
    mme.reconcile(), hss.reconcile()
    assert mme.plans["s6a"].state.public_key != key
    assert hss.states() == mme.states() == {"s6a": "up"}
    assert len(mme.vdu.charon.sas) == 1


PROMOTION = ["promote/move", "promote/generation", "promote/request", "promote/certificate"]


@pytest.mark.parametrize("step", [*PROMOTION, "apply/load", "wake"])
def test_a_promotion_that_fails_goes_on_with_the_next_reconcile(step):
    juju, hss, mme, operator = operated()
    key = mme.plans["s6a"].state.public_key
    mme.reconcile(rotate=frozenset(["s6a"]))
    juju.settle()
    mme.reconcile()
    operator.bring(mme, operator.sign(mme, "next-request", serial="0104"))
    hss.reconcile(), hss.reconcile()
    mme.break_off(step)
    mme.reconcile()
    assert mme.error == ""
    assert mme.states() == {"s6a": "up"}
    juju.settle()
    hss.reconcile(), mme.reconcile()
    assert mme.plans["s6a"].state.public_key != key
    assert hss.states() == mme.states() == {"s6a": "up"}
    assert held(mme).own.serial == "0104"
    assert len(mme.vdu.charon.sas) == 1


CELL = {
    "link": "s6a", "name": "cell", "public-key": "certificate", "ike-identity": "enb1.ran.example",
    "allowed-prefixes": "172.16.6.50",
}  # fmt: skip


def test_a_manual_peer_is_proved_by_a_certificate_of_the_operators_authority():
    juju, hss, mme, operator = operated()
    hss.intent = hss.intent.with_peer(manual_peer(CELL))
    assert Intent.from_json(hss.intent.to_json()) == hss.intent
    hss.reconcile()
    (section,) = [
        section
        for name, section in sections(hss.vdu.files[CONF])["connections"].items()
        if name.startswith("s6a_man-cell_")
    ]
    assert section["remote"] == {
        "auth": "pubkey",
        "id": "@enb1.ran.example",
        "cacerts": TRUST.format("s6a"),
        "revocation": "relaxed",
    }
    assert hss.plans["s6a"].problems == ()
    assert hss.reconcile() == 1
    assert hss.plans["s6a"].steps == ()


def test_a_brought_certificate_is_on_the_vdu_before_its_key_is_in_use():
    juju, hss, mme, operator = operated()
    mme.intent = mme.intent.with_peer(manual_peer(CELL))
    juju.unrelate(juju.relations[0])
    mme.reconcile(rotate=frozenset(["s6a"])), mme.reconcile()
    mme.vdu.fail_on = "promote/generation"
    operator.bring(mme, operator.sign(mme, "next-request", serial="0104"))
    assert "promote/generation" in mme.error
    mme.vdu.fail_on = None
    mme.reconcile()
    assert [peer.label for peer in mme.plans["s6a"].peers] == ["cell"]
    mme.reconcile()
    assert held(mme).own.serial == "0104"


def test_a_manual_peer_waits_for_our_own_certificate():
    juju, hss, mme, _ = pair("ipsec", credentials="cert-external")
    hss.intent = hss.intent.with_peer(manual_peer(CELL))
    hss.reconcile()
    reasons = " ".join(hss.plans["s6a"].waiting)
    assert "cell: waiting for our certificate, see show-csr and set-certificate" in reasons


@pytest.mark.parametrize(
    ("credentials", "key", "sentence"),
    [
        ("cert-external", KEY, "public-key: s6a has credentials cert-external; allowed: certif"),
        ("pubkey", "certificate", "public-key: s6a has credentials pubkey; allowed: the public"),
        ("psk", KEY, "public-key: s6a has credentials psk; allowed: an RSA key of 3072 bits"),
    ],
)
def test_a_manual_peer_proves_itself_as_the_link_wants(credentials, key, sentence):
    juju, hss, mme, _ = pair("ipsec", credentials=credentials)
    with pytest.raises(InputError, match=sentence):
        hss.intent.with_peer(manual_peer({**CELL, "public-key": key}))


def test_an_identity_that_is_none_is_refused():
    with pytest.raises(InputError, match="ike-identity: '@enb1' is not an IKE identity"):
        manual_peer({**CELL, "ike-identity": "@enb1"})


# -- reading ---------------------------------------------------------------------------------------


def real_certificate(key, digest, **options):
    name = real.Name([real.NameAttribute(NameOID.COMMON_NAME, "ca")])
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    built = (
        real.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(options.get("serial", 4711))
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=options.get("days", 30)))
        .add_extension(real.BasicConstraints(True, None), critical=True)
        .add_extension(real.SubjectAlternativeName([real.DNSName("a.b"), real.DNSName("c")]), False)
        .sign(key, digest)
    )
    return built, built.public_bytes(serialization.Encoding.PEM).decode()


@pytest.mark.parametrize(
    ("key", "digest"),
    [
        (ed25519.Ed25519PrivateKey.generate(), None),
        (ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()),
        (ec.generate_private_key(ec.SECP384R1()), hashes.SHA384()),
        (rsa.generate_private_key(65537, 2048), hashes.SHA256()),
    ],
    ids=["ed25519", "p256", "p384", "rsa2048"],
)
@pytest.mark.parametrize("days", [30, 30 * 365])
def test_real_certificates_are_read_as_another_library_reads_them(key, digest, days):
    built, pem = real_certificate(key, digest, days=days)
    found = x509.authority("here", pem)
    assert found.serial == f"{built.serial_number:04x}"
    assert found.begins == built.not_valid_before_utc.timestamp()
    assert found.ends == built.not_valid_after_utc.timestamp()
    assert found.names == ("a.b", "c")
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    assert found.key == base64.b64encode(public).decode()
    # OSM may make one line of several.
    assert x509.certificate("here", pem.replace("\n", " ")) == found
    assert x509.certificate("here", found.text) == found
    request = x509.request("here", real_request(key, digest, "gw-1.example"))
    assert (request.key, request.name) == (found.key, "gw-1.example")


@pytest.mark.parametrize(
    ("key", "digest", "change", "reason"),
    [
        (WEAK, hashes.SHA256(), (b"", b""), "1024 bits is too weak"),
        # sha256WithRSAEncryption, and with SHA-1
        (rsa.generate_private_key(65537, 2048), hashes.SHA256(),
         (bytes.fromhex("2a864886f70d01010b"), bytes.fromhex("2a864886f70d010105")),
         "its signature is of an unknown or weak kind"),
        (ec.generate_private_key(ec.SECP192R1()), hashes.SHA256(), (b"", b""),
         "its key is of an unknown or weak kind"),
    ],
    ids=["rsa1024", "sha1", "p192"],
)  # fmt: skip
def test_weak_certificates_are_refused(key, digest, change, reason):
    _, pem = real_certificate(key, digest)
    raw = made.raw(pem).replace(*change)
    with pytest.raises(InputError, match=reason):
        x509.certificate("here", base64.b64encode(raw).decode())


GOOD = made.raw(real_certificate(ed25519.Ed25519PrivateKey.generate(), None)[1])
ASKED = base64.b64decode(real_request(ed25519.Ed25519PrivateKey.generate(), None, "x"))


@settings(max_examples=300)
@given(st.data())
def test_spoilt_certificates_and_requests_are_refused_or_read_never_anything_else(data):
    for parse, good in ((x509.certificate, GOOD), (x509.request, ASKED)):
        spoilt = bytearray(good)
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(0, len(spoilt) - 1))
            spoilt[at] = data.draw(st.integers(0, 255))
        cut = bytes(spoilt[: data.draw(st.integers(1, len(spoilt)))])
        try:
            found = parse("here", base64.b64encode(cut).decode())
        except InputError as error:
            assert str(error).startswith("here")
            continue
        assert base64.b64decode(found.text) == cut


@settings(max_examples=200)
@given(st.binary(min_size=1, max_size=200))
def test_bytes_that_are_no_certificate_are_refused(raw):
    for parse in (x509.certificate, x509.request):
        with pytest.raises(InputError, match="here"):
            parse("here", base64.b64encode(raw).decode())


def issued(subject, key, issuer, signer, *, authority=True, days=30, named=True):
    """Return a certificate; `named` with both keys, as RFC 5280 asks of authorities."""
    now = datetime.datetime.now(datetime.UTC)
    name = [real.Name([real.NameAttribute(NameOID.COMMON_NAME, n)]) for n in (subject, issuer)]
    signed_by = real.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    built = (
        real.CertificateBuilder()
        .subject_name(name[0])
        .issuer_name(name[1])
        .public_key(key.public_key())
        .serial_number(real.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(real.BasicConstraints(authority, None), critical=True)
    )
    if named:
        own = real.SubjectKeyIdentifier.from_public_key(key.public_key())
        built = built.add_extension(own, False).add_extension(signed_by, False)
    made = built.sign(signer, None)
    return x509.certificate("", made.public_bytes(serialization.Encoding.PEM).decode())


@pytest.mark.parametrize("turned", [1, -1])
@pytest.mark.parametrize("days", [20, 40])
def test_of_authorities_with_one_name_the_one_on_the_way_to_the_root_counts(turned, days, tmp_path):
    root_key, other_key, key, later_key, leaf_key = (
        ed25519.Ed25519PrivateKey.generate() for _ in range(5)
    )
    root = issued("root", root_key, "root", root_key)
    ours = issued("between", key, "root", root_key)
    crossed = issued("between", key, "other", other_key, days=days)
    renewed = issued("between", later_key, "root", root_key, days=days)
    leaf = issued("leaf", leaf_key, "between", key, authority=False)
    (tmp_path / "vdu/own/s6a").mkdir(parents=True)
    for others in ([ours, crossed], [ours, renewed], [crossed, ours, renewed]):
        assert x509.path_to(root, leaf, others[::turned]) == (ours,)
        steps = certificates._check("s6a", leaf.text, root, others[::turned])
        results = Results(do(tmp_path, "vdu", steps))
        assert results.exit_code(steps[-1].id) == 0, results.error(steps[-1].id)
    assert x509.path_to(root, leaf, [crossed, renewed]) is None
    assert x509.path_to(issued("root", key, "root", key), leaf, [ours]) is None


@pytest.mark.parametrize("turned", [1, -1])
@pytest.mark.parametrize("days", [20, 30, 40])
def test_of_authorities_made_anew_without_identifiers_those_that_signed_count(turned, days):
    """An authority is made anew by the same lines of openssl, so all names stay."""
    old, new = ([ed25519.Ed25519PrivateKey.generate() for _ in range(4)] for _ in range(2))

    def chain(keys, days):
        names = ("root", "policy", "between", "leaf")
        return [
            issued(name, keys[n], names[max(n - 1, 0)], keys[max(n - 1, 0)], days=days, named=False)
            for n, name in enumerate(names)
        ]

    former, current = chain(old, days), chain(new, 30)
    # The new root also certifies an authority that stayed.
    crossed = issued("policy", old[1], "root", new[0], days=25, named=False)
    others = [*former[1:3], *current[1:3], crossed][::turned]
    assert x509.path_to(current[0], current[3], others) == (current[2], current[1])
    assert x509.path_to(former[0], former[3], others) == (former[2], former[1])
    assert x509.path_to(current[0], former[3], others) == (former[2], crossed)


def test_many_authorities_of_one_name_cost_no_time_and_a_path_has_a_limit():
    key = [ed25519.Ed25519PrivateKey.generate() for _ in range(5)]
    root, far = (issued(name, key[0], name, key[0]) for name in ("0", "x"))
    chain = [issued(f"{n}", key[n], f"{n - 1}", key[n - 1]) for n in range(1, 5)]
    *between, leaf = chain
    assert x509.path_to(root, leaf, between) == tuple(between[::-1])
    assert x509.path_to(root, issued("5", key[0], "4", key[4]), chain) is None
    same = issued("x", key[0], "x", key[0])
    hostile = [attr.evolve(same, text=f"{n}") for n in range(1000)]
    started = time.process_time()
    assert x509.path_to(root, far, hostile) is None
    assert time.process_time() - started < 5


def test_files_of_links_do_not_collide():
    names = {CERTIFICATE.format("a"), NEXT_CERTIFICATE.format("a")}
    names |= {TRUST.format("a"), certificates.pin_file("a", "key")}
    assert len(names) == 4


def test_a_chain_of_certificates_passes_between_pods():
    bag = {"vpnaas-intermediate-certificates": "A" * 8402}
    relation = offers.Relation("s6a", "2", "s6a")
    document = offers.Document("1", {relation: bag})
    assert offers.decode("hss", offers.encode(document)) == document
    for most, wrong in (
        (offers.MAX_VALUE, "the data of a relation are not texts"),
        (offers.MAX_DOCUMENT, "it is too long"),
    ):
        bag["vpnaas-intermediate-certificates"] = "A" * (most + 1)
        with pytest.raises(InputError, match=wrong):
            offers.decode("hss", offers.encode(document))
