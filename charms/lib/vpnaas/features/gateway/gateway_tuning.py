"""Settings of charon for a gateway that many peers call at the same time.

The defaults of strongSwan suit a few tunnels: one hash bucket holds all IKE_SAs, and charon ignores
more than five half-open ones from one address. The settings here depend on the number of expected
tunnels and on the number of CPUs. strongswan.conf(5) explains each setting.
"""

from itertools import groupby
from typing import Dict, List, Mapping, Union

Value = Union[int, float, str]


def settings(tunnels: int, cpus: int = 2, peers_per_address: int = 32) -> Dict[str, Value]:
    """Return the settings of the section `charon`, see `GatewayParams`."""
    table = power_of_two(tunnels)
    return {
        # Jobs mostly wait for the lock of their IKE_SA, so there are more threads than CPUs.
        # The receiver, the sender and the sockets occupy four threads for good.
        "threads": 12 + 4 * min(cpus, 16),
        # A lookup walks one bucket: with a bucket per tunnel it takes constant time. A segment
        # is a lock over some of the buckets.
        "ikesa_table_size": table,
        "ikesa_table_segments": min(table, power_of_two(4 * cpus)),
        # RFC 7296, 2.6: above this many half-open IKE_SAs, an initiator must return a cookie.
        # It costs a real peer one round trip, and stops a flood from forged addresses.
        "cookie_threshold": max(32, tunnels // 8),
        "cookie_threshold_ip": max(3, peers_per_address // 2),
        # Above this, requests from one address are dropped; it has returned cookies by then.
        "block_threshold": peers_per_address,
        "half_open_timeout": 10,
        # All peers may call at once, as after a power cut, but not many more.
        "init_limit_half_open": 2 * tunnels + 64,
        # Give up soon: a peer that calls again must not find its last exchange still open.
        "retransmit_tries": 4,
        "retransmit_timeout": 1.0,
        "retransmit_base": 1.8,
        "retransmit_jitter": 20,
        # One thread stays free for DPD and deletes while the others compute keys.
        "processor.priority_threads.high": 1,
        "processor.priority_threads.medium": 1,
    }


def sysctls(tunnels: int) -> Dict[str, int]:
    """Return kernel settings for a number of tunnels (Linux, networking/ip-sysctl).

    Peers on the same subnet need a neighbour entry each; by default Linux keeps at most 1,024. By
    default a socket buffers some 250 requests; the daemon's two sockets serve all peers.
    """
    neighbours = max(1024, 2 * power_of_two(tunnels))
    values = {
        "net.core.netdev_max_backlog": 10000,
        "net.core.rmem_default": max(212992, min(16777216, 4096 * tunnels)),
        "net.ipv4.ip_forward": 1,
        "net.ipv6.conf.all.forwarding": 1,
    }
    for family in ("ipv4", "ipv6"):
        for level, share in (("1", 4), ("2", 2), ("3", 1)):
            values["net.{}.neigh.default.gc_thresh{}".format(family, level)] = neighbours // share
    return values


def power_of_two(number: int) -> int:
    """Return the least power of two that is not below a positive number."""
    return 1 << (number - 1).bit_length()


def render(tree: Mapping[str, Value], section: str = "charon") -> str:
    """Return strongswan.conf text of one section; a dot in a name opens a subsection."""
    lines: List[str] = []
    for name, items in groupby(sorted(tree.items()), lambda item: item[0].partition(".")[0]):
        below = {key.partition(".")[2]: value for key, value in items}
        if "" in below:
            lines.append("{} = {}".format(name, below[""]))
        else:
            lines += render(below, name).splitlines()
    return "{} {{\n{}}}\n".format(section, "".join("    {}\n".format(line) for line in lines))
