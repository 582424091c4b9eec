"""A stolen key must stop working when the peer is deleted (experiment `revocation`).

The thief is a VDU of the other slice with a copy of a manual peer's private key. It reaches the
victim's tunnel over the management network, because WireGuard listens there too. The key works
until an operator deletes the peer. After that, no packet of the thief may arrive.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

from experiments.testbed import Testbed, Vnf
from experiments.traffic import Flow

LINK, PORT = "s6a", 51821
INTERFACE = "thief0"
LIMIT = 60.0
"""Seconds after which the thief gives up in any case."""


def _address(inner: str) -> str:
    """Return a free address in the link's subnet."""
    return inner.rsplit(".", 1)[0] + ".66"


def _set_up(thief: Vnf, own: str, server: Vnf, public: str, inner: str) -> str:
    """Make a WireGuard interface with a new key; return the public key."""
    script = "umask 077; wg genkey > /run/thief.key; wg pubkey < /run/thief.key"
    key = thief.out("sh", "-c", script).strip()
    if thief.run("ip", "link", "add", INTERFACE, "type", "wireguard").returncode:
        thief.out("wireguard-go", INTERFACE)
    thief.out("wg", "set", INTERFACE, "private-key", "/run/thief.key", "peer", public, "endpoint",
              f"{server.management}:{PORT}", "allowed-ips", f"{inner}/32")  # fmt: skip
    thief.out("ip", "address", "add", f"{own}/24", "dev", INTERFACE)
    thief.out("ip", "link", "set", INTERFACE, "mtu", "1280", "up")
    return key


def run(bed: Testbed, victim: str, thief: str, seconds: float) -> tuple[dict[str, Any], bool]:
    """Let a thief use a stolen key, delete the peer, and see when its packets stop.

    Args:
        bed: with the slices.
        victim: slice whose HSS ends the tunnel.
        thief: slice whose HSS has the key.
        seconds: that the thief goes on sending after the deletion.

    Returns:
        How much of the stream arrived, and the time from the end of the primitive to the last
        packet. Also whether packets arrived before the deletion and none after it.
    """
    server, robber = bed.slices[victim]["hss"], bed.slices[thief]["hss"]
    inner = bed.slices[victim].inner("hss", LINK)
    own = _address(inner)
    public = server.out("wg", "show", f"wg-{LINK}", "public-key").strip()
    key = _set_up(robber, own, server, public, inner)
    try:
        bed.action(server, "add-peer", link=LINK, name="laptop", public_key=key,
                   allowed_prefixes=f"{own}/32")  # fmt: skip
        robber.out("ping", "-n", "-q", "-c", "1", "-w", "10", inner)
        flow = Flow(robber, server, inner, seconds=LIMIT, rate=100)
        time.sleep(1)
        asked = time.monotonic()
        bed.action(server, "delete-peer", link=LINK, name="laptop")
        deleted = time.monotonic()
        time.sleep(seconds)
        flow.stop()
        stream = flow.result()
        knows = key in server.out("wg", "show", f"wg-{LINK}", "peers")
    finally:
        with contextlib.suppress(Exception):
            robber.run("ip", "link", "delete", INTERFACE)
            robber.run("rm", "-f", "/run/thief.key")
    arrived = [received for _, _, received in stream.seen]
    after = sum(received > deleted for received in arrived)
    refused = stream.sent - len(arrived)
    return {
        "sent": stream.sent,
        "arrived": len(arrived),
        "refused": refused,
        "after-deletion": after,
        "stopped-s": max(arrived) - asked if arrived else None,
        "primitive-s": deleted - asked,
        "peer-still-known": knows,
    }, bool(arrived) and after == 0 and refused > 0 and not knows
