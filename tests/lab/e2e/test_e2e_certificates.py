"""An IPsec tunnel whose ends have certificates of an authority that is the operator's.

Cast: server, client (`vpn_basic_ns`).

Seen:
- the tunnel comes up with certificates; a certificate that does not fit changes nothing;
- a staged key waits for its certificate;
- a clock that is wrong is named, and the tunnel comes back with the right one;
- who is revoked is off at once and cannot come back with the old key;
- revocation servers that do not answer.
"""

import re
import subprocess
import time
from pathlib import Path

import pytest
from e2e_basic import LINKS, SERVER, configure_both, journal, told
from e2e_clock import Clock
from e2e_revocation import DROP, LATE, REFUSE, Chain, bring, unanswered
from e2e_support import (
    BASIC,
    ActionError,
    Service,
    Vnf,
    associations,
    own_service,
)
from vpnaas.tunnels.ipsec.names import ASKER
from vpnaas.vdu.programs.revocation import STATE

pytestmark = [pytest.mark.lab, pytest.mark.long]

CONF = "/etc/swanctl/conf.d/osm-vpnaas-{}.conf"
#: What strongSwan logs of a certificate whose time is not now.
REFUSED = "subject certificate invalid (valid from "
ACCEPTED = "peers are accepted though nobody says whether their certificates are revoked "
"""Nothing answers at the addresses that the certificates name for revocations."""


service = own_service(BASIC, "certs", "vpn_basic_ns", "vpn_basic_ipsec")


class Authority:
    """An authority of the operator's, on the machine of the test."""

    def __init__(self, folder: Path, name: str, *key: str) -> None:
        self.folder = folder / name
        self.folder.mkdir()
        self.key, self.root = self.folder / "key.pem", self.folder / "root.pem"
        self._openssl("genpkey", *(key or ("-algorithm", "ED25519")), "-out", str(self.key))
        self._openssl(
            "req", "-new", "-x509", "-key", str(self.key), "-subj", f"/CN={name}", "-days", "30",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-out", str(self.root),
        )  # fmt: skip

    @staticmethod
    def _openssl(*words: str, input: str = "") -> str:
        done = subprocess.run(["openssl", *words], input=input, capture_output=True, text=True,
                              check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def sign(self, request: str, identity: str, days: int = 30) -> str:
        extensions = self.folder / "extensions"
        extensions.write_text(f"subjectAltName=DNS:{identity}\n", encoding="ascii")
        return self._openssl(
            "x509", "-req", "-CA", str(self.root), "-CAkey", str(self.key), "-days", str(days),
            "-CAcreateserial", "-extfile", str(extensions), input=request,
        )  # fmt: skip


@pytest.mark.timeout(900)
def test_certificates_of_another_authority(
    service: Service, server: Vnf, client: Vnf, tmp_path: Path
) -> None:
    right = Authority(tmp_path, "right", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
    root = right.root.read_text(encoding="ascii")

    def bring(index: str, which: str = "request") -> None:
        asked = service[index].action("show-csr", link=LINKS[index])
        service[index].action(
            "set-certificate",
            link=LINKS[index],
            certificate=right.sign(asked[which], asked["ike-identity"]),
            ca_certificate=root,
        )

    configure_both(service, technology="ipsec", credentials="cert-external")
    assert "see show-csr" in str(client.status("vpn-client")["reason"])
    for index in LINKS:
        bring(index)
    assert client.pings(SERVER)
    assert {status["state"] for status in told(service).values()} == {"up"}

    # What does not fit is refused with the reason, and nothing changes.
    asked = client.action("show-csr", link="vpn-client")
    request, identity = asked["request"], asked["ike-identity"]
    other = server.action("show-csr", link="vpn-server")
    wrong = Authority(tmp_path, "wrong")
    imitated = Authority(tmp_path / "wrong", "right")
    weak = Authority(tmp_path, "weak", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024")
    good = right.sign(request, identity)
    before = associations(client)
    for certificate, authority, reason in (
        ("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", root, "not a certificate"),
        ("A" * 7000, root, "7000 characters are too many"),
        (request, root, "it is a certificate request"),
        (right.sign(other["request"], other["ike-identity"]), root, "it is for another key"),
        (right.sign(request, "gateway.example"), root, "it names 'gateway.example'"),
        (right.sign(request, identity, days=-1), root, "it is valid from"),
        (wrong.sign(request, identity), root, "another authority issued it"),
        (imitated.sign(request, identity), root, "another authority issued it"),
        (good, weak.root.read_text(encoding="ascii"), "RSA key of 1024 bits is too weak"),
        (good, good, "its key may not sign certificates"),
    ):
        with pytest.raises(ActionError, match=reason):
            client.action("set-certificate", link="vpn-client", certificate=certificate,
                          ca_certificate=authority)  # fmt: skip
    assert associations(client) == before
    assert client.pings(SERVER)

    # Renewal: a staged key waits for its certificate.
    key = client.status("vpn-client")["public-key"]
    answer = client.action("rotate-keys", link="vpn-client")
    assert "set-certificate" in answer["vpn-client"]["reason"]
    service.note_secrets()
    assert associations(client) == before
    bring("client", "next-request")
    assert client.pings(SERVER)
    status = client.status("vpn-client")
    assert (status["state"], status["rotation"]) == ("up", "none")
    assert status["public-key"] != key


@pytest.mark.clock
@pytest.mark.timeout(900)
def test_a_clock_that_is_wrong(service: Service, server: Vnf, client: Vnf) -> None:
    wrong = "the clock of this VDU shows "
    configure_both(service, technology="ipsec", credentials="cert-external")
    bring(service, Chain(1))
    with Clock(client) as clock:
        service.wait(lambda: client.pings(SERVER), "the tunnel is up again")
        # A boot with a clock from before the certificates.
        clock.set("-2d")
        mark = len(journal(client))
        clock.restart()
        service.wait(lambda: REFUSED in journal(client)[mark:], "the certificate is refused")
        assert not client.pings(SERVER, tries=5)
        # A key that the server has just confirmed is `pending` for some seconds.
        down = lambda: client.status("vpn-client")["state"] == "down"  # noqa: E731
        service.wait(down, "the link is down")
        status = client.status("vpn-client")
        assert status["reason"].startswith(wrong)
        # What charon says of the peer's certificate stands in place of "no handshake".
        refused = rf'only; {server.application}: its certificate "[^"]+" is valid from [^;]+ only'
        assert re.search(refused + r" \([^;()]+\)$", status["reason"])
        # The server's look calls the client, whose answer says more than "no handshake".
        said = f"; {client.application}: it refuses our key, certificate or identity "
        reason = lambda: server.status("vpn-server")["reason"]  # noqa: E731
        service.wait(lambda: said in reason(), "the server knows that it is refused")
        assert reason().startswith(ACCEPTED)
        clock.set("+0")
        service.wait(lambda: client.pings(SERVER), "the tunnel is up with the right clock")
        # What runs goes on when the clock jumps.
        clock.set("+40d")
        with service.controller() as controlled:
            for _ in range(2):
                controlled.update_status()
            workload, text = controlled.status("client")
        assert workload == "active"
        assert f"vpn-client up ({wrong}" in text
        assert client.pings(SERVER)
        mark = len(journal(client))
        clock.restart()
        service.wait(lambda: REFUSED in journal(client)[mark:], "the certificate is refused")
        clock.set("+0")
        service.wait(lambda: client.pings(SERVER), "the tunnel is up with the right clock")
    service.wait(lambda: client.pings(SERVER), "the tunnel is up")
    with service.controller() as controlled:
        for _ in range(3):
            controlled.update_status()
        workload, text = controlled.status("client")
    links, _, remark = text.partition(" (")
    assert (workload, links) == ("active", "vpn-server unconfigured, vpn-client up")
    assert remark.startswith(ACCEPTED)
    assert wrong not in remark
    assert client.status("vpn-client")["rotation"] == "none"
    service.note_secrets()


def test_who_is_revoked_is_off_at_once_and_cannot_come_back_with_the_stolen_key(
    service: Service, server: Vnf, client: Vnf
) -> None:
    configure_both(service, technology="ipsec", credentials="cert-external")
    chain = Chain(1)
    bring(service, chain)
    assert client.pings(SERVER)
    status = client.status("vpn-client")
    peer = server.status("vpn-server")["peers"][0]["peer"]
    started = time.monotonic()
    answer = server.action("revoke-peer", link="vpn-server", peer=peer)
    print(
        f"revoked and off after {time.monotonic() - started:.1f} s, the primitive's own time in it"
    )
    assert answer["public-keys"] == [status["public-key"]]
    assert associations(server) == []
    assert not client.pings(SERVER, tries=3)
    # The client's VDU still has key, certificate and connection: what a thief would have.
    (name,) = re.findall(r"^  (vpn-client_\S+) \{$", client.out("cat", CONF.format("vpn-client")),
                         re.M)  # fmt: skip
    attempt = ("swanctl", "--initiate", "--ike", name, "--timeout", "10")
    assert client.run(*attempt).returncode != 0
    assert associations(server) == []
    assert server.run("grep", "-c", "vpn-server_", CONF.format("vpn-server")).stdout.strip() == "0"
    # Another key opens the tunnel again.
    client.action("rotate-keys", link="vpn-client")
    asked = client.action("show-csr", link="vpn-client")
    client.action(
        "set-certificate",
        link="vpn-client",
        certificate=chain.sign(asked["next-request"], asked["ike-identity"]),
        ca_certificate=chain.root,
    )
    service.note_secrets()
    service.wait(lambda: client.pings(SERVER), "the tunnel is up with another key")
    assert client.status("vpn-client")["public-key"] != status["public-key"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_revocation_servers_that_do_not_answer(service: Service, client: Vnf, depth: int) -> None:
    """Relaxed accepts within seconds, whatever servers do; the others refuse, and say why."""
    for mode in ("relaxed", "ifuri", "strict"):
        options = {"credentials": "cert-external", "ipsec_options": f"revocation={mode}"}
        configure_both(service, technology="ipsec", **options)
        if mode == "relaxed":
            bring(service, Chain(depth))
        for how in (DROP, REFUSE, LATE):
            with unanswered(service, how):
                for index in LINKS:
                    service[index].out("systemctl", "stop", ASKER)
                    service[index].out("rm", "-f", STATE)
                    service[index].out("systemctl", "start", ASKER)
                    service[index].out("swanctl", "--flush-certs")
                for name in associations(client):
                    client.run("swanctl", "--terminate", "--force", "--ike", name)
                began = time.monotonic()
                if mode == "relaxed":
                    service.wait(lambda: client.pings(SERVER, tries=1), f"{mode} {how}", 60)
                else:
                    service.wait(lambda: refused(service), f"{mode} {how}", 60)
                    assert not client.pings(SERVER, tries=2)
                print(f"{depth} {mode} {how}: {time.monotonic() - began:.0f} s", flush=True)
                if mode != "relaxed" and how == LATE:
                    assert REFUSES in reasons(service)


REFUSES = "nobody says whether its certificate "


def refused(service: Service) -> bool:
    """Tell whether an end noted that it refuses the other one for want of an answer."""
    return any(REFUSES in service[index].run("cat", STATE).stdout for index in LINKS)


def reasons(service: Service) -> str:
    """Return why the ends refuse each other."""
    return " ".join(str(status.get("reason")) for status in told(service).values())
