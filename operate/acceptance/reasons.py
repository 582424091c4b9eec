"""Causes of failed operations, and the commands that correct them."""

import re
from pathlib import Path
from typing import NamedTuple

from builder import documents

_KNOWN = documents.read(Path(__file__).with_suffix(".yaml"))
VCA_ADD: str = _KNOWN["vca-add"]
IMAGE_CREATE: str = _KNOWN["image-create"]
FLAVOR_CREATE: str = _KNOWN["flavor-create"]
LET_LOGINS_IN: str = _KNOWN["let-logins-in"]


class Remedy(NamedTuple):
    """One sentence and one command."""

    sentence: str
    command: str


def remedy(text: str) -> Remedy | None:
    """Return the cause of OSM's error text, None if it is unknown."""
    for cause in _KNOWN["causes"]:
        if re.search(cause["pattern"], text):
            return Remedy(cause["sentence"], cause["command"])
    return None
