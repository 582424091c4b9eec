"""What passes on a network of a service: frames captured there, and filters that judge them."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e_support import Service


@dataclass(frozen=True)
class Capture:
    """A file of frames; the questions are pcap-filter(7) expressions."""

    path: Path

    def count(self, expression: str) -> int:
        done = subprocess.run(
            ["tcpdump", "-nn", "-r", str(self.path), expression],
            capture_output=True,
            text=True,
            check=True,
        )
        return len(done.stdout.splitlines())

    def sample(self, expression: str) -> str:
        """Return the first frames that match, for a failure's text."""
        done = subprocess.run(
            ["tcpdump", "-nn", "-c", "5", "-r", str(self.path), expression],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def holds(self, marker: bytes) -> bool:
        """Say whether a run of bytes appears anywhere in the file."""
        return marker in self.path.read_bytes()


def wireguard_only(port: int) -> str:
    """Return the filter for WireGuard messages on a port.

    A message starts with its type, 1 to 4, and three zero bytes; the first three types have fixed
    lengths of 148, 92 and 64 bytes (WireGuard paper, section 5.4), to which UDP adds 8.
    """
    kinds = " or ".join(
        (
            "(udp[8:4] = 0x01000000 and udp[4:2] = 156)",
            "(udp[8:4] = 0x02000000 and udp[4:2] = 100)",
            "(udp[8:4] = 0x03000000 and udp[4:2] = 72)",
            "udp[8:4] = 0x04000000",
        )
    )
    return f"(udp src port {port} and udp dst port {port} and ({kinds}))"


def ipsec_only() -> str:
    """Return the filter for IKE on its one port and ESP, in UDP or not (RFC 3948, RFC 4303)."""
    return "((udp src port 4500 and udp dst port 4500) or ip proto 50 or ip6 proto 50)"


def esp() -> str:
    """Return the filter for ESP over IPv4, in UDP or not: IKE has four zero bytes in UDP."""
    return "(ip proto 50 or (udp port 4500 and udp[8:4] != 0))"


@contextmanager
def captured(service: Service, link: str, path: Path) -> Iterator[Capture]:
    """Capture a link's underlay while the block runs."""
    with service.vim.capture(service.network(link), path):
        yield Capture(path)
