"""Errors of the lab's northbound and lifecycle sides, and what damaged records are told by."""

from __future__ import annotations

from http import HTTPStatus

from pydantic import ValidationError


class NbiError(Exception):
    """A request the lab refuses; the text is one sentence, in NBI's own words where it has any.

    Attributes:
        status: HTTP status by which NBI refuses the same.
        detail: what NBI says, where the text has more than that.
    """

    def __init__(
        self, text: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST, detail: str = ""
    ) -> None:
        super().__init__(text)
        self.status = status
        self.detail = detail or text


class ConflictError(NbiError):
    """A request that is refused for what is there already (HTTP status 409)."""

    def __init__(self, text: str, detail: str = "") -> None:
        super().__init__(text, HTTPStatus.CONFLICT, detail)


class LcmError(Exception):
    """A step of an operation failed, here, in the VIM or in the VCA.

    The text is OSM's own where OSM has one.
    """


def fault(error: ValidationError) -> str:
    """Return what is wrong with a record of the lab, for "the record FILE ..."."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return f"lacks '{where}'"
    return f"is damaged at '{where}'" if where else "is damaged"
