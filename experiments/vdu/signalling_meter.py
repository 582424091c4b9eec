#!/usr/bin/python3
"""Measure how long signalling takes, on a VDU's interface where the link leaves the tunnel.

This file is the program that the charm sends there: it must not import anything but the standard
library and must run on any Python from 3.6 on. It only reads copies of the packets on one
interface, and prints times in milliseconds.

On S6a, at the MME, it puts the TCP streams together and pairs Diameter requests and answers of a
connection by their hop-by-hop identifiers (RFC 6733 clause 3). On N2, at the AMF, it pairs the
NGAP messages with which a procedure of a UE begins and ends, by the identity that the gNB gave the
UE (TS 38.413 clause 9.3.3.2).

Times are the kernel's, taken when it handed a packet to the interface or took it from there
(SO_TIMESTAMPNS, socket(7)). The time when this program reads a packet is of no use: on a busy VDU
it reads a request together with its answer.

It reads a JSON object on standard input: {"link", "interface", "seconds", "count", "idle"}, and
writes the line "listening" to standard error when it is ready. It ends after "seconds", after
"count" answered requests (on N2: those of PDU sessions), or when after the first request no
further one came for "idle" seconds.
"""

import json
import socket
import struct
import sys
import time
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

PORT = 3868
COMMANDS = {318: "AIR", 316: "ULR"}
"""Authentication-Information and Update-Location (TS 29.272 clause 7.2.2)."""
ETH_P_ALL = 3
ETHERNET = ("1", "772")
"""ARPHRD_ETHER and ARPHRD_LOOPBACK (if_arp.h); other types have no link-layer header here."""
SO_TIMESTAMPNS = 35
"""asm-generic/socket.h; also the type of the control message, a struct timespec."""
TIMESPEC = struct.Struct("@ll")
SYN = 0x02
REQUEST, RETRANSMITTED = 0x80, 0x10
RESULT_CODE = 268
EXPERIMENTAL_RESULT = 297
EXPERIMENTAL_RESULT_CODE = 298
AHEAD = 64  # Most segments kept out of order; with more, the missing segment is given up.

Flow = Tuple[bytes, int, bytes, int]


class Stream:
    """One direction of a TCP connection, from the first message boundary that the meter sees."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything, after a lost segment or invalid data."""
        self.expected: Optional[int] = None
        self.ahead: Dict[int, bytes] = {}
        self.data = b""

    def feed(self, sequence: int, payload: bytes) -> List[bytes]:
        """Take a segment; return the Diameter messages that are complete now."""
        if self.expected is None:
            # Recording starts in the middle: wait for a segment that looks like a message's first.
            if len(payload) < 20 or payload[0] != 1 or payload[4] & 0x0F:
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
            # A segment is lost: go on at the next message.
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
        """Keep the new part of a segment; a retransmitted one may have old and new data."""
        assert self.expected is not None  # noqa: S101
        if _before(sequence, self.expected):
            payload = payload[(self.expected - sequence) & 0xFFFFFFFF :]
            sequence = self.expected
        if payload and len(payload) > len(self.ahead.get(sequence, b"")):
            self.ahead[sequence] = payload


def _before(one: int, other: int) -> bool:
    """Compare sequence numbers (RFC 9293 clause 3.4)."""
    return (one - other) & 0x80000000 != 0


def payload(packet: bytes, protocol: int) -> bytes:
    """Return what an IPv4 packet of a protocol contains, empty for another packet."""
    if len(packet) < 20 or packet[0] >> 4 != 4 or packet[9] != protocol:
        return b""
    # Zero if the kernel passes on more than 64 kB in one piece.
    total = struct.unpack("!H", packet[2:4])[0] or len(packet)
    return packet[(packet[0] & 15) * 4 : total]


class Meter:
    """Times in ms, by name."""

    def __init__(self, names: Iterable[str]) -> None:
        self.times: Dict[str, List[float]] = {name: [] for name in names}
        self.backwards = 0
        self.last = 0.0

    def took(self, name: str, began: float, now: float) -> bool:
        """Keep a time; tell whether it is one, as the clock may have been set back meanwhile."""
        if now < began:
            self.backwards += 1
            return False
        self.times[name].append((now - began) * 1000.0)
        return True

    def summary(self) -> Dict[str, Any]:
        result: Dict[str, Any] = {name: statistics(times) for name, times in self.times.items()}
        if self.backwards:
            result["clock-set-back"] = self.backwards
        return result


class Request(NamedTuple):
    """A request that waits for its answer."""

    command: int
    end: int
    at: float


class S6a(Meter):
    """Pairs requests of the MME and answers of the HSS."""

    def __init__(self) -> None:
        super().__init__(COMMANDS.values())
        self.streams: Dict[Flow, Stream] = {}
        self.open: Dict[Tuple[Flow, int], Request] = {}
        self.results: Dict[str, Dict[str, int]] = {name: {} for name in COMMANDS.values()}

    def packet(self, packet: bytes, now: float) -> None:
        """Take an IPv4 packet that passed the interface at a time in seconds."""
        tcp = payload(packet, socket.IPPROTO_TCP)
        if len(tcp) < 20:
            return
        source, target, sequence = struct.unpack("!HHI", tcp[:8])
        if PORT not in (source, target):
            return
        flow = (packet[12:16], source, packet[16:20], target)
        if tcp[13] & SYN:
            self.streams.pop(flow, None)
            return
        data = tcp[(tcp[12] >> 4) * 4 :]
        if not data:
            return
        for message in self.streams.setdefault(flow, Stream()).feed(sequence, data):
            self.message(flow, message, now)

    def message(self, flow: Flow, message: bytes, now: float) -> None:
        command = struct.unpack("!I", b"\0" + message[5:8])[0]
        if command not in COMMANDS:
            return
        self.last = time.monotonic()
        name = COMMANDS[command]
        hop, end = struct.unpack("!II", message[12:20])
        if message[4] & REQUEST:
            began = now
            if message[4] & RETRANSMITTED:
                # Over a new connection: new hop-by-hop, the same end-to-end identifier.
                for key, old in list(self.open.items()):
                    if (old.command, old.end) == (command, end):
                        began = min(began, self.open.pop(key).at)
            self.open[flow, hop] = Request(command, end, began)
            return
        sent = self.open.get((flow[2:] + flow[:2], hop))
        if sent is None or sent.command != command:
            return
        del self.open[flow[2:] + flow[:2], hop]
        if self.took(name, sent.at, now):
            code = str(result_code(message[20:]))
            self.results[name][code] = self.results[name].get(code, 0) + 1

    def answered(self) -> int:
        return sum(len(times) for times in self.times.values())

    def summary(self) -> Dict[str, Any]:
        result = super().summary()
        for command, name in COMMANDS.items():
            unanswered = sum(1 for request in self.open.values() if request.command == command)
            result[name].update(unanswered=unanswered, results=self.results[name])
        return result


N2_PORT, NGAP = 38412, 60
"""Port of SCTP, and the payload protocol identifier of NGAP (TS 38.412 clause 7)."""
RAN_UE = 85  # Identifier of the IE RAN-UE-NGAP-ID (TS 38.413 clause 9.4.7).
REQUESTED, DONE = 0x00, 0x20
"""First octet of an NGAP message: initiatingMessage, successfulOutcome."""
CONTEXT_SETUP, INITIAL_UE, SESSION_SETUP, UPLINK_NAS = 14, 15, 29, 46
"""Procedure codes (TS 38.413 clause 9.4.7)."""
PROCEDURES = {
    "registration": ((REQUESTED, INITIAL_UE), (REQUESTED, CONTEXT_SETUP)),
    "context-setup": ((REQUESTED, CONTEXT_SETUP), (DONE, CONTEXT_SETUP)),
    "session": ((REQUESTED, UPLINK_NAS), (REQUESTED, SESSION_SETUP)),
    "session-setup": ((REQUESTED, SESSION_SETUP), (DONE, SESSION_SETUP)),
}
"""Messages with which a procedure begins and ends at the AMF.

`registration` ends with the message that carries Registration Accept. `session` begins with the
last NAS message of the UE before the AMF asks the gNB for resources, which is its request.
"""


class N2(Meter):
    """Pairs the first and the last message of procedures."""

    def __init__(self) -> None:
        super().__init__(PROCEDURES)
        self.open: Dict[Tuple[str, bytes, bytes], float] = {}
        self.seen: Dict[Tuple[bytes, bytes], None] = {}

    def packet(self, packet: bytes, now: float) -> None:
        """Take an IPv4 packet that passed the interface at a time in seconds."""
        sctp = payload(packet, socket.IPPROTO_SCTP)
        if len(sctp) < 12:
            return
        ports = struct.unpack("!HH", sctp[:4])
        if N2_PORT not in ports:
            return
        # Address and port of the gNB, whichever end sends.
        sent = ports[1] == N2_PORT
        gnb = packet[12:16] + sctp[0:2] if sent else packet[16:20] + sctp[2:4]
        place = 12
        while place + 16 <= len(sctp):
            kind, flags, size = struct.unpack("!BBH", sctp[place : place + 4])
            if size < 4:
                return
            # DATA (RFC 9260 clause 3.3.1), a whole message or the first part of one.
            protocol = struct.unpack("!I", sctp[place + 12 : place + 16])[0]
            if kind == 0 and flags & 2 and protocol == NGAP:
                one = (sctp[4:8], sctp[place + 4 : place + 8])
                if one not in self.seen:  # It may be sent again.
                    self.seen[one] = None
                    if len(self.seen) > 4096:
                        del self.seen[next(iter(self.seen))]
                    self.message(gnb, sctp[place + 16 : place + size], now)
            place += (size + 3) & ~3

    def message(self, gnb: bytes, message: bytes, now: float) -> None:
        """Take an NGAP message of an association."""
        if len(message) < 3:
            return
        what, ue = (message[0], message[1]), ran_ue(message)
        if not ue:
            return
        for name, (first, final) in PROCEDURES.items():
            if what == final and (name, gnb, ue) in self.open:
                self.last = time.monotonic()
                self.took(name, self.open.pop((name, gnb, ue)), now)
            elif what == first:
                self.last = time.monotonic()
                self.open[name, gnb, ue] = now

    def answered(self) -> int:
        """Return how many procedures of the last kind, `session-setup`, have ended."""
        return len(self.times["session-setup"])


def length(data: bytes, place: int) -> Tuple[int, int]:
    """Return a length and where it ends (X.691 clause 11.9); 0 if it is in fragments."""
    first = data[place] if place < len(data) else 0xFF
    if first < 0x80:
        return first, place + 1
    if first < 0xC0 and place + 1 < len(data):
        return (first & 0x3F) << 8 | data[place + 1], place + 2
    return 0, len(data)


def ran_ue(message: bytes) -> bytes:
    """Return the octets of RAN-UE-NGAP-ID in an NGAP message, empty if there is none."""
    _, place = length(message, 3)
    place += 3  # Whether there are extensions, and the number of IEs.
    while place + 4 <= len(message):
        kind = struct.unpack("!H", message[place : place + 2])[0]
        size, start = length(message, place + 3)
        if kind == RAN_UE:
            return message[start : start + size]
        if kind > RAN_UE or not size:
            return b""
        place = start + size
    return b""


METERS: Dict[str, Any] = {"s6a": S6a, "n2": N2}


def result_code(avps: bytes, inner: bool = False) -> int:
    """Return the Result-Code, or that in Experimental-Result; 0 if there is neither.

    Args:
        avps: The AVPs of an answer.
        inner: Whether they are those in Experimental-Result.
    """
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
            return 0 if inner else result_code(data, inner=True)
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
    """Return the kernel's time of a packet in seconds, from recvmsg's control messages."""
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS) and len(data) >= TIMESPEC.size:
            seconds, nanoseconds = TIMESPEC.unpack(data[: TIMESPEC.size])
            return float(seconds) + float(nanoseconds) / 1e9
    raise OSError("the kernel gives no timestamps of packets")


def main(request: Dict[str, Any]) -> Dict[str, Any]:
    """Listen, then return the summary."""
    interface = request["interface"]
    with open("/sys/class/net/{}/type".format(interface), encoding="ascii") as stream:
        skip = 14 if stream.read().strip() in ETHERNET else 0
    meter = METERS[request["link"]]()
    until = time.monotonic() + request["seconds"]
    # Protocol 0 receives nothing until bind, with any other the packets of all interfaces.
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as tap:
        tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        tap.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        tap.bind((interface, ETH_P_ALL))
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
