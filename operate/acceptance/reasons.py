"""What may be wrong with an OSM and its VIM, and the commands that correct it."""

import re
from pathlib import Path
from typing import Any, NamedTuple

from builder import documents

_KNOWN = documents.read(Path(__file__).with_suffix(".yaml"))
VCA_ADD: str = _KNOWN["vca-add"]


class Remedy(NamedTuple):
    """One sentence and one command."""

    sentence: str
    command: str


def finding(name: str, /, **words: Any) -> Remedy:
    """Return what a step found wrong; ``words`` stand in place of those in braces."""
    sentence, command = _KNOWN["findings"][name]
    return Remedy(sentence.format(**words), command.format(**words))


def remedy(text: str) -> Remedy | None:
    """Return the cause of OSM's error text, None if it is unknown."""
    for cause in _KNOWN["causes"]:
        if re.search(cause["pattern"], text):
            return Remedy(cause["sentence"], cause["command"])
    return None
