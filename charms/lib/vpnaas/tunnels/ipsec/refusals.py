"""Why a peer has no tunnel, or less of one than was agreed: sentences from charon's state."""

import json
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import attr

from vpnaas.base import fields, x509
from vpnaas.base.errors import MALFORMED, InputError
from vpnaas.params.intent import LinkParams
from vpnaas.peers.peer import Peer

MINUTE, HOUR = 60, 3600
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
    # By the address of a server that was asked about a revocation.
    unanswered: Mapping[str, Note] = attr.Factory(dict)
    # By the address where charon asks: the program that holds it.
    unserved: Mapping[str, Note] = attr.Factory(dict)


def parse(text: Optional[str]) -> Notes:
    """Read the notes of a VDU; what is not in their form counts as no note."""
    try:
        document = json.loads(text or "{}")
        names = ("refused", "unanswered", "unserved")
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


def unanswered(notes: Notes, now: int) -> Tuple[str, ...]:
    """Return a sentence about servers that lately did not say whether a certificate is revoked.

    It is for `revocation=relaxed`; otherwise the peer is refused, and its refusal says why.
    """
    late = [
        "{}: {}".format(url, note)
        for url, note in sorted(notes.unanswered.items())
        if abs(now - note.at) < HOUR
    ]
    if not late:
        return ()
    return (
        "peers are accepted though nobody says whether their certificates are revoked"
        " (revocation=relaxed): " + fields.few(late, "; ", most=3),
    )


def lacking(
    params: LinkParams, peer: Peer, ours: Sequence[str], theirs: Sequence[str], encap: bool
) -> str:
    """Return what the tunnels to a peer lack of what was agreed, "" for nothing.

    `ours` and `theirs` are the traffic selectors of all its CHILD_SAs; `encap` tells whether all of
    them are in UDP.
    """
    if not ours or not theirs:
        return ""
    sentences: List[str] = []
    own = (fields.host_network(params.inner_address), *params.allowed_prefixes)
    for whose, agreed, taken in (("its", peer.prefixes, theirs), ("our", own, ours)):
        there = [network for network in map(_network, taken) if network]
        missing = [p for p in agreed if not any(fields.covers(network, p) for network in there)]
        if missing:
            sentences.append(
                "it took {} only of {} prefixes {}: ask its owner for {}, or for a CHILD_SA for"
                " each prefix".format(
                    fields.few(sorted(taken)),
                    whose,
                    fields.show_networks(agreed),
                    fields.show_networks(missing),
                )
            )
    if params.ipsec.encap and not encap:
        sentences.append("it sends ESP without UDP in spite of encap=yes")
    return "; ".join(sentences)


def _network(selector: str) -> Optional[fields.IPNetwork]:
    """Return the prefix of a traffic selector; None for one of some ports or protocols only."""
    try:
        return fields.network("VDU: traffic selector", selector)
    except InputError:
        return None
