"""Filters of tcpdump."""

#: Address resolution: ARP, and for IPv6 the neighbour discovery of RFC 4861 with reports of its
#: groups, which have a hop-by-hop header (RFC 3810 section 5).
NEIGHBOURS = "(arp or icmp6 or (ip6 and ip6[6] = 0 and ip6[40] = 58))"
