"""NWu (TS 23.501 clause 4.2.8.3): IKE SAs and their child SAs at either end, and their traffic.

This module does ESP itself, because a VDU of the lab may have a kernel without XFRM.
"""

import asyncio
import contextlib
import hashlib
import ipaddress
import logging
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from scapy.contrib import ikev2 as codec
from scapy.packet import Packet

from simulators.errors import EpcError, PeerTimeoutError, ProtocolError
from simulators.transport import radio_link, sockets, tun
from simulators.wifi import eap5g, esp, ikev2

log = logging.getLogger("IKE")

#: Seconds before a request is repeated, doubled each time, and its maximum transmissions.
REPEAT, TIMES = 0.5, 4
#: MTU of the device of signalling SAs, for a path MTU of 1500 octets.
MTU = 1500 - esp.OVERHEAD
_TCP = 6
_MARKER = bytes(4)  # before IKE messages on port 4500 (RFC 3948)
_KEEPALIVE = b"\xff"  # of a peer behind a NAT (RFC 3948 section 2.3)
_BATCH = 64


class Peer(NamedTuple):
    """The other end's address and port, and whether ESP is encapsulated in UDP because of NAT."""

    host: str
    port: int
    encapsulated: bool = False


class Draft(NamedTuple):
    """A child SA before its creation: our SPI, and values of :class:`Child`."""

    spi: bytes
    local: bytes
    remote: bytes
    session: int
    qfis: tuple[int, ...]


@dataclass(eq=False)
class Child:
    """A child SA: a pair of ESP SAs between two inner addresses."""

    inbound: esp.Inbound
    outbound: esp.Outbound
    local: bytes
    remote: bytes
    # `session`, `qfis`: PDU session and QoS flows; the session is 0 for the signalling SA.
    session: int = 0
    qfis: tuple[int, ...] = ()

    @property
    def spi(self) -> bytes:
        return self.inbound.spi.to_bytes(4, "big")


class Endpoint:
    """The sockets of NWu: IKE on UDP 500 and 4500, ESP as an IP protocol or in UDP."""

    def __init__(self, address: str, accept: Callable[[bytes, Peer], None] | None = None) -> None:
        """Initialise; ``accept`` gets requests for a new IKE SA."""
        self.address = address
        self.accept = accept
        self.associations: dict[bytes, Association] = {}  # by our SPI
        self.children: dict[int, tuple[Association, Child]] = {}  # by our SPI
        self.dropped = 0
        self._sockets: dict[int, socket.socket] = {}

    def start(self) -> None:
        """Open the sockets.

        Raises:
            OSError: a port is in use, or the address is not local.
        """
        loop = asyncio.get_running_loop()
        for port in (ikev2.PORT, ikev2.NAT_PORT, 0):
            kind = (socket.SOCK_DGRAM, 0) if port else (socket.SOCK_RAW, socket.IPPROTO_ESP)
            made = sockets.bound(self.address, port, *kind)
            self._sockets[port] = made
            loop.add_reader(made.fileno(), self._readable, made, port)

    def stop(self) -> None:
        """Delete all IKE SAs without waiting for answers, and close the sockets."""
        for association in list(self.associations.values()):
            association.leave()
        for made in self._sockets.values():
            asyncio.get_running_loop().remove_reader(made.fileno())
            made.close()
        self._sockets.clear()

    def new_spi(self) -> bytes:
        """Return an unused SPI for a child SA (below 256 is reserved, RFC 4303 section 2.1)."""
        while (spi := int.from_bytes(os.urandom(4), "big")) < 256 or spi in self.children:
            pass
        return spi.to_bytes(4, "big")

    def _readable(self, made: socket.socket, port: int) -> None:
        for _ in range(_BATCH):
            try:
                octets, (host, source) = made.recvfrom(65535)
            except BlockingIOError:
                return
            except OSError as error:  # ICMP of an earlier packet
                log.debug("NWu: %s", error)
                continue
            try:
                self._received(octets, host, source, port)
            except EpcError as error:
                self.dropped += 1
                log.error("NWu, from %s: %s", host, error)

    def _received(self, octets: bytes, host: str, source: int, port: int) -> None:
        if port == ikev2.PORT:
            self._ike(octets, Peer(host, source))
        elif port and octets[:4] == _MARKER:
            self._ike(octets[4:], Peer(host, source, encapsulated=True))
        elif port:
            if octets != _KEEPALIVE:
                self._esp(octets)
        else:
            self._esp(octets[4 * (octets[0] & 0x0F) :])

    def _ike(self, octets: bytes, peer: Peer) -> None:
        header = ikev2.header(octets)
        if header.exchange == ikev2.SA_INIT and header.original and not any(header.responder):
            if self.accept is not None:
                self.accept(octets, peer)
            return
        own = header.responder if header.original else header.initiator
        association = self.associations.get(own)
        if association is None:
            raise ProtocolError("An IKE message is of no IKE SA.")
        association.received(octets, header, peer)

    def _esp(self, octets: bytes) -> None:
        known = self.children.get(int.from_bytes(octets[:4], "big"))
        if known is None:
            raise ProtocolError("An ESP packet is of no child SA.")
        association, child = known
        packet = child.inbound.open(octets)
        if packet[12:16] != child.remote or packet[16:20] != child.local:
            raise ProtocolError("An inner packet is not of its child SA's addresses.")
        association.owner.packet(child, packet)

    def send_ike(self, octets: bytes, peer: Peer) -> None:
        port = ikev2.NAT_PORT if peer.encapsulated else ikev2.PORT
        self._send(port, (_MARKER if peer.encapsulated else b"") + octets, (peer.host, peer.port))

    def send_esp(self, octets: bytes, peer: Peer) -> None:
        port = ikev2.NAT_PORT if peer.encapsulated else 0
        self._send(port, octets, (peer.host, peer.port if port else 0))

    def _send(self, port: int, octets: bytes, to: tuple[str, int]) -> None:
        if port in self._sockets:
            with contextlib.suppress(OSError):  # a full queue, or ICMP for an earlier packet
                self._sockets[port].sendto(octets, to)


class Owner(ABC):
    """The owner of an IKE SA."""

    ike: "Association"

    @abstractmethod
    async def authenticate(self, message: ikev2.Message) -> tuple[Packet, ...]:
        """Answer an IKE_AUTH request."""

    @abstractmethod
    def requested_child(self, message: ikev2.Message) -> Draft | None:
        """Return the child SA for a CREATE_CHILD_SA request, None to refuse it."""

    @abstractmethod
    def packet(self, child: Child, packet: bytes) -> None:
        """Handle an inner packet."""

    @abstractmethod
    def ended(self, why: str) -> None:
        """Handle the end of the IKE SA; ``why`` is empty if an end deleted it normally."""


class Association:
    """An IKE SA."""

    def __init__(self, endpoint: Endpoint, peer: Peer, owner: Owner, initiator: bool) -> None:
        self.endpoint = endpoint
        self.peer = peer
        self.owner = owner
        self.initiator = initiator
        self.spi = os.urandom(8)
        self.other_spi = bytes(8)
        self.keys: ikev2.Keys | None = None
        self.children: list[Child] = []
        self.first_octets: dict[bool, bytes] = {}  # IKE_SA_INIT, by whether it is ours
        self.nonces: dict[bool, bytes] = {}
        self.authenticated = False
        self.gone = False
        self._sent = 0
        self._expected = 0
        self._answered = b""
        self._answering = False
        self._waiting: tuple[int, asyncio.Future[ikev2.Message]] | None = None
        self._window = asyncio.Lock()  # one request at a time (RFC 7296 section 2.3)
        self._tasks: set[asyncio.Task[None]] = set()
        endpoint.associations[self.spi] = self

    # -- the first exchange -----------------------------------------------------------------------

    async def initiate(self) -> None:
        """Exchange IKE_SA_INIT."""
        made, nonce = ikev2.Exchange(), ikev2.nonce()
        payloads = (
            *(ikev2.proposal(ikev2.IKE), made.payload(), codec.IKEv2_Nonce(nonce=nonce)),
            *self._located(),
        )
        answer = await self.request(ikev2.SA_INIT, *payloads)
        if ikev2.chosen(answer.need(codec.IKEv2_SA), ikev2.IKE) is None:
            raise ProtocolError("The peer chose another suite.")
        self.other_spi = answer.responder
        self.nonces = {True: nonce, False: bytes(answer.need(codec.IKEv2_Nonce).nonce)}
        secret = made.secret(answer.need(codec.IKEv2_KE))
        self.keys = ikev2.Keys.first(secret, self._nonces(), b"".join(self._spis()))
        if self._translated(answer):
            self.peer = Peer(self.peer.host, ikev2.NAT_PORT, encapsulated=True)

    def respond(self, octets: bytes) -> None:
        """Answer an IKE_SA_INIT request."""
        message = ikev2.decode(octets)
        self.other_spi = message.initiator
        self.first_octets[False] = octets
        self._expected = 1
        if ikev2.chosen(message.need(codec.IKEv2_SA), ikev2.IKE) is None:
            refusal = self._message(message, (ikev2.notify(ikev2.NO_PROPOSAL_CHOSEN),))
            self.endpoint.send_ike(ikev2.encode(refusal), self.peer)
            self.end("It proposes no suite that we have.")
            return
        made, nonce = ikev2.Exchange(), ikev2.nonce()
        secret = made.secret(message.need(codec.IKEv2_KE))
        self.nonces = {True: nonce, False: bytes(message.need(codec.IKEv2_Nonce).nonce)}
        self.keys = ikev2.Keys.first(secret, self._nonces(), b"".join(self._spis()))
        payloads = (
            *(ikev2.proposal(ikev2.IKE), made.payload(), codec.IKEv2_Nonce(nonce=nonce)),
            *self._located(),
        )
        self._answered = ikev2.encode(self._message(message, payloads))
        self.first_octets[True] = self._answered
        self.endpoint.send_ike(self._answered, self.peer)

    def again(self) -> None:
        """Answer a repeated IKE_SA_INIT request."""
        if self._expected == 1:
            self.endpoint.send_ike(self._answered, self.peer)

    def _nonces(self) -> bytes:
        return self.nonces[self.initiator] + self.nonces[not self.initiator]

    def signed(self, own: bool, identity: Packet) -> bytes:
        """Return the octets that we (``own``) or the other end signs in IKE_AUTH."""
        assert self.keys is not None  # noqa: S101
        key = self.keys.pi if own == self.initiator else self.keys.pr
        return ikev2.signed(self.first_octets[own], self.nonces[not own], key, identity)

    def _hashed(self, host: str, port: int) -> bytes:
        place = ipaddress.IPv4Address(host).packed + port.to_bytes(2, "big")
        return hashlib.sha1(b"".join(self._spis()) + place).digest()  # noqa: S324 - RFC 7296 section 2.23

    def _located(self) -> tuple[Packet, Packet]:
        own = self._hashed(self.endpoint.address, ikev2.PORT)
        other = self._hashed(self.peer.host, self.peer.port)
        return ikev2.notify(ikev2.NAT_SOURCE, own), ikev2.notify(ikev2.NAT_DESTINATION, other)

    def _translated(self, message: ikev2.Message) -> bool:
        """Tell whether there is a NAT on the path."""
        expected = {
            ikev2.NAT_SOURCE: self._hashed(self.peer.host, self.peer.port),
            ikev2.NAT_DESTINATION: self._hashed(self.endpoint.address, ikev2.PORT),
        }
        hashes = ((message.notified(kind), right) for kind, right in expected.items())
        return any(one is not None and one.notify != right for one, right in hashes)

    # -- exchanges --------------------------------------------------------------------------------

    def _spis(self) -> tuple[bytes, bytes]:
        return (self.spi, self.other_spi) if self.initiator else (self.other_spi, self.spi)

    def _message(self, request: ikev2.Message, payloads: tuple[Packet, ...]) -> ikev2.Message:
        kind, number = request.exchange, request.number
        return ikev2.Message(*self._spis(), kind, number, self.initiator, True, payloads)

    def _sealed(self, message: ikev2.Message) -> bytes:
        if self.keys is None:
            return ikev2.encode(message)
        return ikev2.seal(message, *self.keys.pair(self.initiator))

    def _opened(self, octets: bytes) -> ikev2.Message:
        if self.keys is None:
            return ikev2.decode(octets)
        return ikev2.unseal(octets, *self.keys.pair(not self.initiator))

    async def request(self, exchange: int, *payloads: Packet, times: int = TIMES) -> ikev2.Message:
        """Send a request and wait for its response.

        Raises:
            PeerTimeoutError: no response comes; this ends the IKE SA (RFC 7296 section 2.4).
        """
        async with self._window:
            if self.gone:
                raise EpcError("The IKE SA is gone.")
            number, self._sent = self._sent, self._sent + 1
            spis = self._spis()
            message = ikev2.Message(*spis, exchange, number, self.initiator, False, payloads)
            octets = self._sealed(message)
            if exchange == ikev2.SA_INIT:
                self.first_octets[True] = octets
            waiting: asyncio.Future[ikev2.Message] = asyncio.get_running_loop().create_future()
            self._waiting = number, waiting
            delay = REPEAT
            # More time for IKE_AUTH, because its responder has to ask the AMF.
            for _ in range(times if exchange != ikev2.AUTH else 2 * times):
                self.endpoint.send_ike(octets, self.peer)
                done, _ = await asyncio.wait([waiting], timeout=delay)
                if done:
                    return waiting.result()
                delay = min(2 * delay, 4.0)
        why = f"{self.peer.host} did not answer."
        self.end(why)
        raise PeerTimeoutError(why)

    def received(self, octets: bytes, header: ikev2.Message, peer: Peer) -> None:
        """Handle a message with a decoded header; only an authentic one changes the state."""
        if header.response:
            if self._waiting is None or self._waiting[0] != header.number:
                return
            message = self._opened(octets)
            if header.exchange == ikev2.SA_INIT:
                self.first_octets[False] = octets
            if not self._waiting[1].done():
                self._waiting[1].set_result(message)
            return
        if self.keys is None:
            raise ProtocolError("A request came before the keys.")
        message = self._opened(octets)
        if header.number == self._expected - 1 and self._answered:
            self.endpoint.send_ike(self._answered, peer)
        elif header.number == self._expected and not self._answering:
            # A NAT may have changed the address; a replayed request changes nothing (section 2.23).
            self.peer = peer
            self._answering = True
            task = asyncio.create_task(self._answer(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, message: ikev2.Message) -> None:
        after: Callable[[], None] | None = None
        try:
            if message.exchange == ikev2.AUTH:
                payloads = await self.owner.authenticate(message)
            elif message.exchange == ikev2.CREATE_CHILD_SA:
                if not self.authenticated:  # RFC 7296 section 1.2
                    raise ProtocolError("CREATE_CHILD_SA came before IKE_AUTH.")
                payloads = self._created(message)
            else:
                payloads, after = self._informed(message)
        except EpcError as error:
            log.error("IKE, from %s: %s", self.peer.host, error)
            payloads = (ikev2.notify(ikev2.INVALID_SYNTAX),)
        self._answered = self._sealed(self._message(message, payloads))
        self._expected += 1
        self._answering = False
        self.endpoint.send_ike(self._answered, self.peer)
        if after is not None:
            after()

    def _informed(
        self, message: ikev2.Message
    ) -> tuple[tuple[Packet, ...], Callable[[], None] | None]:
        """Return the answer to an INFORMATIONAL request, and a function to call when it is sent."""
        if message.notified(ikev2.AUTHENTICATION_FAILED) is not None:
            return (), lambda: self.end("The peer says AUTHENTICATION_FAILED.")
        deleted = message.find(codec.IKEv2_Delete)
        if deleted is None:
            return (), None
        if deleted.proto == ikev2.IKE:
            return (), lambda: self.end("")
        spis = {bytes(one) for one in deleted.SPI}
        theirs = [c for c in self.children if c.outbound.spi.to_bytes(4, "big") in spis]
        for child in theirs:
            self.remove(child)
        return ((ikev2.delete(ikev2.ESP, *(c.spi for c in theirs)),) if theirs else ()), None

    # -- child SAs --------------------------------------------------------------------------------

    def install(self, child: Child) -> Child:
        self.children.append(child)
        self.endpoint.children[child.inbound.spi] = self, child
        return child

    def remove(self, child: Child) -> None:
        if child in self.children:
            self.children.remove(child)
        self.endpoint.children.pop(child.inbound.spi, None)

    def keyed(self, draft: Draft, theirs: bytes, nonces: bytes, initiator: bool) -> Child:
        """Derive a new child SA's keys, and start to use it; ``theirs`` is the other end's SPI."""
        assert self.keys is not None  # noqa: S101
        pairs = self.keys.child(nonces)
        own, other = pairs if initiator else pairs[::-1]
        outbound = esp.Outbound(int.from_bytes(theirs, "big"), *own)
        inbound = esp.Inbound(int.from_bytes(draft.spi, "big"), *other)
        ends = draft.local, draft.remote
        return self.install(Child(inbound, outbound, *ends, draft.session, draft.qfis))

    def first_child(self, draft: Draft, theirs: bytes) -> Child:
        """Start to use the child SA of IKE_AUTH; its keys are from the nonces of IKE_SA_INIT."""
        self.authenticated = True
        return self.keyed(draft, theirs, self._nonces(), self.initiator)

    def draft(self, local: bytes, remote: bytes, session: int = 0, *qfis: int) -> Draft:
        """Return the draft of a child SA, with a new SPI."""
        return Draft(self.endpoint.new_spi(), local, remote, session, qfis)

    async def create_child(self, draft: Draft, *notifies: Packet) -> Child:
        """Exchange CREATE_CHILD_SA."""
        nonce = ikev2.nonce()
        ends = (str(ipaddress.IPv4Address(one)) for one in (draft.local, draft.remote))
        answer = await self.request(
            ikev2.CREATE_CHILD_SA,
            *notifies,
            ikev2.proposal(ikev2.ESP, draft.spi),
            codec.IKEv2_Nonce(nonce=nonce),
            *ikev2.selectors(*ends),
        )
        theirs = ikev2.chosen(answer.need(codec.IKEv2_SA), ikev2.ESP)
        if theirs is None:
            raise ProtocolError("The peer chose another suite for a child SA.")
        nonces = nonce + bytes(answer.need(codec.IKEv2_Nonce).nonce)
        return self.keyed(draft, theirs, nonces, initiator=True)

    def _created(self, message: ikev2.Message) -> tuple[Packet, ...]:
        """Answer CREATE_CHILD_SA: create a child SA. No end of ours rekeys (section 1.3)."""
        if message.find(codec.IKEv2_KE) or message.notified(ikev2.REKEY_SA):
            return (ikev2.notify(ikev2.NO_ADDITIONAL_SAS),)
        theirs = ikev2.chosen(message.need(codec.IKEv2_SA), ikev2.ESP)
        draft = None if theirs is None else self.owner.requested_child(message)
        if theirs is None or draft is None:
            return (ikev2.notify(ikev2.NO_PROPOSAL_CHOSEN),)
        nonce = ikev2.nonce()
        nonces = bytes(message.need(codec.IKEv2_Nonce).nonce) + nonce
        child = self.keyed(draft, theirs, nonces, initiator=False)
        ends = (str(ipaddress.IPv4Address(one)) for one in (child.remote, child.local))
        made = ikev2.proposal(ikev2.ESP, child.spi), codec.IKEv2_Nonce(nonce=nonce)
        return (*made, *ikev2.selectors(*ends))

    async def delete_child(self, child: Child) -> None:
        """Delete a child SA."""
        self.remove(child)
        await self.request(ikev2.INFORMATIONAL, ikev2.delete(ikev2.ESP, child.spi))

    # -- the end ----------------------------------------------------------------------------------

    async def close(self, *payloads: Packet) -> None:
        """Delete the IKE SA, or send the error ``payloads`` that end it."""
        with contextlib.suppress(EpcError):
            content = payloads or (ikev2.delete(ikev2.IKE),)
            await self.request(ikev2.INFORMATIONAL, *content, times=2)
        self.end("")

    def leave(self) -> None:
        """Send a delete of the IKE SA once, without waiting for an answer."""
        if self.keys is not None and not self.gone:
            spis, gone = self._spis(), (ikev2.delete(ikev2.IKE),)
            message = ikev2.Message(
                *spis, ikev2.INFORMATIONAL, self._sent, self.initiator, False, gone
            )
            self.endpoint.send_ike(self._sealed(message), self.peer)

    def end(self, why: str) -> None:
        """Forget the IKE SA and its child SAs."""
        if self.gone:
            return
        self.gone = True
        self.endpoint.associations.pop(self.spi, None)
        for child in list(self.children):
            self.remove(child)
        if self._waiting is not None and not self._waiting[1].done():
            self._waiting[1].set_exception(EpcError(why or "The IKE SA was deleted."))
            self._waiting[1].exception()
        self.owner.ended(why)


class Link(Owner):
    """Transport over the IKE SA of a UE: NAS messages and packets of PDU sessions.

    Base station and UE use it like a connection to the radio simulator (:mod:`uu`).

    Attributes:
        signalling: device for inner packets of the signalling SA.
        inner: our inner address, and the other end's.
    """

    full = False

    def __init__(self) -> None:
        self.on_room: set[Callable[[], None]] = set()
        self.signalling: Device | None = None
        self.inner = b"", b""
        self._writer: asyncio.StreamWriter | None = None
        self._waiting: list[bytes] = []  # NAS messages before there is a connection for them

    @abstractmethod
    def received(self, kind: int, number: int, content: bytes) -> None:
        """Handle a frame."""

    def child_of(self, session: int) -> Child | None:
        """Return the newest child SA of a PDU session; session 0 is the signalling SA."""
        children = reversed(self.ike.children)
        return next((one for one in children if one.session == session), None)

    def send_packets(self, packets: list[tuple[int, bytes]]) -> None:
        """Send packets, each with its number on the link, which includes the PDU session."""
        for number, packet in packets:
            child = self.child_of(number >> 16)
            if child is not None:
                made = eap5g.encapsulate(packet, child.qfis[0], *self.inner)
                self.ike.endpoint.send_esp(child.outbound.seal(made), self.ike.peer)

    def send_signalling(self, packet: bytes) -> None:
        """Send an inner packet from the kernel over the signalling SA."""
        child = self.child_of(0)
        if child is not None:
            self.ike.endpoint.send_esp(child.outbound.seal(packet), self.ike.peer)

    def packet(self, child: Child, packet: bytes) -> None:
        if child.session == 0:
            if packet[9] == _TCP and self.signalling is not None:
                self.signalling.write(packet)
                return
        elif packet[9] == eap5g.GRE:
            qfi, content = eap5g.decapsulate(packet)
            if qfi in child.qfis:
                self.received(radio_link.PACKET, radio_link.numbered(1, child.session), content)
                return
        raise ProtocolError("An inner packet is of another kind than its child SA.")

    # -- NAS over TCP (TS 24.502 section 9.4) -----------------------------------------------------

    def write_nas(self, octets: bytes) -> None:
        """Send a NAS message, now or once there is a connection."""
        if self._writer is None:
            self._waiting.append(octets)
        else:
            self._writer.write(len(octets).to_bytes(2, "big") + octets)

    async def read_nas(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send waiting NAS messages, then receive some until the connection ends."""
        self._writer = writer
        waiting, self._waiting = self._waiting, []
        for octets in waiting:
            self.write_nas(octets)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(2), "big")
                self.received(radio_link.NAS, 1, await reader.readexactly(size))
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            if self._writer is writer:  # else the UE has connected again meanwhile
                self._writer = None
            writer.close()

    def close_nas(self) -> None:
        """Close the connection at once, without sending pending data."""
        if self._writer is not None:
            self._writer.transport.abort()


class Device:
    """The TUN device that connects signalling SAs with the kernel's TCP."""

    def __init__(self, name: str, address: str, send: Callable[[bytes], None]) -> None:
        """Create it with an address; ``send`` gets packets from the kernel."""
        self.fd = tun.open_tun(name)
        self._send = send
        try:
            tun.ip("address", "add", address, "dev", name)
            tun.ip("link", "set", name, "mtu", str(MTU), "up")
        except EpcError:
            os.close(self.fd)
            raise
        asyncio.get_running_loop().add_reader(self.fd, self._read)

    def _read(self) -> None:
        for _ in range(_BATCH):
            try:
                packet = os.read(self.fd, 65535)
            except OSError:  # BlockingIOError: all are read
                return
            if packet[0] >> 4 == 4:
                self._send(packet)

    def write(self, packet: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self.fd, packet)

    def close(self) -> None:
        if self.fd >= 0:
            asyncio.get_running_loop().remove_reader(self.fd)
            os.close(self.fd)
            self.fd = -1


def configured(payload: Packet) -> dict[int, bytes]:
    values = {}
    for one in payload.attributes:
        value = one.value
        values[one.type] = (
            ipaddress.IPv4Address(value).packed if isinstance(value, str) else bytes(value)
        )
    return values


def configuration(kind: int, values: dict[int, bytes]) -> Packet:
    """Return a configuration payload with attributes; requests have empty values."""
    attributes = [codec.ConfigurationAttribute(type=of, value=one) for of, one in values.items()]
    return codec.IKEv2_CP(CFGType=kind, attributes=attributes)


def port_of(content: bytes) -> int:
    if len(content) != 2:
        raise ProtocolError("A notified port has not two octets.")
    return int.from_bytes(content, "big")
