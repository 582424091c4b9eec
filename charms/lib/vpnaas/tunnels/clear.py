"""Technology `none`: the inner addresses in clear over the underlay, the baseline of a measurement.

Applications keep the addresses that they have in a tunnel, so that the VPN is the only difference
between two runs. A templated systemd unit restores the addresses and routes after a reboot, and
after the underlay goes down and up.
"""

from typing import Dict, List, Optional, Sequence, Tuple

import attr

from vpnaas.base import fields
from vpnaas.base.links import DIRECTORY, NONE, RECORD, clear_interface
from vpnaas.params.intent import LinkParams
from vpnaas.peers.admission import Admission, Context, admit
from vpnaas.peers.inputs import CharmState, LinkInputs
from vpnaas.peers.offer import Offer
from vpnaas.peers.peer import Peer, read_record, record
from vpnaas.tunnels.technology import LinkPlan, Technology
from vpnaas.vdu.installed import filled
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import Step, disable, read, remove, run, write
from vpnaas.vdu.steps import directory as make_directory

HOLD_PROGRAM = "/usr/local/lib/osm-vpnaas/hold"
"""Restores addresses and routes after the underlay goes down and up (`hold`)."""
UNIT_FILE = "/etc/systemd/system/osm-vpnaas-clear@.service"
UNIT = filled("clear.service", __package__, program=HOLD_PROGRAM)


LINK_UNIT = "osm-vpnaas-clear@{}.service"
UP = DIRECTORY + "/clear.up"
"""The `ip -batch` file of a link; it exists if the link runs in clear."""


@attr.frozen
class State:
    """Observed state of one link without VPN."""

    up: Optional[str]  # The `ip -batch` file in force, or None.
    active: bool  # Whether the unit runs.
    current: bool  # Whether unit and program are from this release.
    applied: Tuple[Peer, ...]  # Peers of the last successful reconcile.


def render(params: LinkParams, underlay: str, peers: Sequence[Peer], down: bool = False) -> str:
    """Return the `ip -batch` file that brings the link up, or down."""
    inner = params.inner_address
    own = "{} dev {}".format(fields.host_network(inner), underlay)
    if down:
        lines = ["address del " + own]
    else:
        more = (
            " nodad" if inner.version == 6 else " label " + clear_interface(params.link, underlay)
        )
        lines = ["address replace " + own + more]
    for peer in peers:
        for prefix in peer.prefixes:
            if down:
                lines.append("route del {} dev {}".format(prefix, underlay))
            elif peer.endpoint:
                lines.append(_route(prefix, peer.endpoint[0], underlay, inner.ip))
    return "\n".join(lines) + "\n"


def _route(
    prefix: fields.IPNetwork, via: fields.IPAddress, underlay: str, own: fields.IPAddress
) -> str:
    family = "inet6 " if via.version == 6 and prefix.version == 4 else ""  # RFC 8950, clause 1
    line = "route replace {} via {}{} dev {}".format(prefix, family, via, underlay)
    return line + (" src {}".format(own) if own.version == prefix.version else "")


def steps_to(params: LinkParams, underlay: str, peers: Sequence[Peer], state: State) -> List[Step]:
    """Return the steps from the observed to the wanted state; none where they agree."""
    link = params.link
    up = render(params, underlay, peers)
    if state.up == up and state.active and state.current and record(peers) == record(state.applied):
        return []
    base, unit, at = DIRECTORY.format(link), LINK_UNIT.format(link), link + "/apply/"
    down = render(params, underlay, peers, down=True)
    return [
        write(at + "program", HOLD_PROGRAM, source("hold.py"), 0o755),
        write(at + "unit", UNIT_FILE, UNIT),
        run(at + "reload", "systemctl", "daemon-reload", timeout=90),
        # Stop with the old file first: this removes addresses and routes that are unwanted now.
        run(at + "stop", "systemctl", "stop", unit, any_exit=True, timeout=90),
        write(at + "up", UP.format(link), up),
        write(at + "down", base + "/clear.down", down),
        run(at + "start", "systemctl", "enable", "--now", unit, timeout=90),
        write(at + "record", RECORD.format(link), record(peers), 0o600),
    ]


class Clear(Technology[State]):
    """Inner addresses in clear over the underlay."""

    name = NONE
    marker = UP
    owner = LINK_UNIT

    def interface(self, inputs: LinkInputs) -> str:
        return inputs.underlay.name

    def observe(self, charm_state: CharmState, links: Sequence[str]) -> List[Step]:
        steps: List[Step] = []
        for link in links:
            base, unit = DIRECTORY.format(link), LINK_UNIT.format(link)
            steps += [
                make_directory(link + "/dir", base),
                read(link + "/up", UP.format(link)),
                read(link + "/unit", UNIT_FILE),
                read(link + "/program", HOLD_PROGRAM),
                run(link + "/active", "systemctl", "is-active", unit, any_exit=True),
                read(link + "/applied", RECORD.format(link)),
            ]
        return steps

    def parse(self, inputs: LinkInputs) -> State:
        link, results = inputs.link, inputs.results
        return State(
            up=results.text(link + "/up"),
            active=(results.out(link + "/active") or "").strip() == "active",
            current=(
                results.text(link + "/unit") == UNIT
                and results.text(link + "/program") == source("hold.py")
            ),
            applied=read_record(results.text(link + "/applied")),
        )

    def admit(self, inputs: LinkInputs, state: State) -> Admission:
        return admit(Context(attr.evolve(inputs, refused=_refused(inputs)), state.applied))

    def plan(self, inputs: LinkInputs, state: State, admission: Admission, mtu: int) -> LinkPlan:
        params = inputs.params
        offer = Offer(
            technology=NONE,
            inner_address=params.inner_address.ip,
            mtu=inputs.mtu,
            endpoint=inputs.endpoint,
            allowed_prefixes=params.allowed_prefixes,
        )
        return LinkPlan(
            params=params,
            problems=admission.problems,
            waiting=admission.waiting,
            peers=admission.peers,
            mtu=inputs.mtu,
            state=state,
            offers={remote.relation_id: offer for remote in inputs.remotes},
            steps=tuple(steps_to(params, inputs.underlay.name, admission.peers, state)),
        )

    def absent(self, link: str) -> List[Step]:
        return [
            disable(link + "/unclear/stop", LINK_UNIT.format(link), timeout=30),
            remove(link + "/unclear/up", UP.format(link)),
            remove(link + "/unclear/down", DIRECTORY.format(link) + "/clear.down"),
        ]


def _refused(inputs: LinkInputs) -> Dict[str, Tuple[str, str]]:
    """Return why the endpoint of a peer cannot be a next hop, and what is allowed, by peer name.

    `ip -batch` ends at a route that the kernel refuses, and the link would come up for no peer.
    """
    inner = inputs.charm_state.inner_addresses()
    outer = [address for address in inputs.underlay.addresses if address.ip not in inner]
    allowed = "an address of another host on {}".format(
        ", ".join(str(address.network) for address in outer)
    )
    refused = {}
    for name, offer in inputs.charm_state.offers(inputs.link).items():
        host = offer.endpoint[0] if offer.endpoint else None
        if host is not None and not any(_is_next(host, address) for address in outer):
            what = "{} is no next hop on {}".format(host, inputs.underlay.name)
            refused[name] = (what, allowed)
    return refused


def _is_next(host: fields.IPAddress, own: fields.IPInterface) -> bool:
    """Tell whether a host can be a next hop on the network of one of our addresses."""
    if own.version == 6 and own.network.prefixlen == 128:
        return host.version == 6  # From DHCPv6: only the routers tell which network is here.
    ends = (own.network.network_address, own.network.broadcast_address)
    no_host = host in ends and own.network.num_addresses > 2
    return host in own.network and host != own.ip and not no_host
