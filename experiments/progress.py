"""Progress lines during a long operation."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from rich.console import Console

PERIOD = 8.0  # Seconds between two lines.


@contextlib.contextmanager
def ticking(console: Console, tell: Callable[[], str], period: float = PERIOD) -> Iterator[None]:
    """Print the last result of ``tell`` every ``period`` seconds, while the block runs.

    ``tell`` runs in its own thread, so a slow call does not delay the lines. After an exception it
    is not called again; the block goes on.
    """
    over, started = threading.Event(), time.monotonic()
    latest = "working"

    def ask() -> None:
        nonlocal latest
        with contextlib.suppress(Exception):
            while not over.is_set():
                latest = tell()
                over.wait(period / 2)

    def show() -> None:
        while not over.wait(period):
            seconds = time.monotonic() - started
            console.print(f"  {seconds:4.0f} s  {latest}", markup=False, style="dim")

    asking, showing = (threading.Thread(target=work, daemon=True) for work in (ask, show))
    asking.start()
    showing.start()
    try:
        yield
    finally:
        over.set()
        showing.join()
