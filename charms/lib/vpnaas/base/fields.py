"""Strict parsers for single values that come from operators and peers.

Each parser takes `where` (for the error sentence) and text, returns a typed value, and raises
InputError. Text is never repaired: any other form is refused, because the same functions guard
against hostile relation data.
"""

import base64
import binascii
import hashlib
import ipaddress
import json
import re
from typing import Any, Callable, Dict, Iterable, Mapping, Sequence, Tuple, TypeVar, Union

from vpnaas.base.errors import InputError

IPAddress = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
IPInterface = Union[ipaddress.IPv4Interface, ipaddress.IPv6Interface]
IPNetwork = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

AUTO, NOTHING = ("", "auto"), ("", "none")
EVERY: Mapping[int, IPNetwork] = {
    4: ipaddress.IPv4Network("0.0.0.0/0"),
    6: ipaddress.IPv6Network("::/0"),
}
"""The prefix of all addresses, by version of IP."""
MIN_MTU = 1280
"""Smallest MTU in bytes a link may have (RFC 8200 section 5, so that IPv6 always fits)."""
MAX_MTU = 9500
MAX_PREFIXES = 32
"""Prefixes one peer may announce; more is a mistake or an attack."""

_DECIMAL = re.compile(r"\A(0|[1-9][0-9]{0,9})\Z")
_NAME = re.compile(r"\A[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?\Z")
_IDENTITY = re.compile(r"\A[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?\Z")
_INTERFACE = re.compile(r"\A[A-Za-z][A-Za-z0-9_.-]{0,14}\Z")
_ADDRESS = re.compile(r"\A[0-9A-Fa-f:.]{2,45}\Z")
_FINGERPRINT = re.compile(r"\ASHA256:[A-Za-z0-9+/]{43}\Z")
_SSH_KEY = re.compile(r"\Assh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI[A-Za-z0-9+/]{43}\Z")


def shown(text: object) -> str:
    """Return `text` quoted, printable and cut, fit for an error sentence."""
    try:
        quoted = ascii(str(text))
    except (ValueError, RecursionError):
        # Python does not print numbers of thousands of digits, or what nests too deeply.
        return "a value that is too long"
    return quoted if len(quoted) <= 60 else quoted[:56] + "...'"


def few(words: Sequence[str], between: str = ", ", most: int = 8) -> str:
    """Return a list as text; of a long list, the first words and the number of the others."""
    if len(words) <= most:
        return between.join(words)
    return "{} and {} others".format(between.join(words[:most]), len(words) - most)


def matching(fits: object, where: str, text: str, what: str, allowed: str) -> str:
    """Return a text if it `fits`; any other is not `what`, and `allowed` says what is."""
    if not fits:
        raise InputError(where, "{} is not {}".format(shown(text), what), allowed)
    return text


def is_count(text: str) -> bool:
    """Tell whether a text of a VDU is a whole number; isdigit takes more than `int` does."""
    return re.fullmatch("[0-9]{1,15}", text) is not None


def integer(where: str, text: object, low: int, high: int) -> int:
    """Parse a decimal integer between `low` and `high`, both included.

    A bool is refused, since OSM turns any BOOLEAN text into one.
    """
    allowed = "a whole number from {} to {}".format(low, high)
    if isinstance(text, bool) or not isinstance(text, (int, str)):
        raise InputError(where, "{} is not a number".format(shown(text)), allowed)
    if isinstance(text, str) and not _DECIMAL.match(text[1:] if text.startswith("-") else text):
        raise InputError(where, "{} is not a whole number".format(shown(text)), allowed)
    value = int(text)
    if not low <= value <= high:
        raise InputError(where, "{} is out of range".format(shown(value).strip("'")), allowed)
    return value


def name(where: str, text: str) -> str:
    """Parse the name of a manual peer: 1 to 32 of a-z, 0-9 and '-', not at the ends."""
    allowed = "1 to 32 of a-z, 0-9 and '-', with a letter or digit at both ends"
    return matching(_NAME.match(text), where, text, "a name", allowed)


def network_interface(where: str, text: str) -> str:
    """Parse the name of a Linux network interface (at most 15 characters, IFNAMSIZ - 1)."""
    allowed = "1 to 15 letters, digits, '_', '.' or '-', starting with a letter"
    return matching(_INTERFACE.match(text), where, text, "an interface name", allowed)


def address(where: str, text: str) -> IPAddress:
    """Parse a unicast IPv4 or IPv6 address that a host can have on a network."""
    allowed = "an IPv4 or IPv6 unicast address such as 192.0.2.1 or 2001:db8::1"
    try:
        value = ipaddress.ip_address(
            matching(_ADDRESS.match(text), where, text, "an IP address", allowed)
        )
    except ValueError:
        raise InputError(where, "{} is not an IP address".format(shown(text)), allowed)
    return _unicast(where, value, allowed)


def interface_address(where: str, text: str) -> IPInterface:
    """Parse an address with prefix length, such as 172.16.6.2/24.

    The network and broadcast addresses of an IPv4 subnet wider than /31 are refused (RFC 1122
    section 3.2.1.3, RFC 3021).
    """
    allowed = "an address with prefix length such as 172.16.6.2/24 or fd00::2/64"
    host, slash, length = text.partition("/")
    fits = slash and _DECIMAL.match(length)
    matching(fits, where, text, "an address with prefix length", allowed)
    value = _unicast(where, address(where, host), allowed)
    width = int(length)
    if not 8 <= width <= value.max_prefixlen:
        raise InputError(
            where,
            "prefix length {} is out of range".format(width),
            "8 to {}".format(value.max_prefixlen),
        )
    full = ipaddress.ip_interface("{}/{}".format(value, width))
    if isinstance(full, ipaddress.IPv4Interface) and width < 31:
        if full.ip in (full.network.network_address, full.network.broadcast_address):
            raise InputError(
                where, "{} is the network or broadcast address of its subnet".format(full), allowed
            )
    return full


def network(where: str, text: str) -> IPNetwork:
    """Parse a prefix such as 10.45.0.0/16; a bare address is a host prefix, host bits are refused.

    The default route and anything wider than /8 (IPv4) or /16 (IPv6) is refused: no link of a
    mobile core carries that, and it would capture the management traffic of the VDU.
    """
    allowed = "a prefix such as 10.45.0.0/16, at least /8 for IPv4 and /16 for IPv6"
    host, slash, length = text.partition("/")
    fits = _ADDRESS.match(host) and (not slash or _DECIMAL.match(length))
    matching(fits, where, text, "a prefix", allowed)
    try:
        value = ipaddress.ip_network(text)
    except ValueError:
        raise InputError(
            where, "{} is not a prefix (or has host bits set)".format(shown(text)), allowed
        )
    if value.prefixlen < (8 if value.version == 4 else 16):
        raise InputError(where, "{} is too wide".format(value), allowed)
    _unicast(where, value.network_address, allowed, subnet=True)
    if overlaps(value, _MAPPED):
        raise InputError(where, "{} has IPv4 addresses in it".format(value), allowed)
    return value


def networks(where: str, text: str) -> Tuple[IPNetwork, ...]:
    """Parse prefixes separated by commas, sort them and drop repeats; "" and "none" mean none."""
    if text in NOTHING:
        return ()
    parts = text.split(",")
    if len(parts) > MAX_PREFIXES:
        raise InputError(
            where,
            "{} prefixes are too many".format(len(parts)),
            "at most {}".format(MAX_PREFIXES),
        )
    return ordered(network(where, part.strip(" ")) for part in parts)


def ordered(values: Iterable[IPNetwork]) -> Tuple[IPNetwork, ...]:
    """Return the prefixes sorted by family and address, each once."""
    return tuple(sorted(set(values), key=lambda n: (n.version, n.network_address, n.prefixlen)))


def endpoint(where: str, text: str) -> Tuple[IPAddress, int]:
    """Parse address and UDP port, 192.0.2.1:51820 or [2001:db8::1]:51820."""
    allowed = "192.0.2.1:51820 or [2001:db8::1]:51820"
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    matching(colon and bracketed == (":" in host), where, text, "address and port", allowed)
    return address(where, host), integer(where, port, 1, 65535)


def show_endpoint(host: IPAddress, port: int) -> str:
    """Return the text form `endpoint` parses and `wg set ... endpoint` takes."""
    return ("[{}]:{}" if host.version == 6 else "{}:{}").format(host, port)


def wireguard_key(where: str, text: str) -> str:
    """Parse a WireGuard public key: 32 bytes in canonical base64 (wg(8)), not all zero."""
    allowed = "32 bytes in base64 (44 characters), as `wg pubkey` prints them"
    raw = _base64(text)
    fits = len(text) == 44 and raw is not None and len(raw) == 32 and raw != bytes(32)
    return matching(fits, where, text, "a WireGuard key", allowed)


ED25519, P256, P384, RSA = "ed25519", "ecdsa-p256", "ecdsa-p384", "rsa-3072"
_SPKI = {
    # Start of a SubjectPublicKeyInfo, and the number of bytes that follow.
    ED25519: ("302a300506032b6570032100", 32),  # RFC 8410
    P256: ("3059301306072a8648ce3d020106082a8648ce3d030107034200", 65),  # RFC 5480
    P384: ("3076301006072a8648ce3d020106052b81040022036200", 97),
    # RFC 8017 appendix A.1: modulus of 3072 bits, and the exponent.
    RSA: ("308201a2300d06092a864886f70d01010105000382018f003082018a0282018100", 389),
}


def ipsec_key_type(text: str) -> str:
    """Return the type of a raw public key of IKEv2, "" for one that is none."""
    raw = _base64(text) or b""
    for name, (head, size) in _SPKI.items():
        start = bytes.fromhex(head)
        if raw.startswith(start) and len(raw) == len(start) + size:
            return name
    return ""


def ipsec_key(where: str, text: str) -> str:
    """Parse a raw public key of IKEv2: base64 of the DER of a key of a type in `_SPKI`."""
    allowed = (
        "base64 of an Ed25519, P-256, P-384 or RSA key of 3072 bits, the body of the output of"
        " `openssl pkey -pubout`"
    )
    return matching(ipsec_key_type(text), where, text, "an IKEv2 public key", allowed)


def ike_identity(where: str, text: str) -> str:
    """Parse an IKE identity of type FQDN: 1 to 64 of a-z, 0-9, '.' and '-', not at the ends."""
    allowed = "1 to 64 of a-z, 0-9, '.' and '-', with a letter or digit at both ends"
    return matching(_IDENTITY.match(text), where, text, "an IKE identity", allowed)


def blob(where: str, text: str, low: int, high: int) -> str:
    """Parse canonical base64 that decodes to `low` to `high` bytes."""
    raw = _base64(text)
    fits, allowed = low <= len(raw or b"") <= high, "base64 of {} to {} bytes".format(low, high)
    return matching(fits, where, text, "base64 of the right size", allowed)


def host_key_fingerprint(where: str, text: str) -> str:
    """Parse an OpenSSH SHA256 host key fingerprint; "" and "any" give ""."""
    if text in ("", "any"):
        return ""
    allowed = "SHA256: and 43 base64 characters, as `ssh-keygen -l` prints"
    return matching(_FINGERPRINT.match(text), where, text, "a fingerprint", allowed)


def ssh_public_key(where: str, text: str) -> str:
    """Parse an Ed25519 SSH public key without comment or options."""
    fits = _SSH_KEY.match(text) and _base64(text.split(" ")[1]) is not None
    allowed = "ssh-ed25519 and its base64, nothing else"
    return matching(fits, where, text, "an SSH public key", allowed)


def choice(where: str, text: str, options: Iterable[str]) -> str:
    known = list(options)
    if text not in known:
        raise InputError(where, "{} is unknown".format(shown(text)), few(known, most=32))
    return text


def boolean(where: str, value: object) -> bool:
    """Take a real bool only: any other type means the caller's schema was bypassed."""
    if not isinstance(value, bool):
        raise InputError(where, "{} is not a boolean".format(shown(value)), "true or false")
    return value


def string(where: str, value: object) -> str:
    """Take printable ASCII text of at most 4096 characters."""
    if not isinstance(value, str) or len(value) > 4096:
        what = "has {} characters".format(len(value)) if isinstance(value, str) else "is not text"
        raise InputError(where, "{} {}".format(shown(value), what), "up to 4096 characters")
    if not all(" " <= char <= "~" for char in value):
        raise InputError(
            where, "{} has characters that are not allowed".format(shown(value)), "printable ASCII"
        )
    return value


def json_object(
    where: str, text: str, allowed: str = "the form that this charm writes"
) -> Dict[str, Any]:
    """Parse a document, such as one that this charm has stored in Juju: a JSON object."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise InputError(where, "not a JSON object", allowed)
    return document


def show_networks(values: Iterable[IPNetwork]) -> str:
    """Return the text form `networks` parses."""
    return ",".join(str(value) for value in values)


def host_network(value: Union[IPAddress, IPInterface]) -> IPNetwork:
    """Return the /32 or /128 prefix of one address."""
    host = value.ip if isinstance(value, _INTERFACES) else value
    kind = ipaddress.IPv4Network if host.version == 4 else ipaddress.IPv6Network
    return kind((int(host), host.max_prefixlen))


def overlaps(one: IPNetwork, other: IPNetwork) -> bool:
    """Tell whether two prefixes share an address; prefixes of two families never do."""
    return one.version == other.version and one.overlaps(other)


def covers(outer: IPNetwork, inner: IPNetwork) -> bool:
    """Tell whether `inner` lies wholly in `outer` (subnet_of needs Python 3.7)."""
    return (
        outer.version == inner.version
        and outer.prefixlen <= inner.prefixlen
        and inner.network_address in outer
    )


_MAPPED = ipaddress.ip_network("::ffff:0:0/96")
_INTERFACES = (ipaddress.IPv4Interface, ipaddress.IPv6Interface)


def _unicast(where: str, value: IPAddress, allowed: str, subnet: bool = False) -> IPAddress:
    bad = value.is_multicast or value.is_loopback or value.is_link_local
    if not subnet:
        bad = bad or value.is_unspecified
    if isinstance(value, ipaddress.IPv4Address):
        bad = bad or int(value) >> 24 == 0 or int(value) >> 28 == 15  # 0.0.0.0/8, 240.0.0.0/4
    else:
        # An IPv4 address in another form (RFC 4291 section 2.5.5): no packet on a wire has it, and
        # no check against IPv4 prefixes would find it.
        bad = bad or value in _MAPPED
    if bad:
        raise InputError(where, "{} cannot be the address of a host".format(value), allowed)
    return value


def _base64(text: str) -> Union[bytes, None]:
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return None
    return raw if base64.b64encode(raw).decode("ascii") == text else None


Value = TypeVar("Value")


class Parameters:
    """The parameters of an action; an InputError names the action and the parameter."""

    def __init__(self, action: str, params: Mapping[str, Any]) -> None:
        self._action, self._params = action, params

    def at(self, key: str) -> str:
        """Return how a sentence names a parameter."""
        return "{}: {}".format(self._action, key)

    def text(self, key: str, default: str = "") -> str:
        """Return printable text without spaces at its ends."""
        return string(self.at(key), self._params.get(key, default)).strip(" ")

    def parsed(self, key: str, parse: Callable[[str, str], Value]) -> Value:
        return parse(self.at(key), self.text(key))

    def choice(self, key: str, options: Sequence[str]) -> str:
        return choice(self.at(key), self.text(key, options[0]), options)

    def integer(self, key: str, default: int, low: int, high: int) -> int:
        """Return a whole number between `low` and `high`, both included."""
        return integer(self.at(key), self._params.get(key, default), low, high)

    def boolean(self, key: str, default: bool) -> bool:
        return boolean(self.at(key), self._params.get(key, default))


def lines(text: str) -> Sequence[str]:
    """Return the non-empty lines of a command's output."""
    return [line for line in text.splitlines() if line.strip()]


def digest(text: str) -> str:
    """Return a short name for a public text."""
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]
