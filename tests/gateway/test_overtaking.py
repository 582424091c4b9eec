"""Expedited packets of a tunnel overtake others on the way: what the replay window drops then.

ESP is strongSwan's own (`kernel-libipsec`), whose window is 128 packets whatever is set.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support import overtake

from lab.certificates import Authority
from testbed.charon import ESP, IKE, Charon, backend
from testbed.netns import Namespaces, enter

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(300)]

RATE, BULK, EXPEDITED = 300, 600, 30
"""Packets a second: what passes the router, and what is sent."""
WINDOW = 128
ENDS = {"a": 1, "b": 2}


def overtaken(queue: int) -> float:
    """Return how many packets are sent while one waits behind a full queue of large ones."""
    return queue / (RATE - EXPEDITED) * (BULK + EXPEDITED)


def connect(spaces: Namespaces, folder: Path) -> list[Charon]:
    """Bring a tunnel up between both ends; return the daemons."""
    authority = Authority(folder / "ca")
    daemons = [Charon(spaces, name, folder).start() for name in ENDS]
    for (name, mine), theirs, daemon in zip(ENDS.items(), (2, 1), daemons, strict=True):
        certificate = daemon.identify(authority, f"{name}.example")
        child = {
            "local_ts": [f"172.16.{mine}.1/32"],
            "remote_ts": [f"172.16.{theirs}.1/32"],
            "esp_proposals": [ESP],
            "replay_window": str(WINDOW),
        }
        other = "b" if name == "a" else "a"
        daemon.vici.load_conn({"tunnel": {
            "version": "2",
            "local_addrs": [f"10.0.0.{mine}"],
            "remote_addrs": [f"10.0.0.{theirs}"],
            "proposals": [IKE],
            "mobike": "no",
            "local": {"auth": "pubkey", "id": f"{name}.example", "certs": [certificate]},
            "remote": {"auth": "pubkey", "id": f"{other}.example"},
            "children": {"child": child},
        }})  # fmt: skip
    request = {"child": "child", "ike": "tunnel", "timeout": "30000"}
    for _ in daemons[0].vici.initiate(request):
        pass
    daemons[1].wait_for(1, 60)
    return daemons


class Streams:
    """Large and small packets from one end to the other, and what arrives."""

    def __init__(self, spaces: Namespaces, seconds: float, linger: float) -> None:
        self.spaces = spaces
        self.end, self.linger = time.monotonic() + seconds, linger
        self.sent = {"bulk": 0, "fast": 0}
        self.arrived = {"bulk": 0, "fast": 0}
        threads = [
            threading.Thread(target=self._take),
            threading.Thread(target=self._give, args=("bulk", BULK, 400)),
            threading.Thread(target=self._give, args=("fast", EXPEDITED, 40)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _take(self) -> None:
        enter(self.spaces.prefix + "b")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taking:
            taking.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
            taking.bind(("172.16.2.1", 7000))
            taking.settimeout(0.3)
            while time.monotonic() < self.end + self.linger:
                try:
                    self.arrived[taking.recv(2000)[:4].decode()] += 1
                except TimeoutError:
                    continue

    def _give(self, kind: str, rate: int, size: int) -> None:
        enter(self.spaces.prefix + "a")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as giving:
            giving.bind(("172.16.1.1", 0))
            began, number = time.monotonic(), 0
            while time.monotonic() < self.end:
                time.sleep(max(0.0, began + number / rate - time.monotonic()))
                giving.sendto(kind.encode() + b"x" * size, ("172.16.2.1", 7000))
                number += 1
        self.sent[kind] = number


@pytest.mark.parametrize("queue", [16, 200])
def test_what_is_overtaken_by_more_packets_than_the_window_is_dropped(
    tmp_path: Path, queue: int
) -> None:
    if backend() == "kernel-netlink":
        pytest.skip("it measures strongSwan's own ESP, and this kernel has ESP")
    seconds = 5 + queue / (BULK + EXPEDITED - RATE)
    linger = queue / RATE + 4
    spaces = Namespaces("a", "r", "b")
    spaces.set_up()
    daemons: list[Charon] = []
    router = None
    try:
        for name, number in ENDS.items():
            spaces.wire(name, "r", names=("e0", f"to{name}"))
            spaces.ip(name, "address", "add", f"10.0.0.{number}/24", "dev", "e0")
            spaces.ip(name, "address", "add", f"172.16.{number}.1/32", "dev", "lo")
            # The router takes frames as they are, so checksums must be there.
            spaces.run(name, "ethtool", "-K", "e0", "tx", "off", "gso", "off", "gro", "off")
        words = ("toa", "tob", str(RATE), str(queue))
        router = subprocess.Popen(
            spaces.argv("r", sys.executable, str(overtake.__file__), *words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        daemons = connect(spaces, tmp_path)
        streams = Streams(spaces, seconds, linger)
        dropped = int(router.communicate(timeout=60)[0])
    finally:
        for daemon in daemons:
            daemon.stop(9)
        if router is not None:
            router.kill()
        spaces.take_down()
    passed = streams.sent["bulk"] - dropped
    result = f"{streams.sent} sent, {dropped} dropped on the way, {streams.arrived} arrived"
    print(result)
    assert passed > 500, result
    # What is expedited arrives either way.
    assert streams.arrived["fast"] == streams.sent["fast"] > 100, result
    if overtaken(queue) < WINDOW:
        assert streams.arrived["bulk"] > 0.97 * passed, result
    else:
        assert streams.arrived["bulk"] < 0.5 * passed, result
