"""Filters of lists by the query string (SOL013, clause 5.2, in the older form that NBI has)."""

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Document = dict[str, Any]

#: Parameters of the query string that are no filter.
ADMINISTRATIVE = ("ADMIN", "FORCE", "PUBLIC", "SET_PROJECT")


#: Comparisons of values in an order; all other operators compare texts.
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
_OPERATORS = ("eq", "cont", "neq", "ne", "ncont", *_ORDERS)


def _meets(value: Any, name: str, operands: list[str]) -> bool:
    """Return whether a value meets a test with the operator of this name."""
    if name not in _ORDERS:
        values = value if isinstance(value, list) else [value]
        equal = any(("" if v is None else str(v)) in operands for v in values)
        return equal == (name in ("eq", "cont"))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return _ORDERS[name](value, float(operands[0]))
        except ValueError:
            return False
    return isinstance(value, str) and _ORDERS[name](value, operands[0])


def matching(documents: Iterable[Document], query: Iterable[tuple[str, str]]) -> list[Document]:
    """Return the documents that meet all of ``a.b.op=value[,value]`` (op: ``eq`` when left out)."""
    tests = []
    for name, text in query:
        if name in ADMINISTRATIVE:
            continue
        path = name.split(".")
        test = path.pop() if path[-1] in _OPERATORS and len(path) > 1 else "eq"
        tests.append((path, test, text.split(",")))
    return [
        document
        for document in documents
        if all(_meets(_at(document, path), test, operands) for path, test, operands in tests)
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
