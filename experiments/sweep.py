"""URLLC's delay by 5QI, load and number of slices (experiment `sweep`).

The downlink of N3 of all slices shares the bottleneck of `qos`. URLLC sends datagrams at a steady
rate. eMBB sends at a low rate, or TCP as fast as it can. With three slices, mMTC sends small
datagrams from many ports, as many devices do. All slices enforce their 5QIs; URLLC's varies.
"""

import contextlib
import time
from typing import Any

from experiments import qos
from experiments.model import Result
from experiments.slices import EMBB, MMTC, URLLC
from experiments.testbed import Slice, Testbed
from experiments.traffic import LIMIT, NAME, Stream, load

LINK = "n3"
SENDERS, EACH, SIZE = 200, 10, 64
"""mMTC's number of senders, datagrams per second of each sender, and payload in bytes."""
LIGHT_RATE, LIGHT_SIZE = 1000, 1250
"""eMBB's datagrams per second and payload in bytes under light load: 10 Mbit/s."""
#: 5QIs of URLLC, and the guaranteed rate with each in Mbit/s: only GBR flows have a guarantee.
GUARANTEED = {82: qos.URLLC_MBPS, 80: 0, 9: 0}
MMTC_5QI = 9
TEXT = (
    f"The downlink of N3 of all slices shares a bottleneck of {qos.BOTTLENECK_MBPS} Mbit/s. URLLC "
    f"sends {qos.RATE} datagrams a second. It has a guarantee only where its 5QI is GBR "
    f"({', '.join(str(five_qi) for five_qi, rate in GUARANTEED.items() if rate)}). eMBB (5QI "
    f"{qos.EMBB}) sends {LIGHT_RATE * LIGHT_SIZE * 8 // 1_000_000} Mbit/s, or TCP as fast as it "
    f"can. The third slice is mMTC (5QI {MMTC_5QI}): {SENDERS} ports send {EACH} datagrams of "
    f"{SIZE} bytes a second each. All slices enforce their 5QIs."
)
"""Description of the sweep in a report."""


def run(bed: Testbed, five_qi: int, load: str, slices: int, seconds: int) -> Result:
    """Measure URLLC's delay in one direction.

    Args:
        five_qi: 5QI of URLLC, a key of GUARANTEED.
        load: load of eMBB, "light" or "saturated".
        slices: 2, or 3 with mMTC.

    Returns:
        Delays of URLLC's datagrams, eMBB's rate, and figures of mMTC's stream.
    """
    lab = bed.the_lab
    urllc, embb, mmtc = (bed.slices[name] for name in (URLLC, EMBB, MMTC))
    bed.shaped = None  # The next lines replace the values of the slices' parameters.
    _set(urllc, five_qi, GUARANTEED[five_qi], qos.URLLC_MBPS if GUARANTEED[five_qi] else 0)
    _set(embb, qos.EMBB, 0, qos.EMBB_MBPS)
    _set(mmtc, MMTC_5QI, 0, qos.URLLC_MBPS)
    senders = [(urllc, NAME, {"rate": qos.RATE})]
    if load == "light":
        senders.append((embb, EMBB, {"rate": LIGHT_RATE, "size": LIGHT_SIZE}))
    if slices > 2:
        many = {"rate": SENDERS * EACH, "size": SIZE, "senders": SENDERS}
        senders.append((mmtc, MMTC, many))
    gnb = urllc["gnb"]
    target = urllc.inner(gnb.name, LINK)
    near = lab.ports("upf", [urllc, embb, mmtc], LINK)
    with lab.bottleneck(near, qos.BOTTLENECK_MBPS, qos.FIFO_MS):
        gnb.action("start-listener", link=LINK, seconds=LIMIT, budget_ms=int(qos.BUDGET_MS))
        counters = _carried(embb, load, senders, target, seconds)
        streams = gnb.stop("listener")["streams"]
    summaries = {
        name: Stream(params["rate"], counters[name], streams.get(name, {}))
        for _, name, params in senders
    }
    rate = light_mbps(summaries[EMBB]) if load == "light" else counters["load"]["mbps"]
    result = {
        "urllc": summaries[NAME].summary(),
        "within_percent": summaries[NAME].within_percent,
        "embb_mbps": rate,
        "budget_ms": qos.BUDGET_MS,
    }
    if slices > 2:
        result["mmtc"] = summaries[MMTC].summary()
    return result, None


def light_mbps(stream: Stream) -> float:
    """Return the rate of eMBB under light load, in Mbit/s.

    It does not use the stream's duration, because the stream goes on until `stop-stream` runs.
    """
    sent = int(stream.sent["sent"])
    return LIGHT_RATE * LIGHT_SIZE * 8 / 1e6 * (sent - stream.lost) / sent


def _carried(
    embb: Slice, how: str, senders: list[Any], target: str, seconds: int
) -> dict[str, Any]:
    """Let all senders send for some seconds; return their counters by name."""
    counters: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        if how == "saturated":
            counters["load"] = stack.enter_context(load(embb["upf"], LINK, parallel=4))
            time.sleep(1)  # Until TCP has reached its rate.
        for slice_, name, params in senders:
            way = {"link": LINK, "address": target, "name": name, "seconds": LIMIT}
            slice_["upf"].action("start-stream", **way, **params)
        time.sleep(seconds)
        for slice_, name, _ in senders:
            counters[name] = slice_["upf"].stop("stream")
    return counters


def _set(slice_: Slice, five_qi: int, guaranteed: int, maximum: int) -> None:
    """Set the 5QI of a slice on N3, where its UPF enforces it."""
    given = {"five_qi": five_qi, "guaranteed_mbps": guaranteed, "maximum_mbps": maximum}
    slice_["upf"].action("set-qos", link=LINK, **given, underlay_mbps=qos.BOTTLENECK_MBPS)
