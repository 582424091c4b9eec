"""What the MME does for one UE: attach, detach, release (3GPP TS 23.401 section 5.3)."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simulators import gtpc, keys, nas, s1ap, s6a, sctp
from simulators.errors import EpcError, ProtocolError
from simulators.gtpc import Fteid
from simulators.identity import Tai
from simulators.spgwc import options_of
from simulators.tlv import Message

if TYPE_CHECKING:
    from simulators.mme import Mme

log = logging.getLogger("NAS")

#: Seconds a UE or its eNB has for each answer (T3450, T3460 are 6 s and repeated four times).
ANSWER = 24.0
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


@dataclass
class Ue:
    """A UE that is connected, attached, or both.

    Attributes:
        mme_id, enb_id: S1AP identifiers.
        tai, cell: where it is.
        association, stream: how to reach its eNB.
        forget: makes the eNB's record forget it.
        inbox: what its eNB sends about it.
        left: set when the UE accepts a detach by the network.
        session: the PDN connection, when there is one.
    """

    mme_id: int
    enb_id: int
    tai: Tai
    cell: int
    association: sctp.Association
    stream: int
    forget: Callable[[], Any]
    inbox: asyncio.Queue[s1ap.Message] = field(default_factory=asyncio.Queue)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[Any] | None = None
    imsi: str = ""
    guti: nas.Guti | None = None
    security: nas.Security | None = None
    session: gtpc.Session | None = None
    connected: bool = True
    attached: bool = False
    bearer: bool = False

    def tell(self, name: str, **values: Any) -> None:
        """Send an S1AP message about the UE."""
        octets = s1ap.encode(name, mme=self.mme_id, enb=self.enb_id, **values)
        self.association.send(self.stream, octets)

    def nas(self, octets: bytes, **how: bool) -> None:
        """Send a NAS message, protected where there is a security context."""
        if self.security is not None:
            octets = self.security.protect(octets, **how)
        self.tell("DownlinkNASTransport", nas=octets)

    def check(self) -> None:
        """Stop the procedure of a UE that lost its connection.

        Its task is cancelled then, but ``asyncio.wait_for`` before Python 3.12 drops a cancellation
        that meets the answer it waits for.

        Raises:
            EpcError: the connection is gone.
        """
        if not self.connected:
            raise EpcError(f"UE {self.imsi or self.mme_id} left meanwhile.")

    async def message(self) -> s1ap.Message:
        """The next S1AP message about the UE.

        Raises:
            EpcError: its connection is gone, or no message comes in time.
        """
        self.check()
        try:
            return await asyncio.wait_for(self.inbox.get(), ANSWER)
        except TimeoutError:
            raise EpcError(f"UE {self.imsi or self.mme_id} does not answer.") from None

    async def answer(self) -> bytes:
        """The next NAS message of the UE, its protection removed."""
        while True:
            message = await self.message()
            if message.name == "UplinkNASTransport":
                octets: bytes = message.need("nas")
                return octets if self.security is None else self.security.open(octets)


class RejectedError(EpcError):
    """The attach is refused with an EMM cause, and for a session with an ESM cause."""

    def __init__(self, cause: int, why: str, esm: int | None = None) -> None:
        """Carry both."""
        self.cause = cause
        self.esm = esm
        super().__init__(why)


async def serve(mme: Mme, ue: Ue, first: bytes) -> None:
    """Do what the UE asks for with its initial message, then listen to it until it is gone."""
    try:
        kind = nas.kind_of(nas.inner(first))
        if kind == nas.ATTACH_REQUEST:
            async with mme.admission:
                await attach(mme, ue, nas.inner(first))
        elif kind == nas.DETACH_REQUEST:
            await _leave(mme, ue, nas.inner(first))
            return
        else:
            raise ProtocolError(f"initial NAS message of type {kind:#x}")
        while True:
            octets = await _listen(ue)
            kind = nas.kind_of(octets)
            if kind == nas.DETACH_REQUEST:
                await _leave(mme, ue, octets)
                return
            if kind == nas.DETACH_ACCEPT:
                ue.left.set()
    except RejectedError as error:
        log.error("attach of %s rejected: %s", ue.imsi or "a UE", error)
        esm = b"" if error.esm is None else nas.connectivity_reject(error.esm)
        with contextlib.suppress(EpcError):
            ue.nas(nas.attach_reject(error.cause, esm))
        await forget(mme, ue)
        release(mme, ue, ("nas", "unspecified"))
    except EpcError as error:
        log.error("UE %s: %s", ue.imsi or ue.mme_id, error)
        if not ue.attached:
            await forget(mme, ue)
        release(mme, ue, ("nas", "unspecified"))


async def _listen(ue: Ue) -> bytes:
    """The next NAS message of an attached UE, however long that takes."""
    while True:
        message = await ue.inbox.get()
        if message.name == "UplinkNASTransport" and ue.security is not None:
            octets: bytes = message.need("nas")
            try:
                return ue.security.open(octets)
            except ProtocolError as error:
                log.error("UE %s: %s", ue.imsi, error)


async def attach(mme: Mme, ue: Ue, octets: bytes) -> None:
    """The attach procedure (TS 23.401 section 5.3.2.1).

    Raises:
        RejectedError: the UE is refused.
        EpcError: it does not answer, or its answer is not allowed.
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
        session_gone(mme, old)  # the SPGW-C replaces the session of the same subscriber
        await forget(mme, old)
        release(mme, old, ("nas", "normal-release"))
    mme.by_imsi[ue.imsi] = ue
    session = await _connect(mme, ue, subscription, apn)
    await _accept(mme, ue, subscription, session)


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


async def _vector(mme: Mme, ue: Ue, resync: bytes = b"") -> keys.Vector:
    config = mme.config
    request = s6a.authentication_request(
        config.s6a, config.hss_host, config.hss_realm, ue.imsi, ue.tai.plmn, resync
    )
    try:
        return s6a.vector_of(await mme.ask_hss("AIR", request))
    except s6a.RefusedError as error:
        raise RejectedError(_CAUSE.get(error.code, nas.NETWORK_FAILURE), str(error)) from None
    except EpcError as error:
        raise RejectedError(nas.NETWORK_FAILURE, str(error)) from None


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
    try:
        return s6a.subscription_of(await mme.ask_hss("ULR", request))
    except s6a.RefusedError as error:
        raise RejectedError(_CAUSE.get(error.code, nas.NETWORK_FAILURE), str(error)) from None
    except EpcError as error:
        raise RejectedError(nas.NETWORK_FAILURE, str(error)) from None


async def _connect(mme: Mme, ue: Ue, subscription: s6a.Subscription, apn: str) -> gtpc.Session:
    wanted = apn or (subscription.apns[0] if subscription.apns else "")
    if wanted not in subscription.apns:
        why = f"APN '{wanted}' is not subscribed"
        raise RejectedError(nas.ESM_FAILURE, why, nas.UNKNOWN_APN)
    request = gtpc.SessionRequest(
        ue.imsi,
        subscription.msisdn,
        wanted,
        ue.tai,
        ue.cell,
        Fteid(gtpc.S11_MME, ue.mme_id, mme.config.s11),
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


async def _accept(mme: Mme, ue: Ue, subscription: s6a.Subscription, session: gtpc.Session) -> None:
    assert ue.security is not None  # noqa: S101
    ue.check()
    ue.guti = mme.new_guti()
    mme.by_tmsi[ue.guti.tmsi] = ue
    apn = next(iter(subscription.apns))
    bearer = nas.Bearer(session.bearer, apn, session.address, session.options)
    accept = nas.AttachAccept(ue.guti, ue.tai, bearer.message()).message()
    count = ue.security.received - 1  # of Security Mode Complete
    ue.tell(
        "InitialContextSetupRequest",
        rates={
            "uEaggregateMaximumBitRateDL": subscription.ambr_down,
            "uEaggregateMaximumBitRateUL": subscription.ambr_up,
        },
        setup=s1ap.bearer_to_set_up(
            session.bearer,
            session.user.address,
            session.user.teid,
            ue.security.protect(accept),
        ),
        capabilities=s1ap.capabilities(nas.CAPABILITY),
        key=(int.from_bytes(keys.kenb(ue.security.kasme, count), "big"), 256),
    )
    enb: Fteid | None = None
    complete = False
    while enb is None or not complete:
        message = await ue.message()
        if message.name == "InitialContextSetupResponse":
            _, address, teid, _ = s1ap.first_bearer(message.need("bearers"))
            enb = Fteid(gtpc.S1U_ENB, teid, address)
        elif message.name == "InitialContextSetupFailure":
            raise EpcError(f"The eNB refuses the context: {message.values.get('cause')}.")
        elif message.name == "UplinkNASTransport":
            octets = ue.security.open(message.need("nas"))
            complete = nas.kind_of(octets) == nas.ATTACH_COMPLETE
            if not complete:
                raise ProtocolError("no attach complete to an attach accept")
    answer = await mme.ask_sgw(gtpc.modify_request(session.control.teid, session.bearer, enb))
    cause = gtpc.cause_of(answer)
    if cause != gtpc.ACCEPTED:
        raise EpcError(f"The SPGW-C refuses the bearer: {gtpc.CAUSES.get(cause, cause)}.")
    ue.attached = ue.bearer = True
    mme.statistics.add("Attached UEs")
    mme.statistics.add("S1-U Bearers")
    dns, mtu = options_of(session.options)
    log.info("UE %s is attached with %s (DNS %s, MTU %s)", ue.imsi, session.address, dns, mtu)


# -- the end --------------------------------------------------------------------------------------


async def _leave(mme: Mme, ue: Ue, octets: bytes) -> None:
    """Detach asked for by the UE (TS 23.401 section 5.3.8.2)."""
    off = len(octets) > 2 and octets[2] & 8
    if not off:
        with contextlib.suppress(EpcError):
            ue.nas(nas.simple(nas.DETACH_ACCEPT))
    log.info("UE %s detaches", ue.imsi)
    await forget(mme, ue)
    release(mme, ue, ("nas", "detach"))


async def detach(mme: Mme, ue: Ue, again: bool) -> None:
    """Detach by the network; the UE shall attach ``again`` or not."""
    if ue.connected:
        with contextlib.suppress(EpcError):
            ue.nas(nas.simple(nas.DETACH_REQUEST, 1 if again else 2))
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(ue.left.wait(), T3422)
    await forget(mme, ue)
    release(mme, ue, ("nas", "detach"))


async def forget(mme: Mme, ue: Ue) -> None:
    """End the UE's session and registration."""
    if mme.by_imsi.get(ue.imsi) is ue:
        del mme.by_imsi[ue.imsi]
    if ue.guti is not None:
        mme.by_tmsi.pop(ue.guti.tmsi, None)
    _no_bearer(mme, ue)
    if ue.attached:
        ue.attached = False
        mme.statistics.remove("Attached UEs")
    session = session_gone(mme, ue)
    if session is not None:
        with contextlib.suppress(EpcError):
            await mme.ask_sgw(gtpc.delete_request(session.control.teid, session.bearer))


def session_gone(mme: Mme, ue: Ue) -> gtpc.Session | None:
    """Take the session off the UE's record; returns it."""
    session, ue.session = ue.session, None
    if session is not None:
        mme.statistics.remove("Default Bearers")
    return session


def release(mme: Mme, ue: Ue, cause: tuple[str, str]) -> None:
    """Release the UE's S1 connection; the rest follows when the eNB confirms."""
    if not ue.connected:
        return
    ids = {"mME-UE-S1AP-ID": ue.mme_id, "eNB-UE-S1AP-ID": ue.enb_id}
    octets = s1ap.encode("UEContextReleaseCommand", ids=("uE-S1AP-ID-pair", ids), cause=cause)
    try:
        ue.association.send(ue.stream, octets)
    except EpcError:
        disconnected(mme, ue)


def _no_bearer(mme: Mme, ue: Ue) -> None:
    if ue.bearer:
        ue.bearer = False
        mme.statistics.remove("S1-U Bearers")


def disconnected(mme: Mme, ue: Ue) -> None:
    """The UE's S1 connection is gone; an attached UE stays registered, without S1-U."""
    if not ue.connected:
        return
    ue.connected = False
    mme.statistics.remove("Connected UEs")
    ue.forget()
    mme.ues.pop(ue.mme_id, None)
    if ue.bearer and ue.session is not None:
        teid = ue.session.control.teid
        mme.spawn(_released(mme, teid))
    _no_bearer(mme, ue)
    if not ue.attached:
        mme.spawn(forget(mme, ue))
    if ue.task is not None:
        ue.task.cancel()


async def _released(mme: Mme, teid: int) -> None:
    with contextlib.suppress(EpcError):
        await mme.ask_sgw(Message(gtpc.RELEASE_ACCESS_REQUEST, teid))
