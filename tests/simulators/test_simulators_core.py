"""S11 and SXab between an MME's end, an SPGW-C and an SPGW-U on loopback addresses."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pycrate_mobile.TS29244_PFCP import parse_PFCP
from pycrate_mobile.TS29274_GTPC import parse_GTPC
from pycrate_mobile.TS29281_GTPU import parse_GTPU

from simulators.epc import gtpc, spgwc
from simulators.epc.gtpc import Fteid
from simulators.errors import PeerTimeoutError, ProtocolError
from simulators.shared import pfcp, pfcp_control, user_plane
from simulators.shared.addresses import Pdn, options_of
from simulators.shared.identity import Plmn, Tai
from simulators.shared.pfcp import Pdr
from simulators.transport import gtpu, tun, udp
from simulators.transport.tlv import Ie, Message

PLMN = Plmn("242", "88")
MME, SGW, UP, ENB = "127.9.0.1", "127.9.0.2", "127.9.0.3", "127.9.0.4"
NODE = "gw1.spgw.node.epc.mnc088.mcc242.simula.nornet"
ONE = gtpc.SessionRequest(
    "242881234500000",
    "24288880000000",
    "internet",
    Tai(PLMN, 600),
    0xE0000,
    Fteid(gtpc.S11_MME, 7, MME),
    50_000,
    100_000,
)


@dataclass
class Core:
    c: spgwc.Spgwc
    u: user_plane.Spgwu
    s11: udp.Endpoint
    device: socket.socket  # the other end of "pdn"

    async def ask(self, message: Message) -> Message:
        return await self.s11.request((SGW, gtpc.PORT), message)

    async def attach(self, one: gtpc.SessionRequest = ONE, enb: int = 0xE) -> gtpc.Session:
        granted = gtpc.Session.decode(await self.ask(one.message(SGW)))
        end = Fteid(gtpc.S1U_ENB, enb, ENB)
        answer = await self.ask(gtpc.modify_request(granted.control.teid, granted.bearer, end))
        assert gtpc.cause_of(answer) == gtpc.ACCEPTED
        return granted


@contextlib.asynccontextmanager
async def core(monkeypatch: pytest.MonkeyPatch, **options: Any) -> AsyncIterator[Core]:
    inside, outside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    inside.setblocking(False)
    monkeypatch.setattr(tun, "open_tun", lambda name: os.dup(inside.fileno()))
    monkeypatch.setattr(tun, "ip", lambda *words: None)
    pdn = Pdn("internet", "12.1.1.2", "12.1.1.4")
    config = spgwc.Config(SGW, SGW, (pdn,), ("8.8.8.8",), ups=(NODE,))
    c = spgwc.Spgwc(replace(config, **options))
    u = user_plane.Spgwu(user_plane.Config(NODE, UP, UP, ("12.1.1.0/24",), (SGW,)))

    async def nothing(message: Message, peer: udp.Address) -> None:
        return None

    s11 = udp.Endpoint(gtpc.CODEC, nothing)
    await s11.start(MME, gtpc.PORT)
    await c.start()
    await u.start()
    parts = Core(c, u, s11, outside)
    try:
        yield parts
    finally:
        for part in (s11, c, parts.u):
            part.stop()  # type: ignore[attr-defined]
        inside.close()
        outside.close()


def run(
    monkeypatch: pytest.MonkeyPatch, go: Callable[[Core], Awaitable[None]], **options: Any
) -> None:
    async def main() -> None:
        async with core(monkeypatch, **options) as parts:
            await asyncio.wait_for(parts.c.sx.associated.wait(), 10)
            await asyncio.wait_for(go(parts), 60)

    asyncio.run(main())


def packet(source: str, target: str, text: bytes = b"hello") -> bytes:
    head = b"\x45\0" + (20 + len(text)).to_bytes(2, "big") + bytes(5) + b"\x11\0\0"
    return head + socket.inet_aton(source) + socket.inet_aton(target) + text


def receive(device: socket.socket) -> bytes:
    device.settimeout(10)
    return device.recv(2048)


def test_a_session_carries_packets_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go(core: Core) -> None:
        loop = asyncio.get_running_loop()
        enb = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        enb.bind((ENB, gtpu.PORT))
        enb.settimeout(10)
        granted = gtpc.Session.decode(await core.ask(ONE.message(SGW)))
        assert granted.address == "12.1.1.2"
        assert options_of(granted.options) == (("8.8.8.8",), 1358)
        core.device.send(packet("10.0.0.1", granted.address))  # no eNB yet: dropped
        end = Fteid(gtpc.S1U_ENB, 0xE, ENB)
        answer = await core.ask(gtpc.modify_request(granted.control.teid, 5, end))
        assert gtpc.cause_of(answer) == gtpc.ACCEPTED
        up = packet(granted.address, "10.0.0.1")
        enb.sendto(gtpu.g_pdu(granted.user.teid, up), (granted.user.address, gtpu.PORT))
        assert await loop.run_in_executor(None, receive, core.device) == up
        down = packet("10.0.0.1", granted.address)
        core.device.send(down)
        octets = await loop.run_in_executor(None, enb.recv, 2048)
        assert octets == gtpu.g_pdu(0xE, down)
        assert parse_GTPU(octets)[1] == 0
        # Somebody else's address, and a tunnel that is not there.
        stolen = packet("12.1.1.3", "10.0.0.1")
        enb.sendto(gtpu.g_pdu(granted.user.teid, stolen), (UP, gtpu.PORT))
        enb.sendto(gtpu.g_pdu(0xBAD, up), (UP, gtpu.PORT))
        answered = await loop.run_in_executor(None, enb.recv, 2048)
        kind, _, start = gtpu.split(answered)
        assert (kind, gtpu.error_teid(answered, start)) == (gtpu.ERROR_INDICATION, 0xBAD)
        assert (core.u.traffic.up, core.u.traffic.down, core.u.traffic.dropped) == (1, 1, 3)
        gone = await core.ask(gtpc.delete_request(granted.control.teid, 5))
        assert gtpc.cause_of(gone) == gtpc.ACCEPTED
        assert not core.c.sessions
        assert not core.u.sessions
        again = await core.ask(gtpc.delete_request(granted.control.teid, 5))
        assert gtpc.cause_of(again) == gtpc.CONTEXT_NOT_FOUND
        enb.close()

    run(monkeypatch, go)


def test_refusals_have_their_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go(core: Core) -> None:
        answer = await core.ask(replace(ONE, apn="ims").message(SGW))
        assert gtpc.cause_of(answer) == gtpc.UNKNOWN_APN
        assert answer.endpoint == ONE.mme.teid
        whole = ONE.message(SGW)
        without = tuple(ie for ie in whole.ies if ie.type != gtpc.RAT_TYPE)
        answer = await core.ask(Message(whole.type, 0, without))
        assert answer.need(gtpc.CAUSE) == bytes([gtpc.MANDATORY_MISSING, 0, gtpc.RAT_TYPE, 0, 0, 0])
        for number in range(3):
            await core.attach(replace(ONE, imsi=f"24288123450001{number}"))
        answer = await core.ask(replace(ONE, imsi="242881234500019").message(SGW))
        assert gtpc.cause_of(answer) == gtpc.NO_ADDRESS
        # The same subscriber again replaces the old session and so frees its address.
        granted = await core.attach(replace(ONE, imsi="242881234500012"))
        assert granted.address == "12.1.1.4"
        assert len(core.c.sessions) == len(core.u.sessions) == 3

    run(monkeypatch, go)


def test_a_user_plane_that_is_not_configured_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with core(monkeypatch, ups=("other.example",)) as parts:
            await asyncio.sleep(0.2)
            assert not parts.c.sx.associated.is_set()
            answer = await parts.ask(ONE.message(SGW))
            assert gtpc.cause_of(answer) == gtpc.PEER_SILENT

    asyncio.run(main())


def test_sessions_outlive_a_restart_of_the_user_plane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pfcp_control, "HEARTBEAT", 0.1)
    monkeypatch.setattr(udp, "REPEAT", 0.1)
    monkeypatch.setattr(user_plane, "RETRY", 0.1)
    monkeypatch.setattr(pfcp_control, "RETRY", 0.1)

    async def go(core: Core) -> None:
        granted = await core.attach()
        core.u.stop()
        while core.c.sx.up is not None:
            await asyncio.sleep(0.05)
        answer = await core.ask(replace(ONE, imsi="242881234500001").message(SGW))
        assert gtpc.cause_of(answer) == gtpc.PEER_SILENT
        core.u = user_plane.Spgwu(core.u.config)
        await core.u.start()
        while not core.u.sessions:
            await asyncio.sleep(0.05)
        [session] = core.u.sessions.values()
        while session.enb is None:
            await asyncio.sleep(0.05)
        assert (session.ue, session.uplink) == (granted.address, granted.user.teid)
        assert session.enb == (0xE, ENB)

    run(monkeypatch, go)


def test_a_session_as_oais_spgwc_sets_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Identifiers of its own, an F-TEID element of one octet, the downlink by a modification."""

    def rule(kind: int, inner: int, ies: tuple[Ie, ...], value: bytes) -> tuple[Ie, ...]:
        [one] = [ie for ie in ies if ie.type == kind]
        parts = pfcp.CODEC.decode_ies(one.value)
        changed = [Ie(ie.type, value) if ie.type == inner else ie for ie in parts]
        return tuple(Ie(kind, pfcp.CODEC.encode_ies(changed)) if ie is one else ie for ie in ies)

    async def go(core: Core) -> None:
        whole = pfcp.establishment(SGW, 5, "12.1.1.2", "internet")
        ies = rule(pfcp.CREATE_PDR, pfcp.PDR_ID, whole.ies, b"\0\x07")
        octets = pfcp.CODEC.encode_ies(ies).replace(b"\0\x15\0\x01\x05", b"\0\x15\0\x01\x04")
        answer = await core.c.sx.endpoint.request(
            (UP, pfcp.PORT), replace(whole, ies=pfcp.CODEC.decode_ies(octets))
        )
        assert pfcp.cause_of(answer) == pfcp.ACCEPTED
        created = pfcp.CODEC.decode_ies(answer.need(pfcp.CREATED_PDR))
        assert next(ie.value for ie in created if ie.type == pfcp.PDR_ID) == b"\0\x07"
        [session] = core.u.sessions.values()
        assert session.enb is None
        down = pfcp.downlink(session.seid, "12.1.1.2", "internet", (8, ENB))
        far = (10).to_bytes(4, "big")
        ies = rule(pfcp.CREATE_PDR, pfcp.FAR_ID, down.ies, far)
        ies = rule(pfcp.CREATE_FAR, pfcp.FAR_ID, ies, far)
        answer = await core.c.sx.endpoint.request((UP, pfcp.PORT), replace(down, ies=ies))
        assert pfcp.cause_of(answer) == pfcp.ACCEPTED
        assert session.enb == (8, ENB)
        without = Message(pfcp.ESTABLISHMENT_REQUEST, 0, whole.ies[:2])
        answer = await core.c.sx.endpoint.request((UP, pfcp.PORT), without)
        assert pfcp.cause_of(answer) == pfcp.REJECTED

    run(monkeypatch, go)


def test_an_association_is_refused_while_the_old_one_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def go(core: Core) -> None:
        for started, cause in (
            (core.u.started + 9, pfcp.REJECTED),
            (core.u.started, pfcp.ACCEPTED),
        ):
            ies = (pfcp.node_id(NODE), pfcp.recovery(started))
            request = Message(pfcp.ASSOCIATION_REQUEST, None, ies)
            answer = await core.u.pfcp.request((SGW, pfcp.PORT), request)
            assert pfcp.cause_of(answer) == cause, "the same start is a lost answer"

    run(monkeypatch, go)


def test_a_request_that_comes_twice_is_served_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go(core: Core) -> None:
        loop = asyncio.get_running_loop()
        other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        other.bind((MME, 0))
        other.settimeout(10)
        octets = gtpc.CODEC.encode(replace(ONE.message(SGW), sequence=99))
        answers = []
        for _ in range(2):
            other.sendto(octets, (SGW, gtpc.PORT))
            answers.append(await loop.run_in_executor(None, other.recv, 2048))
        assert answers[0] == answers[1]
        assert core.c.counters.created == 1
        other.close()

    run(monkeypatch, go)


def test_a_silent_peer_is_asked_again_and_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(udp, "REPEAT", 0.05)

    async def main() -> None:
        heard: list[bytes] = []

        class Ear(asyncio.DatagramProtocol):
            def datagram_received(self, data: bytes, addr: Any) -> None:
                heard.append(data)

        loop = asyncio.get_running_loop()
        ear, _ = await loop.create_datagram_endpoint(Ear, (SGW, 0))

        async def nothing(message: Message, peer: udp.Address) -> None:
            return None

        end = udp.Endpoint(gtpc.CODEC, nothing)
        await end.start(MME, 0)
        port = ear.get_extra_info("sockname")[1]
        with pytest.raises(PeerTimeoutError, match=r"did not answer in 0\.2 s"):
            await end.request((SGW, port), gtpc.echo_request(1))
        assert len(heard) == udp.TIMES
        assert len(set(heard)) == 1
        end.stop()
        ear.close()

    asyncio.run(main())


SESSION = gtpc.Session(
    Fteid(gtpc.S11_SGW, 1, SGW), Fteid(gtpc.S1U_SGW, 2, UP), "12.1.1.2", b"\x80\x00\x10\x02\x05\x4e"
)
GTPC_MESSAGES = {
    "create": ONE.message(SGW),
    "created": SESSION.message(7, 3),
    "modify": gtpc.modify_request(1, 5, Fteid(gtpc.S1U_ENB, 3, ENB)),
    "modified": gtpc.modify_response(7, 5, Fteid(gtpc.S1U_SGW, 2, UP)),
    "delete": gtpc.delete_request(1, 5),
    "echo": gtpc.echo_request(3),
    "echoed": gtpc.echo_response(3),
}


@pytest.mark.parametrize("name", GTPC_MESSAGES)
def test_gtpc_against_another_decoder(name: str) -> None:
    message = replace(GTPC_MESSAGES[name], sequence=0x1234)
    octets = gtpc.CODEC.encode(message)
    assert gtpc.CODEC.decode(octets) == message
    parsed, error = parse_GTPC(octets)  # refuses a message without its mandatory elements
    assert error == 0
    assert parsed.to_bytes() == octets
    assert parsed[0]["SeqNum"].get_val() == 0x1234


PFCP_MESSAGES = {
    "establish": pfcp.establishment(SGW, 5, "12.1.1.2", "internet"),
    "restore": pfcp.establishment(SGW, 5, "12.1.1.2", "internet", (9, UP)),
    "established": pfcp.established(5, 6, UP, 1, (9, UP)),
    "downlink": pfcp.downlink(6, "12.1.1.2", "internet", (8, ENB)),
    "modify": pfcp.modification(6, (8, ENB)),
    "suspend": pfcp.modification(6, None),
    "delete": Message(pfcp.DELETION_REQUEST, 6),
    "associate": Message(
        pfcp.ASSOCIATION_REQUEST, None, (pfcp.node_id(NODE), pfcp.recovery(pfcp.timestamp()))
    ),
    "heartbeat": Message(pfcp.HEARTBEAT_REQUEST, None, (pfcp.recovery(pfcp.timestamp()),)),
}


@pytest.mark.parametrize("name", PFCP_MESSAGES)
def test_pfcp_against_another_decoder(name: str) -> None:
    message = replace(PFCP_MESSAGES[name], sequence=0x1234)
    octets = pfcp.CODEC.encode(message)
    assert pfcp.CODEC.decode(octets) == message
    parsed, error = parse_PFCP(octets)
    assert error == 0
    assert parsed.to_bytes() == octets


def test_what_is_told_is_what_is_read() -> None:
    assert gtpc.SessionRequest.decode(GTPC_MESSAGES["create"]) == ONE
    assert gtpc.Session.decode(GTPC_MESSAGES["created"]) == SESSION
    assert pfcp.pdrs_of(PFCP_MESSAGES["restore"]) == (Pdr(1, True, 1, "12.1.1.2", (9, UP)),)
    assert pfcp.pdrs_of(PFCP_MESSAGES["downlink"]) == (Pdr(2, False, 2, "12.1.1.2"),)
    assert pfcp.fars_of(PFCP_MESSAGES["establish"]) == {1: (True, None)}
    assert pfcp.fars_of(PFCP_MESSAGES["downlink"]) == {2: (True, (8, ENB))}
    assert pfcp.fars_of(PFCP_MESSAGES["modify"]) == {2: (True, (8, ENB))}
    assert pfcp.fars_of(PFCP_MESSAGES["suspend"]) == {2: (False, None)}
    assert pfcp.node_of(PFCP_MESSAGES["associate"].need(pfcp.NODE_ID)) == NODE


@pytest.mark.parametrize("codec", [gtpc.CODEC, pfcp.CODEC], ids=["gtpc", "pfcp"])
def test_cut_or_foreign_octets_are_refused_never_a_crash(codec: Any) -> None:
    name = "create" if codec is gtpc.CODEC else "establish"
    messages = GTPC_MESSAGES if codec is gtpc.CODEC else PFCP_MESSAGES
    octets = codec.encode(messages[name])
    for size in range(len(octets)):
        with pytest.raises(ProtocolError):
            codec.decode(octets[:size])
    for at in range(len(octets)):
        for bit in (1, 0x80):
            broken = bytearray(octets)
            broken[at] ^= bit
            with contextlib.suppress(ProtocolError):
                message = codec.decode(bytes(broken))
                if codec is gtpc.CODEC:
                    gtpc.SessionRequest.decode(message)
                else:
                    pfcp.pdrs_of(message)
                    pfcp.fars_of(message)


def test_gtpu_headers() -> None:
    extended = bytes.fromhex("34ff000c00000009000000850100000045000000")
    assert gtpu.split(extended) == (gtpu.G_PDU, 9, 16)
    echo = bytes.fromhex("320100040000000012340000")
    assert gtpu.echo_response(echo) == bytes.fromhex("3202000600000000123400000e00")
    for octets in (b"", b"\x30\xff\0\x09\0\0\0\0", bytes(12), extended[:11], extended[:14]):
        with pytest.raises(ProtocolError):
            gtpu.split(octets)


def test_elements_of_another_instance_are_not_taken() -> None:
    message = Message(33, 0, (Ie(gtpc.FTEID, b"x", 1),))
    assert message.find(gtpc.FTEID) is None
    assert message.find(gtpc.FTEID, 1) == b"x"


def test_a_restarted_peer_may_use_its_sequence_numbers_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def go(core: Core) -> None:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind((MME, 0))
            other.settimeout(10)
            for created, imsi in enumerate(("242881234500001", "242881234500002"), start=1):
                message = replace(ONE, imsi=imsi).message(SGW)
                other.sendto(gtpc.CODEC.encode(replace(message, sequence=1)), (SGW, gtpc.PORT))
                await loop.run_in_executor(None, other.recv, 2048)
                assert core.c.counters.created == created

    run(monkeypatch, go)


def test_a_changed_forwarding_rule_needs_no_action() -> None:
    message = PFCP_MESSAGES["modify"]
    [far] = message.ies
    parts = [ie for ie in pfcp.CODEC.decode_ies(far.value) if ie.type != pfcp.APPLY_ACTION]
    for kept, target in ((parts, (8, ENB)), (parts[:1], None)):
        update = replace(far, value=pfcp.CODEC.encode_ies(kept))
        assert pfcp.fars_of(replace(message, ies=(update,))) == {2: (None, target)}
        with pytest.raises(ProtocolError):
            pfcp.fars_of(replace(message, ies=(replace(update, type=pfcp.CREATE_FAR),)))


def test_a_rule_that_forwards_again_has_its_tunnel() -> None:
    session = user_plane.Session(SGW, 5, 6, 9, "12.1.1.2")
    session.change(PFCP_MESSAGES["downlink"])
    session.change(PFCP_MESSAGES["suspend"])
    assert session.enb is None
    [far] = PFCP_MESSAGES["modify"].ies
    parts = pfcp.CODEC.decode_ies(far.value)
    short = tuple(ie for ie in parts if ie.type in (pfcp.FAR_ID, pfcp.APPLY_ACTION))
    update = replace(far, value=pfcp.CODEC.encode_ies(short))
    session.change(replace(PFCP_MESSAGES["modify"], ies=(update,)))
    assert session.enb == (8, ENB)


def test_a_released_association_has_no_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go(core: Core) -> None:
        await core.attach()
        assert core.u.sessions
        release = Message(pfcp.RELEASE_REQUEST, None, (pfcp.node_id(SGW),))
        for cause in (pfcp.ACCEPTED, pfcp.NO_ASSOCIATION):
            answer = await core.c.sx.endpoint.request((UP, pfcp.PORT), release)
            assert (answer.type, pfcp.cause_of(answer)) == (pfcp.RELEASE_RESPONSE, cause)
            assert pfcp.node_of(answer.need(pfcp.NODE_ID)) == NODE
            assert (core.u.sessions, core.u.associated) == ({}, {})

    run(monkeypatch, go)


def test_a_control_plane_that_knows_its_user_plane_opens_the_association(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As OAI's SMF does: a foreign UPF may wait for it."""
    monkeypatch.setattr(pfcp_control, "RETRY", 0.05)

    async def go() -> None:
        asked = []

        async def answer(message: Message, peer: udp.Address) -> Message | None:
            asked.append((message.type, peer[0]))
            ies = (pfcp.node_id(UP), pfcp.cause(pfcp.ACCEPTED), pfcp.recovery(7))
            return Message(pfcp.ASSOCIATION_RESPONSE, None, ies)

        upf = udp.Endpoint(pfcp.CODEC, answer)
        await upf.start(UP, pfcp.PORT)
        n4 = pfcp_control.ControlPlane(SGW, "UPF")
        await n4.start(UP)
        await asyncio.wait_for(n4.associated.wait(), 10)
        assert asked == [(pfcp.ASSOCIATION_REQUEST, SGW)]
        assert n4.up is not None
        assert n4.up.address == UP
        n4.stop()
        upf.stop()

    asyncio.run(go())
