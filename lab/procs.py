"""Processes: started to last, and known by pid and start time."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

_LITTLE = 1 << 16  # Free bytes of a file system that is full.


def start_time(pid: int) -> int | None:
    """Start of a process in clock ticks since boot (proc(5), stat field 22); None when gone.

    A zombie counts as gone: nothing of it runs any more.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name, in parentheses, may itself hold spaces and parentheses.
    state, *fields = text[text.rindex(b")") + 2 :].split()
    return None if state in (b"Z", b"X") else int(fields[18])


def process_group(group: int) -> list[int]:
    result = []
    for pid in psutil.pids():
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(pid) == group:
                result.append(pid)
    return result


@dataclass(frozen=True)
class ProcessRef:
    """One process, also if another process gets its pid later."""

    pid: int
    start: int

    @classmethod
    def of(cls, pid: int) -> "ProcessRef | None":
        """The process that has this pid now, or None."""
        start = start_time(pid)
        return None if start is None else cls(pid, start)

    @classmethod
    def saved(cls, path: Path) -> "ProcessRef | None":
        """The process that a file names, if it still runs."""
        try:
            process = cls(**json.loads(path.read_text("ascii")))
        except (OSError, ValueError, TypeError):
            return None
        return process if process.alive() else None

    def save(self, path: Path) -> None:
        """Name this process in a file."""
        path.write_text(json.dumps(asdict(self)), "ascii")

    def alive(self) -> bool:
        """True while this process runs, and not another one with its pid."""
        return start_time(self.pid) == self.start

    def signal(self, number: int) -> bool:
        """Send a signal; False when the process is gone.

        The pidfd is opened before the check, so the checked process is the signalled one.
        """
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            if not self.alive():
                return False
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True

    def end(self, patience: float = 5.0) -> None:
        """Send SIGTERM, and SIGKILL when it is still there after ``patience`` seconds."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + patience
            gone = not self.signal(number)
            while not gone and time.monotonic() < deadline:
                time.sleep(0.05)
                gone = not self.alive()
            if gone:
                return


def last_words(log: Path, silent: str = "no reason known") -> str:
    """Return the last line of a program's log; without one, whether the disk is full."""
    if log.exists() and (text := log.read_text(errors="replace").strip()):
        return text.splitlines()[-1].strip().rstrip(".")
    room = os.statvfs(log.parent)
    full = room.f_bfree * room.f_frsize < _LITTLE
    return f"there is no room left in the folder {log.parent}" if full else silent


def launch(
    argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, so that no terminal's signal ends it.

    Its output is added to a log.
    """
    with log.open("ab") as stream:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            cwd="/",
            env=env,
            start_new_session=True,
        )
