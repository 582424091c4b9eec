"""Exporter of metrics for Prometheus; this file is installed on the VDU and runs there as root.

It reads the state of the kernel, WireGuard and strongSwan and the records of the charm, and answers
scrapes on one address. It changes nothing, and asks peers for an echo, also those that it hears:
packets may pass one way only. Besides the standard library it needs prometheus_client (Debian's and
Ubuntu's python3-prometheus-client), and `echo.py`, which is installed beside it.

Security associations are short-lived: a rekey deletes their byte counters. So the exporter reads
them every few seconds, and adds up the differences per peer.
"""

import argparse
import functools
import glob
import itertools
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
from collections import Counter
from typing import Any, Container, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from vpnaas.vdu.programs.charon import events
from vpnaas.vdu.programs.common import content, family, is_local, run

from .echo import Echo

RECORDS = "/etc/osm-vpnaas/*/applied.json"
STANDBY = "/var/lib/osm-vpnaas/standby"
KEEPALIVED = "/etc/keepalived/keepalived.conf"
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
ANSWER_SECONDS = 3.0
"""Seconds for which a peer may take to answer an echo request."""
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
    address: str = ""
    """Where it answers echo requests, "" for a manual peer, or if its packets bypass the link."""

    @property
    def key(self) -> PeerKey:
        return self.link, self.name


class Gain:
    """Sums of counters that restart from zero at times."""

    def __init__(self) -> None:
        self.totals: Dict[PeerKey, int] = {}
        self._last: Dict[Tuple[PeerKey, str], int] = {}

    def update(
        self, seen: Mapping[Tuple[PeerKey, str], int], unseen: Container[PeerKey] = ()
    ) -> None:
        """Add the values of a look by peer and source; a vanished source must not come back.

        Sources of `unseen` peers, whose values could not be read, may still be there.
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

    @property
    def passive(self) -> bool:
        """Tell whether this is a gateway of a pair that is not active."""
        return self.standby.split()[:1] not in ([], ["active"])


def output(*argv: str) -> str:
    """Return what a program printed, "" if it is missing or fails, `HANGS` if it hangs."""
    try:
        code, printed = run(*argv, seconds=10)
    except subprocess.TimeoutExpired:
        return HANGS
    except OSError:
        return ""
    return "" if code else printed


def standby(record: str, configuration: str) -> str:
    """Return keepalived's record, with the state of now: it may have died after it recorded one."""
    virtual = re.search(r"virtual_ipaddress \{\s+([0-9a-f.:]+)", configuration)
    if virtual and is_local(virtual.group(1)):
        return re.sub(r"\A[a-z]+", "active", record)
    return re.sub(r"\Aactive", "standby", record)


def look() -> Look:
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
        standby=standby(content(STANDBY), content(KEEPALIVED)),
    )


def peers(records: Mapping[str, str]) -> List[Peer]:
    """Read the charm's records; an unreadable record counts as one without peers."""
    result = []
    for link, text in sorted(records.items()):
        try:
            for item in json.loads(text)["peers"]:
                keys = tuple(str(item.get(key) or "") for key in ("public-key", "next-public-key"))
                technology = str(item.get("technology") or "wireguard")
                outer = str(item.get("endpoint") or "").rpartition(":")[0].strip("[]")
                inner = str(item.get("inner-address") or "")
                address = inner if inner != outer and technology != "none" else ""
                name, label = str(item["name"]), str(item["label"])
                result.append(Peer(link, name, label, technology, keys, address))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return result


class Tunnel:
    """State of one peer at this moment."""

    def __init__(self) -> None:
        self.ike = 0
        self.children = 0
        self.up = False
        self.handshake = 0


class Meter:
    """All sums, and the last look."""

    def __init__(self) -> None:
        self.received, self.sent = Gain(), Gain()
        self.losses: Dict[PeerKey, int] = {}
        self.alerts = dict.fromkeys(set(REASONS.values()) | {"other"}, 0)
        self.seconds = 0.0
        self.tunnels: Dict[PeerKey, Tunnel] = {}
        self.peers: List[Peer] = []
        self.answers: Dict[PeerKey, bool] = {}
        """Whether each peer that was asked for an echo has answered."""
        self.last = Look(0, {})

    def alert(self, kind: int) -> None:
        if kind not in NO_FAILURE:
            self.alerts[REASONS.get(kind, "other")] += 1

    def update(self, seen: Look) -> None:
        self.last = seen
        self.peers = peers(seen.records)
        tunnels = {peer.key: Tunnel() for peer in self.peers}
        received: Dict[Tuple[PeerKey, str], int] = {}
        sent: Dict[Tuple[PeerKey, str], int] = {}
        looks = (self._ipsec(seen, tunnels), self._wireguard(seen, tunnels))
        for key, source, into, out in itertools.chain(*looks):
            received[key, source], sent[key, source] = into, out
        hanging = {"ipsec": seen.sas == HANGS, "wireguard": seen.transfer == HANGS}
        unseen = {p.key for p in self.peers if hanging.get(p.technology)}
        self.received.update(received, unseen)
        self.sent.update(sent, unseen)
        self.answers = {key: did for key, did in self.answers.items() if key in tunnels}
        unknown = {"ipsec": seen.sas == HANGS, "wireguard": seen.handshakes == HANGS}
        for peer in self.peers:
            if unknown.get(peer.technology) and peer.key in self.tunnels:
                tunnels[peer.key] = self.tunnels[peer.key]
        for key, tunnel in tunnels.items():
            tunnel.up = tunnel.up and self.answers.get(key, True)
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
        known = {("wg-" + p.link, key): p.key for p in self.peers for key in p.keys}
        for interface, key, when in rows(seen.handshakes, 3):
            peer = known.get((interface, key))
            if peer and int(when):
                tunnel = tunnels[peer]
                tunnel.handshake = max(tunnel.handshake, int(when))
                tunnel.up = abs(seen.now - tunnel.handshake) < HANDSHAKE_FRESH
        for interface, key, into, out in rows(seen.transfer, 4):
            peer = known.get((interface, key))
            if peer:
                yield peer, key, int(into), int(out)

    def collect(self) -> Iterator[Any]:
        """Yield the metrics, in prometheus_client's families."""
        samples = self._samples()
        for name, (kind, keys, text) in METRICS.items():
            family = kind(name, text, labels=keys)
            for values, number in sorted(samples[name].items()):
                family.add_metric(values, number)
            yield family

    def _samples(self) -> Dict[str, Dict[Tuple[str, ...], float]]:
        """Return the values of each metric by its labels."""
        names, counted = labels(self.peers), connection_counters(self.last.counters)
        samples: Dict[str, Dict[Tuple[str, ...], float]] = {name: {} for name in METRICS}
        for peer in self.peers:
            ends, tunnel = (peer.link, names[peer]), self.tunnels[peer.key]
            each = ends + (peer.technology,)
            if peer.technology != "none":
                samples["vpnaas_peer_up"][each] = int(tunnel.up)
                samples["vpnaas_received_bytes"][each] = self.received.totals.get(peer.key, 0)
                samples["vpnaas_sent_bytes"][each] = self.sent.totals.get(peer.key, 0)
                samples["vpnaas_peer_losses"][each] = self.losses.get(peer.key, 0)
            if peer.key in self.answers:
                samples["vpnaas_peer_answers"][each] = int(self.answers[peer.key])
            if peer.technology == "ipsec":
                samples["vpnaas_ike_sas"][ends] = tunnel.ike
                samples["vpnaas_child_sas"][ends] = tunnel.children
                for kind in ("ike", "child"):
                    samples["vpnaas_rekeys"][ends + (kind,)] = counted.get((peer.key, kind), 0)
            elif tunnel.handshake:
                age = abs(self.last.now - tunnel.handshake)  # The clock may have jumped back.
                samples["vpnaas_handshake_age_seconds"][ends] = age
        match = re.search(r"ikesas \{total=(\d+) half-open=(\d+)\}", self.last.stats)
        if match or any(p.technology == "ipsec" for p in self.peers):
            samples["vpnaas_ike_daemon_up"][()] = int(bool(match))
        if match:
            samples["vpnaas_ike_sas_all"][()] = int(match.group(1))
            samples["vpnaas_ike_half_open"][()] = int(match.group(2))
        for reason, count in self.alerts.items():
            samples["vpnaas_ike_failures"][(reason,)] = count
        samples["vpnaas_dropped_packets"].update(drops(self.last.firewall))
        passed = nwu(self.last.firewall)
        for kind, packets in passed.items():
            samples["vpnaas_nwu_packets"][(kind,)] = packets
        if passed and self.last.nas != HANGS:
            samples["vpnaas_wifi_ues"][()] = len(self.last.nas.splitlines())
        words = self.last.standby.split()
        if len(words) == 3 and words[2].isdigit():
            samples["vpnaas_standby_active"][()] = int(words[0] == "active")
            samples["vpnaas_standby_takeovers"][()] = int(words[2])
        samples["vpnaas_exporter_look_seconds"][()] = self.seconds
        return samples


GAUGE, COUNTER = GaugeMetricFamily, CounterMetricFamily
PAIR = ["link", "peer"]
PEER = PAIR + ["technology"]
METRICS: Dict[str, Tuple[Any, List[str], str]] = {
    "vpnaas_peer_up": (GAUGE, PEER, "Whether packets pass"),
    "vpnaas_peer_answers": (GAUGE, PEER, "Whether a peer answers echo requests"),
    "vpnaas_received_bytes": (COUNTER, PEER, "Bytes from a peer, in its tunnel"),
    "vpnaas_sent_bytes": (COUNTER, PEER, "Bytes to a peer, in its tunnel"),
    "vpnaas_peer_losses": (COUNTER, PEER, "How often a tunnel went down"),
    "vpnaas_ike_sas": (GAUGE, PAIR, "Established IKE_SAs"),
    "vpnaas_child_sas": (GAUGE, PAIR, "CHILD_SAs that carry packets"),
    "vpnaas_rekeys": (COUNTER, PAIR + ["kind"], "Rekeyings, of kind ike or child"),
    "vpnaas_handshake_age_seconds": (GAUGE, PAIR, "Since WireGuard's last handshake"),
    "vpnaas_ike_daemon_up": (GAUGE, [], "Whether the IKE daemon answers"),
    "vpnaas_ike_sas_all": (GAUGE, [], "IKE_SAs in any state, of known and unknown peers"),
    "vpnaas_ike_half_open": (GAUGE, [], "IKE_SAs whose peer is not authenticated yet"),
    "vpnaas_ike_failures": (COUNTER, ["reason"], "Failures that the IKE daemon reported"),
    "vpnaas_dropped_packets": (COUNTER, ["table", "chain"], "Packets dropped by rules"),
    "vpnaas_nwu_packets": (COUNTER, ["kind"], "Packets on NWu by kind"),
    "vpnaas_wifi_ues": (GAUGE, [], "UEs registered by untrusted Wi-Fi"),
    "vpnaas_standby_active": (GAUGE, [], "Whether this gateway of a pair is active"),
    "vpnaas_standby_takeovers": (COUNTER, [], "How often this gateway became active"),
    "vpnaas_exporter_look_seconds": (GAUGE, [], "Duration of the last reading"),
}
"""Kind, labels and text of each metric; the name of a counter gets the ending _total."""


def labels(listed: Sequence[Peer]) -> Dict[Peer, str]:
    """Return how peers are called: by label, and also by name if two share the label."""
    shared = Counter((peer.link, peer.label) for peer in listed)
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
    result: Dict[Tuple[PeerKey, str], int] = Counter()
    for name, body in re.findall(r"([^\s{}]+) \{(ike-rekey-init=[^{}]*)\}", text):
        values = dict(word.partition("=")[::2] for word in body.split())
        for kind, keys in (
            ("ike", ("ike-rekey-init", "ike-rekey-resp")),
            ("child", ("child-rekey",)),
        ):
            result[peer_of(name), kind] += sum(int(values.get(key, "0")) for key in keys)
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


def drops(tables: Mapping[str, str]) -> Dict[Tuple[str, ...], int]:
    """Return the packets that drop rules with a counter have dropped, per table and chain."""
    result: Dict[Tuple[str, ...], int] = Counter()
    for table, rule, packets in counting(tables):
        if any("drop" in part for part in rule["expr"]):
            result[table, str(rule["chain"])] += packets
    return result


def nwu(tables: Mapping[str, str]) -> Dict[str, int]:
    """Return what the rules of an N3IWF counted, by the second half of their comments."""
    result: Dict[str, int] = Counter()
    for _, rule, packets in counting(tables):
        name = str(rule.get("comment", ""))
        if name.startswith("nwu-"):
            result[name[len("nwu-") :]] += packets
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

    def ask(self) -> None:
        """Ask the peers for an echo."""
        with self._lock:
            if self._meter.last.passive:
                # Answers go to the active gateway of the pair, which has the same inner addresses.
                self._meter.answers.clear()
                return
            addresses = {peer.key: peer.address for peer in self._meter.peers if peer.address}
        asked = {" ".join(key): (address, ANSWER_SECONDS) for key, address in addresses.items()}
        try:
            echoes = Echo(asked).run() if asked else {}
        except OSError:  # No raw sockets here: the state of the tunnels alone has to do.
            addresses = {}
        with self._lock:
            self._meter.answers = {key: bool(echoes[" ".join(key)][1]) for key in addresses}

    def collect(self) -> List[Any]:
        """Answer a scrape."""
        self.refresh(RECENT)
        with self._lock:
            return list(self._meter.collect())

    def describe(self) -> List[Any]:
        """Return nothing, so that the registry does not scrape on its own."""
        return []

    def listen(self, path: str) -> None:
        """Count the daemon's alerts, for ever; only read, so that the daemon never waits for us."""
        while True:
            try:
                with socket.socket(socket.AF_UNIX) as stream:
                    stream.connect(path)
                    messages = stream.makefile("rb")
                    for data in iter(functools.partial(messages.read, ALERT.size), b""):
                        kind = ALERT.unpack(data)[0]
                        with self._lock:
                            self._meter.alert(kind)
            except (OSError, struct.error):
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


def serve(exporter: Exporter, address: str, port: int) -> WSGIServer:
    """Return a server that listens."""
    registry = CollectorRegistry()
    registry.register(exporter)
    kind = type("Bound", (Server,), {"address_family": family(address)})
    server: WSGIServer = kind((address, port), Handler)
    server.set_app(make_wsgi_app(registry))
    return server


def main(words: List[str]) -> int:
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
        exporter.ask()
        time.sleep(PERIOD)
        exporter.refresh(PERIOD / 2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
