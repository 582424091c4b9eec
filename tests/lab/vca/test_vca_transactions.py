"""What of a hook is kept and what is dropped, and how failures are repeated."""

import dataclasses
import itertools
import shlex
import socket
from pathlib import Path

import pytest
from support.waiting import wait_until
from vca_support import (
    QUICK,
    WAIT,
    about,
    alive,
    databag,
    events,
    log_text,
    logged,
    new_model,
    on,
    write_charm,
)

from lab import files
from lab.errors import WaitTimeoutError
from lab.vca.events import Event
from lab.vca.model import Model
from lab.vca.status import ModelStatus


def in_error(model: Model) -> ModelStatus:
    return model.wait_for(lambda s: all(u.agent == "error" for u in s.units.values()), WAIT)


FAIL_ONCE = "if [ ! -e $HOME/tried ]; then touch $HOME/tried; exit 3; fi"


def test_writes_of_a_failed_hook_are_dropped_and_the_hook_is_repeated(
    model: Model, tmp_path: Path
) -> None:
    hook = on(
        "update-status",
        "n=$(relation-get -r $(relation-ids db) n $JUJU_UNIT_NAME)",
        "relation-set -r $(relation-ids db) n=$((n+1))",
        "relation-set --app -r $(relation-ids db) n=$((n+1))",
        "status-set maintenance try",
        FAIL_ONCE,
        "echo n=$((n+1))",
    )
    result: list[Event] = []
    model.subscribe(result.append)
    model.deploy("a", write_charm(tmp_path / "a", "a", provides="db", script=hook))
    model.deploy("b", write_charm(tmp_path / "b", "b", requires="db"))
    model.add_relation("a:db", "b:db")
    model.wait_idle(WAIT)
    model.update_status()
    model.wait_idle(WAIT)
    assert logged(model, "a/0", "n") == ["1"]
    assert databag(model, "b/0", "db", "a/0")["n"] == "1"
    assert databag(model, "b/0", "db", "a") == {"n": "1"}
    # b was told once of each databag, not of the dropped writes.
    assert about(model, "b/0", "db-relation-changed") == [
        "db-relation-changed a/0",
        "db-relation-changed a",
        "db-relation-changed a/0",
    ]
    assert 'hook "update-status" failed: exit status 3' in log_text(model, "a/0")
    model.stop()
    of_hook = [e.kind for e in result if e.unit == "a/0" and e.name == "update-status"]
    assert of_hook == ["hook-started", "hook-failed", "hook-retried"]


def test_status_set_in_a_failed_hook_stays_but_error_is_shown(tmp_path: Path) -> None:
    model, gate = new_model(tmp_path / "h", QUICK), tmp_path / "gate"
    script = on("start", "status-set active 'looks fine'", f"[ -e {gate} ]")
    with model:
        model.deploy("a", write_charm(tmp_path / "a", "a", script=script))
        unit = in_error(model).units["a/0"]
        assert (unit.workload, unit.message, unit.agent) == (
            "error",
            'hook failed: "start"',
            "error",
        )
        assert model.status().applications["a"].status == "error"
        gate.touch()
        status = model.wait_idle(WAIT)
        assert (status.units["a/0"].workload, status.units["a/0"].message) == (
            "active",
            "looks fine",
        )


def test_other_hooks_wait_behind_a_failed_one_but_actions_do_not(
    model: Model, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    script = on("config-changed", f"[ -e {gate} ]")
    options = {"v": {"type": "string", "default": ""}}
    charm = write_charm(
        tmp_path / "a", "a", script=script, options=options, actions={"ping": {}}, provides="db"
    )
    model.deploy("a", charm)
    model.deploy("b", write_charm(tmp_path / "b", "b", requires="db"))
    model.wait_for(lambda s: s.units["a/0"].agent == "error", WAIT)
    model.add_relation("a:db", "b:db")
    assert model.run_action("a/0", "ping", timeout=WAIT).status == "completed"
    assert set(events(model, "a/0")) == {"install", "leader-elected", "config-changed", "ping"}
    gate.touch()
    model.wait_idle(WAIT)
    assert events(model, "a/0")[-4:] == [
        "start",
        "db-relation-created",
        "db-relation-joined",
        "db-relation-changed",
    ]


def test_retries_back_off(tmp_path: Path) -> None:
    settings = dataclasses.replace(QUICK, retry_start=0.1, retry_max=0.4)
    model = new_model(tmp_path / "h", settings)
    runs = tmp_path / "runs"
    # The hook's own clock: on a busy machine events are told late.
    script = on("install", f"date +%s.%N >> {runs}", "exit 1")
    with model:
        model.deploy("a", write_charm(tmp_path / "a", "a", script=script))
        wait_until(lambda: runs.exists() and len(runs.read_text().split()) >= 5, "five runs", WAIT)
    at = [float(word) for word in runs.read_text().split()]
    waits = [after - before for before, after in itertools.pairwise(at)]
    for wait, least in zip(waits, (0.1, 0.2, 0.4, 0.4), strict=False):
        assert wait >= least * 0.9


def test_a_hook_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    settings = dataclasses.replace(QUICK, hook_timeout=0.5, retry_start=WAIT, retry_max=WAIT)
    model = new_model(tmp_path / "h", settings)
    pids = tmp_path / "pids"
    script = on("install", f"sleep 600 & echo $! >> {pids}", "wait")
    with model:
        model.deploy("a", write_charm(tmp_path / "a", "a", script=script))
        in_error(model)
        assert 'hook "install" failed: killed after 0.5 s' in log_text(model, "a/0")
    # A process that was killed may take a moment to go on a busy machine.
    wait_until(
        lambda: not any(alive(int(pid)) for pid in pids.read_text().split()), "all have ended"
    )


def test_a_background_child_does_not_hold_up_its_hook(model: Model, tmp_path: Path) -> None:
    script = on("start", "(sleep 30; echo late=1) & echo early=1")
    model.deploy("a", write_charm(tmp_path / "a", "a", script=script))
    model.wait_idle(20)
    assert logged(model, "a/0", "early") == ["1"]


def test_tools_fail_outside_their_context(model: Model, tmp_path: Path) -> None:
    """A process that outlives its hook cannot write through it."""
    mark = tmp_path / "mark"
    script = on(
        "start",
        f"(while [ ! -e {mark} ]; do sleep 0.05; done; c=0; "
        f"status-set blocked late 2>{tmp_path}/err || c=$?; "
        f"echo $c > {tmp_path}/code) >/dev/null 2>&1 &",
    )
    model.deploy("a", write_charm(tmp_path / "a", "a", script=script))
    model.wait_idle(WAIT)
    mark.touch()
    model.wait_for(lambda _: (tmp_path / "code").exists(), WAIT)
    model.wait_for(lambda _: (tmp_path / "code").read_text() == "1\n", WAIT)
    assert (tmp_path / "err").read_text().startswith("ERROR the unit agent does not answer")
    assert model.status().units["a/0"].workload == "unknown"


def test_dispatch_that_cannot_be_run_is_a_failure_with_its_reason(tmp_path: Path) -> None:
    model = new_model(tmp_path / "h")
    charm = write_charm(tmp_path / "a", "a")
    (charm / "dispatch").chmod(0o644)
    other = write_charm(tmp_path / "b", "b")
    (other / "dispatch").write_text("#!/no/such/interpreter\n")
    with model:
        model.deploy("a", charm)
        model.deploy("b", other)
        in_error(model)
        assert "cannot start: dispatch is not executable" in log_text(model, "a/0")
        assert "cannot start: No such file or directory" in log_text(model, "b/0")


def test_hostile_output_and_arguments_are_only_text(model: Model, tmp_path: Path) -> None:
    """No NUL bytes, broken UTF-8, huge lines or shell signs break the protocol or the state."""
    value = "'$(touch /tmp/never)`;|&\\n \"{{ %s"
    script = on(
        "start",
        "head -c 300000 /dev/zero",
        "printf '\\377\\376 bad utf-8\\n'",
        "juju-log -- \"$(printf 'x\\377y')\"",
        "relation-set -r $(relation-ids ring) \"k=$(printf 'x\\377y')\"",
        f"relation-set -r $(relation-ids ring) {shlex.quote('q=' + value)}",
    )
    model.deploy("a", write_charm(tmp_path / "a", "a", peers="ring", script=script), num_units=2)
    model.wait_idle(WAIT)
    assert databag(model, "a/0", "ring", "a/1")["q"] == value
    assert "bad utf-8" in log_text(model, "a/0")
    model.stop()
    model.start()  # the document can be read again
    model.wait_idle(WAIT)


def test_a_client_that_stalls_or_lies_harms_only_itself(model: Model, tmp_path: Path) -> None:
    """Raw connections to the tool socket: junk, early end, no tool."""
    script = on(
        "start",
        f'echo "$JUJU_AGENT_SOCKET_ADDRESS" > {tmp_path}/where',
        f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done",
        "status-set active fine",
    )
    model.deploy("a", write_charm(tmp_path / "a", "a", script=script))
    model.wait_for(
        lambda _: (tmp_path / "where").exists() and (tmp_path / "where").read_text() != "", WAIT
    )
    address = (tmp_path / "where").read_text().strip()
    answers: list[bytes] = []
    fields = b"/"
    for request in (
        b"",
        b"\0\0\0\0\x05abc",
        b"\xff" * 9,
        b"\0" + len(fields).to_bytes(4, "big") + bytes(4) + fields,
    ):
        link = tmp_path / f"s{len(answers)}"
        link.symlink_to(address)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(link))
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
            client.settimeout(10)
            answers.append(client.recv(4096))
    (tmp_path / "go").touch()
    status = model.wait_idle(WAIT)
    assert answers[0] == answers[1] == b""
    assert b"too long" in answers[2]
    assert b"command not specified" in answers[3]
    assert status.units["a/0"].message == "fine"


def test_wait_idle_says_what_it_waits_for(model: Model, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = on("start", f"while [ ! -e {gate} ]; do sleep 0.02; done")
    model.deploy("a", write_charm(tmp_path / "a", "a", script=script))
    model.wait_for(lambda s: s.units["a/0"].agent_message == "running start hook", WAIT)
    with pytest.raises(WaitTimeoutError, match=r"not idle after 0.2 s: a/0: running start hook"):
        model.wait_idle(0.2)
    with pytest.raises(WaitTimeoutError, match=r"the condition did not come about within 0.1 s"):
        model.wait_for(lambda s: False, 0.1)
    gate.touch()
    model.wait_idle(WAIT)


def test_a_change_that_could_not_be_saved_is_not_made(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.deploy("a", write_charm(tmp_path / "a", "a", actions={"go": {}}))
    model.wait_idle(WAIT)
    replace = files.replace

    def full(path: Path, text: str, synced: bool = False) -> None:
        if path.name == "model.json":
            raise OSError(28, "No space left on device")
        replace(path, text, synced)

    monkeypatch.setattr(files, "replace", full)
    with pytest.raises(OSError, match="No space"):
        model.enqueue_action("a", "go")
    monkeypatch.undo()
    model.update_status()
    model.wait_idle(WAIT)
    assert "go" not in events(model, "a/0")
