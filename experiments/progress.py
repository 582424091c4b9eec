"""A sign of life while something takes long."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from rich.console import Console

PERIOD = 8.0
"""Seconds between two lines; what a line tells may itself take a second or two to find out."""


@contextlib.contextmanager
def ticking(console: Console, tell: Callable[[], str], period: float = PERIOD) -> Iterator[None]:
    """Print what ``tell`` returns every ``period`` seconds, while the block runs.

    ``tell`` is called in a thread of its own. If it raises an exception, no more lines come;
    the block goes on.
    """
    over, started = threading.Event(), time.monotonic()

    def work() -> None:
        with contextlib.suppress(Exception):
            while not over.wait(period):
                text = tell()
                if not over.is_set():
                    seconds = time.monotonic() - started
                    console.print(f"  {seconds:4.0f} s  {text}", markup=False, style="dim")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(5)
