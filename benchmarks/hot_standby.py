"""`./run bench hot-standby`: how long peers of a gateway pair have no service after failures.

A UDP probe, 1 kHz by default, runs through the tunnels of some peers while a gateway, its daemon,
its network or the pair's own link fails and comes back. The gap is the longest time between two
answered probes; duplicates are probes that the core received twice.
"""

import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click

from benchmarks.report import Goal, Report, command, counts
from testbed.charon import ESP, IKE, backend, missing
from testbed.pair import Pair

GOAL_MS = 300


class Scenario(NamedTuple):
    """A failure or a repair of the pair while the probe runs."""

    name: str  # Name in reports.
    seconds: float  # Duration of the probe from then on.
    happens: Callable[[Pair], object]  # Function that causes it.
    has_goal: bool = True  # Whether the goal for the gap applies.
    whole: bool = False  # Whether to wait afterwards until the pair is completely up again.


def _flap(pair: Pair) -> None:
    for _ in range(4):
        pair.unplug("a")
        time.sleep(0.3)
        pair.plug("a")
        time.sleep(0.3)


def _lose_both(pair: Pair) -> None:
    pair.lose("a")
    pair.lose("b")
    # The standby alone can provide the service.
    time.sleep(1)
    pair.regain("b")


def scenarios(dpd: int) -> tuple[Scenario, ...]:
    """Return what happens, with DPD every `dpd` s; the pair is up before each new failure."""
    back, both = "the daemon returns, service reverts", "both die, standby returns after 1 s"
    return (
        Scenario("active gateway dies", 3, lambda pair: pair.lose("a")),
        Scenario("it returns", 3, lambda pair: pair.regain("a"), whole=True),
        Scenario("its daemon is killed (kill -9)", 3, lambda pair: pair.kill_daemon("a")),
        Scenario(back, 4 * dpd + 19, lambda pair: pair.start_gateway("a"), whole=True),
        Scenario("its untrusted interface loses carrier", 2, lambda pair: pair.unplug("a")),
        Scenario("carrier returns", 3, lambda pair: pair.plug("a"), whole=True),
        Scenario("split brain", 3, lambda pair: pair.deafen("a", "b")),
        Scenario("split brain ends", 3, lambda pair: pair.heal("a", "b"), whole=True),
        Scenario("standby dies", 3, lambda pair: pair.lose("b")),
        Scenario("standby returns", 3, lambda pair: pair.regain("b"), whole=True),
        Scenario("untrusted carrier flaps four times", 5, _flap, whole=True),
        Scenario(both, 4, _lose_both, has_goal=False, whole=True),
    )


def settle(pair: Pair) -> None:
    """Repair both gateways, and wait until all tunnels are up and the primary is active."""
    for name in "ab":
        pair.regain(name)
        if pair.daemons[name].process is None:
            pair.start_gateway(name)
    pair.ready("ab")
    pair.wait_active("a")
    time.sleep(0.5)


def measure(
    count: int,
    dpd: int,
    before: int,
    course: tuple[Scenario, ...],
    say: Callable[[str], None],
    **flows: Any,
) -> list[dict[str, Any]]:
    """Return the results of scenarios; `flows` are arguments of `Pair.probe`."""
    results = []
    with (
        tempfile.TemporaryDirectory(prefix="pair-") as folder,
        Pair(Path(folder), count, dpd=dpd) as pair,
    ):
        settle(pair)
        for scenario in course:
            # Only a failure that lasts may need more traffic before it.
            first = 2 if scenario.whole else before
            happens = (first, partial(scenario.happens, pair))
            outcome = pair.probe(first + scenario.seconds, happens, **flows)
            outcome |= {"scenario": scenario.name, "goal": scenario.has_goal}
            outcome |= {"peers": count, "active": pair.active()}
            results.append(outcome)
            say(f"{scenario.name}: {outcome['gap-ms']:.0f} ms")
            if scenario.whole:
                settle(pair)
        attack = pair.attack("b", 1.6, 1.0)
        outcome = pair.probe(5, (2, lambda: pair.lose("a")), **flows)
        sent = json.loads(attack.communicate(timeout=60)[0])
        outcome |= {"scenario": "replay to the standby", "goal": False, **sent}
        results.append(outcome | {"peers": count, "active": pair.active()})
    return results


def judge(results: list[dict[str, Any]]) -> list[Goal]:
    """Compare the worst figures of all rounds with the goals."""
    worst = max((r for r in results if r["goal"]), key=lambda r: r["gap-ms"])
    twice = sum(r["duplicates"] for r in results)
    shown = f"{worst['gap-ms']:.0f} ms ({worst['scenario']}, {worst['peers']} peers)"
    return [
        Goal("service gap", f"< {GOAL_MS} ms", shown, worst["gap-ms"] < GOAL_MS),
        Goal("packets accepted twice", "0", str(twice), twice == 0),
    ]


@command("hot-standby", missing=missing)
@counts("--peers", "4,32", "Counts of peers.")
@click.option("--dpd", default=2, help="DPD interval, seconds.")
@click.option("--flows", default=3, help="Peers with traffic.")
@click.option("--interval", default=1, help="Between two datagrams of one, ms.")
@click.option("--before", default=2, help="Seconds of traffic before it fails.")
@click.option("--only", default=None, type=int, help="Only the first so many events.")
@click.option("--rounds", default=1, help="Repetitions.")
def main(
    report: Report,
    peers: list[int],
    dpd: int,
    flows: int,
    interval: int,
    before: int,
    only: int | None,
    rounds: int,
) -> None:
    """Let gateways of a pair fail and come back under a UDP probe."""
    report.document |= {"esp": backend(), "proposals": [IKE, ESP], "dpd-s": dpd}
    report.document |= {"flows": flows, "interval-ms": interval, "before-s": before}
    results = report.document["results"] = []
    for count in peers:
        course = scenarios(dpd)[:only] * rounds
        probe = {"samples": flows, "period": interval / 1000}
        results += measure(count, dpd, before, course, report.say, **probe)
    report.results(f"Hot standby ({backend()})", results)
    report.goals(judge(results))
