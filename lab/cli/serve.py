"""``osm-lab serve``."""

import ipaddress
import os
from pathlib import Path

import click

from lab.cli.context import Lab, pass_lab
from lab.errors import NbiError
from lab.nbi.params import read_text

DEFAULT_PASSWORD = "admin"  # noqa: S105  # osmclient's default
PASSWORD = "OSMLAB_PASSWORD"  # noqa: S105  # name of a variable


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9999,
    show_default=True,
    help="TCP port to listen on; 0 takes any free one.",
)
@click.option(
    "--password-file",
    type=click.Path(path_type=Path),
    help=f"File with the password of user admin, else ${PASSWORD}; on loopback "
    f"'{DEFAULT_PASSWORD}' when neither is given.",
)
@pass_lab
def serve(lab: Lab, host: str, port: int, password_file: Path | None) -> None:
    """Offer OSM's own API (HTTPS) to the lab, for osmclient and other SOL005 clients.

    A browser gets a page at the same port.
    """
    from lab.api.app import create_app
    from lab.api.listener import Listener
    from lab.api.tokens import Tokens
    from lab.page.mount import WithPage

    password = _password(host, password_file)
    tokens = Tokens(password)
    both = WithPage(create_app(lab.engine, tokens), lab.engine, tokens)
    listener = Listener(both, lab.home / "server", host, port)
    lab.out.remark(f"{listener.url}, certificate {listener.certificate}")
    lab.out.remark(f"{listener.url.removesuffix('/osm')}, a page for browsers")
    if password == DEFAULT_PASSWORD:
        lab.out.remark(
            f"WARNING: the password is '{DEFAULT_PASSWORD}', as every user of this machine knows; "
            f"set {PASSWORD} to one of your own"
        )
    listener.run()


def _password(host: str, file: Path | None) -> str:
    given = os.environ.get(PASSWORD, "")
    if file is not None:
        given = read_text(file, "--password-file").strip()
        if not given:
            raise NbiError(f"--password-file '{file}' is empty")
    if _is_loopback(host):
        return given or DEFAULT_PASSWORD
    if given in ("", DEFAULT_PASSWORD):
        raise NbiError(
            f"other machines can reach {host}: give a password of your own, by --password-file "
            f"or {PASSWORD}"
        )
    return given


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
