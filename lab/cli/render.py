"""Tables and JSON of the lab's verbs."""

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml
from rich.table import Table
from rich.text import Text

from builder.terminal import PlainConsole, console, fitted, plain
from lab.errors import spoken, unknown

LITERAL = "literal"  # Form of one document as YAML, in its own order.


class Output:
    """Results on standard output; progress and remarks on standard error."""

    def __init__(self, form: str = "") -> None:
        # "" for tables that fit the terminal, "wide" for all columns; "json" or "yaml" for a
        # document; else the name of a field, or several with dots, for its value alone.
        self.form = form
        self.out = console(200)
        self.progress = PlainConsole(stderr=True, highlight=False)

    @property
    def as_json(self) -> bool:
        return self.form not in ("", "wide")

    def rows(
        self,
        documents: Sequence[Mapping[str, Any]],
        columns: Mapping[str, Sequence[str]],
        spare: Sequence[str] = (),
    ) -> None:
        """Print documents as a table.

        Args:
            documents: a row each.
            columns: heading -> keys that lead to the value.
            spare: headings of columns that go, the first one first, where the terminal is narrow.
        """
        if self.form in columns and not any(self.form in document for document in documents):
            # A heading is as good as the field's own name.
            for document in documents:
                print(plain(_cell(_dig(document, columns[self.form]))))
            return
        if self.as_json:
            self.json(list(documents))
            return
        cells = {
            heading: [_cell(_dig(document, keys)) for document in documents]
            for heading, keys in columns.items()
        }
        self.table(cells, spare)

    def table(self, cells: Mapping[str, Sequence[str]], spare: Sequence[str] = ()) -> None:
        """Print columns by their headings; `-o wide` shows also those that may be spared."""
        spared = () if self.form == "wide" else spare
        self.out.print(fitted(cells, self.out.width, spared), crop=False)

    def operations(self, operations: Sequence[Mapping[str, Any]]) -> None:
        rows = [
            {**each, "date": when(each["startTime"]) if "startTime" in each else None}
            for each in operations
        ]
        if not self.as_json:
            rows = [{**row, "errorMessage": spoken(row.get("errorMessage") or "")} for row in rows]
        actions = any("primitive" in each.get("operationParams", ()) for each in operations)
        self.rows(
            rows,
            {
                "id": ["_id"],
                "operation": ["lcmOperationType"],
                **({"action name": ["operationParams", "primitive"]} if actions else {}),
                "status": ["operationState"],
                "date": ["date"],
                "detail": ["errorMessage"],
            },
            spare=("date", "detail"),
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

    def identity(self, document: Mapping[str, Any]) -> None:
        """Print the id of a new record, as osmclient does."""
        if self.as_json:
            self.json(document)
        else:
            print(document["_id"])

    def result(self, operation: Mapping[str, Any]) -> None:
        """Print what a primitive returned: the text under ``output``, else all of it.

        Output that is JSON is shown as such, and not as a string.
        """
        detail = operation.get("detailed-status")
        output = detail.get("output") if isinstance(detail, Mapping) else None
        try:
            value = json.loads(str(output))
        except (ValueError, RecursionError):
            value = output
        if self.as_json:
            if isinstance(detail, Mapping) and output is not None:
                operation = {**operation, "detailed-status": {**detail, "output": value}}
            self.json(operation)
        elif output is None:
            print(plain(_cell(detail)))
        elif isinstance(value, str):
            print(plain(value))
        else:
            print(json.dumps(value, indent=1))

    def json(self, value: object) -> None:
        """Print a document in the form that was asked for."""
        literal = self.form == LITERAL
        text = json.dumps(value, indent=1, sort_keys=not literal, default=str)
        if self.form == "json":
            print(text)
            return
        simple = json.loads(text)
        if literal or self.form == "yaml":
            print(yaml.safe_dump(simple, default_flow_style=False, sort_keys=False).rstrip())
            return
        for document in simple if isinstance(simple, list) else [simple]:
            found = _dig(document, self.form.split("."))
            if found is None and self.form not in document:
                allowed = ["json", "yaml", "wide", *document]
                raise unknown(f"-o: there is no field '{self.form}'", self.form, allowed)
            print(plain(_cell(found)))

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
