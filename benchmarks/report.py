"""What every benchmark prints and writes."""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table


class Goal(NamedTuple):
    """A figure beside its goal; the report says whether it was met, nothing fails."""

    figure: str
    goal: str
    measured: str
    met: bool


def header() -> dict[str, Any]:
    """Return what tells one run from another."""
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "load-at-start": os.getloadavg()[0],
    }


def write(name: str, document: dict[str, Any], out: Path) -> Path:
    """Write all that was measured as JSON and return the file."""
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{name}-{document['started'].replace(':', '')}.json"
    file.write_text(json.dumps(document, indent=1, default=str) + "\n", encoding="utf-8")
    return file


def show_goals(goals: list[Goal], console: Console) -> None:
    """Print goals, and whether they were met."""
    view = Table(title="Goals")
    for heading in ("figure", "goal", "measured", "met"):
        view.add_column(heading)
    for goal in goals:
        view.add_row(goal.figure, goal.goal, goal.measured, "yes" if goal.met else "[red]no[/red]")
    console.print(view)
