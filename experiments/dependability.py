"""Effects of a fault in one slice on another slice (experiment `dependability`).

200 numbered datagrams per second pass through a tunnel of the neighbour while a part of the victim
is killed. The neighbour must not lose any. The victim's own stream proves that the fault is real:
it must break. If only the charm is killed, it must not break.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from experiments.testbed import LINKS, Testbed, Vnf
from experiments.traffic import Flow
from lab.vim.run import ip_batch

RATE = 200.0
FAULTS = ("vnf", "tunnel", "charm", "link")
#: Whether the victim's own stream must break.
BREAKS = {"vnf": True, "tunnel": True, "charm": False, "link": True}


def _kill_vnf(bed: Testbed, vnf: Vnf) -> Callable[[], None]:
    """Cut the power of a VDU."""
    vnf.vim.stop(vnf.server, timeout=0)

    def mend() -> None:
        vnf.vim.start(vnf.server)
        vnf.vim.wait_active(vnf.server, 120)

    return mend


def _kill_tunnel(bed: Testbed, vnf: Vnf) -> Callable[[], None]:
    """Delete the tunnel's interface."""
    vnf.out("ip", "link", "delete", "wg-s1u")
    return lambda: None


def _cut_link(bed: Testbed, vnf: Vnf) -> Callable[[], None]:
    """Pull the cable of the underlay's port, at the VIM's end."""
    found = bed.slices[vnf.slice]
    network = found.network("s1u")
    device = next(p.device for p in vnf.vim.server(vnf.server).ports if p.network_id == network)
    ip_batch(vnf.vim.fabric, [f"link set {device} down"])
    return lambda: ip_batch(vnf.vim.fabric, [f"link set {device} up"])


def _kill_charm(bed: Testbed, vnf: Vnf) -> Callable[[], None]:
    """Kill a charm in the middle of its work, with all that it started."""
    operation = bed.start_action(vnf, "rotate-keys", link="s1u")
    folder = str(bed.home / "vca")
    until = time.monotonic() + 30
    while time.monotonic() < until:
        for pid in _in_folder(folder, vnf.application):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            return lambda: _ended(bed, operation)
        time.sleep(0.01)
    raise click.ClickException(f"{vnf}: its charm was never seen at work")


def _ended(bed: Testbed, operation: str) -> None:
    bed.client.wait(operation)


def _in_folder(folder: str, application: str) -> list[int]:
    """Return the processes that work in the folder of an application's charm."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            place = os.readlink(entry / "cwd")
            if place.startswith(folder) and application in place:
                found.append(int(entry.name))
    return found


_DO = {"vnf": _kill_vnf, "tunnel": _kill_tunnel, "charm": _kill_charm, "link": _cut_link}


def run(
    bed: Testbed, victim: str, neighbour: str, fault: str, seconds: float
) -> tuple[dict[str, Any], bool]:
    """Make a fault in S1-U's far end of a slice while both slices carry a stream over S1-U.

    Args:
        bed: with the slices.
        victim: slice with the fault.
        neighbour: slice that must not notice.
        fault: one of FAULTS.
        seconds: of the streams; the fault comes after a quarter.

    Returns:
        What became of both streams; whether the neighbour lost nothing while the victim broke as it
        must.
    """
    link = LINKS["s1u"]
    flows = {}
    for name in (neighbour, victim):
        found = bed.slices[name]
        ends, address = (found[link.near], found[link.far]), found.target("s1u", "tunnel")
        ends[0].run("ping", "-n", "-q", "-c", "1", "-w", "5", address)
        flows[name] = Flow(*ends, address, seconds=seconds, rate=RATE)
    time.sleep(seconds / 4)
    mend = _DO[fault](bed, bed.slices[victim][link.far])
    try:
        streams = {neighbour: flows[neighbour].result()}
        with contextlib.suppress(Exception):
            # Of a VDU without power there is no report: nothing of it arrived anywhere.
            streams[victim] = flows[victim].result()
    finally:
        mend()
    _recovered(bed, victim)
    broke = victim not in streams or streams[victim].lost > 0
    good = streams[neighbour].lost == 0 and broke == BREAKS[fault]
    return {
        "neighbour": streams[neighbour].summary(),
        "victim": streams[victim].summary() if victim in streams else {"lost": None},
        "victim-broke": broke,
    }, good


def _recovered(bed: Testbed, name: str) -> None:
    """Wait until the victim's link works again, asking its charm to look where needed."""
    found, link = bed.slices[name], LINKS["s1u"]
    until = time.monotonic() + 120
    while time.monotonic() < until:
        words = ("ping", "-n", "-q", "-c", "1", "-w", "3", found.target("s1u", "tunnel"))
        if found[link.near].run(*words).returncode == 0:
            return
        with contextlib.suppress(click.ClickException):
            bed.action(found[link.far], "show-status", link="s1u")
    raise click.ClickException(f"{name}: S1-U does not come back")
