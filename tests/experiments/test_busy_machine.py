"""What a busy machine does to verdicts of campaigns and benchmarks."""

from __future__ import annotations

import io
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner
from rich.console import Console

from benchmarks import report
from experiments import campaign, machine
from experiments.__main__ import final
from experiments.model import Cell, Experiment, Run
from experiments.report import summary
from experiments.schedule import Planned
from experiments.store import Campaign


def run_of(passed: bool | None, busy: float, late: float = 0.3, **params: Any) -> Run:
    key = Cell("qos", params).key
    result = {"within_percent": 93.6, "urllc": {"sender_late_ms": late}, "embb": [{"late-ms": 0.1}]}
    return Run("qos", params, key, 0, 0, 1e9, 1.0, 0.5, result, passed, busy=busy)


@pytest.mark.parametrize(
    ("run", "cpus", "reason"),
    [
        (run_of(False, 1.97, 44), 2, "other work used 2.0 of 2 processors"),
        (run_of(False, 0.1, 44), 2, "a sender was 44 ms late"),
        (run_of(False, 0.1, 44), 0, "a sender was 44 ms late"),
        (run_of(False, 1.97), 0, ""),  # The VDUs are on other machines.
        (run_of(False, 0.4), 2, ""),
        (run_of(False, 0.6), 2, "other work used 0.6 of 2 processors"),
        (run_of(True, 1.97, 44), 2, ""),
        (run_of(True, 1.97, 44, enforced=False), 2, "other work used 2.0 of 2 processors"),
        (run_of(None, 1.97, 44), 2, ""),
    ],
)
def test_only_a_machine_that_kept_up_tells_of_a_failure(run: Run, cpus: int, reason: str) -> None:
    assert run.disturbance(cpus) == reason


@pytest.mark.parametrize(
    ("runs", "words", "fails"),
    [
        ([run_of(True, 0)], "holds", False),
        ([run_of(False, 1.9)], "tells nothing: the machine was busy", False),
        ([run_of(True, 0), run_of(False, 1.9)], "holds", False),
        ([run_of(False, 1.9), run_of(False, 0)], "DOES NOT HOLD", True),
    ],
)
def test_the_verdict_counts_what_tells_something(runs: list[Run], words: str, fails: bool) -> None:
    (verdict,) = summary.verdicts(runs, 2)
    assert (verdict.words, verdict.failed) == (words, fails)
    out = io.StringIO()
    assert final(runs, Console(file=out, width=120), 2) == fails
    assert words in out.getvalue()


@pytest.mark.parametrize(
    ("busy", "passes", "made", "verdict"),
    [
        ([2, 0], [False, True], 2, "holds"),
        ([2, 0], [False, False], 2, "DOES NOT HOLD"),
        ([2, 2], [False, False], 2, "tells nothing: the machine was busy"),
        ([0, 0], [False, True], 1, "DOES NOT HOLD"),
    ],
)
def test_a_disturbed_run_is_made_once_more_at_the_end(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    busy: list[float],
    passes: list[bool],
    made: int,
    verdict: str,
) -> None:
    order: list[str] = []
    left = iter(passes)

    def experiment(_bed: object, name: str) -> tuple[dict[str, Any], bool]:
        order.append(name)
        return {}, next(left) if name == "first" else True

    looks = iter([busy[0], 0.0, busy[1]])
    monkeypatch.setattr(campaign, "busy_processors", lambda: next(looks))
    monkeypatch.setitem(campaign.EXPERIMENTS, "x", Experiment(experiment))  # type: ignore[misc]
    steps = [Planned(Cell("x", {"name": name}), 0, n) for n, name in enumerate(("first", "other"))]
    stored, out = Campaign(tmp_path), io.StringIO()
    stored.begin("p", 1, {"host": {"cpus": 2}})
    bed: Any = SimpleNamespace(lab=None, console=Console(file=out, width=200))
    assert campaign.make(bed, stored, steps) == 0
    assert order == ["first", "other", "first"][: made + 1]
    assert summary.verdicts(stored.runs(), 2)[0].words == verdict
    aside = list((tmp_path / "disturbed").glob("*.json"))
    assert len(aside) == made - 1
    assert all(json.loads(file.read_text())["busy"] == 2 for file in aside)
    # The same command again makes nothing, and a run that stays disturbed stays.
    assert campaign.make(bed, stored, steps) == 0
    assert len(order) == made + 1


@pytest.mark.parametrize(
    ("busy", "values", "said"),
    [
        ([0, 0], [2.0], "no"),
        ([1.9, 0, 0, 0], [2.0, 0.5], "yes"),
        ([0, 1.9, 1.9, 1.9], [2.0, 2.0], "tells nothing: the machine was busy"),
        ([1.9, 1.9], [0.5], "yes"),
    ],
)
def test_a_benchmark_is_made_once_more_and_then_tells_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    busy: list[float],
    values: list[float],
    said: str,
) -> None:
    looks, left = iter(busy), iter(values)
    monkeypatch.setattr(machine, "busy_processors", lambda: next(looks))
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 2)

    @report.command("x")
    def main(made: report.Report) -> None:
        made.goals([report.Goal.below("cost", next(left), 1.0)])

    result = CliRunner().invoke(main, ["--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert next(left, None) is None
    assert said in result.output.split("once more")[-1]
    assert ("once more" in result.output) == (len(values) == 2)


HOLD = """import sys
from pathlib import Path
from experiments.machine import campaigning
from experiments.store import Campaign
campaign = Campaign(Path(sys.argv[1]))
with campaign.locked(), campaigning(campaign.directory):
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """Give the process of a campaign in `tmp_path / "a"`."""
    monkeypatch.setattr(machine.tempfile, "gettempdir", lambda: str(tmp_path))
    words = [sys.executable, "-c", HOLD, str(tmp_path / "a")]
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def test_two_campaigns_do_not_write_into_one_folder(
    tmp_path: Path, other: subprocess.Popen[str]
) -> None:
    mine = Campaign(tmp_path / "a")
    sentence = f"a is used by a campaign, process {other.pid} on {platform.node()}; wait"
    with pytest.raises(click.ClickException, match=sentence), mine.locked():
        pass
    with Campaign(tmp_path / "b").locked(), machine.campaigning(tmp_path / "b") as others:
        assert others() == [f"process {other.pid}, {tmp_path / 'a'}"]
        other.kill()
        other.wait()
        # What a campaign that was killed leaves behind keeps nobody out.
        assert others() == []
    assert (tmp_path / "a/lock").exists()
    with mine.locked():
        pass
    assert not (tmp_path / "a/lock").exists()


def test_a_folder_of_another_machine_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text('{"pid": 7, "machine": "elsewhere"}')
    sentence = "process 7 on elsewhere; .* if it has ended, delete .*/lock"
    with pytest.raises(click.ClickException, match=sentence), Campaign(tmp_path).locked():
        pass


def test_a_run_beside_another_campaign_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "busy_processors", lambda: 0.0)
    experiment = {"x": Experiment(lambda _bed: ({}, False))}
    monkeypatch.setattr(campaign, "EXPERIMENTS", experiment)
    bed: Any = SimpleNamespace(lab=None, console=Console(file=io.StringIO()))
    stored = Campaign(tmp_path)
    stored.others = lambda: ["process 7, /b"]
    stored.begin("p", 1, {"host": {"cpus": 2}})
    campaign.make(bed, stored, [Planned(Cell("x"), 0, 0)])
    (run,) = stored.runs()
    assert run.beside == ["process 7, /b"]
    assert run.disturbance(2) == "another campaign ran on it (process 7, /b)"
