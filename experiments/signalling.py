"""UEs that register with a slice's network functions (experiment `signalling`).

A program on the eNB's VDU simulates UEs. They attach one after another through the slice's own MME
and HSS. Meanwhile the MME's primitive `measure-s6a` measures the service response times of S6a on
the wire: the time from an Authentication-Information or Update-Location request to its answer (TS
29.272). Only the lab has such UEs, so this experiment needs the lab.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import click

from experiments.background import side_by_side
from experiments.model import Result
from experiments.testbed import PATIENCE, Testbed, Vnf

REQUESTS = ("AIR", "ULR")


def times(answer: Mapping[str, Any], names: Iterable[str], *words: str) -> dict[str, float]:
    """Return statistics of a meter's answer for a run's result, in ms."""
    if lost := answer.get("packets-lost-by-the-meter"):
        raise click.ClickException(f"the meter lost {lost} packets: its VDU had no time for them")
    for name in names:
        if not answer[name]["count"]:
            raise click.ClickException(f"the meter saw no {name} with its end")
    return {
        f"{name.lower()}_{word}_ms": float(answer[name][f"{word}-ms"])
        for name in names
        for word in words
    }


def metered(
    bed: Testbed, vnf: Vnf, primitive: str, load: Callable[[], Any], **params: int
) -> list[Any]:
    """Run a primitive that captures packets; return its answer and the result of a load beside it.

    The load begins when the primitive captures.
    """
    lab = bed.the_lab
    before = lab.taps(vnf)
    operation = vnf.start(primitive, duration=300, **params)
    until = time.monotonic() + 60
    while lab.taps(vnf) <= before:
        if time.monotonic() > until:
            raise click.ClickException(f"{vnf}: {primitive} does not begin to listen")
        time.sleep(0.2)
    both = (lambda: json.loads(bed.osm.output(operation)), load)
    return side_by_side(lambda one: one(), both, PATIENCE)


def run(bed: Testbed, slice: str, path: str, ues: int, links: str = "") -> Result:
    """Measure S6a while UEs register.

    Args:
        path: "tunnel", or "underlay" without the tunnel of S6a during the run.
        links: "all" for the tunnels of all links in place of that of S6a.

    Returns:
        Mean and median of the response times, and of the duration of an attach, in ms.
    """
    lab, slice_ = bed.the_lab, bed.slice_named(slice)
    with bed.path(slice, slice_.links if links else [slice_.signalling], path):
        lab.attach(slice_, 1)  # Make sure that S6a is up, and warm up the programs.
        load = partial(lab.attach, slice_, ues)
        answer, loaded = metered(bed, slice_["mme"], "measure-s6a", load, count=2 * ues)
    return {
        **times(answer, REQUESTS, "mean", "median"),
        "attach_mean_ms": float(loaded["attach_ms"]["mean"]),
        "attach_median_ms": float(loaded["attach_ms"]["median"]),
        "answers": {name: answer[name]["count"] for name in REQUESTS},
        "technology": answer["technology"],
    }, None
