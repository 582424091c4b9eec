"""The AMF: gNBs and N3IWFs on N2, subscribers from AUSF and UDM, PDU sessions at SMFs by slice."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from simulators.core5g import keys, nas, ngap, registration, sbi, sessions
from simulators.core5g.registration import Ue
from simulators.core5g.snssai import Snssai
from simulators.errors import ProtocolError
from simulators.shared import mobility_core
from simulators.shared.identity import Plmn, Tai
from simulators.shared.mobility_core import AccessNode, MobilityManagement
from simulators.transport import asn1

log = logging.getLogger("amf_app")


@dataclass(frozen=True)
class Guami:
    """A globally unique AMF identity."""

    plmn: Plmn
    region: int
    set: int
    pointer: int

    @property
    def ngap(self) -> dict[str, Any]:
        return {
            "pLMNIdentity": self.plmn.octets,
            "aMFRegionID": (self.region, 8),
            "aMFSetID": (self.set, 10),
            "aMFPointer": (self.pointer, 6),
        }

    @property
    def json(self) -> dict[str, Any]:
        """Return it in the form of TS 29.571."""
        amf = self.region << 16 | self.set << 6 | self.pointer
        return {"plmnId": {"mcc": self.plmn.mcc, "mnc": self.plmn.mnc}, "amfId": f"{amf:06x}"}


@dataclass(frozen=True)
class Config:
    """Configuration of the AMF."""

    name: str  # AMF name.
    n2: str  # N2 address.
    sbi: sbi.Config  # its part in the service-based architecture.
    guamis: tuple[Guami, ...]  # identities it serves; the first is in the GUTIs it assigns.
    slices: dict[Tai, frozenset[Snssai]]  # slices it supports by tracking area.
    ciphering: tuple[int, ...] = (nas.NEA0, nas.NEA2)  # NEA algorithms, the preferred one first.
    capacity: int = 10  # relative capacity.
    statistics: float = 20.0  # seconds between two tables of gNBs and UEs.


@dataclass(eq=False)
class Gnb(AccessNode[Ue]):
    """A connected gNB, or an N3IWF."""

    number: int = 0
    access: int = keys.ACCESS_3GPP  # its access type, a constant of ``keys``.
    plmn: Plmn | None = None
    slices: dict[Tai, frozenset[Snssai]] = field(default_factory=dict)


#: Identifier of a node in its global identity, and its access type.
_NODES = {
    "globalGNB-ID": ("gNB-ID", keys.ACCESS_3GPP),
    "globalN3IWF-ID": ("n3IWF-ID", keys.ACCESS_NON_3GPP),
}


class Amf(MobilityManagement[Ue, Gnb]):
    """The access and mobility management function."""

    protocol = ngap.PROTOCOL
    node_type, access = Gnb, "gNB"
    interface_log = logging.getLogger("amf_n2")
    nas_log = registration.log
    procedures, forget = registration.serve, registration.forget

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        transfer = "/namf-comm/v1/ue-contexts/{supi}/n1-n2-messages"
        status = "/namf-callback/v1/{supi}/sm-context-status/{session}/{reference}"
        self.node = sbi.Node(
            config.sbi,
            [
                Route(transfer, self._transfer, methods=["POST"]),
                Route(status, self._status, methods=["POST"]),
            ],
        )

    async def start(self) -> None:
        await self.node.start()
        self.listen(self.config.n2)
        self.spawn(self._report())
        log.info("AMF %s serves N2 on %s:%d", self.config.name, self.config.n2, self.protocol.port)

    async def stop(self) -> None:
        self.close()
        await self.node.stop()

    # -- the table that OAI's AMF logs ----------------------------------------------------------

    async def _report(self) -> None:
        while True:
            log.info("%s", self.table())
            await asyncio.sleep(self.config.statistics)

    def table(self) -> str:
        """Return gNBs and UEs in the columns of OAI's AMF (v2.2)."""
        gnbs = [
            (
                "Connected",
                f"0x{one.number:04X}",
                one.name,
                f"{one.plmn.mcc},{one.plmn.mnc}" if one.plmn else "-",
            )
            for one in self.nodes
            if one.ready
        ]
        ues = [
            (
                "5GMM-REGISTERED" if one.registered else "5GMM-DEREGISTERED",
                one.imsi,
                str(one.guti or ""),
                f"0x{one.access_id:02X}",
                f"0x{one.core_id:02X}",
                f"{one.tai.plmn.mcc},{one.tai.plmn.mnc}",
                f"{one.cell:09x}",
            )
            for one in self.by_imsi.values()
        ]
        return "\n".join(
            [
                "",
                *_rows("gNBs", (36,) * 4, ("Status", "Global Id", "gNB Name", "PLMN"), gnbs),
                "",
                *_rows("UEs", (20, 40, 20, 20, 20, 20, 20), _UE_COLUMNS, ues),
                "",
            ]
        )

    # -- N2 ---------------------------------------------------------------------------------------

    def set_up(self, node: Gnb, message: asn1.Message) -> None:
        kind, identity = message.need("GlobalRANNodeID")
        if kind not in _NODES:
            raise ProtocolError(f"A {kind} is no node that is served.")
        name, access = _NODES[kind]
        form, number = identity[name]
        if form != name:
            raise ProtocolError(f"The identifier of a {kind} is a {form}.")
        areas = {
            Tai(Plmn.decode(plmn["pLMNIdentity"]), int.from_bytes(area["tAC"], "big")): frozenset(
                Snssai.of_ngap(one["s-NSSAI"]) for one in plmn["tAISliceSupportList"]
            )
            for area in message.need("SupportedTAList")
            for plmn in area["broadcastPLMNList"]
        }
        served = {
            tai: areas[tai] & self.config.slices[tai]
            for tai in areas.keys() & self.config.slices.keys()
        }
        if not served:
            self.refuse(node, ("misc", "unknown-PLMN-or-SNPN"))
            return
        if not any(served.values()):
            self.refuse(node, ("radioNetwork", "slice-not-supported"))
            return
        node.slices, node.ready = served, True
        node.name = message.values.get("RANNodeName", "")
        node.plmn = Plmn.decode(identity["pLMNIdentity"])
        node.number, node.access = number[0], access
        by_plmn: dict[Plmn, set[Snssai]] = {}
        for tai, slices in self.config.slices.items():
            by_plmn.setdefault(tai.plmn, set()).update(slices)
        answer = {
            "AMFName": self.config.name,
            "ServedGUAMIList": [{"gUAMI": one.ngap} for one in self.config.guamis],
            "RelativeAMFCapacity": self.config.capacity,
            "PLMNSupportList": [
                {
                    "pLMNIdentity": plmn.octets,
                    "sliceSupportList": [{"s-NSSAI": one.ngap} for one in sorted(slices)],
                }
                for plmn, slices in by_plmn.items()
            ],
        }
        log.info("gNB '%s' at %s is connected", node.name, node.association.peer)
        node.association.send(0, self.protocol.encode("NGSetupResponse", answer))

    def new_ue(self, node: Gnb, core_id: int, access_id: int, message: asn1.Message) -> Ue:
        kind, where = message.need("UserLocationInformation")
        cell = 0
        if kind == "userLocationInformationNR":
            tac = int.from_bytes(where["tAI"]["tAC"], "big")
            tai = Tai(Plmn.decode(where["tAI"]["pLMNIdentity"]), tac)
            cell = where["nR-CGI"]["nRCellIdentity"][0]
        elif kind == "userLocationInformationN3IWF-with-PortNumber":
            tai = min(node.slices, key=lambda one: one.tac)  # an N3IWF sends an address, no TAI
        else:
            raise ProtocolError(f"The location is {kind}.")
        return Ue(
            core_id=core_id,
            access_id=access_id,
            node=node,
            tai=tai,
            cell=cell,
            access=node.access,
            offered=node.slices.get(tai, frozenset()),
        )

    def about(self, ue: Ue, message: asn1.Message) -> None:
        """Pass a message to the UE's sessions or its procedure."""
        if message.name in sessions.FROM_GNB:
            self.spawn(sessions.from_gnb(self, ue, message))
        else:
            super().about(ue, message)

    def reject(self, ue: Ue, error: mobility_core.RejectedError) -> None:
        registration.reject(ue, error)

    def idle(self, ue: Ue) -> None:
        """Handle the end of the UE's N2 connection."""
        if ue.registered:
            self.spawn(sessions.deactivate_all(self, ue))

    # -- SBI --------------------------------------------------------------------------------------

    def _ue(self, request: Request) -> Ue:
        ue = self.by_imsi.get(request.path_params["supi"].removeprefix("imsi-"))
        if ue is None:
            raise sbi.SbiError(404, "CONTEXT_NOT_FOUND")
        return ue

    async def _transfer(self, request: Request) -> Response:
        ue = self._ue(request)
        document, parts = await sbi.parts(request)
        if not ue.connected:
            return sbi.problem(504, "UE_NOT_REACHABLE")
        sessions.to_ue(
            ue,
            document["pduSessionId"],
            parts.get("n1", b""),
            document.get("n2InfoContainer", {}).get("smInfo", {}),
            parts.get("n2", b""),
        )
        return JSONResponse({"cause": "N1_N2_TRANSFER_INITIATED"})

    async def _status(self, request: Request) -> Response:
        ue = self._ue(request)
        document = await sbi.body(request)
        session = int(request.path_params["session"])
        context = ue.sessions.get(session)
        # The notification may be late, of a session that has given its identity to another.
        same = context is not None and str(context.reference) == request.path_params["reference"]
        if same and document["statusInfo"]["resourceStatus"] == "RELEASED":
            del ue.sessions[session]
        return Response(status_code=204)


_UE_COLUMNS = (
    "5GMM State",
    "IMSI/SUPI",
    "GUTI",
    "RAN UE NGAP ID",
    "AMF UE NGAP ID",
    "PLMN",
    "Cell Id",
)


def _rows(
    what: str, widths: tuple[int, ...], names: tuple[str, ...], rows: Sequence[tuple[str, ...]]
) -> list[str]:
    """Return a table with a title, a header and numbered rows, indented by three spaces."""
    size = 9 + sum(width + 1 for width in widths) - 1
    rule = f"   |{'-' * size}|"

    def row(first: str, cells: tuple[str, ...]) -> str:
        shown = (f"{cell:^{width}}" for cell, width in zip(cells, widths, strict=True))
        return f"   | {first:^7}|{'|'.join(shown)}|"

    numbered = [row(str(number), cells) for number, cells in enumerate(rows, 1)]
    empty = [row("-", ("-",) * len(widths))]
    title = f"{what}' Information"
    return [rule, f"   |{title:-^{size}}|", row("Index", names), *(numbered or empty), rule]
