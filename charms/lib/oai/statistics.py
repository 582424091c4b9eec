"""The table of statistics that the MME writes to its log."""

import re
from typing import Dict

from vpnaas.base.errors import VpnaasError

ROWS = {
    "Connected eNBs": "enbs",
    "Attached UEs": "attached-ues",
    "Connected UEs": "connected-ues",
    "Default Bearers": "default-bearers",
    "S1-U Bearers": "s1u-bearers",
}
_ROW = re.compile(r"({})\s*\|\s*(\d+)\s*\|\s*(\d+)\s*\|\s*(\d+)\s*\|".format("|".join(ROWS)))


def latest(log: str) -> Dict[str, Dict[str, int]]:
    """Return the rows of the last complete table: now, and added and removed since the one before.

    Raises:
        VpnaasError: There is none.
    """
    found: Dict[str, Dict[str, int]] = {}
    complete: Dict[str, Dict[str, int]] = {}
    for match in _ROW.finditer(log):
        name = ROWS[match.group(1)]
        if name in found:
            found = {}
        counts = [int(match.group(index)) for index in (2, 3, 4)]
        found[name] = dict(zip(("now", "added", "removed"), counts))
        if name == "s1u-bearers":
            complete, found = found, {}
    if not complete:
        raise VpnaasError("the MME has shown no statistics yet; it does so every 10 s")
    return complete
