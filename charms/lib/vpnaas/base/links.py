"""Links: the reference points a VPN can secure, and the names that follow from them."""

from typing import Dict

import attr

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


@attr.frozen
class ReferencePoint:
    """What a link carries."""

    title: str  # Name in 3GPP's spelling.
    # Default UDP port of the tunnel. Each 3GPP reference point has its own port, so a VDU can end
    # several tunnels on one address. No link uses 5201, the port of iperf3.
    listen_port: int
    transport: str = ""  # Transport protocol of the application inside, "" for any.
    port: int = 0  # Port of the application inside, 0 for any.


REFERENCE_POINTS: Dict[str, ReferencePoint] = {
    "s6a": ReferencePoint("S6a", 51821, "tcp", 3868),  # TS 29.272, Diameter
    "s11": ReferencePoint("S11", 51822, "udp", 2123),  # TS 29.274, GTPv2-C
    "s1c": ReferencePoint("S1-C", 51823, "sctp", 36412),  # TS 36.413, S1AP
    "sxab": ReferencePoint("SXab", 51824, "udp", 8805),  # TS 29.244, PFCP
    "s1u": ReferencePoint("S1-U", 51825, "udp", 2152),  # TS 29.281, GTP-U
    "n2": ReferencePoint("N2", 51826, "sctp", 38412),  # TS 38.412, NGAP
    "n3": ReferencePoint("N3", 51827, "udp", 2152),  # TS 29.281, GTP-U
    "n4": ReferencePoint("N4", 51828, "udp", 8805),  # TS 29.244, PFCP
    "sbi": ReferencePoint("SBI", 51829, "tcp", 8080),  # TS 29.500, HTTP/2
    "access": ReferencePoint("Access", 51830),
    "vpn-server": ReferencePoint("VPN (server)", 51820),
    "vpn-client": ReferencePoint("VPN (client)", 51820),
}


def reference_point(link: str) -> ReferencePoint:
    """Return the properties of a link; a charm may declare links that the table lacks."""
    return REFERENCE_POINTS.get(link, ReferencePoint(link, 51820))


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


OWN_INTERFACES = ("wg-", "xf-")
"""Start of the names of the interfaces that links have."""


def directory(link: str) -> str:
    """Return the root-only directory on the VDU that holds a link's keys and records."""
    return "/etc/osm-vpnaas/" + link
