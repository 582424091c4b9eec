"""The orchestration's interface to the lab's VIM, VCA and cluster; tests replace it by fakes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lab.cluster import Cluster
from lab.descriptors.topology import Network, Server
from lab.errors import LcmError
from lab.lcm.keys import OpenSshInjector
from lab.records.store import VIMS, Store
from lab.vca import Controller, Event, Model, WaitTimeoutError
from lab.vim import NetworkSpec, PortSpec, ServerSpec, Vim, addresses, vca_prefix
from lab.vim.model import Port as VimPort


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
    """For a live display only: there are too many of these events for a log."""


class Cloud:
    """A VIM account."""

    def __init__(self, vim: Vim) -> None:
        self.vim = vim

    def find_networks(self, name: str) -> list[str]:
        """Return the ids of all networks of exactly that name."""
        return [n.id for n in self.vim.networks() if n.name == name]

    def management_network(self) -> str:
        """Return the id of the account's management network."""
        return self.vim.management_network().id

    def create_network(self, network: Network, tag: str) -> str:
        """Make a network and return its id."""
        return self.vim.create_network(_network_spec(network), tag).id

    def common_network(self, network: Network, tag: str) -> str:
        """Return the id of a tag's only network; create it if it is missing."""
        return self.vim.create_network(_network_spec(network), tag, once=True).id

    def create_server(
        self,
        server: Server,
        networks: Sequence[str],
        user_data: str | None,
        ssh_keys: Sequence[str],
        tag: str,
    ) -> str:
        """Start a server whose n-th port is on the n-th network; return its id."""
        spec = self._spec(server, networks, user_data, ssh_keys)
        return self.vim.create_server(spec, tag).id

    def _spec(
        self,
        server: Server,
        networks: Sequence[str],
        user_data: str | None,
        ssh_keys: Sequence[str],
    ) -> ServerSpec:
        return ServerSpec(
            name=server.name,
            hostname=server.hostname,
            image=server.image,
            vcpus=server.vcpus,
            ram_mib=server.ram_mib,
            disk_gb=server.disk_gb,
            ports=tuple(
                PortSpec(
                    network_id=network,
                    ip=p.ip,
                    mac=p.mac,
                    port_security=p.port_security,
                    # RO requests a floating address for management interfaces only.
                    floating=p.management and bool(self.vim.account.config.use_floating_ip),
                )
                for p, network in zip(server.ports, networks, strict=True)
            ),
            user_data=user_data,
            ssh_keys=tuple(ssh_keys),
        )

    def has_server(self, server_id: str | None, name: str, tag: str) -> bool:
        """Tell whether there is a server of this id, or of this name in a service."""
        present = self.vim.recorded(tag)
        return any(each.id == server_id or each.name == name for each in present)

    def own_networks(self, tag: str) -> dict[str, str]:
        """Return the ids of a service's own networks, by name."""
        return {n.name: n.id for n in self.vim.networks() if n.tag == tag}

    def networks_of(self, server_id: str) -> list[str]:
        """Return the ids of the networks of a server's ports."""
        return [port.network_id for port in self.vim.server(server_id).ports]

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
        all MAC addresses too. If there is no server with this id, the service's server of this
        name is replaced: an instantiation or a healing that failed may not have recorded its id.
        """
        present = {each.name: each.id for each in self.vim.recorded(tag)}
        if server_id not in present.values():
            server_id = present.get(server.name, server_id)
        old = self.vim.server(server_id).ports
        spec = self._spec(server, [p.network_id for p in old], user_data, ssh_keys)
        ports: list[PortSpec] = []
        for port, new, was in zip(server.ports, spec.ports, old, strict=True):
            ip = was.ip if same or port.management else new.ip or self._another(was, ports)
            mac = was.mac if same else new.mac
            ports.append(replace(new, ip=ip, mac=mac, floating=was.floating or new.floating))
        return self.vim.replace_server(server_id, replace(spec, ports=tuple(ports)), tag).id

    def _another(self, port: VimPort, chosen: Sequence[PortSpec]) -> str:
        """Return a free address of a port's network that is not the one it had.

        A cloud takes any free address. The lab always changes it, because a caller must not rely
        on the old one. ``chosen`` are the new server's ports so far.
        """
        network = self.vim.network(port.network_id)
        used = {new.ip for new in chosen if new.network_id == network.id} | {network.gateway}
        ports = [p for server in self.vim.recorded() for p in server.ports]
        used |= {p.ip for p in ports if p.network_id == network.id}
        subnet = addresses.parse_subnet(network.subnet)
        return addresses.take_ip(subnet, None, {ip for ip in used if ip})

    def start_server(self, server_id: str) -> None:
        """Start a server that is stopped."""
        self.vim.start(server_id)

    def stop_server(self, server_id: str) -> None:
        """Stop a server; it keeps its disk and ports."""
        self.vim.stop(server_id)

    def delete_server(self, server_id: str) -> None:
        """Delete a server; a missing one is no error."""
        if any(server.id == server_id for server in self.vim.recorded()):
            self.vim.delete_server(server_id)

    def wait_active(self, server_id: str, timeout: float) -> BootedServer:
        """Wait until a server has booted and applied its user data."""
        server = self.vim.wait_active(server_id, timeout)
        return BootedServer(
            id=server.id,
            # As OpenStack's connector reports it: the floating address first.
            addresses=tuple(f"{p.floating};{p.ip}" if p.floating else p.ip for p in server.ports),
            macs=tuple(p.mac for p in server.ports),
            notes=tuple(server.notes),
        )

    def delete_tag(self, tag: str) -> None:
        """Delete all servers and networks made under ``tag``; nothing to delete is no error."""
        self.vim.delete_tag(tag)


def _network_spec(network: Network) -> NetworkSpec:
    return NetworkSpec(name=network.name, subnet=network.subnet, gateway=network.gateway)


class Charms:
    """A model of the lab's controller."""

    def __init__(self, controller: Controller, name: str) -> None:
        """Use the model ``name``; it is created at its first use."""
        self.controller = controller
        self.name = name
        self._model: Model | None = None
        self._lock = threading.Lock()

    @property
    def model(self) -> Model:
        """The model, created if it is missing."""
        with self._lock:
            if self._model is None:
                exists = self.name in self.controller.models()
                make = self.controller.model if exists else self.controller.add_model
                self._model = make(self.name)
            return self._model

    def start(self) -> None:
        """Let charms run in this process, until ``stop``."""
        self.model.start()

    def stop(self) -> None:
        """Finish the hooks in progress and stop."""
        self.model.stop()

    def deploy(self, application: str, charm: Path, units: int) -> None:
        """Deploy a charm folder."""
        self.model.deploy(application, charm, num_units=units)

    def remove(self, application: str, timeout: float) -> None:
        """Remove an application and wait until its units are gone; a missing one is no error."""
        model = self.model
        if application not in model.status().applications:
            return
        model.remove_application(application)
        model.wait_for(lambda status: application not in status.applications, timeout)

    def upgrade(self, application: str, charm: Path) -> None:
        """Refresh an application to another revision of its charm."""
        self.model.upgrade_charm(application, charm)

    def application_status(self, application: str) -> tuple[str, str]:
        """Return (workload status, message) of an application."""
        status = self.model.status()
        app = status.applications.get(application)
        if app is None:
            raise LcmError(f"application {application} not found")
        return app.status, app.message

    def machine(self, application: str) -> str:
        """Return the number of the machine of an application's first unit."""
        units = self.model.status().units.values()
        numbers = [unit.machine for unit in units if unit.name.startswith(f"{application}/")]
        if not numbers:
            raise LcmError(f"application {application} not found")
        return str(min(numbers))

    def set_config(self, application: str, options: Mapping[str, Any]) -> None:
        """Set options of an application."""
        self.model.set_config(application, dict(options))

    def add_relation(self, one: str, other: str) -> None:
        """Relate two ``application:endpoint``."""
        self.model.add_relation(one, other)

    def run_action(
        self, application: str, name: str, params: Mapping[str, Any], timeout: float
    ) -> ActionOutcome:
        """Run an action on the leader and wait for it."""
        result = self.model.run_action(application, name, dict(params), timeout=timeout)
        return ActionOutcome(result.status == "completed", result.results, result.message)

    def has_action(self, application: str, name: str) -> bool:
        """Say whether the charm of an application declares an action."""
        return name in self.model.actions(application)

    def wait_idle(self, timeout: float) -> bool:
        """Wait until no unit has anything to do; ``False`` when time ran out."""
        try:
            self.model.wait_idle(timeout)
        except WaitTimeoutError:
            return False
        return True

    def failed_units(self) -> dict[str, str]:
        """Return unit name -> reason for every unit whose hook keeps failing or agent is lost."""
        status = self.model.status()
        return {
            unit.name: unit.message or "hook failed"
            for unit in status.units.values()
            if unit.agent in ("error", "lost")
        }

    def subscribe(self, callback: Callable[[CharmEvent], None]) -> None:
        """Call ``callback`` for everything the charms do from now on."""

        def listen(event: Event) -> None:
            translated = _charm_event(event, self.model.log_path)
            if translated is not None:
                callback(translated)

        self.model.subscribe(listen)

    def destroy(self) -> None:
        """Remove the model with its contents; a missing one is no error."""
        if self.name not in self.controller.models():
            return
        # Do not wait for a unit in error or without an agent: its last hooks would not run.
        stuck = bool(self.failed_units())
        self.controller.destroy_model(self.name, timeout=_LAST_HOOKS, force=stuck)


#: Seconds the charms of a service that is deleted get for their last hooks.
_LAST_HOOKS = 30.0

_QUIET = {
    "hook-started": "running {name}",
    "hook-retried": "retrying {name}",
    "action-started": "action {name}",
}


def _charm_event(event: Event, log: Callable[[str], Path]) -> CharmEvent | None:
    """Return an event of the controller as one for displays, ``None`` if they do not show it."""
    if event.kind == "status":
        text = f"{event.name}: {event.message}" if event.message else event.name
        return CharmEvent(event.app, text, status=event.name)
    if event.kind == "hook-failed":
        reason = _last_words(log(event.unit)) or event.message
        return CharmEvent(event.app, f"{event.name} failed: {reason}", status="error")
    if event.kind in _QUIET:
        return CharmEvent(event.app, _QUIET[event.kind].format(name=event.name), quiet=True)
    return None


def _last_words(path: Path) -> str:
    """Return the last line a failed hook wrote, which for Python names the exception."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - 4096))
            lines = stream.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    # Skip the line that the controller adds: it has only the exit status.
    own = [line for line in lines if line.strip() and '" failed: ' not in line]
    return own[-1].strip() if own else ""


class Pods:
    """The namespace of a network service in OSM's own Kubernetes."""

    def __init__(self, cluster: Cluster, ns_id: str) -> None:
        """Use the namespace named after a service; it is made with the first release."""
        self._cluster = cluster
        self._namespace = ns_id

    def install(self, release: str, chart: Path, values: Mapping[str, Any], timeout: float) -> None:
        """Install a chart and wait until its pod is ready."""
        place = str(chart.resolve())
        self._call("prepare")
        self._call("install", release=release, chart=place, values=dict(values), timeout=timeout)

    def ssh_key(self, release: str, timeout: float) -> str:
        """Return the public key of a release's execution environment."""
        return str(self._call("ssh_key", release=release, timeout=timeout))

    def primitive(
        self, release: str, name: str, params: Mapping[str, Any], timeout: float, limit: float
    ) -> tuple[str, str]:
        """Run a primitive; return status and detailed message of the last reply."""
        words = {"release": release, "name": name, "params": dict(params)}
        status, message = self._call("primitive", **words, timeout=timeout, limit=limit)
        return str(status), str(message)

    def destroy(self) -> None:
        """Remove the namespace with its releases, and the cluster with the last one."""
        if self._cluster.exists() and not self._call("destroy"):
            self._cluster.stop()

    def _call(self, what: str, **words: Any) -> Any:
        return self._cluster.call(what, namespace=self._namespace, **words)


class Backends:
    """All VIM accounts and models of one lab.

    Attributes:
        keys: RO's key injection.
    """

    def __init__(self, home: Path) -> None:
        """Open the lab in ``home``; nothing is made until it is needed."""
        self.home = home
        self.store = Store(home)
        self.keys = OpenSshInjector(lambda: vca_prefix(home))
        self._charms: dict[str, Charms] = {}
        self._controller: Controller | None = None

    def vim(self, vim_account: str) -> Vim:
        """Return the VIM of an account.

        Raises:
            LcmError: the account or its VIM does not exist.
        """
        document = self.store.find(VIMS, vim_account)
        if document is None:
            raise LcmError(f"vim account '{vim_account}' does not exist")
        return Vim.open(self.home, document["name"])

    def cloud(self, vim_account: str) -> Cloud:
        """Return the VIM account with that id."""
        return Cloud(self.vim(vim_account))

    def controller(self) -> Controller:
        """Return the controller; charms run in the management network's namespace."""
        if self._controller is None:
            self._controller = Controller(self.home, exec_prefix=vca_prefix(self.home))
        return self._controller

    def cluster(self) -> Cluster:
        """Return OSM's own Kubernetes; it is in the management network's namespace."""
        return Cluster(self.home, exec_prefix=vca_prefix(self.home))

    def pods(self, ns_id: str) -> Pods:
        """Return the namespace of a network service."""
        return Pods(self.cluster(), ns_id)

    def charms(self, ns_id: str) -> Charms:
        """Return the model of a network service; it is created at its first use."""
        if ns_id not in self._charms:
            self._charms[ns_id] = Charms(self.controller(), ns_id)
        return self._charms[ns_id]
