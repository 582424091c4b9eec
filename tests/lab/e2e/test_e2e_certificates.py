"""An IPsec tunnel whose ends have certificates of the provider's own authority.

Certificates are made, renewed, refused and revoked.

Cast: server, client (`vpn_basic_ns`).

Seen:
- the tunnel comes up with certificates, and a request with a wrong signature changes nothing;
- a TCP stream survives rotation and renewal;
- who is revoked is off at once and cannot come back with the old key;
- a requirer that parted is revoked, and comes back with the relation.
"""

import re
import subprocess
import time
from pathlib import Path

import pytest
from e2e_basic import CLIENT, LINKS, SERVER, configure_both, journal, told
from e2e_clock import Clock
from e2e_revocation import DROP, LATE, REFUSE, Chain, bring, unanswered
from e2e_support import (
    BASIC,
    PATIENCE,
    ActionError,
    InBackground,
    Service,
    Vnf,
    associations,
    own_service,
    unbroken,
    wait,
)
from vpnaas.tunnels.ipsec.names import ASKER
from vpnaas.vdu.programs.revocation import STATE

pytestmark = [pytest.mark.lab, pytest.mark.long]

CONF = "/etc/swanctl/conf.d/osm-vpnaas-{}.conf"
#: What strongSwan logs of a certificate whose time is not now.
REFUSED = "subject certificate invalid (valid from "
CRL = "/etc/swanctl/x509crl/osm-vpnaas-vpn-server.pem"


service = own_service(BASIC, "certs", "vpn_basic_ns", "vpn_basic_cert")


def revoked(server: Vnf) -> list[str]:
    text = server.out("openssl", "crl", "-in", CRL, "-noout", "-text")
    return [found.lower() for found in re.findall(r"Serial Number: (\w+)", text)]


def test_the_tunnel_comes_up_with_certificates_of_the_providers_authority(
    service: Service, server: Vnf, client: Vnf
) -> None:
    assert client.pings(SERVER)
    assert server.pings(CLIENT)
    for index, status in told(service).items():
        assert (status["state"], status["credentials"]) == ("up", "cert")
        assert f'received end entity cert "CN={status["ike-identity"]}"' in journal(
            service[{"server": "client", "client": "server"}[index]]
        )
    assert "certificate status is good" in journal(server)
    modes = server.out(
        "stat", "--format=%a", "/etc/osm-vpnaas/vpn-server/ca",
        "/etc/osm-vpnaas/vpn-server/ca/ca-key.pem",
    )  # fmt: skip
    assert modes.split() == ["700", "600"]
    assert client.run("test", "-e", "/etc/osm-vpnaas/vpn-client/ca").returncode != 0
    assert "PRIVATE KEY" in server.out("cat", "/etc/osm-vpnaas/vpn-server/ca/ca-key.pem")


def test_a_request_whose_signature_is_wrong_is_refused_and_the_tunnel_stays(
    service: Service, server: Vnf, client: Vnf
) -> None:
    """The client's VDU asks for its key's certificate again, without having the key."""
    before = associations(server)
    text = client.out("cat", "/etc/osm-vpnaas/vpn-client/request.pem")
    *lines, last, end = text.splitlines()
    spoilt = last[:4] + ("B" if last[4] == "A" else "A") + last[5:]
    client.run("tee", "/etc/osm-vpnaas/vpn-client/request.pem",
               input="\n".join([*lines, spoilt, end]) + "\n")  # fmt: skip
    with service.controller() as controlled:
        # It tells its own request; the server, which has certified the key, need not look at it,
        controlled.update_status()
        # until it has to certify the key again.
        server.out("sh", "-c", "rm /etc/swanctl/osm-vpnaas-vpn-server-key-*.crt")
        controlled.update_status()
        status = controlled.status("server")
        assert status[0] == "blocked"
        assert "certificate request: openssl says: its signature does not verify" in status[1]
        assert associations(server) == before
        assert client.pings(SERVER)
        client.out("rm", "/etc/osm-vpnaas/vpn-client/request.pem")
        controlled.update_status()
        controlled.update_status()
        assert controlled.status("server")[0] == "active"
    assert client.pings(SERVER)
    assert len(associations(server)) == 1


@pytest.mark.timeout(900)
def test_rotation_and_renewal_do_not_break_a_tcp_stream(
    service: Service, server: Vnf, client: Vnf
) -> None:
    before = told(service)
    # Both ends' next certificates come from the server, and are good for two minutes. Both are to
    # be renewed in the last third, on a busy machine too.
    configure_both(
        service, technology="ipsec", credentials="cert", ipsec_options="cert-lifetime=120"
    )
    listen = ("iperf3", "--server", "--one-off", "--bind", SERVER, "--port", "5301", "--json")
    sink = InBackground(lambda: server.run(*listen, timeout=4 * PATIENCE))
    wait(lambda: any(":5301" in s for s in server.listening()), "iperf3 listens")
    send = ("iperf3", "--client", SERVER, "--port", "5301", "--time", "600", "--json",
            "--bitrate", "20M")  # fmt: skip
    source = InBackground(lambda: client.run(*send, timeout=4 * PATIENCE))
    try:
        time.sleep(2)
        for index, link in LINKS.items():
            service[index].action("rotate-keys", link=link)
            service.note_secrets()
        rotated = told(service)
        for index, status in rotated.items():
            assert status["key-generation"] > before[index]["key-generation"]  # type: ignore[operator]
            assert status["certificate-serial"] != before[index]["certificate-serial"]
        due = max(_seconds(status["certificate-renewal"]) for status in rotated.values())
        wait(lambda: int(server.out("date", "+%s")) > due, "certificates are to be renewed")
        configure_both(service, technology="ipsec", credentials="cert")
        with service.controller() as controlled:
            controlled.update_status()
        service.note_secrets()
        # One that was renewed before it was to be good for longer again has its turn once more.
        service.wait(lambda: renewed_for_long(service), "certificates are renewed", PATIENCE)
        service.note_secrets()
        renewed = told(service)
        assert not source.ended, "the stream ended before the renewal did"
        time.sleep(2)
    finally:
        client.run("pkill", "-INT", "-x", "iperf3")
    for end in (source, sink):
        unbroken(end.result().stdout)
    for index, status in renewed.items():
        assert (status["state"], status["rotation"]) == ("up", "none")
        assert status["key-generation"] > rotated[index]["key-generation"]  # type: ignore[operator]
        assert len(associations(service[index])) == 1
    # Whose keys are not in use any more, their certificates are good for nothing.
    gone = {str(t["certificate-serial"]) for each in (before, rotated) for t in each.values()}
    now = int(server.out("date", "+%s"))
    ended = {str(t["certificate-serial"]) for t in rotated.values()
             if _seconds(t["certificate-end"]) <= now}  # fmt: skip
    assert gone - ended <= set(revoked(server))
    assert not {str(t["certificate-serial"]) for t in renewed.values()} & set(revoked(server))


def renewed_for_long(service: Service) -> bool:
    """Tell whether both ends have certificates of usual life, and no rotation is under way."""
    with service.controller() as controlled:
        controlled.update_status()
    tomorrow = int(service["server"].out("date", "+%s")) + 86400
    return all(
        _seconds(status["certificate-end"]) > tomorrow and status["rotation"] == "none"
        for status in told(service).values()
    )


def _seconds(date: object) -> int:
    parsed = time.strptime(str(date), "%Y-%m-%d %H:%M:%SZ")
    return int(subprocess.run(["date", "-ud", time.strftime("%Y-%m-%d %H:%M:%S", parsed), "+%s"],
                              capture_output=True, text=True, check=True).stdout)  # fmt: skip


@pytest.mark.clock
@pytest.mark.timeout(900)
def test_a_clock_that_is_wrong(service: Service, server: Vnf, client: Vnf) -> None:
    wrong = "the clock of this VDU shows "
    with Clock(client) as clock:
        service.wait(lambda: client.pings(SERVER), "the tunnel is up again")
        # A boot with a clock from before the certificates.
        clock.set("-2d")
        mark = len(journal(client))
        clock.restart()
        service.wait(lambda: REFUSED in journal(client)[mark:], "the certificate is refused")
        assert not client.pings(SERVER, tries=5)
        status = client.status("vpn-client")
        assert status["state"] == "down"
        assert status["reason"].startswith(wrong)
        assert status["reason"].endswith(f"only; no handshake with {server.application}")
        assert server.status("vpn-server")["reason"] == f"no handshake with {client.application}"
        clock.set("+0")
        service.wait(lambda: client.pings(SERVER), "the tunnel is up with the right clock")
        # What runs goes on when the clock jumps; the charm wants to renew, and cannot.
        clock.set("+40d")
        with service.controller() as controlled:
            for _ in range(2):
                controlled.update_status()
            workload, text = controlled.status("client")
        assert workload == "active"
        rotation = f"key rotation waits for a certificate from {server.application}"
        assert f"vpn-client up ({rotation}; {wrong}" in text
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
        assert controlled.status("client") == ("active", "vpn-server unconfigured, vpn-client up")
    assert client.status("vpn-client")["rotation"] == "none"
    service.note_secrets()


def test_who_is_revoked_is_off_at_once_and_cannot_come_back_with_the_stolen_key(
    service: Service, server: Vnf, client: Vnf
) -> None:
    status = client.status("vpn-client")
    peer = server.status("vpn-server")["peers"][0]["peer"]
    trusting = server.out("cat", CONF.format("vpn-server"))
    pins = server.out("sh", "-c", "grep -h . /etc/swanctl/osm-vpnaas-vpn-server-key-*.crt")
    pin = re.search(r"certs = (\S+key\S+)", trusting)
    assert pin is not None
    started = time.monotonic()
    answer = server.action("revoke-peer", link="vpn-server", peer=peer)
    print(
        f"revoked and off after {time.monotonic() - started:.1f} s, the primitive's own time in it"
    )
    assert answer["public-keys"] == [status["public-key"]]
    assert associations(server) == []
    assert not client.pings(SERVER, tries=3)
    assert status["certificate-serial"] in revoked(server)
    # The client's VDU still has key, certificate and connection: what a thief would have.
    (name,) = re.findall(r"^  (vpn-client_\S+) \{$", client.out("cat", CONF.format("vpn-client")),
                         re.M)  # fmt: skip
    attempt = ("swanctl", "--initiate", "--ike", name, "--timeout", "10")
    assert client.run(*attempt).returncode != 0
    assert associations(server) == []
    # Even where the gateway had its connection back, the list would speak against it.
    server.run("tee", CONF.format("vpn-server"), input=trusting)
    server.run("tee", pin.group(1), input=pins)
    try:
        server.out("swanctl", "--load-conns")
        mark = len(journal(server))
        assert client.run(*attempt).returncode != 0
        assert "certificate was revoked" in journal(server)[mark:]
    finally:
        server.status("vpn-server")
    assert server.run("grep", "-c", "vpn-server_", CONF.format("vpn-server")).stdout.strip() == "0"
    # Another key opens the tunnel again.
    client.action("rotate-keys", link="vpn-client")
    service.note_secrets()
    assert client.pings(SERVER)
    assert client.status("vpn-client")["public-key"] != status["public-key"]


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


def test_a_parted_requirer_is_revoked_and_comes_back_with_the_relation(
    service: Service, server: Vnf, client: Vnf
) -> None:
    configure_both(service, technology="ipsec", credentials="cert")
    assert client.pings(SERVER)
    serial = client.status("vpn-client")["certificate-serial"]
    ends = [f"{vnf.application}:{LINKS[vnf.index]}" for vnf in (server, client)]
    with service.controller() as controlled:
        controlled.model.remove_relation(*ends)
        controlled.settle()
        assert associations(server) == associations(client) == []
        assert serial in revoked(server)
        controlled.model.add_relation(*ends)
        controlled.settle()
        assert client.pings(SERVER, tries=60)
    assert client.status("vpn-client")["certificate-serial"] != serial


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
