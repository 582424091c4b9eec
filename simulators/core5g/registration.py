"""The AMF's procedures for one UE: registration, deregistration, release (TS 23.502 clause 4.2)."""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simulators.core5g import keys, nas, ngap, sbi, sessions
from simulators.core5g.snssai import Snssai
from simulators.errors import EpcError, ProtocolError
from simulators.shared import keys as directions
from simulators.shared import mobility_core
from simulators.shared.identity import Plmn
from simulators.shared.mobility_core import UeContext

if TYPE_CHECKING:
    from simulators.core5g.amf import Amf

log = logging.getLogger("amf_n1")

_KEY = {"TSC": 0, "Value": 1}  # key set identifier of the one security context


@dataclass(kw_only=True)
class Ue(UeContext[nas.Message]):
    """A UE of the AMF."""

    protocol = ngap.PROTOCOL

    # Slices that both this AMF and the gNB support in the tracking area.
    offered: frozenset[Snssai]
    # Access type, a constant of ``keys``; also the NAS connection identifier.
    access: int = keys.ACCESS_3GPP
    guti: nas.Guti | None = None
    capability: dict[str, int] = field(default_factory=dict)
    allowed: tuple[Snssai, ...] = ()  # allowed NSSAI.
    sessions: dict[int, sessions.Context] = field(default_factory=dict)  # PDU sessions by identity.

    def read(self, octets: bytes) -> nas.Message:
        """Decode a plain NAS message."""
        return nas.decode(octets)


class RejectedError(mobility_core.RejectedError):
    """The registration is refused with a 5GMM cause."""

    def __init__(self, cause: int, why: str, rejected: tuple[tuple[Snssai, int], ...] = ()) -> None:
        self.rejected = rejected
        super().__init__(cause, why)


async def serve(amf: Amf, ue: Ue, first: bytes) -> None:
    """Run the procedure of the UE's initial message, then receive until the UE deregisters."""
    message = nas.decode(nas.inner(first))
    if message.name == "RegistrationRequest":
        async with amf.admission:
            await _register(amf, ue, message)
    elif message.name != "MODeregistrationRequest":
        raise ProtocolError(f"initial NAS message {message.name}")
    while message.name != "MODeregistrationRequest":
        message = await ue.next(log)
        if message.name == "ULNASTransport":
            amf.spawn(sessions.from_ue(amf, ue, message))
    await _leave(amf, ue, message)


def reject(ue: Ue, error: mobility_core.RejectedError) -> None:
    values: dict[str, Any] = {"5GMMCause": error.cause}
    if isinstance(error, RejectedError) and error.rejected:
        values["RejectedNSSAI"] = _rejected(error.rejected)
    ue.nas(nas.encode("RegistrationReject", values))


async def _register(amf: Amf, ue: Ue, request: nas.Message) -> None:
    """Run the registration procedure (TS 23.502 clause 4.2.2.2.2).

    Raises:
        RejectedError: the UE is refused.
    """
    if ue.tai not in amf.config.slices:
        raise RejectedError(nas.AREA_NOT_ALLOWED, f"TAC {ue.tai.tac} is not served")
    ue.capability = request.need("UESecCap")
    ue.imsi = await _identify(amf, ue, request.need("5GSID"))
    kamf = await _authenticate(amf, ue)
    request = await _secure(amf, ue, kamf)
    ue.check()
    old = amf.by_imsi.get(ue.imsi)
    if old is not None and old is not ue:
        await forget(amf, old)
        amf.release(old, ("nas", "normal-release"))
    rejected = await _slices(amf, ue, request)
    amf.by_imsi[ue.imsi] = ue
    await _note(amf, ue)
    await _accept(amf, ue, rejected)


async def _identify(amf: Amf, ue: Ue, identity: dict[str, Any]) -> str:
    if identity.get("Type") == 2:
        known = amf.by_tmsi.get(identity["5GTMSI"])
        if known is not None and known.guti == nas.Guti.of_nas(identity):
            return known.imsi
        ue.nas(nas.encode("IdentityRequest", {"5GSIDType": {"Value": 1}}))
        answer = await ue.answer()
        if answer.name != "IdentityResponse":
            raise ProtocolError("no identity response to an identity request")
        identity = answer.need("5GSID")
    return nas.imsi_of(identity)


async def _authenticate(amf: Amf, ue: Ue) -> bytes:
    """Run 5G-AKA (TS 33.501 section 6.1.3.2); return KAMF."""
    network = keys.network_name(ue.tai.plmn)
    question: dict[str, Any] = {
        "supiOrSuci": f"imsi-{ue.imsi}",
        "servingNetworkName": network,
    }
    for attempt in (1, 2):
        try:
            url = await amf.node.url("AUSF") + "/nausf-auth/v1/ue-authentications"
            begun = (await amf.node.call("POST", url, question)).json()
        except sbi.SbiError as error:
            known = error.status not in (403, 404)
            cause = nas.CONGESTION if known else nas.ILLEGAL_UE
            raise RejectedError(cause, f"no vector from the AUSF: {error}") from None
        data = begun["5gAuthData"]
        rand = bytes.fromhex(data["rand"])
        challenge = {"NAS_KSI": _KEY, "ABBA": keys.ABBA, "RAND": rand}
        challenge["AUTN"] = bytes.fromhex(data["autn"])
        ue.nas(nas.encode("AuthenticationRequest", challenge))
        answer = await ue.answer()
        if answer.name == "AuthenticationResponse":
            return await _confirm(amf, ue, begun, answer.need("RES"))
        if answer.name != "AuthenticationFailure":
            raise ProtocolError("no authentication response to an authentication request")
        cause = answer.need("5GMMCause")
        auts = answer.values.get("AUTS", b"")
        if cause != nas.SYNCH_FAILURE or len(auts) != 14 or attempt == 2:
            log.error("Authentication of %s: %s", ue.imsi, nas.MM_CAUSES.get(cause, cause))
            break
        question["resynchronizationInfo"] = {"rand": rand.hex(), "auts": auts.hex()}
    ue.nas(nas.encode("AuthenticationReject"))
    raise EpcError(f"UE {ue.imsi} failed the authentication.")


async def _confirm(amf: Amf, ue: Ue, begun: dict[str, Any], res: bytes) -> bytes:
    data = begun["5gAuthData"]
    seen = keys.hres_star(bytes.fromhex(data["rand"]), res)
    if hmac.compare_digest(seen, bytes.fromhex(data["hxresStar"])):
        href = begun["_links"]["5g-aka"]["href"]
        answer = (await amf.node.call("PUT", href, {"resStar": res.hex()})).json()
        if answer["authResult"] == "AUTHENTICATION_SUCCESS":
            return keys.kamf(bytes.fromhex(answer["kseaf"]), ue.imsi)
    ue.nas(nas.encode("AuthenticationReject"))
    raise EpcError(f"UE {ue.imsi} failed the authentication.")


async def _secure(amf: Amf, ue: Ue, kamf: bytes) -> nas.Message:
    """Run security mode control; return the complete registration request."""
    able = {nas.NEA0: "5G-EA0", nas.NEA2: "5G-EA2_128"}
    nea = next((one for one in amf.config.ciphering if ue.capability.get(able[one])), None)
    if nea is None or not ue.capability.get("5G-IA2_128"):
        raise RejectedError(nas.SECURITY_MISMATCH, "no algorithm in common")
    ue.security = nas.Security(kamf, nea, nas.NIA2, directions.DOWNLINK, ue.access)
    command = {
        "NASSecAlgo": {"CiphAlgo": nea, "IntegAlgo": nas.NIA2},
        "NAS_KSI": _KEY,
        "UESecCap": ue.capability,
    }
    ue.nas(nas.encode("SecurityModeCommand", command), new=True, ciphered=False)
    answer = await ue.answer()
    if answer.name != "SecurityModeComplete":
        raise EpcError(f"UE {ue.imsi} refuses the security mode.")
    request = nas.decode(answer.need("NASContainer"))
    if request.name != "RegistrationRequest":
        raise ProtocolError("Security Mode Complete does not carry the registration request.")
    return request


def _plmn(plmn: Plmn) -> str:
    return json.dumps({"mcc": plmn.mcc, "mnc": plmn.mnc})


async def _slices(amf: Amf, ue: Ue, request: nas.Message) -> tuple[tuple[Snssai, int], ...]:
    """Set the allowed NSSAI; return rejected slices with causes (TS 23.501 clause 5.15.5.2.1).

    Raises:
        RejectedError: no slice is allowed.
    """
    supported = amf.config.slices[ue.tai]
    subscribed: dict[Snssai, bool] = {}  # the value is True for a default S-NSSAI
    try:
        url = await amf.node.url("UDM") + f"/nudm-sdm/v2/imsi-{ue.imsi}/nssai"
        subscription = (
            await amf.node.call("GET", url, params={"plmn-id": _plmn(ue.tai.plmn)})
        ).json()
        for name in ("singleNssais", "defaultSingleNssais"):
            for one in subscription.get(name) or ():
                subscribed[Snssai.of(one)] = name == "defaultSingleNssais"
    except sbi.SbiError as error:
        if error.status != 404:
            raise RejectedError(nas.CONGESTION, f"no subscription from the UDM: {error}") from None
        subscribed = dict.fromkeys(supported, True)  # as OAI's AMF if there is no subscribed NSSAI
    requested = [Snssai.of_nas(one["SNSSAI"]) for one in request.values.get("NSSAI", ())]
    rejected = []
    allowed = []
    for one in requested:
        if one not in subscribed or one not in supported:
            rejected.append((one, nas.NOT_IN_PLMN))
        elif one not in ue.offered:
            rejected.append((one, nas.NOT_IN_AREA))
        else:
            allowed.append(one)
    if not allowed:
        allowed = sorted(
            one for one, default in subscribed.items() if default and one in ue.offered
        )
    if not allowed:
        raise RejectedError(nas.NO_SLICES, "no slice is allowed", tuple(rejected))
    ue.allowed = tuple(dict.fromkeys(allowed))
    return tuple(rejected)


def _rejected(rejected: tuple[tuple[Snssai, int], ...]) -> list[dict[str, Any]]:
    return [{"Cause": cause, "SNSSAI": one.nas} for one, cause in rejected]


async def _note(amf: Amf, ue: Ue) -> None:
    """Tell the UDM which AMF serves the UE."""
    config = amf.config.sbi
    document = {
        "amfInstanceId": amf.node.instance,
        "deregCallbackUri": f"http://{config.address}:{config.port}/namf-callback/v1/dereg",
        "guami": amf.config.guamis[0].json,
        "ratType": keys.RAT[ue.access],
    }
    kind = "3gpp" if ue.access == keys.ACCESS_3GPP else "non-3gpp"
    path = f"/nudm-uecm/v1/imsi-{ue.imsi}/registrations/amf-{kind}-access"
    try:
        await amf.node.call("PUT", await amf.node.url("UDM") + path, document)
    except sbi.SbiError as error:
        log.error("UDM, registration of %s: %s", ue.imsi, error)


async def _accept(amf: Amf, ue: Ue, rejected: tuple[tuple[Snssai, int], ...]) -> None:
    assert ue.security is not None  # noqa: S101
    ue.check()
    one = amf.config.guamis[0]
    ue.guti = nas.Guti(one.plmn, one.region, one.set, one.pointer, amf.new_tmsi())
    amf.by_tmsi[ue.guti.tmsi] = ue
    values: dict[str, Any] = {
        "5GSRegResult": {"Value": ue.access},
        "GUTI": ue.guti.nas,
        "5GSTAIList": nas.areas(ue.tai.plmn, ue.tai.tac),
        "AllowedNSSAI": [{"SNSSAI": one.nas} for one in ue.allowed],
        "5GSNetFeat": {},
    }
    if ue.access == keys.ACCESS_3GPP:
        values["T3512"] = {"Unit": 0, "Value": 6}  # 60 minutes
    if rejected:
        values["RejectedNSSAI"] = _rejected(rejected)
    count = ue.security.received - 1  # of Security Mode Complete
    key = keys.access_key(ue.security.key, count, ue.access)
    accept = nas.encode("RegistrationAccept", values)
    # An N3IWF gets the accept later: it needs the key for a signalling SA (TS 23.502, 4.12.2.2).
    first = {"NAS_PDU": ue.sealed(accept)} if ue.access == keys.ACCESS_3GPP else {}
    ue.tell(
        "InitialContextSetupRequest",
        GUAMI=amf.config.guamis[0].ngap,
        AllowedNSSAI=[{"s-NSSAI": one.ngap} for one in ue.allowed],
        UESecurityCapabilities=_capabilities(ue.capability),
        SecurityKey=(int.from_bytes(key, "big"), 256),
        **first,
    )
    ready = complete = False
    while not ready or not complete:
        message = await ue.message()
        if message.name == "InitialContextSetupResponse":
            ready = True
            if not first:
                ue.nas(accept)
        elif message.name == "InitialContextSetupFailure":
            raise EpcError(f"The gNB refuses the context: {message.values.get('Cause')}.")
        elif message.name == "UplinkNASTransport":
            complete = ue.open(message.need("NAS-PDU")).name == "RegistrationComplete"
            if not complete:
                raise ProtocolError("no registration complete to a registration accept")
    ue.registered = True
    log.info("UE imsi-%s is registered, allowed NSSAI %s", ue.imsi, "; ".join(map(str, ue.allowed)))


def _capabilities(known: dict[str, int]) -> dict[str, tuple[int, int]]:
    """UE security capabilities of NGAP: algorithms 1 to 3 are the first bits."""

    def bits(kind: str) -> tuple[int, int]:
        able = (known.get(f"5G-{kind}{number}_128", 0) for number in (1, 2, 3))
        return sum(bit << (15 - at) for at, bit in enumerate(able)), 16

    return {
        "nRencryptionAlgorithms": bits("EA"),
        "nRintegrityProtectionAlgorithms": bits("IA"),
        "eUTRAencryptionAlgorithms": (0, 16),
        "eUTRAintegrityProtectionAlgorithms": (0, 16),
    }


# -- the end --------------------------------------------------------------------------------------


async def _leave(amf: Amf, ue: Ue, request: nas.Message) -> None:
    """Run a deregistration that the UE requests (TS 23.502 clause 4.2.2.3.2)."""
    if not request.need("DeregistrationType")["SwitchOff"]:
        with contextlib.suppress(EpcError):
            ue.nas(nas.encode("MODeregistrationAccept"))
    log.info("UE imsi-%s deregisters", ue.imsi)
    await forget(amf, ue)
    amf.release(ue, ("nas", "deregister"))


async def forget(amf: Amf, ue: Ue) -> None:
    """End the UE's PDU sessions and registration."""
    amf.unregister(ue)
    ue.registered = False
    await sessions.release_all(amf, ue)
