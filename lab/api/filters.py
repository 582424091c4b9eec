"""Filters of lists by the query string (SOL013, clause 5.2, in the older form that NBI has)."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from lab.errors import NbiError

Document = dict[str, Any]

#: Parameters of the query string that are no filter.
ADMINISTRATIVE = ("ADMIN", "FORCE", "PUBLIC", "SET_PROJECT")


_OPERATORS = ("eq", "neq", "ne", "gt", "gte", "lt", "lte", "cont", "ncont")


def matching(documents: Iterable[Document], query: Iterable[tuple[str, str]]) -> list[Document]:
    """Return the documents that meet all of ``a.b=value[,value]``."""
    tests = []
    for name, text in query:
        if name in ADMINISTRATIVE:
            continue
        path = name.split(".")
        if len(path) > 1 and path[-1] in _OPERATORS:
            text = f"Filter '{name}' has an operator; allowed: FIELD=VALUE[,VALUE]"
            raise NbiError(text, HTTPStatus.NOT_IMPLEMENTED)
        tests.append((path, text.split(",")))
    return [d for d in documents if all(_meets(_at(d, path), texts) for path, texts in tests)]


def _meets(value: Any, texts: list[str]) -> bool:
    return any(("" if v is None else str(v)) in texts for v in _flat(value))


def _at(value: Any, path: list[str]) -> Any:
    """Return the value at a path; in a list, a number selects an entry, a name reads all."""
    for number, part in enumerate(path):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list):
            if part.isdecimal():
                # Python reads no number of thousands of digits; no list is that long.
                entry = int(part) if len(part) < 10 else len(value)
                value = value[entry] if entry < len(value) else None
            else:
                return [item for entry in value for item in _flat(_at(entry, path[number:]))]
        else:
            return None
    return value


def _flat(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
