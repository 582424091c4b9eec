"""The text of a program that the VDU gets, with what it shares with others in it."""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from pathlib import Path

import pytest
from vpnaas.vdu import programs

FOLDER = Path(programs.__file__).parent
TEXTS = {path.name: programs.source(path.name) for path in FOLDER.glob("*.py")}
TEXTS |= {name: programs.source(name, "experiments.vdu") for name in ("send.py", "watch.py")}
TEXTS |= {name: programs.source(name, "oai") for name in ("probe.py", "kernel.py")}


def bound(text: str) -> list[str]:
    """Return the names that definitions and assignments at the top bind."""
    names = []
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.append(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            names += [each.id for each in ast.walk(node) if isinstance(each, ast.Name)
                      and isinstance(each.ctx, ast.Store)]  # fmt: skip
    return names


@pytest.mark.parametrize("name", sorted(set(TEXTS) - {"__init__.py"}))
def test_a_program_needs_no_file_of_the_library_and_binds_each_name_once(name: str) -> None:
    text = TEXTS[name]
    assert "from vpnaas" not in text
    assert [each for each, count in Counter(bound(text)).items() if count > 1] == []
    assert not set(bound(text)) & set(dir(builtins)) - {"__doc__"}


def test_the_first_line_of_a_program_names_its_interpreter() -> None:
    shared = {"__init__.py", "agent.py", "charon.py", "common.py", "netlink.py"}
    first = {name: text.splitlines()[0] for name, text in TEXTS.items() if name not in shared}
    assert {line for line in first.values() if line.startswith("#!")} == {"#!/usr/bin/python3"}


def test_no_unit_needs_a_program_of_ours_to_be_executable() -> None:
    """Its folder is in /usr/local, which somebody may mount noexec."""
    units = [*FOLDER.parents[1].rglob("*.service"), *FOLDER.parents[1].rglob("*.conf")]
    lines = [line for path in units for line in path.read_text().splitlines()]
    assert sum("$program" in line for line in lines) > 5
    assert not [line for line in lines if re.search(r'(Exec\w+=-?|")\$(program|turn)\b', line)]
