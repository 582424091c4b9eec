"""Registration, slices and PDU sessions of the 5G simulators, and what goes wrong with them."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Iterator
from dataclasses import replace

import pytest
from core_5g_support import (
    DNNS,
    GNB,
    HOST,
    ONE,
    PLMN,
    POOLS,
    THREE,
    TWO,
    UU,
    Core,
    Run,
    gnb_config,
    imsi,
    shared,
    wanted,
)
from oai import provision_5g
from simulators_support import OPC, K

from simulators.core5g import gnb, nas, ngap
from simulators.core5g import ue as terminals
from simulators.core5g.ue import Ue
from simulators.errors import ProtocolError
from simulators.programs.load import Load
from simulators.shared.identity import Plmn
from simulators.shared.terminal import Radio, RefusedError
from simulators.transport import sctp


@pytest.fixture(scope="module")
def core() -> Iterator[Run]:
    """Run coroutine functions with a core that all tests of this file share."""
    if os.geteuid() and not sctp.kernel_has_sctp():
        pytest.skip("SCTP outside the kernel needs root for its raw socket")
    yield from shared(Core, lambda name: os.eventfd(0, os.EFD_NONBLOCK), 100)


async def left(core: Core, one: Ue) -> None:
    """Deregister; nothing of the UE may stay."""
    await one.deregister(off=False)
    await core.until(lambda: one.usim.imsi not in core.amf.by_imsi)
    supi = f"imsi-{one.usim.imsi}"
    for made in core.smfs.values():
        # The AMF forgets the UE before the SMF has answered.
        await core.until(lambda made=made: supi not in {c.supi for c in made.contexts.values()})


async def refusal(work: Awaitable[object]) -> int:
    with pytest.raises(RefusedError) as caught:
        await work
    return caught.value.cause


def test_a_ue_is_in_two_slices_and_leaves_one(core: Run) -> None:
    async def go(core: Core) -> None:
        one = await core.ue()
        await one.register()
        assert (set(one.allowed), one.rejected) == ({ONE, TWO}, {}), "default ones: none requested"
        first, second = await asyncio.gather(
            one.establish(wanted(ONE)), one.establish(wanted(TWO, 2))
        )
        assert (first.dnn, second.dnn, first.mtu) == (DNNS[ONE], DNNS[TWO], 1354)
        assert first.address.startswith(POOLS[ONE])
        assert second.address.startswith(POOLS[TWO])
        for slice_ in (ONE, TWO):
            await core.until(
                lambda slice_=slice_: [s.enb for s in core.upfs[slice_].sessions.values()] != [None]
            )
            [session] = core.upfs[slice_].sessions.values()
            assert session.enb is not None
            assert (session.enb[1], session.qfi) == (GNB, 9)
        assert "5GMM-REGISTERED" in core.amf.table()
        await one.release(1)
        await core.until(lambda: not core.upfs[ONE].sessions)
        await core.until(lambda: list(core.amf.by_imsi[imsi(0)].sessions) == [2])
        assert not core.smfs[ONE].contexts
        assert core.upfs[TWO].sessions
        again = await one.establish(wanted(ONE))
        assert again.address.startswith(POOLS[ONE])
        await left(core, one)
        await core.until(lambda: not core.upfs[ONE].sessions and not core.upfs[TWO].sessions)
        assert imsi(0) not in core.amf.table()

    core(go)


def test_slices_that_are_requested_are_allowed_or_rejected_with_a_cause(core: Run) -> None:
    async def go(core: Core) -> None:
        one = await core.ue(1, ONE, THREE)
        await one.register()
        assert (one.allowed, one.rejected) == ((ONE,), {THREE: nas.NOT_IN_PLMN})
        # Not allowed; and no such data network in a slice that is.
        assert await refusal(one.establish(wanted(TWO))) == nas.NOT_FORWARDED
        assert await refusal(one.establish(wanted(ONE, dnn="ims"))) == nas.DNN_NOT_SUBSCRIBED
        await one.establish(wanted(ONE))
        await left(core, one)

    core(go)


def test_a_gnb_that_offers_one_slice_only(core: Run) -> None:
    async def go(core: Core) -> None:
        core.gnb.stop()
        await core.until(lambda: not core.amf.nodes)
        narrow = gnb.Gnb(gnb_config(slices=(ONE,)))
        await narrow.start()
        try:
            await asyncio.wait_for(narrow.ready.wait(), 10)
            one = await core.ue(2, ONE, TWO)
            await one.register()
            assert (one.allowed, one.rejected) == ((ONE,), {TWO: nas.NOT_IN_AREA})
            await left(core, one)
        finally:
            narrow.stop()
            await core.until(lambda: not core.amf.nodes)
            core.gnb = gnb.Gnb(gnb_config())
            await core.gnb.start()
            await asyncio.wait_for(core.gnb.ready.wait(), 10)

    core(go)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"plmns": (Plmn("208", "95"),)}, "unknown-PLMN-or-SNPN"),
        ({"tac": 7}, "unknown-PLMN-or-SNPN"),
        ({"slices": (THREE,)}, "slice-not-supported"),
    ],
)
def test_a_gnb_of_another_network_is_refused(
    core: Run, changes: dict[str, object], cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go(core: Core) -> None:
        said: list[str] = []
        monkeypatch.setattr(gnb.Gnb.log, "error", lambda text, *words: said.append(text % words))
        other = f"{HOST}.4.99"
        strange = gnb.Gnb(gnb_config(control=other, user=other, uu=other, **changes))
        await strange.start()
        try:
            await core.until(lambda: said)
            assert said[0].endswith(f"refuses NG Setup: {cause}.")
            assert not strange.ready.is_set()
        finally:
            strange.stop()

    core(go)


def test_wrong_key_and_unknown_subscriber(core: Run) -> None:
    async def go(core: Core) -> None:
        for one in (await core.ue(3, key=bytes(16)), await core.ue(999)):
            with pytest.raises(RefusedError) as caught:
                await one.register()
            assert (caught.value.cause, caught.value.final) == (nas.ILLEGAL_UE, True)
            assert one.usim.imsi not in core.amf.by_imsi
        await core.until(lambda: not core.amf.ues)

    core(go)


def test_a_ue_that_answers_wrongly_is_rejected(core: Run) -> None:
    async def go(core: Core) -> None:
        one = await core.ue(3)
        right = one.usim.check
        one.usim.check = (  # type: ignore[method-assign]
            lambda rand, autn: replace(right(rand, autn), res=bytes(8))
        )
        assert await refusal(one.register()) == nas.ILLEGAL_UE
        await core.until(lambda: not core.amf.ues)

    core(go)


def test_a_usim_ahead_of_the_udm_is_synchronised(core: Run) -> None:
    async def go(core: Core) -> None:
        one = await core.ue(4)
        one.usim.sqn = 1 << 20
        await one.register()
        assert one.usim.sqn > 1 << 20
        await left(core, one)

    core(go)


def test_who_subscribes_to_no_slice_of_this_network(core: Run) -> None:
    async def go(core: Core) -> None:
        other = [{"sst": 3, "sd": "000003", "dnn": "ims", "five_qi": 9, "priority": 90}]
        core.sql(*provision_5g.subscription([imsi(5)], "24288", other, 10))
        one = await core.ue(5, ONE)
        assert await refusal(one.register()) == nas.NO_SLICES
        assert one.rejected == {ONE: nas.NOT_IN_PLMN}
        # The slice is subscribed to, its data network is not.
        other = [{"sst": 1, "sd": "000001", "dnn": "ims", "five_qi": 9, "priority": 90}]
        core.sql(*provision_5g.subscription([imsi(5)], "24288", other, 10))
        await one.register()
        assert await refusal(one.establish(wanted(ONE))) == nas.UNKNOWN_DNN_IN_SLICE
        await left(core, one)

    core(go)


def test_no_address_is_left(core: Run) -> None:
    async def go(core: Core) -> None:
        radio = Radio()
        await radio.connect(UU)
        ues = [await core.ue(number, radio=radio) for number in range(10, 15)]
        await asyncio.gather(*(one.register() for one in ues))
        for one in ues[:4]:
            await one.establish(wanted(TWO))
        assert await refusal(ues[4].establish(wanted(TWO))) == nas.NO_RESOURCES
        await left(core, ues[0])
        await ues[4].establish(wanted(TWO))
        for one in ues[1:]:
            await left(core, one)

    core(go)


def test_a_user_plane_or_an_smf_that_is_gone(core: Run) -> None:
    async def go(core: Core) -> None:
        one = await core.ue(6)
        await one.register()
        core.upfs[TWO].stop()
        await core.until(lambda: core.smfs[TWO].n4.up is None)
        assert await refusal(one.establish(wanted(TWO))) == nas.NETWORK_DOWN
        await core.smfs[TWO].stop()
        assert await refusal(one.establish(wanted(TWO))) == nas.NOT_FORWARDED
        await one.establish(wanted(ONE))  # the other slice does not notice
        core.smfs[TWO] = core.smf(TWO)
        await core.smfs[TWO].start()
        core.upfs[TWO] = type(core.upfs[TWO])(core.upfs[TWO].config)
        await core.upfs[TWO].start()
        await asyncio.wait_for(core.smfs[TWO].n4.associated.wait(), 20)
        await core.until(lambda: len(core.nrf.profiles) == 6)
        await one.establish(wanted(TWO, 2))
        await core.until(lambda: [s.enb for s in core.upfs[TWO].sessions.values()] != [None])
        await left(core, one)

    core(go)


def test_a_lost_radio_link_leaves_sessions_without_user_plane(core: Run) -> None:
    async def go(core: Core) -> None:
        one = await core.ue(7)
        await one.register()
        await one.establish(wanted(ONE))
        await core.until(lambda: any(s.enb is not None for s in core.upfs[ONE].sessions.values()))
        one.link.close()
        await core.until(lambda: not core.amf.ues)
        await core.until(lambda: [s.enb for s in core.upfs[ONE].sessions.values()] == [None])
        assert core.amf.by_imsi[imsi(7)].registered
        back = await core.ue(7)
        back.usim.sqn = one.usim.sqn
        await back.register()
        await core.until(lambda: not core.upfs[ONE].sessions)
        await back.establish(wanted(ONE))
        await left(core, back)

    core(go)


def test_octets_that_are_no_ngap_are_answered_and_harm_nobody(core: Run) -> None:
    async def go(core: Core) -> None:
        association = core.gnb._association
        assert association is not None
        said: list[str] = []
        before = core.gnb.log.error
        core.gnb.log.error = lambda text, *words: said.append(text)  # type: ignore[method-assign]
        good = ngap.PROTOCOL.encode("ErrorIndication", {"Cause": ("protocol", "semantic-error")})
        for octets in (b"\xff" * 20, good[:4], b"GET / HTTP/1.1"):
            association.send(0, octets)
        await core.until(lambda: len(said) == 3)
        core.gnb.log.error = before  # type: ignore[method-assign]
        one = await core.ue(8)
        one.link.send(terminals.radio_link.NAS, one.radio, b"\x7e\x00\x41")
        await core.until(one.released.is_set)
        await one.register()
        await left(core, one)

    core(go)


@pytest.mark.long
def test_a_storm_loses_nobody(core: Run) -> None:
    count = 20

    async def go(core: Core) -> None:
        request = {
            "enb": UU,
            "first_imsi": imsi(20),
            "k": K.hex(),
            "opc": OPC.hex(),
            "plmn": "242/88",
            "count": count,
            "rate": 1000,
            "hold": True,
            "snssai": "1-000001",
            "dnn": DNNS[ONE],
        }
        storm = asyncio.create_task(Load(request).run())
        await core.until(lambda: len(core.upfs[ONE].sessions) == count)
        report = await storm
        assert (report["attached"], report["lost"], report["reasons"]) == (count, 0, {})
        assert report["attach_ms"]["median"] > 0
        await core.until(lambda: not core.upfs[ONE].sessions)

    core(go)


# -- codecs ---------------------------------------------------------------------------------------

MESSAGES = [
    nas.encode(
        "RegistrationRequest",
        {
            "NAS_KSI": {"TSC": 0, "Value": 7},
            "5GSRegType": {"FOR": 1, "Value": 1},
            "5GSID": nas.suci(imsi(0), PLMN),
            "UESecCap": nas.CAPABILITY,
            "NSSAI": [{"SNSSAI": ONE.nas}],
        },
    ),
    nas.encode_sm("PDUSessionReleaseCommand", 1, 1, {"5GSMCause": nas.REGULAR}),
]


def test_cut_messages_are_refused_never_a_crash() -> None:
    for octets in MESSAGES:
        assert nas.decode(octets).name
        for size in range(len(octets)):
            with contextlib.suppress(ProtocolError):
                nas.decode(octets[:size])
    for octets in (b"", b"\x00", bytes(40), b"\x7e\x00\xff"):
        with pytest.raises(ProtocolError):
            nas.decode(octets)


def test_identities_are_read_as_they_were_written() -> None:
    for digits, plmn in (("242881234500000", PLMN), ("310410123456789", Plmn("310", "410"))):
        assert nas.imsi_of(nas.suci(digits, plmn)) == digits
    concealed = nas.suci(imsi(0), PLMN)
    concealed["Value"]["ProtSchemeID"] = 1
    with pytest.raises(ProtocolError, match="not the null scheme"):
        nas.imsi_of(concealed)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[("1000Mbps", (3, 62500)), ("100 Mbps", (2, 25000)), ("64 Kbps", (1, 64))],
        *[("500 bps", (1, 1)), ("20 Gbps", (6, 20000)), ("100 Gbps", (7, 25000))],
        ("40 Tbps", (11, 40000)),
    ],
)
def test_bit_rates(text: str, value: tuple[int, int]) -> None:
    assert nas.rate(text) == value


def test_what_is_no_bit_rate() -> None:
    for text in ("", "fast", "10", "-1 Mbps"):
        with pytest.raises(ProtocolError):
            nas.rate(text)


def test_protection_of_nas_messages() -> None:
    from simulators.shared import keys

    for nea in (nas.NEA0, nas.NEA2):
        here = nas.Security(bytes(32), nea, nas.NIA2, keys.UPLINK)
        there = nas.Security(bytes(32), nea, nas.NIA2, keys.DOWNLINK)
        other = nas.Security(bytes(32), nea, nas.NIA2, keys.DOWNLINK, bearer=2)
        plain = nas.encode("RegistrationComplete")
        sealed = [here.protect(plain) for _ in range(300)]
        assert (plain in sealed[0]) == (nea == nas.NEA0)
        with pytest.raises(ProtocolError):
            other.open(sealed[0])
        for octets in sealed:
            assert there.open(octets) == plain
        for broken in (sealed[-1], b"\x7e\x02" + bytes(12), plain):
            with pytest.raises(ProtocolError):
                there.open(broken)
