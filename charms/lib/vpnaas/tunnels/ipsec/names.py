"""Names of files, units and interfaces of IPsec on a VDU."""

import zlib
from typing import Tuple

from vpnaas.base.links import DIRECTORY
from vpnaas.vdu.programs import PYTHON

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
PROGRAM = (*PYTHON, PROGRAM_FILE)
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

# Of a link: `UP.format(link)`.
UNIT = "osm-vpnaas-ipsec@{}.service"
CONF = "/etc/swanctl/conf.d/osm-vpnaas-{}.conf"
KEY = "/etc/swanctl/private/osm-vpnaas-{}.pem"
NEXT_KEY = DIRECTORY + "/next-ike.pem"  # Staged by a rotation.
REQUEST = DIRECTORY + "/request.pem"  # Certificate request for the key in use.
NEXT_REQUEST = DIRECTORY + "/next-request.pem"  # For the staged key.
CERTIFICATE = "/etc/swanctl/osm-vpnaas-{}.crt"
NEXT_CERTIFICATE = DIRECTORY + "/next.crt"  # For the staged key.
# Of the authority that must have issued the peers' certificates.
TRUST = "/etc/swanctl/x509ca/osm-vpnaas-{}.pem"
# Of an operator's intermediate authority, by its number; strongSwan sends it along.
CHAIN = "/etc/swanctl/x509ca/osm-vpnaas-{}-chain-{}.pem"
ROOT = DIRECTORY + "/authority.pem"  # Of the authority; stays if the credentials change.
ENROLLED_CERTIFICATE = DIRECTORY + "/enrolled.pem"
ENROLLED_CHAIN = DIRECTORY + "/enrolled-chain.pem"  # The intermediate authorities of that.
ENROLMENT_ROOT = DIRECTORY + "/enrolment-ca.pem"  # Root of the server's certificate.
IDENTITY = DIRECTORY + "/identity"  # Our IKE identity, without the link's name.
# Preshared key of a peer, by its name; the link's swanctl file includes it. AppArmor's profile on
# Ubuntu lets swanctl read it in this directory.
PRESHARED = "/etc/swanctl/osm-vpnaas-{}-{}.secret"
# The `ip -batch` file that makes a link's interface; it exists if the link has IPsec.
# `transition.absent` removes it last, so it goes on in the next reconcile if a step fails.
UP = DIRECTORY + "/ipsec.up"
DOWN = DIRECTORY + "/ipsec.down"  # Removes (`ip -force -batch`) what outlives the interface.
KEEP = DIRECTORY + "/ipsec.keep"  # Connections that the keeper keeps up.
SHARED = DIRECTORY + "/ipsec.shared"  # Connections of a pair's shared address.


def of_link(link: str) -> Tuple[str, ...]:
    """Return the files of a link that describe its tunnels."""
    paths = (CONF, UP, DOWN, KEEP, SHARED)
    return tuple(path.format(link) for path in paths)


def interface_id(link: str) -> int:
    """Return the XFRM interface id of a link; two links of a VDU differ."""
    return zlib.crc32(link.encode("ascii")) & 0x7FFFFFFF or 1
