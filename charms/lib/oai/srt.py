#!/usr/bin/python3
"""Service response times of S6a, seen on the wire at the MME.

This file is the program that the charm sends to the MME's VDU: it must not import anything but the
standard library and must run on any Python from 3.6 on. It reads a JSON object on standard input:

    {"interface": name, "registrations": number, "seconds": number}

listens to TCP port 3868 on the interface until that many Update-Location answers have come or that
much time has passed, and prints JSON. A response time is the time between the kernel's time stamps
of a request's and its answer's last octet (RFC 6733, matched by the hop-by-hop identifier).
"""

import json
import math
import os
import socket
import struct
import sys
import time
from typing import Any, Dict, List, Optional, Tuple  # noqa: F401 - in type comments

Json = Dict[str, Any]

PORT = 3868
COMMANDS = {318: "AIR", 316: "ULR"}
"""Authentication- and Update-Location-Request (TS 29.272 clause 7.2)."""
SUCCESS = 2001
_RESULT, _EXPERIMENTAL, _EXPERIMENTAL_CODE = 268, 297, 298
_LONGEST = 1 << 16
_SO_TIMESTAMPNS = 35
_ETH_P_ALL = 0x0003  # what is sent is seen by listeners to all protocols only


class Stream:
    """One direction of a TCP connection, put together again."""

    def __init__(self) -> None:
        self.expected = None  # type: Optional[int]
        self.buffer = b""

    def take(self, sequence: int, payload: bytes) -> List[bytes]:
        """Return the whole messages that a segment completes; a lost segment costs some."""
        if self.expected is not None:
            old = (self.expected - sequence) & 0xFFFFFFFF
            if 0 < old < 0x80000000:  # sent again
                payload = payload[old:]
                sequence = self.expected
            if sequence != self.expected:
                self.buffer = b""
        if not payload:
            return []
        self.expected = (sequence + len(payload)) & 0xFFFFFFFF
        self.buffer += payload
        found = []
        while len(self.buffer) >= 20:
            size = int.from_bytes(self.buffer[1:4], "big")
            if self.buffer[0] != 1 or not 20 <= size <= _LONGEST:
                self.buffer = b""  # in the middle of a message: the next segment may begin one
            if len(self.buffer) < max(size, 20):
                break
            found.append(self.buffer[:size])
            self.buffer = self.buffer[size:]
        return found


def result_code(message: bytes) -> int:
    """Return the result code of an answer, that of S6a's own errors included; 0 without one."""
    at = 20
    while at + 8 <= len(message):
        code = int.from_bytes(message[at : at + 4], "big")
        size = int.from_bytes(message[at + 5 : at + 8], "big")
        if size < 8:
            return 0
        head = 12 if message[at + 4] & 0x80 else 8
        if code in (_RESULT, _EXPERIMENTAL_CODE):
            return int.from_bytes(message[at + head : at + head + 4], "big")
        at += head if code == _EXPERIMENTAL else (size + 3) // 4 * 4
    return 0


class Meter:
    """Requests that wait for their answer, and the times of those that have it."""

    def __init__(self) -> None:
        self.streams = {}  # type: Dict[Tuple[bytes, bytes], Stream]
        self.waiting = {}  # type: Dict[Tuple[int, bytes], float]
        self.times = {"AIR": [], "ULR": []}  # type: Dict[str, List[float]]
        self.results = {"AIR": {}, "ULR": {}}  # type: Dict[str, Dict[int, int]]

    def packet(self, packet: bytes, moment: float) -> None:
        """Take an IPv4 packet."""
        if len(packet) < 40 or packet[0] >> 4 != 4 or packet[9] != 6:
            return
        start = (packet[0] & 15) * 4
        length = int.from_bytes(packet[2:4], "big")
        tcp = packet[start:length]
        if len(tcp) < 20:
            return
        source, target, sequence = struct.unpack("!HHI", tcp[:8])
        if PORT not in (source, target):
            return
        key = (packet[12:20], tcp[:4])
        payload = tcp[(tcp[12] >> 4) * 4 :]
        for message in self.streams.setdefault(key, Stream()).take(sequence, payload):
            self.message(message, moment)

    def message(self, message: bytes, moment: float) -> None:
        """Take a Diameter message."""
        command = int.from_bytes(message[5:8], "big")
        if command not in COMMANDS:
            return
        key = (command, message[12:16])
        if message[4] & 0x80:
            self.waiting[key] = moment
        elif key in self.waiting:
            name, code = COMMANDS[command], result_code(message)
            self.times[name].append(moment - self.waiting.pop(key))
            self.results[name][code] = self.results[name].get(code, 0) + 1

    def report(self, seconds: float) -> Json:
        """Return what was seen, times in milliseconds."""
        answer = {"seconds": round(seconds, 3), "unanswered": len(self.waiting)}  # type: Json
        for name, times in self.times.items():
            answer[name] = dict(summary(times), results=self.results[name])
        return answer


def summary(seconds: List[float]) -> Json:
    """Return count, mean and quantiles (nearest rank) in milliseconds."""
    ordered = sorted(1000 * value for value in seconds)
    if not ordered:
        return {"count": 0}

    def rank(share: float) -> float:
        return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 3)

    mean = sum(ordered) / len(ordered)
    shown = {"count": len(ordered), "mean": round(mean, 3)}  # type: Json
    deviation = math.sqrt(sum((value - mean) ** 2 for value in ordered) / len(ordered))
    shown["deviation"] = round(deviation, 3)
    for name, share in (("min", 0.0), ("median", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)):
        shown[name] = rank(share)
    return shown


def main(request: Json) -> Json:
    """Listen until there is enough or time is up."""
    meter = Meter()
    listener = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_ALL))
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        listener.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        listener.bind((request["interface"], _ETH_P_ALL))
        began = time.monotonic()
        until = began + float(request["seconds"])
        while len(meter.times["ULR"]) < int(request["registrations"]):
            left = until - time.monotonic()
            if left <= 0:
                break
            listener.settimeout(min(left, 1.0))
            try:
                packet, ancillary, _, _ = listener.recvmsg(_LONGEST, 64)
            except socket.timeout:
                continue
            moment = time.time()
            for level, kind, data in ancillary:
                if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) >= 16:
                    whole, nano = struct.unpack("qq", data[:16])
                    moment = whole + nano / 1e9
            meter.packet(packet, moment)
        return meter.report(time.monotonic() - began)


def source() -> str:
    """Return the text of this program."""
    with open(os.path.splitext(os.path.abspath(__file__))[0] + ".py", encoding="utf-8") as stream:
        return stream.read()


if __name__ == "__main__":
    json.dump(main(json.load(sys.stdin)), sys.stdout)
