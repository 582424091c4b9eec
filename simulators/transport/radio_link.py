"""Replacement of the radio: frames over TCP between UEs and an eNB.

The images' radio simulator exchanges samples over a TCP connection to port 4043 of the eNB. Here
the same connection carries frames with NAS messages and packets of any number of UEs.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import Protocol

PORT = 4043  # The radio simulator's port.

# Kinds of frames.
CELL, NAS, PACKET, BEARER, RELEASE = 1, 2, 3, 4, 5

_header = struct.Struct("!HBI")  # length of the content, kind, number of the UE on the connection
_HEADER = _header.size
_FULL = 1 << 20  # Send buffer size in octets above which packets are dropped, as from a full queue.

Received = Callable[["Link", int, int, bytes], None]


class Channel(Protocol):
    """A connection for frames between a base station and UEs."""

    full: bool  # whether the send buffer is full; then senders drop packets.
    on_room: set[Callable[[], None]]  # functions to call when there is room again.

    def send(self, kind: int, ue: int, content: bytes = b"") -> None:
        """Send a frame that is not a packet."""

    def send_packets(self, packets: list[tuple[int, bytes]]) -> None:
        """Send packets, each with its number."""

    def close(self) -> None:
        """Close the connection."""


class Link(asyncio.Protocol):
    """One end of the connection."""

    def __init__(self, received: Received, lost: "Callable[[Link], None]") -> None:
        """Call ``received`` with kind, UE and content of each frame."""
        self._received = received
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self.full = False
        self.on_room: set[Callable[[], None]] = set()
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        self._transport = transport
        transport.set_write_buffer_limits(high=_FULL)

    def connection_lost(self, reason: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
        self._lost(self)

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        """Note that there is room again, and tell those who wait."""
        self.full = False
        for call in list(self.on_room):
            call()

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        at, size, unpack, received = 0, len(buffer), _header.unpack_from, self._received
        while at + _HEADER <= size:
            length, kind, ue = unpack(buffer, at)
            end = at + _HEADER + length
            if end > size:
                break
            received(self, kind, ue, buffer[at + _HEADER : end])
            at = end
        self._buffer = buffer[at:]

    def send(self, kind: int, ue: int, content: bytes = b"") -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(_header.pack(len(content), kind, ue) + content)

    def send_packets(self, packets: list[tuple[int, bytes]]) -> None:
        """Send packets, each with its number."""
        if self._transport is not None and not self._transport.is_closing():
            pack = _header.pack
            self._transport.write(b"".join(pack(len(p), PACKET, n) + p for n, p in packets))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def numbered(ue: int, session: int) -> int:
    """Return the number of packets of a UE's PDU session, for UEs with several sessions."""
    return session << 16 | ue
