"""Results of the validator."""

from __future__ import annotations

from dataclasses import dataclass, field

from builder.validate.codes import CODES, Severity

__all__ = ["Problem", "Severity"]


@dataclass(frozen=True, order=True)
class Problem:
    """One problem of a package.

    Attributes:
        path: Package or file, then the place inside, such as "hss_vnfd.yaml: vnfd/df[0]/id".
        severity: "refused": OSM's northbound interface rejects the package. "silent": OSM takes
            it, and it fails or is ignored later.
        code: Stable name of the rule, see docs/reference/validator.md.
        sentence: The problem and the allowed values.
        osm_message: Text of OSM's own rejection, "" if there is none.
    """

    path: str
    severity: Severity = field(init=False)
    code: str
    sentence: str
    osm_message: str = ""

    def __post_init__(self) -> None:
        """Set the severity from the table of codes; a rule may use documented codes only."""
        if self.code not in CODES:
            raise ValueError(f"{self.code!r} is not documented")
        object.__setattr__(self, "severity", CODES[self.code].severity)
