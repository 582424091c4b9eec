"""Write report.html and runs.csv of a campaign."""

from __future__ import annotations

import csv
import dataclasses
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from experiments import confidentiality, diameter
from experiments.model import Run
from experiments.performance import UDP_MBPS
from experiments.profiles import PROFILES
from experiments.report import figures, summary
from experiments.report.summary import Ratio
from experiments.setups import DOUBLE, EPC, SITES
from experiments.slices import EMBB, URLLC
from experiments.stats import Estimate
from experiments.store import Campaign
from experiments.wire import NEIGHBOURS

TITLES = {
    "confidentiality": ("Confidentiality", "underlays carry nothing but WireGuard, ESP and address "
                        "resolution; the control shows an IMSI"),
    "reach": ("Isolation", "no VNF reaches an address or port of a VNF it has no link with"),
    "dependability": ("Dependability", "a fault in one slice costs the other no packet"),
    "revocation": ("Revocation", "a deleted peer's packets stop"),
    "qos": ("Quality of service", "the URLLC slice keeps its delay budget while eMBB is saturated"),
}  # fmt: skip


def write(campaign: Campaign) -> tuple[Path, Path]:
    """Write the page and the table of a campaign; return their paths."""
    runs = campaign.runs()
    page, table = campaign.directory / "report.html", campaign.directory / "runs.csv"
    page.write_text(html(campaign.describe(), runs), encoding="utf-8")
    with open(table, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(summary.CSV_HEAD)
        writer.writerows(summary.csv_rows(runs))
    return page, table


def html(described: Mapping[str, Any], runs: Sequence[Run]) -> str:
    """Return the page; it needs no other file and no network."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.tests["matching"] = lambda version, name: version.startswith(name[:5].lower())
    made = summary.by_experiment(runs)
    measured = made.get("performance", [])
    stamp = [time.strftime("%Y-%m-%d %H:%M", time.gmtime(run.started)) for run in runs]
    loads = [run.load for run in runs]
    return environment.get_template("page.html.j2").render(
        campaign=described,
        env=described["environment"],
        runs=runs,
        begun=min(stamp, default="-"),
        ended=max(stamp, default="-"),
        load=f"{min(loads):.1f} to {max(loads):.1f}" if loads else "-",
        slices=_slices(described),
        machines=_machines(described),
        beside=[
            text
            for name, text in (
                (DOUBLE, "a core whose VNFs have twice the vCPU and memory"),
                (SITES, "a core whose HSS is at another site"),
            )
            if any(run.params["slice"] == name for run in measured)
        ],
        cards=[
            {"title": TITLES[name][0], "text": f"{TITLES[name][1]} ({passed} of {count} runs).",
             "good": passed == count}
            for name, passed, count in summary.verdicts(runs)
        ],
        imsi=diameter.TEST_IMSI,
        ues=confidentiality.UES if _attached(made.get("confidentiality", [])) else 0,
        double=_double(measured, described["environment"].get("host", {}).get("cpus", 0)),
        wires=_wires(made.get("confidentiality", []), "links"),
        outside=_wires(made.get("confidentiality", []), "outside"),
        where=described["environment"].get("osm", {}).get("url", "one machine"),
        reach=made["reach"][-1].result if "reach" in made else None,
        reach_rows=_reach(made["reach"][-1].result["outcomes"]) if "reach" in made else [],
        matrix=_matrix(summary.matrix(measured, made.get("signalling", []))),
        figures=_cost(measured) if measured else [],
        performance=_performance(measured),
        udp_mbps=UDP_MBPS,
        neighbour_figures=_neighbour(measured),
        signalling=_response(made.get("signalling", [])),
        qos=_qos(made.get("qos", [])),
        dependability=[_fault(run) for run in made.get("dependability", [])],
        revocation=[
            {"victim": run.params["victim"], "thief": run.params["thief"],
             "sent": run.result["sent"], "before": run.result["arrived"],
             "after": run.result["after-deletion"], "took": _number(run.result["primitive-s"])}
            for run in made.get("revocation", [])
        ],
        repetitions=max((run.repetition + 1 for run in measured), default=0),
        references=summary.reference(),
    )  # fmt: skip


def _slices(described: Mapping[str, Any]) -> list[str]:
    """Return the names of a campaign's slices; none where one service stands in their place."""
    if named := described["environment"].get("slices"):
        return list(named)
    return [EMBB, URLLC] if PROFILES[described["profile"]].slices else []


def _machines(described: Mapping[str, Any]) -> bool:
    """Tell whether VDUs are virtual machines of the lab."""
    profile = PROFILES.get(described["profile"])
    return profile is not None and profile.machines


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def _wires(runs: Sequence[Run], where: str) -> list[dict[str, Any]]:
    """Return rows about links, as seen in the VDUs ("links") or from outside ("outside")."""
    latest = {run.params["path"]: run.result.get(where, {}) for run in runs}
    rows = []
    for where, seen in latest.get("tunnel", {}).items():
        control = latest.get("underlay", {}).get(where)
        shown = "-"
        if control:
            kinds = [k for k in control["frames"] if k not in {"wg", "esp", "isakmp"} | NEIGHBOURS]
            shown = ", ".join([*kinds, *_identities(control["imsis"])])
        rows.append(
            {
                "where": " ".join(_worded(part) for part in reversed(where.split("/"))),
                "protected": seen["protected"],
                "neighbours": sum(n for k, n in seen["frames"].items() if k in NEIGHBOURS),
                "clear": seen["clear"],
                "control": control["clear"] if control else "-",
                "shown": shown,
            }
        )
    return rows


def _identities(imsis: Sequence[str]) -> list[str]:
    if not imsis:
        return []
    more = f" and {len(imsis) - 1} more" if len(imsis) > 1 else ""
    return [f"IMSI {imsis[0]}{more}"]


def _reach(outcomes: Mapping[str, Mapping[str, int]]) -> list[dict[str, Any]]:
    rows = []
    for way in ("routed", "forced", "forged"):
        table = outcomes.get(way)
        if table is None:
            continue
        tcp = {k.removeprefix("tcp "): n for k, n in table.items() if k.startswith("tcp ")}
        known = ("refused", "silent", "open")
        rows.append(
            {
                "way": {
                    "routed": "as routes lead",
                    "forced": "by force",
                    "forged": "forged source",
                }[way],
                "tcp": sum(tcp.values()),
                **{name: tcp.get(name, 0) for name in known},
                "unreachable": sum(n for name, n in tcp.items() if name not in known),
                "udp": sum(n for k, n in table.items() if k.startswith("udp ")),
            }
        )
    return rows


#: Set-ups in words, as campaigns and reference.yaml name them. Equal ones stand in one row.
_WORDS = {
    "embb": "eMBB", "embb, neighbour saturated": "eMBB, loaded neighbour",
    "embb separate": "eMBB", "embb simultaneous": "eMBB, loaded neighbour",
    "urllc": "URLLC", "urllc, neighbour saturated": "URLLC, loaded neighbour",
    "urllc separate": "URLLC", "urllc simultaneous": "URLLC, loaded neighbour",
    "double": "double", "vpn double resources": "double",
    "sites": "two sites", "between sites": "two sites", "vpn": "one EPC", "epc": "EPC",
    "pair": "two VNFs",
}  # fmt: skip
_NAMES = {"hss": "HSS", "mme": "MME", "spgwc": "SPGW-C", "spgwu": "SPGW-U", "enb": "eNB"}
_LINKS = {
    **{"s6a": "S6a", "s11": "S11", "sxab": "SXab", "s1c": "S1-C", "s1u": "S1-U"},
    "data": "VPN",
}


def _worded(part: str) -> str:
    return _LINKS.get(part) or _WORDS.get(part) or part


def readable(found: Ratio) -> Ratio:
    """Return a ratio with its link and set-up in words."""
    if found.source.startswith("vidal"):
        return dataclasses.replace(found, label="IPsec between sites (Vidal)")
    link, _, rest = found.label.partition(" ")
    comma = "," if link.endswith(",") else ""
    link = link.rstrip(",")
    whose, _, path = rest.partition(", ")
    if rest not in _WORDS and whose in _WORDS:
        rest = f"{_WORDS[whose]}, {path}"
    words = f"{_LINKS.get(link, link)}{comma} {_WORDS.get(rest, rest)}"
    return dataclasses.replace(found, label=words)


def in_order(found: Iterable[Ratio]) -> list[Ratio]:
    """Return ratios link by link, the slices first."""
    links, set_ups = list(_LINKS.values()), list(dict.fromkeys(_WORDS.values()))

    def place(one: Ratio) -> tuple[int, int]:
        link, _, rest = one.label.partition(" ")
        return (
            links.index(link) if link in links else len(links),
            set_ups.index(rest) if rest in set_ups else len(set_ups),
        )

    return sorted(found, key=place)


def _attached(runs: Sequence[Run]) -> bool:
    """Tell whether UEs attached while wires were captured, from the identities that showed."""
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
    return {
        "heads": [title for _, title in metrics],
        "rows": [
            {
                "title": row.title,
                "cells": [
                    _figure(value)
                    for metric, _ in metrics
                    for value in (row.ours.get(metric), row.published.get(metric))
                ],
            }
            for row in rows
        ],
    }


def _double(runs: Sequence[Run], cpus: int) -> dict[str, Any] | None:
    ours = summary.double_ratios(runs, "mbps")
    if not ours:
        return None
    ours, theirs = ([readable(r) for r in of] for of in (ours, summary.published_double()))
    text = (
        "TCP throughput with twice the vCPU and memory, over that of the eMBB slice. Filled: this "
        "campaign. Hollow: published."
    )
    limited = all(run.result["limited"] for run in runs if run.params["slice"] == DOUBLE)
    return {
        "svg": figures.ratios(ours, theirs, text, "double resources / plain"),
        "text": text,
        "gaining": ", ".join(_NAMES[name] for name in summary.gaining(cpus)) if limited else "",
        "limited": limited,
    }


def _cost(runs: Sequence[Run]) -> list[dict[str, str]]:
    made = []
    for metric, axis, text in (
        ("mbps", "throughput with VPN / without",
         "TCP throughput. Filled: this campaign, with 95 % intervals. Hollow: published."),
        ("rtt_ms", "round trip with VPN / without",
         "Round trip of echo requests, mean. Filled: this campaign. Hollow: published."),
    ):  # fmt: skip
        ours = in_order(readable(r) for r in summary.vpn_ratios(runs, metric))
        theirs = [readable(r) for r in summary.published_ratios(metric)]
        if ours:
            made.append({"svg": figures.ratios(ours, theirs, text, axis), "text": text})
    return made


def _neighbour(runs: Sequence[Run]) -> list[dict[str, str]]:
    made = []
    for metric, axis, text in (
        ("mbps", "throughput beside a saturated neighbour / alone",
         "TCP throughput of a slice while the other sends as fast as it can, over that alone."),
        ("rtt_ms", "round trip beside a saturated neighbour / alone",
         "Round trip of a slice while the other sends as fast as it can, over that alone."),
    ):  # fmt: skip
        ours = [readable(r) for r in summary.neighbour_ratios(runs, metric)]
        if ours:
            made.append({"svg": figures.ratios(ours, [], text, axis), "text": text})
    return made


def _response(runs: Sequence[Run]) -> dict[str, Any] | None:
    ours = summary.signalling_ratios(runs)
    if not ours:
        return None
    ours = in_order(readable(r) for r in ours)
    theirs = [readable(r) for r in summary.published_signalling()]
    text = "Service response time of S6a, mean. Filled: this campaign. Hollow: published."
    svg = figures.ratios(ours, theirs, text, "response time with VPN / without")
    return {"svg": svg, "text": text, "ues": runs[0].params["ues"]}


def _performance(runs: Sequence[Run]) -> list[dict[str, Any]]:
    table = {metric: summary.estimates(runs, metric) for metric in summary.METRICS}
    ratio = {
        metric: {r.label: r.value for r in summary.vpn_ratios(runs, metric)}
        for metric in ("mbps", "rtt_ms")
    }
    rows = []
    order = [EMBB, URLLC, DOUBLE, SITES, EPC]
    points = sorted(table.get("mbps", {}), key=lambda p: (order.index(p[0]), *p))
    for name, link, path, load in points:
        plain = (name, link, "underlay", load)
        if path != "tunnel" or plain not in table["mbps"]:
            continue
        label = f"{link} {name}" + (", neighbour saturated" if load else "")
        tunnel = (name, link, path, load)
        rows.append(
            {
                "where": f"{_LINKS.get(link, link)} {_WORDS.get(name, name)}",
                "neighbour": load or "idle",
                "ratios": [_figure(ratio[m].get(label)) for m in ("mbps", "rtt_ms")],
                "amounts": [
                    _amount(table[m][point])
                    for m in ("jitter_ms", "loss_percent")
                    for point in (tunnel, plain)
                ],
                "n": table["mbps"][tunnel].n,
            }
        )
    return rows


def _figure(value: Estimate | None) -> dict[str, str]:
    """Return a mean and its interval as text, each on its own line."""
    if value is None:
        return {"mean": "-", "interval": ""}
    mean, _, interval = str(value).partition(" (")
    return {"mean": mean, "interval": interval.rstrip(")").replace(" to ", "\u2013")}


def _amount(value: Estimate) -> dict[str, str]:
    """Return what cannot be negative; Student's interval does not know that."""
    if value.mean == 0 or (value.known and value.low == value.high):
        return {"mean": f"{value.mean:g}", "interval": ""}
    return _figure(dataclasses.replace(value, low=max(0.0, value.low)) if value.known else value)


def _fault(run: Run) -> dict[str, Any]:
    told, own = run.result["neighbour"], run.result["victim"]["lost"]
    return {
        "fault": run.params["fault"],
        "victim": run.params["victim"],
        "neighbour": run.params["neighbour"],
        "sent": told["sent"],
        "lost": told["lost"],
        "gap": _number(told["gap_ms"], 1),
        "p99": _number(told["delay_p99_ms"]),
        "own": "all after it" if own is None else own,
    }


def _qos(runs: Sequence[Run]) -> dict[str, Any] | None:
    if not runs:
        return None
    by_state: dict[str, list[Run]] = {}
    for run in runs:
        by_state.setdefault("enforced" if run.params["enforced"] else "control", []).append(run)
    names = {"control": "not enforced (control)", "enforced": "enforced"}
    rows, points = [], []
    budget = float(runs[0].result["budget_ms"])
    for state in ("control", "enforced"):
        for run in by_state.get(state, []):
            stream = run.result["urllc"]
            rows.append(
                {
                    "condition": names[state],
                    "p50": _number(stream["delay_p50_ms"]),
                    "p99": _number(stream["delay_p99_ms"]),
                    "max": _number(stream["delay_max_ms"]),
                    "within": f"{run.result['within_percent']:.2f} %",
                    "lost": stream["lost"],
                    "embb": _number(run.result["embb_mbps"], 1),
                }
            )
            if stream["delay_p50_ms"] is not None:
                points.append(
                    (
                        names[state],
                        stream["delay_p50_ms"],
                        stream["delay_p99_ms"],
                        stream["delay_max_ms"],
                    )
                )
    told = runs[0].result
    caption = (
        f"One-way delay of the URLLC slice's datagrams: the dot is the median, the bar the 99th "
        f"percentile, the cross the maximum. The budget of {budget:g} ms is that of 5QI "
        f"{told['urllc_5qi']} (TS 23.501 table 5.7.4-1)."
    )
    return {
        "text": told["text"],
        "svg": figures.delays(points, budget, caption),
        "caption": caption,
        "rows": rows,
    }
