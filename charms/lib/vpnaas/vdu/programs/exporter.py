"""Exporter of metrics for Prometheus; this file is installed on the VDU and runs there as root.

It reads the state of the kernel, WireGuard and strongSwan and the records of the charm, and answers
scrapes on one address. It changes nothing. Besides the standard library it needs prometheus_client
(Debian's and Ubuntu's python3-prometheus-client) and `swanctl_raw.py`, which is installed beside
it.

Security associations are short-lived: a rekey deletes their byte counters. So the exporter reads
them every few seconds, and adds up the differences per peer.
"""

import argparse
import glob
import json
import os
import re
import socket
import socketserver
import struct
import subprocess
import sys
import threading
import time
from typing import (
    Any,
    Container,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
)
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from .swanctl_raw import events

RECORDS = "/etc/osm-vpnaas/*/applied.json"
STANDBY = "/var/lib/osm-vpnaas/standby"
LOSS = "/run/osm-vpnaas-loss"
ALERTS = "/run/charon.enfy"
TABLES = ("osm_vpnaas_gateway", "osm_vpnaas_guard", "osm_vpnaas_nf")
NAS = ("ss", "-Htn", "state", "established", "sport", "=", ":20000")
"""Command that lists the NAS connections of UEs on Wi-Fi, on an N3IWF."""
PERIOD = 5.0
"""Seconds between looks; charon keeps a rekeyed CHILD_SA as long."""
RECENT = 1.0
"""Seconds for which a scrape reuses the last look."""
HANDSHAKE_FRESH = 210
"""Seconds after a handshake for which a WireGuard peer counts as up, as in show-status."""
HANGS = "hangs"
"""In place of the output of a program that took too long."""
UP_IKE = ("ESTABLISHED", "REKEYING", "REKEYED")
UP_CHILD = ("INSTALLED", "REKEYING", "REKEYED")

ALERT = struct.Struct("!I384s64s256s60s")
"""Message of charon's plugin error-notify: type, text, connection, identity, address."""
REASONS = {
    2: "local-authentication",
    3: "peer-authentication",
    4: "malformed",
    5: "malformed",
    6: "no-answer",
    7: "half-open-timeout",
    8: "ike-proposal",
    9: "child-proposal",
    10: "traffic-selectors",
    11: "install-sa",
    12: "install-policy",
    15: "virtual-ip",
    16: "authorization",
    17: "certificate-expired",
    18: "certificate-revoked",
    19: "certificate-issuer",
}
"""Reasons by type. Types 13 and 14, a duplicate IKE_SA replaced or kept, are no failures."""
NO_FAILURE = (13, 14)

PeerKey = Tuple[str, str]
"""Link, and name of the peer in the charm's records."""


class Peer(NamedTuple):
    """A peer of a link as the charm recorded it."""

    link: str
    name: str
    label: str
    technology: str
    keys: Tuple[str, ...]


class Gain:
    """Sums of counters that restart from zero at times."""

    def __init__(self) -> None:
        self.totals: Dict[PeerKey, int] = {}
        self._last: Dict[Tuple[PeerKey, str], int] = {}

    def update(
        self, seen: Mapping[Tuple[PeerKey, str], int], unseen: Container[PeerKey] = ()
    ) -> None:
        """Add the values of a look by peer and source; a vanished source must not come back.

        Args:
            seen: The values.
            unseen: Peers whose values could not be read; their sources may still be there.
        """
        for (peer, source), value in seen.items():
            before = self._last.get((peer, source), 0)
            gained = value - before if value >= before else value
            self.totals[peer] = self.totals.get(peer, 0) + gained
        missed = {source: value for source, value in self._last.items() if source[0] in unseen}
        self._last = {**missed, **seen}


class Look(NamedTuple):
    """Output of programs and content of files on the VDU, at one moment."""

    now: float
    records: Dict[str, str]
    sas: str = ""
    counters: str = ""
    stats: str = ""
    handshakes: str = ""
    transfer: str = ""
    firewall: Dict[str, str] = {}
    nas: str = ""
    standby: str = ""
    loss: str = ""


def output(*argv: str) -> str:
    """Return what a program printed, "" if it is missing or fails, `HANGS` if it hangs."""
    try:
        done = subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=10, check=False
        )
    except subprocess.TimeoutExpired:
        return HANGS
    except OSError:
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""


def content(path: str) -> str:
    """Return the text of a file, "" if it is missing."""
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except OSError:
        return ""


def look() -> Look:
    """Read the state of the VDU."""
    records = {path.split("/")[-2]: content(path) for path in glob.glob(RECORDS)}
    technologies = {p.technology for p in peers(records)}
    ipsec = "ipsec" in technologies or os.path.exists("/etc/strongswan.d/00-osm-vpnaas.conf")
    wireguard = "wireguard" in technologies
    firewall = {name: output("nft", "-j", "list", "table", "inet", name) for name in TABLES}
    return Look(
        now=time.time(),
        records=records,
        sas=output("swanctl", "--list-sas", "--raw") if ipsec else "",
        counters=output("swanctl", "--counters", "--all", "--raw") if ipsec else "",
        stats=output("swanctl", "--stats", "--raw") if ipsec else "",
        handshakes=output("wg", "show", "all", "latest-handshakes") if wireguard else "",
        transfer=output("wg", "show", "all", "transfer") if wireguard else "",
        firewall=firewall,
        nas=output(*NAS) if nwu(firewall) else "",
        standby=content(STANDBY),
        loss=content(LOSS),
    )


def peers(records: Mapping[str, str]) -> List[Peer]:
    """Read the charm's records; an unreadable record counts as one without peers."""
    result = []
    for link, text in sorted(records.items()):
        try:
            for item in json.loads(text)["peers"]:
                keys = tuple(str(item.get(key) or "") for key in ("public-key", "next-public-key"))
                technology = str(item.get("technology") or "wireguard")
                result.append(Peer(link, str(item["name"]), str(item["label"]), technology, keys))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return result


class Tunnel:
    """State of one peer at this moment."""

    def __init__(self) -> None:
        self.ike = 0
        self.children = 0
        self.up = False
        self.handshake: Optional[int] = None


class Meter:
    """All sums, and the last look."""

    def __init__(self) -> None:
        self.received, self.sent = Gain(), Gain()
        self.losses: Dict[PeerKey, int] = {}
        self.alerts = dict.fromkeys(set(REASONS.values()) | {"other"}, 0)
        self.seconds = 0.0
        self.tunnels: Dict[PeerKey, Tunnel] = {}
        self.peers: List[Peer] = []
        self.last = Look(0, {})

    def alert(self, kind: int) -> None:
        """Count a message of the IKE daemon."""
        if kind not in NO_FAILURE:
            self.alerts[REASONS.get(kind, "other")] += 1

    def update(self, seen: Look) -> None:
        """Add a look."""
        self.last = seen
        self.peers = peers(seen.records)
        tunnels = {(peer.link, peer.name): Tunnel() for peer in self.peers}
        received: Dict[Tuple[PeerKey, str], int] = {}
        sent: Dict[Tuple[PeerKey, str], int] = {}
        for key, source, into, out in self._ipsec(seen, tunnels):
            received[key, source], sent[key, source] = into, out
        for key, source, into, out in self._wireguard(seen, tunnels):
            received[key, source], sent[key, source] = into, out
        hanging = {"ipsec": seen.sas == HANGS, "wireguard": seen.transfer == HANGS}
        unseen = {(p.link, p.name) for p in self.peers if hanging.get(p.technology)}
        self.received.update(received, unseen)
        self.sent.update(sent, unseen)
        unknown = {"ipsec": seen.sas == HANGS, "wireguard": seen.handshakes == HANGS}
        for peer in self.peers:
            key = peer.link, peer.name
            if unknown.get(peer.technology) and key in self.tunnels:
                tunnels[key] = self.tunnels[key]
        for key, tunnel in tunnels.items():
            before = self.tunnels.get(key)
            if before is not None and before.up and not tunnel.up:
                self.losses[key] = self.losses.get(key, 0) + 1
        self.tunnels = tunnels

    def _ipsec(
        self, seen: Look, tunnels: Dict[PeerKey, Tunnel]
    ) -> Iterator[Tuple[PeerKey, str, int, int]]:
        try:
            listed = events(seen.sas)
        except ValueError:
            return
        for name, body in listed:
            tunnel = tunnels.get(peer_of(name))
            children = body.get("child-sas")
            if tunnel is None or not isinstance(children, dict):
                continue
            established = body.get("state") in UP_IKE
            tunnel.ike += established
            for child in children.values():
                passing = established and child.get("state") in UP_CHILD
                tunnel.children += passing
                tunnel.up = tunnel.up or passing
                source = "{}/{}".format(body.get("uniqueid"), child.get("uniqueid"))
                counts = [int(str(child.get(key, "0"))) for key in ("bytes-in", "bytes-out")]
                yield peer_of(name), source, counts[0], counts[1]

    def _wireguard(
        self, seen: Look, tunnels: Dict[PeerKey, Tunnel]
    ) -> Iterator[Tuple[PeerKey, str, int, int]]:
        known = {("wg-" + p.link, key): (p.link, p.name) for p in self.peers for key in p.keys}
        for interface, key, when in rows(seen.handshakes, 3):
            peer = known.get((interface, key))
            if peer and int(when):
                tunnel = tunnels[peer]
                tunnel.handshake = max(tunnel.handshake or 0, int(when))
                tunnel.up = abs(seen.now - tunnel.handshake) < HANDSHAKE_FRESH
        for interface, key, into, out in rows(seen.transfer, 4):
            peer = known.get((interface, key))
            if peer:
                yield peer, key, int(into), int(out)

    def collect(self) -> Iterable[Any]:
        """Yield the metrics, in prometheus_client's families."""
        names = labels(self.peers)
        for family, values in (
            (gauge("vpnaas_peer_up", "Whether packets pass", PEER), self._up()),
            (
                counter("vpnaas_received_bytes", "Bytes from a peer, in its tunnel", PEER),
                self._of(self.received.totals),
            ),
            (
                counter("vpnaas_sent_bytes", "Bytes to a peer, in its tunnel", PEER),
                self._of(self.sent.totals),
            ),
            (
                counter("vpnaas_peer_losses", "How often a tunnel went down", PEER),
                self._of(self.losses),
            ),
        ):
            for peer, value in values:
                family.add_metric([peer.link, names[peer], peer.technology], value)
            yield family
        ike = gauge("vpnaas_ike_sas", "Established IKE_SAs", PAIR)
        child = gauge("vpnaas_child_sas", "CHILD_SAs that carry packets", PAIR)
        rekeys = counter("vpnaas_rekeys", "Rekeyings, of kind ike or child", PAIR + ["kind"])
        age = gauge("vpnaas_handshake_age_seconds", "Since WireGuard's last handshake", PAIR)
        counted = connection_counters(self.last.counters)
        for peer in self.peers:
            key, ends = (peer.link, peer.name), [peer.link, names[peer]]
            tunnel = self.tunnels[key]
            if peer.technology == "ipsec":
                ike.add_metric(ends, tunnel.ike)
                child.add_metric(ends, tunnel.children)
                for kind in ("ike", "child"):
                    rekeys.add_metric(ends + [kind], counted.get((key, kind), 0))
            elif tunnel.handshake is not None:
                age.add_metric(ends, max(0.0, self.last.now - tunnel.handshake))
        yield from (ike, child, rekeys, age)
        yield from self._daemon()
        yield from self._rest()

    def _up(self) -> Iterator[Tuple[Peer, int]]:
        for peer in self.peers:
            if peer.technology != "none":
                yield peer, int(self.tunnels[peer.link, peer.name].up)

    def _of(self, totals: Mapping[PeerKey, int]) -> Iterator[Tuple[Peer, int]]:
        for peer in self.peers:
            if peer.technology != "none":
                yield peer, totals.get((peer.link, peer.name), 0)

    def _daemon(self) -> Iterator[Any]:
        match = re.search(r"ikesas \{total=(\d+) half-open=(\d+)\}", self.last.stats)
        answers = gauge("vpnaas_ike_daemon_up", "Whether the IKE daemon answers", [])
        total = gauge("vpnaas_ike_sas_all", "IKE_SAs in any state, of known and unknown peers", [])
        half = gauge("vpnaas_ike_half_open", "IKE_SAs whose peer is not authenticated yet", [])
        alerts = counter("vpnaas_ike_failures", "Failures that the IKE daemon reported", ["reason"])
        if any(p.technology == "ipsec" for p in self.peers) or match:
            answers.add_metric([], int(bool(match)))
        if match:
            total.add_metric([], int(match.group(1)))
            half.add_metric([], int(match.group(2)))
        for reason, count in sorted(self.alerts.items()):
            alerts.add_metric([reason], count)
        yield from (answers, total, half, alerts)

    def _rest(self) -> Iterator[Any]:
        dropped = counter("vpnaas_dropped_packets", "Packets dropped by rules", ["table", "chain"])
        for (table, chain), packets in sorted(drops(self.last.firewall).items()):
            dropped.add_metric([table, chain], packets)
        passed = counter("vpnaas_nwu_packets", "Packets on NWu by kind", ["kind"])
        ues = gauge("vpnaas_wifi_ues", "UEs registered by untrusted Wi-Fi", [])
        counted = nwu(self.last.firewall)
        for kind, packets in sorted(counted.items()):
            passed.add_metric([kind], packets)
        if counted and self.last.nas != HANGS:
            ues.add_metric([], len(self.last.nas.splitlines()))
        active = gauge("vpnaas_standby_active", "Whether this gateway of a pair is active", [])
        takeovers = counter("vpnaas_standby_takeovers", "How often this gateway became active", [])
        words = self.last.standby.split()
        if len(words) == 3 and words[2].isdigit():
            active.add_metric([], int(words[0] == "active"))
            takeovers.add_metric([], int(words[2]))
        loss = gauge("vpnaas_standby_loss_ratio", "Packets lost on the paths to peers", [])
        degraded = gauge("vpnaas_standby_degraded", "Whether that makes this gateway give way", [])
        words = self.last.loss.split()
        if len(words) == 5 and words[0].isdigit():
            loss.add_metric([], int(words[0]) / 100)
        if len(words) == 5:
            degraded.add_metric([], int(words[1] == "1"))
        cost = gauge("vpnaas_exporter_look_seconds", "Duration of the last reading", [])
        cost.add_metric([], self.seconds)
        yield from (dropped, passed, ues, active, takeovers, loss, degraded, cost)


PAIR = ["link", "peer"]
PEER = ["link", "peer", "technology"]


def gauge(name: str, text: str, names: List[str]) -> Any:
    """Return an empty family of gauges."""
    return GaugeMetricFamily(name, text, labels=names)


def counter(name: str, text: str, names: List[str]) -> Any:
    """Return an empty family of counters; its name gets the ending _total."""
    return CounterMetricFamily(name, text, labels=names)


def labels(match: Iterable[Peer]) -> Dict[Peer, str]:
    """Return how peers are called: by label, and also by name if two share the label."""
    listed = list(match)
    shared: Dict[Tuple[str, str], int] = {}
    for peer in listed:
        shared[peer.link, peer.label] = shared.get((peer.link, peer.label), 0) + 1
    return {
        peer: peer.label if shared[peer.link, peer.label] == 1 else peer.label + "/" + peer.name
        for peer in listed
    }


def peer_of(connection: str) -> PeerKey:
    """Return the peer of a connection; the connection's name is LINK_PEER_digest_digest."""
    words = (connection.split("_") + ["", ""])[:2]
    return words[0], words[1]


def rows(text: str, width: int) -> Iterator[List[str]]:
    """Yield the rows of `wg show all ...` that have so many columns."""
    for line in text.splitlines():
        words = line.split("\t")
        if len(words) == width and all(word.isdigit() for word in words[2:]):
            yield words


def connection_counters(text: str) -> Dict[Tuple[PeerKey, str], int]:
    """Return rekeyings per peer and kind from `swanctl --counters --all --raw`."""
    result: Dict[Tuple[PeerKey, str], int] = {}
    for name, body in re.findall(r"([^\s{}]+) \{(ike-rekey-init=[^{}]*)\}", text):
        values = dict(word.partition("=")[::2] for word in body.split())
        for kind, keys in (
            ("ike", ("ike-rekey-init", "ike-rekey-resp")),
            ("child", ("child-rekey",)),
        ):
            at = (peer_of(name), kind)
            result[at] = result.get(at, 0) + sum(int(values.get(key, "0")) for key in keys)
    return result


def counting(tables: Mapping[str, str]) -> Iterator[Tuple[str, Dict[str, Any], int]]:
    """Yield table, rule and packets of every rule with a counter."""
    for table, text in sorted(tables.items()):
        try:
            rules = [item["rule"] for item in json.loads(text)["nftables"] if "rule" in item]
        except (ValueError, KeyError, TypeError):
            continue
        for rule in rules:
            parts = rule.get("expr", ())
            packets = [p["counter"]["packets"] for p in parts if isinstance(p.get("counter"), dict)]
            if packets:
                yield table, rule, int(packets[0])


def drops(tables: Mapping[str, str]) -> Dict[Tuple[str, str], int]:
    """Return the packets that drop rules with a counter have dropped, per table and chain."""
    result: Dict[Tuple[str, str], int] = {}
    for table, rule, packets in counting(tables):
        if any("drop" in part for part in rule["expr"]):
            at = (table, str(rule["chain"]))
            result[at] = result.get(at, 0) + packets
    return result


def nwu(tables: Mapping[str, str]) -> Dict[str, int]:
    """Return what the rules of an N3IWF counted, by the second half of their comments."""
    result: Dict[str, int] = {}
    for _, rule, packets in counting(tables):
        name = str(rule.get("comment", ""))
        if name.startswith("nwu-"):
            kind = name[len("nwu-") :]
            result[kind] = result.get(kind, 0) + packets
    return result


class Exporter:
    """A meter that several threads use."""

    def __init__(self) -> None:
        self._meter = Meter()
        self._lock = threading.Lock()
        self._looked = 0.0

    def refresh(self, recent: float = 0.0) -> None:
        """Read the state, unless another caller did so recently."""
        with self._lock:
            started = time.monotonic()
            if self._looked and started - self._looked < recent:
                return
            self._meter.update(look())
            self._looked = time.monotonic()
            self._meter.seconds = self._looked - started

    def collect(self) -> Iterable[Any]:
        """Answer a scrape."""
        self.refresh(RECENT)
        with self._lock:
            return list(self._meter.collect())

    def describe(self) -> Iterable[Any]:
        """Return nothing, so that the registry does not scrape on its own."""
        return []

    def listen(self, path: str) -> None:
        """Count the daemon's alerts, for ever; only read, so that the daemon never waits for us."""
        while True:
            try:
                with socket.socket(socket.AF_UNIX) as stream:
                    stream.connect(path)
                    data = b""
                    while True:
                        more = stream.recv(1 << 16)
                        if not more:
                            break
                        data += more
                        while len(data) >= ALERT.size:
                            kind = ALERT.unpack_from(data)[0]
                            data = data[ALERT.size :]
                            with self._lock:
                                self._meter.alert(kind)
            except OSError:
                pass
            time.sleep(PERIOD)


class Handler(WSGIRequestHandler):
    """Unfinished requests are dropped after a timeout; nothing is logged."""

    timeout = 10

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a scrape is no event."""


class Server(socketserver.ThreadingMixIn, WSGIServer):
    """A server that does not look up its own host name in DNS."""

    daemon_threads = True

    def server_bind(self) -> None:
        """Bind without a DNS lookup of the host's name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()


class Server6(Server):
    """The same over IPv6."""

    address_family = socket.AF_INET6


def serve(exporter: Exporter, address: str, port: int) -> WSGIServer:
    """Return a server that listens."""
    registry = CollectorRegistry()
    registry.register(exporter)
    server = (Server6 if ":" in address else Server)((address, port), Handler)
    server.set_app(make_wsgi_app(registry))
    return server


def main(words: List[str]) -> int:
    """Serve until the process ends."""
    parser = argparse.ArgumentParser(description="Metrics of osm-vpnaas for Prometheus")
    parser.add_argument("--address", required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args(words)
    exporter = Exporter()
    exporter.refresh()
    server = serve(exporter, options.address, options.port)
    for work in (server.serve_forever, lambda: exporter.listen(ALERTS)):
        threading.Thread(target=work, daemon=True).start()
    while True:
        time.sleep(PERIOD)
        exporter.refresh(PERIOD / 2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
