"""IPsec certificates of an operator's authority: openssl with a root, an issuing authority, EST,
CMPv2, revocation lists and OCSP.

Cast: server, client (`vpn_basic_ns` with IPsec); authority, a VDU beside them.

Seen:
- both ends enrol by EST, then by CMPv2, and prove themselves by a chain;
- short certificates are renewed and no packet is lost;
- with the authority down the tunnel stays up and the status says so;
- a revoked peer is refused.
"""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import support.operator_ca
from e2e_basic import LINKS, SERVER, configure_both, journal, told
from e2e_support import (
    BASIC,
    PATIENCE,
    InBackground,
    Service,
    Vdu,
    Vnf,
    associations,
    outsider,
    own_service,
)
from vpnaas.tunnels.ipsec.names import CERTIFICATE, ENROLLED_CERTIFICATE
from vpnaas.tunnels.ipsec.servers import VENDOR_CERTIFICATE, VENDOR_KEY

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(1500)]

PROGRAM, FOLDER = "/root/operator_ca.py", "/root/ca"
PORT = 8443


class Ca:
    """The authority, on the console of its VDU."""

    def __init__(self, vdu: Vdu) -> None:
        self.vdu = vdu
        text = Path(support.operator_ca.__file__).read_text(encoding="utf-8")
        vdu.run("tee", PROGRAM, input=text)
        self.do("make", vdu.management, str(PORT), "ocsp")
        self.start()

    @property
    def server(self) -> str:
        return f"{self.vdu.management}:{PORT}"

    @property
    def root(self) -> str:
        return self.vdu.out("cat", f"{FOLDER}/root.pem")

    def do(self, *words: str) -> str:
        return self.vdu.out("python3", PROGRAM, FOLDER, *words)

    def start(self) -> None:
        unit = ("--unit=operator-ca", "--collect", f"--working-directory={FOLDER}")
        self.vdu.out("systemd-run", *unit, "python3", PROGRAM, FOLDER, "serve")

    def stop(self) -> None:
        self.vdu.out("systemctl", "stop", "operator-ca")

    def live(self, seconds: int) -> None:
        """Let certificates be good for so long from now on."""
        settings = json.loads(self.vdu.out("cat", f"{FOLDER}/settings.json"))
        text = json.dumps({**settings, "seconds": seconds})
        self.vdu.run("tee", f"{FOLDER}/settings.json", input=text)

    def provision(self, vnf: Vnf) -> None:
        """Bring a vendor's key and certificate onto a VDU, as its image would."""
        vnf.out("mkdir", "-p", str(Path(VENDOR_KEY).parent))
        for name, path in (("device.key", VENDOR_KEY), ("device.pem", VENDOR_CERTIFICATE)):
            vnf.run("tee", path, input=self.vdu.out("cat", f"{FOLDER}/{name}"))
            vnf.out("chmod", "600", path)


service = own_service(BASIC, "operated", "vpn_basic_ns", "vpn_basic_ipsec")


@pytest.fixture(scope="module")
def ca(service: Service) -> Iterator[Ca]:
    with outsider(service, "data", "192.168.100.77") as vdu:
        authority = Ca(vdu)
        for index in LINKS:
            authority.provision(service[index])
        yield authority


def looked(service: Service, times: int = 1) -> None:
    """Let every charm look at its VDU some times."""
    with service.controller() as controlled:
        for _ in range(times):
            controlled.update_status()
    service.note_secrets()


def test_both_ends_enrol_by_est_and_prove_themselves_by_a_chain(service: Service, ca: Ca) -> None:
    options = "key-type=ecdsa-p256,revocation=strict"
    configure_both(service, technology="ipsec", credentials="est", ipsec_options=options)
    assert "see set-enrolment" in str(service["client"].status("vpn-client")["reason"])
    for index, link in LINKS.items():
        service[index].action("set-enrolment", link=link, server=ca.server, ca_certificate=ca.root)
    looked(service)
    assert service["client"].pings(SERVER)
    assert {(s["state"], s["credentials"]) for s in told(service).values()} == {("up", "est")}
    for index in LINKS:
        log = journal(service[index])
        assert 'received issuer cert "CN=issuing"' in log
        # OCSP for the end, a list for the authority that issued it: `strict` takes both.
        assert "requesting ocsp status" in log
        assert "fetching crl from" in log
        assert "ocsp response correctly signed by" in log
        assert "certificate status is good" in log
        listed = service[index].out("find", "/etc/swanctl/private", "-type", "f")
        assert listed.split() == [f"/etc/swanctl/private/osm-vpnaas-{LINKS[index]}.pem"]


def test_short_lived_certificates_are_renewed_and_no_packet_is_lost(
    service: Service, ca: Ca
) -> None:
    ca.live(120)
    for index, link in LINKS.items():
        service[index].action("rotate-keys", link=link)
    looked(service, 2)
    before = told(service)
    ca.live(86400)
    client = service["client"]
    ping = ("ping", "-n", "-q", "-i", "0.1", "-w", "600", SERVER)
    running = InBackground(lambda: client.run(*ping, timeout=4 * PATIENCE))
    try:
        due = max(_seconds(status["certificate-renewal"]) for status in before.values())
        service.wait(lambda: int(client.out("date", "+%s")) > due, "renewal is due", 150)
        looked(service, 4)
        after = told(service)
        end = max(_seconds(status["certificate-end"]) for status in before.values())
        service.wait(lambda: int(client.out("date", "+%s")) > end + 5, "the old ones ended", 150)
    finally:
        client.run("pkill", "-INT", "-x", "ping")
    lost = re.search(r"(\d+) packets transmitted, (\d+) received", running.result().stdout)
    assert lost is not None
    sent, received = map(int, lost.groups())
    assert sent > 300
    assert sent - received <= 1  # the one under way when ping ended
    for index, status in after.items():
        assert (status["state"], status["rotation"]) == ("up", "none")
        assert status["certificate-serial"] != before[index]["certificate-serial"]
        assert status["public-key"] != before[index]["public-key"]
    print(f"{sent} packets over the renewal, {sent - received} not answered")


def _seconds(date: object) -> int:
    return int(time.mktime(time.strptime(f"{date} UTC", "%Y-%m-%d %H:%M:%SZ %Z"))) - time.timezone


def test_an_authority_that_is_down_leaves_the_tunnel_up_and_says_so(
    service: Service, ca: Ca
) -> None:
    client = service["client"]
    before = associations(client)
    ca.stop()
    try:
        client.action("rotate-keys", link="vpn-client")
        with service.controller() as controlled:
            controlled.update_status()
            workload, text = controlled.status("client")
        assert workload == "active"
        assert "waits for a certificate by EST: the EST server gave none: " in text
        assert "Connection refused" in text
        assert associations(client) == before
        assert client.pings(SERVER)
    finally:
        ca.start()
    looked(service, 3)
    assert client.status("vpn-client")["rotation"] == "none"
    assert client.pings(SERVER)


def test_a_revoked_peer_is_refused(service: Service, ca: Ca) -> None:
    client, server = service["client"], service["server"]
    serial = str(client.status("vpn-client")["certificate-serial"])
    ca.do("revoke", serial)
    # What charon knows of lists and answers it believes as long as these say.
    server.out("swanctl", "--flush-certs")
    mark = len(journal(server))
    client.out("swanctl", "--terminate", "--ike", associations(client)[0])
    service.wait(lambda: "certificate was revoked" in journal(server)[mark:], "it is refused")
    assert not client.pings(SERVER, tries=10)
    assert associations(server) == []
    looked(service)
    assert client.status("vpn-client")["state"] == "down"
    # Another key has another certificate.
    client.action("rotate-keys", link="vpn-client", force=True)
    looked(service, 2)
    service.wait(lambda: client.pings(SERVER), "the tunnel is up again")


def test_both_ends_enrol_by_cmpv2(service: Service, ca: Ca) -> None:
    """openssl's mock server has one certificate to give, so each end has a server of its own."""
    options = "key-type=ecdsa-p256"
    configure_both(service, technology="ipsec", credentials="cmp", ipsec_options=options)
    for port, (index, link) in enumerate(LINKS.items(), start=8080):
        # What EST brought is as good, and would be used.
        service[index].out("rm", "-f", CERTIFICATE.format(link), ENROLLED_CERTIFICATE.format(link))
        asked = service[index].action("show-csr", link=link)
        ca.vdu.run("tee", f"{FOLDER}/{index}.csr", input=asked["request"])
        ca.vdu.run("tee", f"{FOLDER}/{index}.crt", input=ca.do("sign", f"{FOLDER}/{index}.csr"))
        ca.vdu.out(
            "systemd-run", "--collect", f"--working-directory={FOLDER}",
            "openssl", "cmp", "-config", "", "-port", str(port), "-srv_cert", "tls.pem",
            "-srv_key", "tls.key", "-srv_trusted", "vendor.pem", "-srv_untrusted", "issuing.pem",
            "-rsp_cert", f"{index}.crt", "-rsp_extracerts", "issuing.pem",
        )  # fmt: skip
        server = f"{ca.vdu.management}:{port}"
        service[index].action("set-enrolment", link=link, server=server, ca_certificate=ca.root)
    looked(service)
    assert service["client"].pings(SERVER)
    for index, status in told(service).items():
        assert (status["state"], status["credentials"]) == ("up", "cmp")
        told_serial = ca.vdu.out("openssl", "x509", "-noout", "-serial", "-in",
                                 f"{FOLDER}/{index}.crt")  # fmt: skip
        assert str(status["certificate-serial"]) == told_serial.strip().partition("=")[2].lower()
