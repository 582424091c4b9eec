"""A 5G core with two slices and a gNB in one process, on loopback addresses, without TUN."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from oai import provision_5g
from simulators_support import OPC, K, hurry

from simulators.core5g import amf, database, gnb, nas, nrf, sbi, smf, udm_ausf
from simulators.core5g.snssai import Snssai
from simulators.core5g.ue import SessionRequest, Ue
from simulators.shared import user_plane
from simulators.shared.addresses import Pdn
from simulators.shared.identity import Plmn, Tai
from simulators.shared.terminal import Radio
from simulators.shared.user_plane import Spgwu
from simulators.shared.usim import Usim
from simulators.transport import tun

PLMN = Plmn("242", "88")
TAI = Tai(PLMN, 0xA000)
FIRST = 242881234500000
ONE, TWO, THREE = Snssai(1, 1), Snssai(2, 2), Snssai(3, 3)
DNNS = {ONE: "internet", TWO: "factory"}
POOLS = {ONE: "12.1.1.", TWO: "12.2.1."}
#: 4 addresses are in the second slice, so that they end.
LAST = {ONE: "12.1.4.254", TWO: "12.2.1.5"}
# Addresses of a worker's own: modules run beside each other, with the same ports.
HOST = f"127.{20 + int(os.environ.get('PYTEST_XDIST_WORKER', 'gw0')[2:])}"
NRF, UDR, UDM, AUSF, AMF, GNB, UU = (f"{HOST}.4.{number}" for number in range(1, 8))
SMFS = {ONE: f"{HOST}.4.11", TWO: f"{HOST}.4.12"}
UPFS = {ONE: f"{HOST}.4.21", TWO: f"{HOST}.4.22"}
SESSIONS = [
    {"sst": one.sst, "sd": f"{one.sd:06x}", "dnn": DNNS[one], "five_qi": 9, "priority": 90}
    for one in (ONE, TWO)
]


def imsi(number: int) -> str:
    return str(FIRST + number)


def config(kind: str, address: str, **profile: Any) -> sbi.Config:
    nrf_url = "" if kind == "NRF" else f"http://{NRF}:8080"
    return sbi.Config(kind, address, 8080, nrf=nrf_url, profile=profile)


def gnb_config(**changes: Any) -> gnb.Config:
    plain = gnb.Config(
        "gnb", 0xE00, (PLMN,), TAI.tac, AMF, GNB, GNB, UU, slices=(ONE, TWO), cell=0xE0001
    )
    return replace(plain, **changes)


class Core:
    """The network functions."""

    def __init__(self) -> None:
        account = {"MYSQL_USER": "oai", "MYSQL_PASSWORD": "secret"}
        self.mysql = database.Server(":memory:", account)
        self.nrf = nrf.Nrf(config("NRF", NRF))
        stored = udm_ausf.Database(UDR, database.PORT, "oai", "secret", "oai_db")
        self.udr = udm_ausf.Udr(config("UDR", UDR), stored)
        self.udm = udm_ausf.Udm(config("UDM", UDM))
        self.ausf = udm_ausf.Ausf(config("AUSF", AUSF))
        self.amf = amf.Amf(
            amf.Config(
                "amf",
                AMF,
                config("AMF", AMF),
                (amf.Guami(PLMN, 1, 1, 1),),
                {TAI: frozenset((ONE, TWO))},
                (nas.NEA2, nas.NEA0),
            )
        )
        self.smfs = {one: self.smf(one) for one in (ONE, TWO)}
        self.upfs = {
            one: Spgwu(
                user_plane.Config(
                    UPFS[one], UPFS[one], UPFS[one], (f"{POOLS[one]}0/22",), (SMFS[one],)
                )
            )
            for one in (ONE, TWO)
        }
        self.gnb = gnb.Gnb(gnb_config())
        self._numbers = 0

    def smf(self, one: Snssai) -> smf.Smf:
        information = {"sNssai": one.json, "dnnSmfInfoList": [{"dnn": DNNS[one]}]}
        profile = {"sNssaiSmfInfoList": [information]}
        return smf.Smf(
            smf.Config(
                SMFS[one],
                config("SMF", SMFS[one], smfInfo=profile),
                (Pdn(DNNS[one], f"{POOLS[one]}2", LAST[one]),),
                frozenset([(one, DNNS[one])]),
                ("192.0.2.53",),
                1354,
            )
        )

    def sql(self, *statements: str) -> None:
        self.mysql.load("\n".join(statements))

    async def start(self) -> None:
        document = {
            "first_imsi": str(FIRST),
            "subscribers": 60,
            "plmn": "24288",
            "key": K.hex(),
            "opc": OPC.hex(),
            "sessions": SESSIONS,
            "ambr_mbps": 100,
        }
        self.sql(*provision_5g.statements(document))
        await self.mysql.start(UDR)
        await self.nrf.node.start()
        nodes = (self.udr, self.udm.node, self.ausf.node, self.amf, *self.smfs.values())
        await asyncio.gather(*(one.start() for one in nodes))
        for one in (*self.upfs.values(), self.gnb):
            await one.start()
        for made in self.smfs.values():
            await asyncio.wait_for(made.n4.associated.wait(), 20)
        await asyncio.wait_for(self.gnb.ready.wait(), 20)
        while len(self.nrf.profiles) < 6:
            await asyncio.sleep(0.05)

    async def stop(self) -> None:
        self.gnb.stop()
        for upf in self.upfs.values():
            upf.stop()
        functions = (self.amf, *self.smfs.values(), self.ausf.node, self.udm.node, self.udr.node)
        await asyncio.gather(*(one.stop() for one in functions))
        await self.nrf.node.stop()
        self.mysql.stop()
        await asyncio.sleep(0.1)

    async def ue(
        self, number: int = 0, *requested: Snssai, key: bytes = K, radio: Radio | None = None
    ) -> Ue:
        """A UE on a link of its own, or on one with others."""
        if radio is None:
            radio = Radio()
            await radio.connect(UU)
        assert radio.link is not None
        at = len(radio.ues) + 1
        usim = Usim(imsi(number), key, OPC)
        made = Ue(usim, radio.link, at, PLMN, requested)
        radio.ues[at] = made  # type: ignore[assignment]
        return made

    async def until(self, true: Any) -> None:
        for _ in range(2400):
            if true():
                return
            await asyncio.sleep(0.05)
        raise AssertionError("it did not come true")


#: Runs a coroutine function with what a module's tests share.
Run = Callable[[Callable[[Any], Awaitable[None]]], None]


def shared(kind: type[Any], open_tun: Callable[[str], int], seconds: float) -> Iterator[Run]:
    """Start a core, or what has one, for all tests of a module; a test has ``seconds``."""
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        patch.setattr(tun, "open_tun", open_tun)
        hurry(patch)
        made = kind()
        runner.run(made.start())
        try:
            yield lambda go: runner.run(asyncio.wait_for(go(made), seconds))  # type: ignore[arg-type]
        finally:
            runner.run(made.stop())


def wanted(one: Snssai, number: int = 1, dnn: str | None = None) -> SessionRequest:
    return SessionRequest(number, DNNS[one] if dnn is None else dnn, one)
