"""OSM's certificate authority, and the certificates it gives to LCM, to pods and to the API server.

cert-manager does this in an OSM. A server's certificate is for servers only and LCM's for clients
only, as there.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=365)


class Authority:
    """A certificate authority in a folder: ca.crt and ca.key."""

    def __init__(self, folder: Path) -> None:
        """Open the authority, or make a new one."""
        self.folder = folder
        self.certificate_file = folder / "ca.crt"
        if not self.certificate_file.exists():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._key = ec.generate_private_key(ec.SECP256R1())
            name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "osm-ca")])
            certificate = (
                _builder(name, name, self._key.public_key())
                .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
                .sign(self._key, hashes.SHA256())
            )
            _write(folder / "ca.key", _private(self._key))
            _write(self.certificate_file, certificate.public_bytes(serialization.Encoding.PEM))
        loaded = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)  # noqa: S101 - our own file
        self._key = loaded
        self._certificate = x509.load_pem_x509_certificate(self.certificate_file.read_bytes())

    @property
    def certificate(self) -> str:
        """The authority's certificate, PEM."""
        return self.certificate_file.read_text(encoding="ascii")

    def issue(
        self, name: str, names: Iterable[str] = (), client: bool = False, group: str = ""
    ) -> tuple[str, str]:
        """Return a certificate and its key, PEM.

        Args:
            name: Common name.
            names: Host names and addresses of a server.
            client: Whether it is for a client and not for a server.
            group: Of the user, for the API server.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
        words = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if group:
            words.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
        subject = x509.Name(words)
        builder = _builder(subject, self._certificate.subject, key.public_key()).add_extension(
            x509.ExtendedKeyUsage([usage]), critical=False
        )
        listed = [_name(text) for text in names]
        if listed:
            builder = builder.add_extension(x509.SubjectAlternativeName(listed), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        text = certificate.public_bytes(serialization.Encoding.PEM).decode("ascii")
        return text, _private(key).decode("ascii")


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
    )


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _write(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
