"""The order of hooks and what they are about."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.juju_operator import remove_relation, remove_unit
from vca_support import (
    QUICK,
    WAIT,
    about,
    databag,
    events,
    log_text,
    logged,
    new_model,
    on,
    runs,
    write_charm,
)

from lab.errors import NbiError
from lab.lcm import timer
from lab.vca.controller import Controller
from lab.vca.model import Model

SETUP = ["install", "leader-elected", "config-changed", "start"]


def test_first_hooks_of_a_unit_without_relations(model: Model, tmp_path: Path) -> None:
    model.deploy("a", write_charm(tmp_path / "a", "a"))
    model.wait_idle(WAIT)
    assert events(model, "a/0") == SETUP


def test_relations_known_at_install_are_created_before_leader_elected(
    idle_model: Model, tmp_path: Path
) -> None:
    idle_model.deploy("a", write_charm(tmp_path / "a", "a", provides="db", peers="ring"))
    idle_model.deploy("b", write_charm(tmp_path / "b", "b", requires="db"))
    idle_model.add_relation("b:db", "a:db")
    idle_model.start()
    idle_model.wait_idle(WAIT)
    assert about(idle_model, "a/0") == [
        "install",
        "ring-relation-created a",
        "db-relation-created b",
        "leader-elected",
        "config-changed",
        "start",
        "db-relation-joined b/0",
        "db-relation-changed b/0",
    ]


def test_relation_added_later_is_created_then_joined_then_changed(
    model: Model, tmp_path: Path
) -> None:
    model.deploy("a", write_charm(tmp_path / "a", "a", provides="db"))
    model.deploy("b", write_charm(tmp_path / "b", "b", requires="db"), num_units=2)
    model.wait_idle(WAIT)
    number = model.add_relation("a:db", "b:db")
    model.wait_idle(WAIT)
    assert about(model, "a/0", "db") == [
        "db-relation-created b",
        "db-relation-joined b/0",
        "db-relation-changed b/0",
        "db-relation-joined b/1",
        "db-relation-changed b/1",
    ]
    joined = next(run for run in runs(model, "a/0") if run.event == "db-relation-joined")
    expected = {
        "JUJU_RELATION": "db",
        "JUJU_RELATION_ID": f"db:{number}",
        "JUJU_REMOTE_UNIT": "b/0",
        "JUJU_REMOTE_APP": "b",
    }
    assert {key: joined.environment[key] for key in expected} == expected


def test_followers_get_leader_settings_changed_instead_of_leader_elected(
    model: Model, tmp_path: Path
) -> None:
    model.deploy("a", write_charm(tmp_path / "a", "a"), num_units=2)
    model.wait_idle(WAIT)
    assert events(model, "a/0") == SETUP
    assert events(model, "a/1") == ["install", "leader-settings-changed", "config-changed", "start"]


def test_environment_of_a_hook(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUJU_SECRET_OF_CALLER", "leak")
    model.deploy("a", write_charm(tmp_path / "a", "a"))
    model.wait_idle(WAIT)
    environment = runs(model, "a/0")[0].environment
    charm_dir = str(model.paths.charm("a/0"))
    expected = {
        "JUJU_UNIT_NAME": "a/0",
        "JUJU_MODEL_UUID": model.uuid,
        "JUJU_MODEL_NAME": model.uuid,
        "JUJU_VERSION": "2.9.44",
        "JUJU_CHARM_DIR": charm_dir,
        "CHARM_DIR": charm_dir,
        "JUJU_DISPATCH_PATH": "hooks/install",
        "JUJU_HOOK_NAME": "install",
    }
    assert {key: environment[key] for key in expected} == expected
    assert "JUJU_RELATION" not in environment
    assert "JUJU_SECRET_OF_CALLER" not in environment
    assert environment["HOME"].startswith(str(model.paths.unit("a/0")))
    assert environment["PATH"].split(":")[0].endswith("/tools")


def test_config_changed_only_when_a_value_differs(model: Model, tmp_path: Path) -> None:
    options = {"word": {"type": "string", "default": "x"}}
    script = on("config-changed", "echo word=$(config-get word)")
    model.deploy("a", write_charm(tmp_path / "a", "a", options=options, script=script))
    model.wait_idle(WAIT)
    for value in ("x", "y", "y", "x"):
        model.set_config("a", {"word": value})
        model.wait_idle(WAIT)
    assert logged(model, "a/0", "word") == ["x", "y", "x"]


def test_pending_changes_coalesce(model: Model, tmp_path: Path) -> None:
    """While b is busy, a writes five times; b is told once, of the last value."""
    gate = tmp_path / "gate"
    busy = on("update-status", f"while [ ! -e {gate} ]; do sleep 0.02; done")
    result = on("db-relation-changed", "echo n=$(relation-get n)")
    counting = {"count": {"params": {"n": {"type": "integer"}}}}
    write = on("count", "relation-set -r $(relation-ids db) n=$(action-get n)")
    model.deploy(
        "a", write_charm(tmp_path / "a", "a", provides="db", actions=counting, script=write)
    )
    model.deploy("b", write_charm(tmp_path / "b", "b", requires="db", script=busy + result))
    model.add_relation("a:db", "b:db")
    model.wait_idle(WAIT)
    model.update_status()
    model.wait_for(
        lambda s: s.units["b/0"].agent == "idle" or "update-status" in events(model, "b/0"), WAIT
    )
    for number in range(1, 6):
        assert model.run_action("a", "count", {"n": number}, WAIT).status == "completed"
    gate.touch()
    model.wait_idle(WAIT)
    assert logged(model, "b/0", "n") == ["", "5"]


def test_update_status_waits_for_no_unit_in_error(
    idle_model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OSMLAB_TIMEOUT_FACTOR", str(WAIT / 1200))
    controller = Controller(tmp_path / "home", settings=QUICK)
    backends = SimpleNamespace(home=tmp_path / "home", controller=lambda: controller)
    begun = time.monotonic()
    for name, script in (("a", on("install", "exit 1")), ("b", "")):
        idle_model.deploy(name, write_charm(tmp_path / name, name, script=script))
        for _ in range(2):
            tries = len(runs(idle_model, "a/0"))
            with pytest.raises(NbiError, match='in error: a/0: hook failed: "install"'):
                timer.update_status(backends, "m", 0)
            assert len(runs(idle_model, "a/0")) > tries, "the hook was repeated"
    assert events(idle_model, "b/0") == [*SETUP, *["update-status"] * 2]
    assert time.monotonic() - begun < WAIT


def test_application_databag_changes_come_without_a_remote_unit(
    model: Model, tmp_path: Path
) -> None:
    write = on(
        "config-changed",
        "for r in $(relation-ids db); do relation-set --app -r $r v=$(config-get v); done",
    )
    options = {"v": {"type": "string", "default": ""}}
    result = on("db-relation-changed", 'echo "v=$(relation-get --app v) unit=${JUJU_REMOTE_UNIT}"')
    model.deploy(
        "a", write_charm(tmp_path / "a", "a", provides="db", options=options, script=write)
    )
    model.deploy("b", write_charm(tmp_path / "b", "b", requires="db", script=result))
    model.add_relation("a:db", "b:db")
    model.wait_idle(WAIT)
    model.set_config("a", {"v": "one"})
    model.wait_idle(WAIT)
    assert about(model, "b/0", "db-relation-changed") == [
        "db-relation-changed a/0",
        "db-relation-changed a",
    ]
    assert logged(model, "b/0", "v") == [" unit=a/0", "one unit="]
    assert databag(model, "b/0", "db", "a") == {"v": "one"}


def test_writing_the_same_value_again_tells_nobody(model: Model, tmp_path: Path) -> None:
    write = on("update-status", "relation-set -r $(relation-ids db) k=same")
    model.deploy("a", write_charm(tmp_path / "a", "a", provides="db", script=write))
    model.deploy("b", write_charm(tmp_path / "b", "b", requires="db"))
    model.add_relation("a:db", "b:db")
    for _ in range(3):
        model.wait_idle(WAIT)
        model.update_status()
    model.wait_idle(WAIT)
    assert events(model, "b/0").count("db-relation-changed") == 2
    assert databag(model, "b/0", "db", "a/0")["k"] == "same"


def test_leader_is_told_of_its_own_write_to_a_peer_relation(model: Model, tmp_path: Path) -> None:
    write = on(
        "start",
        'if [ "$(is-leader)" = True ]; then relation-set -r $(relation-ids ring) --app k=v; fi',
    )
    result = on("ring-relation-changed", 'echo "k=$(relation-get --app k a)"')
    model.deploy("a", write_charm(tmp_path / "a", "a", peers="ring", script=write + result))
    model.wait_idle(WAIT)
    assert about(model, "a/0", "ring-relation-changed") == ["ring-relation-changed a"]
    assert logged(model, "a/0", "k") == ["v"]


def test_peers_see_each_other_but_not_themselves(model: Model, tmp_path: Path) -> None:
    script = on(
        "update-status", 'echo "peers=$(relation-list -r $(relation-ids ring) | tr "\\n" " ")"'
    )
    model.deploy("a", write_charm(tmp_path / "a", "a", peers="ring", script=script), num_units=3)
    model.wait_idle(WAIT)
    model.update_status()
    model.wait_idle(WAIT)
    assert logged(model, "a/1", "peers") == ["a/0 a/2 "]
    assert about(model, "a/2", "ring-relation-joined") == [
        "ring-relation-joined a/0",
        "ring-relation-joined a/1",
    ]


def test_removed_relation_departs_each_unit_then_breaks(model: Model, tmp_path: Path) -> None:
    look = (
        on("db-relation-joined", "relation-set who=$JUJU_UNIT_NAME")
        + on(
            "db-relation-departed",
            'echo "departed=$(relation-get who $JUJU_REMOTE_UNIT) left=$(relation-list | tr "\\n" " ")'  # noqa: E501
            ' departing=$JUJU_DEPARTING_UNIT"',
        )
        + on("db-relation-broken", 'echo "broken=$(relation-list) ids=$(relation-ids db)"')
    )
    model.deploy("a", write_charm(tmp_path / "a", "a", provides="db", script=look))
    model.deploy("b", write_charm(tmp_path / "b", "b", requires="db", script=look), num_units=2)
    number = model.add_relation("a:db", "b:db")
    model.wait_idle(WAIT)
    remove_relation(model, "b:db", "a:db")
    model.wait_idle(WAIT)
    assert about(model, "a/0")[-3:] == [
        "db-relation-departed b/0",
        "db-relation-departed b/1",
        "db-relation-broken b",
    ]
    assert logged(model, "a/0", "departed") == [
        "b/0 left=b/1  departing=b/0",
        "b/1 left= departing=b/1",
    ]
    assert logged(model, "a/0", "broken") == [f" ids=db:{number}"]
    assert model.show_unit("a/0")["relation-info"] == []


def test_removed_unit_breaks_its_relations_stops_and_is_gone(model: Model, tmp_path: Path) -> None:
    trace = tmp_path / "last"
    keep = on("*", f'echo "$event $JUJU_DEPARTING_UNIT" >> {trace}') + on("stop", "is-leader")
    model.deploy("a", write_charm(tmp_path / "a", "a", provides="db"))
    model.deploy("b", write_charm(tmp_path / "b", "b", requires="db", script=keep), num_units=1)
    model.add_relation("a:db", "b:db")
    model.wait_idle(WAIT)
    trace.unlink()
    remove_unit(model, "b/0")
    status = model.wait_idle(WAIT)
    assert trace.read_text().split("\n") == [
        "hooks/db-relation-departed b/0",
        "hooks/db-relation-broken ",
        "hooks/stop ",
        "hooks/remove ",
        "",
    ]
    assert "b/0" not in status.units
    assert not model.paths.unit("b/0").exists()
    departed = runs(model, "a/0")[-1]
    assert (departed.event, departed.environment["JUJU_DEPARTING_UNIT"]) == (
        "db-relation-departed",
        "b/0",
    )


def test_others_see_a_dying_unit_depart_before_it_has_finished(
    model: Model, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    script = on("db-relation-departed", f"while [ ! -e {gate} ]; do sleep 0.02; done")
    model.deploy("a", write_charm(tmp_path / "a", "a", provides="db"))
    model.deploy("b", write_charm(tmp_path / "b", "b", requires="db", script=script))
    model.add_relation("a:db", "b:db")
    model.wait_idle(WAIT)
    remove_unit(model, "b/0")
    try:
        model.wait_for(lambda _: "db-relation-departed" in events(model, "a/0"), WAIT)
    finally:
        gate.touch()
    model.wait_idle(WAIT)


def test_removed_application_goes_with_its_relations(model: Model, tmp_path: Path) -> None:
    model.deploy("a", write_charm(tmp_path / "a", "a", provides="db"))
    model.deploy("b", write_charm(tmp_path / "b", "b", requires="db", peers="ring"), num_units=2)
    model.add_relation("a:db", "b:db")
    model.wait_idle(WAIT)
    model.remove_application("b")
    status = model.wait_idle(WAIT)
    assert list(status.applications) == ["a"]
    assert about(model, "a/0")[-1] == "db-relation-broken b"
    model.deploy("b", tmp_path / "b")  # the name is free again
    model.add_relation("a:db", "b:db")
    model.wait_idle(WAIT)
    assert about(model, "a/0")[-1] == "db-relation-changed b/0"


def test_upgrade_brings_files_then_upgrade_charm_then_config_changed(
    model: Model, tmp_path: Path
) -> None:
    first = write_charm(tmp_path / "v1", "a", script=on("install", "echo kept > state.db"))
    (first / "old.txt").write_text("old")
    second = write_charm(tmp_path / "v2", "a", peers="ring", script="echo version=2\n")
    (second / "lib").mkdir()
    (second / "lib" / "new.txt").write_text("new")
    model.deploy("a", first)
    model.wait_idle(WAIT)
    assert model.upgrade_charm("a", second) == 1
    model.wait_idle(WAIT)
    charm_dir = model.paths.charm("a/0")
    assert not (charm_dir / "old.txt").exists()
    assert (charm_dir / "lib" / "new.txt").read_text() == "new"
    assert (charm_dir / "state.db").read_text() == "kept\n"
    assert events(model, "a/0")[4:] == ["upgrade-charm", "config-changed", "ring-relation-created"]
    assert logged(model, "a/0", "version") == ["2", "2", "2"]


def test_hooks_a_charm_lacks_are_skipped(model: Model, tmp_path: Path) -> None:
    charm = write_charm(tmp_path / "a", "a", actions={"touch": {}})
    (charm / "dispatch").unlink()
    (charm / "hooks").mkdir()
    (charm / "hooks" / "start").write_text("#!/bin/sh\necho ran=$JUJU_DISPATCH_PATH\n")
    (charm / "hooks" / "start").chmod(0o755)
    model.deploy("a", charm)
    model.wait_idle(WAIT)
    assert logged(model, "a/0", "ran") == ["hooks/start"]
    result = model.run_action("a", "touch", timeout=WAIT)
    assert (result.status, result.message) == ("failed", 'action not implemented on unit "a/0"')
    assert "skipped install hook (missing)" in log_text(model, "a/0")
    assert "ran start hook" in log_text(model, "a/0")


def test_statuses_before_and_after_the_charm_sets_one(model: Model, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = on("install", f"while [ ! -e {gate} ]; do sleep 0.02; done")
    model.deploy("a", write_charm(tmp_path / "a", "a", script=script))
    status = model.wait_for(lambda s: s.units["a/0"].agent == "executing", WAIT)
    assert (status.units["a/0"].workload, status.units["a/0"].message) == (
        "maintenance",
        "installing charm software",
    )
    assert status.units["a/0"].agent_message == "running install hook"
    gate.touch()
    status = model.wait_idle(WAIT)
    assert (status.applications["a"].status, status.units["a/0"].workload) == ("unknown", "unknown")
    assert (status.units["a/0"].agent, status.units["a/0"].agent_message) == ("idle", "")


@pytest.mark.parametrize("restarted", [False, True])
def test_an_agent_that_was_started_again_breaks_its_peer_relation_before_it_stops(
    tmp_path: Path, restarted: bool
) -> None:
    """As Juju 2.9 to 4.0 do; before the hook stop nothing of that relation can be read any more."""
    trace = tmp_path / "last"
    told = f'echo "$event [$JUJU_REMOTE_APP] $(relation-ids ring)" >> {trace}'
    model = new_model(tmp_path / "h")
    model.deploy("a", write_charm(tmp_path / "a", "a", peers="ring", script=on("*", told)))
    with model:
        model.wait_idle(WAIT)
        if not restarted:
            trace.unlink()
            remove_unit(model, "a/0")
            model.wait_idle(WAIT)
    if restarted:
        with model:
            model.wait_idle(WAIT)
            trace.unlink()
            remove_unit(model, "a/0")
            model.wait_idle(WAIT)
    lines = trace.read_text().splitlines()
    if restarted:
        assert lines[0].startswith("hooks/ring-relation-broken [] ring:")
        assert lines[1:] == ["hooks/stop [] ", "hooks/remove [] "]
    else:
        assert [line.split()[0] for line in lines] == ["hooks/stop", "hooks/remove"]
