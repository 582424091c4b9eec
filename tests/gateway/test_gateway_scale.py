"""The scale benchmark at the size of a test: real IKE_SAs, real packets."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.ipsec_scale import judge, measure

COUNT = 32


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    return measure(COUNT, sample=8)


@pytest.mark.lab
def test_all_tunnels_carry_packets_before_and_after_rekeying_and_return(
    result: dict[str, Any],
) -> None:
    carried = [result[k] for k in ("carried", "carried-after-rekey", "carried-after-return")]
    assert carried == [1, 1, 1]


@pytest.mark.lab
def test_peers_that_come_back_replace_what_they_left(result: dict[str, Any]) -> None:
    assert result["sas-after"] == COUNT


@pytest.mark.lab
def test_goals_are_judged_by_what_was_measured(result: dict[str, Any]) -> None:
    assert all(goal.met for goal in judge([result]))
    worse = {**result, "memory-kb": 101.0, "up-s": 61.0, "sas-after": COUNT + 1, "carried": 0.9}
    assert [goal.met for goal in judge([worse])] == [False, False, True, False, False]
