"""`bench epc`: the cost of the five tunnels for the EPC's protocols, compared with no tunnels.

Two services from the same packages run side by side, one with tunnels and one without. Each
measurement alternates between them: registrations in blocks, a UE's rate and delay, attach storms
at rising rates until they saturate the service. The network functions are the lab's simulators, so
only the ratio is meaningful; the absolute figures depend on this machine.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks.__main__ import Bench
from benchmarks.report import header, write
from builder import packages
from builder.tree import Tree
from experiments.testbed import dashed
from lab.vim import probe

VNFS = ("hss", "mme", "spgwc", "spgwu", "enb", "ue")
PACKAGES = (*(f"{name}_vnf" for name in VNFS), "epc_ue_ns")
SERVICES = {"vpn": "epc_ue", "none": "epc_ue_novpn"}
#: First IMSI and number of the subscribers in the parameter files; the UE is the first one.
FIRST, SUBSCRIBERS = 242881234500001, 1023
LOAD = {
    "enb": "127.0.0.1",
    "k": "449c4b91aeacd0ace182cf3a5a72bfa1",
    "opc": "9245cd6283cc53ce24ac1186a60dee6b",
    "plmn": "242/88",
}
#: Duration of each attach storm in seconds, and the factor from each rate to the next.
STORM, STEP = 5, 1.5
#: A storm saturates the service if UEs attach at less than this share of the storm's rate.
SATURATED = 0.9
Run = Callable[..., str]
Document = dict[str, Any]


def act(bench: Bench, ns: str, vnf: str, primitive: str, **params: object) -> Document:
    """Run a day-2 primitive of a service; return its JSON output."""
    return bench.client.action(ns, vnf, primitive, dashed(params), timeout=1800.0)


def load(enb: Run, first: int, count: int, rate: float, hold: bool) -> Document:
    """Let UEs attach at an eNB; return the program's report."""
    request = {**LOAD, "first_imsi": str(FIRST + first), "count": count, "rate": rate, "hold": hold}
    output = enb("/usr/lib/osm-lab/launch", "load", text=json.dumps(request), timeout=900.0)
    report: Document = json.loads(output)
    return report


def turns(number: int) -> Iterator[str]:
    """Yield both services; the first one alternates with the number."""
    keys = list(SERVICES)
    yield from keys if number % 2 == 0 else reversed(keys)


class Watch(threading.Thread):
    """A thread that runs `measure-s6a` of one service during registrations."""

    def __init__(self, bench: Bench, ns: str, registrations: int) -> None:
        """Prepare to measure until the two requests of every registration are answered."""
        super().__init__()
        self.answer: Document = {}
        self.error = ""
        self._console = bench.console_of(ns, "mme")
        self._work: Callable[[], Document] = lambda: act(
            *(bench, ns, "mme", "measure-s6a"), duration=1200, count=2 * registrations, idle=120
        )
        self._before = self._sockets()

    def _sockets(self) -> int:
        """Count the packet sockets on the MME's VDU."""
        return len(self._console("cat", "/proc/net/packet").splitlines())

    def run(self) -> None:
        """Run the primitive; keep its answer or its error."""
        try:
            self.answer = self._work()
        except click.ClickException as error:
            self.error = error.message

    def hears(self, limit: float = 60.0) -> None:
        """Wait until the primitive captures packets."""
        until = time.monotonic() + limit
        while self._sockets() <= self._before:
            if self.error or time.monotonic() > until:
                raise click.ClickException(f"measure-s6a does not listen: {self.error}")
            time.sleep(0.1)


def registrations(bench: Bench, enbs: dict[str, Run], count: int, block: int) -> Document:
    """Let UEs register one after another; measure response times on the MMEs' VDUs."""
    watches = {key: Watch(bench, key, count) for key in SERVICES}
    for watch in watches.values():
        watch.start()
    for watch in watches.values():
        watch.hears()
    blocks: dict[str, list[Document]] = {key: [] for key in SERVICES}
    for number, first in enumerate(range(0, count, block)):
        for key in turns(number):
            done = load(enbs[key], first, min(block, count - first), 0, hold=False)
            blocks[key].append(done)
    for key, watch in watches.items():
        watch.join()
        if watch.error:
            raise click.ClickException(f"{key}: {watch.error}")
    return {key: {"blocks": blocks[key], "s6a": watches[key].answer} for key in SERVICES}


def user_plane(bench: Bench, rounds: int, seconds: int) -> Document:
    """Measure rate and delay of a UE through its PDN connection."""
    result: Document = {key: {"upload": [], "download": [], "latency": []} for key in SERVICES}
    servers = {key: act(bench, key, "spgwu", "serve-throughput", seconds=900) for key in SERVICES}
    for number in range(rounds):
        for key in turns(number):
            server = servers[key]["address"]
            for direction in ("upload", "download"):
                given = {"server": server, "duration": seconds, "direction": direction}
                measured = act(bench, key, "ue", "measure-throughput", **given)
                result[key][direction].append(measured)
            echoes = {"server": server, "count": 100, "interval_ms": 10}
            result[key]["latency"].append(act(bench, key, "ue", "measure-latency", **echoes))
    return result


def storms(enbs: dict[str, Run], first_rate: int, until: float, console: Console) -> Document:
    """Run attach storms at rising rates on each service, until two in a row saturate it."""
    result: dict[str, list[Document]] = {key: [] for key in SERVICES}
    rate, left = float(first_rate), set(SERVICES)
    number = 0
    while left and time.monotonic() < until:
        count = min(round(STORM * rate), SUBSCRIBERS)
        for key in [name for name in turns(number) if name in left]:
            outcome = load(enbs[key], 0, count, rate, hold=True)
            outcome["saturated"] = outcome["attached_per_second"] < SATURATED * rate
            result[key].append({"rate": round(rate, 1), **outcome})
            console.print(
                f"storm of {rate:.0f} a second, {key}: {outcome['attached']} of {count} attached, "
                f"{outcome['attached_per_second']:.1f} a second",
                highlight=False,
            )
            # Other work on the machine may disturb one storm, but hardly two in a row.
            beyond = all(one["saturated"] for one in result[key][-2:]) and len(result[key]) > 1
            if beyond or rate > SUBSCRIBERS:
                left.discard(key)
        rate *= STEP
        number += 1
    return result


def pair(figure: Callable[[str], float]) -> dict[str, float]:
    """Return a figure of both services and its ratio."""
    values = {key: float(figure(key)) for key in SERVICES}
    ratio = values["vpn"] / values["none"] if values["none"] else float("nan")
    return {**values, "ratio": ratio}


def ratios(document: Document) -> dict[str, dict[str, float]]:
    """Return the main figures, with tunnels and without."""
    result = {}
    done = document.get("registrations", {})
    if done:
        for name in ("AIR", "ULR"):
            for figure in ("min-ms", "median-ms", "mean-ms", "p95-ms", "p99-ms"):
                title = f"{name}, {figure[:-3]} ms"
                result[title] = pair(lambda k, n=name, f=figure: done[k]["s6a"][n][f])  # type: ignore[misc]
        for title, of in (("attach, median ms", "median"), ("attach, p95 ms", "p95")):
            result[title] = pair(
                lambda k, of=of: statistics.median(  # type: ignore[misc]
                    one["attach_ms"][of] for one in done[k]["blocks"]
                )
            )
        result["registrations lost"] = pair(lambda k: sum(b["lost"] for b in done[k]["blocks"]))
    plane = document.get("user-plane", {})
    if plane:
        for name in ("upload", "download"):
            title = f"UE, TCP {name}, Mbit/s"
            result[title] = pair(
                lambda k, n=name: statistics.median(one["mbps"] for one in plane[k][n])  # type: ignore[misc]
            )
        result["UE, round trip, mean ms"] = pair(
            lambda k: statistics.median(one["rtt-ms"]["avg"] for one in plane[k]["latency"])
        )
    storm = document.get("storms", {})
    if storm and all(storm.values()):
        result["storms, most attaches per second"] = pair(
            lambda k: max(one["attached_per_second"] for one in storm[k])
        )
        result["storms, lost attaches"] = pair(lambda k: sum(one["lost"] for one in storm[k]))
    return result


def show(document: Document, console: Console) -> None:
    table = Table("figure", "with tunnels", "without", "ratio", title="EPC, simulated functions")
    for name, values in document["ratios"].items():
        shown = [f"{values[key]:.4g}" for key in ("vpn", "none")]
        table.add_row(name, *shown, f"{values['ratio']:.3g}")
    console.print(table)


def bring_up(bench: Bench) -> dict[str, Run]:
    """Instantiate both services; return the consoles of their eNBs."""
    bench.onboard(*PACKAGES)
    for key, parameters in SERVICES.items():
        bench.start(key, "epc_ue_ns", parameters)
    until = time.monotonic() + 900
    for key in SERVICES:
        bench.settled(key, 900)
        while True:
            record = json.loads(bench.verb("ns-show", key))
            said = [charm["message"] for charm in record["lab"]["charms"].values()]
            if all(any(text.startswith(f"{name} ready") for text in said) for name in VNFS):
                break
            if time.monotonic() > until:
                raise click.ClickException(f"{key} is not ready: {'; '.join(said)}")
            time.sleep(1)
    return {key: bench.console_of(key, "enb") for key in SERVICES}


@click.command(name="epc")
@click.option(
    *("--registrations", "count"),
    default=1000,
    show_default=True,
    type=click.IntRange(1, SUBSCRIBERS),
    help="Number for each service.",
)
@click.option("--block", default=100, show_default=True, help="Registrations in a row per service.")
@click.option("--rounds", default=2, show_default=True, help="Repetitions of the UE's figures.")
@click.option("--seconds", default=4, show_default=True, help="Time for each rate of the UE.")
@click.option("--first-rate", default=20, show_default=True, help="Attaches per second.")
@click.option("--minutes", default=7.0, show_default=True, help="Time limit to begin a storm.")
@click.option("--dist", type=click.Path(path_type=Path), default=Path("dist"), show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), show_default=True)
def main(
    count: int,
    block: int,
    rounds: int,
    seconds: int,
    first_rate: int,
    minutes: float,
    dist: Path,
    out: Path,
) -> None:
    """Measure registrations, a UE and attach storms with tunnels and without."""
    console = Console()
    began = time.monotonic()
    packages.build(Tree.find(Path(__file__).resolve().parent), dist, list(PACKAGES))
    bench = Bench(Path(tempfile.mkdtemp(prefix="osm-bench-")), dist, console)
    plane = probe()
    document: Document = header() | {
        "network-functions": "simulators of the lab",
        "dataplane": {"backend": plane.backend, "version": plane.version},
        "seconds": {},
    }

    def timed(name: str) -> None:
        document["seconds"][name] = round(time.monotonic() - began, 1)
        console.print(f"{document['seconds'][name]:6.1f} s: {name} done", highlight=False)

    try:
        enbs = bring_up(bench)
        document["load-before-measuring"] = os.getloadavg()[0]
        timed("bring-up")
        document["registrations"] = registrations(bench, enbs, count, block)
        timed("registrations")
        document["user-plane"] = user_plane(bench, rounds, seconds)
        timed("user plane")
        document["storms"] = storms(enbs, first_rate, began + 60 * minutes, console)
        timed("storms")
    finally:
        # Also an interrupted run writes its results.
        document["ratios"] = ratios(document)
        file = write("bench-epc", document, out)
        bench.clean()
    show(document, console)
    timed("everything")
    console.print(f"everything measured: {file}")
