"""A security gateway with its trusted side, and many peers in a few charons."""

import ipaddress
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vpnaas.features.gateway import gateway_tuning
from vpnaas.features.gateway.gateway_tuning import Value

from lab.certificates import Authority
from testbed.charon import ESP, GATEWAY_ID, IKE, Charon, connection
from testbed.netns import Block, Namespaces, wait

GATEWAY = "10.100.0.1"
CORE = "10.200.0.1"
CORE_PREFIX = "10.200.0.0/16"
POOL = "10.128.0.0/15"
OUTER = ipaddress.ip_address("10.100.4.0")


class Site(Block):
    """One gateway and `count` peers in `processes` charons, each peer with address and identity.

    Private keys and certificates are ECDSA P-256; every peer gets a virtual IP from the pool.

    Args:
        folder: Folder for files of the daemons.
        count: Number of peers.
        processes: Number of daemons for the peers.
        settings: Settings of the daemons besides the tuning.
        accepted: Proposals that the gateway accepts, for IKE and for ESP.
        offered: Such proposals for the peers; each peer has one of them, in turn.
    """

    def __init__(
        self,
        folder: Path,
        count: int,
        processes: int = 2,
        settings: dict[str, Value] | None = None,
        accepted: tuple[str, str] = (IKE, ESP),
        offered: Sequence[tuple[str, str]] = ((IKE, ESP),),
    ) -> None:
        self.count = count
        self.accepted = accepted
        self.offered = offered
        self.folder = folder
        names = [f"peers{number}" for number in range(min(processes, count))]
        self.spaces = Namespaces("gw", *names)
        tuned = {**gateway_tuning.settings(count), **(settings or {})}
        self.gateway = Charon(self.spaces, "gw", folder, tuned)
        self.fields = [
            Charon(
                self.spaces,
                name,
                folder,
                {**tuned, "threads": 32, "retransmit_timeout": 1.0, "retransmit_tries": 6},
            )
            for name in names
        ]
        self.authority = Authority(folder / "ca")
        self.peers = [self._peer(number) for number in range(count)]

    def _peer(self, number: int) -> dict[str, Any]:
        identity = f"enb{number}.secgw.example"
        certificate, key = self.authority.issue(identity, [identity])
        outer = str(OUTER + number)
        return {"id": identity, "key": key, "certificate": certificate, "outer": outer}

    def set_up(self) -> None:
        self.spaces.set_up()
        self._network()
        self.gateway.start()
        self._load_gateway()
        self.start_fields()

    def take_down(self) -> None:
        for daemon in (*self.fields, self.gateway):
            daemon.stop(signal.SIGKILL)
        self.spaces.take_down()

    def _network(self) -> None:
        spaces = self.spaces
        spaces.bridge("gw", "out0")
        spaces.ip("gw", "address", "add", f"{GATEWAY}/16", "dev", "out0")
        spaces.ip("gw", "address", "add", f"{CORE}/32", "dev", "lo")
        for number, daemon in enumerate(self.fields):
            # Routed like a backhaul, because the kernel keeps at most 1,024 neighbours.
            port, router = f"p{number}", f"10.100.1.{number + 1}"
            spaces.wire("gw", daemon.namespace, names=(port, "out0"))
            spaces.ip("gw", "link", "set", port, "master", "out0")
            spaces.ip(daemon.namespace, "address", "add", f"{router}/16", "dev", "out0")
            mine = [p["outer"] for p in self.peers[number :: len(self.fields)]]
            spaces.batch(daemon.namespace, [f"address add {a}/32 dev lo" for a in mine])
            spaces.batch("gw", [f"route add {a}/32 via {router}" for a in mine])

    def _load_gateway(self) -> None:
        certificate = self.gateway.identify(self.authority, GATEWAY_ID)
        self.gateway.vici.load_pool({"inner": {"addrs": POOL}})
        made = connection(
            GATEWAY,
            (GATEWAY_ID, certificate),
            {"cacerts": [self.authority.certificate]},
            {
                "local_ts": [CORE_PREFIX],
                "esp_proposals": self.accepted[1].split(", "),
                "dpd_action": "clear",
            },
            proposals=self.accepted[0].split(", "),
            pools=["inner"],
            unique="replace",
            dpd_delay="60s",
        )
        self.gateway.vici.load_conn({"peers": made})

    def start_fields(self) -> None:
        """Start the peers' charons and load their connections, without initiating them."""
        for number, daemon in enumerate(self.fields):
            daemon.start()
            daemon.trust(self.authority)
            for peer in self.peers[number :: len(self.fields)]:
                daemon.load_key(peer["key"])
                daemon.vici.load_conn({peer["id"]: self._connection(peer)})

    def _connection(self, peer: dict[str, Any]) -> dict[str, Any]:
        ike, esp = self.offered[self.peers.index(peer) % len(self.offered)]
        return connection(
            peer["outer"],
            (peer["id"], peer["certificate"]),
            {"id": GATEWAY_ID},
            {"remote_ts": [CORE_PREFIX], "esp_proposals": [esp]},
            remote_addrs=[GATEWAY],
            proposals=[ike],
            vips=["0.0.0.0"],  # noqa: S104 - asks for any address of the pool
            keyingtries="0",
        )

    def call(self) -> None:
        """Let all peers initiate at once; return before their tunnels are up."""
        for number, daemon in enumerate(self.fields):
            daemon.initiate(peer["id"] for peer in self.peers[number :: len(self.fields)])

    def lose_peers(self) -> None:
        for daemon in self.fields:
            daemon.stop(signal.SIGKILL)

    def carries(self, sample: int = 16) -> list[bool]:
        """Ping the core from the virtual IPs of some peers; return whether each got an answer.

        Raises:
            RuntimeError: A peers' daemon has no virtual IP.
        """
        answered: list[bool] = []
        for daemon in self.fields:
            addresses = [
                sa["local-vips"][0].decode() for _, sa in daemon.sas() if sa.get("local-vips")
            ]
            if not addresses:
                raise RuntimeError(f"{daemon.namespace} has no virtual IP")
            step = max(1, len(addresses) * len(self.fields) // sample)
            for address in addresses[::step]:
                ping = ("ping", "-n", "-q", "-c", "1", "-w", "5", "-I", address, CORE)
                shown = self.spaces.run(daemon.namespace, *ping, check=False)
                answered.append(" 1 received" in shown)
        return answered

    def rekey(self, what: str, seconds: float) -> float:
        """Rekey all SAs, "ike" or "child", from the gateway at once; return the seconds it took."""

        def spis() -> set[bytes]:
            if what == "child":
                children = self.gateway.children()
                return {child["spi-in"] for child in children if child["state"] == b"INSTALLED"}
            there = [sa for _, sa in self.gateway.sas() if sa["state"] == b"ESTABLISHED"]
            return {sa["initiator-spi"] + sa["responder-spi"] for sa in there}

        before = spis()
        self.gateway.vici.rekey({what: {"ike": "peers", "child": "s1"}[what]})
        failure = f"not all {what} SAs of {self.count} tunnels are rekeyed"
        return wait(lambda: len(spis() - before) >= self.count, seconds, failure, 0.02)
