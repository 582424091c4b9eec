"""Certificates by CMPv2: what a link does with them, and the messages of openssl itself."""

from __future__ import annotations

import base64
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support import authority as made
from support.ends_certs import do, moved
from support.juju import pair
from support.model_world import spki
from support.ports import free_port
from vpnaas.base import fields, x509
from vpnaas.base.errors import InputError
from vpnaas.params.intent import Intent, manual_peer
from vpnaas.params.servers import Enrolment
from vpnaas.tunnels.ipsec import servers
from vpnaas.tunnels.ipsec.names import ENROLLED_CERTIFICATE, KEY, NEXT_CERTIFICATE, NEXT_KEY
from vpnaas.vdu.steps import Results

pytestmark = pytest.mark.slow

LINK = "s6a"
SPAN = (0, 9_000_000)
SERVER = "127.0.0.1:8829/cmp"


def word(argv, option):
    return argv[argv.index(option) + 1]


class Ra:
    """An operator's authority with a server of CMPv2, in the model."""

    def __init__(self):
        self.key = spki("ED25519 " + base64.b64encode(b"operator").decode())
        self.root = made.certificate(self.key, "op", "op", self.key, "0101", SPAN, authority=True)
        self.name = "op"
        self.asked = []
        self.refuses = ""
        self.names = None
        self.span = SPAN
        self.serial = 0x0200

    def __call__(self, vdu, argv):
        assert "PRIVATE" not in " ".join(argv)
        self.asked.append(word(argv, "-cmd"))
        if self.refuses:
            return 1, "", f"CMP error: {self.refuses}\nCMP error: error validating protection\n"
        assert vdu.files[word(argv, "-trusted")] == vdu.files[word(argv, "-out_trusted")]
        if word(argv, "-cmd") == "ir":
            assert word(argv, "-key") == servers.VENDOR_KEY
            self.identity = word(argv, "-sans")
        else:
            assert word(argv, "-key") == KEY.format(LINK)
        self.serial += 1
        key = spki(vdu.files[word(argv, "-newkey")])
        names = self.names or (self.identity,)
        vdu.files[word(argv, "-certout")] = made.certificate(
            self.key, self.name, self.identity, key, f"{self.serial:04x}", self.span, names
        )
        return 0, "", ""

    def enrolment(self):
        return Enrolment.parse({"server": SERVER, "ca-certificate": self.root})


def enrolled(ra):
    juju, hss, mme, _ = pair("ipsec", credentials="cmp", **{"ipsec-options": "key-type=ecdsa-p256"})
    juju.world.cmp = ra
    for charm in (hss, mme):
        charm.intent = charm.intent.with_enrolment(LINK, ra.enrolment())
        charm.reconcile()
    juju.settle()
    hss.reconcile(), mme.reconcile()
    return juju, hss, mme


def test_both_ends_enrol_by_themselves_and_come_up():
    ra = Ra()
    juju, hss, mme = enrolled(ra)
    assert ra.asked == ["ir", "ir"]
    assert hss.states() == mme.states() == {LINK: "up"}
    assert Intent.from_json(mme.intent.to_json()) == mme.intent
    assert mme.reconcile() == 1
    assert mme.plans[LINK].steps == ()
    assert ra.asked == ["ir", "ir"]


def test_a_link_waits_for_its_server_and_tells_why_it_refuses():
    juju, hss, mme, _ = pair("ipsec", credentials="cmp")
    assert "waiting for a certificate, see set-enrolment" in mme.plans[LINK].waiting[0]
    ra = juju.world.cmp = Ra()
    ra.refuses = "received error:PKIStatus: rejection; StatusString: no such cell"
    mme.intent = mme.intent.with_enrolment(LINK, ra.enrolment())
    mme.reconcile()
    assert mme.states() == {LINK: "waiting"}
    assert "StatusString: no such cell" in mme.plans[LINK].waiting[0]


def test_a_certificate_is_renewed_by_the_key_in_use_and_the_tunnel_stays_up():
    ra = Ra()
    ra.span = (900_000, 1_300_000)
    juju, hss, mme = enrolled(ra)
    before = mme.plans[LINK].state.public_key
    juju.world.clock = 1_200_000
    ra.span = (1_100_000, 2_000_000)
    for _ in range(3):
        for charm in (mme, hss):
            charm.reconcile()
        juju.settle()
        assert juju.world.ping(mme.vdu, "172.16.6.129")
    assert set(ra.asked[2:]) == {"kur"}
    assert mme.plans[LINK].state.public_key != before
    assert hss.states() == mme.states() == {LINK: "up"}
    (sa,) = mme.vdu.charon.sas
    files = [text for path, text in mme.vdu.files.items() if path.endswith("osm-vpnaas-s6a.crt")]
    assert x509.certificate("", files[0]).ends == 2_000_000
    assert NEXT_KEY.format(LINK) not in mme.vdu.files


def test_a_server_that_is_down_leaves_the_tunnel_up_and_says_so():
    ra = Ra()
    ra.span = (900_000, 1_300_000)
    juju, hss, mme = enrolled(ra)
    (before,) = mme.vdu.charon.sas
    juju.world.clock = 1_200_000
    ra.refuses = "connect timeout"
    mme.reconcile(), mme.reconcile()
    assert mme.vdu.charon.sas == [before]
    assert mme.states() == {LINK: "up"}
    reasons = " ".join(mme.plans[LINK].waiting)
    assert (
        "key rotation waits for a certificate by CMPv2: the CMP server gave none: connect"
        in reasons
    )


def test_a_certificate_is_asked_for_once_although_the_plan_after_it_fails():
    ra = Ra()
    ra.span = (900_000, 1_300_000)
    juju, hss, mme = enrolled(ra)
    juju.world.clock = 1_200_000
    ra.span = (1_100_000, 2_000_000)
    mme.reconcile()
    for _ in range(3):
        mme.break_off("/certs")
    assert ra.asked[2:] == ["kur"]
    mme.reconcile()
    assert ra.asked[2:] == ["kur"]
    following = mme.plans[LINK].state.next_public_key
    assert x509.certificate("", mme.vdu.files[NEXT_CERTIFICATE.format(LINK)]).key == following
    for _ in range(3):
        juju.settle()
        hss.reconcile(), mme.reconcile()
    assert mme.plans[LINK].state.public_key == following
    assert hss.states() == mme.states() == {LINK: "up"}


def test_a_first_certificate_is_put_to_use_before_the_next_one_is_asked_for():
    ra = Ra()
    juju, _, mme, _ = pair("ipsec", credentials="cmp")
    move_to(ra, juju, mme)
    mme.vdu.fail_on = "/certs"
    mme.reconcile(rotate=frozenset([LINK]))
    mme.reconcile()
    mme.vdu.fail_on = None
    assert ra.asked == ["ir"]
    mme.reconcile()
    assert ra.asked == ["ir"]
    mme.reconcile()
    assert ra.asked == ["ir", "kur"]


def other(name: str) -> Ra:
    """Return an operator's authority with another key."""
    ra = Ra()
    ra.key = spki("ED25519 " + base64.b64encode(b"other").decode())
    ra.name = name
    ra.root = made.certificate(ra.key, name, name, ra.key, "0102", SPAN, authority=True)
    return ra


def move_to(ra, juju, *charms):
    juju.world.cmp = ra
    for charm in charms:
        charm.intent = charm.intent.with_enrolment(LINK, ra.enrolment())


def test_another_root_cuts_no_tunnel_before_its_server_has_answered():
    juju, hss, mme = enrolled(Ra())
    (before,) = mme.vdu.charon.sas
    ra = other("op2")
    ra.refuses = "connect timeout"
    move_to(ra, juju, hss, mme)
    for _ in range(3):
        mme.reconcile(), hss.reconcile()
        juju.settle()
        assert mme.vdu.charon.sas == [before]
    assert hss.states() == mme.states() == {LINK: "up"}
    assert mme.plans[LINK].waiting == (
        "waiting for a certificate under the new root, the CMP server gave none: connect timeout:"
        " it does not answer, refuses, or its name has no address",
    )
    # Nor does a lost tunnel need the new root.
    mme.vdu.reboot()
    mme.reconcile(), hss.reconcile()
    assert hss.states() == mme.states() == {LINK: "up"}
    ra.refuses = ""
    for _ in range(3):
        mme.reconcile(), hss.reconcile()
        juju.settle()
        assert juju.world.ping(mme.vdu, "172.16.6.129")
    assert set(ra.asked) == {"ir"}
    assert hss.states() == mme.states() == {LINK: "up"}
    assert mme.plans[LINK].waiting == ()
    trusted = [
        text for path, text in mme.vdu.files.items() if path.endswith("x509ca/osm-vpnaas-s6a.pem")
    ]
    assert trusted == [ra.root]


def test_the_other_end_may_rotate_while_one_waits_for_another_root():
    first, ra = Ra(), other("op2")
    juju, hss, mme = enrolled(first)
    before = hss.plans[LINK].state.public_key
    ra.refuses = "connect timeout"
    move_to(ra, juju, mme)
    juju.world.cmp = lambda vdu, argv: (ra if vdu is mme.vdu else first)(vdu, argv)
    first.identity = hss.plans[LINK].state.identity
    hss.reconcile(rotate=frozenset([LINK]))
    for _ in range(4):
        hss.reconcile(), mme.reconcile()
        juju.settle()
        assert juju.world.ping(mme.vdu, "172.16.6.129")
    assert hss.plans[LINK].state.public_key != before
    assert hss.plans[LINK].state.next_public_key == ""
    assert hss.states() == mme.states() == {LINK: "up"}


def test_a_root_with_another_key_and_the_same_name_is_another_root():
    juju, hss, mme = enrolled(Ra())
    (before,) = mme.vdu.charon.sas
    ra = other("op")
    move_to(ra, juju, hss, mme)
    for _ in range(3):
        mme.reconcile()
        # The certificate of the other end is of the former root still.
        assert mme.vdu.charon.sas == [before]
        assert "openssl says" in mme.plans[LINK].problems[0]
    for _ in range(3):
        hss.reconcile(), mme.reconcile()
        juju.settle()
    assert ra.asked == ["ir", "ir"]
    assert hss.states() == mme.states() == {LINK: "up"}
    mme.vdu.reboot()
    mme.reconcile(), hss.reconcile()
    assert hss.states() == mme.states() == {LINK: "up"}
    assert hss.plans[LINK].problems == mme.plans[LINK].problems == ()
    assert mme.reconcile() == 1
    assert mme.plans[LINK].steps == ()


def test_a_certificate_of_a_former_root_is_not_used_for_the_staged_key():
    first = Ra()
    juju, hss, mme = enrolled(first)
    hss.reachable = False
    mme.reconcile(rotate=frozenset([LINK]))
    mme.reconcile(), mme.reconcile()
    assert first.asked == ["ir", "ir", "kur"]
    ra = other("op")
    move_to(ra, juju, hss, mme)
    mme.reconcile(), mme.reconcile()
    assert ra.asked == ["ir", "kur"]
    hss.reachable = True
    for _ in range(4):
        juju.changed |= {"hss", "mme"}
        juju.settle()
        hss.reconcile(), mme.reconcile()
    assert hss.states() == mme.states() == {LINK: "up"}
    assert mme.plans[LINK].state.next_public_key == ""


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"names": ("somebody.example",)}, "it names 'somebody.example'"),
        ({"span": (0, 10)}, "it is valid from 1970"),
    ],
)
def test_a_certificate_that_does_not_fit_is_not_taken(change, sentence):
    ra = Ra()
    vars(ra).update(change)
    juju, hss, mme = enrolled(ra)
    assert mme.states() == {LINK: "waiting"}
    assert sentence in mme.plans[LINK].waiting[0]
    assert "/etc/swanctl/osm-vpnaas-s6a.crt" not in mme.vdu.files


def test_an_end_with_an_operators_certificate_takes_one_that_enrolled():
    """How an end gets its certificate is no matter of the other one."""
    ra = Ra()
    juju, hss, mme = enrolled(ra)
    options = {"technology": "ipsec", "underlay-interface": "ens4", "credentials": "cert-external"}
    mme.configure(LINK, "172.16.6.2/24", **options, **{"ipsec-options": "key-type=ecdsa-p256"})
    mme.reconcile()
    juju.settle()
    assert hss.states() == mme.states() == {LINK: "up"}


def test_a_manual_peer_is_proved_by_the_root_of_the_enrolment():
    ra = Ra()
    juju, hss, mme = enrolled(ra)
    cell = {"link": LINK, "name": "cell", "public-key": "certificate"}
    hss.intent = hss.intent.with_peer(manual_peer({**cell, "allowed-prefixes": "172.16.6.50"}))
    hss.reconcile()
    assert hss.plans[LINK].problems == ()
    assert "man-cell" in {peer.name for peer in hss.plans[LINK].peers}


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"server": "ra.example"}, "is not a server; allowed: host:port"),
        ({"server": "-verbosity:80"}, "is not a server"),
        ({"server": "ra.example:0"}, "is not a server"),
        ({"server": "ra.example:80/a b"}, "is not a server"),
        ({"recipient": "CN=ra"}, "is not a name; allowed: auto"),
        ({"ca-certificate": "MIIB"}, "not a certificate"),
    ],
)
def test_bad_parameters_are_refused(params, sentence):
    good = {"server": SERVER, "ca-certificate": Ra().root, "recipient": "/CN=ra"}
    with pytest.raises(InputError, match=sentence):
        Enrolment.parse({**good, **params})


def test_a_link_with_other_credentials_enrols_nowhere():
    juju, hss, mme, _ = pair("ipsec")
    with pytest.raises(InputError, match="s6a takes no certificate from a server"):
        mme.intent.with_enrolment(LINK, Ra().enrolment())


# -- messages --------------------------------------------------------------------------------------

PROFILE = "keyUsage=critical,digitalSignature\nsubjectAltName=DNS:s6a-1\n"


class Pki:
    """Roots of operator, vendor and a stranger, and a VDU's folder with a vendor's certificate."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for root in ("operator", "vendor", "stranger"):
            self.key(root)
            extensions = "basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign"
            more = [text for each in extensions for text in ("-addext", each)]
            self.openssl(
                "req", "-x509", "-config", "/dev/null", "-key", f"{root}.key", "-subj",
                f"/CN={root}", "-days", "9", "-out", f"{root}.pem", *more,
            )  # fmt: skip
        for name, root in (("ra", "operator"), ("false-ra", "stranger"), ("device", "vendor")):
            self.key(name)
            self.sign(name, root)
        for part in ("vdu/own/vendor", f"vdu/own/{LINK}", "vdu/swanctl/private"):
            (folder / part).mkdir(parents=True)
        for name, path in (("key", servers.VENDOR_KEY), ("pem", servers.VENDOR_CERTIFICATE)):
            Path(self.at(path)).write_bytes((folder / f"device.{name}").read_bytes())
        self.root = (folder / "operator.pem").read_text()

    def at(self, path: str) -> str:
        return moved(path, self.folder, "vdu")

    def openssl(self, *words: str) -> None:
        done = subprocess.run(["openssl", *words], cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def key(self, name: str, path: str = "") -> None:
        words = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
        self.openssl("genpkey", *words, "-out", path or f"{name}.key")

    def sign(self, name: str, root: str, key: str = "", serial: str = "") -> None:
        (self.folder / "profile").write_text(PROFILE)
        self.openssl(
            "req", "-new", "-config", "/dev/null", "-key", key or f"{name}.key", "-subj",
            f"/CN={name}", "-out", "request",
        )  # fmt: skip
        number = ["-set_serial", serial] if serial else ["-CAcreateserial"]
        self.openssl(
            "x509", "-req", "-in", "request", "-CA", f"{root}.pem", "-CAkey", f"{root}.key",
            *number, "-days", "9", "-extfile", "profile", "-out", f"{name}.pem",
        )  # fmt: skip

    @contextmanager
    def server(self, trusts: str = "vendor", ra: str = "ra", *more: str) -> Iterator[str]:
        """Run openssl's mock server, which has the certificate `new.pem` for who asks."""
        port = free_port()
        words = [
            "openssl", "cmp", "-config", "", "-port", str(port), "-srv_cert", f"{ra}.pem",
            "-srv_key", f"{ra}.key", "-srv_trusted", f"{trusts}.pem", "-rsp_cert", "new.pem", *more,
        ]  # fmt: skip
        with subprocess.Popen(
            words, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as server:
            try:
                while "ACCEPT" not in (server.stdout.readline() if server.stdout else ""):
                    assert server.poll() is None
                yield f"127.0.0.1:{port}"
            finally:
                server.kill()

    def enrol(self, server: str, own: str = "", more: str = "") -> tuple[str, str]:
        """Do the charm's own steps; return the certificate ("" for none) and the refusal."""
        enrolment = Enrolment.parse({"server": server, "ca-certificate": self.root})
        steps = servers.by_cmp(LINK, "s6a-1", enrolment, own)
        steps[-1].body["argv"] += more.split()
        results = do(self.folder, "vdu", steps)
        file = Path(self.at(ENROLLED_CERTIFICATE.format(LINK)))
        text = file.read_text() if file.exists() else ""
        return text, servers.refusal(LINK, Results(results))


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    made = Pki(tmp_path_factory.mktemp("pki"))
    made.key("", made.at(KEY.format(LINK)))
    made.sign("new", "operator", made.at(KEY.format(LINK)), "4711")
    return made


def test_a_vdu_with_a_vendors_certificate_enrols_and_renews(pki: Pki) -> None:
    with pki.server() as server:
        text, refusal = pki.enrol(server)
    assert (refusal, text) == ("", (pki.folder / "new.pem").read_text())
    own = pki.at("/etc/osm-vpnaas/vendor/own.crt")
    Path(own).write_text(text)
    pki.key("", pki.at(NEXT_KEY.format(LINK)))
    # The mock server takes the certificate it has for the old one, too: the number is the same.
    before = (pki.folder / "new.pem").read_bytes()
    pki.sign("new", "operator", pki.at(NEXT_KEY.format(LINK)), "4711")
    try:
        with pki.server("operator") as server:
            text, refusal = pki.enrol(server, own)
        assert refusal == ""
        assert x509.certificate("", text).key != x509.certificate("", before.decode()).key
    finally:
        (pki.folder / "new.pem").write_bytes(before)


@pytest.mark.parametrize(
    ("server", "more", "sentence"),
    [
        (("stranger",), "", "no suitable sender cert"),
        # The server's refusal; from OpenSSL 3.5 on the client refuses the option by itself.
        (("vendor",), "-popo -1", r"popo missing|-newkeyout .*not given"),
        (("vendor", "ra", "-send_unprotected"), "", "missing protection"),
        (("vendor", "false-ra"), "", "certificate verification failed"),
        (("vendor", "ra", "-pkistatus", "2", "-statusstring", "no such cell"), "", "no such cell"),
    ],
    ids=["wrong vendor root", "no proof of possession", "unprotected", "false RA", "refused"],
)
def test_an_enrolment_that_is_not_in_order_brings_nothing(
    pki: Pki, server: tuple[str, ...], more: str, sentence: str
) -> None:
    with pki.server(*server) as address:
        text, refusal = pki.enrol(address, more=more)
    assert text == ""
    assert re.search(sentence, refusal)


@pytest.mark.parametrize("server", ["127.0.0.1:1", "no-such-name.invalid:80"])
def test_a_server_that_is_not_there_is_told(pki: Pki, server: str) -> None:
    started = time.monotonic()
    text, refusal = pki.enrol(server, more="-msg_timeout 2")
    assert text == ""
    assert refusal == ("connect timeout: it does not answer, refuses, or its name has no address")
    assert time.monotonic() - started < servers.SECONDS
    assert fields.lines(refusal) == [refusal]


def test_a_server_that_ends_the_connection_is_told(pki: Pki) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            taken, _ = server.accept()
            taken.recv(9999)
            taken.close()

        thread = threading.Thread(target=serve)
        thread.start()
        text, refusal = pki.enrol(f"127.0.0.1:{server.getsockname()[1]}")
        thread.join()
    assert text == ""
    assert refusal.endswith("it ended the connection, or its answer is not of CMP")


def test_a_server_that_takes_the_connection_and_hangs_is_given_up(pki: Pki) -> None:
    started = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as server:  # The kernel takes it, nobody reads.
        address = f"127.0.0.1:{server.getsockname()[1]}"
        text, refusal = pki.enrol(address, more="-msg_timeout 1 -total_timeout 2")
    assert text == ""
    assert "timeout" in refusal
    assert time.monotonic() - started < servers.SECONDS


def test_a_program_that_ends_without_a_word_is_a_refusal() -> None:
    results = Results({f"{LINK}/enrol": {"code": -9, "stdout": "", "stderr": ""}})
    assert servers.refusal(LINK, results) == "the program ended without a reason"
