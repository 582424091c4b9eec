"""Make the runs of a campaign that are still missing, with progress on the terminal."""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from builder import documents
from experiments import (
    confidentiality,
    dependability,
    performance,
    procedures,
    qos,
    reach,
    revocation,
    sessions,
    setups,
    signalling,
    sweep,
)
from experiments.machine import NOTHING, busy_processors
from experiments.model import Cell, Experiment, Run
from experiments.profiles import Profile
from experiments.progress import ticking
from experiments.schedule import Planned, interleaved
from experiments.store import Campaign
from experiments.testbed import Testbed

SURRENDER = 3
"""A campaign stops after this number of failed runs in a row, because the slices are broken."""

#: What makes a run, and a headline of its result that is no form.
_FUNCTIONS: Mapping[str, tuple[Callable[..., Any], ...]] = {
    "confidentiality": (confidentiality.run, confidentiality.headline),
    "reach": (reach.run, reach.headline),
    "performance": (performance.run,),
    "dependability": (dependability.run, dependability.headline),
    "qos": (qos.run,),
    "revocation": (revocation.run,),
    "sessions": (sessions.run, sessions.headline),
    "procedures": (procedures.run,),
    "storm": (procedures.storm,),
    "sweep": (sweep.run,),
    "signalling": (signalling.run,),
}
_TEXTS = documents.read(Path(__file__).with_name("experiments.yaml"))
EXPERIMENTS: Mapping[str, Experiment] = {
    name: Experiment(*functions, **_TEXTS[name]) for name, functions in _FUNCTIONS.items()
}


def plan(profile: Profile, seed: int, repetitions: int | None = None) -> list[Planned]:
    """Return all runs of a profile in their order.

    Args:
        repetitions: number of repetitions, None for the profile's. With a larger number the first
            rounds stay the same, so that a campaign can continue.
    """
    rounds = profile.repetitions if repetitions is None else repetitions
    turns = interleaved(profile.measured, rounds, seed)
    measured = [(each.cell, each.repetition) for each in turns]
    first, last = (
        [(cell, number) for number in range(min(profile.checks, rounds)) for cell in cells]
        for cells in (profile.first, profile.last)
    )
    return [Planned(*each, order) for order, each in enumerate([*first, *measured, *last])]


def matching(steps: Iterable[Planned], only: Sequence[str]) -> list[Planned]:
    """Return the runs of an EXPERIMENT, SET-UP or EXPERIMENT:SET-UP; all if `only` is empty."""
    steps = list(steps)
    if not only:
        return steps
    for word in only:
        if not any(word in names(step.cell) for step in steps):
            known = sorted({name for step in steps for name in names(step.cell) if ":" not in name})
            raise click.BadParameter(
                f"--only {word}: no run is of that name; allowed: {', '.join(known)}, "
                "or EXPERIMENT:SET-UP"
            )
    return [step for step in steps if names(step.cell) & set(only)]


def names(cell: Cell) -> set[str]:
    """Return the words that choose a cell in `matching`."""
    own = cell.params.get("slice")
    return {cell.experiment, own, f"{cell.experiment}:{own}"} if own else {cell.experiment}


def without_the_lab(steps: Iterable[Planned]) -> list[Planned]:
    """Return the runs that any OSM allows; the others need the lab."""
    return [
        step
        for step in steps
        if not EXPERIMENTS[step.cell.experiment].lab_only
        and step.cell.params.get("fault") != "charm"
        and step.cell.params.get("slice") != setups.SITES
    ]


def beside(steps: Iterable[Planned]) -> list[str]:
    """Return the set-ups that runs need in addition to the slices."""
    needed = {str(step.cell.params.get("slice")) for step in steps}
    return [
        name for name in (setups.DOUBLE, setups.SITES, setups.EPC, setups.PAIR) if name in needed
    ]


def make(bed: Testbed, campaign: Campaign, steps: list[Planned]) -> int:
    """Make each run that the campaign does not have; return how many gave no result.

    A failed run has no result, and the next call makes it again, so the other results are not lost.
    A run that a busy machine disturbed is made once more at the end.
    """
    errors: tuple[type[Exception], ...] = (click.ClickException,)
    if bed.lab is not None:
        errors += bed.lab.errors
    failures = in_a_row = 0
    numbered = list(enumerate(steps, 1))
    again: set[int] = set()
    for number, step in numbered:
        if campaign.has(step.cell, step.repetition):
            continue
        load, busy = os.getloadavg()[0], busy_processors()
        started, clock, beside = time.time(), time.monotonic(), campaign.others()
        try:
            tell = partial("{}/{} {}".format, number, len(steps), describe(step.cell))
            with ticking(bed.console, tell):
                result, passed = EXPERIMENTS[step.cell.experiment](bed, **step.cell.params)
        except errors as error:
            failures, in_a_row = failures + 1, in_a_row + 1
            name, reason = describe(step.cell), str(error).rstrip(".")
            bed.console.print(
                f"{number:3}/{len(steps)} [red]NO RESULT[/red] {escape(f'{name}: {reason}')}"
            )
            if in_a_row == SURRENDER:
                raise click.ClickException(
                    f"{SURRENDER} runs in a row gave no result, the last one because: "
                    f"{reason}; the same command with --out {campaign.directory} goes on"
                ) from None
            continue
        in_a_row = 0
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
            busy=busy,
            beside=sorted({*beside, *campaign.others()}),
        )
        campaign.add(run)
        mark = {True: "[green]ok[/green]", False: "[red]FAILED[/red]", None: "  "}[passed]
        if reason := run.disturbance(campaign.cpus()):
            mark = f"[yellow]{NOTHING}[/yellow] ({reason})"
            if number not in again:
                again.add(number)
                if campaign.set_aside(run):
                    numbered.append((number, step))  # The loop comes to it at the end.
                    mark += ", once more at the end"
        told = EXPERIMENTS[run.experiment].told(run.result)
        words = escape(f"{describe(step.cell)}: {told}")
        bed.console.print(f"{number:3}/{len(steps)} {mark} {words}")
    return failures


def describe(cell: Cell) -> str:
    """Return a cell in words, for progress lines."""
    values = [
        str(v) for k, v in cell.params.items() if v != "" and k not in ("seconds", "patience")
    ]
    return f"{cell.experiment} {' '.join(values)}"
