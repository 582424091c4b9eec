"""A program that owns a lab cleans up also when a signal ends it."""

from __future__ import annotations

import signal
from types import FrameType


def clean_up_when_ended() -> None:
    """Make SIGTERM and SIGHUP end the program as Ctrl-C does, through its `finally` blocks.

    A second signal ends the program at once, without clean-up.
    """

    def interrupt(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
