"""Expedited packets overtake others in a queue behind ESP: what the kernel's replay window drops.

tests/gateway/test_overtaking.py has the same of strongSwan's own ESP, whose window is fixed.
"""

from __future__ import annotations

import json
import re

import pytest
from support.ends import Guest, Link
from support.guest import GuestMachine

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.schedule(order=2, worker="alone")]

BULK, EXPEDITED, SECONDS = 600, 30, 5
"""Packets a second that are sent, and for how long."""
QUEUE = 200
"""Large packets that wait at most. The link passes half of what is sent."""
LINKS = {"narrow": 64, "wide": 1024}
"""Replay window in packets, by link."""
LEFT = {"narrow": "172.16.6.1", "wide": "172.16.7.1"}
RIGHT = {"narrow": "172.16.6.2", "wide": "172.16.7.2"}
#: Large packets wait in a queue of their own, and nothing else does: not IKE, not ARP.
SLOW = (
    "tc qdisc add dev right0 root handle 1: tbf rate 1200kbit burst 4000 limit 4000000",
    "tc qdisc add dev right0 parent 1: handle 2: prio bands 2 priomap" + " 0" * 16,
    f"tc qdisc add dev right0 parent 2:2 handle 3: pfifo limit {QUEUE}",
    "tc filter add dev right0 parent 2: protocol ip u32 match ip protocol 50 0xff "
    "match ip tos 0 0xfc flowid 2:2",
)
FLOWS = f"""
import json
import socket
import sys
import time

what, address = sys.argv[1:]
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
counts = {{"bulk": 0, "fast": 0}}
if what == "take":
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    sock.bind((address, 7000))
    sock.settimeout(10)
    try:
        while True:
            counts[sock.recv(2000)[:4].decode()] += 1
            sock.settimeout(5)
    except socket.timeout:
        pass
else:
    # SO_SNDBUFFORCE: the queue is to be full, not the socket.
    sock.setsockopt(socket.SOL_SOCKET, 32, 8 << 20)
    fast = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    fast.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0xB8)
    began = time.monotonic()
    while time.monotonic() < began + {SECONDS}:
        passed = time.monotonic() - began
        while counts["bulk"] < passed * {BULK}:
            sock.sendto(b"bulk" + b"x" * 400, (address, 7000))
            counts["bulk"] += 1
        while counts["fast"] < passed * {EXPEDITED}:
            fast.sendto(b"fast" + b"x" * 40, (address, 7000))
            counts["fast"] += 1
        time.sleep(0.001)
print(json.dumps(counts))
"""


def test_the_window_drops_what_it_does_not_hold(
    tmp_path_factory: pytest.TempPathFactory, guest_machine: GuestMachine
) -> None:
    """A narrow window drops most large packets that the queue lets pass, a wide one none."""
    folder = tmp_path_factory.mktemp("overtaking")
    links = [
        Link(
            name,
            {"left": f"{LEFT[name]}/24", "right": f"{RIGHT[name]}/24"},
            {"ipsec-options": f"esn=yes,replay-window={window}"},
            {},
        )
        for name, window in LINKS.items()
    ]
    outer = {"left": "192.168.8.1", "right": "192.168.8.2"}
    guest = Guest(folder, outer, links, guest_machine)
    guest.prepare({"flows.py": FLOWS})
    steps = []
    for name in LINKS:
        initiate = f"swanctl --initiate --ike {guest.connection(name)} --child {name} --timeout 60"
        steps.append((f"up-{name}", "right", initiate, True))
    steps += [(f"slow-{n}", "right", command, True) for n, command in enumerate(SLOW)]
    for name in LINKS:
        program = f"python3 -I {folder}/flows.py"
        file = f"{folder}/{name}.json"
        steps += [
            (f"take-{name}", "left", f"{program} take {LEFT[name]} > {file} 2>&1 &", True),
            (f"ready-{name}", "left", "sleep 3", True),
            (f"sent-{name}", "right", f"{program} give {LEFT[name]}", True),
            (f"took-{name}", "left", f"sh -c 'until grep bulk {file}; do sleep 1; done'", True),
            (f"queue-{name}", "right", "tc -s qdisc show dev right0 parent 2:2", True),
            (f"errors-{name}", "left", "cat /proc/net/xfrm_stat", True),
        ]
    result = guest.run({}, steps)
    passed, refused, before = {}, {}, (0, 0)
    for name in LINKS:
        sent, took = json.loads(result[f"sent-{name}"]), json.loads(result[f"took-{name}"])
        (dropped,) = re.findall(r"dropped (\d+)", result[f"queue-{name}"])
        # With extended sequence numbers what lies before the window counts as a number of the next
        # 2^32, with which its check value is wrong (RFC 4303, appendix A2).
        counters = dict(line.split() for line in result[f"errors-{name}"].splitlines())
        errors = int(counters["XfrmInStateSeqError"]) + int(counters["XfrmInStateProtoError"])
        passed[name] = sent["bulk"] - int(dropped) + before[0]
        refused[name] = errors - before[1]
        before = (int(dropped), errors)
        print(f"window of {LINKS[name]}: {passed[name]} large packets passed, {took} arrived")
        assert took["fast"] == sent["fast"]
        assert took["bulk"] + refused[name] == passed[name]
    # While one waits, more are sent than the narrow window holds, and fewer than the wide one.
    assert refused["narrow"] > passed["narrow"] / 2
    assert refused["wide"] == 0
