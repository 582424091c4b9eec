"""What VDUs of the model share: stand-ins of keys, interfaces, and tunnels whose ends agree."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

if TYPE_CHECKING:
    from support.model import ModelVdu


SPKI = bytes.fromhex("302a300506032b6570032100")
"""What precedes the bytes of an Ed25519 key in DER (RFC 8410)."""


def public_of(private: str) -> str:
    """Stand-in for X25519: one-way, and of the right form."""
    return base64.b64encode(hashlib.sha256(private.encode()).digest()).decode()


def spki(private: str) -> bytes:
    """Return the public half of an Ed25519 or P-256 key in DER."""
    if private.startswith("P-256 "):
        number = int.from_bytes(base64.b64decode(public_of(private))[1:], "big")
        key = ec.derive_private_key(number, ec.SECP256R1()).public_key()
        return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return SPKI + base64.b64decode(public_of(private))


@dataclass
class WgPeer:
    allowed: set[str] = field(default_factory=set)
    endpoint: str = "(none)"
    keepalive: str = "off"
    handshake: int = 0
    received: int = 0
    preshared: str = ""


@dataclass
class WgInterface:
    private: str = ""
    port: str = "0"
    mtu: int = 1420
    addresses: set[str] = field(default_factory=set)
    routes: set[str] = field(default_factory=set)
    peers: dict[str, WgPeer] = field(default_factory=dict)
    bounces: int = 0
    up: bool = True
    lost: set[str] = field(default_factory=set)
    """Routes that the kernel made with an address and somebody deleted."""

    def down(self) -> None:
        """Set it down: its routes go."""
        self.up = False
        self.routes.clear()


@dataclass
class PlainInterface:
    """An interface that only holds addresses and routes, as that of an IPsec link."""

    mtu: int = 1500
    addresses: set[str] = field(default_factory=set)
    routes: set[str] = field(default_factory=set)
    own_routes: set[str] = field(default_factory=set)
    """Those in the link's own table."""
    kind: str = "tun"
    up: bool = True
    lost: set[str] = field(default_factory=set)


class World:
    """All VDUs; delivers pings through tunnels whose two ends agree."""

    def __init__(self) -> None:
        self.vdus: list[ModelVdu] = []
        self.clock = 1_000_000
        # Not of itertools: Python 3.14 copies none of those.
        self.serial = iter(range(1, 1 << 30))
        self.cmp: Callable[[ModelVdu, list[str]], tuple[int, str, str]] | None = None
        """What the server of CMPv2 does, by the client's command line."""
        self.est: Callable[[ModelVdu, list[str]], tuple[int, str, str]] | None = None
        """The same for EST."""

    def secret(self) -> str:
        raw = hashlib.sha256(f"secret {next(self.serial)}".encode()).digest()
        return base64.b64encode(raw).decode()

    def ping(self, source: ModelVdu, target: str) -> bool:
        if any(f"{target}/32" in sa.remote_ts for sa in source.charon.sas):
            return True
        for interface in source.interfaces.values():
            for key, peer in interface.peers.items():
                if f"{target}/32" in peer.allowed:
                    return self._handshake(source, interface, key, peer, target)
        return False

    def _handshake(
        self, source: ModelVdu, interface: WgInterface, key: str, peer: WgPeer, target: str
    ) -> bool:
        for other in self.vdus:
            for far in other.interfaces.values():
                if not far.private or public_of(far.private) != key:
                    continue
                if not any(a.split("/")[0] == target for a in far.addresses):
                    continue
                back = far.peers.get(public_of(interface.private))
                if back is None:
                    return False
                back.received += 148
                if back.preshared != peer.preshared:
                    # No new session; the last one goes on (REJECT_AFTER_TIME).
                    return self.clock - 180 < peer.handshake == back.handshake
                peer.handshake = back.handshake = self.clock
                inner = {a.split("/")[0] + "/32" for a in interface.addresses}
                return bool(inner & back.allowed)
        return False
