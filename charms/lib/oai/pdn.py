"""Measurements through a UE's PDN connection: commands for its VDU, and parsers for their output.

The packets pass radio, S1-U and SGi, as all user traffic of the EPC. The far end is a host of the
data network. Its iperf3 server is the operator's own, or the one that the SPGW-U starts for a while
at its SGi address; the rules of that VDU drop packets to it from the data network.
"""

import json
from typing import Any, Dict, List

import attr
from vpnaas.base import fields
from vpnaas.base.declared import choice_field, number_field, text_field
from vpnaas.base.errors import MALFORMED, VpnaasError
from vpnaas.features.measure import measure
from vpnaas.vdu import trouble
from vpnaas.vdu.installed import filled
from vpnaas.vdu.steps import Results, Step, run

from . import values
from .model import Check

DEVICES = "oaitun_ue"
"""Start of the names of a UE's tun devices."""
DEVICE = DEVICES + "1"
"""Tun device of a UE's first connection."""
TABLE = "osm_vpnaas_sgi"
SERVER_PORT = 5201
SERVER_UNIT = "osm-vpnaas-sgi-server.service"
UDP_DEFAULT_MBPS = 10
TRIES = 3
"""How often a measurement by UDP starts whose streams do not: their first datagrams may be lost."""

NAT = """    chain postrouting {{
        type nat hook postrouting priority srcnat; policy accept;
        ip saddr {pool} oifname "{interface}" masquerade
    }}
"""


def device_check(device: str, network: str) -> Check:
    """Return the sign that a user plane has made its device, the only one of its firewall."""
    text = "no interface {} for {} yet; tun-device of configure-nf is the one that the image makes"
    return Check("interface", text.format(device, network), unit=device)


def rules(interface: str, device: str, pool: str, nat: bool) -> str:
    """Return the nftables script of a user plane, for UE traffic and for `serve-throughput`.

    `device` is the tun device with the packets of all UEs. With `nat`, the VDU's own address
    takes the place of those of UEs.
    """
    translation = NAT.format(pool=pool, interface=interface) if nat else ""
    return filled(
        "templates/user_plane.nft",
        "oai",
        table=TABLE,
        interface=interface,
        tun=device,
        server=SERVER_PORT,
        nat=translation,
    )


@attr.frozen
class Throughput(measure.Transfer):
    """One iperf3 run of a UE."""

    direction: str = choice_field(("upload", "download"))
    server: str = text_field(values.ipv4)
    port: int = number_field(1, 65535, SERVER_PORT)


@attr.frozen
class Latency(measure.Ping):
    """One ping run of a UE."""

    server: str = text_field(values.ipv4)


def address_step(interface: str, id: str = "address") -> Step:
    words = ("ip", "-j", "-4", "address", "show", "dev", interface)
    return run(id, *words, any_exit=True, timeout=20)


def address(results: Results, id: str = "address") -> str:
    """Return the address that `address_step` read, "" if there is none."""
    try:
        for entry in json.loads(results.output(id) or "[]"):
            for row in entry.get("addr_info", ()):
                # An interface whose DHCP has no answer yet may have one of 169.254.0.0/16.
                if not str(row["local"]).startswith("169.254."):
                    return values.ipv4("address", row["local"])
    except MALFORMED:
        pass
    return ""


def not_attached(device: str) -> str:
    """Return the sentence for a UE without the connection of a tun device."""
    return "the UE is not attached: {} has no address; health says more".format(device)


def throughput_step(test: Throughput, own: str) -> Step:
    """Return the step of one iperf3 run from the UE's own address."""
    # The source address selects the UE's routing table, and so the PDN connection.
    words = ["--bind", own, "--connect-timeout", "10000"] + test.options(UDP_DEFAULT_MBPS)
    tries = TRIES if test.protocol == "udp" else 1
    request = {"responder": None, "port": test.port, "address": test.server, "options": words}
    request.update(seconds=test.duration, datagrams=None, keep="", tries=tries)
    return measure.client("iperf3", request)


def throughput(test: Throughput, own: str, results: Results) -> Dict[str, Any]:
    """Return the summary of one iperf3 run, with rates of payload as the receiver counted them."""
    where = "{}:{}".format(test.server, test.port)
    failure = "measurement to {}".format(where)
    named = {"peer": where, "address": test.server, "path": "UE's connection"}
    report = measure.checked(measure.answer(results, "iperf3", failure), named)
    summary = {
        "address": own,
        "server": test.server,
        "port": test.port,
        "protocol": test.protocol,
        "direction": test.direction,
        "seconds": test.duration,
        "parallel": test.parallel,
    }
    return dict(summary, **measure.understood(report, test.protocol, where))


def latency(test: Latency, own: str, results: Results) -> Dict[str, Any]:
    """Return the summary of one ping run; times are ms round trip."""
    times = measure.round_trips(results, test.server)
    summary = {"address": own, "server": test.server, "size": test.size}
    return dict(summary, **{"interval-ms": test.interval_ms}, **times)


def serve_steps(own: str, seconds: int) -> List[Step]:
    """Return the steps that start an iperf3 server at an address and stop an earlier one."""
    unit = ("systemd-run", "--quiet", "--collect", "--unit", SERVER_UNIT)
    limits = ("--property", "RuntimeMaxSec={}".format(seconds), "--property", "DynamicUser=yes")
    server = ("iperf3", "--server", "--bind", own, "--port", str(SERVER_PORT))
    return [
        run("stop", "systemctl", "stop", SERVER_UNIT, any_exit=True, timeout=60),
        trouble.listeners("port", SERVER_PORT),
        run("serve", *(unit + limits + server), any_exit=True, timeout=30),
    ]


def served(own: str, seconds: int, results: Results) -> Dict[str, Any]:
    """Return the server's address and port, and how long it runs."""
    owner = trouble.holder(results, "port", fields.address("address", own))
    if owner:
        what = "TCP port {} of the VDU is used by {}; allowed: no other server there"
        raise VpnaasError(what.format(SERVER_PORT, owner))
    if results.failed is not None or results.exit_code("serve") != 0:
        raise VpnaasError("the server did not start: " + results.why("serve"))
    return {"address": own, "port": SERVER_PORT, "seconds": seconds}
