"""Results of the checks, on the terminal and as a page for a bug report."""

import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Literal

from jinja2 import Environment, FileSystemLoader

State = Literal["passed", "failed", "unknown", "skipped"]


@dataclass
class Step:
    """One check and its result."""

    title: str  # Name of the check.
    state: State = "passed"  # Result; `unknown` if the API does not tell.
    sentence: str = ""  # Finding of the check.
    command: str = ""  # Command that corrects the problem.
    detail: str = ""  # Message of OSM or of the VIM.
    speaker: str = "OSM"  # Who said it.
    seconds: float = 0.0  # Duration of the check.

    def fail(self, sentence: str, command: str = "", detail: str = "") -> None:
        self.state, self.sentence, self.command, self.detail = "failed", sentence, command, detail


@dataclass
class Report:
    """All steps of a run."""

    osm: str  # Address of the OSM.
    vim: str  # Name of the VIM account.
    say: Callable[[str], object] = print  # Takes a line for the terminal.
    release: str = ""
    steps: list[Step] = field(default_factory=list)
    began: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))

    @property
    def passed(self) -> bool:
        return all(step.state != "failed" for step in self.steps)

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Measure the duration of a step, print its result, and keep it."""
        step, start, ended = Step(title), monotonic(), False
        try:
            yield step
            ended = True
        finally:
            if not ended:  # by a signal, or by an error that nobody expected
                step.fail("It was interrupted.")
            step.seconds = round(monotonic() - start, 1)
            self.steps.append(step)
            for line in _lines(step):
                self.say(line)

    def page(self) -> str:
        """Return the page: one HTML file without scripts and links."""
        pages = Environment(autoescape=True, loader=FileSystemLoader(Path(__file__).parent))
        return pages.get_template("page.html.j2").render(report=self)


def _lines(step: Step) -> Iterator[str]:
    sign = {"passed": "ok", "failed": "FAILED", "unknown": "?", "skipped": "skipped"}[step.state]
    yield f"{sign:8}{step.title}" + (f": {step.sentence}" if step.sentence else "")
    if step.detail:
        yield f"        {step.speaker} says: {' '.join(step.detail.split())[:500]}"
    if step.command:
        yield f"        try: {step.command}"
