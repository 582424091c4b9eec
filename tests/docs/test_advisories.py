"""The table of advisories names every wheel that charms carry, in its version."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_vendored_wheel_stands_in_the_table_of_advisories() -> None:
    pinned = re.findall(
        r"^([\w.-]+)==([\w.]+)", (ROOT / "charms/common/requirements.txt").read_text(), re.M
    )
    page = (ROOT / "docs/explanation/security.md").read_text()
    table = page.partition("## Advisories of the wheels in a charm")[2].partition("\n## ")[0]
    named = {tuple(each) for each in re.findall(r"\b([A-Za-z]\w+) (\d[\d.]*\d)\b", table)}
    assert len(pinned) > 5
    assert set(pinned) - named == set()
