"""Waiting for something to become true, as long as a busy machine may need."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

#: Seconds within which what a test awaits comes on any machine, however busy. A test that shows
#: how fast something is says its own limit.
PATIENCE = 120.0


def wait_until(
    condition: Callable[[], object], what: str | Callable[[], str], seconds: float = PATIENCE
) -> None:
    """Wait until a condition holds.

    ``what`` says what the condition is, or is a function that says it afterwards.

    Raises AssertionError when it does not hold in time, in seconds.
    """
    began = time.monotonic()
    end = began + seconds
    while not condition():
        looked = time.monotonic()
        if looked > end:
            result = what if isinstance(what, str) else what()
            raise AssertionError(f"not within {seconds:.0f} s: {result}")
        # A look may be a process or an action, and what it waits for needs the processors too.
        time.sleep(max(0.05, looked - began))
        began = time.monotonic()


def listens(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0
