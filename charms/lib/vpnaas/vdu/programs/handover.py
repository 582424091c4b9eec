#!/usr/bin/python3
"""Switch rotating peers of a WireGuard interface to their next keys, with their prefixes.

Usage: handover INTERFACE FILE SECONDS
FILE is JSON, by next key: [PREFIXES, FILE OF THE PRESHARED KEY or "", KEEPALIVE SECONDS].

At first a next key has a wrong preshared key here. So WireGuard accepts the first message of the
peer's handshake: the received bytes prove that the peer uses the key. But the peer rejects our
answer, so no data packet comes yet. Then this program makes the key a new peer with the prefixes
and the right preshared key, and opens the session itself. Meanwhile both ends queue their packets.

Ends when no key is left, when the interface is gone, or after SECONDS.
"""

import ctypes
import json
import select
import socket
import struct
import subprocess
import sys
import time
from typing import Dict, List, Optional

from vpnaas.vdu.programs.common import run

PERIOD = 0.1
SHARE = 10
"""Wait this many times as long as the last look took, unless a handshake comes."""
INITIATION = 148
"""Bytes of the first message of a handshake; no packet of data has this length."""
SO_ATTACH_FILTER = 26
ETH_P_IP, ETH_P_IPV6 = 0x0800, 0x86DD


def handshake_socket(protocol: int, length: int) -> socket.socket:
    """Return a socket that sees packets of one length; WireGuard still receives them."""
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(protocol))
    # load the length; equal: take two bytes of it; otherwise nothing (classic BPF)
    rows = ((0x80, 0, 0, 0), (0x15, 0, 1, length), (0x06, 0, 0, 2), (0x06, 0, 0, 0))
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
    filter = struct.pack("HL", len(rows), ctypes.addressof(program))
    tap.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, filter)
    tap.setblocking(False)
    return tap


def handshake_sockets() -> List[socket.socket]:
    """Return sockets that see the first messages of handshakes, none if that is not allowed."""
    try:
        return [
            handshake_socket(ETH_P_IP, 28 + INITIATION),
            handshake_socket(ETH_P_IPV6, 48 + INITIATION),
        ]
    except OSError:
        return []


def wait(taps: List[socket.socket], took: float) -> None:
    readable, _, _ = select.select(taps, [], [], max(PERIOD, SHARE * took))
    if readable:
        time.sleep(max(0.005, took))  # WireGuard reads the packet, too.
    for each in readable:
        try:
            while True:
                each.recv(2)
        except OSError:
            continue


def shown(interface: str, what: str) -> Optional[Dict[str, List[str]]]:
    """Return the columns of `wg show` by key, None without the interface."""
    code, text = run("wg", "show", interface, what)
    rows = [line.split("\t") for line in text.splitlines()]
    return None if code else {row[0]: row[1:] for row in rows}


def let_in(interface: str, keys: List[str], staged: Dict[str, List[str]]) -> None:
    """Make each key a peer with its prefixes, and open its session."""
    endpoints = shown(interface, "endpoints") or {}
    allowed = shown(interface, "allowed-ips") or {}
    now: List[str] = []
    after: List[str] = []
    for key in keys:
        if allowed.get(key) != ["(none)"]:
            continue  # It was let in before.
        prefixes, preshared, keepalive = staged[key]
        # Remove it first: a new peer may begin a handshake at once, one that answered waits 5 s.
        now += ["peer", key, "remove", "peer", key, "preshared-key", preshared or "/dev/null"]
        endpoint = endpoints.get(key, ["(none)"])[0]
        now += [] if endpoint == "(none)" else ["endpoint", endpoint]
        # The first keepalive leaves at once.
        seconds = keepalive if int(keepalive) else "1"
        now += ["persistent-keepalive", seconds, "allowed-ips", prefixes]
        after += [] if int(keepalive) else ["peer", key, "persistent-keepalive", "0"]
    for words in (now, after):
        if words:
            subprocess.run(["wg", "set", interface] + words, check=False)


def main(interface: str, path: str, seconds: str) -> int:
    with open(path) as stream:
        staged: Dict[str, List[str]] = json.load(stream)
    deadline = time.monotonic() + float(seconds)
    taps = handshake_sockets()
    while staged and time.monotonic() < deadline:
        began = time.monotonic()
        transfer = shown(interface, "transfer")
        if transfer is None:
            return 0
        took = time.monotonic() - began
        staged = {key: words for key, words in staged.items() if key in transfer}
        proven = [key for key in staged if transfer[key][0] != "0"]
        if proven:
            let_in(interface, proven, staged)
            staged = {key: words for key, words in staged.items() if key not in proven}
        else:
            wait(taps, took)
    return 1 if staged else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
