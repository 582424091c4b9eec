"""Tunnels inside tunnels: the path to a peer's endpoint, and the MTU of this path.

A tunnel may run inside another one. The outer tunnel is that of another link of the VDU, if the
peer's endpoint is behind that link, or that of a gateway on the path. The links' prefixes and the
VDU's routes show the first case. A router that refuses large packets shows the second (RFC 1191,
RFC 8201). To find out, the VDU sends one ping with Don't Fragment to each endpoint that is not on
the link. The tunnel's MTU follows the result, so that no packet is fragmented. A peer whose tunnel
would be nested twice is refused: three headers take a tenth of every packet, and loops become
possible.
"""

import ipaddress
import json
import re
from typing import Dict, List, Mapping, Optional, Tuple

import attr

from vpnaas.base import fields
from vpnaas.base.errors import MALFORMED, VpnaasError
from vpnaas.base.links import IPSEC, KEYED, OWN_INTERFACES
from vpnaas.base.prefixes import Routes
from vpnaas.peers import same_address
from vpnaas.peers.inputs import CharmState, LinkInputs
from vpnaas.peers.peer import Peer, in_turn
from vpnaas.tunnels.technology import Draft
from vpnaas.vdu import facts
from vpnaas.vdu.facts import VduFacts
from vpnaas.vdu.steps import Results, Step, read, remove, run, write

PATHS_FILE = "/etc/osm-vpnaas/paths.json"
"""Measured path MTUs, for times without an answer: bytes by endpoint address."""
MAX_PROBES = 8
"""Pings in one reconcile; an endpoint that does not answer costs a second."""
_ASK = "path/ask/"
_HEADERS = {4: 28, 6: 48}  # IP and ICMP
_REFUSED = re.compile(r"\bmtu ?= ?([0-9]{3,5})\b")


@attr.frozen
class Way:
    """How packets to a peer's endpoint leave the VDU."""

    through: str = ""  # Link whose tunnel carries them, "" for none.
    mtu: int = 0  # Largest packet that gets there, in bytes; 0 without a limit.
    # Why this path is refused, and what is allowed; None if it is accepted.
    refused: Optional[Tuple[str, str]] = None


@attr.frozen
class _Route:
    device: str
    routed: bool


def observe(charm_state: CharmState) -> List[Step]:
    """Return the steps that read the VDU's routes, if it has a link."""
    if not charm_state.intent.links:
        return []
    return facts.observe_routes() + [read("path/known", PATHS_FILE)]


def probes(charm_state: CharmState, vdu: VduFacts, results: Results) -> List[Step]:
    """Return a ping with the underlay's full MTU to each endpoint behind a router; often none."""
    table = _table(results)
    asked: Dict[str, Step] = {}
    for link, params in sorted(charm_state.intent.links.items()):
        if params.technology not in KEYED:
            continue
        offers = charm_state.offers(link).values()
        ends = [offer.endpoint for offer in offers] + [
            peer.endpoint for peer in charm_state.intent.manual(link)
        ]
        for address in sorted({str(end[0]) for end in ends if end}):
            route = table.to(ipaddress.ip_address(address))
            interface = vdu.interfaces.get(route.device) if route and route.routed else None
            if interface is None or interface.name.startswith(OWN_INTERFACES):
                continue
            size = str(interface.mtu - _HEADERS[ipaddress.ip_address(address).version])
            words = ("ping", "-n", "-c", "1", "-W", "1", "-M", "do", "-s", size, address)
            asked[address] = run(_ASK + address, *words, any_exit=True, timeout=10)
    return [asked[address] for address in in_turn(sorted(asked), MAX_PROBES, vdu.now)]


def learned(results: Results, prepared: Optional[Results]) -> Dict[str, int]:
    """Return the known path MTUs through routers, in bytes by endpoint address."""
    try:
        document = json.loads(results.text("path/known") or "{}")
        known = {str(fields.address("", a)): int(mtu) for a, mtu in document.items()}
    except (VpnaasError, *MALFORMED):
        known = {}  # This program did not write it.
    for id in prepared.ids() if prepared is not None else ():
        if prepared is None or not id.startswith(_ASK):
            continue
        address = id[len(_ASK) :]
        if prepared.exit_code(id) == 0:
            known.pop(address, None)
            continue
        mtus = _REFUSED.findall(prepared.output(id) + prepared.error(id))
        if mtus:
            known[address] = min(int(mtu) for mtu in mtus)
    return known


def ways(
    links: Mapping[str, Draft], results: Results, known: Mapping[str, int]
) -> Dict[str, Dict[str, Way]]:
    """Return the way to each peer with an endpoint, by link and peer name; `known` is `learned`."""
    table = _table(results)
    reach: Dict[str, Routes[bool]] = {
        link: Routes(
            (prefix, True)
            for prefix in [draft.inputs.params.inner_address.network]
            # Only these are routed by destination (see `same_address`).
            + same_address.split(draft.admission.peers)[0]
        )
        for link, draft in links.items()
        if draft.inputs.params.technology in KEYED
    }
    through: Dict[str, Dict[str, str]] = {}
    for link in reach:
        through[link] = {
            peer.name: _through(link, peer.endpoint[0], reach, table)
            for peer in links[link].admission.peers
            if peer.endpoint
        }
    by_link: Dict[str, Dict[str, Way]] = {}
    for link, outers in through.items():
        inputs = links[link].inputs
        by_link[link] = {}
        for peer in links[link].admission.peers:
            if not peer.endpoint:
                continue
            outer, address = outers[peer.name], peer.endpoint[0]
            mtu = links[outer].mtu if outer else _limit(address, inputs, table, known)
            refused = _refused(link, peer, outer, links, through) if outer else None
            if refused is None and mtu and mtu - inputs.overhead < fields.MIN_MTU:
                refused = (
                    "only {} bytes get to {}".format(mtu, address),
                    "at least {}".format(fields.MIN_MTU + inputs.overhead),
                )
            by_link[link][peer.name] = Way(outer, mtu, refused)
    return by_link


def _through(
    link: str,
    address: fields.IPAddress,
    reach: Mapping[str, Routes[bool]],
    table: Routes[_Route],
) -> str:
    """Return the link whose tunnel carries packets to an address, "" for none."""
    for other in sorted(reach, key=lambda name: (name != link, name)):
        if reach[other].to(address):
            return other
    route = table.to(address)
    device = route.device if route else ""
    for prefix in OWN_INTERFACES:
        if device.startswith(prefix) and device[len(prefix) :] in reach:
            return device[len(prefix) :]
    return ""


def _refused(
    link: str,
    peer: Peer,
    outer: str,
    links: Mapping[str, Draft],
    through: Mapping[str, Mapping[str, str]],
) -> Optional[Tuple[str, str]]:
    address = peer.endpoint[0] if peer.endpoint else ""
    if outer == link:
        return "{} lies inside its tunnel".format(address), "an address of the underlay"
    # A new peer of another link must not cause the refusal of a running peer.
    runs = _runs(links[link], peer)
    deeper = sorted(
        through[outer][other.name]
        for other in links[outer].admission.peers
        if through[outer].get(other.name) and (not runs or _runs(links[outer], other))
    )
    if deeper:
        what = "{} is reached through the tunnel of {}, which itself runs through that of {}"
        return what.format(address, outer, deeper[0]), "tunnels nested once"
    if links[link].inputs.params.technology == links[outer].inputs.params.technology == IPSEC:
        what = "{} is reached through the tunnel of {}, and both are IPsec"
        return what.format(address, outer), "WireGuard for one of them"
    return None


def _runs(draft: Draft, peer: Peer) -> bool:
    """Tell whether a peer was applied before with the same endpoint."""
    applied = draft.state.applied
    return any(p.name == peer.name and p.endpoint == peer.endpoint for p in applied)


def _limit(
    address: fields.IPAddress,
    inputs: LinkInputs,
    table: Routes[_Route],
    known: Mapping[str, int],
) -> int:
    route = table.to(address)
    interface = inputs.vdu.interfaces.get(route.device) if route else None
    limits = [known[str(address)]] if str(address) in known and route and route.routed else []
    # The route may use an interface other than the named underlay.
    if interface is not None and interface.name not in (inputs.underlay.name, "lo"):
        limits.append(interface.mtu)
    return min(limits) if limits else 0


def steps_to(known: Mapping[str, int], results: Results) -> List[Step]:
    """Return the steps that store the measured path MTUs; none if they did not change."""
    text = json.dumps(known, sort_keys=True) + "\n" if known else None
    if "path/known" not in results or text == results.text("path/known"):
        return []
    if text is None:
        return [remove("path/forget", PATHS_FILE)]
    return [write("path/keep", PATHS_FILE, text, 0o600)]


def _table(results: Results) -> Routes[_Route]:
    routes = [
        (network, _Route(str(row["dev"]), "gateway" in row))
        for network, row in facts.all_routes(results)
        if row.get("type", "unicast") == "unicast" and "dev" in row
    ]
    return Routes(routes)
