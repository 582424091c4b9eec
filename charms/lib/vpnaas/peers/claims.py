"""What the peers of a link hold, and whether another peer may hold it too.

A peer holds its prefixes, its keys, its IKE identity and its outer address. These are reserved for
running peers before any new request is checked, so that no peer can take them.
"""

from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from vpnaas.base import fields
from vpnaas.base.errors import InputError
from vpnaas.base.links import NONE
from vpnaas.base.prefixes import Spans
from vpnaas.peers.peer import Peer


class Claims:
    """What each peer of a link holds, by the peer's name.

    Args:
        pair: Outer addresses of a declared gateway pair, empty without a pair.
        elsewhere: Peers of the VDU's other links, by link. A prefix has one route only, so peers of
            this link cannot have the prefixes of these.
    """

    def __init__(
        self, pair: Sequence[fields.IPAddress], elsewhere: Mapping[str, Sequence[Peer]]
    ) -> None:
        self._pair_at = frozenset(pair)
        self._elsewhere: List[Tuple[str, Dict[str, str], Spans]] = []
        for link, peers in sorted(elsewhere.items()):
            spans = Spans()
            for peer in peers:
                spans.add(peer.prefixes, peer.name)
            self._elsewhere.append((link, {peer.name: peer.label for peer in peers}, spans))
        self._peers: Dict[str, Peer] = {}
        self._keys: Dict[str, str] = {}
        self._identities: Dict[str, str] = {}
        self._prefixes = Spans()
        self._outers = Spans()

    @property
    def peers(self) -> Tuple[Peer, ...]:
        return tuple(peer for _, peer in sorted(self._peers.items()))

    def of(self, name: str) -> Optional[Peer]:
        """Return a peer with what it holds, or None if it holds nothing."""
        return self._peers.get(name)

    def hold(self, peer: Peer) -> None:
        """Reserve what a peer has, and free what it held before."""
        self._release(peer.name)
        self._peers[peer.name] = peer
        self._prefixes.add(peer.prefixes, peer.name)
        for key in peer.public_keys():
            self._keys[key] = peer.name
        if peer.identity:
            self._identities[peer.identity] = peer.name
        if peer.endpoint:
            self._outers.add([fields.host_network(peer.endpoint[0])], peer.name)

    def _release(self, name: str) -> None:
        peer = self._peers.pop(name, None)
        if peer is None:
            return
        self._prefixes.remove(peer.prefixes, name)
        for key in peer.public_keys():
            del self._keys[key]
        if peer.identity:
            del self._identities[peer.identity]
        if peer.endpoint:
            self._outers.remove([fields.host_network(peer.endpoint[0])], name)

    def check(self, peer: Peer) -> None:
        """Raise InputError if a peer asks for something that another peer holds."""
        before = self._peers.get(peer.name)
        held = before.prefixes if before is not None else ()
        for prefix in peer.prefixes:
            others = self._others(peer, self._prefixes.overlapping(prefix))
            if others and not self._pair(peer, others):
                raise InputError(
                    peer.label,
                    "{} is already in use by {}".format(prefix, others[0].label),
                    "prefixes of its own",
                )
            for link, labels, spans in self._elsewhere:
                for name in spans.overlapping(prefix) if prefix not in held else ():
                    raise InputError(
                        peer.label,
                        "{} is already in use by {} on {}".format(prefix, labels[name], link),
                        "prefixes of its own",
                    )
        for other in self._crossing(peer):
            raise InputError(
                peer.label,
                "the outer address of one is the inner one of {}".format(other.label),
                "addresses of its own",
            )
        for table, what, allowed in (
            (self._identities, "IKE identity", "an identity of its own"),
            (self._keys, "key", "its own key"),
        ):
            texts = (peer.identity,) if table is self._identities else peer.public_keys()
            for other in self._others(peer, [table[text] for text in texts if text in table]):
                raise InputError(
                    peer.label,
                    "its {} is already in use by {}".format(what, other.label),
                    allowed,
                )

    def _others(self, peer: Peer, names: List[str]) -> List[Peer]:
        return [self._peers[name] for name in names if name != peer.name]

    def _crossing(self, peer: Peer) -> List[Peer]:
        """Return peers whose prefixes cover this peer's endpoint, or the other way round."""
        names: List[str] = []
        for prefix in peer.prefixes:
            names += self._outers.overlapping(prefix)
        if peer.endpoint:
            names += self._prefixes.overlapping(fields.host_network(peer.endpoint[0]))
        return self._others(peer, names)

    def _pair(self, peer: Peer, others: List[Peer]) -> bool:
        """Tell whether a peer and the holders of its prefix are a gateway pair.

        The operator declares the pair by the outer addresses of its two members. The members' own
        data do not make a pair: we connect to the declared address, and the gateway there proves
        that it has the key offered with this address. Both must have the same inner address and the
        same prefixes: charon uses the newest tunnel only if both have the same traffic selectors.
        In clear, both have the same outer address, which moves between them.
        """
        if len(others) != 1 or peer.prefixes != others[0].prefixes:
            return False
        outers = [p.endpoint[0] for p in (peer, others[0]) if p.endpoint]
        apart = peer.technology == NONE or len(set(outers)) == 2
        return len(outers) == 2 and apart and self._pair_at.issuperset(outers)


def used_pool(
    pool: Sequence[fields.IPNetwork], peers: Sequence[Peer]
) -> Tuple[fields.IPNetwork, ...]:
    """Return the pool if a peer gets an address from it, else ()."""
    return tuple(pool) if any(peer.asks for peer in peers) else ()
