"""A program that owns a lab, or objects of an OSM, cleans up also when a signal ends it."""

import os
import signal
import stat
from types import FrameType


def clean_up_when_ended() -> None:
    """Make SIGTERM and SIGHUP end the program as Ctrl-C does, through its `finally` blocks.

    A second SIGTERM ends the program at once, without clean-up. A signal that was ignored before,
    as nohup does with SIGHUP, stays ignored.
    """

    def interrupt(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            # When a terminal closes, the shell and the kernel both send this signal.
            signal.signal(number, signal.SIG_IGN)
            _leave_terminal()
        else:
            signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupt)


def _leave_terminal() -> None:
    """Discard further output to a terminal, which is closed: writing to it would fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for output in (1, 2):
        if stat.S_ISCHR(os.fstat(output).st_mode):
            os.dup2(nowhere, output)
