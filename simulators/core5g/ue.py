"""The UE: registers over a gNB, and provides its PDU sessions as TUN devices."""

import asyncio
import contextlib
import itertools
import logging
from dataclasses import dataclass
from typing import Any

from simulators.core5g import keys, nas
from simulators.core5g.snssai import Snssai
from simulators.errors import EpcError, ProtocolError
from simulators.shared import keys as directions
from simulators.shared import terminal
from simulators.shared.identity import Plmn
from simulators.shared.terminal import RETRY, Device, NasEnd, Radio, RefusedError
from simulators.shared.usim import MacFailureError, SynchFailureError, Usim
from simulators.transport import radio_link

log = logging.getLogger("NAS")

#: Seconds for a registration (T3510), and for a PDU session procedure (T3580, T3582 are 16 s).
T3510, T3580 = 15.0, 16.0
_FULL_RATE = {"UPUL": 255, "UPDL": 255}


@dataclass(frozen=True)
class SessionRequest:
    """A PDU session to establish: identity, DNN ("" for none) and slice (None for any)."""

    number: int
    dnn: str = ""
    snssai: Snssai | None = None


@dataclass(frozen=True)
class Session:
    """An established PDU session: identity, the UE's address, DNN, MTU."""

    number: int
    address: str
    dnn: str
    mtu: int | None


class Ue(NasEnd):
    """One UE's NAS over a link.

    Attributes:
        allowed, rejected: slices, after a registration; rejected ones with their cause.
        sessions: PDU sessions by identity.
        access_key: KgNB or KN3IWF, after Security Mode Complete.
    """

    def __init__(
        self,
        usim: Usim,
        link: radio_link.Channel,
        radio: int,
        plmn: Plmn,
        requested: tuple[Snssai, ...] = (),
        access: int = keys.ACCESS_3GPP,
    ) -> None:
        """Create the UE with number ``radio`` on a link; OAI's UE requests no slices."""
        super().__init__(usim, link, radio, plmn)
        self.requested = requested
        self.access = access
        self.guti: nas.Guti | None = None
        self.allowed: tuple[Snssai, ...] = ()
        self.rejected: dict[Snssai, int] = {}
        self.sessions: dict[int, Session] = {}
        self.access_key = b""
        self._kamf = b""
        self._transactions = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[nas.Message]] = {}
        self._listening: asyncio.Task[None] | None = None

    # -- registration ---------------------------------------------------------------------------

    async def register(self) -> None:
        """Register.

        Raises:
            RefusedError: the network refused.
        """
        if self._listening is not None:
            self._listening.cancel()
        self._kamf = b""
        self.sessions.clear()
        self._restart()
        try:
            await asyncio.wait_for(self._register(), T3510)
        except TimeoutError:
            self.link.send(radio_link.RELEASE, self.radio)
            raise EpcError(f"No answer to the registration request in {T3510:g} s.") from None
        self._listening = asyncio.create_task(self._listen())

    def _request(self, whole: bool) -> bytes:
        """Return the request; if not ``whole``, only cleartext IEs (TS 24.501 section 4.4.6)."""
        values: dict[str, Any] = {
            "NAS_KSI": {"TSC": 0, "Value": 7},
            "5GSRegType": {"FOR": 1, "Value": 1},
            "5GSID": nas.suci(self.usim.imsi, self.plmn),
            "UESecCap": nas.CAPABILITY,
        }
        if whole:
            values["5GMMCap"] = {}
            if self.requested:
                values["NSSAI"] = [{"SNSSAI": one.nas} for one in self.requested]
        return nas.encode("RegistrationRequest", values)

    async def _register(self) -> None:
        self._send(self._request(whole=False))
        while True:
            octets = await self._receive()
            plain = self._open(octets) if nas.is_protected(octets) else octets
            message = nas.decode(plain)
            if message.name == "AuthenticationRequest":
                self._challenged(message)
            elif message.name == "IdentityRequest":
                identity = nas.suci(self.usim.imsi, self.plmn)
                self._send(nas.encode("IdentityResponse", {"5GSID": identity}))
            elif message.name == "SecurityModeCommand":
                container = {"NASContainer": self._request(whole=True)}
                assert self._security is not None  # noqa: S101
                count = self._security.sent
                self.access_key = keys.access_key(self._kamf, count, self.access)
                self._send(nas.encode("SecurityModeComplete", container), new=True)
            elif message.name == "RegistrationAccept" and self._security is not None:
                self._accepted(message)
                return
            elif message.name == "RegistrationReject":
                self._note_rejected(message)
                cause = message.need("5GMMCause")
                final = cause == nas.ILLEGAL_UE
                raise RefusedError("Registration", cause, nas.MM_CAUSES, final)
            elif message.name == "AuthenticationReject":
                raise RefusedError("Authentication", nas.ILLEGAL_UE, nas.MM_CAUSES, final=True)

    def _challenged(self, message: nas.Message) -> None:
        rand, token = message.need("RAND"), message.need("AUTN")
        autn = token["SQNxAK"] + token["AMF"] + token["MAC"]
        try:
            answer = self.usim.check(rand, autn)
        except MacFailureError:
            log.error("UE %s: the network's key is not the USIM's", self.usim.imsi)
            self._send(nas.encode("AuthenticationFailure", {"5GMMCause": nas.MAC_FAILURE}))
            return
        except SynchFailureError as error:
            values = {"5GMMCause": nas.SYNCH_FAILURE, "AUTS": error.auts}
            self._send(nas.encode("AuthenticationFailure", values))
            return
        network = keys.network_name(self.plmn)
        kausf = keys.kausf(answer.ck, answer.ik, network, autn[:6])
        self._kamf = keys.kamf(keys.kseaf(kausf, network), self.usim.imsi)
        res = keys.res_star(answer.ck, answer.ik, network, rand, answer.res)
        self._send(nas.encode("AuthenticationResponse", {"RES": res}))

    def _open(self, octets: bytes) -> bytes:
        """Remove a message's protection; a Security Mode Command starts the use of new keys."""
        if self._security is not None:
            return self._security.open(octets)
        if not self._kamf:
            raise ProtocolError("a protected message before authentication")
        command = nas.decode(nas.inner(octets))
        chosen = command.need("NASSecAlgo")
        nea, nia = chosen["CiphAlgo"], chosen["IntegAlgo"]
        replayed = {name for name, value in command.need("UESecCap").items() if value}
        if nea not in (nas.NEA0, nas.NEA2) or nia != nas.NIA2 or replayed != set(nas.CAPABILITY):
            cause = {"5GMMCause": nas.SECURITY_MISMATCH}
            self.link.send(radio_link.NAS, self.radio, nas.encode("SecurityModeReject", cause))
            raise EpcError("The network replayed other security capabilities than ours.")
        security = nas.Security(self._kamf, nea, nia, directions.UPLINK, self.access)
        plain = security.open(octets)
        self._security = security
        return plain

    def _accepted(self, message: nas.Message) -> None:
        self.guti = nas.Guti.of_nas(message.need("GUTI"))
        listed = message.values.get("AllowedNSSAI", ())
        self.allowed = tuple(Snssai.of_nas(one["SNSSAI"]) for one in listed)
        self._note_rejected(message)
        self._send(nas.encode("RegistrationComplete"))

    def _note_rejected(self, message: nas.Message) -> None:
        listed = message.values.get("RejectedNSSAI", ())
        self.rejected = {Snssai.of_nas(one["SNSSAI"]): one["Cause"] for one in listed}

    # -- PDU sessions ---------------------------------------------------------------------------

    async def _listen(self) -> None:
        """Handle messages until the UE is released or deregistered."""
        while True:
            try:
                octets = await self._receive()
                assert self._security is not None  # noqa: S101
                message = nas.decode(self._security.open(octets))
            except ProtocolError as error:
                log.error("UE %s: %s", self.usim.imsi, error)
                continue
            except EpcError:
                self.sessions.clear()
                return
            if message.name == "DLNASTransport":
                self._transported(message)

    def _transported(self, message: nas.Message) -> None:
        number = message.need("PDUSessID")
        waiting = self._waiting.get(number)
        inner = nas.decode(message.need("PayloadContainer"))
        if inner.name == "PDUSessionReleaseCommand":
            self.sessions.pop(number, None)
            complete = nas.encode_sm("PDUSessionReleaseComplete", number, inner.transaction)
            self._transport(number, complete)
        if waiting is not None and not waiting.done():
            cause = message.values.get("5GMMCause")
            if cause is not None:
                waiting.set_exception(RefusedError("PDU session", cause, nas.MM_CAUSES))
            else:
                waiting.set_result(inner)

    def _transport(self, number: int, octets: bytes, asked: SessionRequest | None = None) -> None:
        values = {
            "PayloadContainerType": nas.N1_SM,
            "PayloadContainer": octets,
            "PDUSessID": number,
        }
        if asked is not None:
            values["RequestType"] = {"Value": 1}
            if asked.snssai is not None:
                values["SNSSAI"] = asked.snssai.nas
            if asked.dnn:
                values["DNN"] = asked.dnn
        self._send(nas.encode("ULNASTransport", values))

    async def _ask(
        self, number: int, octets: bytes, asked: SessionRequest | None = None
    ) -> nas.Message:
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._transport(number, octets, asked)
            return await asyncio.wait_for(waiting, T3580)
        except TimeoutError:
            raise EpcError(f"No answer about PDU session {number} in {T3580:g} s.") from None
        finally:
            del self._waiting[number]

    async def establish(self, asked: SessionRequest) -> Session:
        """Establish a PDU session.

        Raises:
            RefusedError: the network refused.
        """
        request = {
            "IntegrityProtMaxDataRate": _FULL_RATE,
            "PDUSessType": {"Value": 1},
            "SSCMode": {"Value": 1},
            "ExtProtConfig": {"Config": [{"ID": 0x0D, "Cont": b""}, {"ID": 0x10, "Cont": b""}]},
        }
        transaction = next(self._transactions) % 254 + 1
        octets = nas.encode_sm("PDUSessionEstabRequest", asked.number, transaction, request)
        answer = await self._ask(asked.number, octets, asked)
        if answer.name != "PDUSessionEstabAccept":
            cause = answer.values.get("5GSMCause", 0)
            raise RefusedError("PDU session", cause, nas.SM_CAUSES)
        options = answer.values.get("ExtProtConfig", {}).get("Config", ())
        mtu = next((int.from_bytes(o["Cont"], "big") for o in options if o["ID"] == 0x10), None)
        address = nas.address_of(answer.need("PDUAddress"))
        dnn = nas.dnn(answer.values.get("DNN", []))
        session = self.sessions[asked.number] = Session(asked.number, address, dnn, mtu)
        return session

    async def release(self, number: int) -> None:
        """Release a PDU session."""
        transaction = next(self._transactions) % 254 + 1
        await self._ask(number, nas.encode_sm("PDUSessionReleaseRequest", number, transaction))

    # -- the end --------------------------------------------------------------------------------

    async def deregister(self, off: bool = True) -> None:
        """Deregister; ``off`` means switch-off."""
        identity = self.guti.nas if self.guti else nas.suci(self.usim.imsi, self.plmn)
        kind = {"SwitchOff": int(off), "AccessType": self.access}
        values = {"NAS_KSI": {"TSC": 0, "Value": 1}, "DeregistrationType": kind, "5GSID": identity}
        self._send(nas.encode("MODeregistrationRequest", values))
        await self._until_released()


class Attached(Ue):
    """A UE of a load; "attached" means registered with one PDU session."""

    bearer: Session | None = None
    _wanted = SessionRequest(1)

    def want(self, snssai: str, dnn: str) -> None:
        """Set the slice (SST-SD) and the DNN of the PDU session."""
        sst, _, sd = snssai.partition("-")
        self._wanted = SessionRequest(1, dnn, Snssai.of({"sst": sst, "sd": sd}))

    async def attach(self) -> None:
        """Register and establish the session."""
        await self.register()
        self.bearer = await self.establish(self._wanted)

    async def detach(self, off: bool = True) -> None:
        await self.deregister(off)
        self.bearer = None


@dataclass(frozen=True)
class Config:
    """Configuration of the UE: its USIM, home network, the gNB's address, and PDU sessions."""

    usim: Usim
    plmns: tuple[Plmn, ...]
    gnb: str
    sessions: tuple[SessionRequest, ...]


class Terminal(terminal.Terminal):
    """The program: keeps its UE registered and its PDU sessions established."""

    log = log
    station = "gNB"
    access = keys.ACCESS_3GPP

    def __init__(self, config: Config, radio: Radio | None = None) -> None:
        super().__init__(radio or Radio(), config.gnb, config.plmns)
        self.config = config
        self._ue: Ue | None = None
        self._devices: dict[int, Device] = {}

    async def keep(self, link: radio_link.Channel, plmn: Plmn) -> None:
        """Keep the UE registered until it is released, and its PDU sessions established."""
        usim = self.config.usim
        ue = self._ue = self.radio.ues[1] = Ue(usim, link, 1, plmn, access=self.access)
        await ue.register()
        log.info("[UE 0] Received Registration Accept: UE %s is registered", usim.imsi)
        keeping = asyncio.gather(*(self._session(ue, one) for one in self.config.sessions))
        try:
            await ue.released.wait()
        finally:
            keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeping
            self._drop()
        log.error("UE %s is no longer registered", usim.imsi)

    async def _session(self, ue: Ue, asked: SessionRequest) -> None:
        said = ""
        while True:
            if asked.number not in ue.sessions:
                self._close(asked.number)
                try:
                    session = await ue.establish(asked)
                    name = self._device(asked)
                    number = radio_link.numbered(ue.radio, asked.number)
                    self._devices[asked.number] = self.serve(
                        Device(name, asked.number, session.address, session.mtu, ue.link, number)
                    )
                    log.info(
                        "Received PDU Session Establishment Accept, UE IPv4: %s on %s",
                        session.address,
                        name,
                    )
                    said = ""
                except EpcError as error:
                    if str(error) != said:
                        log.error("PDU session %d: %s", asked.number, error)
                    said = str(error)
            await asyncio.sleep(RETRY)

    def _device(self, asked: SessionRequest) -> str:
        """Return the name of a PDU session's TUN device."""
        first = asked is self.config.sessions[0]
        return "oaitun_ue1" if first else f"oaitun_ue1p{asked.number}"

    def _close(self, number: int) -> None:
        device = self._devices.pop(number, None)
        if device is not None:
            self.shut(device)

    def _drop(self) -> None:
        for number in list(self._devices):
            self._close(number)

    async def switch_off(self) -> None:
        if self._ue is not None and self._ue.guti and not self._ue.released.is_set():
            await self._ue.deregister()
        self._drop()
