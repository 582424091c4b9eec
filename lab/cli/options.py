"""Options that verbs of services and of slices share."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from lab.cli.context import Lab, pass_lab
from lab.cli.names import ACCOUNT, named
from lab.cli.render import LITERAL
from lab.nbi.params import InstanceRequest, public_keys, yaml_options

#: Option of verbs that start an operation.
waits = click.option("--wait", is_flag=True, help="Show progress until it is done.")

Instantiate = Callable[[Lab, InstanceRequest, bool], None]


def instantiates(instance: str, package: str, kind: str) -> Callable[[Instantiate], Any]:
    """Add the options that osmclient's ns-create and nsi-create share.

    Args:
        instance: ns or nsi, in the option of its name.
        package: nsd or nst, in the option that names it.
        kind: collection of these packages.
    """

    def add(command: Instantiate) -> Any:
        @click.option(f"--{instance}_name", "name", required=True, help="Its name.")
        @click.option(
            f"--{package}_name",
            "descriptor",
            type=named(kind),
            required=True,
            help=f"Name or id of its {package.upper()}.",
        )
        @click.option(
            "--vim_account",
            type=ACCOUNT,
            required=True,
            help="VIM account, where the parameters name no other.",
        )
        @click.option("--config", default="", help="Instantiation parameters, YAML text.")
        @click.option(
            "--config_file",
            type=click.Path(path_type=Path),
            help="Instantiation parameters, a file.",
        )
        @click.option("--ssh_keys", default="", help="Files with public keys, separated by commas.")
        @click.option("--description", default="", hidden=True)
        @click.option("--admin_status", hidden=True, expose_value=False)
        @waits
        @pass_lab
        @functools.wraps(command)
        def verb(
            lab: Lab,
            name: str,
            descriptor: str,
            vim_account: str,
            config: str,
            config_file: Path | None,
            ssh_keys: str,
            description: str,
            wait: bool,
            timeout: int | None = None,
        ) -> None:
            params = yaml_options(config, config_file)
            keys = public_keys(ssh_keys)
            asked = (name, descriptor, vim_account, params, keys, description, timeout)
            command(lab, InstanceRequest(*asked), wait)

        return verb

    return add


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
