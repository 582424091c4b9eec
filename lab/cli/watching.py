"""Verbs that show something again and again (`--watch`), and logs that are followed."""

import functools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from lab.cli.context import Lab

PAUSE = 2.0  # Seconds between two looks.


def watched(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--watch`` to a verb that shows something."""

    @click.option("--watch", is_flag=True, help=f"Show it every {PAUSE:.0f} seconds, until ^C.")
    @functools.wraps(command)
    def again(*args: Any, watch: bool, **options: Any) -> Any:
        if watch:
            lab = click.get_current_context().find_object(Lab)
            if lab is not None:
                lab.engine.store.pins = {}
        while watch:
            click.clear()
            command(*args, **options)
            time.sleep(PAUSE)
        return command(*args, **options)

    return again


def lines(files: Callable[[], list[Path]], follow: bool) -> Iterator[tuple[str, str]]:
    """Yield (name of the file without ending, line) of log files.

    Args:
        files: returns the present files; called again while following.
        follow: wait for further lines, for ever. A file that shrank was rotated, and is read from
            its beginning.
    """
    read: dict[Path, int] = {}
    while True:
        for path in files():
            try:
                with path.open("rb") as stream:
                    start = read.get(path, 0)
                    start = start if stream.seek(0, 2) >= start else 0
                    stream.seek(start)
                    data = stream.read()
            except FileNotFoundError:  # rotated or removed at this moment, or nothing logged yet
                continue
            # The writer may be in the middle of the last line.
            whole = data[: data.rfind(b"\n") + 1] if follow else data
            read[path] = start + len(whole)
            for line in whole.decode(errors="replace").splitlines():
                yield path.stem, line
        if not follow:
            return
        time.sleep(0.5)
