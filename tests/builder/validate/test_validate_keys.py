"""A key that stands twice in a mapping; the drafts cannot have one, so this is text."""

import pytest
import yaml
from support.validating import validate_package
from validate_support import catalog, ns

TEXT = yaml.safe_dump(ns().document)


def problems_of(text, folder):
    path = folder / "one.yaml"
    path.write_text(text)
    return validate_package(path, catalog())


def test_the_first_of_two_equal_keys_is_lost(tmp_path):
    first = next(n for n, line in enumerate(TEXT.splitlines(), 1) if line == "    name: gate_ns")
    (problem,) = problems_of(TEXT + "    name: gate_ns\n", tmp_path)
    assert (problem.code, problem.severity) == ("key-twice", "silent")
    assert problem.path == f"one.yaml:{len(TEXT.splitlines()) + 1}"
    assert f"ignores its value in line {first}" in problem.sentence


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("    name: gate_ns", "    <<: {}\n    <<: {}\n    name: gate_ns"),
        TEXT.replace("    name: gate_ns", "    name: &n gate_ns\n    designer: *n"),
    ],
)
def test_merges_and_aliases_are_no_repetition(text, tmp_path):
    assert problems_of(text, tmp_path) == []


def test_a_tab_that_only_libyaml_takes_is_refused(tmp_path):
    (problem,) = problems_of(TEXT.replace("    name: gate_ns", "    name:\tgate_ns"), tmp_path)
    assert (problem.code, problem.osm_message) == ("descriptor-yaml", "Invalid yaml format")
    assert "'\\t'" in problem.sentence
