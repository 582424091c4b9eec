"""A closed loop of UDP frames: a fixed number is in flight, at the rate that the path allows.

The sender uses sendmmsg(2) on a packet socket; a thousand calls of 32 frames take 2 to 4 ms of
Python. The packet counter of the last device shows the arrivals, so no program has to receive: the
kernel there drops the frames. All counts are packets as they arrive: a frame too large for a tunnel
counts as its fragments.
"""

import ctypes
import itertools
import math
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.loads import HEADERS, Load, fragments, header
from testbed.netns import inside

BATCH = 32
STALL = 0.5  # Seconds without any arrival after which the packets in flight count as lost.
#: How often a measurement in which the sender never ran is repeated.
STARVED = 5
_PAUSE = 50e-6
_SO_SNDBUFFORCE = 32
_libc = ctypes.CDLL(None, use_errno=True)


class _Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


class _Msghdr(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_void_p),
        ("namelen", ctypes.c_uint32),
        ("iov", ctypes.POINTER(_Iovec)),
        ("iovlen", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("controllen", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    ]


class _Mmsghdr(ctypes.Structure):
    _fields_ = [("hdr", _Msghdr), ("len", ctypes.c_uint)]


class Arrivals:
    """The counter of packets that a device has received."""

    def __init__(self, namespace: str, device: str) -> None:
        # An open file keeps showing the namespace in which it was opened.
        self._file = inside(namespace, lambda: os.open("/proc/thread-self/net/dev", os.O_RDONLY))
        self._mark = f"{device}:".encode()

    def read(self) -> int:
        text = os.pread(self._file, 65536, 0)
        return int(text[text.index(self._mark) + len(self._mark) :].split(None, 2)[1])

    def close(self) -> None:
        os.close(self._file)


@dataclass(frozen=True)
class End:
    """One end of a path: it sends its own frames, and the other end's frames arrive there."""

    namespace: str  # Network namespace.
    device: str  # Its only network device.
    mac: bytes  # MAC address of the device.
    router: bytes  # MAC address of the router at the other end of the wire.
    addresses: Sequence[str]  # Address of each tunnel; one for all at the core.


class Sender:
    """Frames of a load in one direction, prepared for repeated sending."""

    def __init__(self, load: Load, near: End, far: End, mtu: int) -> None:
        mix = load.sizes()
        tunnels = max(len(near.addresses), len(far.addresses))
        # A multiple of both, so that each pass has all sizes and all tunnels.
        count = math.lcm(len(mix), tunnels)
        count *= math.ceil(4 * BATCH / count)
        self._payload = ctypes.create_string_buffer(load.largest)
        self._keep: list[Any] = []
        self._frames = (_Mmsghdr * count)()
        for number in range(count):
            size = mix[number % len(mix)]
            source = near.addresses[number % len(near.addresses)]
            target = far.addresses[number % len(far.addresses)]
            port = 1024 + number % tunnels
            text = header((near.router, near.mac), source, target, size, port)
            head = ctypes.create_string_buffer(text, HEADERS)
            parts = (_Iovec * 2)(
                _Iovec(ctypes.addressof(head), HEADERS),
                _Iovec(ctypes.addressof(self._payload), size - HEADERS),
            )
            self._keep += [head, parts]
            self._frames[number].hdr.iov = parts
            self._frames[number].hdr.iovlen = 2
        parts_of = [fragments(mix[number % len(mix)], mtu) for number in range(count)]
        self._before = [0, *itertools.accumulate(parts_of)]
        self._count, self._next = count, 0
        self._socket = inside(near.namespace, lambda: _packet_socket(near.device))
        self._size = ctypes.sizeof(_Mmsghdr)

    def send(self, count: int) -> int:
        """Send up to `count` frames; return the number of packets that must arrive."""
        count = min(count, self._count - self._next)
        at = ctypes.byref(self._frames, self._next * self._size)
        done = _libc.sendmmsg(self._socket.fileno(), at, count, socket.MSG_DONTWAIT)
        if done < 0:
            number = ctypes.get_errno()
            if number in (11, 105):  # EAGAIN, ENOBUFS: the wire is full
                return 0
            raise OSError(number, os.strerror(number))
        last = self._next + int(done)
        packets = self._before[last] - self._before[self._next]
        self._next = last % self._count
        return packets

    def close(self) -> None:
        self._socket.close()


def _packet_socket(device: str) -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    made.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, 16 << 20)
    made.bind((device, 0))
    return made


@dataclass(frozen=True)
class Outcome:
    """The result of a load."""

    loss: float  # Share of lost packets among all sent ones, with those of the warm-up.
    arrived: int  # Packets that arrived during the measurement.
    frames: float  # The number of frames in them; fewer than packets if there are fragments.
    seconds: float  # Duration of the measurement.
    spent: float  # Processor time that passed meanwhile, in seconds.
    window: int  # Maximum number of packets in flight.


class Loop:
    """A load through a path between two ends."""

    def __init__(self, load: Load, field: End, core: End, mtu: int) -> None:
        self.load = load
        mix = load.sizes()
        self._packets = sum(fragments(size, mtu) for size in mix) / len(mix)
        self._down = Sender(load, core, field, mtu) if load.down else None
        self._up = Sender(load, field, core, mtu) if load.down < 1 else None
        self._sinks = [Arrivals(end.namespace, end.device) for end in (field, core)]

    def arrived(self) -> int:
        return sum(sink.read() for sink in self._sinks)

    def close(self) -> None:
        for part in (self._down, self._up, *self._sinks):
            if part is not None:
                part.close()

    def run(self, window: int, warm: float, seconds: float, spent: Callable[[], float]) -> Outcome:
        """Keep `window` packets in flight; measure for `seconds` after `warm` seconds."""
        start = self.arrived()
        sent = {"down": 0, "up": 0}
        given_up = 0
        measuring: tuple[float, int, float] | None = None
        begin = moved = time.monotonic()
        last = start
        least = min(BATCH, max(1, window // 2))
        while True:
            now = time.monotonic()
            if measuring is None and now >= begin + warm:
                measuring = (now, self.arrived(), spent())
            if measuring is not None and now >= measuring[0] + seconds:
                break
            count = self.arrived()
            total = sent["down"] + sent["up"]
            if count != last:
                last, moved = count, now
            elif now - moved > STALL:
                given_up, moved = total - (count - start), now
            free = window - (total - given_up - (count - start))
            if free < least:
                time.sleep(_PAUSE)
                continue
            self._send(min(free, BATCH), sent)
        cost, took = spent() - measuring[2], time.monotonic() - measuring[0]
        arrived = self.arrived() - measuring[1]
        total = sent["down"] + sent["up"]
        loss = self._drain(start, total) / total if total else 1.0
        return Outcome(loss, arrived, arrived / self._packets, took, cost, window)

    def _send(self, count: int, sent: dict[str, int]) -> None:
        total = sent["down"] + sent["up"] + count
        down = min(count, max(0, round(total * self.load.down) - sent["down"]))
        if self._down is not None and down:
            sent["down"] += self._down.send(down)
        if self._up is not None and count > down:
            sent["up"] += self._up.send(count - down)

    def _drain(self, start: int, sent: int) -> int:
        """Wait for packets in flight; return the number of lost ones."""
        last, moved = -1, time.monotonic()
        while time.monotonic() - moved < STALL:
            count = self.arrived() - start
            if count >= sent:
                return 0
            if count != last:
                last, moved = count, time.monotonic()
            time.sleep(0.002)
        return sent - last


def find(
    loop: Loop, window: int, warm: float, seconds: float, spent: Callable[[], float], limit: float
) -> Outcome:
    """Measure with the largest window that loses less than `limit`: `window`, its half and so on.

    The search ends at a window of 16 packets; then the result may have a higher loss. Where nothing
    arrived and nothing was lost, this process had no processor: that is measured again.
    """
    starved = 0
    while True:
        outcome = loop.run(window, warm, seconds, spent)
        if outcome.arrived == 0 and outcome.loss < limit and starved < STARVED:
            starved += 1
            continue
        if outcome.loss < limit or window <= 16:
            return outcome
        window //= 2
