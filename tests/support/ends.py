"""Two VDUs with several IPsec links in one virtual machine, for packets on kernel ESP.

Each end is a network namespace with the files that the charm's pure core renders; a bridge in a
third namespace is the wire between them, on which everything is captured. What a test does there
is a list of commands; it gets back what they printed.
"""

from __future__ import annotations

import ipaddress
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vpnaas.params.intent import LinkParams, link_params
from vpnaas.params.ipsec import EXTERNAL
from vpnaas.peers.leases import with_addresses
from vpnaas.peers.peer import Peer
from vpnaas.tunnels.ipsec.configuration import Configuration, connections, render, render_up
from vpnaas.tunnels.ipsec.daemon import daemon_conf
from vpnaas.tunnels.ipsec.names import POLICY

from support.ends_certs import Certified, moved
from support.guest import GuestMachine, run_here
from support.swanctl import tunnel
from testbed import vdu

ENDS = ("left", "right")
"""The right end opens the tunnels."""

#: Writes what passes on the wire to a file, whole (pcap-savefile(5), packet(7)): an image of a VDU
#: has no tcpdump.
_SNIFFER = """
import socket
import struct
import sys
import time

sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
sock.bind(("wire0", 0))
with open(sys.argv[1], "wb", buffering=0) as pcap:
    pcap.write(struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 16, 1))
    print("ready", flush=True)
    while True:
        frame = sock.recv(1 << 16)
        now = time.time()
        head = struct.pack("=IIII", int(now), int(now % 1 * 1e6), len(frame), len(frame))
        pcap.write(head + frame)
"""

_PROGRAM = """
import json
import os
import subprocess
import sys
import time

HERE = os.getcwd()
plan = json.load(open("plan.json"))


def run(command, check=True):
    done = subprocess.run(
        command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if check and done.returncode:
        raise SystemExit(command + ": " + done.stdout)
    return done.stdout


def within(name, command, check=True):
    files = HERE + "/" + name
    # The same command line as on a VDU, for a daemon of many in one machine.
    environ = "STRONGSWAN_CONF={0}/strongswan.conf SWANCTL_DIR={0}/swanctl ".format(files)
    if command.startswith("swanctl "):
        command += " --uri unix:///run/" + name + ".vici"
    return run("ip netns exec " + name + " env " + environ + command, check)


run("ip netns add wire && ip -n wire link add wire0 type bridge")
run("ip -n wire link set wire0 up promisc on")
daemons = {}
for name, end in plan["ends"].items():
    for command in end["first"]:
        run(command)
    run("ip netns add " + name)
    run("ip link add {0}0 netns {0} type veth peer name {0}1 netns wire".format(name))
    run("ip -n wire link set {0}1 master wire0 up".format(name))
    for command in end["before"]:
        within(name, command)
    for path in end["up"]:
        within(name, "ip -batch " + HERE + "/" + name + "/" + path)
    environ = dict(
        os.environ,
        STRONGSWAN_CONF=HERE + "/" + name + "/strongswan.conf",
        SWANCTL_DIR=HERE + "/" + name + "/swanctl",
    )
    with open(name + "/log", "w") as log:
        daemons[name] = subprocess.Popen(
            ["ip", "netns", "exec", name, *end["daemon"]], env=environ, stdout=log, stderr=log
        )
for name, end in plan["ends"].items():
    until = time.monotonic() + 120
    while not os.path.exists(end["socket"]):
        if time.monotonic() > until or daemons[name].poll() is not None:
            raise SystemExit(name + ": no daemon: " + open(name + "/log").read()[-2000:])
        time.sleep(0.2)
    for command in end["load"]:
        within(name, command)
sniff = subprocess.Popen(
    ["ip", "netns", "exec", "wire", sys.executable, "-I", "-c", plan["sniffer"], HERE + "/pcap"],
    stdout=subprocess.PIPE, text=True,
)
sniff.stdout.readline()  # It listens now.
told = {}
for label, name, command, check in plan["steps"]:
    told[label] = within(name, command, check)
time.sleep(1)
sniff.terminate()
sniff.wait()
for daemon in daemons.values():
    daemon.terminate()
    try:
        daemon.wait(120)
    except subprocess.TimeoutExpired:
        daemon.kill()
json.dump(told, open("told.json", "w"))
"""


@dataclass(frozen=True)
class Daemon:
    """The IKE daemon of an end.

    Attributes:
        argv: Its command line, in the foreground.
        socket: What is there once it takes commands.
        load: Commands that make it read its configuration.
        first: Commands on the machine that bring what it needs.
    """

    argv: Sequence[str]
    socket: str
    load: Sequence[str]
    first: Sequence[str] = ()


def strongswan(end: str) -> Daemon:
    """Return the daemon of our own ends."""
    load = [f"swanctl --load-{what}" for what in ("creds --noprompt", "pools", "conns")]
    return Daemon(["/usr/sbin/charon-systemd"], f"/run/{end}.vici", load)


@dataclass(frozen=True)
class Link:
    """One link between the ends.

    Attributes:
        inner: Inner address with prefix length, by end.
        options: Parameters of `configure` for both ends.
        more: Parameters by end.
        foreign: Identity of the right end, where that is none of ours: a cell with a configuration
            written by hand, which asks for its inner addresses. "" where both are ours.
        given: Addresses that the left end gives the right one, which asks for them.
    """

    name: str
    inner: Mapping[str, str]
    options: Mapping[str, str]
    more: Mapping[str, Mapping[str, str]]
    foreign: str = ""
    given: Sequence[str] = ()

    def params(self, end: str) -> LinkParams:
        given = {"link": self.name, "technology": "ipsec", "inner-address": self.inner[end]}
        params = link_params({**given, **self.options, **self.more.get(end, {})})
        if not params.request:
            return params
        return with_addresses(params, tuple(map(ipaddress.ip_interface, self.given)))


@dataclass
class Guest:
    """Two ends to be: their folder, outer addresses by end, and links.

    Certificates of links with credentials `cert-external` are there by link once it is prepared.

    Without a machine the same happens in namespaces of this one, whose kernel need not have ESP:
    the plane is `USERSPACE` then, strongSwan carries the packets itself.
    """

    folder: Path
    outer: Mapping[str, str]
    links: Sequence[Link]
    machine: GuestMachine | None
    plane: str = POLICY
    certified: dict[str, Certified] = field(default_factory=dict)

    def connection(self, link: str) -> str:
        """Return the name of the connection the right end opens."""
        found: str = json.loads((self.folder / "names.json").read_text())[link]
        return found

    def prepare(self, extra: Mapping[str, str] | None = None) -> None:
        """Write the files of both ends.

        Args:
            extra: More files below the folder, by path.
        """
        keys = {(end, link.name): self._key(end, link.name) for end in ENDS for link in self.links}
        for link in self.links:
            if link.params("left").ipsec.credentials == EXTERNAL:
                own = {end: keys[end, link.name] for end in ENDS}
                self.certified[link.name] = Certified(self.folder, link.name, own)
        names = {}
        same = any(link.params("left").ipsec.same_address for link in self.links)
        for end in ENDS:
            asks = any(link.params(end).request for link in self.links if not link.foreign)
            conf = daemon_conf(self.plane, same, asks)
            for link in self.links:
                if link.foreign and end == "right":
                    self._foreign(link, keys)
                else:
                    names[link.name] = self._files(end, link, keys)
            self.daemon_files(end, conf)
        (self.folder / "names.json").write_text(json.dumps(names))
        for path, text in (extra or {}).items():
            (self.folder / path).write_text(text)

    def daemon_files(self, end: str, conf: str) -> None:
        """Write what strongSwan of an end reads besides its links; `conf` is what links need."""
        (self.folder / end / "swanctl/swanctl.conf").write_text("include conf.d/*.conf\n")
        (self.folder / end / "osm-vpnaas.conf").write_text(conf)
        (self.folder / end / "strongswan.conf").write_text(
            "charon {\n  load_modular = yes\n  plugins {\n"
            "    include /etc/strongswan.d/charon/*.conf\n"
            f"    vici {{\n      socket = unix:///run/{end}.vici\n    }}\n  }}\n"
            f"  piddir = /run/{end}\n  filelog {{\n    log {{\n"
            f"      path = {self.folder}/{end}/charon.log\n    }}\n  }}\n}}\n"
            f"include {self.folder}/{end}/osm-vpnaas.conf\n"
        )

    def run(
        self,
        before: Mapping[str, Sequence[str]],
        steps: Sequence[tuple[str, str, str, bool]],
        other: Daemon | None = None,
    ) -> dict[str, str]:
        """Do it all, and return what each labelled command printed.

        Args:
            before: Commands by end, before interfaces of links and the daemon.
            steps: Label, end, command line, and whether it must work.
            other: The daemon of the right end, where it is not strongSwan.
        """
        plan: dict[str, Any] = {"ends": {}, "steps": steps, "sniffer": _SNIFFER}
        for end in ENDS:
            own = [
                "ip link set lo up",
                f"ip address add {self.outer[end]}/24 dev {end}0",
                f"ip link set {end}0 up",
                # Loose, as Day-0 has it.
                "sysctl -q -w net.ipv4.conf.all.rp_filter=2",
                *before.get(end, ()),
            ]
            ups = sorted(path.name for path in (self.folder / end).glob("*.up"))
            daemon = other if other and end == "right" else strongswan(end)
            plan["ends"][end] = {"before": own, "up": ups, **vars(daemon)}
            plan["ends"][end]["daemon"] = plan["ends"][end].pop("argv")
        (self.folder / "plan.json").write_text(json.dumps(plan))
        run = run_here if self.machine is None else self.machine.run
        done = run(self.folder, _PROGRAM)
        assert done.code == 0, done.output
        result: dict[str, str] = json.loads((self.folder / "told.json").read_text())
        return result

    def count(self, expression: str) -> int:
        """Return how many frames of the wire match a pcap-filter(7) expression."""
        words = ["tcpdump", "-nn", "-r", str(self.folder / "pcap"), expression]
        listed = subprocess.run(words, capture_output=True, text=True, check=True)
        return len(listed.stdout.splitlines())

    def _key(self, end: str, link: str) -> str:
        for part in ("conf.d", "private"):
            (self.folder / end / "swanctl" / part).mkdir(parents=True, exist_ok=True)
        path = self.folder / end / f"swanctl/private/osm-vpnaas-{link}.pem"
        return vdu.key_pair(path)

    def _foreign(self, link: Link, keys: Mapping[tuple[str, str], str]) -> None:
        """Write what somebody would by hand on the right end."""
        prefixes = ", ".join(str(prefix) for prefix in link.params("left").allowed_prefixes)
        own, other = keys["right", link.name], keys["left", link.name]
        text = tunnel(
            link.foreign,
            {"auth": "pubkey", "id": f"@{link.foreign}", "pubkeys": f"0s{own}"},
            {"auth": "pubkey", "id": f"@{link.name}-left", "pubkeys": f"0s{other}"},
            {"remote_ts": prefixes},
            local_addrs=self.outer["right"],
            remote_addrs=self.outer["left"],
            vips="0.0.0.0, ::",
        )
        path = self.folder / f"right/swanctl/conf.d/{link.foreign}.conf"
        path.write_text(text, encoding="utf-8")

    def _files(self, end: str, link: Link, keys: Mapping[tuple[str, str], str]) -> str:
        """Write the files of a link on one end; return the name of its connection."""
        other = ENDS[1 - ENDS.index(end)]
        params = link.params(end)
        certified = self.certified.get(link.name)
        if link.foreign:
            peer = Peer(
                name="man-1",
                label=link.foreign,
                prefixes=(),
                technology="ipsec",
                public_key=keys[other, link.name],
                identity=link.foreign,
            )
        else:
            theirs = link.params(other)
            inner = theirs.inner_address.ip
            peer = Peer(
                name="rel-1",
                label=other,
                prefixes=(ipaddress.ip_network(inner), *theirs.allowed_prefixes),
                technology="ipsec",
                inner_address=inner,
                public_key=keys[other, link.name],
                identity=f"{link.name}-{other}",
                endpoint=(ipaddress.ip_address(self.outer[other]), 4500),
                certificate=certified.handle(other) if certified else "",
                given=tuple(given.ip for given in theirs.given),
            )
        configuration = Configuration(
            params=params,
            mtu=1400,
            tun_mtu=1400,
            peers=(peer,),
            underlay=(ipaddress.ip_address(self.outer[end]),),
            initiates=frozenset(["rel-1"]) if end == "right" else frozenset(),
            certificate=certified.handle(end) if certified else None,
        )
        own = f"{link.name}-{end}"
        state = vdu.state(link.name, keys[end, link.name], own, self.plane)
        folder = self.folder / end
        name = f"osm-vpnaas-{link.name}"
        text = moved(render(configuration, state), self.folder, end)
        (folder / f"swanctl/conf.d/{name}.conf").write_text(text)
        (folder / f"{link.name}.up").write_text(render_up(configuration, state.plane))
        ((connection,),) = connections(configuration, state).values()
        return connection.name
