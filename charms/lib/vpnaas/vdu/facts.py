"""Facts of a VDU that every technology needs: addresses, MTUs, routes, clock."""

import ipaddress
import json
import re
from typing import (
    Any,
    Container,
    Dict,
    FrozenSet,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
    TypeVar,
)

import attr

from vpnaas.base import fields
from vpnaas.base.errors import MALFORMED, InputError, VduError
from vpnaas.base.links import OWN_INTERFACES
from vpnaas.vdu.steps import Results, Step, run

Params = TypeVar("Params")


@attr.frozen
class Interface:
    """One network interface of the VDU."""

    name: str
    mtu: int
    addresses: Tuple[fields.IPInterface, ...]
    up: bool = True
    mac: str = ""
    altnames: Tuple[str, ...] = ()  # Other names, which systemd gives.
    master: str = ""  # The bridge or bond that it is a port of, "" for none.


@attr.frozen
class VduFacts:
    """Observed facts of the VDU."""

    now: int  # Clock of the VDU, seconds since the epoch; handshake times are relative to it.
    interfaces: Dict[str, Interface]  # By name.
    # Interface of the default route, that of IPv4 if there is one, or "".
    default_interface: str = ""
    # Address from which the charm is logged in, as the VDU sees it; None if unknown.
    login: Optional[fields.IPAddress] = None
    # Address to which it is logged in, behind a floating IP too; None if unknown.
    server: Optional[fields.IPAddress] = None
    # MAC addresses by the VNFD's names of interfaces, from the cloud's metadata.
    tags: Mapping[str, str] = attr.Factory(dict)

    def tagged(self, name: str) -> str:
        """Return the VDU's name of an interface that has another one in the VNFD.

        OSM gives that name to the cloud, which keeps it as a tag of the NIC. The kernel names NICs
        by the machine's buses: enp4s0 instead of ens4. A port of a bridge or bond that has the
        addresses stands for that.
        """
        mac = self.tags.get(name)
        for interface in self.interfaces.values():
            if (mac and interface.mac == mac) or (not mac and name in interface.altnames):
                name = interface.name
                break
        port = self.interfaces.get(name)
        master = self.interfaces.get(port.master) if port and not port.addresses else None
        return master.name if master and master.addresses else name

    def resolved(self, params: Params, *names: str) -> Params:
        """Return parameters with the VDU's names of interfaces in the attributes `names`."""
        changed = {name: self.tagged(getattr(params, name)) for name in names}
        return attr.evolve(params, **changed)  # type: ignore[misc]

    def underlay(self, name: str, management: Optional[fields.IPAddress]) -> Interface:
        """Return the interface a tunnel runs over: `name`, or with "" that of management.

        Where `management`, the address that OSM logs in to, is a floating IP, no interface has it;
        then the interface to which the login came counts, or that of the default route.
        """
        name = self.tagged(name)
        if name:
            usable = sorted(self.interfaces.keys() - {"lo"})
            if name not in usable:
                wrong = (
                    "no peer is reached over lo" if name == "lo" else "the VDU has no interface {}"
                )
                raise InputError(
                    "configure: underlay-interface", wrong.format(name), ", ".join(usable)
                )
            return self.interfaces[name]
        for address in (management, self.server):
            for interface in self.interfaces.values():
                if any(a.ip == address for a in interface.addresses):
                    return interface
        if self.default_interface in self.interfaces:
            return self.interfaces[self.default_interface]
        raise VduError("no interface of the VDU has the management address or a default route")

    def name_of(self, management: Optional[fields.IPAddress]) -> str:
        """Return the interface of the address that OSM logs in to, "" if it is unknown."""
        try:
            return self.underlay("", management).name
        except VduError:
            return ""

    def networks(self, ours: Sequence[str] = OWN_INTERFACES) -> List[Tuple[str, fields.IPNetwork]]:
        """Return the VDU's own networks with the names of their interfaces.

        `ours` are starts of the names of interfaces that do not count.
        """
        return [
            (interface.name, address.network)
            for interface in self.interfaces.values()
            if not interface.name.startswith(tuple(ours)) and interface.name != "lo"
            for address in interface.addresses
            # An inner address in clear is a host prefix on the underlay, not a network.
            if address.network.prefixlen < address.max_prefixlen
        ]

    def is_local(self, address: fields.IPAddress) -> bool:
        return any(a.ip == address for i in self.interfaces.values() for a in i.addresses)


METADATA = "/run/cloud-init/instance-data.json"
"""What cloud-init got of the cloud, without secrets; Nova lists NICs in `devices`, with tags."""
KEPT = "/etc/osm-vpnaas/metadata.json"
"""A copy. Where cloud-init is off at a later boot, nothing else tells which NIC has which tag."""
_DEVICE = r'("mac": *"[0-9a-fA-F:]{17}"[^{}]*)'
"""What follows in a device; cloud-init sorts the keys."""


def _tags(text: str) -> Dict[str, str]:
    """Return the MAC addresses of NICs by tag, from what _DEVICE picks."""
    tags: Dict[str, str] = {}
    for device in text.split('"mac":')[1:]:
        listed = re.search(r'"tags": *\[([^\]]*)\]', device)
        mac = device.split('"')[1].lower()
        tags.update(
            (tag, mac) for tag in re.findall('"([^"]+)"', listed.group(1) if listed else "")
        )
    return tags


def observe() -> List[Step]:
    return [
        run("facts/now", "date", "+%s"),
        run("facts/addresses", "ip", "-j", "address", "show"),
        run("facts/default", "ip", "-j", "route", "show", "default", any_exit=True),
        run("facts/default6", "ip", "-6", "-j", "route", "show", "default", any_exit=True),
        run("facts/login", "printenv", "SSH_CONNECTION", any_exit=True),
        run("facts/kept", "cp", "-u", METADATA, KEPT, only_if=METADATA, any_exit=True),
        run("facts/devices", "cat", KEPT, METADATA, pick=_DEVICE, any_exit=True),
    ]


def addresses(item: Mapping[str, Any]) -> Tuple[fields.IPInterface, ...]:
    """Return the addresses of one entry of `ip -j address` that peers could use.

    Those come last that the kernel will drop or renews each day (RFC 4862 and 8981). Else the order
    is the kernel's: an interface's first address is the one it came up with.
    """
    rows = [
        a
        for a in item.get("addr_info", ())
        if a.get("scope") != "link" and a["family"] in ("inet", "inet6") and "dadfailed" not in a
    ]
    rows.sort(key=lambda a: "deprecated" in a or "temporary" in a)
    return tuple(ipaddress.ip_interface("{}/{}".format(a["local"], a["prefixlen"])) for a in rows)


def parse(results: Results) -> VduFacts:
    try:
        interfaces = {}
        for item in json.loads(results.out("facts/addresses") or "[]"):
            name = str(item["ifname"])
            up = "UP" in item.get("flags", ("UP",))
            # A port of a bond has its address; the cloud knows the NIC's own.
            mac = str(item.get("permaddr") or item.get("address", "")).lower()
            others, master = tuple(item.get("altnames", ())), str(item.get("master", ""))
            mtu = int(item["mtu"])
            interfaces[name] = Interface(name, mtu, addresses(item), up, mac, others, master)
        routes = json.loads(results.out("facts/default") or "[]")
        routes += json.loads(results.out("facts/default6") or "[]")
        default = str(routes[0].get("dev", "")) if routes else ""
        ends = (results.out("facts/login") or "").split(" ")
        return VduFacts(
            now=int(results.out("facts/now") or "0"),
            interfaces=interfaces,
            default_interface=default,
            login=_end(ends[0]),
            server=_end(ends[2]) if len(ends) == 4 else None,
            tags=_tags(results.output("facts/devices")),
        )
    except MALFORMED:
        raise VduError("`ip -j` of the VDU printed something unexpected (iproute2 4.14 or newer?)")


def observe_routes() -> List[Step]:
    show = ("route", "show", "table", "all")
    return [
        run("path/route-4", "ip", "-j", "-4", *show),
        run("path/route-6", "ip", "-j", "-6", *show, any_exit=True),
    ]


Route = Tuple[fields.IPNetwork, Mapping[str, Any]]
"""Where it leads, and what `ip -j route` prints of it."""
Routes = FrozenSet[fields.IPNetwork]


def all_routes(results: Results, table: str = "", device: str = "") -> List[Route]:
    """Return the routes of a table ("" is the main one), by one device if it is named."""
    found: List[Route] = []
    try:
        for version, every in fields.EVERY.items():
            for row in json.loads(results.out("path/route-{}".format(version)) or "[]"):
                if str(row.get("table", "")) == table and device in ("", row.get("dev")):
                    text = str(row["dst"])
                    found.append((every if text == "default" else ipaddress.ip_network(text), row))
    except MALFORMED:
        raise VduError("`ip -j route` printed something unexpected")
    return found


def routes(results: Results, device: str, table: str = "") -> Tuple[Routes, Routes]:
    """Return the routes by a device, and apart those that the kernel made with its addresses.

    The default route is left out.
    """
    own: Set[fields.IPNetwork] = set()
    connected: Set[fields.IPNetwork] = set()
    for network, row in all_routes(results, table, device):
        if network.prefixlen and row.get("type") != "multicast":
            (connected if row.get("protocol") == "kernel" else own).add(network)
    return frozenset(own), frozenset(connected)


_METRIC = {4: 0, 6: 1024}
"""That of a route for which nobody names one. A route replaces one of the same metric."""


def replaced(results: Results, devices: Container[str]) -> Dict[fields.IPNetwork, str]:
    """Return where routes lead that a route by one of `devices` would replace, by prefix."""
    found: Dict[fields.IPNetwork, str] = {}
    for network, row in all_routes(results):
        standard = _METRIC[network.version]
        if row.get("metric", standard) == standard and row.get("dev") not in devices:
            found[network] = str(row.get("dev") or row.get("type") or "several interfaces")
    return found


def reroute(link: str, interface: str, missing: Routes, excess: Routes) -> List[Step]:
    """Return the steps that make the missing routes of an interface, and delete the excess ones."""
    steps = []
    for index, prefix in enumerate(fields.ordered(missing)):
        id = "{}/apply/route-{}".format(link, index)
        steps.append(run(id, "ip", "route", "replace", str(prefix), "dev", interface))
    for index, prefix in enumerate(fields.ordered(excess)):
        id = "{}/apply/unroute-{}".format(link, index)
        steps.append(run(id, "ip", "route", "del", str(prefix), "dev", interface, any_exit=True))
    return steps


def reconnect(link: str, interface: str, address: fields.IPInterface) -> List[Step]:
    """Return the step that makes the route which the kernel made with an address; often none."""
    net = address.network
    if net.prefixlen == net.max_prefixlen:
        return []
    # Of the metric with which the kernel made it, so that its deletion finds it.
    more = ("metric", "256") if net.version == 6 else ("scope", "link", "src", str(address.ip))
    words = ("ip", "route", "replace", str(net), "dev", interface, "proto", "kernel", *more)
    return [run(link + "/apply/subnet", *words)]


def _end(text: str) -> Optional[fields.IPAddress]:
    """Return an address of sshd's SSH_CONNECTION (client, its port, server, its port), or None."""
    try:
        return fields.address("SSH_CONNECTION", text)
    except InputError:
        return None
