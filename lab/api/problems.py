"""Refusals as HTTP answers: what OSM's NBI sends (SOL013, clause 6.3, ProblemDetails)."""

from http import HTTPStatus
from typing import Any

from lab.errors import NbiError

#: Names as in OSM's Python 3.10; Python 3.13 has others.
_NAMES = {
    HTTPStatus(413): "REQUEST_ENTITY_TOO_LARGE",
    HTTPStatus(414): "REQUEST_URI_TOO_LONG",
    HTTPStatus(422): "UNPROCESSABLE_ENTITY",
}


def body(status: HTTPStatus, detail: str) -> dict[str, Any]:
    """Return the body of a refusal, with NBI's three fields."""
    return {"code": _NAMES.get(status, status.name), "status": status.value, "detail": detail}


def not_found(table: str, key: str) -> NbiError:
    """Return NBI's error for an id that a collection (``nsrs``, ``vnfds``) does not contain."""
    return NbiError(
        f"database exception Not found any {table[:-1]} with filter='{{'_id': '{key}'}}'",
        HTTPStatus.NOT_FOUND,
    )
