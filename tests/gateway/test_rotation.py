"""All peers of a link rotate under load, and no packet is lost."""

from __future__ import annotations

import signal

import pytest

from benchmarks.rotation import judge, measure
from testbed.netns import Namespaces
from testbed.probing import Probe

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("broken", ["sender", "echo"])
def test_a_stream_that_ended_shows_no_loss_of_none(broken: str) -> None:
    with (
        Namespaces("a") as spaces,
        Probe(spaces, ("a", "a"), "127.0.0.1", ["127.0.0.2"], 60, 0.02) as probe,
    ):
        getattr(probe, broken).kill()
        probe.sender.send_signal(signal.SIGINT)
        with pytest.raises(RuntimeError, match="the probe ended early"):
            probe.result()


def test_a_probe_on_a_good_path_loses_nothing() -> None:
    with (
        Namespaces("a") as spaces,
        Probe(spaces, ("a", "a"), "127.0.0.1", ["127.0.0.2"], 1, 0.01) as probe,
    ):
        result = probe.result()
    assert result["sent"] == result["echo"]["received"] > 5
    assert (result["flows"][0]["lost"], result["twice"], result["reordered"]) == (0, 0, 0)
    assert result["longest-delay-ms"] > 0


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
    assert (result["let-in"], result["lost"], result["twice"]) == (count, 0, 0), str(result)
    assert result["sent"] > 50 * result["streams"]
    assert all(goal.met for goal in judge([result]))
    assert [goal.met for goal in judge([{**result, "lost": 1}, {**result, "let-in": 0}])] == [
        False
    ] * 2


def test_all_peers_of_an_ipsec_link_rotate() -> None:
    """strongSwan's own ESP may lose some packets; tests/kernel has the same on a kernel's."""
    result = measure("ipsec", 4, 4, 50.0, 0)
    assert (result["let-in"], result["twice"]) == (4, 0), str(result)
    assert result["lost"] < result["sent"] / 20, str(result)
