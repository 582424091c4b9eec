"""`./run bench peers`: the cost of one more peer of a link, by the number of existing peers.

The charm library controls a VDU of the lab as a charm does: it observes, plans, and lets the agent
run the steps, here on the VDU's console instead of SSH. The VDU has a real systemd and, depending
on the technology, a real charon or WireGuard. The peers are manual, have keys, and never connect.
"""

import base64
import ipaddress
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attr
import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from vpnaas.params.intent import Intent, ManualPeer, manual_peer
from vpnaas.peers.inputs import CharmState
from vpnaas.plan import conclude, make_plan, observe_steps, prepare_steps
from vpnaas.vdu.ssh import CommandResult, Login, Vdu

from benchmarks.report import Report, command, counts
from experiments.on_the_lab import console
from lab.vim.account import Vim, clean
from lab.vim.model import NetworkSpec, PortSpec, Server, ServerSpec

LINK = "s1c"
UNDERLAY = "ens4"
INNER = ipaddress.ip_network("10.64.0.0/10")


class ConsoleVdu(Vdu):
    """A VDU whose agent runs on its console; it counts bytes and processor time.

    Attributes:
        sent, received: Bytes of the requests and the answers.
        spent: Processor time in seconds of the agent and its child processes.
    """

    def __init__(self, vim: Vim, server: Server) -> None:
        super().__init__(Login("127.0.0.1", "root", "", ""))
        self._vim, self._server = vim, server
        self.run = console(vim, server.id, "gateway")
        self.sent = self.received = 0
        self.spent = 0.0

    def command(self, command: str, stdin: str = "", seconds: int = 60) -> CommandResult:
        self.round_trips += 1
        before = _children()
        done = self._vim.console(self._server.id, ["sh", "-c", command], stdin, seconds)
        self.spent += _children() - before
        self.sent += len(stdin.encode())
        self.received += len(done.stdout.encode())
        return CommandResult(done.returncode, done.stdout, done.stderr)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def manual(count: int, technology: str) -> list[ManualPeer]:
    """Return peers with new keys, as `add-peer` makes them."""
    result = []
    for index in range(count):
        if technology == "ipsec":
            public = Ed25519PrivateKey.generate().public_key()
            raw = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        else:
            raw = X25519PrivateKey.generate().public_key().public_bytes_raw()
        params = {
            "link": LINK,
            "name": f"cell-{index:04}",
            "public-key": base64.b64encode(raw).decode(),
            "allowed-prefixes": f"{INNER[index + 256]}/32",
        }
        result.append(manual_peer(params))
    return result


class Driver:
    """Reconciles as a charm does, around the library's pure core."""

    def __init__(self, vdu: ConsoleVdu, technology: str, management: str) -> None:
        self.vdu = vdu
        self.management = ipaddress.ip_address(management)
        self.intent = Intent().configured(
            {
                "link": LINK,
                "inner-address": f"{INNER[1]}/{INNER.prefixlen}",
                "technology": technology,
                "underlay-interface": UNDERLAY,
            }
        )

    def reconcile(self, peers: Sequence[ManualPeer]) -> None:
        intent = attr.evolve(self.intent, peers={(peer.link, peer.name): peer for peer in peers})
        # A charm reads its intent from its peer relation, so convert to JSON and back.
        intent = Intent.from_json(intent.to_json())
        charm_state = CharmState(
            intent=intent, roles={LINK: "provider"}, management=self.management, user="root"
        )
        vdu = self.vdu
        results = vdu.execute(observe_steps(charm_state)).check()
        prepare = prepare_steps(charm_state, results)
        prepared = vdu.execute(prepare).check() if prepare else None
        plan = make_plan(charm_state, results, prepared)
        after = vdu.execute(plan.steps).check() if plan.steps else None
        link = conclude(plan, after)[LINK]
        if link.problems or len(link.peers) != len(peers):
            raise click.ClickException(
                f"{len(link.peers)} of {len(peers)} peers: {link.problems[:2]}"
            )


@contextmanager
def gateway() -> Iterator[Callable[[str], Driver]]:
    """Boot a VDU, and yield a function that returns its driver for a technology."""
    home = Path(tempfile.mkdtemp(prefix="osm-peers-"))
    try:
        vim = Vim.create(home, "site")
        data = vim.create_network(NetworkSpec("data", "192.168.8.0/24", dhcp=False), "peers")
        ports = (PortSpec(vim.management_network().id), PortSpec(data.id, ip="192.168.8.1"))
        spec = ServerSpec("gateway", "gateway", "ubuntu22.04", 2, 2048, 1, ports)
        server = vim.wait_active(vim.create_server(spec, "peers").id, 120)
        management = server.ip_on(vim.management_network().id)
        assert management is not None
        yield lambda technology: Driver(ConsoleVdu(vim, server), technology, management)
    finally:
        clean(home)


def _daemon(vdu: ConsoleVdu) -> float:
    pid = vdu.run("systemctl", "show", "-p", "MainPID", "--value", "strongswan").strip()
    if pid in ("", "0"):
        return 0.0
    # Nanoseconds by thread, because /proc/PID/stat has ticks of 10 ms.
    times = vdu.run("sh", "-c", f"cat /proc/{pid}/task/*/schedstat")
    return sum(int(line.split()[0]) for line in times.splitlines()) / 1e9


def measure(driver: Driver, count: int, technology: str) -> list[dict[str, Any]]:
    """Configure a link with `count` peers at once, then without a change, one more, one less."""
    peers = manual(count + 1, technology)
    # The additional peer is in the middle, because the last place might be cheaper.
    others = peers[: count // 2] + peers[count // 2 + 1 :]
    result = []
    for what, given in (
        ("all at once", others),
        ("nothing changed", others),
        ("one more", peers),
        ("one less", others),
    ):
        vdu = driver.vdu
        vdu.sent = vdu.received = vdu.round_trips = 0
        vdu.spent = 0.0
        daemon, started, cpu = _daemon(vdu), time.monotonic(), time.process_time()
        driver.reconcile(given)
        result.append(
            {
                "technology": technology,
                "peers": count,
                "what": what,
                "round-trips": vdu.round_trips,
                "request-bytes": vdu.sent,
                "answer-bytes": vdu.received,
                "wall-s": time.monotonic() - started,
                "library-cpu-s": time.process_time() - cpu,
                "agent-cpu-s": vdu.spent,
                "daemon-cpu-s": _daemon(vdu) - daemon,
            }
        )
    driver.reconcile([])
    return result


@command("peers")
@counts("--peers", "32,250,1000", "Counts of peers.")
def main(report: Report, peers: list[int]) -> None:
    """Let the charm library control a VDU with many peers of a link, and measure the cost."""
    results = report.document["results"] = []
    with gateway() as drive:
        for technology in ("ipsec", "wireguard"):
            driver = drive(technology)
            driver.reconcile([])
            for count in peers:
                results += measure(driver, count, technology)
    report.results("One reconcile of a link, by the peers that are there", results)
