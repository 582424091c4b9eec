"""Results of the validator."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from builder import documents

Severity = Literal["refused", "silent"]
HALF = 900  # Characters of a sentence that are shown at the least from its beginning and its end.
_FOLDER = Path(__file__).parent
SEVERITIES: dict[str, Severity] = {
    code: row[0]
    for codes in documents.read(_FOLDER / "codes.yaml").values()
    for code, row in codes.items()
}
_SENTENCES = documents.read(_FOLDER / "sentences.yaml")


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

    def __post_init__(self) -> None:
        """Leave out the middle of what a huge value made long."""
        for name in ("sentence", "osm_message"):
            if len(text := getattr(self, name)) > 2 * HALF:
                object.__setattr__(self, name, f"{text[:HALF]} ... {text[-HALF:]}")


def choices(known: Iterable[str]) -> str:
    """Return the allowed values as part of a sentence."""
    return ", ".join(sorted(known)) or "none is defined"


def problem(path: str, code: str, /, **words: Any) -> Problem:
    """Make a problem with the severity and the sentence of its code.

    Args:
        code: Code, or CODE/CASE where it has several sentences, see sentences.yaml.
        words: What stands in the sentence in place of words in braces; `may` are values.
    """
    form = _SENTENCES[code]
    if not isinstance(words.get("may", ""), str):
        words["may"] = choices(words["may"])
    says, osm = (form, "") if isinstance(form, str) else (form["says"], form["osm"])
    name = code.partition("/")[0]
    return Problem(path, SEVERITIES[name], name, says.format(**words), osm.format(**words))


class Reporter:
    """Makes the problems of a document."""

    def at(self, place: str) -> str:
        """Return the name of the document with a place inside."""
        raise NotImplementedError

    def tell(self, code: str, place: str, /, **words: Any) -> Problem:
        """Make a problem at a place of the document; see :func:`problem`."""
        return problem(self.at(place), code, **words)
