"""How a VDU of tests answers the step that reads a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vpnaas.vdu.programs.agent import is_theirs


def read(files: Mapping[str, str], body: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the result of a `read`, of files by path, as the agent has it."""
    text = files.get(body["path"])
    theirs = text is not None and is_theirs(text.encode(), body.get("mark", ""))
    return {"text": body["foreign"] if theirs else text}
