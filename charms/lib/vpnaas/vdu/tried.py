"""Versions of the VDU's programs: which of them nobody has tried with the charm."""

import re
from typing import Dict, List, Tuple

from vpnaas.base import tables
from vpnaas.vdu.steps import Results, Step, printable, run

_PACKAGES, _SYSTEM = "facts/packages", "facts/system"
_DPKG, _RELEASE = "/usr/bin/dpkg-query", "/etc/os-release"


def look() -> List[Step]:
    """Return the steps that read the versions; a VDU without dpkg tells the system's name only."""
    form = "-f=${Package} ${Version}\n"
    name = '^PRETTY_NAME="?([^"]*)'
    return [
        run(_PACKAGES, _DPKG, "-W", form, *_tried(), only_if=_DPKG, any_exit=True),
        run(_SYSTEM, "cat", _RELEASE, only_if=_RELEASE, pick=name, any_exit=True),
    ]


def untried(results: Results) -> Tuple[str, ...]:
    """Return a sentence for each program whose version is outside the tried range."""
    known = _tried()
    rows = [row.split(" ") for row in results.output(_PACKAGES).splitlines()]
    found = {row[0]: row[1] for row in rows if len(row) == 2 and row[0] in known and row[1]}
    system = printable(results.output(_SYSTEM).strip()) or "the VDU's system"
    if not found:
        return ("{}: it tells no versions (no dpkg), so it was never tried".format(system),)
    sentences = []
    for package, version in sorted(found.items()):
        program, oldest, newest = known[package]
        upstream = re.split("[-+~]", version.partition(":")[2] or version)[0]
        if not _reaches(upstream, oldest) or not _reaches(newest, upstream):
            what = "{} {} of {} was never tried; {} to {} were"
            sentences.append(what.format(program, printable(upstream), system, oldest, newest))
    return tuple(sentences)


def _reaches(version: str, least: str) -> bool:
    """Compare two versions as far as both are given."""
    ours, theirs = ([int(n) for n in re.findall("[0-9]+", text)] for text in (version, least))
    length = min(len(ours), len(theirs))
    return ours[:length] >= theirs[:length]


def _tried() -> Dict[str, Tuple[str, str, str]]:
    """Return name of the program, oldest and newest version by package."""
    return {package: tuple(row) for package, row in tables.read("tried.json", __package__).items()}
