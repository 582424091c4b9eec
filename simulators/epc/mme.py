"""The MME: eNBs over S1AP, subscribers from the HSS over S6a, sessions from the SPGW-C over S11."""

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import Any

from diameter.message import Message as DiameterMessage
from diameter.message.commands import CancelLocationRequest

from simulators.epc import attach, diameter, gtpc, nas, s1ap, s6a
from simulators.epc.attach import Ue
from simulators.epc.statistics import Statistics
from simulators.errors import EpcError
from simulators.shared import mobility_core
from simulators.shared.identity import Gummei, Tai
from simulators.shared.mobility_core import AccessNode, MobilityManagement
from simulators.transport import asn1, udp
from simulators.transport.tlv import Message, number

log = logging.getLogger("MME_APP")
service303 = logging.getLogger("SERVICE303")

ECHO = 10.0  # Seconds between echo requests on S11, which show a restart of the SPGW-C.


@dataclass(frozen=True)
class Config:
    """Configuration of the MME."""

    s6a: diameter.Identity  # its Diameter identity, with the S6a address.
    # `hss_host`, `hss_realm`, `hss_address`, `hss_port`: the HSS.
    hss_host: str
    hss_realm: str
    hss_address: str
    s1: str  # S1-C address.
    s11: str  # S11 address.
    sgw: str  # S11 address of the SPGW-C.
    gummeis: tuple[Gummei, ...]  # identities it serves; the first is in the GUTIs it assigns.
    tais: frozenset[Tai]  # tracking areas it serves.
    hss_port: int = 3868
    # `max_enbs`, `max_ues`: limits.
    max_enbs: int = 64
    max_ues: int = 4096
    ciphering: int = nas.EEA0  # EEA algorithm for NAS, 0 or 2.
    statistics: float = 60.0  # seconds between two tables of connections.


Enb = AccessNode[Ue]


class Mme(MobilityManagement[Ue, Enb]):
    """The mobility management entity."""

    protocol = s1ap.PROTOCOL
    node_type, access = AccessNode, "eNB"
    interface_log = log
    nas_log = attach.log
    procedures, forget, idle = attach.serve, attach.forget, attach.idle

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.statistics = Statistics()
        self.response_times: dict[str, list[float]] = {"AIR": [], "ULR": []}
        self.hss = diameter.Client(config.s6a, self._from_hss, config.hss_host, config.s6a.address)
        self.s11 = udp.Endpoint(gtpc.CODEC, self._from_sgw)
        self._sgw_restarts: int | None = None

    async def start(self) -> None:
        """Open all interfaces and keep the connection to the HSS."""
        config = self.config
        await self.s11.start(config.s11, gtpc.PORT)
        self.listen(config.s1)
        self.spawn(self.hss.run(config.hss_address, config.hss_port))
        self.spawn(self._report())
        self.spawn(self._watch_sgw())
        log.debug("MME app initialization complete")

    def stop(self) -> None:
        self.s11.stop()
        self.close()

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(self.config.statistics)
            for line in self.statistics.table().splitlines():
                service303.debug("%s", line)

    # -- S6a --------------------------------------------------------------------------------------

    async def ask_hss(self, kind: str, request: DiameterMessage) -> Any:
        """Send an AIR or ULR and record its response time; return the answer."""
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
        """Drop sessions after a restart of the SPGW-C; UEs attach again (TS 23.007 section 14)."""
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

    def node_gone(self) -> None:
        """Decrement the number of eNBs."""
        self.statistics.remove("Connected eNBs")

    def set_up(self, node: Enb, message: asn1.Message) -> None:
        areas = s1ap.areas_of(message.need("SupportedTAs"))
        message.need("Global-ENB-ID")
        if sum(one.ready for one in self.nodes) >= self.config.max_enbs and not node.ready:
            self.refuse(node, ("misc", "control-processing-overload"))
            return
        if not areas & self.config.tais:
            self.refuse(node, ("misc", "unknown-PLMN"))
            return
        node.name = message.values.get("ENBname", "")
        if not node.ready:
            self.statistics.add("Connected eNBs")
        node.ready = True
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
        log.info("eNB '%s' at %s is connected", node.name, node.association.peer)
        answer = {
            "MMEname": self.config.s6a.host.partition(".")[0],
            "ServedGUMMEIs": list(gummei.values()),
            "RelativeMMECapacity": 10,
        }
        node.association.send(0, s1ap.PROTOCOL.encode("S1SetupResponse", answer))

    def new_ue(self, node: Enb, core_id: int, access_id: int, message: asn1.Message) -> Ue:
        tai, cell = s1ap.tai_of(message.need("TAI")), message.need("EUTRAN-CGI")["cell-ID"][0]
        ue = Ue(core_id=core_id, access_id=access_id, node=node, tai=tai, cell=cell)
        self.statistics.add("Connected UEs")
        return ue

    def reject(self, ue: Ue, error: mobility_core.RejectedError) -> None:
        esm = getattr(error, "esm", None)
        ue.nas(nas.attach_reject(error.cause, b"" if esm is None else nas.connectivity_reject(esm)))
