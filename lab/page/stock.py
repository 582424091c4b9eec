"""Packages and VIM accounts in the page, and the dialogs that make something of them."""

import tempfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from nicegui import events, run, ui

from lab import accounts
from lab.errors import LabError
from lab.nbi.params import load_mapping
from lab.page.elements import columns, complain, confirmed, heading
from lab.page.layout import LAYOUT
from lab.records.store import NSDS, NSTS, VIMS, VNFDS

if TYPE_CHECKING:
    from lab.page.app import Page

LARGEST = 1 << 30  # Bytes of an upload, as the API takes them.


class Stock:
    """The tables of packages and of VIM accounts."""

    def __init__(self, page: "Page") -> None:
        self.page = page
        self.tables: dict[tuple[str, ...], ui.table] = {}
        heading("Packages", 2)
        self._table(VNFDS, NSDS, NSTS)
        self.upload = ui.upload(
            label="Onboard packages: tar.gz, zip or YAML",
            multiple=True,
            auto_upload=True,
            max_file_size=LARGEST,
            on_multi_upload=self._uploaded,
        )
        self.upload.classes("w-full max-w-xl").props("flat bordered")
        heading("VIM accounts", 2)
        self._table(VIMS)
        ui.button("New VIM account", on_click=self._account).props("outline")
        self.refresh()

    def _table(self, *collections: str) -> None:
        shown = columns({"name": "name", "kind": "kind", "state": "state"})
        shown.append({"name": "delete", "label": "", "field": "key"})
        table = ui.table(columns=shown, rows=[], row_key="key", pagination=10)
        table.classes("w-full").props('dense wrap-cells no-data-label="none yet"')
        table.add_slot("body-cell-delete", LAYOUT["cells"]["delete"])
        table.on("remove", self._remove)
        self.tables[collections] = table

    def refresh(self) -> None:
        for collections, table in self.tables.items():
            rows = self.page.data.stock(*collections)
            if rows != table.rows:
                table.rows = rows

    async def _remove(self, event: Any) -> None:
        name, key = event.args["name"], event.args["key"]
        told = ["It can be deleted while nothing uses it."]
        if await confirmed(f"Delete {name}?", told, "Delete"):
            await attempted(self.page, lambda: self.page.data.delete(key))
            self.refresh()

    async def _uploaded(self, event: events.MultiUploadEventArguments) -> None:
        with tempfile.TemporaryDirectory(dir=self.page.data.home) as folder:
            files = []
            for number, sent in enumerate(event.files):
                # Not to be trusted: a browser sends any name.
                name = PurePosixPath(sent.name.replace("\\", "/")).name
                (Path(folder) / str(number)).mkdir()
                files.append(Path(folder) / str(number) / (name.strip(".") or "package"))
                await sent.save(files[-1])
            warnings = await attempted(self.page, lambda: self.page.data.onboard(files))
        for warning in warnings or ():
            ui.notify(f"Warning: {warning}", type="warning")
        self.upload.reset()
        self.refresh()

    def _account(self) -> None:
        with ui.dialog(value=True) as dialog, ui.card().classes("w-full max-w-md"):
            heading("New VIM account", 2)
            name = ui.input("Name", value="lab").classes("w-full")
            kinds = {"lab": "namespaces of this machine", "qemu": "virtual machines"}
            kind = ui.select(kinds, value="lab", label="VDUs are").classes("w-full")
            config = ui.textarea("Configuration, YAML").props("autogrow rows=1").classes("w-full")

            def make() -> None:
                given = load_mapping(config.value or "", "The configuration")
                accounts.create(self.page.data.engine, name.value, str(kind.value), given)
                dialog.close()

            ui.button("Create", on_click=lambda: attempted(self.page, make))


async def attempted(page: "Page", work: Callable[[], Any]) -> Any:
    """Do something in a thread and return its result; show why it is refused, and return None."""
    if not page.known():
        return None
    try:
        return await run.io_bound(work)
    except LabError as error:
        complain(error)
        return None


def example(page: "Page") -> None:
    """Offer the example, in a lab without services."""
    with ui.card().classes("max-w-2xl"):
        heading("Begin with an example", 2)
        ui.label(LAYOUT["welcome"])

        async def make() -> None:
            button.props("loading")
            go(await attempted(page, page.data.example))
            button.props(remove="loading")

        button = ui.button("Make the example", on_click=make)


def create(page: "Page") -> None:
    """Open the dialog that makes a service or a slice."""
    packages = {row["key"]: row["name"] for row in page.data.stock(NSDS, NSTS)}
    places = [row["name"] for row in page.data.stock(VIMS)]
    with ui.dialog(value=True) as dialog, ui.card().classes("w-full max-w-2xl"):
        heading("New service or slice", 2)
        if not packages or not places:
            ui.label("First onboard a package of a service or slice, and make a VIM account.")
            ui.button("Close", on_click=dialog.close).props("flat")
            return
        name = ui.input("Name").classes("w-full")
        package = ui.select(packages, label="Package").classes("w-full")
        account = ui.select(places, value=places[0], label="VIM account").classes("w-full")
        config = ui.textarea("Parameters, YAML, as in dist/params").props("rows=8")
        config.classes("w-full font-mono text-xs")

        async def read(event: events.UploadEventArguments) -> None:
            config.value = await event.file.text()

        label = "Take the parameters from a file"
        ui.upload(label=label, auto_upload=True, max_file_size=4 << 20, on_upload=read).props(
            "flat bordered"
        ).classes("w-full")

        async def make() -> None:
            given = (name.value, str(package.value or ""), account.value, config.value or "")
            go(await attempted(page, lambda: page.data.create(*given)))

        ui.button("Create", on_click=make)


def go(made: tuple[str, list[str]] | None) -> None:
    """Show what was made, and the warnings; nothing after a refusal."""
    if made is not None:
        for warning in made[1]:
            ui.notify(f"Warning: {warning}", type="warning")
        ui.navigate.to(made[0])
