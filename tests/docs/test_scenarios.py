"""Scenarios of the lab: an operator can read the purpose, the cast, and what must be seen."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from builder import packages
from builder.tree import Tree

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests/lab/e2e"
MODULES = sorted(path.name for path in FOLDER.glob("test_*.py"))
#: Purpose, cast, list of what must be seen.
PARTS = re.compile(r"(.+)\n\nCast: (.+)\.\n\nSeen:\n((?:- .+(?:\n  .+)*[;.]\n?)+)", re.DOTALL)


def parts(text: str) -> tuple[str, str, str]:
    found = PARTS.fullmatch(text)
    assert found, "the docstring has no purpose, 'Cast: ...' and 'Seen:' with a list"
    purpose, cast, seen = found.groups()
    assert len(purpose.replace("\n\n", "\n").splitlines()) <= 3, "the purpose takes three lines"
    return purpose, " ".join(cast.split()), seen


@cache
def built() -> dict[str, packages.Package]:
    return packages.catalogue(Tree(ROOT))


@cache
def members(name: str) -> frozenset[str]:
    """Return the members of a service, or of the services of a slice."""
    descriptor = built()[name].descriptor
    if "nst" in descriptor:
        services = [entry["nsd-ref"] for entry in descriptor["nst"][0]["netslice-subnet"]]
        return frozenset().union(*map(members, services))
    return frozenset(p["id"] for p in descriptor["nsd"]["nsd"][0]["df"][0]["vnf-profile"])


def known() -> set[str]:
    """Return the names of the cast that the README explains."""
    rows = re.findall(r"^\| (`.+) \|.+\|$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


@pytest.mark.parametrize("module", MODULES)
def test_a_scenario_says_its_purpose_its_cast_and_what_must_be_seen(module: str) -> None:
    source = (FOLDER / module).read_text(encoding="utf-8")
    _, cast, _ = parts(ast.get_docstring(ast.parse(source)) or "")
    for group in cast.split("; "):
        names, _, services = group.partition(" (")
        if not services:
            names = names.partition(", ")[0]
        listed = names.split(", ")
        assert set(listed) <= known()
        for service in re.findall(r"`(\w+)`", services):
            assert set(listed) & members(service), (service, listed)
        if services:
            everyone = frozenset().union(*map(members, re.findall(r"`(\w+)`", services)))
            assert set(listed) <= everyone, (listed, sorted(everyone))


@pytest.mark.parametrize(
    "text",
    [
        "One tunnel.",
        "One tunnel.\n\nCast: server, client (`vpn_basic_ns`).",
        "One tunnel.\n\nSeen:\n- the tunnel is up.",
        "One.\n\nTwo\nthree\nfour.\n\nCast: server (`vpn_basic_ns`).\n\nSeen:\n- all.",
    ],
)
def test_a_scenario_that_lacks_a_part_is_noticed(text: str) -> None:
    with pytest.raises(AssertionError, match="the docstring has no|the purpose takes"):
        parts(text)
