"""The order of runs: every repetition is a round over all cells, in a new order each time.

So a drift of the machine (temperature, other work) affects all cells alike. The order depends only
on the seed, so that an interrupted campaign continues in the same order.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from experiments.model import Cell


@dataclass(frozen=True)
class Planned:
    """A run to make."""

    cell: Cell
    repetition: int
    order: int


def interleaved(cells: Sequence[Cell], repetitions: int, seed: int) -> Iterator[Planned]:
    """Yield `repetitions` rounds over all cells; the order within a round follows from the seed."""
    order = 0
    for repetition in range(repetitions):
        turn = list(cells)
        # The order must be reproducible; it is not a secret.
        random.Random(f"{seed}/{repetition}").shuffle(turn)  # noqa: S311
        for cell in turn:
            yield Planned(cell, repetition, order)
            order += 1
