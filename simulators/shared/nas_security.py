"""Protection of NAS messages (TS 33.401 section 8, TS 33.501 section 6.4)."""

import hmac
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from simulators.errors import ProtocolError
from simulators.shared import keys

_INTEGRITY, _CIPHERED, _NEW, _NEW_CIPHERED = 1, 2, 3, 4  # security header types


@dataclass
class Context(ABC):
    """A NAS security context."""

    head: ClassVar[int]  # Number of octets of the security header before the MAC.

    key: bytes  # the key from which it is derived: KASME or KAMF.
    # `ciphering`, `integrity`: algorithms, 0 for none and 2 for AES.
    ciphering: int
    integrity: int
    direction: int  # direction of messages that this end sends, keys.UPLINK at the UE.
    bearer: int = 0
    # `sent`, `received`: NAS COUNT of the next message in each direction.
    sent: int = 0
    received: int = 0
    _enc: bytes = field(init=False, default=b"")
    _int: bytes = field(init=False, default=b"")

    def __post_init__(self) -> None:
        self._enc = self.derive(keys.NAS_ENC, self.ciphering)
        self._int = self.derive(keys.NAS_INT, self.integrity)

    @abstractmethod
    def derive(self, kind: int, algorithm: int) -> bytes:
        """Return the NAS key of an algorithm; ``kind`` is the algorithm type distinguisher."""

    @abstractmethod
    def header(self, kind: int) -> bytes:
        """Return the octets before the MAC, for a security header type."""

    @abstractmethod
    def header_type(self, octets: bytes) -> int:
        """Return the security header type of a message, 0 for a plain one."""

    def _cipher(self, count: int, direction: int, octets: bytes) -> bytes:
        if not self.ciphering:
            return octets
        return keys.eea2(self._enc, count, self.bearer, direction, octets)

    def protect(self, octets: bytes, new: bool = False, ciphered: bool = True) -> bytes:
        """Return a message with a security header; ``new`` if it starts the use of new keys."""
        kind = {
            (False, True): _CIPHERED,
            (False, False): _INTEGRITY,
            (True, True): _NEW_CIPHERED,
            (True, False): _NEW,
        }[new, ciphered]
        body = self._cipher(self.sent, self.direction, octets) if ciphered else octets
        body = bytes([self.sent & 0xFF]) + body
        mac = keys.eia2(self._int, self.sent, self.bearer, self.direction, body)
        self.sent += 1
        return self.header(kind) + mac + body

    def open(self, octets: bytes) -> bytes:
        """The message below a security header."""
        kind = self.header_type(octets)
        if not kind:
            raise ProtocolError("A NAS message came without protection.")
        mac, body = octets[self.head : self.head + 4], octets[self.head + 4 :]
        count = self.received & ~0xFF | body[0]
        if count < self.received:
            count += 0x100
        if count - self.received > 0x7F:
            raise ProtocolError("A NAS message is a replay.")
        direction = 1 - self.direction
        right = keys.eia2(self._int, count, self.bearer, direction, body)
        if not hmac.compare_digest(right, mac):
            raise ProtocolError("The MAC of a NAS message is wrong.")
        self.received = count + 1
        ciphered = kind in (_CIPHERED, _NEW_CIPHERED)
        return self._cipher(count, direction, body[1:]) if ciphered else body[1:]
