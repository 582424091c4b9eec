"""Traffic between two VDUs: iperf3, echo requests, and a steady stream of numbered datagrams.

All of it runs on the VDUs' consoles. The machine has one monotonic clock for all VDUs, so the
delay of a datagram is measured in one direction, without a guess at half a round trip.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import click

from experiments.stats import percentile
from experiments.testbed import InBackground, Vnf

_ports = itertools.cycle(range(5300, 5900))

_SERVE = """
import socket, subprocess, sys, time
address, port = sys.argv[1], sys.argv[2]
server = subprocess.Popen(["iperf3", "-s", "-1", "-B", address, "-p", port],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          start_new_session=True)
end = time.monotonic() + 10
while time.monotonic() < end:
    listening = subprocess.run(["ss", "-Hlnt", "sport", "=", ":" + port], stdout=subprocess.PIPE)
    if listening.stdout.strip():
        sys.exit(0)
    time.sleep(0.02)
sys.exit("iperf3 does not listen")
"""


def _iperf(
    near: Vnf, far: Vnf, address: str, seconds: int, *options: str, listening: str = ""
) -> dict[str, Any]:
    port = str(next(_ports))
    far.out("python3", "-I", "-c", _SERVE, listening or address, port)
    words = ("iperf3", "-c", address, "-p", port, "-t", str(seconds), "--json", *options)
    done = near.run(*words, timeout=seconds + 60)
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise click.ClickException(f"{near}: iperf3 printed no report: {done.stderr}") from None
    if report.get("error"):
        raise click.ClickException(f"{near}: iperf3 to {address}: {report['error']}")
    report["port"] = port
    return report


def tcp(
    near: Vnf, far: Vnf, address: str, seconds: int, mbps: int = 0, listening: str = ""
) -> dict[str, float]:
    """Return Mbit/s of TCP payload that arrived, and segments sent again.

    Args:
        near, far: sender and receiver.
        address: of the receiver.
        seconds: how long to send.
        mbps: rate; 0 is no limit.
        listening: the receiver's own address, where a router translates `address` into it.
    """
    limit = ("-b", f"{mbps}M") if mbps else ()
    end = _iperf(near, far, address, seconds, *limit, listening=listening)["end"]
    return {
        "mbps": end["sum_received"]["bits_per_second"] / 1e6,
        "retransmits": end["sum_sent"].get("retransmits", 0),
    }


def udp(
    near: Vnf,
    far: Vnf,
    address: str,
    seconds: int,
    mbps: float,
    size: int = 1200,
    listening: str = "",
) -> dict[str, float]:
    """Return rate, jitter (RFC 3550, as iperf3 reports it) and loss of a UDP stream; see `tcp`."""
    options = ("-u", "-b", f"{mbps:g}M", "-l", str(size))
    end = _iperf(near, far, address, seconds, *options, listening=listening)["end"]
    received = end.get("sum_received") or end["sum"]
    return {
        "mbps": received["bits_per_second"] / 1e6,
        "jitter_ms": received["jitter_ms"],
        "loss_percent": received["lost_percent"],
    }


_TIMES = re.compile(r"time=([\d.]+) ms")


def echoes(near: Vnf, address: str, count: int, interval_ms: int) -> dict[str, Any]:
    """Return round trip times in ms of echo requests, and the number without an answer.

    Raises:
        click.ClickException: none came back.
    """
    words = ("ping", "-n", "-c", str(count), "-i", f"{interval_ms / 1000:g}", "-W", "1", address)
    done = near.run(*words, timeout=count * interval_ms / 1000 + 30)
    times = [float(text) for text in _TIMES.findall(done.stdout)]
    if not times:
        raise click.ClickException(f"{near}: {address} answers no echo request")
    return {
        "rtt_ms": sum(times) / len(times),
        "rtt_p50_ms": percentile(times, 0.5),
        "rtt_p99_ms": percentile(times, 0.99),
        "rtt_max_ms": max(times),
        "lost": count - len(times),
        "sent": count,
    }


RECEIVE = r"""
import json, os, select, socket, struct, sys, time
request = json.load(sys.stdin)
family = socket.AF_INET6 if ":" in request["address"] else socket.AF_INET
sock = socket.socket(family, socket.SOCK_DGRAM)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
# IP_FREEBIND: it keeps waiting while the tunnel's address is away.
sock.setsockopt(socket.SOL_IP, 15, 1)
sock.bind((request["address"], request["port"]))
seen, end, stopped = [], time.monotonic() + request["limit"], False
while time.monotonic() < end:
    ready, _, _ = select.select([sock], [], [], max(0, min(0.2, end - time.monotonic())))
    # Where the path was closed, the sender's own word that it has ended does not arrive.
    if not stopped and os.path.exists(request["stop"]):
        os.unlink(request["stop"])
        stopped, end = True, min(end, time.monotonic() + request["linger"])
    if not ready:
        continue
    data = sock.recv(2048)
    now = time.monotonic()
    number, sent = struct.unpack("!Qd", data[:16])
    if number == 2 ** 64 - 1:
        break
    seen.append((number, sent, now))
json.dump(seen, sys.stdout)
"""

SEND = r"""
import json, os, socket, struct, sys, time
request = json.load(sys.stdin)
family = socket.AF_INET6 if ":" in request["address"] else socket.AF_INET
sock = socket.socket(family, socket.SOCK_DGRAM)
target = (request["address"], request["port"])
fill = b"\0" * max(0, request["size"] - 16)
step, start = 1 / request["rate"], time.monotonic() + 0.1
failed, late, count = 0, 0.0, int(request["seconds"] * request["rate"])
for number in range(count):
    if number % 20 == 0 and os.path.exists(request["stop"]):
        os.unlink(request["stop"])
        count = number
        break
    due = start + number * step
    pause = due - time.monotonic()
    if pause > 0:
        time.sleep(pause)
    now = time.monotonic()
    late = max(late, now - due)
    try:
        sock.sendto(struct.pack("!Qd", number, now) + fill, target)
    except OSError:
        failed += 1
time.sleep(request["linger"])
for _ in range(5):
    try:
        sock.sendto(struct.pack("!Qd", 2 ** 64 - 1, 0), target)
    except OSError:
        pass
    time.sleep(0.05)
json.dump({"sent": count, "failed": failed, "late_ms": late * 1000}, sys.stdout)
"""


@dataclass(frozen=True)
class Stream:
    """What became of a stream of numbered datagrams.

    Attributes:
        rate: datagrams per second.
        sent: datagrams due.
        late_ms: the longest the sender itself came too late; a machine under load shows in it.
        seen: number, time sent and time received of each that arrived, s on the monotonic clock.
    """

    rate: float
    sent: int
    late_ms: float
    seen: list[tuple[int, float, float]] = field(repr=False)

    @property
    def lost(self) -> int:
        """How many never arrived."""
        return self.sent - len({number for number, _, _ in self.seen})

    @property
    def gap_ms(self) -> float:
        """The longest time between two datagrams that arrived, less the sender's own gap there."""
        longest = 0.0
        for one, two in itertools.pairwise(sorted(self.seen, key=lambda row: row[2])):
            longest = max(longest, (two[2] - one[2]) - max(0.0, two[1] - one[1]))
        return longest * 1000

    @property
    def longest_loss_ms(self) -> float:
        """How long the longest run of lost datagrams lasted."""
        numbers = sorted({number for number, _, _ in self.seen})
        edges = [-1, *numbers, self.sent]
        run = max(two - one - 1 for one, two in itertools.pairwise(edges))
        return run * 1000 / self.rate

    def summary(self) -> dict[str, Any]:
        """Return figures for a record."""
        delays = [(received - sent) * 1000 for _, sent, received in self.seen]
        return {
            "sent": self.sent,
            "lost": self.lost,
            "loss_percent": 100 * self.lost / self.sent,
            "longest_loss_ms": self.longest_loss_ms,
            "gap_ms": self.gap_ms,
            "sender_late_ms": self.late_ms,
            "delay_p50_ms": percentile(delays, 0.5) if delays else None,
            "delay_p99_ms": percentile(delays, 0.99) if delays else None,
            "delay_max_ms": max(delays) if delays else None,
        }


class Flow:
    """A stream that runs in parallel to the block; `result` waits for its end."""

    def __init__(
        self,
        near: Vnf,
        far: Vnf,
        address: str,
        *,
        seconds: float,
        rate: float = 200.0,
        size: int = 100,
    ) -> None:
        self.rate = rate
        port = next(_ports)
        limit = seconds + 4
        self._ends, self._stop = (near, far), f"/run/stop-{port}"
        receive = {"address": address, "port": port, "limit": limit,
                   "stop": f"{self._stop}-receiver", "linger": 1.5}  # fmt: skip
        self._receiver = InBackground(lambda: far.python(RECEIVE, receive, limit + 20))
        send = {"address": address, "port": port, "rate": rate, "seconds": seconds, "size": size,
                "linger": 0.5, "stop": self._stop}  # fmt: skip
        far.out("sh", "-c", f"until ss -Hlnu | grep -q ':{port} '; do sleep 0.02; done", timeout=20)
        self._sender = InBackground(lambda: near.python(SEND, send, limit + 20))

    def stop(self) -> None:
        """Let both ends finish now, before their time; packets on the way still arrive."""
        near, far = self._ends
        near.out("touch", self._stop)
        far.out("touch", f"{self._stop}-receiver")

    def result(self) -> Stream:
        """Wait for the end of the stream and return what became of it."""
        told = self._sender.result()
        seen = [tuple(row) for row in self._receiver.result()]
        return Stream(self.rate, told["sent"], told["late_ms"], seen)


@contextmanager
def load(near: Vnf, far: Vnf, address: str, seconds: int, *options: str) -> Iterator[None]:
    """Run iperf3 in parallel to the block, until the block ends or for `seconds`.

    Raises:
        click.ClickException: it ended before the block did, so that the block was not under load.
    """
    port = str(next(_ports))
    far.out("python3", "-I", "-c", _SERVE, address, port)
    words = ("iperf3", "-c", address, "-p", port, "-t", str(seconds), *options)
    running = InBackground(lambda: near.run(*words, timeout=seconds + 60))
    ended = True
    try:
        yield
        ended = running.ended
    finally:
        # End both: a client without a path cannot inform its server.
        for end in (near, far):
            end.run("pkill", "-INT", "-f", f"^iperf3 .*-p {port}( |$)")
        told = running.result()
    if ended:
        said = (told.stderr or told.stdout).strip().splitlines() or ["no message"]
        raise click.ClickException(f"{near}: the load to {address} ended early: {said[-1]}")
