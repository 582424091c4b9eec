"""Packet mixes that a gateway is offered, and the frames they are made of. No input or output.

A size is that of the inner Ethernet frame without its checksum: 1514 carries an IPv4 packet of 1500
bytes. Counted with the checksum, as some do, the same frames are 4 bytes longer.
"""

from __future__ import annotations

import ipaddress
import math
import random
import statistics
import struct
from dataclasses import dataclass

ETHERNET, IPV4, UDP = 14, 20, 8
HEADERS = ETHERNET + IPV4 + UDP
SIZES = (64, 128, 256, 512, 1024, 1280, 1400, 1514)
PORT = 9  # discard, RFC 863


@dataclass(frozen=True)
class Load:
    """A mix of frame sizes and how it splits into the two directions.

    Attributes:
        name: What reports call it.
        shares: Frame size in bytes to how many of a hundred (or of any sum) have it.
        down: Share of frames that go from the core to the field, where the gateway encrypts.
    """

    name: str
    shares: tuple[tuple[int, int], ...]
    down: float = 1.0

    @property
    def mean(self) -> float:
        """Mean frame size in bytes."""
        return statistics.fmean(self.sizes())

    @property
    def largest(self) -> int:
        """Largest frame in bytes."""
        return max(size for size, _ in self.shares)

    def sizes(self) -> list[int]:
        """Return the mix once through, in an order without runs of one size."""
        mix = [size for size, share in self.shares for _ in range(share)]
        random.Random(self.name).shuffle(mix)  # noqa: S311 - reproducible, not secret
        return mix


def fixed(size: int, down: float = 1.0) -> Load:
    """Return a load of one frame size."""
    if size < HEADERS:
        raise ValueError(f"a frame with UDP has {HEADERS} bytes or more, not {size}")
    return Load(str(size) + ("" if down else " up"), ((size, 1),), down)


#: Seven small, four middle, one large frame (simple IMIX; RFC 6985 tells how to write such mixes).
IMIX = Load("imix", ((64, 7), (590, 4), (1514, 1)))
#: The mix of 5G user plane that 6WIND publishes figures for (vSecGW, 2022).
IMIX2_SHARES = ((64, 8), (127, 36), (255, 11), (511, 4), (1024, 2), (1539, 39))
IMIX2 = Load("imix2", IMIX2_SHARES)
ASYMMETRIC = Load("imix 90/10", IMIX.shares, 0.9)
ASYMMETRIC2 = Load("imix2 90/10", IMIX2_SHARES, 0.9)


def fragments(size: int, mtu: int) -> int:
    """Return how many IPv4 packets a frame becomes on a link of that MTU (RFC 791, 2.3)."""
    packet = size - ETHERNET
    return 1 if packet <= mtu else math.ceil((packet - IPV4) / ((mtu - IPV4) // 8 * 8))


def header(macs: tuple[bytes, bytes], source: str, target: str, size: int, port: int) -> bytes:
    """Return Ethernet, IPv4 and UDP headers of a frame of `size` bytes (RFC 791, RFC 768).

    Args:
        macs: destination and source.
        source: IPv4 address.
        target: IPv4 address.
        size: size of the whole frame in bytes, without checksum.
        port: UDP source port; the UDP checksum is zero, which means none.
    """
    length = size - ETHERNET
    ends = (ipaddress.IPv4Address(source).packed, ipaddress.IPv4Address(target).packed)
    fields = [0x45, 0, length, 0, 0, 64, 17, 0, *ends]
    fields[7] = _checksum(struct.pack("!BBHHHBBH4s4s", *fields))
    ip = struct.pack("!BBHHHBBH4s4s", *fields)
    udp = struct.pack("!HHHH", port, PORT, length - IPV4, 0)
    return macs[0] + macs[1] + b"\x08\x00" + ip + udp


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
