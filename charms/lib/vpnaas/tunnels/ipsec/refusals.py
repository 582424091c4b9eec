"""Why a peer has no tunnel, or less of one than was agreed: sentences from charon's state."""

import ipaddress
import json
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import attr

from vpnaas.base import fields, x509
from vpnaas.base.errors import MALFORMED, InputError
from vpnaas.params.intent import LinkParams
from vpnaas.peers.peer import Peer

MINUTE, HOUR = 60, 3600
Networks = List[fields.IPNetwork]
MOST_TEXT = 600


@attr.frozen
class Note:
    """Something that failed, as the VDU noted it (`vdu/programs/revocation.py`)."""

    at: int  # Seconds since the epoch.
    why: str  # A sentence without the name of what failed.

    def __str__(self) -> str:
        """Return it for people, with its time."""
        return "{} ({})".format(self.why, x509.date(self.at))


@attr.frozen
class Notes:
    """The notes of a VDU."""

    # By "LINK_PEER", or by address for unknown peers.
    refused: Mapping[str, Note] = attr.Factory(dict)
    # By "LINK_PEER": which servers did not say whether its certificates are revoked.
    unproved: Mapping[str, Note] = attr.Factory(dict)
    # By the address where charon asks: the program that holds it.
    unserved: Mapping[str, Note] = attr.Factory(dict)


def parse(text: Optional[str]) -> Notes:
    """Read the notes of a VDU; what is not in their form counts as no note."""
    try:
        document = json.loads(text or "{}")
        names = ("refused", "unproved", "unserved")
        parts = [_notes(document.get(part, {})) for part in names]
    except MALFORMED:
        return Notes()
    return Notes(*parts)


def _notes(part: Mapping[str, Any]) -> Dict[str, Note]:
    return {
        _printable(name): Note(int(note["at"]), _printable(note["why"]))
        for name, note in part.items()
    }


def _printable(text: object) -> str:
    return "".join(c if " " <= c <= "~" else "?" for c in str(text))[:MOST_TEXT]


def last(notes: Notes, link: str, peer: Peer) -> Optional[Note]:
    """Return the last refusal of a peer, or by it."""
    found = [notes.refused.get("{}_{}".format(link, peer.name))]
    if peer.endpoint:
        found.append(notes.refused.get(str(peer.endpoint[0])))
    return max((note for note in found if note), key=lambda note: note.at, default=None)


def unserved(notes: Notes, now: int) -> Tuple[str, ...]:
    """Return a sentence about another program at the address where charon asks."""
    return tuple(
        "TCP {} of the VDU, where charon asks whether certificates are revoked, is used by {}: free"
        " it".format(place, note)
        for place, note in sorted(notes.unserved.items())
        if abs(now - note.at) < MINUTE
    )


def unproved(notes: Notes, link: str, now: int) -> Tuple[str, ...]:
    """Return a sentence about servers that lately did not say whether a certificate is revoked.

    It is for `revocation=relaxed`; otherwise the peer is refused, and its refusal says why.
    """
    late = [note for end, note in notes.unproved.items() if end.startswith(link + "_")]
    last = {note.why: str(note) for note in late if abs(now - note.at) < HOUR}
    if not last:
        return ()
    return (
        "peers are accepted though nobody says whether their certificates are revoked"
        " (revocation=relaxed): " + fields.few(sorted(last.values()), "; ", most=3),
    )


def lacking(
    params: LinkParams, peer: Peer, children: Sequence[Tuple[Sequence[str], Sequence[str]]]
) -> str:
    """Return what the tunnels to a peer lack of the agreed prefixes, "" for nothing.

    `children` are our and the peer's traffic selectors of each CHILD_SA.
    """
    pairs = [(_networks(ours), _networks(theirs)) for ours, theirs in children if ours and theirs]
    if not pairs:
        return ""
    own = (fields.host_network(params.inner_address), *params.allowed_prefixes)
    sentences: List[str] = []
    for whose, agreed, side in (("its", peer.prefixes, 1), ("our", own, 0)):
        there = [network for pair in pairs for network in pair[side]]
        missing = [prefix for prefix in agreed if not _covered(prefix, there)]
        if missing:
            taken = {text for child in children for text in child[side]}
            sentences.append(
                "it took {} only of {} prefixes {}: ask its owner for {}, or for a CHILD_SA for"
                " each prefix".format(
                    fields.few(sorted(taken)),
                    whose,
                    fields.show_networks(agreed),
                    fields.show_networks(missing),
                )
            )
    apart = [
        "{} and {}".format(here, there)
        for here in own
        for there in peer.prefixes
        if here.version == there.version and not _joined(here, there, pairs)
    ]
    if apart and not sentences:
        what = "no CHILD_SA joins {}: ask its owner for one for each pair of prefixes"
        sentences.append(what.format(fields.few(apart, most=3)))
    return "; ".join(sentences)


def _joined(
    here: fields.IPNetwork, there: fields.IPNetwork, pairs: Sequence[Tuple[Networks, Networks]]
) -> bool:
    """Tell whether CHILD_SAs have all packets between two prefixes; they may divide one of them."""
    behind = [network for ours, theirs in pairs if _covered(here, ours) for network in theirs]
    before = [network for ours, theirs in pairs if _covered(there, theirs) for network in ours]
    return _covered(there, behind) or _covered(here, before)


def _covered(prefix: fields.IPNetwork, networks: Networks) -> bool:
    """Tell whether prefixes together have all addresses of another."""
    same = [network for network in networks if network.version == prefix.version]
    joint = ipaddress.collapse_addresses(same)  # type: ignore[type-var]
    return any(fields.covers(network, prefix) for network in joint)


def _networks(selectors: Sequence[str]) -> Networks:
    return [network for network in map(_network, selectors) if network]


def _network(selector: str) -> Optional[fields.IPNetwork]:
    """Return the prefix of a traffic selector; None for one of some ports or protocols only."""
    try:
        return fields.network("VDU: traffic selector", selector)
    except InputError:
        return None
