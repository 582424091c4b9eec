"""PDU sessions at the AMF, between UE, gNB and the SMF of the slice (TS 23.502 clause 4.3)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simulators.core5g import keys, nas, ngap, sbi
from simulators.core5g.snssai import Snssai
from simulators.errors import EpcError
from simulators.transport import asn1

if TYPE_CHECKING:
    from simulators.core5g.amf import Amf
    from simulators.core5g.registration import Ue

log = logging.getLogger("amf_n11")

_references = itertools.count(1)


@dataclass
class Context:
    """A PDU session: its slice, its DNN, and its SM context at the SMF.

    ``reference`` is in the URI to which the SMF sends the session's status.
    """

    snssai: Snssai
    dnn: str
    url: str = ""
    reference: int = field(default_factory=_references.__next__)


def to_ue(ue: Ue, session: int, n1: bytes, information: dict[str, Any], n2: bytes = b"") -> None:
    """Send an SMF's N1 and N2 content to UE and gNB."""
    pdu = b""
    if n1:
        values = {"PayloadContainerType": nas.N1_SM, "PayloadContainer": n1, "PDUSessID": session}
        pdu = ue.sealed(nas.encode("DLNASTransport", values))
    context = ue.sessions.get(session)
    kind = information.get("n2InfoContent", {}).get("ngapIeType", "") if n2 else ""
    if kind == "PDU_RES_SETUP_REQ" and context is not None:
        item: dict[str, Any] = {
            "pDUSessionID": session,
            "s-NSSAI": context.snssai.ngap,
            "pDUSessionResourceSetupRequestTransfer": n2,
        }
        if pdu:
            item["pDUSessionNAS-PDU"] = pdu
        ambr = {
            "uEAggregateMaximumBitRateDL": 10**9,
            "uEAggregateMaximumBitRateUL": 10**9,
        }
        ue.tell(
            "PDUSessionResourceSetupRequest",
            PDUSessionResourceSetupListSUReq=[item],
            UEAggregateMaximumBitRate=ambr,
        )
    elif kind == "PDU_RES_REL_CMD":
        item = {"pDUSessionID": session, "pDUSessionResourceReleaseCommandTransfer": n2}
        values = {"NAS_PDU": pdu} if pdu else {}
        ue.tell(
            "PDUSessionResourceReleaseCommand",
            PDUSessionResourceToReleaseListRelCmd=[item],
            **values,
        )
    elif pdu:
        ue.tell("DownlinkNASTransport", NAS_PDU=pdu)


def _unforwarded(ue: Ue, message: nas.Message, cause: int, why: str) -> None:
    """Return a 5GSM message to the UE with a 5GMM cause (TS 24.501 section 5.4.5.3.1)."""
    log.error("UE imsi-%s: %s", ue.imsi, why)
    values = {
        "PayloadContainerType": nas.N1_SM,
        "PayloadContainer": message.need("PayloadContainer"),
        "PDUSessID": message.need("PDUSessID"),
        "5GMMCause": cause,
    }
    with contextlib.suppress(EpcError):
        ue.nas(nas.encode("DLNASTransport", values))


async def from_ue(amf: Amf, ue: Ue, message: nas.Message) -> None:
    """Pass a 5GSM message of the UE to the SMF."""
    try:
        number = message.need("PDUSessID")
        if message.values.get("RequestType", {}).get("Value") == 1:
            await _create(amf, ue, message)
            return
        context = ue.sessions.get(number)
        if context is None or not context.url:
            _unforwarded(ue, message, nas.NOT_FORWARDED, f"PDU session {number} is not known")
            return
        n1 = message.need("PayloadContainer")
        await _modify(amf, ue, number, {"n1SmMsg": {"contentId": "n1"}}, n1=n1)
    except EpcError as error:
        log.error("PDU session of imsi-%s: %s", ue.imsi, error)


async def _create(amf: Amf, ue: Ue, message: nas.Message) -> None:
    number = message.need("PDUSessID")
    snssai = ue.allowed[0]
    if "SNSSAI" in message.values:
        snssai = Snssai.of_nas(message.values["SNSSAI"])
    if snssai not in ue.allowed:
        _unforwarded(ue, message, nas.NOT_FORWARDED, f"slice {snssai} is not allowed")
        return
    dnn = nas.dnn(message.values["DNN"]) if "DNN" in message.values else ""
    query: dict[str, Any] = {"snssais": [snssai.json]} | ({"dnn": dnn} if dnn else {})
    try:
        url = await amf.node.url("SMF", **query)
    except sbi.SbiError as error:
        why, cause = f"no SMF for slice {snssai}: {error}", nas.NOT_FORWARDED
        if dnn and await amf.node.find("SMF", snssais=[snssai.json]):
            why, cause = f"no DNN '{dnn}' in slice {snssai}", nas.DNN_NOT_SUBSCRIBED
        _unforwarded(ue, message, cause, why)
        return
    old = ue.sessions.pop(number, None)
    if old is not None:
        await _release(amf, old)
    context = ue.sessions[number] = Context(snssai, dnn)
    own = f"http://{amf.config.sbi.address}:{amf.config.sbi.port}"
    status = f"/namf-callback/v1/imsi-{ue.imsi}/sm-context-status/{number}/{context.reference}"
    plmn = {"mcc": ue.tai.plmn.mcc, "mnc": ue.tai.plmn.mnc}
    document = {
        "supi": f"imsi-{ue.imsi}",
        "pduSessionId": number,
        "dnn": dnn,
        "sNssai": snssai.json,
        "servingNfId": amf.node.instance,
        "guami": amf.config.guamis[0].json,
        "servingNetwork": plmn,
        "requestType": "INITIAL_REQUEST",
        "anType": "3GPP_ACCESS" if ue.access == keys.ACCESS_3GPP else "NON_3GPP_ACCESS",
        "ratType": keys.RAT[ue.access],
        "n1SmMsg": {"contentId": "n1"},
        "smContextStatusUri": f"{own}{status}",
    }
    request = sbi.related(document, n1=message.need("PayloadContainer"))
    try:
        answer = await amf.node.call("POST", f"{url}/nsmf-pdusession/v1/sm-contexts", **request)
    except sbi.SbiError as error:
        if ue.sessions.get(number) is context:
            del ue.sessions[number]
        _, parts = sbi.parts_of("multipart/related; boundary=----Boundary", error.content)
        if parts.get("n1"):
            log.error("PDU session of imsi-%s refused: %s", ue.imsi, error)
            to_ue(ue, number, parts["n1"], {})
        else:
            _unforwarded(ue, message, nas.NOT_FORWARDED, f"the SMF does not answer: {error}")
        return
    context.url = f"{url}{answer.headers['location'][answer.headers['location'].find('/nsmf') :]}"
    if ue.sessions.get(number) is not context:  # the UE has left, or asked again, meanwhile
        await _release(amf, context)
        return
    log.info("PDU session %d of imsi-%s at %s", number, ue.imsi, context.url)


async def _modify(amf: Amf, ue: Ue, number: int, document: dict[str, Any], **parts: bytes) -> None:
    """Update an SM context; pass the SMF's answer to UE and gNB."""
    context = ue.sessions.get(number)
    if context is None:
        return
    while not context.url:  # the gNB may answer before the SMF has answered the creation
        await asyncio.sleep(0.01)
        if ue.sessions.get(number) is not context:
            return  # the SMF refused it
    answer = await amf.node.call("POST", f"{context.url}/modify", **sbi.related(document, **parts))
    if answer.content:
        answered, given = sbi.parts_of(answer.headers.get("content-type", ""), answer.content)
        kind = {"n2InfoContent": {"ngapIeType": answered.get("n2SmInfoType", "")}}
        to_ue(ue, number, given.get("n1", b""), kind, given.get("n2", b""))


#: Lists in the gNB's answers: the name of the transfer in their items, and its type for the SMF.
_LISTS = {
    "PDUSessionResourceSetupListSURes": (
        "PDUSessionResourceSetupResponseTransfer",
        "PDU_RES_SETUP_RSP",
    ),
    "PDUSessionResourceFailedToSetupListSURes": (
        "PDUSessionResourceSetupUnsuccessfulTransfer",
        "PDU_RES_SETUP_FAIL",
    ),
    "PDUSessionResourceReleasedListRelRes": (
        "PDUSessionResourceReleaseResponseTransfer",
        "PDU_RES_REL_RSP",
    ),
}
FROM_GNB = ("PDUSessionResourceSetupResponse", "PDUSessionResourceReleaseResponse")


async def from_gnb(amf: Amf, ue: Ue, message: asn1.Message) -> None:
    """Pass the gNB's answers about PDU sessions to their SMFs."""
    for name, (transfer, kind) in _LISTS.items():
        for item in message.values.get(name, ()):
            octets = ngap.octets_of(transfer, item[f"p{transfer[1:]}"])
            document = {"n2SmInfo": {"contentId": "n2"}, "n2SmInfoType": kind}
            try:
                await _modify(amf, ue, item["pDUSessionID"], document, n2=octets)
            except EpcError as error:
                log.error("PDU session of imsi-%s: %s", ue.imsi, error)


async def _release(amf: Amf, context: Context) -> None:
    if context.url:
        with contextlib.suppress(EpcError):
            await amf.node.call("POST", f"{context.url}/release", {})


async def release_all(amf: Amf, ue: Ue) -> None:
    contexts, ue.sessions = list(ue.sessions.values()), {}
    await asyncio.gather(*(_release(amf, one) for one in contexts))


async def deactivate_all(amf: Amf, ue: Ue) -> None:
    """Release the user plane of an idle UE's sessions (TS 23.502 clause 4.2.6)."""
    for number in list(ue.sessions):
        with contextlib.suppress(EpcError):
            await _modify(amf, ue, number, {"upCnxState": "DEACTIVATED"})
