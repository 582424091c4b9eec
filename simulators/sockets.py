"""Sockets of user planes."""

from __future__ import annotations

import socket

_BUFFER = 4 << 20  # octets, so that a burst of packets is not lost


def bound(
    address: str, port: int, kind: int = socket.SOCK_DGRAM, protocol: int = 0
) -> socket.socket:
    """A socket at an IPv4 address, with large buffers, that does not block.

    Raises:
        OSError: somebody else has the port, or the address is not ours.
    """
    made = socket.socket(socket.AF_INET, kind, protocol)
    made.setblocking(False)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        made.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
    made.bind((address, port))
    return made
