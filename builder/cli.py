"""Command line of the build: `vpnaas-build`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from builder import packages
from builder.errors import BuildError
from builder.tree import Tree


class _Group(click.Group):
    """Turns errors of ours into one sentence and exit code 1."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BuildError as error:
            raise click.ClickException(str(error)) from None


@click.group(cls=_Group)
def main() -> None:
    """Build and validate OSM packages."""


@main.command(name="list")
def list_packages() -> None:
    """List what can be built."""
    for package in packages.catalogue(Tree.find()).values():
        click.echo(f"{package.kind:4} {package.name}")


@main.command()
@click.argument("names", nargs=-1, metavar="[PACKAGE]...")
@click.option("--out", type=click.Path(path_type=Path), help="Target folder; default dist/.")
@click.option("--architecture", default="x86_64", show_default=True, help="Of proxy machines.")
def build(names: tuple[str, ...], out: Path | None, architecture: str) -> None:
    """Build packages (all by default) and parameter files, and validate the result."""
    tree = Tree.find()
    target = out or tree.root / "dist"
    started = time.monotonic()
    paths = packages.build(
        tree, target, names, architecture, lambda name: click.echo(f"building {name}")
    )
    click.echo(f"{len(paths)} packages in {target} after {time.monotonic() - started:.1f} s")
    if not _valid(paths):
        sys.exit(1)


@main.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--strict", is_flag=True, help="Also fail on what OSM would accept and then ignore.")
def validate(paths: tuple[Path, ...], strict: bool) -> None:
    """Say what OSM refuses, or accepts and misses, in packages."""
    if not _valid(list(paths), strict):
        sys.exit(1)


def _valid(paths: list[Path], strict: bool = True) -> bool:
    from builder.validate import Catalog, validate_package

    catalog = Catalog.from_packages(paths)
    good = True
    for path in paths:
        for problem in validate_package(path, catalog):
            click.echo(f"{problem.severity}: {problem.path}: {problem.sentence}", err=True)
            good = good and not (strict or problem.severity == "refused")
    return good
