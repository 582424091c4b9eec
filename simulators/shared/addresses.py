"""Addresses of UEs, and the options with their name servers and MTU (TS 24.008, 10.5.6.3)."""

import ipaddress
from dataclasses import dataclass

from simulators.errors import EpcError


@dataclass(frozen=True)
class Pdn:
    """A packet data network: its APN and the addresses of its UEs, first and last."""

    apn: str
    first: str
    last: str


class Pool:
    """Free addresses of a PDN."""

    def __init__(self, pdn: Pdn) -> None:
        first, last = (ipaddress.IPv4Address(text) for text in (pdn.first, pdn.last))
        if last < first:
            raise EpcError(f"The UE addresses of {pdn.apn} end before they begin.")
        self._fresh = (str(ipaddress.IPv4Address(n)) for n in range(int(first), int(last) + 1))
        self._free: dict[str, None] = {}

    def take(self) -> str | None:
        """Return an unused address, else the one released longest ago; None if none is free."""
        fresh = next(self._fresh, None)
        if fresh is None and self._free:
            fresh = next(iter(self._free))
            del self._free[fresh]
        return fresh

    def release(self, address: str) -> None:
        self._free[address] = None


def options(dns: tuple[str, ...], mtu: int) -> bytes:
    """Protocol configuration options for a UE: name servers and MTU (TS 24.008, 10.5.6.3)."""
    octets = b"\x80"
    for server in dns:
        octets += b"\x00\x0d\x04" + ipaddress.IPv4Address(server).packed
    return octets + b"\x00\x10\x02" + mtu.to_bytes(2, "big")


def options_of(octets: bytes) -> tuple[tuple[str, ...], int | None]:
    """Name servers and MTU from options; unknown options are skipped."""
    dns, mtu, at = [], None, 1
    while at + 3 <= len(octets):
        kind, size = int.from_bytes(octets[at : at + 2], "big"), octets[at + 2]
        value = octets[at + 3 : at + 3 + size]
        if kind == 0x000D and len(value) == 4:
            dns.append(str(ipaddress.IPv4Address(value)))
        elif kind == 0x0010 and len(value) == 2:
            mtu = int.from_bytes(value, "big")
        at += 3 + size
    return tuple(dns), mtu
