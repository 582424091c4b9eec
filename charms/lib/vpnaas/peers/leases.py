"""Addresses that a gateway reserves in its pool for related peers, such as small cells.

The gateway's charm chooses the addresses and publishes them in the relation. IKEv2's configuration
payload (RFC 7296 section 2.19) then assigns exactly these. A peer keeps its addresses: first what
our VDU and its offer agree on, then what it offers, then what our VDU has. A cell offers its
addresses to both gateways of a pair, so both come to the same ones. A new peer gets addresses that
depend on its name, so both gateways mostly choose the same ones at once.
"""

import zlib
from typing import (
    Collection,
    Dict,
    FrozenSet,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
)

import attr

from vpnaas.base import fields
from vpnaas.base.errors import InputError
from vpnaas.base.fields import digest
from vpnaas.base.links import REQUIRER
from vpnaas.params import pools
from vpnaas.params.intent import Intent, LinkParams, conflicting
from vpnaas.peers.offer import Remote, assigned, show_assigned

Addresses = Tuple[fields.IPAddress, ...]
Gift = Tuple[fields.IPInterface, ...]
"""Addresses with the prefix length of their subnet, as a gateway gives them."""
MOST = 1 << 20
"""Limit of the addresses of a pool that the search looks at."""
_KEPT = "peer relation: given-addresses"


@attr.frozen
class Asker:
    """A related peer that asks for addresses."""

    name: str  # Its name as a peer.
    label: str  # Its name for people, which both gateways of a pair know.
    request: pools.Request  # IP versions of the addresses that it asks for.
    offered: Addresses = ()  # Addresses of the pool that it offers as its own.
    applied: Addresses = ()  # Addresses that it has on our VDU.

    @property
    def claims(self) -> Tuple[Addresses, ...]:
        """Return what it may keep, the strongest claim first: what it has and also offers."""
        both: Addresses = self.applied if self.applied == self.offered else ()
        return both, self.offered, self.applied


def grant(
    pool: Sequence[fields.IPNetwork], reserved: Iterable[fields.IPAddress], askers: Sequence[Asker]
) -> Dict[str, Addresses]:
    """Return the addresses of each peer by name, without the peers that the pool has no room for.

    The pool has at most one prefix per IP version. Nobody may have `reserved` addresses. An
    earlier asker has precedence.
    """
    prefixes: Dict[int, fields.IPNetwork] = {prefix.version: prefix for prefix in pool}
    used: Set[fields.IPAddress] = set(reserved)
    granted: Dict[str, Addresses] = {}

    def fits(addresses: Addresses, request: pools.Request) -> bool:
        return (
            tuple(address.version for address in addresses) == request
            and len(set(addresses)) == len(addresses)
            and used.isdisjoint(addresses)
            and all(a.version in prefixes and _host(prefixes[a.version], a) for a in addresses)
        )

    # A peer that has an address and offers it keeps it, whatever another peer offers.
    for turn in range(3):
        for asker in askers:
            addresses = asker.claims[turn]
            if asker.name not in granted and addresses and fits(addresses, asker.request):
                granted[asker.name] = addresses
                used.update(addresses)
    for asker in askers:
        if asker.name in granted:
            continue
        free: List[fields.IPAddress] = []
        for version in asker.request:
            address = _free(prefixes.get(version), asker.label, used.union(free))
            free += [address] if address is not None else []
        if len(free) == len(asker.request):
            granted[asker.name] = tuple(free)
            used.update(free)
    return granted


def _host(prefix: fields.IPNetwork, address: fields.IPAddress) -> bool:
    """Tell whether an address is in a prefix and can be that of a host."""
    return address in prefix and address not in (prefix.network_address, prefix.broadcast_address)


def _free(
    prefix: Optional[fields.IPNetwork], label: str, used: Set[fields.IPAddress]
) -> Optional[fields.IPAddress]:
    """Return a free address of a prefix; the search starts at a place given by the label."""
    if prefix is None:
        return None
    hosts = min(prefix.num_addresses - 2, MOST)
    start = zlib.crc32(label.encode("utf-8")) % hosts
    for step in range(hosts):
        address = prefix.network_address + 1 + (start + step) % hosts
        if address not in used:
            return address
    return None


def interfaces(params: LinkParams, addresses: Addresses) -> Tuple[fields.IPInterface, ...]:
    """Return addresses of a link's pool with the prefix length that the peer configures."""
    subnet = params.inner_address.network
    return tuple(
        fields.interface_address(
            "pool", "{}/{}".format(a, subnet.prefixlen if a in subnet else a.max_prefixlen)
        )
        for a in addresses
    )


# The end that asks


@attr.frozen
class Asking:
    """A link that has no address yet."""

    params: LinkParams
    problem: str = ""  # Why the addresses from the gateway cannot be used, "" without addresses.
    refused: bool = False  # Whether the parameters themselves cannot work.


def resolved(
    intent: Intent,
    roles: Mapping[str, str],
    remotes: Mapping[str, Sequence[Remote]],
    kept: Mapping[str, str],
    running: Optional[Mapping[str, Collection[str]]] = None,
) -> Tuple[Intent, Dict[str, Asking]]:
    """Return the intent with the addresses that gateways give, and the links that have none.

    The addresses in force stay as long as a gateway with a tunnel gives them, and as long as no
    others can be used. Others must be given by all gateways with a tunnel. At first, the gateway
    with the lowest relation id decides, unless its keys are revoked.

    Args:
        intent: What the operator asks for.
        roles: "provider" or "requirer" by link.
        remotes: Related applications by link.
        kept: Addresses in force of each link, as text of `offer.show_assigned`.
        running: Names of the peers with a tunnel by link, as far as known.
    """
    links = dict(intent.links)
    asking: Dict[str, Asking] = {}
    for link, params in sorted(intent.links.items()):
        if not params.request:
            continue
        del links[link]
        if roles.get(link) != REQUIRER:
            refusal = InputError(
                "configure: inner-address",
                "the peers of {} connect to this VNF, none of them has a pool".format(link),
                "an address with prefix length, or none",
            )
            asking[link] = Asking(params, str(refusal), refused=True)
            continue
        revoked = frozenset(intent.revoked.get(link, ()))
        related = sorted(remotes.get(link, ()), key=lambda remote: _rank(remote, revoked))
        gifts: Dict[str, Gift] = {}
        refusals: List[str] = []
        differing: List[str] = []
        for remote in related:
            given = remote.offer.assigned if remote.offer is not None else ()
            try:
                if given:
                    _check_peers(given, remotes)
                    conflicting(with_addresses(params, given), links)
                    gifts[remote.peer_name] = given
            except InputError as error:
                refusals.append("{}: {}".format(remote.label, error))
        names = {remote.peer_name for remote in related if not _rank(remote, revoked)[0]}
        if names.intersection(gifts):
            gifts = {name: given for name, given in gifts.items() if name in names}
        answered = gifts or refusals or any(remote.problem for remote in related)
        tunnels = names.intersection((running or {}).get(link, ()))
        try:
            now = assigned(_KEPT, fields.string(_KEPT, kept.get(link, ""))) if answered else ()
            if now:
                now = _usable(params, now, links)
            given = _chosen(now, gifts, tunnels)
            if given:
                for remote in related:
                    if gifts.get(remote.peer_name, given) != given and now == given:
                        what = "{}: it gives {}, not {}, which is in force"
                        theirs = show_assigned(gifts[remote.peer_name])
                        differing.append(what.format(remote.label, theirs, show_assigned(given)))
                links[link] = attr.evolve(
                    with_addresses(params, given),
                    refused_gifts=tuple(refusals),
                    other_gifts=tuple(differing),
                )
                continue
        except InputError as error:
            refusals.append(str(error))
        asking[link] = Asking(params, refusals[0] if refusals else "")
    return attr.evolve(intent, links=links), asking


def _usable(params: LinkParams, given: Gift, links: Mapping[str, LinkParams]) -> Gift:
    """Return the addresses in force, () if they do not fit the parameters any more."""
    try:
        conflicting(with_addresses(params, given), links)
    except InputError:
        return ()
    return given


def _chosen(now: Gift, gifts: Mapping[str, Gift], tunnels: Collection[str]) -> Gift:
    """Return the addresses to use, () without any.

    `now` are those in force, `gifts` what each gateway gives (the one that decides first),
    `tunnels` the names of the peers with a tunnel.
    """
    givers = {name for name, given in gifts.items() if given == now}
    if now and (givers.intersection(tunnels) or (givers and not tunnels)):
        return now
    for given in gifts.values():
        if not now or all(gifts.get(name) == given for name in tunnels):
            return given
    return now


def _check_peers(given: Gift, remotes: Mapping[str, Sequence[Remote]]) -> None:
    """Raise InputError for addresses that would take a related peer's own."""
    where = "assigned-addresses"
    for link, each in sorted(remotes.items()):
        for remote in each:
            if remote.offer is None:
                continue
            for address in given:
                if address.ip == remote.offer.inner_address:
                    raise InputError(
                        where,
                        "{} is the inner address of {} of {}".format(address, remote.label, link),
                        "an address that nobody else has",
                    )
                if remote.offer.endpoint and remote.offer.endpoint[0] in address.network:
                    raise InputError(
                        where,
                        "the subnet of {} contains {} of {} of {}".format(
                            address, remote.offer.endpoint[0], remote.label, link
                        ),
                        "a subnet without the outer addresses of peers",
                    )


def _rank(remote: Remote, revoked: FrozenSet[str]) -> Tuple[bool, int]:
    """Return the place of a gateway among those that may decide: those with revoked keys last."""
    keys = remote.offer.keys if remote.offer is not None else None
    offered = (
        {digest(key) for key in (keys.public_key, keys.next_public_key) if key} if keys else ()
    )
    return bool(offered) and revoked.issuperset(offered), remote.relation_id


def with_addresses(params: LinkParams, given: Sequence[fields.IPInterface]) -> LinkParams:
    """Return the parameters with addresses from a gateway."""
    where = "assigned-addresses"
    if tuple(address.version for address in given) != params.request:
        raise InputError(
            where,
            "{} was asked for".format(pools.show_request(params.request)),
            "one address for each",
        )
    first, more = given[0], given[1:]
    for address in more:
        alone = address.network.prefixlen == address.max_prefixlen
        if address.ip == first.ip or not (alone or address.network == first.network):
            raise InputError(
                where, "{} beside {}".format(address, first), "another address of the same subnet"
            )
    for prefix in params.accept_prefixes:
        for address in given:
            if fields.overlaps(prefix, fields.host_network(address)):
                raise InputError(
                    where, "{} is in accept-prefixes".format(address), "an address that is not"
                )
    behind = params.allowed_prefixes + tuple(fields.host_network(address) for address in more)
    return attr.evolve(
        params, inner_address=first, allowed_prefixes=fields.ordered(behind), given=tuple(given)
    )
