"""A 1 kHz UDP probe: which packets of each flow were lost, for how long, and which came twice.

`echo ADDRESS PORT` answers until it is told to stop and then reports duplicates; `send` takes the
flows from its command line. Both print one JSON object.
"""

from __future__ import annotations

import itertools
import json
import selectors
import signal
import socket
import struct
import sys
import time
from collections import Counter
from typing import Any

FORM = struct.Struct("!IId")
PERIOD = 0.001
STRAGGLERS = 0.5
STEADY = 0.5
"""Seconds since which a flow was answered that is told to end."""


def received(shown: str) -> int:
    """Return how many UDP datagrams /proc/net/snmp tells of (RFC 1213, udpInDatagrams)."""
    names, values = [row.split() for row in shown.splitlines() if row.startswith("Udp:")]
    return int(values[names.index("InDatagrams")])


def echo(address: str, port: int) -> dict[str, Any]:
    """Answer probes until SIGTERM; count what arrives more than once."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    server.bind((address, port))
    server.settimeout(0.2)
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    seen: Counter[bytes] = Counter()
    while not stopped:
        try:
            data, sender = server.recvfrom(2048)
        except TimeoutError:
            continue
        seen[data[:8]] += 1
        try:
            server.sendto(data, sender)
        except OSError:
            pass  # No route for a moment; the probe shows it as a loss.
    return {"received": seen.total(), "duplicates": seen.total() - len(seen)}


def send(target: tuple[str, int], sources: list[str], seconds: float) -> dict[str, Any]:
    """Probe from each source every millisecond; return the longest gap of each flow.

    SIGTERM ends it before its time, as soon as every flow is answered.
    """
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    selector = selectors.DefaultSelector()
    sockets = []
    for number, source in enumerate(sources):
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        client.bind((source, 0))
        client.setblocking(False)
        sockets.append(client)
        selector.register(client, selectors.EVENT_READ, number)
    answered: list[dict[int, float]] = [{} for _ in sources]
    latest = [0.0 for _ in sources]
    lost_at_once = sequence = 0
    started = time.monotonic()
    end = started + seconds
    due = started
    while (now := time.monotonic()) < end + STRAGGLERS:
        if stopped and now < end and min(latest) > now - STEADY:
            end = now
        if now >= due and now < end:
            for number, client in enumerate(sockets):
                try:
                    client.sendto(FORM.pack(number, sequence, now), target)
                except OSError:
                    lost_at_once += 1
            sequence += 1
            due = max(due + PERIOD, now - 0.05)  # A scheduler's pause is caught up in part only.
        for key, _ in selector.select(max(0.0, min(due, end + STRAGGLERS) - time.monotonic())):
            try:
                while True:
                    _, number_of, at = FORM.unpack(sockets[key.data].recv(2048)[: FORM.size])
                    answered[key.data][number_of] = latest[key.data] = at
            except (BlockingIOError, ConnectionRefusedError):
                pass
    flows = []
    for times in answered:
        marks = [started, *sorted(times.values()), end]
        gaps = [(b - a, a - started) for a, b in itertools.pairwise(marks)]
        longest, at = max(gaps)
        flows.append({"gap-ms": longest * 1000, "at-s": at, "lost": sequence - len(times)})
    return {"sent": sequence, "refused": lost_at_once, "flows": flows}


def main(mode: str, address: str, port: str, *more: str) -> None:
    """Run one end."""
    if mode == "echo":
        print(json.dumps(echo(address, int(port))))
    else:
        print(json.dumps(send((address, int(port)), list(more[1:]), float(more[0]))))


if __name__ == "__main__":
    main(*sys.argv[1:])
