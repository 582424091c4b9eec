"""Tables of a page: heads, each with an expression for its cells, as a file of YAML has them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from builder import documents

#: Cells: a value, a value with its class, or `mean` and `interval` of an estimate.
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Table:
    """A table for the macro `show`."""

    heads: list[Any]  # Titles, titles with their class, and titles with the heads below them.
    rows: Rows

    def __bool__(self) -> bool:
        """Tell whether it has rows."""
        return bool(self.rows)


class Tables:
    """The tables of a file.

    A head is a title, `TITLE|text` for a column of text, or a title with heads below it. The
    expressions are Jinja's and take `row`.
    """

    def __init__(self, file: Path, **functions: Callable[..., Any]) -> None:
        """Read the file; the expressions may call the functions."""
        self._tables = documents.read(file)
        self._environment = Environment(undefined=StrictUndefined)  # noqa: S701  # no HTML
        self._environment.globals |= functions
        self._environment.filters |= functions

    def __call__(self, name: str, rows: Iterable[Any]) -> Table:
        columns = self._tables[name]
        cells = [self._environment.compile_expression(text) for text in _leaves(columns)]
        lines = [tuple(cell(row=row) for cell in cells) for row in rows]
        return Table(_heads(columns), lines)


def _leaves(columns: Mapping[str, Any]) -> Iterator[str]:
    for cell in columns.values():
        yield from _leaves(cell) if isinstance(cell, Mapping) else [cell]


def _heads(columns: Mapping[str, Any]) -> list[Any]:
    return [
        (title, _heads(cell))
        if isinstance(cell, Mapping)
        else tuple(title.split("|"))
        if "|" in title
        else title
        for title, cell in columns.items()
    ]
