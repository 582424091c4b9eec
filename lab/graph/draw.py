"""A picture as text and as SVG."""

import functools
import io
import time

import networkx
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.text import Text
from rich.tree import Tree

from lab.graph.model import COLOURS, Edge, Graph, Node

TECHNOLOGIES = {"wireguard": "WireGuard", "ipsec": "IPsec", "none": "in clear"}
INCHES = 2.6  # Room for a VNF, in each direction.


def words(edge: Edge) -> str:
    """Return the label of a link: "s6a, WireGuard, up"."""
    parts = [edge.name, TECHNOLOGIES.get(edge.technology, edge.technology)]
    parts.append("" if edge.state in ("unknown", "clear") else edge.state)
    return ", ".join(part for part in parts if part)


def text(graph: Graph) -> Tree:
    """Return the picture as a tree: VNFs, and below each the links of which it is the provider."""
    tree = Tree(Text(graph.name, "bold"))
    names = {node.id: node.member for node in graph.nodes}
    several = len({node.service for node in graph.nodes}) > 1
    for node in graph.nodes:
        branch = tree.add(
            Text.assemble(
                node.id if several else node.member,
                f" ({node.vnfd}) ",
                (node.state, COLOURS.get(node.state, "")),
                node.seen,
            )
        )
        for edge in graph.edges:
            if edge.source == node.id:
                line = Text(words(edge), COLOURS[edge.state])
                branch.add(Text.assemble("── ", line, f" ── {names[edge.target]}"))
    return tree


def positions(graph: Graph) -> dict[str, tuple[float, float]]:
    """Return a place for every VNF, each coordinate from 0 to 1; the same picture each time."""
    edges = tuple((edge.source, edge.target) for edge in graph.edges)
    return _places(tuple(node.id for node in graph.nodes), edges)


@functools.lru_cache(maxsize=64)  # The page draws every few seconds; what changes are states.
def _places(
    nodes: tuple[str, ...], edges: tuple[tuple[str, str], ...]
) -> dict[str, tuple[float, float]]:
    drawn: networkx.Graph[str] = networkx.Graph()
    drawn.add_nodes_from(nodes)
    drawn.add_edges_from(edges)
    places = networkx.kamada_kawai_layout(drawn, scale=0.5, center=(0.5, 0.5))
    return {name: (float(x), float(y)) for name, (x, y) in places.items()}


def svg(graph: Graph) -> str:
    places = positions(graph)
    side = INCHES * max(2.0, len(graph.nodes) ** 0.5)
    figure = Figure(figsize=(side * 1.3, side))
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_title(graph.name)
    axes.set_xlim(-0.15, 1.15)
    axes.set_ylim(-0.15, 1.15)
    count: dict[frozenset[str], int] = {}
    for edge in graph.edges:
        pair = frozenset((edge.source, edge.target))
        nth = count[pair] = count.get(pair, 0) + 1
        _line(axes, edge, places, nth)
    for node in graph.nodes:
        _box(axes, node, places[node.id])
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight")
    return out.getvalue()


def _line(axes: Axes, edge: Edge, places: dict[str, tuple[float, float]], nth: int) -> None:
    (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
    style = "dashed" if edge.technology in ("", "none") else "solid"
    bend = 0.18 * (nth // 2) * (1 if nth % 2 else -1)
    axes.annotate(
        "",
        (x2, y2),
        (x1, y1),
        arrowprops={
            "arrowstyle": "-",
            "color": COLOURS[edge.state],
            "linestyle": style,
            "linewidth": 2,
            "connectionstyle": f"arc3,rad={bend}",
        },
    )
    # The middle of the curve: matplotlib bends it to the right, by a part of the distance.
    x = (x1 + x2) / 2 + bend / 2 * (y2 - y1)
    y = (y1 + y2) / 2 - bend / 2 * (x2 - x1)
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    axes.text(x, y, words(edge), ha="center", va="center", fontsize=8, bbox=box)


def _box(axes: Axes, node: Node, place: tuple[float, float]) -> None:
    colour = COLOURS.get(node.state, COLOURS["unknown"])
    seen = time.strftime("\nseen %Y-%m-%d %H:%M:%SZ", time.gmtime(node.looked))
    axes.text(
        *place,
        f"{node.member}\n{node.vnfd}\n{node.state}{seen if node.looked else ''}",
        ha="center",
        va="center",
        fontsize=9,
        bbox={"boxstyle": "round,pad=0.6", "facecolor": "white", "edgecolor": colour, "lw": 2},
    )
