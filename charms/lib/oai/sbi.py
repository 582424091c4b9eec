"""What the functions of OpenAirInterface's 5G core share.

A function uses the first IPv4 address of an interface that its configuration file names.
"""

from typing import Any, Tuple

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


def container(name: str, **more: Any) -> Container:
    path = "/openair-{}/etc/config.yaml".format(name)
    return Container(
        name,
        words=("-c", path, "-o"),
        volumes=((conf(name + ".yaml"), path),),
        entrypoint="/openair-{0}/bin/oai_{0}".format(name),
        **more,
    )
