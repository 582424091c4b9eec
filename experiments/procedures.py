"""Procedures over N2: their duration (`procedures`), and many at once (`storm`).

A program on the gNB's VDU simulates UEs, which register and establish a PDU session each. Meanwhile
the AMF's primitive `measure-n2` measures from the packets on N2. Only the lab has such UEs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from experiments import signalling
from experiments.model import Experiment
from experiments.testbed import Slice, Testbed

if TYPE_CHECKING:
    from experiments.on_the_lab import Lab

PROCEDURES = ("registration", "session")
LINK = "n2"


def _needed(bed: Testbed, name: str) -> tuple[Lab, Slice, Slice]:
    """Return the lab, the shared service, and a slice."""
    if bed.lab is None:
        raise click.ClickException("this needs the UEs that the lab simulates")
    shared = next(one for one in bed.slices.values() if LINK in one.links)
    return bed.lab, shared, bed.slice_named(name)


def run(bed: Testbed, slice: str, path: str, ues: int) -> tuple[dict[str, Any], None]:
    """Measure procedures while UEs register one after another.

    Args:
        bed: with the slices.
        slice: slice of the PDU sessions.
        path: "tunnel", or "underlay" with N2 set to technology `none` during the run.
        ues: number of UEs that register.

    Returns:
        Mean, median and p99 of each procedure, and the median per UE for registration and session
        together, all in ms.
    """
    lab, shared, slice_ = _needed(bed, slice)
    core = shared.values("amf")
    plain = path != "tunnel"
    try:
        if plain:
            bed.configure(shared.name, LINK, "none")
        lab.register(core, slice_, 1)  # Make sure that N2 is up, and warm up the programs.
        operation = signalling.start_meter(
            lab, shared["amf"], "measure-n2", duration=300, count=ues
        )
        answer, loaded = signalling.metered(bed, operation, lambda: lab.register(core, slice_, ues))
    finally:
        if plain:
            bed.configure(shared.name, LINK, "wireguard")
    return {
        **signalling.times(answer, PROCEDURES, "mean", "median", "p99"),
        "ue_median_ms": float(loaded["attach_ms"]["median"]),
        "count": {name: answer[name]["count"] for name in PROCEDURES},
        "technology": answer["technology"],
    }, None


def storm(bed: Testbed, slice: str, ues: int, rate: int) -> tuple[dict[str, Any], None]:
    """Let UEs begin to register at a rate, and stay registered.

    Args:
        bed: with the slices.
        slice: slice of the PDU sessions.
        ues: number of UEs.
        rate: UEs that begin per second.

    Returns:
        Rates per second, the number of UEs that gave up, and times in ms, of UEs and on N2.
    """
    lab, shared, slice_ = _needed(bed, slice)
    operation = signalling.start_meter(
        lab, shared["amf"], "measure-n2", duration=300, count=ues, idle=20
    )
    core = shared.values("amf")
    answer, loaded = signalling.metered(
        bed, operation, lambda: lab.register(core, slice_, ues, rate)
    )
    return {
        "offered_per_second": loaded["offered_per_second"],
        "served_per_second": loaded["attached_per_second"],
        "lost": loaded["lost"],
        "ue_median_ms": loaded["attach_ms"].get("median"),
        "ue_p99_ms": loaded["attach_ms"].get("p99"),
        "registration_mean_ms": answer["registration"].get("mean-ms"),
        "registration_p99_ms": answer["registration"].get("p99-ms"),
        "session_mean_ms": answer["session"].get("mean-ms"),
    }, None


EXPERIMENT = Experiment(run, lab_only=True)
STORM = Experiment(storm, lab_only=True)
