"""`./run bench hot-standby`: for how long peers of a gateway pair are without service.

A 1 kHz UDP probe runs through the tunnels of some peers while a gateway, its daemon, its network
or the pair's own link fails and comes back. The gap is the longest time between two answered
probes; duplicates are probes the core received twice.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks.report import Goal, header, show_goals, write
from benchmarks.swan.charon import backend, missing
from benchmarks.swan.pair import Pair
from benchmarks.swan.site import ESP, IKE

GOAL_MS = 300


def _flap(pair: Pair) -> None:
    for _ in range(4):
        pair.unplug("a")
        time.sleep(0.3)
        pair.plug("a")
        time.sleep(0.3)


def _death(pair: Pair) -> dict[str, Any]:
    return pair.probe(5, (2, lambda: pair.lose("a")))


def _isolated_returns(pair: Pair) -> dict[str, Any]:
    return pair.probe(5, (2, lambda: pair.regain("a")))


def _daemon_killed(pair: Pair) -> dict[str, Any]:
    return pair.probe(5, (2, lambda: pair.kill_daemon("a")))


def _daemon_returns(pair: Pair) -> dict[str, Any]:
    outcome = pair.probe(4 * pair.dpd + 20, (1, lambda: pair.start_gateway("a")))
    pair.wait_active("a")
    return outcome


def _unplugged(pair: Pair) -> dict[str, Any]:
    return pair.probe(4, (2, lambda: pair.unplug("a")))


def _plugged(pair: Pair) -> dict[str, Any]:
    return pair.probe(5, (2, lambda: pair.plug("a")))


def _split(pair: Pair) -> dict[str, Any]:
    return pair.probe(5, (2, lambda: pair.deafen("a", "b")))


def _healed(pair: Pair) -> dict[str, Any]:
    return pair.probe(5, (2, lambda: pair.heal("a", "b")))


def _standby_dies(pair: Pair) -> dict[str, Any]:
    return pair.probe(5, (2, lambda: pair.lose("b")))


def _standby_returns(pair: Pair) -> dict[str, Any]:
    return pair.probe(5, (2, lambda: pair.regain("b")))


def _flapping(pair: Pair) -> dict[str, Any]:
    return pair.probe(7, (2, lambda: _flap(pair)))


def _both_die(pair: Pair) -> dict[str, Any]:
    def both() -> None:
        pair.lose("a")
        pair.lose("b")

    # The standby is back after a second: the service needs no more than that.
    return pair.probe(6, (2, both), (3, lambda: pair.regain("b")))


#: What happens, in an order in which each finds the pair whole; whether the gap goal is for it.
SCENARIOS: tuple[tuple[str, Callable[[Pair], dict[str, Any]], bool], ...] = (
    ("active gateway dies", _death, True),
    ("it returns", _isolated_returns, True),
    ("its daemon is killed (kill -9)", _daemon_killed, True),
    ("the daemon returns, service reverts", _daemon_returns, True),
    ("its untrusted interface loses carrier", _unplugged, True),
    ("carrier returns", _plugged, True),
    ("split brain", _split, True),
    ("split brain ends", _healed, True),
    ("standby dies", _standby_dies, True),
    ("standby returns", _standby_returns, True),
    ("untrusted carrier flaps four times", _flapping, True),
    ("both die, standby returns after 1 s", _both_die, False),
)

#: After these the pair is to be whole again.
WHOLE = (
    _isolated_returns,
    _daemon_returns,
    _plugged,
    _healed,
    _standby_returns,
    _flapping,
    _both_die,
)


def settle(pair: Pair) -> None:
    """Wait until the pair can stand the next failure."""
    for name in "ab":
        pair.regain(name)
        if pair.daemons[name].process is None:
            pair.start_gateway(name)
    pair.ready("ab")
    pair.wait_active("a")
    time.sleep(0.5)


def measure(count: int, advert: int, rounds: int, console: Console | None) -> list[dict[str, Any]]:
    """Run all scenarios, `rounds` times."""
    results = []
    with (
        tempfile.TemporaryDirectory(prefix="pair-") as folder,
        Pair(Path(folder), count, advert=advert, dpd=2) as pair,
    ):
        settle(pair)
        for number in range(rounds):
            for name, scenario, has_goal in SCENARIOS:
                outcome = scenario(pair)
                outcome |= {"scenario": name, "round": number, "goal": has_goal, "peers": count}
                outcome["active"] = pair.active()
                results.append(outcome)
                if console:
                    console.print(f"{name}: {outcome['gap-ms']:.0f} ms", highlight=False)
                if scenario in WHOLE:
                    settle(pair)
        attack = pair.attack("b", 1.6, 1.0)
        outcome = pair.probe(5, (2, lambda: pair.lose("a")))
        sent = json.loads(attack.communicate(timeout=60)[0])
        outcome |= {"scenario": "replay to the standby", "round": 0, "goal": False, **sent}
        results.append(outcome | {"peers": count, "active": pair.active()})
    return results


def judge(results: list[dict[str, Any]]) -> list[Goal]:
    """Compare with the goals: the worst of all rounds counts."""
    worst = max((r for r in results if r["goal"]), key=lambda r: r["gap-ms"])
    twice = sum(r["duplicates"] for r in results)
    shown = f"{worst['gap-ms']:.0f} ms ({worst['scenario']}, {worst['peers']} peers)"
    return [
        Goal("service gap", f"< {GOAL_MS} ms", shown, worst["gap-ms"] < GOAL_MS),
        Goal("packets accepted twice", "0", str(twice), twice == 0),
    ]


@click.command(name="hot-standby")
@click.option("--peers", default="4,32", show_default=True, help="Counts of peers.")
@click.option("--advert", default=3, show_default=True, help="VRRP interval, centiseconds.")
@click.option("--rounds", default=1, show_default=True, help="Repetitions.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), show_default=True)
def main(peers: str, advert: int, rounds: int, out: Path) -> None:
    """Let gateways of a pair fail and come back under a 1 kHz probe."""
    reason = missing()
    if reason:
        raise click.ClickException(f"this machine {reason}")
    console = Console()
    document = header() | {"esp": backend(), "proposals": [IKE, ESP], "advert-cs": advert}
    results = []
    for count in (int(part) for part in peers.split(",")):
        results += measure(count, advert, rounds, console)
    goals = judge(results)
    view = Table(title=f"Hot standby ({backend()}), VRRP every {advert * 10} ms")
    for heading in ("peers", "what happens", "gap ms", "lost", "twice"):
        view.add_column(heading, justify="left" if heading == "what happens" else "right")
    for outcome in results:
        lost = max(flow["lost"] for flow in outcome["flows"])
        cells = (
            outcome["peers"],
            outcome["scenario"],
            f"{outcome['gap-ms']:.0f}",
            lost,
            outcome["duplicates"],
        )
        view.add_row(*map(str, cells))
    console.print(view)
    show_goals(goals, console)
    document |= {"results": results, "goals": goals}
    console.print(f"everything measured: {write('hot-standby', document, out)}")
