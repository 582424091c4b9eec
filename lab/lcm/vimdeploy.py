"""Deployment at the VIMs: what RO does, networks first, then all servers at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from lab.descriptors.topology import Network, Plan, Server
from lab.errors import LcmError
from lab.lcm.backends import Backends, BootedServer
from lab.records.journal import Journal

UserData = Callable[[Server], str | None]
Booted = Callable[[Server, BootedServer], None]


@dataclass(frozen=True)
class VimDeployment:
    """One deployment; ``tag`` marks its networks and servers, so that ns-delete finds them."""

    backends: Backends
    journal: Journal
    tag: str
    ssh_keys: tuple[str, ...]
    timeout: float
    known: Mapping[str, str] = field(default_factory=dict)
    """``Network.key`` -> id, of networks that exist already."""
    made: Callable[[Server, str], None] = lambda *_: None
    """Called with the id of each server, before it is known whether it boots."""

    def run(self, plan: Plan, user_data: UserData, booted: Booted) -> None:
        """Create the resources of ``plan``; ``booted`` is called per server, in any order.

        Raises:
            LcmError: a network failed, or all failures of servers; the others stay, as in OSM.
        """
        # Render all user data first: after a template error there is nothing to clean up.
        rendered = {server.key: user_data(server) for server in plan.servers}
        ids = {n.key: self.known.get(n.key) or self._network(n) for n in plan.networks}
        with ThreadPoolExecutor(max(1, len(plan.servers)), thread_name_prefix="vim") as pool:
            futures = [
                pool.submit(self._server, server, ids, rendered[server.key], booted)
                for server in plan.servers
            ]
        errors = [error for future in futures if (error := future.exception()) is not None]
        for error in errors:
            if not isinstance(error, LcmError):
                raise error
        if errors:
            raise LcmError("; ".join(str(error) for error in errors))

    def _network(self, network: Network) -> str:
        cloud = self.backends.cloud(network.vim)
        if network.existing is not None:
            ids = cloud.find_networks(network.existing)
            if not ids:
                raise LcmError(f"Network not found with this criteria: '{network.existing}'")
            if len(ids) > 1:
                raise LcmError(
                    f"More than one network found with this criteria: '{network.existing}'"
                )
            return ids[0]
        if network.management:
            return cloud.management_network()
        if network.common_id is not None:
            return cloud.common_network(network, network.common_id)
        return cloud.create_network(network, self.tag)

    def _server(
        self, server: Server, networks: Mapping[str, str], user_data: str | None, booted: Booted
    ) -> None:
        index = server.member_vnf_index
        label: dict[str, Any] = {"vdu": server.vdu_id, "count": server.count_index}
        self.journal.write("vm", index, "building", state="BUILD", **label)
        cloud = self.backends.cloud(server.vim)
        # RO puts no key into a server with a configuration drive.
        keys = () if server.boot_data_drive else self.ssh_keys
        try:
            server_id = cloud.create_server(
                server, [networks[p.network] for p in server.ports], user_data, keys, self.tag
            )
            self.made(server, server_id)
            result = cloud.wait_active(server_id, self.timeout)
        except LcmError as error:
            self.journal.write("vm", index, str(error), state="ERROR", **label)
            raise LcmError(f"Error at VIM, {server.name}: {error}") from None
        address = next(
            (
                ip
                for port, ip in zip(server.ports, result.addresses, strict=True)
                if port.management
            ),
            None,
        )
        booted(server, result)
        for note in result.notes:
            self.journal.write("note", index, note)
        self.journal.write(
            "vm", index, f"active {address or ''}".strip(), state="ACTIVE", ip=address, **label
        )
