"""Errors in one sentence. Any function of the builder may raise BuildError."""

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError

ALLOWED = {
    "model_type": "a mapping",
    "dict_type": "a mapping",
    "list_type": "a list",
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "invalid_key": "a text as key, in quotes",
}
"""Plain words for pydantic's types of errors; its own words name classes of Python."""


class BuildError(Exception):
    """A package cannot be built; `str()` gives the problem, its place and what is allowed."""


def sentence(error: "ValidationError") -> str:
    """Return the first finding of a schema as one clause, with the path of the value."""
    first = error.errors(include_url=False)[0]
    path = "/".join(str(part) for part in first["loc"]) or "the document"
    return f"{path}: {clause(first)}"


def clause(item: Any) -> str:
    """Return one finding of a schema as a clause about the value."""
    ours = item["type"] in ("value_error", "missing", "extra_forbidden")
    return allowed(item) if ours else f"must be {allowed(item)}"


def allowed(item: Any) -> str:
    """Return what one finding of a schema says is allowed, in words that name no class."""
    message = ALLOWED.get(item["type"]) or item["msg"].removeprefix("Value error, ")
    message = f"{message[:1].lower()}{message[1:]}".removeprefix("input should be ")
    return str(message.removeprefix("must be "))


def of_file(error: OSError) -> str:
    """Return an error of the operating system as one clause, with the path of the file if known."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        written = error.filename2 or error.filename
        where = f" in the folder {Path(written).parent}" if written else ""
        return f"there is no room left{where}"
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}"
