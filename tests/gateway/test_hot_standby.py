"""A gateway pair fails in the ways it can, under a probe. Limits are wide for busy machines;
`./run bench hot-standby` judges by the goal."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.waiting import wait_until
from vpnaas.base import links

from benchmarks import hot_standby as scenarios
from testbed.pair import TRUSTED, Pair
from testbed.site import CORE

pytestmark = pytest.mark.lab
GAP_MS = 5000.0
"""On a busy machine, and well below the 20 s and more after which peers would notice."""


GOAL_MS = 300.0


def slower() -> float:
    """Return how many times longer than alone a process takes here for the same work."""
    began, spent = time.monotonic(), time.process_time()
    while time.process_time() - spent < 0.2:
        pass
    return (time.monotonic() - began) / 0.2


def limit_ms(slower: float, quiet_ms: float) -> float:
    """Return the goal on this machine as busy as it is.

    Args:
        slower: how much longer work takes than alone.
        quiet_ms: gap that a probe sees while nothing happens to the pair.
    """
    if slower < 1.3 and quiet_ms < 50:
        return GOAL_MS
    return min(GAP_MS, GOAL_MS * slower + quiet_ms)


class Slow(Pair):
    """A pair whose probes send 200 datagrams a second and not 1000, which are enough for GAP_MS."""

    def probe(self, *args: Any, **options: Any) -> dict[str, Any]:
        return super().probe(*args, period=0.005, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with Slow(tmp_path_factory.mktemp("pair"), 3, dpd=2, claim=3600) as pair:
        yield pair


@pytest.fixture
def pair(whole: Pair) -> Pair:
    scenarios.settle(whole)
    return whole


def test_the_standby_takes_over_from_a_dead_gateway_and_gives_back(pair: Pair) -> None:
    result = pair.probe(10, (1, lambda: pair.lose("a")), until=lambda: "b" in pair.active())
    assert 20 < result["gap-ms"] < GAP_MS
    back = pair.probe(30, (0.5, lambda: pair.regain("a")), until=lambda: pair.active() == "a")
    assert pair.active() == "a"
    assert back["gap-ms"] < GAP_MS
    assert result["duplicates"] == back["duplicates"] == 0


def test_a_killed_daemon_hands_over_and_takes_back_only_with_tunnels(pair: Pair) -> None:
    result = pair.probe(10, (1, lambda: pair.kill_daemon("a")), until=lambda: pair.active() == "b")
    assert result["gap-ms"] < GAP_MS
    assert pair.active() == "b"
    pair.start_gateway("a")
    # Without its peers, the primary leaves the service where it is.
    assert pair.active() == "b"
    pair.ready("a")
    pair.wait_active("a", 30)


def test_lost_carrier_on_the_untrusted_side_hands_over(pair: Pair) -> None:
    def flap() -> None:
        pair.unplug("a")
        pair.wait_active("b", 10)
        time.sleep(0.5)
        pair.plug("a")

    result = pair.probe(30, (0.5, flap), until=lambda: pair.active() == "a")
    assert pair.active() == "a"
    assert result["gap-ms"] < GAP_MS
    assert result["duplicates"] == 0


def test_a_gateway_whose_network_is_set_up_again_keeps_its_own_address(pair: Pair) -> None:
    """A network manager takes all addresses away; its own comes back after the virtual one.

    Linux deletes the further addresses of a subnet with the first one.
    """
    own = f"{TRUSTED['a']}/24"
    pair.spaces.ip("a", "address", "flush", "dev", "in0")
    wait_until(lambda: "a" in pair.active(), "the virtual address is back", 10)
    pair.spaces.ip("a", "address", "add", own, "dev", "in0")
    pair.spaces.ip("a", "route", "replace", CORE, "via", "10.201.0.10")
    pair.wait_active("a", 30)
    pair.unplug("a")
    pair.wait_active("b", 10)
    assert own in pair.spaces.ip("a", "-br", "address", "show", "in0")
    pair.plug("a")
    pair.wait_active("a", 30)


def test_split_brain_costs_nothing_and_leaves_the_peers_with_the_primary(pair: Pair) -> None:
    def split() -> None:
        pair.part("b")
        pair.wait_active("ab", 10)
        time.sleep(0.5)
        pair.rejoin("b")

    result = pair.probe(30, (0.5, split), until=lambda: pair.active() == "a")
    assert pair.active() == "a"
    pair.heal("b")
    assert result["gap-ms"] < GAP_MS
    assert result["duplicates"] == 0
    # Had the peers stayed with the gateway that was active last, they would be lost now.
    alone = pair.probe(10, (0.5, lambda: pair.lose("b")), until=lambda: True)
    assert alone["gap-ms"] < GAP_MS


def test_both_gateways_dead_is_an_outage_that_ends_with_either(pair: Pair) -> None:
    def both() -> None:
        pair.lose("a")
        pair.lose("b")

    # What the standby sent while nobody could hear it is repeated after 1, 2.8 and 6 s.
    events = ((0.5, both), (1.5, lambda: pair.regain("b")))
    result = pair.probe(13, *events, until=lambda: True)
    assert 900 < result["gap-ms"] < 20000


def test_what_was_recorded_is_not_accepted_by_the_standby(pair: Pair) -> None:
    attack = pair.attack("b", 1.5, 0.8)
    result = pair.probe(4, (2, lambda: pair.lose("a")))
    sent = json.loads(attack.communicate(timeout=60)[0])
    assert sent["recorded"] > 100
    assert sent["sent"] > 100
    assert result["duplicates"] == 0


@pytest.mark.long
@pytest.mark.timeout(600)
def test_32_peers_lose_their_gateway_for_300_ms_at_most(tmp_path: Path) -> None:
    """On a machine with nothing else to do; else for as much longer as everything takes there."""
    with Pair(tmp_path, 32, dpd=2, claim=3600) as pair:
        scenarios.settle(pair)
        quiet = pair.probe(4)["gap-ms"]
        before = slower()
        result = pair.probe(10, (1, lambda: pair.lose("a")), until=lambda: "b" in pair.active())
        busy = max(before, slower())
        print(f"gap {result['gap-ms']:.0f} ms, quiet {quiet:.0f} ms, {busy:.1f} times slower")
        assert result["gap-ms"] < limit_ms(busy, quiet)
        assert result["duplicates"] == 0


def test_a_busy_machine_widens_the_goal_and_an_idle_one_does_not() -> None:
    assert limit_ms(1.02, 12.0) == GOAL_MS
    assert limit_ms(2.0, 12.0) == 612.0
    assert limit_ms(1.0, 80.0) == 380.0
    assert limit_ms(19.0, 68.0) == GAP_MS


def test_without_claiming_peers_would_be_lost(tmp_path: Path) -> None:
    """The other tests can fail: VRRP alone does not bring the peers over."""
    with Slow(tmp_path, 1, dpd=30, claim=3600) as pair:
        (pair.folder / "b" / "turn").write_text("#!/bin/sh\n", encoding="ascii")
        scenarios.settle(pair)
        result = pair.probe(4, (1, lambda: pair.lose("a")))
        assert result["gap-ms"] > 2500


def children_ended(process: subprocess.Popen[bytes]) -> int:
    """Return what grows with each child that ends: its page faults (proc_pid_stat(5), cminflt)."""
    text = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii")
    return int(text.rpartition(")")[2].split()[8])


@pytest.mark.parametrize("number", [0, 3])
def test_the_standby_claims_first_the_peer_that_had_traffic(tmp_path: Path, number: int) -> None:
    """One peer is claimed at once here, each other ten seconds later."""
    slow = (("LEAST = 32", "LEAST = 1"), ("RATE = 100", "RATE = 0.1"))
    with Slow(tmp_path, 4, dpd=30, claim=3600, watch=slow) as pair:
        scenarios.settle(pair)
        # A message that names a peer has more than the header.
        named = f"udp port {links.BUSY_PORT} and udp[4:2] > 8"
        words = ("tcpdump", "-lni", "in0", "-c", "1", named)
        told = subprocess.Popen(pair.spaces.argv("b", *words), stdout=subprocess.DEVNULL)
        tells, hears = pair.children

        def stopped() -> bool:
            """Let it tell nothing more: neither that this peer rests, nor that others send."""
            if told.poll() is None:
                return False
            tells.send_signal(signal.SIGSTOP)
            return True

        pair.probe(120, samples=[number], until=stopped)
        for _ in range(4):  # The last of these is its look after the message.
            ended = children_ended(hears)
            wait_until(lambda: children_ended(hears) > ended, "the standby looks")  # noqa: B023
        result = pair.probe(6, (1, lambda: pair.lose("a")), samples=range(4))
        tells.send_signal(signal.SIGCONT)
        gaps = [flow["gap-ms"] for flow in result["flows"]]
        assert gaps.pop(number) < GAP_MS
        assert min(gaps) > 4000
        assert result["duplicates"] == 0
