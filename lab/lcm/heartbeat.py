"""The process of a lab that fires `update-status` (`timer`), as others start and end it.

What it runs takes long to import, and every verb of the command line asks whether it is there.
"""

import os
from pathlib import Path

from lab.errors import NbiError
from lab.procs import ProcessRef, start_time
from lab.records import jobs

VARIABLE = "OSMLAB_UPDATE_STATUS_INTERVAL"
DEFAULT = 300.0  # Seconds: the default of Juju's model option `update-status-hook-interval`.


def interval() -> float:
    """Return the seconds between two `update-status`, 0 for never."""
    text = os.environ.get(VARIABLE, "")
    try:
        value = float(text or DEFAULT)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise NbiError(f"{VARIABLE} is '{text}', it must be seconds, or 0 for never")
    return value


def ensure(home: Path) -> None:
    """Start the process of a lab, unless it runs already or the interval is 0."""
    if not interval() or ProcessRef.saved(_file(home)):
        return
    log = home / "lcm" / "timer.log"
    try:
        jobs.launch("lab.lcm.timer", log, "--home", str(home.resolve()))
    except OSError as error:  # the operation that starts it has its result already
        print(f"no process for update-status could be started: {error}", flush=True)


def began(home: Path) -> None:
    """Note that this is the process of a lab."""
    ProcessRef(os.getpid(), start_time(os.getpid()) or 0).save(_file(home))


def end(home: Path) -> None:
    """End the process of a lab, if there is one."""
    if (process := ProcessRef.saved(_file(home))) is not None:
        process.end()


def _file(home: Path) -> Path:
    return home / "lcm" / "timer.json"
