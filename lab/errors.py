"""Errors of the lab's northbound and lifecycle sides, and the text about a damaged record."""

from __future__ import annotations

from http import HTTPStatus

from pydantic import ValidationError


class NbiError(Exception):
    """A request the lab refuses; the text is one sentence, in NBI's own words where it has any.

    Attributes:
        status: HTTP status with which NBI refuses the same request.
        detail: NBI's own text, if the lab's text has more than that.
    """

    def __init__(
        self, text: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST, detail: str = ""
    ) -> None:
        super().__init__(text)
        self.status = status
        self.detail = detail or text


class ConflictError(NbiError):
    """A request that conflicts with existing records (HTTP status 409)."""

    def __init__(self, text: str, detail: str = "") -> None:
        super().__init__(text, HTTPStatus.CONFLICT, detail)


class LcmError(Exception):
    """A step of an operation failed, here, in the VIM or in the VCA.

    The text is OSM's own where OSM has one.
    """


def fault(error: ValidationError) -> str:
    """Return the error of a damaged record, as the end of the sentence "the record FILE ..."."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return f"lacks '{where}'"
    return f"is damaged at '{where}'" if where else "is damaged"
