"""The page without a browser: which elements it has."""

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from nicegui import Client, run, ui

from builder.link_table import Link
from builder.tree import Tree
from lab.errors import NbiError
from lab.graph import draw, model
from lab.graph.model import COLOURS, Edge, Graph, Node
from lab.lcm import looking
from lab.nbi.engine import Engine
from lab.page.app import LinksTable, Page, ServicePage, _row
from lab.page.data import Data, Sample, Summary
from lab.page.elements import answer_label, tell
from lab.page.forms import FIELDS, GROUPS, INTERRUPTS, MARK, Form, grouped, interruption
from lab.page.layout import LAYOUT
from lab.records.store import NSDS, NSRS, NSTS, VNFDS

NODE = Node("basic/client", "basic", "client", "vnfd", "active", "up", service_id="n1")

IN_FORCE = {"link": "vpn-client", "technology": "ipsec", "mtu": 1400, "preshared-key": True}
CONFIGURE = {
    "name": "configure",
    "parameter": [
        {"name": "link", "data-type": "STRING"},
        {"name": "technology", "data-type": "STRING", "default-value": "wireguard"},
        {"name": "mtu", "data-type": "INTEGER", "default-value": "0"},
        {"name": "preshared-key", "data-type": "BOOLEAN", "default-value": "false"},
        {"name": "gateway", "data-type": "STRING", "default-value": "auto"},
    ],
}
ROW = Link("basic", "vpn", "client:vpn - server:vpn", "10.1.0.2 - 10.1.0.1", "3 - 4", "ipsec",
           "down", "2026-11-28T04:00:00Z", 9, 1.25, 7200, 100, "no answer from b", 12)  # fmt: skip
REFUSAL = "configure: mtu: 9 is too small; allowed: at least 1280 <b>bytes</b>"


def shown(graph: Graph) -> ServicePage:
    data: Any = SimpleNamespace(
        graph=lambda _: graph,
        operations=lambda _: [],
        primitives=lambda *_: {"configure": CONFIGURE},
        in_force=lambda *_: {"vpn-client": IN_FORCE},
        watched=lambda: None,
        links=lambda services: [ROW] if services == {"n1"} else [],
        sample=None,
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


def test_an_operation_has_a_colour_and_how_long_it_took() -> None:
    operation = {"_id": "o", "lcmOperationType": "action", "startTime": 100.0}
    failed = _row({**operation, "operationState": "FAILED", "statusEnteredTime": 130.0})
    assert (failed["colour"], failed["took"]) == (COLOURS["error"], "30 s")
    done = _row({**operation, "operationState": "COMPLETED", "statusEnteredTime": 400.0})
    assert (done["colour"], done["took"]) == (COLOURS["active"], "5 min")


def test_pictures_and_headings_are_told_to_a_screen_reader() -> None:
    view = shown(Graph("basic", (NODE,)))
    assert view.chart.props["aria-label"] == "VNFs and links of basic"
    found = [e for e in view.chart.client.elements.values() if e.props.get("role") == "heading"]
    assert [label.text for label in found if isinstance(label, ui.label)] == ["Operations"]


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


def test_the_last_handshake_was_before_the_look_that_told_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No look comes while an operation goes on."""
    view = shown(Graph("basic", (NODE,)))
    looked = Sample(time.time() - 300, 5, 5, 7)

    async def sample(*_: object) -> dict[str, Sample]:
        return {"vpn": looked, "s6a": replace(looked, handshake=None)}

    monkeypatch.setattr(run, "io_bound", sample)
    asyncio.run(view._measure())
    assert view.ages.text == ("Last handshake: vpn 7 s, seen 5 min ago, s6a never, seen 5 min ago")


def test_values_in_force_are_those_after_the_last_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A form with older values would bring them back."""
    ended: list[dict[str, float]] = []
    engine: Any = SimpleNamespace(
        store=SimpleNamespace(home=tmp_path),
        ns=lambda _: {"_id": "n1"},
        operations=lambda _: ended,
    )
    look = {"ns": "basic", "member": "client", "at": 100.0, "problem": ""}
    old, new = ({"vpn-client": {"configured": {"mtu": mtu}}} for mtu in (1300, 1400))
    looking._file(tmp_path, "n1").write_text(json.dumps([[{**look, "shown": old}], []]))
    data = Data(engine)
    monkeypatch.setattr(data, "press", lambda *_: new)
    assert data.in_force("basic", "client") == {"vpn-client": {"mtu": 1300}}
    ended += [{"statusEnteredTime": 90.0}, {"statusEnteredTime": 110.0}]
    assert data.in_force("basic", "client") == {"vpn-client": {"mtu": 1400}}


def test_a_saved_picture_says_when_its_states_were_seen() -> None:
    """It may be opened days later, so an age would say nothing."""
    assert "<!-- seen 2026-11-28 04:10:00Z -->" in draw.svg(
        Graph("basic", (replace(NODE, looked=1795839000.0),))
    )


def test_a_form_is_for_the_service_that_was_shown_and_not_for_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view, asked = shown(Graph("basic", (NODE,))), []

    async def sample(_work: object, *words: str) -> dict[str, Sample]:
        asked.append(words)
        return {}

    monkeypatch.setattr(run, "io_bound", sample)
    asyncio.run(view._measure())
    assert asked == [("n1", "client")]


def test_an_answer_of_a_vdu_is_shown_as_text() -> None:
    """In Markdown, as of `ui.code`, it could end the block and draw a login form."""
    view = shown(Graph("basic", (NODE,)))
    with view.forms:
        Form(view.data, NODE, {"name": "show-status"}, {}, lambda: True)
    elements = list(view.forms.descendants())
    assert [each for each in elements if type(each) is ui.label]
    assert not [each for each in elements if isinstance(each, ui.markdown | ui.code | ui.html)]


def test_a_form_begins_with_the_values_in_force() -> None:
    view = shown(Graph("basic", (NODE,)))
    with view.forms:
        Form(view.data, NODE, CONFIGURE, {"vpn-client": IN_FORCE}, lambda: True)
    fields = {each.props.get("label"): each for each in view.forms.descendants()
              if isinstance(each, ui.input | ui.textarea | ui.select)}  # fmt: skip
    values = {name: field.value for name, field in fields.items() if name in str(CONFIGURE)}
    assert values == {
        "link": "vpn-client", "technology": "ipsec", "mtu": "1400", "preshared-key": "true",
        "gateway": "auto",
    }  # fmt: skip


def test_a_form_names_what_changes_before_it_is_sent() -> None:
    view = shown(Graph("basic", (NODE,)))
    with view.forms:
        form = Form(view.data, NODE, CONFIGURE, {"vpn-client": IN_FORCE}, lambda: True)
    assert form.changes(form.values()) == []
    form.inputs["mtu"].value = "1300"
    form.inputs["preshared-key"].value = "false"
    assert form.changes(form.values()) == [
        {"parameter": "mtu", "in force": "1400", "new": "1300"},
        {"parameter": "preshared-key", "in force": "true", "new": "false"},
    ]
    assert "tunnel" in interruption("configure", form.values())


def test_only_what_interrupts_is_asked_about() -> None:
    assert interruption("show-status", {"link": "all"}) == ""
    assert interruption("rotate-keys", {"force": "false"}) == ""
    assert "lose" in interruption("rotate-keys", {"force": "true"})


def test_primitives_stand_in_groups_and_faults_come_last() -> None:
    names = ["inject-fault", "their-own", "show-status", "rotate-keys"]
    assert grouped(names) == [
        f"{MARK}Links", "show-status", f"{MARK}Keys", "rotate-keys", f"{MARK}This VNF", "their-own",
        f"{MARK}Experiments and faults", "inject-fault",
    ]  # fmt: skip


def test_what_the_page_says_of_primitives_is_about_those_that_there_are() -> None:
    tree = Tree.find()
    declared: dict[str, Any] = {}
    for file in (tree.root / "charms").glob("*/*actions.yaml"):
        for name, action in (yaml.safe_load(file.read_text()) or {}).items():
            declared.setdefault(name, {}).update(action.get("params") or {})
    assert {name for group in GROUPS.values() for name in group} <= set(declared)
    assert {key.split()[0] for key in INTERRUPTS} <= set(declared)
    assert FIELDS.keys() <= set(declared)
    for name, groups in FIELDS.items():
        assert {each for group in groups.values() for each in group} < set(declared[name])


@pytest.fixture
def data(engine: Engine) -> Data:
    return Data(engine)


def test_packages_are_taken_in_any_order_and_again(data: Data, dist: Path) -> None:
    names = ("vpn_basic_nst", "vpn_basic_ns", "vpn_endpoint_vnf")
    files = [dist / f"{name}.tar.gz" for name in names]
    data.onboard(files)
    rows = data.stock(VNFDS, NSDS, NSTS)
    assert [row["name"] for row in rows] == list(reversed(names))
    data.onboard(files[-1:])
    (vnfd,) = data.engine.store.all(VNFDS)
    assert vnfd["_admin"]["revision"] == 2
    with pytest.raises(NbiError, match="referencing this descriptor"):
        data.delete(rows[0]["key"])
    for row in reversed(rows):
        data.delete(row["key"])
    assert data.stock(VNFDS, NSDS, NSTS) == []


def test_what_is_no_package_is_refused_in_a_sentence(data: Data, tmp_path: Path) -> None:
    file = tmp_path / "picture.tar.gz"
    file.write_bytes(b"GIF89a")
    with pytest.raises(NbiError, match="picture.tar.gz"):
        data.onboard([file])


def test_the_example_makes_all_it_needs(
    data: Data, dist: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = SimpleNamespace(packages=dist)
    monkeypatch.setattr(Tree, "find", lambda: tree)
    path, _ = data.example()
    (nsr,) = data.engine.store.all(NSRS)
    assert (path, nsr["name"]) == (f"/service/{nsr['_id']}", "example")
    tree.packages = dist / "nothing"
    with pytest.raises(NbiError, match=r"`\./run build vpn_endpoint_vnf vpn_basic_ns` makes them"):
        data.example()


def test_fields_have_the_choices_and_descriptions_of_the_charm(
    data: Data, dist: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tree, "find", lambda: SimpleNamespace(packages=dist))
    data.example()
    (nsr,) = data.engine.store.all(NSRS)
    configure = data.primitives(nsr["_id"], "client")["configure"]
    assert configure["description"].startswith("Set all parameters of one link")
    parameters = {each["name"]: each for each in configure["parameter"]}
    assert parameters["link"]["enum"] == ["vpn-client", "vpn-server"]
    assert parameters["post-quantum"]["enum"] == ["none", "prefer", "require"]
    assert parameters["listen-port"]["maximum"] == 65535
    node = replace(NODE, service_id=nsr["_id"])
    with Client(ui.page("/"), request=None):
        form = Form(data, node, configure, {}, lambda: True)
    assert isinstance(form.inputs["post-quantum"], ui.select)
    assert form.inputs["post-quantum"].value == "none"


def test_a_refusal_is_wrapped_text_and_not_code() -> None:
    with Client(ui.page("/"), request=None):
        answer = answer_label()
        tell(answer, REFUSAL, refused=True)
    assert (type(answer), answer.text, answer.visible) == (ui.label, REFUSAL, True)
    assert {"whitespace-pre-wrap", "break-words", "text-negative"} <= set(answer.classes)
    tell(answer, "done", refused=False)
    assert "text-negative" not in answer.classes


def test_the_table_of_links_shows_state_and_ages() -> None:
    watched: list[int] = []
    data: Any = SimpleNamespace(links=lambda: [ROW], watched=lambda: watched.append(1))
    with Client(ui.page("/"), request=None):
        links = LinksTable(data)
    assert watched == [1], "the timer knows that somebody looks"
    (found,) = links.table.rows
    assert (found["state"], found["looked"], found["key_age"]) == ("down", 12, 120)
    assert found["colour"] == model.COLOURS["down"]
    assert all(column["sortable"] for column in links.table.columns)
    assert {"inner", "outer", "rate", "loss", "handshake"} <= set(found)


def test_a_picture_tells_addresses_and_marks_the_vnf_that_is_chosen() -> None:
    server = replace(NODE, id="basic/server", member="server")
    edge = Edge(server.id, NODE.id, "vpn", "ipsec", "down")
    other = Edge("basic/server", "basic/hss", "s6a", "wireguard", "up")
    view = shown(Graph("basic", (NODE, server, replace(NODE, id="basic/hss")), (edge, other)))
    (drawn,) = view.chart.options["series"]
    assert all("value" in each for each in drawn["data"] + drawn["links"]), "a click needs one"
    assert [node["itemStyle"]["borderWidth"] for node in drawn["data"]] == [4, 0, 0]
    view.select.value = server.id
    (drawn,) = view.chart.options["series"]
    assert [node["itemStyle"]["borderWidth"] for node in drawn["data"]] == [0, 4, 0]
    addresses = (
        "client:vpn - server:vpn: down, seen 12 s ago\ninside 10.1.0.2 - 10.1.0.1\noutside 3 - 4"
    )
    assert drawn["links"][0]["told"] == f"vpn, IPsec, down\n{addresses}"
    assert drawn["data"][1]["told"] == f"vnfd, active\n{addresses}"
    view._clicked(SimpleNamespace(data_type="edge", data=drawn["links"][0]))
    assert addresses in view.link.text, "on a phone nothing rests on a link"


def test_colours_of_a_picture_have_a_legend() -> None:
    view = shown(Graph("basic", (NODE,)))
    badges = [
        each.text for each in view.chart.client.elements.values() if isinstance(each, ui.badge)
    ]
    assert badges == list(LAYOUT["legend"].values())
    assert {COLOURS[state] for state in LAYOUT["legend"]} == set(COLOURS.values())


def test_a_browser_that_has_left_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    lists: list[tuple[list[Summary], list[Summary]]] = [([], []), ([], [Summary("1", "b", ())])]
    data: Any = SimpleNamespace(overview=lambda: lists[0], links=lambda: [], watched=lambda: None,
                                stock=lambda *_: [])  # fmt: skip
    tokens: Any = None
    page = Page(data, tokens)
    monkeypatch.setattr(page, "known", lambda: True)
    with Client(ui.page("/"), request=None) as client:
        page.home()
    timer: Any = next(each for each in client.elements.values() if isinstance(each, ui.timer))
    monkeypatch.setattr(ui.refreshable, "refresh", lambda *_: None)  # it draws for no browser
    lists.pop(0)
    timer.callback()


def test_a_service_without_vnfs_has_a_page() -> None:
    assert shown(Graph("basic")).select.value is None


def test_a_service_without_vnfs_is_no_end_of_a_network_of_its_slice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graphs = {"one": Graph("one"), "two": Graph("two", (NODE,))}
    monkeypatch.setattr(model, "of_service", lambda engine, nsr: graphs[nsr])
    engine: Any = SimpleNamespace(store=SimpleNamespace(readable=lambda _, key: key))
    points = [{"nss-ref": name} for name in (*graphs, "two")]
    nsi = {
        "name": "slice",
        "_admin": {
            "nsrs-detailed-list": [{"nsrId": name, "nss-id": name} for name in graphs],
            "netslice-vld": [{"name": "s1", "nss-connection-point-ref": points}],
        },
    }
    assert model.of_slice(engine, nsi) == Graph("slice", (NODE,))


def test_a_vnf_has_the_state_of_its_worst_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    """A VDU that scales has a charm for each instance."""
    units = {
        f"cell-{count}/0": SimpleNamespace(workload=state, message=state, since=9.0)
        for count, state in enumerate(("active", "blocked", "maintenance"))
    }
    envs = [
        SimpleNamespace(application=name.partition("/")[0], member_vnf_index="cell")
        for name in units
    ]
    found = SimpleNamespace(vnfds={"cell": {"id": "v"}}, environments=envs, relations=[], nsr={})
    monkeypatch.setattr(model, "service", lambda nsr, store: found)
    monkeypatch.setattr(model, "_edges", lambda *_: [])
    monkeypatch.setattr(model, "status_of", lambda *_: SimpleNamespace(units=units))
    engine: Any = SimpleNamespace(store=SimpleNamespace(home=Path()))
    graph = model.of_service(engine, {"_id": "n1", "name": "basic"})
    assert [(node.state, node.message) for node in graph.nodes] == [("blocked", "blocked")]
