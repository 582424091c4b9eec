"""`./run bench rotation`: all peers of a link rotate their keys under load.

The gateway runs the steps of the charm library: it stages the next keys, and with WireGuard it
starts the handover watch, which activates them. Each peer has its own key. The peers switch one
after the other and then send a packet, as their charms and the charms' probes do. Numbered
datagrams and answers to them pass through some. This benchmark needs no packages of `dist/`.
"""

import contextlib
import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks.report import Goal, Report, command, counts
from lab.vim import cgroups
from testbed.charon import missing
from testbed.netns import Block
from testbed.probing import Probe
from testbed.rotation import GATEWAY, LIMIT, IpsecField, WireguardField

PERIOD_US = 20_000


class Starved(Block):
    """A control group that limits processes to `percent` of one processor; 0 is no limit."""

    def __init__(self, percent: int) -> None:
        self.percent = percent
        first, name = cgroups.cpu1_mount(), f"rotation-{uuid.uuid4().hex[:6]}"
        self._parent = first or cgroups.cgroup2_mounts()[0]
        self._first, self._group = bool(first), self._parent / name

    def set_up(self) -> None:
        if not self.percent:
            return
        quota = str(self.percent * PERIOD_US // 100)
        if not self._first:
            (self._parent / "cgroup.subtree_control").write_text("+cpu")
        self._group.mkdir()
        if self._first:
            (self._group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self._group / "cpu.cfs_quota_us").write_text(quota)
        else:
            (self._group / "cpu.max").write_text(f"{quota} {PERIOD_US}")

    def add(self, pids: Sequence[int]) -> None:
        for pid in pids if self.percent else ():
            (self._group / "cgroup.procs").write_text(str(pid))

    def take_down(self) -> None:
        """Move all processes, with their children, out of the group, and remove it."""
        for pid in cgroups.pids(self._group):
            with contextlib.suppress(OSError):
                (self._parent / "cgroup.procs").write_text(str(pid))
        cgroups.remove(self._group)


FIELDS: Mapping[str, type[WireguardField | IpsecField]] = {
    "wireguard": WireguardField,
    "ipsec": IpsecField,
}


def measure(technology: str, count: int, sample: int, rate: float, percent: int) -> dict[str, Any]:
    """Rotate the keys of `count` peers, with streams of `rate` packets a second through some."""
    with (
        tempfile.TemporaryDirectory(prefix="rotation-") as folder,
        FIELDS[technology](Path(folder), count) as field,
    ):
        field.nudge()
        field.wait_up()
        sources = field.inner[:: max(1, count // sample)][:sample]
        ends = ("field", "gw")
        with Probe(field.spaces, ends, GATEWAY, sources, 2 * LIMIT, 1 / rate) as probe:
            time.sleep(1)
            with Starved(percent) as starved:
                starved.add(field.daemons())
                began = time.monotonic()
                starved.add(field.stage())
                staged = time.monotonic()
                for number in range(count):
                    field.switch(number)
                switched = time.monotonic()
                nudged = switched
                field.nudge()
                while field.let_in() < count and time.monotonic() - began < LIMIT:
                    time.sleep(0.5)
                    if time.monotonic() - nudged > 10:
                        nudged = time.monotonic()
                        field.nudge()
                ended = time.monotonic()
            time.sleep(1)
            probe.sender.send_signal(signal.SIGINT)
            seen = probe.result()
        return {
            "technology": technology,
            "backend": field.backend,
            "peers": count,
            "streams": len(sources),
            "rate": rate,
            "percent": percent,
            "stage-s": staged - began,
            "switch-s": switched - staged,
            "all-s": ended - began,
            "let-in": field.let_in(),
            "dropped": field.dropped(),
            # Packets both ways: the sender's and the answers.
            "sent": seen["sent"] * len(sources) + seen["echo"]["received"],
            "lost": sum(flow["lost"] for flow in seen["flows"]),
            "twice": seen["echo"]["duplicates"] + seen["twice"],
            "reordered": seen["reordered"],
            "longest-delay-ms": seen["longest-delay-ms"],
        }


def judge(results: Sequence[dict[str, Any]]) -> list[Goal]:
    """Compare each run with the goals: no datagram is lost, and all peers use their next keys."""
    return [
        Goal(
            f"packets lost, {r['technology']}, {r['peers']} peers, {r['percent'] or 'no'} limit",
            "0 of all sent, all peers in",
            f"{r['lost']} of {r['sent']}, {r['let-in']} in",
            r["lost"] == 0 and r["let-in"] == r["peers"],
        )
        for r in results
    ]


@command("rotation", missing=lambda: "" if shutil.which("wg") else "needs wg")
@click.option(
    "--technology", type=click.Choice([*FIELDS]), default="wireguard",
    help="Technology of the link.",
)  # fmt: skip
@counts("--peers", "10,100,1000", "Counts of peers.")
def main(report: Report, technology: str, peers: list[int]) -> None:
    """Let all peers of a link rotate their keys under load, and count what is lost."""
    if technology == "ipsec" and (reason := missing()):
        raise click.ClickException(f"this machine {reason}")
    results = report.document["results"] = []
    for count in peers:
        for percent in (0, 20):
            results.append(measure(technology, count, 10, 50.0, percent))
            report.say(results[-1])
    report.results("All peers of a link rotate", results)
    report.goals(judge(results))
