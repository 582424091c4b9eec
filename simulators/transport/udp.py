"""Requests and responses over UDP with repetition, for GTPv2-C and PFCP.

A request is repeated until its response comes (T3-RESPONSE/N3-REQUESTS of TS 29.274 section 7.6,
T1/N1 of TS 29.244 section 6.4). A repeated request gets the same response again.
"""

import asyncio
import itertools
import logging
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from simulators.errors import EpcError, PeerTimeoutError, ProtocolError
from simulators.transport.tlv import Codec, Message

log = logging.getLogger("udp")

#: Seconds between repetitions, and the maximum number of transmissions.
REPEAT, TIMES = 1.0, 4
_REMEMBERED = 4096  # responses that are kept for repeated requests

Address = tuple[str, int]
Handler = Callable[[Message, Address], Awaitable[Message | None]]


class Endpoint(asyncio.DatagramProtocol):
    """A UDP socket for requests and responses."""

    def __init__(self, codec: Codec, handler: Handler) -> None:
        """Pass requests to ``handler``; its return value is the response."""
        self.codec = codec
        self.handler = handler
        self._transport: asyncio.DatagramTransport | None = None
        # Random start: a peer may still remember requests of an earlier process.
        self._sequence = itertools.count(int.from_bytes(os.urandom(3), "big"))
        self._waiting: dict[tuple[Address, int], asyncio.Future[Message]] = {}
        self._answered: OrderedDict[tuple[Address, bytes], bytes | None] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, address: str, port: int) -> int:
        """Open the socket; return its port."""
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: self, (address, port))
        return int(transport.get_extra_info("sockname")[1])

    def stop(self) -> None:
        if self._transport is not None:
            self._transport.close()
        for task in self._tasks:
            task.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def error_received(self, error: Exception) -> None:
        """Ignore an ICMP error: the request is repeated anyway."""

    def datagram_received(self, data: bytes, peer: Address) -> None:
        """Decode a message; answer a request, or finish the request of a response."""
        try:
            message = self.codec.decode(data)
        except ProtocolError as error:
            log.warning("from %s: %s", peer[0], error)
            return
        if not self.codec.is_request(message.type):
            waiting = self._waiting.get((peer, message.sequence))
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
            return
        # A repetition has the same octets. A restarted peer may use sequence numbers again.
        key = (peer, data)
        if key in self._answered:
            octets = self._answered[key]
            if octets is not None and self._transport is not None:
                self._transport.sendto(octets, peer)
            return
        self._answered[key] = None  # no response yet, but a repetition is no new request
        while len(self._answered) > _REMEMBERED:
            self._answered.popitem(last=False)
        task = asyncio.create_task(self._answer(message, peer, key))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, message: Message, peer: Address, key: tuple[Address, bytes]) -> None:
        try:
            response = await self.handler(message, peer)
        except EpcError as error:
            log.error("message type %d from %s: %s", message.type, peer[0], error)
            response = None
        if response is None or self._transport is None:
            self._answered.pop(key, None)
            return
        octets = self.codec.encode(
            Message(response.type, response.endpoint, response.ies, message.sequence)
        )
        self._answered[key] = octets
        self._transport.sendto(octets, peer)

    async def request(self, peer: Address, message: Message) -> Message:
        """Send a request and wait for its response.

        Raises:
            PeerTimeoutError: no response to any repetition.
        """
        if self._transport is None or self._transport.is_closing():
            raise EpcError("The socket is closed.")
        sequence = next(self._sequence) & 0x7FFFFF
        octets = self.codec.encode(Message(message.type, message.endpoint, message.ies, sequence))
        waiting: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[peer, sequence] = waiting
        try:
            for _ in range(TIMES):
                self._transport.sendto(octets, peer)
                done, _ = await asyncio.wait([waiting], timeout=REPEAT)
                if done:
                    return waiting.result()
        finally:
            del self._waiting[peer, sequence]
        raise PeerTimeoutError(f"{peer[0]}:{peer[1]} did not answer in {REPEAT * TIMES:g} s.")
