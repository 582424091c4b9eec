"""Strict parsers for the identities of a mobile network, like those of `vpnaas.base.fields`."""

import re
from typing import Dict, Tuple

import attr
from vpnaas.base import fields
from vpnaas.base.errors import InputError

from .images import IMAGES

_REALM = re.compile(
    r"\A(?=.{4,120}\Z)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]*[a-z0-9])?\Z"
)
_APN = re.compile(r"\A[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*\Z")
_PREFIX = re.compile(r"\A[a-z0-9][a-z0-9.-]*(:[0-9]{1,5})?(/[a-z0-9][a-z0-9._-]*)*\Z")
_TAG, _DIGEST = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", r"sha256:[0-9a-f]{64}"
_VERSION = re.compile(r"\A({0}|{1}|{0}@{1})\Z".format(_TAG, _DIGEST))
"""A tag, a digest (OCI distribution specification), or both."""
_HOST = re.compile(r"\A[a-z]([a-z0-9-]{0,30}[a-z0-9])?\Z")
_KEY = re.compile(r"\A[0-9a-f]{32}\Z")

RESOURCE_BLOCKS = (25, 50, 100)
"""Bandwidths of OAI's eNB: 5, 10 and 20 MHz (TS 36.101 table 5.6-1)."""


@attr.frozen
class Plmn:
    """A network's identity (TS 23.003 clause 2.2): MCC and MNC as text, as leading zeros count."""

    mcc: str
    mnc: str

    @property
    def mnc3(self) -> str:
        """Return the MNC with three digits, as in domain names (TS 23.003 clause 19.2)."""
        return self.mnc.zfill(3)

    def __str__(self) -> str:
        return self.mcc + self.mnc


def digits(where: str, text: object, low: int, high: int) -> str:
    """Parse `low` to `high` decimal digits; leading zeros count."""
    value = str(text)
    count = str(low) if low == high else "{} to {}".format(low, high)
    fits = not isinstance(text, bool) and re.match(r"\A[0-9]{%d,%d}\Z" % (low, high), value)
    return fields.matching(fits, where, value, "made of digits", count + " digits")


def plmn(where: str, mcc: object, mnc: object) -> Plmn:
    """Parse MCC (three digits) and MNC (two or three: 01 and 001 are two networks)."""
    return Plmn(digits(where + "mcc", mcc, 3, 3), digits(where + "mnc", mnc, 2, 3))


def plmn_text(where: str, text: str) -> Plmn:
    """Parse MCC and MNC written together, as `str` of a PLMN returns them."""
    value = digits(where, text, 5, 6)
    return Plmn(value[:3], value[3:])


def realm(where: str, text: str) -> str:
    """Parse a Diameter realm: a domain name in lower case with a dot (RFC 6733 clause 4.3.1)."""
    allowed = "a domain name in lower case such as epc.mnc001.mcc001.3gppnetwork.org"
    return fields.matching(_REALM.match(text), where, text, "a realm", allowed)


def apn(where: str, text: str) -> str:
    """Parse an APN network identifier (TS 23.003 clause 9.1.1)."""
    reserved = text.startswith(("rac", "lac", "sgsn", "rnc")) or text.endswith(".gprs")
    fits = len(text) <= 63 and _APN.match(text) and not reserved
    allowed = "labels of a-z, 0-9 and '-' such as internet or oai.ipv4, not starting with "
    return fields.matching(fits, where, text, "an APN", allowed + "rac, lac, sgsn or rnc")


def key(where: str, text: str) -> str:
    """Parse a 128-bit key; the error text never contains the value."""
    if not _KEY.match(text.lower()):
        raise InputError(where, "the value is not a key", "32 hexadecimal digits")
    return text.lower()


def imsi(where: str, text: object) -> str:
    """Parse an IMSI of 15 digits (TS 23.003 clause 2.2 allows up to 15; OAI wants all)."""
    return digits(where, text, 15, 15)


def imsi_of(where: str, text: object, network: Plmn) -> str:
    value = imsi(where, text)
    if not value.startswith(str(network)):
        raise InputError(
            where,
            "{} is not of network {}-{}".format(value, network.mcc, network.mnc),
            "15 digits that start with {}".format(network),
        )
    return value


def host_name(where: str, text: str) -> str:
    """Parse the first label of a Diameter identity (RFC 1123 clause 2.1)."""
    allowed = "1 to 32 of a-z, 0-9 and '-', a letter first, no '-' last"
    return fields.matching(_HOST.match(text), where, text, "the name of a host", allowed)


def host_names(where: str, text: str) -> str:
    """Parse host names separated by commas; return them without spaces and duplicates."""
    names = [host_name(where, part.strip(" ")) for part in text.split(",")]
    return ",".join(dict.fromkeys(names))


def msisdn(where: str, text: object) -> str:
    """Parse an MSISDN without '+' (E.164: up to 15 digits, none starts with zero)."""
    value = digits(where, text, 5, 15)
    if value.startswith("0"):
        raise InputError(where, "{} starts with zero".format(value), "a country code first")
    return value


def tac(where: str, value: object) -> int:
    """Parse a tracking area code; 0 and 65534 are reserved (TS 23.003 clause 19.4.2.3)."""
    return fields.integer(where, value, 1, 65533)


def tac_5g(where: str, value: object) -> int:
    """Parse a tracking area code of 5GS, 24 bits; 0 and FFFFFE are reserved (TS 23.003)."""
    return fields.integer(where, value, 1, 0xFFFFFD)


def ipv4(where: str, text: str) -> str:
    value = fields.address(where, text)
    if value.version != 4:
        raise InputError(where, "{} is not IPv4".format(value), "an IPv4 address")
    return str(value)


def pool(where: str, text: str) -> fields.IPNetwork:
    """Parse the IPv4 prefix of the UEs' addresses."""
    value = fields.network(where, text)
    if value.version != 4 or value.prefixlen > 29:
        raise InputError(where, "{} is no pool of UEs".format(value), "an IPv4 prefix, /8 to /29")
    return value


def image_prefix(where: str, text: str) -> str:
    """Parse a registry, with optional port and path."""
    allowed = "docker.io, or host, port and path such as registry.example.net:5000/mirror"
    fits = len(text) <= 200 and _PREFIX.match(text)
    return fields.matching(fits, where, text, "a registry", allowed)


def pins(where: str, text: str) -> Tuple[Tuple[str, str], ...]:
    """Parse tags and digests of images, such as `hss=latest,spgwc=sha256:0123...`."""
    result: Dict[str, str] = {}
    for part in text.split(",") if text else ():
        container, equals, version = part.strip(" ").partition("=")
        known = container in IMAGES and container not in result
        if not known or not equals or not _VERSION.match(version):
            raise InputError(
                where,
                "{} pins no image".format(fields.shown(part)),
                "none, or CONTAINER=TAG, CONTAINER=sha256:DIGEST or CONTAINER=TAG@sha256:DIGEST "
                "with commas between, of " + ", ".join(sorted(IMAGES)),
            )
        result[container] = version
    return tuple(sorted(result.items()))


def image_pins(where: str, text: str) -> str:
    """Return `pins` as text in canonical form."""
    return ",".join("=".join(pin) for pin in pins(where, text))


def resource_blocks(where: str, value: object) -> int:
    """Parse a cell's bandwidth."""
    blocks = fields.integer(where, value, 6, 100)
    if blocks not in RESOURCE_BLOCKS:
        allowed = ", ".join(str(count) for count in RESOURCE_BLOCKS)
        raise InputError(where, "{} resource blocks".format(blocks), allowed)
    return blocks
