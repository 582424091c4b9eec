#!/usr/bin/python3
"""Keep the addresses and routes of a link in clear.

A tunnel's routes lead into its own interface, which stays when the underlay goes down and up.
Routes in clear lead over the underlay itself. The kernel deletes them when it goes down, and a
network manager may delete routes that it did not make. So one process per link waits for the
kernel's messages about such changes (rtnetlink(7)), and applies the link's `ip -batch` file again.

Usage: hold FILE
FILE is for `ip -batch`. It sets our address, a host prefix. This causes a message each
time, even if nothing changes. So a new host prefix does not count: else the programs of two links
would wake each other for ever.
"""

import os
import select
import socket
import struct
import subprocess
import sys
import time
from typing import Optional

GROUPS = 0x1 | 0x10 | 0x40 | 0x100 | 0x400  # link; addresses and routes of IPv4 and IPv6
NEWLINK, NEWADDR, DELADDR, DELROUTE = 16, 20, 21, 25
SETTLE, PAUSE = 0.05, 0.5  # seconds: from a message to acting on it, and between two acts
HEADER = struct.Struct("=IHHII")


def is_host(message: bytes) -> bool:
    """Tell whether the address of a message (struct ifaddrmsg) is a host prefix."""
    family, length = message[HEADER.size : HEADER.size + 2]
    return length == (32 if family == socket.AF_INET else 128)


def matters(data: bytes) -> bool:
    """Tell whether messages say that something came up or went away."""
    while len(data) >= HEADER.size:
        length, kind = HEADER.unpack_from(data)[:2]
        if length < HEADER.size:
            return False
        if kind in (NEWLINK, DELADDR, DELROUTE) or (kind == NEWADDR and not is_host(data)):
            return True
        data = data[(length + 3) & ~3 :]
    return False


def apply(file: str, force: bool) -> int:
    """Put the file into force; return the exit code of ip(8)."""
    command = ["ip"] + ["-force"] * force + ["-batch", file]
    # What fails now, for example while the underlay is down, is tried again at the next message.
    quiet = subprocess.DEVNULL if force else None
    return subprocess.run(command, stderr=quiet, check=False).returncode


def ready() -> None:
    """Tell systemd that the addresses are there (sd_notify(3))."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if path:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.connect("\0" + path[1:] if path.startswith("@") else path)
            notify.send(b"READY=1")


def main(file: str) -> int:
    """Apply the file again and again, for ever; return an exit code if the first time fails."""
    messages = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    messages.bind((0, GROUPS))
    failed = apply(file, force=False)
    if failed:
        return failed
    ready()
    due: Optional[float] = None
    last = 0.0
    while True:
        wait = None if due is None else max(0.0, due - time.monotonic())
        if select.select([messages], [], [], wait)[0]:
            try:
                changed = matters(messages.recv(65536))
            except OSError:
                changed = True  # messages were lost, as the buffer was full: apply anyway
            if changed and due is None:
                due = max(time.monotonic() + SETTLE, last + PAUSE)
        elif due is not None:
            due, last = None, time.monotonic()
            apply(file, force=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
