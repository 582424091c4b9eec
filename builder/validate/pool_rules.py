"""Rules for allocation pools: which addresses of a subnet the VIM hands out by itself.

Neutron's ports of DHCP and ports without a fixed address get addresses of the pool. Without a given
pool, that is all of the subnet except the gateway, and DHCP takes the first addresses.
"""

import ipaddress
from collections.abc import Iterator
from typing import Any

from builder.documents import ip_profile, links_of, nics_at, walk
from builder.validate.context import Context, Document, rule
from builder.validate.problem import Problem
from builder.validate.request import Request

AGENTS = 2  # Addresses that DHCP takes where highly available (Neutron's dhcp_agents_per_network).


def fixed(request: Request, index: str, connection: Document, link: Document) -> list[str]:
    """Return a member's fixed addresses on a link: those of its NICs, else the link's or NSD's."""
    constituents = connection.get("constituent-cpd-id") or ()
    points = {constituent.get("constituent-cpd-id") for constituent in constituents}
    nics = nics_at(request.vnfds.get(index, {}), points)
    of_nics = [
        nic
        for _, nic, (entry, vdu, _) in walk(request.document, "vnf[]/vdu[]/interface[]")
        if entry["member-vnf-index"] == index and (vdu["id"], nic["name"]) in nics
    ]
    of_link = [
        point
        for point in link.get("vnfd-connection-point-ref") or ()
        if point["member-vnf-index-ref"] == index
    ]
    for places in (of_nics, of_link, constituents):
        if addresses := [str(p["ip-address"]) for p in places if p.get("ip-address")]:
            return addresses
    return []


@rule("nsd")
def nsd_pools(ctx: Context) -> Iterator[Problem]:
    """A fixed address in the NSD must not be one that DHCP takes."""
    points = "df[]/vnf-profile[]/virtual-link-connectivity[]/constituent-cpd-id[]/ip-address"
    for place, address, (flavour, _, connection, _) in ctx.each(points):
        link = connection["virtual-link-profile-id"]
        sentence = _taken(address, profiles(flavour).get(link) or {}, link)
        if sentence:
            yield ctx.tell("link-dhcp", place, sentence=sentence)


def pools(request: Request) -> Iterator[Problem]:
    """Fixed addresses must be outside of what the VIM hands out, and that must have room."""
    given = request.links()
    known = profiles(request.nsd["df"][0])
    for link_id in {link["id"] for link in request.nsd.get("virtual-link-desc") or ()}:
        place, link = given.get(link_id, ("vld", {}))
        if link.get("vim-network-name") or link.get("vim-network-id"):
            continue  # its subnet is not OSM's
        profile = link["ip-profile"] if "ip-profile" in link else known.get(link_id)
        if not profile:
            continue
        spot = f"{place}/ip-profile"
        taken: set[str] = set()
        without = 0
        for member, connection, name in links_of(request.nsd):
            if name == link_id:
                own = set(fixed(request, member, connection, link))
                without += not own
                taken |= own
        for address in sorted(taken):
            if sentence := _taken(address, profile, link_id):
                yield request.tell("params-dhcp", spot, sentence=sentence)
        if sentence := _room(profile, taken, without, link_id):
            yield request.tell("params-pool", spot, sentence=sentence)


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
