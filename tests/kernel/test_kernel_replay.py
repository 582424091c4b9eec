"""Expedited packets overtake others in a queue: what the replay window of ESP makes of that.

A router between two ends of a tunnel lets expedited forwarding (EF, RFC 3246) overtake best effort.
The kernel copies the DSCP to the outer header (RFC 2983), so sequence numbers arrive out of order.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.guest import GuestMachine

pytestmark = pytest.mark.lab

PROGRAM = r"""
import json, re, socket, subprocess, threading, time

def run(*words):
    subprocess.run([str(word) for word in words], check=True)

def at(name, *words):
    run("ip", "netns", "exec", name, *words)

def enter(name):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/run/netns/" + name) as handle:
        assert libc.setns(handle.fileno(), 0x40000000) == 0

for name in "arb":
    run("ip", "netns", "add", name)
    at(name, "ip", "link", "set", "lo", "up")
for end, other in (("a", 1), ("b", 2)):
    peer = ("peer", "name", "to" + end, "netns", "r")
    run("ip", "link", "add", "e0", "netns", end, "type", "veth", *peer)
    at(end, "ip", "address", "add", "10.0.%d.1/24" % other, "dev", "e0")
    at(end, "ip", "link", "set", "e0", "up")
    at(end, "ip", "address", "add", "172.16.%d.1/32" % other, "dev", "lo")
    at(end, "ip", "route", "add", "default", "via", "10.0.%d.254" % other)
    at("r", "ip", "address", "add", "10.0.%d.254/24" % other, "dev", "to" + end)
    at("r", "ip", "link", "set", "to" + end, "up")
    # Segments are not to be merged: each packet has a place of its own in the queue.
    subprocess.run(["ip", "netns", "exec", end, "ethtool", "-K", "e0", "gso", "off", "gro", "off"])
at("r", "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
KEY = "0x" + "5a" * 36
ENDS = ("src", "10.0.1.1", "dst", "10.0.2.1")
INNER = ("src", "172.16.1.1/32", "dst", "172.16.2.1/32")

def tunnel(window, apart):
    for name in "ab":
        at(name, "ip", "xfrm", "state", "flush")
        at(name, "ip", "xfrm", "policy", "flush")
        for number in (1, 2)[: 1 + apart]:
            at(name, "ip", "xfrm", "state", "add", *ENDS, "proto", "esp", "spi", 0x100 * number,
               "reqid", number, "mode", "tunnel", "flag", "esn", "replay-window", window,
               "aead", "rfc4106(gcm(aes))", KEY, 128)
    for number in (1, 2)[: 1 + apart]:
        mark = ("mark", 2) if number == 2 else ()
        to = ("tmpl", *ENDS, "proto", "esp", "reqid", number, "mode", "tunnel")
        at("a", "ip", "xfrm", "policy", "add", *INNER, "dir", "out", "priority", 10 - number,
           *mark, *to)
        if number == 1:
            # The receiver takes either.
            to = ("tmpl", *ENDS, "proto", "esp", "reqid", 0, "mode", "tunnel")
            at("b", "ip", "xfrm", "policy", "add", *INNER, "dir", "in", *to)

def queue(packets):
    forget = ("tc", "qdisc", "del", "dev", "tob", "root")
    subprocess.run(["ip", "netns", "exec", "r", *forget], stderr=subprocess.DEVNULL)
    at("r", "tc", "qdisc", "add", "dev", "tob", "root", "handle", "1:", "tbf", "rate", "1500kbit",
       "burst", "2kb", "limit", "8mb")
    at("r", "tc", "qdisc", "add", "dev", "tob", "parent", "1:1", "handle", "10:", "prio")
    for band, limit in ((1, 1000), (2, packets)):
        at("r", "tc", "qdisc", "add", "dev", "tob", "parent", "10:%d" % band,
           "pfifo", "limit", limit)

def measure(window, packets, apart):
    tunnel(window, apart)
    queue(packets)
    counts, sent, end = {"ef": 0, "be": 0}, {"ef": 0, "be": 0}, time.monotonic() + 6 + packets / 700
    def take():
        enter("b")
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind(("172.16.2.1", 7000))
        sock.settimeout(0.5)
        while time.monotonic() < end + 2 + packets / 600:
            try:
                counts[sock.recv(2000)[:2].decode()] += 1
            except socket.timeout:
                pass
    def give(kind, rate, tos):
        enter("a")
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
        if kind == "ef" and apart:
            sock.setsockopt(socket.SOL_SOCKET, 36, 2)
        sock.bind(("172.16.1.1", 0))
        began, number = time.monotonic(), 0
        while time.monotonic() < end:
            pause = began + number / rate - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            sock.sendto(kind.encode() + b"x" * 150, ("172.16.2.1", 7000))
            number += 1
        sent[kind] = number
    works = [(take,), (give, "be", 1100, 0), (give, "ef", 50, 0xB8)]
    threads = [threading.Thread(target=work[0], args=work[1:]) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shown = subprocess.run(["ip", "netns", "exec", "b", "ip", "-s", "xfrm", "state"],
                           stdout=subprocess.PIPE, check=True).stdout.decode()
    # The second is that of the statistics: "replay-window 0 replay N failed 0".
    replayed = sum(int(n) for n in re.findall(r"replay-window \d+ replay (\d+) failed", shown))
    return {"window": window, "queue": packets, "apart": apart, "sent": sent, "arrived": counts,
            "replayed": replayed}

rows = []
for window in (32, 64, 128, 1024):
    for packets in (16, 50, 200, 1500):
        rows.append(measure(window, packets, False))
rows += [measure(32, packets, True) for packets in (200, 1500)]
with open("rows.json", "w") as stream:
    json.dump(rows, stream)
"""


@pytest.fixture(scope="module")
def rows(
    tmp_path_factory: pytest.TempPathFactory, guest_machine: GuestMachine
) -> dict[tuple[int, int, bool], dict[str, object]]:
    folder = tmp_path_factory.mktemp("replay")
    done = guest_machine.run(folder, PROGRAM, 900)
    assert done.code == 0, done.output
    told = json.loads(Path(folder, "rows.json").read_text(encoding="utf-8"))
    for row in told:
        print(row)
    return {(row["window"], row["queue"], row["apart"]): row for row in told}


@pytest.mark.parametrize("queue", [16, 50, 200, 1500])
@pytest.mark.parametrize("window", [32, 64, 128, 1024])
def test_best_effort_is_dropped_where_the_queue_is_longer_than_the_window(
    rows: dict[tuple[int, int, bool], dict[str, object]], window: int, queue: int
) -> None:
    row = rows[window, queue, False]
    assert row["sent"]["ef"] == row["arrived"]["ef"] > 100, row  # type: ignore[index]
    assert row["arrived"]["be"] > 500, row  # type: ignore[index]
    assert (row["replayed"] > 0) == (queue > window), row  # type: ignore[operator]


@pytest.mark.parametrize("queue", [200, 1500])
def test_a_child_sa_for_each_dscp_drops_nothing(
    rows: dict[tuple[int, int, bool], dict[str, object]], queue: int
) -> None:
    row = rows[32, queue, True]
    assert row["replayed"] == 0, row
    assert row["sent"]["ef"] == row["arrived"]["ef"] > 100, row  # type: ignore[index]
