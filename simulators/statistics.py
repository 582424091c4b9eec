"""The table of connections that the MME writes to its log."""

from __future__ import annotations

from collections.abc import Mapping

#: Seconds between two tables.
INTERVAL = 10.0
ROWS = ("Connected eNBs", "Attached UEs", "Connected UEs", "Default Bearers", "S1-U Bearers")
_WIDTH = 90


class Statistics:
    """Counts of what is connected, and of what came and went since the last table."""

    def __init__(self) -> None:
        """Nothing is connected."""
        self.current = dict.fromkeys(ROWS, 0)
        self._came = dict.fromkeys(ROWS, 0)
        self._went = dict.fromkeys(ROWS, 0)

    def add(self, row: str) -> None:
        """One came."""
        self.current[row] += 1
        self._came[row] += 1

    def remove(self, row: str) -> None:
        """One went."""
        self.current[row] -= 1
        self._went[row] += 1

    def table(self) -> str:
        """The table; what came and went begins at zero again."""
        head = _line("", "Current Status", "Added since last display", "Removed since last display")
        title = " STATISTICS ".center(_WIDTH, "=")
        lines = [title, head, *(self._row(name) for name in ROWS), title]
        self._came = dict.fromkeys(ROWS, 0)
        self._went = dict.fromkeys(ROWS, 0)
        return "\n".join(lines)

    def _row(self, name: str) -> str:
        values: list[Mapping[str, int]] = [self.current, self._came, self._went]
        return _line(name, *(str(value[name]) for value in values))


def _line(name: str, *cells: str) -> str:
    return f"{name:<16}|" + "|".join(cell.center(28)[:28] for cell in cells) + "|"
