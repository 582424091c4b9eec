"""The SPGW-C: S11 sessions from an MME, PFCP sessions to an SPGW-U, addresses of UEs."""

import itertools
import logging
import os
from dataclasses import dataclass

from simulators.epc import gtpc
from simulators.epc.gtpc import Fteid
from simulators.errors import EpcError, ProtocolError
from simulators.shared import pfcp_control
from simulators.shared.addresses import Pdn, Pool, options
from simulators.transport import udp
from simulators.transport.tlv import Message, MissingError, need

log = logging.getLogger("spgwc")


@dataclass(frozen=True)
class Config:
    """Configuration of the SPGW-C."""

    s11: str  # S11 address.
    sx: str  # SXab address.
    pdns: tuple[Pdn, ...]  # packet data networks; an unknown APN is refused.
    dns: tuple[str, ...] = ()  # name servers for UEs.
    mtu: int = 1358  # MTU for UEs, in bytes.
    ups: tuple[str, ...] = ()  # Node IDs of SPGW-Us that may associate, empty for any.
    rest: int = 0  # TCP port of management by HTTP on every address, 0 for none.


@dataclass
class Session:
    """A PDN connection."""

    imsi: str
    apn: str
    mme: Fteid
    bearer: int
    address: str
    control: int
    user: pfcp_control.Session


@dataclass
class Counters:
    """Sessions created, refused and deleted since the start."""

    created: int = 0
    refused: int = 0
    deleted: int = 0


class Spgwc:
    """The control plane function."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.sessions: dict[int, Session] = {}
        self.counters = Counters()
        self.sx = pfcp_control.ControlPlane(config.sx, "SPGW-U", config.ups)
        self.s11 = udp.Endpoint(gtpc.CODEC, self._s11)
        self._pools = {pdn.apn: Pool(pdn) for pdn in config.pdns}
        self._numbers = itertools.count(int.from_bytes(os.urandom(3), "big") + 1)
        self._by_ue: dict[tuple[str, str], Session] = {}

    async def start(self) -> None:
        await self.sx.start()
        await self.s11.start(self.config.s11, gtpc.PORT)

    def stop(self) -> None:
        self.s11.stop()
        self.sx.stop()

    # -- S11 ------------------------------------------------------------------------------------

    async def _s11(self, message: Message, peer: udp.Address) -> Message | None:
        if message.type == gtpc.ECHO_REQUEST:
            return gtpc.echo_response(self.sx.started)
        answers = {
            gtpc.CREATE_SESSION_REQUEST: self._create,
            gtpc.MODIFY_BEARER_REQUEST: self._modify,
            gtpc.DELETE_SESSION_REQUEST: self._delete,
            gtpc.RELEASE_ACCESS_REQUEST: self._release,
        }
        if message.type not in answers:
            return None
        teid = self._reply_to(message)
        try:
            return await answers[message.type](message)
        except MissingError as error:
            missing = gtpc.MANDATORY_MISSING
            return gtpc.refusal(message.type + 1, teid, missing, error.kind)
        except ProtocolError as error:
            log.error("S11 message type %d: %s", message.type, error)
            return gtpc.refusal(message.type + 1, teid, gtpc.INVALID_FORMAT)

    def _reply_to(self, message: Message) -> int:
        session = self.sessions.get(message.endpoint or 0)
        if session is not None:
            return session.mme.teid
        octets = message.find(gtpc.FTEID)
        try:
            return Fteid.decode(octets).teid if octets is not None else 0
        except ProtocolError:
            return 0

    def _pdn(self, apn: str) -> Pdn | None:
        # An APN may have the operator identifier: internet.mnc088.mcc242.gprs (TS 23.003, 9.1.2).
        network = apn.partition(".mnc")[0]
        return next((p for p in self.config.pdns if p.apn in (apn, network)), None)

    async def _create(self, message: Message) -> Message:
        asked = gtpc.SessionRequest.decode(message)

        def refuse(value: int) -> Message:
            self.counters.refused += 1
            log.warning("session of %s refused: %s", asked.imsi, gtpc.CAUSES[value])
            return gtpc.refusal(gtpc.CREATE_SESSION_RESPONSE, asked.mme.teid, value)

        pdn = self._pdn(asked.apn)
        if pdn is None:
            return refuse(gtpc.UNKNOWN_APN)
        old = self._by_ue.get((asked.imsi, pdn.apn))
        if old is not None:
            await self._forget(old)
        address = self._pools[pdn.apn].take()
        if address is None:
            return refuse(gtpc.NO_ADDRESS)
        user = pfcp_control.Session(asked.imsi, pdn.apn, address, next(self._numbers))
        control = next(self._numbers)
        session = Session(asked.imsi, pdn.apn, asked.mme, asked.bearer, address, control, user)
        try:
            await self.sx.establish(user)
        except EpcError as error:
            log.error("session of %s: %s", asked.imsi, error)
            self._pools[pdn.apn].release(address)
            return refuse(gtpc.PEER_SILENT)
        self.sessions[session.control] = session
        self._by_ue[asked.imsi, pdn.apn] = session
        self.counters.created += 1
        granted = gtpc.Session(
            Fteid(gtpc.S11_SGW, session.control, self.config.s11),
            Fteid(gtpc.S1U_SGW, *session.user.uplink),
            address,
            options(self.config.dns, self.config.mtu),
            asked.bearer,
        )
        return granted.message(asked.mme.teid, self.sx.started)

    async def _modify(self, message: Message) -> Message:
        session = self.sessions.get(message.endpoint or 0)
        if session is None:
            kind = gtpc.MODIFY_BEARER_RESPONSE
            return gtpc.refusal(kind, 0, gtpc.CONTEXT_NOT_FOUND)
        bearer = gtpc.bearer_of(message)
        enb = Fteid.decode(need(bearer, gtpc.FTEID))
        try:
            await self.sx.forward(session.user, (enb.teid, enb.address))
        except EpcError as error:
            log.error("bearer of %s: %s", session.imsi, error)
            return gtpc.refusal(gtpc.MODIFY_BEARER_RESPONSE, session.mme.teid, gtpc.PEER_SILENT)
        user = Fteid(gtpc.S1U_SGW, *session.user.uplink)
        return gtpc.modify_response(session.mme.teid, session.bearer, user)

    async def _release(self, message: Message) -> Message:
        session = self.sessions.get(message.endpoint or 0)
        kind = gtpc.RELEASE_ACCESS_RESPONSE
        if session is None:
            return gtpc.refusal(kind, 0, gtpc.CONTEXT_NOT_FOUND)
        try:
            await self.sx.hold(session.user)
        except EpcError as error:
            log.error("bearer of %s: %s", session.imsi, error)
        return Message(kind, session.mme.teid, (gtpc.cause(gtpc.ACCEPTED),))

    async def _delete(self, message: Message) -> Message:
        session = self.sessions.get(message.endpoint or 0)
        kind = gtpc.DELETE_SESSION_RESPONSE
        if session is None:
            return gtpc.refusal(kind, 0, gtpc.CONTEXT_NOT_FOUND)
        await self._forget(session)
        return Message(kind, session.mme.teid, (gtpc.cause(gtpc.ACCEPTED),))

    async def _forget(self, session: Session) -> None:
        self.sessions.pop(session.control, None)
        self._by_ue.pop((session.imsi, session.apn), None)
        self.counters.deleted += 1
        try:
            await self.sx.delete(session.user)
        except EpcError as error:
            log.error("session of %s: %s", session.imsi, error)
        self._pools[session.apn].release(session.address)
