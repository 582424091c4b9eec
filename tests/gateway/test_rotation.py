"""All peers of a link rotate under load, and no packet is lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import click
import pytest
from support.ports import free_port

from benchmarks import rotation
from benchmarks.rotation import judge, measure

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("broken", ["_send", "_receive"])
def test_a_stream_that_ended_shows_no_loss_of_none(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(streams: rotation.Streams, *_: object) -> None:
        if broken == "_receive":
            streams._ready.wait(60)
        raise OSError("Network is unreachable")

    field: Any = SimpleNamespace(inner=["127.0.0.2"], spaces=SimpleNamespace(prefix=""))
    monkeypatch.setattr(rotation, "enter", lambda _: None)
    monkeypatch.setattr(rotation, "GATEWAY", "127.0.0.1")
    monkeypatch.setattr(rotation, "STREAM", free_port())
    monkeypatch.setattr(rotation.Streams, broken, ends)
    streams = rotation.Streams(field, [0], 50.0)
    streams.start()
    with pytest.raises(click.ClickException, match="a stream ended early: Network is unreach"):
        streams.stop(0)


@pytest.mark.parametrize(
    ("count", "percent"),
    [
        (4, 0),
        # With a fifth of a processor, as the benchmark has it, this depends on the processor.
        pytest.param(200, 0, marks=[pytest.mark.long, pytest.mark.timeout(900)]),
    ],
)
def test_all_peers_rotate_without_a_lost_packet(count: int, percent: int) -> None:
    result = measure("wireguard", count, min(count, 10), 50.0, percent)
    assert (result["let-in"], result["lost"], result["twice"]) == (count, 0, 0), result
    assert result["sent"] > 50 * result["streams"]
    assert all(goal.met for goal in judge([result]))
    assert [goal.met for goal in judge([{**result, "lost": 1}, {**result, "let-in": 0}])] == [
        False
    ] * 2


def test_all_peers_of_an_ipsec_link_rotate() -> None:
    """strongSwan's own ESP may lose some packets; tests/kernel has the same on a kernel's."""
    result = measure("ipsec", 4, 4, 50.0, 0)
    assert (result["let-in"], result["twice"]) == (4, 0), result
    assert result["lost"] < result["sent"] / 20, result
