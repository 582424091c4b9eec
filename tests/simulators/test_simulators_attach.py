"""Attach of UEs over S1AP, S6a, S11 and SXab, and what goes wrong with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from simulators_support import HSS, IMSI, OPC, PLMN, TAI, Epc, K, Memory, imsi, usim

from simulators.epc import attach, enb, nas, s1ap, ue
from simulators.epc.subscribers import Subscriber
from simulators.errors import EpcError, ProtocolError
from simulators.shared import keys, mobility_core
from simulators.shared.identity import Gummei, Plmn, Tai, tbcd
from simulators.shared.terminal import RefusedError
from simulators.transport import udp

Run = Callable[..., None]


@pytest.mark.parametrize("ciphering", [nas.EEA0, nas.EEA2])
def test_attach_and_detach(epc: Run, ciphering: int) -> None:
    async def go(parts: Epc) -> None:
        one = await parts.ue(usim())
        bearer = await one.attach()
        assert bearer == nas.Bearer(5, "internet", "12.1.1.2", bearer.options)
        await parts.counts(enbs=1, attached=1, connected=1, bearers=1, s1u=1)
        [session] = parts.spgwu.sessions.values()
        assert session.enb is not None
        assert parts.store.by_imsi[IMSI].mme == "mme.simula.nornet"
        await one.detach(off=False)
        await parts.counts(enbs=1, attached=0, connected=0, bearers=0, s1u=0)
        assert not parts.spgwu.sessions

    epc(go, ciphering=ciphering)


async def refusal(one: ue.Ue) -> int:
    with pytest.raises(RefusedError) as caught:
        await one.attach()
    return caught.value.cause


def test_an_unknown_imsi_is_refused(epc: Run) -> None:
    async def go(parts: Epc) -> None:
        assert await refusal(await parts.ue(usim(999))) == nas.NETWORK_FAILURE
        await parts.counts(attached=0, connected=0, bearers=0)
        assert parts.mme.ues == parts.mme.by_imsi == parts.mme.by_tmsi == {}

    epc(go)


def test_a_wrong_key_is_seen_by_the_usim_and_the_network_rejects(epc: Run) -> None:
    async def go(parts: Epc) -> None:
        assert await refusal(await parts.ue(usim(key=bytes(16)))) == nas.ILLEGAL_UE
        await parts.counts(attached=0, connected=0, bearers=0)

    epc(go)


def test_a_usim_that_accepts_any_network_is_rejected_for_its_answer(
    epc: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go(parts: Epc) -> None:
        one = await parts.ue(usim())
        monkeypatch.setattr(one.usim, "answer", lambda *challenge: (bytes(8), bytes(32)))
        assert await refusal(one) == nas.ILLEGAL_UE

    epc(go)


def test_a_usim_ahead_of_the_hss_is_synchronised(epc: Run) -> None:
    async def go(parts: Epc) -> None:
        sim = usim()
        sim.sqn = 1 << 20
        await (await parts.ue(sim)).attach()
        assert sim.sqn > 1 << 20
        assert parts.store.by_imsi[IMSI].sqn == sim.sqn
        assert len(parts.mme.response_times["AIR"]) == 2

    epc(go)


def test_no_roaming(epc: Run) -> None:
    foreign = Memory(Subscriber("208951234500000", K, OPC, msisdn=b"\x21\xf3"))

    async def go(parts: Epc) -> None:
        one = await parts.ue(replace(usim(), imsi="208951234500000"))
        assert await refusal(one) == nas.PLMN_NOT_ALLOWED

    epc(go, store=foreign, roaming=False)


def test_an_enb_of_another_plmn_is_refused(epc: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go(parts: Epc) -> None:
        await parts.enb.start()
        await parts.mme.start()
        refused: list[str] = []
        monkeypatch.setattr(enb.Enb.log, "error", lambda text, *words: refused.append(text % words))
        while not refused or "refuses" not in refused[-1]:
            await asyncio.sleep(0.05)
        assert refused[-1].endswith("refuses S1 Setup: unknown-PLMN.")
        assert not parts.enb.ready.is_set()
        with pytest.raises(EpcError, match="no core network yet"):
            await parts.radio()

    epc(go, plmns=(Plmn("208", "95"),), start=False)


def test_no_hss_is_a_network_failure_and_heals(epc: Run) -> None:
    async def go(parts: Epc) -> None:
        await parts.hss.server.stop()
        while parts.mme.hss.open.is_set():
            await asyncio.sleep(0.05)
        assert await refusal(await parts.ue(usim())) == nas.NETWORK_FAILURE
        await parts.hss.server.start(HSS, 3868)
        await parts.ready()
        await (await parts.ue(usim())).attach()

    epc(go)


class Slow(Memory):
    """A store that answers late, as a busy Cassandra does."""

    delay = 0.5

    async def get(self, key: str) -> Subscriber | None:
        await asyncio.sleep(self.delay)
        return await super().get(key)


def test_a_slow_store_makes_attaches_late_not_wrong(epc: Run) -> None:
    store = Slow(*(Subscriber(imsi(n), K, OPC, msisdn=b"\x21\xf3") for n in range(20)))

    async def go(parts: Epc) -> None:
        radio = await parts.radio()
        ues = [await parts.ue(usim(n), radio) for n in range(20)]
        addresses = {b.address for b in await asyncio.gather(*(one.attach() for one in ues))}
        assert len(addresses) == 20
        for kind in ("AIR", "ULR"):
            times = parts.mme.response_times[kind]
            assert len(times) == 20
            assert min(times) >= Slow.delay

    epc(go, store=store)


def test_a_storm_loses_nobody(epc: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(udp, "REPEAT", 5.0)

    async def go(parts: Epc) -> None:
        radio = await parts.radio()
        ues = [await parts.ue(usim(n), radio) for n in range(100)]
        bearers = await asyncio.gather(*(one.attach() for one in ues))
        assert len({bearer.address for bearer in bearers}) == 100
        await parts.counts(attached=100, bearers=100, s1u=100)
        assert len(parts.spgwu.sessions) == 100

    epc(go)


def test_a_ue_that_leaves_as_an_answer_comes_takes_no_place_either(
    epc: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cancelled task may go on as if nothing were; it must not wait for the UE then."""
    monkeypatch.setattr(ue, "T3410", 0.3)
    errors: list[str] = []
    monkeypatch.setattr(attach.log, "error", lambda text, *words: errors.append(text % words))

    async def go(parts: Epc) -> None:
        ask = parts.mme.ask_hss

        async def late(kind: str, request: Any) -> Any:
            answer = await ask(kind, request)
            while kind == "ULR" and any(one.connected for one in parts.mme.ues.values()):
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.05)
            return answer

        parts.mme.ask_hss = late  # type: ignore[method-assign]
        one = await parts.ue(usim())
        with pytest.raises(EpcError, match="No answer to the attach request"):
            await one.attach()
        await parts.counts(connected=0)
        while not errors:
            await asyncio.sleep(0.05)
        assert "left meanwhile" in errors[0]
        parts.mme.ask_hss = ask  # type: ignore[method-assign]
        ue.T3410 = 15.0
        await one.attach()
        await parts.counts(attached=1)

    epc(go)


def test_messages_for_which_there_is_no_room_go_later_and_in_order(epc: Run) -> None:
    """More than the buffers of both ends hold, faster than anything is read."""
    count, size = 3000, 400

    async def go(parts: Epc) -> None:
        assert parts.enb._association is not None
        [there] = [one.association for one in parts.mme.nodes]
        seen: list[int] = []
        there.on_message = lambda stream, octets: seen.append(int.from_bytes(octets[:4], "big"))
        for number in range(count):
            parts.enb._association.send(1, number.to_bytes(4, "big") + bytes(size))
        assert parts.enb._association._unsent, "the buffer never was full: this shows nothing"
        while len(seen) < count:
            await asyncio.sleep(0.05)
        assert seen == list(range(count))

    epc(go)


def test_a_ue_that_left_while_it_waited_takes_no_place(
    epc: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ue, "T3410", 0.3)

    async def go(parts: Epc) -> None:
        for _ in range(32):
            await parts.mme.admission.acquire()
        one = await parts.ue(usim())
        with pytest.raises(EpcError, match="No answer to the attach request"):
            await one.attach()
        for _ in range(32):
            parts.mme.admission.release()
        await parts.counts(connected=0)
        ue.T3410 = 15.0
        await one.attach()
        await parts.counts(attached=1)

    epc(go)


def test_no_address_left_and_an_apn_that_is_not_subscribed(epc: Run) -> None:
    async def go(parts: Epc) -> None:
        radio = await parts.radio()
        assert await refusal(await parts.ue(usim(2), radio, apn="ims")) == nas.ESM_FAILURE
        await (await parts.ue(usim(0), radio)).attach()
        assert await refusal(await parts.ue(usim(1), radio)) == nas.ESM_FAILURE
        await parts.counts(attached=1, connected=1, bearers=1)

    epc(go, last="12.1.1.2")


def test_an_area_that_is_not_served(epc: Run) -> None:
    async def go(parts: Epc) -> None:
        parts.mme.config = replace(parts.mme.config, tais=frozenset([Tai(PLMN, 601)]))
        assert await refusal(await parts.ue(usim())) == nas.AREA_NOT_ALLOWED

    epc(go)


def test_an_mme_takes_as_many_enbs_as_it_may(epc: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def go(parts: Epc) -> None:
        parts.mme.config = replace(parts.mme.config, max_enbs=1)
        own = dict.fromkeys(("control", "user", "uu"), "127.9.3.9")
        second = enb.Enb(replace(parts.enb.config, number=2, **own))
        await second.start()
        try:
            while "refuses S1 Setup: control-processing-overload" not in caplog.text:
                await asyncio.sleep(0.05)
        finally:
            second.stop()
        await parts.counts(enbs=1)

    epc(go)


@pytest.mark.parametrize("name", ["mme", "spgwc", "enb"])
def test_a_restarted_peer_heals_and_ues_attach_again(epc: Run, name: str) -> None:
    async def go(parts: Epc) -> None:
        one = await parts.ue(usim())
        await one.attach()
        kept = asyncio.create_task(one.until_released())
        await parts.counts(attached=1)
        await parts.restart(name)
        assert await asyncio.wait_for(kept, 20), "the UE is told to attach again"
        await parts.ready()
        if name == "enb":
            one = await parts.ue(one.usim)
        for _ in range(50):  # the eNB may still be telling it to leave
            with contextlib.suppress(EpcError):
                await one.attach()
                break
            await asyncio.sleep(0.2)
        await parts.counts(enbs=1, attached=1, connected=1, bearers=1, s1u=1)
        while len(parts.spgwu.sessions) != 1:
            await asyncio.sleep(0.05)

    epc(go)


def test_a_ue_that_is_switched_off_keeps_its_session_without_a_bearer(epc: Run) -> None:
    async def go(parts: Epc) -> None:
        one = await parts.ue(usim())
        await one.attach()
        await parts.counts(attached=1)
        one.link.close()
        await parts.counts(attached=1, connected=0, bearers=1, s1u=0)
        again = await parts.ue(one.usim)
        bearer = await again.attach()
        await parts.counts(attached=1, connected=1, bearers=1, s1u=1)
        [session] = parts.spgwu.sessions.values()
        assert session.ue == bearer.address

    epc(go)


def test_an_unknown_guti_is_asked_for_its_imsi_and_a_silent_ue_is_let_go(
    epc: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mobility_core, "ANSWER", 0.3)

    async def go(parts: Epc) -> None:
        one = await parts.ue(usim())
        guti = nas.Guti(Gummei(PLMN, 1, 1), 0xABCD)
        request = nas.AttachRequest(guti, nas.CAPABILITY, nas.connectivity_request())
        one._send(request.message())
        octets = await asyncio.wait_for(one.inbox.get(), 10)
        assert octets is not None
        assert nas.kind_of(octets) == nas.IDENTITY_REQUEST
        await asyncio.wait_for(one.released.wait(), 10)
        await parts.counts(connected=0)

    epc(go)


# -- messages against another implementation ----------------------------------------------------

GUTI = nas.Guti(Gummei(PLMN, 32768, 3), 0x12345678)
BEARER = nas.Bearer(5, "internet", "12.1.1.2", b"\x80\x00\x10\x02\x05\x4e")
UPLINK = {
    "attach": nas.AttachRequest(IMSI, nas.CAPABILITY, nas.connectivity_request("internet")),
    "attach again": nas.AttachRequest(GUTI, nas.CAPABILITY, nas.connectivity_request()),
}
MESSAGES = {
    **{name: (one.message(), True) for name, one in UPLINK.items()},
    "accept": (nas.AttachAccept(GUTI, TAI, BEARER.message()).message(), False),
    "complete": (nas.attach_complete(nas.activate_accept(5)), True),
    "reject": (nas.attach_reject(19, nas.connectivity_reject(27)), False),
    "challenge": (nas.authentication_request(1, bytes(16), bytes(range(16))), False),
    "response": (nas.authentication_response(bytes(8)), True),
    "failure": (nas.authentication_failure(21, bytes(14)), True),
    "command": (nas.security_command(2, 2, 1, nas.CAPABILITY), False),
    "secured": (nas.simple(nas.SECURITY_COMPLETE), True),
    "identity": (nas.simple(nas.IDENTITY_REQUEST, 1), False),
    "detach": (nas.detach_request(GUTI, off=True), True),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_nas_against_another_decoder(name: str) -> None:
    from pycrate_mobile.NASLTE import parse_NASLTE_MO, parse_NASLTE_MT

    octets, uplink = MESSAGES[name]
    parse: Any = parse_NASLTE_MO if uplink else parse_NASLTE_MT
    message, error = parse(octets)
    assert error == 0
    assert message.to_bytes() == octets


def test_nas_messages_are_read_as_they_were_written() -> None:
    for one in UPLINK.values():
        assert nas.AttachRequest.decode(one.message()) == one
    accept = nas.AttachAccept(GUTI, TAI, BEARER.message())
    assert nas.AttachAccept.decode(accept.message()) == accept
    assert nas.Bearer.decode(BEARER.message()) == BEARER
    assert nas.apn_of(UPLINK["attach"].esm)[0] == "internet"
    for digits in ("242881234500000", "24288123450000", "208951234500001"):
        assert nas.identity_of(nas.imsi_identity(digits)) == digits


def test_cut_nas_messages_are_refused_never_a_crash() -> None:
    for octets, _ in MESSAGES.values():
        for size in range(len(octets)):
            for read in (nas.AttachRequest.decode, nas.AttachAccept.decode, nas.challenge_of):
                with contextlib.suppress(ProtocolError):
                    read(octets[:size])


def test_protection_of_nas_messages() -> None:
    for eea in (nas.EEA0, nas.EEA2):
        ue_end = nas.Security(bytes(32), eea, nas.EIA2, keys.UPLINK)
        mme_end = nas.Security(bytes(32), eea, nas.EIA2, keys.DOWNLINK)
        plain = nas.simple(nas.SECURITY_COMPLETE)
        sealed = [ue_end.protect(plain) for _ in range(300)]
        assert (plain in sealed[0]) == (eea == nas.EEA0)
        for octets in sealed:
            assert mme_end.open(octets) == plain
        for broken in (sealed[-1], bytes([0x27]) + bytes(12), plain):
            with pytest.raises(ProtocolError):
                mme_end.open(broken)


def test_octets_that_are_no_s1ap() -> None:
    good = s1ap.PROTOCOL.encode("ErrorIndication", {"Cause": ("protocol", "semantic-error")})
    assert s1ap.PROTOCOL.decode(good).values == {"Cause": ("protocol", "semantic-error")}
    for octets in (b"", b"\xff" * 20, good[:3], b"GET / HTTP/1.1"):
        with pytest.raises(ProtocolError):
            s1ap.PROTOCOL.decode(octets)


def test_the_bearer_has_the_apn_that_the_ue_asks_for(epc: Run) -> None:
    async def go(parts: Epc) -> None:
        bearer = await (await parts.ue(usim(), apn="internet")).attach()
        assert bearer.apn == "internet"

    number = tbcd("24288880000000")
    epc(go, store=Memory(Subscriber(IMSI, K, OPC, msisdn=number, apns=("ims", "internet"))))


def test_the_enb_learns_what_the_ue_is_capable_of(
    epc: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    able, seen = bytes([0xE0, 0x60]), []
    encode, tell, command = nas.AttachRequest.message, s1ap.capabilities, nas.security_command

    def note(octets: bytes) -> dict[str, Any]:
        seen.append(octets)
        return tell(octets)

    async def go(parts: Epc) -> None:
        one = await parts.ue(usim())
        monkeypatch.setattr(
            nas.AttachRequest, "message", lambda asked: encode(replace(asked, capability=able))
        )
        # Our UE would refuse the replay of other capabilities than its own.
        monkeypatch.setattr(
            nas, "security_command", lambda *words: command(*words[:3], nas.CAPABILITY)
        )
        monkeypatch.setattr(s1ap, "capabilities", note)
        await one.attach()
        assert seen == [able]

    epc(go)


def test_capabilities_of_utran_are_replayed() -> None:
    able = bytes([0xE0, 0x60, 0xC0, 0xC0, 0x08])
    assert nas.command_of(nas.security_command(0, 2, 1, able))[3] == bytes([0xE0, 0x60, 0xC0, 0x40])


def test_an_enb_that_sets_up_again_has_no_connections(epc: Run) -> None:
    async def go(parts: Epc) -> None:
        await (await parts.ue(usim())).attach()
        await parts.counts(enbs=1, attached=1, connected=1, s1u=1)
        request = s1ap.PROTOCOL.encode("S1SetupRequest", parts.enb._setup_request())
        assert parts.enb._association is not None
        parts.enb._association.send(0, request)
        await parts.counts(enbs=1, attached=1, connected=0, s1u=0)

    epc(go)


def test_an_identifier_used_again_is_another_connection(epc: Run) -> None:
    async def go(parts: Epc) -> None:
        await (await parts.ue(usim())).attach()
        await parts.counts(connected=1, s1u=1)
        [known] = parts.enb._ues.values()
        request = nas.AttachRequest(imsi(1), nas.CAPABILITY, nas.connectivity_request())
        known.core = None
        first = {"NAS-PDU": request.message()} | parts.enb._place(known) | parts.enb.initial
        parts.enb._tell("InitialUEMessage", known, first)
        await parts.counts(attached=1, connected=1, s1u=0)

    epc(go)
