"""Workers by fork: a program of the lab has loaded nearly all that a worker needs.

To load the modules takes a quarter of a second of a processor, for each operation. A fork is safe
only in a process with one thread. A program with several threads makes a nursery while it has one:
a process that does nothing but fork.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NoReturn

Program = Callable[[list[str]], int]
"""A program: its arguments without the name; returns its exit status."""


def fork(program: Program, log: Path, words: list[str]) -> int:
    """Run a program in a copy of this process that outlives it; return its process id.

    Args:
        program: what the copy runs. The copy ends with it and never returns from this call.
        log: file to which the copy appends what it prints.
        words: arguments.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    # The objects of this process stay as they are: one that is freed in the copy could close a
    # file of the copy that has got the same number.
    gc.freeze()
    pid = os.fork()
    if pid == 0:
        _become(program, log, words)
    gc.unfreeze()
    return pid


def _become(program: Program, log: Path, words: list[str]) -> NoReturn:
    status = 1
    try:
        os.setsid()
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        with open(os.devnull, "rb") as nothing, log.open("ab") as stream:
            for place, source in enumerate((nothing, stream, stream)):
                os.dup2(source.fileno(), place)
        for name in os.listdir("/proc/self/fd"):  # a lock of the parent is an open file
            if int(name) > 2:
                with contextlib.suppress(OSError):  # listdir's own is closed already
                    os.close(int(name))
        status = program(words)
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class Nursery:
    """Forks for a program with several threads; it ends with that program."""

    def __init__(self, program: Program) -> None:
        """Start it; this process must have one thread still."""
        self._lock = threading.Lock()
        asked, ask = os.pipe()
        answer, answered = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        if os.fork() == 0:
            os.close(ask)
            os.close(answer)
            _serve(program, os.fdopen(asked, "rb"), os.fdopen(answered, "wb", buffering=0))
        os.close(asked)
        os.close(answered)
        self._ask = os.fdopen(ask, "wb", buffering=0)
        self._answer = os.fdopen(answer, "rb")

    def fork(self, log: Path, words: list[str]) -> int:
        """Let it run the program as `fork` does; return the process id.

        Raises:
            OSError: it has ended.
        """
        with self._lock:
            self._ask.write(json.dumps([str(log.resolve()), words]).encode() + b"\n")
            answer = self._answer.readline()
        if not answer:
            raise BrokenPipeError("the process that starts workers has ended")
        return int(answer)


def _serve(program: Program, asked: BinaryIO, answered: BinaryIO) -> NoReturn:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a worker
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program
        for line in asked:
            log, words = json.loads(line)
            answered.write(b"%d\n" % fork(program, Path(log), words))
    except BrokenPipeError:
        pass  # the program has ended
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)
