"""The own figures of a report, computed from runs; without page and plots."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from builder import documents
from experiments.machine import NOTHING
from experiments.model import Run
from experiments.report import published
from experiments.report.published import Ratio
from experiments.setups import DOUBLE, EPC
from experiments.slices import EMBB, URLLC
from experiments.stats import Estimate, mean, ratio

#: Figures of a performance run.
METRICS = ("mbps", "rtt_ms", "jitter_ms", "loss_percent")

WORDS = documents.read(Path(__file__).with_name("words.yaml"))
_BESIDE = ", neighbour saturated"


class Point(NamedTuple):
    """What a run measured; "" for a parameter that it does not have."""

    slice: str
    link: str
    path: str
    neighbour: str

    @property
    def label(self) -> str:
        """Link and slice, with the load beside them."""
        return f"{self.link} {self.slice}{_BESIDE if self.neighbour else ''}"

    @property
    def way(self) -> str:
        return "tunnel" if self.path == "tunnel" else "no VPN"


def by_experiment(runs: Iterable[Run]) -> dict[str, list[Run]]:
    table: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        table[run.experiment].append(run)
    return dict(table)


def samples(runs: Sequence[Run], metric: str) -> dict[Point, dict[int, float]]:
    """Return a metric by point and repetition."""
    table: dict[Point, dict[int, float]] = defaultdict(dict)
    for run in runs:
        point = Point(*(str(run.params.get(name, "")) for name in Point._fields))
        table[point][run.repetition] = float(run.result[metric])
    return dict(table)


def estimates(runs: Sequence[Run], metric: str) -> dict[Point, Estimate]:
    """Return the mean of a metric per point."""
    return {p: mean(list(v.values())) for p, v in sorted(samples(runs, metric).items())}


def paired(one: Mapping[int, float], other: Mapping[int, float]) -> Estimate | None:
    """Return the ratio of two sets of figures, paired by round."""
    rounds = sorted(one.keys() & other.keys())
    values, base = [one[r] for r in rounds], [other[r] for r in rounds]
    if not rounds or min(*values, *base) <= 0:
        return None
    return ratio(values, base)


def by_label(ratios: Iterable[Ratio]) -> dict[str, Estimate]:
    return {ratio.label: ratio.value for ratio in ratios}


def _ratios(
    runs: Sequence[Run], metric: str, label: str, of: Mapping[str, str], base: Mapping[str, str]
) -> list[Ratio]:
    """Return a metric at the points with the values ``of``, over that with the values ``base``.

    ``label`` is a form that takes the point.
    """
    table = samples(runs, metric)
    return [
        Ratio(label.format(point), value)
        for point, values in sorted(table.items())
        if point._replace(**of) == point
        and (value := paired(values, table.get(point._replace(**base), {})))
    ]


def vpn_ratios(runs: Sequence[Run], metric: str, label: str = "{0.label}") -> list[Ratio]:
    """Return, per slice and link, a metric through the tunnel over that without a VPN."""
    return _ratios(runs, metric, label, {"path": "tunnel"}, {"path": "underlay"})


def neighbour_ratios(runs: Sequence[Run], metric: str) -> list[Ratio]:
    """Return, per slice, link and path, a metric with a saturated neighbour over that without."""
    loaded, label = {"neighbour": "saturated"}, "{0.link} {0.slice}, {0.way}"
    return _ratios(runs, metric, label, loaded, {"neighbour": ""})


def double_ratios(runs: Sequence[Run], metric: str) -> list[Ratio]:
    """Return, per link and path, a metric with double resources over that of eMBB alone."""
    alone, label = {"slice": DOUBLE, "neighbour": ""}, "{0.link}, {0.way}"
    return _ratios(runs, metric, label, alone, {"slice": EMBB})


def signalling_ratios(runs: Sequence[Run]) -> list[Ratio]:
    """Return, per request and slice, S6a's response time through the tunnel over that without.

    Runs since November 2026 have the time of an attach, too.
    """
    labels = {"air": "AIR {0.slice}", "ulr": "ULR {0.slice}"}
    if all("attach_mean_ms" in run.result for run in runs):
        labels["attach"] = "attach {0.slice}"
    return _mean_ratios(runs, labels)


#: Figures of a run of `procedures`, with their names.
PROCEDURES = {"registration": "registration", "session": "PDU session establishment"}


def procedure_ratios(runs: Sequence[Run]) -> list[Ratio]:
    """Return, per procedure and slice, its time with N2 in the tunnel over that without."""
    labels = {name: f"n2 {{0.slice}}, {title}" for name, title in PROCEDURES.items()}
    return _mean_ratios(runs, labels)


def _mean_ratios(runs: Sequence[Run], labels: Mapping[str, str]) -> list[Ratio]:
    """Return mean times through the tunnel over those without, by figure with its label."""
    every = (vpn_ratios(runs, f"{metric}_mean_ms", label) for metric, label in labels.items())
    return list(itertools.chain.from_iterable(every))


@dataclass(frozen=True)
class Verdict:
    """A figure against a requirement."""

    what: str  # The requirement.
    goal: str  # Required value, in words.
    figure: str  # The compared figure, in words with its unit.
    met: bool  # Whether the figure meets the requirement.
    source: str = ""  # Source of the figure; "" is this campaign.


def requirements(
    measured: Sequence[Run],
    signalling: Sequence[Run],
    qos: Sequence[Run],
    procedures: Sequence[Run] = (),
) -> list[Verdict]:
    """Compare our figures, and the published ones, with the requirements of the same source.

    If we have no figure for a requirement, the result has only the published one.
    """
    item = next(item for item in published.reference() if "kpi" in item)
    kpi = item["kpi"]
    results = []
    rates, trips = estimates(measured, "mbps"), estimates(measured, "rtt_ms")
    rate, goal = kpi["user-data-rate-mbps"], f"at least {kpi['user-data-rate-mbps']} Mbit/s"
    for point, value in rates.items():
        if point.path == "tunnel" and point.link in ("s1u", "data", "n3", "ue"):
            words = f"{point.label}, one flow: {value.mean:.0f} Mbit/s"
            results.append(Verdict("user data rate", goal, words, value.mean >= rate))
    ue = item["ue-mbps"]["vpn"]
    results.append(
        Verdict("user data rate", goal, f"UE, end to end: {ue} Mbit/s", ue >= rate, item["id"])
    )
    limit, goal = kpi["urllc-ms"], f"at most {kpi['urllc-ms']} ms"
    for point, value in trips.items():
        if (point.slice, point.path) == (URLLC, "tunnel"):
            words = f"{point.label}, round trip: {value.mean:.2f} ms"
            results.append(Verdict("URLLC delay", goal, words, value.mean <= limit))
    for run in qos:
        if run.params["enforced"]:
            tail, lost = _tail(run.result["urllc"]), run.result["urllc"]["loss_percent"]
            link = run.result.get("link", "s1u")
            delay = f"{tail:.2f} ms" if tail < math.inf else f"{lost:.1f} % lost"
            words = f"{link} {URLLC}, one way on a congested link, 99 %: {delay}"
            results.append(Verdict("URLLC delay", goal, words, tail <= limit))
    for link, value in item["rtt-ms"]["urllc-simultaneous"].items():
        words = f"{link} {URLLC}, round trip: {value} ms"
        results.append(Verdict("URLLC delay", goal, words, value <= limit, item["id"]))
    limit, goal = kpi["control-plane-ms"], f"at most {kpi['control-plane-ms']} ms"
    answers = {metric: f"{metric.upper()} {{}}, with its answer" for metric in ("air", "ulr")}
    times = {metric: f"n2 {{}}, {title}" for metric, title in PROCEDURES.items()}
    for runs, labels in ((signalling, answers), (procedures, times)):
        tunnelled = [run for run in runs if run.params["path"] == "tunnel"]
        for name in dict.fromkeys(str(run.params["slice"]) for run in tunnelled):
            made = [run.result for run in tunnelled if run.params["slice"] == name]
            for metric, label in labels.items():
                time = mean([float(result[f"{metric}_mean_ms"]) for result in made]).mean
                words = f"{label.format(name)}: {time:.2f} ms"
                results.append(Verdict("control plane delay", goal, words, time <= limit))
    for metric, value in item["service-response-ms"]["vpn"].items():
        words = f"{metric.upper()}, with its answer: {value} ms"
        results.append(Verdict("control plane delay", goal, words, value <= limit, item["id"]))
    return results


def _tail(stream: Mapping[str, Any]) -> float:
    """Return the delay within which 99 % of the sent datagrams arrived, infinite if they did not.

    The shares of a stream are of the datagrams that arrived.
    """
    arrived = stream["sent"] - stream["lost"]
    if not arrived:
        return math.inf
    ends = ((99, stream["delay_p99_ms"]), (100, stream["delay_max_ms"]))
    share = 99 * stream["sent"] / arrived
    within = [ms for at, ms in (*ends, *stream.get("delay_within", ())) if at >= share]
    return float(min(within, default=math.inf))


@dataclass(frozen=True)
class Row:
    """A set-up of the matrix: ratios over its own baseline without a VPN, ours and published."""

    title: str
    ours: Mapping[str, Estimate]
    published: Mapping[str, Estimate]


BETWEEN_SITES = "two sites"


def matrix(runs: Sequence[Run], signalling: Sequence[Run]) -> list[Row]:
    """Return the ratios on S6a of every set-up that we measured, and of the published one EPC.

    The figures are mbps and rtt_ms, and air and ulr if network functions run.
    """
    metrics = ("mbps", "rtt_ms")
    ours = {metric: by_label(vpn_ratios(runs, metric)) for metric in metrics}
    theirs = {metric: by_label(published.over_plain(metric)) for metric in metrics}
    times, answers = by_label(signalling_ratios(signalling)), by_label(published.signalling())
    rows = []
    for title, name, load, known in WORDS["matrix"]:
        own, plain = f"s6a {name}" + (_BESIDE if load else ""), f"s6a {known}"
        one = {metric: table[own] for metric, table in ours.items() if own in table}
        other = {metric: table[plain] for metric, table in theirs.items() if plain in table}
        for request in ("air", "ulr"):
            if not load and (value := times.get(f"{request.upper()} {name}")):
                one[request] = value
            if value := answers.get(f"{request.upper()} {known}"):
                other[request] = value
        if one or name == EPC:
            rows.append(Row(title, one, other))
    return rows if any(row.ours for row in rows) else []


def _control(run: Run) -> bool:
    return run.params.get("enforced") is False or run.params.get("path") == "underlay"


class Isolation(NamedTuple):
    """Verdict of an experiment."""

    name: str
    passed: int  # Number of runs that passed.
    told: int  # Number of runs that tell something.
    disturbed: int = 0  # Number of runs that tell nothing, because the machine was busy.
    complete: bool = True  # Whether a run of each cell tells something.

    @property
    def failed(self) -> bool:
        """Tell whether a run failed on a machine that kept up."""
        return self.passed < self.told

    @property
    def words(self) -> str:
        if self.failed:
            return "DOES NOT HOLD"
        return "holds" if self.complete else NOTHING

    @property
    def runs(self) -> str:
        """Return the numbers of runs in words."""
        more = f", {self.disturbed} disturbed" if self.disturbed else ""
        return f"{self.passed} of {self.told} runs{more}"


def verdicts(runs: Sequence[Run], cpus: int) -> list[Isolation]:
    """Return a verdict for each experiment that has one; without `cpus` the VDUs were elsewhere."""
    rows = []
    for name, made in by_experiment(runs).items():
        judged = [run for run in made if run.passed is not None]
        # Controls that passed show only that the experiment could fail.
        if any(not run.passed or not _control(run) for run in judged):
            told = [run for run in judged if not run.disturbance(cpus)]
            passed, disturbed = sum(bool(run.passed) for run in told), len(judged) - len(told)
            complete = {run.key for run in judged} == {run.key for run in told}
            rows.append(Isolation(name, passed, len(told), disturbed, complete))
    return rows


_PARAMETERS = ("slice", "link", "path", "neighbour")  # Parameters with a column of their own.
CSV_HEAD = (
    "experiment", "key", "repetition", "order", "started", "seconds", "load", "busy", "passed",
    *_PARAMETERS, "parameters", "metric", "value",
)  # fmt: skip


def csv_rows(runs: Sequence[Run]) -> Iterable[tuple[Any, ...]]:
    """Yield one row per figure of each run (long format)."""
    for run in runs:
        p = run.params
        others = "; ".join(f"{name}={p[name]}" for name in sorted(p) if name not in _PARAMETERS)
        head = (
            run.experiment, run.key, run.repetition, run.order, f"{run.started:.3f}",
            f"{run.seconds:.3f}", f"{run.load:.2f}", "" if run.busy is None else f"{run.busy:.2f}",
            {True: "yes", False: "no", None: ""}[run.passed],
            *(p.get(name, "") for name in _PARAMETERS), others,
        )  # fmt: skip
        for metric, value in sorted(flat(run.result).items()):
            yield (*head, metric, value)


def flat(result: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Return the numbers of a nested result by dotted name.

    A point of a distribution, (percent, value), has its percentage as name.
    """
    numbers: dict[str, float] = {}
    for name, value in result.items():
        if isinstance(value, Mapping):
            numbers |= flat(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            points = all(isinstance(item, list) and len(item) == 2 for item in value)
            named = value if points else enumerate(value)
            numbers |= flat({f"{key}": item for key, item in named}, f"{prefix}{name}.")
        elif isinstance(value, int | float):
            numbers[prefix + name] = float(value)
    return numbers
