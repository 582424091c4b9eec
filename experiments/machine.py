"""Whether the machine kept up while something was measured on it.

A measurement that a busy machine disturbed tells nothing. One that failed then is made once more at
the end, by campaigns and by benchmarks.
"""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import psutil

BUSY = 0.25  # Share of the processors' time that other work uses, above which a machine is busy.
LATE_MS = 10.0
"""By how much a sender may be late at most: the smallest delay that an experiment judges."""
NOTHING = "tells nothing: the machine was busy"


def busy_processors(seconds: float = 0.3) -> float:
    """Return how many processors of this machine are busy, as a mean over some seconds."""
    shares = psutil.cpu_times_percent(seconds)
    working = shares.user + shares.nice + shares.system + shares.irq + shares.softirq
    return float(working * psutil.cpu_count() / 100)


def late_ms(result: Any) -> float:
    """Return by how many ms a sender was late at most, of all in a result; 0 without a sender."""
    if isinstance(result, Mapping):
        own = [v for k, v in result.items() if k in LATE_NAMES and isinstance(v, int | float)]
        return max([float(v) for v in own] + [late_ms(v) for v in result.values()], default=0.0)
    if isinstance(result, list):
        return max((late_ms(value) for value in result), default=0.0)
    return 0.0


LATE_NAMES = ("sender_late_ms", "late-ms")


@contextmanager
def campaigning(directory: Path) -> Iterator[Callable[[], list[str]]]:
    """Let other campaigns on this machine know of one; give a function that lists the others."""
    folder = Path(tempfile.gettempdir()) / "osm-vpnaas-campaigns"
    folder.mkdir(exist_ok=True)
    with contextlib.suppress(PermissionError):  # It is another user's, who has let all in.
        folder.chmod(0o1777)
    own = folder / str(os.getpid())

    def others() -> list[str]:
        found = []
        for file in sorted(folder.iterdir()):
            with contextlib.suppress(OSError), file.open(encoding="utf-8") as stream:
                if file != own and is_locked(stream):
                    found.append(f"process {file.name}, {stream.read(300)}")
        return found

    with own.open("w", encoding="utf-8") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        stream.write(str(directory.absolute()))
        stream.flush()
        try:
            yield others
        finally:
            own.unlink(missing_ok=True)


def is_locked(stream: IO[str]) -> bool:
    """Tell whether another process holds the lock of a file; the kernel frees it at its end."""
    try:
        fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(stream, fcntl.LOCK_UN)
    return False


def disturbance(
    busy: float | None, cpus: int, late: float = 0.0, busy_after: float | None = None
) -> str:
    """Return why a measurement tells nothing, "" if the machine kept up.

    Args:
        busy: Processors that other work used just before; None if unknown.
        cpus: Processors of the machine, 0 if the measured systems were on others.
        late: By how many ms a sender was late at most.
        busy_after: As `busy`, just afterwards.
    """
    used = max(busy or 0.0, busy_after or 0.0)
    if cpus and used > BUSY * cpus:
        return f"other work used {used:.1f} of {cpus} processors"
    if late > LATE_MS:
        return f"a sender was {late:.0f} ms late"
    return ""


@dataclass
class Watch:
    """Looks at the machine before and after a `with` block, in which something is measured."""

    cpus: int = field(default_factory=lambda: os.cpu_count() or 1)
    before: float = 0.0
    after: float | None = None

    def __enter__(self) -> "Watch":
        self.before = busy_processors()
        return self

    def __exit__(self, *_: object) -> None:
        """Look after it; what it started is over."""
        self.after = busy_processors()

    def disturbance(self, result: Any = None) -> str:
        """Return why the measurement tells nothing, "" if the machine kept up."""
        return disturbance(self.before, self.cpus, late_ms(result), self.after)
