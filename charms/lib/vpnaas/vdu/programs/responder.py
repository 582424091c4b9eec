#!/usr/bin/python3
"""Serve one measurement: read a request, start a one-shot iperf3 server, send its port, wait.

Started by systemd per connection, with the connection as standard input and output. A request is
one line of JSON, {"path": "tunnel" | "underlay", "seconds": N}; the answer is one line of JSON,
{"address": "...", "port": N} or {"error": "..."}.
"""

import glob
import json
import socket
import subprocess
import sys
import time
from typing import Any, Dict

LIMIT = 1500
START = 3.0
ALL = "0.0.0.0"  # noqa: S104 - iperf3 itself does so then


def connection_of(handle: int) -> socket.socket:
    """Return the socket of a file descriptor.

    Python 3.6 takes each for one of IPv4, and then cuts an IPv6 address off.
    """
    guess = socket.socket(fileno=handle)
    family = guess.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN)
    return socket.socket(family, fileno=guess.detach())


def targets(local: str) -> Dict[str, str]:
    """Return the addresses of the link with this inner address, by path."""
    for path in glob.glob("/etc/osm-vpnaas-responder-*.json"):
        with open(path) as stream:
            known: Dict[str, str] = json.load(stream)
        if known["inner"] == local:
            return known
    return {}


def free_port(address: str) -> int:
    """Return a TCP port that is not in use."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def listens(address: str, port: int) -> bool:
    """Tell whether the server is ready."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As iperf3 sets it too, neither keeps the other from a port at which nobody listens.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            # A connection would count as the test. So try to bind: it fails if the server listens.
            probe.bind((address, port))
        except OSError:
            return True
    return False


def answer(message: Dict[str, Any]) -> None:
    """Send the answer."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Serve one request; return an exit code."""
    connection = connection_of(0)
    connection.settimeout(10)
    local = connection.getsockname()[0]
    try:
        request = json.loads(connection.makefile("r").readline(200))
        path, seconds = request["path"], int(request["seconds"])
        if path not in ("tunnel", "underlay") or not 1 <= seconds <= LIMIT:
            raise ValueError(path)
    except (ValueError, KeyError, TypeError, OSError):
        answer({"error": "request not understood"})
        return 1
    address = targets(local).get(path)
    if not address:
        answer({"error": "no address for path " + path})
        return 1
    try:
        port = free_port(address)
    except OSError:
        # Behind a floating IP the outer address is on no interface: serve all addresses.
        address, port = "", free_port(ALL)
    command = ["iperf3", "--server", "--one-off", "--port", str(port)]
    if address:
        command += ["--bind", address]
    try:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    except FileNotFoundError:
        answer({"error": "iperf3 is not installed"})
        return 1
    try:
        deadline = time.monotonic() + START
        while not listens(address or ALL, port):
            if server.poll() is not None or time.monotonic() > deadline:
                answer({"error": "iperf3 did not start"})
                return 1
            time.sleep(0.02)
        answer({"address": address, "port": port})
        server.wait(timeout=seconds + 30)
    except subprocess.TimeoutExpired:
        pass
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
