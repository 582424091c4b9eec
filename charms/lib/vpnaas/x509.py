"""Certificates (RFC 5280) and requests for them (PKCS#10, RFC 2986), strictly read.

What is in them is read here; whether signatures are good, openssl says on the VDU. Nothing of a
request is taken over but its key and its name, and both must be what the requester's offer says.
"""

import base64
import binascii
import calendar
import re
import textwrap
import time
from typing import List, Tuple

import attr

from . import der
from .der import MalformedError
from .errors import InputError
from .fields import ike_identity, shown
from .tunnel import digest

MAX_BYTES = 3000
"""Of DER; in base64 such a text still fits a value of a databag."""
MIN_RSA = 2048
"""Bits of a modulus; less is worth less than 112 bits (NIST SP 800-57 part 1, table 2)."""
COMMON_NAME = "2.5.4.3"
ALTERNATIVE_NAMES, BASIC_CONSTRAINTS = "2.5.29.17", "2.5.29.19"
RSA, EC = "1.2.840.113549.1.1.1", "1.2.840.10045.2.1"
_KEYS = {"1.3.101.112": "Ed25519", "1.3.101.113": "Ed448"}
_CURVES = {
    "1.2.840.10045.3.1.7": "P-256",
    "1.3.132.0.34": "P-384",
    "1.3.132.0.35": "P-521",
}
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
    """A request for a certificate.

    Attributes:
        text: Base64 of its DER.
        key: Base64 of its SubjectPublicKeyInfo.
        name: Common name of its subject, which is all of the subject.
    """

    text: str
    key: str
    name: str

    @property
    def pem(self) -> str:
        """Return its armoured form."""
        return armour(self.text, REQUEST)


@attr.frozen
class Certificate:
    """A certificate.

    Attributes:
        text: Base64 of its DER.
        serial: Serial number, hexadecimal digits.
        issuer: Name of who issued it (hexadecimal digits of the DER).
        subject: Name of whose it is, in the same form.
        key: Base64 of its SubjectPublicKeyInfo.
        begins: From when on it is good, seconds since the epoch.
        ends: Until when it is good.
        names: DNS names, which are what IKE identities of type FQDN are compared with.
        authority: Whether its key may sign certificates.
    """

    text: str
    serial: str
    issuer: str
    subject: str
    key: str
    begins: int
    ends: int
    names: Tuple[str, ...] = ()
    authority: bool = False

    @property
    def pem(self) -> str:
        """Return its armoured form."""
        return armour(self.text, CERTIFICATE)

    @property
    def renewal(self) -> int:
        """Return when two thirds of its life are over."""
        return self.begins + (self.ends - self.begins) * 2 // 3

    def issued_by(self, authority: "Certificate") -> bool:
        """Tell whether it says so; openssl knows whether that is true."""
        return self.issuer == authority.subject


def handle(serial: str, authority: Certificate) -> str:
    """Return what a certificate is called: its authority's digits behind its serial number."""
    return "{}-{}".format(serial, digest(authority.text)[:8])


def armour(text: str, label: str) -> str:
    """Return the PEM form (RFC 7468) of base64."""
    body = "\n".join(textwrap.wrap(text, 64))
    return "-----BEGIN {0}-----\n{1}\n-----END {0}-----\n".format(label, body)


def _der(where: str, text: str, label: str) -> Tuple[str, bytes]:
    allowed = "one {} of at most {} bytes, PEM or base64 of its DER".format(
        label.lower(), MAX_BYTES
    )
    if len(text) > 2 * MAX_BYTES:
        raise InputError(where, "{} characters are too many".format(len(text)), allowed)
    found = re.match(r"\A\s*(?:-----BEGIN ([A-Z ]+)-----(.*)-----END \1-----)\s*\Z", text, re.S)
    if found and found.group(1) != label:
        raise InputError(where, "it is a {}".format(found.group(1).lower()), allowed)
    body = "".join((found.group(2) if found else text).split())
    try:
        raw = base64.b64decode(body.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raw = b""
    if not raw or base64.b64encode(raw).decode("ascii") != body:
        raise InputError(where, "{} is not base64".format(shown(text)), allowed)
    if len(raw) > MAX_BYTES:
        raise InputError(where, "{} bytes are too many".format(len(raw)), allowed)
    return body, raw


def request(where: str, text: str) -> Request:
    """Parse a request; its attributes, and so extensions it asks for, are not looked at."""
    body, raw = _der(where, text, REQUEST)
    try:
        info, algorithm, _ = der.one(raw, der.SEQUENCE).items(der.SEQUENCE, der.SEQUENCE, der.BITS)
        version, subject, key, _ = info.items(der.INTEGER, der.SEQUENCE, der.SEQUENCE, 0xA0)
        if version.content != b"\0":
            raise MalformedError("its version is unknown")
        names = [pair for part in subject.items() for pair in part.items()]
        if len(names) != 1:
            raise MalformedError("its subject is not one common name")
        kind, value = names[0].items()
        if der.oid(kind) != COMMON_NAME or value.tag not in (der.UTF8, der.PRINTABLE):
            raise MalformedError("its subject is not one common name")
        name = value.content.decode("ascii")
        signed_by = der.oid(algorithm.items()[0])
    except (MalformedError, IndexError, ValueError) as error:
        raise _not(where, "request", error)
    _strong(where, key, signed_by)
    return Request(body, _b64(key.whole), ike_identity(where + ": subject", name))


def certificate(where: str, text: str) -> Certificate:
    """Parse a certificate of version 3."""
    body, raw = _der(where, text, CERTIFICATE)
    try:
        signed, algorithm, _ = der.one(raw, der.SEQUENCE).items(
            der.SEQUENCE, der.SEQUENCE, der.BITS
        )
        parts = signed.items()
        kinds = [part.tag for part in parts]
        expected = [0xA0, der.INTEGER] + [der.SEQUENCE] * 5
        if kinds[:7] != expected or parts[0].content != b"\x02\x01\x02":
            raise MalformedError("not of version 3")
        serial, inner, issuer, validity, subject, key = parts[1:7]
        if inner.whole != algorithm.whole:
            raise MalformedError("two signature algorithms")
        if not 1 <= len(serial.content) <= 20 or serial.content[0] & 0x80:
            raise MalformedError("a serial number out of range")
        begins, ends = [_time(item) for item in validity.items()]
        names: Tuple[str, ...] = ()
        authority = False
        for extension in _extensions(parts[7:]):
            kind, value = der.oid(extension[0]), extension[-1]
            if kind == ALTERNATIVE_NAMES:
                listed = der.one(value.content, der.SEQUENCE).items()
                names = tuple(n.content.decode("ascii") for n in listed if n.tag == 0x82)
            elif kind == BASIC_CONSTRAINTS:
                inside = der.one(value.content, der.SEQUENCE).items()
                authority = bool(inside) and inside[0].whole == b"\x01\x01\xff"
        signed_by = der.oid(algorithm.items()[0])
    except (MalformedError, IndexError, ValueError) as error:
        raise _not(where, "certificate", error)
    _strong(where, key, signed_by)
    return Certificate(
        text=body,
        serial=serial.content.hex(),
        issuer=issuer.whole.hex(),
        subject=subject.whole.hex(),
        key=_b64(key.whole),
        begins=begins,
        ends=ends,
        names=names,
        authority=authority,
    )


def authority(where: str, text: str) -> Certificate:
    """Parse the certificate of an authority that answers to nobody else."""
    found = certificate(where, text)
    if not found.authority:
        raise InputError(where, "its key may not sign certificates", "basicConstraints CA:TRUE")
    if not found.issued_by(found):
        raise InputError(where, "another authority issued it", "the root that signs itself")
    return found


def matching(where: str, found: Certificate, key: str, identity: str) -> Certificate:
    """Return a certificate that is for a key and an identity."""
    if found.key != key:
        raise InputError(where, "it is for another key", "one for the public key in the offer")
    if identity not in found.names:
        told = ", ".join(found.names) or "nobody"
        raise InputError(
            where, "it names {}".format(shown(told)), "subjectAltName DNS:{}".format(identity)
        )
    return found


def in_force(where: str, found: Certificate, now: int) -> Certificate:
    """Return a certificate whose time has come and has not passed."""
    if not found.begins <= now < found.ends:
        raise InputError(
            where,
            "it is good from {} to {} only".format(date(found.begins), date(found.ends)),
            "one that is good now, {}".format(date(now)),
        )
    return found


def date(seconds: int) -> str:
    """Return a time for people, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seconds))


def _extensions(parts: List[der.Item]) -> List[List[der.Item]]:
    if not parts:
        return []
    if len(parts) != 1 or parts[0].tag != 0xA3:
        raise MalformedError("more than extensions behind its key")
    found = [each.items() for each in der.one(parts[0].content, der.SEQUENCE).items()]
    kinds = [der.oid(extension[0]) for extension in found]
    if len(set(kinds)) != len(kinds) or any(e[-1].tag != der.OCTETS for e in found):
        raise MalformedError("its extensions repeat")
    return found


def _time(item: der.Item) -> int:
    form = {der.UTC_TIME: "%y%m%d%H%M%SZ", der.TIME: "%Y%m%d%H%M%SZ"}.get(item.tag)
    text = item.content.decode("ascii")
    digits = 12 if item.tag == der.UTC_TIME else 14
    if form is None or not re.match(r"\A[0-9]{%d}Z\Z" % digits, text):
        raise MalformedError("a time in another form")
    if item.tag == der.UTC_TIME:
        # RFC 5280 section 4.1.2.5.1
        form, text = "%Y%m%d%H%M%SZ", ("20" if text < "5" else "19") + text
    return calendar.timegm(time.strptime(text, form))


def _strong(where: str, key: der.Item, signed_by: str) -> None:
    """Raise InputError where a key or a signature is weaker than the rest of a tunnel."""
    try:
        algorithm, value = key.items(der.SEQUENCE, der.BITS)
        words = algorithm.items()
        kind = der.oid(words[0])
        if kind == EC:
            known = der.oid(words[1]) in _CURVES
        elif kind == RSA:
            modulus, _ = der.one(der.bits(value), der.SEQUENCE).items(der.INTEGER, der.INTEGER)
            size = int.from_bytes(modulus.content, "big").bit_length()
            if size < MIN_RSA:
                raise InputError(
                    where, "its RSA key of {} bits is too weak".format(size), ALLOWED_KEYS
                )
            known = True
        else:
            known = kind in _KEYS
    except (MalformedError, IndexError) as error:
        raise _not(where, "public key", error)
    if not known:
        raise InputError(where, "its key is of an unknown or weak kind", ALLOWED_KEYS)
    if signed_by not in _SIGNATURES:
        raise InputError(
            where,
            "its signature is of an unknown or weak kind",
            "EdDSA, or SHA-2 with ECDSA or RSA",
        )


def _not(where: str, what: str, error: Exception) -> InputError:
    reason = str(error) if isinstance(error, MalformedError) else "it is malformed"
    return InputError(where, "not a {}: {}".format(what, reason), "DER as openssl writes it")


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
