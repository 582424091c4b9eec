"""Messages of the kernel about what changes (netlink(7)), for programs of the VDU."""

import socket
import struct
from typing import Iterator, Tuple

HEADER = struct.Struct("=IHHII")
"""Length, kind, flags, sequence number and port of a message."""
NEWLINK, DELROUTE, DELRULE = 16, 25, 33
ROUTES, RULES = 0x1 | 0x40 | 0x400, 0x80 | 0x40000
"""Groups of rtnetlink(7): links and routes, and rules, of IPv4 and IPv6."""


def listen(protocol: int, groups: int) -> socket.socket:
    """Return a socket that gets the messages of groups."""
    messages = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
    messages.bind((0, groups))
    return messages


def messages(data: bytes) -> Iterator[Tuple[int, bytes]]:
    """Yield kind and body of each message."""
    while len(data) >= HEADER.size:
        length, kind = HEADER.unpack_from(data)[:2]
        if length < HEADER.size:
            return
        yield kind, data[HEADER.size : length]
        data = data[(length + 3) & ~3 :]
