"""What operators see: one state and reason per link, one line per unit."""

import json
from typing import Any, Dict, FrozenSet, Mapping, Optional, Sequence, Tuple

import attr

from vpnaas.base import fields
from vpnaas.base.errors import InputError
from vpnaas.base.links import reference_point
from vpnaas.params import pools
from vpnaas.peers.peer import Peer
from vpnaas.plan import fresh
from vpnaas.tunnels.technologies import TABLE
from vpnaas.tunnels.technology import LinkPlan

UNCONFIGURED = "unconfigured"
OFF = "off"
WAITING = "waiting"
PENDING = "pending"
UP = "up"
CLEAR = "clear"
DOWN = "down"
BLOCKED = "blocked"

IDLE = "idle"
_MOST = (100, 50, 20, 10, 5, 0)
"""Limits of the peers shown per link, if not all fit; `bounded` uses the first that fits."""
_SHOWN = (DOWN, PENDING, IDLE, UP, CLEAR)
_WORST = (BLOCKED, DOWN, PENDING, WAITING, UNCONFIGURED, OFF, CLEAR, UP)


@attr.frozen
class LinkStatus:
    """State of one link.

    Attributes:
        state: "unconfigured", "off" (switched off by the operator), "waiting" (for a peer or its
            data), "pending" (set up here, a peer has not confirmed yet), "up" (no peer is pending
            or down), "clear" (technology none), "down" (a peer that has installed us does not
            answer), "blocked" (an operator must act).
        reason: Reason for the state, "" for none.
        details: Output of show-status.
    """

    link: str
    state: str
    reason: str
    details: Mapping[str, Any]


def link_status(
    link: str, plan: Optional[LinkPlan], now: int, off: FrozenSet[str] = frozenset()
) -> LinkStatus:
    """Return the status of one link."""
    if plan is None:
        state = OFF if link in off else UNCONFIGURED
        return LinkStatus(link, state, "", {"state": state, "peers": []})
    peers = [_peer(peer, plan, now) for peer in plan.peers]
    states = [peer["state"] for peer in peers]
    reasons = list(plan.problems) + list(plan.waiting)
    if plan.problems:
        state = BLOCKED
    elif DOWN in states:
        state = DOWN
        silent = [p["peer"] for p in peers if p["state"] == DOWN and not p.get("reason")]
        if silent:
            reasons.append("no handshake with {}".format(fields.few(silent)))
    elif PENDING in states:
        state = PENDING
        unsure = [peer["peer"] for peer in peers if peer["state"] == PENDING]
        # Our key waits there, or was refused or revoked: only the other end knows.
        reasons.append(
            "waiting for {} to confirm our key; see its status".format(fields.few(unsure))
        )
    elif not states:
        state = WAITING
    elif not TABLE[plan.params.technology].keyed:
        state = CLEAR
    else:
        state = UP
    reasons += ["{peer}: {reason}".format(**peer) for peer in peers if peer.get("reason")]
    reason = fields.few(reasons, "; ")
    details = {
        "state": state,
        "reason": reason,
        "reference-point": reference_point(link).title,
        "technology": plan.params.technology,
        "inner-address": plan.params.inner_text,
        "mtu": plan.mtu,
        "peers": peers,
    }  # type: Dict[str, Any]
    if plan.state is not None:
        details.update(TABLE[plan.params.technology].details(plan, plan.state))
    return LinkStatus(link, state, reason, details)


def _peer(peer: Peer, plan: LinkPlan, now: int) -> Dict[str, Any]:
    view = {
        "peer": peer.label,
        "prefixes": fields.show_networks(peer.prefixes) or pools.ASKS,
        "endpoint": fields.show_endpoint(*peer.endpoint) if peer.endpoint else "",
    }  # type: Dict[str, Any]
    if not TABLE[plan.params.technology].keyed:
        view["state"] = CLEAR
        return view
    session = TABLE[plan.params.technology].session(plan.state, plan.params.link, peer)
    view["public-key"] = peer.public_key
    view["preshared-key"] = bool(peer.preshared)
    view["post-quantum"] = peer.hybrid
    if peer.name in plan.through:
        view["through"] = plan.through[peer.name]
    age = now - session.handshake if session.handshake else session.age
    view["last-handshake-s"] = age
    view["received-bytes"] = session.received
    view["sent-bytes"] = session.sent
    view["endpoint"] = session.endpoint or view["endpoint"]
    view.update(session.details)
    trouble = TABLE[plan.params.technology].trouble(plan.state, plan.params, peer)
    if trouble.reason:
        view["reason"] = trouble.reason
    if fresh(now, plan, peer, grace=60):
        view["state"] = UP
    elif peer.reached or trouble.down:
        view["state"] = DOWN
    elif peer.inner_address is None:
        view["state"] = IDLE  # A manual peer connects at any time.
    else:
        view["state"] = PENDING
    return view


def bounded(links: Mapping[str, Mapping[str, Any]], room: int) -> Dict[str, Any]:
    """Return `LinkStatus.details` by link, with as many peers as `room` characters of JSON allow.

    Peers that are not up come first. If some are left out, the view has the counts by state.
    """
    view: Dict[str, Any] = dict(links)
    for most in _MOST:
        if len(json.dumps(view, separators=(",", ":"))) <= room:
            break
        view = {link: _bounded(details, most) for link, details in links.items()}
    return view


def _bounded(details: Mapping[str, Any], most: int) -> Dict[str, Any]:
    peers = details["peers"]
    if len(peers) <= most:
        return dict(details)
    states: Dict[str, int] = {}
    for peer in peers:
        states[peer["state"]] = states.get(peer["state"], 0) + 1
    chosen = sorted(peers, key=lambda peer: _SHOWN.index(peer["state"]))[:most]
    left = {"peers-by-state": states, "peers-not-shown": len(peers) - len(chosen)}
    return dict(details, peers=chosen, **left)


def of_peer(links: Mapping[str, Mapping[str, Any]], name: str) -> Dict[str, Any]:
    """Return the details of the links that have a peer, with this peer only.

    Raises:
        InputError: No link has the peer.
    """
    view = {}
    for link, details in links.items():
        peers = [peer for peer in details["peers"] if peer["peer"] == name]
        if peers:
            view[link] = dict(details, peers=peers)
    if not view:
        raise InputError(
            "peer", "no link has {}".format(fields.shown(name)), "a peer's name, or all"
        )
    return view


def summary(links: Sequence[LinkStatus]) -> Tuple[bool, str]:
    """Return whether an operator must act, and the line for the unit status."""
    words = []
    for link in sorted(links, key=lambda item: (_WORST.index(item.state), item.link)):
        text = "{} {}".format(link.link, link.state)
        words.append("{} ({})".format(text, link.reason) if link.reason else text)
    bad = any(link.state in (BLOCKED, DOWN) for link in links)
    return bad, ", ".join(words)
