"""What to tell people: one state and reason per link, one line per unit."""

from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

import attr

from . import fields, pools
from .links import reference_point
from .plan import fresh
from .technologies import TABLE
from .technology import LinkPlan
from .tunnel import Peer

UNCONFIGURED = "unconfigured"
OFF = "off"
WAITING = "waiting"
PENDING = "pending"
UP = "up"
CLEAR = "clear"
DOWN = "down"
BLOCKED = "blocked"

_WORST = (BLOCKED, DOWN, PENDING, WAITING, UNCONFIGURED, OFF, CLEAR, UP)


class Extra:
    """State of what a VNF has on top of its links; a VNF without anything there has none."""

    @property
    def bad(self) -> bool:
        """Tell whether somebody must act."""
        return False

    @property
    def calm(self) -> bool:
        """Tell whether it is as it should be, so that nothing need be looked at again soon."""
        return True

    def summary(self) -> str:
        """Return the words for the unit status, "" for none."""
        return ""

    def shown(self) -> Dict[str, Any]:
        """Return what show-status adds to the links."""
        return {}


@attr.frozen
class LinkStatus:
    """State of one link.

    Attributes:
        state: "unconfigured", "off" (switched off by the operator), "waiting" (for a peer or its
            data), "pending" (set up here, the peer
            has not confirmed yet), "up" (every peer answered), "clear" (technology none), "down"
            (a peer that has us does not answer), "blocked" (somebody must act).
        reason: Why, "" where there is nothing to add.
        details: What show-status prints.
    """

    link: str
    state: str
    reason: str
    details: Mapping[str, Any]


def link_status(
    link: str, plan: Optional[LinkPlan], now: int, off: FrozenSet[str] = frozenset()
) -> LinkStatus:
    """Judge one link."""
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
        silent = [peer["peer"] for peer in peers if peer["state"] == DOWN]
        reasons.append("no handshake with {}".format(", ".join(silent)))
    elif PENDING in states:
        state = PENDING
    elif not states:
        state = WAITING
    elif not TABLE[plan.params.technology].keyed:
        state = CLEAR
    else:
        state = UP
    reason = "; ".join(reasons)
    details = {
        "state": state,
        "reason": reason,
        "reference-point": reference_point(link).title,
        "technology": plan.params.technology,
        "inner-address": str(plan.params.inner_address),
        "mtu": plan.mtu,
        "peers": peers,
    }  # type: Dict[str, Any]
    details.update(TABLE[plan.params.technology].details(plan))
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
    seen = TABLE[plan.params.technology].seen(plan, peer)
    view["public-key"] = peer.public_key
    view["preshared-key"] = bool(peer.preshared)
    if peer.name in plan.through:
        view["through"] = plan.through[peer.name]
    age = now - seen.handshake if seen.handshake else seen.age
    view["last-handshake-s"] = age
    view["received-bytes"] = seen.received
    view["sent-bytes"] = seen.sent
    view["endpoint"] = seen.endpoint or view["endpoint"]
    view.update(seen.details)
    if fresh(now, plan, peer, grace=60):
        view["state"] = UP
    elif peer.reached:
        view["state"] = DOWN
    elif peer.inner_address is None:
        view["state"] = UP if age is not None else "idle"  # A manual peer calls when it likes.
    else:
        view["state"] = PENDING
    return view


def statuses(
    declared: Sequence[str],
    plans: Mapping[str, LinkPlan],
    now: int,
    off: FrozenSet[str] = frozenset(),
) -> List[LinkStatus]:
    """Judge every link the charm declares, by name."""
    return [link_status(link, plans.get(link), now, off) for link in sorted(declared)]


def summary(links: Sequence[LinkStatus]) -> Tuple[bool, str]:
    """Return whether somebody must act, and the line for the unit status."""
    words = []
    for link in sorted(links, key=lambda item: (_WORST.index(item.state), item.link)):
        text = "{} {}".format(link.link, link.state)
        words.append("{} ({})".format(text, link.reason) if link.reason else text)
    bad = any(link.state in (BLOCKED, DOWN) for link in links)
    return bad, ", ".join(words)
