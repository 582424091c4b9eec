"""A link whose peers all rotate their keys: a gateway and its peers in two namespaces.

The gateway runs the steps of the charm library, or loads the connections that it renders. Each peer
has its own key, identity and inner address. One charon serves all peers with IPsec.
"""

import contextlib
import ipaddress
import socket
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vici.exception import CommandException
from vici.protocol import FiniteStream, Message
from vpnaas.base.links import DIRECTORY, wireguard_interface
from vpnaas.params.intent import Intent, link_params
from vpnaas.peers.peer import Peer
from vpnaas.tunnels.ipsec.configuration import Configuration, render
from vpnaas.tunnels.ipsec.names import POLICY, USERSPACE
from vpnaas.tunnels.ipsec.transition import CLOSE_SECONDS
from vpnaas.tunnels.wireguard import interface as wireguard
from vpnaas.tunnels.wireguard.names import STAGED
from vpnaas.vdu import programs
from vpnaas.vdu.facts import Interface
from vpnaas.vdu.programs.charon import message
from vpnaas.vdu.programs.ipsec import sections
from vpnaas.vdu.steps import Step

from lab.vim.dataplane import probe
from testbed import vdu
from testbed.charon import Charon, backend
from testbed.netns import Block, Namespaces, end, inside, wait
from testbed.wireguard import Devices, key_pair

OUTER = {"gw": "10.100.0.1", "field": "10.100.0.2"}
INNER = ipaddress.ip_network("10.64.0.0/10")
GATEWAY = str(INNER[1])
LIMIT = 600.0  # Limit in seconds.
PORT, BASE_PORT = 51820, 20000
LINK = "s1"
CLOSE_MS = str(CLOSE_SECONDS * 1000)


class Rotating(Block):
    """A gateway and `count` peers, each with an inner address; a technology makes the tunnels.

    Attributes:
        folder: Folder for its files.
        inner: Inner addresses of the peers.
        backend: Implementation of the data plane, with its version.
        keys: Private and public key of each peer; `next` has those that it rotates to.
    """

    backend: str
    keys: list[tuple[str, str]]
    next: list[tuple[str, str]]

    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.count = folder, count
        self.spaces = Namespaces("gw", "field")
        self.inner = [str(INNER[256 + number]) for number in range(count)]

    def set_up(self) -> None:
        self.spaces.set_up()
        self.spaces.wire("gw", "field", names=("u0", "u0"))
        for name, address in OUTER.items():
            self.spaces.ip(name, "address", "add", f"{address}/24", "dev", "u0")
        # Addresses come first, because every address change notifies every running wireguard-go.
        self.spaces.batch("field", [f"address add {inner}/32 dev lo" for inner in self.inner])

    def peer(self, number: int, staged: bool, **more: Any) -> Peer:
        """Return what the gateway knows of a peer."""
        return Peer(
            name=f"rel-{number}",
            label=f"peer-{number}",
            prefixes=(ipaddress.ip_network(self.inner[number]),),
            public_key=self.keys[number][1],
            next_public_key=self.next[number][1] if staged else "",
            **more,
        )

    def dropped(self) -> dict[str, int]:
        """Return the packets that the kernel dropped, by reason, if it counts them."""
        return {}

    def nudge(self) -> None:
        """Let each peer send one packet, as the probe of its charm does."""

        def send() -> None:
            for inner in self.inner:
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                    sender.bind((inner, 0))
                    sender.sendto(b"", (GATEWAY, 9))

        inside(self.spaces.prefix + "field", send)


class WireguardField(Rotating):
    """One WireGuard device as the gateway, and one for each peer.

    Attributes:
        watch: The handover watch, once the next keys are staged.
    """

    def __init__(self, folder: Path, count: int) -> None:
        super().__init__(folder, count)
        self.backend = f"{probe().backend} {probe().version}"
        self.link = f"r{uuid.uuid4().hex[:5]}"
        self.gateway = f"wg-{self.link}"
        self.own = key_pair()
        self.keys = [key_pair() for _ in range(count)]
        self.next = [key_pair() for _ in range(count)]
        self.watch: subprocess.Popen[bytes] | None = None
        self._devices = Devices(GOMAXPROCS="2")

    def set_up(self) -> None:
        super().set_up()
        self._devices.make(self.spaces, "gw", [self.gateway])
        self._devices.make(self.spaces, "field", [self.device(n) for n in range(self.count)])
        self._key("own", self.own[0])
        self._wg("gw", "set", self.gateway, "private-key", str(self.folder / "own"),
                 "listen-port", str(PORT))  # fmt: skip
        self.spaces.ip("gw", "address", "add", f"{GATEWAY}/{INNER.prefixlen}", "dev", self.gateway)
        self.spaces.ip("gw", "link", "set", self.gateway, "mtu", "1400", "up")
        self.gateway_to(self._peers(staged=False), None)
        for number, inner in enumerate(self.inner):
            self._key(f"{number}", self.keys[number][0])
            self._key(f"{number}-next", self.next[number][0])
            device = self.device(number)
            words = ("private-key", str(self.folder / f"{number}"), "listen-port")
            ends = ("endpoint", f"{OUTER['gw']}:{PORT}", "allowed-ips", f"{GATEWAY}/32")
            port = str(BASE_PORT + number)
            self._wg("field", "set", device, *words, port, "peer", self.own[1], *ends)
            lines = [
                f"link set {device} mtu 1400 up",
                f"rule add from {inner} lookup {1000 + number}",
                f"route add {GATEWAY}/32 dev {device} table {1000 + number}",
            ]
            self.spaces.batch("field", lines)

    def take_down(self) -> None:
        if self.watch:
            end([self.watch])
        self._devices.stop()
        self.spaces.take_down()

    def device(self, number: int) -> str:
        return f"{self.link}{number}"

    def daemons(self) -> Sequence[int]:
        """Return the processes that carry the gateway's packets, none if the kernel does."""
        return [process.pid for process in self._devices.processes[:1]]

    def _wg(self, name: str, *words: str) -> str:
        return self.spaces.run(name, "wg", *words)

    def _key(self, name: str, text: str) -> None:
        (self.folder / name).touch(mode=0o600)
        (self.folder / name).write_text(text, encoding="ascii")

    def _peers(self, *, staged: bool) -> list[Peer]:
        outer = ipaddress.ip_address(OUTER["field"])
        return [
            self.peer(n, staged, technology="wireguard", endpoint=(outer, BASE_PORT + n))
            for n in range(self.count)
        ]

    def gateway_to(self, peers: Sequence[Peer], before: Sequence[Peer] | None) -> None:
        """Change the gateway's device from the peers `before` to `peers`, as a reconcile does."""
        params = {"link": self.link, "inner-address": f"{GATEWAY}/{INNER.prefixlen}"}
        link = Intent().configured(params).links[self.link]
        there = {
            peer.public_key: wireguard.LivePeer(frozenset(peer.prefixes)) for peer in before or ()
        }
        own, interface = link.inner_address, wireguard_interface(self.link)
        state = wireguard.State(
            self.own[1],
            "",
            1,
            tuple(before or ()),
            live=wireguard.Live(self.own[1], link.listen_port, there),
            interface=Interface(interface, 1400, (own,)),
            routes=frozenset(),
            connected=frozenset([own.network]),
            file=None,
            enabled=True,
        )
        for step in wireguard.steps_to(wireguard.Configuration(link, 1400, tuple(peers)), state):
            self._do(step)

    def _do(self, step: Step) -> None:
        """Run one step, with the VDU's paths moved to our folder and without systemd."""
        body = step.body
        here = str(self.folder)
        if body["do"] == "write" and body["path"] == STAGED.format(self.link):
            (self.folder / Path(body["path"]).name).write_text(body["text"], encoding="utf-8")
        if body["do"] != "run":
            return
        words = [word.replace(DIRECTORY.format(self.link), here) for word in body["argv"]]
        if words[0] == "wg" and "stdout_file" in body:
            self._key(Path(body["stdout_file"]).name, self._wg("gw", *words[1:]))
        elif words[0] == "wg":
            self._wg("gw", *words[1:])
        elif words[0] == "systemd-run":
            at = words.index(wireguard.HANDOVER_PROGRAM)
            program = self.folder / "handover"
            program.write_text(programs.source("handover.py"), encoding="utf-8")
            nice = next(word for word in words if word.startswith("--nice"))
            run = ("nice", "-n", nice.partition("=")[2], "python3", str(program))
            self.watch = subprocess.Popen(
                self.spaces.argv("gw", *run, *words[at + 1 :]),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def wait_up(self) -> None:
        """Wait until all peers have a tunnel, because the first handshakes are not measured."""
        words = ("show", self.gateway, "latest-handshakes")
        wait(lambda: "\t0\n" not in self._wg("gw", *words), LIMIT, "not all peers have a session")

    def stage(self) -> Sequence[int]:
        """Stage the next keys of all peers at the gateway; return the started processes."""
        self.gateway_to(self._peers(staged=True), self._peers(staged=False))
        return [self.watch.pid] if self.watch else []

    def switch(self, number: int) -> None:
        words = ("private-key", str(self.folder / f"{number}-next"))
        self._wg("field", "set", self.device(number), *words)

    def let_in(self) -> int:
        """Return how many peers the gateway knows only by their next key."""
        keys = {public for _, public in self.next}
        shown = self._wg("gw", "show", self.gateway, "allowed-ips").splitlines()
        rows = [line.split("\t") for line in shown]
        return len([row for row in rows if row[0] in keys and row[1] != "(none)"])


def _key(path: Path) -> tuple[str, str]:
    """Create a private key; return it as PEM, and the public key in the form of an offer."""
    public_key = vdu.key_pair(path)
    return path.read_text(encoding="ascii"), public_key


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

    def set_up(self) -> None:
        super().set_up()
        self.spaces.ip("gw", "address", "add", f"{GATEWAY}/32", "dev", "lo")
        for name, daemon in (("gw", self.gateway), ("field", self.peers)):
            other = OUTER["field" if name == "gw" else "gw"]
            self.spaces.ip(name, "route", "add", str(INNER), "via", other)
            daemon.start()
        self.gateway.load_key(self.own[0])
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
        self.peers.load_key(key[0])
        made = self._rendered("field", f"peer-{number}", self.inner[number], key[1], [gateway])
        self._load(self.peers, made)
        (self.names[number],) = made
        self.peers.initiate([self.names[number]], LINK, str(int(LIMIT) * 1000))

    def _at_gateway(self, *, staged: bool) -> dict[str, Any]:
        peers = [
            self.peer(n, staged, technology="ipsec", identity=f"peer-{n}", generation=1)
            for n in range(self.count)
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
        file = render(configuration, vdu.state(LINK, key, identity, self.plane))
        made: dict[str, Any] = sections(file)["connections"]
        return made

    @staticmethod
    def _load(daemon: Charon, made: dict[str, Any]) -> None:
        for name, section in made.items():
            stream = FiniteStream(message({name: section}))
            daemon.vici.load_conn(Message.deserialize(stream))
