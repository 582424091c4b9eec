"""Codes: the table, the page, the rules and their cases agree."""

import re
from pathlib import Path

import params_cases
import pytest
import validate_cases

import builder
from builder.validate import CODES, Problem
from builder.validate.codes import GROUPS

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[2] / "docs/reference/validator.md"
# Rules about the tree's own parameter files, tested with the build.
ELSEWHERE = {"params-no-service", "params-disagree"}


def test_the_page_lists_every_code_with_its_severity():
    rows = re.findall(r"^\| `([^`]+)` \| (\w+) \| (.+) \| (.+) \|$", PAGE.read_text(), re.M)
    assert rows == [
        (code, entry.severity, entry.meaning, entry.remedy)
        for group in GROUPS.values()
        for code, entry in group.items()
    ]


def test_no_code_is_in_two_groups():
    assert len(CODES) == sum(map(len, GROUPS.values()))


def test_every_code_has_a_case():
    files = [HERE / f"test_validate_{name}.py" for name in ("archives", "keys", "params")]
    source = "".join(path.read_text() for path in files)
    shown = {case.code for case in (*validate_cases.CASES, *params_cases.CASES)} | ELSEWHERE
    assert sorted(CODES) == sorted(shown | {code for code in CODES if f'"{code}"' in source})


def test_every_code_stands_in_a_rule():
    folder = Path(builder.__file__).parent
    sources = "".join(path.read_text() for path in folder.rglob("*.py") if path.name != "codes.py")
    assert [code for code in CODES if f'"{code}"' not in sources] == []


def test_a_code_nobody_documented_is_a_mistake():
    with pytest.raises(ValueError, match="not documented"):
        Problem("x", "no-such-code", "s")
