"""What the orchestration asks of a VIM, whatever its kind; RO's connectors are of the same shape.

Networks and servers are asked for by specifications, which name no bridge, directory or process.
Each belongs to an owner: a service's id, or the id of a link that services share.
"""

from pathlib import Path
from typing import Protocol

from lab.vim.account import Vim
from lab.vim.model import Network, NetworkSpec, Server, ServerSpec


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


TYPES = {"lab": "namespaces", "qemu": "qemu"}
"""Type of an account of the lab -> kind of its VDUs."""


def kind_of(vim_type: str) -> str:
    """Return the kind of VDU that an account of a type has."""
    return TYPES.get(vim_type, TYPES["lab"])


def remark(vim_type: str) -> str:
    """Return what to say about an account whose type is not the lab's own, otherwise nothing."""
    if vim_type in TYPES:
        return ""
    return (
        f"The account type '{vim_type}' is taken as 'lab': VDUs are namespaces of this machine; "
        f"the lab's own types: {', '.join(TYPES)}"
    )


def connect(home: Path | str, name: str) -> VimConnector:
    """Return the connector of an account."""
    return Vim.open(home, name)
