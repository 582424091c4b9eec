"""Files that several processes of the lab share: replaced as a whole, locked for a while."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from builder.files import replace as replace
from lab.errors import ConflictError


def lock(descriptor: int, seconds: float | None = None) -> bool:
    """Take an exclusive flock(2), which ends with the descriptor; return whether it was free.

    It excludes other processes and other threads that open their own descriptor.

    Args:
        descriptor: of the lock file.
        seconds: longest wait, None for no limit.
    """
    if seconds is None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return True
    end, pause = time.monotonic() + seconds, 0.002
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(pause)
            pause = min(pause * 2, 0.05)


@contextmanager
def locked(
    path: Path, seconds: float | None = None, what: str = "", error: type[Exception] = ConflictError
) -> Iterator[None]:
    """Hold an exclusive lock on a file for the length of the block.

    Args:
        path: lock file, made when absent and never removed; its content does not matter.
        seconds: longest wait, None for no limit.
        what: name of the locked thing, for the error.
        error: what is raised if the wait was in vain.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not lock(descriptor, seconds):
            raise error(f"{what or path} is busy with another operation; waited {seconds:.0f} s")
        yield
    finally:
        os.close(descriptor)
