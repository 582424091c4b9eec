"""The agent, run as the SSH edge runs it: a program on standard input of python3."""

import os
import stat
import subprocess
import sys

import pytest
from vpnaas import steps
from vpnaas.errors import VduError


def execute(*listed, exclusive=False):
    done = subprocess.run(
        [sys.executable, "-I", "-"],
        input=steps.program(list(listed), exclusive),
        capture_output=True,
        text=True,
        check=True,
    )
    return steps.Results.from_json(done.stdout)


def test_files_are_written_once_and_atomically(tmp_path):
    path = str(tmp_path / "conf")
    first = execute(steps.write("w", path, "hello\n", 0o600), steps.read("r", path)).check()
    assert first.text("r") == "hello\n"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    inode = os.stat(path).st_ino
    execute(steps.write("w", path, "hello\n", 0o600)).check()
    assert os.stat(path).st_ino == inode
    assert os.listdir(tmp_path) == ["conf"]


def test_secrets_go_from_program_to_file_and_not_to_the_caller(tmp_path):
    path = str(tmp_path / "key")
    results = execute(steps.run("k", "printf", "secret", stdout_file=path)).check()
    assert results.output("k") == ""
    assert (tmp_path / "key").read_text() == "secret"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    again = execute(steps.run("k", "printf", "other", stdout_file=path, unless=path)).check()
    assert again.exit_code("k") is None
    assert (tmp_path / "key").read_text() == "secret"


def test_a_failing_program_leaves_the_file_it_was_to_fill(tmp_path):
    path = tmp_path / "key"
    path.write_text("old")
    execute(steps.run("k", "false", stdout_file=str(path), any_exit=True)).check()
    assert path.read_text() == "old"


def test_arguments_meet_no_shell(tmp_path):
    hostile = f"$(touch {tmp_path}/pwned); `id` | '\""
    results = execute(steps.run("e", "printf", "%s", hostile)).check()
    assert results.out("e") == hostile
    assert os.listdir(tmp_path) == []


def test_steps_stop_at_the_first_failure(tmp_path):
    results = execute(
        steps.run("bad", "sh", "-c", "echo why >&2; exit 3"),
        steps.write("never", str(tmp_path / "x"), ""),
    )
    assert "never" not in results
    with pytest.raises(VduError, match="why"):
        results.check()
    assert os.listdir(tmp_path) == []


def test_missing_programs_and_timeouts_are_sentences():
    with pytest.raises(VduError, match="no-such-tool is not installed"):
        execute(steps.run("x", "no-such-tool")).check()
    with pytest.raises(VduError, match="sleep did not end within 1 s"):
        execute(steps.run("x", "sleep", "5", timeout=1)).check()


def test_the_agent_takes_its_lock_only_when_asked(tmp_path):
    assert execute(steps.run("t", "true")).check().exit_code("t") == 0
    if os.geteuid() == 0:
        assert execute(steps.run("t", "true"), exclusive=True).check().exit_code("t") == 0


def test_step_ids_must_be_unique():
    with pytest.raises(ValueError, match="repeat"):
        steps.program([steps.read("a", "/x"), steps.read("a", "/y")])


def test_an_answer_that_is_no_result_is_an_error():
    for text in ("", "Welcome to Ubuntu", "[]", '{"results": {}}'):
        with pytest.raises(VduError, match="not an agent's result"):
            steps.Results.from_json(text)
