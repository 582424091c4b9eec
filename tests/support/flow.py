"""A steady stream of numbered datagrams between two VDUs, by their consoles."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import Any

from operate.background import InBackground

_ports = itertools.cycle(range(5300, 5900))

RECEIVE = r"""
import json, os, select, socket, struct, sys, time
request = json.load(sys.stdin)
family = socket.AF_INET6 if ":" in request["address"] else socket.AF_INET
sock = socket.socket(family, socket.SOCK_DGRAM)
try:  # SO_RCVBUFFORCE, past net.core.rmem_max: with a slow VDU many datagrams wait.
    sock.setsockopt(socket.SOL_SOCKET, 33, 4 << 20)
except PermissionError:  # root of a user namespace
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
# IP_FREEBIND: it keeps waiting while the tunnel's address is away.
sock.setsockopt(socket.SOL_IP, 15, 1)
sock.bind((request["address"], request["port"]))
seen, end, stopped = set(), time.monotonic() + request["limit"], False
while time.monotonic() < end:
    ready, _, _ = select.select([sock], [], [], max(0, min(0.2, end - time.monotonic())))
    # Where the path was closed, the sender's own word that it has ended does not arrive.
    if not stopped and os.path.exists(request["stop"]):
        os.unlink(request["stop"])
        stopped, end = True, min(end, time.monotonic() + request["linger"])
    if not ready:
        continue
    (number,) = struct.unpack("!Q", sock.recv(2048)[:8])
    if number == 2 ** 64 - 1:
        break
    seen.add(number)
# An answer has a largest size, and a long stream has more numbers than that.
runs = []
for number in sorted(seen):
    if runs and runs[-1][1] == number:
        runs[-1][1] = number + 1
    else:
        runs.append([number, number + 1])
json.dump(runs, sys.stdout)
"""

SEND = r"""
import json, os, socket, struct, sys, time
request = json.load(sys.stdin)
family = socket.AF_INET6 if ":" in request["address"] else socket.AF_INET
sock = socket.socket(family, socket.SOCK_DGRAM)
target = (request["address"], request["port"])
fill = b"\0" * max(0, request["size"] - 8)
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
    late = max(late, time.monotonic() - due)
    try:
        sock.sendto(struct.pack("!Q", number) + fill, target)
    except OSError:
        failed += 1
time.sleep(request["linger"])
for _ in range(5):
    try:
        sock.sendto(struct.pack("!Q", 2 ** 64 - 1), target)
    except OSError:
        pass
    time.sleep(0.05)
json.dump({"sent": count, "failed": failed, "late_ms": late * 1000}, sys.stdout)
"""


@dataclass(frozen=True)
class Stream:
    """What became of a stream of numbered datagrams.

    Attributes:
        sent: datagrams due.
        late_ms: the longest the sender itself came too late; a machine under load shows in it.
        seen: first number and the one after the last, of each row of those that arrived.
    """

    sent: int
    late_ms: float
    seen: list[tuple[int, int]]

    @property
    def lost(self) -> int:
        return self.sent - sum(end - first for first, end in self.seen)

    def summary(self) -> str:
        return f"{self.lost} of {self.sent} lost, seen {self.seen}; late {self.late_ms:.0f} ms"


class Flow:
    """A stream that runs in parallel to the block; `result` waits for its end.

    An end is anything that runs a command on a VDU: ``out(*argv, input=TEXT, timeout=SECONDS)``.
    """

    def __init__(
        self, near: Any, far: Any, address: str, *, seconds: float, rate: float, size: int = 100
    ) -> None:
        port = next(_ports)
        limit = seconds + 4
        self._ends, self._stop = (near, far), f"/run/stop-{port}"
        receive = {"address": address, "port": port, "limit": limit,
                   "stop": f"{self._stop}-receiver", "linger": 1.5}  # fmt: skip
        self._receiver = InBackground(lambda: _python(far, RECEIVE, receive, limit + 20))
        send = {"address": address, "port": port, "rate": rate, "seconds": seconds, "size": size,
                "linger": 0.5, "stop": self._stop}  # fmt: skip
        far.out(
            "sh", "-c", f"until ss -Hlnu | grep -q ':{port} '; do sleep 0.02; done", timeout=120
        )
        self._sender = InBackground(lambda: _python(near, SEND, send, limit + 20))

    def stop(self) -> None:
        """Let both ends finish now, before their time; packets on the way still arrive."""
        near, far = self._ends
        near.out("touch", self._stop)
        far.out("touch", f"{self._stop}-receiver")

    def result(self) -> Stream:
        outcome = self._sender.result()
        seen = [(first, end) for first, end in self._receiver.result()]
        return Stream(outcome["sent"], outcome["late_ms"], seen)


def _python(end: Any, program: str, request: object, timeout: float) -> Any:
    result = end.out("python3", "-I", "-c", program, input=json.dumps(request), timeout=timeout)
    return json.loads(result)
