"""What starts once for each operation or verb must start fast."""

import contextlib
import fcntl
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import wait_until

SLOW = {"cryptography", "jinja2", "jsonschema", "fastapi", "nicegui"}
"""Libraries that few operations need; together they load longer than all others."""


@pytest.mark.parametrize("module", ["lab.lcm.worker", "lab.lcm.keeper", "lab.cli.commands"])
def test_a_process_of_the_lab_loads_no_library_that_few_need(module: str) -> None:
    """Every verb and every operation is a process of its own."""
    code = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.check_output([sys.executable, "-c", code], text=True))
    assert module in loaded
    assert SLOW & set(loaded) == set()


FORKS = """
import fcntl, os, signal, sys, threading, time
from pathlib import Path
from lab.records import forks

folder = Path(sys.argv[1])
signal.signal(signal.SIGTERM, signal.SIG_IGN)

def program(words):
    print("begin", *words, os.getsid(0) == os.getpid() and os.environ["WORD"] == "now")
    print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, file=sys.stderr)
    if words == ["breaks"]:
        raise ValueError("broken")
    time.sleep(0.5)
    (folder / words[0]).write_text("done")
    return 0

if sys.argv[2] == "serve":
    forks.serve(program, sys.stdin.buffer, sys.stdout.buffer)
    sys.exit()
held = (folder / "lock").open("w")
fcntl.flock(held, fcntl.LOCK_EX)
fork = forks.fork
if sys.argv[2] == "nursery":
    nursery = forks.Nursery([*sys.orig_argv[:-1], "serve"], os.environ)
    threading.Thread(target=time.sleep, args=(0.2,)).start()
    fork = lambda program, log, words: nursery.fork(log, words)
os.environ["WORD"] = "now"
print("before", end="")
for word in ("one", "breaks", "two"):
    print("", fork(program, folder / (word + ".log"), [word]), end="")
"""


@pytest.mark.parametrize("how", ["fork", "nursery"])
def test_a_forked_worker_outlives_its_program_and_holds_nothing_of_it(
    tmp_path: Path, how: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(tmp_path), how],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    # Nothing that the program has printed is printed twice, by a worker that took it along.
    assert re.fullmatch(r"before \d+ \d+ \d+", done.stdout), done.stdout
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert not (tmp_path / "two").exists()
    for word in ("one", "two"):
        wait_until((tmp_path / word).exists, "the worker is done")
        said = (tmp_path / f"{word}.log").read_text()
        assert re.search(rf"^begin {word} True$", said, re.MULTILINE), said
        assert "True\n" in said
    assert "ValueError: broken" in (tmp_path / "breaks.log").read_text()
    wait_until(lambda: not running_with(str(tmp_path)), "all processes end", 10)


def running_with(word: str) -> list[str]:
    """Return the processes that have a word in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(entry.name) != os.getpid() and word in (entry / "cmdline").read_text():
                found.append(entry.name)
    return found
