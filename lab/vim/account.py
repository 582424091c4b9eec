"""A VIM account: the networks and servers of one virtual infrastructure, kept on disk.

Every method may be called from any process or thread at any time. A server is recorded before it
is made, so that :meth:`Vim.destroy` finds it after a crash. :func:`clean` needs no record.
"""

import contextlib
import ipaddress
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.documents import Stored
from lab.errors import VimError
from lab.together import for_each
from lab.vim import addresses, cgroups, cloudinit, fabric, host, planning
from lab.vim.model import ACTIVE, BUILD, Network, NetworkSpec, Server, ServerSpec
from lab.vim.namespaced import Namespaced, mounts_below, unmount
from lab.vim.qemu.machine import Machine
from lab.vim.registry import Registry
from lab.vim.site import UPLINK, Site
from lab.vim.store import NAME, Account, Config, Home, Image, ServerRecord, State, locked, parsed
from lab.vim.vdu import Tell, Vdu

#: The kinds of VDU by the name that an account is made with.
KINDS: dict[str, type[Vdu]] = {"namespaces": Namespaced, "qemu": Machine}

#: Seconds that sshd may take after cloud-init before a server counts as active without it.
_SSHD_GRACE = 10.0


def vca_prefix(home: Path | str) -> list[str]:
    """Words to put before a command so that it runs where the charms do.

    That is a network namespace with an interface in the management network of every VIM of the
    lab. It is made if it is missing and the lab has a VIM. Charms for an OpenStack run where the
    lab does.
    """
    place = Home.at(home)
    if place.openstacks:
        return []
    if not fabric.netns_exists(place.vca_netns) and (names := Vim.names(place.path)):
        with locked(place.lock):
            fabric.make_vca(place.vca_netns)
            for name in names:
                Vim._read(place, name)._restore()
    return fabric.enter(place.vca_netns)


def _management_subnet(config: Config, number: int) -> addresses.IPNetwork:
    return addresses.parse_subnet(config.management_subnet or f"10.250.{number}.0/24")


def _gateway(subnet: addresses.IPNetwork) -> addresses.IPAddress:
    return subnet.network_address + 1


def same_config(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Say whether two configurations make the same networks and images."""
    return parsed(Config, one) == parsed(Config, other)


class Vim:
    """One VIM account; make it with :meth:`create`, find it again with :meth:`open`."""

    def __init__(self, home: Home, name: str, account: Account) -> None:
        """Use :meth:`create` or :meth:`open`."""
        self.home = home
        self.name = name
        self.account = account
        self.directory = home.vims / name
        self._state = Stored(self.directory / "state.json", State, VimError)

    # --- the account -------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        home: Path | str,
        name: str,
        config: Mapping[str, Any] | None = None,
        kind: str = "namespaces",
        tell: Tell = lambda _: None,
    ) -> "Vim":
        """Make an account with its management network.

        Args:
            name: a checked name, see :mod:`lab.vim.connector`.
            config: ``management_network_name`` (mgmtnet), ``management_subnet``
                (10.250.<number>.0/24), ``images`` (a mapping from image name to
                ``default_user`` and ``keep``) and the other fields of
                :class:`lab.vim.store.Config`; the rest of an OSM VIM config is ignored.
            kind: one of :data:`KINDS`.
            tell: called with a line for each step that takes minutes (making an image).
        """
        place = Home.at(home)
        settings = parsed(Config, config or {})
        KINDS[kind].prepare(settings, tell)
        with locked(place.lock):
            directory = place.vims / name
            if (directory / "account.json").exists():
                raise VimError(f"A VIM account with name '{name}' already exists.")
            others = [cls._read(place, other) for other in cls.names(place.path)]
            numbers = {other.account.number for other in others}
            number = next((n for n in range(1, 256) if n not in numbers), None)
            if number is None:
                raise VimError("There are 255 VIM accounts in this lab: delete one first.")
            subnet = _management_subnet(settings, number)
            for other in others:
                used = ipaddress.ip_network(other.management_network().subnet)
                if used.version == subnet.version and used.overlaps(subnet):
                    raise VimError(
                        f"The management subnet {subnet} overlaps {used} of VIM '{other.name}'."
                    )
            planning.check_site(
                settings, {other.name: other.account.config for other in others}, subnet
            )
            account = Account(name=name, number=number, kind=kind, config=settings)
            floating = bool(settings.use_floating_ip)
            spec = NetworkSpec(
                settings.management_network_name,
                str(subnet),
                gateway=str(_gateway(subnet)),
                management=True,
                routed=floating,
                nat=floating,
            )
            networks = [planning.plan_network(spec, "", [], settings)]
            networks += [
                planning.plan_network(planning.site_spec(given), "", [], settings)
                for given in settings.networks
            ]
            directory.mkdir(parents=True, exist_ok=True)
            vim = cls(place, name, account)
            vim._state.write(State(networks={network.id: network for network in networks}))
            record = directory / "account.json"
            try:
                Stored(record, Account, VimError).write(account)  # last: now it exists
                vim._make()
            except BaseException:
                # Also after an interrupt; the record first, as another one may follow.
                record.unlink(missing_ok=True)
                vim._destroy()
                raise
        return vim

    @classmethod
    def open(cls, home: Path | str, name: str) -> "Vim":
        place = Home.at(home)
        if not NAME.fullmatch(name) or not (place.vims / name / "account.json").exists():
            raise VimError(f"VIM account '{name}' could not be found.")
        vim = cls._read(place, name)
        vim.restore()
        return vim

    @classmethod
    def _read(cls, home: Home, name: str) -> "Vim":
        record = Stored(home.vims / name / "account.json", Account, VimError)
        return cls(home, name, record.read())

    @staticmethod
    def names(home: Path | str) -> list[str]:
        vims = Home.at(home).vims
        return sorted(path.parent.name for path in vims.glob("*/account.json"))

    @property
    def fabric(self) -> str:
        """Name of the network namespace with this VIM's bridges."""
        return self.home.fabric_netns(self.account.number)

    def restore(self) -> None:
        """Make the fabric again when it is gone, as after a restart of the machine.

        If only a program of the account has ended, start that; the fabric stays.
        """
        if not self._complete() or self._ended():
            with locked(self.home.lock):
                if not self._complete():
                    self._make()
                for start in self._ended():
                    start()

    def _complete(self) -> bool:
        return fabric.netns_exists(self.fabric) and not self._unfinished.exists()

    def _ended(self) -> list[Callable[[], None]]:
        """What starts those of the site's wire and the registry that do not run."""
        programs: list[tuple[Path, Callable[[], None]]] = []
        if self.account.config.external_subnet is not None:
            programs.append((self.site.group, self._make_site))
        if self.account.config.registry:
            registry = self._registry
            programs.append((registry.group, registry.start))
        return [start for group, start in programs if not cgroups.pids(group)]

    @property
    def _unfinished(self) -> Path:
        """The marker that the networks are not complete."""
        return self.directory / "unfinished"

    def _make(self) -> None:
        """Make the fabric; what an interrupted attempt left of it goes first."""
        self._state.read()  # refused if the account was deleted meanwhile
        self._unfinished.touch()
        fabric.delete_netns(self.fabric)
        self._restore()
        self._unfinished.unlink()

    def _restore(self) -> None:
        host.join(self.home)
        fabric.make_vca(self.home.vca_netns)
        fabric.make_fabric(self.fabric)
        state = self._state.read()
        if self.account.config.external_subnet is not None:
            self._make_site()
        for network in state.networks.values():
            self._make_network(network)
        self._apply_rules(state)
        if self.account.config.registry:
            self._registry.start()

    def _make_site(self) -> None:
        config = self.account.config
        assert config.external_subnet is not None  # noqa: S101
        routed = [n.subnet for n in config.networks if not n.nat]
        self.site.make(config.external_subnet, routed, config.uplink)
        if config.use_floating_ip:
            self.site.join_vca(self.home.vca_netns)

    @property
    def _registry(self) -> Registry:
        subnet = _management_subnet(self.account.config, self.account.number)
        return Registry(
            self.site.router if self.account.config.use_floating_ip else self.home.vca_netns,
            str(_gateway(subnet)),
            self._hierarchy() / self.home.prefix / f"registry{self.account.number}",
            self.directory,
        )

    @property
    def site(self) -> Site:
        """The router of this VIM and its uplink; there only with an external network."""
        number = self.account.number
        return Site(
            self.home.router_netns(number),
            self.home.wan_netns,
            number,
            self._hierarchy() / self.home.prefix / f"wire{number}",
            self.directory,
        )

    def destroy(self) -> None:
        """Remove the account with all its servers and networks; also after a crash."""
        with locked(self.home.lock):
            self._destroy()

    def _destroy(self) -> None:
        with contextlib.suppress(VimError):  # a damaged record: the directory has the servers, too
            for_each(self._remove_server, list(self._state.read().servers))
        servers = self.directory / "servers"
        for directory in sorted(servers.iterdir()) if servers.is_dir() else []:
            self._vdu(directory.name).remove()
        for point in mounts_below(self.directory):
            unmount(point)
        if self.account.config.registry:
            self._registry.stop()
        self.site.remove()
        fabric.delete_netns(self.fabric)
        fabric.delete_device(self.home.vca_netns, f"vim{self.account.number}")
        shutil.rmtree(self.directory, ignore_errors=True)
        if not self.names(self.home.path):
            fabric.delete_netns(self.home.vca_netns)
            fabric.delete_netns(self.home.wan_netns)
            for top in filter(None, (self._hierarchy(), cgroups.cpu1_mount())):
                with contextlib.suppress(OSError):  # missing, or not empty
                    (top / self.home.prefix).rmdir()
            host.leave(self.home)

    # --- networks ----------------------------------------------------------------------------

    def networks(self) -> list[Network]:
        """All networks, the management network first."""
        return list(self._state.read().networks.values())

    def network(self, network_id: str) -> Network:
        return planning.network(self._state.read(), network_id)

    def management_network(self) -> Network:
        """The network over which the charms reach the servers."""
        return next(network for network in self.networks() if network.management)

    def create_network(self, spec: NetworkSpec, tag: str, once: bool = False) -> Network:
        """Make a network; its ``tag`` is its owner (a network service's id).

        ``once``: if a network of this tag exists, return it, whatever its specification is.
        """
        # The record is written after the network is made: its readers may use it at once.
        with self._state.change() as state:
            existing = [n for n in state.networks.values() if n.tag == tag] if once else []
            if existing:
                return existing[0]
            used = [n.subnet for n in state.networks.values()]
            network = planning.plan_network(spec, tag, used, self.account.config)
            try:
                self._make_network(network)
            except VimError:
                fabric.delete_device(self.fabric, network.bridge)
                raise
            state.networks[network.id] = network
        return network

    def delete_network(self, network_id: str) -> None:
        with self._state.change() as state:
            network = planning.network(state, network_id)
            if any(port.network_id == network_id for port in planning.ports(state)):
                raise VimError(
                    f"Unable to complete operation on network {network_id}: there are one or "
                    "more ports still in use on the network."
                )
            fabric.delete_device(self.fabric, network.bridge)
            del state.networks[network_id]

    def _make_network(self, network: Network) -> None:
        fabric.make_network(self.fabric, network)
        if network.routed:
            self.site.attach(self.fabric, network)
        elif network.management:
            fabric.join_vca(self.fabric, self.home.vca_netns, self.account.number, network)

    def capture(self, network_id: str, path: Path | str) -> AbstractContextManager[None]:
        """Write every frame on a network to a pcap file while the block runs."""
        return fabric.capture(self.fabric, self.network(network_id).bridge, Path(path))

    @contextlib.contextmanager
    def host(self, network_id: str) -> Iterator[tuple[list[str], str]]:
        """Have a host on a network while the block runs: a namespace with an interface eth0.

        Yields the words before a command that runs there, and its address with prefix length. The
        address is the last free one of the network; no server keeps away from it.
        """
        with self._state.change() as state:
            network = planning.network(state, network_id)
            taken = {port.ip for port in planning.ports(state) if port.network_id == network_id}
            taken |= {str(network.gateway), *network.dhcp_ports}
            name, address = fabric.add_host(self.fabric, self.home.prefix, network, taken)
        try:
            yield fabric.enter(name), address
        finally:
            fabric.remove_host(name)

    def capture_uplink(self, path: Path | str) -> AbstractContextManager[None]:
        """Write every packet on the site's uplink to a pcap file while the block runs."""
        if self.account.config.external_subnet is None:
            raise VimError(f"VIM account '{self.name}' has no external network.")
        return fabric.capture(self.site.router, UPLINK, Path(path))

    # --- servers -----------------------------------------------------------------------------

    def servers(self, tag: str | None = None) -> list[Server]:
        """All servers, or those of a tag, as they are now."""
        records = self._state.read().servers.values()
        return [self._observe(r) for r in records if tag is None or r.server.tag == tag]

    def server(self, server_id: str) -> Server:
        return self._observe(self._record(server_id))

    def create_server(self, spec: ServerSpec, tag: str) -> Server:
        """Make a server and start it; it boots while the caller goes on (:meth:`wait_active`).

        Nothing is left of a server that cannot be made.
        """
        image = self._check(spec)
        with self._state.change() as state:
            record = self._plan(spec, tag, state)
            self._apply_rules(state)
        return self._make_server(spec, image, record)

    def _check(self, spec: ServerSpec, old: Path | None = None) -> Image:
        image = planning.check_server(spec, self.account.config)
        KINDS[self.account.kind].check_server(spec, image, old)
        return image

    def _plan(self, spec: ServerSpec, tag: str, state: State) -> ServerRecord:
        record = planning.plan_server(spec, tag, state, self.account.config)
        state.servers[record.server.id] = record
        return record

    def _make_server(
        self, spec: ServerSpec, image: Image, record: ServerRecord, old: ServerRecord | None = None
    ) -> Server:
        """Make a recorded server; if that fails, record the old one in its place."""
        server = record.server
        vdu = self._vdu(server.id)
        try:
            with locked(vdu.directory / "lock"):
                vdu.make(spec, image, server, self._state.read().networks)
                server = replace(server, notes=tuple(vdu.power_on(record)))
            with self._state.change() as state:
                if server.id not in state.servers:
                    raise VimError(f"Instance {server.id} was deleted while it was being made.")
                record = state.servers[server.id]
                state.servers[server.id] = record.model_copy(
                    update={"server": server, "made": True}
                )
        except BaseException:
            # Also after an interrupt: remove the incomplete server.
            with self._removed(server.id) as state:
                if old is not None:
                    state.servers[old.server.id] = old
            raise
        return self._observe(self._record(server.id))

    def wait_active(self, server_id: str, timeout: float = 60.0) -> Server:
        """Wait until a server's system has booted and cloud-init is done (``timeout``: seconds).

        The server is ACTIVE, as Nova never looks at cloud-init. Errors that it reported are quoted
        in the notes; with the account's ``strict_day0`` they are raised.
        """
        vdu = self._vdu(server_id)
        end = time.monotonic() + timeout
        while True:
            server = self.server(server_id)
            if server.status == ACTIVE:
                break
            if server.status != BUILD:
                why = server.fault or "it powered itself off"
                raise VimError(f"Server '{server.name}' did not become active: {why}.")
            if time.monotonic() > end:
                raise VimError(
                    f"Server '{server.name}' is not active after {timeout:.0f} s; its console "
                    f"is in {vdu.console_log}."
                )
            time.sleep(vdu.poll)
        errors, notes = vdu.cloud_init_result(), server.notes
        if errors:
            output = cloudinit.end_of(vdu.log_tail("/var/log/cloud-init-output.log"))
            told = (
                f"cloud-init in server '{server.name}' reported: {'; '.join(errors)} (its output "
                f"ends with: {output})."
            )
            if self.account.config.strict_day0:
                raise VimError(told)
            notes = (*notes, told)
        grace = min(end, time.monotonic() + _SSHD_GRACE)
        while not vdu.listens(22) and time.monotonic() < grace:
            time.sleep(0.02)
        return replace(self.server(server_id), notes=notes)

    def stop(self, server_id: str, timeout: float | None = None) -> Server:
        """Shut a server down; it keeps its disk, addresses and networks.

        With a timeout of 0 seconds its power is cut instead.
        """
        with self._held(server_id) as (vdu, _):
            vdu.power_off(timeout)
        return self.server(server_id)

    def start(self, server_id: str) -> Server:
        """Start a server, if it does not run."""
        with self._held(server_id) as (vdu, record):
            if not vdu.on():
                self.restore()
                vdu.kill()
                vdu.power_on(record)
        return self.server(server_id)

    def reboot(self, server_id: str) -> Server:
        """Restart a server's system; if it does not shut down by itself, kill it first."""
        with self._held(server_id) as (vdu, record):
            if not vdu.reboot():
                vdu.kill()
                vdu.power_on(record)
        return self.server(server_id)

    def delete_server(self, server_id: str) -> None:
        """Remove a server with its disk, ports and files; a missing one is no error."""
        if server_id in self._state.read().servers:
            self._remove_server(server_id)

    def replace_server(self, server_id: str, spec: ServerSpec, tag: str, same: bool) -> Server:
        """Remove a server and make another one, see :func:`lab.vim.planning.renewed`.

        After an error the old server may stay without a disk, with its addresses, so that it can be
        replaced again.
        """
        old = self._record(server_id)
        image = self._check(spec, self._vdu(server_id).directory)
        spec = planning.renewed(spec, old.server, same, self._state.read())
        # In one change: nobody else gets the addresses meanwhile.
        with self._removed(server_id) as state:
            record = self._plan(spec, tag, state)
        return self._make_server(spec, image, record, old)

    def delete_tag(self, tag: str) -> None:
        """Remove all servers and then all networks of a tag, if there are any."""
        state = self._state.read()
        mine = [r.server.id for r in state.servers.values() if r.server.tag == tag]
        for_each(self._remove_server, mine)
        for network in state.networks.values():
            if network.tag == tag and not network.management:
                self.delete_network(network.id)

    def console(
        self,
        server_id: str,
        argv: Sequence[str],
        input: str | bytes | None = None,
        timeout: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as root in a server; for operators and tests, never for charms."""
        self._record(server_id)
        return self._vdu(server_id).console(argv, input, timeout)

    def terminal(self, server_id: str) -> int:
        """Run a shell as root in a server on this process's terminal; return its exit code."""
        self._record(server_id)
        return self._vdu(server_id).terminal()

    # --- inner -------------------------------------------------------------------------------

    def _vdu(self, server_id: str) -> Vdu:
        group = self._hierarchy() / self.home.prefix / server_id
        directory = self.directory / "servers" / server_id
        registry = self._registry.address if self.account.config.registry else ""
        kind, metadata = KINDS[self.account.kind], self.account.config.metadata
        return kind(directory, group, self.fabric, self.home.path, registry, metadata)

    def _hierarchy(self) -> Path:
        return cgroups.hierarchy(host.REGISTRY / "cgroup")

    def _record(self, server_id: str) -> ServerRecord:
        try:
            return self._state.read().servers[server_id]
        except KeyError:
            raise VimError(f"Instance {server_id} could not be found.") from None

    @contextlib.contextmanager
    def _held(self, server_id: str) -> Iterator[tuple[Vdu, ServerRecord]]:
        self._record(server_id)  # before the lock, which would make the directory
        vdu = self._vdu(server_id)
        with locked(vdu.directory / "lock"):
            # Again: it may have been deleted meanwhile.
            yield vdu, self._record(server_id)

    def _observe(self, record: ServerRecord) -> Server:
        server = record.server
        if not record.made:
            return replace(server, status=BUILD)
        status, fault = self._vdu(server.id).status()
        return replace(server, status=status, fault=fault)

    def _remove_server(self, server_id: str) -> None:
        with self._removed(server_id):
            pass

    @contextlib.contextmanager
    def _removed(self, server_id: str) -> Iterator[State]:
        """Remove a server; the block may change the state without it before that is written."""
        vdu = self._vdu(server_id)
        with locked(vdu.directory / "lock"):
            vdu.remove()
        with self._state.change() as state:
            record = state.servers.pop(server_id, None)
            yield state
            if fabric.netns_exists(self.fabric):
                self._apply_rules(state)
        if record is not None:
            for port in record.server.ports:
                fabric.delete_device(self.fabric, port.device)
            for netns in (self.home.vca_netns, self.site.router):
                fabric.forget(netns, [port.ip for port in record.server.ports])
        shutil.rmtree(vdu.directory, ignore_errors=True)

    def _apply_rules(self, state: State) -> None:
        shared = {network.id for network in state.networks.values() if network.management}
        fabric.apply_rules(self.fabric, planning.ports(state), shared)
        config = self.account.config
        if config.external_subnet is not None:
            floating = {p.ip: p.floating for p in planning.ports(state) if p.floating}
            for given in config.networks:
                floating |= given.floating
            self.site.translate(config.external_subnet, floating, state.networks.values())


def clean(home: Path | str) -> None:
    """Remove everything the VIMs of a lab made on the machine, whatever state they are in.

    Needs no record: processes are found by control group, namespaces and mounts by name. The
    directory of the lab stays, without its ``vims``.
    """
    place = Home.at(home)
    for mount in cgroups.cgroup2_mounts():
        cgroups.kill(mount / place.prefix)
    if (other := cgroups.cpu1_mount()) is not None:
        cgroups.remove(other / place.prefix)
    for point in mounts_below(place.vims):
        unmount(point)
    for name in fabric.netns_names(place.prefix):
        fabric.delete_netns(name)
    shutil.rmtree(place.vims, ignore_errors=True)
    host.leave(place)
    place.lock.unlink(missing_ok=True)
