"""Common parts of the configuration files of OpenAirInterface's 5G core.

A file is YAML, and JSON is YAML, so these are JSON: every value has its type. A network function
uses the first IPv4 address of an interface that the file names.
"""

import json
from typing import Any, Dict, Mapping, Tuple

from .model import LIBRARY, Container, File, conf

LOGGED = {"error": "info", "warning": "info", "info": "info", "debug": "debug"}
"""Levels of functions that have to log who is connected; they do so at level info."""
PORT = 8080
"""Port of AMF and SMF, each at its own inner address on SBI."""
NRF_PORT, UDM_PORT, AUSF_PORT, UDR_PORT = 8081, 8082, 8083, 8084
"""They share a VDU with the AMF, so each has another port."""

_WAIT = """#!/usr/bin/python3
# Waits for the NRF, at most a minute: OAI's functions register once, when they start.
import socket, sys, time

_, _, host, port = sys.argv
for _ in range(60):
    try:
        socket.create_connection((host, int(port)), 1).close()
        sys.exit(0)
    except OSError:
        time.sleep(1)
sys.exit("nothing listens at {} port {}".format(host, port))
"""
WAIT = File(LIBRARY + "/nf-wait", _WAIT, 0o755)


def wait_for(host: str, port: int) -> Tuple[str, ...]:
    """Return the command that waits for the NRF before a start; its program is `WAIT`."""
    return (WAIT.path, host, str(port))


def document(
    level: str, nfs: Mapping[str, Any], more: Mapping[str, Any], register: bool = True
) -> str:
    """Return a configuration file.

    Args:
        level: Log level of the network function, by its own name.
        nfs: Entries (`function`) of itself and of others, by name.
        more: Sections that only this function has.
        register: Whether it registers at the NRF, and finds others there.
    """
    common = {
        "log_level": {"general": level},
        "register_nf": {"general": register},
        "http_version": 2,
        "nfs": nfs,
    }
    return json.dumps(dict(common, **more), indent=1) + "\n"


def function(host: str, port: int, interface: str = "", **points: Any) -> Dict[str, Any]:
    """Return the entry of a network function on SBI, with its interfaces if it is our own.

    `points` are its other reference points: network interface, and port or 0.
    """
    sbi = {"port": port, "api_version": "v1"}  # type: Dict[str, Any]
    if interface:
        sbi["interface_name"] = interface
    entry = {"host": host, "sbi": sbi}  # type: Dict[str, Any]
    for name, (end, end_port) in points.items():
        entry[name] = {"interface_name": end}
        if end_port:
            entry[name]["port"] = end_port
    return entry


def data_network(dnn: str, pool: str) -> Dict[str, str]:
    """Return the entry of a data network and of the prefix of its UEs."""
    return {"dnn": dnn, "pdu_session_type": "IPV4", "ipv4_subnet": pool}


def container(name: str, **more: Any) -> Container:
    """Return the container of a network function of the core."""
    path = "/openair-{}/etc/config.yaml".format(name)
    return Container(
        name,
        words=("-c", path, "-o"),
        volumes=((conf(name + ".yaml"), path),),
        entrypoint="/openair-{0}/bin/oai_{0}".format(name),
        **more,
    )
