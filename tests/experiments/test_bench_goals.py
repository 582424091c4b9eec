"""What `./run bench tunnel` says of its figures."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from benchmarks.__main__ import judge
from benchmarks.report import Report
from experiments.stats import ratio


def measured(**pairs: tuple[list[float], list[float]]) -> dict[str, Any]:
    return {"tunnel": {"charms-to-hand": {k: asdict(ratio(*pair)) for k, pair in pairs.items()}}}


@pytest.mark.parametrize(
    ("charms", "hand", "met"),
    [
        pytest.param([1.00, 1.01, 1.00, 1.01], [1.0, 1.0, 1.0, 1.0], True, id="equal"),
        pytest.param([0.90, 0.91, 0.90, 0.91], [1.0, 1.0, 1.0, 1.0], False, id="slower"),
        # The machine slows down to a half meanwhile: what is measured side by side is equal.
        pytest.param([2.70, 2.31, 1.71, 1.36], [2.7, 2.3, 1.7, 1.35], True, id="drift"),
        # Seen beside other work: medians said 0.71.
        pytest.param([2.7, 1.7, 1.8, 2.6], [1.7, 2.7, 2.6, 1.9], None, id="disturbed"),
    ],
)
def test_a_rate_is_judged_by_its_interval(
    charms: list[float], hand: list[float], met: bool | None
) -> None:
    (rate,) = judge(measured(**{"1": (charms, hand)}))
    assert rate.met is met
    less = [1 / value for value in charms]
    (processor,) = judge(measured(cpu1=(less, [1 / value for value in hand])))
    assert processor.met is met


def test_a_run_that_tells_nothing_says_so(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    report = Report("bench", tmp_path)
    report.goals(judge(measured(**{"4": ([2.7, 1.7], [1.7, 2.7])})))
    report.show_goals()
    assert not report.missed()
    said = capsys.readouterr()
    shown = " ".join((said.out + said.err).split())
    assert "The run tells nothing of some figures" in shown
    assert "on a machine with nothing else to do" in shown
