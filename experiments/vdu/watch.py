#!/usr/bin/python3
"""Watch what reaches this VDU while an experiment runs: frames, or datagrams and connections.

systemd starts it (Type=notify) with the path of a request: a JSON object with "watch" ("frames" or
"arrivals"), "seconds", "result" and the keys that the class of that name reads. It ends after that
time or at SIGTERM, then writes a summary to "result". Of a frame or a datagram it keeps the kind
and the time, never the content.
"""

import array
import json
import re
import selectors
import signal
import socket
import struct
import sys
import time
from typing import Any, Dict, List, Set, Tuple

from vpnaas.vdu.programs.common import family, put, ready

ETH_P_ALL = 3
PACKET_OUTGOING = 4
PACKET_STATISTICS = 6
IP_FREEBIND = 15
SO_RCVBUFFORCE = 33
MOST = 200000  # Datagrams of one stream whose delay is kept.
NUMBERS = 6000000  # Limit of the numbers of a stream: 10,000 datagrams a second for 600 s.
SHARES = (0, 1, 2, 5, *range(10, 95, 5), 95, 98, 99, 99.5, 99.9, 100)
"""Percentiles of the delay that the summary has."""
MOST_NAMES = 500
MOST_TEXT = 36000  # Limit of all tokens in JSON; an action's answer has 60,000 characters.
NAME = re.compile(rb"[\x20-\x7e]{1,100}")  # Form of a stream's name, and of a token.
LATEST = 1 << 40  # Limit of the times that a stream may state, seconds since the epoch.
CONNECTIONS = 64

UDP_PORTS = {53: "dns", 67: "dhcp", 68: "dhcp", 123: "ntp", 546: "dhcpv6", 547: "dhcpv6",
             2123: "gtp-c", 2152: "gtp-u", 5353: "mdns", 8805: "pfcp"}  # fmt: skip
TCP_PORTS = {22: "ssh", 53: "dns", 80: "http", 443: "https", 3868: "diameter"}
EXTENSIONS = (0, 43, 60)  # IPv6 extension headers to skip: hop-by-hop, routing, destination.

Fragments = Dict[bytes, str]


def kind(frame: bytes, fragments: Fragments) -> str:
    """Return what an Ethernet frame carries: `wg`, `esp`, `isakmp`, `arp`, `tcp` and so on.

    WireGuard is recognised by the form of its messages (whitepaper, section 5.4), on any port.
    ESP is IP protocol 50, or UDP port 4500 without the marker of IKE (RFC 3948). `fragments`
    remembers the kind of a datagram's first fragment for those that follow.
    """
    ether, start = frame[12:14], 14
    while ether in (b"\x81\x00", b"\x88\xa8"):
        ether, start = frame[start + 2 : start + 4], start + 4
    if ether == b"\x08\x06":
        return "arp"
    if ether == b"\x08\x00":
        return _ipv4(frame[start:], fragments)
    if ether == b"\x86\xdd":
        return _ipv6(frame[start:], fragments)
    return "ethertype-" + ether.hex()


def _ipv4(packet: bytes, fragments: Fragments) -> str:
    if len(packet) < 20:
        return "ip"
    place, data = struct.unpack("!H", packet[6:8])[0], packet[(packet[0] & 15) * 4 :]
    of = packet[12:20] + packet[4:6]
    return _part(fragments, of, place & 0x1FFF, place & 0x2000, packet[9], data)


def _ipv6(packet: bytes, fragments: Fragments) -> str:
    if len(packet) < 40:
        return "ipv6"
    protocol, rest = packet[6], packet[40:]
    while protocol in EXTENSIONS and len(rest) >= 8:
        protocol, rest = rest[0], rest[8 + rest[1] * 8 :]
    if protocol != 44 or len(rest) < 8:
        return _transport(protocol, rest)
    place, of = struct.unpack("!H", rest[2:4])[0], packet[8:40] + rest[4:8]
    return _part(fragments, of, place & 0xFFF8, place & 1, rest[0], rest[8:])


def _part(
    fragments: Fragments, of: bytes, offset: int, more: int, protocol: int, data: bytes
) -> str:
    if offset:
        return fragments.get(of, "fragment")
    kind = _transport(protocol, data)
    if more:
        if len(fragments) >= 1024:
            fragments.clear()
        fragments[of] = kind
    return kind


def _transport(protocol: int, data: bytes) -> str:
    if protocol == socket.IPPROTO_UDP and len(data) >= 8:
        source, target = struct.unpack("!HH", data[:4])
        return _udp(source, target, data[8:])
    if protocol == socket.IPPROTO_TCP and len(data) >= 4:
        ports = struct.unpack("!HH", data[:4])
        return TCP_PORTS.get(ports[1]) or TCP_PORTS.get(ports[0], "tcp")
    if protocol == 58 and data:
        # Neighbour discovery (RFC 4861) and multicast listeners (RFC 2710, RFC 3810).
        if 133 <= data[0] <= 137:
            return "icmpv6-nd"
        return "icmpv6-mld" if data[0] in (130, 131, 132, 143) else "icmpv6"
    named = {1: "icmp", 2: "igmp", 50: "esp", 51: "ah", 132: "sctp"}
    return named.get(protocol, "ip-{}".format(protocol))


def _udp(source: int, target: int, data: bytes) -> str:
    if _is_wireguard(data):
        return "wg"
    if 4500 in (source, target):
        if data[:4] == b"\0\0\0\0":
            return "isakmp" if _is_ike(data[4:]) else "udp"
        # RFC 3948: one byte 0xff is a keepalive.
        return "esp" if len(data) > 8 or data == b"\xff" else "udp"
    if 500 in (source, target) and _is_ike(data):
        return "isakmp"
    return UDP_PORTS.get(target) or UDP_PORTS.get(source, "udp")


def _is_wireguard(data: bytes) -> bool:
    sizes = {b"\1\0\0\0": 148, b"\2\0\0\0": 92, b"\3\0\0\0": 64}
    if data[:4] == b"\4\0\0\0":
        # Padded to 16 bytes only as far as the MTU allows.
        return len(data) >= 32
    return sizes.get(data[:4]) == len(data)


def _is_ike(data: bytes) -> bool:
    """Tell whether this is an IKEv2 message (RFC 7296 section 3.1)."""
    return len(data) >= 28 and data[17] == 0x20 and struct.unpack("!I", data[24:28])[0] == len(data)


def digits(text: str) -> List[bytes]:
    """Return the forms of an identity of decimal digits in packets: text, and two digits a byte.

    Packed digits (TS 24.008 clause 10.5.1.4, TS 29.274 clause 8.3) begin at either half of a byte.
    Fewer than 5 bytes of them are left out: encrypted frames have such bytes by chance.
    """
    forms = [text.encode("ascii")]
    for packed in (text, text[1:]):
        # After an odd number of digits, 1111 fills the last byte.
        packed += "f" if len(packed) % 2 else ""
        swapped = (packed[n + 1] + packed[n] for n in range(0, len(packed), 2))
        forms.append(bytes.fromhex("".join(swapped)))
    return [form for form in forms if len(form) >= 5]


def _set_buffer(sock: socket.socket, size: int) -> None:
    """Set the receive buffer in bytes, beyond net.core.rmem_max if allowed (socket(7))."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, size)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)


class Link:
    """Counts of frames below one link: by direction and kind, and those with an identity."""

    def __init__(self, interface: str, identities: List[str]) -> None:
        # Protocol 0 receives nothing until bind, with any other the frames of all interfaces.
        self.tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        _set_buffer(self.tap, 16 << 20)
        self.tap.bind((interface, ETH_P_ALL))
        self.kinds: Dict[str, Dict[str, int]] = {"sent": {}, "received": {}}
        self.fragments: Tuple[Fragments, Fragments] = ({}, {})
        self.forms = {text: digits(text) for text in identities}
        self.seen = dict.fromkeys(identities, 0)

    def frame(self, frame: bytes, sent: bool) -> None:
        name = kind(frame, self.fragments[sent])
        table = self.kinds["sent" if sent else "received"]
        table[name] = table.get(name, 0) + 1
        for text, forms in self.forms.items():
            if any(form in frame for form in forms):
                self.seen[text] += 1

    def summary(self) -> Dict[str, Any]:
        """Return the counts; `missed` frames came faster than this program could read."""
        missed = struct.unpack("II", self.tap.getsockopt(263, PACKET_STATISTICS, 8))[1]
        return dict(self.kinds, missed=missed, identities=self.seen)


class Frames:
    """Frames of some interfaces. The request has "interfaces", by link, and "identities"."""

    def __init__(self, request: Dict[str, Any]) -> None:
        self.links = {
            link: Link(interface, request["identities"])
            for link, interface in request["interfaces"].items()
        }
        self.taps = {link.tap: link for link in self.links.values()}
        self.listed = list(self.taps)

    def sockets(self) -> List[socket.socket]:
        """Return what to wait for."""
        return self.listed

    def take(self, ready: socket.socket) -> None:
        frame, address = ready.recvfrom(1 << 17)
        self.taps[ready].frame(frame, address[2] == PACKET_OUTGOING)

    def summary(self) -> Dict[str, Any]:
        return {"links": {name: link.summary() for name, link in self.links.items()}}


HEAD = struct.Struct("!4sQdB")
"""Of a datagram: mark, number, time sent in seconds since the epoch, length of its name."""
STREAM, TOKEN = b"VPNs", b"VPNt"


class Stream:
    """What arrived of a stream of numbered datagrams."""

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self.numbers = bytearray(NUMBERS // 8)  # A bit for each number that arrived.
        self.delays = array.array("d")
        self.arrivals = self.received = self.within = 0
        self.gap = 0.0
        self.began = self.gap_began = 0.0
        self.last = (0, 0.0, 0.0)

    def take(self, number: int, sent: float, now: float) -> None:
        """Take a datagram, with a number below NUMBERS."""
        self.arrivals += 1
        if self.arrivals > 1:
            before, sent_before, arrived = self.last
            # The silence, less the sender's own pause. If datagrams between these two were lost,
            # its pauses were shorter than the time between the two.
            pause = max(0.0, sent - sent_before) / max(1, number - before)
            gap = now - arrived - pause
            if gap > self.gap:
                self.gap, self.gap_began = gap, arrived
        else:
            self.began = now
        self.last = (number, sent, now)
        place, bit = number >> 3, 1 << (number & 7)
        if self.numbers[place] & bit:
            return
        self.numbers[place] |= bit
        self.received += 1
        self.within += now - sent <= self.budget
        if len(self.delays) < MOST:
            self.delays.append(now - sent)

    def summary(self) -> Dict[str, Any]:
        """Return counts, the longest run of missing numbers, and delays in ms.

        Times with `-at` are seconds since the epoch.
        """
        # One character for each number, from the last that arrived to the first one.
        bits = bin(int.from_bytes(self.numbers, "little"))[2:]
        span = bits.rstrip("0")
        runs = [run.end() - run.start() for run in re.finditer("0+", span)]
        delays = sorted(self.delays)

        def at(share: float) -> float:
            return round(delays[min(len(delays) - 1, int(share * len(delays)))] * 1000, 3)

        return {
            "received": self.received,
            "arrivals": self.arrivals,
            "first": len(bits) - len(span),
            "last": len(bits) - 1,
            "longest-run-lost": max(runs or [0]),
            "gap-ms": round(self.gap * 1000, 3),
            "began-at": round(self.began, 3),
            "ended-at": round(self.last[2], 3),
            "gap-at": round(self.gap_began, 3),
            "within-budget": self.within,
            "delay-ms": {"min": at(0), "median": at(0.5), "p99": at(0.99), "max": at(1)},
            "delay-ms-within": [[share, at(share / 100)] for share in SHARES],
        }


class Arrivals:
    """What arrives at a port of some addresses: streams and tokens by UDP, connections by TCP.

    The request has "addresses", "port" and "budget" (seconds).
    """

    def __init__(self, request: Dict[str, Any]) -> None:
        self.budget = float(request["budget"])
        self.streams: Dict[str, Stream] = {}
        self.tokens: Set[str] = set()
        self.room = MOST_TEXT
        self.left_out = self.other = self.connections = 0
        self.open: List[socket.socket] = []
        self.listening: List[socket.socket] = []
        self.datagrams: List[socket.socket] = []
        for address in request["addresses"]:
            for kind, table in (
                (socket.SOCK_STREAM, self.listening),
                (socket.SOCK_DGRAM, self.datagrams),
            ):
                sock = socket.socket(family(address), kind)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                _set_buffer(sock, 4 << 20)
                # It can bind while the tunnel's address is missing (ip(7)).
                sock.setsockopt(socket.SOL_IP, IP_FREEBIND, 1)
                sock.bind((address, request["port"]))
                if kind == socket.SOCK_STREAM:
                    sock.listen(128)
                table.append(sock)

    def sockets(self) -> List[socket.socket]:
        return self.listening + self.datagrams + self.open

    def take(self, ready: socket.socket) -> None:
        """Accept a connection, read from one, or count a datagram."""
        if ready in self.listening:
            self.connections += 1
            self.open.append(ready.accept()[0])
            while len(self.open) > CONNECTIONS:
                self.open.pop(0).close()
        elif ready in self.datagrams:
            self.datagram(ready.recv(65535), time.time())
        elif not ready.recv(65535):
            self.open.remove(ready)
            ready.close()

    def datagram(self, data: bytes, now: float) -> None:
        """Count a datagram; one that belongs to no experiment counts as other."""
        if len(data) < HEAD.size:
            self.other += 1
            return
        mark, number, sent, size = HEAD.unpack(data[: HEAD.size])
        raw = data[HEAD.size : HEAD.size + size]
        # Anybody may send here: such a name, number or time would spoil the summary.
        real = NAME.fullmatch(raw) and number < NUMBERS and 0 <= sent < LATEST
        name = raw.decode("ascii", "replace")
        if mark == STREAM and real and (name in self.streams or len(self.streams) < 16):
            if name not in self.streams:
                self.streams[name] = Stream(self.budget)
            self.streams[name].take(number, sent, now)
        elif mark == TOKEN and real:
            self.token(name)
        else:
            self.other += 1

    def token(self, name: str) -> None:
        """Keep a token, if there is room for it."""
        size = len(json.dumps(name)) + 1
        if name in self.tokens:
            return
        if len(self.tokens) >= MOST_NAMES or size > self.room:
            self.left_out += 1
            return
        self.room -= size
        self.tokens.add(name)

    def summary(self) -> Dict[str, Any]:
        return {
            "streams": {name: stream.summary() for name, stream in self.streams.items()},
            "tokens": sorted(self.tokens),
            "tokens-left-out": self.left_out,
            "other-datagrams": self.other,
            "connections": self.connections,
        }


WATCHES: Dict[str, Any] = {"frames": Frames, "arrivals": Arrivals}


def main(path: str) -> None:
    with open(path) as stream:
        request = json.load(stream)
    watch = WATCHES[request["watch"]](request)
    ending: List[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ending.append(number))
    ready()
    end = time.monotonic() + request["seconds"]
    while not ending and time.monotonic() < end:
        with selectors.DefaultSelector() as selector:
            watched = watch.sockets()
            for sock in watched:
                selector.register(sock, selectors.EVENT_READ)
            # Make a new selector only when the set of sockets changes, which is rare.
            while not ending and time.monotonic() < end and watch.sockets() == watched:
                for key, _ in selector.select(0.2):
                    try:
                        watch.take(key.fileobj)
                    except OSError:
                        # A connection was reset, or the interface went down for a while.
                        forget(watch, key.fileobj)
    put(request["result"], json.dumps(watch.summary()))


def forget(watch: Any, sock: Any) -> None:
    """Drop a connection that broke."""
    if sock in getattr(watch, "open", ()):
        watch.open.remove(sock)
        sock.close()


if __name__ == "__main__":
    main(sys.argv[1])
