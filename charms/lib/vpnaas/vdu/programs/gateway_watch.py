#!/usr/bin/python3
"""Tell keepalived which share of a gateway's peers has a tunnel, and claim the peers.

To claim a peer is to rekey its CHILD_SA here: peers use the newest. A gateway that becomes active
claims all its peers, and again at intervals while it is active. Peers with traffic come first and
at once. The others follow at a limited rate, so that their rekeying does not delay packets. Only
the active gateway knows which peers have traffic, so it tells the other one every few seconds, on
the trusted side. `gateway-turn` says through a FIFO when to claim.

Usage: gateway-watch FILE PEERS SPAN ADDRESS SECONDS CHILD[,CHILD...] OTHER [FIFO [SOCKET]]

FILE is keepalived's. SOCKET is charon's, for vici. While the program serves the FIFO, it holds a
lock on FIFO-lock.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import Dict, Iterable, List, NamedTuple, Optional

from vpnaas.vdu.programs.charon import SOCKET, Daemon, associations, message
from vpnaas.vdu.programs.common import family, is_local, run

AWAY = "/etc/osm-vpnaas/standby-away"
FIFO = "/run/osm-vpnaas-first"
PERIOD = 0.5  # seconds; the daemon's own unit reports at once when it dies
OFTEN, SELDOM = 2.0, 10.0
"""Least and most seconds between two looks at all tunnels."""
SHARE = 20
"""Between these, a look takes a twentieth of the time."""
MOST = 128
"""Most peers with traffic that are claimed at once; what they need must fit into 300 ms."""
LEAST = 32
"""Peers that are claimed at once in any case."""
RATE = 100
"""Peers that are claimed in a second after these. With 250 of 1,000, packets waited for seconds."""
PORT = 5798
"""UDP port on which the active gateway tells the other one which peers have traffic."""
DIGEST = 8


class Tunnel(NamedTuple):
    """The tunnel of a peer: digest of its traffic selectors, IKE_SA, CHILD_SA, packets so far."""

    peer: bytes
    ike: str
    child: str
    packets: int


SECONDS = 5.0
"""Limit of a command; the daemon is busy if it takes longer."""
PATIENCE = 15.0
"""Seconds for which a daemon that is too busy to answer keeps the share that it had last."""


def output(*command: str) -> Optional[str]:
    """Return what a command prints, None if it takes too long."""
    try:
        return run(*command, seconds=SECONDS)[1]
    except subprocess.TimeoutExpired:
        return None


def established(*uri: str) -> Optional[int]:
    """Return how many IKE_SAs are established, -1 without a daemon, None if it is too busy."""
    shown = output("swanctl", "--stats", *uri)
    if shown is None:
        return None
    match = re.search(r"IKE_SAs: (\d+) total, (\d+) half-open", shown)
    return int(match.group(1)) - int(match.group(2)) if match else -1


def listed(*uri: str) -> Optional[int]:
    """Return the same number as `established`, counted in a list of all IKE_SAs.

    The list takes longer, and is exact in a flood, too.
    """
    shown = output("swanctl", "--list-sas", "--raw", *uri)
    if shown is None:
        return None
    return shown.count(" state=ESTABLISHED ") if "list-sas reply" in shown else -1


def health(up: int, peers: int, span: int) -> int:
    """Return the share of peers with a tunnel, of `span`; with 0 peers, whether the daemon runs."""
    if up < 0:
        return 0
    return span * min(up, peers) // peers if peers else span


class Share:
    """The share of peers with a tunnel, which a flood of requests does not change.

    The daemon counts all IKE_SAs and then those that are half-open. In a flood more come between,
    and too few seem established, look after look. So what is lost counts when a list agrees.
    """

    def __init__(self, peers: int, span: int) -> None:
        self.peers, self.span = peers, span
        self.value = 0
        self.heard = 0.0
        self.doubted = False

    def look(self, *uri: str) -> int:
        """Look at the daemon; return the share."""
        up = (listed if self.doubted else established)(*uri)
        return self.after(up, time.monotonic())

    def after(self, up: Optional[int], now: float) -> int:
        """Return the share after a look at the daemon; see `established`."""
        if up is None:
            if now - self.heard > PATIENCE:
                self.value = 0
            return self.value
        self.heard = now
        value = health(up, self.peers, self.span)
        self.doubted = up >= 0 and value < self.value and not self.doubted
        if not self.doubted:
            self.value = value
        return self.value


_CHILD = re.compile(
    r"\{name=(\S+) uniqueid=\d+ .*?state=(?:INSTALLED|REKEYING|REKEYED) .*?"
    r"packets-in=(\d+) .*?packets-out=(\d+) .*?remote-ts=\[([^]]*)\]"
)


def tunnels(listed: str) -> List[Tunnel]:
    """Read the output of `swanctl --list-sas --raw`. Of two IKE_SAs of a peer the newest counts."""
    result: Dict[bytes, Tunnel] = {}
    for _, ike, _, children in associations(listed):
        for name, heard, said, selectors in _CHILD.findall(children):
            peer = hashlib.sha256((name + " " + selectors).encode()).digest()[:DIGEST]
            other = result.get(peer, Tunnel(peer, ike, name, 0))
            newest = max(ike, other.ike, key=int)
            result[peer] = Tunnel(peer, newest, name, other.packets + int(heard) + int(said))
    return list(result.values())


def busiest(before: Dict[bytes, int], now: Iterable[Tunnel]) -> List[bytes]:
    """Return the peers with traffic since an earlier look, those with most packets first."""
    passed: Dict[bytes, int] = {}
    for tunnel in now:
        # A rekeyed CHILD_SA counts from zero.
        earlier = before.get(tunnel.peer, 0)
        passed[tunnel.peer] = tunnel.packets - (earlier if earlier <= tunnel.packets else 0)
    return sorted((peer for peer in passed if passed[peer]), key=lambda peer: -passed[peer])[:MOST]


def unpacked(data: bytes) -> List[bytes]:
    """Return the peers that a message names. A forged message can only change their order."""
    return [data[at : at + DIGEST] for at in range(0, len(data) - DIGEST + 1, DIGEST)][:MOST]


def rekey(child: str, ike: str = "") -> bytes:
    """Return what vici's command `rekey` needs for CHILD_SAs, of one IKE_SA or all."""
    return message(dict({"child": child}, **{"ike-id": ike} if ike else {}))


class Watch:
    """The tunnels of this gateway, and the order in which they are claimed."""

    def __init__(self, address: str, children: str, other: str, fifo: str, vici: str) -> None:
        """Open the FIFO and the socket between the gateways."""
        self.address, self.children = address, children.split(",")
        self.other, self.vici = other, vici
        self.uri = ("--uri", "unix://" + vici)
        self.packets: Dict[bytes, int] = {}
        self.busy: List[bytes] = []
        self.order: List[Tunnel] = []
        self.due = 0.0
        if not os.path.exists(fifo):
            os.mkfifo(fifo, 0o600)
        # Open for both ways, so it never ends.
        self.fifo = os.open(fifo, os.O_RDWR)
        self.lock = os.open(fifo + "-lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.socket = self.open_socket()

    def open_socket(self) -> socket.socket:
        """Return a socket at our port, or at none while another program has it.

        Then all peers are claimed in any order; keepalived must have its file all the same.
        """
        made = socket.socket(family(self.other), socket.SOCK_DGRAM)
        made.setblocking(False)
        with contextlib.suppress(OSError):
            made.bind(("", PORT))
        return made

    def serve(self) -> None:
        """Claim the peers as the FIFO says, for ever: `claim` at once, `again` when it fits.

        keepalived says `again` for each advertisement of a lower priority, maybe many a second. If
        each led to a claim, the processor would have no time left for packets and advertisements.
        """
        fits = 0.0
        while True:
            asked = os.read(self.fifo, 512)
            while b"claim" not in asked and time.monotonic() < fits:
                if select.select([self.fifo], [], [], max(0.0, fits - time.monotonic()))[0]:
                    asked += os.read(self.fifo, 512)
            began = time.monotonic()
            try:
                self.claim(b"claim" in asked)
            except (OSError, struct.error) as error:
                print("vici: {}".format(error), file=sys.stderr, flush=True)
            ended = time.monotonic()
            fits = ended + max(1.0, ended - began)

    def claim(self, sure: bool) -> None:
        """Rekey all CHILD_SAs, those of peers with traffic first, as long as we are active.

        It is `sure` if keepalived has just said that we are active.

        Raises:
            OSError: The daemon does not take it.
        """
        requests = [rekey(tunnel.child, tunnel.ike) for tunnel in self.order]
        at_once = max(len(self.busy), LEAST)
        with Daemon(self.vici, 5) as daemon:
            # Before the first look, all in the daemon's order.
            for number, request in enumerate(requests or map(rekey, self.children)):
                if number >= at_once:
                    time.sleep(1 / RATE)
                    sure = False
                if not sure and not is_local(self.address):
                    return
                daemon.ask("rekey", request)

    def look(self) -> None:
        """Look which peers have traffic; the active gateway tells the other one."""
        began = time.monotonic()
        if self.socket.getsockname()[1] != PORT:
            self.socket.close()
            self.socket = self.open_socket()
        listed = output("swanctl", "--list-sas", "--raw", *self.uri)
        now = [tunnel for tunnel in tunnels(listed or "") if tunnel.child in self.children]
        if is_local(self.address):
            self.busy = busiest(self.packets, now)
            try:
                self.socket.sendto(b"".join(self.busy), (self.other, PORT))
            except OSError:
                pass  # The other gateway is away.
        self.packets = {tunnel.peer: tunnel.packets for tunnel in now}
        rank = {peer: place for place, peer in enumerate(self.busy)}
        self.order = sorted(now, key=lambda tunnel: rank.get(tunnel.peer, MOST))
        ended = time.monotonic()
        self.due = ended + min(max(OFTEN, SHARE * (ended - began)), SELDOM)

    def listen(self) -> None:
        """Read what the other gateway told last."""
        try:
            while True:
                data, sender = self.socket.recvfrom(2048)
                if sender[0] == self.other:
                    self.busy = unpacked(data)
                    self.due = 0.0
        except OSError:
            return


def main(
    path: str,
    peers: str,
    span: str,
    address: str,
    seconds: str,
    children: str,
    other: str,
    fifo: str = FIFO,
    vici: str = SOCKET,
) -> None:
    """Keep the file up to date, for ever."""
    watch = Watch(address, children, other, fifo, vici)
    threading.Thread(target=watch.serve, daemon=True).start()
    share = Share(int(peers), int(span))
    last: Optional[int] = None
    due = time.monotonic() + float(seconds)
    while True:
        value = share.look(*watch.uri)
        if os.path.exists(AWAY):
            value = 0
        if value != last:
            # In place: keepalived watches the file itself.
            with open(path, "w", encoding="ascii") as file:
                file.write("{}\n".format(value))
        watch.listen()
        if time.monotonic() >= watch.due:
            watch.look()
        if time.monotonic() >= due:
            due = time.monotonic() + float(seconds)
            if is_local(address):
                os.write(watch.fifo, b"again\n")
        time.sleep(PERIOD)
        try:
            with open(path, encoding="ascii") as file:
                last = int(file.read())
        except (OSError, ValueError):
            last = None


if __name__ == "__main__":
    main(*sys.argv[1:])
