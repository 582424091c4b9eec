"""A pair of gateways: one takes over the tunnels of the other.

Every peer keeps a tunnel to each gateway, with the same traffic selectors, and uses the newest
CHILD_SA of the two. VRRP (RFC 5798) on the trusted side decides which gateway is active. A gateway
that becomes active rekeys its CHILD_SAs, so that they are the newest at all peers; peers with
traffic come first, see `gateway_watch.py`. The gateways share no key and no sequence number, so no
packet can be accepted twice; see ADR 0030.

The priority of a gateway grows with the share of its tunnels that are up. A gateway that lost its
tunnels, or whose daemon died, gives up the active role at once. A gateway that came back takes over
only when its peers are back.
"""

from typing import Tuple

import attr

from vpnaas.base import fields
from vpnaas.base.errors import InputError
from vpnaas.base.links import BUSY_PORT
from vpnaas.features.pair.params import PRIMARY, SECONDARY, PairParams
from vpnaas.vdu import installed, nftables
from vpnaas.vdu.installed import filled

BASE = {PRIMARY: 60, SECONDARY: 50}
"""VRRP priorities of gateways without a tunnel; all tunnels up add SPAN. So the secondary becomes
active only if its share is larger by more than one tunnel of fifteen."""
SPAN = 150

KEEPALIVED_FILE = "/etc/keepalived/keepalived.conf"
HEALTH_FILE = "/run/osm-vpnaas-tunnels"
NONE_FILE = "/usr/local/lib/osm-vpnaas/no-tunnels"
RECORD_FILE = "/var/lib/osm-vpnaas/standby"
"""Last state that keepalived reported: "STATE SECONDS TAKEOVERS", SECONDS since the epoch."""
AWAY_FILE = "/etc/osm-vpnaas/standby-away"
"""While it exists, this gateway leaves the service to the other one."""
FIREWALL_FILE = "/etc/osm-vpnaas/standby.nft"
FIREWALL_TABLE = "osm_vpnaas_standby"
AFTER_FLUSH_FILE = nftables.AFTER_FLUSH.format("standby")
WATCH_PROGRAM = "/usr/local/lib/osm-vpnaas/gateway-watch"
TURN_PROGRAM = "/usr/local/lib/osm-vpnaas/gateway-turn"
TURN_FIFO = "/run/osm-vpnaas-turns"
FIRST_FIFO = "/run/osm-vpnaas-first"
"""Through it the watch program is told to claim the peers; it locks FIRST_LOCK meanwhile."""
FIRST_LOCK = FIRST_FIFO + "-lock"
WATCH_UNIT = "/etc/systemd/system/osm-vpnaas-gateway-watch.service"
DAEMON_DROPIN = "/etc/systemd/system/strongswan.service.d/osm-vpnaas-standby.conf"
KEEPALIVED_DROPIN = "/etc/systemd/system/keepalived.service.d/osm-vpnaas.conf"


@attr.frozen
class Standby:
    """One gateway of a pair."""

    params: PairParams
    own: fields.IPAddress  # Our address on the trusted side.
    # Number of peers with a tunnel to both gateways, which counts as "all tunnels up"; 0 if only
    # the daemon can be checked.
    peers: int
    children: Tuple[str, ...]  # Names of the CHILD_SAs to rekey on a takeover.

    def __attrs_post_init__(self) -> None:
        """Raise InputError for addresses that cannot form a pair."""
        other, virtual = self.params.other, self.params.virtual
        if self.own == other:
            raise InputError("standby: other", "it is our own address", "the other gateway's")
        for name, address in (("own", self.own), ("other", other)):
            if address not in virtual.network or address == virtual.ip:
                raise InputError(
                    "standby: " + name,
                    "{} with the virtual address {}".format(address, virtual),
                    "another address of {}".format(virtual.network),
                )


SHELL = "/usr/bin/dash"
"""What runs programs for keepalived, which takes no path with a symbolic link from 2.3 on, such as
/bin/sh."""
_RECORDED = """    # Notify programs run side by side; the FIFO tells the changes in their order.
    vrrp_notify_fifo {}
    vrrp_notify_fifo_script "{} {} record"
"""


def keepalived_conf(
    standby: Standby, health: str = HEALTH_FILE, turn: str = TURN_PROGRAM, record: bool = True
) -> str:
    """Return the configuration of keepalived(8).

    Args:
        standby: The gateway.
        health: File with the value to add to its priority.
        turn: Program that makes our CHILD_SAs the newest.
        record: Whether it also records changes of state.
    """
    params = standby.params
    return filled(
        "keepalived.conf",
        __package__,
        head=installed.HEAD,
        health=health,
        params=params,
        priority=BASE[params.role],
        advert="{}.{:02d}".format(*divmod(params.advert // 10, 100)),
        own=standby.own,
        virtual=fields.host_network(params.virtual),
        shared=_shared(params),
        shell=SHELL,
        turn=turn,
        children=" ".join(standby.children),
        fifo=_RECORDED.format(TURN_FIFO, SHELL, turn) if record else "",
    )


def _shared(params: PairParams) -> str:
    """Return the lines with the shared address, inside the block of the virtual one."""
    if not params.shared:
        return ""
    # Adverts carry addresses of one IP version only, keepalived ignores others.
    shared = params.shared.address
    other = shared.version != params.virtual.version
    block = "    }\n    virtual_ipaddress_excluded {\n" if other else ""
    return block + "        {} dev {}\n".format(fields.host_network(shared), params.untrusted)


CLAIM_PERIOD = 30
"""Seconds after which the active gateway rekeys again: if either end rekeyed a CHILD_SA of the
standby meanwhile, that one is newer than ours and so in use."""


def watch_unit(standby: Standby) -> str:
    """Return the systemd unit of the program that writes the health file."""
    return filled(
        "watch.service",
        __package__,
        program=WATCH_PROGRAM,
        health=HEALTH_FILE,
        standby=standby,
        span=SPAN,
        period=CLAIM_PERIOD,
        children=",".join(standby.children),
    )


DAEMON_TEXT = "[Service]\nExecStopPost=/bin/cp {} {}\n".format(NONE_FILE, HEALTH_FILE)
"""Sets the health file to 0 as soon as the IKE daemon ends."""
KEEPALIVED_TEXT = filled(
    "dropin.conf",
    __package__,
    firewall=FIREWALL_FILE,
    none=NONE_FILE,
    health=HEALTH_FILE,
)


def firewall(standby: Standby) -> str:
    """Return the nft(8) script that lets only the other gateway take part in the election.

    Nor does anyone else tell it which peers have traffic. VRRP version 3 has no authentication (RFC
    5798 section 9). Version 2 has no intervals below one second.
    """
    params = standby.params
    chains = filled(
        "standby.nft",
        __package__,
        trusted=params.trusted,
        family=nftables.family(params.other),
        other=params.other,
        busy=BUSY_PORT,
    )
    return nftables.nft_table(FIREWALL_TABLE, chains)
