"""Names of files, units and interfaces of IPsec on a VDU."""

import zlib
from typing import Tuple

from vpnaas.base.links import directory

XFRM = "xfrm"
POLICY = "policy"
USERSPACE = "userspace"
TUN = "ipsec0"
"""TUN of charon's kernel-libipsec, which all links of a VDU share."""
TUN_MTU = 1400
TABLE = 220
"""Table of charon's routes, and priority of the rule that leads there (charon.routing_table)."""

DAEMON = "strongswan.service"
CHARON = "charon-systemd"
"""The program of DAEMON."""
PORTS = (500, 4500)
"""UDP ports of IKE (RFC 7296 section 2)."""
KEEPER = "osm-vpnaas-ipsec-keeper.service"
KEEPER_FILE = "/etc/systemd/system/" + KEEPER
PROGRAM_FILE = "/usr/local/lib/osm-vpnaas/ipsec"
ASKER = "osm-vpnaas-ipsec-revocation.service"
ASKER_FILE = "/etc/systemd/system/" + ASKER
ASKER_PROGRAM_FILE = "/usr/local/lib/osm-vpnaas/revocation"
UNIT_FILE = "/etc/systemd/system/osm-vpnaas-ipsec@.service"
DAEMON_FILE = "/etc/strongswan.d/00-osm-vpnaas.conf"
DROPIN_FILE = "/etc/systemd/system/strongswan.service.d/osm-vpnaas.conf"
OF_DAEMON = (
    DAEMON_FILE, DROPIN_FILE, UNIT_FILE, KEEPER_FILE, PROGRAM_FILE, ASKER_FILE, ASKER_PROGRAM_FILE,
)  # fmt: skip
"""Files that all links of a VDU share."""
RESTARTED = "/run/osm-vpnaas-restarted"
"""Exists if an earlier step of the same plan has restarted the daemon."""
PROBED = "/run/osm-vpnaas-"


def unit(link: str) -> str:
    """Return the systemd unit of a link's interface."""
    return "osm-vpnaas-ipsec@{}.service".format(link)


def conf_path(link: str) -> str:
    """Return the path of a link's swanctl file."""
    return "/etc/swanctl/conf.d/osm-vpnaas-{}.conf".format(link)


def key_file(link: str) -> str:
    """Return the private key file of a link."""
    return "/etc/swanctl/private/osm-vpnaas-{}.pem".format(link)


def next_key_file(link: str) -> str:
    """Return the file of the staged key of a rotation."""
    return directory(link) + "/next-ike.pem"


def request_file(link: str) -> str:
    """Return the file of the certificate request for the key in use."""
    return directory(link) + "/request.pem"


def next_request_file(link: str) -> str:
    """Return the file of the certificate request for the staged key of a rotation."""
    return directory(link) + "/next-request.pem"


def secret_file(link: str, peer: str) -> str:
    """Return the file of a peer's preshared key, which the link's swanctl file includes.

    AppArmor's profile on Ubuntu lets swanctl read it in this directory.
    """
    return "/etc/swanctl/osm-vpnaas-{}-{}.secret".format(link, peer)


def up_file(link: str) -> str:
    """Return the `ip -batch` file that makes a link's interface; it exists if the link has IPsec.

    `transition.absent` removes it last, so it goes on in the next reconcile if a step fails.
    """
    return directory(link) + "/ipsec.up"


def down_file(link: str) -> str:
    """Return the `ip -force -batch` file that removes the rules that outlive the interface."""
    return directory(link) + "/ipsec.down"


def keep_file(link: str) -> str:
    """Return the file with the connections that the keeper keeps up."""
    return directory(link) + "/ipsec.keep"


def shared_file(link: str) -> str:
    """Return the file with the connections of a pair's shared address."""
    return directory(link) + "/ipsec.shared"


def of_link(link: str) -> Tuple[str, ...]:
    """Return the files of a link that describe its tunnels."""
    paths = (conf_path, up_file, down_file, keep_file, shared_file)
    return tuple(path(link) for path in paths)


def interface_id(link: str) -> int:
    """Return the XFRM interface id of a link; two links of a VDU differ."""
    return zlib.crc32(link.encode("ascii")) & 0x7FFFFFFF or 1
