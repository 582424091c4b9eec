"""Display of a running operation: a live table on a terminal, one line per event elsewhere."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lab.records.journal import Event, Tail

_POLL = 0.1
_SILENCE = 10.0  # Seconds without news after which the display shows the current stage again.
_STYLE = {"active": "green", "blocked": "yellow", "error": "red", "BROKEN": "red"}


@dataclass
class _Row:
    vm: str = ""
    charm: str = ""
    style: str = ""
    logged: str = ""  # The last charm text in the log: a hook that fails again is not logged again.
    primitive: str = ""


@dataclass
class Board:
    """State of the display, updated by events; it draws nothing itself."""

    stage: str = ""
    rows: dict[str, _Row] = field(default_factory=dict)
    relations: dict[str, str] = field(default_factory=dict)
    seconds: int = 0
    """Time for which the operation has been watched, at the last call of ``after``."""

    def after(self, seconds: float) -> str:
        """Record the elapsed seconds; return a log line that shows them."""
        self.seconds = int(seconds)
        working = "in progress" if self.rows else "waiting for the worker"
        return f"{self.seconds} s: {self.stage or working}"

    def feed(self, event: Event) -> str | None:
        """Update the state from an event; return a log line, or ``None`` if it is no news."""
        kind, subject, text = event["kind"], event["subject"], event["text"]
        if kind == "stage":
            self.stage = text
            return str(text)
        if kind == "note":
            return f"{subject}: note: {text}"
        if kind == "relation":
            self.relations[subject] = text
            return f"relation {subject}: {text}"
        if kind in ("end", "settled"):
            self.stage = text
            state = event.get("state", "")
            # Who watches says why it failed.
            return state if state == "FAILED" else f"{state} {text}".strip()
        row = self.rows.setdefault(subject, _Row())
        if kind == "ns":
            row.charm = text
            return f"{subject}: {text}"
        if kind == "vm":
            row.vm = text
            return f"{subject}: vm {text}"
        if kind == "primitive":
            done = event["number"] if event.get("done") else event["number"] - 1
            row.primitive = f"{done}/{event['total']} {text}"
            return None if event.get("done") else f"{subject}: primitive {text}"
        status = event.get("status") or event.get("state") or ""
        row.charm, row.style = text, _STYLE.get(status, "")
        if event.get("quiet") or row.logged == text:
            return None
        row.logged = text
        return f"{subject}: charm {text}"

    def table(self) -> Table | Text:
        """Return what a terminal shows: a table, or only the stage while there are no rows."""
        title = f"{self.stage} ({self.seconds} s)" if self.seconds else self.stage
        if not self.rows:
            return Text(title)
        # Text: rich would read names and messages with brackets as markup.
        table = Table(title=Text(title, "table.title"), title_justify="left", expand=False)
        for heading in ("VNF", "VM", "charm", "primitives"):
            # Where the terminal is narrow, what the charm says becomes shorter, and no name.
            table.add_column(heading, overflow="ellipsis", no_wrap=heading != "charm")
        for subject in sorted(self.rows):
            row = self.rows[subject]
            charm = Text(row.charm, style=row.style, no_wrap=True)
            table.add_row(Text(subject), Text(row.vm), charm, Text(row.primitive))
        for name in sorted(self.relations):
            table.add_row(Text(f"link {name}"), "", Text(self.relations[name], no_wrap=True), "")
        return table


@dataclass(frozen=True)
class Outcome:
    """How a watched operation ended, as far as the watcher saw it."""

    state: str | None
    """``COMPLETED``, ``FAILED``, or ``None`` if the watcher's timeout expired first."""
    detail: object = None
    lost: bool = False  # The worker died and reported no result.


def watch(
    tail: Tail,
    alive: Callable[[], bool],
    console: Console,
    timeout: float | None = None,
    until_idle: bool = True,
) -> Outcome:
    """Show an operation until it has ended and its charms are idle; a terminal gets a live table.

    ``alive`` returns whether its worker still runs; ``timeout``: seconds, ``None`` for no limit.
    Without ``until_idle`` the charms may still have something to do.
    """
    board = Board()
    live = Live(board.table(), console=console, refresh_per_second=8)
    terminal = console.is_terminal
    display: AbstractContextManager[object] = live if terminal else nullcontext()

    def show(line: str | None) -> bool:
        """Show the board on a terminal, else print the line; return whether it was printed."""
        if terminal:
            live.update(board.table())
        elif line is not None:
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        return line is not None and not terminal

    started = last_news = time.monotonic()
    outcome = Outcome(None)
    with display:
        while True:
            running = alive()  # checked before reading, so that its last lines are still read
            for event in tail.new_events():
                if show(board.feed(event)):
                    last_news = time.monotonic()
                if event["kind"] == "end":
                    outcome = Outcome(event["state"], event.get("detail"))
                    if not until_idle:
                        return outcome
                if event["kind"] == "settled":
                    return outcome
            if not running:
                return outcome if outcome.state else Outcome("FAILED", lost=True)
            now = time.monotonic()
            if timeout is not None and now > started + timeout:
                return outcome
            if now - last_news >= _SILENCE:
                last_news = now
                show(board.after(now - started))
            time.sleep(_POLL)
