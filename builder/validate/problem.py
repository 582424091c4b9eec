"""What the validator says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["refused", "silent"]


@dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        path: Package or file, then the place inside, such as "hss_vnfd.yaml: vnfd/df[0]/id".
        severity: "refused": OSM's northbound interface rejects the package. "silent": OSM takes
            it, and it fails or is ignored later.
        code: Stable name of the rule, see docs/reference/validator.md.
        sentence: What is wrong and what is allowed.
        osm_message: Text OSM's own rejection has, "" where it has none.
    """

    path: str
    severity: Severity
    code: str
    sentence: str
    osm_message: str = ""
