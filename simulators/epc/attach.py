"""The MME's procedures for one UE: attach, detach, release (3GPP TS 23.401 section 5.3)."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from simulators.epc import gtpc, nas, s1ap, s6a
from simulators.epc.gtpc import Fteid
from simulators.errors import EpcError, ProtocolError
from simulators.shared import keys, mobility_core
from simulators.shared.addresses import options_of
from simulators.shared.mobility_core import UeContext
from simulators.transport.tlv import Message

if TYPE_CHECKING:
    from simulators.epc.mme import Mme

log = logging.getLogger("NAS")

_T = TypeVar("_T")

#: Seconds a UE has to accept a detach by the network.
T3422 = 6.0
_KEY = 1  # key set identifier of the one security context
_BEARER = 5

#: EMM causes for the HSS's answers (TS 29.272 annex A).
_CAUSE = {
    s6a.USER_UNKNOWN: nas.SERVICES_NOT_ALLOWED,
    s6a.UNKNOWN_EPS_SUBSCRIPTION: nas.NO_SUITABLE_CELLS,
    s6a.ROAMING_NOT_ALLOWED: nas.PLMN_NOT_ALLOWED,
}


@dataclass(kw_only=True)
class Ue(UeContext[bytes]):
    """A UE of the MME."""

    protocol = s1ap.PROTOCOL

    # Set when the UE accepts a detach by the network.
    left: asyncio.Event = field(default_factory=asyncio.Event)
    guti: nas.Guti | None = None
    session: gtpc.Session | None = None  # the PDN connection, or None.
    bearer: bool = False  # whether the UE has an S1-U bearer.

    def read(self, octets: bytes) -> bytes:
        """Return the octets of a plain NAS message, unparsed."""
        return octets


class RejectedError(mobility_core.RejectedError):
    """The attach is refused with an EMM cause and, if the session is refused, an ESM cause."""

    def __init__(self, cause: int, why: str, esm: int | None = None) -> None:
        self.esm = esm
        super().__init__(cause, why)


async def serve(mme: Mme, ue: Ue, first: bytes) -> None:
    """Run the procedure of the UE's initial message, then receive until the UE detaches."""
    octets = nas.inner(first)
    kind = nas.kind_of(octets)
    if kind == nas.ATTACH_REQUEST:
        async with mme.admission:
            await attach(mme, ue, octets)
    elif kind != nas.DETACH_REQUEST:
        raise ProtocolError(f"initial NAS message of type {kind:#x}")
    while kind != nas.DETACH_REQUEST:
        octets = await ue.next(log)
        kind = nas.kind_of(octets)
        if kind == nas.DETACH_ACCEPT:
            ue.left.set()
    await _leave(mme, ue, octets)


async def attach(mme: Mme, ue: Ue, octets: bytes) -> None:
    """Run the attach procedure (TS 23.401 section 5.3.2.1).

    Raises:
        RejectedError: the UE is refused.
    """
    request = nas.AttachRequest.decode(octets)
    apn, _ = nas.apn_of(request.esm)
    if len(mme.ues) > mme.config.max_ues:
        raise RejectedError(nas.NETWORK_FAILURE, "the MME serves as many UEs as it may")
    if ue.tai not in mme.config.tais:
        raise RejectedError(nas.AREA_NOT_ALLOWED, f"TAC {ue.tai.tac} is not served")
    ue.imsi = await _identify(mme, ue, request)
    await _authenticate(mme, ue)
    await _secure(mme, ue, request)
    subscription = await _locate(mme, ue)
    ue.check()
    old = mme.by_imsi.get(ue.imsi)
    if old is not None and old is not ue:
        session_gone(mme, old)  # the SPGW-C replaces the old session of this subscriber itself
        await forget(mme, old)
        mme.release(old, ("nas", "normal-release"))
    mme.by_imsi[ue.imsi] = ue
    apn = apn or next(iter(subscription.apns), "")
    session = await _connect(mme, ue, subscription, apn)
    await _accept(mme, ue, subscription, session, apn, request.capability)


async def _identify(mme: Mme, ue: Ue, request: nas.AttachRequest) -> str:
    if isinstance(request.identity, str):
        return request.identity
    known = mme.by_tmsi.get(request.identity.tmsi)
    if known is not None and known.guti == request.identity:
        return known.imsi
    ue.nas(nas.simple(nas.IDENTITY_REQUEST, 1))
    answer = await ue.answer()
    if nas.kind_of(answer) != nas.IDENTITY_RESPONSE:
        raise ProtocolError("no identity response to an identity request")
    identity = nas.identity_of(nas.Reader(answer[2:]).lv())
    if not isinstance(identity, str):
        raise ProtocolError("the UE does not tell its IMSI")
    return identity


async def _asked(mme: Mme, name: str, request: Any, read: Callable[[Any], _T]) -> _T:
    try:
        return read(await mme.ask_hss(name, request))
    except s6a.RefusedError as error:
        raise RejectedError(_CAUSE.get(error.code, nas.NETWORK_FAILURE), str(error)) from None
    except EpcError as error:
        raise RejectedError(nas.NETWORK_FAILURE, str(error)) from None


async def _vector(mme: Mme, ue: Ue, resync: bytes = b"") -> keys.Vector:
    config = mme.config
    request = s6a.authentication_request(
        config.s6a, config.hss_host, config.hss_realm, ue.imsi, ue.tai.plmn, resync
    )
    return await _asked(mme, "AIR", request, s6a.vector_of)


async def _authenticate(mme: Mme, ue: Ue) -> None:
    vector = await _vector(mme, ue)
    for attempt in (1, 2):
        ue.nas(nas.authentication_request(_KEY, vector.rand, vector.autn))
        answer = await ue.answer()
        kind = nas.kind_of(answer)
        if kind == nas.AUTHENTICATION_RESPONSE:
            if hmac.compare_digest(nas.Reader(answer[2:]).lv(), vector.xres):
                ue.security = nas.Security(
                    vector.kasme, mme.config.ciphering, nas.EIA2, keys.DOWNLINK
                )
                return
            break
        if kind != nas.AUTHENTICATION_FAILURE:
            raise ProtocolError("no authentication response to an authentication request")
        cause, auts = nas.failure_of(answer)
        if cause != nas.SYNCH_FAILURE or len(auts) != 14 or attempt == 2:
            log.error("authentication of %s: %s", ue.imsi, nas.CAUSES.get(cause, cause))
            break
        vector = await _vector(mme, ue, vector.rand + auts)
    ue.nas(nas.simple(nas.AUTHENTICATION_REJECT))
    raise EpcError(f"UE {ue.imsi} failed the authentication.")


async def _secure(mme: Mme, ue: Ue, request: nas.AttachRequest) -> None:
    assert ue.security is not None  # noqa: S101
    command = nas.security_command(mme.config.ciphering, nas.EIA2, _KEY, request.capability)
    ue.nas(command, new=True, ciphered=False)
    answer = await ue.answer()
    if nas.kind_of(answer) != nas.SECURITY_COMPLETE:
        raise EpcError(f"UE {ue.imsi} refuses the security mode.")


async def _locate(mme: Mme, ue: Ue) -> s6a.Subscription:
    config = mme.config
    request = s6a.location_request(
        config.s6a, config.hss_host, config.hss_realm, ue.imsi, ue.tai.plmn
    )
    return await _asked(mme, "ULR", request, s6a.subscription_of)


async def _connect(mme: Mme, ue: Ue, subscription: s6a.Subscription, apn: str) -> gtpc.Session:
    if apn not in subscription.apns:
        why = f"APN '{apn}' is not subscribed"
        raise RejectedError(nas.ESM_FAILURE, why, nas.UNKNOWN_APN)
    request = gtpc.SessionRequest(
        ue.imsi,
        subscription.msisdn,
        apn,
        ue.tai,
        ue.cell,
        Fteid(gtpc.S11_MME, ue.core_id, mme.config.s11),
        subscription.ambr_up // 1000,
        subscription.ambr_down // 1000,
        _BEARER,
    )
    try:
        answer = await mme.ask_sgw(request.message(mme.config.sgw))
        cause = gtpc.cause_of(answer)
        if cause == gtpc.ACCEPTED:
            ue.session = gtpc.Session.decode(answer)
            mme.statistics.add("Default Bearers")
            return ue.session
    except EpcError as error:
        raise RejectedError(nas.ESM_FAILURE, str(error), nas.ESM_NETWORK_FAILURE) from None
    why = f"the SPGW-C refuses the session: {gtpc.CAUSES.get(cause, cause)}"
    esm = {
        gtpc.UNKNOWN_APN: nas.UNKNOWN_APN,
        gtpc.NO_ADDRESS: nas.INSUFFICIENT_RESOURCES,
        gtpc.NO_RESOURCES: nas.INSUFFICIENT_RESOURCES,
    }
    raise RejectedError(nas.ESM_FAILURE, why, esm.get(cause, nas.ESM_NETWORK_FAILURE))


async def _accept(
    mme: Mme,
    ue: Ue,
    subscription: s6a.Subscription,
    session: gtpc.Session,
    apn: str,
    capability: bytes,
) -> None:
    assert ue.security is not None  # noqa: S101
    ue.check()
    ue.guti = nas.Guti(mme.config.gummeis[0], mme.new_tmsi())
    mme.by_tmsi[ue.guti.tmsi] = ue
    bearer = nas.Bearer(session.bearer, apn, session.address, session.options)
    accept = nas.AttachAccept(ue.guti, ue.tai, bearer.message()).message()
    count = ue.security.received - 1  # of Security Mode Complete
    setup = s1ap.bearer_to_set_up(
        session.bearer, session.user.address, session.user.teid, ue.sealed(accept)
    )
    ue.tell(
        "InitialContextSetupRequest",
        UEAggregateMaximumBitrate={
            "uEaggregateMaximumBitRateDL": subscription.ambr_down,
            "uEaggregateMaximumBitRateUL": subscription.ambr_up,
        },
        E_RABToBeSetupListCtxtSUReq=setup,
        UESecurityCapabilities=s1ap.capabilities(capability),
        SecurityKey=(int.from_bytes(keys.kenb(ue.security.key, count), "big"), 256),
    )
    enb: Fteid | None = None
    complete = False
    while enb is None or not complete:
        message = await ue.message()
        if message.name == "InitialContextSetupResponse":
            _, address, teid, _ = s1ap.first_bearer(message.need("E-RABSetupListCtxtSURes"))
            enb = Fteid(gtpc.S1U_ENB, teid, address)
        elif message.name == "InitialContextSetupFailure":
            raise EpcError(f"The eNB refuses the context: {message.values.get('Cause')}.")
        elif message.name == "UplinkNASTransport":
            complete = nas.kind_of(ue.open(message.need("NAS-PDU"))) == nas.ATTACH_COMPLETE
            if not complete:
                raise ProtocolError("no attach complete to an attach accept")
    answer = await mme.ask_sgw(gtpc.modify_request(session.control.teid, session.bearer, enb))
    cause = gtpc.cause_of(answer)
    if cause != gtpc.ACCEPTED:
        raise EpcError(f"The SPGW-C refuses the bearer: {gtpc.CAUSES.get(cause, cause)}.")
    ue.registered = ue.bearer = True
    mme.statistics.add("Attached UEs")
    mme.statistics.add("S1-U Bearers")
    dns, mtu = options_of(session.options)
    log.info("UE %s is attached with %s (DNS %s, MTU %s)", ue.imsi, session.address, dns, mtu)


# -- the end --------------------------------------------------------------------------------------


async def _leave(mme: Mme, ue: Ue, octets: bytes) -> None:
    """Run a detach that the UE requests (TS 23.401 section 5.3.8.2)."""
    off = len(octets) > 2 and octets[2] & 8
    if not off:
        with contextlib.suppress(EpcError):
            ue.nas(nas.simple(nas.DETACH_ACCEPT))
    log.info("UE %s detaches", ue.imsi)
    await forget(mme, ue)
    mme.release(ue, ("nas", "detach"))


async def detach(mme: Mme, ue: Ue, again: bool) -> None:
    """Detach the UE; ``again`` tells it to attach again."""
    if ue.connected:
        with contextlib.suppress(EpcError):
            ue.nas(nas.simple(nas.DETACH_REQUEST, 1 if again else 2))
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(ue.left.wait(), T3422)
    await forget(mme, ue)
    mme.release(ue, ("nas", "detach"))


async def forget(mme: Mme, ue: Ue) -> None:
    """End the UE's session and registration."""
    mme.unregister(ue)
    _no_bearer(mme, ue)
    if ue.registered:
        ue.registered = False
        mme.statistics.remove("Attached UEs")
    session = session_gone(mme, ue)
    if session is not None:
        with contextlib.suppress(EpcError):
            await mme.ask_sgw(gtpc.delete_request(session.control.teid, session.bearer))


def session_gone(mme: Mme, ue: Ue) -> gtpc.Session | None:
    """Remove the session from the UE's context; return the session."""
    session, ue.session = ue.session, None
    if session is not None:
        mme.statistics.remove("Default Bearers")
    return session


def _no_bearer(mme: Mme, ue: Ue) -> None:
    if ue.bearer:
        ue.bearer = False
        mme.statistics.remove("S1-U Bearers")


def idle(mme: Mme, ue: Ue) -> None:
    """Handle the loss of the UE's S1 connection: the SPGW-C keeps its session, without S1-U."""
    mme.statistics.remove("Connected UEs")
    if ue.bearer and ue.session is not None:
        mme.spawn(_released(mme, ue.session.control.teid))
    _no_bearer(mme, ue)


async def _released(mme: Mme, teid: int) -> None:
    with contextlib.suppress(EpcError):
        await mme.ask_sgw(Message(gtpc.RELEASE_ACCESS_REQUEST, teid))
