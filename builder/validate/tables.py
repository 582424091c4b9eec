"""Rules that are rows of tables.yaml: references, needed keys, and keys that repeat or do harm."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from builder import documents
from builder.documents import DAY12, walk
from builder.validate.context import Context, rule
from builder.validate.problem import SEVERITIES, Problem, Reporter, choices
from builder.validate.schema import LOADER

Row = dict[str, str]
Entries = tuple[dict[str, Any], ...]
LEVELS = "df[]/instantiation-level[]/vdu-level[]/vdu-id"
_TABLES: dict[str, list[Row]] = documents.load(
    Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
)


class _Words(dict[str, Any]):
    """An entry of a list, for messages; NBI writes None for a key that is not there."""

    def __missing__(self, key: str) -> None:
        return None


def named(body: Any, targets: str) -> set[str]:
    """Return the values at places of a descriptor."""
    return {str(value) for target in targets.split() for _, value, _ in walk(body, target)}


@rule("vnfd", "nsd", "nst")
def descriptors(ctx: Context) -> Iterator[Problem]:
    """The rows about descriptors."""
    onboarded = {"vnfds": [*ctx.catalog.vnfds], "nsds": [*ctx.catalog.nsds]}

    def known(entries: Entries) -> dict[str, Any]:
        whose = next((entry["vnfd-id"] for entry in entries[::-1] if "vnfd-id" in entry), "")
        return {**ctx.body, "onboarded": onboarded, "vnfd": ctx.catalog.vnfds.get(whose)}

    yield from tabled(ctx, ctx.package.kind, ctx.body, known)


def tabled(
    report: Reporter, kind: str, body: Any, known: Callable[[Entries], dict[str, Any]]
) -> Iterator[Problem]:
    """Return the problems of a document by the rows about its kind.

    Args:
        known: Function from the entries of lists on the way to a place to the mapping in which
            `to` of the row looks. Where `vnfd` is empty, nothing is compared with it.
    """
    for row in _TABLES[kind]:
        if "if" in row and not body.get(row["if"]):
            continue
        for path in row["at"].split():
            path = DAY12 + path.removeprefix("day1-2") if path.startswith("day1-2") else path
            for place, value, entries in walk(body, path) if path != "." else [("", body, ())]:
                yield from _problems(report, row, place, value, entries, known(entries))


def _problems(
    report: Reporter, row: Row, place: str, value: Any, entries: Entries, known: dict[str, Any]
) -> Iterator[Problem]:
    targets = row.get("to", "")
    if targets.startswith("vnfd/") and not known["vnfd"]:
        return
    may = named(known, targets)
    for spot, wrong in _wrong(row, place, value, may):
        words = {**known, "value": wrong, "may": choices(may)}
        sentence, text = (
            text.format(*map(_Words, entries), **words)
            for text in (_says(row), row.get("osm", LOADER if "own" in row else ""))
        )
        severity = SEVERITIES[row["code"]]
        message = text if severity == "refused" else ""
        yield Problem(report.at(spot), severity, row["code"], sentence, message)


def _wrong(row: Row, place: str, value: Any, may: set[str]) -> Iterator[tuple[str, Any]]:
    """Yield (place, value or missing key) of what is wrong at a place."""
    if "needs" in row:
        key = row["needs"].removesuffix("?")
        there = value.get(key)
        if there is None or (key != row["needs"] and not there):
            yield place, key
    elif "own" in row:
        seen = set()
        for index, item in enumerate(value):
            if item[row["own"]] in seen:
                yield f"{place}[{index}]/{row['own']}", item[row["own"]]
            seen.add(item[row["own"]])
    elif str(value) not in may:
        yield place, value


def _says(row: Row) -> str:
    """Return the form of a row's sentence."""
    if "says" in row:
        return row["says"]
    if "needs" in row:
        return "{value} is missing; allowed: {may}"
    if "own" in row:
        return f"{row['own']} {{value!r}} is repeated; allowed: another {row['own']}"
    return f"{{value!r}} is no {row['to'].partition('[')[0]}; allowed: {{may}}"
