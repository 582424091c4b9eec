"""A link whose peers all rotate their keys: a gateway and its peers in two namespaces."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from pathlib import Path

from benchmarks.swan.netns import Block, Namespaces, inside

OUTER = {"gw": "10.100.0.1", "field": "10.100.0.2"}
INNER = ipaddress.ip_network("10.64.0.0/10")
GATEWAY = str(INNER[1])
LIMIT = 600.0
"""Limit in seconds."""


class Rotating(Block):
    """A gateway and `count` peers, each with an inner address; a technology makes the tunnels.

    Attributes:
        folder: Folder for its files.
        inner: Inner addresses of the peers.
    """

    backend: str
    """Implementation of the data plane, with its version."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.count = folder, count
        self.spaces = Namespaces("gw", "field")
        self.inner = [str(INNER[256 + number]) for number in range(count)]

    def set_up(self) -> None:
        self.spaces.set_up()
        self.spaces.wire("gw", "field", names=("u0", "u0"))
        for name, address in OUTER.items():
            self.spaces.ip(name, "address", "add", f"{address}/24", "dev", "u0")
        # Addresses come first, because every address change notifies every running wireguard-go.
        self.spaces.batch("field", [f"address add {inner}/32 dev lo" for inner in self.inner])
        self.connect()

    def connect(self) -> None:
        raise NotImplementedError

    def daemons(self) -> Sequence[int]:
        """Return the processes that carry the gateway's packets, none if the kernel does."""
        raise NotImplementedError

    def wait_up(self) -> None:
        """Wait until all peers have a tunnel, because the first handshakes are not measured."""
        raise NotImplementedError

    def stage(self) -> Sequence[int]:
        """Stage the next keys of all peers at the gateway; return the started processes."""
        raise NotImplementedError

    def switch(self, number: int) -> None:
        raise NotImplementedError

    def let_in(self) -> int:
        """Return how many peers the gateway knows only by their next key."""
        raise NotImplementedError

    def dropped(self) -> dict[str, int]:
        """Return the packets that the kernel dropped, by reason, if it counts them."""
        return {}

    def nudge(self) -> None:
        """Let each peer send one packet, as the probe of its charm does."""

        def send() -> None:
            for inner in self.inner:
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                    sender.bind((inner, 0))
                    sender.sendto(b"", (GATEWAY, 9))

        inside(self.spaces.prefix + "field", send)
