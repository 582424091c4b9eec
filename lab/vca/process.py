"""Charm processes: their environment, their supervision, and the clean-up after them."""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from builder import documents
from lab.vca.context import HookContext
from lab.vca.runtime import JUJU_VERSION, Runtime
from lab.vca.toolserver import ToolServer

DISPATCH = "dispatch"
_EVERYWHERE = documents.read(Path(__file__).with_name("environment.yaml"))
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KILLED = 5.0  # Seconds in which a killed process ends, also on a busy machine.


class MissingHookError(Exception):
    """The charm has no dispatch and no such hook."""


def find_script(charm_dir: Path, dispatch_path: str) -> Path:
    """Return what to run: `dispatch` if the charm has it, else the hook's or action's own file."""
    for name in (DISPATCH, dispatch_path):
        script = charm_dir / name
        if script.exists():
            if not os.access(script, os.X_OK):
                raise PermissionError(13, f"{name} is not executable")
            return script
    raise MissingHookError(dispatch_path)


def environment(
    runtime: Runtime, dispatch_path: str, context: HookContext, context_id: str, socket: Path
) -> dict[str, str]:
    """Return the environment of a charm's process.

    `dispatch_path` is hooks/NAME or actions/NAME; on `socket` the controller serves the hook tools.
    """
    unit = context.unit
    charm_dir = str(runtime.paths.charm(unit.name))
    with context.document() as document:
        uuid = document.uuid
    variables = {
        **_EVERYWHERE,
        "CHARM_DIR": charm_dir,
        "HOME": str(runtime.paths.home(unit.name)),
        "JUJU_AGENT_SOCKET_ADDRESS": str(socket),
        "JUJU_CHARM_DIR": charm_dir,
        "JUJU_CONTEXT_ID": context_id,
        "JUJU_DISPATCH_PATH": dispatch_path,
        "JUJU_HOOK_NAME": "" if context.action else Path(dispatch_path).name,
        "JUJU_MACHINE_ID": str(unit.machine),
        "JUJU_MODEL_NAME": uuid,
        "JUJU_MODEL_UUID": uuid,
        "JUJU_UNIT_NAME": unit.name,
        "JUJU_VERSION": JUJU_VERSION,
        "PATH": f"{runtime.tools}:{runtime.python_bin}:{SYSTEM_PATH}",
    }
    info = context.hook
    if info is not None and info.relation_id is not None:
        relation = context.relation(info.relation_id)
        variables |= {
            "JUJU_RELATION": relation.endpoint,
            "JUJU_RELATION_ID": relation.fake_id,
            "JUJU_REMOTE_UNIT": info.remote_unit,
            "JUJU_REMOTE_APP": info.remote_app,
        }
        if info.departing_unit:
            variables["JUJU_DEPARTING_UNIT"] = info.departing_unit
    if context.action is not None:
        variables |= {
            "JUJU_ACTION_NAME": context.action.name,
            "JUJU_ACTION_UUID": context.action.id,
            "JUJU_ACTION_TAG": f"action-{context.action.id}",
        }
    return variables


class Interrupt:
    """Lets another thread end the wait for a process."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC)
        self.set = False

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._descriptor

    def fire(self) -> None:
        """End the wait; the process is killed."""
        self.set = True
        os.eventfd_write(self._descriptor, 1)

    def close(self) -> None:
        os.close(self._descriptor)


@dataclass
class Outcome:
    """How a process ended."""

    problem: str = ""
    """Why it failed, in the words of Go's os/exec, which Juju shows; empty for success."""
    interrupted: bool = False
    processor: float = 0.0
    """Seconds of processor time of the process and of the children it waited for."""


def _problem(code: int) -> str:
    if code < 0:
        return f"signal: {signal.strsignal(-code)}"
    return f"exit status {code}" if code else ""


@dataclass
class _Stream:
    """Cuts a pipe into lines for the log."""

    descriptor: int
    on_line: Callable[[str], None]
    partial: bytearray = field(default_factory=bytearray)

    def read(self) -> bool:
        """Read the available data; return False at the end of the pipe."""
        try:
            data = os.read(self.descriptor, 65536)
        except BlockingIOError:
            return True
        if not data:
            return False
        *lines, rest = (bytes(self.partial) + data).split(b"\n")
        self.partial = bytearray(rest)
        for line in lines:
            self.on_line(line.decode(errors="replace"))
        return True

    def finish(self) -> None:
        """Read the rest and close the pipe; do not wait for processes that hold it open."""
        while _readable(self.descriptor) and self.read():
            pass
        if self.partial:
            self.on_line(self.partial.decode(errors="replace"))
        os.close(self.descriptor)


def run(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    directory: Path,
    timeout: float,
    server: ToolServer,
    interrupt: Interrupt,
    on_stdout: Callable[[str], None],
    on_stderr: Callable[[str], None],
    terminal: bool = False,
) -> Outcome:
    """Run a process to its end, serving its hook tools meanwhile, from the calling thread.

    After `timeout` seconds, or when `interrupt` fires, its process group is killed. With `terminal`
    it is a shell for a user: it has this process's input and output, and ends alone. Raises
    OSError if it cannot be started.
    """
    outputs = None if terminal else subprocess.PIPE
    process = subprocess.Popen(
        arguments,
        cwd=directory,
        env=dict(environment),
        stdin=None if terminal else subprocess.DEVNULL,
        stdout=outputs,
        stderr=outputs,
        start_new_session=not terminal,
    )
    streams = []
    for pipe, on_line in ((process.stdout, on_stdout), (process.stderr, on_stderr)):
        if pipe is not None:
            # A duplicate descriptor: Popen's file object may close its own at any time.
            streams.append(_Stream(os.dup(pipe.fileno()), on_line))
            pipe.close()
    ended = os.pidfd_open(process.pid)
    timed_out = False
    try:
        with selectors.PollSelector() as selector:
            for stream in streams:
                os.set_blocking(stream.descriptor, False)
                selector.register(stream.descriptor, selectors.EVENT_READ, stream)
            selector.register(ended, selectors.EVENT_READ, "ended")
            selector.register(server.fileno(), selectors.EVENT_READ, "tool")
            selector.register(interrupt.fileno(), selectors.EVENT_READ, "interrupt")
            deadline = time.monotonic() + timeout
            running = True
            while running:
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                for key, _ in ready:
                    if isinstance(key.data, _Stream):
                        if not key.data.read():
                            selector.unregister(key.fd)
                    elif key.data == "tool":
                        server.handle()
                    else:
                        running = False
                if not ready and time.monotonic() >= deadline:
                    timed_out, running = True, False
    finally:
        # After a timeout, an interrupt or an exception the process still runs.
        if not _readable(ended):
            with contextlib.suppress(ProcessLookupError):
                (os.kill if terminal else os.killpg)(process.pid, signal.SIGKILL)
        # Not with Popen: it does not return the processor time.
        _, state, used = os.wait4(process.pid, 0)
        process.returncode = code = os.waitstatus_to_exitcode(state)
        os.close(ended)
        for stream in streams:
            stream.finish()
    problem = f"killed after {timeout:g} s" if timed_out else _problem(code)
    return Outcome(problem, interrupt.set, used.ru_utime + used.ru_stime)


def _readable(descriptor: int) -> bool:
    """Whether a pipe has data or has ended; of a pidfd, whether the process has ended."""
    with selectors.PollSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(0))


def end_leftovers(charm_root: Path, contexts: frozenset[str] | None = None) -> list[int]:
    """Kill charm processes of a folder of units; return their ids when they have ended.

    A hook that runs on after its controller was killed, and the hook's children, are found by
    their environment: JUJU_CHARM_DIR below `charm_root` and, if `contexts` is given, one of these
    as JUJU_CONTEXT_ID.
    """
    killed = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            environment = process.environ()
            own = contexts is None or environment.get("JUJU_CONTEXT_ID") in contexts
            ours = environment.get("JUJU_CHARM_DIR", "").startswith(f"{charm_root}/")
            if own and ours and process.pid != os.getpid():
                process.kill()
                killed.append(process.pid)
                process.wait(_KILLED)
    return killed
