"""Common part of eNB and gNB: an association with the core, GTP-U to it, frames to their UEs."""

import asyncio
import contextlib
import ipaddress
import itertools
import logging
import os
import socket
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from simulators.errors import EpcError, ProtocolError
from simulators.shared.identity import Plmn
from simulators.transport import asn1, gtpu, sctp, sockets
from simulators.transport import radio_link as uu

RETRY = 3.0  # Seconds between attempts to reach the core.
#: Seconds to wait for the core's answer to the setup request.
SETUP = 10.0
_BATCH = 64


@dataclass(frozen=True)
class Config:
    """Configuration of a base station.

    Attributes:
        name, number: name and identifier.
        plmns: PLMNs that it broadcasts; the first is the one of its cell.
        tac: tracking area code.
        core: the MME's S1-C or the AMF's N2 address.
        control, user: own addresses towards the core, for signalling and packets.
        uu: address to which UEs connect.
    """

    name: str
    number: int
    plmns: tuple[Plmn, ...]
    tac: int
    core: str
    control: str
    user: str
    uu: str = "0.0.0.0"  # noqa: S104


@dataclass
class Bearer:
    """A tunnel of a UE: a bearer, or a PDU session with its QoS flow."""

    ue: "Connection"  # its UE.
    number: int  # number of its packets on the radio link.
    downlink: int  # TEID of our end.
    uplink: tuple[int, tuple[str, int]]  # TEID and address of the core's end.
    qfi: int | None = None  # QoS flow identifier in 5G.


@dataclass
class Connection:
    """A connected UE: its identifiers at the station, on its link and in the core; its bearers."""

    number: int
    link: uu.Channel
    radio: int
    core: int | None = None
    bearers: dict[int, Bearer] = field(default_factory=dict)


class Station(ABC):
    """A base station."""

    #: The protocol with its core, the core's name in messages, and the logger.
    protocol: ClassVar[asn1.Protocol]
    core: ClassVar[str]
    log: ClassVar[logging.Logger]
    #: Logger and text for the log when the core has accepted the setup request.
    accepted: ClassVar[tuple[logging.Logger, str]]
    #: Elements of the Initial UE Message besides identifiers, location and NAS message.
    initial: ClassVar[dict[str, Any]]

    def __init__(self, config: Config) -> None:
        self.config = config
        self.traffic = gtpu.Traffic()
        self.ready = asyncio.Event()
        self._association: sctp.Association | None = None
        self._links: set[uu.Channel] = set()
        self._ues: dict[int, Connection] = {}
        self._by_radio: dict[tuple[uu.Channel, int], Connection] = {}
        self._by_teid: dict[int, Bearer] = {}
        self._by_packet: dict[tuple[uu.Channel, int], Bearer] = {}
        self._numbers = itertools.count(1)
        self._teids = itertools.count(int.from_bytes(os.urandom(3), "big") + 1)
        self._user: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._task: asyncio.Task[None] | None = None
        self._answer: asyncio.Future[Any] | None = None

    async def start(self) -> None:
        """Open the user plane and Uu, and keep the association with the core."""
        loop = asyncio.get_running_loop()
        self._user = sockets.bound(self.config.user, gtpu.PORT)
        loop.add_reader(self._user.fileno(), self._downlink)
        await self._open_radio()
        self._task = asyncio.create_task(self._run())

    async def _open_radio(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._link, self.config.uu, uu.PORT)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._association is not None:
            self._association.close()
            self._association = None
        if self._server is not None:
            self._server.close()
        for link in list(self._links):
            link.close()
        if self._user is not None:
            asyncio.get_running_loop().remove_reader(self._user.fileno())
            self._user.close()
            self._user = None

    # -- the core -------------------------------------------------------------------------------

    async def _run(self) -> None:
        said = ""
        while True:
            ended = asyncio.get_running_loop().create_future()
            try:
                association = await self._associate()
                self._association = association
                self._answer = asyncio.get_running_loop().create_future()
                association.on_message = self._received
                association.on_close = lambda ended=ended: (  # type: ignore[misc]
                    None if ended.done() else ended.set_result(None)
                )
                await self._set_up(association)
                said = ""
                self.ready.set()
                await ended
                self.log.error("the association with the %s is lost", self.core)
            except EpcError as error:
                if str(error) != said:
                    self.log.error("%s", error)
                said = str(error)
            finally:
                self.ready.clear()
                if self._association is not None:
                    self._association.close()
                self._association = None
                for ue in list(self._ues.values()):
                    self._drop(ue, tell=True)
            await asyncio.sleep(RETRY)

    async def _associate(self) -> sctp.Association:
        config, protocol = self.config, self.protocol
        local, core, port = config.control, config.core, protocol.port
        return await sctp.connect(local, core, port, protocol.ppid)

    async def _set_up(self, association: sctp.Association) -> None:
        """Set up the interface with the core."""
        assert self._answer is not None  # noqa: S101
        setup, core = self.protocol.setup, f"{self.core} {self.config.core}"
        what = f"{setup.removesuffix('Setup')} Setup"
        association.send(0, self.protocol.encode(f"{setup}Request", self._setup_request()))
        try:
            answer = await asyncio.wait_for(self._answer, SETUP)
        except TimeoutError:
            raise EpcError(f"{core} does not answer {what}.") from None
        if answer.name != f"{setup}Response":
            cause = answer.values.get("Cause", ("", "no cause"))[1]
            raise EpcError(f"{core} refuses {what}: {cause}.")
        log, text = self.accepted
        log.info(text)

    def _received(self, stream: int, octets: bytes) -> None:
        try:
            self._from_core(octets)
        except EpcError as error:
            self.log.error("%s: %s", self.core, error)

    def _from_core(self, octets: bytes) -> None:
        message = self.protocol.decode(octets)
        core_id, access_id = self.protocol.identifiers
        if message.name.startswith(self.protocol.setup):
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(message)
        elif message.name == "ErrorIndication":
            cause = message.values.get("Cause")
            self.log.error("the %s indicates an error: %s", self.core, cause)
        elif message.name == "UEContextReleaseCommand":
            number, own = self.protocol.pair_of(message)
            self._send(own, "UEContextReleaseComplete", {core_id: number, access_id: own})
            ue = self._ues.get(own)
            if ue is not None:
                self._drop(ue, tell=True)
        elif message.need(access_id) not in self._ues:
            # The UE has left: tell the core to forget it (TS 36.413, TS 38.413 section 10.6).
            values = {name: message.need(name) for name in (core_id, access_id)}
            cause = ("radioNetwork", self.protocol.unknown)
            self._send(message.need(access_id), "ErrorIndication", values | {"Cause": cause})
        else:
            ue = self._ues[message.need(access_id)]
            ue.core = message.need(core_id)
            self._about(ue, message)

    def _send(self, number: int, name: str, values: dict[str, Any]) -> None:
        """Send a message about a UE, on the stream for its number here."""
        if self._association is None:
            raise EpcError(f"There is no association with the {self.core}.")
        self._association.send(sctp.stream_of(number), self.protocol.encode(name, values))

    def _tell(self, name: str, ue: Connection, values: dict[str, Any]) -> None:
        """Send a message with a UE's identifiers."""
        core_id, access_id = self.protocol.identifiers
        ids = {access_id: ue.number} | ({} if ue.core is None else {core_id: ue.core})
        self._send(ue.number, name, ids | values)

    def _lost(self, ue: Connection) -> None:
        """Tell the core that the radio connection with a UE is lost."""
        cause = {"Cause": ("radioNetwork", "radio-connection-with-ue-lost")}
        self._tell("UEContextReleaseRequest", ue, cause | self._bearers_of(ue))

    def _bearers_of(self, ue: Connection) -> dict[str, Any]:
        """Return the elements of a UE Context Release Request that list the UE's sessions."""
        return {}

    @abstractmethod
    def _setup_request(self) -> dict[str, Any]:
        """Return the elements of the S1 or NG Setup Request."""

    @abstractmethod
    def _about(self, ue: Connection, message: asn1.Message) -> None:
        """Handle a message of the core about a UE."""

    @abstractmethod
    def _place(self, ue: Connection) -> dict[str, Any]:
        """Return the elements with a UE's cell and tracking area."""

    # -- UEs --------------------------------------------------------------------------------------

    def _link(self) -> uu.Link:
        link = uu.Link(self._from_ue, self._unlinked)
        self._links.add(link)
        return link

    def _unlinked(self, link: uu.Channel) -> None:
        self._links.discard(link)
        for ue in [one for one in self._ues.values() if one.link is link]:
            self._gone(ue)

    def _gone(self, ue: Connection) -> None:
        """Handle the loss of the radio connection with a UE."""
        self._drop(ue, tell=False)
        if ue.core is not None:
            with contextlib.suppress(EpcError):
                self._lost(ue)

    def _drop(self, ue: Connection, tell: bool) -> None:
        self._ues.pop(ue.number, None)
        self._by_radio.pop((ue.link, ue.radio), None)
        for identity in list(ue.bearers):
            self._remove_bearer(ue, identity)
        if tell:
            ue.link.send(uu.RELEASE, ue.radio)

    def _add_bearer(
        self, ue: Connection, identity: int, uplink: tuple[int, str], qfi: int | None = None
    ) -> Bearer:
        """Set up a tunnel; in 5G the number of packets on the radio link includes the session."""
        number = ue.radio if qfi is None else uu.numbered(ue.radio, identity)
        downlink = next(self._teids) & 0xFFFFFFFF
        bearer = Bearer(ue, number, downlink, (uplink[0], (uplink[1], gtpu.PORT)), qfi)
        ue.bearers[identity] = bearer
        self._by_teid[downlink] = bearer
        self._by_packet[ue.link, number] = bearer
        return bearer

    def _remove_bearer(self, ue: Connection, identity: int) -> None:
        bearer = ue.bearers.pop(identity, None)
        if bearer is not None:
            self._by_teid.pop(bearer.downlink, None)
            self._by_packet.pop((ue.link, bearer.number), None)

    def _from_ue(self, link: uu.Channel, kind: int, radio: int, content: bytes) -> None:
        if kind == uu.PACKET:
            self._uplink(self._by_packet.get((link, radio)), content)
            return
        ue = self._by_radio.get((link, radio))
        if kind == uu.CELL:
            plmns = ",".join(f"{one.mcc}.{one.mnc}" for one in self.config.plmns)
            up = int(self.ready.is_set())
            link.send(uu.CELL, radio, f"{up} {self.config.tac} {plmns}".encode())
        elif kind == uu.RELEASE and ue is not None:
            self._gone(ue)
        elif kind == uu.NAS:
            try:
                self._nas(link, radio, ue, content)
            except EpcError as error:
                self.log.error("NAS of a UE: %s", error)
                link.send(uu.RELEASE, radio)

    def _nas(self, link: uu.Channel, radio: int, ue: Connection | None, content: bytes) -> None:
        if ue is None:
            ue = Connection(next(self._numbers) & 0xFFFFFF, link, radio)
            self._ues[ue.number] = ue
            self._by_radio[link, radio] = ue
            try:
                nas = {"NAS-PDU": content}
                self._tell("InitialUEMessage", ue, nas | self._place(ue) | self.initial)
            except EpcError:
                self._drop(ue, tell=False)
                raise
        elif ue.core is not None:
            self._tell("UplinkNASTransport", ue, {"NAS-PDU": content} | self._place(ue))

    # -- packets --------------------------------------------------------------------------------

    def _uplink(self, bearer: Bearer | None, content: bytes) -> None:
        if bearer is None or self._user is None:
            self.traffic.dropped += 1
            return
        teid, peer = bearer.uplink
        if bearer.qfi is None:
            head = gtpu.header(0x30, gtpu.G_PDU, len(content), teid)
        else:
            head = gtpu.flow_header(gtpu.UPLINK, len(content), teid, bearer.qfi)
        try:
            self._user.sendto(head + content, peer)
            self.traffic.up += 1
        except OSError:
            self.traffic.dropped += 1

    def _downlink(self) -> None:
        assert self._user is not None  # noqa: S101
        receive, bearers = self._user.recvfrom, self._by_teid
        waiting: dict[uu.Channel, list[tuple[int, bytes]]] = {}
        for _ in range(_BATCH):
            try:
                octets, peer = receive(65535)
            except BlockingIOError:
                break
            except OSError as error:  # ICMP of an earlier packet
                self.log.debug("GTP-U: %s", error)
                continue
            try:
                kind, teid, start = gtpu.split(octets)
            except ProtocolError:
                self.traffic.dropped += 1
                continue
            if kind == gtpu.ECHO_REQUEST:
                with contextlib.suppress(OSError):
                    self._user.sendto(gtpu.echo_response(octets), peer)
            elif kind == gtpu.ERROR_INDICATION:
                self._tunnel_gone(gtpu.error_teid(octets, start), peer)
            elif kind == gtpu.G_PDU:
                bearer = bearers.get(teid)
                if bearer is None:
                    self.traffic.dropped += 1
                    own = ipaddress.IPv4Address(self.config.user).packed
                    with contextlib.suppress(OSError):
                        self._user.sendto(gtpu.error_indication(teid, own), peer)
                elif bearer.ue.link.full:
                    self.traffic.dropped += 1
                else:
                    self.traffic.down += 1
                    packet = bearer.number, octets[start:]
                    waiting.setdefault(bearer.ue.link, []).append(packet)
        for link, packets in waiting.items():
            link.send_packets(packets)

    def _tunnel_gone(self, teid: int | None, peer: tuple[str, int]) -> None:
        """Release locally the UE of a tunnel that the core does not know (TS 23.007, 20.2)."""
        for bearer in list(self._by_teid.values()):
            if bearer.uplink == (teid, (peer[0], gtpu.PORT)):
                self.log.error("the core does not know the tunnel of UE %d", bearer.ue.number)
                bearer.ue.link.send(uu.RELEASE, bearer.ue.radio)
                self._gone(bearer.ue)
