"""PFCP associations: heartbeats, and the control plane's end (3GPP TS 29.244 section 6.2)."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from simulators.errors import EpcError
from simulators.shared import pfcp
from simulators.transport import udp
from simulators.transport.tlv import Message, MissingError, number

HEARTBEAT = 2.0  # Seconds between heartbeats, as OAI's functions send them.
RETRY = 3.0  # Seconds between attempts to associate again with a lost user plane function.

log = logging.getLogger("pfcp")


async def watch(
    endpoint: udp.Endpoint, peer: udp.Address, own: int, theirs: int, moved: Callable[[str], None]
) -> None:
    """Send heartbeats until the peer is silent or has restarted; call ``moved`` with the reason.

    ``own`` and ``theirs`` are the recovery time stamps of both ends.
    """
    while True:
        await asyncio.sleep(HEARTBEAT)
        try:
            request = Message(pfcp.HEARTBEAT_REQUEST, None, (pfcp.recovery(own),))
            response = await endpoint.request(peer, request)
            stamp = number(response.need(pfcp.RECOVERY), 4)
        except EpcError as error:
            moved(str(error))
            return
        if stamp != theirs:
            moved(f"{peer[0]} has restarted.")
            return


@dataclass
class Session:
    """A session in a user plane function."""

    owner: str  # its subscriber, for messages.
    network: str  # APN or DNN.
    address: str  # IP address of the UE.
    seid: int  # our SEID.
    qfi: int | None = None  # QoS flow identifier in 5G, None in an EPC.
    # `up_seid`, `uplink`: SEID, and (TEID, address), both from the user plane function.
    up_seid: int = 0
    uplink: tuple[int, str] = (0, "")
    # TEID and address of the base station, None while there is none.
    end: tuple[int, str] | None = None
    down: bool = False  # whether the user plane function has the rules of the downlink.


@dataclass
class _Up:
    """An associated user plane function; ``stamp`` is when it was started."""

    node: str
    address: str
    stamp: int
    watch: asyncio.Task[None] | None = None


class ControlPlane:
    """The control plane's end of an association with one user plane function, and its sessions.

    Attributes:
        up: the associated user plane function, or None.
        associated: set while there is an association.
        endpoint: the PFCP socket.
        sessions: sessions by our SEID.
    """

    def __init__(self, address: str, peer: str, ups: tuple[str, ...] = ()) -> None:
        """Use an own address; ``peer`` is a name for messages, ``ups`` the allowed Node IDs."""
        self.address = address
        self.peer = peer
        self.ups = ups
        self.started = pfcp.timestamp()
        self.up: _Up | None = None
        self.associated = asyncio.Event()
        self.sessions: dict[int, Session] = {}
        self.endpoint = udp.Endpoint(pfcp.CODEC, self._answer)
        self._restoring: asyncio.Task[None] | None = None
        self._seeking: asyncio.Task[None] | None = None

    async def start(self, up: str = "") -> None:
        """Open the socket, and associate with a user plane function at the address ``up``."""
        await self.endpoint.start(self.address, pfcp.PORT)
        if up:
            self._seeking = asyncio.create_task(self._seek(up, up))

    def stop(self) -> None:
        if self.up is not None and self.up.watch is not None:
            self.up.watch.cancel()
        for task in (self._restoring, self._seeking):
            if task is not None:
                task.cancel()
        self.endpoint.stop()

    async def _answer(self, message: Message, peer: udp.Address) -> Message | None:
        if message.type == pfcp.HEARTBEAT_REQUEST:
            return Message(pfcp.HEARTBEAT_RESPONSE, None, (pfcp.recovery(self.started),))
        if message.type != pfcp.ASSOCIATION_REQUEST:
            return None
        value = pfcp.ACCEPTED
        try:
            node = pfcp.node_of(message.need(pfcp.NODE_ID))
            stamp = number(message.need(pfcp.RECOVERY), 4)
            if self.ups and not {node, peer[0]} & set(self.ups):
                log.error("%s %s at %s is not configured", self.peer, node, peer[0])
                value = pfcp.REJECTED
            elif self.up is not None and (self.up.address, self.up.stamp) == (peer[0], stamp):
                pass  # our answer was lost
            elif self.up is not None:
                # As in OAI: after a restart a function must wait until the old association is lost.
                value = pfcp.REJECTED
            else:
                self._join(node, peer[0], stamp)
        except MissingError:
            value = pfcp.MANDATORY_MISSING
        ies = (
            pfcp.node_id(self.address),
            pfcp.cause(value),
            pfcp.recovery(self.started),
        )
        return Message(pfcp.ASSOCIATION_RESPONSE, None, ies)

    def _join(self, node: str, address: str, stamp: int) -> None:
        log.info("PFCP association with %s %s at %s", self.peer, node, address)
        if self.up is not None and self.up.watch is not None:
            self.up.watch.cancel()
        self.up = _Up(node, address, stamp)

        def lost(reason: str) -> None:
            log.error("PFCP association with %s %s lost: %s", self.peer, node, reason)
            self.up = None
            self.associated.clear()
            self._seeking = asyncio.create_task(self._seek(node, address))

        peer = (address, pfcp.PORT)
        self.up.watch = asyncio.create_task(watch(self.endpoint, peer, self.started, stamp, lost))
        self.associated.set()
        if self.sessions:
            self._restoring = asyncio.create_task(self._restore())

    async def _seek(self, node: str, address: str) -> None:
        """Send association requests to a user plane function until one is associated."""
        ies = (pfcp.node_id(self.address), pfcp.recovery(self.started))
        while self.up is None:
            try:
                request = Message(pfcp.ASSOCIATION_REQUEST, None, ies)
                response = await self.endpoint.request((address, pfcp.PORT), request)
                if pfcp.cause_of(response) == pfcp.ACCEPTED and self.up is None:
                    self._join(node, address, number(response.need(pfcp.RECOVERY), 4))
            except EpcError as error:
                log.debug("%s", error)
            await asyncio.sleep(RETRY)

    async def _restore(self) -> None:
        """Set up the sessions again in a restarted user plane function (TS 23.007)."""
        for session in list(self.sessions.values()):
            if session.seid not in self.sessions:
                continue
            try:
                await self.establish(session)
            except EpcError as error:
                log.error("session of %s: %s", session.owner, error)

    async def _ask(self, message: Message) -> Message:
        """Send a request; every cause except "accepted" is an error."""
        if self.up is None:
            raise EpcError(f"No {self.peer} is associated.")
        response = await self.endpoint.request((self.up.address, pfcp.PORT), message)
        value = pfcp.cause_of(response)
        if value != pfcp.ACCEPTED:
            raise EpcError(f"The {self.peer} refused the session with cause {value}.")
        return response

    async def establish(self, session: Session) -> None:
        """Set a session up."""
        tunnel = session.uplink if session.uplink[0] else None
        response = await self._ask(
            pfcp.establishment(
                self.address,
                session.seid,
                session.address,
                session.network,
                tunnel,
                session.qfi,
            )
        )
        session.up_seid, _ = pfcp.fseid_of(response.need(pfcp.FSEID))
        session.uplink = pfcp.created_tunnel(response)
        session.down = False
        self.sessions[session.seid] = session
        if session.end is not None:
            await self.forward(session, session.end)

    async def forward(self, session: Session, end: tuple[int, str]) -> None:
        """Forward a session's downlink packets to a base station; create the rules if needed."""
        session.end = end
        if session.down:
            await self._ask(pfcp.modification(session.up_seid, end))
        else:
            request = pfcp.downlink(
                session.up_seid, session.address, session.network, end, session.qfi
            )
            await self._ask(request)
            session.down = True

    async def hold(self, session: Session) -> None:
        """Drop a session's downlink packets, because its UE is idle."""
        session.end = None
        if session.down:
            await self._ask(pfcp.modification(session.up_seid, None))

    async def delete(self, session: Session) -> None:
        self.sessions.pop(session.seid, None)
        await self._ask(Message(pfcp.DELETION_REQUEST, session.up_seid))
