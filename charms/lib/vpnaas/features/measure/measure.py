"""Measurements between two VNFs: commands to run on the client's VDU, and what their output says.

The whole client side of an iperf3 run is one program on the VDU (`throughput_client`). The record
OSM keeps of an action is short, so results are summaries.
"""

import json
import os
import re
import time
from contextlib import suppress
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

import attr

from vpnaas.actions import Actions, Params, action
from vpnaas.base import fields
from vpnaas.base.declared import At, Declared, any_text, choice_field, number_field, text_field
from vpnaas.base.errors import MALFORMED, InputError, VpnaasError
from vpnaas.base.links import RESPONDER_PORT
from vpnaas.features.measure.responder import PROGRAM_FILE
from vpnaas.peers.peer import Peer
from vpnaas.peers.same_address import is_same
from vpnaas.tunnels.technology import VANISH, Echo
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import Results, Step, ask, meaning, run

KEPT = "/var/log/osm-vpnaas"
KEPT_REPORTS = 200
"""Most reports kept on a VDU; the oldest are deleted."""
UDP_DEFAULT_MBPS = 100
UDP_PAYLOAD = 1200
"""Bytes of a datagram, unless `size` says otherwise: it fits into any tunnel."""
LONGEST = 1500
"""Seconds of a measurement; OSM gives an action no more than half an hour."""
LEAST_DATAGRAM = 24
"""Least payload of a numbered datagram in bytes, see `responder`."""
LEAST_PING = 16
"""Least payload of an echo request in bytes. ping needs them for the timestamp."""
OUTER = 60
"""Bytes that a tunnel adds to a packet, at the least."""
PATHS = ("tunnel", "underlay")
DIRECTIONS = ("upload", "download", "bidirectional")
REVERSE = "_bidir_reverse"
"""End of the names of sums of the other direction, see `throughput_client`."""


def _peer(where: str, text: str) -> str:
    return "" if text == "auto" else text


def _report_file(link: str) -> str:
    name = "iperf3-{}-{}-{}".format(link, int(time.time()), os.urandom(4).hex())
    return "{}/{}.json".format(KEPT, name)


@attr.frozen
class Transfer(Declared):
    """Parameters of every iperf3 run; units as in actions.yaml."""

    action = "measure-throughput"
    protocol: str = choice_field(("tcp", "udp"))
    direction: str = choice_field(DIRECTIONS)
    duration: int = number_field(1, LONGEST, 10)
    parallel: int = number_field(1, 128, 1)
    bitrate_mbps: int = number_field(0, 400000, 0)
    size: int = number_field(0, 65507, 0)

    def options(self, udp_mbps: int = UDP_DEFAULT_MBPS) -> List[str]:
        """Return the iperf3 client's options; with `udp_mbps` as UDP rate if none is set."""
        words = ["--time", str(self.duration), "--parallel", str(self.parallel), "--json"]
        if self.protocol == "udp":
            words += ["--udp", "--bitrate", "{}M".format(self.bitrate_mbps or udp_mbps)]
        elif self.bitrate_mbps:
            words += ["--bitrate", "{}M".format(self.bitrate_mbps)]
        if self.size:
            words += ["--length" if self.protocol == "udp" else "--set-mss", str(self.size)]
        if self.direction == "download":
            words.append("--reverse")
        elif self.direction == "bidirectional":
            words.append("--bidir")
        return words

    def datagrams(self) -> Optional[Dict[str, Any]]:
        """Return the same as numbered datagrams for `throughput_client`, None for TCP."""
        if self.protocol != "udp":
            return None
        mbps = (self.bitrate_mbps or UDP_DEFAULT_MBPS) * self.parallel
        return numbered(self.duration, mbps, self.size or UDP_PAYLOAD, self.direction)

    def step(self, id: str, peer: Peer, link: str, path: str, keep: str = "") -> Step:
        """Return the step that measures to a peer of a link."""
        request = client_request(peer, link, path, self.duration, self.options(), keep)
        return client(id, dict(request, datagrams=self.datagrams()))


@attr.frozen
class ThroughputTest(Transfer):
    """One iperf3 run on a link."""

    link: str = text_field(any_text)
    peer: str = text_field(_peer)
    path: str = choice_field(PATHS)
    # File of its report on the VDU.
    kept: str = attr.Factory(lambda test: _report_file(test.link), takes_self=True)

    def check(self, at: At) -> None:
        low, high = (88, 9216) if self.protocol == "tcp" else (16, 65507)
        if self.size and not low <= self.size <= high:
            raise InputError(
                at("size"),
                "{} is out of range for {}".format(self.size, self.protocol),
                "0 or {} to {}".format(low, high),
            )

    def steps(self, peer: Peer) -> List[Step]:
        return [self.step("iperf3", peer, self.link, self.path, self.kept)]

    def summary(self, peer: Peer, results: Results) -> Dict[str, Any]:
        """Return the summary of the run.

        Rates are Mbit/s of payload as the receiver counted them (iperf3's sum_received),
        jitter is ms, loss is percent.
        """
        report = report_of(results, "iperf3", peer, self.path)
        summary = {
            "protocol": self.protocol,
            "direction": self.direction,
            "seconds": self.duration,
            "parallel": self.parallel,
            "kept": _kept(report) or self.kept,
            **understood(report, self.protocol, peer.label),
        }
        start = report["start"]
        if "method" in start:
            return dict(summary, method=str(start["method"]))
        return dict(summary, iperf3=str(start.get("version", "")).replace("iperf ", ""))


@attr.frozen
class Ping(Declared):
    """Parameters of every ping run; units as in actions.yaml."""

    action = "measure-latency"
    count: int = number_field(1, 10000, 20)
    interval_ms: int = number_field(2, 60000, 200)
    size: int = number_field(LEAST_PING, 65507, 56)

    def check(self, at: At) -> None:
        if self.seconds() > LONGEST:
            what = "{} requests every {} ms take {} s"
            raise InputError(
                at("count"),
                what.format(self.count, self.interval_ms, self.seconds()),
                "{} s in all".format(LONGEST),
            )

    def seconds(self) -> int:
        """Return how long the run takes at least."""
        return self.count * self.interval_ms // 1000 + 1

    def step(self, address: str, source: str = "") -> Step:
        """Return the step that sends the requests, from `source` if one is given."""
        interval = "{:.3f}".format(self.interval_ms / 1000.0)
        words = ["ping", "-n", "-q", "-c", str(self.count), "-i", interval, "-s", str(self.size)]
        words += ["-W", "2"] + (["-I", source] if source else [])
        return run("ping", *words, address, any_exit=True, timeout=self.seconds() + 30)


@attr.frozen
class LatencyTest(Ping):
    """One ping run on a link."""

    link: str = text_field(any_text)
    peer: str = text_field(_peer)
    path: str = choice_field(PATHS)

    def steps(self, peer: Peer) -> List[Step]:
        return [self.step(str(target(peer, self.path, self.link)))]

    def summary(self, peer: Peer, results: Results) -> Dict[str, Any]:
        """Return the summary of the run; times are ms round trip."""
        times = round_trips(results, peer.label)
        return {"size": self.size, "interval-ms": self.interval_ms, **times}


def choose_peer(link: str, name: str, peers: Sequence[Peer]) -> Peer:
    """Return the peer a measurement goes to: the named one, or the only one.

    A manual peer whose first prefix is a single address is a VNF of another service (`join`), and
    that is its inner address. Such a peer is chosen by name, or if the link has no related peer.
    """
    # If a peer's inner address is its outer one, our own packets to it do not use the tunnel.
    able = [peer for peer in peers if peer.inner_address and not is_same(peer)]
    if name or not able:
        able += [joined(peer) for peer in peers if not peer.inner_address]
        able = [peer for peer in able if peer.inner_address]
    names = fields.few([peer.label for peer in able]) or "none, the link has no such peer yet"
    if name:
        matching = [peer for peer in able if name in (peer.label, peer.name)]
        matching = matching or [peer for peer in able if name in peer.label]
    else:
        matching = able
    if len(matching) != 1:
        what = "{} matches {} peers of {}".format(fields.shown(name or "auto"), len(matching), link)
        raise InputError("peer", what, names)
    return matching[0]


def joined(peer: Peer) -> Peer:
    """Return a manual peer with its inner address, if its first prefix is one address."""
    first = peer.prefixes[0] if peer.prefixes else None
    if first is None or first.num_addresses != 1:
        return peer
    return attr.evolve(peer, inner_address=first.network_address)


def target(peer: Peer, path: str, link: str) -> fields.IPAddress:
    """Return the address a measurement over `path` goes to."""
    if path == "tunnel" and peer.inner_address:
        return peer.inner_address
    if path == "underlay" and peer.endpoint:
        return peer.endpoint[0]
    raise InputError(
        "path", "{} of {} has no {} address".format(peer.label, link, path), "the other path"
    )


def client_request(
    peer: Peer, link: str, path: str, seconds: int, options: Sequence[str], keep: str = ""
) -> Dict[str, Any]:
    """Return what `throughput_client` reads; it keeps its report if `keep` names a file."""
    return {
        "responder": [str(peer.inner_address), RESPONDER_PORT],
        "address": str(target(peer, path, link)),
        "path": path,
        "seconds": seconds,
        "options": options,
        "keep": keep,
        "most": KEPT_REPORTS,
        "datagrams": None,
        "program": PROGRAM_FILE,
        "tries": 1,
    }


def numbered(seconds: int, mbps: int, size: int, direction: str) -> Dict[str, Any]:
    """Return what `throughput_client` reads of a measurement by UDP; rates are of payload."""
    size = max(size, LEAST_DATAGRAM)
    return {
        "seconds": seconds,
        "rate": mbps * 1e6 / 8 / size,
        "size": size,
        "up": direction != "download",
        "down": direction != "upload",
    }


def client(id: str, request: Mapping[str, Any]) -> Step:
    # Numbered datagrams, or another try, may follow iperf3 that waited for its streams.
    turns = 2 if request["datagrams"] else request["tries"]
    most = min(int(request["seconds"]) * turns + 60, LONGEST + 120)
    return ask(id, source("throughput_client.py"), request, most)


CAUSES = {
    "silent": "{peer} does not answer on TCP port {port} of {address} within the link",
    "closed": "nothing listens on TCP port {port} of {address}: the link of {peer} is not up",
    "unreachable": "the VDU has no way to {address}",
    "refused": "the other end refuses: {detail}",
    "mute": "the responder of {peer} ended without an answer; its status or journal says why",
    "late": "iperf3 did not end in time; the link loses most packets",
    "no-iperf3": "the VDU has no iperf3; its image or Day-0 cloud-init must install it",
    "not-started": "iperf3 of the VDU cannot be started: {detail}",
    "no-server": "no TCP connection to the iperf3 server of {peer} over the {path};"
    " a firewall may drop it",
    "broken": "the connection to {peer} broke during the measurement",
    "busy": "the iperf3 server of {peer} is busy with another measurement",
    "streams": "iperf3's streams of UDP did not start: datagrams are lost",
    "option": "the VDU's iperf3 is too old for these parameters",
    "too-long": "datagrams of that size do not fit into a packet; allowed: a smaller size",
    "udp": "no datagram came back ({detail} sent), TCP passes: UDP is blocked or lost",
    "iperf3": "iperf3 ended with {detail}",
}
"""Sentence for each cause of `throughput_client`."""


def report_of(results: Results, id: str, peer: Peer, path: str) -> Dict[str, Any]:
    """Return the report of a measurement between two VDUs."""
    named = {"peer": peer.label, "address": peer.inner_address, "path": path}
    return checked(answer(results, id, "the measurement"), named)


def checked(report: Dict[str, Any], named: Mapping[str, Any]) -> Dict[str, Any]:
    """Return a report of `throughput_client`, unless it says why there is none.

    `named` are "peer", "address" and "path" for the sentences of `CAUSES`.
    """
    cause = report.get("cause")
    if cause is None:
        return report
    detail = str(report.get("detail", ""))[:200]
    form = CAUSES.get(str(cause), CAUSES["iperf3"])
    sentence = form.format(port=RESPONDER_PORT, detail=detail, **named)
    raise VpnaasError("measurement to {} failed: {}".format(named["peer"], sentence))


def _kept(report: Mapping[str, Any]) -> str:
    """Return why the VDU did not keep a report, "" if it did."""
    unkept = str(report.get("unkept", ""))
    return unkept and "nowhere: {}".format(meaning(unkept) or "the VDU cannot write its file")


def understood(report: Mapping[str, Any], protocol: str, to: str) -> Dict[str, Any]:
    """Return the `rates` of a report of a measurement to a named end."""
    try:
        return rates(report, protocol)
    except MALFORMED:
        raise VpnaasError("iperf3 to {} printed a report that is not understood".format(to))


def rates(report: Mapping[str, Any], protocol: str) -> Dict[str, Any]:
    """Return the rates (Mbit/s of payload) and the other results of an iperf3 client's report.

    Raises:
        One of MALFORMED: The data are not such a report.
    """
    start, end = report["start"], report["end"]
    received = _received(end)
    summary: Dict[str, Any] = {"mbps": _mbps(received)}
    if protocol == "tcp":
        summary["mss"] = start.get("tcp_mss") or start.get("tcp_mss_default")
        summary["retransmits"] = end["sum_sent"].get("retransmits")
    else:
        summary.update(_quality(received))
    if any(name.endswith(REVERSE) for name in end):
        other = _received(end, REVERSE)
        summary["mbps-reverse"] = _mbps(other)
        if protocol == "udp":
            summary.update((name + "-reverse", value) for name, value in _quality(other).items())
    cpu = end.get("cpu_utilization_percent", {})
    summary["cpu-percent"] = {
        "local": round(float(cpu.get("host_total", 0)), 1),
        "remote": round(float(cpu.get("remote_total", 0)), 1),
    }
    json.dumps(summary, allow_nan=False)  # Neither NaN nor Infinity is JSON.
    return summary


def _quality(received: Mapping[str, Any]) -> Dict[str, Any]:
    return {
        "jitter-ms": round(float(received.get("jitter_ms", 0)), 4),
        "loss-percent": round(float(received.get("lost_percent", 0)), 4),
        "packets": int(received.get("packets", 0)),
    }


def _received(end: Mapping[str, Any], way: str = "") -> Mapping[str, Any]:
    """Return what was received, one way; iperf3 before 3.11 has only what was sent for UDP."""
    part = end.get("sum_received" + way)
    if part is not None:
        return dict(part)
    sent = end["sum" + way]
    rate = float(sent["bits_per_second"]) * (1 - float(sent.get("lost_percent", 0)) / 100)
    return dict(sent, bits_per_second=rate)


def _mbps(part: Mapping[str, Any]) -> float:
    return round(float(part["bits_per_second"]) / 1e6, 3)


_COUNT, _MS = "([0-9]{1,9})", "([0-9]{1,9}(?:[.][0-9]{1,9})?)"
_COUNTS = r"\b{0} packets transmitted, {0} received".format(_COUNT)
_TIMES = "= {0}/{0}/{0}/{0} ms".format(_MS)
_TIME = "time={} ms".format(_MS)


_PING_SAYS = (
    ("unreachable", "the VDU has no route to it"),
    ("Required key not available", "no peer of the tunnel has this address"),
    ("Destination address required", "the tunnel does not know where its peer is yet"),
    ("not permitted", "the VDU's firewall or an IPsec policy drops the requests"),
    ("too long", "requests of that size do not fit into a packet; allowed: a smaller size"),
    ("timed out", "it took too long"),
    ("No such device", "the interface is not there"),
    ("Cannot assign requested address", "the VDU no longer has the source address"),
    ("bind", "the VDU no longer has the source address"),
)
"""Texts of ping(8) and of the kernel, and what they mean here."""


def round_trips(results: Results, label: str) -> Dict[str, Any]:
    """Return counts, loss and times (ms, round trip) from the output of the step `ping`."""
    shown = results.output("ping")
    counts, times = re.search(_COUNTS, shown), re.search(_TIMES, shown)
    if not counts:
        said = (results.failed or "") + results.error("ping")
        reason = next((why for text, why in _PING_SAYS if text in said), "ping printed no summary")
        raise VpnaasError("ping to {} failed: {}".format(label, reason))
    sent, received = int(counts.group(1)), int(counts.group(2))
    if not received:
        raise VpnaasError("{} did not answer any of {} echo requests".format(label, sent))
    if not times:
        raise VpnaasError("ping to {} printed no round trip times".format(label))
    low, average, high, deviation = (float(text) for text in times.groups())
    return {
        "sent": sent,
        "received": received,
        "loss-percent": round(100.0 * (sent - received) / sent, 4) if sent else 100.0,
        "rtt-ms": {"min": low, "avg": average, "max": high, "mdev": deviation},
    }


def answer(results: Results, id: str, what: str) -> Dict[str, Any]:
    """Return the JSON object that a program printed; an error says `what` failed, and why."""
    try:
        document = json.loads(results.output(id))
        if isinstance(document, dict):
            return document
    except MALFORMED:
        pass
    raise VpnaasError("{} failed: {}".format(what, results.why(id)))


@attr.frozen
class LinkTest(Declared):
    """Parameters of `measure-link`; units as in actions.yaml."""

    action = "measure-link"
    link: str = text_field(any_text)
    peer: str = text_field(_peer)
    path: str = choice_field(PATHS)
    duration: int = number_field(1, 500, 5)
    udp_mbps: int = number_field(1, 400000, 20)
    count: int = number_field(1, 10000, 50)

    def steps(self, peer: Peer) -> List[Step]:
        address = str(target(peer, self.path, self.link))
        tcp = Transfer(duration=self.duration)
        rate, size = self.udp_mbps, UDP_PAYLOAD
        udp = Transfer("udp", "bidirectional", self.duration, bitrate_mbps=rate, size=size)
        ping = ("ping", "-n", "-c", str(self.count), "-i", "0.02", "-W", "1", address)
        return [
            tcp.step("tcp", peer, self.link, self.path),
            udp.step("udp", peer, self.link, self.path),
            run("ping", *ping, any_exit=True, timeout=self.count // 50 + 30),
        ]

    def summary(self, peer: Peer, results: Results) -> Dict[str, Any]:
        """Return the figures, in the forms of `measure-throughput` and `measure-latency`.

        A part that failed has `error` with the reason in place of figures; if all did, the
        test fails.
        """
        figures: Dict[str, Any] = {}
        parts: Dict[str, Callable[[], Dict[str, Any]]] = {
            "tcp": lambda: self._rates("tcp", peer, results),
            "udp": lambda: self._rates("udp", peer, results),
            "echoes": lambda: self._echoes(peer, results),
        }
        failed = []
        for name, part in parts.items():
            try:
                figures[name] = part()
            except VpnaasError as error:
                figures[name] = {"error": str(error)}
                failed.append(str(error))
        if len(failed) == len(parts):
            raise VpnaasError("; ".join(failed))
        return figures

    def _rates(self, protocol: str, peer: Peer, results: Results) -> Dict[str, Any]:
        report = report_of(results, protocol, peer, self.path)
        return understood(report, protocol, peer.label)

    def _echoes(self, peer: Peer, results: Results) -> Dict[str, Any]:
        echoes = round_trips(results, peer.label)
        times = sorted(float(text) for text in re.findall(_TIME, results.output("ping")))
        if not times:
            raise VpnaasError("ping to {} printed no round trip times".format(peer.label))
        for name, share in (("median", 0.5), ("p99", 0.99)):
            echoes["rtt-ms"][name] = times[min(len(times) - 1, int(share * len(times)))]
        echoes["rtt-ms-within"] = [
            [percent, times[min(len(times) - 1, percent * len(times) // 100)]]
            for percent in range(0, 101, 5)
        ]
        return echoes


LinkMeasurement = Union[ThroughputTest, LatencyTest, LinkTest]


def packet(test: LinkMeasurement, version: int, mtu: int) -> int:
    """Return the bytes of a measurement's largest packets, which are in fragments above the MTU."""
    most = mtu if test.path == "tunnel" else mtu + OUTER
    size = getattr(test, "size", 0)
    headers = (20 if version == 4 else 40) + (20 if getattr(test, "protocol", "") == "tcp" else 8)
    return min(size + headers, most) if size else most


class MeasureActions(Actions):
    """Measurements through a link, and beside it."""

    @action("measure-throughput")
    def measure_throughput(self, params: Params) -> Dict[str, Any]:
        return self._measure(params, ThroughputTest.parse(params))

    @action("measure-latency")
    def measure_latency(self, params: Params) -> Dict[str, Any]:
        return self._measure(params, LatencyTest.parse(params))

    @action("measure-link")
    def measure_link(self, params: Params) -> Dict[str, Any]:
        return self._measure(params, LinkTest.parse(params))

    def _measure(self, params: Params, test: LinkMeasurement) -> Dict[str, Any]:
        with self.charm.vdu() as vdu:
            link = self.charm.measured_plan(params, vdu).links[test.link]
            peer = choose_peer(test.link, test.peer, link.peers)
            address = target(peer, test.path, test.link)
            size = packet(test, address.version, link.mtu)
            large = ask("large", source("echo.py"), {"peer": [str(address), 2, size]}, 30)
            results = vdu.execute([*test.steps(peer), large], exclusive=False)
        reason = ""
        with suppress(*MALFORMED):
            if Echo.read(results.output("large"))["peer"].large_lost:
                reason = VANISH.format(size)
        try:
            summary = test.summary(peer, results)
        except VpnaasError as error:
            raise VpnaasError("; ".join(filter(None, [str(error), reason])))
        summary.update(link=test.link, peer=peer.label, path=test.path)
        return dict(summary, reason=reason) if reason else summary
