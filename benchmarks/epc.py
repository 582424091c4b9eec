"""`bench epc`: the cost of the five tunnels for the EPC's protocols, compared with no tunnels.

Two services from the same packages run side by side, one with tunnels and one without. Each
measurement alternates between them: registrations in blocks, a UE's rate and delay, attach storms
at rising rates until they saturate the service. The network functions are the lab's simulators, so
only the ratio is meaningful; the absolute figures depend on this machine.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import click

from benchmarks.bench import Bench, Run, dataplane, in_turn
from benchmarks.report import Report, command
from experiments.background import InBackground
from experiments.testbed import dashed
from testbed.netns import wait

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
#: Registrations in a row per service.
BLOCK = 100
#: Repetitions of the UE's figures, and the time for each rate in seconds.
ROUNDS, SECONDS = 2, 4
#: Duration of each attach storm in seconds, its first rate, and the factor to the next rate.
STORM, FIRST_RATE, STEP = 5, 20.0, 1.5
#: A storm saturates the service if UEs attach at less than this share of the storm's rate.
SATURATED = 0.9
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


def watch(bench: Bench, ns: str, registrations: int) -> InBackground:
    """Start `measure-s6a`, two requests for each registration; return when it captures packets."""
    console = bench.console_of(ns, "mme")

    def sockets() -> int:
        return len(console("cat", "/proc/net/packet").splitlines())

    before = sockets()
    given = {"duration": 1200, "count": 2 * registrations, "idle": 120}
    started = InBackground(lambda: act(bench, ns, "mme", "measure-s6a", **given))
    wait(lambda: started.ended or sockets() > before, 60, "measure-s6a does not listen", 0.1)
    if started.ended:
        started.result()
    return started


def registrations(bench: Bench, enbs: dict[str, Run], count: int) -> Document:
    """Let UEs register one after another; measure response times on the MMEs' VDUs."""
    watches = {key: watch(bench, key, count) for key in SERVICES}
    blocks: dict[str, list[Document]] = {key: [] for key in SERVICES}
    for number, first in enumerate(range(0, count, BLOCK)):
        for key in in_turn(SERVICES, number):
            done = load(enbs[key], first, min(BLOCK, count - first), 0, hold=False)
            blocks[key].append(done)
    return {key: {"blocks": blocks[key], "s6a": watches[key].result(1800)} for key in SERVICES}


def user_plane(bench: Bench) -> Document:
    result: Document = {key: {"upload": [], "download": [], "latency": []} for key in SERVICES}
    servers = {key: act(bench, key, "spgwu", "serve-throughput", seconds=900) for key in SERVICES}
    for number in range(ROUNDS):
        for key in in_turn(SERVICES, number):
            server = servers[key]["address"]
            for direction in ("upload", "download"):
                given = {"server": server, "duration": SECONDS, "direction": direction}
                measured = act(bench, key, "ue", "measure-throughput", **given)
                result[key][direction].append(measured)
            echoes = {"server": server, "count": 100, "interval_ms": 10}
            result[key]["latency"].append(act(bench, key, "ue", "measure-latency", **echoes))
    return result


def storms(enbs: dict[str, Run], until: float, say: Callable[[str], None]) -> Document:
    """Run attach storms at rising rates on each service, until two in a row saturate it."""
    result: dict[str, list[Document]] = {key: [] for key in SERVICES}
    rate, left = FIRST_RATE, set(SERVICES)
    number = 0
    while left and time.monotonic() < until:
        count = min(round(STORM * rate), SUBSCRIBERS)
        for key in [name for name in in_turn(SERVICES, number) if name in left]:
            outcome = load(enbs[key], 0, count, rate, hold=True)
            outcome["saturated"] = outcome["attached_per_second"] < SATURATED * rate
            result[key].append({"rate": round(rate, 1), **outcome})
            say(
                f"storm of {rate:.0f} a second, {key}: {outcome['attached']} of {count} attached, "
                f"{outcome['attached_per_second']:.1f} a second"
            )
            # Other work on the machine may disturb one storm, but hardly two in a row.
            beyond = all(one["saturated"] for one in result[key][-2:]) and len(result[key]) > 1
            if beyond or rate > SUBSCRIBERS:
                left.discard(key)
        rate *= STEP
        number += 1
    return result


def figures(document: Document, key: str) -> dict[str, float]:
    """Return the main figures of one service."""
    done, plane, storm = (document[part][key] for part in ("registrations", "user-plane", "storms"))
    result = {
        f"{name}, {figure} ms": done["s6a"][name][f"{figure}-ms"]
        for name in ("AIR", "ULR")
        for figure in ("min", "median", "mean", "p95", "p99")
    }
    blocks = done["blocks"]
    for name in ("median", "p95"):
        result[f"attach, {name} ms"] = statistics.median(one["attach_ms"][name] for one in blocks)
    result["registrations lost"] = sum(one["lost"] for one in blocks)
    for name in ("upload", "download"):
        result[f"UE, TCP {name}, Mbit/s"] = statistics.median(one["mbps"] for one in plane[name])
    trips = (one["rtt-ms"]["avg"] for one in plane["latency"])
    result["UE, round trip, mean ms"] = statistics.median(trips)
    if storm:
        most = max(one["attached_per_second"] for one in storm)
        result["storms, most attaches per second"] = most
        result["storms, lost attaches"] = sum(one["lost"] for one in storm)
    return result


def ratios(document: Document) -> dict[str, dict[str, float]]:
    """Return the main figures, with tunnels and without."""
    vpn, none = (figures(document, key) for key in SERVICES)
    return {
        name: {"vpn": vpn[name], "none": base, "ratio": vpn[name] / base if base else math.nan}
        for name, base in none.items()
        if name in vpn
    }


def bring_up(bench: Bench) -> dict[str, Run]:
    """Instantiate both services; return the consoles of their eNBs."""
    bench.onboard(*PACKAGES)
    for key, parameters in SERVICES.items():
        bench.start(key, "epc_ue_ns", parameters)

    def waiting(key: str) -> list[str]:
        """Return what charms say, [] if all are ready."""
        record = json.loads(bench.verb("ns-show", key))
        said = [charm["message"] for charm in record["lab"]["charms"].values()]
        ready = all(any(text.startswith(f"{name} ready") for text in said) for name in VNFS)
        return [] if ready else said

    for key in SERVICES:
        bench.settled(key, 900)
        wait(lambda: not waiting(key), 900, lambda: f"{key} is not ready: {waiting(key)}", 1)  # noqa: B023
    return {key: bench.console_of(key, "enb") for key in SERVICES}


@command("epc", file="bench-epc")
@click.option(
    *("--registrations", "count"),
    default=1000,
    show_default=True,
    type=click.IntRange(1, SUBSCRIBERS),
    help="Number for each service.",
)
@click.option("--minutes", default=7.0, show_default=True, help="Time limit to begin a storm.")
def main(report: Report, count: int, minutes: float) -> None:
    """Measure registrations, a UE and attach storms with tunnels and without."""
    began = time.monotonic()
    document = report.document
    document |= dataplane() | {"network-functions": "simulators of the lab", "seconds": {}}

    def timed(name: str) -> None:
        document["seconds"][name] = round(time.monotonic() - began, 1)
        report.say(f"{document['seconds'][name]:6.1f} s: {name} done")

    with Bench() as bench:
        enbs = bring_up(bench)
        document["load-before-measuring"] = os.getloadavg()[0]
        timed("bring-up")
        document["registrations"] = registrations(bench, enbs, count)
        timed("registrations")
        document["user-plane"] = user_plane(bench)
        timed("user plane")
        document["storms"] = storms(enbs, began + 60 * minutes, report.say)
        timed("storms")
    document["ratios"] = ratios(document)
    rows = (
        (name, *(f"{values[key]:.4g}" for key in SERVICES), f"{values['ratio']:.3g}")
        for name, values in document["ratios"].items()
    )
    report.table("EPC, simulated functions", ("", "with tunnels", "without", "ratio"), rows)
    timed("everything")
