"""Actions: parameters, results, failures and where they run."""

from pathlib import Path

import pytest
from vca_support import WAIT, databag, on, runs, write_charm

from lab.errors import NotFoundError, VcaError, WaitTimeoutError
from lab.vca.events import Event
from lab.vca.model import Model

ACTIONS: dict[str, object] = {
    "measure": {
        "description": "d",
        "params": {
            "link": {"type": "string", "enum": ["s6a", "s11"]},
            "duration": {"type": "integer", "default": 10, "minimum": 1, "maximum": 60},
            "psk": {"type": "boolean", "default": False},
            "deep": {"type": "object", "properties": {"er": {"type": "string", "default": "x"}}},
        },
        "required": ["link"],
    },
    "strict": {"additionalProperties": False},
}
SHOW = on(
    "measure", 'action-set params="$(action-get --format=json)" output="unit $JUJU_UNIT_NAME"'
)


@pytest.fixture
def app(model: Model, tmp_path: Path) -> Model:
    charm = write_charm(tmp_path / "a", "a", actions=ACTIONS, script=SHOW, provides="db")
    model.deploy("a", charm, num_units=2)
    model.wait_idle(WAIT)
    return model


def test_parameters_are_completed_with_defaults(app: Model) -> None:
    result = app.run_action("a", "measure", {"link": "s6a", "duration": 5}, WAIT)
    assert result.status == "completed"
    assert result.results == {
        "params": '{"deep":{"er":"x"},"duration":5,"link":"s6a","psk":false}',
        "output": "unit a/0",
    }


def test_an_application_means_its_leader_and_a_unit_itself(app: Model) -> None:
    assert app.run_action("a", "measure", {"link": "s11"}, WAIT).unit == "a/0"
    assert app.run_action("a/1", "measure", {"link": "s11"}, WAIT).results["output"] == "unit a/1"


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({}, "(root) : 'link' is a required property"),
        ({"link": "s5"}, "(root).link : 's5' is not one of ['s6a', 's11']"),
        ({"link": "s6a", "duration": "5"}, "(root).duration : '5' is not of type 'integer'"),
        ({"link": "s6a", "duration": 0}, "(root).duration : 0 is less than the minimum of 1"),
        ({"link": "s6a", "psk": "true"}, "(root).psk : 'true' is not of type 'boolean'"),
        ({"link": "s6a", "deep": {"er": 1}}, "(root).deep.er : 1 is not of type 'string'"),
    ],
)
def test_wrong_parameters_are_refused_and_nothing_is_queued(
    app: Model, params: dict[str, object], text: str
) -> None:
    with pytest.raises(VcaError) as caught:
        app.enqueue_action("a", "measure", params)
    assert str(caught.value) == f"validation failed: {text}"
    assert app._view().units["a/0"].pending_actions == []


def test_unknown_parameters_pass_unless_the_action_says_no(app: Model) -> None:
    # Juju 2.9's default; OSM checks the names itself.
    assert app.run_action("a", "measure", {"link": "s6a", "more": 1}, WAIT).status == "completed"
    with pytest.raises(VcaError, match="Additional properties are not allowed"):
        app.enqueue_action("a", "strict", {"more": 1})


def test_unknown_targets_and_actions(app: Model) -> None:
    with pytest.raises(NotFoundError, match=r'^action "fly" not defined on unit "a/0"$'):
        app.enqueue_action("a", "fly")
    with pytest.raises(NotFoundError, match=r'^application "b" not found$'):
        app.enqueue_action("b", "measure")
    with pytest.raises(NotFoundError, match=r'^unit "a/9" not found$'):
        app.enqueue_action("a/9", "measure")
    with pytest.raises(NotFoundError, match=r'^action "77" not found$'):
        app.action("77")
    assert set(app.actions("a")) == {"measure", "strict"}


def test_environment_and_output_of_an_action(model: Model, tmp_path: Path) -> None:
    script = on("talk", "echo to stdout", "echo to stderr >&2")
    model.deploy("a", write_charm(tmp_path / "a", "a", actions={"talk": {}}, script=script))
    model.wait_idle(WAIT)
    result = model.run_action("a", "talk", timeout=WAIT)
    for level, words in (("DEBUG", "to stdout"), ("WARNING", "to stderr")):
        assert f"{level} unit.a/0.talk {words}" in model.log_path("a/0").read_text()
    assert result.results == {}
    environment = runs(model, "a/0")[-1].environment
    assert environment["JUJU_ACTION_NAME"] == "talk"
    assert environment["JUJU_ACTION_UUID"] == result.id
    assert environment["JUJU_DISPATCH_PATH"] == "actions/talk"


def test_action_fail_keeps_results_and_writes(model: Model, tmp_path: Path) -> None:
    script = on(
        "try",
        "relation-set -r $(relation-ids db) tried=1",
        "action-set output=why",
        "action-fail 'no peer yet'",
    )
    model.deploy(
        "a", write_charm(tmp_path / "a", "a", actions={"try": {}}, script=script, provides="db")
    )
    model.deploy("b", write_charm(tmp_path / "b", "b", requires="db"))
    model.add_relation("a:db", "b:db")
    model.wait_idle(WAIT)
    result = model.run_action("a", "try", timeout=WAIT)
    assert (result.status, result.message) == ("failed", "no peer yet")
    assert result.results == {"output": "why"}
    assert databag(model, "b/0", "db", "a/0")["tried"] == "1"


def test_action_that_exits_non_zero_writes_nothing_and_unit_is_fine(
    model: Model, tmp_path: Path
) -> None:
    bag = "-r $(relation-ids ring)"
    script = on("try", f"relation-set {bag} k=v", "action-set output=half", "exit 4") + on(
        "look", f'action-set k="[$(relation-get {bag} k $JUJU_UNIT_NAME)]"'
    )
    actions = {"try": {}, "look": {}}
    charm = write_charm(tmp_path / "a", "a", actions=actions, script=script, peers="ring")
    model.deploy("a", charm)
    model.wait_idle(WAIT)
    result = model.run_action("a", "try", timeout=WAIT)
    assert (result.status, result.message) == ("failed", "exit status 4")
    assert result.results == {"output": "half"}
    assert model.run_action("a", "look", timeout=WAIT).results == {"k": "[]"}
    assert model.wait_idle(WAIT).units["a/0"].agent == "idle"


def test_actions_queue_behind_the_running_hook_in_order(model: Model, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = on("update-status", f"while [ ! -e {gate} ]; do sleep 0.02; done")
    model.deploy("a", write_charm(tmp_path / "a", "a", actions={"x": {}, "y": {}}, script=script))
    model.wait_idle(WAIT)
    model.update_status()
    model.wait_for(lambda _: runs(model, "a/0")[-1].event == "update-status", WAIT)
    ids = [model.enqueue_action("a", name) for name in ("x", "y", "x")]
    with pytest.raises(WaitTimeoutError, match=r"action x of a/0 is still pending after 0.1 s"):
        model.wait_action(ids[0], 0.1)
    assert model.action(ids[0]) is None
    assert len(model._view().units["a/0"].pending_actions) == 3
    gate.touch()
    assert [model.wait_action(i, WAIT).status for i in ids] == ["completed"] * 3
    assert [run.event for run in runs(model, "a/0")][-4:] == ["update-status", "x", "y", "x"]


def test_an_action_waits_for_who_runs_the_model(idle_model: Model, tmp_path: Path) -> None:
    idle_model.deploy("a", write_charm(tmp_path / "a", "a", actions={"x": {}}))
    action_id = idle_model.enqueue_action("a", "x")
    with idle_model:
        assert idle_model.wait_action(action_id, WAIT).status == "completed"


def test_events_of_an_action(app: Model) -> None:
    outcome: list[Event] = []
    app.subscribe(outcome.append)
    app.run_action("a", "measure", {"link": "s6a"}, WAIT)
    app.stop()
    started = [(e.unit, e.name) for e in outcome if e.kind == "action-started"]
    assert started == [("a/0", "measure")]
