"""A sign of life while something takes long."""

from __future__ import annotations

import functools
import io
import threading
import time
from pathlib import Path

import click
import pytest
from rich.console import Console
from support.waiting import wait_until

from experiments import named, testbed
from experiments.progress import PERIOD, ticking
from experiments.testbed import Testbed
from operate.nbi import Nbi
from operate.osm import SERVICES, Osm


def test_lines_come_while_the_block_runs_and_stop_with_it() -> None:
    out = io.StringIO()
    with ticking(Console(file=out), lambda: "3 of 5 VDUs are up", period=0.05):
        time.sleep(0.4)
    result = out.getvalue().splitlines()
    assert len(result) >= 2
    assert all("3 of 5 VDUs are up" in line for line in result)
    time.sleep(0.15)
    assert out.getvalue().splitlines() == result
    assert PERIOD < 10


def test_a_service_that_vanished_does_not_end_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    uncaught: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", uncaught.append)

    def gone() -> str:
        raise ValueError("ns 'x' not found")

    with ticking(Console(file=io.StringIO()), gone, period=0.01):
        time.sleep(0.1)
    assert uncaught == []


def test_lines_come_also_while_the_state_is_being_found_out() -> None:
    out, asked = io.StringIO(), threading.Event()

    def slow() -> str:
        asked.wait(120)
        return "ready"

    with ticking(Console(file=out), slow, period=0.05):
        time.sleep(0.3)
        asked.set()
        time.sleep(0.2)
    lines = out.getvalue().splitlines()
    assert "working" in lines[0]
    assert "ready" in lines[-1]
    assert len(lines) >= 4


def test_a_slow_upload_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    osm = Osm(Nbi("https://127.0.0.1:9"))

    def slow(place: str, package: Path) -> str:
        line = f"onboarding {package.name.removesuffix('.tar.gz')}"
        wait_until(lambda: line in out.getvalue(), lambda: out.getvalue())
        return place

    monkeypatch.setattr(testbed, "ticking", functools.partial(ticking, period=0.02))
    monkeypatch.setattr(osm.nbi, "find", lambda *_, **__: None)
    monkeypatch.setattr(osm, "onboard", slow)
    bed = Testbed(osm, tmp_path, Console(file=out))
    bed.prepare([tmp_path / f"{name}.tar.gz" for name in ("hss_vnf", "epc_ns")])


def test_asking_the_vnfs_of_a_slice_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.StringIO()
    osm = Osm(Nbi("https://127.0.0.1:9"))

    def slow(key: str) -> None:
        wait_until(lambda: "asking the VNFs of mine" in out.getvalue(), out.getvalue)
        raise click.ClickException(key)

    monkeypatch.setattr(named, "ticking", functools.partial(ticking, period=0.02))
    service = {"_id": "x", "name": "mine"}
    monkeypatch.setattr(osm.nbi, "get", lambda place: [service] if place == SERVICES else [])
    monkeypatch.setattr(osm, "service", slow)
    with pytest.raises(click.ClickException, match="x"):
        named.adopt(Testbed(osm, tmp_path, Console(file=out)), "mine")
