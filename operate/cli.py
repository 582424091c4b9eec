"""Command line: ``vpnaas-operate``."""

import hashlib
import json
import os
import shlex
from dataclasses import asdict
from pathlib import Path

import click
import yaml

from builder.commands import SETTINGS, Group
from builder.files import replace
from builder.terminal import tell
from operate.acceptance.report import Report
from operate.acceptance.run import Acceptance
from operate.access import Access, dist_option, osm_options, timeout_option
from operate.client import Client
from operate.ending import clean_up_when_ended
from operate.join import End, join, part
from operate.links import links, show
from operate.slices import Joiner, Record, follow, join_slices
from operate.targets import PORT, targets
from operate.upkeep import rotate, upgrade


@click.group(cls=Group, context_settings=SETTINGS)
@click.version_option(package_name="osm-vpnaas")
def main() -> None:
    """Operate services beyond single commands of `osm`."""


def _words(ctx: click.Context, option: click.Parameter, text: str) -> Client:
    try:
        words = shlex.split(text)
    except ValueError:  # an open quote
        words = []
    if not words:
        raise click.BadParameter(f"{text!r} is no command; allowed: one like osm")
    return Client(tuple(words))


_client = click.option(
    "--client",
    default="osm",
    envvar="VPNAAS_OSM_CLIENT",
    callback=_words,
    help="Command of the OSM client, with options before the verb.",
)


@main.command(name="join")
@click.argument("one")
@click.argument("other")
@click.option(
    "--prefixes", default="", show_default=False, help="Prefixes behind ONE, separated by commas."
)
@click.option("--other-prefixes", default="", show_default=False, help="Prefixes behind OTHER.")
@_client
def join_command(one: str, other: str, prefixes: str, other_prefixes: str, client: Client) -> None:
    """Join a link of two services: ONE and OTHER are NS/VNF[/VDU/COUNT]:LINK[@ADDRESS].

    NS is a name or an id; a service with "/" in its name needs the id. The other end reaches
    this end at ADDRESS; at least one end needs an ADDRESS. Repeat the command after the keys of
    an end have been rotated.
    """
    ends = End.parse(one, prefixes), End.parse(other, other_prefixes)
    for line in join(client, *ends):
        tell(line)


@main.command(name="part")
@click.argument("one")
@click.argument("other")
@_client
def part_command(one: str, other: str, client: Client) -> None:
    """Undo what join did."""
    for line in part(client, End.parse(one), End.parse(other)):
        tell(line)


@main.command(name="upgrade")
@click.argument("service", metavar="NS")
@dist_option
@_client
def upgrade_command(service: str, dist: Path, client: Client) -> None:
    """Refresh the charms of the service NS from built packages; tunnels stay up.

    Do the same with the packages of an earlier version to go back.
    """
    for line in upgrade(client, service, dist):
        tell(line)


@main.command(name="rotate-keys")
@click.argument("end", metavar="NS/VNF:LINK")
@click.option("--force", is_flag=True, help="Do not wait for peers that do not acknowledge.")
@timeout_option(600, "Seconds to wait for the peers.")
@_client
def rotate_command(end: str, force: bool, timeout: int, client: Client) -> None:
    """Rotate the key of a link's end, and wait until the new key is in use."""
    for line in rotate(client, End.parse(end), force, timeout):
        tell(line)


@main.command(name="join-slices")
@click.argument("slices", nargs=-1, metavar="[NSI]...")
@timeout_option(1800, "Seconds to wait for the named slices.")
@click.option("--pause", type=click.IntRange(1), default=10, help="Seconds between two looks.")
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with what was joined, for the next start.  [default: one for each OSM below"
    " $STATE_DIRECTORY, or ~/.local/state/osm-vpnaas]",
)
@_client
def join_slices_command(
    slices: tuple[str, ...], timeout: int, pause: int, record: Path | None, client: Client
) -> None:
    """Join the services of these slices, or without names of all slices, also of later ones.

    With names it ends when all network functions are ready. Without names it runs on, as a service
    beside OSM: it joins new slices, and removes deleted slices from the services that they shared.
    """
    joiner = Joiner(client, tell, Record(record or _record_of(client)))
    if slices:
        join_slices(joiner, slices, timeout, pause)
    else:
        follow(joiner, pause)


def _record_of(client: Client) -> Path:
    """Return the file about the OSM that a client talks to."""
    osm = json.dumps([*client.command, os.environ.get("OSM_HOSTNAME", "")])
    name = f"join-slices-{hashlib.sha256(osm.encode()).hexdigest()[:8]}.json"
    systemd = os.environ.get("STATE_DIRECTORY")
    return (Path(systemd) if systemd else Path.home() / ".local/state/osm-vpnaas") / name


@main.command(name="targets")
@click.argument("services", nargs=-1, required=True, metavar="NS[/VNF]...")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="File; else stdout.")
@click.option(
    "--port", type=click.IntRange(1, 65535), default=PORT, help="TCP port of the exporters."
)
@click.option("--turn-on", is_flag=True, help="Start the exporters first.")
@_client
def targets_command(
    services: tuple[str, ...], out: Path | None, port: int, turn_on: bool, client: Client
) -> None:
    """Write the targets of Prometheus: the exporters of whole services, or of single VNFs."""
    document = targets(client, services, port, turn_on)
    text = yaml.safe_dump(document, sort_keys=False)
    if out is None:
        tell(text, nl=False)
        return
    # Prometheus, which is another user, reads the file at every change.
    replace(out, text, mode=0o644)


@main.command(name="links")
@click.argument("services", nargs=-1, metavar="[NS]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@osm_options()
def links_command(services: tuple[str, ...], as_json: bool, access: Access) -> None:
    """Show the links of services, or of all, as they are now: every end is asked.

    It runs show-status on each VNF, which is an operation of its service. The password is
    $OSM_PASSWORD, else OSM's default.
    """
    found = links(access.osm(), services)
    if as_json:
        tell(json.dumps([asdict(link) for link in found], indent=1))
    else:
        show(found)


@main.command()
@click.option("--vim", required=True, help="Name of the VIM account.")
@osm_options()
@click.option("--smallest", is_flag=True, help="Do not test the slice.")
@timeout_option(3600, "Seconds an operation of OSM may take.")
@dist_option
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("results/acceptance.html"),
    help="Page for a bug report.",
)
def acceptance(
    access: Access, vim: str, smallest: bool, timeout: int, dist: Path, out: Path
) -> None:
    """Check that an OSM and its VIM accept these packages and run them.

    The password is $OSM_PASSWORD, else OSM's default. The run deletes all that it creates.
    """
    clean_up_when_ended()
    # The run takes an hour; say before it that its page cannot be written.
    out.parent.mkdir(parents=True, exist_ok=True)
    out.touch()
    report = Report(access.url, vim, tell)
    run = Acceptance(access.nbi(), dist, vim, report, timeout)
    try:
        passed = run.run(access.user, access.password, access.project, not smallest)
    finally:
        out.write_text(report.page(), encoding="utf-8")
        tell(f"page: {out}")
    if not passed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
