"""The page without a browser: which elements it has."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from nicegui import Client, run, ui

from lab.graph import model
from lab.graph.model import Graph, Node
from lab.page.app import ServicePage
from lab.page.data import Sample

NODE = Node("basic/client", "basic", "client", "vnfd", "active", "up")


def shown(graph: Graph) -> ServicePage:
    data: Any = SimpleNamespace(
        graph=lambda _: graph, operations=lambda _: [], primitives=lambda *_: {}, sample=None
    )
    page: Any = SimpleNamespace(data=data, known=lambda: True)
    with Client(ui.page("/"), request=None):
        view = ServicePage(page, "basic", graph)
        view.show()
    return view


def test_operations_can_be_reached_by_keyboard() -> None:
    view = shown(Graph("basic", (NODE,)))
    # A click on a button is one on its row, too; Enter and the space bar are clicks on a button.
    assert "<q-btn" in view.operations.slots["body-cell-operation"].template
    assert any(each.type == "rowClick" for each in view.operations._event_listeners.values())


def test_figures_of_a_vnf_are_not_shown_at_another(monkeypatch: pytest.MonkeyPatch) -> None:
    server = replace(NODE, id="basic/server", member="server")
    view = shown(Graph("basic", (NODE, server)))
    choices = [server.id, server.id]

    async def sample(*_: object) -> dict[str, Sample]:
        view._choose(choices.pop())
        return {"vpn": Sample(1.0, 5, 5, None)}

    monkeypatch.setattr(run, "io_bound", sample)
    asyncio.run(view._measure())
    assert view.samples == {}
    asyncio.run(view._measure())
    assert list(view.samples) == ["vpn"]


def test_an_answer_of_a_vdu_is_shown_as_text() -> None:
    """In Markdown, as of `ui.code`, it could end the block and draw a login form."""
    view = shown(Graph("basic", (NODE,)))
    with view.forms:
        view._form(NODE, {"name": "show-status"})
    elements = list(view.forms.descendants())
    assert [each for each in elements if type(each) is ui.label]
    assert not [each for each in elements if isinstance(each, ui.markdown | ui.code | ui.html)]


def test_a_service_without_vnfs_has_a_page() -> None:
    assert shown(Graph("basic")).select.value is None


def test_a_service_without_vnfs_is_no_end_of_a_network_of_its_slice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graphs = {"one": Graph("one"), "two": Graph("two", (NODE,))}
    monkeypatch.setattr(model, "of_service", lambda engine, controller, nsr: graphs[nsr])
    engine: Any = SimpleNamespace(store=SimpleNamespace(find=lambda _, key: key))
    points = [{"nss-ref": name} for name in (*graphs, "two")]
    nsi = {
        "name": "slice",
        "_admin": {
            "nsrs-detailed-list": [{"nsrId": name, "nss-id": name} for name in graphs],
            "netslice-vld": [{"name": "s1", "nss-connection-point-ref": points}],
        },
    }
    controller: Any = None
    assert model.of_slice(engine, controller, nsi) == Graph("slice", (NODE,))
