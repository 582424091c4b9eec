"""A Diameter peer over TCP (RFC 6733): capabilities, watchdog, requests and answers.

The messages are python-diameter's. Its own node uses threads. Here everything runs in one asyncio
loop, so that the response times that the MME measures include no thread switches.
"""

import asyncio
import itertools
import logging
import os
import struct
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from diameter.message import Message, constants, packer
from diameter.message.avp import AvpDecodeError
from diameter.message.avp.grouped import VendorSpecificApplicationId
from diameter.message.commands import (
    CapabilitiesExchangeAnswer,
    CapabilitiesExchangeRequest,
    DeviceWatchdogAnswer,
    DeviceWatchdogRequest,
    DisconnectPeerAnswer,
    DisconnectPeerRequest,
)

from simulators.errors import EpcError, PeerTimeoutError, ProtocolError

S6A = constants.APP_3GPP_S6A_S6D
TGPP = constants.VENDOR_TGPP
SUCCESS = constants.E_RESULT_CODE_DIAMETER_SUCCESS
UNKNOWN_PEER = constants.E_RESULT_CODE_DIAMETER_UNKNOWN_PEER
NO_COMMON_APPLICATION = constants.E_RESULT_CODE_DIAMETER_NO_COMMON_APPLICATION
COMMAND_UNSUPPORTED = constants.E_RESULT_CODE_DIAMETER_COMMAND_UNSUPPORTED
UNABLE_TO_COMPLY = constants.E_RESULT_CODE_DIAMETER_UNABLE_TO_COMPLY
INVALID_AVP_VALUE = constants.E_RESULT_CODE_DIAMETER_INVALID_AVP_VALUE

#: Seconds of silence after which a watchdog request is sent (RFC 3539 section 3.4.1).
WATCHDOG = 30.0
#: Seconds between attempts to reach a peer (Tc of RFC 6733 section 2.1; its default is 30).
RECONNECT = 2.0
ANSWER = 10.0  # Seconds to wait for the answer to a request.

_HEADER = 20
_LONGEST = 1 << 16  # maximum octets of a message; S6a's are a hundred times smaller

_UNDECODABLE = (
    *(AvpDecodeError, packer.Error),
    *(ValueError, struct.error, LookupError, AttributeError, TypeError),
)

log = logging.getLogger("diameter")

Handler = Callable[[Message, "Connection"], Awaitable[Message]]


@dataclass(frozen=True)
class Identity:
    """The data of a node in CER and CEA."""

    host: str
    realm: str
    address: str
    product: str = "simulator"

    def describe(self, message: Any) -> None:
        """Fill a capabilities exchange message with this node's and S6a's identity."""
        message.origin_host = self.host.encode()
        message.origin_realm = self.realm.encode()
        message.host_ip_address = [self.address]
        message.vendor_id = TGPP
        message.product_name = self.product
        message.supported_vendor_id = [TGPP]
        message.vendor_specific_application_id = [s6a_application()]


def s6a_application() -> VendorSpecificApplicationId:
    return VendorSpecificApplicationId(vendor_id=TGPP, auth_application_id=S6A)


def _names_s6a(message: Any) -> bool:
    ids = [a.auth_application_id for a in message.vendor_specific_application_id]
    ids += message.auth_application_id
    return S6A in ids or constants.APP_RELAY in ids


def error_answer(request: Message, identity: Identity, code: int) -> Message:
    """Return an answer with only a result code (RFC 6733 section 7.2)."""
    answer: Any = request.to_answer()
    answer.origin_host = identity.host.encode()
    answer.origin_realm = identity.realm.encode()
    answer.result_code = code
    if hasattr(request, "session_id"):
        answer.session_id = request.session_id
    answer.header.is_error = 3000 <= code < 4000
    return answer


class Connection(asyncio.Protocol):
    """One transport connection to a peer.

    Attributes:
        peer: the peer's DiameterIdentity, empty before the capabilities exchange.
        opened: done when the connection is open; it has the error if opening failed.
        closed: done when the transport is closed.
    """

    def __init__(
        self, identity: Identity, handler: Handler, accept: Callable[[str, str], bool], active: bool
    ) -> None:
        """Create the ``active`` (sends CER) or passive end; ``accept`` checks host and realm."""
        loop = asyncio.get_running_loop()
        self.identity = identity
        self.handler = handler
        self.accept = accept
        self.active = active
        self.peer = ""
        self.opened: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._hop = itertools.count(int.from_bytes(os.urandom(4), "big"))
        self._end = itertools.count(int(time.time()) << 20 & 0xFFF00000)
        self._heard = time.monotonic()
        self._watchdog: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # -- transport ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send CER, if this end is the active one; the other end waits for it."""
        self._transport = transport  # type: ignore[assignment]
        first = self._exchange() if self.active else self._expect()
        self._watchdog = asyncio.create_task(first)

    def connection_lost(self, reason: Exception | None) -> None:
        error = EpcError(f"The Diameter connection to {self.peer or 'the peer'} was closed.")
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)
        self._waiting.clear()
        if not self.opened.done():
            self.opened.set_exception(error)
            self.opened.exception()  # the caller may have stopped waiting
        if self._watchdog is not None:
            self._watchdog.cancel()
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._heard = time.monotonic()
        self._buffer += data
        while len(self._buffer) >= _HEADER:
            version, length = self._buffer[0], int.from_bytes(self._buffer[1:4], "big")
            if version != 1 or not _HEADER <= length <= _LONGEST or length % 4:
                log.error("not Diameter from %s: closing", self.peer or "a peer")
                self.close()
                return
            if len(self._buffer) < length:
                return
            octets = bytes(self._buffer[:length])
            del self._buffer[:length]
            try:
                message = Message.from_bytes(octets)
            except _UNDECODABLE as error:
                log.error("undecodable Diameter message from %s: %s", self.peer, error)
                self.close()
                return
            self._received(message)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def send(self, message: Message) -> None:
        if self._transport is None or self._transport.is_closing():
            raise EpcError(f"There is no Diameter connection to {self.peer or 'the peer'}.")
        self._transport.write(message.as_bytes())

    # -- requests and answers ---------------------------------------------------------------------

    async def request(self, message: Message, timeout: float = ANSWER) -> Message:
        """Send a request and wait for its answer.

        Raises:
            PeerTimeoutError: no answer in ``timeout`` seconds.
        """
        number = next(self._hop) & 0xFFFFFFFF
        message.header.hop_by_hop_identifier = number
        message.header.end_to_end_identifier = next(self._end) & 0xFFFFFFFF
        waiting: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            self.send(message)
            return await asyncio.wait_for(waiting, timeout)
        except TimeoutError:
            raise PeerTimeoutError(
                f"{self.peer or 'The peer'} did not answer {message.name} in {timeout:g} s."
            ) from None
        finally:
            self._waiting.pop(number, None)

    def _received(self, message: Message) -> None:
        if not message.header.is_request:
            waiting = self._waiting.get(message.header.hop_by_hop_identifier)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
            return
        if isinstance(message, CapabilitiesExchangeRequest):
            self._capabilities(message)
        elif not self.peer:
            log.error("%s before capabilities were exchanged: closing", message.name)
            self.close()
        elif isinstance(message, DeviceWatchdogRequest | DisconnectPeerRequest):
            answer = message.to_answer()
            assert isinstance(answer, DeviceWatchdogAnswer | DisconnectPeerAnswer)  # noqa: S101
            answer.origin_host = self.identity.host.encode()
            answer.origin_realm = self.identity.realm.encode()
            answer.result_code = SUCCESS
            self.send(answer)
            if isinstance(message, DisconnectPeerRequest):
                self.close()
        else:
            task = asyncio.create_task(self._handle(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _handle(self, message: Message) -> None:
        try:
            answer = await self.handler(message, self)
        except ProtocolError as error:
            log.error("%s from %s: %s", message.name, self.peer, error)
            answer = error_answer(message, self.identity, INVALID_AVP_VALUE)
        except EpcError as error:
            log.error("%s from %s: %s", message.name, self.peer, error)
            answer = error_answer(message, self.identity, UNABLE_TO_COMPLY)
        try:
            self.send(answer)
        except EpcError:
            log.warning("the answer to %s was not sent: the peer is gone", message.name)

    # -- peer state machine (RFC 6733 section 5.6) -------------------------------------------------

    def _capabilities(self, request: CapabilitiesExchangeRequest) -> None:
        answer = request.to_answer()
        assert isinstance(answer, CapabilitiesExchangeAnswer)  # noqa: S101
        self.identity.describe(answer)
        host = (request.origin_host or b"").decode(errors="replace")
        realm = (request.origin_realm or b"").decode(errors="replace")
        if not self.accept(host, realm):
            answer.result_code = UNKNOWN_PEER
        elif not _names_s6a(request):
            answer.result_code = NO_COMMON_APPLICATION
        else:
            answer.result_code = SUCCESS
        answer.header.is_error = answer.result_code == UNKNOWN_PEER
        self.send(answer)
        if answer.result_code != SUCCESS:
            log.error("refused peer '%s' of realm '%s' (%d)", host, realm, answer.result_code)
            self.close()
            return
        self._open(host)

    async def _expect(self) -> None:
        """Close the connection if no CER comes."""
        await asyncio.wait([self.opened], timeout=ANSWER)
        if not self.opened.done():
            log.error("a peer sent no CER in %g s: closing", ANSWER)
            self.close()

    async def _exchange(self) -> None:
        request = CapabilitiesExchangeRequest()
        self.identity.describe(request)
        try:
            answer: Any = await self.request(request)
        except EpcError as error:
            self._fail(error)
            return
        host = (answer.origin_host or b"").decode(errors="replace")
        realm = (answer.origin_realm or b"").decode(errors="replace")
        if answer.result_code != SUCCESS:
            self._fail(EpcError(f"'{host}' refused us with result code {answer.result_code}."))
        elif not self.accept(host, realm):
            self._fail(EpcError(f"The peer calls itself '{host}', which is not configured."))
        else:
            self._open(host)

    def _fail(self, error: EpcError) -> None:
        if not self.opened.done():
            self.opened.set_exception(error)
            self.opened.exception()
        self.close()

    def _open(self, host: str) -> None:
        self.peer = host
        if not self.opened.done():
            self.opened.set_result(None)
        log.info("'STATE_OPEN' with peer '%s'", host)
        self._watchdog = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            quiet = time.monotonic() - self._heard
            if quiet < WATCHDOG:
                await asyncio.sleep(WATCHDOG - quiet)
                continue
            request = DeviceWatchdogRequest()
            request.origin_host = self.identity.host.encode()
            request.origin_realm = self.identity.realm.encode()
            try:
                await self.request(request, WATCHDOG)
            except EpcError:
                log.error("'STATE_SUSPECT' peer '%s': no answer to DWR, closing", self.peer)
                self.close()
                return


class Server:
    """The listening end of Diameter connections."""

    def __init__(
        self, identity: Identity, handler: Handler, accept: Callable[[str, str], bool]
    ) -> None:
        """Answer the requests of peers that ``accept`` allows with ``handler``."""
        self.identity = identity
        self.handler = handler
        self.accept = accept
        self.connections: set[Connection] = set()
        self._server: asyncio.Server | None = None

    def _made(self) -> Connection:
        connection = Connection(self.identity, self.handler, self.accept, active=False)
        self.connections.add(connection)
        connection.closed.add_done_callback(lambda _: self.connections.discard(connection))
        return connection

    async def start(self, address: str, port: int) -> int:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._made, address, port)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.close()


class Client:
    """Keeps one connection to a peer open, and opens a lost connection again."""

    def __init__(self, identity: Identity, handler: Handler, peer: str, local: str = "") -> None:
        """Connect to the node named ``peer``; ``local`` is an optional own address."""
        self.identity = identity
        self.handler = handler
        self.peer = peer
        self.local = local
        self.connection: Connection | None = None
        self.open = asyncio.Event()

    def _accept(self, host: str, realm: str) -> bool:
        return host == self.peer

    async def run(self, address: str, port: int) -> None:
        """Connect, and connect again after each loss, for ever."""
        loop = asyncio.get_running_loop()
        said = ""
        while True:
            connection = Connection(self.identity, self.handler, self._accept, active=True)
            try:
                await asyncio.wait_for(
                    loop.create_connection(
                        lambda connection=connection: connection,
                        address,
                        port,
                        local_addr=(self.local, 0) if self.local else None,
                    ),
                    ANSWER,
                )
                await connection.opened
                self.connection = connection
                self.open.set()
                said = ""
                await connection.closed
                log.error("'STATE_CLOSED' with peer '%s'", self.peer)
            except (TimeoutError, OSError, EpcError) as error:
                reason = str(error) or "no answer"
                if reason != said:
                    log.error("peer '%s' at %s:%d: %s", self.peer, address, port, reason)
                said = reason
            finally:
                self.open.clear()
                self.connection = None
                connection.close()
            await asyncio.sleep(RECONNECT)

    async def request(self, message: Message, timeout: float = ANSWER) -> Message:
        """Send a request over the open connection."""
        if self.connection is None:
            raise EpcError(f"There is no Diameter connection to {self.peer}.")
        return await self.connection.request(message, timeout)
