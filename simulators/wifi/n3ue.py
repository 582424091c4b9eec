"""The UE in an untrusted Wi-Fi: IKEv2 with EAP-5G to an N3IWF, NAS and PDU sessions inside."""

import asyncio
import contextlib
import datetime
import ipaddress
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from cryptography import exceptions, x509
from scapy.contrib import ikev2 as codec
from scapy.packet import Packet

from simulators.core5g import keys, ue
from simulators.errors import EpcError, ProtocolError
from simulators.shared import terminal
from simulators.shared.identity import Plmn
from simulators.transport import radio_link, tun
from simulators.wifi import eap5g, ikev2, nwu

log = logging.getLogger("N3UE")

CONNECT = 5.0  # Maximum seconds to set up the TCP connection for NAS.


def fqdn(plmn: Plmn) -> str:
    """The FQDN of a network's N3IWF (TS 23.003 clause 28.3.2.2.2)."""
    return f"n3iwf.5gc.mnc{plmn.mnc.zfill(3)}.mcc{plmn.mcc}.pub.3gppnetwork.org"


def verify(leaf: x509.Certificate, root: x509.Certificate, name: str) -> None:
    """Check issuer, dates and name of a certificate (TS 33.501 clause 7.2.1)."""
    now = datetime.datetime.now(datetime.UTC)
    try:
        leaf.verify_directly_issued_by(root)
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (exceptions.InvalidSignature, ValueError, TypeError, x509.ExtensionNotFound) as error:
        reason = str(error) or "its signature is not the authority's"
        raise ProtocolError(f"The N3IWF's certificate is not trusted: {reason}.") from None
    if not leaf.not_valid_before_utc <= now <= leaf.not_valid_after_utc:
        raise ProtocolError("The N3IWF's certificate is not valid now.")
    if name not in names.get_values_for_type(x509.DNSName):
        raise ProtocolError(f"The N3IWF's certificate does not name {name}.")


@dataclass(frozen=True)
class Config(ue.Config):
    """Configuration of the UE: that of a gNB's UE, with the N3IWF's NWu address as the gNB's."""

    address: str = ""  # own address on the Wi-Fi.
    # CA of the N3IWF's certificate.
    root: x509.Certificate | None = field(default=None, repr=False)
    device: str = "ipsec"  # beginning of the name of the signalling device.
    tunnels: str = "gretun"  # beginning of the names of the devices of PDU sessions.
    first: int = 1  # number of the signalling device; those of PDU sessions follow.
    liveness: float = 60.0  # seconds between dead peer detection requests to the N3IWF, 0 for none.


class Access(nwu.Link):
    """The UE's IKE SA."""

    def __init__(self, config: Config, plmn: Plmn, radio: "Radio") -> None:
        """Prepare an IKE SA, without sending anything."""
        super().__init__()
        self.config = config
        self.plmn = plmn
        self.radio = radio
        self.endpoint = nwu.Endpoint(config.address)
        peer = nwu.Peer(config.gnb, ikev2.PORT)
        self.ike = nwu.Association(self.endpoint, peer, self, initiator=True)
        self.qfis: dict[int, int] = {}  # by PDU session
        self._identity = codec.IKEv2_IDi(IDtype=ikev2.KEY_ID, ID=b"UE")
        self._theirs: Packet | None = None
        self._identifier = 0
        self._draft: nwu.Draft | None = None
        self._up: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._settled = False

    def _spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            try:
                await work()
            except EpcError as error:
                log.error("%s", error)
                self.ike.end("")

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- IKE_SA_INIT and IKE_AUTH -----------------------------------------------------------------

    async def begin(self) -> None:
        """Exchange IKE messages until the N3IWF starts EAP-5G, which carries NAS."""
        try:
            self.endpoint.start()
        except OSError as error:
            raise EpcError(f"NWu on {self.config.address}: {error.strerror}.") from None
        await self.ike.initiate()
        self._draft = self.ike.draft(b"", b"")
        answer = await self.ike.request(
            ikev2.AUTH,
            self._identity,
            ikev2.proposal(ikev2.ESP, self._draft.spi),
            *ikev2.selectors("0.0.0.0/0", "0.0.0.0/0"),
        )
        try:
            self._trust(answer)
        except ProtocolError:
            await self.ike.close(ikev2.notify(ikev2.AUTHENTICATION_FAILED))
            raise
        eap = self._eap(answer)
        if (eap.code, eap.message) != (eap5g.REQUEST, eap5g.START):
            raise ProtocolError("The N3IWF does not start EAP-5G.")
        self._spawn(self._signal)

    def _trust(self, answer: ikev2.Message) -> None:
        """Check the N3IWF's certificate and its signature."""
        self._theirs = answer.need(codec.IKEv2_IDr)
        auth, name = answer.need(codec.IKEv2_AUTH), fqdn(self.plmn)
        if bytes(self._theirs.ID) != name.encode() or auth.auth_type != ikev2.RSA_SIGNATURE:
            raise ProtocolError(f"The N3IWF does not authenticate as {name}.")
        payload = answer.need(codec.IKEv2_CERT)
        try:
            leaf = x509.load_der_x509_certificate(bytes(payload.cert_data))
        except (ValueError, x509.InvalidVersion) as error:
            raise ProtocolError(
                f"The N3IWF sent something that is not a certificate: {error}"
            ) from None
        if self.config.root is None:
            raise ProtocolError("The UE knows no authority of N3IWFs.")
        verify(leaf, self.config.root, name)
        octets = self.ike.signed(False, self._theirs)
        ikev2.verify_rsa(leaf.public_key(), bytes(auth.load), octets)

    def _eap(self, answer: ikev2.Message) -> eap5g.Eap:
        eap = eap5g.Eap.decode(bytes(answer.need(codec.IKEv2_EAP).load))
        self._identifier = eap.identifier
        return eap

    async def _signal(self) -> None:
        """Exchange NAS in EAP, until the N3IWF has KN3IWF."""
        parameters = eap5g.Parameters(self.plmn).encode()
        while True:
            octets = await self._up.get()
            message = eap5g.STOP if octets is None else eap5g.NAS
            made = eap5g.Eap(eap5g.RESPONSE, self._identifier, message, octets or b"", parameters)
            parameters = b""
            payload = codec.IKEv2_EAP(load=made.encode())
            eap = self._eap(await self.ike.request(ikev2.AUTH, payload))
            if eap.code == eap5g.SUCCESS:
                break
            if eap.code == eap5g.FAILURE:
                raise EpcError("The N3IWF says that EAP-5G failed.")
            self.received(radio_link.NAS, 1, eap.nas)
        await self._settle()

    async def _settle(self) -> None:
        """Prove that we have KN3IWF, and connect to the N3IWF's TCP port for NAS."""
        device = self.radio.ues[1]
        assert isinstance(device, ue.Ue)  # noqa: S101
        ike, key = self.ike, device.access_key
        assert self._theirs is not None  # noqa: S101
        assert self._draft is not None  # noqa: S101
        ours = ike.signed(True, self._identity)
        answer = await ike.request(
            ikev2.AUTH,
            codec.IKEv2_AUTH(auth_type=ikev2.SHARED_KEY, load=ikev2.shared_auth(key, ours)),
            nwu.configuration(ikev2.CFG_REQUEST, {ikev2.INTERNAL_ADDRESS: b""}),
        )
        theirs = ike.signed(False, self._theirs)
        if answer.need(codec.IKEv2_AUTH).load != ikev2.shared_auth(key, theirs):
            await ike.close(ikev2.notify(ikev2.AUTHENTICATION_FAILED))
            raise ProtocolError("The N3IWF does not have KN3IWF.")
        own = nwu.configured(answer.need(codec.IKEv2_CP)).get(ikev2.INTERNAL_ADDRESS, b"")
        place = answer.notified(eap5g.NAS_IP4_ADDRESS)
        port = answer.notified(eap5g.NAS_TCP_PORT)
        spi = ikev2.chosen(answer.need(codec.IKEv2_SA), ikev2.ESP)
        if len(own) != 4 or place is None or port is None or spi is None:
            raise ProtocolError("The N3IWF does not say where NAS goes.")
        address = eap5g.address_of(bytes(place.notify))
        self.inner = own, ipaddress.IPv4Address(address).packed
        ike.first_child(self._draft._replace(local=own, remote=self.inner[1]), spi)
        inner = str(ipaddress.IPv4Address(own))
        name = f"{self.config.device}-default"
        self.signalling = nwu.Device(name, f"{inner}/32", self.send_signalling)
        tun.ip("route", "replace", address, "dev", name, "src", inner)
        try:
            reader, writer = await asyncio.wait_for(
                asyncio.open_connection(
                    address, nwu.port_of(bytes(port.notify)), local_addr=(inner, 0)
                ),
                CONNECT,
            )
        except (TimeoutError, OSError) as error:
            raise EpcError(f"NAS over TCP: {error or 'no answer'}.") from None
        self._settled = True
        log.info("Signalling SA with %s, inner address %s", self.config.gnb, inner)
        if self.config.liveness:
            self._spawn(self._watch)
        await self.read_nas(reader, writer)
        self.ike.end("The connection for NAS is closed.")

    async def authenticate(self, message: ikev2.Message) -> tuple[Packet, ...]:
        """Refuse: an N3IWF sends no IKE_AUTH requests."""
        raise ProtocolError("The N3IWF sends IKE_AUTH requests.")

    async def _watch(self) -> None:
        """Run dead peer detection (RFC 7296 section 2.4)."""
        while True:
            await asyncio.sleep(self.config.liveness)
            await self.ike.request(ikev2.INFORMATIONAL)

    # -- frames -----------------------------------------------------------------------------------

    def send(self, kind: int, ue: int, content: bytes = b"") -> None:
        """Send a NAS message, or end the connection."""
        if kind == radio_link.NAS and self._settled:
            self.write_nas(content)
        elif kind == radio_link.NAS:
            self._up.put_nowait(content)
        elif kind == radio_link.RELEASE:
            self.close()

    def received(self, kind: int, number: int, content: bytes) -> None:
        self.radio.received(self, kind, number, content)

    def close(self) -> None:
        """Delete the IKE SA; during EAP-5G stop that instead, which the N3IWF confirms."""
        if self._settled:
            self._spawn(self.ike.close)
        else:
            self._up.put_nowait(None)

    def requested_child(self, message: ikev2.Message) -> nwu.Draft | None:
        """Return the child SA of a PDU session that the N3IWF requests, None to refuse it."""
        info, place = message.notified(eap5g.QOS_INFO), message.notified(eap5g.UP_IP4_ADDRESS)
        if info is None or place is None or not self._settled:
            return None
        session, qfis = eap5g.qos_info_of(bytes(info.notify))
        if not session or not qfis or bytes(place.notify) != self.inner[1]:
            return None
        self.qfis[session] = qfis[0]
        return self.ike.draft(*self.inner, session, *qfis)

    def ended(self, why: str) -> None:
        if why:
            log.error("NWu: %s", why)
        self.close_nas()
        if self.signalling is not None:
            self.signalling.close()
        self.endpoint.stop()
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()
        self.received(radio_link.RELEASE, 1, b"")


class Radio(terminal.Radio):
    """A terminal's connection to its N3IWF."""

    link: Access | None

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    async def connect(self, address: str, local: str = "") -> list[Plmn]:
        """Begin an IKE SA; return the PLMN of the N3IWF."""
        plmn = self.config.plmns[0]
        if self.link is not None:
            self.link.ike.end("")
        link = Access(self.config, plmn, self)
        try:
            await link.begin()
        except EpcError:
            link.ike.end("")
            link.endpoint.stop()
            raise
        self.link = link
        return [plmn]


class Terminal(ue.Terminal):
    """The program: keeps its UE registered over Wi-Fi and its PDU sessions established."""

    station = "N3IWF"
    access = keys.ACCESS_NON_3GPP
    config: Config
    radio: Radio

    def __init__(self, config: Config) -> None:
        super().__init__(config, Radio(config))

    def _device(self, asked: ue.SessionRequest) -> str:
        assert self.radio.link is not None  # noqa: S101
        qfi = self.radio.link.qfis.get(asked.number, 0)
        name = f"{self.config.tunnels}-id-{self.config.first + asked.number}-{qfi}"
        log.info("New GRE Tunnel, Key Field: [0x%x], IfaceName: [%s]", qfi << 24, name)
        return name

    async def run(self) -> None:
        """Connect and register, and repeat after losses; after a final refusal disconnect."""
        await super().run()
        self.disconnect()

    async def switch_off(self) -> None:
        """Deregister, delete the IKE SA, and end."""
        await super().switch_off()
        if self.radio.link is not None:
            with contextlib.suppress(EpcError, TimeoutError):
                await asyncio.wait_for(self.radio.link.ike.close(), 2)
