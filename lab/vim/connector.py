"""What the orchestration asks of a VIM, whatever its kind; RO's connectors are of the same shape.

Networks and servers are asked for by specifications, which name no bridge, directory or process.
Each belongs to an owner: a service's id, or the id of a link that services share.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from lab.errors import VimError
from lab.vim.account import Vim
from lab.vim.model import Network, NetworkSpec, Server, ServerSpec
from lab.vim.store import NAME, Home


class VimConnector(Protocol):
    """One VIM account. Every method may be called from any thread at any time."""

    def networks(self) -> list[Network]:
        """All networks."""

    def management_network(self) -> Network:
        """The network over which charms reach servers."""

    def create_network(self, spec: NetworkSpec, tag: str, once: bool = False) -> Network:
        """Make a network of the owner ``tag``; ``once``: or return the one it has."""

    def servers(self, tag: str | None = None) -> list[Server]:
        """All servers, or those of an owner, as they are now."""

    def server(self, server_id: str) -> Server:
        """One server as it is now."""

    def create_server(self, spec: ServerSpec, tag: str) -> Server:
        """Make a server of the owner ``tag`` and start it; it boots while the caller goes on."""

    def replace_server(self, server_id: str, spec: ServerSpec, tag: str, same: bool) -> Server:
        """Replace a server by another one, whose management and floating addresses are the same.

        With ``same`` its other addresses and its MAC addresses are the same, too. Otherwise an
        address that the specification leaves open is another one, as the caller must not rely on
        the old one.
        """

    def wait_active(self, server_id: str, timeout: float) -> Server:
        """Wait until a server has booted (``timeout``: seconds)."""

    def start(self, server_id: str) -> Server:
        """Start a server that was stopped."""

    def stop(self, server_id: str) -> Server:
        """Shut a server down; it keeps its disk, addresses and networks."""

    def delete_server(self, server_id: str) -> None:
        """Remove a server; a missing one is no error."""

    def delete_tag(self, tag: str) -> None:
        """Remove all servers and then all networks of an owner, if there are any."""

    def destroy(self) -> None:
        """Remove the account with all it made."""


TYPES = {"lab": "namespaces", "qemu": "qemu"}  # Type of an account of the lab -> kind of its VDUs.

OPENSTACK = "openstack"
"""Type of an account that is a real OpenStack, if something answers at its URL."""


def create(
    home: Path | str,
    name: str,
    vim_type: str,
    config: Mapping[str, Any],
    url: str = "",
    login: Mapping[str, str] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> str:
    """Make what is behind an account; return what to say about its type, otherwise nothing.

    ``url`` and ``login`` (``user``, ``password``, ``tenant``) are for an OpenStack. ``tell`` is
    called with a line for each step that takes minutes.
    """
    if not NAME.fullmatch(name):
        raise VimError(
            f"'{name}' is no VIM account name: letters, digits, '.', '_' and '-' are allowed."
        )
    real = False
    if vim_type == OPENSTACK and url:
        from lab.vim.openstack import OpenStack, answers

        real = answers(url)
    if Vim.names(home) if real else Home.at(home).openstacks:
        raise VimError(
            "A lab has accounts of this machine or of OpenStacks, not both, as charms of one "
            "reach no VDUs of the other: take another --home."
        )
    if real:
        OpenStack.create(home, name, config, url, login or {})
        return ""
    said = _remark(vim_type, url)
    if said:
        tell(said)
    Vim.create(home, name, config, TYPES.get(vim_type, TYPES["lab"]), tell)
    return said


def _remark(vim_type: str, url: str) -> str:
    if vim_type in TYPES:
        return ""
    why = f"nothing answers at {url or 'no URL'}" if vim_type == OPENSTACK else "it is unknown here"
    return (
        f"The account type '{vim_type}' is taken as 'lab' ({why}): VDUs are namespaces of this "
        f"machine; the lab's own types: {', '.join(TYPES)}, {OPENSTACK}"
    )


def connect(home: Path | str, name: str) -> VimConnector:
    """Return the connector of an account."""
    if is_openstack(home, name):
        from lab.vim.openstack import OpenStack

        return OpenStack.open(home, name)
    return Vim.open(home, name)


def is_openstack(home: Path | str, name: str) -> bool:
    """Say whether an account is a real OpenStack."""
    return Home.at(home).openstack(name).exists()
