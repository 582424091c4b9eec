"""Programs that own a lab clean up when they are ended."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import click, signal, sys, time
from experiments.ending import clean_up_when_ended

@click.command()
def main():
    # A shell starts what it runs in the background with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    clean_up_when_ended()
    try:
        print("started", flush=True)
        time.sleep(60)
    finally:
        print("cleaned", flush=True)

main()
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
