#!/usr/bin/python3
"""How long the HSS takes to answer, seen on the MME's VDU where S6a comes out of its tunnel.

This file is the program that the charm sends there: it must not import anything but the standard
library and must run on any Python from 3.6 on. It only reads copies
of the packets on one interface, puts the TCP streams together, pairs Diameter requests and answers
of a connection by their hop-by-hop identifiers (RFC 6733 clause 3), and prints times in
milliseconds.

Times are the kernel's, taken when it handed a packet to the interface or took it from there
(SO_TIMESTAMPNS, socket(7)). When this program gets to read a packet says nothing: where the
processors are busy it reads a request together with its answer.

It reads a JSON object on standard input: {"interface", "seconds", "count", "idle"}, writes the line
"listening" to standard error when it hears, and ends after that time, when that many requests of
the wanted commands were answered, or when there was none for the idle seconds after the first.
"""

import json
import socket
import struct
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

PORT = 3868
COMMANDS = {318: "AIR", 316: "ULR"}
"""Authentication-Information and Update-Location (TS 29.272 clause 7.2.2)."""
ETH_P_ALL = 3
ETHERNET = ("1", "772")
"""ARPHRD_ETHER and ARPHRD_LOOPBACK (if_arp.h): what is not these starts with its IP header."""
SO_TIMESTAMPNS = 35
"""asm-generic/socket.h; also the type of the control message, a struct timespec."""
TIMESPEC = struct.Struct("@ll")
SYN = 0x02
REQUEST, RETRANSMITTED = 0x80, 0x10
RESULT_CODE = 268
EXPERIMENTAL_RESULT = 297
EXPERIMENTAL_RESULT_CODE = 298
AHEAD = 64
"""Segments kept of those that overtook another one; a missing one is given up beyond."""

Flow = Tuple[bytes, int, bytes, int]


class Stream:
    """One direction of a TCP connection, from the first message boundary that was seen."""

    def __init__(self) -> None:
        self.expected: Optional[int] = None
        self.ahead: Dict[int, bytes] = {}
        self.data = b""

    def reset(self) -> None:
        """Forget everything: the connection begins, or a segment was never seen."""
        self.expected = None
        self.ahead = {}
        self.data = b""

    def feed(self, sequence: int, payload: bytes) -> List[bytes]:
        """Take a segment; return the Diameter messages that are complete now."""
        if self.expected is None:
            # Recording starts in the middle: at a segment that looks like a message's first.
            if not _starts(payload):
                return []
            self.expected = sequence
        self._keep(sequence, payload)
        while self.expected in self.ahead:
            segment = self.ahead.pop(self.expected)
            self.data += segment
            self.expected = (self.expected + len(segment)) & 0xFFFFFFFF
            for start in [s for s in self.ahead if _before(s, self.expected)]:
                self._keep(start, self.ahead.pop(start))
        if len(self.ahead) > AHEAD:
            # A segment that was never seen: go on at the next message.
            self.reset()
            return self.feed(sequence, payload)
        messages = []
        while len(self.data) >= 20:
            size = struct.unpack("!I", b"\0" + self.data[1:4])[0]
            if self.data[0] != 1 or size < 20:
                self.reset()
                break
            if len(self.data) < size:
                break
            messages.append(self.data[:size])
            self.data = self.data[size:]
        return messages

    def _keep(self, sequence: int, payload: bytes) -> None:
        """Keep the new part of a segment; one that was sent again may hold old and new."""
        assert self.expected is not None  # noqa: S101
        if _before(sequence, self.expected):
            payload = payload[(self.expected - sequence) & 0xFFFFFFFF :]
            sequence = self.expected
        if payload and len(payload) > len(self.ahead.get(sequence, b"")):
            self.ahead[sequence] = payload


def _before(one: int, other: int) -> bool:
    """Compare sequence numbers (RFC 9293 clause 3.4)."""
    return (one - other) & 0x80000000 != 0


def _starts(payload: bytes) -> bool:
    return len(payload) >= 20 and payload[0] == 1 and payload[4] & 0x0F == 0


class Request:
    """A request that waits for its answer."""

    def __init__(self, command: int, end: int, at: float) -> None:
        self.command = command
        self.end = end
        self.at = at


class Meter:
    """Pairs requests and answers."""

    def __init__(self) -> None:
        self.streams: Dict[Flow, Stream] = {}
        self.open: Dict[Tuple[Flow, int], Request] = {}
        self.times: Dict[str, List[float]] = {name: [] for name in COMMANDS.values()}
        self.results: Dict[str, Dict[str, int]] = {name: {} for name in COMMANDS.values()}
        self.backwards = 0
        self.last = 0.0

    def packet(self, packet: bytes, now: float) -> None:
        """Take an IPv4 packet that passed the interface at a time in seconds."""
        if len(packet) < 40 or packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
            return
        header = (packet[0] & 15) * 4
        # Zero where the kernel hands on more than 64 kB in one piece.
        total = struct.unpack("!H", packet[2:4])[0] or len(packet)
        tcp = packet[header:total]
        if len(tcp) < 20:
            return
        source, target, sequence = struct.unpack("!HHI", tcp[:8])
        if PORT not in (source, target):
            return
        flow = (packet[12:16], source, packet[16:20], target)
        if tcp[13] & SYN:
            self.streams.pop(flow, None)
            return
        payload = tcp[(tcp[12] >> 4) * 4 :]
        if not payload:
            return
        for message in self.streams.setdefault(flow, Stream()).feed(sequence, payload):
            self.message(flow, message, now)

    def message(self, flow: Flow, message: bytes, now: float) -> None:
        """Take a Diameter message."""
        command = struct.unpack("!I", b"\0" + message[5:8])[0]
        if command not in COMMANDS:
            return
        self.last = time.monotonic()
        name = COMMANDS[command]
        hop, end = struct.unpack("!II", message[12:20])
        if message[4] & REQUEST:
            asked = Request(command, end, now)
            if message[4] & RETRANSMITTED:
                # Over a new connection: new hop-by-hop, the same end-to-end identifier.
                for key, old in list(self.open.items()):
                    if (old.command, old.end) == (command, end):
                        asked.at = min(asked.at, self.open.pop(key).at)
            self.open[flow, hop] = asked
            return
        sent = self.open.get((flow[2:] + flow[:2], hop))
        if sent is None or sent.command != command:
            return
        del self.open[flow[2:] + flow[:2], hop]
        if now < sent.at:
            # Somebody set the clock meanwhile.
            self.backwards += 1
            return
        self.times[name].append((now - sent.at) * 1000.0)
        code = str(result_code(message[20:]))
        self.results[name][code] = self.results[name].get(code, 0) + 1

    def answered(self) -> int:
        """Return how many requests were answered."""
        return sum(len(times) for times in self.times.values())

    def summary(self) -> Dict[str, Any]:
        """Return what was measured, by command."""
        result: Dict[str, Any] = {}
        for command, name in COMMANDS.items():
            open_ones = sum(1 for asked in self.open.values() if asked.command == command)
            result[name] = dict(statistics(self.times[name]), unanswered=open_ones)
            result[name]["results"] = self.results[name]
        if self.backwards:
            result["clock-set-back"] = self.backwards
        return result


def result_code(avps: bytes) -> int:
    """Return the Result-Code, or that in Experimental-Result; 0 where there is neither."""
    place = 0
    while place + 8 <= len(avps):
        code, flags = struct.unpack("!IB", avps[place : place + 5])
        size = struct.unpack("!I", b"\0" + avps[place + 5 : place + 8])[0]
        if size < 8:
            return 0
        start = place + (12 if flags & 0x80 else 8)
        data = avps[start : place + size]
        if code in (RESULT_CODE, EXPERIMENTAL_RESULT_CODE) and len(data) == 4:
            return int(struct.unpack("!I", data)[0])
        if code == EXPERIMENTAL_RESULT:
            return result_code(data)
        place += (size + 3) & ~3
    return 0


def statistics(times: List[float]) -> Dict[str, Any]:
    """Return count and order statistics of times in ms."""
    ordered = sorted(times)
    if not ordered:
        return {"count": 0}

    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)

    return {
        "count": len(ordered),
        "min-ms": at(0),
        "median-ms": at(0.5),
        "mean-ms": round(sum(ordered) / len(ordered), 3),
        "p95-ms": at(0.95),
        "p99-ms": at(0.99),
        "max-ms": at(1),
    }


def stamp(control: List[Tuple[int, int, bytes]]) -> float:
    """Return the kernel's time of a packet in seconds, from recvmsg's control messages.

    Raises:
        OSError: The kernel gave none.
    """
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS) and len(data) >= TIMESPEC.size:
            seconds, nanoseconds = TIMESPEC.unpack(data[: TIMESPEC.size])
            return float(seconds) + float(nanoseconds) / 1e9
    raise OSError("the kernel gives no timestamps of packets")


def main(request: Dict[str, Any]) -> Dict[str, Any]:
    """Listen, then tell."""
    interface = request["interface"]
    with open("/sys/class/net/{}/type".format(interface), encoding="ascii") as stream:
        skip = 14 if stream.read().strip() in ETHERNET else 0
    meter = Meter()
    until = time.monotonic() + request["seconds"]
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as tap:
        tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        tap.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        tap.bind((interface, 0))
        tap.settimeout(0.5)
        sys.stderr.write("listening\n")
        sys.stderr.flush()
        while time.monotonic() < until and meter.answered() < request["count"]:
            if meter.last and request["idle"] and time.monotonic() - meter.last > request["idle"]:
                break
            try:
                packet, control, _, _ = tap.recvmsg(65535, 64)
            except socket.timeout:
                continue
            meter.packet(packet[skip:], stamp(control))
        # PACKET_STATISTICS (packet(7)): packets, then drops.
        lost = struct.unpack("II", tap.getsockopt(263, 6, 8))[1]
    return dict(meter.summary(), **{"packets-lost-by-the-meter": lost})


if __name__ == "__main__":
    json.dump(main(json.load(sys.stdin)), sys.stdout)
