"""Certificates of an authority, as cert-manager makes them in an OSM, and of the lab's own server.

The authority issues a certificate for a server only or for a client only, never for both.
"""

import datetime
import ipaddress
import socket
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from lab import files

LIFETIME = datetime.timedelta(days=365)


class Authority:
    """A certificate authority in a folder: ca.crt and ca.key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificate_file = folder / "ca.crt"
        if not self.certificate_file.exists():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._key = ec.generate_private_key(ec.SECP256R1())
            name = _subject("osm-ca")
            builder = _builder(name, name, self._key.public_key())
            files.replace(folder / "ca.key", _private(self._key))
            files.replace(self.certificate_file, _root(builder, self._key))
        loaded = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)  # noqa: S101 - our own file
        self._key = loaded
        self._certificate = x509.load_pem_x509_certificate(self.certificate_file.read_bytes())

    @property
    def certificate(self) -> str:
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
        builder = _builder(
            _subject(name, group), self._certificate.subject, key.public_key(), names
        ).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        return _pem(builder.sign(self._key, hashes.SHA256())), _private(key)


def self_signed(folder: Path, host: str) -> tuple[Path, Path]:
    """Return a certificate for ``host``, this machine's name and loopback, and its key, as files.

    All servers of a folder and host have the same one; it is made anew before it ends. The key is
    readable to its owner only.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    usual = ["localhost", "127.0.0.1", "::1", socket.gethostname()]
    suffix = "" if host in usual else f"-{host.replace('/', '_')}"
    place, key_place = folder / f"cert{suffix}.pem", folder / f"key{suffix}.pem"
    with files.locked(folder / "lock"):
        names = dict.fromkeys([*usual, host])
        if not _lasts(place, key_place, names):
            key = ec.generate_private_key(ec.SECP256R1())
            subject = _subject("osm-lab")
            files.replace(key_place, _private(key))
            files.replace(place, _root(_builder(subject, subject, key.public_key(), names), key))
    return place, key_place


def _lasts(place: Path, key_place: Path, names: Iterable[str]) -> bool:
    """Tell whether a certificate is there, with its key, for these names and for a month yet."""
    try:
        certificate = x509.load_pem_x509_certificate(place.read_bytes())
        key = serialization.load_pem_private_key(key_place.read_bytes(), None)
        listed = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, x509.ExtensionNotFound):
        return False
    left = certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    fits = {_name(name) for name in names} <= set(listed)
    return fits and key.public_key() == certificate.public_key() and left.days >= 30


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, names: Iterable[str] = ()
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
    )
    listed = [_name(text) for text in names]
    if listed:
        builder = builder.add_extension(x509.SubjectAlternativeName(listed), critical=False)
    return builder


def _root(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> str:
    """Return a certificate that signs itself, PEM."""
    constraints = x509.BasicConstraints(ca=True, path_length=0)
    return _pem(builder.add_extension(constraints, critical=True).sign(key, hashes.SHA256()))


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode("ascii")


def _private(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode("ascii")


def _subject(common: str, group: str = "") -> x509.Name:
    words = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if group:
        words.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(words)


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
