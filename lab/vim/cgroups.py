"""Control groups (version 2): with them every process of a server is found, limited and ended.

A process cannot leave its group by forking or by detaching. So after a crash the group still has
all processes of the server.

Machines that still mount the version 1 hierarchies have the processor's controller there. A server
then has a second group, in that hierarchy, of the same name.
"""

import contextlib
import os
import signal
import time
from pathlib import Path

import psutil

from lab.errors import VimError
from lab.vim.run import tool


def _mounts(kind: str) -> list[tuple[Path, list[str]]]:
    """Mount points of a kind of file system with their options, in the order of /proc/mounts."""
    rows = psutil.disk_partitions(all=True)
    return [(Path(row.mountpoint), row.opts.split(",")) for row in rows if row.fstype == kind]


def cgroup2_mounts() -> list[Path]:
    """Where the unified hierarchy is mounted."""
    return [mount for mount, _ in _mounts("cgroup2")]


def cpu1_mount() -> Path | None:
    """Where version 1's hierarchy of the processor controller is mounted, if it is."""
    return next((mount for mount, options in _mounts("cgroup") if "cpu" in options), None)


def cpu1_group(group: Path) -> Path | None:
    """The version 1 group that goes with a server's ``group``, whether it exists or not."""
    mount = cpu1_mount()
    return None if mount is None else mount / group.parent.name / group.name


def hierarchy(fallback: Path) -> Path:
    """The unified hierarchy's mount point; mount it at ``fallback`` if it is not mounted."""
    mounts = cgroup2_mounts()
    if not mounts:
        fallback.mkdir(parents=True, exist_ok=True)
        tool(["mount", "-t", "cgroup2", "cgroup2", str(fallback)])
        mounts = [fallback]
    for mount in mounts:
        if os.access(mount, os.W_OK):
            return mount
    raise VimError(f"The cgroup hierarchy at {mounts[0]} is read-only: servers need to write it.")


PERIOD_US = 10_000
"""Microseconds after which the kernel renews a group's processor quota.

A tenth of the default. With the default, two threads of a guest with one vCPU would run at once for
half a period, and then the guest would stand still for the other half.
"""


def limit(group: Path, top: Path, *, ram_mib: int, vcpus: int) -> list[str]:
    """Apply a flavour to a group below ``top``; returns a note for each part not enforceable.

    The controllers of ``top`` itself are the machine's, see :mod:`lab.vim.host`.
    """
    quota = vcpus * PERIOD_US
    limits = {
        "memory": ("memory.max", str(ram_mib << 20), "memory is not limited"),
        "cpu": ("cpu.max", f"{quota} {PERIOD_US}", "vCPUs are not limited"),
    }
    notes = []
    for controller, (file, value, note) in limits.items():
        try:
            for parent in reversed([p for p in group.parents if top in p.parents]):
                (parent / "cgroup.subtree_control").write_text(f"+{controller}")
            (group / file).write_text(value)
        except OSError:
            # The controller belongs to a version 1 hierarchy or was not delegated to us.
            if controller != "cpu" or not _limit_cpu1(cpu1_group(group), quota):
                notes.append(f"{note}: the controller {controller} is not available in {top}")
    return notes


def _limit_cpu1(group: Path | None, quota: int) -> bool:
    """Make a version 1 group and limit it to a flavour's vCPUs; return whether that worked."""
    if group is None:
        return False
    try:
        group.mkdir(parents=True, exist_ok=True)
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(quota))
    except OSError:
        return False
    return True


def enter(group: Path) -> list[str]:
    """Words to put before a command so that it runs in a group."""
    return ["sh", "-c", 'echo 0 >"$0/cgroup.procs" && exec "$@"', str(group)]


def pids(group: Path) -> list[int]:
    """Every process in the group and below, without those of other pid namespaces (0)."""
    result: list[int] = []
    for directory, _, _ in os.walk(group):
        with contextlib.suppress(OSError):
            text = (Path(directory) / "cgroup.procs").read_text()
            result.extend(pid for pid in map(int, text.split()) if pid)
    return result


def kill(group: Path, timeout: float = 10.0) -> None:
    """End everything in the group and remove the group."""
    end = time.monotonic() + timeout
    while group.exists():
        try:
            (group / "cgroup.kill").write_text("1")
        except FileNotFoundError:  # kernels before 5.14 have no cgroup.kill
            for pid in pids(group):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        remove(group)
        if not group.exists():
            break
        if time.monotonic() > end:
            raise VimError(f"Processes in the cgroup {group} do not end: {pids(group)}.")
        time.sleep(0.01)
    other = cpu1_group(group)
    if other is not None:
        remove(other)


def remove(group: Path) -> None:
    """Remove the empty groups of a tree, deepest first; those still in use stay."""
    for directory, _, _ in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(directory)
