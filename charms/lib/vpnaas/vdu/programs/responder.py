#!/usr/bin/python3
"""Serve one measurement: read a request, start a one-shot iperf3 server, send its port, wait.

Started by systemd per connection, with the connection as standard input and output. A request is
one line of JSON, {"path": "tunnel" | "underlay", "seconds": N}; the answer is one line of JSON,
{"address": "...", "port": N} or {"error": "..."}.

A request with "datagrams" is for numbered datagrams in place of iperf3, which cannot start a stream
of UDP where packets are lost. Then the port is one of UDP. The other end sends another line when it
has ended, and the answer to that is what `exchange` returns. The client's program uses it too.
"""

import glob
import json
import select
import socket
import struct
import subprocess
import sys
import time
from typing import Any, Callable, Dict, Optional

from vpnaas.vdu.programs.common import family

LIMIT = 1500
HEAD = struct.Struct("!8sQd")
"""Of a datagram: token of the measurement, number, clock of the sender in seconds."""
GREETING = (1 << 64) - 1
"""Number of a datagram that only tells the far end where to send to."""
AT_ONCE = 64
"""Datagrams that are sent without a look at what came; more would fill the receive buffer."""
OVERTIME = 0.25
"""Seconds for which what was due is still sent; the other end listens for as long again."""
PATIENCE = 30.0
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
    with socket.socket(family(address), socket.SOCK_STREAM) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def listens(address: str, port: int) -> bool:
    """Tell whether the server is ready."""
    with socket.socket(family(address), socket.SOCK_STREAM) as probe:
        # As iperf3 sets it too, neither keeps the other from a port at which nobody listens.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            # A connection would count as the test. So try to bind: it fails if the server listens.
            probe.bind((address, port))
        except OSError:
            return True
    return False


def exchange(
    sock: socket.socket,
    target: Any,
    plan: Dict[str, Any],
    sends: bool,
    ended: Callable[[float], bool],
) -> Dict[str, Any]:
    """Send numbered datagrams at a steady rate, and count those of the other end.

    Args:
        sock: Datagram socket.
        target: Where to send to, None for the sender of the first datagram.
        plan: "seconds", "rate" (datagrams per second), "size" (bytes), and "token" (hexadecimal):
            what comes without it was sent by somebody else.
        sends: Whether we send more than greetings.
        ended: Called with the seconds since the start; tells when to end.

    Returns:
        "sent", "failed" (refused by the kernel), "received", "bytes", "jitter-ms" (RFC 3550 section
        6.4.1), "late-ms" (by how much a datagram was late at most) and "cpu" (per cent).
    """
    start, cpu = time.monotonic(), time.process_time()
    begun = start
    due = int(plan["seconds"] * plan["rate"]) if sends else 0
    token = bytes.fromhex(plan["token"])
    filling = b"\0" * (plan["size"] - HEAD.size)
    sent = failed = received = size = 0
    jitter = late = greeted = 0.0
    transit: Optional[float] = None
    known = target is not None
    sock.setblocking(False)
    while True:
        now = time.monotonic()
        if ended(now - start):
            break
        if known and target is not None and not received and now - greeted > 0.05:
            greeted = now
            _send(sock, HEAD.pack(token, GREETING, now) + filling, target)
        until = 0.05
        # Who was kept from sending until nobody listens any more has not lost what he did not send.
        if target is not None and sent < due and now - begun < plan["seconds"] + OVERTIME:
            until_number = min(due, int((now - begun) * plan["rate"]) + 1, sent + AT_ONCE)
            late = max(late, now - begun - sent / plan["rate"])
            for number in range(sent, until_number):
                if not _send(sock, HEAD.pack(token, number, time.monotonic()) + filling, target):
                    failed += 1
                sent += 1
            until = max(0.0, min(until, begun + sent / plan["rate"] - time.monotonic()))
        if not select.select([sock], [], [], until)[0]:
            continue
        for _ in range(AT_ONCE * 2):
            try:
                data, sender = sock.recvfrom(65535)
            except OSError:
                break  # Nothing more, or an ICMP error: that datagram counts as lost.
            if len(data) < HEAD.size or data[:8] != token:
                continue
            now = time.monotonic()
            if target is None:
                target, begun = sender, now
            _, number, clock = HEAD.unpack(data[: HEAD.size])
            if number == GREETING:
                continue
            received, size = received + 1, size + len(data)
            if transit is not None:
                jitter += (abs(now - clock - transit) - jitter) / 16
            transit = now - clock
    spent = (time.process_time() - cpu) / max(0.001, time.monotonic() - start)
    return {
        "sent": sent,
        "failed": failed,
        "received": received,
        "bytes": size,
        "jitter-ms": round(jitter * 1000, 4),
        "late-ms": round(late * 1000, 3),
        "cpu": round(spent * 100, 1),
    }


def _send(sock: socket.socket, data: bytes, target: Any) -> bool:
    try:
        sock.sendto(data, target)
    except OSError:
        return False
    return True


def datagrams(connection: socket.socket, address: str, plan: Dict[str, Any]) -> int:
    """Serve numbered datagrams until the other end has ended; return an exit code."""
    sock = socket.socket(family(address), socket.SOCK_DGRAM)
    with sock:
        try:
            sock.bind((address, 0))
        except OSError:
            # As for iperf3: behind a floating IP, serve all addresses.
            sock.bind((ALL, 0))
        answer({"port": sock.getsockname()[1], "datagrams": True})
        limit = plan["seconds"] + PATIENCE

        def ended(passed: float) -> bool:
            return passed > limit or bool(select.select([connection], [], [], 0)[0])

        answer(exchange(sock, None, plan, bool(plan["down"]), ended))
    return 0


def planned(given: Any) -> Dict[str, Any]:
    """Return the plan of a request; ValueError, KeyError or TypeError for another form."""
    plan: Dict[str, Any] = {"seconds": float(given["seconds"]), "rate": float(given["rate"])}
    if not 0.1 <= plan["seconds"] <= LIMIT or not 0.1 <= plan["rate"] <= 1e7:
        raise ValueError(given)
    if not HEAD.size <= int(given["size"]) <= 65507:
        raise ValueError(given)
    if len(bytes.fromhex(given["token"])) != 8:
        raise ValueError(given)
    return dict(plan, size=int(given["size"]), down=bool(given["down"]), token=given["token"])


def answer(message: Dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> int:
    connection = connection_of(0)
    connection.settimeout(10)
    local = connection.getsockname()[0]
    try:
        request = json.loads(connection.makefile("r").readline(200))
        path, seconds = request["path"], int(request["seconds"])
        if path not in ("tunnel", "underlay") or not 1 <= seconds <= LIMIT:
            raise ValueError(path)
        plan = planned(request["datagrams"]) if "datagrams" in request else None
    except (ValueError, KeyError, TypeError, OSError):
        answer({"error": "request not understood"})
        return 1
    address = targets(local).get(path)
    if not address:
        answer({"error": "no address for path " + path})
        return 1
    if plan is not None:
        return datagrams(connection, address, plan)
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
    except OSError as error:
        answer({"error": "iperf3 cannot be started: {}".format(error.strerror)})
        return 1
    try:
        deadline = time.monotonic() + START
        while not listens(address or ALL, port):
            code = server.poll()
            if code is not None or time.monotonic() > deadline:
                how = "in time" if code is None else "and ended with exit code {}".format(code)
                answer({"error": "iperf3 did not start " + how})
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
