"""A load of UEs over one eNB or gNB: registrations one after another, or a storm at a rate.

    launch load < request.json

The request: ``enb`` (address), ``first_imsi``, ``k``, ``opc`` (hexadecimal), ``plmn`` (MCC/MNC),
``count`` (UEs), ``rate`` (attaches begun per second; 0: one after another), ``hold`` (attached UEs
stay until all are done; else each detaches at once). With ``snssai`` (SST-SD) and ``dnn`` the
request is for a gNB, whose UEs register and establish a PDU session. After a failed attach a UE
tries again, as in TS 24.301. The answer is JSON on standard output: the number of UEs that
attached, the number that did not (lost), the reasons of failed attempts, the rates, and the times
from a UE's first attempt.
"""

import asyncio
import json
import math
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from simulators.epc import ue
from simulators.errors import EpcError
from simulators.shared.identity import Plmn
from simulators.shared.terminal import Radio
from simulators.shared.usim import Usim

#: Maximum attempts of a UE, and seconds between them (TS 24.301 section 5.5.1.2.6).
ATTEMPTS, T3411 = 5, 10.0


def summary(seconds: list[float]) -> dict[str, float]:
    """Return count, mean and nearest-rank quantiles of times, in milliseconds."""
    if not seconds:
        return {"count": 0}
    ordered = sorted(seconds)

    def rank(share: float) -> float:
        return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)] * 1000, 3)

    return {
        "count": len(ordered),
        "mean": round(sum(ordered) / len(ordered) * 1000, 3),
        "min": round(ordered[0] * 1000, 3),
        "median": rank(0.5),
        "p95": rank(0.95),
        "p99": rank(0.99),
        "max": round(ordered[-1] * 1000, 3),
    }


@dataclass
class Load:
    """A request and its results."""

    request: dict[str, Any]
    took: list[float] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)
    ended: float = 0.0

    async def one(self, made: ue.Ue, hold: bool) -> None:
        """Attach a UE, and detach it unless ``hold``."""
        began = time.monotonic()
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await made.attach()
                break
            except EpcError as error:
                self.failures[str(error)] = self.failures.get(str(error), 0) + 1
                if attempt == ATTEMPTS or getattr(error, "final", False):
                    return
                await asyncio.sleep(T3411)
        self.ended = time.monotonic()
        self.took.append(self.ended - began)
        if not hold:
            await made.detach(off=False)

    async def run(self) -> dict[str, Any]:
        request = self.request
        radio = Radio()
        await radio.connect(request["enb"])
        assert radio.link is not None  # noqa: S101
        k, opc = bytes.fromhex(request["k"]), bytes.fromhex(request["opc"])
        plmn = Plmn(*request["plmn"].split("/"))
        count, rate, hold = int(request["count"]), float(request["rate"]), bool(request["hold"])
        first = request["first_imsi"]
        ues: list[Any] = []
        for number in range(count):
            imsi = str(int(first) + number).zfill(len(first))
            usim = Usim(imsi, k, opc)
            made: Any
            if "snssai" in request:
                from simulators.core5g.ue import Attached

                made = Attached(usim, radio.link, number + 1, plmn)
                made.want(request["snssai"], request["dnn"])
            else:
                made = ue.Ue(usim, radio.link, number + 1, plmn)
            radio.ues[number + 1] = made
            ues.append(made)
        began = time.monotonic()
        tasks = []
        for number, made in enumerate(ues):
            if rate:
                await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
                tasks.append(asyncio.create_task(self.one(made, hold)))
            else:
                await self.one(made, hold)
        offered = time.monotonic() - began
        await asyncio.gather(*tasks)
        attached = len(self.took)
        if hold:
            there = [made for made in ues if made.bearer is not None]
            for at in range(0, len(there), 50):
                await asyncio.gather(*(made.detach(off=False) for made in there[at : at + 50]))
        radio.link.close()
        span = max(self.ended - began, 1e-9)
        return {
            "count": count,
            "attached": attached,
            "lost": count - attached,
            "reasons": self.failures,
            "offered_per_second": round(count / offered, 2) if offered else None,
            "attached_per_second": round(attached / span, 2),
            "attach_ms": summary(self.took),
        }


def main() -> int:
    """Read the request, run it, print the answer."""
    request = json.load(sys.stdin)
    # USIMs start at sequence number 0 in each run, so any vector of the HSS is new to them.
    ue.T3410 = float(request.get("timeout", ue.T3410))
    try:
        answer = asyncio.run(Load(request).run())
    except EpcError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    json.dump(answer, sys.stdout)
    return 0
