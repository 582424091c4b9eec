"""An inner address that equals the outer one (option same-address of IPsec).

A small cell may have a single address: the core knows it by its backhaul address. Then the
destination does not separate inner packets from the tunnel's outer packets. The end that has this
address routes as usual: the prefixes of the other end lead into the link. The other end routes by
source: packets from the prefixes behind it use a routing table of the link. IKE and ESP have its
outer address as source and use the main table.

Both ends must choose the option. The inner address of the peer must be its outer address and within
`accept-prefixes`. It must be on the underlay, not on another network of the VDU, and no other peer
may have it.
"""

from typing import List, Sequence, Tuple

from vpnaas.base import fields
from vpnaas.base.errors import InputError
from vpnaas.base.links import IPSEC
from vpnaas.params.intent import LinkParams
from vpnaas.peers.peer import Peer
from vpnaas.vdu import facts

RULES_FROM = 10000
"""Priority of the first rule; after charon's own table (220), before the main one (32766)."""
RULE = "from {} priority {} table {}"
MAX_RULES = fields.MAX_PREFIXES + 1


def check(params: LinkParams, underlay: facts.Interface) -> None:
    """Raise InputError if the option same-address cannot work with our inner address."""
    inner = params.inner_address
    if inner.version != 4:
        raise InputError(
            "configure: ipsec-options: same-address", "{} is not IPv4".format(inner), "IPv4 only"
        )
    if params.is_outer and inner.ip not in [address.ip for address in underlay.addresses]:
        raise InputError(
            "configure: inner-address",
            "{} is not on {}, as same-address has it".format(inner, underlay.name),
            "an address of {}, or one with the prefix length of a subnet".format(underlay.name),
        )


def is_same(peer: Peer) -> bool:
    """Tell whether the inner address of a peer is also its outer address."""
    outer = peer.endpoint[0] if peer.endpoint else None
    return peer.technology == IPSEC and outer is not None and peer.inner_address == outer


def fits(params: LinkParams, address: fields.IPAddress, outer: fields.IPAddress) -> bool:
    """Tell whether the inner address of an offer is acceptable though outside our inner subnet."""
    # Only one end may have this: else neither source nor destination separates the packets.
    if not params.ipsec.same_address or params.is_outer == (address == outer):
        return False
    own = fields.host_network(address)
    return any(fields.covers(prefix, own) for prefix in params.accept_prefixes)


def may_be_on(params: LinkParams, peer: Peer, prefix: fields.IPNetwork, interface: str) -> bool:
    """Tell whether a peer's prefix may overlap the VDU's network on an interface."""
    if not params.ipsec.same_address or interface != params.underlay_interface:
        return False
    return prefix in split([peer])[1]


def split(peers: Sequence[Peer]) -> Tuple[List[fields.IPNetwork], List[fields.IPNetwork]]:
    """Return the peers' prefixes: those routed by destination, and those routed by source."""
    apart: List[fields.IPNetwork] = []
    same: List[fields.IPNetwork] = []
    for peer in peers:
        own = fields.host_network(peer.endpoint[0]) if is_same(peer) and peer.endpoint else None
        for prefix in peer.prefixes:
            (same if prefix == own else apart).append(prefix)
    return apart, same


def priority(number: int) -> int:
    """Return the priority of a link's rules, from its XFRM interface id."""
    return RULES_FROM + number % 20000


def rules(params: LinkParams, number: int) -> List[str]:
    """Return the `ip -batch` lines that route packets from our prefixes by the link's table."""
    own = (fields.host_network(params.inner_address),) + params.allowed_prefixes
    line = "rule add " + RULE
    return [line.format(source, priority(number), number) for source in fields.ordered(own)]


def no_rules(number: int) -> str:
    """Return the `ip -force -batch` file that removes all rules of a link."""
    return "rule del priority {} table {}\n".format(priority(number), number) * MAX_RULES
