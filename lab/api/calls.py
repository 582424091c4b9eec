"""Types and helpers of the handlers: each handler answers one method on one kind of path.

Handlers are plain functions that run in threads. They call the engine that ``osm-lab`` calls.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from lab.api import contents
from lab.api.filters import matching
from lab.api.problems import not_found
from lab.api.tokens import Tokens
from lab.errors import NbiError
from lab.nbi import views
from lab.nbi.engine import Engine
from lab.nbi.slice_requests import Slices
from lab.records.ids import admin
from lab.records.operations import discard
from lab.records.store import NSIOPS, NSIS, NSRS, OPS, Document


@dataclass(frozen=True)
class Call:
    """One request, after its token was checked and its body read."""

    method: str
    path: Mapping[str, str]
    query: list[tuple[str, str]]
    body: dict[str, Any]
    token: Mapping[str, Any]
    file: Path = Path()  # The uploaded package, for a route with ``upload``.
    accept: str = ""  # The Accept header.
    client: str = ""  # The client's address.

    @property
    def key(self) -> str:
        return self.path["id"]

    @property
    def force(self) -> bool:
        """Whether the query string has FORCE, alone or with any value but `false`."""
        return any(name == "FORCE" and text.lower() != "false" for name, text in self.query)


@dataclass(frozen=True)
class Answer:
    """What is sent back."""

    value: Any
    status: HTTPStatus = HTTPStatus.OK
    location: str = ""
    file: contents.File | None = None  # Sent instead of a document.


Handler = Callable[["Resources", Call], Answer]


@dataclass(frozen=True)
class Route:
    """Handler of a path. With ``upload``, the body is a package; ``open`` needs no token."""

    method: str
    path: str
    handler: Handler
    upload: bool = False
    open: bool = False


@dataclass(frozen=True)
class Resources:
    """The engine, and who may use it."""

    engine: Engine
    tokens: Tokens
    vca: bool = True  # Whether a Juju controller is registered; OSM 18 and 19 come without.
    started: float = field(default_factory=lambda: admin()["created"])

    @property
    def slices(self) -> Slices:
        return Slices(self.engine)

    def get(self, table: str, key: str) -> Document:
        """Return a record by its id."""
        record = self.engine.store.find(table, key)
        if record is None:
            raise not_found(table, key)
        return record

    def discarded(self, table: str, key: str) -> bool:
        """Delete a record if it is damaged; return whether it was."""
        return discard(self.engine.store, table, key)


def listed(documents: list[Document], call: Call) -> Answer:
    """Answer with the documents that match the query string."""
    return Answer(matching(documents, call.query))


def _reap(table: str, resources: Resources) -> None:
    if table in (NSIS, NSIOPS):
        resources.slices.reap()
    elif table in (NSRS, OPS):
        resources.engine.reap()


def show_all(table: str, resources: Resources, call: Call) -> Answer:
    """List the records of a table."""
    _reap(table, resources)
    store = resources.engine.store
    return listed(views.views(table, store, store.all(table)), call)


def show(table: str, resources: Resources, call: Call) -> Answer:
    _reap(table, resources)
    return Answer(views.view(table, resources.get(table, call.key), resources.engine.store))


def discard_damaged(table: str, resources: Resources, call: Call) -> Answer:
    """Delete a damaged record of a kind that NBI never deletes by itself."""
    if not resources.discarded(table, call.key):
        text = f"Method {call.method} not supported for this URL"
        raise NbiError(text, HTTPStatus.METHOD_NOT_ALLOWED)
    return Answer(None, HTTPStatus.NO_CONTENT)


def made(place: str, key: str, **more: Any) -> Answer:
    """Answer that a resource was created, with its location."""
    return Answer({"id": key, **more}, HTTPStatus.CREATED, f"/osm/{place}/{key}")


def refused(resources: Resources, call: Call) -> Answer:
    """Refuse a method that OSM has and the lab does not have."""
    text = f"Method {call.method} not supported yet for this URL"
    raise NbiError(text, HTTPStatus.NOT_IMPLEMENTED)


def nothing(resources: Resources, call: Call) -> Answer:
    """Answer with an empty list: the lab never has such resources."""
    return Answer([])


def accepted(started: Any, place: str, key: str, **more: Any) -> Answer:
    """Answer that an operation was started, with its location."""
    op_id = started.operation["_id"]
    return Answer({key: op_id, **more}, HTTPStatus.ACCEPTED, f"/osm/{place}/{op_id}")


def shown(path: str, table: str) -> list[Route]:
    """Return the routes that list the records of a table and show one."""
    return [
        Route("GET", path, partial(show_all, table)),
        Route("GET", f"{path}/{{id}}", partial(show, table)),
    ]


def below(prefix: str, *routes: Route) -> list[Route]:
    return [replace(route, path=prefix + route.path) for route in routes]
