"""What is left on the machine of labs and services: mounts, processes, network namespaces."""

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path


def leftovers(words: Sequence[str]) -> list[str]:
    """Return the mounts, processes and network namespaces whose names hold one of the words."""
    found = []
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        if any(word in line for word in words):
            found.append(f"mount {line}")
    for entry in Path("/proc").glob("[0-9]*"):
        if int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            group = (entry / "cgroup").read_text(encoding="utf-8")
            state = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state in ("Z", "X"):
            continue  # ended; its parent has not asked for it yet
        if any(word in command or word in group for word in words):
            found.append(f"process {entry.name} {command}")
    for netns in subprocess.run(
        ["ip", "netns", "list"], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        if any(word in netns for word in words):
            found.append(f"netns {netns}")
    return found


def lasting_leftovers(words: Sequence[str], seconds: float = 5.0) -> list[str]:
    """Return what is left after processes that are ending had a moment to do so."""
    until = time.monotonic() + seconds
    while (found := leftovers(words)) and time.monotonic() < until:
        time.sleep(0.2)
    return found


def own_descendants() -> set[int]:
    """Return the process ids of everything this process started, and what that started."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # proc(5): the parent is the second field after the name in brackets.
            fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(entry.name)] = int(fields[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def running_in(folder: Path) -> int:
    """Return a process of ours that has a folder as its working directory, 0 where none has."""
    for pid in own_descendants():
        try:
            if Path(os.readlink(f"/proc/{pid}/cwd")) == folder:
                return pid
        except (FileNotFoundError, ProcessLookupError):
            continue
    return 0
