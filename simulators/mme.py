"""The MME: eNBs over S1AP, subscribers from the HSS over S6a, sessions from the SPGW-C over S11."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
from dataclasses import dataclass, field
from typing import Any

from diameter.message import Message as DiameterMessage
from diameter.message.commands import CancelLocationRequest

from simulators import attach, diameter, gtpc, nas, s1ap, s6a, sctp, udp
from simulators.attach import Ue
from simulators.errors import EpcError, ProtocolError
from simulators.identity import Gummei, Tai
from simulators.statistics import Statistics
from simulators.tlv import Message, number

log = logging.getLogger("MME_APP")
service303 = logging.getLogger("SERVICE303")

#: Seconds between echo requests on S11, which tell when the SPGW-C has restarted.
ECHO = 10.0


#: Attaches under way at once; further ones wait, so that a storm is late instead of timing out.
ADMITTED = 32


@dataclass(frozen=True)
class Config:
    """How the MME is set up.

    Attributes:
        s6a: its Diameter identity, with the S6a address.
        hss_host, hss_realm, hss_address, hss_port: the HSS.
        s1: S1-C address.
        s11: S11 address.
        sgw: S11 address of the SPGW-C.
        gummeis: identities it serves; the first is in the GUTIs it assigns.
        tais: tracking areas it serves.
        max_enbs, max_ues: limits.
        ciphering: EEA algorithm for NAS, 0 or 2.
        statistics: seconds between two tables of connections.
    """

    s6a: diameter.Identity
    hss_host: str
    hss_realm: str
    hss_address: str
    s1: str
    s11: str
    sgw: str
    gummeis: tuple[Gummei, ...]
    tais: frozenset[Tai]
    hss_port: int = 3868
    max_enbs: int = 64
    max_ues: int = 4096
    ciphering: int = nas.EEA0
    statistics: float = 60.0


@dataclass
class Enb:
    """A connected eNB."""

    association: sctp.Association
    name: str = ""
    areas: set[Tai] = field(default_factory=set)
    ready: bool = False
    ues: dict[int, Ue] = field(default_factory=dict)  # by the eNB's identifier


class Mme:
    """The mobility management entity."""

    def __init__(self, config: Config) -> None:
        """Set up by a configuration."""
        self.config = config
        self.statistics = Statistics()
        self.ues: dict[int, Ue] = {}  # by our S1AP identifier
        self.by_imsi: dict[str, Ue] = {}
        self.by_tmsi: dict[int, Ue] = {}
        self.enbs: set[int] = set()
        self.response_times: dict[str, list[float]] = {"AIR": [], "ULR": []}
        self.hss = diameter.Client(config.s6a, self._from_hss, config.hss_host, config.s6a.address)
        self.s11 = udp.Endpoint(gtpc.CODEC, self._from_sgw)
        self.admission = asyncio.Semaphore(ADMITTED)
        self._numbers = itertools.count(1)
        self._tmsi = itertools.count(int.from_bytes(os.urandom(3), "big") << 8)
        self._listener: sctp.Listener | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._connected: dict[int, Enb] = {}
        self._sgw_restarts: int | None = None

    async def start(self) -> None:
        """Open all interfaces and keep the connection to the HSS."""
        config = self.config
        await self.s11.start(config.s11, gtpc.PORT)
        self._listener = sctp.listen(config.s1, s1ap.PORT, self._accepted)
        self.spawn(self.hss.run(config.hss_address, config.hss_port))
        self.spawn(self._report())
        self.spawn(self._watch_sgw())
        log.debug("MME app initialization complete")

    def stop(self) -> None:
        """Close all."""
        if self._listener is not None:
            self._listener.close()
        for enb in list(self._connected.values()):
            enb.association.close()
        self.s11.stop()
        for task in list(self._tasks):
            task.cancel()

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """Run a coroutine in parallel to the others until the MME stops."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(self.config.statistics)
            for line in self.statistics.table().splitlines():
                service303.debug("%s", line)

    # -- S6a --------------------------------------------------------------------------------------

    async def ask_hss(self, kind: str, request: DiameterMessage) -> Any:
        """Send AIR or ULR; its service response time is kept."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        answer = await self.hss.request(request)
        self.response_times[kind].append(loop.time() - began)
        return answer

    async def _from_hss(
        self, request: DiameterMessage, connection: diameter.Connection
    ) -> DiameterMessage:
        if not isinstance(request, CancelLocationRequest):
            code = diameter.COMMAND_UNSUPPORTED
            return diameter.error_answer(request, self.config.s6a, code)
        ue = self.by_imsi.get(getattr(request, "user_name", None) or "")
        if ue is not None:
            self.spawn(attach.detach(self, ue, again=False))
        answer: DiameterMessage = s6a.answer_to(request, self.config.s6a)
        return answer

    # -- S11 --------------------------------------------------------------------------------------

    async def ask_sgw(self, message: Message) -> Message:
        """Send a request to the SPGW-C."""
        answer = await self.s11.request((self.config.sgw, gtpc.PORT), message)
        octets = answer.find(gtpc.RECOVERY)
        if octets is not None:
            self._count_restarts(number(octets, 1))
        return answer

    async def _from_sgw(self, message: Message, peer: udp.Address) -> Message | None:
        if message.type == gtpc.ECHO_REQUEST:
            return gtpc.echo_response(0)
        return None

    def _count_restarts(self, restarts: int) -> None:
        """When the SPGW-C has restarted its sessions are gone (TS 23.007 section 14)."""
        known, self._sgw_restarts = self._sgw_restarts, restarts
        if known in (None, restarts):
            return
        log.error("SPGW-C has restarted: its UEs attach again")
        for ue in [one for one in self.by_imsi.values() if one.session is not None]:
            attach.session_gone(self, ue)
            self.spawn(attach.detach(self, ue, again=True))

    async def _watch_sgw(self) -> None:
        while True:
            with contextlib.suppress(EpcError):
                await self.ask_sgw(gtpc.echo_request(0))
            await asyncio.sleep(ECHO)

    # -- S1AP -------------------------------------------------------------------------------------

    def _accepted(self, association: sctp.Association) -> None:
        enb = Enb(association)
        self._connected[id(enb)] = enb
        association.on_message = lambda stream, octets: self._received(enb, stream, octets)
        association.on_close = lambda: self._lost(enb)

    def _lost(self, enb: Enb) -> None:
        self._connected.pop(id(enb), None)
        if enb.ready:
            enb.ready = False
            self.statistics.remove("Connected eNBs")
            log.error("eNB '%s' at %s is gone", enb.name, enb.association.peer)
        for ue in list(enb.ues.values()):
            attach.disconnected(self, ue)
        enb.ues.clear()

    def _received(self, enb: Enb, stream: int, octets: bytes) -> None:
        try:
            message = s1ap.decode(octets)
            if message.name == "S1SetupRequest":
                self._setup(enb, message)
            elif not enb.ready:
                raise ProtocolError(f"{message.name} before S1 Setup")
            elif message.name == "InitialUEMessage":
                self._initial(enb, message)
            else:
                self._of_ue(enb, message)
        except EpcError as error:
            log.error("S1AP from %s: %s", enb.association.peer, error)
            cause = ("protocol", "semantic-error")
            with contextlib.suppress(EpcError):
                enb.association.send(0, s1ap.encode("ErrorIndication", cause=cause))

    def _setup(self, enb: Enb, message: s1ap.Message) -> None:
        areas = s1ap.areas_of(message.need("areas"))
        message.need("enb_id")
        cause = None
        if len(self.enbs) >= self.config.max_enbs:
            cause = ("misc", "control-processing-overload")
        elif not areas & self.config.tais:
            cause = ("misc", "unknown-PLMN")
        if cause is not None:
            log.error("eNB at %s refused: %s", enb.association.peer, cause[1])
            enb.association.send(0, s1ap.encode("S1SetupFailure", cause=cause))
            return
        enb.name, enb.areas = message.values.get("enb_name", ""), areas
        if not enb.ready:
            self.statistics.add("Connected eNBs")
        enb.ready = True
        gummei: dict[Any, dict[str, list[bytes]]] = {}
        for one in self.config.gummeis:
            served = gummei.setdefault(
                one.group, {"servedPLMNs": [], "servedGroupIDs": [], "servedMMECs": []}
            )
            if one.plmn.octets not in served["servedPLMNs"]:
                served["servedPLMNs"].append(one.plmn.octets)
            served["servedGroupIDs"] = [one.group.to_bytes(2, "big")]
            if bytes([one.code]) not in served["servedMMECs"]:
                served["servedMMECs"].append(bytes([one.code]))
        log.info("eNB '%s' at %s is connected", enb.name, enb.association.peer)
        octets = s1ap.encode(
            "S1SetupResponse",
            mme_name=self.config.s6a.host.partition(".")[0],
            gummeis=list(gummei.values()),
            capacity=10,
        )
        enb.association.send(0, octets)

    def _initial(self, enb: Enb, message: s1ap.Message) -> None:
        number_ = message.need("enb")
        ue = Ue(
            mme_id=next(self._numbers) & 0xFFFFFFFF,
            enb_id=number_,
            tai=s1ap.tai_of(message.need("tai")),
            cell=message.need("cell")["cell-ID"][0],
            association=enb.association,
            stream=1 + number_ % (sctp.STREAMS - 1),
            forget=lambda: enb.ues.pop(number_, None),
        )
        enb.ues[number_] = ue
        self.ues[ue.mme_id] = ue
        self.statistics.add("Connected UEs")
        ue.task = self.spawn(attach.serve(self, ue, message.need("nas")))

    def _of_ue(self, enb: Enb, message: s1ap.Message) -> None:
        ue = self.ues.get(message.values.get("mme", -1))
        if ue is None or enb.ues.get(ue.enb_id) is not ue:
            if message.name in ("ErrorIndication", "UEContextReleaseComplete"):
                return
            raise ProtocolError(f"{message.name} for a UE that is not known")
        if message.name == "UEContextReleaseRequest":
            attach.release(self, ue, ("radioNetwork", "radio-connection-with-ue-lost"))
        elif message.name in ("UEContextReleaseComplete", "ErrorIndication"):
            attach.disconnected(self, ue)
        else:
            ue.inbox.put_nowait(message)

    def new_guti(self) -> nas.Guti:
        """A GUTI that no UE has."""
        while (tmsi := next(self._tmsi) & 0xFFFFFFFF) in self.by_tmsi:
            pass
        return nas.Guti(self.config.gummeis[0], tmsi)
