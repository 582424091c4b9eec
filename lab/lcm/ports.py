"""What the orchestration needs from the rest of the lab, as interfaces.

The real VIM and VCA are adapted in ``lab.lcm.backends``; tests put fakes here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from lab.descriptors.topology import Network, Server


@dataclass(frozen=True)
class BootedServer:
    """A server as its VIM reports it; addresses in port order."""

    id: str
    addresses: tuple[str | None, ...]
    macs: tuple[str | None, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ActionOutcome:
    """Result of a Juju action."""

    completed: bool
    results: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""


@dataclass(frozen=True)
class CharmEvent:
    """Something a charm did, for progress displays."""

    application: str
    text: str
    status: str | None = None
    quiet: bool = False
    """For a live display only; a log would drown in it."""


class Cloud(Protocol):
    """One VIM account."""

    def find_networks(self, name: str) -> list[str]:
        """Return the ids of all networks of exactly that name."""

    def management_network(self) -> str:
        """Return the id of the account's management network."""

    def create_network(self, network: Network, tag: str) -> str:
        """Make a network and return its id."""

    def common_network(self, network: Network, tag: str) -> str:
        """Return the id of the one network of a tag, made when it is not there."""

    def create_server(
        self,
        server: Server,
        networks: Sequence[str],
        user_data: str | None,
        ssh_keys: Sequence[str],
        tag: str,
    ) -> str:
        """Start a server whose n-th port is on the n-th network; return its id."""

    def networks_of(self, server_id: str) -> Sequence[str]:
        """Return the ids of the networks of a server's ports."""

    def recreate_server(
        self,
        server_id: str,
        server: Server,
        user_data: str | None,
        ssh_keys: Sequence[str],
        tag: str,
        same: bool,
    ) -> str:
        """Replace a server by a new one on its networks; return the new id.

        Its management address and fixed addresses stay; ``same`` keeps the other addresses and
        all MAC addresses too.
        """

    def start_server(self, server_id: str) -> None:
        """Start a server that is stopped."""

    def stop_server(self, server_id: str) -> None:
        """Stop a server; it keeps its disk and ports."""

    def delete_server(self, server_id: str) -> None:
        """Delete a server; a missing one is no error."""

    def wait_active(self, server_id: str, timeout: float) -> BootedServer:
        """Wait until a server has booted and applied its user data."""

    def delete_tag(self, tag: str) -> None:
        """Delete all servers and networks made under ``tag``; nothing to delete is no error."""


class Charms(Protocol):
    """One Juju model."""

    def start(self) -> None:
        """Let charms run in this process, until ``stop``."""

    def stop(self) -> None:
        """Finish the hooks in progress and stop."""

    def deploy(self, application: str, charm: Path, units: int) -> None:
        """Deploy a charm folder."""

    def remove(self, application: str, timeout: float) -> None:
        """Remove an application and wait until its units are gone."""

    def upgrade(self, application: str, charm: Path) -> None:
        """Refresh an application to another revision of its charm."""

    def application_status(self, application: str) -> tuple[str, str]:
        """Return (workload status, message) of an application."""

    def machine(self, application: str) -> str:
        """Return the number of the machine of an application's first unit."""

    def set_config(self, application: str, options: Mapping[str, Any]) -> None:
        """Set options of an application."""

    def add_relation(self, one: str, other: str) -> None:
        """Relate two ``application:endpoint``."""

    def run_action(
        self, application: str, name: str, params: Mapping[str, Any], timeout: float
    ) -> ActionOutcome:
        """Run an action on the leader and wait for it."""

    def has_action(self, application: str, name: str) -> bool:
        """Say whether the charm of an application declares an action."""

    def wait_idle(self, timeout: float) -> bool:
        """Wait until no unit has anything to do; ``False`` when time ran out."""

    def failed_units(self) -> dict[str, str]:
        """Return unit name -> reason for every unit whose hook keeps failing."""

    def subscribe(self, callback: Callable[[CharmEvent], None]) -> None:
        """Call ``callback`` for everything the charms do from now on."""

    def destroy(self) -> None:
        """Remove the model with its contents; a missing one is no error."""


class KeyInjector(Protocol):
    """RO's part of the key injection."""

    def make_key(self, path: Path) -> str:
        """Make RO's key pair at ``path`` (kept when there) and return the public key."""

    def inject(self, address: str, user: str, private_key: Path, public_key: str) -> None:
        """Log in once and append ``public_key`` to the user's authorized keys.

        Raises:
            LcmError: the login or the command failed.
        """


class Backends(Protocol):
    """Access to all the rest."""

    @property
    def keys(self) -> KeyInjector:
        """RO's key injection."""

    def cloud(self, vim_account: str) -> Cloud:
        """Return the VIM account with that id."""

    def charms(self, ns_id: str) -> Charms:
        """Return the model of a network service, made when it is not there."""
