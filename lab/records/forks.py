"""Workers by fork: a program of the lab has loaded nearly all that a worker needs.

To load the modules takes a quarter of a second of a processor, for each operation. A fork is safe
only in a process with one thread. A program with several threads makes a nursery: a process that
does nothing but fork.
"""

import contextlib
import functools
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
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

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        """Start it by a command that calls `serve`."""
        self._lock = threading.Lock()
        # In a session of its own: Ctrl-C is for the program.
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def fork(self, log: Path, words: list[str]) -> int:
        """Let it run the program as `fork` does, in this environment; return the process id.

        Raises:
            OSError: it has ended.
        """
        ask, answered = self._process.stdin, self._process.stdout
        assert ask is not None  # noqa: S101
        assert answered is not None  # noqa: S101
        with self._lock:
            ask.write(json.dumps([str(log.resolve()), words, dict(os.environ)]).encode() + b"\n")
            ask.flush()
            answer = answered.readline()
        if not answer:
            raise BrokenPipeError("the process that starts workers has ended")
        return int(answer)


def serve(program: Program, asked: BinaryIO, answered: BinaryIO) -> None:
    """Be a nursery: fork for each line of `asked`, and answer with the process id."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a worker
    for line in asked:
        log, words, environment = json.loads(line)
        pid = fork(functools.partial(_within, environment, program), Path(log), words)
        with contextlib.suppress(BrokenPipeError):  # the program has ended
            answered.write(b"%d\n" % pid)
            answered.flush()


def _within(environment: Mapping[str, str], program: Program, words: list[str]) -> int:
    os.environ.clear()
    os.environ.update(environment)
    return program(words)
