"""The page without a browser: which elements it has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from nicegui import Client, ui

from lab.graph.model import Graph, Node
from lab.page.app import ServicePage


def test_operations_can_be_reached_by_keyboard() -> None:
    graph = Graph("basic", (Node("basic/client", "basic", "client", "vnfd", "active", "up"),))
    data: Any = SimpleNamespace(
        graph=lambda _: graph, operations=lambda _: [], primitives=lambda *_: {}
    )
    page: Any = SimpleNamespace(data=data, known=lambda: True)
    with Client(ui.page("/"), request=None):
        view = ServicePage(page, "basic", graph)
        view.show()
    # A click on a button is one on its row, too; Enter and the space bar are clicks on a button.
    assert "<q-btn" in view.operations.slots["body-cell-operation"].template
    assert any(each.type == "rowClick" for each in view.operations._event_listeners.values())
