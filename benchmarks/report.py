"""The command line and the output of all benchmarks: options, tables, goals and result files."""

import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.table import Table

from builder import documents
from builder.commands import SETTINGS
from builder.terminal import console
from experiments.machine import NOTHING, Watch
from experiments.stats import Estimate

Main = Callable[..., None]
COLUMNS = documents.read(Path(__file__).with_name("columns.yaml"))


class Goal(NamedTuple):
    """A figure and its goal; the report shows whether it was met, but nothing fails.

    `met` is None if the run cannot tell: the interval of the figure is on both sides of the goal.
    """

    figure: str
    goal: str
    measured: str
    met: bool | None

    @classmethod
    def at_least(cls, figure: str, value: Estimate, limit: float) -> "Goal":
        """Return the goal that a figure with an interval is not below a limit."""
        met = True if value.low >= limit else False if value.high < limit else None
        return cls(figure, f">= {limit:g}", str(value), met)

    @classmethod
    def at_most(cls, figure: str, value: Estimate, limit: float) -> "Goal":
        """Return the goal that a figure with an interval is not above a limit."""
        met = True if value.high <= limit else False if value.low > limit else None
        return cls(figure, f"<= {limit:g}", str(value), met)

    @classmethod
    def below(cls, figure: str, value: float, limit: float, unit: str = "") -> "Goal":
        """Return the goal that a figure is below a limit."""
        digits = 2 if limit < 10 else 1 if limit < 100 else 0
        shown = f"{value:.{digits}f} {unit}".rstrip()
        return cls(figure, f"< {limit:g} {unit}".rstrip(), shown, value < limit)


class Report:
    """One run: its console and all that it measured.

    Attributes:
        name: Beginning of the names of its files.
        out: Folder of its files.
        document: Content of its JSON file, with the data that identify the run.
    """

    def __init__(self, name: str, out: Path) -> None:
        self.name, self.out = name, out
        self.console = console(140)
        self.document: dict[str, Any] = {
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "kernel": platform.release(),
            "cpus": os.cpu_count(),
            "load-at-start": os.getloadavg()[0],
        }
        self.disturbance = ""
        """Why goals that were missed tell nothing, "" if the machine kept up."""

    def say(self, text: object) -> None:
        self.console.print(text)

    def table(self, title: str, headings: Iterable[str], rows: Iterable[Sequence[Any]]) -> None:
        """Print a table; columns with texts are without heading, all others have numbers."""
        view = Table(title=title)
        for heading in headings:
            view.add_column(heading, justify="right" if heading else "left")
        for row in rows:
            view.add_row(*map(str, row))
        self.say(view)

    def results(self, title: str, results: Sequence[dict[str, Any]]) -> None:
        """Print a row for each result, with the columns of columns.yaml, or with all keys."""
        columns = COLUMNS.get(self.name) or [
            (key, key, "{:.1f}" if isinstance(value, float) else "{}")
            for key, value in results[0].items()
        ]
        rows = ([form.format(result[key]) for _, key, form in columns] for result in results)
        self.table(title, [heading for heading, _, _ in columns], rows)

    def goals(self, goals: Iterable[Goal]) -> None:
        """Keep goals; `command` prints them when it knows whether the machine kept up."""
        self.document["goals"] = list(goals)

    def missed(self) -> bool:
        """Tell whether a goal was missed."""
        return any(goal.met is False for goal in self.document.get("goals", ()))

    def show_goals(self) -> None:
        """Print the goals, and whether they were met."""
        no = f"[yellow]{NOTHING}[/yellow]" if self.disturbance else "[red]no[/red]"
        view = Table(*Goal._fields, title="Goals")
        for goal in self.document.get("goals", ()):
            word = no if goal.met is False else "yes" if goal.met else f"[yellow]{NOTHING}[/yellow]"
            view.add_row(*goal[:3], word)
        if view.row_count:
            self.say(view)
        if any(goal.met is None for goal in self.document.get("goals", ())):
            self.say(
                "The run tells nothing of some figures: other work on the machine, or too few "
                "rounds. Run it again on a machine with nothing else to do, or with more --rounds."
            )

    def write(self) -> Path:
        """Write the file with what is measured until now; return its path."""
        self.out.mkdir(parents=True, exist_ok=True)
        file = self.out / f"{self.name}-{self.document['started'].replace(':', '')}.json"
        file.write_text(json.dumps(self.document, indent=1, default=str) + "\n", encoding="utf-8")
        return file


def command(
    name: str, file: str = "", missing: Callable[[], str] = str, epilog: str = ""
) -> Callable[[Main], Any]:
    """Make a command of a function with a report as first argument, and write the report.

    An interrupted run writes what it has measured. One that missed a goal on a busy machine tells
    nothing, and is made once more.

    Args:
        file: Beginning of the names of its files, if another one.
        missing: Function that returns what this machine lacks, "" if nothing.
    """

    def decorate(main: Main) -> Any:
        @wraps(main)
        def run(out: Path, **options: Any) -> None:
            if reason := missing():
                raise click.ClickException(f"this machine {reason}")
            for last in (False, True):
                report = Report(file or name, out)
                try:
                    with Watch() as watch:
                        main(report, **options)
                    if report.missed():
                        report.disturbance = watch.disturbance(report.document)
                        report.document["disturbance"] = report.disturbance
                finally:
                    path = report.write()
                report.show_goals()
                report.say(f"everything measured: {path}")
                if last or not report.disturbance:
                    return
                report.say(f"{NOTHING}: {report.disturbance}; once more")

        option = click.option(
            "--out",
            type=click.Path(path_type=Path),
            default=Path("results"),
            help="Folder of the results.",
        )
        return click.command(name, context_settings=SETTINGS, epilog=epilog)(option(run))

    return decorate


def counts(
    option: str, default: str, text: str, allowed: Sequence[int] = ()
) -> Callable[[Main], Main]:
    """Return an option: whole numbers separated by commas, in ascending order.

    Args:
        allowed: Allowed numbers; if empty, all from 1 on.
    """
    what = "whole numbers from 1 on" if not allowed else ", ".join(map(str, allowed))

    def read(_context: click.Context, _parameter: click.Parameter, text: str) -> list[int]:
        words = [word.strip() for word in text.split(",")]
        for word in words:
            number = int(word) if word.isascii() and word.isdigit() else 0
            if number < 1 or (allowed and number not in allowed):
                raise click.BadParameter(
                    f"'{word}' is not allowed here; allowed: {what}, separated by commas"
                )
        return sorted(map(int, words))

    return click.option(option, default=default, callback=read, help=text)
