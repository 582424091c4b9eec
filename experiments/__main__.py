"""`python -m experiments`: make a campaign on the lab, and its report."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from experiments import campaign as campaigns
from experiments import qos, setups, slices
from experiments.model import Run, environment
from experiments.profiles import PROFILES
from experiments.progress import ticking
from experiments.report import render, summary
from experiments.store import Campaign
from experiments.testbed import VNFS, Testbed
from lab.ending import clean_up_when_ended
from lab.vim.qemu.images import bake

ROOT = Path(__file__).resolve().parents[1]


def console() -> Console:
    """Return where to print; a log is not cut to 80 columns."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(width=120, highlight=False)


def final(runs: list[Run], out: Console) -> None:
    """Print verdicts, and the ratios by which slices and baselines differ."""
    judged = Table(title="Isolation")
    for heading in ("experiment", "runs", "verdict"):
        judged.add_column(heading)
    for name, passed, count in summary.verdicts(runs):
        good = "[green]holds[/green]" if passed == count else "[red]DOES NOT HOLD[/red]"
        judged.add_row(name, f"{passed}/{count}", good)
    out.print(judged)
    measured = [run for run in runs if run.experiment == "performance"]
    if measured:
        cost = Table(title="Cost, as ratios to the same VNFs without a VPN (95 % intervals)")
        for heading in ("link, slice", "throughput", "round trip"):
            cost.add_column(heading, no_wrap=True)
        trips = {r.label: r.value for r in summary.vpn_ratios(measured, "rtt_ms")}
        for row in summary.vpn_ratios(measured, "mbps"):
            cost.add_row(row.label, str(row.value), str(trips.get(row.label, "-")))
        out.print(cost)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="osm-vpnaas")
def main() -> None:
    """Experiments on isolation between slices, and their report."""


@main.command()
@click.option("--profile", type=click.Choice(sorted(PROFILES)), default="quick", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Campaign; default a new one.")
@click.option("--home", type=click.Path(path_type=Path), help="Lab directory; default a new one.")
@click.option("--dist", type=click.Path(path_type=Path), default=Path("dist"), show_default=True)
@click.option("--seed", default=1, show_default=True, help="Of the order of runs.")
@click.option("--repetitions", type=click.IntRange(1, 100), help="Rounds; default the profile's.")
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Runs of an EXPERIMENT, SLICE or EXPERIMENT:SLICE only; may be repeated.",
)
@click.option("--keep", is_flag=True, help="Leave the slices running.")
def run(
    profile: str,
    out: Path | None,
    home: Path | None,
    dist: Path,
    seed: int,
    repetitions: int | None,
    only: tuple[str, ...],
    keep: bool,
) -> None:
    """Bring up what the profile measures, make the runs that are missing, report, clean up."""
    clean_up_when_ended()
    screen = console()
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    campaign = Campaign(out or Path("results") / f"{profile}-{stamp}")
    chosen = PROFILES[profile]
    described = campaign.begin(profile, seed, environment(ROOT, chosen.machines))
    steps = campaigns.plan(chosen, described["seed"], repetitions)
    steps = campaigns.matching(steps, only)
    missing = [step for step in steps if not campaign.has(step.cell, step.repetition)]
    failures = 0
    if missing:
        place = home or Path(tempfile.mkdtemp(prefix="osm-lab-"))
        place.mkdir(parents=True, exist_ok=True)
        bed = Testbed(place, dist, screen, chosen.machines)
        if chosen.machines:
            bake(screen.print)
        started = time.monotonic()
        try:
            alone = setups.PAIR if chosen.machines else setups.EPC
            beside = campaigns.beside(missing) if chosen.slices else [alone]
            packages = setups.packages(dist, beside)
            if not chosen.machines:
                packages = [*(dist / f"{name}_vnf.tar.gz" for name in VNFS), *packages]
            wanted: list[slices.Wanted] = []
            names = " and ".join(beside)
            if chosen.slices:
                packages = [*packages, *slices.packages(dist, place)]
                wanted = slices.wanted(dist, qos.RATES, qos.LINK, chosen.functions)
                names = " and ".join(["two slices of five VNFs", *beside])
            bed.prepare(packages, setups.vims(beside))
            bed.deploy([*wanted, *setups.wanted(dist, beside, chosen.functions)])
            screen.print(
                f"{names} are up after {time.monotonic() - started:.0f} s; "
                f"{len(missing)} of {len(steps)} runs to make"
            )
            failures = campaigns.make(bed, campaign, steps, screen)
        finally:
            if keep:
                screen.print(f"they run on: osm-lab --home {place} ns-list")
            else:
                screen.print("cleaning up ...")
                with ticking(screen, lambda: "removing them"):
                    bed.clean()
    page, table = render.write(campaign)
    runs = campaign.runs()
    screen.print()
    final(runs, screen)
    screen.print(f"report: {page}\nfigures: {table}\nruns: {campaign.directory / 'runs'}")
    if failures:
        raise click.ClickException(
            f"{failures} runs gave no result; the same command with --out {campaign.directory} "
            "makes them"
        )
    if any(made.passed is False for made in runs):
        raise click.ClickException("an experiment did not end as it must, see the report")


@main.command()
@click.argument("directory", type=click.Path(path_type=Path))
def report(directory: Path) -> None:
    """Write report.html and runs.csv of the campaign in DIRECTORY anew."""
    page, table = render.write(Campaign(directory))
    console().print(f"report: {page}\nfigures: {table}")


if __name__ == "__main__":
    main()
