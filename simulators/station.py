"""What eNB and gNB do alike: an association with the core, GTP-U to it, frames to their UEs."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import itertools
import logging
import os
import socket
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from simulators import gtpu, sctp, uu
from simulators.errors import EpcError, ProtocolError
from simulators.identity import Plmn

#: Seconds between attempts to reach the core.
RETRY = 3.0
#: Seconds the core has to answer the set-up.
SETUP = 10.0
_BATCH = 64


@dataclass(frozen=True)
class Config:
    """How a base station is set up.

    Attributes:
        name, number: name and identifier.
        plmns: networks it broadcasts; the first is the one of its cell.
        tac: tracking area code.
        core: the MME's S1-C or the AMF's N2 address.
        control, user: own addresses towards the core, for signalling and packets.
        uu: address that UEs connect to.
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
    """A tunnel of a UE: a bearer, or a PDU session with its QoS flow.

    Attributes:
        ue: whose it is.
        number: number of its packets on the radio link.
        downlink: TEID of our end.
        uplink: TEID and address of the core's end.
        qfi: QoS flow identifier in 5G.
    """

    ue: Connection
    number: int
    downlink: int
    uplink: tuple[int, tuple[str, int]]
    qfi: int | None = None


@dataclass
class Connection:
    """A connected UE: its identifiers here, on its link and in the core, and its bearers."""

    number: int
    link: uu.Link
    radio: int
    core: int | None = None
    bearers: dict[int, Bearer] = field(default_factory=dict)


class Station(ABC):
    """A base station."""

    #: What its core is called in messages, and the logger.
    core = ""
    log: logging.Logger

    def __init__(self, config: Config) -> None:
        """Set up by a configuration."""
        self.config = config
        self.traffic = gtpu.Traffic()
        self.ready = asyncio.Event()
        self._association: sctp.Association | None = None
        self._links: set[uu.Link] = set()
        self._ues: dict[int, Connection] = {}
        self._by_radio: dict[tuple[uu.Link, int], Connection] = {}
        self._by_teid: dict[int, Bearer] = {}
        self._by_packet: dict[tuple[uu.Link, int], Bearer] = {}
        self._numbers = itertools.count(1)
        self._teids = itertools.count(int.from_bytes(os.urandom(3), "big") + 1)
        self._user: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._task: asyncio.Task[None] | None = None
        self._answer: asyncio.Future[Any] | None = None

    async def start(self) -> None:
        """Open the user plane and Uu, and keep the association with the core."""
        loop = asyncio.get_running_loop()
        self._user = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._user.setblocking(False)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            self._user.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
        self._user.bind((self.config.user, gtpu.PORT))
        loop.add_reader(self._user.fileno(), self._downlink)
        self._server = await loop.create_server(lambda: self._link(), self.config.uu, uu.PORT)
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        """Close all."""
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

    async def _answered(self, what: str) -> Any:
        """The core's answer to the set-up.

        Raises:
            EpcError: none comes.
        """
        assert self._answer is not None  # noqa: S101
        try:
            return await asyncio.wait_for(self._answer, SETUP)
        except TimeoutError:
            core = f"{self.core} {self.config.core}"
            raise EpcError(f"{core} does not answer {what}.") from None

    def _received(self, stream: int, octets: bytes) -> None:
        try:
            self._from_core(octets)
        except EpcError as error:
            self.log.error("%s: %s", self.core, error)

    @abstractmethod
    async def _associate(self) -> sctp.Association:
        """Connect to the core."""

    @abstractmethod
    async def _set_up(self, association: sctp.Association) -> None:
        """Set the interface with the core up.

        Raises:
            EpcError: the core refuses, or does not answer.
        """

    @abstractmethod
    def _from_core(self, octets: bytes) -> None:
        """Take a message of the core."""

    @abstractmethod
    def _first(self, ue: Connection, nas: bytes) -> None:
        """Take a UE's first NAS message to the core."""

    @abstractmethod
    def _next(self, ue: Connection, nas: bytes) -> None:
        """Take another NAS message of a UE to the core."""

    @abstractmethod
    def _lost(self, ue: Connection) -> None:
        """Tell the core that the radio connection with a UE is lost."""

    # -- UEs --------------------------------------------------------------------------------------

    def _link(self) -> uu.Link:
        link = uu.Link(self._from_ue, self._unlinked)
        self._links.add(link)
        return link

    def _unlinked(self, link: uu.Link) -> None:
        self._links.discard(link)
        for ue in [one for one in self._ues.values() if one.link is link]:
            self._gone(ue)

    def _gone(self, ue: Connection) -> None:
        """The radio connection with a UE is lost."""
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
        """Set a tunnel up; in 5G packets on the radio link say which session they are of."""
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

    def _from_ue(self, link: uu.Link, kind: int, radio: int, content: bytes) -> None:
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

    def _nas(self, link: uu.Link, radio: int, ue: Connection | None, content: bytes) -> None:
        if ue is None:
            ue = Connection(next(self._numbers) & 0xFFFFFF, link, radio)
            self._ues[ue.number] = ue
            self._by_radio[link, radio] = ue
            try:
                self._first(ue, content)
            except EpcError:
                self._drop(ue, tell=False)
                raise
        elif ue.core is not None:
            self._next(ue, content)

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
        receive, bearers, frame = self._user.recvfrom, self._by_teid, uu.frame
        frames: dict[uu.Link, list[bytes]] = {}
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
                    packet = frame(uu.PACKET, bearer.number, octets[start:])
                    frames.setdefault(bearer.ue.link, []).append(packet)
        for link, packets in frames.items():
            link.send_all(b"".join(packets))

    def _tunnel_gone(self, teid: int | None, peer: tuple[str, int]) -> None:
        """The core does not know a tunnel: its UE is released locally (TS 23.007, 20.2)."""
        for bearer in list(self._by_teid.values()):
            if bearer.uplink == (teid, (peer[0], gtpu.PORT)):
                self.log.error("the core does not know the tunnel of UE %d", bearer.ue.number)
                bearer.ue.link.send(uu.RELEASE, bearer.ue.radio)
                self._gone(bearer.ue)
