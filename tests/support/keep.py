"""Labs that stay after a red test (`--keep`), for a look inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

#: Whether a test of this process failed, and labs are kept.
_failed = False


def home(item: pytest.Item) -> Path | None:
    """Return the home of the lab that a test uses, None where it uses none."""
    for value in getattr(item, "funcargs", {}).values():
        for owner in (value, getattr(value, "lab", None)):
            found: Any = getattr(owner, "home", None)
            if isinstance(found, Path):
                return found
    return None


def note(item: pytest.Item, report: pytest.TestReport) -> None:
    """Keep the labs of this process if a test of one failed; the report says how to enter."""
    global _failed
    kept = home(item)
    if report.failed and kept is not None and item.config.getoption("keep"):
        _failed = True
        lab = f"osm-lab --home {kept}"
        text = f"{lab} ns-list\n{lab} lab logs NS\nAt the end: {lab} lab clean"
        report.sections.append(("lab that was kept", text))


def kept() -> bool:
    """Say whether what tests of this process made stays."""
    return _failed
