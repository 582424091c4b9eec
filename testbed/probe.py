"""A UDP probe: gaps and lost packets of each flow, duplicates, order and delay of all flows.

`echo ADDRESS PORT` answers until SIGTERM and then reports duplicates; `send` gets the sources of
its flows from its command line. Both print one JSON object.
"""

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
STRAGGLERS, AFTER_SIGINT = 0.5, 2.0
"""Limits in seconds of the wait for late answers, at the planned end and after SIGINT."""
STEADY = 0.5  # After SIGTERM, `send` ends when each flow has had an answer within these seconds.


def received(shown: str) -> int:
    """Return the received UDP datagrams from /proc/net/snmp (RFC 1213, udpInDatagrams)."""
    names, values = [row.split() for row in shown.splitlines() if row.startswith("Udp:")]
    return int(values[names.index("InDatagrams")])


def echo(address: str, port: int) -> dict[str, Any]:
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
        # With the time in the key, a late datagram of an earlier probe is no duplicate.
        seen[data[: FORM.size]] += 1
        try:
            server.sendto(data, sender)
        except OSError:
            pass  # There is no route at the moment; the sender counts a loss.
    return {"received": seen.total(), "duplicates": seen.total() - len(seen)}


def send(
    target: tuple[str, int], sources: list[str], seconds: float, period: float
) -> dict[str, Any]:
    """Probe from each source every `period` seconds; return the longest gap of each flow.

    SIGTERM ends it early, as soon as every flow gets answers; SIGINT ends it at once.
    """
    stopped: list[int] = []
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, lambda number, _: stopped.append(number))
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
    sequence = twice = reordered = 0
    longest_delay, late = 0.0, STRAGGLERS
    started = time.monotonic()
    end = started + seconds
    due = started
    while (now := time.monotonic()) < end + late:
        if signal.SIGINT in stopped and now < end:
            end, late = now, AFTER_SIGINT
        elif stopped and now < end and min(latest) > now - STEADY:
            end = now
        if now >= end and all(len(times) == sequence for times in answered):
            break
        if now >= due and now < end:
            for number, client in enumerate(sockets):
                try:
                    client.sendto(FORM.pack(number, sequence, now), target)
                except OSError:
                    pass  # It counts as lost.
            sequence += 1
            due = max(due + period, now - 0.05)  # After a pause catch up at most 50 ms.
        wake = due if now < end else end + late
        for key, _ in selector.select(max(0.0, wake - time.monotonic())):
            try:
                while True:
                    _, number_of, at = FORM.unpack(sockets[key.data].recv(2048)[: FORM.size])
                    twice += number_of in answered[key.data]
                    reordered += at < latest[key.data]
                    longest_delay = max(longest_delay, time.monotonic() - at)
                    answered[key.data][number_of] = at
                    latest[key.data] = max(latest[key.data], at)
            except (BlockingIOError, ConnectionRefusedError):
                pass
    flows = []
    for times in answered:
        marks = [started, *sorted(times.values()), end]
        gaps = [(b - a, a - started) for a, b in itertools.pairwise(marks)]
        longest, at = max(gaps)
        flows.append({"gap-ms": longest * 1000, "at-s": at, "lost": sequence - len(times)})
    return {
        "sent": sequence,
        "twice": twice,
        "reordered": reordered,
        "longest-delay-ms": longest_delay * 1000,
        "flows": flows,
    }


def main(mode: str, address: str, port: str, *more: str) -> None:
    if mode == "echo":
        print(json.dumps(echo(address, int(port))))
    else:
        seconds, period, *sources = more
        print(json.dumps(send((address, int(port)), sources, float(seconds), float(period))))


if __name__ == "__main__":
    main(*sys.argv[1:])
