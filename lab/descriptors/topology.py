"""The networks, servers and ports to create in the VIMs, from descriptors and parameters.

The result is plain data. Source: OSM 19, NBI ``instance_topics`` (merging of the parameters), LCM
``_instantiate_ng_ro`` and RO ng (choice of networks, order of the ports).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Any

from builder.documents import NICS, ip_profile, profiles_of, walk
from lab.descriptors.environments import Instances, counts_of, day12, entry_of
from lab.descriptors.naming import host_name, network_name, server_name
from lab.errors import LcmError
from lab.vim.model import NetworkSpec, PortSpec, ServerSpec, nic_name


@dataclass(frozen=True, kw_only=True)
class Network(NetworkSpec):
    """One network in one VIM."""

    key: str  # Unique within the plan; servers' ports refer to it.
    link: str
    vim: str  # VIM account id.
    existing: str | None = None  # Exact name of a network that must exist already.
    common_id: str | None = None
    """Services with the same id here share one network (link of a slice)."""


@dataclass(frozen=True, kw_only=True)
class Port(PortSpec):
    """One interface of a server, in the order the guest sees them.

    In the plan its network is a ``Network.key``. Its tag is the VNFD's name of the interface. The
    address of a ``management`` port becomes the VDU's address.
    """

    device: str  # Name inside the guest (ens3, ens4, ...).
    cpd: str | None = None
    management_vnf: bool = False  # This port's address becomes the VNF's address (mgmt-cp).


@dataclass(frozen=True, kw_only=True)
class Server(ServerSpec):
    """One VDU instance; user data and keys come with its deployment."""

    ports: tuple[Port, ...]
    member_vnf_index: str
    vdu_id: str
    count_index: int
    vim: str
    cloud_init_file: str | None = None
    cloud_init: str | None = None

    @property
    def key(self) -> str:
        """Unique within the plan."""
        return f"{self.member_vnf_index}/{self.vdu_id}/{self.count_index}"


@dataclass(frozen=True)
class Plan:
    """Everything a network service needs from its VIMs."""

    networks: tuple[Network, ...]
    servers: tuple[Server, ...]
    notes: tuple[str, ...] = field(default=())
    """Things OSM does not complain about but an operator should know."""

    def part(self, servers: tuple[Server, ...]) -> "Plan":
        """Return the plan of some of the servers, with their networks."""
        used = {port.network_id for server in servers for port in server.ports}
        return Plan(tuple(n for n in self.networks if n.key in used), servers)


def plan(
    ns_name: str,
    nsd: Mapping[str, Any],
    vnfds: Mapping[str, Mapping[str, Any]],
    params: Mapping[str, Any],
    vim_names: Mapping[str, str],
    instances: Instances | None = None,
) -> Plan:
    """Return the plan of a network service.

    Args:
        vnfds: member-vnf-index -> VNFD.
        params: instantiation parameters as NBI stores them (``vimAccountId`` ids).
        vim_names: VIM account id -> name; ``vim-network-name`` dictionaries may use either.
        instances: count indexes of the VDUs, as scaling changed them.
    """
    builder = _Planner(ns_name, nsd, vnfds, params, vim_names, instances)
    servers = tuple(server for index in vnfds for server in builder.servers(index))
    builder.make_all_links()
    return Plan(tuple(builder.networks.values()), servers, tuple(builder.notes))


@dataclass
class _Planner:
    ns_name: str
    nsd: Mapping[str, Any]
    vnfds: Mapping[str, Mapping[str, Any]]
    params: Mapping[str, Any]
    vim_names: Mapping[str, str]
    instances: Instances | None
    networks: dict[str, Network] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.profiles = profiles_of(self.nsd)
        links = walk(self.nsd, "df[0]/virtual-link-profile[]")
        self.link_profiles = {p.get("virtual-link-desc-id"): p for _, p, _ in links}
        self.links = {link["id"]: link for link in self.nsd.get("virtual-link-desc") or ()}
        given = self.params.get("vnf")
        self.vnf_params = {i: entry_of(given, "member-vnf-index", i) for i in self.vnfds}
        default = self.params["vimAccountId"]
        self.vims = {i: each.get("vimAccountId") or default for i, each in self.vnf_params.items()}
        self.placed = self._placed()

    # -- servers ------------------------------------------------------------------------------

    def servers(self, index: str) -> list[Server]:
        vnfd = self.vnfds[index]
        return [
            self._server(index, vdu, count)
            for vdu in vnfd.get("vdu") or ()
            for count in counts_of(vnfd, index, vdu["id"], self.instances)
        ]

    def _server(self, index: str, vdu: Mapping[str, Any], count: int) -> Server:
        vnfd = self.vnfds[index]
        vdu_params = entry_of(self.vnf_params[index].get("vdu"), "id", vdu["id"])
        name = vdu_params.get("instance_name") or server_name(
            self.ns_name, index, vdu.get("name") or vdu["id"], count
        )
        compute = _by_id(vnfd, "virtual-compute-desc", vdu.get("virtual-compute-desc"), vdu)
        boot = vdu.get("supplemental-boot-data") or {}
        return Server(
            member_vnf_index=index,
            vdu_id=vdu["id"],
            count_index=count,
            vim=self.vims[index],
            name=name,
            hostname=host_name(name),
            image=_image(vnfd, vdu),
            vcpus=int((compute.get("virtual-cpu") or {}).get("num-virtual-cpu", 1)),
            ram_mib=int(float((compute.get("virtual-memory") or {}).get("size", 1)) * 1024),
            disk_gb=_disk(vnfd, vdu),
            ports=tuple(
                replace(p, ip=_incremented(p.ip, count), mac=_incremented_mac(p.mac, count))
                for p in self._ports(index, vdu, vdu_params)
            ),
            cloud_init_file=vdu.get("cloud-init-file"),
            cloud_init=vdu.get("cloud-init"),
            config_drive=bool(boot.get("boot-data-drive")),
        )

    def _ports(
        self, index: str, vdu: Mapping[str, Any], vdu_params: Mapping[str, Any]
    ) -> list[Port]:
        vnfd = self.vnfds[index]
        ext_of = {
            ext["int-cpd"]["cpd"]: ext
            for ext in vnfd.get("ext-cpd") or ()
            if (ext.get("int-cpd") or {}).get("vdu-id") == vdu["id"]
        }
        marked = _management_points(vnfd, vdu["id"])
        ports: list[Port] = []
        for interface, cpd in _interfaces(vdu):
            ext = ext_of.get(cpd["id"])
            given = entry_of(vdu_params.get("interface"), "name", interface["name"])
            link = self._network_of(index, cpd, ext)
            if link is None:
                self.notes.append(
                    f"interface {interface['name']} of {index}/{vdu['id']} is connected to no "
                    "virtual link and is left out"
                )
                continue
            network, nsd_ip = link
            # NBI writes the link's address over that of the NIC, and both over the NSD's.
            ip = self._link_ip(network.link, index, ext) or given.get("ip-address") or nsd_ip
            security = cpd.get("port-security-enabled", True)
            if ext is not None:
                security = ext.get("port-security-enabled", security)
            ext_id = ext["id"] if ext is not None else None
            is_vnf = ext_id is not None and ext_id == vnfd.get("mgmt-cp")
            ports.append(
                Port(
                    tag=interface["name"],
                    network_id=network.key,
                    device=nic_name(len(ports)),
                    cpd=ext_id,
                    ip=ip,
                    mac=given.get("mac-address"),
                    port_security=bool(security),
                    management=is_vnf or ext_id in marked or network.management,
                    management_vnf=is_vnf,
                )
            )
        return ports

    # -- networks -----------------------------------------------------------------------------

    def _network_of(
        self, index: str, cpd: Mapping[str, Any], ext: Mapping[str, Any] | None
    ) -> tuple[Network, str | None] | None:
        """Return the port's network and its address in the NSD, ``None`` if unconnected."""
        connection = None if ext is None else self._connection(index, ext["id"])
        if connection is not None:
            return self._ns_network(connection[0], self.vims[index]), connection[1]
        internal = cpd.get("int-virtual-link-desc")
        return None if internal is None else (self._vnf_network(index, internal), None)

    def _connection(self, index: str, ext_id: str) -> tuple[str, str | None] | None:
        ends = "virtual-link-connectivity[]/constituent-cpd-id[]"
        for _, end, (connectivity, _) in walk(self.profiles.get(index, {}), ends):
            member = str(end.get("constituent-base-element-id"))
            if (member, end.get("constituent-cpd-id")) == (index, ext_id):
                return connectivity["virtual-link-profile-id"], end.get("ip-address")
        return None

    def _ns_network(self, link_id: str, vim: str) -> Network:
        # LCM finds the link by the profile's id; profiles usually carry the id of their link.
        link = self.links.get(link_id)
        if link is None:
            raise LcmError(
                f"virtual-link-profile-id '{link_id}' is no virtual-link-desc of the NSD"
            )
        given = entry_of(self.params.get("vld"), "name", link_id)
        default = self.params["vimAccountId"]
        first = self._existing(given, default) or link.get("vim-network-name")
        existing = self._existing(given, vim) or first
        subnet: Mapping[str, Any] = {}
        if vim == default and (link_id, vim) not in self.placed:
            # A given ip-profile replaces the NSD's as a whole.
            subnet = given.get("ip-profile", ip_profile(self.link_profiles.get(link_id, {}))) or {}
        return self._add(
            Network(
                key=f"ns/{link_id}@{vim}",
                link=link_id,
                vim=vim,
                name=existing or network_name(self.ns_name, link_id),
                management=bool(link.get("mgmt-network")),
                existing=existing,
                common_id=given.get("common_id"),
                **_subnet(subnet),
            )
        )

    def _placed(self) -> set[tuple[str, str]]:
        """Return each (link, VIM) for which LCM gives RO only the network's name.

        These are the links of each member with a VIM in ``vnf[]``, even if that is the service's
        VIM. LCM reads the member's first VDU only.
        """
        result = set()
        for entry in self.params.get("vnf") or ():
            index = str(entry.get("member-vnf-index"))
            vim = entry.get("vimAccountId")
            vdus = self.vnfds.get(index, {}).get("vdu") or ()
            if vim is None or not vdus:
                continue
            for ext in self.vnfds[index].get("ext-cpd") or ():
                connection = self._connection(index, ext["id"])
                if connection and (ext.get("int-cpd") or {}).get("vdu-id") == vdus[0]["id"]:
                    result.add((connection[0], vim))
        return result

    def make_all_links(self) -> None:
        """Add the network of every link at the service's VIM: LCM always requests it from RO."""
        for link_id in self.links:
            self._ns_network(link_id, self.params["vimAccountId"])

    def _vnf_network(self, index: str, link_id: str) -> Network:
        vim = self.vims[index]
        given = entry_of(self.vnf_params[index].get("internal-vld"), "name", link_id)
        existing = self._existing(given, vim)
        return self._add(
            Network(
                key=f"vnf/{index}/{link_id}@{vim}",
                link=f"{index}/{link_id}",
                vim=vim,
                name=existing or network_name(self.ns_name, f"{index}-{link_id}"),
                existing=existing,
                **_subnet(given.get("ip-profile") or {}),
            )
        )

    def _existing(self, given: Mapping[str, Any], vim: str) -> str | None:
        value = given.get("vim-network-name")
        if isinstance(value, Mapping):
            value = value.get(vim, value.get(self.vim_names.get(vim, "")))
        return None if value is None else str(value)

    def _add(self, network: Network) -> Network:
        return self.networks.setdefault(network.key, network)

    def _link_ip(self, link: str, index: str, ext: Mapping[str, Any] | None) -> str | None:
        """Return the address given by ``vld[].vnfd-connection-point-ref[]``, if any."""
        if ext is None:
            return None
        given = entry_of(self.params.get("vld"), "name", link)
        for point in given.get("vnfd-connection-point-ref") or ():
            if (
                str(point.get("member-vnf-index-ref")) == index
                and point.get("vnfd-connection-point-ref") == ext["id"]
            ):
                address = point.get("ip-address")
                return None if address is None else str(address)
        return None


def _incremented(address: str | None, count: int) -> str | None:
    """Return the fixed address of an instance: NBI and LCM add its index to the first one's."""
    return address if address is None or not count else str(ip_address(address) + count)


def _incremented_mac(mac: str | None, count: int) -> str | None:
    if mac is None or not count:
        return mac
    number = int(mac.replace(":", ""), 16) + count
    return ":".join(f"{number:012x}"[i : i + 2] for i in range(0, 12, 2))


def _interfaces(vdu: Mapping[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return (interface, int-cpd) pairs, by ``position`` where given, else as declared."""
    pairs = [(requirement, cpd) for _, requirement, (cpd, _) in walk(vdu, NICS)]
    if all(requirement.get("position") is not None for requirement, _ in pairs):
        pairs.sort(key=lambda pair: int(pair[0]["position"]))
    return pairs


def _management_points(vnfd: Mapping[str, Any], vdu_id: str) -> set[str]:
    """Return the ids of ext-cpd that execution environments use for management."""
    point = "execution-environment-list[]/external-connection-point-ref?"
    entries = [day12(vnfd, entry_id) or {} for entry_id in (vnfd["id"], vdu_id)]
    return {ext_id for entry in entries for _, ext_id, _ in walk(entry, point)}


def _subnet(profile: Mapping[str, Any]) -> dict[str, Any]:
    """Return what LCM and RO make of an ip-profile (``vld_to_ro_ip_profile``, ``new_network``).

    A profile that does not mention DHCP has none; Neutron's default, on, is for no profile at all.
    """
    given = profile.get("dhcp-params") or {}
    pool = None
    if given.get("start-address") and given.get("count"):
        first = str(given["start-address"])
        pool = first, str(ip_address(first) + int(given["count"]) - 1)
    return {
        "subnet": profile.get("subnet-address"),
        "gateway": profile.get("gateway-address"),
        "dhcp": bool(not profile or given.get("enabled")),
        "pool": pool,
    }


def _by_id(
    vnfd: Mapping[str, Any], section: str, id_: Any, vdu: Mapping[str, Any]
) -> Mapping[str, Any]:
    for entry in vnfd.get(section) or ():
        if entry.get("id") == id_:
            result: Mapping[str, Any] = entry
            return result
    raise LcmError(f"vdu '{vdu['id']}' of vnfd '{vnfd['id']}' has no {section} '{id_}'")


def _image(vnfd: Mapping[str, Any], vdu: Mapping[str, Any]) -> str:
    entry = _by_id(vnfd, "sw-image-desc", vdu.get("sw-image-desc"), vdu)
    return str(entry.get("image") or entry.get("name") or entry["id"])


def _disk(vnfd: Mapping[str, Any], vdu: Mapping[str, Any]) -> int:
    names: Sequence[str] = vdu.get("virtual-storage-desc") or ()
    for name in names:
        storage = _by_id(vnfd, "virtual-storage-desc", name, vdu)
        if storage.get("type-of-storage", "root-storage").endswith("root-storage"):
            return int(storage.get("size-of-storage", 0))
    return 0
