"""Firewall of a security gateway: what may pass its untrusted interface at all.

From and to the untrusted side only IKE (UDP 500 and 4500, RFC 7296 and RFC 3948), ESP (IP protocol
50), what IP itself needs (neighbours, path MTU, DHCP), and a few echoes. Nothing is forwarded
between the untrusted side and any other unless IPsec protects it there, so that no packet leaves in
clear while there is no security association. What comes out of a tunnel interface is not limited
here.
"""

from typing import Sequence

import attr

from . import fields
from .errors import InputError

TABLE = "osm_vpnaas_gateway"
FILE = "/etc/osm-vpnaas/gateway.nft"
INIT_RATE = 300
"""IKE_SA_INIT requests a second that reach the daemon, of all senders together. It answers more
with cookies, but where ESP is the daemon's own too, they would take the packets' time. A thousand
peers that call at once are through in four seconds."""
ECHO_RATE = 20
"""Echo requests a second that are answered, of all senders together."""


@attr.frozen
class GatewayFirewall:
    """What to protect.

    Attributes:
        untrusted: Interfaces towards the peers.
        management: Interface of management, which must stay reachable.
    """

    untrusted: Sequence[str]
    management: str

    def __attrs_post_init__(self) -> None:
        """Refuse what would lock everybody out, or nobody."""
        for name in tuple(self.untrusted) + (self.management,):
            fields.network_interface("gateway: firewall", name)
        if not self.untrusted:
            raise InputError("gateway: untrusted", "no interface", "one or more")
        if self.management in self.untrusted:
            raise InputError(
                "gateway: untrusted",
                "{} is the interface of management".format(self.management),
                "an interface of its own for the untrusted side",
            )


def render(firewall: GatewayFirewall) -> str:
    """Return the nft(8) script; it replaces the table as a whole, in one transaction."""
    names = "{{ {} }}".format(", ".join('"{}"'.format(n) for n in sorted(firewall.untrusted)))
    return """# Written by osm-vpnaas; changes are overwritten by the next reconcile.
table inet {table}
delete table inet {table}
table inet {table} {{
    chain input {{
        type filter hook input priority filter; policy accept;
        iifname {names} jump from_untrusted
    }}
    chain new_peer {{
        limit rate {inits}/second burst {inits} packets accept
        counter drop
    }}
    chain from_untrusted {{
        # IKE_SA_INIT requests have no responder's SPI yet (RFC 7296, 3.1); on 4500 the marker of
        # RFC 3948, 2.2 comes first.
        udp dport 500 @th,128,64 0 jump new_peer
        udp dport 4500 @th,64,32 0 @th,160,64 0 jump new_peer
        udp dport {{ 500, 4500 }} accept
        meta l4proto esp accept
        # Out of a tunnel, where the kernel has ESP without an interface per link.
        meta ipsec exists accept
        icmp type {{ destination-unreachable, time-exceeded, parameter-problem }} accept
        icmpv6 type {{ destination-unreachable, packet-too-big, time-exceeded, parameter-problem, nd-neighbor-solicit, nd-neighbor-advert, nd-router-advert }} accept
        icmp type echo-request limit rate {echoes}/second accept
        icmpv6 type echo-request limit rate {echoes}/second accept
        udp sport 67 udp dport 68 accept
        counter drop
    }}
    chain forward {{
        type filter hook forward priority filter; policy accept;
        iifname {names} meta ipsec missing counter drop
        oifname {names} rt ipsec missing counter drop
    }}
    chain output {{
        type filter hook output priority filter; policy accept;
        oifname {names} jump to_untrusted
    }}
    chain to_untrusted {{
        udp sport {{ 500, 4500 }} accept
        meta l4proto esp accept
        rt ipsec exists accept
        meta l4proto {{ icmp, ipv6-icmp }} accept
        udp sport 68 udp dport 67 accept
        counter drop
    }}
}}
""".format(table=TABLE, names=names, echoes=ECHO_RATE, inits=INIT_RATE)  # noqa: E501
