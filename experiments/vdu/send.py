"""Send packets of an experiment: attempts to reach addresses, or a stream of numbered datagrams.

With a file as argument, systemd (Type=notify) starts it to send "seconds" times "rate" datagrams
of "size" bytes to "address" and "port", from "senders" ports in turn; it writes a summary to the
file "result". Without, it reads attempts from standard input and prints their outcomes.
"attempts" of that request is a list of objects with "to", "ports" (TCP), "datagram" (UDP port, 0
for none), "token", "source" (a forged IPv4 source of the datagram, "" for our own), "via" (a next
hop, "" for the routes there are) and "say" (hexadecimal, sent over each connection that opens).
"""

import asyncio
import contextlib
import errno
import json
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import Any, Dict, List, Tuple

from vpnaas.vdu.programs.common import family, put, ready

HEAD = struct.Struct("!4sQdB")
STREAM, TOKEN = b"VPNs", b"VPNt"
AT_ONCE = 400
MOST_OPEN = 500  # Most opened connections that the answer lists; the counts include all.

Json = Dict[str, Any]


def datagram(mark: bytes, number: int, name: str, size: int = 0) -> bytes:
    """Return a datagram as `watch.py` reads it."""
    text = name.encode("ascii")[:255]
    data = HEAD.pack(mark, number, time.time(), len(text)) + text
    return data + b"\0" * (size - len(data))


async def connect(address: str, port: int, say: bytes, patience: float, gate: Any) -> str:
    """Return the outcome of a connection: open, refused, silent, or the name of an error."""
    async with gate:
        try:
            opening = asyncio.open_connection(address, port, family=family(address))
            _, writer = await asyncio.wait_for(opening, patience)
        except asyncio.TimeoutError:
            return "silent"
        except ConnectionRefusedError:
            return "refused"
        except OSError as error:
            return errno.errorcode.get(error.errno or 0, "error").lower()
        if say:
            writer.write(say)
            await asyncio.sleep(0.2)
        writer.close()
        return "open"


def checksum(data: bytes) -> int:
    """Return the checksum of an IPv4 header (RFC 1071)."""
    total = int(sum(struct.unpack("!%dH" % (len(data) // 2), data)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def forged(source: str, target: str, port: int, data: bytes) -> bytes:
    """Return an IPv4 packet with a UDP datagram from a source that is not ours."""
    udp = struct.pack("!HHHH", port, port, 8 + len(data), 0) + data
    addresses = socket.inet_aton(source) + socket.inet_aton(target)
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0) + addresses
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + udp


def send_token(attempt: Json) -> str:
    """Send the datagram of an attempt; return `sent` or the name of an error."""
    target, port = attempt["to"], attempt["datagram"]
    data = datagram(TOKEN, 0, attempt["token"])
    try:
        if not attempt["source"]:
            with socket.socket(family(target), socket.SOCK_DGRAM) as plain:
                plain.sendto(data, (target, port))
        else:
            with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
                raw.sendto(forged(attempt["source"], target, port, data), (target, 0))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "error").lower()
    return "sent"


def route(attempt: Json, interface: str) -> Tuple[str, ...]:
    """Return the words of a route over the next hop of an attempt."""
    bits = "128" if ":" in attempt["to"] else "32"
    return (attempt["to"] + "/" + bits, "via", attempt["via"], "dev", interface, "onlink")


async def tried(attempts: List[Json], patience: float) -> List[Tuple[List[str], str]]:
    """Return per attempt the outcomes of its ports and of its datagram."""
    gate = asyncio.Semaphore(AT_ONCE)
    results = []
    for attempt in attempts:
        say = bytes.fromhex(attempt["say"])
        results.append(
            asyncio.gather(
                *(connect(attempt["to"], p, say, patience, gate) for p in attempt["ports"])
            )
        )
    outcomes = [list(await each) for each in results]
    sent = [send_token(attempt) if attempt["datagram"] else "" for attempt in attempts]
    # What was sent last is still on its way.
    await asyncio.sleep(0.2)
    return list(zip(outcomes, sent))


def attempts(request: Json) -> Json:
    """Make all attempts; those with a next hop after the others, with routes of their own.

    Return counts by label and outcome, and the opened connections as (number of attempt, port).
    """
    counts: Dict[str, Dict[str, int]] = {}
    opened: List[Any] = []
    listed = list(enumerate(request["attempts"]))
    loop = asyncio.new_event_loop()
    for forced in (False, True):
        turn = [(n, attempt) for n, attempt in listed if bool(attempt["via"]) == forced]
        routes: Dict[Tuple[str, ...], bool] = {}
        possible = []
        try:
            for number, attempt in turn:
                words = route(attempt, request["interface"])
                if forced and words not in routes:
                    _route("del", words)  # A probe that was killed may have left it.
                    routes[words] = _route("add", words)
                if routes.get(words, True):
                    possible.append((number, attempt))
                    continue
                # By another route it would not be the attempt that was asked for.
                for word in ["tcp"] * len(attempt["ports"]) + ["udp"] * bool(attempt["datagram"]):
                    _count(counts.setdefault(attempt["label"], {}), word + " unrouted")
            made = loop.run_until_complete(tried([a for _, a in possible], request["patience"]))
        finally:
            for words, added in routes.items():
                if added:
                    _route("del", words)
        for (number, attempt), (outcomes, sent) in zip(possible, made):
            table = counts.setdefault(attempt["label"], {})
            for port, outcome in zip(attempt["ports"], outcomes):
                _count(table, "tcp " + outcome)
                if outcome == "open":
                    opened.append([number, port])
            if sent:
                _count(table, "udp " + sent)
    loop.close()
    answer: Json = {"outcomes": counts, "open": opened[:MOST_OPEN], "opened": len(opened)}
    return answer


def _route(verb: str, words: Tuple[str, ...]) -> bool:
    done = subprocess.run(
        ("ip", "route", verb) + words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return done.returncode == 0


def _count(table: Dict[str, int], name: str) -> None:
    table[name] = table.get(name, 0) + 1


def stream(request: Json) -> Json:
    """Send numbered datagrams at a steady rate, until the end or SIGTERM.

    Return how many were due, how many the kernel refused, and by how many ms one was late at most.
    """
    ending: List[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ending.append(number))
    failed, late, number = 0, 0.0, 0
    count = int(request["seconds"] * request["rate"])
    with contextlib.ExitStack() as stack:
        socks = [
            stack.enter_context(socket.socket(family(request["address"]), socket.SOCK_DGRAM))
            for _ in range(request["senders"])
        ]
        target = (request["address"], request["port"])
        step, start = 1.0 / request["rate"], time.monotonic() + 0.1
        ready()
        while number < count and not ending:
            pause = start + number * step - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            late = max(late, time.monotonic() - start - number * step)
            try:
                data = datagram(STREAM, number, request["name"], request["size"])
                socks[number % len(socks)].sendto(data, target)
            except OSError:
                failed += 1
            number += 1
    return {"sent": number, "failed": failed, "late-ms": round(late * 1000, 3)}


def main() -> None:
    """Make attempts as standard input says, or send a stream as a file says."""
    if len(sys.argv) < 2:
        json.dump(attempts(json.load(sys.stdin)), sys.stdout)
        return
    with open(sys.argv[1]) as asked:
        request = json.load(asked)
    result = stream(request)
    put(request["result"], json.dumps(result))


if __name__ == "__main__":
    main()
