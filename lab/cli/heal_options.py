"""Parse the arguments of ``ns-heal`` and ``vnf-heal`` as osmclient does: their order counts."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from lab.errors import NbiError


def split(words: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield for each ``--vnf`` its value and what follows, up to the next one."""
    if not words or words[0] != "--vnf":
        raise NbiError(f"Expected one of ['--vnf']. Received: {words[0] if words else 'nothing'}.")
    starts = [i for i, word in enumerate(words) if word == "--vnf"]
    for start, end in zip(starts, [*starts[1:], len(words)], strict=True):
        if end - start < 2 or words[start + 1].startswith("--"):
            raise NbiError("Expected a VNF_ID after --vnf")
        yield words[start + 1 : end]


def heal_words(words: Sequence[str]) -> dict[str, Any]:
    """Return an entry of ``healVnfData`` without its VNF."""
    entry: dict[str, Any] = {}
    additional: dict[str, Any] = {}
    place = additional
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--run-day1":
            place["run-day1"] = True
            continue
        if word not in ("--cause", "--vdu", "--count-index"):
            raise NbiError(
                f"unknown word {word}; allowed: --cause, --run-day1, --vdu, --count-index"
            )
        if not left or left[0].startswith("--"):
            raise NbiError(f"No value was provided after {word}")
        value = left.pop(0)
        if word == "--cause":
            entry["cause"] = value
        elif word == "--vdu":
            place = {"vdu-id": value}
            additional.setdefault("vdu", []).append(place)
        elif "vdu" not in additional:
            raise NbiError("Option --count-index only applies to VDU, not to VNF")
        elif not re.fullmatch("[0-9]{1,9}", value):
            raise NbiError(f"--count-index is '{value}', it must be a number from 0 to 999999999")
        else:
            place["count-index"] = int(value)
    if additional:
        entry["additionalParams"] = additional
    return entry
