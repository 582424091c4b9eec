"""Results of the validator."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["refused", "silent"]


@dataclass(frozen=True, order=True)
class Problem:
    """One problem of a package."""

    path: str  # Package or file, then the place inside, such as "hss_vnfd.yaml: vnfd/df[0]/id".
    # "refused": OSM's northbound interface rejects the package. "silent": OSM takes it, and it
    # fails or is ignored later.
    severity: Severity
    code: str  # Stable name of the rule, see docs/reference/validator.md.
    sentence: str  # The problem and the allowed values.
    osm_message: str = ""  # Text of OSM's own rejection, "" if there is none.


class Reporter:
    """Makes the problems of a document."""

    def at(self, place: str) -> str:
        """Return the name of the document with a place inside."""
        raise NotImplementedError

    def refused(self, code: str, place: str, sentence: str, osm_message: str = "") -> Problem:
        """Make a problem for which OSM's northbound interface refuses the document."""
        return Problem(self.at(place), "refused", code, sentence, osm_message)

    def silent(self, code: str, place: str, sentence: str) -> Problem:
        """Make a problem that OSM does not name."""
        return Problem(self.at(place), "silent", code, sentence)
