"""Figures of a report: a plot as SVG text and PDF, and the numbers in it as a table."""

import csv
import html
import io
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import lines, patches, pyplot, ticker

from experiments.report.published import Ratio
from experiments.stats import Estimate

matplotlib.use("svg")

#: Shape and fill differ as well as colour, so series differ in grey too (Okabe and Ito's palette).
OURS: dict[str, Any] = {"color": "#0072B2", "marker": "o"}
PUBLISHED: dict[str, Any] = {"color": "#D55E00", "marker": "D", "markerfacecolor": "none"}
STYLE = Path(__file__).with_name("report.mplstyle")
WIDTH = 4.8
"""Width in inches; with the font above, text is readable on a phone and not too large elsewhere."""
#: Styles of curves, in the order of their series.
LOOKS: tuple[dict[str, Any], ...] = (
    {"color": "#555555", "marker": "s", "linestyle": ":"},
    {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    {"color": "#D55E00", "marker": "D", "linestyle": "--"},
    {"color": "#009E73", "marker": "^", "linestyle": "-."},
    {"color": "#CC79A7", "marker": "v", "linestyle": (0, (5, 1))},
)

LABEL = 29
"""Characters in a line of a label; longer names of slices are broken, so that the plot has room."""

Curve = tuple[str, Sequence[tuple[float, Estimate]]]
"""Name of a curve, and its points: (size, measured value)."""


@dataclass(frozen=True)
class Figure:
    """A figure as SVG, as matplotlib object and as table."""

    svg: str  # SVG for the page: it scales, and has the browser's font.
    drawn: Any  # matplotlib's figure; `Book.write` makes a PDF from it.
    rows: Sequence[Sequence[Any]]  # The numbers, after a row of headings.


class Book:
    """The figures of one page, numbered from 1 in the order in which they are added."""

    def __init__(self, folder: str) -> None:
        """Set the folder, relative to the page, for the files of `write`."""
        self.folder = folder
        self._figures: list[Figure] = []

    def add(self, figure: Figure, text: str) -> dict[str, str]:
        """Number a figure; return its data for the page."""
        self._figures.append(figure)
        number = str(len(self._figures))
        name = f"{self.folder}/figure-{number}"
        return {"number": number, "svg": figure.svg, "text": text, "file": name}

    def write(self, directory: Path) -> None:
        """Write each figure as SVG, PDF and CSV into the folder beside the page."""
        folder = directory / self.folder
        folder.mkdir(parents=True, exist_ok=True)
        for number, figure in enumerate(self._figures, 1):
            file = folder / f"figure-{number}.svg"
            file.write_text(figure.svg + "\n", encoding="utf-8")
            with pyplot.rc_context(fname=STYLE):
                # No date, so that the same runs give the same bytes.
                metadata = {"CreationDate": None, "Creator": None}
                figure.drawn.savefig(file.with_suffix(".pdf"), metadata=metadata)
            with open(file.with_suffix(".csv"), "w", newline="", encoding="utf-8") as stream:
                csv.writer(stream).writerows(figure.rows)


def _as_figure(figure: Any, title: str, rows: Sequence[Sequence[Any]]) -> Figure:
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    text = out.getvalue()
    text = text[text.index("<svg") :]
    # Without a fixed size the figure scales with the page.
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    text = text.replace("<svg ", f'<svg role="img" aria-label="{html.escape(title)}" ', 1)
    return Figure(text, figure, rows)


#: Possible marks of a logarithmic axis, the most important first.
_MARKS = tuple(
    tuple(digit * 10.0**power for power in range(-6, 7) for digit in digits)
    for digits in ((1,), (2, 5), (3, 7), (1.5, 4), (1.2, 2.5, 6, 8), (1.1, 1.3, 1.4, 1.8, 9))
)


def marks(low: float, high: float, room: float) -> list[float]:
    """Return the marks of a logarithmic axis whose labels do not touch.

    Args:
        low, high: ends of the axis.
        room: part of the axis' length that a label needs, 0 to 1.
    """
    chosen: list[float] = []
    whole = math.log(high / low)
    for group in _MARKS:
        for mark in group:
            if low <= mark <= high and all(
                abs(math.log(mark / other)) / whole >= room for other in chosen
            ):
                chosen.append(mark)
        if len(chosen) >= 5:
            break
    return sorted(chosen)


def _logarithmic(axis: Any, low: float, high: float, inches: float) -> None:
    """Set the marks of a logarithmic axis, whose labels need so many inches each."""
    size = axis.axes.get_window_extent().transformed(axis.figure.dpi_scale_trans.inverted())
    length = size.width if axis.axis_name == "x" else size.height
    places = marks(low, high, inches / length)
    axis.set_ticks(places, [f"{mark:g}" for mark in places])
    axis.set_minor_locator(ticker.NullLocator())


def _broken(labels: Iterable[str]) -> tuple[list[str], int]:
    """Return labels broken into lines, and the largest number of lines."""
    broken = [textwrap.fill(label, LABEL) for label in labels]
    return broken, max((label.count("\n") + 1 for label in broken), default=1)


def _ends(value: Estimate) -> tuple[Any, Any]:
    return (value.low, value.high) if value.known else ("", "")


@matplotlib.rc_context(fname=STYLE)
def ratios(ours: Sequence[Ratio], published: Sequence[Ratio], title: str, axis: str) -> Figure:
    """Plot ratios as points with their confidence intervals, together with published ones.

    Ratios with the same label are in one row. The axis is logarithmic, so half and double have the
    same distance from one.
    """
    labels = list(dict.fromkeys(r.label for r in (*ours, *published)))
    rows = {label: y for y, label in enumerate(reversed(labels))}
    names, most = _broken(rows)
    figure, axes = pyplot.subplots(figsize=(WIDTH, 1.1 + (0.12 + 0.17 * most) * len(rows)))
    axes.axvline(1, color="#555555", linewidth=1)
    # Hollow ones are above filled ones, which would hide them.
    for listed, look, whose in (
        (ours, OURS, "this campaign"),
        (published, PUBLISHED, "published"),
    ):
        if listed and published:
            axes.plot([], [], linestyle="none", markersize=7, label=whose, **look)
            axes.legend(frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 1))
        for one in listed:
            y, value = rows[one.label], one.value
            if value.known:
                ends = [value.low, value.high]
                axes.plot(ends, [y, y], color=look["color"], linewidth=2)
            axes.plot([value.mean], [y], linestyle="none", markersize=7, **look)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    low, high = min(low, 0.8), max(high, 1.25)
    axes.set_xlim(low, high)
    axes.set_yticks(list(rows.values()), names)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.grid(axis="y", visible=False)
    # Right-aligned, because a centred label would be cut off.
    axes.set_xlabel(axis, loc="right")
    figure.tight_layout()
    _logarithmic(axes.xaxis, low, high, 0.33)
    figure.tight_layout()
    numbers = [
        (one.label, one.source or "this campaign", one.value.mean, *_ends(one.value))
        for one in (*ours, *published)
    ]
    return _as_figure(figure, title, [("row", "source", "ratio", "low", "high"), *numbers])


@matplotlib.rc_context(fname=STYLE)
def curves(rows: Sequence[Curve], title: str, axes_names: tuple[str, str]) -> Figure:
    """Plot curves over sizes with their confidence intervals; the vertical axis is logarithmic.

    A curve without points is not drawn but keeps its style, so that all figures of a page agree.
    """
    means = [value.mean for _, points in rows for _, value in points]
    figure, axes = pyplot.subplots(figsize=(WIDTH, 3.4))
    for (name, points), look in zip(rows, LOOKS, strict=False):
        if not points:
            continue
        line = ([size for size, _ in points], [value.mean for _, value in points])
        axes.plot(*line, label=name, markersize=5, linewidth=1.6, **look)
        for size, value in points:
            # A logarithmic axis cannot show an interval that reaches zero.
            if value.known and value.low > 0:
                ends = [value.low, value.high]
                axes.plot([size, size], ends, color=look["color"], linewidth=1.2)
    axes.set_yscale("log")
    # Limits from the means, because one wide interval would make all curves flat.
    axes.set_ylim(min(means) / 2, max(means) * 2)
    _logarithmic(axes.yaxis, *axes.get_ylim(), 0.18)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(ticker.MaxNLocator("auto", integer=True))
    axes.set_xlabel(axes_names[0])
    axes.set_ylabel(axes_names[1])
    axes.legend(frameon=False, fontsize=9)
    figure.tight_layout()
    head = ("curve", axes_names[0], axes_names[1], "low", "high")
    numbers = [
        (name, size, value.mean, *_ends(value)) for name, points in rows for size, value in points
    ]
    return _as_figure(figure, title, [head, *numbers])


Distribution = tuple[str, Sequence[tuple[float, float]]]
"""Name of a curve, and points (percent, ms): this percentage of samples took at most this time."""


@matplotlib.rc_context(fname=STYLE)
def distributions(
    rows: Sequence[Distribution], title: str, axis: str, budget: float | None = None
) -> Figure:
    """Plot the percentage of samples within a time; the axis of the time is logarithmic."""
    names, most = _broken(name for name, _ in rows)
    figure, axes = pyplot.subplots(figsize=(WIDTH, 3.2))
    for name, (_, points), look in zip(names, rows, LOOKS, strict=False):
        line = ([ms for _, ms in points], [share for share, _ in points])
        plain = {**look, "marker": ""}
        axes.plot(*line, label=name, linewidth=1.8, **plain)
    times = [max(ms, 1e-3) for _, points in rows for _, ms in points]
    low, high = min(times) / 1.3, max(*times, budget or 0) * 1.3
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(0, 101)
    if budget is not None:
        axes.axvline(budget, color="#333333", linestyle="--", linewidth=1, zorder=1,
                     label=f"budget {budget:g} ms")  # fmt: skip
    axes.set_xlabel(axis)
    axes.set_ylabel("percent within")
    # Above the plot, because curves may be anywhere inside.
    axes.legend(frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(0, 1),
                ncols=2 if most == 1 else 1)  # fmt: skip
    figure.tight_layout()
    _logarithmic(axes.xaxis, low, high, 0.46)
    figure.tight_layout()
    numbers = [(name, share, ms) for name, points in rows for share, ms in points]
    return _as_figure(figure, title, [("curve", "percent", "ms"), *numbers])


Fault = tuple[str, Mapping[str, Any]]
"""A fault and its victim, and the times of what followed, as `dependability` returns them."""


@matplotlib.rc_context(fname=STYLE)
def timeline(rows: Sequence[Fault], title: str) -> Figure:
    """Plot the streams of victim and neighbour over time, for each fault."""
    names, _ = _broken(label for label, _ in reversed(rows))
    figure, axes = pyplot.subplots(figsize=(WIDTH, 1.2 + 0.5 * len(rows)))
    theirs, own, broken = OURS["color"], "#009E73", PUBLISHED["color"]
    for y, (_, at) in enumerate(reversed(rows)):
        axes.barh(y + 0.17, at["ended_s"], height=0.22, color=theirs)
        axes.barh(y - 0.17, at["ended_s"], height=0.22, color=own)
        if at["silent"]:
            start, end = at["silent"]
            axes.barh(y - 0.17, end - start, left=start, height=0.22, color="white",
                      edgecolor=broken, hatch="////")  # fmt: skip
        axes.plot([at["fault_s"]] * 2, [y - 0.4, y + 0.4], color="black", linewidth=1.5)
        axes.plot([at["back_s"]], [y - 0.17], linestyle="none", marker="|", markersize=12,
                  markeredgewidth=2.5, color=broken)  # fmt: skip
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.grid(axis="y", visible=False)
    axes.set_axisbelow(True)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(6))
    axes.set_xlabel("seconds", loc="right")
    legend = [
        patches.Patch(color=theirs, label="neighbour's stream"),
        patches.Patch(color=own, label="victim's stream"),
        patches.Patch(facecolor="white", edgecolor=broken, hatch="////", label="silence"),
        lines.Line2D([], [], color="black", label="fault"),
        lines.Line2D([], [], color=broken, linestyle="none", marker="|", markersize=10,
                     markeredgewidth=2.5, label="link back"),
    ]  # fmt: skip
    axes.legend(handles=legend, frameon=False, fontsize=8, ncols=3, loc="lower right",
                bbox_to_anchor=(1, 1))  # fmt: skip
    figure.tight_layout()
    head = ("fault", "at s", "link back s", "streams ended s", "silent from s", "silent to s")
    numbers = [
        (label, at["fault_s"], at["back_s"], at["ended_s"], *(at["silent"] or ("", "")))
        for label, at in rows
    ]
    return _as_figure(figure, title, [head, *numbers])


#: Positions of an EPC's VNFs in its box, 0 to 1 each way; others are placed on a circle.
_PLACES = {"enb": (0.1, 0.5), "mme": (0.5, 0.83), "hss": (0.9, 0.83), "spgwc": (0.9, 0.5),
           "spgwu": (0.5, 0.17)}  # fmt: skip

Drawn = Mapping[str, Sequence[tuple[str, str, str]]]
"""Links by slice or service; each has its name and both VNFs."""


@matplotlib.rc_context({"axes.grid": False}, fname=STYLE)
def topology(drawn: Drawn, names: Mapping[str, str], title: str) -> Figure:
    """Draw the VNFs of a campaign, and the links between them."""
    figure, axes = pyplot.subplots(figsize=(WIDTH, 2.5 * len(drawn)))
    axes.set_axis_off()
    axes.set_xlim(-0.06, 1.06)
    axes.set_ylim(-1.08 * len(drawn) + 0.02, 0.02)
    for number, (name, links) in enumerate(drawn.items()):
        base = -1.08 * number - 1
        axes.add_patch(patches.FancyBboxPatch((-0.03, base), 1.06, 0.96, facecolor="#f4f6f8",
                       boxstyle="round,pad=0.02", edgecolor="#8a9097"))  # fmt: skip
        axes.text(0, base + 0.95, names.get(name, name), va="top", weight="bold")
        members = list(dict.fromkeys(end for link in links for end in link[1:]))
        spots = _spots(members)
        for link, near, far in links:
            (x, y), (u, v) = spots[near], spots[far]
            axes.plot([x, u], [base + y, base + v], color=OURS["color"], linewidth=2, zorder=1)
            axes.text((x + u) / 2, base + (y + v) / 2, names.get(link, link), ha="center",
                      va="center", fontsize=9, color=OURS["color"], zorder=2,
                      bbox={"facecolor": "#f4f6f8", "edgecolor": "none", "pad": 1})  # fmt: skip
        for member, (x, y) in spots.items():
            axes.text(x, base + y, names.get(member, member), ha="center", va="center",
                      zorder=3, bbox={"facecolor": "white", "edgecolor": "#333333",
                                      "boxstyle": "round,pad=0.35"})  # fmt: skip
    figure.tight_layout(pad=0.2)
    numbers = [(name, *link) for name, links in drawn.items() for link in links]
    return _as_figure(figure, title, [("slice", "link", "from", "to"), *numbers])


def _spots(members: Sequence[str]) -> dict[str, tuple[float, float]]:
    if set(members) <= set(_PLACES):
        return {member: _PLACES[member] for member in members}
    turn = 2 * math.pi / len(members)
    return {
        member: (0.5 - 0.4 * math.cos(turn * n), 0.45 + 0.33 * math.sin(turn * n))
        for n, member in enumerate(members)
    }
