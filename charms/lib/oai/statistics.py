"""Parser for the table of statistics in the MME's log."""

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
_ROW = re.compile(r"({})\s*\|\s*([0-9]{{1,18}})\s*\|".format("|".join(ROWS)))


def latest(log: str) -> Dict[str, int]:
    """Return the numbers of the last complete table.

    Raises:
        VpnaasError: There is none.
    """
    table: Dict[str, int] = {}
    complete: Dict[str, int] = {}
    for match in _ROW.finditer(log):
        name = ROWS[match.group(1)]
        if name in table:
            table = {}
        table[name] = int(match.group(2))
        if len(table) == len(ROWS):
            complete, table = table, {}
    if not complete:
        raise VpnaasError("the MME has shown no statistics yet; it does so every 10 s")
    return complete
