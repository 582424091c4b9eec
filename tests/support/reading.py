"""How a VDU of tests answers the steps that read and remove a file."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from vpnaas.vdu.programs.agent import is_theirs


def read(files: Mapping[str, str], body: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the result of a `read`, of files by path, as the agent has it."""
    text = files.get(body["path"])
    return {"text": body["foreign"] if _theirs(files, body) else text}


def remove(files: MutableMapping[str, str], body: Mapping[str, Any]) -> bool:
    """Take a file away as `remove` does; tell whether there was one."""
    return not _theirs(files, body) and files.pop(body["path"], None) is not None


def _theirs(files: Mapping[str, str], body: Mapping[str, Any]) -> bool:
    return is_theirs(files.get(body["path"], "").encode(), body.get("mark", ""))
