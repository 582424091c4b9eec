"""An EPC with an eNB in one process, on loopback addresses and without TUN devices."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from simulators.epc import diameter, enb, hss, mme, spgwc, ue
from simulators.epc.diameter import Identity
from simulators.epc.subscribers import Subscriber
from simulators.shared import base_station, pfcp_control
from simulators.shared import user_plane as spgwu
from simulators.shared.addresses import Pdn
from simulators.shared.identity import Gummei, Plmn, Tai, tbcd
from simulators.shared.terminal import Radio
from simulators.shared.usim import Usim
from simulators.transport import tun, udp

REALM = "simula.nornet"
PLMN = Plmn("242", "88")
TAI = Tai(PLMN, 600)
K, OPC = bytes.fromhex("449c4b91aeacd0ace182cf3a5a72bfa1"), bytes(range(16))
IMSI = "242881234500000"
HSS, MME, S11, SGW, SX, UP, S1C, UU = (f"127.9.3.{number}" for number in range(1, 9))


def hurry(patch: pytest.MonkeyPatch) -> None:
    """Shorten the times between attempts; ip(8) does not change this machine."""
    patch.setattr(tun, "ip", lambda *words: None)
    for module, name in (
        (pfcp_control, "HEARTBEAT"),
        (diameter, "RECONNECT"),
        (base_station, "RETRY"),
        (pfcp_control, "RETRY"),
        (spgwu, "RETRY"),
        (mme, "ECHO"),
    ):
        patch.setattr(module, name, 0.2)
    patch.setattr(udp, "REPEAT", 0.5)


def in_a_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))  # type: ignore[arg-type]

    return run


class Memory:
    def __init__(self, *subscribers: Subscriber) -> None:
        self.by_imsi = {one.imsi: one for one in subscribers}

    async def get(self, imsi: str) -> Subscriber | None:
        return self.by_imsi.get(imsi)

    async def set_sqn(self, imsi: str, sqn: int) -> None:
        """Note the sequence number used last."""
        self.by_imsi[imsi] = replace(self.by_imsi[imsi], sqn=sqn)

    async def set_mme(self, imsi: str, mme: str) -> None:
        self.by_imsi[imsi] = replace(self.by_imsi[imsi], mme=mme)


def imsi(number: int) -> str:
    return str(int(IMSI) + number)


def usim(number: int = 0, key: bytes = K) -> Usim:
    return Usim(imsi(number), key, OPC)


@dataclass
class Epc:
    """The network functions, each of which a test may stop and start again."""

    store: Any
    hss: hss.Hss
    mme: mme.Mme
    spgwc: spgwc.Spgwc
    spgwu: spgwu.Spgwu
    enb: enb.Enb

    async def start(self) -> None:
        await self.hss.server.start(HSS, 3868)
        await self.mme.start()
        await self.spgwc.start()
        await self.spgwu.start()
        await self.enb.start()
        await self.ready()

    async def ready(self) -> None:
        for event in (self.mme.hss.open, self.spgwc.sx.associated, self.enb.ready):
            await asyncio.wait_for(event.wait(), 20)

    async def restart(self, name: str) -> None:
        old = getattr(self, name)
        old.stop()
        await asyncio.sleep(1.1)  # recovery time stamps count seconds
        fresh = type(old)(old.config)
        setattr(self, name, fresh)
        await fresh.start()

    async def radio(self) -> Radio:
        made = Radio()
        await made.connect(UU)
        return made

    async def ue(self, sim: Usim, radio: Radio | None = None, apn: str = "") -> ue.Ue:
        radio = radio or await self.radio()
        assert radio.link is not None
        number = len(radio.ues) + 1
        radio.ues[number] = ue.Ue(sim, radio.link, number, PLMN, apn)
        return radio.ues[number]

    async def counts(self, **expected: int) -> None:
        """Wait until the MME's table shows these numbers, rows named by their first word."""
        rows = {"enbs": "Connected eNBs", "attached": "Attached UEs", "connected": "Connected UEs"}
        rows |= {"bearers": "Default Bearers", "s1u": "S1-U Bearers"}

        def seen() -> dict[str, int]:
            return {name: self.mme.statistics.current[rows[name]] for name in expected}

        for _ in range(1200):
            if seen() == expected:
                return
            await asyncio.sleep(0.05)
        assert seen() == expected

    def stop(self) -> None:
        for part in (self.enb, self.mme, self.spgwc, self.spgwu):
            part.stop()


@contextlib.asynccontextmanager
async def running(store: Any = None, **options: Any) -> AsyncIterator[Epc]:
    store = store or Memory(
        *(Subscriber(imsi(n), K, OPC, msisdn=tbcd("24288880000000")) for n in range(500))
    )
    plmns = options.get("plmns", (PLMN,))
    pdn = Pdn("internet", "12.1.1.2", options.get("last", "12.1.4.254"))
    epc = Epc(
        store,
        hss.Hss(Identity(f"hss.{REALM}", REALM, HSS), store, options.get("roaming", True)),
        mme.Mme(
            mme.Config(
                Identity(f"mme.{REALM}", REALM, MME),
                f"hss.{REALM}",
                REALM,
                HSS,
                MME,
                S11,
                SGW,
                (Gummei(PLMN, 32768, 3),),
                options.get("tais", frozenset([TAI])),
                ciphering=options.get("ciphering", 0),
            )
        ),
        spgwc.Spgwc(spgwc.Config(SGW, SX, (pdn,), ("8.8.8.8",))),
        spgwu.Spgwu(spgwu.Config(UP, UP, UP, ("12.1.0.0/21",), (SX,))),
        enb.Enb(base_station.Config("enb1", 0xE00, plmns, 600, MME, S1C, S1C, UU)),
    )
    try:
        if options.get("start", True):
            await epc.start()
        yield epc
    finally:
        epc.stop()
        await epc.hss.server.stop()
        await asyncio.sleep(0.05)
