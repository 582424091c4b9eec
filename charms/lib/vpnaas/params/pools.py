"""Pools of inner addresses that a gateway hands out itself (RFC 7296 section 2.19).

A small cell without a charm asks its gateway for an address, in the configuration payload of IKEv2.
Only manual peers can do so. The inner address of a related peer must be known before the tunnel is
up, to check, guard and route it. An address from a pool is not known then.
"""

from typing import Sequence, Tuple

from vpnaas.base import fields
from vpnaas.base.errors import InputError

ASKS = "pool"
"""In place of the allowed-prefixes of a manual peer: its address comes from the link's pool."""
SEPARATOR = "+"
WIDEST = {4: 12, 6: 64}
NARROWEST = {4: 30, 6: 126}
"""Prefix lengths by IP version; 2^20 addresses are more than a gateway has peers."""


def parse(where: str, text: str) -> Tuple[fields.IPNetwork, ...]:
    """Parse "none", a prefix, or one of IPv4 and one of IPv6 joined by '+'."""
    if text in ("", "none"):
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


def show(pool: Sequence[fields.IPNetwork]) -> str:
    """Return the text `parse` reads."""
    return SEPARATOR.join(str(network) for network in pool) or "none"


def check(
    pool: Sequence[fields.IPNetwork],
    own: Sequence[fields.IPNetwork],
    networks: Sequence[Tuple[str, fields.IPNetwork]],
) -> None:
    """Raise InputError if a pool contains addresses that are in use elsewhere.

    Args:
        pool: Pool of the link.
        own: Our inner address, and the prefixes behind us.
        networks: The VDU's own networks, by interface.
    """
    used = [("our own network on the link", network) for network in own]
    for owner, network in used + [("a network of " + name, network) for name, network in networks]:
        for prefix in pool:
            if fields.overlaps(prefix, network):
                raise InputError(
                    "configure: ipsec-options: pool",
                    "{} overlaps {}, {}".format(prefix, network, owner),
                    "prefixes that are in use nowhere else",
                )
