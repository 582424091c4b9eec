"""The HSS: answers S6a requests from its subscribers' data."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from diameter.message import Message
from diameter.message.commands import (
    AuthenticationInformationRequest,
    PurgeUeRequest,
    UpdateLocationRequest,
)

from simulators.epc import s6a
from simulators.epc.cqlstore import Cassandra
from simulators.epc.diameter import (
    COMMAND_UNSUPPORTED,
    UNABLE_TO_COMPLY,
    Connection,
    Identity,
    Server,
    error_answer,
)
from simulators.epc.subscribers import Subscriber
from simulators.errors import EpcError, ProtocolError
from simulators.shared import keys
from simulators.shared.identity import Plmn, check_imsi, imsi_belongs_to

log = logging.getLogger("hss")


@dataclass
class Counters:
    """Counters of the HSS since its start."""

    air: int = 0
    ulr: int = 0
    refused: int = 0


class Hss:
    """The home subscriber server, with a store of subscribers."""

    def __init__(
        self,
        identity: Identity,
        store: Cassandra,
        roaming: bool = True,
        accept: tuple[str, ...] | None = None,
    ) -> None:
        """Serve peers whose host name ends in one of ``accept`` (default: those of our realm)."""
        self.identity = identity
        self.store = store
        self.roaming = roaming
        self.suffixes = (f".{identity.realm}",) if accept is None else accept
        self.counters = Counters()
        self.server = Server(identity, self.answer, self._accept)
        self._busy: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def _accept(self, host: str, realm: str) -> bool:
        return host.endswith(self.suffixes)

    async def answer(self, request: Message, connection: Connection) -> Message:
        if isinstance(request, AuthenticationInformationRequest):
            self.counters.air += 1
            return await self._authentication(request)
        if isinstance(request, UpdateLocationRequest):
            self.counters.ulr += 1
            return await self._location(request, connection)
        if isinstance(request, PurgeUeRequest):
            return await self._purge(request)
        return error_answer(request, self.identity, COMMAND_UNSUPPORTED)

    def _refuse(self, request: Any, code: int) -> Message:
        self.counters.refused += 1
        log.warning("%s of %s: %s", request.name, request.user_name, s6a.NAMES.get(code, code))
        return s6a.answer_to(request, self.identity, code)

    async def _subscriber(self, request: Any) -> Subscriber | None:
        return await self.store.get(check_imsi(request.user_name or ""))

    async def _authentication(self, request: Any) -> Message:
        plmn = Plmn.decode(request.visited_plmn_id or b"")
        asked = request.requested_eutran_authentication_info
        if asked is None:
            raise ProtocolError("AIR asks for no E-UTRAN vector.")
        async with self._busy.setdefault(request.user_name, asyncio.Lock()):
            try:
                one = await self._subscriber(request)
                if one is None:
                    # As OAI's HSS; TS 29.272 requires DIAMETER_ERROR_USER_UNKNOWN here.
                    return self._refuse(request, s6a.AUTHENTICATION_DATA_UNAVAILABLE)
                sqn = one.sqn
                resync = asked.re_synchronization_info
                if resync is not None:
                    recovered = None
                    if len(resync) == 30:
                        recovered = keys.resynchronised(one.k, one.opc, resync[:16], resync[16:])
                    if recovered is None:
                        return self._refuse(request, s6a.AUTHENTICATION_DATA_UNAVAILABLE)
                    sqn = recovered
                sqn = keys.next_sqn(sqn)
                await self.store.set_sqn(one.imsi, sqn)
            except ProtocolError:
                raise
            except EpcError as error:
                log.error("subscribers: %s", error)
                return self._refuse(request, s6a.AUTHENTICATION_DATA_UNAVAILABLE)
        vector = keys.vector(one.k, one.opc, sqn, plmn.octets)
        # OAI's HSS prints this too, and CK and IK: its output contains secret keys.
        print(f"KASME   : {vector.kasme.hex()}", flush=True)
        answer = s6a.answer_to(request, self.identity)
        return s6a.with_vector(answer, vector)

    async def _location(self, request: Any, connection: Connection) -> Message:
        plmn = Plmn.decode(request.visited_plmn_id or b"")
        try:
            one = await self._subscriber(request)
            if one is None:
                return self._refuse(request, s6a.USER_UNKNOWN)
            if not self.roaming and not imsi_belongs_to(one.imsi, plmn):
                return self._refuse(request, s6a.ROAMING_NOT_ALLOWED)
            if not one.apns:
                return self._refuse(request, s6a.UNKNOWN_EPS_SUBSCRIPTION)
            mme = (request.origin_host or b"").decode(errors="replace")
            await self._cancel_elsewhere(one, mme)
            await self.store.set_mme(one.imsi, mme)
        except ProtocolError:
            raise
        except EpcError as error:
            log.error("subscribers: %s", error)
            return self._refuse(request, UNABLE_TO_COMPLY)
        answer = s6a.answer_to(request, self.identity)
        return s6a.with_subscription(answer, one)

    async def _cancel_elsewhere(self, one: Subscriber, mme: str) -> None:
        """Send a CLR to the MME that served the subscriber before, if it is connected."""
        if one.mme in ("", mme):
            return
        for other in list(self.server.connections):  # it changes while we wait
            if other.peer == one.mme:
                realm = one.mme.partition(".")[2]
                request = s6a.cancel_request(self.identity, one.mme, realm, one.imsi)
                try:
                    await other.request(request)
                except EpcError as error:
                    log.warning("%s", error)

    async def _purge(self, request: Any) -> Message:
        one = await self._subscriber(request)
        if one is None:
            return self._refuse(request, s6a.USER_UNKNOWN)
        # A late purge by an earlier MME changes nothing (TS 29.272 section 5.2.1.3).
        if one.mme == (request.origin_host or b"").decode(errors="replace"):
            await self.store.set_mme(one.imsi, "")
        return s6a.answer_to(request, self.identity)
