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
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks.report import Goal, header, show_goals, write
from experiments.testbed import VNFS
from lab.vim import Vim, probe
from lab.vim.cgroups import cgroup2_mounts
from operate.client import Client
from operate.ending import clean_up_when_ended

SERVICE, PARAMETERS = "epc_ns", "epc"
TRIPS = re.compile(r"reconciled in (\d+) round trips and ([\d.]+) s")
RAN = re.compile(r" ran (action )?(\S+)(?: hook|.*,) in ([\d.]+) s of processor time")
HAND = {"server": "10.99.0.1", "client": "10.99.0.2"}
HAND_PORT = 52000


class Bench:
    """A separate lab for benchmarks, controlled with osm-lab's verbs."""

    def __init__(self, home: Path, dist: Path, console: Console, machines: bool = False) -> None:
        """Use a lab directory; with `machines`, VDUs are virtual machines, which are slower."""
        self.home = home
        self.dist = dist
        self.console = console
        self.machines = machines
        # No update-status hooks, because they take processor time from a measurement.
        environment = {"OSMLAB_UPDATE_STATUS_INTERVAL": "0"}
        if machines:
            environment["OSMLAB_TIMEOUT_FACTOR"] = os.environ.get("OSMLAB_TIMEOUT_FACTOR", "0.5")
        self.client = Client(
            (sys.executable, "-m", "lab.cli", "--home", str(home)),
            timeout=600.0 if machines else 180.0,
            pause=0.3,
            environment=environment,
        )

    def verb(self, *words: str) -> str:
        """Run a verb of osm-lab; return the JSON it printed."""
        return replace(self.client, command=(*self.client.command, "--json")).verb(*words)

    def onboard(self, *names: str) -> None:
        """Create a VIM account and onboard packages."""
        kind = ("--account_type", "qemu") if self.machines else ()
        self.verb("vim-create", "--name", "lab", *kind)
        self.packages(*names)

    def packages(self, *names: str) -> None:
        for name in names:
            verb = "nspkg-create" if name.endswith("_ns") else "vnfpkg-create"
            self.verb(verb, str(self.dist / f"{name}.tar.gz"))

    def clean(self) -> None:
        """Remove the lab, and its directory if nothing else is in it."""
        self.verb("lab", "clean")
        if not any(self.home.iterdir()):
            self.home.rmdir()

    def start(self, name: str, nsd: str, parameters: str, *more: str) -> None:
        file = str(self.dist / "params" / f"{parameters}.yaml")
        names = ("--ns_name", name, "--nsd_name", nsd, "--vim_account", "lab")
        self.verb("ns-create", *names, "--config_file", file, *more)

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

    def console_of(self, ns: str, vnf: str) -> Callable[..., str]:
        """Return a function that runs a command as root in a VNF's VDU."""
        record = json.loads(self.verb("vnf-show", f"{ns}/{vnf}"))
        vim = Vim.open(self.home, "lab")
        server = record["vdur"][0]["vim-id"]

        def run(*argv: str, text: str | None = None, timeout: float = 120.0) -> str:
            done = vim.console(server, list(argv), input=text, timeout=timeout)
            if done.returncode:
                raise click.ClickException(f"{vnf}: {argv[0]} failed: {done.stderr.strip()}")
            return str(done.stdout)

        return run

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
        vdus = 0
        for member in json.loads(self.verb("vnf-list", "--ns", name)):
            for vdur in member["vdur"]:
                for mount in cgroup2_mounts():
                    for file in mount.glob(f"*/{vdur['vim-id']}/cpu.stat"):
                        vdus += int(file.read_text().split()[1])
        return {
            "charms-s": sum(map(sum, hooks.values())),
            "processes": sum(map(len, hooks.values())),
            "vdus-s": vdus / 1e6,
            "lab-s": record["lab"]["processor-seconds"],
            "hooks": {hook: [len(took), sum(took)] for hook, took in sorted(hooks.items())},
            "round-trips": trips,
        }


def by_hand(near: Callable[..., str], far: Callable[..., str], mtu: int) -> None:
    """Set up a second tunnel by hand, with `wg`: same daemon, MTU and underlay as the first."""
    keys = {}
    for name, run in (("client", near), ("server", far)):
        kernel = run("sh", "-c", "ip link add hand0 type wireguard 2>/dev/null && echo y || echo n")
        if kernel.strip() == "n":
            run("wireguard-go", "hand0")
        script = "umask 077; wg genkey > /run/hand.key; wg pubkey < /run/hand.key"
        keys[name] = run("sh", "-c", script).strip()
    ends = {"client": ("192.168.100.12", near), "server": ("192.168.100.11", far)}
    for name, other in (("client", "server"), ("server", "client")):
        run = ends[name][1]
        peer = ("peer", keys[other], "endpoint", f"{ends[other][0]}:{HAND_PORT}")
        allowed = ("allowed-ips", f"{HAND[other]}/32")
        settings = ("listen-port", str(HAND_PORT), "private-key", "/run/hand.key")
        run("wg", "set", "hand0", *settings, *peer, *allowed)
        run("ip", "address", "add", f"{HAND[name]}/24", "dev", "hand0")
        run("ip", "link", "set", "hand0", "mtu", str(mtu), "up")


def rate(
    near: Callable[..., str], far: Callable[..., str], address: str, streams: int, seconds: int
) -> float:
    """Return Mbit/s of received TCP payload (iperf3's sum_received)."""
    far("sh", "-c", f"iperf3 --server --one-off --daemon --bind {address} --port 5300; sleep 0.3")
    words = ("--client", address, "--port", "5300", "--time", str(seconds), "--json")
    report = json.loads(near("iperf3", *words, "--parallel", str(streams)))
    return float(report["end"]["sum_received"]["bits_per_second"]) / 1e6


def delay(near: Callable[..., str], address: str) -> float:
    """Return the mean round trip time in ms of 50 echoes."""
    shown = near("ping", "-n", "-q", "-c", "50", "-i", "0.02", address)
    match = re.search(r"= [\d.]+/([\d.]+)/", shown)
    if match is None:
        raise click.ClickException(f"ping to {address} printed no times")
    return float(match.group(1))


def tunnel(bench: Bench, rounds: int, seconds: int) -> dict[str, Any]:
    """Compare the charms' tunnel with one made by hand and with the bare underlay."""
    bench.onboard("vpn_endpoint_vnf", "vpn_basic_ns")
    bench.start("vpn", "vpn_basic_ns", "vpn_basic", "--wait")
    near, far = bench.console_of("vpn", "client"), bench.console_of("vpn", "server")
    mtu = int(json.loads(near("ip", "-j", "link", "show", "wg-vpn-client"))[0]["mtu"])
    by_hand(near, far, mtu)
    targets = {"plain": "192.168.100.11", "charms": "10.77.0.1", "by hand": HAND["server"]}
    samples: dict[str, dict[str, list[float]]] = {
        name: {"1": [], "4": [], "rtt": []} for name in targets
    }
    for number in range(rounds):
        # The order rotates, so that every target is first in turn.
        order = list(targets.items())
        for name, address in order[number % 3 :] + order[: number % 3]:
            bench.console.print(f"round {number + 1}/{rounds}: {name}", highlight=False)
            for streams in (1, 4):
                measured = rate(near, far, address, streams, seconds)
                samples[name][str(streams)].append(measured)
            samples[name]["rtt"].append(delay(near, address))
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
        "charms-to-hand": {key: medians["charms"][key] / medians["by hand"][key] for key in "14"},
        "charms-to-plain": {key: medians["charms"][key] / medians["plain"][key] for key in "14"},
    }


def bringup(bench: Bench, counts: Sequence[int] = (2, 5, 10)) -> dict[str, Any]:
    """Measure the time from VMs ready to the last charm idle, for 2, 5 and 10 VNFs, in parts."""
    result: dict[str, Any] = {}
    if not (bench.home / "vims").exists():
        bench.onboard("vpn_endpoint_vnf", "vpn_basic_ns")
    bench.packages(*(f"{vnf}_vnf" for vnf in VNFS), SERVICE)
    for count, services in (
        (2, [("two", "vpn_basic_ns", "vpn_basic")]),
        (5, [("five", SERVICE, PARAMETERS)]),
        (10, [("ten-a", SERVICE, PARAMETERS), ("ten-b", SERVICE, PARAMETERS)]),
    ):
        if count not in counts:
            continue
        load, began = os.getloadavg()[0], time.monotonic()
        for name, nsd, parameters in services:
            bench.start(name, nsd, parameters)
        seconds = max(bench.settled(name) for name, _, _ in services)
        took = time.monotonic() - began
        spent = [bench.spent(name) for name, _, _ in services]
        keys = ("charms-s", "processes", "vdus-s", "lab-s")
        result[str(count)] = {
            "seconds": seconds,
            "load-before": load,
            "since-order-s": took,
            **{key: sum(part[key] for part in spent) for key in keys},
            "hooks": [part["hooks"] for part in spent],
            "round-trips": [trips for part in spent for trips in part["round-trips"]],
        }
        shown = (
            "{charms-s:.1f} s of {processes} charm processes, {vdus-s:.1f} s of VDUs, {lab-s:.1f} s"
        )
        text = shown.format_map(result[str(count)])
        bench.console.print(
            f"{count} VNFs: {seconds:.1f} s (load before: {load:.1f}); {text} of the lab"
        )
        for name, _, _ in services:
            bench.verb("ns-delete", name, "--wait")
    return result


def show(document: dict[str, Any], console: Console) -> None:
    """Print the goals, and whether they were met."""
    if "tunnel" in document:
        view = Table(title="TCP rate and delay, medians of one run")
        for heading in ("", "1 stream Mbit/s", "4 streams Mbit/s", "RTT ms"):
            view.add_column(heading, justify="right" if heading else "left")
        for name, values in document["tunnel"]["medians"].items():
            row = (f"{values['1']:.0f}", f"{values['4']:.0f}", f"{values['rtt']:.3f}")
            view.add_row(name, *row)
        console.print(view)
    show_goals(document["goals"], console)


def judge(document: dict[str, Any]) -> list[Goal]:
    goals = []
    if "tunnel" in document:
        for key, value in document["tunnel"]["charms-to-hand"].items():
            name = f"charms' rate to by-hand rate, {key} stream(s)"
            goals.append(Goal(name, ">= 0.98", f"{value:.3f}", value >= 0.98))
    if "bringup" in document:
        for count, what, limit in (("5", "EPC", 10), ("10", "two EPCs", 20)):
            if count in document["bringup"]:
                seconds = document["bringup"][count]["seconds"]
                goal = f"{what}: VMs ready to all idle"
                goals.append(Goal(goal, f"< {limit} s", f"{seconds:.1f} s", seconds < limit))
    trips = [n for part in document.get("bringup", {}).values() for n in part["round-trips"]]
    if trips:
        most = f"{max(trips)} (median {statistics.median(trips):.0f}, of {len(trips)} reconciles)"
        goals.append(Goal("SSH round trips per reconcile", "<= 3", most, max(trips) <= 3))
    return goals


def counts_of(context: click.Context, parameter: click.Parameter, text: str) -> list[int]:
    """Read the value of --vnfs.

    Raises:
        click.BadParameter: a service of that size is not measured.
    """
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in ("2", "5", "10"):
            raise click.BadParameter(f"'{word}' is none of 2, 5, 10, separated by commas")
    return [int(word) for word in words]


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


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"Benchmarks with options of their own: {', '.join(SUITES)}.",
)
@click.version_option(package_name="osm-vpnaas")
@click.argument("what", type=click.Choice(["all", "tunnel", "bringup"]), default="all")
@click.option(
    "--rounds",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Repetitions of `tunnel`.",
)
@click.option(
    "--seconds",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Duration of each iperf3 run.",
)
@click.option(
    "--vnfs",
    default="2,5,10",
    show_default=True,
    callback=counts_of,
    help="Services of `bringup`.",
)
@click.option(
    "--dist",
    type=click.Path(path_type=Path),
    default=Path("dist"),
    show_default=True,
    help="Folder of the built packages.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Folder of the results.",
)
def main(what: str, rounds: int, seconds: int, vnfs: list[int], dist: Path, out: Path) -> None:
    """Measure and print figures beside their baselines and goals."""
    console = Console()
    bench = Bench(Path(tempfile.mkdtemp(prefix="osm-bench-")), dist, console)
    dataplane = probe()
    document = header() | {
        "dataplane": {"backend": dataplane.backend, "version": dataplane.version},
        "cipher": "ChaCha20-Poly1305",
    }
    parts = {
        "tunnel": lambda: tunnel(bench, rounds, seconds),
        "bringup": lambda: bringup(bench, vnfs),
    }
    try:
        for name in [part for part in parts if what in ("all", part)]:
            document[name] = parts[name]()
            # Written at once: the next one may fail.
            document["goals"] = judge(document)
            file = write("bench", document, out)
    finally:
        bench.clean()
    show(document, console)
    console.print(f"{dataplane.backend} {dataplane.version}; everything measured: {file}")


def suite() -> None:
    """Run the benchmark that the first argument names."""
    clean_up_when_ended()
    module = SUITES.get(sys.argv[1]) if len(sys.argv) > 1 else None
    if module is None:
        main()
        return
    command = importlib.import_module(module).main
    helps = ["-h", "--help"]
    command(sys.argv[2:], prog_name=f"bench {sys.argv[1]}", help_option_names=helps)


if __name__ == "__main__":
    suite()
