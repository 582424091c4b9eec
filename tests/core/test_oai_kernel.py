"""What a network function's image needs of the kernel is looked for, and told."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from oai import kernel, plan
from support.functions import Vdu, function_state, reconcile


@pytest.mark.parametrize("kind", ["n3iwf", "n3ue"])
def test_the_kernel_is_looked_at_before_the_image_starts(kind: str) -> None:
    asked = function_state(kind)
    vdu = Vdu()
    steps = plan.make_plan(asked, vdu.execute(plan.observe_steps(asked))).steps
    names = [step.id for step in steps]
    assert names.index("nf/kernel") < names.index("nf/restart") < names.index("nf/probe")


@pytest.mark.parametrize(
    ("ready", "listed", "told"),
    [
        (False, '["xfrm_interface", "sctp"]', ["XFRM interfaces (module xfrm_interface)", "SCTP"]),
        (True, '["ip_gre"]', ["GRE (module ip_gre)"]),
        (True, "[]", []),
        (False, '["rm -rf", 5, null]', []),
        (False, "{", []),
        (False, "5", []),
    ],
)
def test_what_the_kernel_lacks_is_a_reason_or_a_remark(
    ready: bool, listed: str, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    vdu = Vdu()
    vdu.probe = {"reasons": [] if ready else ["no IKE on NWu yet"], "units": {}, "restarts": 0}
    vdu.outputs["nf/kernel"] = listed
    outcome = reconcile(vdu, function_state("n3iwf"))
    assert outcome.state == ("ready" if ready else "starting")
    assert ("kernel has no" in outcome.reason) == bool(told and not ready)
    assert ("remark" in outcome.details) == bool(told)
    for text in told:
        assert text in outcome.details["remark"]


IP = """#!/bin/sh
echo "$*" >> {log}
case "$*" in *{bad}*) exit 2;; esac
"""


@pytest.mark.parametrize("bad", ["xfrm", "gre", "nothing"])
def test_each_feature_is_tried_and_leaves_nothing(
    bad: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, program = tmp_path / "log", tmp_path / "ip"
    program.write_text(IP.format(log=log, bad=bad))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(kernel, "SEEN", str(tmp_path / "run/kernel"))
    found = kernel.missing(["xfrm_interface", "ip_gre"])
    assert found == {"xfrm": ["xfrm_interface"], "gre": ["ip_gre"], "nothing": []}[bad]
    words = log.read_text().splitlines()
    made = sum("link add" in line for line in words) - len(found)
    assert words.count(f"link delete {kernel.PROBE}") == made
    assert kernel.missing(["xfrm_interface", "ip_gre"]) == found
    # What works is not tried again until the next boot.
    assert (len(log.read_text().splitlines()) == len(words)) == (bad == "nothing")


def test_the_program_answers_as_the_charm_asks() -> None:
    (step,) = plan._kernel("n3iwf")
    assert json.loads(step.body["stdin"]) == {"modules": ["xfrm_interface", "ip_gre", "sctp"]}
    assert plan._kernel("amf") == []
