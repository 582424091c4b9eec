"""The page itself, by NiceGUI: it asks for the password of the API and shows what `Data` has."""

import secrets
import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from nicegui import Client, app, context, run, ui

from builder.link_table import Link, span
from lab.api.tokens import NAME, Tokens
from lab.errors import LabError, NbiError
from lab.graph import draw
from lab.graph.model import COLOURS, Edge, Graph, Node
from lab.nbi.engine import Engine
from lab.page.data import Data, Sample, Summary
from lab.page.elements import complain, confirmed, heading, table
from lab.page.forms import MARK, Form, grouped
from lab.page.layout import LAYOUT
from lab.page.stock import Stock, create, example
from lab.records.store import NSRS

REFRESH = 3.0  # Seconds between two looks at the records.
LIVE = 5.0  # Seconds after which the page asks for a new look at the counters of a VNF.
LOG = ["id", "operation", "what", "date"]  # Of a row of an operation: what its log is shown by.
KEPT = 60  # Samples that the chart shows.
LINK_COLUMNS: Mapping[str, str] = LAYOUT["links"]
BLUE = "#1f5f99"
"""Colour of header and buttons; white on it has a contrast of 6.6 to 1 (WCAG 2.1: 4.5)."""
OPERATIONS = 100  # Operations that the table shows, the latest.
STATES = {word: state for state, words in LAYOUT["states"].items() for word in words}


def create_page(engine: Engine, tokens: Tokens) -> FastAPI:
    """Return the application of the page; NiceGUI allows one in a process."""
    page = Page(Data(engine), tokens)
    ui.page("/")(page.home)
    ui.page("/login")(page.login)
    ui.page("/{kind}/{key}")(page.details)
    app.exception_handler(404)(nowhere)
    application = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    ui.run_with(
        application,
        title="osm-vpnaas lab",
        dark=None,  # as the browser is set
        storage_secret=secrets.token_urlsafe(32),
        session_middleware_kwargs={"https_only": True, "same_site": "strict"},
        show_welcome_message=False,
    )
    return application


async def nowhere(request: Request, _: Exception) -> Response:
    """Answer for an address that the page does not have."""
    with Client(ui.page(""), request=request) as client:
        dress()
        with ui.column().classes("absolute-center items-center"):
            heading("There is no such page", 1)
            ui.link("To the links and services of the lab", "/")
    return client.build_response(request, 404)


def dress() -> None:
    """Give a page its colour, and its language, which NiceGUI does not tell a screen reader."""
    ui.colors(primary=BLUE)
    ui.add_css(LAYOUT["css"])
    ui.query("html").props("lang=en")


class Page:
    """Routes of the page and what they need."""

    def __init__(self, data: Data, tokens: Tokens) -> None:
        self.data = data
        self.tokens = tokens

    def known(self) -> bool:
        """Return whether the browser has a valid token; if not, send it to the login."""
        try:
            self.tokens.authorize(f"Bearer {app.storage.user.get('token', '')}")
        except NbiError:
            ui.navigate.to("/login")
            return False
        return True

    def login(self) -> None:
        def check() -> None:
            try:
                credentials = {"username": NAME, "password": password.value}
                token = self.tokens.login(credentials, context.client.ip)
            except NbiError as error:
                ui.notify(str(error), type="negative")
                return
            app.storage.user["token"] = token["id"]
            ui.navigate.to("/")

        dress()
        with ui.card().classes("absolute-center w-80"):
            heading("osm-vpnaas lab", 1)
            password = ui.input("Password of user admin", password=True).classes("w-full")
            password.on("keydown.enter", check)
            ui.button("Log in", on_click=check).classes("w-full")

    def home(self) -> None:
        if not self.known():
            return
        self._header("Lab")

        links = LinksTable(self.data)
        labels: dict[str, ui.label] = {}

        @ui.refreshable
        def lists(slices: list[Summary], services: list[Summary]) -> None:
            if not slices and not services:
                example(self)
            for title, kind, records in (
                ("Slices", "slice", slices),
                ("Services", "service", services),
            ):
                heading(title, 2)
                if not records:
                    ui.label("none yet")
                with ui.row().classes("w-full"):
                    for record in records:
                        labels[record.key] = _card(kind, record)

        shown = self.data.overview()
        lists(*shown)
        ui.button("New service or slice", on_click=lambda: create(self)).props("outline")
        stock = Stock(self)

        def look() -> None:
            nonlocal shown
            if not self.known():
                return
            # Cards that did not change are not drawn again: a click would miss them.
            if (now := self.data.overview()) != shown:
                shown = now
                lists.refresh(*shown)
            for record in (*now[0], *now[1]):
                if record.key in labels:  # A browser that has left draws no cards.
                    labels[record.key].text = record.links
            links.refresh()
            stock.refresh()

        ui.timer(REFRESH, look)

    async def details(self, kind: str, key: str) -> None:
        """Show a service or a slice, by its id or name."""
        if not self.known():
            return
        try:
            key = str(self.data.engine.store.instance(key)[1]["_id"])
            graph = self.data.graph(key)
        except LabError as error:
            self._header("Lab")
            ui.label(str(error))
            return
        self._header(f"{kind.capitalize()} {graph.name}")
        view = ServicePage(self, key, graph)
        view.show()
        with ui.row().classes("w-full justify-end"):
            delete = ui.button(f"Delete this {kind}", on_click=view.delete)
            delete.props("outline color=negative")
        ui.timer(REFRESH, view.refresh)

    def _header(self, title: str) -> None:
        def leave() -> None:
            key = app.storage.user.pop("token", "")
            if any(token["id"] == key for token in self.tokens.all()):
                self.tokens.logout(key)
            ui.navigate.to("/login")

        dress()
        with ui.header().classes("items-center"):
            home = ui.button(icon="home", on_click=lambda: ui.navigate.to("/"))
            home.props('flat color=white aria-label="Home"')
            heading(title, 1)
            ui.space()
            ui.button("Log out", on_click=leave).props("flat color=white")


class LinksTable:
    """All links of the lab; whoever sees them makes the timer look."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.table = table("Links", LINK_COLUMNS, "key", 20)
        self.table.props('dense wrap-cells no-data-label="no link seen yet"')
        # On a phone each link is a card, with all its columns.
        self.table.props(':grid="Quasar.Screen.lt.sm"')
        self.table.on("row-click", self._open, [[], ["ns"], None])
        self.table.add_slot("body-cell-ns", LAYOUT["cells"]["operation"])
        self.refresh()

    def refresh(self) -> None:
        self.data.watched()
        rows = [
            {
                **{name: getattr(link, name) for name in LINK_COLUMNS},
                "since": link.since.replace("T", " ").rstrip("Z"),
                "rate": None if link.rate is None else round(link.rate, 1),
                "key_age": None if link.key_age is None else link.key_age // 60,
                "key": f"{link.ns} {link.ends}",
                "colour": COLOURS.get(link.state, COLOURS["unknown"]),
            }
            for link in self.data.links()
        ]
        if rows != self.table.rows:
            self.table.rows = rows

    def _open(self, event: Any) -> None:
        try:
            key = self.data.engine.store.resolve(NSRS, event.args[1]["ns"])["_id"]
        except LabError as error:  # deleted meanwhile
            complain(error)
            return
        ui.navigate.to(f"/service/{key}")


class ServicePage:
    """The picture of a service or slice, and the forms and counters of one of its VNFs."""

    def __init__(self, page: Page, key: str, graph: Graph) -> None:
        """Show the graph of the service or slice with this id; its first VNF is chosen."""
        self.page = page
        self.data = page.data
        self.key = key
        self.graph = graph
        self.chosen = graph.nodes[0].id if graph.nodes else ""
        self.samples: dict[str, deque[Sample]] = {}
        self.busy = False
        self.deleted = False

    def show(self) -> None:
        with ui.row().classes("w-full no-wrap max-md:flex-wrap"):
            with ui.card().classes("w-full md:w-1/2"):
                self.chart = ui.echart({}, on_point_click=self._clicked)
                self.chart.classes("h-96 w-full paper")
                self.chart.props(f'role=img aria-label="VNFs and links of {self.graph.name}"')
                with ui.row().classes("items-center gap-1"):
                    for state, words in LAYOUT["legend"].items():
                        ui.badge(words).style(f"background: {COLOURS[state]} !important")
                    ui.label("dashed: no tunnel").classes("text-caption")
                    ui.button("Save as SVG", on_click=self._save).props("flat dense no-caps")
                self.link = ui.label().classes("whitespace-pre-wrap")
            with ui.card().classes("w-full md:w-1/2"):
                options = [node.id for node in self.graph.nodes]
                self.select = ui.select(
                    options, value=self.chosen or None, label="VNF", on_change=self._chosen
                ).classes("w-full")
                self.state = ui.label().classes("whitespace-pre-wrap")
                self.forms = ui.column().classes("w-full")
        with ui.card().classes("w-full"):
            self.live = ui.switch(
                "Traffic of this VNF, from the looks at its links", on_change=self._live
            )
            self.rates = ui.echart(rates({})).classes("h-64 w-full paper")
            self.rates.props('role=img aria-label="Rates of the links of the VNF"')
            self.rates.visible = False
            self.ages = ui.label()
        with ui.card().classes("w-full"):
            names = ("date", "operation", "what", "state", "took")
            self.operations = table("Operations", {name: name for name in names}, "id", 10)
            self.operations.on("row-click", self._log, [[], LOG, None])
            self.operations.add_slot("body-cell-operation", LAYOUT["cells"]["operation"])
        self.timer = ui.timer(LIVE, self._measure, active=False)
        self._choose(self.chosen)
        self.refresh()

    def refresh(self) -> None:
        if not self.page.known():
            return
        self.data.watched()
        try:
            graph = self.data.graph(self.key)
            listed = self.data.operations(self.key)[:OPERATIONS]
        except LabError as error:  # deleted meanwhile
            self.state.text = str(error)
            if self.deleted:
                ui.navigate.to("/")
            return
        self.graph = graph
        self._draw()
        rows = [_row(operation) for operation in listed]
        if rows != self.operations.rows:
            self.operations.rows = rows
        node = self._node()
        if node is not None:
            lines = node.message.replace(", ", "\n")
            self.state.text = f"{node.vnfd}, {node.state}{node.seen}\n{lines}"

    async def delete(self) -> None:
        """Delete the service or slice, if the user means it."""
        name = self.graph.name
        told = ["Its VNFs stop, and their data is gone."]
        if not self.page.known() or not await confirmed(f"Delete {name}?", told, "Delete"):
            return
        try:
            await run.io_bound(self.data.delete, self.key)
            self.deleted = True
        except LabError as error:
            complain(error)

    def _draw(self) -> None:
        links = self.data.links({node.service_id for node in self.graph.nodes})
        drawn = picture(self.graph, self.chosen, links)
        if drawn != self.chart.options:
            self.chart.options.clear()
            self.chart.options.update(drawn)

    def _save(self) -> None:
        ui.download.content(draw.svg(self.graph), f"{self.graph.name.replace('/', '_')}.svg")

    def _node(self) -> Node | None:
        return next((node for node in self.graph.nodes if node.id == self.chosen), None)

    def _clicked(self, event: Any) -> None:
        if event.data_type == "node":
            self.select.value = event.name
        else:  # A phone has no pointer that rests on a link.
            self.link.text = event.data["told"]

    def _chosen(self, event: Any) -> None:
        self._choose(event.value)
        self.refresh()

    def _choose(self, node_id: str) -> None:
        self.chosen = node_id
        self.samples.clear()
        node = self._node()
        self.forms.clear()
        if node is None:
            return
        try:
            primitives = self.data.primitives(node.service_id, node.member)
        except LabError:  # deleted meanwhile; refresh() says so
            return
        options = grouped(primitives)
        with self.forms:
            chosen = ui.select(options, label="Primitive").classes("w-full")
            chosen.props("virtual-scroll-slice-size=99")  # all can be reached by keyboard
            chosen.props(f":option-disable=\"each => each.label.startsWith('{MARK}')\"")
            fields = ui.column().classes("w-full gap-1")

        async def show() -> None:
            fields.clear()
            primitive = primitives[chosen.value]
            in_force: Mapping[str, Mapping[str, Any]] = {}
            if primitive["name"] == "configure":
                # What is left out takes its default: one press would reset the link.
                ids = (node.service_id, node.member)
                try:
                    in_force = await run.io_bound(self.data.in_force, *ids) or {}
                except LabError as error:
                    with fields:
                        ui.label(f"values in force are not known: {error}")
            with fields:
                Form(self.data, node, primitive, in_force, self.page.known)

        chosen.on_value_change(show)

    def _live(self, event: Any) -> None:
        self.timer.active = self.rates.visible = bool(event.value)

    async def _measure(self) -> None:
        node = self._node()
        if node is None or self.busy or not self.page.known():
            return
        self.busy = True
        try:
            values = await run.io_bound(self.data.sample, node.service_id, node.member) or {}
        except LabError as error:
            self.ages.text = str(error)
            return
        finally:
            self.busy = False
        if node.id != self.chosen:  # while the primitive ran; these are not its figures
            return
        for link, sample in values.items():
            kept = self.samples.setdefault(link, deque(maxlen=KEPT))
            if not kept or kept[-1].at != sample.at:
                kept.append(sample)
        self.rates.options.clear()
        self.rates.options.update(rates(self.samples))
        self.ages.text = "Last handshake: " + ", ".join(
            f"{link} {'never' if s.handshake is None else span(s.handshake)}"
            f", seen {span(round(time.time() - s.at))} ago"
            for link, s in values.items()
        )

    def _log(self, event: Any) -> None:
        try:
            text = self.data.log(event.args[1]["id"])
        except LabError as error:
            text = str(error)
        row = event.args[1]
        with ui.dialog(value=True) as dialog, ui.card().classes("w-full max-w-4xl"):
            with ui.row().classes("w-full items-center"):
                heading(f"{row['operation']} {row['what']}, {row['date']}", 2)
                ui.space()
                ui.button(icon="close", on_click=dialog.close).props('flat aria-label="Close"')
            ui.label(text).classes("whitespace-pre-wrap break-all font-mono text-xs")


def picture(graph: Graph, chosen: str = "", links: Iterable[Link] = ()) -> dict[str, Any]:
    """Return ECharts' options of a graph.

    Args:
        chosen: id of the node that is marked.
        links: rows of the table, of which the picture tells addresses.
    """
    links = list(links)
    members = {node.id: (node.service, node.member) for node in graph.nodes}
    places = draw.positions(graph)
    several = len({node.service for node in graph.nodes}) > 1
    count: dict[frozenset[str], int] = {}
    return {
        "tooltip": LAYOUT["charts"]["told"],
        "series": [
            {
                **LAYOUT["charts"]["graph"],
                "data": [
                    {
                        "name": node.id,
                        "value": 0,  # NiceGUI refuses a click on what has none.
                        "x": places[node.id][0] * 600,
                        "y": places[node.id][1] * 400,
                        "itemStyle": {
                            "color": COLOURS.get(node.state, COLOURS["unknown"]),
                            "borderColor": "black",
                            "borderWidth": 4 if node.id == chosen else 0,
                        },
                        "told": told(
                            f"{node.vnfd}, {node.state}{node.seen}", links, members[node.id]
                        ),
                        "label": {"formatter": node.id if several else node.member},
                    }
                    for node in graph.nodes
                ],
                "links": [
                    {
                        **_link(edge, count),
                        "told": told(
                            draw.words(edge), links, members[edge.source], members[edge.target]
                        ),
                    }
                    for edge in graph.edges
                ],
            }
        ],
    }


def told(title: str, links: Iterable[Link], *vnfs: tuple[str, str]) -> str:
    """Return a title, and the addresses of the links of which all these VNFs are ends."""
    lines = [title]
    for link in links:
        ends = {(link.ns, end.partition(":")[0]) for end in link.ends.split(" - ")}
        if ends.issuperset(vnfs):
            state = link.cells()["state"]  # With the age of the look.
            lines += [f"{link.ends}: {state}", f"inside {link.inner}", f"outside {link.outer}"]
    return "\n".join(lines)


def _link(edge: Edge, count: dict[frozenset[str], int]) -> dict[str, Any]:
    pair = frozenset((edge.source, edge.target))
    nth = count[pair] = count.get(pair, 0) + 1
    return {
        "source": edge.source,
        "target": edge.target,
        "value": 0,
        "label": {"formatter": draw.words(edge), "color": COLOURS[edge.state], "opacity": 1},
        "lineStyle": {
            "color": COLOURS[edge.state],
            "width": 3,
            "opacity": 1,
            "type": "dashed" if edge.technology in ("", "none") else "solid",
            "curveness": 0.25 * (nth // 2) * (1 if nth % 2 else -1),
        },
    }


def rates(samples: Mapping[str, deque[Sample]]) -> dict[str, Any]:
    """Return ECharts' options of the rates between samples, in kbit/s."""
    series = []
    for link, kept in samples.items():
        for way in ("received", "sent"):
            points = [
                [
                    round(new.at * 1000),
                    # A rekey may reset the counters.
                    max(0, getattr(new, way) - getattr(old, way)) * 8 / 1000 / (new.at - old.at),
                ]
                for old, new in zip(list(kept), list(kept)[1:], strict=False)
            ]
            series.append({"name": f"{link} {way}", "type": "line", "data": points})
    return {**LAYOUT["charts"]["rates"], "series": series}


def _card(kind: str, record: Summary) -> ui.label:
    """Draw a service or slice; return the label of its links."""
    # By its id: a name may have a slash or a question mark, and a slice and a service the same.
    link = ui.link(target=f"/{kind}/{record.key}").classes("no-underline").style("color: inherit")
    with link, ui.card():
        ui.label(record.name).classes("text-subtitle1")
        with ui.row():
            for state in record.states:
                colour = COLOURS.get(STATES.get(state, "unknown"))
                ui.badge(state).style(f"background: {colour} !important")
        if record.problem:
            ui.label(record.problem).classes("text-negative whitespace-pre-wrap max-w-md")
        return ui.label(record.links).classes("text-caption")


def _row(operation: Mapping[str, Any]) -> dict[str, str]:
    params = operation.get("operationParams") or {}
    state = operation["operationState"]
    ended = time.time() if state == "PROCESSING" else operation["statusEnteredTime"]
    what = " ".join(str(params[key]) for key in ("member_vnf_index", "primitive") if key in params)
    return {
        "id": operation["_id"],
        "date": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(operation["startTime"])),
        "operation": operation["lcmOperationType"],
        "what": what,
        "state": state,
        "took": span(max(0, round(ended - operation["startTime"]))),
        "colour": COLOURS[STATES.get(state, "unknown")],
    }
