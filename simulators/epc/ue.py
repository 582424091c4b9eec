"""The UE: attaches over an eNB and provides its connection as the TUN device oaitun_ue1."""

import asyncio
import logging
from dataclasses import dataclass

from simulators.epc import nas
from simulators.errors import EpcError, ProtocolError
from simulators.shared import keys, terminal
from simulators.shared.addresses import options_of
from simulators.shared.identity import Plmn
from simulators.shared.terminal import RETRY, Device, NasEnd, Radio, RefusedError
from simulators.shared.usim import MacFailureError, SynchFailureError, Usim
from simulators.transport import radio_link

log = logging.getLogger("ue")

T3410 = 15.0  # Seconds an attach may take (T3410).


class Ue(NasEnd):
    """One UE's NAS over a link.

    Attributes:
        bearer: the default bearer while attached, else None.
    """

    def __init__(
        self, usim: Usim, link: radio_link.Channel, radio: int, plmn: Plmn, apn: str = ""
    ) -> None:
        """Create the UE with number ``radio`` on a link, in a network."""
        super().__init__(usim, link, radio, plmn)
        self.apn = apn
        self.guti: nas.Guti | None = None
        self.bearer: nas.Bearer | None = None
        self._next: nas.Security | None = None

    async def _receive(self) -> bytes:
        octets = await super()._receive()
        if self._security is not None and nas.is_protected(octets):
            return self._security.open(octets)
        return octets

    async def attach(self) -> nas.Bearer:
        """Attach; return the default bearer.

        Raises:
            RefusedError: the network refused.
        """
        self._next = None
        self._restart()
        try:
            return await asyncio.wait_for(self._attach(), T3410)
        except TimeoutError:
            self.link.send(radio_link.RELEASE, self.radio)
            raise EpcError(f"No answer to the attach request in {T3410:g} s.") from None

    async def _attach(self) -> nas.Bearer:
        request = nas.AttachRequest(
            self.usim.imsi, nas.CAPABILITY, nas.connectivity_request(self.apn)
        )
        self._send(request.message())
        while True:
            octets = await self._receive()
            if nas.is_protected(octets):  # at this point only a Security Mode Command can be
                octets = self._command(octets)
            kind = nas.kind_of(octets)
            if kind == nas.AUTHENTICATION_REQUEST:
                self._challenged(octets)
            elif kind == nas.IDENTITY_REQUEST:
                identity = nas.imsi_identity(self.usim.imsi)
                self._send(bytes([nas.EMM, nas.IDENTITY_RESPONSE, len(identity)]) + identity)
            elif kind == nas.SECURITY_COMMAND:
                self._send(nas.simple(nas.SECURITY_COMPLETE))
            elif kind == nas.ATTACH_ACCEPT:
                accept = nas.AttachAccept.decode(octets)
                self.guti = accept.guti
                self.bearer = nas.Bearer.decode(accept.esm)
                self._send(nas.attach_complete(nas.activate_accept(self.bearer.number)))
                return self.bearer
            elif kind == nas.ATTACH_REJECT:
                cause = octets[2] if len(octets) > 2 else 0
                final = cause in (nas.ILLEGAL_UE, nas.SERVICES_NOT_ALLOWED)
                raise RefusedError("Attach", cause, nas.CAUSES, final, "EMM")
            elif kind == nas.AUTHENTICATION_REJECT:
                raise RefusedError("Attach", nas.ILLEGAL_UE, nas.CAUSES, True, "EMM")

    def _challenged(self, octets: bytes) -> None:
        _, rand, autn = nas.challenge_of(octets)
        try:
            res, kasme = self.usim.answer(rand, autn, self.plmn.octets)
        except MacFailureError:
            log.error("UE %s: the network's key is not the USIM's", self.usim.imsi)
            self._send(nas.authentication_failure(nas.MAC_FAILURE))
            return
        except SynchFailureError as error:
            self._send(nas.authentication_failure(nas.SYNCH_FAILURE, error.auts))
            return
        self._next = nas.Security(kasme, nas.EEA0, nas.EIA2, keys.UPLINK)
        self._send(nas.authentication_response(res))

    def _command(self, octets: bytes) -> bytes:
        """Check a Security Mode Command with its new keys, and start to use them."""
        if self._next is None:
            raise ProtocolError("a protected message before authentication")
        eea, eia, _, replayed = nas.command_of(nas.inner(octets))
        if eea not in (nas.EEA0, nas.EEA2) or eia != nas.EIA2 or replayed != nas.CAPABILITY[:2]:
            self._send(nas.simple(nas.SECURITY_REJECT, nas.SECURITY_MISMATCH))
            raise EpcError("The network replayed other security capabilities than ours.")
        security = nas.Security(self._next.key, eea, eia, keys.UPLINK)
        plain = security.open(octets)
        self._security, self._next = security, None
        return plain

    async def until_released(self) -> bool:
        """Wait until the UE is detached; return True if the network wants it to attach again."""
        while True:
            try:
                octets = await self._receive()
            except ProtocolError as error:
                log.error("UE %s: %s", self.usim.imsi, error)
                continue
            except EpcError:
                self.bearer = None
                return True
            if nas.kind_of(octets) == nas.DETACH_REQUEST:
                self._send(nas.simple(nas.DETACH_ACCEPT))
                await self._until_free()
                return octets[2] & 7 == 1

    async def detach(self, off: bool = True) -> None:
        """Detach; ``off`` means switch-off."""
        identity = self.guti or self.usim.imsi
        self._send(nas.detach_request(identity, off))
        await self._until_free()

    async def _until_free(self) -> None:
        """Wait until the network has released the connection, for at most 5 s."""
        await self._until_released()
        self.bearer = None


@dataclass(frozen=True)
class Config:
    """Configuration of UEs."""

    usims: tuple[Usim, ...]  # one USIM for each UE.
    hplmns: tuple[Plmn, ...]  # PLMNs that they may use.
    enb: str  # the eNB's address.


class Terminal(terminal.Terminal):
    """The program: keeps its UEs attached."""

    log = log
    station = "eNB"

    def __init__(self, config: Config) -> None:
        super().__init__(Radio(), config.enb, config.hplmns)
        self.usims = config.usims
        self._attached: list[Ue] = []

    async def keep(self, link: radio_link.Channel, plmn: Plmn) -> None:
        """Keep the UEs attached until the connection is lost; each UE may be refused finally."""
        assert isinstance(link, radio_link.Link)  # noqa: S101
        tasks = [
            asyncio.create_task(self._keep(number, Ue(usim, link, number, plmn), link))
            for number, usim in enumerate(self.usims, 1)
        ]
        try:
            await asyncio.shield(link.closed)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        log.error("the connection to the eNB is lost")

    async def _keep(self, number: int, ue: Ue, link: radio_link.Link) -> None:
        imsi = ue.usim.imsi
        self.radio.ues[number] = ue
        while not link.closed.done():
            try:
                bearer = await ue.attach()
            except EpcError as error:
                log.error("UE %s: %s", imsi, error)
                if getattr(error, "final", False):
                    return
                await asyncio.sleep(RETRY)
                continue
            log.info("UE %s is attached: %s on %s", imsi, bearer.address, bearer.apn)
            self._attached.append(ue)
            device = None
            try:
                _, mtu = options_of(bearer.options)
                name = f"oaitun_ue{number}"
                device = self.serve(Device(name, number, bearer.address, mtu, link, number))
                again = await ue.until_released()
            finally:
                self._attached.remove(ue)
                if device is not None:
                    self.shut(device)
            log.error("UE %s is no longer attached", imsi)
            if not again:
                return
            await asyncio.sleep(RETRY)

    async def switch_off(self) -> None:
        await asyncio.gather(*(ue.detach() for ue in list(self._attached)), return_exceptions=True)
        self.disconnect()
