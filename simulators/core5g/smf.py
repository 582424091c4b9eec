"""The SMF: PDU sessions of a slice, their addresses, and their rules in a UPF (TS 29.502)."""

import asyncio
import ipaddress
import itertools
import json
import logging
import os
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from simulators.core5g import nas, ngap, sbi
from simulators.core5g.snssai import Snssai
from simulators.errors import EpcError, ProtocolError
from simulators.shared import pfcp_control
from simulators.shared.addresses import Pdn, Pool

log = logging.getLogger("smf_app")

_MAX_QFI = 63


@dataclass(frozen=True)
class Config:
    """Configuration of the SMF."""

    n4: str  # N4 address.
    sbi: sbi.Config  # its part in the service-based architecture.
    dnns: tuple[Pdn, ...]  # data networks, each with the addresses of its UEs.
    # Slices it serves with their DNNs; empty for all.
    slices: frozenset[tuple[Snssai, str]] = frozenset()
    dns: tuple[str, ...] = ()  # name servers for UEs.
    mtu: int = 1500  # MTU for UEs, in bytes.
    # 5QI and session AMBR (down, up) by slice and DNN; they replace the UDM's.
    local: dict[tuple[Snssai, str], tuple[int, str, str]] | None = None
    upf: str = ""  # address of the UPF with which it associates; without one, it waits for the UPF.


@dataclass
class Context:
    """An SM context: one PDU session."""

    supi: str
    number: int
    dnn: str
    snssai: Snssai
    status: str
    five_qi: int
    ambr: tuple[str, str]
    transaction: int
    user: pfcp_control.Session


class RejectedError(EpcError):
    """A PDU session is refused with a 5GSM cause."""

    def __init__(self, cause: int, problem: str) -> None:
        """Keep the cause, and the application error (``problem``) of TS 29.502."""
        self.cause = cause
        self.problem = problem
        super().__init__(nas.SM_CAUSES.get(cause, str(cause)))


class Smf:
    """The session management function."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.contexts: dict[str, Context] = {}
        self.n4 = pfcp_control.ControlPlane(config.n4, "UPF")
        self._pools = {one.apn: Pool(one) for one in config.dnns}
        self._numbers = itertools.count(int.from_bytes(os.urandom(3), "big") + 1)
        # Random start: the AMF may still have references of an earlier process.
        self._references = itertools.count(int.from_bytes(os.urandom(6), "big"))
        self._tasks: set[asyncio.Task[None]] = set()
        base = "/nsmf-pdusession/v1/sm-contexts"
        self.node = sbi.Node(
            config.sbi,
            [
                Route(base, self._create, methods=["POST"]),
                Route(base + "/{reference}/modify", self._modify, methods=["POST"]),
                Route(base + "/{reference}/release", self._release, methods=["POST"]),
            ],
        )

    async def start(self) -> None:
        await self.n4.start(self.config.upf)
        await self.node.start()

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        self.n4.stop()
        await self.node.stop()

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- creation -------------------------------------------------------------------------------

    async def _create(self, request: Request) -> Response:
        document, parts = await sbi.parts(request)
        asked = nas.decode(parts.get("n1", b""))
        if asked.name != "PDUSessionEstabRequest":
            return sbi.problem(400, "N1_SM_ERROR")
        try:
            context = await self._context(document, asked)
        except RejectedError as error:
            supi, number = document["supi"], document["pduSessionId"]
            log.error("PDU session %d of %s refused: %s", number, supi, error)
            n1 = nas.encode_sm(
                "PDUSessionEstabReject", number, asked.transaction, {"5GSMCause": error.cause}
            )
            answer = {"error": {"status": 403, "cause": error.problem}}
            return _related(403, answer | {"n1SmMsg": {"contentId": "n1"}}, n1=n1)
        reference = str(next(self._references))
        self.contexts[reference] = context
        self._spawn(self._accept(context))
        location = f"{request.url.path}/{reference}"
        return Response(b"{}", 201, {"Location": location}, "application/json")

    async def _context(self, document: dict[str, Any], asked: nas.Message) -> Context:
        snssai, supi = Snssai.of(document["sNssai"]), document["supi"]
        dnn = document.get("dnn") or next(iter(self._pools), "")
        pool = self._pools.get(dnn)
        served = self.config.slices
        if pool is None or (served and (snssai, dnn) not in served):
            raise RejectedError(nas.UNKNOWN_DNN_IN_SLICE, "DNN_NOT_SUPPORTED")
        five_qi, ambr = await self._subscribed(supi, snssai, dnn, document["servingNetwork"])
        await self._replace(supi, document["pduSessionId"])
        address = pool.take()
        if address is None:
            raise RejectedError(nas.NO_RESOURCES, "INSUFFICIENT_RESOURCES_SLICE_DNN")
        qfi = five_qi if five_qi <= _MAX_QFI else 1
        user = pfcp_control.Session(supi, dnn, address, next(self._numbers), qfi)
        try:
            await self.n4.establish(user)
        except EpcError as error:
            log.error("N4 of %s: %s", supi, error)
            pool.release(address)
            raise RejectedError(nas.NETWORK_DOWN, "PEER_NOT_RESPONDING") from None
        status = document["smContextStatusUri"]
        number, transaction = document["pduSessionId"], asked.transaction
        return Context(supi, number, dnn, snssai, status, five_qi, ambr, transaction, user)

    async def _subscribed(
        self, supi: str, snssai: Snssai, dnn: str, plmn: dict[str, str]
    ) -> tuple[int, tuple[str, str]]:
        """Return 5QI and session AMBR of a subscriber."""
        if self.config.local is not None:
            rule = self.config.local.get((snssai, dnn))
            if rule is None:
                raise RejectedError(nas.UNKNOWN_DNN_IN_SLICE, "DNN_DENIED")
            return rule[0], (rule[1], rule[2])
        query = {
            "single-nssai": json.dumps(snssai.json),
            "dnn": dnn,
            "plmn-id": json.dumps(plmn),
        }
        try:
            url = await self.node.url("UDM") + f"/nudm-sdm/v2/{supi}/sm-data"
            [first, *_] = (await self.node.call("GET", url, params=query)).json()
        except sbi.SbiError as error:
            if error.status == 404:
                raise RejectedError(nas.UNKNOWN_DNN_IN_SLICE, "DNN_DENIED") from None
            raise RejectedError(nas.NETWORK_DOWN, "NETWORK_FAILURE") from None
        one = first["dnnConfigurations"][dnn]
        rates = one["sessionAmbr"]["downlink"], one["sessionAmbr"]["uplink"]
        return int(one["5gQosProfile"]["5qi"]), rates

    async def _replace(self, supi: str, number: int) -> None:
        for reference, context in list(self.contexts.items()):
            if (context.supi, context.number) == (supi, number):
                await self._forget(reference)

    async def _accept(self, context: Context) -> None:
        """Send the accept to the UE, and the tunnel to the gNB (Namf_Communication)."""
        user = context.user
        options = [
            {"ID": 0x0D, "Cont": ipaddress.IPv4Address(one).packed} for one in self.config.dns
        ]
        options.append({"ID": 0x10, "Cont": self.config.mtu.to_bytes(2, "big")})
        assert user.qfi is not None  # noqa: S101
        accept = {
            "SSCMode": {"Value": 1},
            "PDUSessType": {"Value": 1},
            "QoSRules": nas.whole(user.qfi),
            "SessAMBR": nas.ambr(*context.ambr),
            "PDUAddress": nas.address(user.address),
            "SNSSAI": context.snssai.nas,
            "QoSFlowDesc": nas.flow(user.qfi, context.five_qi),
            "ExtProtConfig": {"Config": options},
            "DNN": context.dnn,
        }
        priority = {
            "priorityLevelARP": 15,
            "pre-emptionCapability": "shall-not-trigger-pre-emption",
            "pre-emptionVulnerability": "not-pre-emptable",
        }
        characteristics = ("nonDynamic5QI", {"fiveQI": context.five_qi})
        flow = {
            "qosFlowIdentifier": user.qfi,
            "qosFlowLevelQosParameters": {
                "qosCharacteristics": characteristics,
                "allocationAndRetentionPriority": priority,
            },
        }
        teid, address = user.uplink
        n2 = ngap.transfer(
            "PDUSessionResourceSetupRequestTransfer",
            {
                "UPTransportLayerInformation": ngap.tunnel(address, teid),
                "PDUSessionType": "ipv4",
                "QosFlowSetupRequestList": [flow],
            },
        )
        document = {
            "pduSessionId": context.number,
            "n1MessageContainer": {"n1MessageClass": "SM", "n1MessageContent": {"contentId": "n1"}},
            "n2InfoContainer": {
                "n2InformationClass": "SM",
                "smInfo": {
                    "pduSessionId": context.number,
                    "n2InfoContent": {
                        "ngapIeType": "PDU_RES_SETUP_REQ",
                        "ngapData": {"contentId": "n2"},
                    },
                },
            },
        }
        path = f"/namf-comm/v1/ue-contexts/{context.supi}/n1-n2-messages"
        try:
            n1 = nas.encode_sm("PDUSessionEstabAccept", context.number, context.transaction, accept)
            url = await self.node.url("AMF") + path
            await self.node.call("POST", url, **sbi.related(document, n1=n1, n2=n2))
        except EpcError as error:
            log.error("PDU session %d of %s: %s", context.number, context.supi, error)

    # -- changes --------------------------------------------------------------------------------

    def _context_of(self, request: Request) -> tuple[str, Context]:
        reference = request.path_params["reference"]
        context = self.contexts.get(reference)
        if context is None:
            raise sbi.SbiError(404, "CONTEXT_NOT_FOUND")
        return reference, context

    async def _modify(self, request: Request) -> Response:
        reference, context = self._context_of(request)
        document, parts = await sbi.parts(request)
        kind = document.get("n2SmInfoType", "")
        if kind == "PDU_RES_SETUP_RSP":
            name = "PDUSessionResourceSetupResponseTransfer"
            answer = ngap.transfer_of(name, parts["n2"])["dLQosFlowPerTNLInformation"]
            address, teid = ngap.tunnel_of(answer["uPTransportLayerInformation"])
            await self.n4.forward(context.user, (teid, address))
            self._show(context.supi)
        elif kind == "PDU_RES_SETUP_FAIL":
            log.error("The gNB refuses PDU session %d of %s", context.number, context.supi)
            await self._ended(reference, context)
        elif document.get("upCnxState") == "DEACTIVATED":
            await self.n4.hold(context.user)
        if "n1" in parts:
            return await self._n1(reference, context, nas.decode(parts["n1"]))
        return Response(status_code=204)

    async def _n1(self, reference: str, context: Context, message: nas.Message) -> Response:
        if message.name == "PDUSessionReleaseRequest":
            await self._cut(context)
            values = {"5GSMCause": nas.REGULAR}
            n1 = nas.encode_sm(
                "PDUSessionReleaseCommand", context.number, message.transaction, values
            )
            cause = {"cause": ("nas", "normal-release")}
            n2 = ngap.transfer("PDUSessionResourceReleaseCommandTransfer", cause)
            document = {
                "n1SmMsg": {"contentId": "n1"},
                "n2SmInfo": {"contentId": "n2"},
                "n2SmInfoType": "PDU_RES_REL_CMD",
            }
            return _related(200, document, n1=n1, n2=n2)
        if message.name == "PDUSessionReleaseComplete":
            await self._ended(reference, context)
            return Response(status_code=204)
        raise ProtocolError(f"5GSM message {message.name}")

    async def _ended(self, reference: str, context: Context) -> None:
        await self._forget(reference)
        try:
            status = {"statusInfo": {"resourceStatus": "RELEASED"}}
            await self.node.call("POST", context.status, status)
        except sbi.SbiError as error:
            log.error("AMF, release of PDU session %d: %s", context.number, error)

    async def _release(self, request: Request) -> Response:
        reference, _ = self._context_of(request)
        await self._forget(reference)
        return Response(status_code=204)

    async def _forget(self, reference: str) -> None:
        context = self.contexts.pop(reference, None)
        if context is None:
            return
        await self._cut(context)
        self._pools[context.dnn].release(context.user.address)
        self._show(context.supi)

    async def _cut(self, context: Context) -> None:
        """Remove a session from the UPF; a UPF that does not answer has lost it, or drops it."""
        if context.user.seid in self.n4.sessions:
            try:
                await self.n4.delete(context.user)
            except EpcError as error:
                log.error("N4 of %s: %s", context.supi, error)

    def _show(self, supi: str) -> None:
        """Log a subscriber's sessions in the format of OAI's SMF."""
        lines = ["SMF context:", " ", "SMF CONTEXT:", f"SUPI:\t\t\t\t{supi}"]
        for one in self.contexts.values():
            if one.supi == supi:
                lines += [
                    "PDU SESSION:\t\t\t\t",
                    f"\tPDU Session ID:\t\t\t{one.number}",
                    f"\tDNN:\t\t{one.dnn}",
                    f"\tS-NSSAI:\t\t\tsst, sd: {one.snssai}",
                    "\tPDN type:\t\tIPV4",
                    f"\tPAA IPv4:\t\t{one.user.address}",
                    f"\tDefault QFI:\t\t{one.user.qfi}",
                    f"\tSEID:\t\t\t{one.user.seid}",
                ]
        log.info("%s", "\n".join([*lines, ""]))


def _related(status: int, document: Any, **parts: bytes) -> Response:
    made = sbi.related(document, **parts)
    return Response(made["content"], status, made["headers"])
