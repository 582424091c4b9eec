"""Errors in one sentence. Any function of the builder may raise BuildError."""

import errno
from pathlib import Path

from pydantic import ValidationError


class BuildError(Exception):
    """A package cannot be built; `str()` gives the problem, its place and what is allowed."""


def sentence(error: ValidationError) -> str:
    """Return the first finding of a schema as one clause, with the path of the value."""
    first = error.errors(include_url=False)[0]
    path = "/".join(str(part) for part in first["loc"]) or "the document"
    message = first["msg"].removeprefix("Value error, ")
    return f"{path}: {message[0].lower()}{message[1:]}"


def of_file(error: OSError) -> str:
    """Return an error of the operating system as one clause, with the path of the file if known."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" in the folder {Path(error.filename).parent}" if error.filename else ""
        return f"there is no room left{where}"
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}"
