"""Common part of MME and AMF: access nodes over SCTP, contexts of UEs, and NAS procedures."""

import asyncio
import contextlib
import itertools
import logging
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from simulators.errors import EpcError, ProtocolError
from simulators.shared.identity import Tai
from simulators.shared.nas_security import Context
from simulators.transport import asn1, sctp

#: Maximum of simultaneous registrations; others wait, so that a storm causes delay, not timeouts.
ADMITTED = 32
#: Seconds to wait for each answer of a UE or its access node (T3450, T3460, T3550 and T3560 are 6 s
#: and repeated four times).
ANSWER = 24.0

Nas = TypeVar("Nas")
UeT = TypeVar("UeT", bound="UeContext[Any]")
NodeT = TypeVar("NodeT", bound="AccessNode[Any]")


@dataclass(eq=False)
class AccessNode(Generic[UeT]):
    """A connected eNB or gNB; ``ues`` has its UEs by the node's identifiers."""

    association: sctp.Association
    name: str = ""
    ready: bool = False
    ues: dict[int, UeT] = field(default_factory=dict)


@dataclass(kw_only=True)
class UeContext(ABC, Generic[Nas]):
    """A UE that is connected, registered, or both."""

    protocol: ClassVar[asn1.Protocol]

    # `core_id`, `access_id`: its identifiers on both sides of S1 or N2.
    core_id: int
    access_id: int
    node: AccessNode[Any]  # its access node.
    # `tai`, `cell`: its tracking area and cell.
    tai: Tai
    cell: int
    # Messages about it from its access node.
    inbox: asyncio.Queue[asn1.Message] = field(default_factory=asyncio.Queue)
    task: asyncio.Task[Any] | None = None
    imsi: str = ""
    guti: Any = None
    security: Context | None = None
    connected: bool = True
    registered: bool = False

    def send(self, name: str, values: dict[str, Any]) -> None:
        """Send a message of S1AP or NGAP on the UE's stream."""
        octets = self.protocol.encode(name, values)
        self.node.association.send(sctp.stream_of(self.access_id), octets)

    def tell(self, name: str, **values: Any) -> None:
        """Send a message with the UE's identifiers; underscores stand for hyphens."""
        ids = dict(zip(self.protocol.identifiers, (self.core_id, self.access_id), strict=True))
        self.send(name, ids | {key.replace("_", "-"): value for key, value in values.items()})

    def sealed(self, octets: bytes, **how: bool) -> bytes:
        """Return a NAS message, protected if there is a security context."""
        return octets if self.security is None else self.security.protect(octets, **how)

    def nas(self, octets: bytes, **how: bool) -> None:
        self.tell("DownlinkNASTransport", NAS_PDU=self.sealed(octets, **how))

    def check(self) -> None:
        """Stop the procedure of a UE that lost its connection.

        The loss also cancels the procedure's task. But ``asyncio.wait_for`` before Python 3.12
        drops a cancellation that comes at the same time as the awaited answer.
        """
        if not self.connected:
            raise EpcError(f"UE {self.imsi or self.core_id} left meanwhile.")

    async def message(self) -> asn1.Message:
        """Return the next message about the UE."""
        self.check()
        try:
            return await asyncio.wait_for(self.inbox.get(), ANSWER)
        except TimeoutError:
            raise EpcError(f"UE {self.imsi or self.core_id} does not answer.") from None

    async def answer(self) -> Nas:
        """Return the next NAS message of the UE, without its protection."""
        while True:
            message = await self.message()
            if message.name == "UplinkNASTransport":
                return self.open(message.need("NAS-PDU"))

    async def next(self, log: logging.Logger) -> Nas:
        """Return the next NAS message of a registered UE, without a time limit."""
        while True:
            message = await self.inbox.get()
            if message.name == "UplinkNASTransport":
                try:
                    return self.open(message.need("NAS-PDU"))
                except ProtocolError as error:
                    log.error("UE %s: %s", self.imsi, error)

    def open(self, octets: bytes) -> Nas:
        """Return a NAS message of the UE without its protection."""
        return self.read(octets if self.security is None else self.security.open(octets))

    @abstractmethod
    def read(self, octets: bytes) -> Nas:
        """Return a plain NAS message in the form that the procedures use."""


class RejectedError(EpcError):
    """The registration is refused with a cause of EMM or 5GMM."""

    def __init__(self, cause: int, why: str) -> None:
        self.cause = cause
        super().__init__(why)


class MobilityManagement(ABC, Generic[UeT, NodeT]):
    """An MME or AMF.

    Attributes:
        ues: contexts of connected UEs by the core's identifier.
        by_imsi, by_tmsi: contexts of registered UEs.
        nodes: connected access nodes.
    """

    protocol: ClassVar[asn1.Protocol]
    #: Class and name of an access node, and the loggers of the interface and of NAS.
    node_type: ClassVar[type[Any]]
    access: ClassVar[str]
    interface_log: ClassVar[logging.Logger]
    nas_log: ClassVar[logging.Logger]

    def __init__(self) -> None:
        self.ues: dict[int, UeT] = {}
        self.by_imsi: dict[str, UeT] = {}
        self.by_tmsi: dict[int, UeT] = {}
        self.nodes: list[NodeT] = []
        self.admission = asyncio.Semaphore(ADMITTED)
        self._numbers = itertools.count(1)
        self._tmsi = itertools.count(int.from_bytes(os.urandom(3), "big") << 8)
        self._listener: sctp.Listener | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    def listen(self, address: str) -> None:
        """Listen for access nodes at an address."""
        port, ppid = self.protocol.port, self.protocol.ppid
        self._listener = sctp.listen(address, port, self._accepted, ppid)

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for node in list(self.nodes):
            node.association.close()
        for task in list(self._tasks):
            task.cancel()

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """Run a coroutine in a task, which `close` cancels."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def new_tmsi(self) -> int:
        """Return a TMSI that no UE has."""
        while (tmsi := next(self._tmsi) & 0xFFFFFFFF) in self.by_tmsi:
            pass
        return tmsi

    # -- access nodes ---------------------------------------------------------------------------

    def _accepted(self, association: sctp.Association) -> None:
        node: NodeT = self.node_type(association)
        self.nodes.append(node)
        association.on_message = lambda stream, octets: self._received(node, octets)
        association.on_close = lambda: self._lost(node)

    def _lost(self, node: NodeT) -> None:
        if node in self.nodes:
            self.nodes.remove(node)
        if node.ready:
            node.ready = False
            self.node_gone()
            peer = node.association.peer
            self.interface_log.error("%s '%s' at %s is gone", self.access, node.name, peer)
        self._drop_ues(node)

    def _drop_ues(self, node: NodeT) -> None:
        for ue in list(node.ues.values()):
            self.disconnect(ue)
        node.ues.clear()

    def _received(self, node: NodeT, octets: bytes) -> None:
        protocol = self.protocol
        try:
            message = protocol.decode(octets)
            if message.name == f"{protocol.setup}Request":
                # The node starts anew (TS 36.413 section 8.7.3.1, TS 38.413 section 8.7.1.1).
                self._drop_ues(node)
                self.set_up(node, message)
            elif not node.ready:
                raise ProtocolError(f"{message.name} before {protocol.setup}")
            elif message.name == "InitialUEMessage":
                self._initial(node, message)
            else:
                self._of_ue(node, message)
        except EpcError as error:
            peer = node.association.peer
            self.interface_log.error("%s from %s: %s", protocol.name, peer, error)
            cause = {"Cause": ("protocol", "semantic-error")}
            with contextlib.suppress(EpcError):
                node.association.send(0, protocol.encode("ErrorIndication", cause))

    def refuse(self, node: NodeT, cause: tuple[str, str]) -> None:
        """Refuse an S1 or NG Setup Request."""
        peer = node.association.peer
        self.interface_log.error("%s at %s refused: %s", self.access, peer, cause[1])
        failure = self.protocol.encode(f"{self.protocol.setup}Failure", {"Cause": cause})
        node.association.send(0, failure)

    def _initial(self, node: NodeT, message: asn1.Message) -> None:
        number = message.need(self.protocol.identifiers[1])
        known: dict[int, UeT] = node.ues
        if number in known:
            self.disconnect(known[number])  # the node uses the identifier for another UE now
        first = message.need("NAS-PDU")
        ue = self.new_ue(node, next(self._numbers) & 0xFFFFFFFF, number, message)
        node.ues[number] = ue
        self.ues[ue.core_id] = ue
        ue.task = self.spawn(self._serve(ue, first))

    def _of_ue(self, node: NodeT, message: asn1.Message) -> None:
        number = message.values.get(self.protocol.identifiers[0], -1)
        ue = self.ues.get(number)
        known: dict[int, object] = node.ues
        if ue is None or known.get(ue.access_id) is not ue:
            if message.name in ("ErrorIndication", "UEContextReleaseComplete"):
                return
            raise ProtocolError(f"{message.name} for a UE that is not known")
        if message.name == "UEContextReleaseRequest":
            self.release(ue, ("radioNetwork", "radio-connection-with-ue-lost"))
        elif message.name in ("UEContextReleaseComplete", "ErrorIndication"):
            self.disconnect(ue)
        else:
            self.about(ue, message)

    # -- UEs ------------------------------------------------------------------------------------

    async def _serve(self, ue: UeT, first: bytes) -> None:
        """Run the UE's procedures; on an error reject, forget or release the UE."""
        try:
            await self.procedures(ue, first)
            return
        except RejectedError as error:
            self.nas_log.error("Registration of %s rejected: %s", ue.imsi or "a UE", error)
            with contextlib.suppress(EpcError):
                self.reject(ue, error)
            await self.forget(ue)
        except EpcError as error:
            self.nas_log.error("UE %s: %s", ue.imsi or ue.core_id, error)
            if not ue.registered:
                await self.forget(ue)
        self.release(ue, ("nas", "unspecified"))

    def release(self, ue: UeT, cause: tuple[str, str]) -> None:
        """Release the UE's connection; `disconnect` follows when the access node confirms."""
        if not ue.connected:
            return
        ids = self.protocol.pair(ue.core_id, ue.access_id)
        try:
            ue.send("UEContextReleaseCommand", ids | {"Cause": cause})
        except EpcError:
            self.disconnect(ue)

    def disconnect(self, ue: UeT) -> None:
        """Handle the end of the UE's connection; a registered UE stays registered, but idle."""
        if not ue.connected:
            return
        ue.connected = False
        ue.node.ues.pop(ue.access_id, None)
        self.ues.pop(ue.core_id, None)
        self.idle(ue)
        if not ue.registered:
            self.spawn(self.forget(ue))
        if ue.task is not None:
            ue.task.cancel()

    def unregister(self, ue: UeT) -> None:
        """Remove the UE from the tables of registered UEs."""
        if self.by_imsi.get(ue.imsi) is ue:
            del self.by_imsi[ue.imsi]
        if ue.guti is not None:
            self.by_tmsi.pop(ue.guti.tmsi, None)

    # -- differences of MME and AMF -------------------------------------------------------------

    def node_gone(self) -> None:
        """Handle the loss of an access node that had set up its interface."""

    @abstractmethod
    def set_up(self, node: NodeT, message: asn1.Message) -> None:
        """Answer an S1 or NG Setup Request."""

    @abstractmethod
    def new_ue(self, node: NodeT, core_id: int, access_id: int, message: asn1.Message) -> UeT:
        """Return a context for the UE of an initial message."""

    def about(self, ue: UeT, message: asn1.Message) -> None:
        """Handle a message about a UE; its procedure waits for one."""
        ue.inbox.put_nowait(message)

    @abstractmethod
    async def procedures(self, ue: UeT, first: bytes) -> None:
        """Run the procedures that a UE requests, until it leaves.

        Raises:
            RejectedError: the UE is refused.
        """

    @abstractmethod
    def reject(self, ue: UeT, error: RejectedError) -> None:
        """Send the reject message to a UE."""

    @abstractmethod
    async def forget(self, ue: UeT) -> None:
        """End the UE's sessions and registration."""

    @abstractmethod
    def idle(self, ue: UeT) -> None:
        """Release the user plane of a UE whose connection has ended."""
