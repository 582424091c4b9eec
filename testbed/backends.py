"""Plain forwarding, WireGuard and IPsec between peer and gateway."""

from vpnaas.features.gateway import gateway_tuning

from lab.certificates import Authority
from lab.vim.dataplane import KERNEL, probe
from testbed import charon
from testbed.charon import GATEWAY_ID, connection
from testbed.route import (
    CORE_PREFIX,
    FIELD_PREFIX,
    GATEWAY,
    INNER_MTU,
    PEER,
    Backend,
    Route,
    inner,
    outer,
)
from testbed.wireguard import Devices, key_pair

UP_SECONDS = 300.0
LIBIPSEC_MTU = 1400
PEER_ID = "enb.secgw.example"


class Plain(Backend):
    name = "plain"

    def start(self, route: Route) -> None:
        route.spaces.ip("peer", "route", "add", CORE_PREFIX, "via", GATEWAY)
        route.spaces.ip("gw", "route", "add", FIELD_PREFIX, "via", PEER)

    def kind(self) -> str:
        return "the kernel, without tunnels"


class WireGuard(Backend):
    """One device at the gateway, and one per tunnel at the peer, because each peer needs a key.

    It uses the kernel's WireGuard if there is one, else wireguard-go.
    """

    name = "wireguard"

    def __init__(self, tunnels: int = 1) -> None:
        self.tunnels = tunnels
        self.kernel_workers = probe().backend == KERNEL
        self._devices = Devices()

    def kind(self) -> str:
        name = "the kernel's" if probe().backend == KERNEL else "wireguard-go"
        return f"{name} {probe().version}, ChaCha20-Poly1305"

    @staticmethod
    def absent(tunnels: int) -> str:
        """Return the reason why so many tunnels cannot be measured, "" if they can."""
        if tunnels > 64 and probe().backend != KERNEL:
            return "a process of wireguard-go for each peer; needs WireGuard in the kernel"
        return ""

    def start(self, route: Route) -> None:
        keys = [key_pair() for _ in range(self.tunnels)]
        private, public = key_pair()
        gateway, devices = f"{route.tag}w", [f"{route.tag}w{n}" for n in range(self.tunnels)]
        self._devices.make(route.spaces, "gw", [gateway])
        self._devices.make(route.spaces, "peer", devices)
        lines = [f"[Interface]\nPrivateKey = {private}\nListenPort = 51820"]
        for number, (_, own) in enumerate(keys):
            ends = f"Endpoint = {outer(number)}:{30000 + number}"
            lines.append(f"[Peer]\nPublicKey = {own}\nAllowedIPs = {inner(number)}\n{ends}")
        self._configure(route, "gw", gateway, "\n".join(lines))
        route.spaces.ip("gw", "route", "add", FIELD_PREFIX, "dev", gateway)
        for number, (own, _) in enumerate(keys):
            text = (
                f"[Interface]\nPrivateKey = {own}\nListenPort = {30000 + number}\n"
                f"[Peer]\nPublicKey = {public}\nAllowedIPs = {CORE_PREFIX}\n"
                f"Endpoint = {GATEWAY}:51820"
            )
            self._configure(route, "peer", devices[number], text)
        lines = []
        for number, device in enumerate(devices):
            table = str(1000 + number)
            lines.append(f"rule add from {inner(number)} lookup {table}")
            lines.append(f"route add {CORE_PREFIX} dev {device} table {table}")
        route.spaces.batch("peer", lines)

    def _configure(self, route: Route, name: str, device: str, text: str) -> None:
        route.spaces.run(name, "wg", "setconf", device, "/dev/stdin", text=text)
        route.spaces.ip(name, "link", "set", device, "mtu", str(INNER_MTU), "up")

    def gateway_pids(self) -> list[int]:
        return [process.pid for process in self._devices.processes[:1]]

    def stop(self) -> None:
        self._devices.stop()


class Ipsec(Backend):
    """strongSwan at both ends; each tunnel is an IKE_SA with a CHILD_SA.

    It uses the kernel's ESP if there is one, else strongSwan's kernel-libipsec.
    """

    name = "ipsec"

    def __init__(self, tunnels: int = 1) -> None:
        self.tunnels = tunnels
        # kernel-libipsec reads at most this size from its device, with any MTU of the device.
        self.mtu = INNER_MTU if charon.backend() == "kernel-netlink" else LIBIPSEC_MTU
        self.daemons: list[charon.Charon] = []  # The gateway's and the peer's.

    def kind(self) -> str:
        version = self.daemons[0].vici.version()["version"].decode()
        return f"strongSwan {version}, {charon.backend()}, AES-256-GCM"

    def start(self, route: Route) -> None:
        authority = Authority(route.folder / f"{route.tag}-ca")
        tuned = gateway_tuning.settings(self.tunnels, peers_per_address=64)
        gateway, peer = (
            charon.Charon(route.spaces, name, route.folder / route.tag, tuned)
            for name in ("gw", "peer")
        )
        self.daemons = [gateway, peer]
        gateway.start()
        certificate = gateway.identify(authority, GATEWAY_ID)
        child = {"replay_window": "1024", "rekey_time": "0"}
        common = {"rekey_time": "0", "unique": "never"}
        made = connection(
            GATEWAY,
            (GATEWAY_ID, certificate),
            {"cacerts": [authority.certificate]},
            child | {"local_ts": [CORE_PREFIX], "remote_ts": [FIELD_PREFIX]},
            **common,
        )
        gateway.vici.load_conn({"peers": made})
        peer.start()
        # All peers have one key, because the measurement does not include IKE.
        certificate = peer.identify(authority, PEER_ID)
        for number in range(self.tunnels):
            made = connection(
                outer(number),
                (PEER_ID, certificate),
                {"id": GATEWAY_ID},
                child | {"local_ts": [inner(number)], "remote_ts": [CORE_PREFIX]},
                remote_addrs=[GATEWAY],
                **common,
            )
            peer.vici.load_conn({f"t{number}": made})
        peer.initiate(f"t{number}" for number in range(self.tunnels))
        gateway.wait_for(self.tunnels, UP_SECONDS)
        peer.wait_for(self.tunnels, UP_SECONDS)
        self._check()
        if charon.backend() == "kernel-netlink":
            # The kernel applies its IPsec policies to all routed packets, so any route will do.
            route.spaces.ip("peer", "route", "add", CORE_PREFIX, "via", GATEWAY)
            route.spaces.ip("gw", "route", "add", FIELD_PREFIX, "via", PEER)

    def _check(self) -> None:
        for daemon in self.daemons:
            up = sum(child["state"] == b"INSTALLED" for child in daemon.children())
            if up < self.tunnels:
                raise RuntimeError(f"{up} of {self.tunnels} CHILD_SAs are up, see {daemon.log}")

    def gateway_pids(self) -> list[int]:
        """Return the gateway's charon; with kernel ESP it is idle."""
        return [daemon.pid for daemon in self.daemons[:1]]

    def stop(self) -> None:
        for daemon in self.daemons:
            daemon.stop(9)
        self.daemons = []


def missing() -> str:
    """Return what this machine lacks for the benchmark, "" if nothing."""
    return charon.missing("ethtool", "wg", "wrk")
