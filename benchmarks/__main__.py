"""`python -m benchmarks`: the cost of the charms' tunnels, compared inside one run.

Absolute rates depend on the machine more than on this project. So every figure has its own baseline
from the same run, interleaved and repeated. These programs are no tests.
"""

import importlib
import json
import os
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from benchmarks.bench import UNDERLAY, Bench, Run, dataplane, in_turn
from benchmarks.report import Goal, Report, command, counts
from experiments.stats import Estimate, ratio
from experiments.testbed import VNFS
from operate.ending import clean_up_when_ended

#: Services of `bringup` by their number of VNFs; each as (name, NSD, parameters).
BRINGUPS = {
    2: [("two", "vpn_basic_ns", "vpn_basic")],
    5: [("five", "epc_ns", "epc")],
    10: [("ten-a", "epc_ns", "epc"), ("ten-b", "epc_ns", "epc")],
}
HAND = {"server": "10.99.0.1", "client": "10.99.0.2"}
HAND_PORT = 52000
CHARMS = "10.77.0.1"  # Address of the server in the charms' tunnel.


def by_hand(ends: Mapping[str, Run]) -> int:
    """Set up a second tunnel by hand: daemon, MTU and underlay of the first; return the MTU."""
    device = json.loads(ends["client"]("ip", "-j", "link", "show", "wg-vpn-client"))[0]
    keys = {}
    for name, run in ends.items():
        run("sh", "-c", "ip link add hand0 type wireguard 2>/dev/null || wireguard-go hand0")
        script = "umask 077; wg genkey > /run/hand.key; wg pubkey < /run/hand.key"
        keys[name] = run("sh", "-c", script).strip()
    for name, other in (("client", "server"), ("server", "client")):
        run = ends[name]
        peer = ("peer", keys[other], "endpoint", f"{UNDERLAY[other]}:{HAND_PORT}")
        allowed = ("allowed-ips", f"{HAND[other]}/32")
        settings = ("listen-port", str(HAND_PORT), "private-key", "/run/hand.key")
        run("wg", "set", "hand0", *settings, *peer, *allowed)
        run("ip", "address", "add", f"{HAND[name]}/24", "dev", "hand0")
        run("ip", "link", "set", "hand0", "mtu", str(device["mtu"]), "up")
    return int(device["mtu"])


def rate(ends: Mapping[str, Run], address: str, streams: int, seconds: int) -> float:
    """Return Mbit/s of received TCP payload (iperf3's sum_received)."""
    server = f"iperf3 --server --one-off --daemon --bind {address} --port 5300; sleep 0.3"
    ends["server"]("sh", "-c", server)
    words = ("--client", address, "--port", "5300", "--time", str(seconds), "--json")
    report = json.loads(ends["client"]("iperf3", *words, "--parallel", str(streams)))
    return float(report["end"]["sum_received"]["bits_per_second"]) / 1e6


def delay(ends: Mapping[str, Run], address: str) -> float:
    """Return the mean round trip time in ms of 50 echoes."""
    shown = ends["client"]("ping", "-n", "-q", "-c", "50", "-i", "0.02", address)
    match = re.search(r"= [\d.]+/([\d.]+)/", shown)
    if match is None:
        raise click.ClickException(f"ping to {address} printed no times")
    return float(match.group(1))


def tunnel(bench: Bench, report: Report, rounds: int, seconds: int) -> dict[str, Any]:
    """Compare the charms' tunnel with one made by hand and with the bare underlay.

    The three are measured close together, kind by kind, so that what else the machine does is the
    same for all. `cpu1` and `cpu4` are seconds of both VDUs' processor time for a Gbit, which
    depends less on other work than a rate.
    """
    ends = bench.endpoints()
    mtu = by_hand(ends)
    targets = {"plain": UNDERLAY["server"], "charms": CHARMS, "by hand": HAND["server"]}
    kinds = ("1", "4", "cpu1", "cpu4", "rtt")
    samples: dict[str, dict[str, list[float]]] = {
        name: {kind: [] for kind in kinds} for name in targets
    }
    for number in range(rounds):
        report.say(f"round {number + 1}/{rounds}")
        for streams in ("1", "4", "rtt"):
            for name in in_turn(targets, number):
                kept, address = samples[name], targets[name]
                if streams == "rtt":
                    kept[streams].append(delay(ends, address))
                    continue
                before = bench.vdu_seconds("vpn")
                mbps = rate(ends, address, int(streams), seconds)
                kept[streams].append(mbps)
                used = bench.vdu_seconds("vpn") - before
                kept["cpu" + streams].append(used / (mbps * seconds / 1000))
    medians = {
        name: {key: statistics.median(values) for key, values in kinds.items()}
        for name, kinds in samples.items()
    }
    return {
        "mtu": mtu,
        "rounds": rounds,
        "seconds": seconds,
        "samples": samples,
        "medians": medians,
        "charms-to-hand": {
            kind: asdict(ratio(samples["charms"][kind], samples["by hand"][kind])) for kind in kinds
        },
        "charms-to-plain": {key: medians["charms"][key] / medians["plain"][key] for key in "14"},
    }


def bringup(bench: Bench, report: Report, sizes: Sequence[int]) -> dict[str, Any]:
    """Measure the time from VMs ready to the last charm idle, by number of VNFs, in parts."""
    result: dict[str, Any] = {}
    bench.onboard("vpn_endpoint_vnf", "vpn_basic_ns", *(f"{vnf}_vnf" for vnf in VNFS), "epc_ns")
    for size in sizes:
        load = os.getloadavg()[0]
        for service in BRINGUPS[size]:
            bench.start(*service)
        names = [name for name, _, _ in BRINGUPS[size]]
        seconds = max(map(bench.settled, names))
        spent = [bench.spent(name) for name in names]
        keys = ("charms-s", "processes", "vdus-s", "lab-s")
        figures = {key: sum(part[key] for part in spent) for key in keys}
        result[str(size)] = {
            "seconds": seconds,
            "load-before": load,
            **figures,
            "hooks": [part["hooks"] for part in spent],
            "round-trips": [trips for part in spent for trips in part["round-trips"]],
        }
        text = (
            "{charms-s:.1f} s of {processes} charm processes, {vdus-s:.1f} s of VDUs, {lab-s:.1f} s"
        )
        report.say(
            f"{size} VNFs: {seconds:.1f} s (load before: {load:.1f}); "
            f"{text.format_map(figures)} of the lab"
        )
        for name in names:
            bench.verb("ns-delete", name, "--wait")
    return result


def judge(document: dict[str, Any]) -> list[Goal]:
    goals = []
    ratios = document.get("tunnel", {}).get("charms-to-hand", {})
    for key, limit, what in (
        ("1", 0.98, "rate"), ("4", 0.98, "rate"),
        ("cpu1", 1.02, "processor time for a Gbit"), ("cpu4", 1.02, "processor time for a Gbit"),
    ):  # fmt: skip
        if key in ratios:
            compare = Goal.at_least if what == "rate" else Goal.at_most
            name = f"{what}, charms' to by hand's, {key[-1]} stream(s)"
            goals.append(compare(name, Estimate(**ratios[key]), limit))
    brought = document.get("bringup", {})
    for count, what, limit in (("5", "EPC", 10), ("10", "two EPCs", 20)):
        if count in brought:
            goal = f"{what}: VMs ready to all idle"
            goals.append(Goal.below(goal, brought[count]["seconds"], limit, "s"))
    if trips := [n for part in brought.values() for n in part["round-trips"]]:
        most = f"{max(trips)} (median {statistics.median(trips):.0f}, of {len(trips)} reconciles)"
        goals.append(Goal("SSH round trips per reconcile", "<= 3", most, max(trips) <= 3))
    return goals


#: Benchmarks that have their own command line.
SUITES = {
    "gateway": "benchmarks.gateway.command",
    "hot-standby": "benchmarks.hot_standby",
    "instances": "benchmarks.instances",
    "ipsec-scale": "benchmarks.ipsec_scale",
    "machines": "benchmarks.machines",
    "n3iwf": "benchmarks.n3iwf",
    "peers": "benchmarks.peers",
    "rotation": "benchmarks.rotation",
}


#: After "\b" click breaks no line; it would do so inside of a name.
@command("bench", epilog=f"\b\nBenchmarks with options of their own:\n{' '.join(SUITES)}")
@click.version_option(package_name="osm-vpnaas")
@click.argument("what", type=click.Choice(["all", "tunnel", "bringup"]), default="all")
@click.option("--rounds", type=click.IntRange(1), default=10, help="Repetitions of `tunnel`.")
@click.option("--seconds", type=click.IntRange(1), default=3, help="Duration of each iperf3 run.")
@counts("--vnfs", "2,5,10", "Services of `bringup`.", allowed=list(BRINGUPS))
def main(report: Report, what: str, rounds: int, seconds: int, vnfs: list[int]) -> None:
    """Measure and print figures beside their baselines and goals."""
    document = report.document
    document |= dataplane() | {"cipher": "ChaCha20-Poly1305"}
    with Bench() as bench:
        if what != "bringup":
            document["tunnel"] = tunnel(bench, report, rounds, seconds)
        if what != "tunnel":
            document["bringup"] = bringup(bench, report, vnfs)
    if "tunnel" in document:
        medians = [{"of": name, **kinds} for name, kinds in document["tunnel"]["medians"].items()]
        report.results("TCP rate and delay, medians of one run", medians)
    report.goals(judge(document))
    report.say("{backend} {version}".format_map(document["dataplane"]))


def suite() -> None:
    clean_up_when_ended()
    module = SUITES.get(sys.argv[1]) if len(sys.argv) > 1 else None
    if module is None:
        main()
        return
    importlib.import_module(module).main(sys.argv[2:], prog_name=f"bench {sys.argv[1]}")


if __name__ == "__main__":
    suite()
