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
    files = [HERE / f"test_validate_{name}.py" for name in ("archives", "keys", "links", "params")]
    source = "".join(path.read_text() for path in files)
    shown = {case.code for case in (*validate_cases.CASES, *params_cases.CASES)} | ELSEWHERE
    assert sorted(CODES) == sorted(shown | {code for code in CODES if f'"{code}"' in source})


def test_the_page_has_the_codes_of_the_rules():
    folder = Path(builder.__file__).parent / "validate"
    rows = yaml.safe_load((folder / "tables.yaml").read_text())
    sentences = yaml.safe_load((folder / "sentences.yaml").read_text())
    told = {row["code"] for kind in rows.values() for row in kind}
    told |= {key.partition("/")[0] for key in sentences}
    assert told | {"unknown-key", "missing-key", "wrong-value"} == set(CODES)


def test_every_sentence_is_told_by_a_rule():
    folder = Path(builder.__file__).parent
    source = "".join(path.read_text() for path in folder.rglob("*.py"))
    sentences = yaml.safe_load((folder / "validate/sentences.yaml").read_text())
    words = set(re.findall(r'"([a-z0-9-]+)"', source))
    for key in sentences:
        code, _, case = key.partition("/")
        assert f'"{key}"' in source or (f'"{code}/{{' in source and case in words), key


def test_only_what_osm_refuses_has_a_text_of_its_own():
    folder = Path(builder.__file__).parent
    sentences = yaml.safe_load((folder / "validate/sentences.yaml").read_text())
    for key, form in sentences.items():
        assert isinstance(form, str) or CODES[key.partition("/")[0]] == "refused", key


def test_no_sentence_names_a_class_of_python():
    folder = Path(builder.__file__).parent / "validate"
    for name in ("sentences.yaml", "tables.yaml", "params.yaml", "forms.yaml"):
        assert not re.findall(r"\b[A-Z]\w+(?:Error|Exception)\b", (folder / name).read_text())
