"""Certificates by EST: what a link does with them, and the messages of a server."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509 as real
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from support import authority as made
from support.ends_certs import do, moved
from support.juju import pair
from support.model_world import spki
from support.operator_ca import KEY, Authority
from support.ports import free_port
from support.waiting import listens, wait_until
from vpnaas.base import x509
from vpnaas.base.errors import InputError
from vpnaas.features.certificate_actions import given
from vpnaas.params.servers import Enrolment
from vpnaas.peers.offer import decode
from vpnaas.tunnels.ipsec import names, servers
from vpnaas.tunnels.ipsec.names import (
    CERTIFICATE,
    ENROLLED_CERTIFICATE,
    ENROLLED_CHAIN,
    NEXT_KEY,
    NEXT_REQUEST,
    REQUEST,
)
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import Results

pytestmark = pytest.mark.slow

LINK = "s6a"
SPAN = (0, 9_000_000)
OPTIONS = {"ipsec-options": "key-type=ecdsa-p256"}


def key(word: str) -> bytes:
    return spki("ED25519 " + base64.b64encode(word.encode()).decode())


class Ca:
    """An operator's root, an issuing authority below it, and its server of EST, in the model."""

    def __init__(self) -> None:
        self.root = made.certificate(key("op"), "op", "op", key("op"), "01", SPAN, authority=True)
        self.asked: list[str] = []
        self.refuses, self.span, self.serial = "", SPAN, 0x0200
        self.below("one")

    def below(self, name: str) -> None:
        self.name, self.signer = name, key(name)
        self.issuing = made.certificate(
            key("op"), "op", name, self.signer, "02", SPAN, authority=True
        )

    def __call__(self, vdu, words):
        operation, _, root, certificate, private, request, out, chain = words
        self.asked.append(operation)
        if self.refuses:
            return 1, "", self.refuses
        first = (servers.VENDOR_CERTIFICATE, servers.VENDOR_KEY)
        again = (CERTIFICATE.format(LINK), names.KEY.format(LINK))
        assert (certificate, private) == (first if operation == "simpleenroll" else again)
        assert vdu.files[root] == x509.certificate("", self.root).pem
        asked = x509.request("", vdu.files[request])
        self.serial += 1
        vdu.files[out] = made.certificate(
            self.signer, self.name, asked.name, base64.b64decode(asked.key),
            f"{self.serial:04x}", self.span, (asked.name,),
        )  # fmt: skip
        vdu.files[chain] = self.issuing + self.root
        return 0, "", ""

    @property
    def enrolment(self) -> Enrolment:
        return Enrolment.parse({"server": "ca.example:8443", "ca-certificate": self.root})


def enrolled(ca: Ca):
    juju, hss, mme, _ = pair("ipsec", credentials="est", **OPTIONS)
    juju.world.est = ca
    for charm in (hss, mme):
        charm.intent = charm.intent.with_enrolment(LINK, ca.enrolment)
    around(juju, hss, mme)
    return juju, hss, mme


def around(juju, *charms, times: int = 3) -> None:
    for _ in range(times):
        for charm in charms:
            charm.reconcile()
        juju.settle()


def installed(vdu) -> list[str]:
    """Return the names of the intermediate authorities that strongSwan has."""
    files = [text for path, text in sorted(vdu.files.items()) if "-chain-" in path]
    return [made.common_of(text) for text in files]


def test_both_ends_enrol_and_come_up_with_an_intermediate_authority():
    ca = Ca()
    juju, hss, mme = enrolled(ca)
    assert ca.asked == ["simpleenroll"] * 2
    assert hss.states() == mme.states() == {LINK: "up"}
    assert installed(hss.vdu) == installed(mme.vdu) == ["one"]
    assert mme.reconcile() == 1
    assert mme.plans[LINK].steps == ()
    assert ca.asked == ["simpleenroll"] * 2


def test_renewal_changes_the_issuing_authority_and_the_tunnel_stays_up():
    ca = Ca()
    ca.span = (900_000, 1_300_000)
    juju, hss, mme = enrolled(ca)
    before = mme.plans[LINK].state.public_key
    juju.world.clock = 1_200_000
    ca.refuses = "[Errno 111] Connection refused\n"
    mme.reconcile(), mme.reconcile()
    reasons = " ".join(mme.plans[LINK].waiting)
    assert "waits for a certificate by EST: the EST server gave none: [Errno 111] Conn" in reasons
    ca.refuses, ca.asked = "", ca.asked[:2]
    ca.span = (1_100_000, 2_000_000)
    ca.below("two")
    for _ in range(4):
        around(juju, mme, hss, times=1)
        assert juju.world.ping(mme.vdu, "172.16.6.129")
    assert set(ca.asked[2:]) == {"simplereenroll"}
    assert mme.plans[LINK].state.public_key != before
    assert hss.states() == mme.states() == {LINK: "up"}
    assert installed(hss.vdu) == installed(mme.vdu) == ["two"]
    assert NEXT_KEY.format(LINK) not in mme.vdu.files


@pytest.mark.parametrize("name", ["one", "two"])
def test_a_peer_whose_chain_does_not_lead_to_our_root_is_refused(name: str):
    ca, other = Ca(), Ca()
    other.root = made.certificate(key("x"), "x", "x", key("x"), "01", SPAN, authority=True)
    other.name, other.signer = name, key("other")
    other.issuing = made.certificate(key("x"), "x", name, key("other"), "02", SPAN, authority=True)
    juju, hss, mme, _ = pair("ipsec", credentials="est", **OPTIONS)
    for charm, whose in ((hss, ca), (mme, other)):
        juju.world.est = whose
        charm.intent = charm.intent.with_enrolment(LINK, whose.enrolment)
        charm.reconcile()
    juju.world.est = lambda vdu, words: (ca if vdu is hss.vdu else other)(vdu, words)
    around(juju, hss, mme)
    assert hss.states() != {LINK: "up"}
    assert "certificate" in hss.plans[LINK].problems[0]
    assert hss.vdu.charon.sas == []


@pytest.mark.parametrize(("word", "line"), [("", "relaxed"), (",revocation=strict", "strict")])
def test_the_operator_says_whether_revocation_must_be_known(word, line):
    ca = Ca()
    juju, hss, mme, _ = pair("ipsec", credentials="est", **{
        "ipsec-options": "key-type=ecdsa-p256" + word
    })  # fmt: skip
    juju.world.est = ca
    for charm in (hss, mme):
        charm.intent = charm.intent.with_enrolment(LINK, ca.enrolment)
    around(juju, hss, mme, times=2)
    assert f"revocation = {line}\n" in mme.vdu.files["/etc/swanctl/conf.d/osm-vpnaas-s6a.conf"]


@pytest.mark.parametrize(
    ("chain", "problem"),
    [
        ("MIIB", "intermediate-certificates: not a certificate"),
        (None, "7 are too many; allowed: 6"),
    ],
)
def test_a_chain_out_of_form_is_refused_and_the_tunnel_stays(chain, problem):
    ca = Ca()
    juju, hss, mme = enrolled(ca)
    (before,) = hss.vdu.charon.sas
    (relation,) = juju.relations
    text = x509.certificate("", ca.issuing).text
    relation.ends["mme"]["vpnaas-intermediate-certificates"] = chain or ",".join([text] * 7)
    hss.reconcile()
    assert problem in hss.plans[LINK].problems[0]
    assert hss.vdu.charon.sas == [before]


def test_intermediate_authorities_may_have_rsa_keys_of_3072_bits():
    own = rsa.generate_private_key(65537, 3072)
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

    def issuing(number: int) -> str:
        words = {NameOID.ORGANIZATION_NAME: "Operator", NameOID.COMMON_NAME: f"Issuing CA {number}"}
        name = real.Name([real.NameAttribute(*each) for each in words.items()])
        built = (
            real.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(own.public_key())
            .serial_number(number)
            .not_valid_before(now)
            .not_valid_after(now + datetime.timedelta(days=3000))
            .add_extension(real.BasicConstraints(True, None), critical=True)
            .add_extension(real.SubjectKeyIdentifier.from_public_key(own.public_key()), False)
            .sign(own, hashes.SHA256())
        )
        return base64.b64encode(built.public_bytes(serialization.Encoding.DER)).decode()

    _, _, _, relation = pair("ipsec", credentials="cert-external")
    bag = dict(relation.ends["mme"])
    for most in (3, 6):
        texts = [issuing(number) for number in range(1, most + 1)]
        bag["vpnaas-intermediate-certificates"] = ",".join(texts)
        assert len(bag["vpnaas-intermediate-certificates"]) > 4096
        assert decode(bag, "mme").keys.certs.chain.split(",") == texts
    for chain, problem in (
        (",".join(texts + texts[:1]), "7 are too many; allowed: 6"),
        ("A" * 4097, "has 4097 characters; allowed: up to 4096 characters"),
        (texts[0] + ",\x07", "has characters that are not allowed"),
        (",".join(texts * 3), "value is too long"),
    ):
        bag["vpnaas-intermediate-certificates"] = chain
        with pytest.raises(InputError, match=problem):
            decode(bag, "mme")


def test_est_has_no_recipient():
    juju, hss, mme, _ = pair("ipsec", credentials="est")
    params = {"server": "ca:1", "ca-certificate": Ca().root, "recipient": "/CN=ra"}
    with pytest.raises(InputError, match="set-enrolment: recipient: EST has none; allowed: auto"):
        mme.intent.with_enrolment(LINK, Enrolment.parse(params))


def test_an_operators_certificate_may_come_with_its_chain():
    ca = Ca()
    leaf = made.certificate(key("one"), "one", "s6a-1", key("k"), "0300", SPAN, ("s6a-1",))
    found = given({"certificate": leaf + ca.issuing, "ca-certificate": ca.root})
    assert found.certificate.names == ("s6a-1",)
    assert x509.path_to(found.root, found.certificate, found.chain) == found.chain
    with pytest.raises(InputError, match="set-certificate: certificate: 5 certificates are too"):
        given({"certificate": leaf + 4 * ca.issuing, "ca-certificate": ca.root})


# -- messages --------------------------------------------------------------------------------------


class Cell:
    """A VDU's folder with a vendor's certificate, and a server that this machine runs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ca = folder, Authority(folder / "ca")
        port = free_port()
        self.ca.make("127.0.0.1", port)
        self.server = f"127.0.0.1:{port}"
        for part in ("vdu/own/vendor", f"vdu/own/{LINK}", "vdu/swanctl/private"):
            (folder / part).mkdir(parents=True)
        for name, path in (("key", servers.VENDOR_KEY), ("pem", servers.VENDOR_CERTIFICATE)):
            self.at(path).write_text(self.ca.text(f"device.{name}"))
        self.request(names.KEY.format(LINK), REQUEST.format(LINK))
        self.request(NEXT_KEY.format(LINK), NEXT_REQUEST.format(LINK))

    def brought(self) -> list[x509.Certificate]:
        """Return the intermediate authorities that an enrolment brought."""
        texts = x509.bundle(self.at(ENROLLED_CHAIN.format(LINK)).read_text())
        return [x509.certificate("", text) for text in texts]

    def at(self, path: str) -> Path:
        return Path(moved(path, self.folder, "vdu"))

    def request(self, private: str, path: str) -> None:
        self.ca.openssl(*KEY, "-out", str(self.at(private)))
        self.ca.openssl(
            "req", "-new", "-config", "/dev/null", "-key", str(self.at(private)), "-subj",
            "/CN=s6a-1", "-addext", "subjectAltName=DNS:s6a-1", "-out", str(self.at(path)),
        )  # fmt: skip

    def enrol(
        self, server: str = "", root: str = "root", own: str = "", enrol: Any = servers.by_est
    ) -> tuple[str, str]:
        """Do the charm's own steps; return the certificate ("" for none) and the refusal."""
        words = {"server": server or self.server, "ca-certificate": self.ca.text(f"{root}.pem")}
        results = do(self.folder, "vdu", enrol(LINK, "s6a-1", Enrolment.parse(words), own))
        file = self.at(ENROLLED_CERTIFICATE.format(LINK))
        text = file.read_text() if file.exists() else ""
        return text, servers.refusal(LINK, Results(results))


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    cell = Cell(tmp_path_factory.mktemp("est"))
    program = Path(made.__file__).with_name("operator_ca.py")
    with subprocess.Popen([sys.executable, str(program), str(cell.ca.folder), "serve"]) as server:
        host, _, port = cell.server.partition(":")
        wait_until(lambda: listens(host, int(port)), "the server listens")
        yield cell
        server.terminate()


def test_a_vdu_with_a_vendors_certificate_enrols_and_renews(cell: Cell) -> None:
    text, refusal = cell.enrol()
    assert refusal == ""
    first = x509.certificate("", text)
    assert first.names == ("s6a-1",)
    assert x509.path_to(x509.authority("", cell.ca.text("root.pem")), first, cell.brought())
    own = cell.at("/etc/osm-vpnaas/own.crt")
    own.write_text(text)
    text, refusal = cell.enrol(own=str(own))
    assert refusal == ""
    assert x509.certificate("", text).key != first.key


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"root": "vendor"}, "is not trusted: unable to get local issuer certificate"),
        ({"server": "localhost:{}"}, "Hostname mismatch"),
        ({"server": "127.0.0.1:1"}, "Connection refused"),
        ({"server": "127.0.0.1:{}/nothing"}, "cacerts: HTTP 403 Forbidden"),
        ({"own": "device"}, "simplereenroll: HTTP 403 Forbidden"),
        ({"own": "nothing"}, "No such file or directory"),
        ({"own": "root"}, "the server ended TLS; it may refuse the certificate of this VDU"),
    ],
    ids=["false CA", "other name", "down", "no such label", "not the one in use", "no file", "CA"],
)
def test_an_enrolment_that_is_not_in_order_brings_nothing(
    cell: Cell, options: dict[str, str], sentence: str
) -> None:
    port = cell.server.partition(":")[2]
    options = {name: value.format(port) for name, value in options.items()}
    if "own" in options:
        options["own"] = str(cell.ca.folder / (options["own"] + ".pem"))
        kept = cell.at(names.KEY.format(LINK)).read_bytes()
        whose = Path(options["own"]).with_suffix(".key")
        cell.at(names.KEY.format(LINK)).write_bytes(whose.read_bytes() if whose.exists() else kept)
    try:
        text, refusal = cell.enrol(**options)
    finally:
        if "own" in options:
            cell.at(names.KEY.format(LINK)).write_bytes(kept)
    assert text == ""
    assert re.search(sentence, refusal)


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (202, "the server has not decided yet; it is asked again"),
        (302, "simpleenroll: HTTP 302 Found https://ca.example/est"),
        (401, "simpleenroll: HTTP 401 Unauthorized no such cell"),
        (503, "simpleenroll: HTTP 503 Service Unavailable no such cell"),
    ],
)
def test_an_answer_that_is_no_certificate_is_told(cell: Cell, status: int, sentence: str) -> None:
    cell.ca.set(status=status)
    try:
        assert cell.enrol() == ("", sentence)
    finally:
        cell.ca.set(status=200)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("<html>log in</html>", "cacerts: the answer has no certificates (PKCS #7 in base64)"),
        ("AAAA", "cacerts: the answer has no certificates (PKCS #7 in base64)"),
        ("", "cacerts: the answer has no certificates (PKCS #7 in base64)"),
        ("A" * 262148, "cacerts: the answer has more than 256 KiB"),
    ],
    ids=["page", "no PKCS #7", "empty", "large"],
)
def test_an_answer_of_wrong_content_is_told(cell: Cell, answer: str, sentence: str) -> None:
    cell.ca.set(answer=answer)
    try:
        assert cell.enrol() == ("", sentence)
    finally:
        cell.ca.set(answer=None)


def test_a_server_with_an_expired_certificate_is_told(cell: Cell) -> None:
    own = rsa.generate_private_key(65537, 2048)
    issuer = serialization.load_pem_private_key(cell.ca.text("root.key").encode(), None)
    now = datetime.datetime.now(datetime.UTC)
    name = real.Name([real.NameAttribute(NameOID.COMMON_NAME, "root")])
    expired = (
        real.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(own.public_key())
        .serial_number(9)
        .not_valid_before(now - datetime.timedelta(days=2))
        .not_valid_after(now - datetime.timedelta(days=1))
        .add_extension(
            real.SubjectAlternativeName([real.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        # Python 3.13 asks for it first.
        .add_extension(
            real.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key()), False
        )
        .sign(issuer, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    text = own.private_bytes(serialization.Encoding.PEM, *form)
    path = cell.folder / "expired.pem"
    path.write_bytes(text + expired.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError), context.wrap_socket(server.accept()[0], server_side=True):
                pass

        thread = threading.Thread(target=serve)
        thread.start()
        answer = cell.enrol(server=f"127.0.0.1:{server.getsockname()[1]}")
        thread.join()
    sentence = "the server's certificate is not trusted: certificate has expired"
    assert answer[0] == ""
    assert answer[1].startswith(f"{sentence}; the clock of this VDU shows {now:%Y-%m-%d} ")


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        (None, "the server does not speak TLS at that port"),
        (
            ssl.TLSVersion.TLSv1_2,
            "the server ended TLS; it may refuse the certificate of this VDU (unknown ca)",
        ),
    ],
)
def test_a_server_that_ends_tls_is_told(
    cell: Cell, version: ssl.TLSVersion | None, sentence: str
) -> None:
    def serve() -> None:
        connection, _ = listener.accept()
        with connection, suppress(ssl.SSLError):
            if version is None:
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                return
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.maximum_version, context.verify_mode = version, ssl.CERT_REQUIRED
            context.load_cert_chain(cell.ca.folder / "tls.pem", cell.ca.folder / "tls.key")
            context.wrap_socket(connection, server_side=True).close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve)
        server.start()
        answer = cell.enrol(f"127.0.0.1:{listener.getsockname()[1]}")
        server.join()
    assert answer == ("", sentence)


def test_a_request_that_another_key_signed_is_refused_by_the_server(cell: Cell) -> None:
    path = cell.at(REQUEST.format(LINK))
    good = path.read_text()
    der = bytearray(base64.b64decode(x509.request("", good).text))
    der[-1] ^= 1
    path.write_text(x509.armour(base64.b64encode(der).decode(), x509.REQUEST))
    try:
        text, refusal = cell.enrol()
    finally:
        path.write_text(good)
    assert text == ""
    assert "simpleenroll: HTTP 403" in refusal


def test_cmp_brings_the_intermediate_authorities_too(cell: Cell) -> None:
    """openssl's mock server, whose own certificate is of the issuing authority as well."""
    ca = cell.ca
    (ca.folder / "new.crt").write_bytes(ca.sign(cell.at(REQUEST.format(LINK)).read_bytes()))
    words = [
        "openssl", "cmp", "-config", "", "-port", "0", "-srv_cert", "tls.pem", "-srv_key",
        "tls.key", "-srv_trusted", "vendor.pem", "-srv_untrusted", "issuing.pem", "-rsp_cert",
        "new.crt", "-rsp_extracerts", "issuing.pem",
    ]  # fmt: skip
    with subprocess.Popen(
        words, cwd=ca.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            assert server.stdout is not None
            line = next(line for line in server.stdout if line.startswith("ACCEPT"))
            port = line.split()[1].rpartition(":")[2]
            text, refusal = cell.enrol(f"127.0.0.1:{port}", enrol=servers.by_cmp)
        finally:
            server.kill()
    assert refusal == ""
    root = x509.authority("", ca.text("root.pem"))
    assert x509.path_to(root, x509.certificate("", text), cell.brought())


def test_a_server_that_drips_is_given_up(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the connection and sends a byte now and then, so that no single read is late."""
    monkeypatch.setattr(
        servers, "source", lambda name: source(name).replace("ONDS = 45", "ONDS = 2")
    )
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                for _ in range(100):
                    connection.sendall(b"\x16")
                    time.sleep(0.5)

        threading.Thread(target=drip, daemon=True).start()
        text, refusal = cell.enrol(f"127.0.0.1:{server.getsockname()[1]}")
    assert text == ""
    assert refusal == "the server did not end within 2 s"
