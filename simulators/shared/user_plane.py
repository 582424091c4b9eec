"""The SPGW-U: PFCP sessions from an SPGW-C, and the packets between S1-U and SGi.

The UPF is the same program. Its sessions have a QoS flow and are between N3 and N6.
"""

import asyncio
import contextlib
import ipaddress
import itertools
import logging
import os
import socket
from dataclasses import dataclass, field

from simulators.errors import EpcError, ProtocolError
from simulators.shared import pfcp, pfcp_control
from simulators.shared.pfcp import Pdr
from simulators.transport import gtpu, sockets, tun, udp
from simulators.transport.tlv import Ie, Message, MissingError, number, packed

log = logging.getLogger("spgwu")

#: Seconds between attempts to associate.
RETRY = 3.0
_BATCH = 64  # packets per turn of the event loop, so that PFCP is served too


@dataclass(frozen=True)
class Config:
    """Configuration of the SPGW-U."""

    node: str  # its Node ID, a name or its SXab address.
    sx: str  # SXab address.
    s1u: str  # S1-U address.
    pools: tuple[str, ...]  # networks of UEs; the first host of each is the address of ``device``.
    cps: tuple[str, ...]  # SXab addresses of the SPGW-Cs.
    sgi: str = ""  # SGi interface, empty for no source NAT.
    device: str = "tun0"  # the TUN device's name.
    mtu: int = 1500  # MTU of the TUN device.
    peer: str = "SPGW-C"  # name of a CP function in messages.


@dataclass
class Session:
    """A session: the CP function's address and SEID, our SEID and TEID, and its rules."""

    cp: str
    cp_seid: int
    seid: int
    uplink: int
    ue: str
    qfi: int | None = None
    down: Pdr | None = None
    fars: dict[int, tuple[bool, tuple[int, str] | None]] = field(default_factory=dict)

    @property
    def enb(self) -> tuple[int, str] | None:
        """TEID and address of the eNB's end, None while downlink packets are dropped."""
        if self.down is None:
            return None
        forwards, end = self.fars.get(self.down.far, (False, None))
        return end if forwards else None

    def change(self, message: Message) -> None:
        """Apply the rules that a request creates or changes."""
        for pdr in pfcp.pdrs_of(message):
            if not pdr.uplink:
                self.down = pdr
        for far, (forwards, end) in pfcp.fars_of(message).items():
            before = self.fars.get(far, (False, None))
            self.fars[far] = (before[0] if forwards is None else forwards, end or before[1])


class Spgwu:
    """The user plane function."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.started = pfcp.timestamp()
        self.sessions: dict[int, Session] = {}
        self.traffic = gtpu.Traffic()
        self.associated: dict[str, asyncio.Task[None]] = {}
        self.pfcp = udp.Endpoint(pfcp.CODEC, self._answer)
        self._numbers = itertools.count(int.from_bytes(os.urandom(3), "big") + 1)
        self._by_teid: dict[int, Session] = {}
        self._by_ue: dict[bytes, Session] = {}
        self._down: dict[bytes, tuple[int, int | None, tuple[str, int]]] = {}
        self._tun = -1
        self._s1u: socket.socket | None = None
        self._seeking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open PFCP, GTP-U and the TUN device, and associate."""
        config = self.config
        self._tun = tun.open_tun(config.device)
        for pool in config.pools:
            tun.ip("address", "add", _gateway(pool), "dev", config.device)
        tun.ip("link", "set", config.device, "mtu", str(config.mtu), "up", "txqueuelen", "1000")
        if config.sgi:
            _masquerade(config.pools, config.sgi)
        self._s1u = sockets.bound(config.s1u, gtpu.PORT)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._s1u.fileno(), self._uplink)
        loop.add_reader(self._tun, self._downlink)
        await self.pfcp.start(config.sx, pfcp.PORT)
        self._seeking = asyncio.create_task(self._associate())

    def stop(self) -> None:
        loop = asyncio.get_running_loop()
        for task in (self._seeking, *self.associated.values()):
            if task is not None:
                task.cancel()
        self.pfcp.stop()
        if self._s1u is not None:
            loop.remove_reader(self._s1u.fileno())
            self._s1u.close()
            self._s1u = None
        if self._tun >= 0:
            loop.remove_reader(self._tun)
            os.close(self._tun)
            self._tun = -1

    # -- PFCP -----------------------------------------------------------------------------------

    async def _associate(self) -> None:
        """Associate with each CP function, and again after a loss."""
        while True:
            for cp in self.config.cps:
                if cp in self.associated:
                    continue
                request = Message(
                    pfcp.ASSOCIATION_REQUEST,
                    None,
                    (pfcp.node_id(self.config.node), pfcp.recovery(self.started)),
                )
                with contextlib.suppress(EpcError):
                    response = await self.pfcp.request((cp, pfcp.PORT), request)
                    if pfcp.cause_of(response) == pfcp.ACCEPTED:
                        self._join(cp, number(response.need(pfcp.RECOVERY), 4))
                    else:
                        log.error("%s %s refuses the association", self.config.peer, cp)
            await asyncio.sleep(RETRY)

    def _join(self, cp: str, stamp: int) -> None:
        log.info("PFCP association with %s %s", self.config.peer, cp)

        def lost(reason: str) -> None:
            log.error("PFCP association with %s %s lost: %s", self.config.peer, cp, reason)
            self.associated.pop(cp, None)
            self._drop(cp)

        old = self.associated.pop(cp, None)
        if old is not None:
            old.cancel()
        self.associated[cp] = asyncio.create_task(
            pfcp_control.watch(self.pfcp, (cp, pfcp.PORT), self.started, stamp, lost)
        )

    async def _answer(self, message: Message, peer: udp.Address) -> Message | None:
        if message.type == pfcp.HEARTBEAT_REQUEST:
            return Message(pfcp.HEARTBEAT_RESPONSE, None, (pfcp.recovery(self.started),))
        node, kind = self.config.node, message.type
        if kind == pfcp.ASSOCIATION_REQUEST:
            stamp = number(message.need(pfcp.RECOVERY), 4)
            self._drop(peer[0])  # a new association has no sessions (section 6.2.6)
            self._join(peer[0], stamp)
            ies: tuple[Ie, ...] = (
                pfcp.node_id(node),
                pfcp.cause(pfcp.ACCEPTED),
                pfcp.recovery(self.started),
            )
            return Message(pfcp.ASSOCIATION_RESPONSE, None, ies)
        answers = {
            pfcp.ESTABLISHMENT_REQUEST: self._establish,
            pfcp.MODIFICATION_REQUEST: self._modify,
            pfcp.DELETION_REQUEST: self._delete,
            pfcp.RELEASE_REQUEST: self._release,
        }
        if kind not in answers:
            return None
        try:
            return answers[kind](message, peer)
        except MissingError as error:
            ies = (
                pfcp.cause(pfcp.MANDATORY_MISSING),
                Ie(pfcp.OFFENDING, error.kind.to_bytes(2, "big")),
            )
        except ProtocolError as error:
            log.error("PFCP message type %d: %s", kind, error)
            ies = (pfcp.cause(pfcp.REJECTED),)
        if kind == pfcp.ESTABLISHMENT_REQUEST:
            ies = (pfcp.node_id(node), *ies)
        return Message(kind + 1, 0, ies)

    def _release(self, message: Message, peer: udp.Address) -> Message:
        """End an association and its sessions (section 6.2.8)."""
        watch = self.associated.pop(peer[0], None)
        if watch is not None:
            log.info("PFCP association with %s %s released", self.config.peer, peer[0])
            watch.cancel()
        self._drop(peer[0])
        value = pfcp.NO_ASSOCIATION if watch is None else pfcp.ACCEPTED
        ies = (pfcp.node_id(self.config.node), pfcp.cause(value))
        return Message(pfcp.RELEASE_RESPONSE, None, ies)

    def _establish(self, message: Message, peer: udp.Address) -> Message:
        node = self.config.node
        cp_seid, _ = pfcp.fseid_of(message.need(pfcp.FSEID))
        if peer[0] not in self.associated:
            ies = (pfcp.node_id(node), pfcp.cause(pfcp.NO_ASSOCIATION))
            return Message(pfcp.ESTABLISHMENT_RESPONSE, cp_seid, ies)
        pdr = next((one for one in pfcp.pdrs_of(message) if one.uplink), None)
        if pdr is None:
            raise ProtocolError("The session has no PDR of the uplink.")
        uplink = next(self._numbers) if pdr.tunnel is None else pdr.tunnel[0]
        for old in (self._by_teid.get(uplink), self._by_ue.get(packed(pdr.ue))):
            if old is not None and (old.cp, old.ue) == (peer[0], pdr.ue):
                self._remove(old)  # the CP function sets up its sessions again
        if uplink in self._by_teid or packed(pdr.ue) in self._by_ue:
            ies = (pfcp.node_id(node), pfcp.cause(pfcp.RULE_FAILURE))
            return Message(pfcp.ESTABLISHMENT_RESPONSE, cp_seid, ies)
        qfi = pfcp.qfi_of(message)
        session = Session(peer[0], cp_seid, next(self._numbers), uplink, pdr.ue, qfi)
        session.change(message)
        self.sessions[session.seid] = session
        self._by_teid[uplink] = session
        self._by_ue[packed(pdr.ue)] = session
        self._direct(session)
        end = (uplink, self.config.s1u)
        return pfcp.established(cp_seid, session.seid, self.config.sx, pdr.number, end)

    def _direct(self, session: Session) -> None:
        ue, enb = packed(session.ue), session.enb
        if enb is None:
            self._down.pop(ue, None)
        else:
            self._down[ue] = (enb[0], session.qfi, (enb[1], gtpu.PORT))

    def _modify(self, message: Message, peer: udp.Address) -> Message:
        session = self.sessions.get(message.endpoint or 0)
        if session is None:
            ies = (pfcp.cause(pfcp.SESSION_NOT_FOUND),)
            return Message(pfcp.MODIFICATION_RESPONSE, 0, ies)
        session.change(message)
        self._direct(session)
        ies = (pfcp.cause(pfcp.ACCEPTED),)
        return Message(pfcp.MODIFICATION_RESPONSE, session.cp_seid, ies)

    def _delete(self, message: Message, peer: udp.Address) -> Message:
        session = self.sessions.get(message.endpoint or 0)
        if session is None:
            return Message(pfcp.DELETION_RESPONSE, 0, (pfcp.cause(pfcp.SESSION_NOT_FOUND),))
        self._remove(session)
        return Message(pfcp.DELETION_RESPONSE, session.cp_seid, (pfcp.cause(pfcp.ACCEPTED),))

    def _drop(self, cp: str) -> None:
        for session in [one for one in self.sessions.values() if one.cp == cp]:
            self._remove(session)

    def _remove(self, session: Session) -> None:
        ue = packed(session.ue)
        self.sessions.pop(session.seid, None)
        self._by_teid.pop(session.uplink, None)
        self._by_ue.pop(ue, None)
        self._down.pop(ue, None)

    # -- packets --------------------------------------------------------------------------------

    def _uplink(self) -> None:
        assert self._s1u is not None  # noqa: S101
        receive, device, sessions = self._s1u.recvfrom, self._tun, self._by_teid
        for _ in range(_BATCH):
            try:
                octets, peer = receive(65535)
            except BlockingIOError:
                return
            except OSError as error:  # ICMP of an earlier packet
                log.debug("S1-U: %s", error)
                continue
            if octets[:2] == b"\x30\xff":
                session = sessions.get(int.from_bytes(octets[4:8], "big"))
                start = 8
            else:
                try:
                    kind, teid, start = gtpu.split(octets)
                except ProtocolError:
                    self.traffic.dropped += 1
                    continue
                if kind != gtpu.G_PDU:
                    self._signalling(kind, octets, start, peer)
                    continue
                session = sessions.get(teid)
            if session is None:
                self.traffic.dropped += 1
                own = packed(self.config.s1u)
                teid = int.from_bytes(octets[4:8], "big")
                self._send(gtpu.error_indication(teid, own), peer)
            elif self._by_ue.get(octets[start + 12 : start + 16]) is not session:
                self.traffic.dropped += 1  # a UE may use only its own address
            else:
                try:
                    os.write(device, octets[start:])
                    self.traffic.up += 1
                except OSError:
                    self.traffic.dropped += 1

    def _signalling(self, kind: int, octets: bytes, start: int, peer: udp.Address) -> None:
        if kind == gtpu.ECHO_REQUEST:
            self._send(gtpu.echo_response(octets), peer)
        elif kind == gtpu.ERROR_INDICATION:
            teid = gtpu.error_teid(octets, start)
            for session in self.sessions.values():
                if session.down is not None and session.enb == (teid, peer[0]):
                    session.fars[session.down.far] = (False, None)
                    self._direct(session)

    def _send(self, octets: bytes, peer: udp.Address) -> None:
        assert self._s1u is not None  # noqa: S101
        with contextlib.suppress(OSError):
            self._s1u.sendto(octets, peer)

    def _downlink(self) -> None:
        assert self._s1u is not None  # noqa: S101
        send, device, down, header = self._s1u.sendto, self._tun, self._down, gtpu.header
        marked = gtpu.flow_header
        for _ in range(_BATCH):
            try:
                packet = os.read(device, 65535)
            except BlockingIOError:
                return
            except OSError as error:
                log.debug("%s: %s", self.config.device, error)
                return
            tunnel = down.get(packet[16:20])
            if tunnel is None or packet[0] >> 4 != 4:
                self.traffic.dropped += 1
                continue
            teid, qfi, peer = tunnel
            if qfi is None:
                head = header(0x30, 255, len(packet), teid)
            else:
                head = marked(gtpu.DOWNLINK, len(packet), teid, qfi)
            try:
                send(head + packet, peer)
                self.traffic.down += 1
            except OSError:
                self.traffic.dropped += 1


def _gateway(pool: str) -> str:
    network = ipaddress.IPv4Network(pool, strict=False)
    return f"{network.network_address + 1}/{network.prefixlen}"


def _masquerade(pools: tuple[str, ...], sgi: str) -> None:
    """Source NAT of the UEs towards SGi."""
    rules = "\n".join(f'ip saddr {pool} oifname "{sgi}" masquerade' for pool in pools)
    tun.nft(
        "table ip simulators\ndelete table ip simulators\ntable ip simulators {\nchain sgi {\n"
        f"type nat hook postrouting priority srcnat;\n{rules}\n}}\n}}\n"
    )
