"""Procedures over N2: their duration (`procedures`), and many UEs at once (`storm`).

A program on the base station's VDU simulates UEs, which register, in 5G each with a PDU session.
Meanwhile the AMF's primitive `measure-n2`, in 4G the MME's `measure-s6a`, measures from the packets
on N2 or S6a. Only the lab has such UEs.
"""

from functools import partial

from experiments.model import Result
from experiments.signalling import REQUESTS, metered, times
from experiments.testbed import Slice, Testbed

PROCEDURES = ("registration", "session")
LINK = "n2"


def _shared(bed: Testbed) -> Slice:
    return next(one for one in bed.slices.values() if LINK in one.links)


def run(bed: Testbed, slice: str, path: str, ues: int) -> Result:
    """Measure procedures while UEs register one after another.

    Args:
        slice: slice of the PDU sessions.
        path: "tunnel", or "underlay" without the tunnel of N2 during the run.

    Returns:
        Mean, median and p99 of each procedure, and the median per UE for registration and session
        together, all in ms.
    """
    lab, shared, slice_ = bed.the_lab, _shared(bed), bed.slice_named(slice)
    core = shared.values("amf")
    with bed.path(shared.name, [LINK], path):
        lab.register(core, slice_, 1)  # Make sure that N2 is up, and warm up the programs.
        load = partial(lab.register, core, slice_, ues)
        answer, loaded = metered(bed, shared["amf"], "measure-n2", load, count=ues)
    return {
        **times(answer, PROCEDURES, "mean", "median", "p99"),
        "ue_median_ms": float(loaded["attach_ms"]["median"]),
        "count": {name: answer[name]["count"] for name in PROCEDURES},
        "technology": answer["technology"],
    }, None


def storm(bed: Testbed, slice: str, ues: int, rate: int, path: str = "tunnel") -> Result:
    """Let UEs begin to register at a rate, and stay registered.

    Args:
        slice: slice of the PDU sessions, or an EPC.
        rate: UEs that begin per second.
        path: "underlay" without the tunnels of all links of the slice during the run.

    Returns:
        Rates per second, the number of UEs that gave up, and times in ms, of UEs and on N2 or S6a.
    """
    lab, slice_ = bed.the_lab, bed.slice_named(slice)
    with bed.path(slice, slice_.links, path):
        if slice_.signalling == "s6a":
            names, near, meter, count = REQUESTS, slice_["mme"], "measure-s6a", 2 * ues
            load = partial(lab.attach, slice_, ues, rate)
            lab.attach(slice_, 1)  # Make sure that S6a is up.
        else:
            shared = _shared(bed)
            names, near, meter, count = PROCEDURES, shared["amf"], "measure-n2", ues
            load = partial(lab.register, shared.values("amf"), slice_, ues, rate)
        answer, loaded = metered(bed, near, meter, load, count=count, idle=20)
    return {
        "offered_per_second": loaded["offered_per_second"],
        "served_per_second": loaded["attached_per_second"],
        "lost": loaded["lost"],
        "ue_median_ms": loaded["attach_ms"].get("median"),
        "ue_p99_ms": loaded["attach_ms"].get("p99"),
        **{f"{name.lower()}_mean_ms": answer[name].get("mean-ms") for name in names},
        f"{names[0].lower()}_p99_ms": answer[names[0]].get("p99-ms"),
    }, None
