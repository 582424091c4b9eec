"""Firewall of a security gateway: what it accepts and what it forwards, by side.

Untrusted side: it accepts only IKE (UDP 500 and 4500, RFC 7296 and RFC 3948), ESP (IP protocol 50),
the ports of WireGuard links, what IP itself needs (neighbours, path MTU, DHCP), and a few echoes.
It forwards packets to or from the other sides only if IPsec protects them on this side. So no
packet leaves in clear while there is no security association.

Management: it accepts SSH, scrapes of metrics and answers to the gateway. It forwards nothing.

Inside (packets out of tunnels and from the trusted side): this side does not limit forwarding. The
gateway itself answers echoes, measurements and its standby (VRRP). It refuses SSH and scrapes.
"""

from typing import Sequence, Tuple

import attr

from vpnaas.base import fields
from vpnaas.base.errors import InputError
from vpnaas.base.links import BUSY_PORT, RESPONDER_PORT
from vpnaas.vdu.installed import filled
from vpnaas.vdu.nftables import family, nft_table

TABLE = "osm_vpnaas_gateway"
INIT_RATE = 300
"""Most IKE_SA_INIT requests per second that reach the daemon, from all senders together. It could
answer more with cookies. But where the daemon also handles ESP, they would delay the packets. A
thousand peers that call at once are served within four seconds."""
ECHO_RATE = 20
"""Most echo requests per second, each for the untrusted side and management, and per IP version."""
MEASURED = (32768, 60999)
"""Ports of iperf3 servers that a measurement starts: Linux's own range, ip_local_port_range."""


@attr.frozen
class GatewayFirewall:
    """Interfaces, ports and subnets of the firewall."""

    untrusted: Sequence[str]  # Interfaces towards the peers: the underlays of links with a VPN.
    management: str  # Interface of management, which must stay reachable; "" if it is unknown.
    wireguard: Tuple[int, ...] = ()  # UDP ports of WireGuard links.
    # TCP ports that answer on the management interface besides SSH.
    management_ports: Tuple[int, ...] = ()
    # Subnets inside the tunnels, to which the gateway itself sends nothing in clear.
    inner: Tuple[fields.IPNetwork, ...] = ()
    # Interfaces with NAT of forwarded packets, which needs connection tracking.
    translated: Tuple[str, ...] = ()


def _set(items: Sequence[object]) -> str:
    return "{{ {} }}".format(", ".join(str(item) for item in items))


def _names(interfaces: Sequence[str]) -> str:
    return _set(['"{}"'.format(name) for name in sorted(interfaces)])


def render(firewall: GatewayFirewall) -> str:
    if not firewall.management:
        raise InputError(
            "gateway: management",
            "no interface of the VDU has the address of ssh-hostname or a default route",
            "a default route, or configure-gateway with firewall false",
        )
    for name in (*firewall.untrusted, firewall.management, *firewall.translated):
        fields.network_interface("gateway: firewall", name)
    if firewall.management in firewall.untrusted:
        raise InputError(
            "gateway: untrusted",
            "{} is the management interface".format(firewall.management),
            "an interface of its own for the untrusted side (underlay-interface)",
        )
    chains = filled(
        "gateway_firewall.nft",
        __package__,
        names=_names(firewall.untrusted),
        untranslated=(
            "iifname != {} ".format(_names(firewall.translated)) if firewall.translated else ""
        ),
        management=firewall.management,
        tunnels=_set(sorted({500, 4500} | set(firewall.wireguard))),
        open=_set(sorted({22} | set(firewall.management_ports))),
        busy=BUSY_PORT,
        responder=RESPONDER_PORT,
        measured="{}-{}".format(*MEASURED),
        inner="".join(
            "        {} daddr {} counter drop\n".format(family(net), net)
            for net in fields.ordered(firewall.inner)
        ),
        echoes=ECHO_RATE,
        inits=INIT_RATE,
    )
    return nft_table(TABLE, chains)
