"""The table of connections that the MME writes to its log."""

ROWS = ("Attached UEs", "Connected UEs", "Connected eNBs", "Default Bearers", "S1-U Bearers")
_RULE = "=" * 39 + " STATISTICS " + "=" * 44


class Statistics:
    """Counts of connected peers."""

    def __init__(self) -> None:
        self.current = dict.fromkeys(ROWS, 0)

    def add(self, row: str) -> None:
        self.current[row] += 1

    def remove(self, row: str) -> None:
        self.current[row] -= 1

    def table(self) -> str:
        """Return the table in the format of Magma's module SERVICE303."""
        rows = [f"{name:<15}| {count:>10}      |" for name, count in self.current.items()]
        return "\n".join([_RULE, f"{'':<15}|   Current Status|", *rows, _RULE])
