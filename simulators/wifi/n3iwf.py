"""The N3IWF (TS 23.501 clause 6.2.9): NGAP to the AMF, GTP-U to UPFs, IKEv2 and ESP to its UEs."""

import asyncio
import contextlib
import ipaddress
import itertools
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from scapy.contrib import ikev2 as codec
from scapy.packet import Packet

from simulators.core5g import gnb
from simulators.errors import EpcError, ProtocolError
from simulators.shared.base_station import Connection
from simulators.transport import asn1, radio_link
from simulators.wifi import eap5g, ikev2, nwu

log = logging.getLogger("N3IWF")

ANSWER = 20.0  # Seconds to wait for each answer of the AMF to a UE in IKE_AUTH.
HALF_OPEN = 60.0  # Maximum seconds of a UE for all of IKE_AUTH.


@dataclass(frozen=True)
class Config(gnb.Config):
    """Configuration of the N3IWF: that of a gNB without a cell, and NWu."""

    nwu: str = ""  # IKE and ESP address.
    inner: str = ""  # our inner address, the destination of NAS and GRE.
    pool: str = ""  # prefix of the inner addresses of UEs.
    nas_port: int = 20000  # TCP port of NAS.
    fqdn: str = ""  # identity; the certificate has this name.
    # `key`, `certificate`: RSA key and certificate for IKE_AUTH.
    key: rsa.RSAPrivateKey | None = None
    certificate: x509.Certificate | None = None
    device: str = "ipsec-default"  # name of the device of signalling SAs.
    liveness: float = 60.0  # seconds between dead peer detection requests to a UE, 0 for none.
    retries: int = 4  # transmissions of such a request before the UE counts as dead.


class UeLink(nwu.Link):
    """A UE's IKE SA at the N3IWF."""

    def __init__(self, station: "N3iwf", octets: bytes, peer: nwu.Peer) -> None:
        """Answer the UE's IKE_SA_INIT."""
        super().__init__()
        self.station = station
        self.state = self._start
        self.user = ""  # inner address
        self._identifier = 0
        self._key = b""
        self._spi = b""
        self._offered = False
        self._identity: Packet | None = None
        self._down: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._watching: asyncio.Task[None] | None = None
        self.ike = nwu.Association(station.nwu, peer, self, initiator=False)
        try:
            self.ike.respond(octets)
        except ProtocolError:
            self.ike.end("")
            raise
        station.spawn(self._expire())

    async def _expire(self) -> None:
        """Forget a UE that does not finish IKE_AUTH in time."""
        await asyncio.sleep(HALF_OPEN)
        if not self.up and not self.ike.gone:
            self.ike.end("It did not authenticate in time.")

    def received(self, kind: int, number: int, content: bytes) -> None:
        self.station.from_ue(self, kind, number, content)

    # -- frames from the station ------------------------------------------------------------------

    def send(self, kind: int, ue: int, content: bytes = b"") -> None:
        """Send a NAS message, or release the UE; ignore other kinds of frames."""
        if kind == radio_link.NAS and self.up:
            self.write_nas(content)
        elif kind == radio_link.NAS:
            self._down.put_nowait(content)
        elif kind == radio_link.RELEASE and self.up:
            self.close()
        elif kind == radio_link.RELEASE:
            self._down.put_nowait(None)

    def give_key(self, key: bytes) -> None:
        """Store KN3IWF from the AMF; this ends EAP with success."""
        self._key = key
        self._down.put_nowait(b"")

    @property
    def up(self) -> bool:
        """Whether there is a signalling SA."""
        return self.state == self._settled

    def close(self) -> None:
        self.station.spawn(self.ike.close())

    # -- IKE_AUTH ---------------------------------------------------------------------------------

    async def authenticate(self, message: ikev2.Message) -> tuple[Packet, ...]:
        return await self.state(message)

    async def _start(self, message: ikev2.Message) -> tuple[Packet, ...]:
        """Answer the first request; without AUTH the UE asks for EAP (RFC 7296 section 2.16)."""
        config = self.station.config
        if message.find(codec.IKEv2_AUTH) is not None or config.key is None:
            return self._refused("A UE must authenticate by EAP")
        self._identity = message.need(codec.IKEv2_IDi)
        spi = ikev2.chosen(message.need(codec.IKEv2_SA), ikev2.ESP)
        if spi is None:
            self.station.spawn(self._end_soon())
            return (ikev2.notify(ikev2.NO_PROPOSAL_CHOSEN),)
        self._spi = spi
        identity = codec.IKEv2_IDr(IDtype=ikev2.FQDN, ID=config.fqdn.encode())
        assert config.certificate is not None  # noqa: S101
        octets = self.ike.signed(True, identity)
        self.state = self._eap
        return (
            identity,
            codec.IKEv2_CERT(
                cert_encoding=4, cert_data=config.certificate.public_bytes(Encoding.DER)
            ),
            codec.IKEv2_AUTH(
                auth_type=ikev2.RSA_SIGNATURE, load=ikev2.rsa_auth(config.key, octets)
            ),
            self._request(eap5g.START),
        )

    def _request(self, message: int, pdu: bytes = b"") -> Packet:
        self._identifier = self._identifier % 255 + 1
        made = eap5g.Eap(eap5g.REQUEST, self._identifier, message, pdu)
        return codec.IKEv2_EAP(load=made.encode())

    async def _eap(self, message: ikev2.Message) -> tuple[Packet, ...]:
        """Pass a NAS message to the AMF, and return its answer in EAP."""
        eap = eap5g.Eap.decode(bytes(message.need(codec.IKEv2_EAP).load))
        if eap.code != eap5g.RESPONSE or eap.identifier != self._identifier:
            raise ProtocolError("An EAP response is of no request.")
        if eap.message != eap5g.NAS:
            self.received(radio_link.RELEASE, 1, b"")
            return self._failure("The UE stops EAP-5G")
        if not self._offered:
            plmn = eap5g.Parameters.decode(eap.parameters).plmn
            self._offered = True
            if plmn not in self.station.config.plmns:
                return self._failure(f"The UE selects {plmn}, which has no AMF here")
        self.received(radio_link.NAS, 1, eap.nas)
        try:
            octets = await asyncio.wait_for(self._down.get(), ANSWER)
        except TimeoutError:
            self.received(radio_link.RELEASE, 1, b"")
            return self._failure("The AMF does not answer")
        if octets is None:
            return self._failure("The AMF releases the UE")
        if octets:
            return (self._request(eap5g.NAS, octets),)
        self.state = self._key_proof
        done = eap5g.Eap(eap5g.SUCCESS, self._identifier)
        return (codec.IKEv2_EAP(load=done.encode()),)

    def _failure(self, why: str) -> tuple[Packet, ...]:
        log.error("UE at %s: %s", self.ike.peer.host, why)
        self.station.spawn(self._end_soon())
        done = eap5g.Eap(eap5g.FAILURE, self._identifier)
        return (codec.IKEv2_EAP(load=done.encode()),)

    def _refused(self, why: str) -> tuple[Packet, ...]:
        log.error("UE at %s: %s", self.ike.peer.host, why)
        self.station.spawn(self._end_soon())
        return (ikev2.notify(ikev2.AUTHENTICATION_FAILED),)

    async def _end_soon(self) -> None:
        """Forget a failed IKE SA, but only after the UE's possible repetitions."""
        await asyncio.sleep(nwu.REPEAT * 4)
        self.ike.end("")

    async def _key_proof(self, message: ikev2.Message) -> tuple[Packet, ...]:
        """Answer the last request: both ends prove that they have KN3IWF, the MSK of EAP."""
        ike, config = self.ike, self.station.config
        assert self._identity is not None  # noqa: S101
        theirs = ike.signed(False, self._identity)
        auth = message.need(codec.IKEv2_AUTH)
        if auth.auth_type != ikev2.SHARED_KEY or auth.load != ikev2.shared_auth(self._key, theirs):
            self.received(radio_link.RELEASE, 1, b"")
            return self._refused("Its AUTH is not by KN3IWF")
        ours = ike.signed(True, codec.IKEv2_IDr(IDtype=ikev2.FQDN, ID=config.fqdn.encode()))
        self.user = self.station.take_address(self)
        local = ipaddress.IPv4Address(config.inner).packed
        self.inner = local, ipaddress.IPv4Address(self.user).packed
        self.signalling = self.station.device
        child = ike.first_child(ike.draft(*self.inner), self._spi)
        self.state = self._settled
        self.station.spawn(self._ready())
        values = {
            ikev2.INTERNAL_ADDRESS: self.inner[1],
            ikev2.INTERNAL_NETMASK: ipaddress.IPv4Network(config.pool).netmask.packed,
        }
        return (
            codec.IKEv2_AUTH(auth_type=ikev2.SHARED_KEY, load=ikev2.shared_auth(self._key, ours)),
            nwu.configuration(ikev2.CFG_REPLY, values),
            ikev2.proposal(ikev2.ESP, child.spi),
            *ikev2.selectors(self.user, config.inner),
            ikev2.notify(eap5g.NAS_IP4_ADDRESS, local),
            ikev2.notify(eap5g.NAS_TCP_PORT, config.nas_port.to_bytes(2, "big")),
        )

    async def _settled(self, message: ikev2.Message) -> tuple[Packet, ...]:
        raise ProtocolError("IKE_AUTH came for an IKE SA that is authenticated.")

    async def _ready(self) -> None:
        """Tell the AMF that the signalling SA is up, and start dead peer detection."""
        self.station.context_ready(self)
        if self.station.config.liveness:
            self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """Run dead peer detection (RFC 7296 section 2.4)."""
        config = self.station.config
        while True:
            await asyncio.sleep(config.liveness)
            with contextlib.suppress(EpcError):
                await self.ike.request(ikev2.INFORMATIONAL, times=config.retries)

    # -- child SAs --------------------------------------------------------------------------------

    def requested_child(self, message: ikev2.Message) -> nwu.Draft | None:
        """Refuse: only the N3IWF creates child SAs for user data (TS 24.502 clause 7.5)."""
        return None

    async def open_session(self, session: int, qfi: int) -> None:
        """Create the child SA of a PDU session's QoS flow."""
        old = self.child_of(session)
        notifies = (
            ikev2.notify(eap5g.QOS_INFO, eap5g.qos_info(session, qfi)),
            ikev2.notify(eap5g.UP_IP4_ADDRESS, self.inner[0]),
        )
        await self.ike.create_child(self.ike.draft(*self.inner, session, qfi), *notifies)
        if old is not None:
            await self.ike.delete_child(old)

    def close_session(self, session: int) -> None:
        """Delete the child SA of a PDU session."""
        child = self.child_of(session)
        if child is not None and not self.ike.gone:
            self.station.spawn(self.ike.delete_child(child))

    def ended(self, why: str) -> None:
        if why:
            log.error("UE at %s: %s", self.ike.peer.host, why)
        if self._watching is not None:
            self._watching.cancel()
        self.close_nas()
        self._down.put_nowait(None)
        self.station.lost(self)


class N3iwf(gnb.Gnb):
    """The non-3GPP interworking function."""

    log = log
    accepted = (logging.getLogger("NGAP"), "Handle NG Setup Response")
    config: Config

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.nwu = nwu.Endpoint(config.nwu, self._accept)
        self.device: nwu.Device | None = None
        self._by_address: dict[str, UeLink] = {}
        self._half: dict[tuple[nwu.Peer, bytes], UeLink] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        network = ipaddress.IPv4Network(config.pool)
        self._free = itertools.cycle(str(one) for one in network.hosts())
        self._size = network.num_addresses - 2

    async def _open_radio(self) -> None:
        size = ipaddress.IPv4Network(self.config.pool).prefixlen
        address = f"{self.config.inner}/{size}"
        self.device = nwu.Device(self.config.device, address, self._to_ue)
        self._server = await asyncio.start_server(
            self._nas_connection, self.config.inner, self.config.nas_port
        )
        self.nwu.start()
        log.info("N3IWF %s listens on %s", self.config.fqdn, self.config.nwu)

    def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        self.nwu.stop()
        if self.device is not None:
            self.device.close()
        super().stop()

    def spawn(self, work: Any) -> None:
        """Run a coroutine in a task; log its error (a timeout has ended the IKE SA already)."""

        async def run() -> None:
            try:
                await work
            except EpcError as error:
                log.error("%s", error)

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- UEs --------------------------------------------------------------------------------------

    def _accept(self, octets: bytes, peer: nwu.Peer) -> None:
        known = self._half.get((peer, octets[:8]))
        if known is not None:
            known.ike.again()
            return
        link = UeLink(self, octets, peer)
        if not link.ike.gone:
            self._half[peer, octets[:8]] = link

    def from_ue(self, link: UeLink, kind: int, number: int, content: bytes) -> None:
        self._from_ue(link, kind, number, content)

    def take_address(self, link: UeLink) -> str:
        """Assign an inner address to a UE."""
        for address in itertools.islice(self._free, self._size):
            if address != self.config.inner and address not in self._by_address:
                self._by_address[address] = link
                return address
        raise EpcError("All inner addresses of UEs are taken.")

    def lost(self, link: UeLink) -> None:
        """Forget a UE whose IKE SA has ended."""
        self._half = {key: one for key, one in self._half.items() if one is not link}
        self._by_address.pop(link.user, None)
        self._unlinked(link)

    def _to_ue(self, packet: bytes) -> None:
        link = self._by_address.get(str(ipaddress.IPv4Address(packet[16:20])))
        if link is not None:
            link.send_signalling(packet)

    async def _nas_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        link = self._by_address.get(writer.get_extra_info("peername")[0])
        if link is None:
            writer.close()
            return
        await link.read_nas(reader, writer)

    # -- NGAP -------------------------------------------------------------------------------------

    def _identity(self) -> tuple[str, dict[str, Any]]:
        number = {"n3IWF-ID": ("n3IWF-ID", (self.config.number, 16))}
        return "globalN3IWF-ID", {"pLMNIdentity": self.config.plmns[0].octets} | number

    def _place(self, ue: Connection) -> dict[str, Any]:
        assert isinstance(ue.link, UeLink)  # noqa: S101
        peer = ue.link.ike.peer
        where = {"iPAddress": asn1.address(peer.host), "portNumber": peer.port.to_bytes(2, "big")}
        kind = "userLocationInformationN3IWF-with-PortNumber"
        return {"UserLocationInformation": (kind, where)}

    def _set_context(self, ue: Connection, message: asn1.Message) -> None:
        assert isinstance(ue.link, UeLink)  # noqa: S101
        number, size = message.need("SecurityKey")
        ue.link.give_key(number.to_bytes(size // 8, "big"))

    def context_ready(self, link: UeLink) -> None:
        """Tell the AMF that the signalling SA is up."""
        ue = self._by_radio.get((link, 1))
        if ue is not None:
            self._tell("InitialContextSetupResponse", ue, {})

    def _sessions(self, ue: Connection, items: Iterable[dict[str, Any]]) -> None:
        self.spawn(self._child_sessions(ue, list(items)))

    async def _child_sessions(self, ue: Connection, items: list[dict[str, Any]]) -> None:
        """Create the child SAs of PDU sessions, then their tunnels to the UPF."""
        link = ue.link
        assert isinstance(link, UeLink)  # noqa: S101
        refused = set()
        for item in items:
            try:
                await link.open_session(item["pDUSessionID"], self._requested(item)[2])
            except EpcError as error:
                log.error("PDU session %d of UE %d: %s", item["pDUSessionID"], ue.number, error)
                refused.add(item["pDUSessionID"])
        if self._ues.get(ue.number) is ue:
            self._set_up_sessions(ue, items, refused)

    def _release(self, ue: Connection, items: Iterable[dict[str, Any]]) -> None:
        assert isinstance(ue.link, UeLink)  # noqa: S101
        items = list(items)
        super()._release(ue, items)
        for item in items:
            ue.link.close_session(item["pDUSessionID"])
