"""Make the runs of a campaign that are still missing, with progress on the terminal."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console

from experiments import (
    confidentiality,
    dependability,
    performance,
    qos,
    reach,
    revocation,
    signalling,
)
from experiments.model import Cell, Run
from experiments.profiles import Profile
from experiments.schedule import Planned, interleaved
from experiments.store import Campaign
from experiments.testbed import Testbed

Experiment = Callable[..., tuple[dict[str, Any], bool | None]]

EXPERIMENTS: Mapping[str, Experiment] = {
    "confidentiality": confidentiality.run,
    "reach": reach.run,
    "performance": performance.run,
    "dependability": dependability.run,
    "qos": qos.run,
    "revocation": revocation.run,
    "signalling": signalling.run,
}


def plan(profile: Profile, seed: int) -> list[Planned]:
    """Return all runs of a profile in their order."""
    steps = [Planned(cell, 0, order) for order, cell in enumerate(profile.first)]
    for item in interleaved(profile.measured, profile.repetitions, seed):
        steps.append(Planned(item.cell, item.repetition, len(steps)))
    steps += [Planned(cell, 0, len(steps) + n) for n, cell in enumerate(profile.last)]
    return steps


def make(bed: Testbed, campaign: Campaign, steps: list[Planned], console: Console) -> None:
    """Make each run that the campaign does not have."""
    for number, step in enumerate(steps, 1):
        if campaign.has(step.cell, step.repetition):
            continue
        started, clock, load = time.time(), time.monotonic(), os.getloadavg()[0]
        result, passed = EXPERIMENTS[step.cell.experiment](bed, **step.cell.params)
        run = Run(
            experiment=step.cell.experiment,
            params=dict(step.cell.params),
            key=step.cell.key,
            repetition=step.repetition,
            order=step.order,
            started=started,
            seconds=time.monotonic() - clock,
            load=load,
            result=result,
            passed=passed,
        )
        campaign.add(run)
        mark = {True: "[green]ok[/green]", False: "[red]FAILED[/red]", None: "  "}[passed]
        console.print(f"{number:3}/{len(steps)} {mark} {describe(step.cell)}: {headline(run)}")


def describe(cell: Cell) -> str:
    """Return a cell in words, for progress."""
    values = [
        str(v) for k, v in cell.params.items() if v != "" and k not in ("seconds", "patience")
    ]
    return f"{cell.experiment} {' '.join(values)}"


def headline(run: Run) -> str:
    """Return the figure of a run that matters most."""
    told = run.result
    if run.experiment == "confidentiality":
        clear = sum(link["clear"] for link in told["links"].values())
        seen = sorted({imsi for link in told["links"].values() for imsi in link["imsis"]})
        protected = sum(link["protected"] for link in told["links"].values())
        return f"{protected} protected frames, {clear} clear, IMSI {', '.join(seen) or 'unseen'}"
    if run.experiment == "reach":
        return f"{told['pairs']} pairs, {len(told['unexpected'])} reached what they must not"
    if run.experiment == "performance":
        return f"{told['mbps']:.0f} Mbit/s, RTT {told['rtt_ms']:.2f} ms"
    if run.experiment == "dependability":
        own, other = told["victim"]["lost"], told["neighbour"]["lost"]
        return f"neighbour lost {other}, victim {'all' if own is None else own}"
    if run.experiment == "qos":
        within, rate = told["within_percent"], told["embb_mbps"]
        return f"{within:.1f} % of URLLC within {told['budget_ms']:g} ms, eMBB {rate:.0f} Mbit/s"
    if run.experiment == "signalling":
        air, ulr = told["air_mean_ms"], told["ulr_mean_ms"]
        return f"AIR {air:.2f} ms, ULR {ulr:.2f} ms, attach {told['attach_median_ms']:.1f} ms"
    if run.experiment == "revocation":
        return f"{told['arrived']} arrived before, {told['after-deletion']} after the deletion"
    return ""
