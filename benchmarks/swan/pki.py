"""A certificate authority in memory: ECDSA P-256, as the gateway's own CA would sign."""

from __future__ import annotations

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """A CA that lasts as long as the process."""

    def __init__(self, name: str = "secgw CA") -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = _name(name)
        self.certificate = (
            self._builder(self.name, self.key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self.key, hashes.SHA256())
        )

    @property
    def pem(self) -> bytes:
        """Its own certificate."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, identity: str) -> tuple[bytes, bytes]:
        """Return (private key, certificate) as PEM of an identity, which becomes its only SAN."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            self._builder(_name(identity), key.public_key())
            .add_extension(x509.SubjectAlternativeName([_general(identity)]), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return private, certificate.public_bytes(serialization.Encoding.PEM)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general(identity: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(identity))
    except ValueError:
        return x509.DNSName(identity)
