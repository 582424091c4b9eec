"""Links: the reference points a VPN can secure, and the names that follow from them."""

from typing import Tuple

import attr

from vpnaas.base import tables

RELATION_INTERFACE = "vpnaas-link"
"""Juju interface of every relation that stands for a link."""

PROVIDER = "provider"
REQUIRER = "requirer"

WIREGUARD = "wireguard"
IPSEC = "ipsec"
NONE = "none"
TECHNOLOGIES = (WIREGUARD, IPSEC, NONE)
KEYED = (WIREGUARD, IPSEC)
"""Technologies whose peers authenticate with keys."""

KEEPALIVE = 25
"""Seconds between the keepalives of WireGuard where the operator leaves the choice to the charm.

It keeps the UDP mapping of common NATs open: RFC 4787 REQ-5 asks for two minutes at least, but many
give 30 s.
"""

RESPONDER_PORT = 5199
"""TCP port of the launcher of measurements on the inner address (IANA: unassigned)."""
BUSY_PORT = 5798
"""UDP port on which the active gateway of a pair tells the other one which peers have traffic."""


@attr.frozen
class ReferencePoint:
    """What a link carries; `links.json` has those that are known."""

    title: str  # Name in 3GPP's spelling.
    # Default UDP port of the tunnel. Each 3GPP reference point has its own port, so a VDU can end
    # several tunnels on one address. No link uses 5201, the port of iperf3.
    listen_port: int = 51820
    transport: str = ""  # Transport protocol of the application inside, "" for any.
    # Ports of the application inside, none for any.
    ports: Tuple[int, ...] = attr.field(default=(), converter=tuple)
    source: str = ""  # Document that names the protocol and its first port.


REFERENCE_POINTS = {
    link: ReferencePoint(**point) for link, point in tables.read("links.json", __package__).items()
}


def reference_point(link: str) -> ReferencePoint:
    """Return the properties of a link; a charm may declare links that the table lacks."""
    return REFERENCE_POINTS.get(link, ReferencePoint(link))


def wireguard_interface(link: str) -> str:
    """Return the WireGuard interface of a link; a link name has at most 12 characters."""
    return "wg-" + link


def ipsec_interface(link: str) -> str:
    """Return the interface that holds the inner address of an IPsec link."""
    return "xf-" + link


def clear_interface(link: str, underlay: str) -> str:
    """Return the label (ip-address(8)) of an IPv4 inner address in clear on the underlay.

    Programs that look up the address of an interface find it by this name. A label has at most 15
    characters; instead of a longer one, it is the name of the underlay.
    """
    label = "{}:{}".format(underlay, link)
    return label if len(label) <= 15 else underlay


DIRECTORY = "/etc/osm-vpnaas/{}"
"""Root-only directory on the VDU with the keys and records of a link."""
RECORD = DIRECTORY + "/applied.json"
"""The peers of a link that were applied last; `peers.peer` writes and reads it."""
OWN_INTERFACES = ("wg-", "xf-")
"""Start of the names of the interfaces that links have."""
