"""`python -m benchmarks`: the cost of the charms' tunnels, compared inside one run.

Absolute rates depend on the machine more than on this project. So every figure has its own baseline
from the same run, interleaved and repeated. These programs are no tests.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from benchmarks.report import Goal, Report, command, counts
from experiments.stats import Estimate, ratio
from experiments.testbed import VNFS
from lab.vim import Vim, probe
from lab.vim.cgroups import cgroup2_mounts
from operate.client import Client
from operate.ending import clean_up_when_ended

DIST = Path(__file__).resolve().parents[1] / "dist"
#: Services of `bringup` by their number of VNFs; each as (name, NSD, parameters).
BRINGUPS = {
    2: [("two", "vpn_basic_ns", "vpn_basic")],
    5: [("five", "epc_ns", "epc")],
    10: [("ten-a", "epc_ns", "epc"), ("ten-b", "epc_ns", "epc")],
}
TRIPS = re.compile(r"reconciled in (\d+) round trips and ([\d.]+) s")
RAN = re.compile(r" ran (action )?(\S+)(?: hook|.*,) in ([\d.]+) s of processor time")
HAND = {"server": "10.99.0.1", "client": "10.99.0.2"}
HAND_PORT = 52000
#: Addresses of both ends below the tunnels, and of the server in the charms' tunnel.
UNDERLAY = {"server": "192.168.100.11", "client": "192.168.100.12"}
CHARMS = "10.77.0.1"
Run = Callable[..., str]


class Bench:
    """A separate lab for benchmarks, controlled with osm-lab's verbs; leaving its block removes it.

    With `machines`, VDUs are virtual machines, which are slower.
    """

    def __init__(self, machines: bool = False) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="osm-bench-"))
        self.machines = machines
        self._usage: dict[str, list[Path]] = {}
        # No update-status hooks, because they take processor time from a measurement.
        environment = {"OSMLAB_UPDATE_STATUS_INTERVAL": "0"}
        if machines:
            environment["OSMLAB_TIMEOUT_FACTOR"] = os.environ.get("OSMLAB_TIMEOUT_FACTOR", "0.5")
        self.client = Client(
            (sys.executable, "-m", "lab.cli", "--home", str(self.home)),
            timeout=600.0 if machines else 180.0,
            pause=0.3,
            environment=environment,
        )

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the lab, and its directory if nothing else is in it."""
        self.verb("lab", "clean")
        if not any(self.home.iterdir()):
            self.home.rmdir()

    def verb(self, *words: str) -> str:
        """Run a verb of osm-lab; return the JSON it printed."""
        return replace(self.client, command=(*self.client.command, "--json")).verb(*words)

    def onboard(self, *names: str) -> None:
        """Onboard packages; the first time create a VIM account."""
        if not (self.home / "vims").exists():
            kind = ("--account_type", "qemu") if self.machines else ()
            self.verb("vim-create", "--name", "lab", *kind)
        for name in names:
            verb = "nspkg-create" if name.endswith("_ns") else "vnfpkg-create"
            self.verb(verb, str(DIST / f"{name}.tar.gz"))

    def start(self, name: str, nsd: str, parameters: str, *more: str) -> None:
        """Order a service with a parameter file of `dist/`, or a file at any absolute path."""
        file = DIST / "params" / f"{parameters}.yaml"
        names = ("--ns_name", name, "--nsd_name", nsd, "--vim_account", "lab")
        self.verb("ns-create", *names, "--config_file", str(file), *more)

    def settled(self, name: str, limit: float = 600.0) -> float:
        """Wait for a service; return the seconds from all VMs ready to all charms idle."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            record = json.loads(self.verb("ns-show", name))
            seconds = (record.get("lab") or {}).get("seconds-vms-ready-to-charms-idle")
            if seconds is not None:
                return float(seconds)
            if record["nsState"] == "BROKEN":
                raise click.ClickException(f"{name} is BROKEN: {record.get('errorDetail')}")
            time.sleep(1)
        raise click.ClickException(f"{name} is not up after {limit:.0f} s")

    def endpoints(self) -> dict[str, Run]:
        """Instantiate `vpn_basic_ns`; return the consoles of its ends."""
        self.onboard("vpn_endpoint_vnf", "vpn_basic_ns")
        self.start("vpn", "vpn_basic_ns", "vpn_basic", "--wait")
        return {name: self.console_of("vpn", name) for name in UNDERLAY}

    def console_of(self, ns: str, vnf: str) -> Run:
        """Return a function that runs a command as root in a VNF's VDU."""
        record = json.loads(self.verb("vnf-show", f"{ns}/{vnf}"))
        return console(Vim.open(self.home, "lab"), record["vdur"][0]["vim-id"], vnf)

    def vdu_seconds(self, name: str) -> float:
        """Return the processor time of a service's VDUs since their boot, in seconds."""
        if name not in self._usage:
            ids = [
                vdur["vim-id"]
                for member in json.loads(self.verb("vnf-list", "--ns", name))
                for vdur in member["vdur"]
            ]
            places = [
                mount.glob(f"*/{each}/cpu.stat") for each in ids for mount in cgroup2_mounts()
            ]
            self._usage[name] = [file for place in places for file in place]
        return sum(int(file.read_text().split()[1]) for file in self._usage[name]) / 1e6

    def spent(self, name: str) -> dict[str, Any]:
        """Return the processor time of a service since its instantiation began, in parts.

        Other work on the machine does not count. The parts in seconds are: the charms, with their
        number of processes, and each hook and action; the VDUs, with their boot; the lab itself.
        The result also has the SSH round trips of each reconcile.
        """
        record = json.loads(self.verb("ns-show", name))
        hooks: dict[str, list[float]] = {}
        trips: list[int] = []
        for log in self.home.glob(f"vca/models/{record['_id']}/logs/*.log*"):
            text = log.read_text()
            for found in RAN.finditer(text):
                hooks.setdefault((found[1] or "") + found[2], []).append(float(found[3]))
            trips += [int(found[1]) for found in TRIPS.finditer(text)]
        return {
            "charms-s": sum(map(sum, hooks.values())),
            "processes": sum(map(len, hooks.values())),
            "vdus-s": self.vdu_seconds(name),
            "lab-s": record["lab"]["processor-seconds"],
            "hooks": {hook: [len(took), sum(took)] for hook, took in sorted(hooks.items())},
            "round-trips": trips,
        }


def console(vim: Vim, server: str, name: str) -> Run:
    """Return a function that runs a command as root on a VDU's console; `name` is for errors."""

    def run(*argv: str, text: str | None = None, timeout: float = 120.0) -> str:
        done = vim.console(server, list(argv), input=text, timeout=timeout)
        if done.returncode:
            raise click.ClickException(f"{name}: {argv[0]} failed: {done.stderr.strip()}")
        return str(done.stdout)

    return run


def dataplane() -> dict[str, Any]:
    """Return what carries WireGuard's tunnels on this machine, for a report."""
    plane = probe()
    return {"dataplane": {"backend": plane.backend, "version": plane.version}}


def in_turn(names: Iterable[str], number: int) -> list[str]:
    """Return names in the order of a round: each round begins with the next one."""
    order = list(names)
    first = number % len(order)
    return order[first:] + order[:first]


def by_hand(ends: Mapping[str, Run]) -> int:
    """Set up a second tunnel by hand: daemon, MTU and underlay of the first; return the MTU."""
    device = json.loads(ends["client"]("ip", "-j", "link", "show", "wg-vpn-client"))[0]
    keys = {}
    for name, run in ends.items():
        kernel = run("sh", "-c", "ip link add hand0 type wireguard 2>/dev/null && echo y || echo n")
        if kernel.strip() == "n":
            run("wireguard-go", "hand0")
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
    "epc": "benchmarks.epc",
    "gateway": "benchmarks.gateway.command",
    "hot-standby": "benchmarks.hot_standby",
    "instances": "benchmarks.instances",
    "ipsec-scale": "benchmarks.ipsec_scale",
    "machines": "benchmarks.machines",
    "n3iwf": "benchmarks.n3iwf",
    "peers": "benchmarks.peers",
    "rotation": "benchmarks.rotation",
}


@command("bench", epilog=f"Benchmarks with options of their own: {', '.join(SUITES)}.")
@click.version_option(package_name="osm-vpnaas")
@click.argument("what", type=click.Choice(["all", "tunnel", "bringup"]), default="all")
@click.option(
    "--rounds",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Repetitions of `tunnel`.",
)
@click.option(
    "--seconds",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Duration of each iperf3 run.",
)
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
        report.table(
            "TCP rate and delay, medians of one run",
            ("", "1 stream Mbit/s", "4 streams Mbit/s", "s/Gbit, 1", "s/Gbit, 4", "RTT ms"),
            (
                (
                    name,
                    *(f"{values[streams]:.0f}" for streams in "14"),
                    *(f"{values[kind]:.2f}" for kind in ("cpu1", "cpu4")),
                    f"{values['rtt']:.3f}",
                )
                for name, values in document["tunnel"]["medians"].items()
            ),
        )
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
