"""Two gateways of a hot-standby pair, their peers and a core, in namespaces.

The pair runs the same as a charm's VDU: keepalived with the configuration of
`vpnaas.features.pair.standby` and its watch program. `kill_daemon` also does what
systemd does on a VDU when the daemon ends.
"""

import ipaddress
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from vpnaas.features.gateway import gateway_tuning
from vpnaas.features.pair import standby
from vpnaas.features.pair.params import PRIMARY, SECONDARY, PairParams
from vpnaas.vdu.programs import source

from lab.certificates import Authority
from testbed.charon import GATEWAY_ID, Charon, connection
from testbed.netns import Block, Namespaces, end, wait
from testbed.probing import Probe
from testbed.site import CORE, CORE_PREFIX

OUTER = {"a": "10.100.0.1", "b": "10.100.0.2"}
TRUSTED = {"a": "10.201.0.1", "b": "10.201.0.2"}
VIRTUAL = "10.201.0.254"
SHARED = "10.100.0.254"
PEERS_PREFIX = "10.10.0.0/16"
LIMIT = 120.0
_PARTED = """table ip split {{
    set heard {{ type ipv4_addr; flags dynamic; }}
    chain input {{ type filter hook input priority 0; ip protocol 112 {input}; }}
    chain output {{ type filter hook output priority 0; ip protocol 112 {output}; }}
}}"""


def _install(path: Path, program: str, *changes: tuple[str, str]) -> None:
    """Write a program of the VDU, with other texts in place of these."""
    text = source(program)
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


class Pair(Block):
    """Gateways `a` (primary) and `b`; every peer has a tunnel to each.

    Attributes:
        dpd: DPD interval of the tunnels in seconds.
        claim: Interval in seconds at which the active gateway claims its peers again.
        shared: Number of peers, the last ones, that have one tunnel each, to the shared address.
        watch: Replacements in the watch program, each as (text, new text).
    """

    def __init__(
        self,
        folder: Path,
        count: int,
        *,
        advert: int = 3,
        dpd: int = 10,
        claim: int = 30,
        shared: int = 0,
        watch: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.folder, self.count = folder, count
        self.advert, self.dpd, self.claim = advert, dpd, claim
        self.shared, self.watch = shared, watch
        self.spaces = Namespaces("out", "a", "b", "in", "core", "peers")
        self.authority = Authority(folder / "ca")
        self.daemons: dict[str, Charon] = {}
        self.children: list[subprocess.Popen[bytes]] = []
        self.keepaliveds: dict[str, subprocess.Popen[bytes]] = {}
        self._certificates: dict[int, str] = {}

    @staticmethod
    def inner(number: int) -> str:
        """Return the address of a peer inside its tunnels."""
        return str(ipaddress.ip_address("10.10.0.1") + number)

    @staticmethod
    def outer(number: int) -> str:
        return str(ipaddress.ip_address("10.100.4.1") + number)

    def set_up(self) -> None:
        self.spaces.set_up()
        self._network()
        for name in "ab":
            self.start_gateway(name)
        self._start_peers()
        for name in "ab":
            self._watch(name)
        self.start_keepalived("a")
        self.wait_active("a")
        self.start_keepalived("b")
        time.sleep(0.5)

    def take_down(self) -> None:
        end([*self.keepaliveds.values(), *self.children])
        for daemon in self.daemons.values():
            daemon.stop(signal.SIGKILL)
        self.spaces.take_down()

    def _network(self) -> None:
        spaces = self.spaces
        free = [f"net.ipv4.conf.{kind}.rp_filter=0" for kind in ("all", "default")]
        spaces.bridge("out", "br0")
        spaces.bridge("in", "br0")
        for index, name in enumerate("ab"):
            for side, device in (("out", "out0"), ("in", "in0")):
                spaces.wire(name, side, names=(device, f"g{name}"))
                spaces.ip(side, "link", "set", f"g{name}", "master", "br0")
            spaces.ip(name, "address", "add", f"{OUTER[name]}/16", "dev", "out0")
            spaces.ip(name, "address", "add", f"{TRUSTED[name]}/24", "dev", "in0")
            # kernel-libipsec needs a local address inside the traffic selectors.
            spaces.ip(name, "address", "add", f"10.200.255.{index + 1}/32", "dev", "lo")
            spaces.sysctl(name, "net.ipv4.ip_forward=1", *free)
            spaces.ip(name, "route", "add", CORE, "via", "10.201.0.10")
            spaces.ip(name, "route", "add", "10.100.4.0/22", "via", "10.100.0.10")
        for name, side, address in (
            ("core", "in", "10.201.0.10/24"),
            ("peers", "out", "10.100.0.10/16"),
        ):
            spaces.wire(name, side, names=("eth0", f"g{name}"))
            spaces.ip(side, "link", "set", f"g{name}", "master", "br0")
            spaces.ip(name, "address", "add", address, "dev", "eth0")
            spaces.sysctl(name, *free)
        spaces.ip("core", "address", "add", CORE, "dev", "lo")
        spaces.ip("core", "route", "add", PEERS_PREFIX, "via", VIRTUAL)
        numbers = range(self.count)
        addresses = [f(number) for number in numbers for f in (self.outer, self.inner)]
        spaces.batch("peers", [f"address add {address}/32 dev lo" for address in addresses])

    def start_gateway(self, name: str) -> None:
        """Start the daemon of a gateway, with its own key for the common identity."""
        # Tuned for all peers, so that no peer has to wait.
        tuned = gateway_tuning.settings(self.count)
        daemon = Charon(self.spaces, name, self.folder, tuned)
        self.daemons[name] = daemon.start()
        certificate = daemon.identify(self.authority, GATEWAY_ID)
        for number in range(self.count - self.shared, self.count):
            daemon.vici.load_conn(self._of_shared(number, certificate))
        made = self._at_gateway(OUTER[name], certificate, PEERS_PREFIX)
        daemon.vici.load_conn({"peers": made})

    def _at_gateway(
        self, near: str, certificate: str, prefix: str, identity: str = "%any", **more: Any
    ) -> dict[str, Any]:
        """Return a gateway's connection for peers with addresses in a prefix."""
        known = {"cacerts": [self.authority.certificate], "id": identity}
        child = {"local_ts": [CORE_PREFIX], "remote_ts": [prefix], "dpd_action": "clear"}
        timing = {"unique": "replace", "dpd_delay": f"{self.dpd}s"}
        return connection(near, (GATEWAY_ID, certificate), known, child, **timing, **more)

    def _of_shared(self, number: int, certificate: str) -> dict[str, Any]:
        """Return a gateway's connection for a peer that knows only the shared address."""
        identity, ends = f"enb{number}.secgw.example", [self.outer(number), "%any"]
        prefix = f"{self.inner(number)}/32"
        made = self._at_gateway(SHARED, certificate, prefix, identity, remote_addrs=ends)
        return {f"s1_man-{number}_0_0": made}

    def _turn(self, name: str) -> str:
        uri = f"unix://{self.daemons[name].socket}"
        home = self.folder / name
        _install(
            home / "turn",
            "gateway_turn.sh",
            ("lock=/run/osm-vpnaas-again", f"lock={home}/again"),
            ("/etc/osm-vpnaas/*/ipsec.shared", f"{home}/ipsec.shared"),
            ("first=/run/osm-vpnaas-first", f"first={home}/first"),
            ("ipsec=/usr/local/lib/osm-vpnaas/ipsec", f"ipsec={home}/ipsec"),
            ("swanctl --rekey", f"swanctl --rekey --uri {uri}"),
        )
        if self.shared:
            names = [f"s1_man-{n}_0_0" for n in range(self.count - self.shared, self.count)]
            (home / "ipsec.shared").write_text(json.dumps(dict.fromkeys(names, True)))
            _install(
                home / "ipsec",
                "ipsec.py",
                ('"/etc/osm-vpnaas/*/"', f'"{home}/"'),
                ("/var/run/charon.vici", str(self.daemons[name].socket)),
                ('run("swanctl", *words)', f'run("swanctl", *words, "--uri", "{uri}")'),
            )
        return str(home / "turn")

    def _start_peers(self) -> None:
        tuned = gateway_tuning.settings(2 * self.count)
        daemon = Charon(
            self.spaces, "peers", self.folder, {**tuned, "threads": 32, "retransmit_tries": 3}
        )
        self.daemons["peers"] = daemon.start()
        daemon.trust(self.authority)
        for gateway in "ba":  # The primary's tunnels come last, so peers prefer them.
            for number in range(self.count - self.shared):
                self._load_peer(daemon, number, OUTER[gateway], gateway)
            self.daemons[gateway].wait_for(self.count - self.shared, LIMIT)

    def call_shared(self) -> None:
        """Let peers of the shared address connect; return when their tunnels are up."""
        for number in range(self.count - self.shared, self.count):
            self._load_peer(self.daemons["peers"], number, SHARED, "shared")
        self.daemons["a"].wait_for(self.count, LIMIT)

    def _load_peer(self, daemon: Charon, number: int, address: str, gateway: str) -> None:
        identity = f"enb{number}.secgw.example"
        if number not in self._certificates:
            self._certificates[number], key = self.authority.issue(identity, [identity])
            daemon.load_key(key)
        shared = address == SHARED
        child = {
            "local_ts": [f"{self.inner(number)}/32"],
            "remote_ts": [CORE_PREFIX],
            "start_action": "start",
            "dpd_action": "restart",
            # A gateway that initiates closes earlier tunnels; the peer need not initiate then.
            "close_action": "none" if shared else "start",
        }
        made = connection(
            self.outer(number),
            (identity, self._certificates[number]),
            {"id": GATEWAY_ID},
            child,
            remote_addrs=[address],
            # One of two tunnels must not replace the other.
            unique="replace" if shared else "never",
            keyingtries="0",
            dpd_delay=f"{self.dpd}s",
        )
        daemon.vici.load_conn({f"{gateway}{number}": made})

    def _watch(self, name: str) -> None:
        program = self.folder / name / "watch"
        _install(program, "gateway_watch.py", *self.watch)
        words: tuple[object, ...] = (program, self.health(name), self.count - self.shared)
        words += (standby.SPAN, VIRTUAL, self.claim, "s1", TRUSTED["b" if name == "a" else "a"])
        words += (self.folder / name / "first", self.daemons[name].socket)
        self.children.append(subprocess.Popen(self.spaces.argv(name, *map(str, words))))

    def health(self, name: str) -> Path:
        """Return the file from which a gateway's keepalived reads the state of its tunnels."""
        return self.folder / name / "tunnels"

    def start_keepalived(self, name: str) -> None:
        other = "b" if name == "a" else "a"
        shared = ipaddress.ip_interface(f"{SHARED}/16")
        params = PairParams(
            role=PRIMARY if name == "a" else SECONDARY,
            trusted="in0",
            untrusted="out0",
            other=ipaddress.ip_address(TRUSTED[other]),
            virtual=ipaddress.ip_interface(f"{VIRTUAL}/24"),
            advert=self.advert * 10,
            shared_address=shared if self.shared else None,
            shared_identity="shared" if self.shared else "",
        )
        own = ipaddress.ip_address(TRUSTED[name])
        gateway = standby.Standby(params, own, self.count - self.shared, children=("s1",))
        turn = self._turn(name)
        home = self.folder / name
        health = self.health(name)
        if not health.exists():
            health.write_text("0\n", encoding="ascii")
        text = standby.keepalived_conf(gateway, str(health), turn, record=False)
        (home / "keepalived.conf").write_text(text, encoding="ascii")
        files = ("-f", home / "keepalived.conf", "-p", home / "ka.pid", "-r", home / "vrrp.pid")
        self.keepaliveds[name] = subprocess.Popen(
            self.spaces.argv(name, "keepalived", "-n", "-l", *map(str, files)),
            stdout=(home / "keepalived.log").open("ab"),
            stderr=subprocess.STDOUT,
        )

    def active(self) -> str:
        """Return the names of the gateways that hold the virtual address."""
        return "".join(
            n for n in "ab" if f" {VIRTUAL}/" in self.spaces.ip(n, "-br", "address", check=False)
        )

    def wait_active(self, names: str, seconds: float = LIMIT) -> float:
        """Wait until exactly these gateways hold the virtual address; return the seconds."""
        failure = lambda: f"active is {self.active()!r}, not {names!r}"  # noqa: E731
        return wait(lambda: self.active() == names, seconds, failure)

    # Failures

    def lose(self, name: str) -> None:
        """Block all packets from and to a gateway, but keep the carrier, as if its host died."""
        for each in ("out", "in"):
            self.spaces.ip(each, "link", "set", f"g{name}", "nomaster")

    def regain(self, name: str) -> None:
        """Undo `lose`."""
        for each in ("out", "in"):
            self.spaces.ip(each, "link", "set", f"g{name}", "master", "br0")

    def unplug(self, name: str) -> None:
        """Remove the carrier of a gateway's untrusted interface."""
        self.spaces.ip("out", "link", "set", f"g{name}", "down")

    def plug(self, name: str) -> None:
        """Undo `unplug`."""
        self.spaces.ip("out", "link", "set", f"g{name}", "up")

    def kill_daemon(self, name: str) -> None:
        """Kill a gateway's charon with SIGKILL, then do the same as its unit's ExecStopPost."""
        self.daemons[name].stop(signal.SIGKILL)
        self.health(name).write_text("0\n", encoding="ascii")

    def deafen(self, *names: str) -> None:
        """Drop the VRRP packets that these gateways receive; all other packets pass."""
        for name in names:
            self.spaces.run(name, "nft", _PARTED.format(input="drop", output="accept"))

    def heal(self, *names: str) -> None:
        """Undo `deafen`."""
        for name in names:
            self.spaces.run(name, "nft", "delete table ip split")

    def part(self, name: str) -> None:
        """Block VRRP to and from a gateway; all other packets pass."""
        self.spaces.run(name, "nft", _PARTED.format(input="drop", output="drop"))

    def rejoin(self, name: str) -> None:
        """Undo `part`, but let this gateway send VRRP only after it has received some.

        Otherwise the order of the first packets is random. `heal` removes this rule.
        """
        rules = _PARTED.format(
            input="update @heard { ip saddr }", output="ip daddr != @heard counter drop"
        )
        self.spaces.run(name, "nft", f"delete table ip split; {rules}")

    def attack(self, name: str, seconds: float, pause: float) -> subprocess.Popen[bytes]:
        """Start an attacker that records the peers' packets and replays them, see `replay`."""
        device = json.loads(self.spaces.ip(name, "-j", "link", "show", "out0"))[0]
        words = (str(seconds), str(pause), device["address"], OUTER[name])
        program = str(Path(__file__).with_name("replay.py"))
        return subprocess.Popen(
            self.spaces.argv("out", sys.executable, program, *words), stdout=subprocess.PIPE
        )

    def ready(self, names: str, seconds: float = LIMIT) -> float:
        """Wait until the health files of gateways show all tunnels; return the seconds."""

        def up() -> bool:
            return all(self.health(n).read_text().strip() == str(standby.SPAN) for n in names)

        return wait(up, seconds, f"not all tunnels of {names} are up", 0.1)

    def probe(
        self,
        seconds: float,
        *actions: tuple[float, Callable[[], object]],
        samples: int | Sequence[int] = 3,
        period: float = 0.001,
        until: Callable[[], bool] | None = None,
    ) -> dict[str, Any]:
        """Probe the core from some peers while actions run.

        Args:
            seconds: Duration of the probe.
            actions: (seconds after the start, function to call) in order.
            samples: Number of peers, spread from the first to the last; or which ones.
            period: Seconds between two datagrams of a peer.
            until: Condition for an early end; the probe ends after it is true and all flows get
                answers.
        """
        if isinstance(samples, int):
            step = max(1, (self.count - 1) // max(1, samples - 1))
            samples = sorted({*range(0, self.count, step), self.count - 1})[:samples]
        sources = [self.inner(number) for number in samples]
        with Probe(self.spaces, ("peers", "core"), CORE, sources, seconds, period) as probe:
            started = time.monotonic()
            for at, action in actions:
                time.sleep(max(0.0, started + at - time.monotonic()))
                action()
            if until is not None:
                while not until() and probe.sender.poll() is None:
                    time.sleep(0.05)
                time.sleep(0.7)  # The probe must also show the effects of the last change.
                probe.sender.terminate()
            report = probe.result()
        report["gap-ms"] = max(flow["gap-ms"] for flow in report["flows"])
        report["lost"] = max(flow["lost"] for flow in report["flows"])
        report["duplicates"] = report["echo"]["duplicates"]
        return report
