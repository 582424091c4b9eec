"""What starts once for each operation or verb must start fast."""

import contextlib
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import wait_until

SLOW = {"cryptography", "jinja2", "jsonschema", "fastapi", "nicegui"}
"""Libraries that few operations need; together they load longer than all others."""


@pytest.mark.parametrize("module", ["lab.lcm.worker", "lab.lcm.timer", "lab.cli.commands"])
def test_a_process_of_the_lab_loads_no_library_that_few_need(module: str) -> None:
    """Every verb and every operation is a process of its own."""
    code = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.check_output([sys.executable, "-c", code], text=True))
    assert module in loaded
    assert SLOW & set(loaded) == set()


PARENT = """
import fcntl, sys
from pathlib import Path
from lab.records import jobs

folder = Path(sys.argv[1])
held = (folder / "lock").open("w")
fcntl.flock(held, fcntl.LOCK_EX)
for word in ("one", "breaks"):
    jobs.launch("worker", folder / (word + ".log"), str(folder), word)
"""

WORKER = """
import os, signal, sys, time
from pathlib import Path

folder, word = Path(sys.argv[1]), sys.argv[2]
print("begin", word, os.getsid(0) == os.getpid(), os.environ["WORD"], flush=True)
if word == "breaks":
    raise ValueError("broken")
while not (folder / "lock is free").exists():
    time.sleep(0.05)
(folder / word).write_text("done")
"""


def test_a_worker_outlives_its_program_and_holds_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    subprocess.run(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "WORD": "now"},
        check=True,
        timeout=120,
    )
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    (tmp_path / "lock is free").touch()
    wait_until((tmp_path / "one").exists, "the worker is done")
    assert "begin one True now" in (tmp_path / "one.log").read_text()
    wait_until(lambda: not running_with(str(tmp_path)), "all processes end", 30)
    assert "ValueError: broken" in (tmp_path / "breaks.log").read_text()


def running_with(word: str) -> list[str]:
    """Return the processes that have a word in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(entry.name) != os.getpid() and word in (entry / "cmdline").read_text():
                found.append(entry.name)
    return found
