"""The site of a VIM: a router with floating addresses, and its uplink to the other sites.

Each VIM with an external network has a router in a separate network namespace. The router has the
gateway addresses of its networks, and translates addresses as OpenStack's does: one to one for
floating addresses, to its own external address for all others. All uplinks end in one namespace. It
knows only external and routed ranges, so that two sites may have the same private ranges.
"""

import contextlib
import ipaddress
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.errors import VimError
from lab.vim import cgroups, wire
from lab.vim.fabric import NETNS, delete_device, delete_netns, device_exists, enter, make_vca, plug
from lab.vim.model import Network
from lab.vim.run import ip_batch, start, tool
from lab.vim.store import Uplink

#: Range between sites: shared address space (RFC 6598), which no site uses itself.
_TRANSIT = "100.64"
UPLINK = "uplink"
_QUEUE_MS = 50


@dataclass(frozen=True)
class Site:
    """Names of a site's parts: the router's namespace, that of all uplinks, the site's number."""

    router: str
    wan: str
    number: int
    group: Path
    directory: Path

    def make(self, external: str, routed: Iterable[str], uplink: Uplink) -> None:
        """Make router and uplink, if they are missing."""
        make_vca(self.wan)  # a namespace that forwards, nothing else
        make_vca(self.router)
        own = router_address(external)
        if not _has_address(self.router, own):
            ip_batch(self.router, f"address add {own}/32 dev lo")
        if device_exists(self.router, UPLINK):
            return
        cgroups.kill(self.group)
        near, far = f"{_TRANSIT}.{self.number}.1", f"{_TRANSIT}.{self.number}.0"
        inside = [
            f"address add {near}/31 dev {UPLINK}",
            f"link set {UPLINK} up",
            f"route add default via {far} src {own}",
        ]
        device = f"site{self.number}"
        outside = [f"address add {far}/31 dev {device}", f"link set {device} up"]
        outside += [f"route replace {subnet} via {near}" for subnet in (external, *routed)]
        self._wire(device, outside, inside, uplink)

    def _wire(self, device: str, outside: list[str], inside: list[str], uplink: Uplink) -> None:
        self.group.mkdir(parents=True, exist_ok=True)
        ready = self.directory / "wire.ready"
        ready.unlink(missing_ok=True)
        config = {
            "cgroup": str(self.group),
            "ready": str(ready),
            "rate_mbit": uplink.rate_mbit,
            "delay_ms": uplink.rtt_ms / 2,
            "queue_ms": _QUEUE_MS,
            "ends": [
                {"netns": str(NETNS / self.wan), "device": device, "commands": outside},
                {"netns": str(NETNS / self.router), "device": UPLINK, "commands": inside},
            ],
        }
        path = self.directory / "wire.json"
        path.write_text(json.dumps(config, indent=1), encoding="utf-8")
        start(
            [sys.executable, "-I", "-S", "-E", wire.__file__, str(path)],
            self.directory / "wire.log",
            lambda _: ready.exists(),
            "The uplink of the site did not come up",
        ).returncode = 0  # it outlives this process on purpose

    def attach(self, fabric: str, network: Network) -> None:
        """Connect the router to a network, with the gateway address, unless it is connected."""
        inner, outer = f"r{network.bridge[1:]}", f"g{network.bridge[1:]}"
        if device_exists(self.router, inner):
            return
        delete_device(fabric, outer)
        plug(fabric, network, outer, self.router, inner, str(network.gateway))

    def translate(
        self, external: str, floating: Mapping[str, str], networks: Iterable[Network]
    ) -> None:
        """Replace the router's rules; ``floating`` maps fixed to floating addresses."""
        private = [n.subnet for n in networks if n.routed and n.nat]
        script = nat_rules(router_address(external), floating, private)
        tool([*enter(self.router), "nft", "-f", "-"], script)

    def join_vca(self, vca: str) -> None:
        """Give the charms' namespace a route to floating addresses."""
        if device_exists(vca, "wan"):
            return
        delete_device(self.wan, "vca")
        ip_batch(
            self.wan,
            f"link add vca type veth peer name wan netns {vca}",
            f"address add {_TRANSIT}.255.0/31 dev vca",
            "link set vca up",
        )
        ip_batch(
            vca,
            f"address add {_TRANSIT}.255.1/31 dev wan",
            "link set wan up",
            f"route add default via {_TRANSIT}.255.0",
        )

    def remove(self) -> None:
        with contextlib.suppress(VimError):
            cgroups.kill(self.group)
        delete_netns(self.router)


def router_address(external: str) -> str:
    """The router's own address in the external range: the first."""
    return str(ipaddress.ip_network(external).network_address + 1)


def nat_rules(own: str, floating: Mapping[str, str], private: Iterable[str]) -> str:
    """An nft script: NAT one to one for floating addresses, to ``own`` for all other private ones.

    It forwards nothing between the site's networks, as if each had its own router.
    """
    to_fixed = ", ".join(f"{outer} : {inner}" for inner, outer in floating.items())
    to_floating = ", ".join(f"{inner} : {outer}" for inner, outer in floating.items())
    ranges = ", ".join(private)
    uplink = f'"{UPLINK}"'
    before = f"  iifname {uplink} dnat to ip daddr map {{ {to_fixed} }}\n" if floating else ""
    after = f"  oifname {uplink} snat to ip saddr map {{ {to_floating} }}\n" if floating else ""
    after += f"  oifname {uplink} ip saddr {{ {ranges} }} snat to {own}\n" if ranges else ""
    return (
        "table ip site {}\ndelete table ip site\ntable ip site {\n"
        " chain before {\n  type nat hook prerouting priority -100;\n" + before + " }\n"
        " chain after {\n  type nat hook postrouting priority 100;\n" + after + " }\n"
        " chain between {\n  type filter hook forward priority 0; policy drop;\n"
        f"  iifname {uplink} accept\n  oifname {uplink} accept\n }}\n}}\n"
    )


def _has_address(netns: str, address: str) -> bool:
    return f" {address}/" in tool(["ip", "-n", netns, "-4", "address", "show", "dev", "lo"])
