"""Several processes, killed processes and what they leave."""

import dataclasses
import json
import multiprocessing
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support.juju_operator import add_units, config
from support.waiting import wait_until
from vca_support import (
    QUICK,
    WAIT,
    alive,
    databag,
    events,
    log_text,
    logged,
    new_model,
    on,
    runs,
    write_charm,
)

from lab import files
from lab.errors import (
    AgentEndedError,
    ModelBusyError,
    NotFoundError,
    VcaError,
    WaitTimeoutError,
)
from lab.lcm.charmops import CharmOps
from lab.lcm.timeouts import Timeouts
from lab.vca.agent import UnitAgent
from lab.vca.controller import Controller
from lab.vca.tools import TOOLS
from lab.vca.toolserver import install_tools

RUNNER = """
import sys, time
from lab.vca.controller import Controller
from lab.vca.runtime import Settings
model = Controller(sys.argv[1], settings=Settings(retry_start=0.05)).model("m")
model.start()
exec(sys.argv[2])
print("ready", flush=True)
time.sleep(600)
"""


class OtherProcess:
    """Another process that runs the model "m" of a home."""

    def __init__(self, home: Path, code: str = "") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUNNER, str(home), code],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def wait_written(what: Path) -> None:
    wait_until(lambda: what.exists() and what.read_text(), f"{what} appears")


def test_a_hook_cut_off_by_a_kill_is_run_again_by_the_next_process(tmp_path: Path) -> None:
    home, mark, pids = tmp_path / "h", tmp_path / "mark", tmp_path / "pids"
    model = new_model(home)
    script = on(
        "start",
        'echo "seen=[$(relation-get -r $(relation-ids db) n $JUJU_UNIT_NAME)]"',
        "relation-set -r $(relation-ids db) n=dropped",
        f"if [ ! -e {mark} ]; then echo $$ >> {pids}; sleep 600 & echo $! >> {pids}; "
        f"echo x > {mark}; wait; fi",
        "relation-set -r $(relation-ids db) n=kept",
    )
    model.deploy("a", write_charm(tmp_path / "a", "a", provides="db", script=script))
    model.deploy("b", write_charm(tmp_path / "b", "b", requires="db"))
    model.add_relation("a:db", "b:db")
    other = OtherProcess(home)
    wait_written(mark)
    other.kill()
    orphans = [int(pid) for pid in pids.read_text().split()]
    assert all(alive(pid) for pid in orphans), "the hook should have outlived its controller"
    with model:
        model.wait_idle(WAIT)
        assert not any(alive(pid) for pid in orphans)
        assert events(model, "a/0").count("start") == 2
        assert events(model, "a/0").count("install") == 1
        assert logged(model, "a/0", "seen") == ["[]", "[]"]
        assert databag(model, "b/0", "db", "a/0")["n"] == "kept"
    assert list(model.paths.contexts.glob("*")) == []


def test_an_action_cut_off_by_a_kill_has_failed_and_is_not_repeated(tmp_path: Path) -> None:
    home, mark = tmp_path / "h", tmp_path / "mark"
    model = new_model(home)
    script = on("slow", f"echo $$ > {mark}", "sleep 600")
    model.deploy("a", write_charm(tmp_path / "a", "a", script=script, actions={"slow": {}}))
    other = OtherProcess(home, "model.wait_idle(30); model.enqueue_action('a', 'slow')")
    wait_written(mark)
    other.kill()
    with model:
        model.wait_idle(WAIT)
        result = model.action("1")
        assert result is not None
        assert (result.status, result.message) == ("failed", "action terminated")
        assert events(model, "a/0").count("slow") == 1
        assert not alive(int(mark.read_text()))


@pytest.mark.parametrize("number", range(4))
def test_kills_at_any_moment_lose_nothing(tmp_path: Path, number: int) -> None:
    """Kill the controller again and again while two applications settle; then look."""
    home = tmp_path / "h"
    model = new_model(home)
    count = (
        on("*", "relation-ids db > /dev/null")
        + on("db-relation-changed", "relation-set seen=$(relation-get id)")
        + on("db-relation-joined", "relation-set id=$JUJU_UNIT_NAME")
    )
    model.deploy("a", write_charm(tmp_path / "a", "a", provides="db", script=count), num_units=2)
    model.deploy("b", write_charm(tmp_path / "b", "b", requires="db", script=count), num_units=1)
    model.add_relation("a:db", "b:db")
    for turn in range(3):
        other = OtherProcess(home)
        time.sleep(0.02 + 0.045 * ((number * 3 + turn) % 7))
        other.kill()
    with model:
        model.wait_idle(WAIT)
        for unit in ("a/0", "a/1"):
            assert databag(model, unit, "db", "b/0")["id"] == "b/0"
            assert databag(model, "b/0", "db", unit)["seen"] == "b/0"
            # What is repeated is only ever the hook that was cut off, so the order stands.
            once = [
                e
                for i, e in enumerate(events(model, unit))
                if events(model, unit)[i - 1] != e or i == 0
            ]
            assert [e for e in once if not e.startswith("db-") and "leader" not in e] == [
                "install",
                "config-changed",
                "start",
            ]


def test_only_one_process_runs_a_model_and_others_look_on(tmp_path: Path) -> None:
    home = tmp_path / "h"
    model = Controller(home, settings=dataclasses.replace(QUICK, lock_timeout=0.3)).add_model("m")
    model.deploy("a", write_charm(tmp_path / "a", "a", script=on("start", "status-set active up")))
    other = OtherProcess(home, "model.wait_idle(30)")
    try:
        assert model.status().units["a/0"].message == "up"
        assert model.show_unit("a/0")["leader"] is True
        result = (
            f'model "m" is run by process {other.process.pid}, which did not finish within 0.3 s'
        )
        with pytest.raises(ModelBusyError, match=re.escape(result)):
            model.start()
        with pytest.raises(ModelBusyError):
            add_units(model, "a")
        assert not model.running
    finally:
        other.kill()
    with model:
        assert model.wait_idle(WAIT).units["a/0"].workload == "active"


def test_changes_without_running_are_kept_and_taken_up_later(tmp_path: Path) -> None:
    home = tmp_path / "h"
    first = new_model(home)
    options = {"v": {"type": "string", "default": ""}}
    script = on("config-changed", "echo v=$(config-get v)")
    first.deploy("a", write_charm(tmp_path / "a", "a", options=options, script=script))
    first.set_config("a", {"v": "early"})
    second = Controller(home, settings=QUICK).model("m")
    assert config(second, "a") == {"v": "early"}
    with second:
        second.wait_idle(WAIT)
    assert logged(second, "a/0", "v") == ["early"]


def test_stop_lets_hooks_finish_and_kill_does_not(tmp_path: Path) -> None:
    model = new_model(tmp_path / "h")
    mark = tmp_path / "mark"
    script = on("start", f"echo x > {mark}", "sleep 0.5", "echo finished=1") + on(
        "update-status", f"echo x > {mark}", "sleep 600"
    )
    model.deploy("a", write_charm(tmp_path / "a", "a", script=script))
    model.start()
    wait_written(mark)
    model.stop()
    assert logged(model, "a/0", "finished") == ["1"]
    mark.unlink()
    model.start()
    model.update_status()
    wait_written(mark)
    begun = time.monotonic()
    model.stop(kill=True)
    assert time.monotonic() - begun < 60
    assert runs(model, "a/0")[-1].event == "update-status"
    # It is to be run again.
    assert (
        json.loads((model.paths.model / "model.json").read_text())["units"]["a/0"]["operation"][
            "kind"
        ]
        == "run-hook"
    )


def test_destroy_gives_charms_their_last_hooks(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "h", settings=QUICK)
    model = controller.add_model("m")
    said = tmp_path / "said"
    script = on("*-relation-broken|*/stop|*/remove", f"echo $event >> {said}")
    model.deploy("a", write_charm(tmp_path / "a", "a", provides="db", script=script))
    model.deploy("b", write_charm(tmp_path / "b", "b", requires="db"))
    model.add_relation("a:db", "b:db")
    with model:
        model.wait_idle(WAIT)
    controller.destroy_model("m")
    assert said.read_text().split() == ["hooks/db-relation-broken", "hooks/stop", "hooks/remove"]
    assert controller.models() == []
    assert not model.paths.model.exists()
    with pytest.raises(NotFoundError, match='model "m" not found'):
        controller.model("m")
    with pytest.raises(NotFoundError):
        controller.destroy_model("m")
    assert controller.add_model("m").status().applications == {}


def test_destroy_after_a_kill_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    home, pids = tmp_path / "h", tmp_path / "pids"
    model = new_model(home)
    script = on("install", f"setsid sleep 600 & echo $! > {pids}", "sleep 600")
    model.deploy("a", write_charm(tmp_path / "a", "a", script=script))
    other = OtherProcess(home)
    wait_written(pids)
    other.kill()
    Controller(home, settings=QUICK).destroy_model("m", timeout=0.5)
    assert not any(alive(int(pid)) for pid in pids.read_text().split())
    assert list((home / "vca" / "models").iterdir()) == []


def test_destroy_does_not_wait_for_charms_that_fail(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "h", settings=QUICK)
    model = controller.add_model("m")
    model.deploy("a", write_charm(tmp_path / "a", "a", script=on("stop", "exit 1")))
    with model:
        model.wait_idle(WAIT)
    begun = time.monotonic()
    controller.destroy_model("m", timeout=1.0)
    assert time.monotonic() - begun < 60
    assert controller.models() == []


@pytest.mark.parametrize(
    ("text", "says"), [('{"uuid": 5', "is damaged:"), ('{"name": "m"}', "lacks 'uuid':")]
)
def test_a_damaged_document_is_one_clear_error_and_can_be_destroyed(
    tmp_path: Path, text: str, says: str
) -> None:
    controller = Controller(tmp_path / "h", settings=QUICK)
    model = controller.add_model("m")
    (model.paths.model / "model.json").write_text(text)
    for call in (model.start, model.status):
        with pytest.raises(VcaError, match=rf"model.json {says} delete the service, or clean"):
            call()
    controller.destroy_model("m")
    assert controller.models() == []


def test_long_paths_and_an_exec_prefix(tmp_path: Path) -> None:
    home = tmp_path / ("deep" * 30) / "h"
    controller = Controller(home, exec_prefix=("env", "PREFIX=seen"), settings=QUICK)
    model = controller.add_model("m")
    script = on("start", 'echo "prefix=$PREFIX"', "status-set active reached")
    with model:
        model.deploy("a", write_charm(tmp_path / "a", "a", script=script))
        assert model.wait_idle(WAIT).units["a/0"].message == "reached"
    assert logged(model, "a/0", "prefix") == ["seen"]


def test_signals_to_the_controller_do_not_reach_hooks(tmp_path: Path) -> None:
    """Ctrl-C in a terminal goes to the whole foreground group; hooks are in their own."""
    home, mark = tmp_path / "h", tmp_path / "mark"
    model = new_model(home)
    script = on("start", f"echo $$ > {mark}", "sleep 600")
    model.deploy("a", write_charm(tmp_path / "a", "a", script=script))
    other = OtherProcess(home)
    try:
        wait_written(mark)
        hook = int(mark.read_text())
        assert os.getpgid(hook) != os.getpgid(other.process.pid)
    finally:
        other.kill()
    with model:
        model.stop(kill=True)
    assert not alive(hook)


class Disk:
    """`files.replace` that finds the disk full when an agent saves `names`, `left` times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.left = 0
        self._names = names or ("model.json",)
        self._replace = files.replace
        monkeypatch.setattr(files, "replace", self.replace)

    def replace(self, path: Path, text: str, synced: bool = False) -> None:
        if self.left and path.name in self._names and threading.current_thread().name == "vca-a/0":
            self.left -= 1
            raise OSError(28, "No space left on device", str(path))
        self._replace(path, text, synced)


def test_an_agent_goes_on_when_a_full_disk_has_space_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, disk = new_model(tmp_path / "h"), Disk(monkeypatch)
    model.deploy("a", write_charm(tmp_path / "a", "a", actions={"go": {}}))
    with model:
        model.wait_idle(WAIT)
        disk.left = 1000
        model.update_status()
        wait_until(lambda: disk.left < 998, "the agent tries more than once")
        with pytest.raises(WaitTimeoutError, match="a/0: an internal error of the agent, see its"):
            model.wait_idle(0.1)
        disk.left = 0
        unit = model.wait_idle(WAIT).units["a/0"]
        assert (unit.agent, unit.leader) == ("idle", True)
        assert events(model, "a/0").count("update-status") == 1
        assert model.run_action("a", "go", timeout=WAIT).status == "completed"
    assert "No space left on device" in log_text(model, "a/0")


def test_a_hook_whose_result_was_not_saved_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, disk, mark = new_model(tmp_path / "h"), Disk(monkeypatch), tmp_path / "mark"
    script = on("update-status", f"touch {mark}; while [ -e {mark} ]; do sleep 0.02; done")
    model.deploy("a", write_charm(tmp_path / "a", "a", script=script))
    with model:
        model.wait_idle(WAIT)
        model.update_status()
        wait_until(mark.exists, "the hook runs")
        disk.left = 1
        mark.unlink()
        wait_until(mark.exists, "the hook runs again")
        mark.unlink()
        model.wait_idle(WAIT)
        assert events(model, "a/0").count("update-status") == 2


def test_services_that_begin_at_one_moment_install_the_hook_tools(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    with context.Pool(4) as pool:
        for number in range(40):
            folders = [tmp_path / str(number)] * 4
            assert pool.map(install_tools, folders, chunksize=1) == [None] * 4
            assert {link.name for link in folders[0].iterdir()} == {".hooktool", *TOOLS}


@pytest.mark.parametrize("error", [RuntimeError("no luck"), SystemExit(3), GeneratorExit()])
@pytest.mark.parametrize("waiting", ["idle", "action", "condition"])
def test_the_end_of_an_agent_ends_what_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, waiting: str
) -> None:
    model = new_model(tmp_path / "h")
    for name in ("a", "b"):
        model.deploy(name, write_charm(tmp_path / name, name, actions={"go": {}}))
    waits = {
        "idle": lambda: model.wait_idle(WAIT),
        "action": lambda: model.run_action("a", "go", timeout=WAIT),
        "condition": lambda: model.wait_for(lambda _: False, WAIT, app="a"),
    }

    def broken(agent: UnitAgent, step: object) -> None:
        raise error

    with model:
        model.wait_idle(WAIT)
        with monkeypatch.context() as patch:
            patch.setattr(UnitAgent, "_run_action", broken)
            patch.setattr(UnitAgent, "_run_hook", broken)
            model.enqueue_action("a", "go")
            started = time.monotonic()
            with pytest.raises(AgentEndedError) as caught:
                waits[waiting]()
        assert time.monotonic() < started + WAIT / 2
        # Neither does the next one wait, and what concerns others goes on.
        with pytest.raises(AgentEndedError):
            model.run_action("a", "go", timeout=WAIT)
        assert model.run_action("b", "go", timeout=WAIT).status == "completed"
    assert str(caught.value) == f"the agent of a/0 has ended: {error!r}"
    assert type(error).__name__ in log_text(model, "a/0")
    with model:  # another operation tries again
        assert model.run_action("a", "go", timeout=WAIT).status == "completed"


def test_an_agent_gives_up_on_a_disk_that_stays_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, disk = new_model(tmp_path / "h"), Disk(monkeypatch)
    model.deploy("a", write_charm(tmp_path / "a", "a"))
    with model:
        model.wait_idle(WAIT)
        disk.left = 1000
        model.update_status()
        no_room = "a/0 has ended: there is no room left in the folder .*/models/"
        with pytest.raises(AgentEndedError, match=no_room):
            model.wait_idle(WAIT)


@pytest.mark.parametrize("tool", ["true", "status-set active"])
def test_an_action_that_cannot_be_recorded_says_what_it_did_and_where_no_room_is(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, disk = new_model(tmp_path / "h"), Disk(monkeypatch, "model.json", "1.json")
    started = tmp_path / "started"
    script = f"""\
case $JUJU_DISPATCH_PATH in actions/*)
touch {started}; while [ -e {started} ]; do sleep 0.02; done
{tool} 2>&1 || true; action-set output=rotated
esac"""
    model.deploy("a", write_charm(tmp_path / "a", "a", script=script, actions={"go": {}}))

    def fill() -> None:
        wait_until(started.exists, "the action runs")
        disk.left = 1000
        started.unlink()

    with model:
        model.wait_idle(WAIT)
        threading.Thread(target=fill).start()
        with pytest.raises(AgentEndedError) as caught:
            model.run_action("a", "go", timeout=WAIT)
        folder = tmp_path / "h" / "vca" / "models"
        assert re.fullmatch(
            'the agent of a/0 has ended: go ran to its end and returned {"output": "rotated"}; '
            f"not recorded: there is no room left in the folder {folder}/[^ ]+",
            str(caught.value),
        )
        disk.left = 0
    if tool != "true":
        assert f"ERROR there is no room left in the folder {folder}" in log_text(model, "a/0")


def test_a_model_whose_agent_ended_is_destroyed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = Controller(tmp_path / "h", settings=QUICK)
    model = controller.add_model("m")
    model.deploy("a", write_charm(tmp_path / "a", "a"))
    with model:
        model.wait_idle(WAIT)

    def broken(agent: UnitAgent, step: object) -> None:
        raise RuntimeError("no luck")

    monkeypatch.setattr(UnitAgent, "_run_hook", broken)
    started = time.monotonic()
    controller.destroy_model("m", timeout=WAIT)
    assert time.monotonic() < started + WAIT / 2
    assert controller.models() == []


@pytest.mark.parametrize("waiting", ["install", "action"])
def test_a_broken_interpreter_of_charms_ends_what_waits_for_them(
    tmp_path: Path, waiting: str
) -> None:
    model = new_model(tmp_path / "h")
    charm = write_charm(tmp_path / "a", "a", script='exec python3 -c "pass"', actions={"go": {}})
    with model:
        if waiting == "action":
            model.deploy("a", charm)
            model.wait_idle(WAIT)
        (python,) = (tmp_path / "h").glob("vca/python-*/python3")
        python.unlink()
        python.write_text("#!/bin/sh\nexit 1\n")
        python.chmod(0o755)
        started = time.monotonic()
        wait = {
            "install": lambda: CharmOps(model, "a", Timeouts()).install(charm, 1),
            "action": lambda: model.run_action("a", "go", timeout=WAIT),
        }
        with pytest.raises(VcaError, match="python3 is not a Python interpreter that runs, so no"):
            wait[waiting]()
        assert time.monotonic() < started + WAIT / 2
