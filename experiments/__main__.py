"""`python -m experiments`: run a campaign on an OSM, and write its report."""

import contextlib
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from builder.commands import SETTINGS, Group
from builder.terminal import console
from experiments import campaign as campaigns
from experiments import fiveg, qos, setups, slices
from experiments.machine import campaigning
from experiments.model import Run, environment, host
from experiments.named import adopt
from experiments.named import profile as between
from experiments.profiles import PROFILES, Profile
from experiments.progress import ticking
from experiments.report import summary
from experiments.schedule import Planned
from experiments.store import Campaign
from experiments.testbed import VNFS, Testbed
from operate.access import Access, dist_option, osm_options
from operate.ending import clean_up_when_ended
from operate.osm import VIMS, Osm

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 120  # Columns of a log file.
ONE_MACHINE = (
    "These VDUs share one machine: without a VPN a packet is only copied in memory, and encryption "
    "takes its usual processor time. Between two sites 18 ms apart our recorded campaign has 0.96 "
    "of the throughput and 1.04 of the round trip: there the distance sets the pace."
)


def final(runs: list[Run], out: Console, cpus: int = 0) -> bool:
    """Print the verdicts, and the ratios between slices and baselines; tell whether one failed."""
    judged = Table("experiment", "runs", "verdict", title="Isolation")
    verdicts = summary.verdicts(runs, cpus)
    for verdict in verdicts:
        colour = "red" if verdict.failed else "green" if verdict.complete else "yellow"
        judged.add_row(verdict.name, verdict.runs, f"[{colour}]{verdict.words}[/{colour}]")
    out.print(judged)
    measured = [run for run in runs if run.experiment == "performance"]
    if measured:
        cost = Table(title="Cost, as ratios to the same VNFs without a VPN (95 % intervals)")
        for heading in ("link, slice", "throughput", "round trip"):
            cost.add_column(heading, no_wrap=True)
        trips = summary.by_label(summary.vpn_ratios(measured, "rtt_ms"))
        for row in summary.vpn_ratios(measured, "mbps"):
            cost.add_row(escape(row.label), str(row.value), str(trips.get(row.label, "-")))
        out.print(cost)
        if not any(run.params["slice"] == setups.SITES for run in measured):
            out.print(ONE_MACHINE)
    return any(verdict.failed for verdict in verdicts)


@click.group(cls=Group, context_settings=SETTINGS)
@click.version_option(package_name="osm-vpnaas")
def main() -> None:
    """Experiments on isolation between slices, and their report."""


def check(profile: Profile, url: str | None, vim: str | None, named: Sequence[str]) -> None:
    """Check options of `run` that must fit each other."""
    if named:
        if len(set(named)) < 2:
            raise click.UsageError("--slice: two slices at least are compared")
        if vim is not None:
            raise click.UsageError("--vim is for slices that the campaign makes, not for --slice")
    elif (url is None) != (vim is None):
        raise click.UsageError("--osm and --vim go together")
    elif url is not None and profile.machines:
        raise click.UsageError(f"--profile {profile.name} is of the lab")


@main.command()
@click.option(
    "--profile", type=click.Choice(sorted(PROFILES)), default="quick", help="Which runs to make."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder of the campaign; default a new one in results/. A former one is continued.",
)
@osm_options(required=False, text="A real OSM, https://HOST:9999; default a lab of its own.")
@click.option("--vim", help="VIM account of that OSM.")
@click.option(
    "--slice",
    "named",
    multiple=True,
    metavar="NAME",
    help="Name or id of an existing slice or service; at least two. By default the campaign creates"
    " two.",
)
@click.option(
    "--home",
    type=click.Path(path_type=Path),
    help="Lab directory; default a new one, with --slice that of osm-lab.",
)
@dist_option
@click.option("--seed", default=1, help="Seed for the order of runs.")
@click.option("--repetitions", type=click.IntRange(1, 100), help="Rounds; default the profile's.")
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Runs of an EXPERIMENT, SET-UP or EXPERIMENT:SET-UP only; may be repeated.",
)
@click.option("--keep", is_flag=True, help="Leave the slices running.")
def run(
    profile: str,
    out: Path | None,
    access: Access | None,
    vim: str | None,
    named: tuple[str, ...],
    home: Path | None,
    dist: Path,
    seed: int,
    repetitions: int | None,
    only: tuple[str, ...],
    keep: bool,
) -> None:
    """Start the slices and services of the profile, make the missing runs, report, clean up.

    The password of --osm is $OSM_PASSWORD, else OSM's default.
    """
    named = tuple(dict.fromkeys(named))
    check(PROFILES[profile], access.url if access else None, vim, named)
    clean_up_when_ended()
    screen = console(WIDTH)
    with contextlib.ExitStack() as stack:
        chosen = PROFILES[profile]
        if named:
            bed, environs = _existing(stack, access, home, dist, named, screen)
            chosen = between(bed)

        def chosen_steps(seed: int) -> list[Planned]:
            steps = campaigns.plan(chosen, seed, repetitions)
            if access and not named:
                steps = campaigns.without_the_lab(steps)
            steps = campaigns.matching(steps, only)
            # Runs that break a user's slices need --only.
            breaks = named and not only
            return [s for s in steps if not (breaks and s.cell.experiment == "dependability")]

        chosen_steps(seed)  # A wrong --slice or --only leaves no campaign behind.
        campaign = _alone(out, chosen.name, screen)
        if access is not None and vim is not None:
            osm = access.osm()
            environs = _environment(osm, vim)
        elif not named:
            from experiments import on_the_lab

            environs = on_the_lab.environment(ROOT, chosen.machines)
        described = campaign.begin(chosen.name, seed, environs)
        steps = chosen_steps(described["seed"])
        missing = [step for step in steps if not campaign.has(step.cell, step.repetition)]
        failures = 0
        if named:
            failures = campaigns.make(bed, campaign, steps)
        elif missing:
            alone = setups.PAIR if chosen.machines else setups.EPC
            beside = campaigns.beside(missing) if chosen.slices else [alone]
            if access is None or vim is None:
                place = home or Path(tempfile.mkdtemp(prefix="osm-lab-"))
                if place.is_dir() and any(place.iterdir()):
                    raise click.ClickException(
                        f"--home {place} is not empty, and the campaign removes its lab there at "
                        "the end; take an empty or a new directory"
                    )
                try:
                    place.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    raise click.ClickException(f"--home {place}: {error.strerror}") from None
                if keep:
                    left = f"they run on: osm-lab --home {place} ns-list"
                    stack.callback(screen.print, left)
                else:
                    stack.callback(_clean, screen, partial(on_the_lab.clean, place))
                lab = stack.enter_context(on_the_lab.served(place, chosen.machines))
                lab.accounts(setups.vims(beside))
                bed = Testbed(lab.osm, dist, screen, lab=lab)
            else:
                bed = Testbed(osm, dist, screen, vim)
                if not keep:
                    stack.callback(_clean, screen, bed.clean)
            failures = _make_missing(bed, campaign, chosen, steps, beside)
    _write_report(campaign, failures, screen)


def _alone(out: Path | None, name: str, screen: Console) -> Campaign:
    """Return the campaign of a folder, which is new without `out`; lock it to the command's end.

    Tell of other campaigns on this machine.
    """
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    campaign = Campaign(out or Path("results") / f"{name}-{stamp}")
    command = click.get_current_context()
    command.with_resource(campaign.locked())
    campaign.others = command.with_resource(campaigning(campaign.directory))
    for other in campaign.others():
        screen.print(
            f"another campaign runs on this machine ({other}): each disturbs the other, and the"
            " runs' records say so",
            style="yellow",
            markup=False,
        )
    return campaign


def _existing(
    stack: contextlib.ExitStack,
    access: Access | None,
    home: Path | None,
    dist: Path,
    named: Sequence[str],
    screen: Console,
) -> tuple[Testbed, dict[str, Any]]:
    """Return a test bed with slices that an OSM has, and the environment of the campaign."""
    where = environment(ROOT)
    if access is not None:
        url, osm = access.url, access.osm()
    else:
        from experiments import on_the_lab

        place = home or on_the_lab.default_home()
        if not (place / "nbi").exists():
            raise click.ClickException(
                f"{place} has no lab; --home is the directory of the lab with the slices"
            )
        where["host"] = host()
        url, osm = f"the lab in {place}", stack.enter_context(on_the_lab.served(place)).osm
    bed = Testbed(osm, dist, screen)
    made = {name: adopt(bed, name) for name in named}
    return bed, {**where, "osm": _described(osm, url), "slices": made}


def _write_report(campaign: Campaign, failures: int, screen: Console) -> None:
    """Write the report and print the verdicts and the paths."""
    from experiments.report import render  # matplotlib loads slowly

    page, table = render.write(campaign)
    runs = campaign.runs()
    screen.print()
    failed = final(runs, screen, campaign.cpus())
    if lacking := render.missing(campaign.describe(), runs):
        screen.print(lacking)
    screen.print(
        f"report: {page}\nfigures: {table}\nruns: {campaign.directory / 'runs'}", markup=False
    )
    if failures:
        raise click.ClickException(
            f"{failures} runs gave no result; the same command with --out {campaign.directory} "
            "makes them"
        )
    if failed:
        raise click.ClickException("an experiment did not end as it must, see the report")


def _make_missing(
    bed: Testbed, campaign: Campaign, chosen: Profile, steps: list[Planned], beside: list[str]
) -> int:
    """Start the slices and services, and make the runs; return how many gave no result."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        if chosen.fiveg:
            packages = fiveg.packages(bed.dist, Path(scratch), chosen.fiveg)
            requests = fiveg.requests(bed.dist, chosen.fiveg)
            count = 3 + 2 * len(chosen.fiveg)
            names = f"{len(chosen.fiveg)} slices of a 5G network, of {count} VNFs,"
        else:
            own = [] if chosen.machines else [bed.dist / f"{name}_vnf.tar.gz" for name in VNFS]
            packages = [*own, *setups.packages(bed.dist, beside)]
            requests = setups.requests(bed.dist, beside, chosen.functions)
            names = " and ".join(beside)
            if chosen.slices:
                names = " and ".join(["two slices of five VNFs", *beside])
                packages += slices.packages(bed.dist, Path(scratch))
                both = slices.requests(bed.dist, qos.RATES, chosen.functions)
                requests = [*both, *requests]
        bed.refuse_taken(requests)
        bed.prepare(packages)
    if chosen.fiveg:
        fiveg.deploy(bed, requests)
    else:
        bed.deploy(requests)
    missing = sum(not campaign.has(step.cell, step.repetition) for step in steps)
    bed.console.print(
        f"{names} are up after {time.monotonic() - started:.0f} s; "
        f"{missing} of {len(steps)} runs to make"
    )
    return campaigns.make(bed, campaign, steps)


def _environment(osm: Osm, vim: str) -> dict[str, Any]:
    """Return the environment of a real OSM, on which its figures depend."""
    account = osm.required(VIMS, name=vim)
    kind = {"name": vim, "type": account.get("vim_type"), "url": account.get("vim_url")}
    return {**environment(ROOT), "osm": _described(osm, osm.nbi.url), "vim": kind}


def _described(osm: Osm, url: str) -> dict[str, str]:
    return {"url": url, "release": str(osm.nbi.version().get("version"))}


def _clean(screen: Console, remove: Callable[[], Sequence[str]]) -> None:
    screen.print("cleaning up ...")
    with ticking(screen, lambda: "deleting them"):
        left = remove()
    for sentence in left:
        screen.print(f"not deleted: {sentence}", style="red", markup=False)


@main.command()
@click.argument("directory", type=click.Path(path_type=Path))
def report(directory: Path) -> None:
    """Write report.html and runs.csv of the campaign in DIRECTORY again."""
    from experiments.report import render  # matplotlib loads slowly

    campaign = Campaign(directory)
    runs = campaign.runs()
    render.missing(campaign.describe(), runs)  # Its profile must be known.
    if not runs:
        raise click.ClickException(
            f"the campaign in {directory} has no runs yet, so there is nothing to report; "
            f"experiments run --out {directory} makes them"
        )
    page, table = render.write(campaign)
    console(WIDTH).print(f"report: {page}\nfigures: {table}", markup=False)


if __name__ == "__main__":
    main()
