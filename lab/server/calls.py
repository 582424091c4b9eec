"""What the interface does: each function answers one method on one kind of path.

All are plain functions, run in threads; they call the engine that ``osm-lab`` calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from lab.errors import NbiError
from lab.nbi.engine import Engine
from lab.nbi.slices import Slices
from lab.records.ids import admin
from lab.records.store import (
    VIMS,
    Document,
)
from lab.server import contents
from lab.server.filters import matching
from lab.server.problems import not_found, not_there_yet
from lab.server.tokens import Tokens


@dataclass(frozen=True)
class Call:
    """One request, after its token was looked at and its body read."""

    method: str
    path: Mapping[str, str]
    query: list[tuple[str, str]]
    body: dict[str, Any]
    token: Mapping[str, Any]
    file: Path = Path()
    """The package that was uploaded, with a route that takes one."""
    accept: str = ""
    """The header of this name."""

    @property
    def key(self) -> str:
        """The id in the path."""
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
    file: contents.File | None = None
    """Sent instead of a document."""


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
    vca: bool = True
    """Whether a Juju controller is registered; OSM 18 and 19 come without."""
    started: float = field(default_factory=lambda: admin()["created"])

    @property
    def slices(self) -> Slices:
        """The engine for slices."""
        return Slices(self.engine)

    def get(self, table: str, key: str) -> Document:
        """Return a record by its id.

        Raises:
            NbiError: there is none. Clients must look up names themselves.
        """
        record = self.engine.store.find(table, key) if is_id(key) else None
        if record is None:
            raise not_found(table, key)
        return record


def is_id(text: str) -> bool:
    """Say whether a text can be an id; no path is."""
    return bool(text) and all(c.isalnum() or c == "-" for c in text)


def listed(documents: list[Document], call: Call) -> Answer:
    """Return those of a list that the query string asks for."""
    return Answer(matching(documents, call.query))


def made(call: Call, place: str, key: str, **more: Any) -> Answer:
    """Answer that something was made, and where it is."""
    return Answer({"id": key, **more}, HTTPStatus.CREATED, f"/osm/{place}/{key}")


def refused(resources: Resources, call: Call) -> Answer:
    """Refuse what OSM has and a lab has not."""
    raise not_there_yet(call.method)


def nothing(resources: Resources, call: Call) -> Answer:
    """List what a lab never has."""
    return Answer([])


def bound(function: Callable[..., Answer], *first: str) -> Handler:
    """Bind the first arguments of a handler of several tables."""
    return lambda resources, call: function(*first, resources, call)


def accepted(started: Any, place: str, key: str, **more: Any) -> Answer:
    """Answer that an operation was started, and where it is."""
    op_id = started.operation["_id"]
    return Answer({key: op_id, **more}, HTTPStatus.ACCEPTED, f"/osm/{place}/{op_id}")


def known_vim(resources: Resources, key: str) -> None:
    """Refuse a VIM account that is not there.

    Raises:
        NbiError: in NBI's words.
    """
    if resources.engine.store.find(VIMS, key) is None:
        raise NbiError(f"Invalid vimAccountId='{key}' not present for the project")


def below(prefix: str, *routes: Route) -> list[Route]:
    """Put a prefix before paths."""
    return [Route(r.method, prefix + r.path, r.handler, r.upload, r.open) for r in routes]
