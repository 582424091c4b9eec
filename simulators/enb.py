"""The eNB: S1AP to the MME, GTP-U to the SPGW-U, frames to its UEs."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import itertools
import logging
import os
import socket
from dataclasses import dataclass
from typing import Any

from simulators import gtpu, s1ap, sctp, uu
from simulators.errors import EpcError, ProtocolError
from simulators.identity import Plmn, Tai

log = logging.getLogger("enb")
enb_app = logging.getLogger("ENB_APP")

#: Seconds between attempts to reach the MME.
RETRY = 3.0
#: Seconds the MME has to answer S1 Setup.
SETUP = 10.0
_BATCH = 64


@dataclass(frozen=True)
class Config:
    """How the eNB is set up.

    Attributes:
        name, number: eNB name and identifier (20 bits).
        plmns: networks it broadcasts; the first is the one of its cell.
        tac: tracking area code.
        mme: the MME's S1-C address.
        s1c, s1u: own addresses.
        uu: address that UEs connect to.
    """

    name: str
    number: int
    plmns: tuple[Plmn, ...]
    tac: int
    mme: str
    s1c: str
    s1u: str
    uu: str = "0.0.0.0"  # noqa: S104


@dataclass
class _Ue:
    number: int
    link: uu.Link
    radio: int
    mme: int | None = None
    downlink: int = 0
    uplink: tuple[int, tuple[str, int]] | None = None


class Enb:
    """The base station."""

    def __init__(self, config: Config) -> None:
        """Set up by a configuration."""
        self.config = config
        self.traffic = gtpu.Traffic()
        self.ready = asyncio.Event()
        self._cell = config.number << 8
        self._association: sctp.Association | None = None
        self._links: set[uu.Link] = set()
        self._ues: dict[int, _Ue] = {}
        self._by_radio: dict[tuple[uu.Link, int], _Ue] = {}
        self._by_teid: dict[int, _Ue] = {}
        self._numbers = itertools.count(1)
        self._teids = itertools.count(int.from_bytes(os.urandom(3), "big") + 1)
        self._s1u: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._task: asyncio.Task[None] | None = None
        self._answer: asyncio.Future[s1ap.Message] | None = None

    async def start(self) -> None:
        """Open S1-U and Uu, and keep the association with the MME."""
        loop = asyncio.get_running_loop()
        self._s1u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._s1u.setblocking(False)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            self._s1u.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
        self._s1u.bind((self.config.s1u, gtpu.PORT))
        loop.add_reader(self._s1u.fileno(), self._downlink)
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
        if self._s1u is not None:
            asyncio.get_running_loop().remove_reader(self._s1u.fileno())
            self._s1u.close()
            self._s1u = None

    # -- MME --------------------------------------------------------------------------------------

    async def _run(self) -> None:
        said = ""
        while True:
            ended = asyncio.get_running_loop().create_future()
            try:
                await self._set_up(ended)
                said = ""
                enb_app.info("[eNB 0] Received S1AP_REGISTER_ENB_CNF: associated MME 1")
                self.ready.set()
                await ended
                log.error("the association with the MME is lost: associated MME 0")
            except EpcError as error:
                if str(error) != said:
                    log.error("%s", error)
                said = str(error)
            finally:
                self.ready.clear()
                if self._association is not None:
                    self._association.close()
                self._association = None
                for ue in list(self._ues.values()):
                    self._drop(ue, tell=True)
            await asyncio.sleep(RETRY)

    async def _set_up(self, ended: asyncio.Future[None]) -> None:
        config = self.config
        association = await sctp.connect(config.s1c, config.mme, s1ap.PORT)
        self._association = association
        self._answer = asyncio.get_running_loop().create_future()
        association.on_message = self._received
        association.on_close = lambda: None if ended.done() else ended.set_result(None)
        plmns = [plmn.octets for plmn in config.plmns]
        request = s1ap.encode(
            "S1SetupRequest",
            enb_id={
                "pLMNidentity": plmns[0],
                "eNB-ID": ("macroENB-ID", (config.number, 20)),
            },
            enb_name=config.name,
            areas=[{"tAC": config.tac.to_bytes(2, "big"), "broadcastPLMNs": plmns}],
            paging="v128",
        )
        association.send(0, request)
        try:
            answer = await asyncio.wait_for(self._answer, SETUP)
        except TimeoutError:
            raise EpcError(f"MME {config.mme} does not answer S1 Setup.") from None
        if answer.name != "S1SetupResponse":
            cause = answer.values.get("cause", ("", "no cause"))[1]
            raise EpcError(f"MME {config.mme} refuses S1 Setup: {cause}.")

    def _received(self, stream: int, octets: bytes) -> None:
        try:
            message = s1ap.decode(octets)
            if message.name.startswith("S1Setup"):
                if self._answer is not None and not self._answer.done():
                    self._answer.set_result(message)
                return
            if message.name == "ErrorIndication":
                log.error("the MME indicates an error: %s", message.values.get("cause"))
                return
            if message.name == "UEContextReleaseCommand":
                _, ids = message.need("ids")
                ue = self._ues.get(ids["eNB-UE-S1AP-ID"])
                self._tell(
                    "UEContextReleaseComplete",
                    mme=ids["mME-UE-S1AP-ID"],
                    enb=ids["eNB-UE-S1AP-ID"],
                )
                if ue is not None:
                    self._drop(ue, tell=True)
                return
            ue = self._ues.get(message.need("enb"))
            if ue is None:  # it left meanwhile: the MME shall forget it too (section 10.6)
                self._tell(
                    "ErrorIndication",
                    mme=message.need("mme"),
                    enb=message.need("enb"),
                    cause=("radioNetwork", "unknown-enb-ue-s1ap-id"),
                )
                return
            ue.mme = message.need("mme")
            if message.name == "DownlinkNASTransport":
                ue.link.send(uu.NAS, ue.radio, message.need("nas"))
            elif message.name == "InitialContextSetupRequest":
                self._context(ue, message)
        except EpcError as error:
            log.error("S1AP: %s", error)

    def _context(self, ue: _Ue, message: s1ap.Message) -> None:
        bearer, address, teid, nas = s1ap.first_bearer(message.need("setup"))
        ue.uplink = (teid, (address, gtpu.PORT))
        ue.downlink = next(self._teids) & 0xFFFFFFFF
        self._by_teid[ue.downlink] = ue
        self._tell(
            "InitialContextSetupResponse",
            mme=ue.mme,
            enb=ue.number,
            bearers=s1ap.bearer_set_up(bearer, self.config.s1u, ue.downlink),
        )
        ue.link.send(uu.BEARER, ue.radio, bytes([bearer]))
        ue.link.send(uu.NAS, ue.radio, nas)

    def _tell(self, name: str, **values: Any) -> None:
        if self._association is None:
            raise EpcError("There is no association with the MME.")
        stream = 1 + values.get("enb", 0) % (sctp.STREAMS - 1)
        self._association.send(stream, s1ap.encode(name, **values))

    # -- UEs --------------------------------------------------------------------------------------

    def _link(self) -> uu.Link:
        link = uu.Link(self._from_ue, self._unlinked)
        self._links.add(link)
        return link

    def _unlinked(self, link: uu.Link) -> None:
        self._links.discard(link)
        for ue in [one for one in self._ues.values() if one.link is link]:
            self._gone(ue)

    def _gone(self, ue: _Ue) -> None:
        """The radio connection with a UE is lost."""
        self._drop(ue, tell=False)
        if ue.mme is not None:
            cause = ("radioNetwork", "radio-connection-with-ue-lost")
            with contextlib.suppress(EpcError):
                self._tell("UEContextReleaseRequest", mme=ue.mme, enb=ue.number, cause=cause)

    def _drop(self, ue: _Ue, tell: bool) -> None:
        self._ues.pop(ue.number, None)
        self._by_radio.pop((ue.link, ue.radio), None)
        self._by_teid.pop(ue.downlink, None)
        if tell:
            ue.link.send(uu.RELEASE, ue.radio)

    def _from_ue(self, link: uu.Link, kind: int, radio: int, content: bytes) -> None:
        ue = self._by_radio.get((link, radio))
        if kind == uu.PACKET:
            if ue is None or ue.uplink is None or self._s1u is None:
                self.traffic.dropped += 1
                return
            teid, peer = ue.uplink
            try:
                self._s1u.sendto(gtpu.header(0x30, 255, len(content), teid) + content, peer)
                self.traffic.up += 1
            except OSError:
                self.traffic.dropped += 1
        elif kind == uu.CELL:
            plmns = ",".join(f"{one.mcc}.{one.mnc}" for one in self.config.plmns)
            up = int(self.ready.is_set())
            link.send(uu.CELL, radio, f"{up} {self.config.tac} {plmns}".encode())
        elif kind == uu.RELEASE and ue is not None:
            self._gone(ue)
        elif kind == uu.NAS:
            try:
                self._nas(link, radio, ue, content)
            except EpcError as error:
                log.error("NAS of a UE: %s", error)
                link.send(uu.RELEASE, radio)

    def _nas(self, link: uu.Link, radio: int, ue: _Ue | None, content: bytes) -> None:
        config = self.config
        place = {
            "cell": s1ap.cell(config.plmns[0], self._cell),
            "tai": s1ap.tai(Tai(config.plmns[0], config.tac)),
        }
        if ue is None:
            ue = _Ue(next(self._numbers) & 0xFFFFFF, link, radio)
            self._ues[ue.number] = ue
            self._by_radio[link, radio] = ue
            try:
                self._tell(
                    "InitialUEMessage", enb=ue.number, nas=content, why="mo-Signalling", **place
                )
            except EpcError:
                self._drop(ue, tell=False)
                raise
        elif ue.mme is not None:
            self._tell("UplinkNASTransport", mme=ue.mme, enb=ue.number, nas=content, **place)

    def _downlink(self) -> None:
        assert self._s1u is not None  # noqa: S101
        receive, ues, frame = self._s1u.recvfrom, self._by_teid, uu.frame
        frames: dict[uu.Link, list[bytes]] = {}
        for _ in range(_BATCH):
            try:
                octets, peer = receive(65535)
            except BlockingIOError:
                break
            except OSError as error:  # ICMP of an earlier packet
                log.debug("S1-U: %s", error)
                continue
            try:
                kind, teid, start = gtpu.split(octets)
            except ProtocolError:
                self.traffic.dropped += 1
                continue
            if kind == gtpu.ECHO_REQUEST:
                with contextlib.suppress(OSError):
                    self._s1u.sendto(gtpu.echo_response(octets), peer)
            elif kind == gtpu.ERROR_INDICATION:
                self._tunnel_gone(gtpu.error_teid(octets, start), peer)
            elif kind == gtpu.G_PDU:
                ue = ues.get(teid)
                if ue is None:
                    self.traffic.dropped += 1
                    own = ipaddress.IPv4Address(self.config.s1u).packed
                    with contextlib.suppress(OSError):
                        self._s1u.sendto(gtpu.error_indication(teid, own), peer)
                elif ue.link.full:
                    self.traffic.dropped += 1
                else:
                    self.traffic.down += 1
                    packet = frame(uu.PACKET, ue.radio, octets[start:])
                    frames.setdefault(ue.link, []).append(packet)
        for link, packets in frames.items():
            link.send_all(b"".join(packets))

    def _tunnel_gone(self, teid: int | None, peer: tuple[str, int]) -> None:
        """The SPGW-U does not know a tunnel: the bearer is released locally (TS 23.007, 20.2)."""
        for ue in list(self._ues.values()):
            if ue.uplink is not None and ue.uplink == (teid, (peer[0], gtpu.PORT)):
                log.error("the SPGW-U does not know the tunnel of UE %d", ue.number)
                ue.link.send(uu.RELEASE, ue.radio)
                self._gone(ue)
