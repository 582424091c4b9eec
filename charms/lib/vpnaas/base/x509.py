"""Certificates (RFC 5280) and requests for them (PKCS#10, RFC 2986), strictly read.

This module reads their content with `cryptography`, which charms have for SSH anyway. The import is
slow, so it runs only if there is a certificate to read. openssl on the VDU checks the signatures.
Only the key and the name of a request are used, and both must match the requester's offer.
"""

import base64
import binascii
import calendar
import re
import textwrap
import time
from functools import lru_cache
from typing import Any, Iterable, List, Optional, Tuple, Type

import attr

from vpnaas.base.errors import InputError
from vpnaas.base.fields import digest, ike_identity, shown

MAX_BYTES = 3000
"""Limit of the DER; in base64 it still fits a value of a databag."""
MAX_CHAIN = 3
"""Intermediate authorities between a certificate and its root."""
MIN_RSA = 2048
"""Bits of a modulus: at least 112 bits of security (NIST SP 800-57 part 1, table 2)."""
COMMON_NAME = "2.5.4.3"
_CURVES = ("secp256r1", "secp384r1", "secp521r1")
_SIGNATURES = (
    "1.3.101.112", "1.3.101.113",  # RFC 8410
    "1.2.840.10045.4.3.2", "1.2.840.10045.4.3.3", "1.2.840.10045.4.3.4",  # RFC 5758
    "1.2.840.113549.1.1.10", "1.2.840.113549.1.1.11", "1.2.840.113549.1.1.12",
    "1.2.840.113549.1.1.13",  # RFC 8017
)  # fmt: skip
ALLOWED_KEYS = "Ed25519, P-256, P-384, P-521, or RSA of {} bits and more".format(MIN_RSA)
CERTIFICATE, REQUEST = "CERTIFICATE", "CERTIFICATE REQUEST"


@attr.frozen
class Request:
    """A request for a certificate."""

    text: str  # Base64 of its DER.
    key: str  # Base64 of its SubjectPublicKeyInfo.
    name: str  # Common name of its subject; the subject has no other attributes.

    @property
    def pem(self) -> str:
        return armour(self.text, REQUEST)


@attr.frozen
class Certificate:
    """A certificate."""

    text: str  # Base64 of its DER.
    serial: str  # Serial number, hexadecimal digits.
    issuer: str  # Name of the issuer (hexadecimal digits of the DER).
    subject: str  # Name of the holder, in the same form.
    key: str  # Base64 of its SubjectPublicKeyInfo.
    begins: int  # Start of its validity, seconds since the epoch.
    ends: int  # End of its validity, seconds since the epoch.
    names: Tuple[str, ...] = ()  # Its DNS names. IKE compares identities of type FQDN with these.
    authority: bool = False  # Whether its key may sign certificates.
    key_id: str = ""  # Identifier of its key in hexadecimal digits, "" if it names none.
    issuer_key_id: str = ""  # The same of the issuer's key.

    @property
    def pem(self) -> str:
        return armour(self.text, CERTIFICATE)

    @property
    def renewal(self) -> int:
        """Return when two thirds of its validity are over, seconds since the epoch."""
        return self.begins + (self.ends - self.begins) * 2 // 3

    def issued_by(self, authority: "Certificate") -> bool:
        """Tell whether it names this authority as its issuer; openssl checks the signature.

        Authorities of one name differ by identifiers of their keys (RFC 5280 clause 4.2.1.1).
        """
        ids = (self.issuer_key_id, authority.key_id)
        return self.issuer == authority.subject and ("" in ids or ids[0] == ids[1])


def path_to(
    root: Certificate, held: Certificate, others: Iterable[Certificate]
) -> Optional[Tuple[Certificate, ...]]:
    """Return the intermediate authorities from a certificate to its root, None without a path.

    Names and identifiers of keys are compared; openssl checks the signatures. The shortest path
    counts. Of authorities made anew with the same name, the one that signed counts, then the one
    that is valid longest. Each of them extends one path only, so many of one name cost little time.
    """
    left = sorted((other for other in others if other.authority), key=lambda other: -other.ends)
    paths: List[Tuple[Certificate, ...]] = [(held,)]
    for _ in range(1 + MAX_CHAIN):
        ended = [path for path in paths if path[-1].issued_by(root)]
        if ended:
            if len(ended) > 1:
                ended.sort(key=lambda path: not _signed(path[-1], root))
            return ended[0][1:]
        longer = []
        for path in paths:
            above = [path + (other,) for other in left if path[-1].issued_by(other)]
            if len(above) > 1:
                above.sort(key=lambda path: not _signed(*path[-2:]))
            longer += above
            left = [other for other in left if not path[-1].issued_by(other)]
        paths = longer
    return None


@lru_cache(maxsize=8192)
def _signed(*pair: Certificate) -> bool:
    """Tell whether the key of the second certificate signed the first."""
    from cryptography import exceptions, x509

    try:
        held, by = (x509.load_der_x509_certificate(base64.b64decode(c.text)) for c in pair)
        held.verify_directly_issued_by(by)
    except _unreadable() + (exceptions.InvalidSignature,):
        return False
    return True


def bundle(text: str) -> Tuple[str, ...]:
    """Return the PEM text of each certificate in a text with several."""
    return tuple(re.findall("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", text, re.S))


def handle(serial: str, authority: Certificate) -> str:
    """Return the name of a certificate: its serial number and a digest of its authority."""
    return "{}-{}".format(serial, digest(authority.text)[:8])


def armour(text: str, label: str) -> str:
    """Return the PEM form (RFC 7468) of base64."""
    body = "\n".join(textwrap.wrap(text, 64))
    return "-----BEGIN {0}-----\n{1}\n-----END {0}-----\n".format(label, body)


def body(pem: Optional[str]) -> str:
    """Return the base64 in a PEM text, "" without one; other base64 stays as it is."""
    lines = (pem or "").splitlines()
    return "".join(line.strip() for line in lines if not line.startswith("-----"))


def _der(where: str, text: str, label: str) -> Tuple[str, bytes]:
    allowed = "one {} of at most {} bytes, PEM or base64 of its DER".format(
        label.lower(), MAX_BYTES
    )
    if len(text) > 2 * MAX_BYTES:
        raise InputError(where, "{} characters are too many".format(len(text)), allowed)
    match = re.match(r"\A\s*(?:-----BEGIN ([A-Z ]+)-----(.*)-----END \1-----)\s*\Z", text, re.S)
    if match and match.group(1) != label:
        raise InputError(where, "it is a {}".format(match.group(1).lower()), allowed)
    body = "".join((match.group(2) if match else text).split())
    try:
        raw = base64.b64decode(body.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raw = b""
    if not raw or base64.b64encode(raw).decode("ascii") != body:
        raise InputError(where, "{} is not base64".format(shown(text)), allowed)
    if len(raw) > MAX_BYTES:
        raise InputError(where, "{} bytes are too many".format(len(raw)), allowed)
    return body, raw


@lru_cache(maxsize=8192)
def request(where: str, text: str) -> Request:
    """Parse a request; its attributes, such as requested extensions, are ignored."""
    from cryptography import x509

    body, raw = _der(where, text, REQUEST)
    try:
        csr = x509.load_der_x509_csr(raw)
        names = list(csr.subject)
        if len(names) != 1 or names[0].oid.dotted_string != COMMON_NAME:
            raise _MalformedError("its subject is not one common name")
        name = str(names[0].value)
        key = _strong(where, csr)
    except _unreadable() as error:
        raise _not(where, "request", error)
    return Request(body, key, ike_identity(where + ": subject", name))


@lru_cache(maxsize=8192)
def certificate(where: str, text: str) -> Certificate:
    """Parse a certificate of version 3."""
    from cryptography import x509

    body, raw = _der(where, text, CERTIFICATE)
    try:
        parsed = x509.load_der_x509_certificate(raw)
        if parsed.version is not x509.Version.v3:
            raise _MalformedError("not of version 3")
        size = (parsed.serial_number.bit_length() + 8) // 8
        if parsed.serial_number <= 0 or size > 20:
            raise _MalformedError("a serial number out of range")
        names: Tuple[str, ...] = ()
        authority, key_id, issuer_key_id = False, "", ""
        for extension in parsed.extensions:
            if isinstance(extension.value, x509.SubjectAlternativeName):
                names = tuple(extension.value.get_values_for_type(x509.DNSName))
            elif isinstance(extension.value, x509.BasicConstraints):
                authority = extension.value.ca
            elif isinstance(extension.value, x509.SubjectKeyIdentifier):
                key_id = extension.value.digest.hex()
            elif isinstance(extension.value, x509.AuthorityKeyIdentifier):
                issuer_key_id = (extension.value.key_identifier or b"").hex()
        certified = Certificate(
            text=body,
            serial=parsed.serial_number.to_bytes(size, "big").hex(),
            issuer=parsed.issuer.public_bytes().hex(),
            subject=parsed.subject.public_bytes().hex(),
            key=_strong(where, parsed),
            begins=_seconds(parsed, "not_valid_before"),
            ends=_seconds(parsed, "not_valid_after"),
            names=names,
            authority=authority,
            key_id=key_id,
            issuer_key_id=issuer_key_id,
        )
    except _unreadable() as error:
        raise _not(where, "certificate", error)
    return certified


def stored(text: Optional[str]) -> Optional[Certificate]:
    """Return the certificate in a file of a VDU, None if it is missing or invalid."""
    try:
        return certificate("VDU", text) if text else None
    except InputError:
        return None


def authority(where: str, text: str) -> Certificate:
    """Parse the self-signed certificate of a root authority."""
    root = certificate(where, text)
    if not root.authority:
        raise InputError(where, "its key may not sign certificates", "basicConstraints CA:TRUE")
    if not root.issued_by(root):
        raise InputError(where, "another authority issued it", "the root that signs itself")
    return root


def matching(where: str, held: Certificate, key: str, identity: str) -> None:
    """Check that a certificate has this key and this identity."""
    if held.key != key:
        raise InputError(where, "it is for another key", "one for the public key in the offer")
    if identity not in held.names:
        names = ", ".join(held.names) or "nobody"
        raise InputError(
            where, "it names {}".format(shown(names)), "subjectAltName DNS:{}".format(identity)
        )


def in_force(where: str, held: Certificate, now: int) -> None:
    """Check that a certificate is valid now."""
    if not held.begins <= now < held.ends:
        raise InputError(
            where,
            "it is valid from {} to {} only".format(date(held.begins), date(held.ends)),
            "one that is valid now, {}".format(date(now)),
        )


def date(seconds: int) -> str:
    """Return a time for people, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seconds))


class _MalformedError(ValueError):
    """The data is well-formed, but not acceptable."""


def _unreadable() -> Tuple[Type[Exception], ...]:
    """Return the exceptions that `cryptography` raises for data it cannot read."""
    from cryptography import exceptions, x509

    return (
        ValueError,
        TypeError,
        OverflowError,
        KeyError,  # 40.0.2, for a kind of text in a name that it does not know
        exceptions.UnsupportedAlgorithm,
        x509.DuplicateExtension,
        x509.InvalidVersion,
        x509.UnsupportedGeneralNameType,
    )


def _strong(where: str, parsed: Any) -> str:
    """Return the key of a certificate or request, base64 of its SubjectPublicKeyInfo."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = parsed.public_key()
    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size < MIN_RSA:
            raise InputError(
                where, "its RSA key of {} bits is too weak".format(key.key_size), ALLOWED_KEYS
            )
    elif isinstance(key, ec.EllipticCurvePublicKey):
        if key.curve.name not in _CURVES:
            raise InputError(where, "its key is of an unknown or weak kind", ALLOWED_KEYS)
    elif not isinstance(key, (ed25519.Ed25519PublicKey, ed448.Ed448PublicKey)):
        raise InputError(where, "its key is of an unknown or weak kind", ALLOWED_KEYS)
    if parsed.signature_algorithm_oid.dotted_string not in _SIGNATURES:
        raise InputError(
            where,
            "its signature is of an unknown or weak kind",
            "EdDSA, or SHA-2 with ECDSA or RSA",
        )
    whole = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(whole).decode("ascii")


def _seconds(parsed: Any, name: str) -> int:
    # The `cryptography` of Python 3.6 has no names with `_utc`.
    moment = getattr(parsed, name + "_utc", None) or getattr(parsed, name)
    return calendar.timegm(moment.utctimetuple())


def _not(where: str, what: str, error: Exception) -> InputError:
    reason = str(error) if isinstance(error, _MalformedError) else "it is malformed"
    return InputError(where, "not a {}: {}".format(what, reason), "DER as openssl writes it")
