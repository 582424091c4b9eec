"""Hooks and actions again, as they are recorded: by the charm, or in a shell on a terminal."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.juju_operator import remove_relation
from vca_support import WAIT, events, log_text, logged, on, runs, write_charm

from lab.errors import NotFoundError, VcaError
from lab.vca.model import Model

SETTLED = """
import sys
from lab.vca.controller import Controller
model = Controller(sys.argv[1]).model("m")
model.replay("a/0", sys.argv[2], ["bash", "--norc", "-i"])
with model:
    model.wait_idle(60)
"""


def in_a_shell(model: Model, event: str, typed: str) -> str:
    """Replay an event of a/0 in a shell on a terminal, type lines there; return what it shows."""
    home = str(model.paths.model.parents[2])
    terminal, end = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", SETTLED, home, event], stdin=end, stdout=end, stderr=end
    )
    os.close(end)
    os.write(terminal, typed.encode())
    shown = b""
    while True:
        try:
            shown += os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
    os.close(terminal)
    assert process.wait(WAIT) == 0, shown.decode()
    return shown.decode()


def test_a_hook_comes_again_as_it_was_recorded(model: Model, tmp_path: Path) -> None:
    model.deploy("a", write_charm(tmp_path / "a", "a", provides="db"))
    model.deploy("b", write_charm(tmp_path / "b", "b", requires="db"))
    model.add_relation("a:db", "b:db")
    model.wait_idle(WAIT)
    (recorded,) = [run for run in runs(model, "a/0") if run.event == "db-relation-joined"]
    assert model.replay("a/0", "db-relation-joined") == "db-relation-joined"
    model.wait_idle(WAIT)
    again = [run.environment for run in runs(model, "a/0") if run.event == "db-relation-joined"][1]
    for key in ("JUJU_RELATION_ID", "JUJU_REMOTE_UNIT", "JUJU_REMOTE_APP"):
        assert again[key] == recorded.environment[key]
    model.wait_idle(WAIT)
    last = events(model, "a/0")[-1]
    assert model.replay("a/0") == last
    model.wait_idle(WAIT)
    assert events(model, "a/0")[-2:] == [last, last]


def test_an_action_comes_again_with_its_parameters(model: Model, tmp_path: Path) -> None:
    actions = {"say": {"params": {"word": {"type": "string"}}}}
    script = on("say", "echo said=$(action-get word)")
    model.deploy("a", write_charm(tmp_path / "a", "a", actions=actions, script=script))
    model.wait_idle(WAIT)
    number = model.run_action("a/0", "say", {"word": "moon"}, WAIT).id
    model.wait_idle(WAIT)
    assert f"ran action say ({number})" in log_text(model, "a/0")
    assert model.replay("a/0", number) == "say"
    model.wait_idle(WAIT)
    assert logged(model, "a/0", "said") == ["moon", "moon"]


def test_a_shell_stands_in_place_of_the_charm(idle_model: Model, tmp_path: Path) -> None:
    script = on("config-changed", "juju-log in=$(is-leader)")
    idle_model.deploy("a", write_charm(tmp_path / "a", "a", script=script))
    with idle_model:
        idle_model.wait_idle(WAIT)
    before = events(idle_model, "a/0").count("config-changed")
    typed = "echo $JUJU_DISPATCH_PATH $(is-leader); ./dispatch; ./dispatch; exit 0\n"
    assert "hooks/config-changed True" in in_a_shell(idle_model, "config-changed", typed)
    # Twice by hand, and not by the agent.
    assert events(idle_model, "a/0").count("config-changed") == before + 2
    assert idle_model.status().failed == {}


def test_the_hook_that_failed_is_the_one_in_the_shell(idle_model: Model, tmp_path: Path) -> None:
    charm = write_charm(tmp_path / "a", "a", script=on("config-changed", "[ -e $HOME/mended ]"))
    idle_model.deploy("a", charm)
    with idle_model:
        idle_model.wait_for(lambda s: s.units["a/0"].agent == "error", WAIT)
        with pytest.raises(VcaError, match="has to run config-changed first"):
            idle_model.replay("a/0", "install")
    assert "config-changed" in in_a_shell(
        idle_model, "", "touch $HOME/mended; ./dispatch && echo $JUJU_HOOK_NAME; exit\n"
    )
    assert idle_model.status().failed == {}


def test_only_what_is_recorded_comes_again(model: Model, tmp_path: Path) -> None:
    model.deploy("a", write_charm(tmp_path / "a", "a", provides="db"))
    model.deploy("b", write_charm(tmp_path / "b", "b", requires="db"))
    model.add_relation("a:db", "b:db")
    model.wait_idle(WAIT)
    with pytest.raises(
        NotFoundError, match=r'no hook "stop" of unit "a/0" is recorded; allowed: co'
    ):
        model.replay("a/0", "stop")
    with model._store.transaction() as document:  # As of an earlier version.
        document.units["b/0"].hooks.clear()
    with pytest.raises(NotFoundError, match='^no hook of unit "b/0" is recorded; allowed: one'):
        model.replay("b/0", "")
    with pytest.raises(NotFoundError, match='action "7" not found'):
        model.replay("a/0", "7")
    remove_relation(model, "a:db", "b:db")
    model.wait_idle(WAIT)
    with pytest.raises(VcaError, match="is about something removed"):
        model.replay("a/0", "db-relation-changed")
