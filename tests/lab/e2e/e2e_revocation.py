"""Chains of authorities whose revocation servers do not answer, in one of three ways."""

import datetime
from collections.abc import Iterator
from contextlib import contextmanager

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import AuthorityInformationAccessOID, NameOID
from e2e_basic import LINKS
from e2e_support import Service

PORT = 8088
URL = f"http://127.0.0.1:{PORT}"
"""Where the certificates say that OCSP and revocation lists are: in each VDU."""
DROP, REFUSE, LATE = "drop", "refuse", "late"
LATE_SERVER = (
    "import socketserver, time\n"
    "class H(socketserver.StreamRequestHandler):\n"
    "    def handle(self):\n"
    "        time.sleep(20); self.wfile.write(b'HTTP/1.0 404 Not Found\\r\\n\\r\\n')\n"
    "socketserver.ThreadingTCPServer.allow_reuse_address = True\n"
    f"socketserver.ThreadingTCPServer(('127.0.0.1', {PORT}), H).serve_forever()\n"
)


class Chain:
    """`depth` authorities, each certified by the one before; the last one certifies the ends."""

    def __init__(self, depth: int) -> None:
        self.keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(depth)]
        self.certificates: list[x509.Certificate] = []
        for number, key in enumerate(self.keys):
            self.certificates.append(self._signed(f"authority {number}", key.public_key(), number))

    @property
    def root(self) -> str:
        return _pem(self.certificates[0])

    def sign(self, request: str, identity: str) -> str:
        """Return the certificate for a request, and those of the authorities below the root."""
        asked = x509.load_pem_x509_csr(request.encode())
        end = self._signed("end", asked.public_key(), len(self.keys), identity)
        return "".join(_pem(each) for each in (end, *self.certificates[:0:-1]))

    def _signed(self, name: str, key: object, level: int, identity: str = "") -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        above = max(level - 1, 0)
        issuer = f"authority {above}"
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
            .public_key(key)  # type: ignore[arg-type]
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=9))
            .add_extension(x509.BasicConstraints(not identity, None), critical=True)
            .add_extension(_usage(bool(identity)), critical=True)
        )
        if level:
            full = [x509.UniformResourceIdentifier(f"{URL}/{above}.crl")]
            points = [x509.DistributionPoint(full, None, None, None)]
            builder = builder.add_extension(x509.CRLDistributionPoints(points), critical=False)
        if identity:
            place = x509.UniformResourceIdentifier(f"{URL}/ocsp")
            ocsp = x509.AccessDescription(AuthorityInformationAccessOID.OCSP, place)
            builder = builder.add_extension(x509.AuthorityInformationAccess([ocsp]), critical=False)
            names = x509.SubjectAlternativeName([x509.DNSName(identity)])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self.keys[above], hashes.SHA256())


def _usage(end: bool) -> x509.KeyUsage:
    return x509.KeyUsage(True, False, False, False, False, not end, not end, False, False)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode("ascii")


def bring(service: Service, chain: Chain) -> None:
    """Give both ends certificates of a chain."""
    for index, link in LINKS.items():
        asked = service[index].action("show-csr", link=link)
        service[index].action(
            "set-certificate",
            link=link,
            certificate=chain.sign(asked["request"], asked["ike-identity"]),
            ca_certificate=chain.root,
        )
    service.note_secrets()


@contextmanager
def unanswered(service: Service, how: str) -> Iterator[None]:
    """Let the servers drop packets, refuse connections, or answer late, at both ends."""
    table = f"table inet blackhole {{ chain o {{ type filter hook output priority 0; tcp dport {PORT} drop; }}; }}"  # noqa: E501
    unit = "late-revocation"
    for index in LINKS:
        vdu = service[index]
        if how == DROP:
            vdu.out("nft", "-f", "-", input=table)
        elif how == LATE:
            vdu.out("systemd-run", f"--unit={unit}", "--collect", "python3", "-c", LATE_SERVER)
    try:
        yield
    finally:
        for index in LINKS:
            vdu = service[index]
            if how == DROP:
                vdu.out("nft", "delete", "table", "inet", "blackhole")
            elif how == LATE:
                vdu.out("systemctl", "stop", unit)
