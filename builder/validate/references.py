"""References in descriptors, checked by the table references.yaml."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from builder import documents
from builder.validate.context import Context, choices, rule
from builder.validate.problem import Problem

LEVELS = "df[]/instantiation-level[]/vdu-level[]/vdu-id"
_TABLE = documents.load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


class _Entry(dict[str, Any]):
    """An entry of a list; NBI writes None for a key that is not there."""

    def __missing__(self, key: str) -> None:
        return None


def _at(
    node: Any, path: str, place: str = "", entries: tuple[_Entry, ...] = ()
) -> Iterator[tuple[str, Any, tuple[_Entry, ...]]]:
    """Yield (place, value, entries of lists on the way) of each value at a path."""
    head, _, rest = path.partition("/")
    name, bracket, which = head.partition("[")
    key = name.removesuffix("?")
    value = node.get(key)
    if value is None or (key != name and not value):
        return
    for index, item in enumerate(value if bracket else [value]):
        if (which == "0]" and index) or (which[:1] == "-" and which[1:-1] in item):
            continue
        spot = f"{place}/{key}[{index}]" if bracket else f"{place}/{key}"
        way = (*entries, _Entry(item)) if bracket and isinstance(item, dict) else entries
        if rest:
            yield from _at(item, rest, spot, way)
        else:
            yield spot, item, way


def named(body: Any, targets: str) -> set[str]:
    """Return the values at places of a descriptor."""
    return {str(value) for target in targets.split() for _, value, _ in _at(body, target)}


@rule("vnfd", "nsd")
def references(ctx: Context) -> Iterator[Problem]:
    """What is named must exist."""
    for row in _TABLE[ctx.package.kind]:
        known = named(ctx.body, row["to"])
        says = row.get("says", "{value!r} is no " + row["to"].partition("[")[0])
        for place, value, entries in _at(ctx.body, row["at"]):
            if str(value) in known:
                continue
            sentence = f"{says.format(value=value)}; allowed: {choices(known)}"
            if "refused" in row:
                text = row["osm"].format(*entries, value=value)
                yield ctx.refused(row["refused"], place, sentence, text)
            else:
                yield ctx.silent(row["silent"], place, sentence)
