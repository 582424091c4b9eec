"""Codes: the table, the page, the rules and their cases agree."""

import re
from pathlib import Path

import pytest
import test_validate_archives
import test_validate_keys
import test_validate_params
from validate_cases import CASES

import builder
from builder.validate import CODES, Problem
from builder.validate.codes import GROUPS

PAGE = Path(__file__).resolve().parents[3] / "docs/reference/validator.md"
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
    modules = (test_validate_archives, test_validate_keys)
    archives = "".join(Path(module.__file__).read_text() for module in modules)
    named = {code for code in CODES if f'"{code}"' in archives}
    shown = {case[0] for case in [*CASES, *test_validate_params.CASES]} | named | ELSEWHERE
    nsi = Path(test_validate_params.__file__).read_text()
    shown |= {
        code
        for code in (
            "params-form",
            "params-ns-missing",
            "params-nss",
            "params-nsi-vld",
            "params-nss-vld",
            "params-five-qi",
            "params-five-qi-unused",
        )
        if f'"{code}"' in nsi
    }
    assert sorted(CODES) == sorted(shown)


def test_every_code_stands_in_a_rule():
    folder = Path(builder.__file__).parent
    sources = "".join(path.read_text() for path in folder.rglob("*.py") if path.name != "codes.py")
    assert [code for code in CODES if f'"{code}"' not in sources] == []


def test_a_code_nobody_documented_is_a_mistake():
    with pytest.raises(ValueError, match="not documented"):
        Problem("x", "no-such-code", "s")
