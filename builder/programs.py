"""Programs of the machine, run to their end."""

import subprocess
from collections.abc import Sequence
from typing import Any

from builder.errors import BuildError


def output(
    argv: Sequence[str],
    begins: str,
    error: type[Exception] = BuildError,
    line: int = -1,
    **how: Any,
) -> str:
    """Return what a program printed.

    Args:
        begins: How the sentence begins if it fails; a line that it wrote follows.
        error: What is raised with that sentence.
        line: Which line that is; the last one of most programs.
        how: More for :func:`subprocess.run`.
    """
    settings = {"capture_output": True, "text": True, "errors": "replace", "check": False, **how}
    try:
        done = subprocess.run(argv, **settings)
    except FileNotFoundError:
        raise error(f"{begins}: {argv[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise error(f"{begins}: no end within {how['timeout']} s") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        why = lines[line] if lines else f"exit code {done.returncode}"
        raise error(f"{begins}: {why}")
    return str(done.stdout)
