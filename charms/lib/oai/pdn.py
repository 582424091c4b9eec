"""Measurements through a UE's PDN connection: commands for its VDU, and what their output says.

All user traffic of the EPC passes here: radio, S1-U and SGi. The far end is a host of the data
network. An iperf3 server there can be one's own, or the one that the SPGW-U starts at its SGi
address for a while; the rules of its VDU let nobody but UEs reach that.
"""

import json
from typing import Any, Dict, List, Mapping

import attr
from vpnaas.base import fields
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.extras import measure
from vpnaas.vdu.steps import Results, Step, run

from . import values

DEVICE = "oaitun_ue1"
"""Tun device of a UE's first connection."""
TABLE = "osm_vpnaas_sgi"
SERVER_PORT = 5201
SERVER_UNIT = "osm-vpnaas-sgi-server.service"
LONGEST = 1500
"""Seconds of a measurement; OSM gives an action no more than half an hour."""


RULES = """table ip {table}
delete table ip {table}
table ip {table} {{
    chain input {{
        type filter hook input priority filter; policy accept;
        iifname "{interface}" tcp dport {server} drop
        iifname "{interface}" udp dport {server} drop
    }}
{nat}}}
"""
NAT = """    chain postrouting {{
        type nat hook postrouting priority srcnat; policy accept;
        ip saddr {pool} oifname "{interface}" masquerade
    }}
"""


def rules(interface: str, pool: str, nat: bool) -> str:
    """Return the nftables script of a user plane, for UE traffic and for `serve-throughput`.

    Args:
        interface: To the data network.
        pool: Prefix of the UEs.
        nat: Whether UEs appear there with the VDU's own address.
    """
    translation = NAT.format(pool=pool, interface=interface) if nat else ""
    return RULES.format(table=TABLE, interface=interface, server=SERVER_PORT, nat=translation)


@attr.frozen
class Throughput:
    """Parameters of one iperf3 run of a UE; units as in actions.yaml."""

    server: str
    port: int
    protocol: str
    direction: str
    duration: int
    parallel: int
    bitrate_mbps: int

    @classmethod
    def parse(cls, params: Mapping[str, Any]) -> "Throughput":
        """Parse the parameters of the UE's `measure-throughput`."""

        def at(key: str) -> str:
            return "measure-throughput: " + key

        def number(key: str, default: int, low: int, high: int) -> int:
            return fields.integer(at(key), params.get(key, default), low, high)

        protocol = str(params.get("protocol", "tcp"))
        direction = str(params.get("direction", "upload"))
        return cls(
            server=values.ipv4(at("server"), params.get("server", "")),
            port=number("port", SERVER_PORT, 1, 65535),
            protocol=fields.choice(at("protocol"), protocol, ("tcp", "udp")),
            direction=fields.choice(at("direction"), direction, ("upload", "download")),
            duration=number("duration", 10, 1, LONGEST),
            parallel=number("parallel", 1, 1, 128),
            bitrate_mbps=number("bitrate-mbps", 0, 0, 400000),
        )


@attr.frozen
class Latency:
    """Parameters of one ping run of a UE; units as in actions.yaml."""

    server: str
    count: int
    interval_ms: int
    size: int

    @classmethod
    def parse(cls, params: Mapping[str, Any]) -> "Latency":
        """Parse the parameters of the UE's `measure-latency`."""

        def at(key: str) -> str:
            return "measure-latency: " + key

        def number(key: str, default: int, low: int, high: int) -> int:
            return fields.integer(at(key), params.get(key, default), low, high)

        test = cls(
            server=values.ipv4(at("server"), params.get("server", "")),
            count=number("count", 20, 1, 10000),
            interval_ms=number("interval-ms", 200, 2, 60000),
            size=number("size", 56, 0, 65507),
        )
        if test.seconds() > LONGEST:
            what = "{} requests every {} ms take {} s"
            raise InputError(
                at("count"),
                what.format(test.count, test.interval_ms, test.seconds()),
                "{} s in all".format(LONGEST),
            )
        return test

    def seconds(self) -> int:
        """Return how long the run takes at least."""
        return self.count * self.interval_ms // 1000 + 1


def address_step(interface: str) -> Step:
    """Return the step that reads an interface's IPv4 address."""
    return run(
        "address", "ip", "-j", "-4", "address", "show", "dev", interface, any_exit=True, timeout=20
    )


def address(results: Results, missing: str) -> str:
    """Return the address that `address_step` read.

    Raises:
        VpnaasError: There is none; the sentence is `missing`.
    """
    try:
        for entry in json.loads(results.output("address") or "[]"):
            for row in entry.get("addr_info", ()):
                return values.ipv4("address", row["local"])
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise VpnaasError(missing)


def not_attached(device: str) -> str:
    """Return the sentence for a UE without the connection of a tun device."""
    return "the UE is not attached: {} has no address; health says more".format(device)


def throughput_step(test: Throughput, own: str) -> Step:
    """Return the step of one iperf3 run from the UE's own address."""
    words: List[str] = ["iperf3", "--client", test.server, "--port", str(test.port)]
    # By its source address a packet takes the UE's routing table, and so the PDN connection.
    words += ["--bind", own, "--time", str(test.duration), "--parallel", str(test.parallel)]
    words += ["--json", "--connect-timeout", "10000"]
    if test.protocol == "udp":
        words += ["--udp", "--bitrate", "{}M".format(test.bitrate_mbps or 10)]
    elif test.bitrate_mbps:
        words += ["--bitrate", "{}M".format(test.bitrate_mbps)]
    if test.direction == "download":
        words.append("--reverse")
    return run("iperf3", *words, any_exit=True, timeout=test.duration + 60)


def throughput(test: Throughput, own: str, results: Results) -> Dict[str, Any]:
    """Return the summary of one iperf3 run, with rates of payload as the receiver counted them.

    Raises:
        VpnaasError: The run did not happen, with the reason.
    """
    where = "{}:{}".format(test.server, test.port)
    failure = "measurement to {} failed: ".format(where)
    if results.failed is not None:
        raise VpnaasError(failure + results.failed)
    try:
        report = json.loads(results.output("iperf3"))
        if report.get("error"):
            raise VpnaasError(failure + str(report["error"])[:300])
        found = measure.rates(report, test.protocol)
    except (ValueError, KeyError, TypeError, AttributeError):
        said = results.error("iperf3").strip().splitlines() or ["no report"]
        raise VpnaasError(failure + said[-1][:300])
    told = {
        "address": own,
        "server": test.server,
        "port": test.port,
        "protocol": test.protocol,
        "direction": test.direction,
        "seconds": test.duration,
        "parallel": test.parallel,
    }
    return dict(told, **found)


def latency_step(test: Latency, own: str) -> Step:
    """Return the step of one ping run from the UE's own address."""
    interval = "{:.3f}".format(test.interval_ms / 1000.0)
    words = ("ping", "-n", "-q", "-c", str(test.count), "-i", interval, "-s", str(test.size))
    return run(
        "ping",
        *words,
        "-W",
        "2",
        "-I",
        own,
        test.server,
        any_exit=True,
        timeout=test.seconds() + 30,
    )


def latency(test: Latency, own: str, results: Results) -> Dict[str, Any]:
    """Return the summary of one ping run; times are ms round trip.

    Raises:
        VpnaasError: Nothing was sent, or nothing came back.
    """
    found = measure.round_trips(results, test.server)
    told = {"address": own, "server": test.server, "size": test.size}
    return dict(told, **{"interval-ms": test.interval_ms}, **found)


def serve_steps(own: str, seconds: int) -> List[Step]:
    """Return the steps that start an iperf3 server at an address, in place of one before it."""
    unit = ("systemd-run", "--quiet", "--collect", "--unit", SERVER_UNIT)
    limits = ("--property", "RuntimeMaxSec={}".format(seconds), "--property", "DynamicUser=yes")
    server = ("iperf3", "--server", "--bind", own, "--port", str(SERVER_PORT))
    return [
        run("stop", "systemctl", "stop", SERVER_UNIT, any_exit=True, timeout=60),
        run("serve", *(unit + limits + server), any_exit=True, timeout=30),
    ]


def served(own: str, seconds: int, results: Results) -> Dict[str, Any]:
    """Return where the server is.

    Raises:
        VpnaasError: It did not start.
    """
    if results.failed is not None or results.exit_code("serve") != 0:
        said = (results.failed or results.error("serve")).strip().splitlines() or ["no reason"]
        raise VpnaasError("the server did not start: " + said[-1][:300])
    return {"address": own, "port": SERVER_PORT, "seconds": seconds}
