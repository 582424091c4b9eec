"""The fields that a record of each collection always has; `kinds.yaml` lists them.

A record may have more fields. If one of these is missing, the file was cut, edited by hand, or
written by another version of the lab.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from builder import documents

KINDS: Mapping[str, Mapping[str, str]] = documents.read(Path(__file__).with_suffix(".yaml"))
"""Collection -> place in a record -> names of the fields there."""


def fault(record: Any, collection: str) -> str:
    """Return what is wrong with a record, as the end of "the record FILE ..."; "": nothing."""
    for place, names in KINDS[collection].items():
        for where, part in _parts(record, place.split(".") if place else ()):
            at = ".".join(where)
            if not isinstance(part, dict):
                return f"is damaged at '{at}'" if at else "is damaged"
            for name in names.split():
                if name not in part:
                    return f"lacks '{'.'.join((*where, name))}'"
    return ""


def _parts(
    value: Any, way: Sequence[str], where: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each part of a value at a place, with its own place; None for a place in no mapping."""
    if not way:
        yield where, value
    elif way[0] == "*" and isinstance(value, list | dict):
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _parts(entry, way[1:], (*where, str(key)))
    elif not isinstance(value, dict):
        yield where, None
    elif value.get(way[0]) is not None:
        yield from _parts(value[way[0]], way[1:], (*where, way[0]))
