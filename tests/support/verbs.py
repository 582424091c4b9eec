"""Verbs of the lab that only look, in the process of the test: a process of its own is imports."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

from lab.cli.commands import main


def shown(home: Path, *words: str) -> Any:
    """Return what a verb prints as JSON."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        main(["--home", str(home), "--json", *words])
    return json.loads(printed.getvalue())
