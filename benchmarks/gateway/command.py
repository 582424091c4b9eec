"""`./run bench gateway`: cost of a gateway's tunnels per packet, compared with plain forwarding."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, replace
from pathlib import Path

import click
from rich.console import Console

from benchmarks.gateway import measure, render
from benchmarks.gateway.backends import missing
from benchmarks.report import header, write
from experiments.on_the_lab import environment
from experiments.schedule import Planned

ROOT = Path(__file__).resolve().parents[2]


@click.command(name="gateway")
@click.option(
    "--rounds", type=click.IntRange(1, 100), default=measure.STANDARD.rounds, show_default=True
)
@click.option("--seed", default=1, show_default=True, help="Seed for the order of runs.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), show_default=True)
def main(rounds: int, seed: int, out: Path) -> None:
    """Measure plain forwarding, WireGuard and IPsec in turn, with many loads."""
    reason = missing()
    if reason:
        raise click.ClickException(f"this machine {reason}")
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(width=140, highlight=False)
    profile = replace(measure.STANDARD, rounds=rounds)
    backends, without = measure.backends(profile)
    document = header() | {
        "seed": seed,
        "environment": environment(ROOT),
        "left-out": without,
    }

    def tell(step: Planned, count: int) -> None:
        if step.order % 10 == 0:
            console.print(f"run {step.order + 1} of {count}, round {step.repetition + 1}")

    with tempfile.TemporaryDirectory(prefix="gateway-") as folder:
        console.print("bringing tunnels up")
        with measure.Bench(profile, backends, Path(folder)) as bench:
            document["backends"] = {backend.name: backend.kind() for backend in backends}
            runs = bench.runs(seed, tell)
    document["runs"] = [asdict(run) for run in runs]
    file = write("gateway", document, out)
    page, table = render.write(document, runs, file)
    render.show(runs, console)
    for name, why in without.items():
        console.print(f"left out: {name}: {why}")
    console.print(f"everything measured: {file}\nreport: {page}\nfigures: {table}")
