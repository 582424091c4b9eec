"""ESP in tunnel mode (RFC 4303): AES-CBC-256 and HMAC-SHA2-256-128, without extended numbers."""

import hashlib
import hmac
import os
import struct

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from simulators.errors import ProtocolError

IV, ICV = 16, 16  # Lengths in octets of an initialisation vector and the integrity check value.
#: Maximum octets that ESP adds to an inner IPv4 packet, with the headers of outer IPv4 and UDP.
OVERHEAD = 20 + 8 + 8 + IV + 17 + ICV
_IPV4 = 4  # next header of an IPv4 packet in a tunnel
_WINDOW = 1024  # size of the anti-replay window (section 3.4.3)
_header = struct.Struct("!II")


class Protection:
    """The keys of one direction; our IKE messages use the same algorithms."""

    def __init__(self, encryption: bytes, integrity: bytes) -> None:
        self._cipher = algorithms.AES(encryption)
        self._integrity = integrity

    def seal(self, head: bytes, plain: bytes) -> bytes:
        """Return the head in clear, ``plain`` (complete blocks) encrypted, and the ICV of both."""
        iv = os.urandom(IV)
        encryptor = Cipher(self._cipher, modes.CBC(iv)).encryptor()
        octets = head + iv + encryptor.update(plain)
        return octets + self._check_value(octets)

    def is_genuine(self, octets: bytes) -> bool:
        """Tell whether the integrity check value at the end is right."""
        return hmac.compare_digest(self._check_value(octets[:-ICV]), octets[-ICV:])

    def decrypt(self, octets: bytes, start: int) -> bytes:
        """Decrypt the blocks after a head of ``start`` octets."""
        decryptor = Cipher(self._cipher, modes.CBC(octets[start : start + IV])).decryptor()
        return decryptor.update(octets[start + IV : -ICV])

    def _check_value(self, octets: bytes) -> bytes:
        return hmac.digest(self._integrity, octets, hashlib.sha256)[:ICV]


class Outbound:
    """A security association that sends."""

    def __init__(self, spi: int, encryption: bytes, integrity: bytes) -> None:
        self.spi = spi
        self.packets = 0
        self._protection = Protection(encryption, integrity)

    def seal(self, packet: bytes) -> bytes:
        """Return an ESP packet with an IPv4 packet inside."""
        self.packets += 1
        pad = -(len(packet) + 2) % IV
        plain = packet + bytes(range(1, pad + 1)) + bytes([pad, _IPV4])
        return self._protection.seal(_header.pack(self.spi, self.packets), plain)


class Inbound:
    """A security association that receives."""

    def __init__(self, spi: int, encryption: bytes, integrity: bytes) -> None:
        self.spi = spi
        self.packets = 0
        self._protection = Protection(encryption, integrity)
        self._newest = 0
        self._seen = 0  # bit 0 is the newest number

    def open(self, octets: bytes) -> bytes:
        """The inner packet."""
        size = len(octets) - ICV
        if size < 8 + 2 * IV or (size - 8) % IV:
            raise ProtocolError("An ESP packet is cut off.")
        if not self._protection.is_genuine(octets):
            raise ProtocolError("The integrity check value of an ESP packet is wrong.")
        self._check(_header.unpack_from(octets)[1])
        plain = self._protection.decrypt(octets, _header.size)
        pad, kind = plain[-2:]
        if kind != _IPV4 or pad + 22 > len(plain):
            raise ProtocolError("There is no IPv4 packet in an ESP packet.")
        self.packets += 1
        return plain[: len(plain) - 2 - pad]

    def _check(self, number: int) -> None:
        ahead = number - self._newest
        if ahead > 0:
            self._seen = (self._seen << min(ahead, _WINDOW) | 1) & ((1 << _WINDOW) - 1)
            self._newest = number
        elif -ahead >= _WINDOW or self._seen >> -ahead & 1:
            raise ProtocolError("An ESP packet is a replay.")
        else:
            self._seen |= 1 << -ahead
