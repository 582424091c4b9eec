"""A stolen key must stop working when the peer is deleted (experiment `revocation`).

The thief is a VDU of the other slice with a copy of a manual peer's private key. It reaches the
victim's tunnel over the management network, because WireGuard listens there too. The key works
until an operator deletes the peer. After that, no packet of the thief may arrive.
"""

import contextlib
import shlex
import time
from collections.abc import Mapping
from typing import Any

from experiments.model import Result
from experiments.testbed import Testbed, Vnf
from experiments.traffic import LIMIT
from operate.client import OperateError

ENDS = (("hss", "s6a"), ("smf", "n4"))
"""Possible victims, each with the attacked link: the HSS of an EPC, the SMF of a 5G slice."""
INTERFACE = "thief0"
NAME = "thief"
RATE = 100


def _address(inner: str) -> str:
    """Return a free address in the link's subnet."""
    return inner.rsplit(".", 1)[0] + ".66"


def _set_up(thief: Vnf, own: str, server: Vnf, status: Mapping[str, Any], inner: str) -> str:
    """Make a WireGuard interface with a new key; return the public key."""
    script = f"""set -e
umask 077
ip link delete {INTERFACE} 2>/dev/null || true
wg genkey >/run/thief.key
ip link add {INTERFACE} type wireguard 2>/dev/null || wireguard-go {INTERFACE} >/dev/null
wg set {INTERFACE} private-key /run/thief.key peer {status["public-key"]} \\
  endpoint {server.management}:{status["listen-port"]} allowed-ips {inner}/32
ip address add {own}/24 dev {INTERFACE}
ip link set {INTERFACE} mtu 1280 up
wg show {INTERFACE} public-key"""
    return thief.run(f"sudo sh -c {shlex.quote(script)}").strip()


def run(bed: Testbed, victim: str, thief: str, seconds: float) -> Result:
    """Let a thief use a stolen key, delete the peer, and check that the thief's packets stop.

    Args:
        victim: slice whose HSS or SMF ends the tunnel.
        thief: slice whose HSS or SMF has the key.
        seconds: time that the thief goes on sending after the deletion.

    Returns:
        The parts of the stream that arrived before the deletion and after it. Also whether packets
        arrived before it and none after it, although the thief went on sending.
    """
    name, link = next(end for end in ENDS if end[0] in bed.slices[victim].vnfs)
    server, robber = bed.slices[victim][name], bed.slices[thief][name]
    inner = bed.slices[victim].inner(name, link)
    own = _address(inner)
    status = server.action("show-status", link=link)[link]
    key = _set_up(robber, own, server, status, inner)
    try:
        server.action("add-peer", link=link, name="laptop", public_key=key,
                      allowed_prefixes=f"{own}/32")  # fmt: skip
        before = _listened(server, robber, link, inner, 1.0)
        began = time.monotonic()
        server.action("delete-peer", link=link, name="laptop")
        took = time.monotonic() - began
        first = _sent(robber)
        # A stream of its own: what was sent until here says nothing about the time from here.
        after = _listened(server, robber, link, inner, seconds)
        second = _sent(robber)
        shown = server.action("show-status", link=link)[link]["peers"]
    finally:
        with contextlib.suppress(OperateError):
            robber.run(f"sudo sh -c 'ip link delete {INTERFACE}; rm -f /run/thief.key'")
    knows = any(peer.get("public-key") == key for peer in shown)
    arrived = int(before.get("received", 0))
    late = int(after.get("received", 0))
    return {
        "sent": first + second,
        "sent-after-deletion": second,
        "arrived": arrived,
        "after-deletion": late,
        "primitive-s": took,
        "peer-still-known": knows,
    }, bool(arrived) and late == 0 and second >= RATE * seconds and not knows


def _listened(server: Vnf, robber: Vnf, link: str, inner: str, seconds: float) -> dict[str, Any]:
    """Let the thief start to send; return what arrived until the listener ended."""
    server.action("start-listener", link=link, seconds=LIMIT)
    robber.action("start-stream", link=link, address=inner, rate=RATE, seconds=LIMIT, name=NAME)
    time.sleep(seconds)
    stream: dict[str, Any] = server.stop("listener")["streams"].get(NAME, {})
    return stream


def _sent(robber: Vnf) -> int:
    """End the thief's stream; return how many of its datagrams the kernel took."""
    stream = robber.action("stop-stream")
    return int(stream["sent"]) - int(stream["failed"])
