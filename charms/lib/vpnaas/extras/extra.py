"""Interface between the unit status and an extra."""

from typing import Any, Dict


class Extra:
    """State of what a VNF has in addition to its links."""

    @property
    def bad(self) -> bool:
        """Tell whether somebody must act."""
        return False

    @property
    def calm(self) -> bool:
        """Tell whether it is as it should be, so that no further reconcile is needed soon."""
        return not self.bad

    def summary(self) -> str:
        """Return the text for the unit status, "" for none."""
        return ""

    def shown(self) -> Dict[str, Any]:
        """Return what show-status adds to the links."""
        return {}
