"""Write report.html and runs.csv of a campaign."""

import csv
import dataclasses
import math
import re
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from experiments import confidentiality, diameter, fiveg, sessions, sweep
from experiments.campaign import EXPERIMENTS, plan, without_the_lab
from experiments.machine import BUSY
from experiments.model import Run
from experiments.performance import EMULATED_MBPS, UDP_MBPS
from experiments.profiles import PROFILES, Profile
from experiments.report import figures, published, summary
from experiments.report.figures import Book
from experiments.report.published import Ratio
from experiments.report.tables import Tables
from experiments.setups import DOUBLE, EPC, PAIR, SITES
from experiments.slices import EMBB, URLLC
from experiments.stats import Estimate, mean, single
from experiments.store import Campaign
from experiments.testbed import LINKS, PAIR_LINKS
from experiments.wire import NEIGHBOURS, PROTECTED


def write(campaign: Campaign) -> tuple[Path, Path]:
    """Write the page and the table of a campaign; return their paths."""
    page, table = campaign.directory / "report.html", campaign.directory / "runs.csv"
    book = Book("figures")
    try:
        runs = campaign.runs()
        page.write_text(html(campaign.describe(), runs, book), encoding="utf-8")
        book.write(campaign.directory)
        write_table(table, summary.CSV_HEAD, summary.csv_rows(runs))
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from None
    return page, table


def write_table(file: Path, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with open(file, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(head)
        writer.writerows(rows)


def templates(*folders: Path) -> Environment:
    """Return the environment of templates of pages: those of folders, and the common ones."""
    return Environment(
        loader=FileSystemLoader([*folders, Path(__file__).parent]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )


def good(value: object, right: bool) -> tuple[object, str]:
    """Return a cell that shows by its colour whether its value is right."""
    return value, "good" if right else "bad-text"


def html(described: Mapping[str, Any], runs: Sequence[Run], book: Book | None = None) -> str:
    """Return the page; a browser shows it without other files and without a network."""
    book = book or Book("figures")
    environment = templates()
    environment.tests["matching"] = lambda version, name: version.startswith(name[:5].lower())
    made = summary.by_experiment(runs)
    measured = made.get("performance", [])
    signalling = made.get("signalling", [])
    profile = _profile(described)
    cpus = described["environment"].get("host", {}).get("cpus", 0)
    stamp = [time.strftime("%Y-%m-%d %H:%M", time.gmtime(run.started)) for run in runs]
    loads = [run.load for run in runs]
    checked = made.get("confidentiality", [])
    control = any(run.params["path"] == "underlay" for run in checked)
    shows = "; the control shows an identity" if control else ""
    reached = made["reach"][-1].result if "reach" in made else None
    measures = list(_performance(measured))
    congested = sorted(made.get("qos", []), key=lambda run: bool(run.params["enforced"]))
    procedures = made.get("procedures", [])
    matrix = summary.matrix(measured, signalling)
    required = summary.requirements(measured, signalling, congested, procedures)
    table = Tables(
        Path(__file__).with_name("tables.yaml"),
        neighbours=lambda: NEIGHBOURS,
        good=good,
        number=_number,
        average=_average,
        figure=_figure,
        worded=lambda link: _LINKS.get(link, link),
        in_words=lambda figure: _TWO.sub(lambda two: _where(*two.groups()), figure),
    )
    return environment.get_template("page.html.j2").render(
        campaign=described,
        env=described["environment"],
        runs=runs,
        begun=min(stamp, default="-"),
        ended=max(stamp, default="-"),
        load=f"{min(loads):.1f} to {max(loads):.1f}" if loads else "-",
        disturbed=disturbed(runs, cpus) if cpus else None,
        topology=_topology(profile, runs, book),
        slices=_slices(described),
        machines=profile is not None and profile.machines,
        beside=[
            text
            for name, text in (
                (DOUBLE, "a core whose VNFs have twice the vCPU and memory"),
                (SITES, "a core whose HSS is at another site"),
            )
            if any(run.params.get("slice") == name for run in runs)
        ],
        cards=[
            {"title": EXPERIMENTS[name].title,
             "text": f"{EXPERIMENTS[name].claim}{shows if name == 'confidentiality' else ''} "
                     f"({verdict.runs}).",
             "verdict": verdict.words, "bad": verdict.failed}
            for verdict in summary.verdicts(runs, cpus)
            for name in [verdict.name]
        ] + _cost_cards(matrix),
        missing=missing(described, runs),
        controlled=bool(shows),
        imsi=diameter.TEST_IMSI,
        msin=fiveg.MSIN,
        ues=confidentiality.UES if _attached(checked) else 0,
        wires=table("wires", _wires(checked, "links")),
        outside=table("wires", _wires(checked, "outside")),
        excerpts=_excerpts(checked),
        where=described["environment"].get("osm", {}).get("url", "one machine"),
        reach=reached,
        ways=table("reach", _reach(reached["outcomes"])) if reached else None,
        who=_reach_table(reached.get("matrix", {})) if reached else None,
        matrix=_matrix(matrix),
        figures=_cost(measured, book) if measured else [],
        costs=table("costs", measures),
        amounts=table("amounts", measures),
        published=table("published", published.absolute()),
        udp_mbps=EMULATED_MBPS if profile is not None and profile.machines else UDP_MBPS,
        ue_udp_mbps=sessions.UDP_MBPS
        if any(run.params["link"] == sessions.LINK for run in measured)
        else None,
        double=_double(measured, cpus, book),
        neighbour_figures=_neighbour(measured, book),
        dependability=table("dependability", made.get("dependability", [])),
        timeline=_timeline(made.get("dependability", []), book),
        signalling=_response(signalling, book),
        fiveg=profile is not None and bool(profile.fiveg),
        sessions=made["sessions"][-1].result if "sessions" in made else None,
        procedures=_procedures(procedures, book),
        procedure_times=table("procedures", _procedure_times(procedures)),
        storm=table(
            "storm", sorted(made.get("storm", []), key=lambda run: int(run.params["rate"]))
        ),
        sweep=table("sweep", _sweep(made.get("sweep", []))),
        sweep_text=sweep.TEXT,
        qos=_qos(congested, book),
        delays=table("qos", congested),
        requirements=table("requirements", required if any(not r.source for r in required) else []),
        revocation=table("revocation", made.get("revocation", [])),
        repetitions=max((run.repetition + 1 for run in runs), default=0),
        references=published.reference(),
    )  # fmt: skip


def _slices(described: Mapping[str, Any]) -> list[str]:
    """Return the names of a campaign's slices, [] if it has one service instead."""
    if (profile := _profile(described)) is None:
        return list(described["environment"]["slices"])
    return list(profile.fiveg) or ([EMBB, URLLC] if profile.slices else [])


def _profile(described: Mapping[str, Any]) -> Profile | None:
    """Return the profile of a campaign, None for one between named slices."""
    if described["environment"].get("slices"):
        return None
    name = described["profile"]
    if name not in PROFILES:
        known = ", ".join(sorted(PROFILES))
        raise click.ClickException(f"the campaign's profile {name} is unknown; known: {known}")
    return PROFILES[name]


def disturbed(runs: Sequence[Run], cpus: int) -> dict[str, Any] | None:
    """Return figures about runs that began on a busy machine, None if there were none.

    A machine is busy if other work used more than a quarter of its processors' time just before
    the run.
    """
    shares = [run.busy / cpus for run in runs if run.busy is not None]
    busy, most = sum(share > BUSY for share in shares), 100 * max(shares, default=0.0)
    return {"busy": busy, "of": len(shares), "most": f"{most:.0f}"} if busy else None


def missing(described: Mapping[str, Any], runs: Sequence[Run]) -> str:
    """Return a sentence about runs of the profile that a campaign does not have, "" if it has all.

    Of repeated runs, only the rounds that began count.
    """
    if (profile := _profile(described)) is None:
        return ""
    rounds = max((run.repetition + 1 for run in runs), default=1)
    steps = plan(profile, described["seed"], rounds)
    if "osm" in described["environment"]:
        steps = without_the_lab(steps)
    there = {(run.key, run.repetition) for run in runs}
    lacking = [step for step in steps if (step.cell.key, step.repetition) not in there]
    if not lacking:
        return ""
    every = Counter(step.cell.experiment for step in steps)
    parts = [
        f"{number} of {every[name]} of {name}"
        for name, number in Counter(step.cell.experiment for step in lacking).items()
    ]
    return (
        f"These runs of the profile are missing, because they gave no result or were not made: "
        f"{', '.join(parts)}."
    )


def _topology(profile: Profile | None, runs: Sequence[Run], book: Book) -> dict[str, str] | None:
    """Draw the slices and services that a campaign created, not slices found by name."""
    if profile is None or not runs:
        return None
    if profile.fiveg:
        tables = {fiveg.SHARED: fiveg.SHARED_LINKS, **dict.fromkeys(profile.fiveg, fiveg.LINKS)}
    else:
        names = {run.params.get("slice") for run in runs}
        alone = PAIR if profile.machines else EPC
        names |= {EMBB, URLLC} if profile.slices else {alone}
        tables = {name: PAIR_LINKS if name == PAIR else LINKS for name in _ORDER if name in names}
    ends = {
        name: [(link.name, link.near, link.far) for link in links.values()]
        for name, links in tables.items()
    }
    text = "What was up: VNFs, and the links whose tunnels were measured and attacked."
    words = {**_LINKS, **_NAMES, **_WORDS}
    return book.add(figures.topology(ends, words, text), text)


def _excerpts(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the excerpts of captures, per link, with the tunnel and in the control."""
    excerpts = []
    for run in runs:
        way = "with the tunnel" if run.params["path"] == "tunnel" else "control, no VPN"
        for where, seen in run.result.get("outside", {}).items():
            if seen.get("excerpt"):
                title = " ".join(_worded(part) for part in reversed(where.rsplit("/", 1)))
                excerpts.append({"title": f"{title}, {way}", "lines": seen["excerpt"]})
    return sorted(excerpts, key=lambda one: str(one["title"]))


def _reach_table(matrix: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, Any] | None:
    """Return the table of VNFs that reached each other: each VNF has a row and a column."""
    if not matrix:
        return None
    rows = []
    for one, tried in matrix.items():
        cells = []
        for other in matrix:
            cell, back = tried.get(other), matrix[other].get(one, {})
            if one == other:
                cells.append(("", ""))
            elif cell is None:
                # The far end of a link starts no attempts over the link.
                cells.append(("link", "") if "tunnel" in back else ("", ""))
            elif "tunnel" in cell:
                cells.append(("tunnel", "good") if cell["tunnel"] else ("SILENT", "bad-text"))
            elif cell["forbidden"]:
                cells.append((f"{cell['forbidden']} REACHED", "bad-text"))
            else:
                cells.append(("SSH" if cell["allowed"] else "0", ""))
        rows.append({"name": _vnf(one), "cells": cells})
    attempts = [c["attempts"] for row in matrix.values() for c in row.values() if "attempts" in c]
    return {
        "heads": [_vnf(name) for name in matrix],
        "rows": rows,
        "least": min(attempts, default=0),
        "most": max(attempts, default=0),
    }


def _vnf(name: str) -> str:
    """Return "SLICE/VNF" in words."""
    where, _, vnf = name.rpartition("/")
    # With non-breaking hyphens a line breaks only between slice and VNF.
    return f"{_WORDS.get(where, where)} {_NAMES.get(vnf, vnf)}".replace("-", "\u2011")


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def _wires(runs: Sequence[Run], where: str) -> Iterator[dict[str, Any]]:
    """Yield what links showed, as seen in the VDUs ("links") or from outside ("outside")."""
    latest = {run.params["path"]: run.result.get(where, {}) for run in runs}
    for where, seen in latest.get("tunnel", {}).items():
        control = latest.get("underlay", {}).get(where)
        shown = "-"
        if control:
            kinds = [k for k in control["frames"] if k not in PROTECTED | NEIGHBOURS]
            shown = ", ".join([*kinds, *_identities(control["imsis"])])
        words = " ".join(_worded(part) for part in reversed(where.rsplit("/", 1)))
        yield {"where": words, "seen": seen, "control": control, "shown": shown}


def _identities(imsis: Sequence[str]) -> list[str]:
    if not imsis:
        return []
    more = f" and {len(imsis) - 1} more" if len(imsis) > 1 else ""
    return [f"{'MSIN' if imsis[0] == fiveg.MSIN else 'IMSI'} {imsis[0]}{more}"]


def _reach(outcomes: Mapping[str, Mapping[str, int]]) -> Iterator[dict[str, Any]]:
    """Yield the numbers of TCP attempts by outcome, and of datagrams, for each way."""
    ways = {"routed": "as routes lead", "forced": "by force", "forged": "forged source"}
    for way in (way for way in ways if way in outcomes):
        table = outcomes[way]
        tcp = {k.removeprefix("tcp "): n for k, n in table.items() if k.startswith("tcp ")}
        yield {"way": ways[way], "tcp": tcp, "sent": table.get("udp sent", 0)}


_ORDER = [EMBB, URLLC, DOUBLE, SITES, EPC, PAIR, fiveg.SHARED]
_WORDS: dict[str, str] = summary.WORDS["set-ups"]
_NAMES: dict[str, str] = summary.WORDS["members"]
_LINKS: dict[str, str] = summary.WORDS["links"]
_TWO = re.compile(r"^(\w+) ([^,]+)")  # Link and slice at the beginning of a verdict's figure.


def _worded(part: str) -> str:
    return _LINKS.get(part) or _WORDS.get(part) or part


def _where(link: str, name: str) -> str:
    """Return a link and its slice, service or set-up in words."""
    return f"{_worded(link)} {_worded(name)}"


def readable(ratios: Iterable[Ratio]) -> list[Ratio]:
    """Return ratios with their links and set-ups in words."""
    return [dataclasses.replace(ratio, label=_label(ratio)) for ratio in ratios]


def _label(ratio: Ratio) -> str:
    if ratio.source.startswith("vidal"):
        return "IPsec between sites (Vidal)"
    link, _, rest = ratio.label.partition(" ")
    name = link.rstrip(",")
    whose, _, path = rest.partition(", ")
    if rest not in _WORDS and whose in _WORDS:
        rest = f"{_WORDS[whose]}, {path}"
    return f"{_LINKS.get(name, name)}{link[len(name) :]} {_WORDS.get(rest, rest)}"


def in_order(ratios: Iterable[Ratio]) -> list[Ratio]:
    """Return readable ratios sorted by link and set-up, the slices first."""
    links, set_ups = list(_LINKS.values()), list(dict.fromkeys(_WORDS.values()))

    def place(one: Ratio) -> tuple[int, int]:
        link, _, rest = one.label.partition(" ")
        return _place(link, links), _place(rest, set_ups)

    return sorted(readable(ratios), key=place)


def _place(one: str, among: Sequence[str]) -> int:
    """Return a sort key: the index, or that after the last one."""
    return among.index(one) if one in among else len(among)


def _attached(runs: Sequence[Run]) -> bool:
    """Tell whether UEs attached during the captures, from the captured identities."""
    return any(
        imsi != diameter.TEST_IMSI
        for run in runs
        for seen in run.result["links"].values()
        for imsi in seen["imsis"]
    )


def _matrix(rows: Sequence[summary.Row]) -> dict[str, Any] | None:
    if not rows:
        return None
    metrics = [("mbps", "throughput"), ("rtt_ms", "round trip"), ("air", "AIR"), ("ulr", "ULR")]
    metrics = [m for m in metrics if any(m[0] in row.ours for row in rows)]
    cells = []
    for row in rows:
        pairs = [(row.ours.get(metric), row.published.get(metric)) for metric, _ in metrics]
        cells.append((row.title, *(_figure(value) for pair in pairs for value in pair)))
    return {
        "rows": cells,
        "heads": [(title, ["ours", "published"]) for _, title in metrics],
        "air": ("air", "AIR") in metrics,
    }


def _cost_cards(rows: Sequence[summary.Row]) -> list[dict[str, Any]]:
    """Return what the tunnel of S6a costs on one machine and between sites, as cards."""
    cards = []
    measured = [row for row in rows if {"mbps", "rtt_ms"} <= row.ours.keys()]
    sites = [row for row in measured[1:] if row.title == summary.BETWEEN_SITES]
    for row in measured[:1] + sites:
        rate, delay = _figure(row.ours["mbps"]), _figure(row.ours["rtt_ms"])
        verdict = f"{rate['mean']} of the throughput, {delay['mean']} times the round trip"
        text = f"S6a with a VPN over without, {row.title}"
        if rate["interval"] and delay["interval"]:
            text += f" (95 % intervals {rate['interval']} and {delay['interval']})"
        cards.append({"title": "Cost", "text": f"{text}.", "verdict": verdict, "bad": False})
    return cards


def _double(runs: Sequence[Run], cpus: int, book: Book) -> dict[str, Any] | None:
    text = "TCP throughput with twice the vCPU and memory, over that of the eMBB slice."
    ours, axis = readable(summary.double_ratios(runs, "mbps")), "double resources / plain"
    if not (figure := _ratios(ours, published.double(), text, axis, book)):
        return None
    limited = all(run.result["limited"] for run in runs if run.params["slice"] == DOUBLE)
    return {
        "figure": figure,
        "gaining": ", ".join(_NAMES[name] for name in published.gaining(cpus)) if limited else "",
        "limited": limited,
    }


def _ratios(
    ours: Sequence[Ratio], theirs: Sequence[Ratio], text: str, axis: str, book: Book
) -> dict[str, str] | None:
    """Plot ratios if there are own ones; the caption says what lines are."""
    if not ours:
        return None
    if any(one.value.known for one in ours):
        text += " Lines are 95 % intervals."
    return book.add(figures.ratios(ours, readable(theirs), text, axis), text)


def _cost(runs: Sequence[Run], book: Book) -> list[dict[str, str]]:
    drawn = [
        _ratios(in_order(summary.vpn_ratios(runs, metric)), published.over_plain(metric), text,
                axis, book)
        for metric, (axis, text) in summary.WORDS["figures"]["cost"].items()
    ]  # fmt: skip
    if trips := _trips(runs):
        text = (
            "Round trips of echo requests as a distribution, mean over rounds; nothing beside it."
        )
        drawn.append(book.add(figures.distributions(trips, text, "round trip in ms"), text))
    return list(filter(None, drawn))


def _trips(runs: Sequence[Run]) -> list[figures.Distribution]:
    """Return the distributions of round trips on the first link of the first slice or service."""
    alone = [run for run in runs if not run.params["neighbour"] and run.result.get("rtt_within")]
    if not alone:
        return []
    links = list(_LINKS)
    name, link = min(
        ((run.params["slice"], run.params["link"]) for run in alone),
        key=lambda at: (_place(at[0], _ORDER), _place(at[1], links), *at),
    )
    curves: list[figures.Distribution] = []
    for path, words in (("underlay", "no VPN"), ("tunnel", "tunnel")):
        ways = {"slice": name, "link": link, "path": path}
        made = [run.result["rtt_within"] for run in alone if ways.items() <= run.params.items()]
        points = [
            (float(at[0][0]), statistics.fmean(ms for _, ms in at))
            for at in zip(*made, strict=True)
        ]
        if points:
            curves.append((f"{_where(link, name)}, {words}", points))
    return curves


def _neighbour(runs: Sequence[Run], book: Book) -> list[dict[str, str]]:
    drawn = (
        _ratios(readable(summary.neighbour_ratios(runs, metric)), [], text, axis, book)
        for metric, (axis, text) in summary.WORDS["figures"]["neighbour"].items()
    )
    return list(filter(None, drawn))


def _response(runs: Sequence[Run], book: Book) -> dict[str, Any] | None:
    text, axis = "Service response time of S6a, mean.", "response time with VPN / without"
    ours = in_order(summary.signalling_ratios(runs))
    figure = _ratios(ours, published.signalling(), text, axis, book)
    return {"figure": figure, "ues": runs[0].params["ues"]} if figure else None


def _procedures(runs: Sequence[Run], book: Book) -> dict[str, Any] | None:
    """Return the ratios of procedures over N2, with the tunnel over without."""
    text = "Time of procedures over N2 at the AMF, mean, with N2's tunnel over without."
    ours, axis = readable(summary.procedure_ratios(runs)), "time with VPN / without"
    figure = _ratios(ours, [], text, axis, book)
    return {"figure": figure, "ues": runs[0].params["ues"]} if runs else None


def _procedure_times(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """Yield mean, median and p99 of each procedure, with the tunnel and without."""
    for metric, title in summary.PROCEDURES.items():
        for path, shown in (("tunnel", "tunnel"), ("underlay", "no VPN")):
            made = [run.result for run in runs if run.params["path"] == path]
            if made:
                names = [f"{metric}_{word}_ms" for word in ("mean", "median", "p99")]
                times = [mean([float(result[name]) for result in made]) for name in names]
                yield {"title": title, "path": shown, "times": times, "n": len(made)}


def _sweep(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the results of all rounds, by URLLC's 5QI, eMBB's load and the number of slices."""
    by_cell: dict[tuple[int, str, int], list[Any]] = {}
    for run in runs:
        p = run.params
        by_cell.setdefault((p["five_qi"], p["load"], p["slices"]), []).append(run.result)
    return [
        {"five_qi": five_qi, "load": load, "slices": slices, "results": results}
        for (five_qi, load, slices), results in sorted(by_cell.items())
    ]


def _average(values: Iterable[float | None], digits: int = 2) -> str:
    known = [value for value in values if value is not None]
    return _number(statistics.fmean(known), digits) if known else "-"


def _performance(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """Yield, for each link, (through the tunnel, without a VPN, ratio) of each metric."""
    table = {metric: summary.estimates(runs, metric) for metric in summary.METRICS}
    ratio = {
        metric: summary.by_label(summary.vpn_ratios(runs, metric)) for metric in ("mbps", "rtt_ms")
    }
    for point in sorted(table["mbps"], key=lambda p: (_place(p.slice, _ORDER), *p)):
        if point.path != "tunnel":
            continue
        both = [point, point._replace(path="underlay")]
        row: dict[str, Any] = {
            metric: (*map(table[metric].get, both), ratio.get(metric, {}).get(point.label))
            for metric in summary.METRICS
        }
        numbers = [value.n for value in row["mbps"] if value is not None]
        n = ", ".join(map(str, numbers)) if len(set(numbers)) > 1 else numbers[0]
        where = _where(point.link, point.slice)
        yield {"where": where, "load": point.neighbour or "idle", "n": n, **row}


def _timeline(runs: Sequence[Run], book: Book) -> dict[str, str] | None:
    rows = [
        (f"{run.params['fault']}, {_WORDS.get(run.params['victim'], run.params['victim'])}", times)
        for run in runs
        if (times := run.result.get("timeline"))
    ]
    if not rows:
        return None
    text = (
        "Both streams over the time, from the neighbour's first datagram. A link is back when an "
        "echo request through it is answered."
    )
    return book.add(figures.timeline(rows, text), text)


def _figure(value: Estimate | None) -> dict[str, str]:
    """Return a mean and its interval as text, each on its own line.

    No figure of a report can be negative, so an interval ends at zero.
    """
    if value is None:
        return {"mean": "-", "interval": ""}
    if value.mean == 0:
        return {"mean": "0", "interval": ""}
    if value.low == value.high:
        value = single(value.mean)
    elif value.known:
        value = dataclasses.replace(value, low=max(0.0, value.low))
    mean, _, interval = str(value).partition(" (")
    return {"mean": mean, "interval": interval.rstrip(")").replace(" to ", "\u2013")}


def _qos(runs: Sequence[Run], book: Book) -> dict[str, Any] | None:
    """Return what `qos` measured, with a figure of the delays; ``runs`` begin with the control."""
    if not runs:
        return None
    conditions = {True: "enforced", False: "not enforced (control)"}
    curves: list[figures.Distribution] = [
        (conditions[bool(run.params["enforced"])], within)
        for run in runs
        if (within := run.result["urllc"].get("delay_within"))
    ]
    first = runs[0].result
    budget = float(first["budget_ms"])
    text = (
        "One-way delay of the URLLC slice's datagrams as a distribution. The budget of "
        f"{budget:g} ms is that of 5QI {first['urllc_5qi']} (TS 23.501 table 5.7.4-1)."
    )
    drawn = None
    if curves:
        figure = figures.distributions(curves, text, "one-way delay in ms", budget)
        drawn = book.add(figure, text)
    return {"text": first["text"], "figure": drawn}
