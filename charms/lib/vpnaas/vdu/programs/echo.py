"""Ask many addresses for an echo at once (RFC 792, RFC 4443); this text runs on the VDU as root.

Standard input: JSON, [address, seconds, bytes] by name. Standard output: JSON by name, [requests,
answers, milliseconds of the first answer or null, true if packets of so many bytes vanish]. A peer
gets a burst of requests. If none is answered, it gets further ones until its seconds are over: a
first packet may have to wait for a handshake. A peer that answers gets large ones, too. They vanish
if none of them is answered and every small one is.
"""

import ipaddress
import json
import os
import select
import socket
import struct
import sys
import time
from typing import Any, Dict, List, Mapping

BURST, GAP = 5, 0.02
"""Requests at the beginning, and seconds between them."""
PAUSE = 0.5
"""Seconds between further requests, and for which late answers count after the first one."""
LARGE_SECONDS = 1.0
"""For an answer to a large request, besides two round trips: a slow link has more to carry."""
LARGE = 0x8000
"""Least sequence number of a large request."""
BATCH = 50
"""Requests between two looks for answers, so that no buffer runs over."""
REQUEST = {4: (8, 0), 6: (128, 129)}
"""Types of request and answer by IP version."""
HEADERS = {4: 28, 6: 48}
"""Bytes of IP and ICMP before the body of an echo."""
HEAD = struct.Struct("!BBHHH")
SOL_RAW, ICMP_FILTER = 255, 1


class Asked:
    """One address, and what came back from it."""

    def __init__(self, number: int, address: str, seconds: float, size: int = 0) -> None:
        self.number = number
        self.ip = ipaddress.ip_address(address)
        self.until = seconds
        self.size = size  # Bytes of a large packet, 0 for none.
        self.sent: List[float] = []
        self.answered: Dict[int, float] = {}
        self.large: List[float] = []  # When large requests left.
        self.fits = not size  # Whether one of them was answered.

    def due(self, now: float) -> bool:
        """Tell whether the next request is to leave, `now` in seconds since the start."""
        if len(self.sent) < BURST:
            return not self.sent or now >= self.sent[-1] + GAP
        if not self.answered:
            return now >= self.sent[-1] + PAUSE
        return not self.fits and len(self.large) < BURST and now >= (self.large or [0])[-1] + GAP

    def done(self, now: float) -> bool:
        """Tell whether nothing more is sent or awaited."""
        if not self.answered:
            return now >= self.until
        if not self.fits:
            patience = LARGE_SECONDS + 2 * min(self.took())
            return len(self.large) == BURST and now >= self.large[-1] + patience
        waited = now >= min(self.answered.values()) + PAUSE
        return waited or len(self.answered) == len(self.sent) >= BURST

    def took(self) -> List[float]:
        """Return the seconds until each answer."""
        return [at - self.sent[sequence] for sequence, at in self.answered.items()]

    def result(self) -> List[Any]:
        """Return requests, answers, milliseconds of the first answer, and if large ones vanish."""
        took = self.took()
        first = round(1000 * min(took), 2) if took else None
        return [len(self.sent), len(took), first, len(took) == len(self.sent) and not self.fits]


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    data += b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack("!{}H".format(len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def message(version: int, kind: int, sequence: int, body: bytes) -> bytes:
    """Return an ICMP message; the kernel fills in the checksum of ICMPv6."""
    ident = os.getpid() & 0xFFFF
    sum_ = 0 if version == 6 else checksum(HEAD.pack(kind, 0, 0, ident, sequence) + body)
    return HEAD.pack(kind, 0, sum_, ident, sequence) + body


def opened(version: int) -> socket.socket:
    """Return a socket that sends requests and sees answers only."""
    _, answer = REQUEST[version]
    if version == 4:
        made = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        made.setsockopt(SOL_RAW, ICMP_FILTER, struct.pack("I", 0xFFFFFFFF ^ (1 << answer)))
    else:
        made = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
        mask = bytearray(b"\xff" * 32)  # ICMP6_FILTER (RFC 3542): a bit set blocks a type.
        block = struct.unpack_from("I", mask, answer // 32 * 4)[0] & ~(1 << answer % 32)
        struct.pack_into("I", mask, answer // 32 * 4, block)
        made.setsockopt(socket.IPPROTO_ICMPV6, 1, bytes(mask))
    made.setblocking(False)
    return made


def hear(sockets: Mapping[int, socket.socket], seconds: float, ask: "Echo") -> None:
    """Take the answers that are there, waiting for some time."""
    readable, _, _ = select.select(list(sockets.values()), [], [], max(0.0, seconds))
    for each in readable:
        version = 4 if each.family == socket.AF_INET else 6
        while True:
            try:
                data, source = each.recvfrom(65536)
            except OSError:
                break
            ask.answer(version, data, source[0])


class Echo:
    """A round of requests."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        self.token = os.urandom(8)
        self.started = time.monotonic()
        self.asked = {
            name: Asked(number, *asked[name]) for number, name in enumerate(sorted(asked))
        }
        self._by_number = {one.number: one for one in self.asked.values()}

    def now(self) -> float:
        """Return seconds since the start."""
        return time.monotonic() - self.started

    def answer(self, version: int, data: bytes, source: str) -> None:
        """Note a packet if it answers one of our requests."""
        if version == 4 and data:
            data = data[(data[0] & 15) * 4 :]
        if len(data) < HEAD.size + 12 or data[8:16] != self.token:
            return
        sequence = HEAD.unpack(data[:8])[4]
        one = self._by_number.get(struct.unpack("!I", data[16:20])[0])
        # The scope of a link-local address is not part of it.
        if not one or source.partition("%")[0] != str(one.ip):
            return
        if sequence < len(one.sent):
            one.answered.setdefault(sequence, self.now())
        elif LARGE <= sequence < LARGE + len(one.large):
            one.fits = True

    def send(self, one: Asked, sockets: Mapping[int, socket.socket]) -> None:
        """Send the next request to an address; what cannot be sent counts as lost."""
        body = self.token + struct.pack("!I", one.number)
        kind, _ = REQUEST[one.ip.version]
        if len(one.sent) < BURST or not one.answered:
            sequence, sent = len(one.sent), one.sent
        else:
            sequence, sent = LARGE + len(one.large), one.large
            body = body.ljust(one.size - HEADERS[one.ip.version], b"\0")
        data = message(one.ip.version, kind, sequence, body)
        sent.append(self.now())
        try:
            sockets[one.ip.version].sendto(data, (str(one.ip), 0))
        except OSError:
            pass  # No route or no key now: the next request may find one.

    def run(self) -> Dict[str, List[Any]]:
        versions = {int(one.ip.version) for one in self.asked.values()}
        sockets = {version: opened(version) for version in versions}
        try:
            waiting = list(self.asked.values())
            while waiting:
                now = self.now()
                due = [one for one in waiting if one.due(now)]
                for number, one in enumerate(due):
                    self.send(one, sockets)
                    if number % BATCH == BATCH - 1:
                        hear(sockets, 0.0, self)
                hear(sockets, GAP, self)
                now = self.now()
                waiting = [one for one in waiting if not one.done(now)]
        finally:
            for each in sockets.values():
                each.close()
        return {name: one.result() for name, one in self.asked.items()}


def main() -> int:
    json.dump(Echo(json.load(sys.stdin)).run(), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
