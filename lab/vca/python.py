"""The python3 that charm processes find on their PATH.

OSM's proxy machines are Ubuntu 18.04: Python 3.6. Charms run under it if it is installed.
"""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.errors import VcaError

VARIABLE = "OSMLAB_CHARM_PYTHON"
PREFERRED = "python3.6"


@dataclass(frozen=True)
class CharmPython:
    """A Python interpreter that works."""

    path: Path
    version: tuple[int, int, int]
    reason: str

    def __str__(self) -> str:
        """Return version, path and the reason for the choice."""
        return f"Python {'.'.join(map(str, self.version))} at {self.path} ({self.reason})"


def _probe(command: str | Path, reason: str) -> CharmPython | None:
    code = "import sys; print('%d %d %d' % sys.version_info[:3]); print(sys.executable)"
    try:
        output = subprocess.run(
            [str(command), "-I", "-S", "-c", code],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    numbers, executable = output.splitlines()[:2]
    major, minor, patch = (int(part) for part in numbers.split())
    return CharmPython(Path(executable), (major, minor, patch), reason)


def _candidates() -> Iterator[tuple[Path, str]]:
    path = shutil.which(PREFERRED)
    if path is not None:
        # First the versions beside a shim of pyenv, which starts slowly and only enabled versions.
        beside = sorted(Path(path).parent.parent.glob("versions/3.6.*/bin/python3.6"))
        for python in (*beside, Path(path)):
            yield python, "as on an Ubuntu 18.04 proxy machine"
    for python in (Path("/usr/bin/python3"), Path(sys.executable)):
        yield python, f"no {PREFERRED} found"


def check(path: Path) -> None:
    """Raise VcaError if charms cannot run under an interpreter (any more)."""
    if _probe(path, "") is None:
        raise VcaError(f"{path.resolve()} is not a Python interpreter that runs, so no charm does")


@functools.lru_cache(maxsize=8)
def _choose(given: str | None, path: str | None) -> CharmPython:
    if given:
        chosen = _probe(given, f"set by {VARIABLE}")
        if chosen is None:
            raise VcaError(f"{VARIABLE}={given} is not a Python interpreter that runs")
        return chosen
    for candidate, reason in _candidates():
        chosen = _probe(candidate, reason)
        if chosen is not None:
            return chosen
    raise VcaError("no Python 3 interpreter was found for the charms")


def choose_python() -> CharmPython:
    """Return the interpreter for charms.

    $OSMLAB_CHARM_PYTHON if set; else Python 3.6 if one is found; else the system's.
    """
    return _choose(os.environ.get(VARIABLE), os.environ.get("PATH"))
