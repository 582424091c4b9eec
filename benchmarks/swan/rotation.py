"""An IPsec link whose peers rotate their keys.

The charm library renders the connections. One charon is the gateway, and another one serves all
peers. Each peer has its own key, identity and inner address.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vici.exception import CommandException
from vpnaas.params.intent import link_params
from vpnaas.peers.peer import Peer
from vpnaas.tunnels.ipsec.configuration import Configuration, render
from vpnaas.tunnels.ipsec.names import POLICY, USERSPACE
from vpnaas.tunnels.ipsec.transition import CLOSE_SECONDS
from vpnaas.vdu.programs.ipsec import LISTS, sections, value_of

from benchmarks.rotating import GATEWAY, INNER, LIMIT, OUTER, Rotating
from benchmarks.swan import vdu
from benchmarks.swan.charon import Charon, backend

LINK = "s1"
CLOSE_MS = str(CLOSE_SECONDS * 1000)


def _key(path: Path) -> tuple[str, str]:
    """Create a private key; return it as PEM, and the public key in the form of an offer."""
    public_key = vdu.key_pair(path)
    return path.read_text(encoding="ascii"), public_key


def _request(section: dict[str, Any]) -> dict[str, Any]:
    """Return a section of a swanctl file in the form that vici accepts."""
    return {
        key: _request(value)
        if isinstance(value, dict)
        else [value_of(key, item) for item in value.split(", ")]
        if key in LISTS
        else value
        for key, value in section.items()
    }


class IpsecField(Rotating):
    def __init__(self, folder: Path, count: int) -> None:
        super().__init__(folder, count)
        self.backend = backend()
        self.plane = POLICY if self.backend == "kernel-netlink" else USERSPACE
        settings = {"threads": 32, "ikesa_table_size": 1024, "ikesa_table_segments": 16}
        self.gateway = Charon(self.spaces, "gw", folder, settings)
        self.peers = Charon(self.spaces, "field", folder, settings)
        self.own = _key(folder / "own")
        self.keys = [_key(folder / f"{number}") for number in range(count)]
        self.next = [_key(folder / f"{number}-next") for number in range(count)]
        self.names: dict[int, str] = {}
        self.former: set[str] = set()

    def connect(self) -> None:
        self.spaces.ip("gw", "address", "add", f"{GATEWAY}/32", "dev", "lo")
        for name, daemon in (("gw", self.gateway), ("field", self.peers)):
            other = OUTER["field" if name == "gw" else "gw"]
            self.spaces.ip(name, "route", "add", str(INNER), "via", other)
            daemon.start()
        self.gateway.vici.load_key({"type": "any", "data": self.own[0]})
        made = self._at_gateway(staged=False)
        self.former = set(made)
        self._load(self.gateway, made)
        for number in range(self.count):
            self._use(number, self.keys[number])

    def take_down(self) -> None:
        for daemon in (self.peers, self.gateway):
            daemon.stop()
        self.spaces.take_down()

    def daemons(self) -> Sequence[int]:
        """Return the gateway's charon: it sets up the tunnels, and may carry the packets."""
        return [self.gateway.pid]

    def wait_up(self) -> None:
        self.gateway.wait_for(self.count, LIMIT)

    def stage(self) -> Sequence[int]:
        made = self._at_gateway(staged=True)
        self._load(self.gateway, {name: made[name] for name in made if name not in self.former})
        return []

    def switch(self, number: int) -> None:
        """Open a tunnel under the next key, then end the former one."""
        former = self.names[number]
        self._use(number, self.next[number])
        close = {"ike": former, "child": LINK, "timeout": CLOSE_MS}
        for request in (close, {"ike": former, "force": "yes", "timeout": "1000"}):
            with contextlib.suppress(CommandException):  # The gateway did not answer in time.
                for _ in self.peers.vici.terminate(request):
                    pass
        self.peers.vici.unload_conn({"name": former})

    def let_in(self) -> int:
        """Return how many peers have a tunnel with their next key; 0 if any former tunnel is up."""
        names = {name for name, _ in self.gateway.sas()}
        return 0 if names & self.former else len(names)

    def dropped(self) -> dict[str, int]:
        """Return the drops of the kernel's IPsec by namespace and reason, {} without such IPsec."""
        reasons = {}
        for name in self.spaces.names:
            shown = self.spaces.run(name, "cat", "/proc/net/xfrm_stat", check=False)
            for reason, count in (line.split() for line in shown.splitlines()):
                reasons[f"{name} {reason}"] = int(count)
        return {reason: count for reason, count in reasons.items() if count}

    def _use(self, number: int, key: tuple[str, str]) -> None:
        gateway = Peer(
            name=f"rel-{number}",
            label="gateway",
            prefixes=(ipaddress.ip_network(GATEWAY),),
            technology="ipsec",
            public_key=self.own[1],
            identity="gateway",
            endpoint=(ipaddress.ip_address(OUTER["gw"]), 4500),
            generation=1,
        )
        self.peers.vici.load_key({"type": "any", "data": key[0]})
        made = self._rendered("field", f"peer-{number}", self.inner[number], key[1], [gateway])
        self._load(self.peers, made)
        (self.names[number],) = made
        self.peers.initiate([self.names[number]], LINK, str(int(LIMIT) * 1000))

    def _at_gateway(self, *, staged: bool) -> dict[str, Any]:
        peers = [
            Peer(
                name=f"rel-{number}",
                label=f"peer-{number}",
                prefixes=(ipaddress.ip_network(inner),),
                technology="ipsec",
                public_key=self.keys[number][1],
                next_public_key=self.next[number][1] if staged else "",
                identity=f"peer-{number}",
                generation=1,
            )
            for number, inner in enumerate(self.inner)
        ]
        return self._rendered("gw", "gateway", GATEWAY, self.own[1], peers)

    def _rendered(
        self, end: str, identity: str, inner: str, key: str, peers: Sequence[Peer]
    ) -> dict[str, Any]:
        """Return connections by name, as in the library's swanctl file."""
        given = {
            "link": LINK,
            "technology": "ipsec",
            "inner-address": f"{inner}/32",
            # By default each end of 1,000 tunnels would send a DPD request every ten seconds.
            "ipsec-options": "dpd-delay=600",
        }
        configuration = Configuration(
            params=link_params(given),
            mtu=1400,
            tun_mtu=1400,
            peers=tuple(peers),
            underlay=(ipaddress.ip_address(OUTER[end]),),
            initiates=frozenset([peer.name for peer in peers if peer.endpoint]),
        )
        return sections(render(configuration, vdu.state(LINK, key, identity, self.plane)))

    @staticmethod
    def _load(daemon: Charon, made: dict[str, Any]) -> None:
        for name, section in made.items():
            daemon.vici.load_conn({name: _request(section)})
