#!/usr/bin/python3
"""Tell keepalived which share of a gateway's peers has a tunnel.

While this gateway is active, the program also rekeys its CHILD_SAs regularly: peers use the newest.

Usage: gateway-watch FILE PEERS SPAN ADDRESS SECONDS CHILD[,CHILD...] [VICI-URI]
"""

import json
import os
import re
import subprocess
import sys
import time
from typing import Optional

AWAY = "/etc/osm-vpnaas/standby-away"
PERIOD = 0.5  # seconds; the daemon's own unit reports at once when it dies


def output(*command: str) -> str:
    """Return what a command prints, "" if it takes too long."""
    try:
        return subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=5, check=False
        ).stdout.decode()
    except subprocess.TimeoutExpired:
        return ""


def tunnels(*uri: str) -> int:
    """Return how many IKE_SAs are established, -1 if the daemon does not answer."""
    shown = output("swanctl", "--stats", *uri)
    match = re.search(r"IKE_SAs: (\d+) total, (\d+) half-open", shown)
    return int(match.group(1)) - int(match.group(2)) if match else -1


def health(up: int, peers: int, span: int) -> int:
    """Return the share of peers with a tunnel, of `span`; with 0 peers, whether the daemon runs."""
    if up < 0:
        return 0
    return span * min(up, peers) // peers if peers else span


def active(address: str) -> bool:
    """Tell whether an address is ours now."""
    return any(json.loads(output("ip", "-j", "address", "show", "to", address) or "[]"))


def main(
    path: str, peers: str, span: str, address: str, seconds: str, children: str, *vici: str
) -> None:
    """Keep the file up to date, for ever."""
    uri = ("--uri",) + vici if vici else ()
    last: Optional[int] = None
    due = time.monotonic() + float(seconds)
    while True:
        value = health(tunnels(*uri), int(peers), int(span))
        if os.path.exists(AWAY):
            value = 0
        if value != last:
            # In place: keepalived watches the file itself.
            with open(path, "w", encoding="ascii") as file:
                file.write("{}\n".format(value))
        if time.monotonic() >= due:
            due = time.monotonic() + float(seconds)
            if active(address):
                for child in children.split(","):
                    output("swanctl", "--rekey", "--child", child, *uri)
        time.sleep(PERIOD)
        try:
            with open(path, encoding="ascii") as file:
                last = int(file.read())
        except (OSError, ValueError):
            last = None


if __name__ == "__main__":
    main(*sys.argv[1:])
