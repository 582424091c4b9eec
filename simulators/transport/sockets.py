"""Sockets of user planes."""

import socket

_BUFFER = 4 << 20  # octets, enough for a burst of packets


def bound(
    address: str, port: int, kind: int = socket.SOCK_DGRAM, protocol: int = 0
) -> socket.socket:
    """Return a non-blocking socket at an IPv4 address, with large buffers.

    Raises:
        OSError: the port is in use, or the address is not local.
    """
    made = socket.socket(socket.AF_INET, kind, protocol)
    made.setblocking(False)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        made.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
    made.bind((address, port))
    return made
