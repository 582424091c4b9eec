"""Programs that own a lab or objects of an OSM clean up when they are ended."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import click, os, pathlib, signal, sys, time
from operate.ending import clean_up_when_ended

@click.command()
def main():
    # A shell starts what it runs in the background with SIGINT ignored, nohup with SIGHUP.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    clean_up_when_ended()
    try:
        print("started", flush=True)
        time.sleep(60)
    finally:
        if len(sys.argv) > 1:
            os.kill(os.getpid(), signal.SIGHUP)
        print("cleaned", flush=True)
        if len(sys.argv) > 1:
            pathlib.Path(sys.argv.pop()).touch()

main(args=[])
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_finally_runs_when_ended(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
        assert (out, process.returncode) == ("cleaned\n", 1)
        assert "Aborted" in err


def test_it_runs_when_the_terminal_closes_also_after_a_second_signal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    words = [sys.executable, "-c", PROGRAM, str(tmp_path / "cleaned")]
    with subprocess.Popen(words, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        with os.fdopen(ours) as terminal:
            assert terminal.readline() == "started\n"
        process.send_signal(signal.SIGHUP)
        assert process.wait(120) == 1
    assert (tmp_path / "cleaned").exists()


def test_nohup_is_obeyed() -> None:
    words = ["import os, signal", "from operate.ending import clean_up_when_ended",
             "signal.signal(signal.SIGHUP, signal.SIG_IGN)", "clean_up_when_ended()",
             "os.kill(os.getpid(), signal.SIGHUP)"]  # fmt: skip
    assert subprocess.run([sys.executable, "-c", "; ".join(words)], check=False).returncode == 0
