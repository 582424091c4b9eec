"""A lab of a benchmark's own, and the consoles of its VDUs."""

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import click

from experiments.on_the_lab import console
from experiments.testbed import dashed
from lab.vim.account import Vim
from lab.vim.cgroups import cgroup2_mounts
from lab.vim.dataplane import probe
from operate.client import Client

DIST = Path(__file__).resolve().parents[1] / "dist"
TRIPS = re.compile(r"reconciled in (\d+) round trips and ([\d.]+) s")
RAN = re.compile(r" ran (action )?(\S+)(?: hook|.*,) in ([\d.]+) s of processor time")
#: Addresses of both ends below the tunnels.
UNDERLAY = {"server": "192.168.100.11", "client": "192.168.100.12"}
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

    def __enter__(self) -> "Bench":
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

    def action(self, ns: str, vnf: str, primitive: str, **params: object) -> dict[str, Any]:
        """Run a day-2 primitive of a service; return its JSON output."""
        return replace(self.client, timeout=1800.0).action(ns, vnf, primitive, dashed(params))

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
            members = json.loads(self.verb("vnf-list", "--ns", name))
            ids = [vdur["vim-id"] for member in members for vdur in member["vdur"]]
            found = (mount.glob(f"*/{id}/cpu.stat") for mount in cgroup2_mounts() for id in ids)
            self._usage[name] = [*chain.from_iterable(found)]
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


def dataplane() -> dict[str, Any]:
    """Return what carries WireGuard's tunnels on this machine, for a report."""
    plane = probe()
    return {"dataplane": {"backend": plane.backend, "version": plane.version}}


def in_turn(names: Iterable[str], number: int) -> list[str]:
    """Return names in the order of a round: each round begins with the next one."""
    order = list(names)
    first = number % len(order)
    return order[first:] + order[:first]
