"""Where the time of a run goes: by module and by folder, over all workers."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

LINES = 20
"""Modules that are listed, the slowest first."""


def table(spent: Mapping[str, float], workers: int) -> list[str]:
    """Return the lines to print.

    Args:
        spent: seconds by path of a test module, with what its fixtures take.
        workers: how many ran beside each other.
    """
    total = sum(spent.values())
    folders: dict[str, float] = defaultdict(float)
    for path, seconds in spent.items():
        folders["/".join(path.split("/")[1:-1]) or "."] += seconds
    rows = sorted(spent.items(), key=lambda row: -row[1])
    shown = rows[:LINES]
    lines = [f"{seconds:8.1f} s  {path}" for path, seconds in shown]
    if rows[LINES:]:
        rest = sum(seconds for _, seconds in rows[LINES:])
        lines.append(f"{rest:8.1f} s  {len(rows) - LINES} more modules")
    by_folder = sorted(folders.items(), key=lambda row: -row[1])
    lines.append(
        "by folder: " + ", ".join(f"{name} {seconds:.0f} s" for name, seconds in by_folder)
    )
    each = f", {total / workers:.0f} s for each of {workers} workers" if workers > 1 else ""
    return [*lines, f"in all {total:.0f} s{each}"]


def processor_seconds() -> float:
    """Return the seconds that all processors of this machine have worked so far (proc_stat(5))."""
    words = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
    user, nice, system, _idle, _wait, irq, softirq = (int(word) for word in words[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
