"""The figures of a gateway benchmark, computed from its runs; without page and plots."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.model import Run
from experiments.report.published import reference as published
from experiments.report.summary import flat, paired
from experiments.stats import Estimate, mean

PLAIN = "plain"
REFERENCE = Path(__file__).with_name("reference.yaml")


@dataclass(frozen=True)
class Row:
    """The results of one cell, over all rounds."""

    backend: str  # plain, wireguard or ipsec.
    tunnels: int
    load: str  # Name of the load, or number of users.
    size: int | None  # Frame size in bytes if all frames have the same, else None.
    down: float
    figures: Mapping[str, Estimate]  # Mean of each figure of the result.
    # Rate per core over that of plain forwarding, None for plain forwarding.
    to_plain: Estimate | None
    to_one: Estimate | None  # Rate per core over that of the same backend with one tunnel.


Key = tuple[str, int, str]


def _key(run: Run) -> Key:
    p = run.params
    return p["backend"], p["tunnels"], p["load"]


def rows(runs: Iterable[Run], experiment: str) -> list[Row]:
    """Return a row for each cell of `experiment`, in the order of the cells' `place`."""
    table: dict[Key, list[Run]] = {}
    for run in sorted(runs, key=lambda r: r.params["place"]):
        if run.experiment == experiment:
            table.setdefault(_key(run), []).append(run)
    table_rows = []
    for (backend, tunnels, load), made in table.items():
        plain, one = table.get((PLAIN, 1, load), []), table.get((backend, 1, load), [])
        results = [flat(run.result) for run in made]
        figures = {name: mean([result[name] for result in results]) for name in results[0]}
        table_rows.append(
            Row(
                backend,
                tunnels,
                load,
                made[0].params.get("size"),
                made[0].params.get("down", 1.0),
                figures,
                per_core(made, plain) if backend != PLAIN else None,
                per_core(made, one) if tunnels > 1 else None,
            )
        )
    return table_rows


def per_core(made: Sequence[Run], base: Sequence[Run]) -> Estimate | None:
    """Return the ratio of the rates per core of two sets of runs, paired by round."""
    ours = {run.repetition: float(run.result["gbps-per-core"]) for run in made}
    theirs = {run.repetition: float(run.result["gbps-per-core"]) for run in base}
    return paired(ours, theirs)


def curve(
    table: Sequence[Row], backend: str, down: float, what: str
) -> list[tuple[float, Estimate]]:
    """Return (frame size, figure) of a backend's fixed sizes; `what` may also be "to_plain"."""
    points = []
    for row in table:
        if (row.backend, row.tunnels, row.down) == (backend, 1, down) and row.size:
            value = row.to_plain if what == "to_plain" else row.figures[what]
            if value is not None:
                points.append((float(row.size), value))
    return sorted(points, key=lambda point: point[0])


def reference() -> list[dict[str, Any]]:
    return published(REFERENCE)


def published_sizes() -> tuple[str, dict[int, list[float]]]:
    """Return the source of rates by packet size; and Gbit/s with 1, 2 and 4 tunnels, by size."""
    return next((item["id"], item["sizes"]) for item in reference() if "sizes" in item)


def mixes(table: Sequence[Row]) -> list[tuple[str, float]]:
    """Return (name, rate per core with IMIX2 over that with IMIX), published figures last."""
    by_name = {(r.backend, r.load): r.figures["gbps-per-core"].mean for r in table
               if r.tunnels == 1}  # fmt: skip
    result = [
        (backend, by_name[backend, "imix2"] / by_name[backend, "imix"])
        for backend in dict.fromkeys(r.backend for r in table)
        if by_name.get((backend, "imix")) and (backend, "imix2") in by_name
    ]
    return result + [
        (item["id"], item["mixes"]["imix2"] / item["mixes"]["imix"])
        for item in reference()
        if "mixes" in item
    ]


CSV_HEAD = ("experiment", "key", "repetition", "order", "started", "load-average", "backend",
            "tunnels", "load", "metric", "value")  # fmt: skip


def csv_rows(runs: Iterable[Run]) -> Iterable[tuple[Any, ...]]:
    """Yield one row per figure of each run (long format)."""
    for run in runs:
        head = (run.experiment, run.key, run.repetition, run.order, f"{run.started:.3f}",
                f"{run.load:.2f}", *_key(run))  # fmt: skip
        for metric, value in sorted(flat(run.result).items()):
            yield (*head, metric, value)
