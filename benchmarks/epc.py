"""`bench epc`: what the five tunnels cost the EPC's own protocols, beside the EPC without them.

Two services of the same packages run side by side, one with tunnels and one without; each figure is
taken of one and then of the other, round by round. The network functions are the lab's simulators,
so the ratio means something and the absolute figures mean this machine.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks.__main__ import Bench
from lab.vim import probe

PACKAGES = ("hss_vnf", "mme_vnf", "spgwc_vnf", "spgwu_vnf", "enb_vnf", "epc_ns")
SERVICES = {"vpn": "epc_oai", "none": "epc_oai_novpn"}
LOAD = {
    "enb": "127.0.0.1",
    "first_imsi": "242881234500000",
    "k": "449c4b91aeacd0ace182cf3a5a72bfa1",
    "opc": "9245cd6283cc53ce24ac1186a60dee6b",
    "plmn": "242/88",
}
Run = Callable[..., str]


def act(bench: Bench, ns: str, vnf: str, primitive: str, **params: object) -> dict[str, Any]:
    """Run a day-2 primitive of a service; return its JSON."""
    words = ("ns-action", ns, "--vnf_name", vnf, "--action_name", primitive)
    text = json.dumps(params)
    operation = json.loads(bench.verb(*words, "--params", text, "--wait", show=False))
    result: dict[str, Any] = json.loads(operation["detailed-status"]["output"])
    return result


def load(enb: Run, count: int, rate: float, hold: bool) -> dict[str, Any]:
    """Let UEs attach at an eNB."""
    request = json.dumps({**LOAD, "count": count, "rate": rate, "hold": hold})
    told = enb("/usr/lib/osm-lab/launch", "load", text=request, timeout=900.0)
    found: dict[str, Any] = json.loads(told)
    return found


def registrations(bench: Bench, ns: str, enb: Run, count: int) -> dict[str, Any]:
    """Registrations one after another, with the response times that the MME's VDU saw."""
    seen: dict[str, Any] = {}

    def watch() -> None:
        told = act(bench, ns, "mme", "measure-s6a", duration=1200, count=2 * count)
        seen.update(told)

    watcher = threading.Thread(target=watch)
    watcher.start()
    time.sleep(8)  # the action is a process that has to log in first
    done = load(enb, count, 0, hold=False)
    watcher.join()
    return {"load": done, "s6a": seen}


def storms(enb: Run, rates: list[int]) -> list[dict[str, Any]]:
    """Attach storms of 5 s each, at rising rates."""
    return [{"rate": rate, **load(enb, 5 * rate, rate, hold=True)} for rate in rates]


def show(document: dict[str, Any], console: Console) -> None:
    """Print medians and ratios."""
    table = Table("figure", "with tunnels", "without", "ratio", title="EPC, simulated functions")
    for name, pair in document["ratios"].items():
        table.add_row(name, *(f"{pair[key]:.3g}" for key in ("vpn", "none", "ratio")))
    console.print(table)


def ratios(document: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Medians over the rounds of each figure, with the ratio."""
    found = {}
    figures: dict[str, Callable[[dict[str, Any]], float]] = {
        "attach, median ms": lambda one: one["load"]["attach_ms"]["median"],
        "registrations per second": lambda one: one["load"]["attached_per_second"],
    }
    for name, figure in figures.items():
        medians = {
            key: statistics.median(figure(one) for one in document["registrations"][key])
            for key in SERVICES
        }
        ratio = medians["vpn"] / medians["none"] if medians["none"] else float("nan")
        found[name] = {**medians, "ratio": ratio}
    best = {
        key: max(one["attached_per_second"] for one in document["storms"][key] if not one["lost"])
        for key in SERVICES
    }
    ratio = best["vpn"] / best["none"]
    found["storm without a loss, attaches per second"] = {**best, "ratio": ratio}
    return found


@click.command(name="epc")
@click.option("--rounds", default=2, show_default=True, help="Repetitions.")
@click.option("--registrations", "count", default=1000, show_default=True, help="In each round.")
@click.option("--rates", default="10,20,40,80", show_default=True, help="Of attach storms.")
@click.option("--dist", type=click.Path(path_type=Path), default=Path("dist"), show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), show_default=True)
def main(rounds: int, count: int, rates: str, dist: Path, out: Path) -> None:
    """Measure registrations and attach storms with tunnels and without."""
    console = Console()
    bench = Bench(Path(tempfile.mkdtemp(prefix="osm-bench-")), dist, console)
    plane = probe()
    document: dict[str, Any] = {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "network-functions": "simulators of the lab",
        "dataplane": {"backend": plane.backend, "version": plane.version},
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "load-at-start": os.getloadavg()[0],
        "registrations": {key: [] for key in SERVICES},
    }
    try:
        bench.prepare(*PACKAGES)
        enbs = {}
        for key, parameters in SERVICES.items():
            bench.start(key, "epc_ns", parameters, "--wait")
            bench.settled(key)
            enbs[key] = bench.console_of(key, "enb")
        for number in range(rounds):
            for key in SERVICES:
                console.print(f"round {number + 1}, {key}: {count} registrations")
                done = registrations(bench, key, enbs[key], count)
                document["registrations"][key].append(done)
        steps = [int(text) for text in rates.split(",")]
        document["storms"] = {key: storms(enbs[key], steps) for key in SERVICES}
    finally:
        bench.verb("lab", "clean", show=False)
        if not any(bench.home.iterdir()):
            bench.home.rmdir()
    document["ratios"] = ratios(document)
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"bench-epc-{document['started'].replace(':', '')}.json"
    file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    show(document, console)
    console.print(f"everything measured: {file}")
