"""Plain forwarding, WireGuard and IPsec between peer and gateway."""

from __future__ import annotations

import shutil
import subprocess
import time
from typing import TYPE_CHECKING

from vpnaas.extras import gateway_tuning

from benchmarks.gateway.route import (
    CORE_PREFIX,
    FIELD_PREFIX,
    GATEWAY,
    INNER_MTU,
    PEER,
    inner,
    outer,
)
from benchmarks.swan import charon
from benchmarks.swan.netns import run
from benchmarks.swan.site import ESP, GATEWAY_ID, IKE
from lab.certificates import Authority
from lab.vim.dataplane import KERNEL, probe

if TYPE_CHECKING:
    from benchmarks.gateway.route import Route

UP_SECONDS = 300.0
LIBIPSEC_MTU = 1400
PEER_ID = "enb.secgw.example"


class Plain:
    """Routes and nothing else."""

    name, tunnels, mtu = "plain", 1, INNER_MTU
    kernel_workers = False

    def start(self, route: Route) -> None:
        """Route through the underlay."""
        route.spaces.ip("peer", "route", "add", CORE_PREFIX, "via", GATEWAY)
        route.spaces.ip("gw", "route", "add", FIELD_PREFIX, "via", PEER)

    def kind(self) -> str:
        """Return the implementation of forwarding."""
        return "the kernel, without tunnels"

    def gateway_pids(self) -> list[int]:
        """Return no process: the kernel forwards in the poll threads of the wires."""
        return []

    def stop(self) -> None:
        """Do nothing: there are no processes."""


class WireGuard:
    """One device at the gateway, and one per tunnel at the peer, because each peer needs a key.

    It uses the kernel's WireGuard if there is one, else wireguard-go.
    """

    name, mtu = "wireguard", INNER_MTU

    def __init__(self, tunnels: int = 1) -> None:
        self.tunnels = tunnels
        self.kernel_workers = probe().backend == KERNEL
        self._running: list[subprocess.Popen[bytes]] = []
        self._gateway: list[int] = []

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
        """Make all devices and add the peers."""
        keys = [_key_pair() for _ in range(self.tunnels)]
        private, public = _key_pair()
        lines = [f"[Interface]\nPrivateKey = {private}\nListenPort = 51820"]
        gateway = self._device(route, "gw", "wg0")
        if gateway is not None:
            self._gateway = [gateway]
        for number, (_, own) in enumerate(keys):
            ends = f"Endpoint = {outer(number)}:{30000 + number}"
            lines.append(f"[Peer]\nPublicKey = {own}\nAllowedIPs = {inner(number)}\n{ends}")
        self._configure(route, "gw", "wg0", gateway, "\n".join(lines))
        route.spaces.ip("gw", "route", "add", FIELD_PREFIX, "dev", "wg0")
        for number, (own, _) in enumerate(keys):
            device = f"wg{number}"
            pid = self._device(route, "peer", device)
            text = (
                f"[Interface]\nPrivateKey = {own}\nListenPort = {30000 + number}\n"
                f"[Peer]\nPublicKey = {public}\nAllowedIPs = {CORE_PREFIX}\n"
                f"Endpoint = {GATEWAY}:51820"
            )
            self._configure(route, "peer", device, pid, text)
        route.spaces.batch(
            "peer",
            [
                line
                for n in range(self.tunnels)
                for line in (
                    f"rule add from {inner(n)} lookup {1000 + n}",
                    f"route add {CORE_PREFIX} dev wg{n} table {1000 + n}",
                )
            ],
        )

    def _device(self, route: Route, name: str, device: str) -> int | None:
        """Create a device; return the process of its wireguard-go, None for the kernel's."""
        dataplane = probe()
        if dataplane.binary is None:
            route.spaces.ip(name, "link", "add", device, "type", "wireguard")
            return None
        # All network namespaces share the folder of the control sockets, so mount a separate one.
        script = f'mkdir -p /run/wireguard; mount -t tmpfs wg /run/wireguard; exec "$0" -f {device}'
        log = (route.folder / f"{route.tag}-{name}-{device}.log").open("wb")
        with log:
            process = subprocess.Popen(
                route.spaces.argv(name, "sh", "-c", script, str(dataplane.binary)),
                stdout=log,
                stderr=log,
            )
        self._running.append(process)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and process.poll() is None:
            if route.spaces.ip(name, "link", "show", "dev", device, check=False):
                return process.pid
            time.sleep(0.02)
        raise RuntimeError(f"wireguard-go made no {device}, see {log.name}")

    def _configure(self, route: Route, name: str, device: str, pid: int | None, text: str) -> None:
        words = ("wg", "setconf", device, "/dev/stdin")
        if pid is None:
            route.spaces.run(name, *words, text=text)
        else:
            run("nsenter", "-t", str(pid), "-m", "-n", *words, text=text)
        route.spaces.ip(name, "link", "set", device, "mtu", str(INNER_MTU), "up")

    def transferred(self, route: Route) -> list[int]:
        """Return the bytes the gateway has sent to each peer."""
        words = ("wg", "show", "wg0", "transfer")
        if self._gateway:
            shown = run("nsenter", "-t", str(self._gateway[0]), "-m", "-n", *words)
        else:
            shown = route.spaces.run("gw", *words)
        return [int(line.split()[2]) for line in shown.splitlines()]

    def gateway_pids(self) -> list[int]:
        """Return wireguard-go's process at the gateway."""
        return self._gateway

    def stop(self) -> None:
        """End wireguard-go; devices of the kernel end with their namespaces."""
        for process in self._running:
            process.kill()
        for process in self._running:
            process.wait()
        self._running = []


def _key_pair() -> tuple[str, str]:
    private = run("wg", "genkey").strip()
    return private, run("wg", "pubkey", text=private).strip()


class Ipsec:
    """strongSwan at both ends; each tunnel is an IKE_SA with a CHILD_SA.

    It uses the kernel's ESP if there is one, else strongSwan's kernel-libipsec.
    """

    name = "ipsec"
    kernel_workers = False

    def __init__(self, tunnels: int = 1) -> None:
        self.tunnels = tunnels
        # kernel-libipsec reads at most this size from its device, with any MTU of the device.
        self.mtu = INNER_MTU if charon.backend() == "kernel-netlink" else LIBIPSEC_MTU
        self._daemons: list[charon.Charon] = []

    def kind(self) -> str:
        """Return the implementation and its version, while it runs."""
        version = self._daemons[0].vici.version()["version"].decode()
        return f"strongSwan {version}, {charon.backend()}, AES-256-GCM"

    def start(self, route: Route) -> None:
        """Start both daemons, bring all tunnels up and route through them."""
        authority = Authority(route.folder / f"{route.tag}-ca")
        tuned = gateway_tuning.settings(self.tunnels, peers_per_address=64)
        gateway, peer = (
            charon.Charon(route.spaces, name, route.folder, tuned, name=f"{route.tag}-{name}")
            for name in ("gw", "peer")
        )
        self._daemons = [gateway, peer]
        gateway.start()
        certificate, key = authority.issue(GATEWAY_ID, [GATEWAY_ID])
        gateway.credentials(authority.certificate, key, certificate)
        child = {"esp_proposals": [ESP], "replay_window": "1024", "rekey_time": "0"}
        common = {"version": "2", "proposals": [IKE], "mobike": "no", "rekey_time": "0"}
        common["unique"] = "never"
        gateway.vici.load_conn({"peers": common | {
            "local_addrs": [GATEWAY],
            "local": {"auth": "pubkey", "id": GATEWAY_ID, "certs": [certificate]},
            "remote": {"auth": "pubkey", "cacerts": [authority.certificate]},
            "children": {"s1": child | {"local_ts": [CORE_PREFIX], "remote_ts": [FIELD_PREFIX]}},
        }})  # fmt: skip
        peer.start()
        # All peers have one key, because the measurement does not include IKE.
        certificate, key = authority.issue(PEER_ID, [PEER_ID])
        peer.credentials(authority.certificate, key, certificate)
        for number in range(self.tunnels):
            peer.vici.load_conn({f"t{number}": common | {
                "local_addrs": [outer(number)],
                "remote_addrs": [GATEWAY],
                "local": {"auth": "pubkey", "id": PEER_ID, "certs": [certificate]},
                "remote": {"auth": "pubkey", "id": GATEWAY_ID},
                "children": {
                    "s1": child | {"local_ts": [inner(number)], "remote_ts": [CORE_PREFIX]}
                },
            }})  # fmt: skip
        session = peer.connect()
        for number in range(self.tunnels):
            request = {"child": "s1", "ike": f"t{number}", "timeout": "-1"}
            for _ in session.initiate(request):
                pass
        gateway.wait_for(self.tunnels, UP_SECONDS)
        peer.wait_for(self.tunnels, UP_SECONDS)
        self._check()
        if charon.backend() == "kernel-netlink":
            # The kernel applies its IPsec policies to all routed packets, so any route will do.
            route.spaces.ip("peer", "route", "add", CORE_PREFIX, "via", GATEWAY)
            route.spaces.ip("gw", "route", "add", FIELD_PREFIX, "via", PEER)

    def _check(self) -> None:
        for daemon in self._daemons:
            up = sum(c["state"] == b"INSTALLED" for _, sa in daemon.sas()
                     for c in sa["child-sas"].values())  # fmt: skip
            if up < self.tunnels:
                raise RuntimeError(f"{up} of {self.tunnels} CHILD_SAs are up, see {daemon.log}")

    def gateway_pids(self) -> list[int]:
        """Return the gateway's charon; with kernel ESP it is idle."""
        return [daemon.pid for daemon in self._daemons[:1]]

    def sas(self) -> list[list[dict[str, bytes]]]:
        """Return the CHILD_SAs of each IKE_SA of the gateway, in the form of `list-sas`."""
        return [list(sa["child-sas"].values()) for _, sa in self._daemons[0].sas()]

    def stop(self) -> None:
        for daemon in self._daemons:
            daemon.stop(9)
        self._daemons = []


def missing() -> str:
    """Return what this machine lacks for the benchmark, "" if nothing."""
    path = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin"
    absent = [tool for tool in ("ethtool", "wg", "wrk") if not shutil.which(tool, path=path)]
    if absent:
        return f"needs {', '.join(absent)}"
    return charon.missing()
