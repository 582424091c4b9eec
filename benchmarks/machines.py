"""`./run bench machines`: comparison of data planes between the same two virtual machines.

First the kernel's WireGuard and ESP, then, with the kernel's modules blocked, wireguard-go and
strongSwan's own ESP (kernel-libipsec). The charms set up each, and a second tunnel is set up by
hand with the distribution's tools; both are measured in turn. Processor time is QEMU's. So on a
machine without KVM it includes the emulation, and only ratios are meaningful.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks.__main__ import HAND, Bench, by_hand, delay, rate
from benchmarks.report import Goal, header, show_goals, write
from lab.vim import Vim, probe
from lab.vim.qemu.accelerator import accelerator
from lab.vim.qemu.images import bake

GOAL = 0.98
CHARMS = "10.77.0.1"
ESP_HAND = {"server": "10.98.0.1", "client": "10.98.0.2"}
UNDERLAY = {"server": "192.168.100.11", "client": "192.168.100.12"}
LINKS = {"server": "vpn-server", "client": "vpn-client"}
INNER = {"server": "10.77.0.1/24", "client": "10.77.0.2/24"}
#: Name, technology, and whether the kernel has its modules.
PLANES = (
    ("kernel WireGuard", "wireguard", True),
    ("kernel ESP", "ipsec", True),
    ("wireguard-go", "wireguard", False),
    ("kernel-libipsec", "ipsec", False),
)
_BLOCK = """
printf 'install %s /bin/false\\n' wireguard esp4 esp6 xfrm_interface >/etc/modprobe.d/bench.conf
ip xfrm state flush
ip xfrm policy flush
rmmod wireguard esp4 xfrm_interface 2>/dev/null
rm -f /run/osm-vpnaas-esp /run/osm-vpnaas-xfrm
! ip link add vpnaas-bench type wireguard 2>/dev/null
"""
_CONNECTION = """connections {{
  hand {{
    version = 2
    local_addrs = {own}
    remote_addrs = {other}
    proposals = aes256gcm16-prfsha384-curve25519
    local {{
      auth = psk
      id = hand-{name}
    }}
    remote {{
      auth = psk
    }}
    children {{
      hand {{
        local_ts = {inner}/32
        remote_ts = {far}/32
        esp_proposals = aes256gcm16-curve25519
      }}
    }}
  }}
}}
secrets {{
  ike-hand {{
    secret = only for this measurement
  }}
}}
"""
Run = Callable[..., str]


class Machines(Bench):
    """Two virtual machines with the smallest service."""

    def __init__(self, dist: Path, console: Console) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="osm-bench-")), dist, console, machines=True)

    def bring_up(self) -> dict[str, Run]:
        """Instantiate the service; return for each VDU a function that runs a command there."""
        self.onboard("vpn_endpoint_vnf", "vpn_basic_ns")
        self.start("vpn", "vpn_basic_ns", "vpn_basic", "--wait")
        return {name: self.console_of("vpn", name) for name in LINKS}

    def processor_seconds(self) -> float:
        """Return the processor time of both QEMU processes so far, in seconds."""
        ticks = 0
        for server in Vim.open(self.home, "lab").servers():
            pid = (self.home / "vims/lab/servers" / server.id / "pid").read_text().strip()
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def by_charms(self, ends: Mapping[str, Run], technology: str) -> None:
        """Let the charms set up the link again, with a technology."""
        for name, link in LINKS.items():
            params = {"link": link, "technology": technology, "inner-address": INNER[name]}
            params |= {"underlay-interface": "ens4"}
            self.client.action("vpn", name, "configure", params)
        _answers(ends["client"], CHARMS)


def _answers(near: Run, address: str) -> None:
    end = time.monotonic() + 180
    while "1 received" not in near("sh", "-c", f"ping -n -c 1 -W 2 {address} || true"):
        if time.monotonic() > end:
            raise click.ClickException(f"{address} does not answer in 180 s")
        time.sleep(1)


def esp_by_hand(ends: Mapping[str, Run]) -> None:
    """Set up a tunnel in the running daemon, by hand with a configuration file."""
    for name, other in (("server", "client"), ("client", "server")):
        text = _CONNECTION.format(
            name=name, own=UNDERLAY[name], other=UNDERLAY[other],
            inner=ESP_HAND[name], far=ESP_HAND[other],
        )  # fmt: skip
        run = ends[name]
        run("sh", "-c", f"ip address replace {ESP_HAND[name]}/32 dev lo")
        run("sh", "-c", "cat >/etc/swanctl/conf.d/hand.conf", text=text)
        run("swanctl", "--load-all", "--noprompt")
    ends["client"]("swanctl", "--initiate", "--child", "hand", timeout=180.0)
    _answers(ends["client"], ESP_HAND["server"])


def about(ends: Mapping[str, Run], technology: str, kernel: bool) -> dict[str, str]:
    """Return backend, version and cipher of a data plane, from the client's VDU."""
    near = ends["client"]
    version = f"Linux {near('uname', '-r').strip()}"
    if technology == "wireguard":
        if not kernel:
            version = near("sh", "-c", "wireguard-go --version | head -n 1").strip()
        return {"version": version, "cipher": "ChaCha20-Poly1305"}
    daemon = "strongSwan " + near("dpkg-query", "-W", "-f", "${Version}", "charon-systemd")
    # "ESP:AES_GCM_16-256" or "ESP in UDP:…" of each child.
    ciphers = set(re.findall(r"INSTALLED, .*?, ESP[^:]*:([^/\s]+)", near("swanctl", "--list-sas")))
    return {
        "version": f"{version}, {daemon}" if kernel else daemon,
        "cipher": " and ".join(sorted(ciphers)),
    }


def block_modules(ends: Mapping[str, Run], wireguard_go: Path) -> None:
    """Block the modules of WireGuard and ESP in both machines, and install wireguard-go."""
    program = wireguard_go.read_bytes()
    for run in ends.values():
        run("sh", "-c", "ip link delete hand0 || true; swanctl --terminate --ike hand || true")
        run("sh", "-c", "cat >/usr/bin/wireguard-go; chmod 755 /usr/bin/wireguard-go",
            text=program, timeout=300.0)  # fmt: skip
        run("systemctl", "stop", "strongswan")
        run("sh", "-c", _BLOCK)


def measure(bench: Machines, rounds: int, seconds: int) -> dict[str, Any]:
    ends = bench.bring_up()
    near, far = ends["client"], ends["server"]
    samples: dict[str, Any] = {"plain": _samples(bench, ends, {"plain": UNDERLAY["server"]},
                                               rounds, seconds)["plain"]}  # fmt: skip
    for plane, technology, kernel in PLANES:
        if not kernel and plane == "wireguard-go":
            program = probe().binary
            if program is None:
                bench.console.print("this machine has no wireguard-go: nothing without the kernel")
                break
            bench.by_charms(ends, "none")
            block_modules(ends, program)
        bench.console.print(f"{plane}: the charms set it up", highlight=False)
        if plane != "kernel WireGuard":
            bench.by_charms(ends, technology)
        if technology == "wireguard":
            device = json.loads(near("ip", "-j", "link", "show", "wg-vpn-client"))[0]
            by_hand(near, far, int(device["mtu"]))
            targets = {"charms": CHARMS, "by hand": HAND["server"]}
        else:
            esp_by_hand(ends)
            targets = {"charms": CHARMS, "by hand": ESP_HAND["server"]}
        answer = about(ends, technology, kernel)
        samples[plane] = _samples(bench, ends, targets, rounds, seconds) | answer
        shown = {k: round(v["mbps"], 1) for k, v in samples[plane].items() if k in targets}
        bench.console.print(f"{plane}: {shown} Mbit/s", highlight=False)
    return samples


def _samples(
    bench: Machines, ends: Mapping[str, Run], targets: Mapping[str, str], rounds: int, seconds: int
) -> dict[str, Any]:
    """Return medians by target: Mbit/s, round trip in ms, processor seconds for a Gbit."""
    samples: dict[str, list[tuple[float, float, float]]] = {name: [] for name in targets}
    order = list(targets.items())
    for number in range(rounds):
        for name, address in order if number % 2 else reversed(order):
            before = bench.processor_seconds()
            mbps = rate(ends["client"], ends["server"], address, 1, seconds)
            spent = bench.processor_seconds() - before
            trip = delay(ends["client"], address)
            samples[name].append((mbps, trip, spent / (mbps * seconds / 1000)))
    medians = {
        name: dict(
            zip(
                ("mbps", "rtt_ms", "cpu_s_per_gbit"),
                (statistics.median(column) for column in zip(*rows, strict=True)),
                strict=True,
            )
        )
        for name, rows in samples.items()
    }
    return {**medians, "samples": samples}


@click.command(name="machines")
@click.option("--rounds", default=3, show_default=True, help="Repetitions.")
@click.option("--seconds", default=5, show_default=True, help="Duration of each iperf3 run.")
@click.option("--dist", type=click.Path(path_type=Path), default=Path("dist"), show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), show_default=True)
def main(rounds: int, seconds: int, dist: Path, out: Path) -> None:
    """Compare kernel and userspace data planes, by hand and by charm, in the same two VMs."""
    console = Console()
    bake(console.print)
    how = "KVM" if accelerator().real else "emulated processors (TCG)"
    document = header() | {"machines": how}
    bench = Machines(dist, console)
    try:
        document["planes"] = measure(bench, rounds, seconds)
    finally:
        bench.clean()
    planes = {name: plane for name, plane in document["planes"].items() if name != "plain"}
    view = Table(title=f"Data planes between two virtual machines, {how}: medians of one run")
    for heading in ("", "Mbit/s: charm, hand", "RTT ms: charm, hand", "CPU s/Gbit: charm, hand"):
        view.add_column(heading, justify="right" if heading else "left")
    plain = document["planes"]["plain"]
    view.add_row("none", *(f"{plain[key]:.2f}" for key in ("mbps", "rtt_ms", "cpu_s_per_gbit")))
    for name, plane in planes.items():
        cells = [
            f"{plane['charms'][key]:.2f}, {plane['by hand'][key]:.2f}"
            for key in ("mbps", "rtt_ms", "cpu_s_per_gbit")
        ]
        view.add_row(f"{name} ({plane['version']}, {plane['cipher']})", *cells)
    console.print(view)
    goals = []
    for name, plane in planes.items():
        ratio = plane["charms"]["mbps"] / plane["by hand"]["mbps"]
        goals.append(Goal(f"{name}: charm over by hand", f">= {GOAL}", f"{ratio:.2f}",
                          ratio >= GOAL))  # fmt: skip
    show_goals(goals, console)
    document["goals"] = goals
    console.print(f"everything measured: {write('machines', document, out)}")
