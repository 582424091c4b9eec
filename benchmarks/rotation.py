"""`./run bench rotation`: all peers of a link rotate their keys under load.

The gateway runs the steps of the charm library: it stages the next keys, and with WireGuard it
starts the handover watch, which activates them. Each peer has its own key. The peers switch one
after the other and then send a packet, as their charms and the charms' probes do. Streams of
numbered datagrams pass both ways through some of them. This benchmark needs no packages of `dist/`.
"""

from __future__ import annotations

import contextlib
import ipaddress
import select
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from attr import evolve
from vpnaas.base.links import directory
from vpnaas.params.intent import Intent
from vpnaas.peers.peer import Peer
from vpnaas.tunnels.wireguard import interface as wireguard
from vpnaas.vdu import programs
from vpnaas.vdu.steps import Step

from benchmarks.report import Goal, Report, command, counts
from benchmarks.rotating import GATEWAY, INNER, LIMIT, OUTER, Rotating
from benchmarks.swan.charon import missing
from benchmarks.swan.netns import Block, enter, wait
from benchmarks.swan.rotation import IpsecField
from benchmarks.swan.wireguard import Devices, key_pair
from experiments.background import InBackground
from lab.vim import cgroups, probe

PORT, BASE_PORT, STREAM = 51820, 20000, 7000
NUMBERED = struct.Struct("!IId")
SIZE = 100
PERIOD_US = 20_000


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

    def connect(self) -> None:
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
            self.watch.terminate()
            self.watch.wait()
        self._devices.stop()
        self.spaces.take_down()

    def device(self, number: int) -> str:
        return f"{self.link}{number}"

    def daemons(self) -> Sequence[int]:
        return [process.pid for process in self._devices.processes[:1]]

    def _wg(self, name: str, *words: str) -> str:
        return self.spaces.run(name, "wg", *words)

    def _key(self, name: str, text: str) -> None:
        (self.folder / name).touch(mode=0o600)
        (self.folder / name).write_text(text, encoding="ascii")

    def _peers(self, *, staged: bool) -> list[Peer]:
        made = []
        for number, inner in enumerate(self.inner):
            peer = Peer(
                name=f"rel-{number}",
                label=f"cell-{number}",
                prefixes=(ipaddress.ip_network(inner),),
                technology="wireguard",
                public_key=self.keys[number][1],
                endpoint=(ipaddress.ip_address(OUTER["field"]), BASE_PORT + number),
            )
            made.append(evolve(peer, next_public_key=self.next[number][1]) if staged else peer)
        return made

    def gateway_to(self, peers: Sequence[Peer], before: Sequence[Peer] | None) -> None:
        """Change the gateway's device from the peers `before` to `peers`, as a reconcile does."""
        params = {"link": self.link, "inner-address": f"{GATEWAY}/{INNER.prefixlen}"}
        link = Intent().configured(params).links[self.link]
        there = {
            peer.public_key: wireguard.LivePeer(frozenset(peer.prefixes)) for peer in before or ()
        }
        live = wireguard.Live(
            self.own[1], link.listen_port, there, frozenset([link.inner_address]), 1400, frozenset()
        )
        state = wireguard.State(self.own[1], "", 1, tuple(before or ()), live, None, True)
        for step in wireguard.steps_to(wireguard.Configuration.of(link, 1400, peers), state):
            self._do(step)

    def _do(self, step: Step) -> None:
        """Run one step, with the VDU's paths moved to our folder and without systemd."""
        body = step.body
        here = str(self.folder)
        if body["do"] == "write" and body["path"] == wireguard.staged_file(self.link):
            (self.folder / Path(body["path"]).name).write_text(body["text"], encoding="utf-8")
        if body["do"] != "run":
            return
        words = [word.replace(directory(self.link), here) for word in body["argv"]]
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
        words = ("show", self.gateway, "latest-handshakes")
        wait(lambda: "\t0\n" not in self._wg("gw", *words), LIMIT, "not all peers have a session")

    def stage(self) -> Sequence[int]:
        self.gateway_to(self._peers(staged=True), self._peers(staged=False))
        return [self.watch.pid] if self.watch else []

    def switch(self, number: int) -> None:
        words = ("private-key", str(self.folder / f"{number}-next"))
        self._wg("field", "set", self.device(number), *words)

    def let_in(self) -> int:
        keys = {public for _, public in self.next}
        shown = self._wg("gw", "show", self.gateway, "allowed-ips").splitlines()
        rows = [line.split("\t") for line in shown]
        return len([row for row in rows if row[0] in keys and row[1] != "(none)"])


class Streams:
    """Streams of numbered datagrams both ways through some peers, by threads in the namespaces."""

    def __init__(self, field: Rotating, sample: Sequence[int], rate: float) -> None:
        self.field, self.sample, self.rate = field, sample, rate
        self.sent = {"up": 0, "down": 0}
        self.seen: dict[str, list[tuple[int, int, float]]] = {"up": [], "down": []}
        self._stop, self._end = threading.Event(), threading.Event()
        self._ready = threading.Barrier(3)
        self._receivers: list[InBackground] = []
        self._senders: list[InBackground] = []

    def _inner(self) -> list[str]:
        return [self.field.inner[number] for number in self.sample]

    def start(self) -> None:
        self._receivers = [
            InBackground(partial(self._receive, "gw", [GATEWAY], "up")),
            InBackground(partial(self._receive, "field", self._inner(), "down")),
        ]
        self._ready.wait(60)
        self._senders = [
            InBackground(partial(self._send, "field", "up")),
            InBackground(partial(self._send, "gw", "down")),
        ]

    def stop(self, linger: float) -> None:
        """Stop the senders, and after `linger` seconds the receivers.

        Raises:
            click.ClickException: one ended before, so that nothing could be lost any more.
        """
        self._stop.set()
        try:
            for sender in self._senders:
                sender.result()
            time.sleep(linger)
            self._end.set()
            for receiver in self._receivers:
                receiver.result()
        except OSError as error:
            raise click.ClickException(f"a stream ended early: {error}") from None
        finally:
            self._end.set()

    def _receive(self, name: str, addresses: Sequence[str], way: str) -> None:
        enter(self.field.spaces.prefix + name)
        sockets = []
        for address in addresses:
            receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            # SO_RCVBUFFORCE: a large buffer, so that the receiver itself loses no datagrams.
            receiver.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)
            receiver.bind((address, STREAM))
            sockets.append(receiver)
        self._ready.wait(60)
        while not self._end.is_set():
            for receiver in select.select(sockets, [], [], 0.2)[0]:
                data = receiver.recv(2048)
                number, peer, sent = NUMBERED.unpack(data[: NUMBERED.size])
                self.seen[way].append((number, peer, time.monotonic() - sent))

    def _send(self, name: str, way: str) -> None:
        enter(self.field.spaces.prefix + name)
        # All peers share the field's namespace, so the source address selects the tunnel.
        sockets = {}
        for peer, inner in zip(self.sample, self._inner(), strict=True):
            sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sender.bind((inner if way == "up" else GATEWAY, 0))
            sender.connect((GATEWAY if way == "up" else inner, STREAM))
            sockets[peer] = sender
        began, number = time.monotonic(), 0
        while not self._stop.is_set():
            pause = began + number / self.rate - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            for peer, sender in sockets.items():
                head = NUMBERED.pack(number, peer, time.monotonic())
                with contextlib.suppress(OSError):  # The datagram counts as lost.
                    sender.send(head + b"\0" * (SIZE - len(head)))
            number += 1
            self.sent[way] = number

    def summary(self) -> dict[str, Any]:
        """Return the numbers of sent, lost, duplicate and reordered datagrams, and the delay."""
        sent = sum(self.sent.values()) * len(self.sample)
        seen = {(way, n, peer) for way, rows in self.seen.items() for n, peer, _ in rows}
        arrived = sum(len(rows) for rows in self.seen.values())
        turned = 0
        for rows in self.seen.values():
            last: dict[int, int] = {}
            for number, peer, _ in rows:
                turned += number < last.get(peer, 0)
                last[peer] = max(number, last.get(peer, 0))
        delays = [delay for rows in self.seen.values() for _, _, delay in rows]
        return {
            "sent": sent,
            "lost": sent - len(seen),
            "twice": arrived - len(seen),
            "reordered": turned,
            "longest-delay-ms": max(delays, default=0.0) * 1000,
        }


class Starved(Block):
    """A control group that limits processes to `percent` of one processor; 0 is no limit."""

    def __init__(self, pids: Sequence[int], percent: int) -> None:
        self.pids, self.percent = pids, percent
        first, name = cgroups.cpu1_mount(), f"rotation-{uuid.uuid4().hex[:6]}"
        self._parent = first or cgroups.cgroup2_mounts()[0]
        self._first, self._group = bool(first), self._parent / name

    def set_up(self) -> None:
        if not self.percent:
            return
        quota = str(self.percent * PERIOD_US // 100)
        if not self._first:
            (self._parent / "cgroup.subtree_control").write_text("+cpu")
        self._group.mkdir()
        if self._first:
            (self._group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self._group / "cpu.cfs_quota_us").write_text(quota)
        else:
            (self._group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        self.add(self.pids)

    def add(self, pids: Sequence[int]) -> None:
        for pid in pids if self.percent else ():
            (self._group / "cgroup.procs").write_text(str(pid))

    def take_down(self) -> None:
        """Move all processes, with their children, out of the group, and remove it."""
        for pid in cgroups.pids(self._group):
            with contextlib.suppress(OSError):
                (self._parent / "cgroup.procs").write_text(str(pid))
        cgroups.remove(self._group)


FIELDS: Mapping[str, type[Rotating]] = {"wireguard": WireguardField, "ipsec": IpsecField}


def measure(technology: str, count: int, sample: int, rate: float, percent: int) -> dict[str, Any]:
    """Rotate the keys of `count` peers, with streams of `rate` packets a second through some."""
    with (
        tempfile.TemporaryDirectory(prefix="rotation-") as folder,
        FIELDS[technology](Path(folder), count) as field,
        contextlib.ExitStack() as stack,
    ):
        streams = Streams(field, range(0, count, max(1, count // sample))[:sample], rate)
        field.nudge()
        field.wait_up()
        stack.callback(streams.stop, 2)
        streams.start()
        time.sleep(1)
        with Starved(field.daemons(), percent) as starved:
            began = time.monotonic()
            starved.add(field.stage())
            staged = time.monotonic()
            for number in range(count):
                field.switch(number)
            switched = time.monotonic()
            nudged = switched
            field.nudge()
            while field.let_in() < count and time.monotonic() - began < LIMIT:
                time.sleep(0.5)
                if time.monotonic() - nudged > 10:
                    nudged = time.monotonic()
                    field.nudge()
            ended = time.monotonic()
        time.sleep(1)
        stack.close()
        return {
            "technology": technology,
            "backend": field.backend,
            "peers": count,
            "streams": len(streams.sample),
            "rate": rate,
            "percent": percent,
            "stage-s": staged - began,
            "switch-s": switched - staged,
            "all-s": ended - began,
            "let-in": field.let_in(),
            "dropped": field.dropped(),
            **streams.summary(),
        }


def judge(results: Sequence[dict[str, Any]]) -> list[Goal]:
    """Compare each run with the goals: no datagram is lost, and all peers use their next keys."""
    return [
        Goal(
            f"packets lost, {r['technology']}, {r['peers']} peers, {r['percent'] or 'no'} limit",
            "0 of all sent, all peers in",
            f"{r['lost']} of {r['sent']}, {r['let-in']} in",
            r["lost"] == 0 and r["let-in"] == r["peers"],
        )
        for r in results
    ]


@command("rotation", missing=lambda: "" if shutil.which("wg") else "needs wg")
@click.option(
    "--technology", type=click.Choice([*FIELDS]), default="wireguard", show_default=True,
    help="Technology of the link.",
)  # fmt: skip
@counts("--peers", "10,100,1000", "Counts of peers.")
def main(report: Report, technology: str, peers: list[int]) -> None:
    """Let all peers of a link rotate their keys under load, and count what is lost."""
    if technology == "ipsec" and (reason := missing()):
        raise click.ClickException(f"this machine {reason}")
    results = report.document["results"] = []
    for count in peers:
        for percent in (0, 20):
            results.append(measure(technology, count, 10, 50.0, percent))
            report.say(results[-1])
    report.results("All peers of a link rotate", results)
    report.goals(judge(results))
