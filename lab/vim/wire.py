"""A long wire between two network namespaces: constant delay, limited rate, bounded queue.

It runs by path and imports nothing of the lab: ``wire.py CONFIG``. Each end is a TUN device. A
packet read from one end is written to the other after the delay. Packets keep their offload headers
(virtio-net), so that a burst of TCP or UDP segments is one read and one write: 200 Mbit/s cost a
few percent of a processor. It replaces netem and a shaper, which some kernels lack.

CONFIG is JSON: ``cgroup`` (a group to join), ``ready`` (a file to make when the wire works),
``rate_mbit`` (0: no limit), ``delay_ms`` (one way), ``queue_ms`` (a packet that would wait longer
is dropped), and ``ends``, two of ``netns`` (path), ``device`` and ``commands`` (for ``ip -batch``).
"""

import collections
import contextlib
import ctypes
import fcntl
import json
import os
import select
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# linux/if_tun.h and linux/sched.h
TUNSETIFF, TUNSETOFFLOAD, TUNSETVNETHDRSZ = 0x400454CA, 0x400454D0, 0x400454D8
IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
F_CSUM, F_TSO4, F_TSO6, F_USO4, F_USO6 = 0x01, 0x02, 0x04, 0x20, 0x40
CLONE_NEWNET = 0x40000000
HEADER = 10  # struct virtio_net_hdr
FRAME = 65_535 + HEADER
BATCH = 64

_libc = ctypes.CDLL(None, use_errno=True)


def enter(netns: str) -> None:
    """Move this process into a named network namespace."""
    handle = os.open(netns, os.O_RDONLY)
    try:
        if _libc.setns(handle, CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, f"setns {netns}: {os.strerror(number)}")
    finally:
        os.close(handle)


def open_tun(device: str) -> int:
    """Make a TUN device in the present namespace; it ends with the file descriptor."""
    handle = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    request = struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI | IFF_VNET_HDR)
    fcntl.ioctl(handle, TUNSETIFF, request)
    fcntl.ioctl(handle, TUNSETVNETHDRSZ, struct.pack("i", HEADER))
    offloads = F_CSUM | F_TSO4 | F_TSO6
    try:
        fcntl.ioctl(handle, TUNSETOFFLOAD, offloads | F_USO4 | F_USO6)
    except OSError:  # UDP segmentation came with Linux 6.2
        fcntl.ioctl(handle, TUNSETOFFLOAD, offloads)
    return handle


def size_on_wire(frame: bytes) -> int:
    """Bytes of IP in the frame's segments: the headers of a burst count once per segment."""
    _, kind, header_length, segment = struct.unpack_from("=BBHH", frame)
    size = len(frame) - HEADER
    if kind and segment and size > header_length:
        segments = -(-(size - header_length) // segment)
        size += (segments - 1) * header_length
    return size


class Direction:
    """One way of the wire."""

    def __init__(self, source: int, target: int, rate: float, delay: float, limit: float) -> None:
        """``rate`` is in bytes a second (0: none), ``delay`` and ``limit`` in seconds."""
        self.source, self.target = source, target
        self.rate, self.delay, self.limit = rate, delay, limit
        self.free = 0.0
        self.waiting: collections.deque[tuple[float, bytes]] = collections.deque()

    def take(self) -> None:
        """Read the waiting packets and set each packet's time of arrival."""
        for _ in range(BATCH):
            try:
                frame = os.read(self.source, FRAME)
            except BlockingIOError:
                return
            now = time.monotonic()
            start = max(now, self.free)
            if start - now > self.limit:
                continue
            self.free = start + (size_on_wire(frame) / self.rate if self.rate else 0.0)
            self.waiting.append((self.free + self.delay, frame))

    def give(self, now: float) -> None:
        """Write the packets that have arrived by now."""
        while self.waiting and self.waiting[0][0] <= now:
            with contextlib.suppress(OSError):  # down, or full: lost, as on any wire
                os.write(self.target, self.waiting[0][1])
            self.waiting.popleft()


def run(directions: list[Direction]) -> None:
    """Carry packets until the process is ended."""
    by_source = {d.source: d for d in directions}
    while True:
        due = [d.waiting[0][0] for d in directions if d.waiting]
        timeout = max(0.0, min(due) - time.monotonic()) if due else None
        readable, _, _ = select.select(list(by_source), [], [], timeout)
        for source in readable:
            by_source[source].take()
        now = time.monotonic()
        for direction in directions:
            direction.give(now)


def main() -> None:
    """Read the configuration, make both ends, and carry packets."""
    config: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    Path(config["cgroup"], "cgroup.procs").write_text("0", encoding="ascii")
    handles = []
    for end in config["ends"]:
        enter(end["netns"])
        handles.append(open_tun(end["device"]))
        commands = "\n".join(end["commands"]) + "\n"
        subprocess.run(["ip", "-batch", "-"], input=commands, text=True, check=True)
    rate, delay = config["rate_mbit"] * 125_000, config["delay_ms"] / 1000
    limit = config["queue_ms"] / 1000
    one, other = handles
    Path(config["ready"]).write_text("ready\n", encoding="ascii")
    run([Direction(one, other, rate, delay, limit), Direction(other, one, rate, delay, limit)])


if __name__ == "__main__":
    main()
