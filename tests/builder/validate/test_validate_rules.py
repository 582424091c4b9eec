"""Every rule: one small change, exactly one problem."""

import pytest
from validate_cases import CASES, member, put
from validate_support import catalog, ns, problems

from builder.validate import CODES, validate_package


def sentence_is_good(sentence):
    assert sentence == " ".join(sentence.split())
    assert 10 < len(sentence) < 600
    assert not sentence.endswith(".")
    return True


@pytest.mark.parametrize(
    ("code", "place", "message", "draft", "edits"),
    CASES,
    ids=[f"{index}-{case[0]}" for index, case in enumerate(CASES)],
)
def test_one_change_gives_exactly_one_problem(code, place, message, draft, edits, tmp_path):
    made = draft()
    for edit in edits:
        edit(made)
    reported = problems(made, tmp_path)
    assert [problem.code for problem in reported] == [code], reported
    problem = reported[0]
    assert problem.path.endswith(place)
    assert problem.path.startswith("gate.tar.gz: ")
    assert problem.severity == CODES[code].severity
    assert message in problem.osm_message
    assert sentence_is_good(problem.sentence)
    # What OSM says it says only where it refuses.
    assert not problem.osm_message or problem.severity == "refused"


def test_charms_of_vdus_have_names_of_their_own(tmp_path):
    """Two members whose VNFD has its charm at a VDU, as cells have."""
    known, service = catalog(), ns()
    operations = known.vnfds["gate_vnf"]["df"][0]["lcm-operations-configuration"]
    operations["operate-vnf-op-config"]["day1-2"][0]["id"] = "vm"
    for number, name in enumerate(("gate-number-1", "gate-number-2")):
        for edit in (put(f"df/0/vnf-profile/{number}/id", name), *member(number, name)):
            edit(service)
    service.drop("ns-configuration")
    (problem,) = validate_package(service.tar(tmp_path / "gate.tar.gz"), known)
    assert problem.code == "app-name"
