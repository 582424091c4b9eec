"""A link whose peers all rotate their keys: a gateway and its peers in two namespaces."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from pathlib import Path

from benchmarks.swan.netns import Block, Namespaces, enter

OUTER = {"gw": "10.100.0.1", "field": "10.100.0.2"}
INNER = ipaddress.ip_network("10.64.0.0/10")
GATEWAY = str(INNER[1])
LIMIT = 600.0
"""Seconds."""


class Rotating(Block):
    """A gateway and `count` peers, each with an inner address; a technology makes the tunnels.

    Attributes:
        folder: For its files.
        inner: Inner addresses of the peers.
    """

    backend: str
    """What carries the packets, with its version."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.count = folder, count
        self.spaces = Namespaces("gw", "field")
        self.inner = [str(INNER[256 + number]) for number in range(count)]

    def set_up(self) -> None:
        """Make namespaces and tunnels."""
        self.spaces.set_up()
        self.spaces.wire("gw", "field", names=("u0", "u0"))
        for name, address in OUTER.items():
            self.spaces.ip(name, "address", "add", f"{address}/24", "dev", "u0")
        # Each wireguard-go hears of each change of an address or a device, so addresses come first.
        self.spaces.batch("field", [f"address add {inner}/32 dev lo" for inner in self.inner])
        self.connect()

    def connect(self) -> None:
        """Make the tunnels."""
        raise NotImplementedError

    def daemons(self) -> Sequence[int]:
        """Return the processes that carry the gateway's packets, none if the kernel does."""
        raise NotImplementedError

    def wait_up(self) -> None:
        """Wait until all peers have a tunnel: the first handshakes are not what is measured."""
        raise NotImplementedError

    def stage(self) -> Sequence[int]:
        """Let the gateway know the next keys of all peers; return processes this has started."""
        raise NotImplementedError

    def switch(self, number: int) -> None:
        """Let a peer use its next key."""
        raise NotImplementedError

    def let_in(self) -> int:
        """Return how many peers the gateway knows by their next key only."""
        raise NotImplementedError

    def dropped(self) -> dict[str, int]:
        """Return packets that the kernel dropped, by reason, where it tells."""
        return {}

    def nudge(self) -> None:
        """Let each peer send one packet, as the probe of its charm does."""
        enter(self.spaces.prefix + "field")
        for inner in self.inner:
            sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sender.bind((inner, 0))
            sender.sendto(b"", (GATEWAY, 9))
            sender.close()
