"""Running the system's tools (ip, nft, mount ...); an error names the tool and the reason."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from builder.programs import output
from lab import procs
from lab.errors import VimError


def tool(argv: Sequence[str], stdin: str | None = None) -> str:
    """Run a tool to its end and return what it printed."""
    # The last line of `ip -batch` tells where it stopped, the first one why.
    begins = f"'{' '.join(argv)}' failed"
    return output(argv, begins, VimError, line=0, input=stdin, timeout=60)


def need(packages: Mapping[str, str], what: str) -> None:
    """Check that programs are installed; ``packages`` has the package of each."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    missing = {package for name, package in packages.items() if not shutil.which(name, path=path)}
    if missing:
        raise VimError(
            f"{what} need packages that this machine lacks: "
            f"apt-get install {' '.join(sorted(missing))}."
        )


def ip_batch(netns: str, *commands: str) -> None:
    """Run several ip(8) commands in a named network namespace with one process."""
    tool(["ip", "-n", netns, "-batch", "-"], "\n".join(commands) + "\n")


def start(
    argv: Sequence[str],
    log: Path,
    ready: Callable[[int], bool],
    failure: str,
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program that may outlive this process, and wait until it is ready.

    ``ready`` says of its process id whether it is; ``log`` gets its output. One that is not ready
    in 20 s is ended; the error begins with ``failure`` and has the last line of the log.
    """
    process = procs.launch(argv, log, env)
    end = time.monotonic() + 20
    try:
        while not ready(process.pid):
            if process.poll() is not None or time.monotonic() > end:
                raise VimError(f"{failure}: {procs.last_words(log)}.")
            time.sleep(0.01)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process
