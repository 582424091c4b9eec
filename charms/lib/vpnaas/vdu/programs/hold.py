#!/usr/bin/python3
"""Keep what carries links when somebody takes it away.

Usage: hold FILE   keep the addresses and routes of a link in clear
       hold        keep the interfaces, addresses, routes and rules of all tunnels, and our tables
                   of nftables

Routes in clear lead over the underlay itself. The kernel deletes them when it goes down, and a
network manager may delete routes and rules that it did not make. So a process waits for the
kernel's messages about such changes (rtnetlink(7)), and then puts the state of our files into force
again. FILE is for `ip -batch`. Tunnels have the files of wg-quick(8) and of their units.

FILE sets our address, a host prefix. This causes a message each time, even if nothing changes. So a
new host prefix does not count: else the programs of two links would wake each other for ever.
"""

import fcntl
import glob
import ipaddress
import os
import re
import select
import socket
import struct
import subprocess
import sys
import time
from typing import Callable, List, Optional

from vpnaas.vdu.programs.common import ready, run
from vpnaas.vdu.programs.netlink import DELROUTE, DELRULE, NEWLINK, ROUTES, RULES, listen, messages

DELLINK, NEWADDR, DELADDR = 17, 20, 21
ADDRESSES = 0x10 | 0x100  # of IPv4 and IPv6
UP = 1
NETFILTER, NFTABLES = 12, 0x40
"""Protocol of netlink, and its group for changes of nftables (linux/netfilter/nfnetlink.h)."""
LOST = (0xA02, 0xA05, 0xA08)
"""A table, a chain or a rule was deleted (linux/netfilter/nf_tables.h)."""
SETTLE, PAUSE, LONGEST = 0.05, 0.5, 5
"""Seconds: from a message to acting on it, between two acts, and between acts that do not help."""
ANSWER = 10
"""Seconds that we wait for systemctl(1); the charm's agent waits 30 s for the lock."""
LOCK = "/run/osm-vpnaas.lock"
"""Of the charm's agent: no state in the middle of a reconcile is judged."""
FILES = ("/etc/wireguard/wg-*.conf", "/etc/osm-vpnaas/*/ipsec.up")
TABLES = ("guard", "gateway", "standby", "devices")
"""Names of our scripts of nftables, which protect links."""
OURS = "# Written by osm-vpnaas"
VERDICT = r"\b(?:accept|drop)\b"


def is_host(body: bytes) -> bool:
    """Tell whether the address of a message (struct ifaddrmsg) is a host prefix."""
    family, length = body[:2]
    return length == (32 if family == socket.AF_INET else 128)


def matters(kind: int, body: bytes) -> bool:
    """Tell whether a message says that something came up or went away, for a link in clear."""
    if kind == NEWADDR:
        return not is_host(body)
    return kind in (NEWLINK, DELADDR, DELROUTE)


def takes(kind: int, body: bytes) -> bool:
    """Tell whether a message says that something went away that may carry a tunnel."""
    if kind == NEWLINK:  # struct ifinfomsg
        return len(body) >= 12 and not struct.unpack_from("=I", body, 8)[0] & UP
    return kind in (DELLINK, DELADDR, DELROUTE, DELRULE) or kind in LOST


def apply(file: str, force: bool) -> int:
    """Put the file into force; return the exit code of ip(8)."""
    command = ["ip"] + ["-force"] * force + ["-batch", file]
    # What fails now, for example while the underlay is down, is tried again at the next message.
    quiet = subprocess.DEVNULL if force else None
    return subprocess.run(command, stderr=quiet, check=False).returncode


def wireguard(name: str, text: str) -> List[str]:
    """Return the `ip -batch` lines that make what wg-quick(8) makes of a file, but for the peers.

    The route to the subnet is the one that the kernel made with the address.
    """
    lines: List[str] = []
    routes: List[str] = []
    own = ipaddress.ip_interface("0.0.0.0/32")
    for line in text.splitlines():
        key, _, value = line.partition(" = ")
        if key == "Address":
            own = ipaddress.ip_interface(value)
            net = own.network
            lines.append("address replace {} dev {}".format(value, name))
            more = "metric 256" if net.version == 6 else "scope link src {}".format(own.ip)
            if net.prefixlen < net.max_prefixlen:
                routes.append("route replace {} dev {} proto kernel {}".format(net, name, more))
        elif key == "MTU":
            lines.insert(0, "link set {} mtu {} up".format(name, value))
        elif key == "AllowedIPs":
            for prefix in map(ipaddress.ip_network, value.split(", ")):
                within = prefix.version == own.version and prefix.overlaps(own.network)
                if not within or prefix.prefixlen < own.network.prefixlen:
                    routes.append("route replace {} dev {}".format(prefix, name))
    return lines + routes


def active(unit: str) -> bool:
    """Tell whether a unit is up and neither starts nor stops."""
    return not subprocess.call(["systemctl", "is-active", "--quiet", unit], timeout=ANSWER)


def interface(unit: str, name: str, lines: List[str]) -> None:
    """Put an interface into force; its unit makes one that is gone. What is off stays off."""
    if not active(unit):
        return
    if os.path.exists("/sys/class/net/" + name):
        batch = "\n".join(lines) + "\n"
        command = ["ip", "-force", "-batch", "-"]
        subprocess.run(command, input=batch.encode(), stderr=subprocess.DEVNULL, check=False)
    else:
        print("{} is gone; {} starts again".format(name, unit), flush=True)
        subprocess.call(["systemctl", "restart", unit], timeout=ANSWER)


def table(script: str, text: str) -> None:
    """Load a table of nftables again that is gone, or has fewer verdicts than its script."""
    found = re.search(r"^table (inet \S+) \{", text, re.M)
    if not found:
        return
    code, listed = run("nft", "list", "table", *found.group(1).split())
    if code or verdicts(listed) != verdicts(text):
        print("{} of nftables is loaded again".format(found.group(1)), flush=True)
        subprocess.call(["nft", "-f", script])


def verdicts(text: str) -> int:
    """Return how many verdicts a script or a listing of nftables has, without its comments."""
    return len(re.findall(VERDICT, re.sub(r"^\s*#.*", "", text, flags=re.M)))


def tunnel(path: str) -> None:
    """Put what a file of ours says into force."""
    with open(path) as stream:
        text = stream.read()
    if path.endswith(".nft"):
        table(path, text)
    elif path.endswith(".up"):
        # The first line makes the interface.
        link = os.path.basename(os.path.dirname(path))
        unit = "osm-vpnaas-ipsec@{}.service".format(link)
        interface(unit, "xf-" + link, text.splitlines()[1:])
    elif text.startswith(OURS):
        name = os.path.basename(path)[: -len(".conf")]
        interface("wg-quick@{}.service".format(name), name, wireguard(name, text))


def hold_tunnels() -> int:
    """Put what carries tunnels into force, as the files have it."""
    with open(LOCK, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        scripts = ["/etc/osm-vpnaas/{}.nft".format(name) for name in TABLES]
        for path in [path for each in (*FILES, *scripts) for path in sorted(glob.glob(each))]:
            try:
                tunnel(path)
            except (OSError, ValueError, subprocess.TimeoutExpired) as error:
                print("{}: {}".format(path, error), file=sys.stderr, flush=True)
    return 0


def watch(
    sockets: List[socket.socket],
    counts: Callable[[int, bytes], bool],
    act: Callable[[], object],
    longest: float,
) -> None:
    """Act soon after each message that counts, for ever."""
    due: Optional[float] = None
    last, pause = 0.0, PAUSE
    while True:
        wait = None if due is None else max(0.0, due - time.monotonic())
        heard = select.select(sockets, [], [], wait)[0]
        for each in heard:
            try:
                changed = any(counts(*message) for message in messages(each.recv(65536)))
            except OSError:
                changed = True  # messages were lost, as the buffer was full: act anyway
            if changed and due is None:
                now = time.monotonic()
                pause = min(2 * pause, longest) if now < last + 2 * pause else PAUSE
                due = max(now + SETTLE, last + pause)
        # Others may change routes all the time.
        if due is not None and time.monotonic() >= due:
            due, last = None, time.monotonic()
            act()


def main(file: str = "") -> int:
    """Hold the file, or all tunnels, for ever; return an exit code if the first time fails."""
    groups = ADDRESSES | ROUTES
    sockets = [listen(socket.NETLINK_ROUTE, groups if file else groups | RULES)]
    if not file:
        sockets.append(listen(NETFILTER, NFTABLES))
    failed = apply(file, force=False) if file else hold_tunnels()
    if failed:
        return failed
    ready()
    if file:
        watch(sockets, matters, lambda: apply(file, force=True), PAUSE)
    else:
        watch(sockets, takes, hold_tunnels, LONGEST)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
