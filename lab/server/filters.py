"""Filters of lists by the query string (SOL013, clause 5.2, in the older form that NBI has)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

Document = dict[str, Any]

#: Parameters of the query string that are no filter.
ADMINISTRATIVE = ("ADMIN", "FORCE", "PUBLIC", "SET_PROJECT")


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, list[str]], bool]:
    def test(value: Any, operands: list[str]) -> bool:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            try:
                return compare(value, float(operands[0]))
            except ValueError:
                return False
        return isinstance(value, str) and compare(value, operands[0])

    return test


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return ["" if v is None else str(v) for v in values]


def _equal(value: Any, operands: list[str]) -> bool:
    return any(text in operands for text in _texts(value))


_OPERATORS: Mapping[str, Callable[[Any, list[str]], bool]] = {
    "eq": _equal,
    "cont": _equal,
    "neq": lambda value, operands: not _equal(value, operands),
    "ne": lambda value, operands: not _equal(value, operands),
    "ncont": lambda value, operands: not _equal(value, operands),
    "gt": _ordered(lambda a, b: a > b),
    "gte": _ordered(lambda a, b: a >= b),
    "lt": _ordered(lambda a, b: a < b),
    "lte": _ordered(lambda a, b: a <= b),
}


def matching(documents: Iterable[Document], query: Iterable[tuple[str, str]]) -> list[Document]:
    """Return the documents that meet all of ``a.b.op=value[,value]`` (op: ``eq`` when left out)."""
    tests = []
    for name, text in query:
        if name in ADMINISTRATIVE:
            continue
        path = name.split(".")
        operator = path.pop() if path[-1] in _OPERATORS and len(path) > 1 else "eq"
        tests.append((path, _OPERATORS[operator], text.split(",")))
    return [
        document
        for document in documents
        if all(test(_at(document, path), operands) for path, test, operands in tests)
    ]


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
                rest = path[number + (part == "ANYINDEX") :]
                return [item for entry in value for item in _flat(_at(entry, rest))]
        else:
            return None
    return value


def _flat(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
