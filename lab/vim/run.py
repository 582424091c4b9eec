"""Running the system's tools (ip, nft, mount ...); an error names the tool and the reason."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from lab.vim.errors import VimError


def tool(argv: Sequence[str], stdin: str | None = None) -> str:
    """Run a tool to its end and return what it printed.

    Raises:
        VimError: the tool is not installed, or failed (with the first line of its error).
    """
    try:
        done = subprocess.run(
            list(argv), input=stdin, capture_output=True, text=True, check=False, timeout=60
        )
    except FileNotFoundError:
        raise VimError(f"The program '{argv[0]}' is not installed on this machine.") from None
    except subprocess.TimeoutExpired:
        raise VimError(f"'{' '.join(argv)}' did not end within 60 s.") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        why = lines[0] if lines else f"exit code {done.returncode}"
        raise VimError(f"'{' '.join(argv)}' failed: {why}")
    return done.stdout


def ip_batch(netns: str | None, commands: Sequence[str]) -> None:
    """Run several ip(8) commands in a named network namespace with one process."""
    if not commands:
        return
    where = ["-n", netns] if netns else []
    tool(["ip", *where, "-batch", "-"], "\n".join(commands) + "\n")
