"""One OpenStack account: the calls that OSM's RO makes for networks, servers and what they need.

All that it makes names the account and the owner: in its description, a server in its metadata. The
call that makes a thing writes them, and a note of the call stays until it is answered, so that
nothing is lost if this process is killed.
"""

import base64
import contextlib
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from email import message_from_string
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import Path
from typing import Any

import yaml
from openstack.exceptions import ConflictException

from lab.documents import Stored
from lab.errors import VimError
from lab.together import for_each
from lab.vim import addresses, planning
from lab.vim.model import (
    ACTIVE,
    BUILD,
    ERROR,
    SHUTOFF,
    Network,
    NetworkSpec,
    Port,
    PortSpec,
    Server,
    ServerSpec,
    nic_name,
    only,
)
from lab.vim.openstack.access import Access, Settings, connection, refusals
from lab.vim.openstack.asked import asking, may_come
from lab.vim.store import Home, parsed

#: Key of a server's metadata with its owner.
_KEY = "osm-lab"

#: Seconds between two looks at a server, each of which costs two in Neutron, and RO's limit.
_POLL, _SERVER_SECONDS = 3.0, 1800.0

#: Deletions at the same time.
_AT_ONCE = 4

#: Two servers of a size share a flavor, also when threads ask at the same time.
_FLAVORS = threading.Lock()

#: Of cloud-init: the user-data of the package adds to the provider's.
_MERGE = {
    "merge_how": [
        {"name": "list", "settings": ["append", "recurse_dict", "recurse_list"]},
        {"name": "dict", "settings": ["no_replace", "recurse_list", "recurse_dict"]},
    ]
}


class OpenStack:
    """One account; see :class:`lab.vim.connector.VimConnector` for the methods."""

    def __init__(self, path: Path, access: Access) -> None:
        """Use :meth:`create` or :meth:`open`."""
        self._path = path
        self._access = access
        self._config = access.config

    @classmethod
    def create(
        cls,
        home: Path | str,
        name: str,
        config: Mapping[str, Any],
        url: str,
        login: Mapping[str, str],
    ) -> "OpenStack":
        """Record an account, after a log-in and a look for its management network.

        ``login`` has ``user``, ``password`` and ``tenant`` (the project).
        """
        for what in ("user", "password", "tenant"):
            if not login.get(what):
                raise VimError(f"An account of an OpenStack needs a {what}.")
        settings = parsed(Settings, config)
        if settings.insecure and settings.ca_cert:
            raise VimError("options insecure and ca_cert are mutually exclusive")
        access = Access(id=secrets.token_hex(6), name=name, url=url, config=settings, **login)
        vim = cls(Home.at(home).openstack(name), access)
        vim.management_network()
        vim._path.parent.mkdir(parents=True, exist_ok=True)
        Stored(vim._path, Access, VimError).write(access)
        return vim

    @classmethod
    def open(cls, home: Path | str, name: str) -> "OpenStack":
        path = Home.at(home).openstack(name)
        missing = VimError(f"VIM account '{name}' could not be found.")
        return cls(path, Stored(path, Access, VimError, missing, "make the account again").read())

    @property
    def _cloud(self) -> Any:
        return connection(self._access)

    def _refusals(self) -> contextlib.AbstractContextManager[None]:
        return refusals(self._access)

    def _mark(self, tag: str | None = None) -> str:
        """What the descriptions begin with of all that an owner has, or the whole account."""
        account = f"{_KEY}:{self._access.id}:"
        return account if tag is None else f"{account}{tag}:"

    def _owner(self, mark: str | None) -> str:
        mark = mark or ""
        account = self._mark()
        return mark[len(account) :].rpartition(":")[0] if mark.startswith(account) else ""

    @property
    def _notes(self) -> Path:
        return self._path.with_name("asked")

    # --- networks ----------------------------------------------------------------------------

    def management_network(self) -> Network:
        """The network that the account names."""
        name = self._config.management_network_name
        return only(self.networks(name=name), "network", name)

    def networks(self, **query: Any) -> list[Network]:
        """All networks that the project sees, or those of a query of Neutron's."""
        with self._refusals():
            neutron = self._cloud.network
            subnets: dict[str, Any] = {}
            for subnet in neutron.subnets():
                subnets.setdefault(subnet.network_id, subnet)
            dhcp: dict[str, list[str]] = {}
            for port in neutron.ports(device_owner="network:dhcp"):
                dhcp.setdefault(port.network_id, []).extend(_fixed(port))
            return [
                self._network(network, subnets.get(network.id), dhcp.get(network.id, ()))
                for network in neutron.networks(**query)
            ]

    def _network(self, network: Any, subnet: Any, dhcp: Iterable[str]) -> Network:
        pool = next(iter(subnet.allocation_pools or ()), None) if subnet else None
        return Network(
            id=network.id,
            name=network.name,
            tag=self._owner(network.description),
            subnet=subnet.cidr if subnet else "",
            gateway=subnet.gateway_ip if subnet else None,
            mtu=network.mtu or 0,
            management=network.name == self._config.management_network_name,
            bridge="",
            pool=(pool["start"], pool["end"]) if pool else None,
            dhcp_ports=tuple(dhcp),
        )

    def create_network(self, spec: NetworkSpec, tag: str, once: bool = False) -> Network:
        """Make a network with its subnet; a range that is left open is one that is free here."""
        known = self.networks() if once or not spec.subnet else []
        if once and (mine := [network for network in known if network.tag == tag]):
            return mine[0]
        used = [network.subnet for network in known if network.subnet]
        cidr = addresses.parse_subnet(spec.subnet or addresses.default_subnet(used))
        wanted: dict[str, Any] = {"name": spec.name}
        if spec.mtu is not None:
            wanted["mtu"] = spec.mtu
        if self._config.disable_network_port_security:
            wanted["is_port_security_enabled"] = False
        inside: dict[str, Any] = {
            "name": f"{spec.name}-subnet",
            "ip_version": cidr.version,
            "cidr": str(cidr),
            "gateway_ip": spec.gateway,
            "is_dhcp_enabled": spec.dhcp,
        }
        if spec.pool is not None:
            inside["allocation_pools"] = [dict(zip(("start", "end"), spec.pool, strict=True))]
        with self._refusals(), asking(self._notes, self._mark(tag)) as own:
            neutron = self._cloud.network
            network = neutron.create_network(**wanted, description=own)
            try:
                subnet = neutron.create_subnet(network_id=network.id, **inside)
            except BaseException:
                neutron.delete_network(network.id)
                raise
        return self._network(network, subnet, ())

    # --- servers -----------------------------------------------------------------------------

    def servers(self, tag: str | None = None) -> list[Server]:
        """All servers of the project, or those of an owner."""
        with self._refusals():
            return [self._server(each) for each in self._of(self._cloud.compute.servers(), tag)]

    def server(self, server_id: str) -> Server:
        with self._refusals():
            return self._server(self._cloud.compute.get_server(server_id))

    def _of(self, found: Iterable[Any], tag: str | None) -> list[Any]:
        mark = "" if tag is None else self._mark(tag)
        return [server for server in found if server.metadata.get(_KEY, "").startswith(mark)]

    def _server(self, server: Any) -> Server:
        neutron = self._cloud.network
        ports = sorted(neutron.ports(device_id=server.id), key=_position)
        floating: dict[str, str] = {}
        if ports:
            for each in neutron.ips(port_id=[port.id for port in ports]):
                floating[each.port_id] = each.floating_ip_address
        fault = (server.to_dict().get("fault") or {}).get("message", "")
        return Server(
            id=server.id,
            name=server.name,
            hostname=server.hostname or server.name,
            tag=self._owner(server.metadata.get(_KEY)),
            image=(server.image or {}).get("id") or "",
            status=server.status,
            ports=tuple(
                Port(
                    id=port.id,
                    network_id=port.network_id,
                    interface=nic_name(index),
                    device="",
                    ip=next(iter(_fixed(port)), ""),
                    mac=port.mac_address,
                    port_security=bool(port.is_port_security_enabled),
                    floating=floating.get(port.id),
                    tag=port.name,
                )
                for index, port in enumerate(ports)
            ),
            fault=" ".join(fault.split()),
        )

    def create_server(self, spec: ServerSpec, tag: str) -> Server:
        """Make ports and a server. It returns when the server is ACTIVE if a port needs that.

        As RO does, port security is switched off, and a floating address given, only then.
        """
        with self._refusals():
            nova, mark = self._cloud.compute, self._mark(tag)
            image = only(list(self._cloud.image.images(name=spec.image)), "image", spec.image)
            wanted: dict[str, Any] = {
                "name": spec.name,
                "image_id": image.id,
                "flavor_id": self._flavor(spec, mark),
                "key_name": self._config.keypair,
                "config_drive": spec.config_drive or None,
                "availability_zone": self._zone(),
            }
            if text := user_data(spec):
                wanted["user_data"] = base64.b64encode(text.encode()).decode()
            groups = self._groups()
            ports: list[Any] = []
            server = None
            try:
                for index, port in enumerate(spec.ports):
                    ports.append(self._port(port, f"{mark}{index}:", spec.name, groups))
                nics = [
                    {"port": port.id, **({"tag": asked.tag} if asked.tag else {})}
                    for port, asked in zip(ports, spec.ports, strict=True)
                ]
                given = {key: value for key, value in wanted.items() if value}
                with asking(self._notes, mark) as own:
                    server = nova.create_server(networks=nics, metadata={_KEY: own}, **given)
                self._finish(server.id, ports, spec, mark)
            except BaseException:
                # What this cannot remove, because the API is down, goes with the service.
                with contextlib.suppress(VimError):
                    self._remove([server.id] if server else [], [port.id for port in ports])
                raise
            return self._server(nova.get_server(server.id))

    def _zone(self) -> str | None:
        zones = self._config.availability_zone
        return next(iter(zones), None) if isinstance(zones, list) else zones

    def _groups(self) -> list[str]:
        asked = self._config.security_groups
        asked = [asked] if isinstance(asked, str) else asked
        if not asked or self._config.no_port_security_extension:
            return []
        cloud = self._cloud
        known = list(cloud.network.security_groups(project_id=cloud.current_project_id))
        found = []
        for name in asked:
            ids = [group.id for group in known if name in (group.id, group.name)]
            if not ids:
                raise VimError(f"Not found security group {name} for this tenant")
            found.append(ids[0])
        return found

    def _port(self, spec: PortSpec, mark: str, server: str, groups: Sequence[str]) -> Any:
        wanted: dict[str, Any] = {"network_id": spec.network_id, "name": spec.tag or server}
        if spec.mac:
            wanted["mac_address"] = spec.mac
        if spec.ip:
            wanted["fixed_ips"] = [{"ip_address": spec.ip}]
        if groups and spec.port_security:
            wanted["security_group_ids"] = list(groups)
        with asking(self._notes, mark) as own:
            return self._cloud.network.create_port(**wanted, description=own)

    def _flavor(self, spec: ServerSpec, mark: str) -> str:
        """Return the flavor of this size, else the nearest if the account says so, or a new."""
        size = (spec.ram_mib, spec.vcpus, spec.disk_gb)
        nova = self._cloud.compute
        with _FLAVORS:
            known = {
                flavor.id: (flavor.ram, flavor.vcpus, flavor.disk)
                for flavor in nova.flavors(get_extra_specs=True)
                if not flavor.extra_specs and not flavor.ephemeral
            }
            enough = [
                (has, flavor)
                for flavor, has in known.items()
                if has == size
                or (
                    self._config.use_existing_flavors
                    and all(mine >= asked for mine, asked in zip(has, size, strict=True))
                )
            ]
            if enough:
                return str(min(enough)[1])
            wanted = {"ram": size[0], "vcpus": size[1], "disk": size[2]}
            with asking(self._notes, mark) as own:
                name = f"{spec.name}-flv"
                try:
                    flavor = nova.create_flavor(name=name, description=own, **wanted)
                except ConflictException:
                    name = f"{name}-{secrets.token_hex(4)}"
                    flavor = nova.create_flavor(name=name, description=own, **wanted)
            return str(flavor.id)

    def _finish(self, server_id: str, ports: list[Any], spec: ServerSpec, mark: str) -> None:
        """Do what RO does once a server is ACTIVE."""
        config, neutron = self._config, self._cloud.network
        open_ports = [
            port
            for port, asked in zip(ports, spec.ports, strict=True)
            if not asked.port_security and not config.no_port_security_extension
        ]
        outside = [
            (port, asked.floating or config.use_floating_ip)
            for port, asked in zip(ports, spec.ports, strict=True)
            if asked.floating or (asked.management and config.use_floating_ip)
        ]
        if open_ports or outside:
            self._wait(server_id, ACTIVE, _SERVER_SECONDS)
        for port in open_ports:
            neutron.update_port(port.id, is_port_security_enabled=False, security_group_ids=[])
        for port, asked in outside:
            self._float(port.id, asked, mark)

    def _float(self, port_id: str, asked: bool | str, mark: str) -> None:
        """Give a port a floating address: the one asked for, a free one, or a new one."""
        neutron = self._cloud.network
        mine = list(neutron.ips(project_id=self._cloud.current_project_id))
        for each in mine:
            if each.floating_ip_address == asked:
                neutron.update_ip(each.id, port_id=port_id)
                return
        pools = list(neutron.networks(is_router_external=True))
        if isinstance(asked, str) and asked.lower() != "true":
            pools = [pool for pool in pools if asked in (pool.id, pool.name)]
        if len(pools) != 1:
            which = "multiple external networks are" if pools else "no external network is"
            raise VimError(f"Cannot create floating_ip automatically since {which} present")
        for each in mine:
            if not each.port_id and each.floating_network_id == pools[0].id:
                neutron.update_ip(each.id, port_id=port_id)
                return
        with asking(self._notes, mark) as own:
            neutron.create_ip(floating_network_id=pools[0].id, port_id=port_id, description=own)

    def replace_server(self, server_id: str, spec: ServerSpec, tag: str, same: bool) -> Server:
        """Replace a server; the new one keeps the old one's management and floating addresses."""
        old = self.server(server_id)
        with self._refusals():
            self._remove([server_id], [port.id for port in old.ports], floating=False)
        return self.create_server(planning.renewed(spec, old, same), tag)

    def wait_active(self, server_id: str, timeout: float) -> Server:
        """Wait until Nova says that a server runs; whether its system has booted, nobody knows."""
        with self._refusals():
            return self._server(self._wait(server_id, ACTIVE, timeout))

    def _wait(self, server_id: str, status: str, timeout: float) -> Any:
        end = time.monotonic() + timeout
        while (server := self._cloud.compute.get_server(server_id)).status != status:
            if server.status == ERROR:
                fault = self._server(server).fault or "no reason is given"
                raise VimError(
                    f"Server '{server.name}' did not become active: {fault.rstrip('.')}."
                )
            if time.monotonic() > end:
                raise VimError(
                    f"Server '{server.name}' is {server.status} and not {status} after "
                    f"{timeout:.0f} s."
                )
            time.sleep(_POLL)
        return server

    def start(self, server_id: str) -> Server:
        return self._switch(server_id, self._cloud.compute.start_server, ACTIVE)

    def stop(self, server_id: str) -> Server:
        return self._switch(server_id, self._cloud.compute.stop_server, SHUTOFF)

    def _switch(self, server_id: str, call: Callable[[str], None], status: str) -> Server:
        with self._refusals():
            if self._cloud.compute.get_server(server_id).status not in (status, BUILD):
                call(server_id)
            return self._server(self._wait(server_id, status, _SERVER_SECONDS))

    # --- removal -----------------------------------------------------------------------------

    def delete_server(self, server_id: str) -> None:
        """Remove a server with its ports and its floating addresses; a missing one is no error."""
        with self._refusals():
            ports = [port.id for port in self._cloud.network.ports(device_id=server_id)]
            self._remove([server_id], ports)

    def delete_tag(self, tag: str | None) -> None:
        """Remove all that an owner has, or the whole account."""
        mark = self._mark(tag)
        with self._refusals():
            nova, neutron = self._cloud.compute, self._cloud.network
            found = self._marked(mark)
            while may_come(self._notes, mark, [own for kind in found for own in kind.values()]):
                time.sleep(_POLL)
                found = self._marked(mark)
            servers, ports, addresses, networks, flavors = found
            self._remove(servers, ports)
            for_each(neutron.delete_ip, addresses, _AT_ONCE)
            for_each(neutron.delete_network, networks, _AT_ONCE)
            for_each(nova.delete_flavor, flavors, _AT_ONCE)

    def destroy(self) -> None:
        """Remove all that the account has made, and its record."""
        self.delete_tag(None)
        shutil.rmtree(self._path.parent, ignore_errors=True)

    def _marked(self, mark: str) -> list[dict[str, str]]:
        """Return what is marked so, kind by kind, in the order of a removal: ids with marks."""
        cloud = self._cloud
        nova, neutron, mine = cloud.compute, cloud.network, {"project_id": cloud.current_project_id}
        servers = {each.id: each.metadata.get(_KEY, "") for each in nova.servers()}
        others = neutron.ports(**mine), neutron.ips(**mine), neutron.networks(**mine)
        described = [
            {each.id: each.description or "" for each in kind} for kind in (*others, nova.flavors())
        ]
        return [
            {key: own for key, own in kind.items() if own.startswith(mark)}
            for kind in (servers, *described)
        ]

    def _remove(
        self, servers: Iterable[str], ports: Iterable[str], *, floating: bool = True
    ) -> None:
        """Remove servers, wait until they are gone, and remove their ports.

        ``floating``: also the floating addresses of the ports that the account has made.
        """
        with self._refusals():
            nova, neutron = self._cloud.compute, self._cloud.network
            for_each(nova.delete_server, servers, _AT_ONCE)
            for server in servers:
                self._wait_gone(server)
            ports = list(ports)
            if floating and ports:
                for address in neutron.ips(port_id=ports):
                    if (address.description or "").startswith(self._mark()):
                        neutron.delete_ip(address.id)
            for_each(neutron.delete_port, ports, _AT_ONCE)

    def _wait_gone(self, server_id: str) -> None:
        end = time.monotonic() + _SERVER_SECONDS
        while (server := self._cloud.compute.find_server(server_id)) is not None:
            if time.monotonic() > end:
                raise VimError(f"Server '{server.name}' is still {server.status} after a deletion.")
            time.sleep(_POLL)


def user_data(spec: ServerSpec) -> str | None:
    """Return the user-data as RO makes it: the package's part, and one with the keys.

    With a configuration drive it is the package's alone.
    """
    if spec.config_drive or not spec.ssh_keys:
        return spec.user_data
    keys = list(spec.ssh_keys)
    config = {
        "ssh_authorized_keys": keys,
        "system_info": {"default_user": {"ssh_authorized_keys": keys}},
        "users": ["default"],
        **_MERGE,
    }
    message = MIMEMultipart()
    if spec.user_data is not None:
        package = message_from_string(spec.user_data)
        if package.is_multipart():
            for part in package.get_payload():
                message.attach(part)
        elif spec.user_data.startswith("#cloud-config"):
            merged = f"{spec.user_data.rstrip()}\n{yaml.safe_dump(_MERGE)}"
            message.attach(MIMEText(merged, "cloud-config"))
        else:
            message.attach(MIMEText(spec.user_data, "x-shellscript"))
    message.attach(MIMEText(f"#cloud-config\n{yaml.safe_dump(config)}", "cloud-config"))
    return message.as_string()


def _fixed(port: Any) -> list[str]:
    return [fixed["ip_address"] for fixed in port.fixed_ips or ()]


def _position(port: Any) -> int:
    """Position of a port among those of its server, as its description says; others are last."""
    place = "".join((port.description or "").split(":")[-2:-1])
    return int(place) if place.isdigit() else 1 << 16
