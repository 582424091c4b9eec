"""Addresses: which ranges, IP and MAC addresses a network gives out. Pure functions."""

import ipaddress
import re
import secrets
from collections.abc import Collection, Iterator

from lab.errors import VimError

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


def parse_subnet(text: str) -> IPNetwork:
    """An address range with room for at least two servers."""
    try:
        subnet = ipaddress.ip_network(text)
    except ValueError:
        raise VimError(
            f"Invalid input for cidr: '{text}' is not a range like 192.168.1.0/24."
        ) from None
    if subnet.max_prefixlen - subnet.prefixlen < 2:
        raise VimError(f"Invalid input for cidr: '{text}' has no room for two servers.")
    return subnet


def parse_gateway(subnet: IPNetwork, text: str) -> str:
    """A gateway address inside its subnet, in canonical form."""
    try:
        return str(_host(subnet, text))
    except VimError:
        raise VimError(f"Gateway {text} is not valid on subnet {subnet}.") from None


def default_subnet(existing: Collection[str]) -> str:
    """The first 192.168.x.0/24 that does not overlap the given ranges."""
    used = [ipaddress.ip_network(text) for text in existing]
    for number in range(256):
        candidate = ipaddress.ip_network(f"192.168.{number}.0/24")
        if not any(net.version == 4 and net.overlaps(candidate) for net in used):
            return str(candidate)
    raise VimError("No 192.168.x.0/24 range is left for another network: give a subnet.")


def check_pool(subnet: IPNetwork, pool: tuple[str, str], gateway: str | None) -> None:
    """Refuse a pool that Neutron refuses."""
    text = "-".join(pool)
    try:
        first, last = (int(ipaddress.ip_address(_host(subnet, end))) for end in pool)
    except VimError:
        raise VimError(
            f"The allocation pool {text} spans beyond the subnet cidr {subnet}."
        ) from None
    if last < first:
        ends = dict(zip(("start", "end"), pool, strict=True))
        raise VimError(f"The allocation pool {ends} is not valid.")
    if gateway is not None and first <= int(ipaddress.ip_address(gateway)) <= last:
        raise VimError(f"Gateway ip {gateway} conflicts with allocation pool {text}.")


def pool_of(subnet: IPNetwork, pool: tuple[str, str] | None) -> Iterator[str]:
    """The addresses of a checked pool in order; without a pool, all of the subnet."""
    kind = type(subnet.network_address)
    if pool is not None:
        first, last = (int(kind(end)) for end in pool)
    else:
        first, last = int(subnet.network_address) + 1, int(subnet.broadcast_address)
        last -= subnet.version == 4
    return (str(kind(value)) for value in range(first, last + 1))


def _host(subnet: IPNetwork, text: str) -> IPAddress:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise VimError(
            f"Invalid input for fixed_ips. Reason: '{text}' is not a valid IP address."
        ) from None
    edges = {subnet.network_address}
    if subnet.version == 4:
        edges.add(subnet.broadcast_address)
    if address not in subnet or address in edges:
        raise VimError(
            f"IP address {text} is not a valid IP for any of the subnets on the specified network."
        )
    return address


def take_ip(
    subnet: IPNetwork, asked: str | None, used: Collection[str], pool: tuple[str, str] | None = None
) -> str:
    """Return ``asked``, which may be outside the pool; if it is None, the pool's first free one."""
    if asked is not None:
        address = str(_host(subnet, asked))
        if address in used:
            raise VimError(f"IP address {address} already allocated in subnet {subnet}.")
        return address
    for host in pool_of(subnet, pool):
        if host not in used:
            return host
    raise VimError(f"No more IP addresses available on subnet {subnet}.")


def take_mac(asked: str | None, used: Collection[str], network_id: str) -> str:
    """Return ``asked``; if it is None, a random MAC address under OpenStack's fa:16:3e."""
    if asked is not None:
        mac = asked.lower().replace("-", ":")
        if not _MAC.fullmatch(mac) or int(mac[:2], 16) & 1 or mac == "00:00:00:00:00:00":
            raise VimError(
                f"Invalid input for mac_address. Reason: '{asked}' is not a valid MAC address."
            )
        if mac in used:
            raise VimError(
                f"Unable to complete operation for network {network_id}. The mac address {mac} is "
                "in use."
            )
        return mac
    while True:
        tail = secrets.token_bytes(3)
        mac = "fa:16:3e:" + ":".join(f"{byte:02x}" for byte in tail)
        if mac not in used:
            return mac


def link_local(mac: str) -> str:
    """The IPv6 link-local address a NIC makes from its MAC (RFC 4291, appendix A)."""
    parts = bytearray(int(part, 16) for part in mac.split(":"))
    parts[0] ^= 2
    host = int.from_bytes(parts[:3] + b"\xff\xfe" + parts[3:], "big")
    return str(ipaddress.IPv6Address((0xFE80 << 112) | host))
