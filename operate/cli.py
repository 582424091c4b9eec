"""Command line: ``vpnaas-operate``."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import yaml

from operate.client import Client, OperateError
from operate.join import End, join, part
from operate.targets import PORT, targets


class _Group(click.Group):
    """Turns errors of ours into one sentence and exit code 1."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except OperateError as error:
            raise click.ClickException(str(error)) from None


@click.group(cls=_Group)
def main() -> None:
    """Operate services beyond single commands of `osm`."""


_client = click.option(
    "--client",
    default="osm",
    show_default=True,
    envvar="VPNAAS_OSM_CLIENT",
    help="Command of the OSM client, with options before the verb.",
)


@main.command(name="join")
@click.argument("one")
@click.argument("other")
@click.option("--prefixes", default="", help="Prefixes behind ONE, separated by commas.")
@click.option("--other-prefixes", default="", help="Prefixes behind OTHER.")
@_client
def join_command(one: str, other: str, prefixes: str, other_prefixes: str, client: str) -> None:
    """Join a link of two services: ONE and OTHER are NS/VNF:LINK[@ADDRESS].

    ADDRESS is where the other end reaches this one; at least one end needs it. Repeat it after
    the keys of an end have been rotated.
    """
    ends = End.parse(one, prefixes), End.parse(other, other_prefixes)
    for line in join(Client(tuple(shlex.split(client))), *ends):
        click.echo(line)


@main.command(name="part")
@click.argument("one")
@click.argument("other")
@_client
def part_command(one: str, other: str, client: str) -> None:
    """Undo what join did."""
    for line in part(Client(tuple(shlex.split(client))), End.parse(one), End.parse(other)):
        click.echo(line)


@main.command(name="targets")
@click.argument("services", nargs=-1, required=True, metavar="NS[/VNF]...")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="File; else printed.")
@click.option("--port", default=PORT, show_default=True, help="Of the exporters.")
@click.option("--turn-on", is_flag=True, help="Have the exporters run first.")
@_client
def targets_command(
    services: tuple[str, ...], out: Path | None, port: int, turn_on: bool, client: str
) -> None:
    """Write the targets of Prometheus: the exporters of whole services, or of single VNFs."""
    found = targets(Client(tuple(shlex.split(client))), services, port, turn_on)
    text = yaml.safe_dump(found, sort_keys=False)
    if out is None:
        click.echo(text, nl=False)
        return
    # Prometheus reads the file whenever it changes: it is there whole, or as it was.
    staging = out.with_name(out.name + ".new")
    staging.write_text(text, encoding="utf-8")
    staging.replace(out)


if __name__ == "__main__":
    main()
