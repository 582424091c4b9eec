"""Deployment at the VIMs: what RO does, networks first, then all servers at once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from lab.descriptors.topology import Network, Server
from lab.errors import LcmError
from lab.lcm.backends import Backends
from lab.lcm.request import Request
from lab.records.journal import Journal
from lab.together import failures
from lab.vim.model import Server as VimServer
from lab.vim.model import ServerSpec, only

Booted = Callable[[Server, VimServer], None]


def server_spec(
    server: Server, networks: Sequence[str], user_data: str | None, ssh_keys: Sequence[str]
) -> ServerSpec:
    """Return what the VIM is asked for: a server whose n-th port is on the n-th network."""
    ports = zip(server.ports, networks, strict=True)
    return replace(
        server,
        ports=tuple(replace(port, network_id=network) for port, network in ports),
        user_data=user_data,
        # RO puts no key into a server with a configuration drive.
        ssh_keys=() if server.config_drive else tuple(ssh_keys),
    )


@dataclass(frozen=True)
class VimDeployment:
    """One deployment; networks and servers get the service's id, so that ns-delete finds them."""

    backends: Backends
    journal: Journal
    request: Request
    timeout: float
    known: Mapping[str, str] = field(default_factory=dict)
    """``Network.key`` -> id, of networks that exist already."""
    made: Callable[[Server, str], None] = lambda *_: None
    """Called with the id of each server, before it is known whether it boots."""

    def run(self, booted: Booted) -> None:
        """Create what is planned; ``booted`` is called per server, in any order.

        After a failure of a network nothing else is made. If servers fail, the others stay, as in
        OSM.
        """
        plan = self.request.plan
        keys = (self.backends.keys.make_key(self.request.ro_key), *self.request.ssh_keys)
        # Render all user data first: after a template error there is nothing to clean up.
        rendered = {server.key: self.request.user_data(server) for server in plan.servers}
        ids = {n.key: self.known.get(n.key) or self._network(n) for n in plan.networks}
        servers = [
            (server.name, partial(self._server, server, ids, rendered[server.key], keys, booted))
            for server in plan.servers
        ]
        if failed := failures(servers, "vim"):
            raise LcmError("; ".join(str(error) for _, error in failed))

    def _network(self, network: Network) -> str:
        vim = self.backends.vim(network.vim)
        if network.existing is not None:
            named = [n for n in vim.networks() if n.name == network.existing]
            return only(named, "network", network.existing).id
        if network.management:
            return vim.management_network().id
        if network.common_id is not None:
            return vim.create_network(network, network.common_id, once=True).id
        return vim.create_network(network, self.request.ns_id).id

    def _server(
        self,
        server: Server,
        networks: Mapping[str, str],
        user_data: str | None,
        ssh_keys: Sequence[str],
        booted: Booted,
    ) -> None:
        index = server.member_vnf_index
        label: dict[str, Any] = {"vdu": server.vdu_id, "count": server.count_index}
        self.journal.write("vm", index, "building", state="BUILD", **label)
        vim = self.backends.vim(server.vim)
        try:
            on = [networks[port.network_id] for port in server.ports]
            spec = server_spec(server, on, user_data, ssh_keys)
            server_id = vim.create_server(spec, self.request.ns_id).id
            self.made(server, server_id)
            result = vim.wait_active(server_id, self.timeout)
        except LcmError as error:
            self.journal.write("vm", index, str(error), state="ERROR", **label)
            raise LcmError(f"Error at VIM, {server.name}: {error}") from None
        ports = zip(server.ports, result.ports, strict=True)
        address = next((port.address for planned, port in ports if planned.management), None)
        booted(server, result)
        for note in result.notes:
            self.journal.write("note", index, note)
        self.journal.write(
            "vm", index, f"active {address or ''}".strip(), state="ACTIVE", ip=address, **label
        )
