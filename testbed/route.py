"""Field, peer, gateway and core in a row, each in a namespace, and the gateway's processor time.

    field --- peer === gateway --- core

Frames are sent and counted at field and core. Every wire passes single frames (no segmentation
offload), and each of its devices has its own kernel thread that receives (threaded NAPI). So the
kernel's work for the gateway can be separated from its work for the others.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from testbed.generator import End
from testbed.netns import Block, Namespaces, run_time

#: Inner wires fit the largest frame of any load; the underlay also fits a tunnel's headers.
INNER_MTU, UNDERLAY_MTU = 1600, 2000
GATEWAY, PEER = "10.100.0.1", "10.100.0.2"
#: Prefix of the peer's outer addresses; each tunnel has one.
OUTER = "10.101"
CORE_PREFIX, CORE = "10.200.0.0/16", "10.200.0.1"
FIELD_PREFIX = "10.128.0.0/15"
GATEWAY_INNER = "10.200.255.254"
#: Addresses of HTTP server and clients; the frames of loads go to addresses without a host.
SERVER, CLIENT = "10.200.0.2", "10.128.0.1"
FIELD_NET, CORE_NET = "10.127.0", "10.201.0"
#: Wires of a route; of each end the namespace, the letter of its device, and its address.
WIRES = (
    (("field", "f", f"{FIELD_NET}.2"), ("peer", "p", f"{FIELD_NET}.1")),
    (("peer", "q", PEER), ("gw", "g", GATEWAY)),
    (("gw", "h", f"{CORE_NET}.1"), ("core", "c", f"{CORE_NET}.2")),
)


def inner(tunnel: int) -> str:
    """Return the prefix behind a tunnel; it has addresses for loads, a client and the peer."""
    return f"{address(tunnel)}/30"


def address(tunnel: int, host: int = 0) -> str:
    """Return the address in the field for a tunnel's loads, or the one `host` numbers after it."""
    return f"10.128.{tunnel >> 6 & 255}.{(tunnel << 2 & 255) + host}"


def outer(tunnel: int) -> str:
    return f"{OUTER}.{tunnel >> 8}.{tunnel & 255}"


class Backend:
    """A technology that carries packets between peer and gateway.

    Attributes:
        name: Name in reports.
        tunnels: Number of tunnels to the gateway.
        mtu: MTU of a tunnel; larger IP packets pass as fragments.
        kernel_workers: Whether kernel threads that both ends share work for it.
    """

    name: str
    tunnels = 1
    mtu = INNER_MTU
    kernel_workers = False

    def start(self, route: "Route") -> None:
        """Set it up on a route; return when it can carry packets."""
        raise NotImplementedError

    def kind(self) -> str:
        """Return the implementation and its version, while it runs."""
        raise NotImplementedError

    def gateway_pids(self) -> list[int]:
        """Return the processes of the gateway's data path, none if the kernel forwards."""
        return []

    def stop(self) -> None:
        """End its processes."""


class Route(Block):
    """A path of packets with a backend on it; everything ends with the `with` block."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self.backend = backend
        self.folder = folder
        self.tag = uuid.uuid4().hex[:4]
        self.spaces = Namespaces("field", "peer", "gw", "core")
        self._polls: list[Path] = []

    def device(self, letter: str) -> str:
        """Return the name of the device with a letter of WIRES."""
        # Unique on the machine, because the names of poll threads contain it.
        return f"{self.tag}{letter}"

    def set_up(self) -> None:
        self.spaces.set_up()
        self._network()
        self.backend.start(self)

    def take_down(self) -> None:
        self.backend.stop()
        self.spaces.take_down()

    def _network(self) -> None:
        spaces = self.spaces
        for name in spaces.names:
            # These settings fail on a kernel without IPv6, which does not need them.
            quiet = [f"net.ipv6.conf.{kind}.disable_ipv6=1" for kind in _ALL]
            spaces.run(name, "sysctl", "-q", "-e", "-w", *quiet, check=False)
            spaces.sysctl(name, *(f"net.ipv4.conf.{kind}.rp_filter=0" for kind in _ALL))
        for near, far in WIRES:
            mtu = UNDERLAY_MTU if near[0] == "peer" else INNER_MTU
            names = (self.device(near[1]), self.device(far[1]))
            spaces.wire(near[0], far[0], names=names, mtu=mtu)
            for (name, _, text), device in zip((near, far), names, strict=True):
                self._single_frames(name, device)
                spaces.ip(name, "address", "add", f"{text}/24", "dev", device)
        spaces.ip("field", "address", "add", f"{CLIENT}/32", "dev", "lo")
        spaces.ip("core", "address", "add", f"{SERVER}/32", "dev", "lo")
        for name in ("peer", "gw"):
            spaces.sysctl(name, "net.ipv4.ip_forward=1")
        # These routes limit TCP to the smallest MTU of all backends; loads do not use routes.
        tcp = ("mtu", "1400")
        spaces.ip(
            "field", "route", "add", CORE_PREFIX, "via", f"{FIELD_NET}.1", "src", CLIENT, *tcp
        )
        spaces.ip("core", "route", "add", FIELD_PREFIX, "via", f"{CORE_NET}.1", "src", SERVER, *tcp)
        spaces.ip("peer", "route", "add", FIELD_PREFIX, "via", f"{FIELD_NET}.2")
        spaces.ip("gw", "route", "add", CORE_PREFIX, "via", f"{CORE_NET}.2")
        spaces.ip("gw", "route", "add", f"{OUTER}.0.0/16", "via", PEER)
        # strongSwan installs the route of a policy only if it finds a local address inside it.
        spaces.ip("gw", "address", "add", f"{GATEWAY_INNER}/32", "dev", "lo")
        own = [a for n in range(self.backend.tunnels) for a in (outer(n), address(n, 2))]
        spaces.batch("peer", [f"address add {text}/32 dev lo" for text in own])
        for near, far in WIRES:
            for (name, letter, _), (other, far_letter, text) in ((near, far), (far, near)):
                known = (text, "lladdr", self.mac(other, far_letter))
                spaces.ip(name, "neigh", "replace", *known, "dev", self.device(letter))

    def _single_frames(self, name: str, device: str) -> None:
        spaces = self.spaces
        # veth uses NAPI only with GRO on; forwarded UDP is not merged.
        off = ("tso", "off", "tx-udp-segmentation", "off")
        spaces.run(name, "ethtool", "-K", device, "gro", "on", *off)
        # Threaded NAPI: each device gets its own poll thread.
        spaces.run(name, "tee", f"/sys/class/net/{device}/threaded", text="1")

    def mac(self, name: str, letter: str) -> str:
        shown = self.spaces.ip(name, "-o", "link", "show", "dev", self.device(letter))
        return shown.split("link/ether ")[1].split()[0]

    def end(self, name: str) -> End:
        """Return the end of the path named "field" or "core"."""
        letter, router = ("f", ("peer", "p")) if name == "field" else ("c", ("gw", "h"))
        tunnels = [address(number) for number in range(self.backend.tunnels)]
        return End(
            self.spaces.prefix + name,
            self.device(letter),
            bytes.fromhex(self.mac(name, letter).replace(":", "")),
            bytes.fromhex(self.mac(*router).replace(":", "")),
            tunnels if name == "field" else [CORE],
        )

    @contextmanager
    def pinned(self, cores: int) -> Iterator[None]:
        """Pin the gateway's threads to the last `cores` processors while the block runs."""
        everywhere = os.sched_getaffinity(0)
        self._pin(set(sorted(everywhere)[-cores:]))
        try:
            yield
        finally:
            self._pin(everywhere)

    def _pin(self, processors: set[int]) -> None:
        for thread in self._threads():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), processors)

    def _threads(self) -> list[Path]:
        if not self._polls:
            mine = tuple(f"napi/{self.device(letter)}-" for letter in "gh")
            self._polls = [t for t, n in _kernel_threads() if n.startswith(mine)]
        pids = self.backend.gateway_pids()
        return self._polls + [t for pid in pids for t in Path(f"/proc/{pid}/task").glob("*")]

    def spent(self) -> float:
        """Return the gateway's processor time in seconds since an arbitrary start.

        It is that of the poll threads of its wires and of the processes of its data path.
        """
        spent = run_time(self._threads())
        if self.backend.kernel_workers:
            # One end encrypts what the other decrypts, so half of this time is the gateway's.
            spent += run_time(t for t, n in _kernel_threads() if n.startswith("kworker/")) / 2
        return spent


_ALL = ("all", "default")


def _kernel_threads() -> list[tuple[Path, str]]:
    return [(Path(f"/proc/{p.pid}"), p.info["name"]) for p in psutil.process_iter(["name"])]


def hidden_threads() -> str:
    """Return what this machine lacks where /proc does not show the kernel's threads, or ""."""
    if any(name == "kthreadd" for _, name in _kernel_threads()):
        return ""
    return "needs the kernel's threads in /proc, which a container does not show"
