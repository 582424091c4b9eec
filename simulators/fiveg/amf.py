"""The AMF: gNBs over N2, subscribers from AUSF and UDM, PDU sessions at SMFs by slice."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from simulators import sctp
from simulators.errors import EpcError, ProtocolError
from simulators.fiveg import nas, ngap, registration, sbi, sessions
from simulators.fiveg.registration import Ue
from simulators.fiveg.slices import Snssai
from simulators.identity import Plmn, Tai

log = logging.getLogger("amf_app")
n2 = logging.getLogger("amf_n2")

#: Registrations under way at once; further ones wait, so that a storm is late, not timed out.
ADMITTED = 32


@dataclass(frozen=True)
class Guami:
    """A globally unique AMF identity."""

    plmn: Plmn
    region: int
    set: int
    pointer: int

    @property
    def ngap(self) -> dict[str, Any]:
        """The form of NGAP."""
        return {
            "pLMNIdentity": self.plmn.octets,
            "aMFRegionID": (self.region, 8),
            "aMFSetID": (self.set, 10),
            "aMFPointer": (self.pointer, 6),
        }

    @property
    def json(self) -> dict[str, Any]:
        """The form of TS 29.571."""
        amf = self.region << 16 | self.set << 6 | self.pointer
        return {"plmnId": {"mcc": self.plmn.mcc, "mnc": self.plmn.mnc}, "amfId": f"{amf:06x}"}


@dataclass(frozen=True)
class Config:
    """How the AMF is set up.

    Attributes:
        name: AMF name.
        n2: N2 address.
        sbi: its part in the service-based architecture.
        guamis: identities it serves; the first is in the GUTIs it assigns.
        slices: slices it supports by tracking area.
        ciphering: NEA algorithms, the preferred one first.
        capacity: relative capacity.
        statistics: seconds between two tables of gNBs and UEs.
    """

    name: str
    n2: str
    sbi: sbi.Config
    guamis: tuple[Guami, ...]
    slices: dict[Tai, frozenset[Snssai]]
    ciphering: tuple[int, ...] = (nas.NEA0, nas.NEA2)
    capacity: int = 10
    statistics: float = 20.0


@dataclass
class Gnb:
    """A connected gNB."""

    association: sctp.Association
    name: str = ""
    number: int = 0
    plmn: Plmn | None = None
    slices: dict[Tai, frozenset[Snssai]] = field(default_factory=dict)
    ready: bool = False
    ues: dict[int, Ue] = field(default_factory=dict)  # by the gNB's identifier


class Amf:
    """The access and mobility management function."""

    def __init__(self, config: Config) -> None:
        """Set up by a configuration."""
        self.config = config
        self.ues: dict[int, Ue] = {}  # by our NGAP identifier
        self.by_imsi: dict[str, Ue] = {}
        self.by_tmsi: dict[int, Ue] = {}
        self.gnbs: dict[int, Gnb] = {}
        self.admission = asyncio.Semaphore(ADMITTED)
        self._numbers = itertools.count(1)
        self._tmsi = itertools.count(int.from_bytes(os.urandom(3), "big") << 8)
        self._listener: sctp.Listener | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        transfer = "/namf-comm/v1/ue-contexts/{supi}/n1-n2-messages"
        status = "/namf-callback/v1/{supi}/sm-context-status/{session}"
        self.node = sbi.Node(
            config.sbi,
            [
                Route(transfer, self._transfer, methods=["POST"]),
                Route(status, self._status, methods=["POST"]),
            ],
        )

    async def start(self) -> None:
        """Open N2 and SBI."""
        await self.node.start()
        self._listener = sctp.listen(self.config.n2, ngap.PORT, self._accepted, ngap.PPID)
        self.spawn(self._report())
        log.info("AMF %s serves N2 on %s:%d", self.config.name, self.config.n2, ngap.PORT)

    async def stop(self) -> None:
        """Close all."""
        if self._listener is not None:
            self._listener.close()
        for gnb in list(self.gnbs.values()):
            gnb.association.close()
        for task in list(self._tasks):
            task.cancel()
        await self.node.stop()

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """Run a coroutine in parallel to the others until the AMF stops."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- the table that OAI's AMF logs ----------------------------------------------------------

    async def _report(self) -> None:
        while True:
            log.info("%s", self.table())
            await asyncio.sleep(self.config.statistics)

    def table(self) -> str:
        """gNBs and UEs in the columns of OAI's AMF (v2.2)."""
        gnbs = [
            (
                "Connected",
                f"0x{one.number:04X}",
                one.name,
                f"{one.plmn.mcc},{one.plmn.mnc}" if one.plmn else "-",
            )
            for one in self.gnbs.values()
            if one.ready
        ]
        ues = [
            (
                "5GMM-REGISTERED" if one.registered else "5GMM-DEREGISTERED",
                one.imsi,
                str(one.guti or ""),
                f"0x{one.ran_id:02X}",
                f"0x{one.amf_id:02X}",
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

    def _accepted(self, association: sctp.Association) -> None:
        gnb = Gnb(association)
        self.gnbs[id(gnb)] = gnb
        association.on_message = lambda stream, octets: self._received(gnb, octets)
        association.on_close = lambda: self._lost(gnb)

    def _lost(self, gnb: Gnb) -> None:
        self.gnbs.pop(id(gnb), None)
        if gnb.ready:
            log.error("gNB '%s' at %s is gone", gnb.name, gnb.association.peer)
        for ue in list(gnb.ues.values()):
            registration.disconnected(self, ue)
        gnb.ues.clear()

    def _received(self, gnb: Gnb, octets: bytes) -> None:
        try:
            message = ngap.decode(octets)
            if message.name == "NGSetupRequest":
                self._setup(gnb, message)
            elif not gnb.ready:
                raise ProtocolError(f"{message.name} before NG Setup")
            elif message.name == "InitialUEMessage":
                self._initial(gnb, message)
            else:
                self._of_ue(gnb, message)
        except EpcError as error:
            n2.error("NGAP from %s: %s", gnb.association.peer, error)
            cause = {"Cause": ("protocol", "semantic-error")}
            with contextlib.suppress(EpcError):
                gnb.association.send(0, ngap.encode("ErrorIndication", cause))

    def _setup(self, gnb: Gnb, message: ngap.Message) -> None:
        _, identity = message.need("GlobalRANNodeID")
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
        cause = None
        if not served:
            cause = ("misc", "unknown-PLMN-or-SNPN")
        elif not any(served.values()):
            cause = ("radioNetwork", "slice-not-supported")
        if cause is not None:
            log.error("gNB at %s refused: %s", gnb.association.peer, cause[1])
            gnb.association.send(0, ngap.encode("NGSetupFailure", {"Cause": cause}))
            return
        gnb.slices, gnb.ready = served, True
        gnb.name = message.values.get("RANNodeName", "")
        gnb.plmn = Plmn.decode(identity["pLMNIdentity"])
        gnb.number = identity["gNB-ID"][1][0]
        by_plmn: dict[Plmn, set[Snssai]] = {}
        for tai, found in self.config.slices.items():
            by_plmn.setdefault(tai.plmn, set()).update(found)
        answer = {
            "AMFName": self.config.name,
            "ServedGUAMIList": [{"gUAMI": one.ngap} for one in self.config.guamis],
            "RelativeAMFCapacity": self.config.capacity,
            "PLMNSupportList": [
                {
                    "pLMNIdentity": plmn.octets,
                    "sliceSupportList": [{"s-NSSAI": one.ngap} for one in sorted(found)],
                }
                for plmn, found in by_plmn.items()
            ],
        }
        log.info("gNB '%s' at %s is connected", gnb.name, gnb.association.peer)
        gnb.association.send(0, ngap.encode("NGSetupResponse", answer))

    def _initial(self, gnb: Gnb, message: ngap.Message) -> None:
        number = message.need("RAN-UE-NGAP-ID")
        kind, where = message.need("UserLocationInformation")
        if kind != "userLocationInformationNR":
            raise ProtocolError(f"The location is {kind}.")
        tai = Tai(
            Plmn.decode(where["tAI"]["pLMNIdentity"]), int.from_bytes(where["tAI"]["tAC"], "big")
        )
        ue = Ue(
            amf_id=next(self._numbers),
            ran_id=number,
            tai=tai,
            cell=where["nR-CGI"]["nRCellIdentity"][0],
            offered=gnb.slices.get(tai, frozenset()),
            association=gnb.association,
            stream=1 + number % (sctp.STREAMS - 1),
            forget=lambda: gnb.ues.pop(number, None),
        )
        gnb.ues[number] = ue
        self.ues[ue.amf_id] = ue
        ue.task = self.spawn(registration.serve(self, ue, message.need("NAS-PDU")))

    def _of_ue(self, gnb: Gnb, message: ngap.Message) -> None:
        ue = self.ues.get(message.values.get("AMF-UE-NGAP-ID", -1))
        if ue is None or gnb.ues.get(ue.ran_id) is not ue:
            if message.name in ("ErrorIndication", "UEContextReleaseComplete"):
                return
            raise ProtocolError(f"{message.name} for a UE that is not known")
        if message.name == "UEContextReleaseRequest":
            registration.release(self, ue, ("radioNetwork", "radio-connection-with-ue-lost"))
        elif message.name in ("UEContextReleaseComplete", "ErrorIndication"):
            registration.disconnected(self, ue)
        elif message.name in sessions.FROM_GNB:
            self.spawn(sessions.from_gnb(self, ue, message))
        else:
            ue.inbox.put_nowait(message)

    def new_guti(self) -> nas.Guti:
        """A GUTI that no UE has."""
        while (tmsi := next(self._tmsi) & 0xFFFFFFFF) in self.by_tmsi:
            pass
        one = self.config.guamis[0]
        return nas.Guti(one.plmn, one.region, one.set, one.pointer, tmsi)

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
        if document["statusInfo"]["resourceStatus"] == "RELEASED":
            ue.sessions.pop(int(request.path_params["session"]), None)
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
    """A table with a title, a header and numbered rows, indented by three spaces."""
    size = 9 + sum(width + 1 for width in widths) - 1
    rule = f"   |{'-' * size}|"

    def row(first: str, cells: tuple[str, ...]) -> str:
        shown = (f"{cell:^{width}}" for cell, width in zip(cells, widths, strict=True))
        return f"   | {first:^7}|{'|'.join(shown)}|"

    numbered = [row(str(number), cells) for number, cells in enumerate(rows, 1)]
    empty = [row("-", ("-",) * len(widths))]
    title = f"{what}' Information"
    return [rule, f"   |{title:-^{size}}|", row("Index", names), *(numbered or empty), rule]
