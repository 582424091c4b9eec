"""Options of commands for an OSM."""

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from operate.nbi import Nbi
from operate.osm import Osm


@dataclass(frozen=True)
class Access:
    """Where an OSM is, and who we are there; the password is $OSM_PASSWORD, else OSM's default."""

    url: str
    user: str
    project: str
    ca: str | None
    insecure: bool

    @property
    def password(self) -> str:
        return os.environ.get("OSM_PASSWORD", "admin")

    def nbi(self) -> Nbi:
        """Return the API, before a login."""
        return Nbi(self.url, False if self.insecure else self.ca or True)

    def osm(self) -> Osm:
        """Log in."""
        osm = Osm(self.nbi())
        osm.nbi.log_in(self.user, self.password, self.project)
        return osm


dist_option = click.option(
    "--dist",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("dist"),
    help="Folder of the built packages.",
)


def timeout_option(seconds: int, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option --timeout with a default and a help."""
    return click.option("--timeout", type=click.IntRange(1), default=seconds, help=text)


def osm_options(
    required: bool = True, text: str = "Address of its API: https://HOST[:PORT]."
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of an OSM to a command, which gets them as ``access``.

    Args:
        required: whether --osm is; if not and without it, ``access`` is None.
        text: help of --osm.
    """

    options = (
        click.option("--osm", "url", required=required, help=text),
        click.option("--user", envvar="OSM_USER", default="admin", help="User of OSM; $OSM_USER."),
        click.option(
            "--project",
            envvar="OSM_PROJECT",
            default="admin",
            help="Project of the user; $OSM_PROJECT.",
        ),
        click.option(
            "--ca", type=click.Path(exists=True, dir_okay=False), help="CA of OSM's certificate."
        ),
        click.option("--insecure", is_flag=True, help="Accept any certificate, as osmclient does."),
    )

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def run(**given: Any) -> Any:
            own = {each.name: given.pop(each.name) for each in fields(Access)}
            return command(access=Access(**own) if own["url"] is not None else None, **given)

        return functools.reduce(lambda made, option: option(made), reversed(options), run)

    return decorated
