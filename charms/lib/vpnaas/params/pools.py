"""Pools of inner addresses that a gateway assigns itself (RFC 7296 section 2.19).

A small cell asks its gateway for one or two addresses, in the configuration payload of IKEv2. A
manual peer gets any free address of the pool. A related peer gets addresses that the gateway's
charm reserved for it and announced in the relation (`peers.leases`). So both ends know them before
the tunnel is up, and can check, guard and route them.
"""

from typing import Dict, Sequence, Tuple

from vpnaas.base import fields
from vpnaas.base.errors import InputError

ASKS = "pool"
"""In place of the allowed-prefixes of a manual peer, or of our own inner address: the address comes
from the gateway's pool."""
Request = Tuple[int, ...]
"""IP version of each address that an end asks for."""
REQUESTS: Dict[str, Request] = {"ipv4": (4,), "ipv4+ipv4": (4, 4), "ipv4+ipv6": (4, 6)}
SEPARATOR = "+"
WIDEST = {4: 12, 6: 64}
NARROWEST = {4: 30, 6: 126}
"""Prefix lengths by IP version; 2^20 addresses are more than a gateway has peers."""


def parse(where: str, text: str) -> Tuple[fields.IPNetwork, ...]:
    """Parse "none", a prefix, or one of IPv4 and one of IPv6 joined by '+'."""
    if text in fields.NOTHING:
        return ()
    prefixes = [fields.network(where, part) for part in text.split(SEPARATOR)]
    for network in prefixes:
        low, high = WIDEST[network.version], NARROWEST[network.version]
        if not low <= network.prefixlen <= high:
            raise InputError(
                where,
                "prefix length {} of {} is out of range".format(network.prefixlen, network),
                "{} to {}".format(low, high),
            )
    if len({network.version for network in prefixes}) != len(prefixes):
        raise InputError(where, "two prefixes of one IP version", "one of IPv4 and one of IPv6")
    return tuple(sorted(prefixes, key=lambda network: network.version))


def parse_request(where: str, text: str) -> Request:
    """Parse what an end asks for: "ipv4", "ipv4+ipv4" or "ipv4+ipv6"; "" is nothing."""
    return REQUESTS[fields.choice(where, text, REQUESTS)] if text else ()


def show_request(request: Request) -> str:
    """Return the text `parse_request` reads."""
    return SEPARATOR.join("ipv{}".format(version) for version in request)


def asked(where: str, text: str) -> Request:
    """Parse an inner address of the form "pool" or "pool:REQUEST"; () for a real address."""
    word, colon, request = text.partition(":")
    if word != ASKS:
        return ()
    return REQUESTS[fields.choice(where, request if colon else "ipv4", REQUESTS)]


def show(pool: Sequence[fields.IPNetwork]) -> str:
    """Return the text `parse` reads."""
    return SEPARATOR.join(str(network) for network in pool) or "none"


def check(
    pool: Sequence[fields.IPNetwork],
    own: Sequence[fields.IPNetwork],
    networks: Sequence[Tuple[str, fields.IPNetwork]],
) -> None:
    """Raise InputError if a pool has addresses of our own, of prefixes behind us or of the VDU."""
    used = [("our own network on the link", network) for network in own]
    for owner, network in used + [("a network of " + name, network) for name, network in networks]:
        for prefix in pool:
            if fields.overlaps(prefix, network):
                raise InputError(
                    "configure: ipsec-options: pool",
                    "{} overlaps {}, {}".format(prefix, network, owner),
                    "prefixes that are in use nowhere else",
                )
