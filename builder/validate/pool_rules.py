"""Rules for allocation pools: which addresses of a subnet the VIM hands out by itself.

Neutron's ports of DHCP and ports without a fixed address get addresses of the pool. Without a given
pool, that is all of the subnet except the gateway, and DHCP takes the first addresses.
"""

import ipaddress
from collections.abc import Iterator
from typing import Any

from builder.documents import ip_profile, links_of, nics_at, walk
from builder.validate.context import Context, Document, rule
from builder.validate.forms import Network
from builder.validate.problem import Problem
from builder.validate.request import Request

MOST = 256  # Instances of a VDU whose addresses are compared.
AGENTS = 2  # Addresses that DHCP takes where highly available (Neutron's dhcp_agents_per_network).


def fixed(
    request: Request, index: str, connection: Document, place: str, link: Document
) -> list[tuple[str, str]]:
    """Return a member's (place, fixed address) on a link: the link's, else its NICs' or the NSD's.

    NBI writes them one over the other in the opposite order, and counts up for further instances.
    """
    constituents = connection.get("constituent-cpd-id") or ()
    points = {constituent.get("constituent-cpd-id") for constituent in constituents}
    vnfd = request.vnfds.get(index, {})
    nics = nics_at(vnfd, points)
    vdus = {vdu for vdu, _ in nics}
    levels = walk(vnfd, "df[0]/instantiation-level[0]/vdu-level[]")
    counts = [
        level.get("number-of-instances", 1) for _, level, _ in levels if level["vdu-id"] in vdus
    ]
    most = min(max(counts, default=1), MOST)
    of_nics = [
        (at, nic)
        for at, nic, (entry, vdu, _) in walk(request.document, "vnf[]/vdu[]/interface[]")
        if entry["member-vnf-index"] == index and (vdu["id"], nic["name"]) in nics
    ]
    of_link = [
        (at, point)
        for at, point, _ in walk(link, "vnfd-connection-point-ref[]", place)
        if point["member-vnf-index-ref"] == index
    ]
    for places in (of_link, of_nics, [(place, point) for point in constituents]):
        found = [(at, str(p["ip-address"])) for at, p in places if p.get("ip-address")]
        if found:
            return [(at, _counted(address, n)) for at, address in found for n in range(most)]
    return []


def fixed_on(request: Request, link_id: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the member of each connection to a link, and its (place, fixed address) there."""
    place, link = request.links().get(link_id, ("vld", {}))
    for member, connection, name in links_of(request.nsd):
        if name == link_id:
            yield member, fixed(request, member, connection, place, link)


def _counted(address: str, count: int) -> str:
    try:
        return str(ipaddress.ip_address(address) + count)
    except ValueError:  # Another rule reports it.
        return address


@rule("nsd")
def nsd_pools(ctx: Context) -> Iterator[Problem]:
    """A fixed address in the NSD must not be one that DHCP takes."""
    points = "df[]/vnf-profile[]/virtual-link-connectivity[]/constituent-cpd-id[]/ip-address"
    for place, address, (flavour, _, connection, _) in ctx.each(points):
        link = connection["virtual-link-profile-id"]
        profile = profiles(flavour).get(link) or {}
        if sentence := _taken(address, profile, link):
            yield ctx.tell("link-dhcp", place, sentence=sentence)
        network = network_of(profile.get("subnet-address"))
        if network and misplaced(address, network):
            yield ctx.tell("link-cidr/address", place, address=address, cidr=network)


def pools(request: Request) -> Iterator[Problem]:
    """Fixed addresses must be outside of what the VIM hands out, and that must have room."""
    for link_id in {link["id"] for link in request.nsd.get("virtual-link-desc") or ()}:
        place, _ = request.links().get(link_id, ("vld", {}))
        profile = profile_of(request, link_id)
        if not profile:
            continue
        spot = f"{place}/ip-profile"
        taken: set[str] = set()
        without = 0
        for _, found in fixed_on(request, link_id):
            without += not found
            taken |= {address for _, address in found}
        for address in sorted(taken):
            if sentence := _taken(address, profile, link_id):
                yield request.tell("params-dhcp", spot, sentence=sentence)
        if sentence := _room(profile, taken, without, link_id):
            yield request.tell("params-pool", spot, sentence=sentence)


def profile_of(request: Request, link_id: str) -> Document:
    """Return the ip-profile that LCM gives the VIM for a link; {} if it gives none.

    That of the parameters replaces that of the NSD as a whole, even an empty one: LCM's ns.py calls
    `vld_params.update`. The subnet of an existing network is not OSM's.
    """
    _, link = request.links().get(link_id, ("", {}))
    if link.get("vim-network-name") or link.get("vim-network-id"):
        return {}
    known = profiles(request.nsd["df"][0]).get(link_id)
    return dict(link.get("ip-profile", known) or {})


def network_of(text: Any) -> Network | None:
    """Return the network of an address or subnet, None of what is neither."""
    try:
        return ipaddress.ip_network(str(text or ""), strict=False)
    except ValueError:  # 010.0.0.0/8 passes NBI's pattern
        return None


def misplaced(address: str, network: Network) -> str:
    """Return how an address is none for a NIC in a network, "" if it is one."""
    found = network_of(address)
    if found is None or found.network_address not in network:
        return "outside"
    ends = (network.network_address, network.broadcast_address)
    ends_count = network.version == 4 and network.prefixlen < 31
    return "reserved" if ends_count and found.network_address in ends else ""


def profiles(flavour: Document) -> dict[Any, Document]:
    """Return the ip-profile of each virtual link of an NSD's flavour."""
    return {
        profile.get("virtual-link-desc-id"): ip_profile(profile)
        for profile in flavour.get("virtual-link-profile") or ()
    }


def _number(address: str | None) -> int | None:
    try:
        return int(ipaddress.ip_address(address or ""))
    except ValueError:  # another rule reports it
        return None


def _pool(profile: Document) -> tuple[range, bool] | None:
    """Return the numbers of the pool's addresses, and whether the profile names them."""
    dhcp = profile.get("dhcp-params") or {}
    first, count = _number(dhcp.get("start-address")), dhcp.get("count")
    if first is not None and count:
        return range(first, first + count), True
    try:
        subnet = ipaddress.ip_network(profile.get("subnet-address") or "", strict=False)
    except ValueError:
        return None
    last = int(subnet.broadcast_address)
    return range(int(subnet.network_address) + 1, last + (subnet.version == 6)), False


def _taken(address: str | None, profile: Document, link: str) -> str:
    """Say why an address is not free for a NIC; empty if it is."""
    number, pool = _number(address), _pool(profile)
    if number is None or pool is None:
        return ""
    numbers, named = pool
    if named and number in numbers:
        return (
            f"{address} is in the allocation pool of link {link!r}, whose addresses the VIM hands "
            "out; allowed: an address outside of the pool"
        )
    gateway = _number(profile.get("gateway-address"))
    first = [n for n in numbers[: AGENTS + 1] if n != gateway][:AGENTS]
    if not named and (profile.get("dhcp-params") or {}).get("enabled") and number in first:
        return (
            f"{address} is one of the first {AGENTS} addresses of link {link!r}, which DHCP takes; "
            "allowed: a subnet without DHCP, or start-address and count of a pool elsewhere"
        )
    return ""


def _room(profile: Document, taken: set[str], without: int, link: str) -> str:
    """Say why the pool cannot be made or has no room; empty if it has."""
    dhcp = profile.get("dhcp-params") or {}
    if bool(dhcp.get("start-address")) != bool(dhcp.get("count")):
        return f"the pool of link {link!r} has one end only; allowed: start-address and count"
    pool, subnet = _pool(profile), _pool({**profile, "dhcp-params": {}})
    if pool is None or subnet is None:
        return ""
    numbers = pool[0]
    if not (numbers[0] in subnet[0] and numbers[-1] in subnet[0]):
        return (
            f"the pool of link {link!r} leaves its subnet; allowed: addresses of "
            f"{profile['subnet-address']}"
        )
    gateway = profile.get("gateway-address")
    used = [n for address in {*taken, gateway} if (n := _number(address)) is not None]
    if pool[1] and _number(gateway) in numbers:
        return f"the pool of link {link!r} has the gateway {gateway}; allowed: a pool without it"
    free = numbers.stop - numbers.start - sum(number in numbers for number in used)
    wanted = without + bool(dhcp.get("enabled"))
    if free < wanted:
        return (
            f"the pool of link {link!r} has {max(free, 0)} free addresses, and DHCP and ports "
            f"without a fixed address need {wanted}; allowed: a larger one"
        )
    return ""
