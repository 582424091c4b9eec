"""Information elements of GTPv2-C and PFCP: trees of type, instance and octets.

Both protocols are lists of type-length-value elements with few formats, so a few lines can encode
them. pycrate's models are complete, but a hundred times slower; the tests use them to check the
results.
"""

import ipaddress
import struct
from collections.abc import Container, Iterable
from dataclasses import dataclass

from simulators.errors import ProtocolError


@dataclass(frozen=True)
class Ie:
    """An information element; only GTPv2-C uses ``instance``, which is 0 in PFCP."""

    type: int
    value: bytes
    instance: int = 0


@dataclass(frozen=True)
class Message:
    """A message: type, the receiver's identifier (TEID or SEID) or None, sequence number."""

    type: int
    endpoint: int | None
    ies: tuple[Ie, ...] = ()
    sequence: int = 0

    def find(self, kind: int, instance: int = 0) -> bytes | None:
        """The value of the first element of a type."""
        return find(self.ies, kind, instance)

    def need(self, kind: int, instance: int = 0) -> bytes:
        """The value of the first element of a type.

        Raises:
            MissingError: there is none.
        """
        return need(self.ies, kind, instance)


@dataclass(frozen=True)
class Codec:
    """Codec of messages; the headers of the protocols differ only in three numbers."""

    name: str  # Name of the protocol, for errors.
    version: int  # Version in the first three bits.
    flag: int  # Bit of the first octet that shows that there is an endpoint identifier.
    width: int  # Octets of this identifier: 4 for a TEID, 8 for a SEID.
    requests: Container[int]  # Types of requests.
    # Header of an information element: type, length, and the instance if the protocol has
    # instances.
    head: struct.Struct

    def encode_ies(self, ies: Iterable[Ie]) -> bytes:
        fields = len(self.head.unpack(bytes(self.head.size)))
        return b"".join(
            self.head.pack(*(ie.type, len(ie.value), ie.instance)[:fields]) + ie.value for ie in ies
        )

    def decode_ies(self, octets: bytes) -> tuple[Ie, ...]:
        """Decode information elements."""
        ies, at = [], 0
        while at < len(octets):
            if at + self.head.size > len(octets):
                raise ProtocolError("an information element is cut off")
            kind, size, *instance = self.head.unpack_from(octets, at)
            at += self.head.size
            if at + size > len(octets):
                raise ProtocolError("an information element is longer than its message")
            ies.append(Ie(kind, octets[at : at + size], instance[0] & 0x0F if instance else 0))
            at += size
        return tuple(ies)

    def encode(self, message: Message) -> bytes:
        body = message.sequence.to_bytes(3, "big") + b"\0" + self.encode_ies(message.ies)
        flags = self.version << 5
        if message.endpoint is not None:
            body = message.endpoint.to_bytes(self.width, "big") + body
            flags |= self.flag
        return bytes([flags, message.type]) + len(body).to_bytes(2, "big") + body

    def decode(self, octets: bytes) -> Message:
        if len(octets) < 8 or octets[0] >> 5 != self.version:
            raise ProtocolError(f"not {self.name}")
        length = int.from_bytes(octets[2:4], "big")
        addressed = bool(octets[0] & self.flag)
        start = 8 + self.width if addressed else 8
        if length + 4 > len(octets) or length + 4 < start:
            raise ProtocolError(f"a {self.name} message is shorter than its length says")
        endpoint = int.from_bytes(octets[4 : 4 + self.width], "big") if addressed else None
        sequence = int.from_bytes(octets[start - 4 : start - 1], "big")
        return Message(octets[1], endpoint, self.decode_ies(octets[start : length + 4]), sequence)

    def is_request(self, kind: int) -> bool:
        """Tell whether a type is one of a request."""
        return kind in self.requests


class MissingError(ProtocolError):
    """A mandatory information element is missing; ``kind`` is its type."""

    def __init__(self, kind: int) -> None:
        self.kind = kind
        super().__init__(f"The mandatory information element {kind} is missing.")


def find(ies: Iterable[Ie], kind: int, instance: int = 0) -> bytes | None:
    """The value of the first element of a type, or None."""
    return next((ie.value for ie in ies if ie.type == kind and ie.instance == instance), None)


def need(ies: Iterable[Ie], kind: int, instance: int = 0) -> bytes:
    """The value of the first element of a type.

    Raises:
        MissingError: there is none.
    """
    value = find(ies, kind, instance)
    if value is None:
        raise MissingError(kind)
    return value


def number(octets: bytes, size: int | None = None) -> int:
    """Decode an unsigned integer from the first ``size`` octets, or from all."""
    if not octets or (size is not None and len(octets) < size):
        raise ProtocolError("An information element is too short.")
    return int.from_bytes(octets[:size], "big")


def address(octets: bytes) -> str:
    if len(octets) < 4:
        raise ProtocolError("An information element is too short for an IPv4 address.")
    return str(ipaddress.IPv4Address(octets[:4]))


def packed(text: str) -> bytes:
    return ipaddress.IPv4Address(text).packed


def labels(name: str) -> bytes:
    """A domain name or APN as labels (TS 23.003 section 9.1)."""
    return b"".join(bytes([len(part)]) + part.encode("ascii") for part in name.split("."))


def name_of(octets: bytes) -> str:
    parts, rest = [], octets
    while rest:
        size = rest[0]
        if not size or len(rest) <= size:
            raise ProtocolError("A name's labels do not fit its length.")
        parts.append(rest[1 : size + 1].decode("ascii", "replace"))
        rest = rest[size + 1 :]
    return ".".join(parts)
