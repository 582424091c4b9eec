"""Who leads, and what happens when a leader goes."""

from pathlib import Path

import pytest
from support.juju_operator import kill_unit_agent, remove_unit, restore_unit_agent
from vca_support import WAIT, databag, events, new_model, on, touch_and_wait, write_charm

from lab.vca.model import Model
from lab.vca.runtime import Settings


def leaders(model: Model) -> list[str]:
    return [name for name, unit in model.status().units.items() if unit.leader]


@pytest.fixture
def trio(model: Model, tmp_path: Path) -> Model:
    write = on("leader-elected", 'echo "elected=$(is-leader)"') + on(
        "update-status",
        "if is-leader --format=json | grep -q true; then "
        "relation-set --app -r $(relation-ids ring) by=$JUJU_UNIT_NAME; fi",
    )
    model.deploy("a", write_charm(tmp_path / "a", "a", peers="ring", script=write), num_units=3)
    model.wait_idle(WAIT)
    return model


def test_exactly_one_unit_leads(trio: Model) -> None:
    assert leaders(trio) == ["a/0"]
    trio.update_status()
    trio.wait_idle(WAIT)
    assert databag(trio, "a/2", "ring", "a") == {"by": "a/0"}


def test_leadership_moves_when_the_leader_is_removed(trio: Model) -> None:
    remove_unit(trio, "a/0")
    trio.wait_idle(WAIT)
    assert leaders(trio) == ["a/1"]
    assert events(trio, "a/1")[-2:] == ["leader-elected", "ring-relation-departed"]
    trio.update_status()
    trio.wait_idle(WAIT)
    assert databag(trio, "a/2", "ring", "a") == {"by": "a/1"}


def test_leadership_moves_when_the_leaders_agent_vanishes_and_comes_not_back(trio: Model) -> None:
    kill_unit_agent(trio, "a/0")
    trio.wait_idle(WAIT)
    assert leaders(trio) == ["a/1"]
    before = events(trio, "a/0")
    trio.update_status()
    trio.wait_idle(WAIT)
    assert events(trio, "a/0") == before, "a lost agent runs nothing"
    restore_unit_agent(trio, "a/0")
    trio.wait_idle(WAIT)
    assert leaders(trio) == ["a/1"]
    # Told of what the new leader wrote meanwhile, and of update-status; not of the lost office.
    assert events(trio, "a/0") == [*before, "ring-relation-changed", "update-status"]


def test_an_old_leader_elected_again_is_told_again(trio: Model) -> None:
    kill_unit_agent(trio, "a/0")
    trio.wait_idle(WAIT)
    restore_unit_agent(trio, "a/0")
    trio.wait_idle(WAIT)
    remove_unit(trio, "a/1")
    trio.wait_idle(WAIT)
    assert leaders(trio) == ["a/0"]
    assert events(trio, "a/0").count("leader-elected") == 2


def test_a_vanished_agent_takes_its_hook_along(model: Model, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    script = on("start", f"if [ ! -e {mark} ]; then touch {mark}; sleep 600; fi")
    model.deploy("a", write_charm(tmp_path / "a", "a", script=script))
    model.wait_for(lambda _: mark.exists(), WAIT)
    kill_unit_agent(model, "a/0")
    model.wait_idle(WAIT)
    assert events(model, "a/0").count("start") == 1
    restore_unit_agent(model, "a/0")
    model.wait_idle(WAIT)
    assert events(model, "a/0").count("start") == 2


def test_units_run_at_the_same_time(model: Model, tmp_path: Path) -> None:
    """Each of two hooks waits for the mark of the other: one after the other would fail."""
    one, two = tmp_path / "one", tmp_path / "two"
    model.deploy(
        "a", write_charm(tmp_path / "a", "a", script=on("install", touch_and_wait(one, two)))
    )
    model.deploy(
        "b", write_charm(tmp_path / "b", "b", script=on("install", touch_and_wait(two, one)))
    )
    model.wait_idle(WAIT)
    assert events(model, "a/0").count("install") == events(model, "b/0").count("install") == 1


def test_a_unit_runs_one_thing_at_a_time_and_the_limit_holds(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    script = (
        f"n=$(ls {inside} | wc -l); echo $n >> {tmp_path}/counts; touch {inside}/$$; sleep 0.03; "
        f"rm {inside}/$$\n"
    )
    model = new_model(tmp_path / "h", Settings(parallel=2))
    with model:
        model.deploy(
            "a", write_charm(tmp_path / "a", "a", peers="ring", script=script), num_units=4
        )
        model.wait_idle(WAIT)
    counts = [int(n) for n in (tmp_path / "counts").read_text().split()]
    assert max(counts) == 1, "two at most: one that counts, one that it sees"
