"""Plans of networks and servers: requests, checked against the content of a VIM account.

Nothing here touches the machine. Errors have the texts of Neutron and Nova if these have one.
"""

import ipaddress
import itertools
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lab.errors import VimError
from lab.vim import addresses, cloudinit
from lab.vim.model import BUILD, Network, NetworkSpec, Port, PortSpec, Server, ServerSpec, nic_name
from lab.vim.site import router_address
from lab.vim.store import Config, Image, ServerRecord, SiteNetwork, State

_MTU = range(576, 65536)  # RFC 791's datagram everyone takes; the largest a veth takes
_MAX_PORTS = 26


def ports(state: State) -> list[Port]:
    return [port for record in state.servers.values() for port in record.server.ports]


def network(state: State, network_id: str) -> Network:
    try:
        return state.networks[network_id]
    except KeyError:
        raise VimError(f"Network {network_id} could not be found.") from None


def plan_network(
    spec: NetworkSpec, tag: str, used_ranges: Sequence[str], config: Config | None = None
) -> Network:
    """Return the network a specification asks for; without a range it gets none that is used."""
    config = config or Config()
    if not spec.name:
        raise VimError("Invalid input for name: a network must have a name.")
    mtu = config.network_mtu if spec.mtu is None else spec.mtu
    if mtu >= _MTU.stop:
        raise VimError(
            f"Invalid input for operation: Requested MTU is too big, maximum is {_MTU.stop - 1}."
        )
    if mtu < _MTU.start:
        raise VimError(f"Invalid input for mtu: {mtu} is less than {_MTU.start}.")
    subnet = addresses.parse_subnet(spec.subnet or addresses.default_subnet(used_ranges))
    if subnet.version == 6 and mtu < 1280:
        raise VimError(f"Invalid input for mtu: IPv6 needs at least 1280 (RFC 8200), not {mtu}.")
    gateway = addresses.parse_gateway(subnet, spec.gateway) if spec.gateway else None
    if spec.pool is not None:
        addresses.check_pool(subnet, spec.pool, gateway)
    # Neutron gives a port of DHCP the first free address (PreferNextAddressRequest of its IPAM).
    free = (a for a in addresses.pool_of(subnet, spec.pool) if a != gateway)
    agents = config.dhcp_agents_per_network if spec.dhcp else 0
    network_id = str(uuid.uuid4())
    return Network(
        id=network_id,
        name=spec.name,
        tag=tag,
        subnet=str(subnet),
        gateway=gateway,
        mtu=mtu,
        management=spec.management,
        bridge=f"n{uuid.UUID(network_id).hex[:12]}",
        routed=spec.routed,
        nat=spec.nat,
        host_routes=spec.host_routes,
        pool=spec.pool,
        dhcp_ports=tuple(itertools.islice(free, agents)),
    )


def site_spec(given: SiteNetwork) -> NetworkSpec:
    """Return the specification of a network that the VIM's configuration names."""
    subnet = addresses.parse_subnet(given.subnet)
    for target in given.host_routes:
        addresses.parse_subnet(target)
    return NetworkSpec(
        given.name,
        str(subnet),
        gateway=str(subnet.network_address + 1) if given.routed else None,
        mtu=given.mtu,
        routed=given.routed,
        nat=given.nat,
        host_routes=tuple(given.host_routes),
        dhcp=given.dhcp,
    )


def check_site(
    settings: Config, others: Mapping[str, Config], management: addresses.IPNetwork
) -> None:
    """Refuse a site without the external network it needs, or with ranges that overlap.

    ``others`` are the configurations of the lab's other accounts, by name; ``management`` is the
    range of the new account's management network.
    """
    if settings.external_subnet is None:
        if settings.use_floating_ip or settings.networks:
            raise VimError(
                "The VIM configuration is wrong at 'external_subnet': floating addresses and "
                "networks of the site need the range of its external network."
            )
        return
    external = addresses.parse_subnet(settings.external_subnet)
    outside = [external]
    inside = [external, *([management] if settings.use_floating_ip else [])]
    for given in settings.networks:
        subnet = addresses.parse_subnet(given.subnet)
        for known in inside:
            if known.version == subnet.version and known.overlaps(subnet):
                raise VimError(f"The range {subnet} of network '{given.name}' overlaps {known}.")
        inside.append(subnet)
        if not given.nat:
            outside.append(subnet)
        for fixed, floating in given.floating.items():
            addresses.take_ip(subnet, fixed, ())
            addresses.take_ip(external, floating, (router_address(str(external)),))
    for name, config in others.items():
        used_ranges = [config.external_subnet] if config.external_subnet else []
        used_ranges += [n.subnet for n in config.networks if not n.nat]
        for used in map(ipaddress.ip_network, used_ranges):
            for mine in outside:
                if used.version == mine.version and used.overlaps(mine):
                    raise VimError(f"The range {mine} overlaps {used} of VIM '{name}'.")


def check_server(spec: ServerSpec, config: Config) -> Image:
    """Check the specification of a server; return its image."""
    settings = config.images.get(spec.image)
    if settings is None:
        known = ", ".join(sorted(config.images))
        raise VimError(
            f"Image not found with this criteria: '{spec.image}' (this VIM has: {known})."
        )
    for what, value in (
        ("vcpus", spec.vcpus),
        ("ram", spec.ram_mib),
        ("disk", spec.disk_gb),
    ):
        if value < 1:
            raise VimError(
                f"Invalid input for field/attribute {what}. Value: {value}. {value} is less than "
                "the minimum of 1."
            )
    if not 1 <= len(spec.ports) <= _MAX_PORTS:
        raise VimError(f"A server must have 1 to {_MAX_PORTS} ports, not {len(spec.ports)}.")
    if spec.user_data is not None:
        cloudinit.cloud_configs(spec.user_data)
    return settings


def plan_server(spec: ServerSpec, tag: str, state: State, config: Config) -> ServerRecord:
    """Return the record of a new server, with the addresses of its ports."""
    planned: list[Port] = []
    for index, port_spec in enumerate(spec.ports):
        name = nic_name(index, config.images[spec.image].hw_machine_type)
        port = _plan_port(port_spec, name, state, planned)
        if port_spec.floating or (port_spec.management and config.use_floating_ip):
            asked = port_spec.floating if isinstance(port_spec.floating, str) else None
            port = replace(port, floating=_take_floating(asked, state, planned, config))
        planned.append(port)
    server = Server(
        id=str(uuid.uuid4()),
        name=spec.name,
        hostname=spec.hostname,
        tag=tag,
        image=spec.image,
        status=BUILD,
        ports=tuple(planned),
    )
    return ServerRecord(server=server, vcpus=spec.vcpus, ram_mib=spec.ram_mib, disk_gb=spec.disk_gb)


def renewed(spec: ServerSpec, old: Server, same: bool, state: State | None = None) -> ServerSpec:
    """Return the specification of the server that takes the place of ``old``.

    Its management and floating addresses stay; ``same`` keeps the other addresses and all MAC
    addresses too. A cloud takes any free address. The lab, which gives its ``state``, always
    changes it, because a caller must not rely on the old one.
    """
    chosen: list[PortSpec] = []
    for new, was in zip(spec.ports, old.ports, strict=True):
        ip = was.ip if same or new.management else new.ip
        if not ip and state is not None:
            ip = _another(was, chosen, state)
        mac = was.mac if same else new.mac
        chosen.append(replace(new, ip=ip, mac=mac, floating=was.floating or new.floating))
    return replace(spec, ports=tuple(chosen))


def _another(port: Port, chosen: Sequence[PortSpec], state: State) -> str:
    """Return a free address of a port's network that is not the one it had."""
    net = network(state, port.network_id)
    used = {new.ip for new in chosen if new.network_id == net.id} | {net.gateway, *net.dhcp_ports}
    used |= {p.ip for p in ports(state) if p.network_id == net.id}
    subnet = addresses.parse_subnet(net.subnet)
    return addresses.take_ip(subnet, None, {ip for ip in used if ip}, net.pool)


def _plan_port(spec: PortSpec, name: str, state: State, own: Sequence[Port]) -> Port:
    net = network(state, spec.network_id)
    others = [p for p in [*ports(state), *own] if p.network_id == net.id]
    used = {*net.dhcp_ports, *(p.ip for p in others)} | ({net.gateway} if net.gateway else set())
    port_id = str(uuid.uuid4())
    return Port(
        id=port_id,
        network_id=net.id,
        interface=name,
        device=f"p{uuid.UUID(port_id).hex[:12]}",
        ip=addresses.take_ip(addresses.parse_subnet(net.subnet), spec.ip, used, net.pool),
        mac=addresses.take_mac(spec.mac, {p.mac for p in others}, net.id),
        port_security=spec.port_security,
        tag=spec.tag,
    )


def _take_floating(asked: str | None, state: State, own: Sequence[Port], config: Config) -> str:
    if config.external_subnet is None:
        raise VimError("No external network with floating IPs could be found.")
    used = {p.floating for p in (*ports(state), *own) if p.floating}
    used |= {address for given in config.networks for address in given.floating.values()}
    used |= {router_address(config.external_subnet)}
    return addresses.take_ip(addresses.parse_subnet(config.external_subnet), asked, used)
