"""Codes: the page, the rules and their cases agree."""

import re
from pathlib import Path

import params_cases
import validate_cases
import yaml
from validate_support import CODES, TABLE

import builder
from builder.pages import TABLES
from builder.tree import Tree

HERE = Path(__file__).resolve().parent
# Rules about the tree's own parameter files, tested with the build.
ELSEWHERE = {"params-no-service", "params-disagree"}


def test_the_page_has_one_row_for_each_code():
    assert sum(map(len, TABLE.values())) == len(CODES) > 100
    text = TABLES["codes"](Tree.find())
    shown = re.findall(r"^\| `([^`]+)` \| (\w+) \| .+ \|$", text, re.M)
    assert shown == list(CODES.items())


def test_every_code_has_a_case():
    files = [HERE / f"test_validate_{name}.py" for name in ("archives", "keys", "params")]
    source = "".join(path.read_text() for path in files)
    shown = {case.code for case in (*validate_cases.CASES, *params_cases.CASES)} | ELSEWHERE
    assert sorted(CODES) == sorted(shown | {code for code in CODES if f'"{code}"' in source})


def test_the_page_has_the_codes_of_the_rules_with_their_severity():
    folder = Path(builder.__file__).parent
    sources = "".join(path.read_text() for path in folder.rglob("*.py"))
    rows = yaml.safe_load((folder / "validate/tables.yaml").read_text())
    code = r'"([a-z0-9-]+)"'
    told = {
        *(next(iter(row.items())) for kind in rows.values() for row in kind),
        *re.findall(rf"\.(refused|silent)\(\s*{code}", sources),
        *re.findall(rf'"(refused|silent)",\s*(?!"silent"){code}', sources),
        *(("silent", name) for name in re.findall(rf"\.in_file\(\s*{code}", sources)),
        *(("refused", name) for name in re.findall(rf'_refuse\([^"]*{code}', sources)),
        *(("refused", name) for name in re.findall(rf'return {code}, f?"', sources)),
    }
    assert sorted(told) == sorted((severity, name) for name, severity in CODES.items())
