"""Options that verbs of services and of slices share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from lab.cli.context import Lab
from lab.cli.names import ACCOUNT
from lab.cli.render import LITERAL

_INSTANTIATION = (
    click.option(
        "--vim_account",
        type=ACCOUNT,
        required=True,
        help="VIM account, where the parameters name no other.",
    ),
    click.option(
        "--config", "config_text", default="", help="Instantiation parameters, YAML text."
    ),
    click.option(
        "--config_file", type=click.Path(path_type=Path), help="Instantiation parameters, a file."
    ),
    click.option("--ssh_keys", default="", help="Files with public keys, separated by commas."),
    click.option("--description", default="", hidden=True),
    click.option("--admin_status", hidden=True),
    click.option("--wait", is_flag=True, help="Show progress until it is done."),
)


def instantiation_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that osmclient's ns-create and nsi-create share."""
    for option in reversed(_INSTANTIATION):
        command = option(command)
    return command


def _choose_literal(context: click.Context, option: click.Parameter, chosen: bool) -> None:
    if chosen and (lab := context.find_object(Lab)) is not None:
        lab.out.form = LITERAL


#: Option of osmclient's verbs that show one record.
literally = click.option(
    "--literal",
    is_flag=True,
    expose_value=False,
    callback=_choose_literal,
    help="Print YAML and no table.",
)
