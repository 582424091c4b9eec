"""The figures of a report, computed from runs; no page, no plot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from experiments.model import Run
from experiments.stats import Estimate, mean, ratio, single

REFERENCE = Path(__file__).resolve().parents[1] / "reference.yaml"

#: Figures of a performance run with their names and units.
METRICS = {
    "mbps": ("throughput", "Mbit/s"),
    "rtt_ms": ("round trip", "ms"),
    "jitter_ms": ("jitter", "ms"),
    "loss_percent": ("loss", "%"),
}

Point = tuple[str, str, str, str]
"""Slice, link, path, neighbour."""


@dataclass(frozen=True)
class Ratio:
    """A figure against its own baseline."""

    label: str
    value: Estimate
    source: str = ""


def by_experiment(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Return runs by experiment."""
    table: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        table[run.experiment].append(run)
    return dict(table)


def samples(runs: Sequence[Run], metric: str) -> dict[Point, dict[int, float]]:
    """Return a metric by point and repetition."""
    table: dict[Point, dict[int, float]] = defaultdict(dict)
    for run in runs:
        p = run.params
        point = (p["slice"], p["link"], p["path"], p["neighbour"])
        table[point][run.repetition] = float(run.result[metric])
    return dict(table)


def estimates(runs: Sequence[Run], metric: str) -> dict[Point, Estimate]:
    """Return the mean of a metric per point."""
    return {p: mean(list(v.values())) for p, v in sorted(samples(runs, metric).items())}


def _paired(one: Mapping[int, float], other: Mapping[int, float]) -> Estimate | None:
    rounds = sorted(one.keys() & other.keys())
    values, base = [one[r] for r in rounds], [other[r] for r in rounds]
    if not rounds or min(*values, *base) <= 0:
        return None
    return ratio(values, base)


def vpn_ratios(runs: Sequence[Run], metric: str) -> list[Ratio]:
    """Return, per slice and link, the tunnel's figure over that of the same VNFs without VPN."""
    table = samples(runs, metric)
    found = []
    for (name, link, path, load), values in sorted(table.items()):
        if path == "tunnel" and (base := table.get((name, link, "underlay", load))):
            if (value := _paired(values, base)) is not None:
                beside = ", neighbour saturated" if load else ""
                found.append(Ratio(f"{link} {name}{beside}", value))
    return found


def neighbour_ratios(runs: Sequence[Run], metric: str) -> list[Ratio]:
    """Return, per slice, link and path, the figure beside a saturated neighbour over that alone."""
    table = samples(runs, metric)
    found = []
    for (name, link, path, load), values in sorted(table.items()):
        if load and (base := table.get((name, link, path, ""))):
            if (value := _paired(values, base)) is not None:
                where = "tunnel" if path == "tunnel" else "no VPN"
                found.append(Ratio(f"{link} {name}, {where}", value))
    return found


def signalling_ratios(runs: Sequence[Run]) -> list[Ratio]:
    """Return, per request and slice, S6a's response time through the tunnel over that without."""
    found = []
    for request in ("air", "ulr"):
        table: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
        for run in runs:
            point = (str(run.params["slice"]), str(run.params["path"]))
            table[point][run.repetition] = float(run.result[f"{request}_mean_ms"])
        for name in sorted({name for name, _ in table}):
            value = _paired(table.get((name, "tunnel"), {}), table.get((name, "underlay"), {}))
            if value is not None:
                found.append(Ratio(f"{request.upper()} {name}", value))
    return found


def published_signalling() -> list[Ratio]:
    """Return published response times of S6a over those without a VPN of the same source."""
    found = []
    for item in reference():
        table = item.get("service-response-ms", {})
        for label, times in table.items():
            for request, value in times.items():
                if label != "no-vpn":
                    over = single(value / table["no-vpn"][request])
                    words = f"{request.upper()} {label.replace('-', ' ')}"
                    found.append(Ratio(words, over, item["id"]))
    return found


def reference() -> list[dict[str, Any]]:
    """Return the published figures."""
    loaded: list[dict[str, Any]] = yaml.safe_load(REFERENCE.read_text(encoding="utf-8"))
    return loaded


def published_ratios(metric: str) -> list[Ratio]:
    """Return published figures over the no-VPN figure of the same source and link."""
    name = {"mbps": "throughput-mbps", "rtt_ms": "rtt-ms"}.get(metric)
    found = []
    for item in reference():
        table = item.get(name or "", {})
        for label, links in table.items():
            for link, given in links.items():
                base = table.get("no-vpn", {}).get(link)
                if label == "no-vpn" or base is None:
                    continue
                values, bases = _list(given), _list(base)
                where = "" if link == "any" else f"{link} "
                middle = sum(values) / len(values) / (sum(bases) / len(bases))
                found.append(Ratio(where + label.replace("-", " "), single(middle), item["id"]))
        sites = item.get("multi-site", {}).get(name or "", {})
        if sites:
            value = single(sites["vpn"] / sites["no-vpn"])
            found.append(Ratio("s6a between sites", value, item["id"]))
    return found


def _list(given: Any) -> list[float]:
    return [float(v) for v in given] if isinstance(given, list) else [float(given)]


def verdicts(runs: Sequence[Run]) -> list[tuple[str, int, int]]:
    """Return per experiment that judges how many of its runs passed, and how many there are."""
    rows = []
    for name, made in by_experiment(runs).items():
        judged = [run for run in made if run.passed is not None]
        if judged:
            rows.append((name, sum(bool(run.passed) for run in judged), len(judged)))
    return rows


CSV_HEAD = (
    "experiment", "key", "repetition", "order", "started", "load", "slice", "link", "path",
    "neighbour", "metric", "value",
)  # fmt: skip


def csv_rows(runs: Sequence[Run]) -> Iterable[tuple[Any, ...]]:
    """Yield one row per figure of each run, long form."""
    for run in runs:
        p = run.params
        head = (run.experiment, run.key, run.repetition, run.order, f"{run.started:.3f}",
                f"{run.load:.2f}", p.get("slice", p.get("victim", "")), p.get("link", ""),
                p.get("path", ""), p.get("neighbour", ""))  # fmt: skip
        for metric, value in sorted(flat(run.result).items()):
            yield (*head, metric, value)


def flat(result: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Return the numbers of a nested result by dotted name."""
    found: dict[str, float] = {}
    for name, value in result.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        elif isinstance(value, int | float):
            found[prefix + name] = float(value)
    return found
