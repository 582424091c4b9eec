"""Output of all benchmarks: tables, goals and result files."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Console
from rich.table import Table


def counts(least: int = 1) -> Callable[[click.Context, click.Parameter, str], list[int]]:
    """Return a callback for an option: whole numbers separated by commas, in ascending order."""

    def read(_context: click.Context, _parameter: click.Parameter, text: str) -> list[int]:
        words = [word.strip() for word in text.split(",")]
        for word in words:
            if not (word.isascii() and word.isdigit() and int(word) >= least):
                allowed = f"whole numbers from {least} on, separated by commas"
                raise click.BadParameter(f"'{word}' is none; allowed: {allowed}")
        return sorted(map(int, words))

    return read


class Goal(NamedTuple):
    """A figure and its goal; the report shows whether it was met, but nothing fails."""

    figure: str
    goal: str
    measured: str
    met: bool


def header() -> dict[str, Any]:
    """Return the data that identify a run."""
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "load-at-start": os.getloadavg()[0],
    }


def write(name: str, document: dict[str, Any], out: Path) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{name}-{document['started'].replace(':', '')}.json"
    file.write_text(json.dumps(document, indent=1, default=str) + "\n", encoding="utf-8")
    return file


def show_results(
    title: str,
    results: Sequence[dict[str, Any]],
    console: Console,
    columns: Sequence[tuple[str, str, Callable[[Any], str]]] = (),
) -> None:
    """Print a row for each result.

    Args:
        title: Title of the table.
        results: Results, one mapping per row.
        console: Console to print on.
        columns: Heading, key in a result and format of each; if empty, all keys.
    """
    view = Table(title=title)
    for heading, _, _ in (columns := columns or [(key, key, _brief) for key in results[0]]):
        view.add_column(heading, justify="right")
    for result in results:
        view.add_row(*(form(result[key]) for _, key, form in columns))
    console.print(view)


def _brief(value: Any) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def finish(
    name: str,
    document: dict[str, Any],
    results: Sequence[dict[str, Any]],
    goals: list[Goal],
    console: Console,
    out: Path,
) -> None:
    """Print the goals, and write results and goals into a file of this name."""
    show_goals(goals, console)
    document |= {"results": results, "goals": goals}
    console.print(f"everything measured: {write(name, document, out)}")


def show_goals(goals: list[Goal], console: Console) -> None:
    """Print goals, and whether they were met."""
    view = Table(title="Goals")
    for heading in ("figure", "goal", "measured", "met"):
        view.add_column(heading)
    for goal in goals:
        view.add_row(goal.figure, goal.goal, goal.measured, "yes" if goal.met else "[red]no[/red]")
    console.print(view)
