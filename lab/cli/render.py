"""Tables and JSON of the lab's verbs."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

SENTENCE = 24
"""Width below which a column of sentences is not shrunk, in characters."""


class Output:
    """Where results go: tables, or with ``as_json`` one JSON document on standard output."""

    def __init__(self, as_json: bool) -> None:
        """Results go to standard output, progress and remarks to standard error."""
        self.as_json = as_json
        self.out = Console(highlight=False, soft_wrap=False)
        self.progress = Console(stderr=True, highlight=False)
        if not self.out.is_terminal:
            # A pipe has no width; without this rich would cut columns at 80 characters.
            self.out = Console(highlight=False, width=200)

    def rows(
        self, documents: Sequence[Mapping[str, Any]], columns: Mapping[str, Sequence[str]]
    ) -> None:
        """Print documents as a table; ``columns`` maps a heading to the keys that lead to it."""
        if self.as_json:
            self.json(list(documents))
            return
        rows = [
            [_cell(_dig(document, keys)) for keys in columns.values()] for document in documents
        ]
        table, least = Table(), 1
        for number, heading in enumerate(columns):
            cells = [line for row in rows for line in row[number].splitlines()]
            # Wrap only cells with spaces: an id on two lines cannot be copied.
            sentence = any(" " in cell for cell in cells)
            width = max(map(len, [heading, *cells]))
            width = min(width, SENTENCE) if sentence else width
            table.add_column(heading, overflow="fold", no_wrap=not sentence, min_width=width)
            least += width + 3
        for row in rows:
            table.add_row(*map(Text, row))
        if least > self.out.width:
            table.width = least  # the terminal wraps whole lines, as it does osmclient's
        self.out.print(table, crop=False)

    def operations(
        self,
        operations: Sequence[Mapping[str, Any]],
        columns: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Print LCM operations; ``columns`` are additional columns."""
        self.rows(
            [
                {**each, "date": when(each["startTime"]) if "startTime" in each else None}
                for each in operations
            ],
            {
                "id": ["_id"],
                "operation": ["lcmOperationType"],
                **(columns or {}),
                "status": ["operationState"],
                "date": ["date"],
                "detail": ["errorMessage"],
            },
        )

    def fields(self, document: Mapping[str, Any], keys: Iterable[str] | None = None) -> None:
        """Print one document as a table of two columns."""
        if self.as_json:
            self.json(document)
            return
        table = Table()
        table.add_column("field", no_wrap=True)
        table.add_column("value", overflow="fold")
        for key in document if keys is None else keys:
            if key in document:
                table.add_row(Text(key), Text(_cell(document[key])))
        self.out.print(table)

    def literal(self, document: Mapping[str, Any]) -> None:
        """Print one document as YAML, also with ``--json``."""
        print(yaml.safe_dump(dict(document), default_flow_style=False, sort_keys=False).rstrip())

    def identity(self, document: Mapping[str, Any]) -> None:
        """Print the id of a new record, as osmclient does."""
        if self.as_json:
            self.json(document)
        else:
            print(document["_id"])

    def result(self, operation: Mapping[str, Any]) -> None:
        """Print what a primitive returned: the text under ``output``, else all of it.

        Output that is JSON is indented.
        """
        detail = operation.get("detailed-status")
        if self.as_json:
            self.json(operation)
            return
        output = detail.get("output") if isinstance(detail, Mapping) else None
        if output is None:
            print(_cell(detail))
            return
        try:
            value = json.loads(str(output))
        except ValueError:
            print(output)
        else:
            print(json.dumps(value, indent=1))

    def json(self, value: object) -> None:
        """Print JSON."""
        print(json.dumps(value, indent=1, sort_keys=True, default=str))

    def remark(self, text: str) -> None:
        """Print a remark for people on standard error."""
        self.progress.print(text, markup=False, soft_wrap=True)


def _dig(document: Mapping[str, Any], keys: Sequence[str]) -> Any:
    value: Any = document
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, (dict, list)):
        return yaml.safe_dump(value, default_flow_style=False, sort_keys=False).rstrip()
    return str(value)


def when(seconds: float) -> str:
    """Return a record's time stamp as local time, to the second."""
    return datetime.datetime.fromtimestamp(seconds).strftime("%Y-%m-%dT%H:%M:%S")
