"""Packet mixes that load a gateway, and their frames. This module does no input or output.

A size is that of the inner Ethernet frame without its checksum: 1514 carries an IPv4 packet of 1500
bytes. Some publications include the checksum; then the same frames are 4 bytes longer.
"""

import math
import random
import statistics
from dataclasses import dataclass

from scapy.layers import inet, l2

ETHERNET, IPV4, UDP = 14, 20, 8
HEADERS = ETHERNET + IPV4 + UDP
SIZES = (64, 128, 256, 512, 1024, 1280, 1400, 1514)
PORT = 9  # discard, RFC 863


@dataclass(frozen=True)
class Load:
    """A mix of frame sizes and how it splits into the two directions."""

    name: str  # Name in reports.
    # (frame size in bytes, its number of frames in the mix) for each size.
    shares: tuple[tuple[int, int], ...]
    down: float = 1.0  # Share of frames from the core to the field, which the gateway encrypts.

    @property
    def mean(self) -> float:
        return statistics.fmean(self.sizes())

    @property
    def largest(self) -> int:
        return max(size for size, _ in self.shares)

    def sizes(self) -> list[int]:
        """Return the sizes of one mix, in a shuffled order without long runs of one size."""
        mix = [size for size, share in self.shares for _ in range(share)]
        random.Random(self.name).shuffle(mix)  # noqa: S311 - reproducible, not secret
        return mix


def fixed(size: int, down: float = 1.0) -> Load:
    return Load(str(size) + ("" if down else " up"), ((size, 1),), down)


#: Seven small, four middle, one large frame (simple IMIX; RFC 6985 describes such mixes).
IMIX = Load("imix", ((64, 7), (590, 4), (1514, 1)))
#: The mix of 5G user plane that 6WIND publishes figures for (vSecGW, 2022).
IMIX2_SHARES = ((64, 8), (127, 36), (255, 11), (511, 4), (1024, 2), (1539, 39))
IMIX2 = Load("imix2", IMIX2_SHARES)
ASYMMETRIC2 = Load("imix2 90/10", IMIX2_SHARES, 0.9)


def fragments(size: int, mtu: int) -> int:
    """Return the number of IPv4 packets of a frame on a link with an MTU (RFC 791, 2.3)."""
    packet = size - ETHERNET
    return 1 if packet <= mtu else math.ceil((packet - IPV4) / ((mtu - IPV4) // 8 * 8))


def header(macs: tuple[bytes, bytes], source: str, target: str, size: int, port: int) -> bytes:
    """Return Ethernet, IPv4 and UDP headers of a frame of `size` bytes (RFC 791, RFC 768).

    `macs` are destination and source, `port` is the source's. There is no UDP checksum (zero).
    """
    udp = inet.UDP(sport=port, dport=PORT, len=size - ETHERNET - IPV4, chksum=0)
    ip = inet.IP(id=0, src=source, dst=target, len=size - ETHERNET) / udp
    return bytes(l2.Ether(dst=macs[0], src=macs[1]) / ip)
