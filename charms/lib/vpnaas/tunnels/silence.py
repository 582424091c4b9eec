"""Why a peer may be silent: an underlay that is down, and routes, rules and firewalls of others."""

import json
from typing import List, Tuple

from vpnaas.base import fields
from vpnaas.base.errors import MALFORMED
from vpnaas.peers.peer import Peer
from vpnaas.vdu.nftables import chains_of_iptables, look_at_iptables
from vpnaas.vdu.steps import Results, Step, printable, run

_DROPS = (
    r'"(?:rule|chain)": .("family": "\w+", "table": "(?!osm_vpnaas_)[^"]*", '
    r'"(?:chain|name)": "[^"]*")(?:(?!"(?:rule|chain)": .).)*?"(?:drop|reject)"'
)
"""Chains that drop by default, and rules that drop, in what `nft -j` prints as one line."""
_OLD_DROPS = r"^-[AP] (\S+)(?: .*)? (?:DROP|REJECT)\b"


def look(link: str, peer: Peer, underlay: str) -> List[Step]:
    """Return the steps that look why a peer of a link over an underlay does not answer."""
    at = link + "/silent/"
    nic = run(at + "nic", "ip", "-j", "link", "show", "dev", underlay, any_exit=True)
    ways = [
        run(at + end, "ip", "-j", "route", "get", str(address), any_exit=True)
        for end, address in _ends(peer)
    ]
    drops = run(at + "drops", "nft", "-j", "list", "ruleset", pick=_DROPS, any_exit=True)
    return [nic, *ways, drops, *look_at_iptables(at, _OLD_DROPS)]


def causes(
    link: str, peer: Peer, device: str, idle: str, results: Results, underlay: str = ""
) -> Tuple[str, ...]:
    """Return why a peer may not answer, one sentence each.

    Args:
        device: Interface into which the tunnel's packets are routed, "" for any.
        idle: Interface where they end while there is no tunnel, "" for none.
        underlay: Interface that the operator wants the tunnel to run over, "" for any.
    """
    at, found = link + "/silent/", []
    down = _down(results, at + "nic")
    if down:
        # Its routes are gone too. That packets take another way is a result, not a second cause.
        return (down,)
    for end, address in _ends(peer):
        wrong, way = "", _way(results, at + end)
        right = device if end == "inner" else underlay
        if results.exit_code(at + end):
            wrong = "a route or rule of the VDU refuses packets to {0}"
        elif right and way not in ("", right, idle):
            wrong = "a route or rule of the VDU sends packets to {0} into {1} instead of {2}"
        if wrong:
            text = wrong + "; see `ip route get {0}`"
            found.append(text.format(address, way, right))
    drops = _drops(results, at + "drops") + chains_of_iptables(at, results)
    if drops:
        text = "a firewall that is not ours may drop packets: {}"
        found.append(text.format(fields.few(drops)))
    return tuple(found)


def _ends(peer: Peer) -> List[Tuple[str, fields.IPAddress]]:
    """Return the addresses of a peer that are known, inside the tunnel and outside."""
    both = ("inner", peer.echo_address()), ("outer", peer.endpoint[0] if peer.endpoint else None)
    return [(end, address) for end, address in both if address]


def _down(results: Results, id: str) -> str:
    """Return what an interface lacks to pass packets, "" for nothing."""
    try:
        (nic,) = json.loads(results.output(id))
        name, flags = printable(str(nic["ifname"])), nic["flags"]
    except MALFORMED:
        return ""
    if "UP" not in flags:
        return "interface {0} of the VDU is down; `ip link set {0} up` sets it up".format(name)
    return "interface {} of the VDU has no carrier".format(name) if "NO-CARRIER" in flags else ""


def _way(results: Results, id: str) -> str:
    try:
        return printable(str(json.loads(results.output(id))[0]["dev"]))
    except MALFORMED:
        return ""


def _drops(results: Results, id: str) -> List[str]:
    chains = set()
    for line in results.output(id).splitlines():
        try:
            family, table, name = json.loads("{" + line + "}").values()
        except MALFORMED:
            continue
        chains.add(printable("{} of table {} {}".format(name, family, table)))
    return sorted(chains)
