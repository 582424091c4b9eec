"""`./run bench hot-standby`: how long peers of a gateway pair have no service after failures.

A UDP probe, 1 kHz by default, runs through the tunnels of some peers while a gateway, its daemon,
its network or the pair's own link fails and comes back. The gap is the longest time between two
answered probes; duplicates are probes that the core received twice.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Console
from rich.table import Table

from benchmarks.report import Goal, counts, finish, header
from benchmarks.swan.charon import backend, missing
from benchmarks.swan.pair import Pair
from benchmarks.swan.site import ESP, IKE

GOAL_MS = 300


class Scenario(NamedTuple):
    """A failure or a repair of the pair while the probe runs.

    Attributes:
        name: Name in reports.
        seconds: Duration of the probe.
        actions: (seconds after its start, function to call) in order.
        has_goal: Whether the goal for the gap applies.
        whole: Whether to wait afterwards until the pair is completely up again.
        waits: Whether to wait afterwards until the primary is active again.
    """

    name: str
    seconds: float
    actions: tuple[tuple[float, Callable[[Pair], object]], ...]
    has_goal: bool = True
    whole: bool = False
    waits: bool = False


def _flap(pair: Pair) -> None:
    for _ in range(4):
        pair.unplug("a")
        time.sleep(0.3)
        pair.plug("a")
        time.sleep(0.3)


def _lose_both(pair: Pair) -> None:
    pair.lose("a")
    pair.lose("b")


def scenarios(dpd: int, before: int = 2) -> tuple[Scenario, ...]:
    """Return what happens, in such an order that the pair is up before each new failure.

    Args:
        dpd: DPD interval of the tunnels in seconds.
        before: seconds of traffic before a failure that lasts; all else comes after one or two.
    """
    course = (
        Scenario("active gateway dies", 5, ((2, lambda pair: pair.lose("a")),)),
        Scenario("it returns", 5, ((2, lambda pair: pair.regain("a")),), whole=True),
        Scenario("its daemon is killed (kill -9)", 5, ((2, lambda pair: pair.kill_daemon("a")),)),
        Scenario(
            "the daemon returns, service reverts",
            4 * dpd + 20,
            ((1, lambda pair: pair.start_gateway("a")),),
            whole=True,
            waits=True,
        ),
        Scenario("its untrusted interface loses carrier", 4, ((2, lambda pair: pair.unplug("a")),)),
        Scenario("carrier returns", 5, ((2, lambda pair: pair.plug("a")),), whole=True),
        Scenario("split brain", 5, ((2, lambda pair: pair.deafen("a", "b")),)),
        Scenario("split brain ends", 5, ((2, lambda pair: pair.heal("a", "b")),), whole=True),
        Scenario("standby dies", 5, ((2, lambda pair: pair.lose("b")),)),
        Scenario("standby returns", 5, ((2, lambda pair: pair.regain("b")),), whole=True),
        Scenario("untrusted carrier flaps four times", 7, ((2, _flap),), whole=True),
        # The standby returns after one second; it alone can provide the service.
        Scenario(
            "both die, standby returns after 1 s",
            6,
            ((2, _lose_both), (3, lambda pair: pair.regain("b"))),
            has_goal=False,
            whole=True,
        ),
    )
    more = before - 2
    return tuple(
        scenario
        if scenario.whole
        else scenario._replace(
            seconds=scenario.seconds + more,
            actions=tuple((at + more, happens) for at, happens in scenario.actions),
        )
        for scenario in course
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
    advert: int,
    dpd: int,
    course: tuple[Scenario, ...],
    console: Console | None,
    **flows: Any,
) -> list[dict[str, Any]]:
    """Return the results of scenarios; `flows` are arguments of `Pair.probe`."""
    results = []
    with (
        tempfile.TemporaryDirectory(prefix="pair-") as folder,
        Pair(Path(folder), count, advert=advert, dpd=dpd) as pair,
    ):
        settle(pair)
        for scenario in course:
            actions = [(at, partial(happens, pair)) for at, happens in scenario.actions]
            outcome = pair.probe(scenario.seconds, *actions, **flows)
            outcome |= {"scenario": scenario.name, "goal": scenario.has_goal}
            if scenario.waits:
                pair.wait_active("a")
            outcome |= {"peers": count, "active": pair.active()}
            results.append(outcome)
            if console:
                console.print(f"{scenario.name}: {outcome['gap-ms']:.0f} ms", highlight=False)
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


@click.command(name="hot-standby")
@click.option(
    "--peers", callback=counts(), default="4,32", show_default=True, help="Counts of peers."
)
@click.option("--advert", default=3, show_default=True, help="VRRP interval, centiseconds.")
@click.option("--dpd", default=2, show_default=True, help="DPD interval, seconds.")
@click.option("--flows", default=3, show_default=True, help="Peers with traffic.")
@click.option("--interval", default=1, show_default=True, help="Between two datagrams of one, ms.")
@click.option("--before", default=2, show_default=True, help="Seconds of traffic before it fails.")
@click.option("--only", default=None, type=int, help="Only the first so many events.")
@click.option("--rounds", default=1, show_default=True, help="Repetitions.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), show_default=True)
def main(
    peers: list[int],
    advert: int,
    dpd: int,
    flows: int,
    interval: int,
    before: int,
    only: int | None,
    rounds: int,
    out: Path,
) -> None:
    """Let gateways of a pair fail and come back under a UDP probe."""
    reason = missing()
    if reason:
        raise click.ClickException(f"this machine {reason}")
    console = Console()
    document = header() | {"esp": backend(), "proposals": [IKE, ESP], "advert-cs": advert}
    document |= {"dpd-s": dpd, "flows": flows, "interval-ms": interval, "before-s": before}
    results = []
    for count in peers:
        course = scenarios(dpd, before)[:only] * rounds
        probe = {"samples": flows, "period": interval / 1000}
        results += measure(count, advert, dpd, course, console, **probe)
    goals = judge(results)
    view = Table(title=f"Hot standby ({backend()}), VRRP every {advert * 10} ms")
    for heading in ("peers", "what happens", "gap ms", "lost", "twice"):
        view.add_column(heading, justify="left" if heading == "what happens" else "right")
    for outcome in results:
        lost = max(flow["lost"] for flow in outcome["flows"])
        cells = (f"{outcome['gap-ms']:.0f}", lost, outcome["duplicates"])
        view.add_row(*map(str, (outcome["peers"], outcome["scenario"], *cells)))
    console.print(view)
    finish("hot-standby", document, results, goals, console, out)
