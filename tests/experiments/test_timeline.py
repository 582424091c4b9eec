"""When what happened to two streams while something of one slice was broken."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.dependability import _timeline
from experiments.traffic import Stream

BEGAN = 1000.0


def stream(lost: int = 0, **seen: Any) -> Stream:
    """Return a stream of 800 datagrams in four seconds."""
    figures = {"received": 800 - lost, "last": 799, "began-at": BEGAN, "ended-at": BEGAN + 4,
            "gap-at": BEGAN + 1, "gap-ms": 3.0}  # fmt: skip
    return Stream(200, {"sent": 800}, {**figures, **seen})


def test_a_silence_in_the_middle_is_the_longest_gap() -> None:
    victim = stream(150, **{"gap-at": BEGAN + 1.25, "gap-ms": 750.0})
    shown = _timeline(stream(), victim, BEGAN + 1.2, BEGAN + 2.1)
    assert shown["silent"] == [pytest.approx(1.25), pytest.approx(2.0)]
    assert (shown["fault_s"], shown["back_s"]) == (pytest.approx(1.2), pytest.approx(2.1))
    assert shown["ended_s"] == 4


def test_a_stream_that_does_not_come_back_is_silent_until_its_link_does() -> None:
    victim = stream(560, last=239, **{"ended-at": BEGAN + 1.2})
    shown = _timeline(stream(), victim, BEGAN + 1.2, BEGAN + 6)
    assert shown["silent"] == [pytest.approx(1.2), 6]


def test_what_loses_nothing_is_not_silent_and_what_nobody_saw_is_from_the_fault_on() -> None:
    assert _timeline(stream(), stream(), BEGAN + 1, BEGAN + 2)["silent"] is None
    unseen = Stream(200, {"sent": 800})
    assert _timeline(stream(), unseen, BEGAN + 1, BEGAN + 9)["silent"] == [1, 9]
    assert _timeline(unseen, stream(), BEGAN + 1, BEGAN + 9) == {}
