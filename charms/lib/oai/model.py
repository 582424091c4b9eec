"""Model of a network function on its VDU: files, containers and readiness checks."""

import json
from typing import Iterable, Mapping, Tuple

import attr
from vpnaas.base import fields
from vpnaas.vdu import installed

BASE = "/etc/osm-vpnaas/nf"
TLS = BASE + "/tls"
LEVELS = {"error": "error", "warning": "warn", "info": "info", "debug": "debug"}
"""Log levels of OAI by those of `configure-nf`."""
SECRETS_FILE = BASE + "/secrets.json"
"""OP and K, as `params.Secrets` writes them."""


SUBSCRIBER_FILE = BASE + "/subscriber-{}.json"
"""A subscriber's fetched K, by the IMSI, until `add-subscriber` uses it."""
DATABASE_FILE = BASE + "/database-password"
"""Password that the VDU generates, for functions of the same VDU."""
LIBRARY = "/usr/local/lib/osm-vpnaas"
FILL = LIBRARY + "/nf-fill"
"""The program that fills a database, see `fill`."""


@attr.frozen
class End:
    """A link as the network function sees it."""

    interface: str  # Network interface that has the inner address.
    address: fields.IPInterface  # Own inner address with the prefix length of the link's subnet.
    # Addresses of the network functions at the other end of the link, without gateways between
    # them.
    peers: Tuple[str, ...] = ()

    @property
    def ip(self) -> str:
        return str(self.address.ip)

    @property
    def peer(self) -> str:
        """Return the first network function at the other end. The plan checks that there is one."""
        return self.peers[0]


Ends = Mapping[str, End]


@attr.frozen
class File:
    """A file on the VDU; 0600 unless it is a program."""

    path: str
    text: str = attr.field(repr=False)
    mode: int = 0o600


@attr.frozen
class Container:
    """A container and its systemd unit."""

    name: str  # Name of container, unit and image entry.
    words: Tuple[str, ...] = ()  # Arguments after the image.
    # Source on the VDU and target in the container; a source below /etc is read-only.
    volumes: Tuple[Tuple[str, str], ...] = ()
    environment: Tuple[Tuple[str, str], ...] = ()  # By name.
    entrypoint: str = ""  # Program that replaces the image's, "" for the image's own.
    privileged: bool = True  # Whether it may use real-time scheduling, raw sockets and tun devices.
    workdir: str = ""  # In the container, "" for the image's own.
    after: Tuple[str, ...] = ()  # Other units of the VDU this one needs.
    # Command run before each start, with the engine as second word; empty for none.
    before_start: Tuple[str, ...] = ()
    start_seconds: int = 90  # How long `before_start` may take.
    # Prefixes of the names of network devices that it leaves behind if it is killed, and with which
    # it would not start again.
    devices: Tuple[str, ...] = ()


@attr.frozen
class Check:
    """One thing that must hold for a network function to be ready (`probe.py` looks)."""

    # "tcp" or "udp" (something listens on address and port), "connected" (TCP to an address and
    # port is established), "interface" (`unit`, a pattern of its name, exists, and has an address
    # if `address` is "any"), "log" (the log of `unit` since its start has a line with the pattern).
    kind: str
    reason: str  # Text for the status while it does not hold.
    address: str = ""
    port: int = 0
    unit: str = ""
    pattern: str = ""
    lost: str = ""  # Pattern of a line after which a "log" check no longer holds, "" for none.
    # Seconds without any line after which it no longer holds, 0 without a limit.
    silence: int = 0


@attr.frozen
class Software:
    """All of one network function."""

    containers: Tuple[Container, ...]  # In the order they start.
    files: Tuple[File, ...] = ()  # Configuration; a change restarts the containers.
    checks: Tuple[Check, ...] = ()  # Readiness.
    common_name: str = ""  # Common name of its TLS certificate, "" if it needs none.
    rules: str = ""  # nftables script the network function needs, "" for none.


@attr.frozen
class Part:
    """Data that one network function publishes to another."""

    kind: str  # One of `kinds.KINDS`.
    realm: str  # Diameter realm, "" in 5GS.
    plmn: str  # Digits of MCC and MNC.
    ready: bool  # Whether it is ready.
    tac: str = ""  # Tracking area code, "" if it has none.
    apn: str = ""  # Default APN, "" if it has none.
    ue_pool: str = ""  # Prefix of the UEs, "" if it has none.
    gateway: str = ""  # Name of the user plane, "" if it has none.
    # Its address. For a peer of a link it is the inner address that was admitted.
    address: str = ""
    slices: str = ""  # Slices that it serves, in the form of `oai.nssai`, "" in EPS.
    inner: str = ""  # Address of an N3IWF inside the IPsec tunnels of its UEs, "" for others.
    authority: str = ""  # Certificate of an N3IWF's authority, base64 of DER, "" for others.


TABLE = "osm_vpnaas_nf"
"""Table of nftables with the rules of a network function, of family inet."""


def closed_ports(ports: Iterable[int], interface: str = "") -> str:
    """Return the nftables script that closes TCP ports of a network function to other hosts.

    They stay open on `interface`, unless it is "".
    """
    return installed.filled(
        "templates/closed_ports.nft",
        "oai",
        table=TABLE,
        interfaces=", ".join('"{}"'.format(name) for name in ("lo", interface) if name),
        ports=", ".join(str(port) for port in ports),
    )


def conf(name: str) -> str:
    return "{}/{}".format(BASE, name)


GROUPS = ("slices", "sessions")
"""Names in templates that stand for groups of libconfig, not for a value."""


def filled(template: str, **values: object) -> str:
    """Return a configuration file: `templates/TEMPLATE` with `values` for its `$names`.

    A list and a bool are written as JSON.

    Raises:
        ValueError: A text could end the text of the file that it stands in. This is a defect:
            parsers refuse such values.
    """

    def shown(name: str, value: object) -> str:
        if isinstance(value, str) and name not in GROUPS and set(value) & set('"\\\n'):
            raise ValueError("not fit for a configuration file: {!r}".format(value))
        return json.dumps(value) if isinstance(value, (list, bool)) else str(value)

    return installed.filled("templates/" + template, "oai", shown, **values)
