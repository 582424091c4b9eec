"""Tables on the terminal, and the page and CSV file of a gateway benchmark."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.gateway.measure import FLOW_SIZES, FORWARDING, HTTP, LOSS, PINNED, WINDOW
from benchmarks.gateway.summary import (
    CSV_HEAD,
    Row,
    csv_rows,
    curve,
    mixes,
    published_sizes,
    reference,
    rows,
)
from benchmarks.gateway.users import BODY
from benchmarks.report import Report
from experiments.model import Run
from experiments.report import figures
from experiments.report.figures import Book
from experiments.report.render import disturbed, templates, write_table
from experiments.report.tables import Rows, Table, Tables
from experiments.stats import Estimate, single
from testbed.loads import IMIX, IMIX2

HERE = Path(__file__).parent
Points = list[tuple[float, Estimate]]


def write(document: Mapping[str, Any], runs: Sequence[Run], file: Path) -> tuple[Path, Path]:
    """Write the page and the CSV file beside the JSON file; return their paths."""
    page, table = file.with_suffix(".html"), file.with_suffix(".csv")
    book = Book(f"{file.stem}-figures")
    page.write_text(html(document, runs, book), encoding="utf-8")
    book.write(file.parent)
    write_table(table, CSV_HEAD, csv_rows(runs))
    return page, table


def html(document: Mapping[str, Any], runs: Sequence[Run], book: Book | None = None) -> str:
    """Return the page; a browser shows it without other files and without a network.

    Args:
        book: collects the figures, to whose files the page has links.
    """
    book = book or Book("figures")
    forwarding, pinned = rows(runs, FORWARDING), rows(runs, PINNED)
    stamps = [time.strftime("%Y-%m-%d %H:%M", time.gmtime(run.started)) for run in runs]
    loads = [run.load for run in runs]
    large, http = _large(runs)
    page = templates(HERE).get_template("page.html.j2")
    return page.render(
        env=document["environment"],
        disturbed=disturbed(runs, document["environment"]["host"]["cpus"]),
        kinds=document["backends"],
        without=document["left-out"],
        seed=document["seed"],
        count=len(runs),
        begun=min(stamps),
        ended=max(stamps),
        load=f"{min(loads):.1f} to {max(loads):.1f}",
        rounds=max(run.repetition for run in runs) + 1,
        figures=_figures(forwarding, pinned, book),
        forwarding=large,
        flows=_flows(forwarding),
        http=http,
        body=BODY >> 10,
        mixes=mixes(forwarding),
        size_ratio=IMIX2.mean / IMIX.mean,
        references=reference(),
        window=WINDOW,
        loss=f"{LOSS:.1%}".removesuffix("%"),
    )


def _figures(table: Sequence[Row], pinned: Sequence[Row], book: Book) -> list[dict[str, str]]:
    names = list(dict.fromkeys(row.backend for row in table))
    source, published = published_sizes()
    known = [(float(n), single(rates[0])) for n, rates in published.items()]
    size, path = "frame size in bytes", "Gbit/s of the path"
    made: list[dict[str, str]] = []

    def add(
        ours: Sequence[figures.Curve], theirs: Points, caption: str, across: str, axis: str
    ) -> None:
        """Add a figure, unless we have no points; curves without any keep the others' styles."""
        if any(points for _, points in ours):
            curves = [*ours, (source, theirs)]
            made.append(book.add(figures.curves(curves, caption, (across, axis)), caption))

    for down, way in ((1.0, "to the field"), (0.0, "from the field")):
        for what, axis, text in (
            ("gbps-per-core", "Gbit/s per core", "Rate per core of the gateway"),
            ("to_plain", "rate per core, over plain", "The same, over plain forwarding"),
            ("gbps", path, "Rate of the whole path, all on this machine"),
        ):
            caption = f"{text}, frames {way}; bars are 95 % intervals over rounds."
            theirs: Points = []
            if (what, down) == ("gbps", 1.0):
                theirs = known
                caption += " Beside it what others publish, on machines of their own."
            add([(n, curve(table, n, down, what)) for n in names], theirs, caption, size, axis)
    caption = "Rate per core at each size, over that at 1024 bytes of the same source."
    shapes = [(n, _shape(curve(table, n, 1.0, "gbps-per-core"))) for n in names]
    add(shapes, _shape(known), caption, size, "over that at 1024 bytes")
    given = zip(_COUNTS, published[_FLOW_SIZE], strict=True)
    theirs = [(float(n), single(rate)) for n, rate in given]
    caption = f"Rate of the whole path by the number of tunnels, frames of {_FLOW_SIZE} bytes."
    add([(n, _by_tunnels(table, n)) for n in names], theirs, caption, "tunnels", path)
    over = [
        (name, [(float(r.load), r.figures["gbps"]) for r in pinned if r.backend == name])
        for name in names
    ]
    caption = "Rate of the whole path with IMIX, the gateway pinned to so many processors."
    add(over, [], caption, "processors", path)
    return made


_FLOW_SIZE = 1024
_COUNTS = (1, 2, 4)  # Numbers of tunnels, in the order of the published figures.


def _shape(points: Points) -> Points:
    """Return figures by frame size over the one at 1024 bytes."""
    base = next((value.mean for size, value in points if size == 1024), 0.0)
    return [(size, single(value.mean / base)) for size, value in points if base]


def _by_tunnels(table: Sequence[Row], backend: str) -> Points:
    """Return the rate of the path with frames of one size by the number of tunnels."""
    points = [
        (float(r.tunnels), r.figures["gbps"])
        for r in table
        if (r.backend, r.load) == (backend, str(_FLOW_SIZE)) and r.tunnels in _COUNTS
    ]
    return points if len(points) > 1 else []


def _flows(table: Sequence[Row]) -> Rows:
    """Return rates of the path by frame size with 1, 2 and 4 tunnels, ours and published."""
    rates = {(r.backend, r.load, r.tunnels): r.figures["gbps"].mean for r in table}
    lines: Rows = [
        (name, size, *(f"{rates[name, str(size), n]:.3f}" for n in _COUNTS))
        for name in dict.fromkeys(r.backend for r in table)
        for size in FLOW_SIZES
        if all((name, str(size), n) in rates for n in _COUNTS)
    ]
    if lines:
        source, sizes = published_sizes()
        lines += [(source, size, *(f"{rate:g}" for rate in given)) for size, given in sizes.items()]
    return lines


HIDDEN = 6
"""Column of both large tables for which the terminal has no room."""


def _large(runs: Sequence[Run]) -> tuple[Table, Table]:
    """Return the tables of forwarding, at last with the gateway pinned to processors, and HTTP."""
    table = Tables(HERE / "tables.yaml", loss=_loss, errors=_errors)
    pinned = [replace(r, load=f"imix, processors: {r.load}") for r in rows(runs, PINNED)]
    return table("forwarding", rows(runs, FORWARDING) + pinned), table("http", rows(runs, HTTP))


def _loss(f: Mapping[str, Estimate]) -> str | tuple[str, str]:
    loss = f"{f['loss'].mean * 100:.3f}"
    return loss if f["valid"].mean == 1 else (loss, "bad-text")


def _errors(f: Mapping[str, Estimate]) -> str:
    return f"{sum(v.mean for n, v in f.items() if n.startswith('errors.')):g}"


def _bare(cell: Any) -> str:
    """Return a cell or head without its class and its interval."""
    return str(cell[0] if isinstance(cell, tuple) else cell).split(" (")[0]


def show(runs: Sequence[Run], report: Report) -> None:
    """Print both tables, the backends of a load in adjacent lines; intervals are on the page."""
    titles = (
        "Forwarding; 'a core' and 'a frame' are the gateway's own processor time",
        f"HTTP users, {BODY >> 10} kB a response",
    )
    for title, table in zip(titles, _large(runs), strict=True):
        loads = [*dict.fromkeys(line[0] for line in table.rows)]
        lines = sorted(table.rows, key=lambda line: loads.index(line[0]))
        cells = [
            [_bare(cell) for at, cell in enumerate(line) if at != HIDDEN]
            for line in (table.heads, *lines)
        ]
        report.table(title, cells[0], cells[1:])
