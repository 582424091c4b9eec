"""The lab's VIM and VCA behind the interfaces of ``lab.lcm.ports``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.descriptors.topology import Network, Server
from lab.errors import LcmError
from lab.lcm.keys import OpenSshInjector
from lab.lcm.ports import ActionOutcome, BootedServer, CharmEvent, Charms, Cloud
from lab.records.store import VIMS, Store
from lab.vca import Controller, Event, Model, UnitFailedError, VcaError, WaitTimeoutError
from lab.vim import NetworkSpec, PortSpec, ServerSpec, Vim, VimError, addresses, vca_prefix
from lab.vim.model import Port as VimPort


@contextmanager
def _errors() -> Iterator[None]:
    """Turn the errors of VIM and VCA into those of the orchestration; the texts stay."""
    try:
        yield
    except (VimError, VcaError) as error:
        raise LcmError(str(error)) from error


class VimCloud:
    """A VIM account."""

    def __init__(self, vim: Vim) -> None:
        """Use an open VIM."""
        self.vim = vim

    def find_networks(self, name: str) -> list[str]:
        """See :class:`lab.lcm.ports.Cloud`."""
        with _errors():
            return [n.id for n in self.vim.networks() if n.name == name]

    def management_network(self) -> str:
        """See :class:`lab.lcm.ports.Cloud`."""
        with _errors():
            for network in self.vim.networks():
                if network.management:
                    return network.id
        raise LcmError("the VIM account has no management network")

    def create_network(self, network: Network, tag: str) -> str:
        """See :class:`lab.lcm.ports.Cloud`."""
        with _errors():
            return self.vim.create_network(_network_spec(network), tag).id

    def common_network(self, network: Network, tag: str) -> str:
        """See :class:`lab.lcm.ports.Cloud`."""
        with _errors():
            return self.vim.create_network(_network_spec(network), tag, once=True).id

    def create_server(
        self,
        server: Server,
        networks: Sequence[str],
        user_data: str | None,
        ssh_keys: Sequence[str],
        tag: str,
    ) -> str:
        """See :class:`lab.lcm.ports.Cloud`."""
        spec = self._spec(server, networks, user_data, ssh_keys)
        with _errors():
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
                    # RO asks for one for management interfaces only.
                    floating=p.management and bool(self.vim.account.config.use_floating_ip),
                )
                for p, network in zip(server.ports, networks, strict=True)
            ),
            user_data=user_data,
            ssh_keys=tuple(ssh_keys),
        )

    def networks_of(self, server_id: str) -> list[str]:
        """See :class:`lab.lcm.ports.Cloud`."""
        with _errors():
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
        """See :class:`lab.lcm.ports.Cloud`."""
        with _errors():
            old = self.vim.server(server_id).ports
            spec = self._spec(server, [p.network_id for p in old], user_data, ssh_keys)
            ports = tuple(
                replace(
                    new,
                    ip=was.ip if same or wanted.management else new.ip or self._another(was),
                    mac=was.mac if same else new.mac,
                )
                for wanted, new, was in zip(server.ports, spec.ports, old, strict=True)
            )
            self.vim.delete_server(server_id)
            return self.vim.create_server(replace(spec, ports=ports), tag).id

    def _another(self, port: VimPort) -> str:
        """Return a free address of a port's network that is not the one it had.

        A cloud takes any free one; that it is another is what a caller must be ready for.
        """
        subnet = addresses.parse_subnet(self.vim.network(port.network_id).subnet)
        used = {
            other.ip
            for server in self.vim.servers()
            for other in server.ports
            if other.network_id == port.network_id
        }
        return addresses.take_ip(subnet, None, used)

    def start_server(self, server_id: str) -> None:
        """See :class:`lab.lcm.ports.Cloud`."""
        with _errors():
            self.vim.start(server_id)

    def stop_server(self, server_id: str) -> None:
        """See :class:`lab.lcm.ports.Cloud`."""
        with _errors():
            self.vim.stop(server_id)

    def delete_server(self, server_id: str) -> None:
        """See :class:`lab.lcm.ports.Cloud`."""
        with _errors():
            if any(server.id == server_id for server in self.vim.servers()):
                self.vim.delete_server(server_id)

    def wait_active(self, server_id: str, timeout: float) -> BootedServer:
        """See :class:`lab.lcm.ports.Cloud`."""
        with _errors():
            server = self.vim.wait_active(server_id, timeout)
        return BootedServer(
            id=server.id,
            # As OpenStack's connector reports it: the floating address first.
            addresses=tuple(f"{p.floating};{p.ip}" if p.floating else p.ip for p in server.ports),
            macs=tuple(p.mac for p in server.ports),
            notes=tuple(server.notes),
        )

    def delete_tag(self, tag: str) -> None:
        """See :class:`lab.lcm.ports.Cloud`."""
        with _errors():
            self.vim.delete_tag(tag)


def _network_spec(network: Network) -> NetworkSpec:
    return NetworkSpec(name=network.name, subnet=network.subnet, gateway=network.gateway)


class VcaCharms:
    """A model of the lab's controller."""

    def __init__(self, controller: Controller, name: str) -> None:
        """Use the model ``name``, which is made on the first use that needs it."""
        self.controller = controller
        self.name = name
        self._model: Model | None = None
        self._lock = threading.Lock()

    @property
    def model(self) -> Model:
        """The model, made when it is not there."""
        with self._lock, _errors():
            if self._model is None:
                exists = self.name in self.controller.models()
                self._model = (
                    self.controller.model(self.name)
                    if exists
                    else self.controller.add_model(self.name)
                )
            return self._model

    def start(self) -> None:
        """See :class:`lab.lcm.ports.Charms`."""
        model = self.model
        with _errors():
            model.start()

    def stop(self) -> None:
        """See :class:`lab.lcm.ports.Charms`."""
        model = self.model
        with _errors():
            model.stop()

    def deploy(self, application: str, charm: Path, units: int) -> None:
        """See :class:`lab.lcm.ports.Charms`."""
        with _errors():
            self.model.deploy(application, charm, num_units=units)

    def remove(self, application: str, timeout: float) -> None:
        """See :class:`lab.lcm.ports.Charms`."""
        model = self.model
        with _errors():
            model.remove_application(application)
            model.wait_for(lambda status: application not in status.applications, timeout)

    def upgrade(self, application: str, charm: Path) -> None:
        """See :class:`lab.lcm.ports.Charms`."""
        with _errors():
            self.model.upgrade_charm(application, charm)

    def application_status(self, application: str) -> tuple[str, str]:
        """See :class:`lab.lcm.ports.Charms`."""
        with _errors():
            status = self.model.status()
        app = status.applications.get(application)
        if app is None:
            raise LcmError(f"application {application} not found")
        return app.status, app.message

    def machine(self, application: str) -> str:
        """See :class:`lab.lcm.ports.Charms`."""
        with _errors():
            units = self.model.status().units.values()
        numbers = [unit.machine for unit in units if unit.name.startswith(f"{application}/")]
        if not numbers:
            raise LcmError(f"application {application} not found")
        return str(min(numbers))

    def set_config(self, application: str, options: Mapping[str, Any]) -> None:
        """See :class:`lab.lcm.ports.Charms`."""
        with _errors():
            self.model.set_config(application, dict(options))

    def add_relation(self, one: str, other: str) -> None:
        """See :class:`lab.lcm.ports.Charms`."""
        with _errors():
            self.model.add_relation(one, other)

    def run_action(
        self, application: str, name: str, params: Mapping[str, Any], timeout: float
    ) -> ActionOutcome:
        """See :class:`lab.lcm.ports.Charms`."""
        with _errors():
            result = self.model.run_action(application, name, dict(params), timeout=timeout)
        return ActionOutcome(result.status == "completed", result.results, result.message)

    def has_action(self, application: str, name: str) -> bool:
        """See :class:`lab.lcm.ports.Charms`."""
        with _errors():
            return name in self.model.actions(application)

    def wait_idle(self, timeout: float) -> bool:
        """See :class:`lab.lcm.ports.Charms`."""
        try:
            with _errors():
                self.model.wait_idle(timeout)
        except LcmError as error:
            # Units that stand in error have nothing to do either; failed_units tells of them.
            if isinstance(error.__cause__, UnitFailedError):
                return True
            if isinstance(error.__cause__, WaitTimeoutError):
                return False
            raise
        return True

    def failed_units(self) -> dict[str, str]:
        """See :class:`lab.lcm.ports.Charms`."""
        with _errors():
            status = self.model.status()
        return {
            unit.name: unit.agent_message or unit.message or "hook failed"
            for unit in status.units.values()
            if unit.agent == "error"
        }

    def subscribe(self, callback: Callable[[CharmEvent], None]) -> None:
        """See :class:`lab.lcm.ports.Charms`."""

        def listen(event: Event) -> None:
            translated = _charm_event(event, self.model.log_path)
            if translated is not None:
                callback(translated)

        with _errors():
            self.model.subscribe(listen)

    def destroy(self) -> None:
        """See :class:`lab.lcm.ports.Charms`."""
        with _errors():
            if self.name not in self.controller.models():
                return
            # Do not wait for a unit in error: its last hooks run only after the failed hook.
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
    """Return an event of the controller as one for displays, ``None`` if it is not worth it."""
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
    # The controller's own closing remark says no more than the exit status.
    own = [line for line in lines if line.strip() and '" failed: ' not in line]
    return own[-1].strip() if own else ""


class RealBackends:
    """Everything of one lab."""

    def __init__(self, home: Path) -> None:
        """Open the lab in ``home``; nothing is made until it is needed."""
        self.home = home
        self.store = Store(home)
        self._keys = OpenSshInjector(lambda: vca_prefix(home))
        self._charms: dict[str, VcaCharms] = {}
        self._controller: Controller | None = None

    @property
    def keys(self) -> OpenSshInjector:
        """See :class:`lab.lcm.ports.Backends`."""
        return self._keys

    def vim(self, vim_account: str) -> Vim:
        """Return the VIM of an account.

        Raises:
            LcmError: the account or its VIM does not exist.
        """
        document = self.store.find(VIMS, vim_account)
        if document is None:
            raise LcmError(f"vim account '{vim_account}' does not exist")
        with _errors():
            return Vim.open(self.home, document["name"])

    def cloud(self, vim_account: str) -> Cloud:
        """See :class:`lab.lcm.ports.Backends`."""
        return VimCloud(self.vim(vim_account))

    def controller(self) -> Controller:
        """Return the controller; charms run in the management network's namespace."""
        if self._controller is None:
            with _errors():
                self._controller = Controller(self.home, exec_prefix=vca_prefix(self.home))
        return self._controller

    def charms(self, ns_id: str) -> Charms:
        """See :class:`lab.lcm.ports.Backends`."""
        if ns_id not in self._charms:
            self._charms[ns_id] = VcaCharms(self.controller(), ns_id)
        return self._charms[ns_id]
