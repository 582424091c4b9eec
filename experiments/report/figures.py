"""Plots of a report, as SVG text to put into the page."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib import pyplot, ticker

from experiments.report.summary import Ratio
from experiments.stats import Estimate

matplotlib.use("svg")

#: Distinct in grey too: shape and fill tell as much as colour (Okabe and Ito's palette).
OURS: dict[str, Any] = {"color": "#0072B2", "marker": "o"}
PUBLISHED: dict[str, Any] = {"color": "#D55E00", "marker": "D", "markerfacecolor": "white"}
STYLE: Any = {
    "font.size": 11,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "svg.fonttype": "none",
    # Stable names inside the SVG: the same runs give the same bytes.
    "svg.hashsalt": "osm-vpnaas",
}
WIDTH = 4.8
"""Inches; with the font above, text is readable on a phone and no larger than the page's own."""
#: Looks of curves, in the order of their series.
LOOKS: tuple[dict[str, Any], ...] = (
    {"color": "#555555", "marker": "s", "linestyle": ":"},
    {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    {"color": "#D55E00", "marker": "D", "linestyle": "--"},
    {"color": "#009E73", "marker": "^", "linestyle": "-."},
)

Curve = tuple[str, Sequence[tuple[float, Estimate]]]
"""Its name, and its points with what was measured at each."""


def _svg(figure: Any, title: str) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    text = out.getvalue()
    text = text[text.index("<svg") :]
    # Scale with the page; the browser's own font, which a reader can enlarge.
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    return text.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)


#: Marks of a logarithmic axis, by how much of it is seen.
_COARSE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
_FINE = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 4, 5)


def ratios(ours: Sequence[Ratio], published: Sequence[Ratio], title: str, axis: str) -> str:
    """Plot ratios as points with their confidence intervals, together with published ones.

    Ratios with the same label are in one row. The axis is logarithmic: half and double are equally
    far from one.
    """
    labels = list(dict.fromkeys(r.label for r in (*ours, *published)))
    rows = {label: y for y, label in enumerate(reversed(labels))}
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(figsize=(WIDTH, 0.75 + 0.29 * len(rows)))
        axes.axvline(1, color="#555555", linewidth=1)
        for found, look in ((published, PUBLISHED), (ours, OURS)):
            for one in found:
                y, value = rows[one.label], one.value
                if value.known:
                    ends = [value.low, value.high]
                    axes.plot(ends, [y, y], color=look["color"], linewidth=2)
                axes.plot([value.mean], [y], linestyle="none", markersize=7, **look)
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        low, high = min(low, 0.8), max(high, 1.25)
        axes.set_xlim(low, high)
        ticks = [t for t in (_COARSE if high / low > 8 else _FINE) if low <= t <= high]
        # As many as have room.
        ticks = [t for t in ticks if t == 1 or len(ticks) < 9 or ticks.index(t) % 2 == 0]
        axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
        axes.minorticks_off()
        axes.set_yticks(list(rows.values()), list(rows))
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.grid(axis="y", visible=False)
        # Under the row names too, for which there is room; centred it would be cut off.
        axes.set_xlabel(axis, loc="right")
        figure.tight_layout()
        return _svg(figure, title)


def delays(rows: Sequence[tuple[str, float, float, float]], budget: float, title: str) -> str:
    """Plot median, 99th percentile and maximum of one-way delays (ms) against a budget."""
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(figsize=(WIDTH, 0.95 + 0.42 * len(rows)))
        for y, (_, median, tail, most) in enumerate(reversed(rows)):
            axes.plot([median, most], [y, y], color="#999999", linewidth=1.5, zorder=1)
            axes.plot([median], [y], linestyle="none", markersize=7, **OURS)
            axes.plot([tail], [y], linestyle="none", markersize=7, color="#0072B2", marker="|",
                      markeredgewidth=2)  # fmt: skip
            axes.plot([most], [y], linestyle="none", markersize=6, color="#D55E00", marker="x")
        axes.axvline(budget, color="#D55E00", linestyle="--", linewidth=1.2)
        axes.text(budget, len(rows) - 0.4, f"budget {budget:g} ms ", va="bottom", ha="right",
                  color="#D55E00")  # fmt: skip
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        ticks = [t for t in (0.1, 1, 10, 100, 1000) if low <= t <= high]
        axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
        axes.minorticks_off()
        axes.set_yticks(range(len(rows)), [row[0] for row in reversed(rows)])
        axes.set_ylim(-0.6, len(rows) - 0.05)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("one-way delay in ms", loc="right")
        figure.tight_layout()
        return _svg(figure, title)


def curves(rows: Sequence[Curve], title: str, axes_names: tuple[str, str]) -> str:
    """Plot curves over sizes with their confidence intervals; the vertical axis is logarithmic.

    A curve without points is left out and keeps its look, so that figures of one page agree.
    """
    means = [value.mean for _, points in rows for _, value in points]
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(figsize=(WIDTH, 3.4))
        for (name, points), look in zip(rows, LOOKS, strict=False):
            if not points:
                continue
            line = ([size for size, _ in points], [value.mean for _, value in points])
            axes.plot(*line, label=name, markersize=5, linewidth=1.6, **look)
            for size, value in points:
                # An interval that reaches below zero has no place on this axis.
                if value.known and value.low > 0:
                    ends = [value.low, value.high]
                    axes.plot([size, size], ends, color=look["color"], linewidth=1.2)
        axes.set_yscale("log")
        # By the means: one wide interval would make all else flat.
        axes.set_ylim(min(means) / 2, max(means) * 2)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(ticker.LogLocator(subs=(2, 5)))
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.set_xlim(left=0)
        axes.set_xlabel(axes_names[0])
        axes.set_ylabel(axes_names[1])
        axes.legend(frameon=False, fontsize=9)
        figure.tight_layout()
        return _svg(figure, title)
