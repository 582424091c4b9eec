"""`./run bench machines`: comparison of data planes between the same two virtual machines.

First the kernel's WireGuard and ESP, then, with the kernel's modules blocked, wireguard-go and
strongSwan's own ESP (kernel-libipsec). The charms set up each, and a second tunnel is set up by
hand with the distribution's tools; both are measured in turn. Processor time is QEMU's. So on a
machine without KVM it includes the emulation, and only ratios are meaningful.
"""

import re
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from string import Template
from typing import Any

import psutil

from benchmarks.__main__ import CHARMS, HAND, by_hand, delay, rate
from benchmarks.bench import UNDERLAY, Bench, Run, in_turn
from benchmarks.report import Goal, Report, command
from lab.vim.account import Vim
from lab.vim.dataplane import probe
from lab.vim.qemu.accelerator import accelerator
from lab.vim.qemu.images import bake
from testbed.netns import wait

GOAL = 0.98
ROUNDS, SECONDS = 3, 5
FIGURES = ("mbps", "rtt_ms", "cpu_s_per_gbit")
ESP_HAND = {"server": "10.98.0.1", "client": "10.98.0.2"}
INNER = {"server": "10.77.0.1/24", "client": "10.77.0.2/24"}
#: Name, technology, and whether the kernel has its modules.
PLANES = (
    ("kernel WireGuard", "wireguard", True),
    ("kernel ESP", "ipsec", True),
    ("wireguard-go", "wireguard", False),
    ("kernel-libipsec", "ipsec", False),
)
_BLOCK = Path(__file__).with_name("block.sh").read_text(encoding="utf-8")
_CONNECTION = Template(Path(__file__).with_name("hand.conf").read_text(encoding="utf-8"))


def processor_seconds(bench: Bench) -> float:
    """Return the processor time of both QEMU processes so far, in seconds."""
    folder = bench.home / "vims/lab/servers"
    pids = [(folder / s.id / "pid").read_text() for s in Vim.open(bench.home, "lab").servers()]
    return sum(sum(psutil.Process(int(pid)).cpu_times()[:2]) for pid in pids)


def by_charms(bench: Bench, ends: Mapping[str, Run], technology: str) -> None:
    for name in ends:
        params = {"link": f"vpn-{name}", "technology": technology, "inner-address": INNER[name]}
        params |= {"underlay-interface": "ens4"}
        bench.client.action("vpn", name, "configure", params)
    _answers(ends["client"], CHARMS)


def _answers(near: Run, address: str) -> None:
    words = ("sh", "-c", f"ping -n -c 1 -W 2 {address} || true")
    wait(lambda: "1 received" in near(*words), 180, f"{address} does not answer", 1)


def esp_by_hand(ends: Mapping[str, Run]) -> None:
    """Set up a tunnel in the running daemon, by hand with a configuration file."""
    for name, other in (("server", "client"), ("client", "server")):
        text = _CONNECTION.substitute(
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


def measure(bench: Bench, planes: dict[str, Any], say: Callable[[str], None]) -> None:
    """Measure the underlay and each data plane into `planes`."""
    ends = bench.endpoints()
    planes["plain"] = _samples(bench, ends, {"plain": UNDERLAY["server"]})["plain"]
    for plane, technology, kernel in PLANES:
        if not kernel and plane == "wireguard-go":
            program = probe().binary
            if program is None:
                say("this machine has no wireguard-go: nothing without the kernel")
                break
            by_charms(bench, ends, "none")
            block_modules(ends, program)
        say(f"{plane}: the charms set it up")
        if plane != "kernel WireGuard":
            by_charms(bench, ends, technology)
        if technology == "wireguard":
            by_hand(ends)
            targets = {"charms": CHARMS, "by hand": HAND["server"]}
        else:
            esp_by_hand(ends)
            targets = {"charms": CHARMS, "by hand": ESP_HAND["server"]}
        planes[plane] = _samples(bench, ends, targets) | about(ends, technology, kernel)
        shown = {name: round(planes[plane][name]["mbps"], 1) for name in targets}
        say(f"{plane}: {shown} Mbit/s")


def _samples(bench: Bench, ends: Mapping[str, Run], targets: Mapping[str, str]) -> Any:
    """Return medians by target: Mbit/s, round trip in ms, processor seconds for a Gbit."""
    samples: dict[str, list[tuple[float, float, float]]] = {name: [] for name in targets}
    for number in range(ROUNDS):
        for name in in_turn(targets, number):
            before = processor_seconds(bench)
            mbps = rate(ends, targets[name], 1, SECONDS)
            spent = processor_seconds(bench) - before
            trip = delay(ends, targets[name])
            samples[name].append((mbps, trip, spent / (mbps * SECONDS / 1000)))
    medians = {
        name: dict(zip(FIGURES, map(statistics.median, zip(*rows, strict=True)), strict=True))
        for name, rows in samples.items()
    }
    return {**medians, "samples": samples}


@command("machines")
def main(report: Report) -> None:
    """Compare kernel and userspace data planes, by hand and by charm, in the same two VMs."""
    bake(report.say)
    how = "KVM" if accelerator().real else "emulated processors (TCG)"
    planes: dict[str, Any] = {}
    report.document |= {"machines": how, "planes": planes}
    with Bench(machines=True) as bench:
        measure(bench, planes, report.say)
    plain = planes["plain"]
    rows = [("none", *(f"{plain[key]:.2f}" for key in FIGURES))]
    goals = []
    for name, plane in planes.items():
        if name == "plain":
            continue
        charms, hand = plane["charms"], plane["by hand"]
        cells = (f"{charms[key]:.2f}, {hand[key]:.2f}" for key in FIGURES)
        rows.append((f"{name} ({plane['version']}, {plane['cipher']})", *cells))
        ratio = charms["mbps"] / hand["mbps"]
        goal = f"{name}: charm over by hand"
        goals.append(Goal(goal, f">= {GOAL}", f"{ratio:.2f}", ratio >= GOAL))
    report.table(
        f"Data planes between two virtual machines, {how}: medians of one run",
        ("", "Mbit/s: charm, hand", "RTT ms: charm, hand", "CPU s/Gbit: charm, hand"),
        rows,
    )
    report.goals(goals)
