"""What operators see: one state and reason per link, one line per unit."""

import json
import time
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

import attr

from vpnaas.base import fields
from vpnaas.base.errors import MALFORMED, InputError
from vpnaas.base.fields import digest
from vpnaas.base.links import reference_point
from vpnaas.params import pools
from vpnaas.peers.peer import Peer
from vpnaas.plan import RECENT, TABLE, fresh
from vpnaas.tunnels.technology import VANISH, LinkPlan

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
SETTLING = 20
"""Seconds after a peer has confirmed our key in which it is not yet `down` without a handshake."""
FURTHER_LOOKS = 3
"""How often the ends of a link that is not up wake each other for another look."""
LASTING = 60
"""Seconds that a link was not up, after which its recovery wakes the other end; so two ends of a
link that comes and goes do not wake each other for ever."""
IN_TURN = 900
"""Seconds in which a peer that comes back to an endpoint that it had left counts as two devices."""
_WORST = (BLOCKED, DOWN, PENDING, WAITING, UNCONFIGURED, OFF, CLEAR, UP)


@attr.frozen
class Memory:
    """What earlier reconciles saw of a link. Times are seconds since the epoch on the charm."""

    state: str = ""  # As in `LinkStatus`.
    since: int = 0  # When the link came into this state.
    key: Tuple[str, int] = ("", 0)  # Digest of our public key, and when it was first in use.
    # When a peer confirmed our key first, or we first called it: digest of both keys, and time, by
    # peer name.
    confirmed: Mapping[str, Tuple[str, int]] = attr.Factory(dict)
    answered: FrozenSet[str] = frozenset()  # Peers that have answered an echo request.
    # Number of the last further look that we asked the other ends for, and how many since the link
    # was last good; see `offer.looking`.
    looks: Tuple[int, int] = (0, 0)
    woken: Tuple[str, ...] = ()  # Numbers of the looks that the other ends asked us for.
    # The last endpoints of manual peers, by peer name: address, when first, when last.
    seen: Mapping[str, Tuple[Tuple[str, int, int], ...]] = attr.Factory(dict)

    @classmethod
    def from_json(cls, stored: Any) -> "Memory":
        """Read it; what cannot be read was not seen."""
        try:
            confirmed = {str(n): (str(d), int(at)) for n, (d, at) in stored["confirmed"].items()}
            own, when = stored["key"]
            number, asked = map(int, stored["looks"])
            seen = {
                str(name): tuple((str(end), int(first), int(last)) for end, first, last in ends)
                for name, ends in stored.get("seen", {}).items()
            }
            return cls(
                str(stored["state"]),
                int(stored["since"]),
                (str(own), int(when)),
                confirmed,
                frozenset(map(str, stored["answered"])),
                (number, asked),
                tuple(map(str, stored["woken"])),
                seen,
            )
        except MALFORMED:
            return cls()

    def to_json(self) -> Dict[str, Any]:
        return dict(attr.asdict(self, recurse=False), answered=sorted(self.answered))


@attr.frozen
class LinkStatus:
    """State of one link."""

    link: str
    # "unconfigured", "off" (switched off by the operator), "waiting" (for a peer or its data),
    # "pending" (set up here, a peer has not confirmed yet), "up" (no peer is pending or down),
    # "clear" (technology none), "down" (a peer that has installed us, or that we keep calling, does
    # not answer), "blocked" (an operator must act).
    state: str
    reason: str  # Reason for the state, "" for none.
    details: Mapping[str, Any]  # Output of show-status.
    memory: Memory = Memory()  # What the next reconcile should know.


def link_status(
    link: str,
    plan: Optional[LinkPlan],
    now: int,
    off: FrozenSet[str] = frozenset(),
    before: Memory = Memory(),
    at: int = 0,
    woken: Sequence[str] = (),
) -> LinkStatus:
    """Return the status of one link.

    `now` is the time of the VDU, `at` that of the charm, `before` what an earlier reconcile saw.
    `woken` are the numbers of the looks that the other ends ask for.
    """
    if plan is None:
        state = OFF if link in off else UNCONFIGURED
        memory = Memory(state, before.since if before.state == state else at)
        shown = {"state": state, "since": shown_time(memory.since), "peers": []}
        return LinkStatus(link, state, "", shown, memory)
    memory = _noted(plan, before, at)
    peers = [_peer(peer, plan, now, memory, at) for peer in plan.peers]
    states = [peer["state"] for peer in peers]
    reasons = list(plan.problems) + list(plan.waiting)
    if plan.problems:
        state = BLOCKED
    elif DOWN in states:
        state = DOWN
        down = [p["peer"] for p in peers if p["state"] == DOWN and not p.get("reason")]
        reasons += _silent(plan, now, down)
    elif PENDING in states:
        state = PENDING
        unsure = [peer["peer"] for peer in peers if peer["state"] == PENDING]
        confirmed = [peer.label for peer in plan.peers if peer.name in memory.confirmed]
        calling = [name for name in unsure if name in confirmed]
        if calling:
            reasons.append("waiting for the first handshake with {}".format(fields.few(calling)))
        # Our key waits there, or was refused or revoked: only the other end knows.
        others = [name for name in unsure if name not in calling]
        if others:
            reasons.append(
                "waiting for {} to confirm our key; see its status".format(fields.few(others))
            )
    elif not states:
        state = WAITING
    elif not TABLE[plan.params.technology].keyed:
        state = CLEAR
    else:
        state = UP
    reasons += ["{peer}: {reason}".format(**peer) for peer in peers if peer.get("reason")]
    reason = fields.few(reasons, "; ")
    memory = attr.evolve(
        memory,
        state=state,
        since=memory.since if memory.state == state else at,
        looks=_further(memory, state, states, tuple(woken), at),
        woken=tuple(woken),
    )
    details = {
        "state": state,
        "since": shown_time(memory.since),
        "looked": shown_time(at),
        "reason": reason,
        "reference-point": reference_point(link).title,
        "technology": plan.params.technology,
        "inner-address": plan.params.inner_text,
        "mtu": plan.mtu,
        "peers": peers,
    }  # type: Dict[str, Any]
    if plan.state is not None:
        details.update(TABLE[plan.params.technology].details(plan, plan.state))
        if memory.key[0]:
            details["key-since"] = shown_time(memory.key[1])
    return LinkStatus(link, state, reason, details, memory)


def _further(
    memory: Memory, state: str, states: Sequence[str], woken: Tuple[str, ...], at: int
) -> Tuple[int, int]:
    """Return `Memory.looks` after a look: a link that is not up asks for another one.

    It does so once, and some times more while a key is new. A link that is up again after some time
    asks once: the other end may still call it down, until its next look. If the other end has just
    asked, it comes back by itself.
    """
    number, asked = memory.looks
    if not memory.confirmed or woken != memory.woken:
        return number, asked if {DOWN, PENDING} & set(states) else 0
    if not {DOWN, PENDING} & set(states):
        again = state == UP and memory.state in (DOWN, BLOCKED) and at - memory.since >= LASTING
        return number + again, 0
    new = [when for _, when in memory.confirmed.values() if at - when < FURTHER_LOOKS * SETTLING]
    enough = asked >= (FURTHER_LOOKS if new else 1)
    return (number, asked) if enough else (number + 1, asked + 1)


def shown_time(at: int) -> str:
    """Return a time of the charm as UTC (RFC 3339)."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def _noted(plan: LinkPlan, before: Memory, at: int) -> Memory:
    """Return what is to be remembered of a link after a look; its state comes later."""
    own = getattr(plan.state, "public_key", "")
    confirmed = {}
    for peer in plan.peers:
        if peer.reached or peer.name in plan.called:
            keys = digest(own + " " + peer.public_key)
            known = before.confirmed.get(peer.name, ("", 0))
            # After a jump back of the charm's clock it was confirmed now, not in the future.
            confirmed[peer.name] = (keys, min(known[1], at) if known[0] == keys else at)
    names = {peer.name for peer in plan.peers}
    answered = {name for name, echo in plan.echoes.items() if echo.received}
    key = (digest(own), at) if own else ("", 0)
    return attr.evolve(
        before,
        since=min(before.since, at),
        key=(key[0], min(before.key[1], at)) if before.key[0] == key[0] else key,
        confirmed=confirmed,
        answered=frozenset(answered | (before.answered & names)),
        seen={p.name: _ends(plan, p, before, at) for p in plan.peers if p.is_manual},
    )


def _ends(plan: LinkPlan, peer: Peer, before: Memory, at: int) -> Tuple[Tuple[str, int, int], ...]:
    """Return `Memory.seen` of a peer after a look."""
    known = before.seen.get(peer.name, ())
    end = TABLE[plan.params.technology].session(plan.state, plan.params.link, peer).endpoint
    if not end:
        return known
    if known and known[-1][0] == end:
        return (*known[:-1], (end, known[-1][1], at))
    return (*known[-2:], (end, at, at))


def _taking_turns(memory: Memory, peer: Peer, at: int) -> str:
    """Return that two devices use a peer's key, "" for no sign of it. A device moves on."""
    ends = memory.seen.get(peer.name, ())
    if len(ends) < 3 or at - ends[-1][1] > IN_TURN:
        return ""
    (before, _, left), (between, _, _), (back, returned, _) = ends[-3:]
    if before != back or returned - left > IN_TURN:
        return ""
    what = "its key is used from {} and {} in turn, as by two devices; give each a file of its own"
    return what.format(before, between)


def _silent(plan: LinkPlan, now: int, down: Sequence[str]) -> List[str]:
    """Return why peers are down: they agree on no keys, or packets get no answer."""
    secured = [peer.label for peer in plan.peers if fresh(now, plan, peer)]
    sentences = (
        ("no handshake with", [name for name in down if name not in secured]),
        ("no answer from", [name for name in down if name in secured]),
    )
    return ["{} {}".format(text, fields.few(names)) for text, names in sentences if names]


def _peer(peer: Peer, plan: LinkPlan, now: int, memory: Memory, at: int) -> Dict[str, Any]:
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
    if age is not None and age < 0:
        # The handshake came after the clock was read, or the clock was set back since.
        age = 0 if age > -60 else -age
    view["last-handshake-s"] = age
    view["received-bytes"] = session.received
    view["sent-bytes"] = session.sent
    view["endpoint"] = session.endpoint or view["endpoint"]
    view.update(session.details)
    trouble = TABLE[plan.params.technology].trouble(plan.state, plan.params, peer)
    alive, echo = fresh(now, plan, peer, grace=60), plan.echoes.get(peer.name)
    expected = memory.confirmed.get(peer.name)
    reason = trouble.reason or _taking_turns(memory, peer, at)
    if not reason and echo is not None and echo.large_lost:
        reason = VANISH.format(plan.mtu)
    if reason:
        view["reason"] = reason
    if echo is not None:
        view["loss-percent"] = 100 * (echo.sent - echo.received) // max(1, echo.sent)
        view["rtt-ms"] = echo.rtt_ms
        # A manual peer may filter ICMP, but not one that has answered before.
        if echo.received or not peer.is_manual or peer.name in memory.answered:
            # An answer to an address of a gateway pair may be that of the other gateway.
            alive = bool(echo.received) and (alive or not plan.params.standby_gateways)
    if alive:
        view["state"] = UP
    elif trouble.down:
        view["state"] = DOWN
    elif expected and ((age or 0) >= RECENT or at - expected[1] >= SETTLING):
        view["state"] = DOWN  # Who had a handshake some seconds ago does not wait for the first.
    elif expected or not peer.is_manual:
        view["state"] = PENDING
    else:
        view["state"] = IDLE  # It connects at any time.
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
    """Return the details of the links that have a peer, with this peer only."""
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
        if link.state == DOWN:
            text = "{} down since {}".format(link.link, shown_time(link.memory.since))
        words.append("{} ({})".format(text, link.reason) if link.reason else text)
    bad = any(link.state in (BLOCKED, DOWN) for link in links)
    return bad, ", ".join(words)
