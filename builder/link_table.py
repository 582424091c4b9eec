"""The links of running services, as one table, from what their VNFs answer to `show-status`.

A tunnel has two ends, and each end is a VNF that tells of its own. Two ends are one link if each
knows the other's public key, or its inner address if there are no keys.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

STATES = ("blocked", "down", "pending", "waiting", "unconfigured", "off", "idle", "clear", "up")
"""States of a link or a peer, worst first; `idle` is a manual peer without a tunnel now,
which its VNF does not keep calling."""
UNKNOWN = "unknown"
COLUMNS = {
    "service": "ns", "link": "name", "ends": "ends", "inner": "inner", "outer": "outer",
    "technology": "technology", "state": "state", "since": "since", "handshake": "handshake",
    "rate": "rate", "key age": "key_age", "loss": "loss", "reason": "reason",
}  # fmt: skip
"""Heading and attribute of each column that people see."""
SPARE = ("link", "outer", "technology", "since", "inner", "rate", "key age", "service")
"""Columns that go where the terminal is narrow, the first one first."""


@dataclass(frozen=True)
class Answer:
    """What a VNF said."""

    ns: str  # Name of its service.
    member: str  # Its member-vnf-index.
    at: float  # When it was asked, seconds since the epoch.
    shown: Mapping[str, Any]  # Output of show-status, by link.
    problem: str = ""  # Why there is none, "" if there is.


@dataclass(frozen=True)
class End:
    """One end of a tunnel to one peer, or a link without peers (`peer` is then empty)."""

    answer: Answer
    link: str
    details: Mapping[str, Any]
    peer: Mapping[str, Any]

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{self.answer.member}:{self.link}"

    @property
    def inner(self) -> str:
        """Our inner address without its prefix length, "" if there is none."""
        return str(self.details.get("inner-address", "")).partition("/")[0]

    def key(self) -> str:
        """Return what the other end knows us by."""
        return str(self.details.get("public-key") or self.inner)

    def knows(self, other: "End") -> bool:
        """Tell whether our peer may be this other end."""
        if self.peer.get("public-key"):
            return bool(self.peer["public-key"] == other.key())
        # What lies behind a gateway may stand before the gateway's own address.
        prefixes = str(self.peer.get("prefixes", "")).split(",")
        return bool(other.inner) and other.inner in {each.partition("/")[0] for each in prefixes}

    def state(self) -> str:
        """Return the state of the link, or of this peer where it has several."""
        state = str(self.details.get("state", UNKNOWN))
        mine = str(self.peer.get("state", state))
        return mine if len(self.details.get("peers", ())) > 1 or state == "up" else state

    def told(self) -> Mapping[str, Any]:
        """Return what says why, and since when, the end is in its state; a peer has no time."""
        return self.details if self.state() == self.details.get("state", UNKNOWN) else self.peer


@dataclass(frozen=True)
class Link:
    """A row of the table. Texts are for people, an empty one means that it is not known."""

    ns: str
    name: str  # Name of the link, at the end that tells of it first.
    ends: str
    inner: str
    outer: str
    technology: str
    state: str
    since: str  # Since when it is in this state, UTC.
    handshake: int | None  # Seconds since the last handshake.
    rate: float | None  # kbit/s in both directions since the look before.
    key_age: int | None  # Age of the older one of the two keys, in seconds.
    loss: int | None  # Per cent of the echo requests of the look, the worse direction.
    reason: str
    looked: int  # Age of the look, in seconds.

    def cells(self) -> dict[str, str]:
        units = {"handshake": span(self.handshake), "key_age": span(self.key_age)}
        units["rate"] = "" if self.rate is None else f"{self.rate:,.0f} kbit/s"
        units["loss"] = "" if self.loss is None else f"{self.loss} %"
        state = self.state if self.looked < 10 else f"{self.state}, seen {span(self.looked)} ago"
        units["state"] = state
        return {
            heading: units.get(attribute, str(getattr(self, attribute)))
            for heading, attribute in COLUMNS.items()
        }


def columns(found: Sequence[Link]) -> dict[str, list[str]]:
    """Return the columns for people, by heading; one without a word is no help."""
    rows = [link.cells() for link in found]
    every = {heading: [row[heading] for row in rows] for heading in COLUMNS}
    return {heading: cells for heading, cells in every.items() if any(cells)} or {"link": []}


def links(
    answers: Sequence[Answer], before: Sequence[Answer] = (), now: float | None = None
) -> list[Link]:
    """Return the links of which VNFs told, the worst first; rates come from the look `before`."""
    now = max((answer.at for answer in answers), default=0.0) if now is None else now
    ends = [end for answer in answers for end in _ends(answer)]
    earlier = {_id(end): end for answer in before for end in _ends(answer)}
    found, seen = [], set()
    for end in ends:
        if id(end) in seen:
            continue
        other = next(
            (
                o
                for o in ends
                if o is not end and id(o) not in seen and end.knows(o) and o.knows(end)
            ),
            None,
        )
        seen |= {id(end), id(other)}
        found.append(_link(end, other, earlier, now))
    found += [_silent(answer, now) for answer in answers if answer.problem]
    return sorted(found, key=lambda link: (_rank(link.state), link.ns, link.name, link.ends))


def _rank(state: str) -> int:
    return STATES.index(state) if state in STATES else -1


def _id(end: End) -> tuple[str, str, str, str]:
    return end.answer.ns, end.answer.member, end.link, str(end.peer.get("peer"))


def _ends(answer: Answer) -> Iterable[End]:
    for link, details in sorted(answer.shown.items()):
        # The answer also has an entry for the network function, which is no link.
        if not isinstance(details, Mapping) or not isinstance(details.get("peers"), list):
            continue
        if details.get("state") == "unconfigured":
            continue
        for peer in details["peers"] or [{}]:
            if isinstance(peer, Mapping):
                yield End(answer, link, details, peer)


def _link(end: End, other: End | None, earlier: Mapping[Any, End], now: float) -> Link:
    both = [end] if other is None else [end, other]
    worst = min(both, key=lambda each: (_rank(each.state()), not each.told().get("reason")))
    far = other.name if other is not None else str(end.peer.get("peer", ""))
    inner = other.inner if other is not None else str(end.peer.get("prefixes", ""))
    keys = [at for each in both if (at := _seconds(each.details.get("key-since"))) is not None]
    ages = [age for each in both if (age := _number(each.peer, "last-handshake-s")) is not None]
    losses = [loss for each in both if (loss := _number(each.peer, "loss-percent")) is not None]
    mine = str(other.peer.get("endpoint", "")) if other is not None else ""
    return Link(
        ns=end.answer.ns,
        name=end.link,
        ends=" - ".join(text for text in (end.name, far) if text),
        inner=" - ".join(text for text in (end.inner, inner) if text),
        outer=" - ".join(text for text in (mine, str(end.peer.get("endpoint", ""))) if text),
        technology=str(end.details.get("technology", "")),
        state=worst.state(),
        since=str(worst.told().get("since", "")),
        handshake=max(ages, default=None),
        rate=_rate(end, earlier.get(_id(end))),
        key_age=None if not keys else max(0, round(now - min(keys))),
        loss=max(losses, default=None),
        reason=str(worst.told().get("reason", "")),
        looked=max(0, round(now - min(each.answer.at for each in both))),
    )


def _silent(answer: Answer, now: float) -> Link:
    """Return the row of a VNF that did not answer."""
    return Link(
        ns=answer.ns, name="", ends=answer.member, inner="", outer="", technology="",
        state=UNKNOWN, since="", handshake=None, rate=None, key_age=None, loss=None,
        reason=answer.problem, looked=max(0, round(now - answer.at)),
    )  # fmt: skip


def _rate(end: End, before: End | None) -> float | None:
    """Return kbit/s between two looks, None where a rekey or restart reset the counters."""
    if before is None or end.answer.at <= before.answer.at or "received-bytes" not in end.peer:
        return None
    total = 0
    for way in ("received-bytes", "sent-bytes"):
        gained = (_number(end.peer, way) or 0) - (_number(before.peer, way) or 0)
        if gained < 0:
            return None
        total += gained
    return total * 8 / 1000 / (end.answer.at - before.answer.at)


def _number(peer: Mapping[str, Any], key: str) -> int | None:
    """Return a whole number that a VNF tells of a peer; a VNF may tell anything."""
    value = peer.get(key)
    return value if isinstance(value, int) and abs(value) < 1 << 64 else None


def _seconds(text: object) -> float | None:
    try:
        return datetime.strptime(str(text), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def span(seconds: int | None) -> str:
    """Return seconds as people say them."""
    if seconds is None:
        return ""
    seconds = max(0, seconds)  # A clock may have jumped back.
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
