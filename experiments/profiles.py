"""Profiles: the runs of a campaign; `profiles.yaml` has them."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder import documents
from experiments.model import Cell


@dataclass(frozen=True)
class Profile:
    """The runs of a campaign in their order: checks, repeated measurements, checks."""

    name: str
    first: Sequence[Cell]  # checks before the measurements.
    measured: Sequence[Cell]  # measurements, repeated and interleaved.
    repetitions: int  # number of repetitions of `measured`.
    last: Sequence[Cell]  # checks at the end, because they break links.
    checks: int = 1  # number of repetitions of `first` and `last`, at most `repetitions`.
    # Whether network functions run, in the slices, the double and the single EPC.
    functions: bool = False
    slices: bool = True  # whether there are two slices; else there is one service instead.
    machines: bool = False  # whether VDUs are virtual machines.
    fiveg: Sequence[str] = ()  # slices of a 5G network, instead of two EPCs.


def _cells(entries: Iterable[Mapping[str, Mapping[str, Any]]]) -> list[Cell]:
    """Return the cells of entries; a list of values stands for a cell with each of them."""
    return [
        Cell(experiment, dict(zip(params, values, strict=True)))
        for entry in entries
        for experiment, params in entry.items()
        for values in itertools.product(
            *(value if isinstance(value, list) else [value] for value in params.values())
        )
    ]


PROFILES = {
    name: Profile(
        **{"name": name, **entry}
        | {part: _cells(entry.get(part, ())) for part in ("first", "measured", "last")}
    )
    for name, entry in documents.read(Path(__file__).with_suffix(".yaml")).items()
}
