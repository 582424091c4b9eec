"""What peers of a link have already, for the judgement of the next one."""

from typing import Dict, Iterable, List, Sequence, Tuple

from vpnaas.base import fields
from vpnaas.base.links import NONE
from vpnaas.base.prefixes import Spans
from vpnaas.peers import same_address
from vpnaas.peers.peer import Peer


class Outers:
    """Peers by the addresses that must not be one's inner and another's outer address."""

    def __init__(self, peers: Iterable[Peer] = ()) -> None:
        self._count = 0
        self._outer: Dict[fields.IPAddress, List[Tuple[int, Peer]]] = {}
        self._same: Dict[fields.IPAddress, List[Tuple[int, Peer]]] = {}
        for peer in peers:
            self.add(peer)

    def add(self, peer: Peer) -> None:
        """Add a peer."""
        self._count += 1
        if peer.endpoint:
            self._outer.setdefault(peer.endpoint[0], []).append((self._count, peer))
            if same_address.is_same(peer):
                self._same.setdefault(peer.endpoint[0], []).append((self._count, peer))

    def clashing(self, peer: Peer) -> List[Peer]:
        """Return the peers that `same_address.clash` tells of, in the order they were added."""
        if not peer.endpoint:
            return []
        table = self._outer if same_address.is_same(peer) else self._same
        found = sorted(table.get(peer.endpoint[0], ()), key=lambda item: item[0])
        return [other for _, other in found if other.name != peer.name]


class Taken:
    """Peers that were admitted, in that order, and what they have.

    Args:
        pair: Outer addresses of a declared gateway pair, none where there is no pair.
    """

    def __init__(self, pair: Sequence[fields.IPAddress] = ()) -> None:
        self._pair_at = frozenset(pair)
        self.peers: List[Peer] = []
        self.keys: Dict[str, str] = {}
        """Labels by key."""
        self.identities: Dict[str, str] = {}
        """Labels by IKE identity."""
        self.outers = Outers()
        self._spans = Spans()

    def add(self, peer: Peer) -> None:
        """Admit a peer."""
        self._spans.add(peer.prefixes, len(self.peers))
        self.peers.append(peer)
        self.outers.add(peer)
        for key in peer.public_keys():
            self.keys[key] = peer.label
        if peer.identity:
            self.identities.setdefault(peer.identity, peer.label)

    def overlapping(self, peer: Peer, prefix: fields.IPNetwork) -> Sequence[Peer]:
        """Return the peers that a prefix of another one may not be shared with."""
        found = [self.peers[index] for index in self._spans.overlapping(prefix)]
        return [] if self._pair(peer, found) else found

    def _pair(self, peer: Peer, others: List[Peer]) -> bool:
        """Tell whether a peer and those that have its prefix are a gateway pair.

        The operator declares the pair by the addresses its two members are reached at. What a
        member says of itself counts for nothing: we call the address, and whoever answers there
        proves itself by the key that was offered with it. Both must have the same inner address
        and the same behind them: which of the tunnels is used follows from what is newest only
        where both have the same traffic selectors. In clear both are reached at the address that
        moves between them.
        """
        if len(others) != 1 or peer.prefixes != others[0].prefixes:
            return False
        outers = [p.endpoint[0] for p in (peer, others[0]) if p.endpoint]
        apart = peer.technology == NONE or len(set(outers)) == 2
        return len(outers) == 2 and apart and self._pair_at.issuperset(outers)
