#!/usr/bin/python3
"""Open and close IPsec tunnels of osm-vpnaas.

Usage: ipsec keep         keep the connections in /etc/osm-vpnaas/*/ipsec.keep up, and charon's
                          rules, routes, states and policies in the kernel, for ever
       ipsec lost         print the numbers of the security associations whose states or policies
                          the kernel does not have any more
       ipsec drop PREFIX  end the security associations of our connections that start with PREFIX
       ipsec load [LINK]  replace the daemon's connections of a link, or of all links, by those of
                          its file, and load its secrets and pools
       ipsec initiate-shared   initiate to the peers of a pair's shared address, which is ours now
       ipsec terminate-shared  end the tunnels of these peers, when the address is no longer ours

ipsec.shared is a JSON object: names of these connections, and whether the peer's address is known.
ipsec.keep is a JSON list with one list of connection names per peer, of which one suffices.

The name of a connection contains digests of all its settings. So `load` sends only new and removed
connections, while `swanctl --load-conns` lets the daemon compare each with each. It uses vici, or
swanctl if that fails: this one loads nothing while it cannot read a file of somebody else.
"""

import glob
import json
import os
import re
import select
import socket
import struct
import subprocess
import sys
import time
from typing import Any, Callable, Dict, Iterator, List, Sequence, Set, Tuple

from vpnaas.vdu.programs.charon import Daemon, associations, is_ours, message, value_of
from vpnaas.vdu.programs.common import content, run
from vpnaas.vdu.programs.netlink import (
    DELROUTE,
    DELRULE,
    HEADER,
    NEWLINK,
    ROUTES,
    RULES,
    listen,
    messages,
)

PERIOD = 2
LONGEST = 30
FILE = "/etc/swanctl/conf.d/osm-vpnaas-"
"""Start of the swanctl files of links."""
SETTINGS = "/etc/strongswan.d/00-osm-vpnaas.conf"
TABLE = 220
"""charon's routing table, and the priority of its rule."""
NEWROUTE, DESTINATION, ROUTE_TABLE, PRIORITY = 24, 1, 15, 6
REPLACE = 0x1 | 0x100 | 0x400  # flags: request, replace, create
TUN = "ipsec0"
XFRM, STATES = 6, 0x4 | 0x8
"""Protocol of netlink, and its groups: states and policies (linux/xfrm.h)."""
PREFIX = r"[0-9a-f.:]+/\d+"
GONE = (0x11, 0x14, 0x1C, 0x1D)
"""A state or a policy was deleted, or all of them."""
FLUSHED = (0x1C, 0x1D)
"""All of them were deleted, which seldom happens: it is looked at without a pause."""


def swanctl(*words: str) -> str:
    return run("swanctl", *words)[1]


UP, OPENING, OTHER = "up", "opening", "other"


def tunnels() -> Iterator[Tuple[str, str, str]]:
    """Yield (connection, id, UP if packets pass or OPENING if the peer has not proved itself)."""
    for name, number, state, children in associations(swanctl("--list-sas", "--raw")):
        passing = re.search(r"state=(INSTALLED|REKEY)", children)
        known = state in ("ESTABLISHED", "REKEYING")
        opening = OPENING if state in ("CREATED", "CONNECTING") else OTHER
        yield name, number, UP if known and passing else opening


def drop(prefix: str) -> None:
    for name, number, _ in list(tunnels()):
        if is_ours(name, prefix):
            swanctl("--terminate", "--ike-id", number, "--force", "--timeout", "1")


def documents(name: str) -> Iterator[Any]:
    """Yield the content of the links' JSON files of a name, without files that cannot be read."""
    for path in sorted(glob.glob("/etc/osm-vpnaas/*/" + name)):
        try:
            with open(path) as stream:
                yield json.load(stream)
        except (OSError, ValueError):
            continue


def keep() -> None:
    """Initiate wanted connections that are not up, and keep what charon made, for ever."""
    waits: Dict[Tuple[str, ...], Tuple[float, int]] = {}
    watch = Watch()
    while True:
        # Of the connections of a peer, one has to be up.
        lists = [tuple(names) for each in documents("ipsec.keep") for names in each]
        states: Dict[str, Set[str]] = {UP: set(), OPENING: set(), OTHER: set()}
        for name, _, state in tunnels() if lists else ():
            states[state].add(name)
        now = time.monotonic()
        for names in lists:
            if states[UP].intersection(names):
                waits.pop(names, None)
                continue
            if states[OPENING].intersection(names):
                continue  # charon ends this by itself. A second attempt would wait for the first.
            due, wait = waits.get(names, (0.0, PERIOD))
            if now < due:
                continue
            for name in names:
                link = name.partition("_")[0]
                swanctl("--initiate", "--ike", name, "--child", link, "--timeout", "10")
                if any(n == name and state == UP for n, _, state in tunnels()):
                    break
            waits[names] = (time.monotonic() + wait, min(2 * wait, LONGEST))
        watch.until(time.monotonic() + PERIOD)


def attributes(data: bytes) -> Dict[int, bytes]:
    """Return the attributes after the header of a message (rtnetlink(7))."""
    found = {}
    while len(data) >= 4:
        size, kind = struct.unpack_from("=HH", data)
        found[kind & 0x3FFF] = data[4:size]
        data = data[max(4, size + 3 & ~3) :]
    return found


def number(data: bytes) -> int:
    """Return a number of four bytes, 0 where there is none."""
    return int(struct.unpack("=I", data)[0]) if len(data) == 4 else 0


class Watch:
    """Messages of the kernel about what charon made: it does not look for itself.

    systemd-networkd removes rules and routes of others when it configures again.
    """

    def __init__(self) -> None:
        self.routing = listen(socket.NETLINK_ROUTE, ROUTES | RULES)
        self.sockets = [self.routing]
        try:
            self.sockets.append(listen(XFRM, STATES))
        except OSError:
            pass  # a kernel without ESP
        self.families: Set[int] = set()
        """Of rules that are gone."""
        self.routes: Dict[str, bytes] = {}
        """Bodies of messages about routes that are gone, by destination."""
        self.suspicious = self.down = False
        self.pause = 0.0

    def until(self, end: float) -> None:
        """Take messages until a time, and put back what they say is gone."""
        while True:
            wait = max(0.0, end - time.monotonic())
            heard = select.select(self.sockets, [], [], min(0.2, wait) if self.any() else wait)[0]
            for each in heard:
                try:
                    data = each.recv(1 << 16)
                except OSError:  # messages were lost
                    self.families, self.suspicious = {socket.AF_INET, socket.AF_INET6}, True
                    continue
                for kind, body in messages(data):
                    (self.route if each is self.routing else self.state)(kind, body)
            over = time.monotonic() >= end
            if over or not heard:
                self.mend()
            if over:
                return

    def any(self) -> bool:
        """Tell whether something may have to be put back."""
        return bool(self.families or self.routes or self.down)

    def state(self, kind: int, body: bytes) -> None:
        """Note that a state or a policy is gone; charon ends its own ones, too."""
        self.suspicious = self.suspicious or kind in GONE
        if kind in FLUSHED:
            self.pause = 0.0

    def route(self, kind: int, body: bytes) -> None:
        """Note a rule or a route that is gone, and charon's TUN that is down."""
        if kind == NEWLINK:  # struct ifinfomsg
            name = attributes(body[16:]).get(3, b"").rstrip(b"\0").decode()
            self.down = self.down or (name == TUN and not number(body[8:12]) & 1)
        elif kind == DELRULE:
            if number(attributes(body[12:]).get(PRIORITY, b"")) == TABLE:
                self.families.add(body[0])
        elif kind == DELROUTE and len(body) >= 12:
            found = attributes(body[12:])
            if number(found.get(ROUTE_TABLE, b"")) == TABLE and DESTINATION in found:
                address = socket.inet_ntop(body[0], found[DESTINATION])
                self.routes["{}/{}".format(address, body[1])] = body

    def mend(self) -> None:
        """Put back what is gone. A daemon that stops removes its rules and routes itself."""
        if self.any():
            families, routes, down = self.families, self.routes, self.down
            self.families, self.routes, self.down = set(), {}, False
            if subprocess.call(["systemctl", "is-active", "--quiet", "strongswan.service"]):
                return
            if down and os.path.exists("/sys/class/net/" + TUN):
                # charon then makes its routes anew.
                subprocess.call(["ip", "link", "set", TUN, "up"])
            for family in families:
                put_rule(family)
            text = swanctl("--list-sas", "--raw") if routes else ""
            wanted = " ".join(re.findall(r"remote-ts=\[([^\]]*)\]", text)).split()
            for prefix in set(wanted).intersection(routes):
                body = routes[prefix]
                head = HEADER.pack(HEADER.size + len(body), NEWROUTE, REPLACE, 0, 0)
                self.routing.send(head + body)
        if self.suspicious and time.monotonic() >= self.pause:
            began = time.monotonic()
            self.suspicious = False
            for name in lost():
                swanctl("--terminate", "--ike-id", name, "--force", "--timeout", "1")
            # A gateway with many peers has many changes of its own.
            self.pause = time.monotonic() + 20 * (time.monotonic() - began)


def put_rule(family: int) -> None:
    """Put back the rule to charon's routes, as charon made it."""
    with open(SETTINGS) as stream:
        mark = re.search("fwmark = !(0x[0-9a-f]+)", stream.read())
    words = ["not", "fwmark", mark.group(1)] if mark else []
    rule = ["pref", str(TABLE), "table", str(TABLE)]
    command = ["ip", "-4" if family == socket.AF_INET else "-6", "rule", "add"]
    subprocess.call(command + words + rule, stderr=subprocess.DEVNULL)


def installed() -> Dict[str, Tuple[Set[str], Set[str]]]:
    """Return what charon has installed by the number of an association: SPIs, and policies out."""
    table: Dict[str, Tuple[Set[str], Set[str]]] = {}
    links = [path.split("/")[3] + "_" for path in glob.glob("/etc/osm-vpnaas/*/ipsec.up")]
    for name, number, _, children in associations(swanctl("--list-sas", "--raw")):
        if not any(is_ours(name, link) for link in links):
            continue
        spis: Set[str] = set()
        policies: Set[str] = set()
        for child in re.findall(r"state=INSTALLED [^{}]*", children):
            spis.update(re.findall(r"spi-(?:in|out)=([0-9a-f]+)", child))
            selectors = re.search("local-ts=(.*) remote-ts=(.*)", child)
            if selectors:
                ours, theirs = (re.findall(PREFIX, text) for text in selectors.groups())
                policies.update("{} {}".format(a, b) for a in ours for b in theirs)
        table[number] = (spis, policies)
    return table


def kernel(what: str, pattern: str) -> Set[str]:
    """Return what the kernel's states or policies have of a pattern; OSError if it does not say."""
    code, listed = run("ip", "xfrm", what, "list")
    if code:
        raise OSError("ip xfrm failed")
    found = re.findall(pattern, listed, re.M)
    return {" ".join(each) if isinstance(each, tuple) else each for each in found}


def lost() -> List[str]:
    """Return the numbers of associations whose states or policies the kernel does not have.

    charon does not notice a flush. What it changes meanwhile is not in both its lists.
    """
    if os.path.exists("/sys/class/net/" + TUN):
        return []  # its own ESP
    before = installed()
    try:
        spis = kernel("state", r"\bspi 0x0*([0-9a-f]+)") if before else set()
        policies = kernel("policy", r"^src (\S+) dst (\S+)") if before else set()
    except OSError:
        return []
    after = installed() if before else {}
    return [
        name
        for name, (states, pairs) in sorted(before.items())
        if name in after
        and (
            {spi.lstrip("0") for spi in states & after[name][0]} - spis
            or (pairs & after[name][1]) - policies
        )
    ]


def sections(text: str) -> Dict[str, Any]:
    """Return the sections of a swanctl file of the charm."""
    root: Dict[str, Any] = {}
    stack = [root]
    for line in text.splitlines():
        line = line.strip()
        if line.endswith("{"):
            inner: Dict[str, Any] = {}
            stack[-1][line[:-1].strip()] = inner
            stack.append(inner)
        elif line == "}":
            stack.pop()
        elif line and not line.startswith("#"):
            key, _, value = line.replace("include ", "include = ", 1).partition(" = ")
            stack[-1][key] = value
    return root


def outlived(connections: Dict[str, Any]) -> bool:
    """Tell whether charon still has a certificate for a key that a peer now uses without one.

    charon forgets no certificate of former connections. It may take that one to verify the peer's
    signature (strongSwan 6 does), and then refuses the peer: it did not show the key alone.
    """
    lists = (section["remote"].get("pubkeys", "") for section in connections.values())
    keys = [value_of("pubkeys", key).hex() for text in lists for key in text.split(", ") if key]
    words = ("--list-certs", "--type", "x509", "--flag", "none", "--raw")
    held = swanctl(*words) if keys else ""
    return any(key in held for key in keys)


def share(daemon: Daemon, secrets: Dict[str, Any]) -> None:
    """Load the preshared keys of a link: swanctl.conf(5), secrets of kind `ike` or `ppk`."""
    for name, section in secrets.items():
        secret = content(section["include"]).strip().partition(" = ")[2]
        owners = ", ".join(section[key] for key in sorted(section) if key.startswith("id-"))
        if secret:
            # vici takes the key itself; swanctl decodes what a file says.
            key = {"id": name, "type": name.partition("-")[0].upper()}
            data = value_of("data", secret)
            daemon.ask("load-shared", message(dict(key, data=data, owners=owners)))


def load(links: Sequence[str]) -> None:
    """Replace the daemon's connections of links by those of their files; load secrets and pools."""
    files = {}
    for link in links:
        with open(FILE + link + ".conf") as stream:
            files[link] = sections(stream.read())
    code = 0
    if any(outlived(parts["connections"]) for parts in files.values()):
        # This removes also what other links' connections brought, and brings it again.
        code = subprocess.call(["swanctl", "--load-creds", "--noprompt", "--clear"])
        subprocess.call(["swanctl", "--load-conns"])
    rest = {link: parts for link, parts in files.items() if not by_vici(link, parts)}
    if rest:
        code = subprocess.call(["swanctl", "--load-conns"]) or code
        # It takes away what it knows while it cannot read a file of somebody else.
        for link in sorted(set(files).difference(rest)):
            by_vici(link, files[link])
    if code:
        sys.exit(code)


def by_vici(link: str, parts: Dict[str, Any]) -> bool:
    """Load a link's file, and tell whether the daemon could be asked for all of it."""
    on_file = parts["connections"]
    try:
        daemon = Daemon()
        share(daemon, parts.get("secrets", {}))
        for name, section in parts.get("pools", {}).items():
            daemon.ask("load-pool", message({name: section}))
        there = {n for n in daemon.ask("get-conns")["conns"] if is_ours(n, link + "_")}
        for name, section in on_file.items():
            if name not in there:
                answer = daemon.ask("load-conn", message({name: section}))
                if answer.get("success") != "yes":
                    print(name + ": " + answer.get("errmsg", ""), file=sys.stderr)
        for name in sorted(there):
            if name not in on_file:
                daemon.ask("unload-conn", message({"name": name}))
    except (OSError, ValueError, KeyError, IndexError, struct.error) as error:
        print("vici: {}".format(error), file=sys.stderr)
        return False
    return True


def shared() -> Dict[str, bool]:
    """Return the connections of the shared address, and whether we can initiate them."""
    names: Dict[str, bool] = {}
    for each in documents("ipsec.shared"):
        names.update(each)
    return names


def terminate_shared(daemon: Daemon, names: Dict[str, bool]) -> None:
    """End the associations of connections, and wait a moment until they are gone."""
    for _ in range(10):
        there = [number for name, number, _ in list(tunnels()) if name in names]
        for number in there:
            # -1: do not wait. Force: the peer talks to the other gateway and does not answer.
            words = {"ike-id": number, "force": "yes", "timeout": "-1"}
            daemon.ask("terminate", message(words))
        if not there:
            return
        time.sleep(0.1)


def initiate_shared(daemon: Daemon, names: Dict[str, bool]) -> None:
    """Initiate connections; first end associations left from an earlier turn."""
    terminate_shared(daemon, names)
    for name, callable_ in sorted(names.items()):
        if callable_:
            words = {"ike": name, "child": name.partition("_")[0], "timeout": "-1"}
            daemon.ask("initiate", message(words))


def with_shared(work: Callable[[Daemon, Dict[str, bool]], None]) -> None:
    """Call `work` with the connections of the shared address, if there are any."""
    names = shared()
    if names:
        work(Daemon(), names)


if __name__ == "__main__":
    if sys.argv[1:2] == ["drop"]:
        drop(sys.argv[2])
    elif sys.argv[1:2] == ["lost"]:
        print("\n".join(lost()))
    elif sys.argv[1:2] == ["load"]:
        found = [path[len(FILE) : -len(".conf")] for path in sorted(glob.glob(FILE + "*.conf"))]
        load(sys.argv[2:] or found)
    elif sys.argv[1:2] == ["initiate-shared"]:
        with_shared(initiate_shared)
    elif sys.argv[1:2] == ["terminate-shared"]:
        with_shared(terminate_shared)
    else:
        keep()
