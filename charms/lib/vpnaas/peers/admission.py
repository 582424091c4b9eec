"""Admission: decides which peers a link gets.

Other parties write the databags that offers come from. So admission first reserves the addresses,
prefixes and keys of running peers, and then looks at new offers. No offer can take them from a
running peer. A peer with unacceptable data keeps its applied configuration.
"""

from typing import Dict, List, Mapping, Optional, Sequence, Tuple

import attr

from vpnaas.base import fields
from vpnaas.base.errors import InputError
from vpnaas.base.fields import digest
from vpnaas.base.links import (
    IPSEC,
    KEEPALIVE,
    KEYED,
    NONE,
    REQUIRER,
    ipsec_interface,
    wireguard_interface,
)
from vpnaas.params import pools
from vpnaas.params.intent import REQUIRE, LinkParams, ManualPeer, key_form
from vpnaas.params.ipsec import OPERATED, PSK
from vpnaas.peers import same_address
from vpnaas.peers.claims import Claims
from vpnaas.peers.inputs import Beside, LinkInputs, Network
from vpnaas.peers.leases import Addresses, Asker, grant
from vpnaas.peers.offer import KeyOffer, Offer, Remote
from vpnaas.peers.peer import Agreed, Peer
from vpnaas.vdu import facts
from vpnaas.vdu.facts import VduFacts

_POOL = (
    "a pool with enough addresses in the subnet of the gateway's inner-address, for related peers"
)


@attr.frozen
class Proof:
    """State of a peer that authenticates itself by certificates."""

    certificate: str = ""  # Name of the certificate of its key in use, "" if it has none yet.
    next_certificate: str = ""  # The same for its next key.
    waiting: str = ""  # What it waits for if it has no certificate.
    refused: str = ""  # Why the certificate of its key in use is not valid.
    problems: Tuple[str, ...] = ()  # Sentences on further problems.
    keep: bool = True  # Whether its applied configuration may stay.


@attr.frozen
class Context:
    """Input to the admission of peers of one link."""

    inputs: LinkInputs
    applied: Tuple[Peer, ...] = ()  # Peers of the last successful reconcile.
    manual: Tuple[ManualPeer, ...] = ()
    own_keys: Tuple[str, ...] = ()  # Our public key and the staged one, "" for none.
    # Agreement on the preshared key by peer name.
    agreed: Mapping[str, Agreed] = attr.Factory(dict)
    # State of the peers' certificates by peer name, None for a link without certificates.
    proofs: Optional[Mapping[str, Proof]] = None
    # Pool addresses of the related peers that ask for one, by peer name.
    leases: Mapping[str, Addresses] = attr.Factory(dict)
    # Where routes of others lead that those of peers would replace, by prefix.
    routes: Mapping[fields.IPNetwork, str] = attr.ib(
        init=False, default=attr.Factory(lambda self: _others(self.inputs), takes_self=True)
    )

    @property
    def params(self) -> LinkParams:
        return self.inputs.params

    @property
    def vdu(self) -> VduFacts:
        return self.inputs.vdu

    @property
    def beside(self) -> Beside:
        return self.inputs.charm_state.beside


@attr.frozen
class Admission:
    """The outcome."""

    peers: Tuple[Peer, ...]  # What the link gets, by name.
    problems: Tuple[str, ...]  # Sentences, each a reason why a peer is not as requested.
    waiting: Tuple[str, ...]  # Reasons that go away by themselves.
    offers: Mapping[str, Offer]  # Offers that could be read, by peer name.
    leases: Mapping[str, Addresses] = attr.Factory(dict)  # As in `Context`.


@attr.frozen
class _Request:
    """Request of one peer, checked without regard to the other peers."""

    name: str
    peer: Optional[Peer] = None  # The requested peer, None if it is refused or has to wait.
    keep: bool = False  # Whether its applied configuration may stay.
    problems: Tuple[str, ...] = ()
    waiting: Tuple[str, ...] = ()
    offer: Optional[Offer] = None  # Its offer, None if there is none or it cannot be read.


def admit(context: Context) -> Admission:
    """Decide which peers a link has.

    Raises:
        InputError: The parameters of the link cannot work on this VDU. For example, its inner
            subnet would route the management network into the tunnel.
    """
    underlays = _underlays(context)
    # A link that runs goes on: the network function has to give way.
    running = context.vdu.is_local(context.params.inner_address.ip)
    others = underlays if running else underlays + list(context.beside.networks)
    for name, network in others if not context.params.is_outer else ():
        if fields.overlaps(context.params.inner_address.network, network):
            raise InputError(
                "configure: inner-address",
                "{} overlaps {} of {}".format(context.params.inner_address, network, name),
                "a subnet that is on none of the VDU's own networks",
            )
    for name, network in others:
        for given in context.params.given[1:]:
            if fields.overlaps(fields.host_network(given), network):
                raise InputError(
                    "assigned-addresses",
                    "{} is one of {} of {}".format(given, network, name),
                    "addresses that are on none of the VDU's own networks",
                )
    _check_capture(context)
    # In clear, no end connects first, so the gateway pair may be at either end.
    keyed = context.params.technology != NONE
    if context.params.standby_gateways and keyed and context.inputs.role != REQUIRER:
        raise InputError(
            "configure: standby-gateways",
            "the peers of {} are not gateways: they connect to this VNF".format(
                context.params.link
            ),
            "none",
        )
    pools.check(
        context.params.ipsec.pool,
        (fields.host_network(context.params.inner_address),) + context.params.allowed_prefixes,
        underlays + list(context.beside.networks),
    )
    remotes = sorted(context.inputs.remotes, key=lambda remote: remote.relation_id)
    context = attr.evolve(context, leases=_leases(context, remotes))
    # Manual peers come first, because the operator added them.
    requests = [_manual(context, manual) for manual in context.manual]
    requests += [_related(context, remote) for remote in remotes]
    claims = Claims(context.params.standby_gateways, context.inputs.elsewhere)
    problems = [problem for request in requests for problem in request.problems]
    problems += _reserve(context, claims, requests, underlays)
    problems += _grant(context, claims, requests, underlays)
    waiting = [sentence for request in requests for sentence in request.waiting]
    if not claims.peers and all(remote.declined for remote in remotes):
        waiting.append(
            "every related peer has switched this link off" if remotes else "no peer is related"
        )
    offers = {request.name: request.offer for request in requests if request.offer is not None}
    return Admission(claims.peers, tuple(problems), tuple(waiting), offers, context.leases)


def _check_capture(context: Context) -> None:
    """Raise InputError if a new inner subnet would draw the charm's login into the tunnel.

    A gateway chooses the subnet of the addresses that it gives. So this subnet must not contain
    peers of other links either, and it has a largest size.
    """
    params, login = context.params, context.vdu.login
    if params.technology not in KEYED:
        return
    for address in params.given or (params.inner_address,):
        # What the VDU has already stays: the login and the other peers get through.
        if any(address in interface.addresses for interface in context.vdu.interfaces.values()):
            continue
        where = "assigned-addresses" if params.given else "configure: inner-address"
        if login is not None and login in address.network:
            raise InputError(
                where,
                "the subnet of {} contains {}, from where OSM logs in".format(address, login),
                "a subnet without it",
            )
        if not params.given:
            continue
        if address.network.prefixlen < pools.WIDEST[address.version]:
            raise InputError(
                where,
                "the subnet of {} is too wide".format(address),
                "a prefix length of at least {}".format(pools.WIDEST[address.version]),
            )
        for link, ends in sorted(context.inputs.ends().items()):
            for end in ends:
                if end in address.network:
                    raise InputError(
                        where,
                        "the subnet of {} contains {} of a peer of {}".format(address, end, link),
                        "a subnet without it",
                    )


def _pool_refusal(context: Context) -> str:
    """Return why related peers cannot get addresses from the link, "" if they can."""
    params = context.params
    first = [prefix for prefix in params.ipsec.pool if prefix.version == 4]
    if not first or context.inputs.role == REQUIRER:
        return "the link has no pool of IPv4 here"
    if any(manual.asks for manual in context.manual):
        return "the pool of the link is for its manual peers"
    if not fields.covers(params.inner_address.network, first[0]):
        return "the pool {} is not in {}".format(first[0], params.inner_address.network)
    return ""


def _leases(context: Context, remotes: Sequence[Remote]) -> Mapping[str, Addresses]:
    """Return the pool addresses of related peers that ask for one, by peer name."""
    if _pool_refusal(context):
        return {}
    applied = {peer.name: peer.given for peer in context.applied}
    askers = []
    for remote in remotes:
        if remote.request and not remote.declined:
            offer = remote.offer
            own = ([offer.inner_address] if offer else []) + [
                prefix.network_address
                for prefix in (offer.allowed_prefixes if offer else ())
                if any(fields.covers(pool, prefix) for pool in context.params.ipsec.pool)
                and prefix.prefixlen == prefix.max_prefixlen
            ]
            had = applied.get(remote.peer_name, ())
            askers.append(Asker(remote.peer_name, remote.label, remote.request, tuple(own), had))
    return grant(context.params.ipsec.pool, [context.params.inner_address.ip], askers)


def _reserve(
    context: Context, claims: Claims, requests: Sequence[_Request], underlays: Sequence[Network]
) -> List[str]:
    """Reserve the resources of running peers; return why those without a request cannot stay."""
    problems = []
    # A peer applied under another technology does not count as running: a WireGuard peer must not
    # continue in clear.
    running = {
        peer.name: peer
        for peer in context.applied
        if peer.technology == context.params.technology
        and bool(peer.certificate) == (context.proofs is not None)
        and digest(peer.public_key) not in context.inputs.revoked
    }
    for request in requests:
        peer = running.get(request.name)
        if peer is None or not request.keep:
            continue
        try:
            _check_own(context, peer, underlays)
            claims.check(peer)
            claims.hold(peer)
        except InputError as error:
            if request.peer is None:
                problems.append(str(error))
    return problems


def _grant(
    context: Context, claims: Claims, requests: Sequence[_Request], underlays: Sequence[Network]
) -> List[str]:
    """Reserve what peers request, running peers first, then former ones; return the refusals.

    A refused request is checked again, because a running peer may have freed a resource.
    """
    requested = [request.peer for request in requests if request.peer is not None]
    # They survive a heal. So the new VDU knows which peer had a prefix first.
    held = context.inputs.charm_state.holdings.get(context.params.link, {})

    def turn(peer: Peer) -> int:
        if claims.of(peer.name) is not None:
            return 0
        return 1 if held.get(peer.name) == peer.holdings() else 2

    requested.sort(key=turn)
    problems: List[str] = []
    while requested:
        problems, refused, freed = [], [], False
        for peer in requested:
            before = claims.of(peer.name)
            try:
                _check_own(context, peer, underlays)
                claims.check(peer)
                claims.hold(peer)
                freed = freed or before is not None
            except InputError as error:
                problems.append(str(error))
                refused.append(peer)
        requested = refused if freed else []
    return problems


def _manual(context: Context, manual: ManualPeer) -> _Request:
    name = manual.peer_name
    try:
        proof = (context.proofs or {}).get(name, Proof())
        if manual.stored and context.params.ipsec.credentials != PSK:
            raise InputError(
                manual.name, "its preshared key comes from a store", "credentials psk; add it again"
            )
        if bool(manual.public_key or manual.stored) != (context.proofs is None):
            raise InputError(
                manual.name,
                "it has {}".format("a public key" if manual.public_key else "a certificate"),
                "the kind that the credentials of the link need; add it again",
            )
        if context.proofs is not None and not proof.certificate:
            if not proof.waiting:
                raise InputError(
                    manual.name,
                    "no authority of its certificate is known",
                    "a link with credentials {}, {} or {}".format(*OPERATED),
                )
            return _Request(name, keep=proof.keep, waiting=(proof.waiting,))
        if manual.asks and not context.params.ipsec.pool:
            raise InputError(manual.name, "the link has no pool", "the option pool")
        preshared = ""
        if context.params.technology == IPSEC and context.params.ipsec.credentials == PSK:
            agreed = context.agreed.get(name, Agreed(None)).identity
            if agreed is None:
                return _Request(
                    name,
                    waiting=(
                        "{}: waiting for its preshared key{}".format(
                            manual.name, ", see fetch-preshared-key" if manual.stored else ""
                        ),
                    ),
                )
            preshared = agreed
        peer = attr.evolve(
            _from_manual(manual, context.params.technology, proof), preshared=preshared
        )
        _check_endpoint(context, peer)
        return _Request(name, peer, keep=True)
    except InputError as error:
        return _Request(name, keep=True, problems=(str(error),))


def _related(context: Context, remote: Remote) -> _Request:
    name, offer = remote.peer_name, remote.offer
    if remote.declined:
        return _Request(name)
    if remote.problem:
        return _Request(name, keep=True, problems=(remote.problem,))
    if remote.request and name not in context.leases:
        reason = _pool_refusal(context) or "the pool has no free address left"
        error = InputError(remote.label, "it asks for an address: {}".format(reason), _POOL)
        return _Request(name, keep=True, problems=(str(error),), offer=offer)
    if offer is None:
        return _Request(name, waiting=("waiting for {}".format(remote.label),))
    used, reason = _unrevoked(context, remote, offer)
    if reason:
        return _Request(name, waiting=(reason,), offer=offer)
    proof = _proof(context, name, offer, used)
    request = _Request(name, keep=True, problems=proof.problems, offer=offer)
    same_proof = used.keys and used.keys.credentials == context.params.ipsec.proof
    if context.proofs is not None and same_proof and not proof.certificate:
        if proof.refused:
            problems = proof.problems + (proof.refused,)
            return attr.evolve(request, keep=proof.keep, problems=problems)
        reason = proof.waiting or "waiting for {}".format(remote.label)
        return attr.evolve(request, keep=proof.keep, waiting=(reason,))
    # Either end may require a preshared key. One peer does not bind the other peers of the link.
    required = used.keys is not None and (used.keys.preshared or context.params.needs_preshared)
    agreed = context.agreed.get(name, Agreed(None)) if required else Agreed("")
    if agreed.identity is None and agreed.lacking:
        return _without_quantum(context, request, remote, agreed)
    if agreed.identity is None:
        reason = "waiting for the preshared key with {}".format(remote.label)
        return attr.evolve(request, waiting=(reason,))
    try:
        peer = _from_offer(context, remote, used, agreed.identity, proof)
        if remote.request and not set(map(fields.host_network, peer.given)).issubset(peer.prefixes):
            text = "waiting for {} to take {}".format(
                remote.label, fields.few([str(address) for address in peer.given])
            )
            return attr.evolve(request, waiting=(text,))
        _check_endpoint(context, peer)
        note = "no post-quantum key with {}: {}".format(remote.label, agreed.lacking)
        return attr.evolve(request, peer=peer, waiting=(note,) if agreed.lacking else ())
    except InputError as error:
        return attr.evolve(request, problems=proof.problems + (str(error),))


def _without_quantum(
    context: Context, request: _Request, remote: Remote, agreed: Agreed
) -> _Request:
    """Refuse a peer if an end requires a post-quantum key and there can be none."""
    # A running peer stays only if it has a post-quantum key.
    keep = any(peer.name == request.name and peer.hybrid for peer in context.applied)
    if context.params.post_quantum == REQUIRE:
        error = InputError(
            remote.label,
            "no post-quantum key: {}".format(agreed.lacking),
            "ML-KEM at both ends, or post-quantum: prefer",
        )
        return attr.evolve(request, keep=keep, problems=request.problems + (str(error),))
    reason = "{} requires a post-quantum key: {}".format(remote.label, agreed.lacking)
    return attr.evolve(request, keep=keep, waiting=(reason,))


def _check_endpoint(context: Context, peer: Peer) -> None:
    reason = context.inputs.refused.get(peer.name)
    if reason is not None:
        raise InputError(peer.label, *reason)


def _unrevoked(context: Context, remote: Remote, offer: Offer) -> Tuple[Offer, str]:
    """Return the offer without a revoked key, and why no other key is left ("" if one is)."""
    keys = offer.keys
    if keys is None or digest(keys.public_key) not in context.inputs.revoked:
        return offer, ""
    following = keys.next_public_key
    if not following or digest(following) in context.inputs.revoked:
        return offer, "{}: its key was revoked; rotate-keys at that end makes another".format(
            remote.label
        )
    promoted = attr.evolve(
        keys,
        public_key=following,
        next_public_key="",
        key_generation=keys.key_generation + 1,
    )
    return attr.evolve(offer, keys=promoted), ""


def _proof(context: Context, name: str, offered: Offer, used: Offer) -> Proof:
    proof = (context.proofs or {}).get(name, Proof())
    if offered is used:
        return proof
    return attr.evolve(proof, certificate=proof.next_certificate, next_certificate="", refused="")


def _from_manual(manual: ManualPeer, technology: str, proof: Proof) -> Peer:
    if not proof.certificate and not manual.stored:
        key_form(technology)("{}: its key".format(manual.name), manual.public_key)
    return Peer(
        name=manual.peer_name,
        label=manual.name,
        prefixes=manual.allowed_prefixes,
        technology=technology,
        public_key=manual.public_key,
        identity=manual.identity if technology == IPSEC else "",
        endpoint=manual.endpoint,
        keepalive=manual.keepalive_seconds,
        certificate=proof.certificate,
    )


def _from_offer(
    context: Context, remote: Remote, offer: Offer, preshared: str, proof: Proof
) -> Peer:
    params = context.params

    def at(what: str) -> str:
        return "{}: {}".format(remote.label, what)

    if offer.technology != params.technology:
        raise InputError(
            at("technology"),
            "it uses {} on {}".format(offer.technology, params.link),
            "{}, as on this side".format(params.technology),
        )
    outer = offer.endpoint[0] if offer.endpoint else offer.inner_address
    if offer.inner_address not in params.inner_address.network and not same_address.fits(
        params, offer.inner_address, outer
    ):
        raise InputError(
            at("inner-address"),
            "{} is outside our inner subnet".format(offer.inner_address),
            str(params.inner_address.network),
        )
    given = context.leases.get(remote.peer_name, ())
    for prefix in offer.allowed_prefixes:
        if prefix in [fields.host_network(address) for address in given]:
            continue
        if not any(fields.covers(outer, prefix) for outer in params.accept_prefixes):
            raise InputError(
                at("allowed-prefixes"),
                "{} is not accepted here".format(prefix),
                fields.show_networks(params.accept_prefixes)
                or "none, see accept-prefixes of configure",
            )
    if offer.endpoint and offer.endpoint[0] in params.inner_address.network:
        raise InputError(
            at("endpoint-address"),
            "{} lies inside the tunnel".format(offer.endpoint[0]),
            "an address of the underlay",
        )
    if params.technology == NONE and not offer.endpoint:
        raise InputError(at("endpoint-address"), "none given", "an address of the underlay")
    if params.technology == NONE and offer.endpoint and offer.endpoint[0].version == 4:
        for prefix in offer.prefixes():
            if prefix.version == 6:
                raise InputError(
                    at("endpoint-address"),
                    "{} does not lead to {} in clear".format(offer.endpoint[0], prefix),
                    "an IPv6 address of the underlay, or a tunnel",
                )
    keys = offer.keys or KeyOffer("")
    if params.technology == IPSEC:
        for what, theirs, ours in (
            ("proposal", keys.proposal, params.ipsec.proposal.text),
            ("credentials", keys.credentials, params.ipsec.proof),
        ):
            if theirs != ours:
                raise InputError(at(what), "it has {}".format(theirs), ours + ", as on this side")
    return Peer(
        name=remote.peer_name,
        label=remote.label,
        prefixes=offer.prefixes(),
        technology=offer.technology,
        inner_address=offer.inner_address,
        public_key=keys.public_key,
        next_public_key=_next_key(context, keys, proof),
        identity=keys.identity,
        endpoint=offer.endpoint,
        keepalive=_keepalive(params, context.vdu),
        mtu=offer.mtu,
        preshared=preshared,
        reached=bool(context.own_keys) and context.own_keys[0] in keys.acknowledged,
        certificate=proof.certificate,
        next_certificate=proof.next_certificate,
        proposal=params.ipsec.proposal.text if params.technology == IPSEC else "",
        given=given,
        generation=keys.key_generation if offer.keys else 0,
    )


def _next_key(context: Context, keys: KeyOffer, proof: Proof) -> str:
    """Return a peer's next key, "" if it still lacks a certificate or was revoked."""
    known = context.proofs is None or bool(proof.next_certificate)
    revoked = digest(keys.next_public_key) in context.inputs.revoked
    return keys.next_public_key if known and not revoked else ""


def _keepalive(params: LinkParams, vdu: VduFacts) -> int:
    if params.technology == NONE:
        # A link in clear sends no keepalives. Our gateway address may move between the members of a
        # pair, and the applied state must not depend on that.
        return 0
    if params.keepalive >= 0:
        return params.keepalive
    behind_nat = params.gateway is not None and not vdu.is_local(params.gateway)
    return KEEPALIVE if behind_nat else 0


def _check_own(context: Context, peer: Peer, underlays: Sequence[Network]) -> None:
    """Raise InputError if a peer would take an address, a prefix or a key of ours."""
    own = fields.host_network(context.params.inner_address)
    login = context.vdu.login
    held = {prefix for p in context.applied if p.name == peer.name for prefix in p.prefixes}
    apart, _ = same_address.split([peer])
    for prefix in peer.prefixes:
        # With a prefix that it has already, the login gets through.
        if login is not None and login in prefix and prefix not in held:
            raise InputError(
                peer.label,
                "{} contains {}, from where OSM logs in".format(prefix, login),
                "prefixes without it",
            )
        if fields.overlaps(prefix, own):
            raise InputError(
                peer.label, "{} covers our own inner address".format(prefix), "other addresses"
            )
        used = [
            (name, network, "prefixes that are not on the VDU's own networks")
            for name, network in underlays
            if not same_address.may_be_on(context.params, peer, prefix, name)
        ]
        used += [
            (name, network, "prefixes that no network function of the VDU uses")
            for name, network in (context.beside.networks if prefix not in held else ())
        ]
        used += [
            ("link " + link, network, "prefixes that no other link of this VNF has")
            for link, networks in sorted(context.inputs.taken().items())
            for network in networks
        ]
        for owner, network, allowed in used:
            if fields.overlaps(prefix, network):
                what = "{} overlaps {} of {}".format(prefix, network, owner)
                raise InputError(peer.label, what, allowed)
        way = context.routes.get(prefix, "") if prefix in apart else ""
        # A running tunnel keeps its prefix, whoever has replaced its route.
        running = prefix in held and context.vdu.is_local(context.params.inner_address.ip)
        if way and not running:
            raise InputError(
                peer.label,
                "the VDU has a route of somebody else to {} by {}".format(prefix, way),
                "prefixes without one; `ip route del {}` takes it away".format(prefix),
            )
        for pool in context.params.ipsec.pool:
            own_lease = prefix in [fields.host_network(address) for address in peer.given]
            if fields.overlaps(prefix, pool) and not own_lease:
                raise InputError(
                    peer.label, "{} overlaps our pool {}".format(prefix, pool), "other addresses"
                )
    for name, network in context.beside.networks if peer.endpoint and not held else ():
        if peer.endpoint and peer.endpoint[0] in network:
            raise InputError(
                peer.label,
                "its endpoint {} is one of {} of {}".format(peer.endpoint[0], network, name),
                "an address of the underlay",
            )
    if same_address.is_same(peer) and context.vdu.is_local(peer.endpoint[0]):  # type: ignore[index]
        raise InputError(peer.label, "its address is one of this VDU", "an address of its own")
    if any(key in context.own_keys for key in peer.public_keys()):
        raise InputError(peer.label, "its key is already in use by this VNF", "its own key")


def _interfaces(inputs: LinkInputs) -> Tuple[str, ...]:
    """Return the names that interfaces of links have; others may have a tunnel of theirs."""
    names = (wireguard_interface, ipsec_interface)
    return tuple(name(link) for link in inputs.charm_state.roles for name in names)


def _others(inputs: LinkInputs) -> Dict[fields.IPNetwork, str]:
    """Return where routes of others lead by prefix, as far as the link may have a route to it."""
    results, keyed = inputs.results, inputs.params.technology in KEYED
    # The routes of links in clear lead over an underlay.
    ids = [link + end for link in inputs.charm_state.roles for end in ("/up", "/other/none")]
    clear = "".join(results.text(id) or "" for id in ids)
    subnet = inputs.params.inner_address.network
    return {
        prefix: way
        for prefix, way in facts.replaced(results, _interfaces(inputs)).items()
        if not (keyed and fields.covers(subnet, prefix))
        and "route replace {} via ".format(prefix) not in clear
    }


def _underlays(context: Context) -> List[Network]:
    """Return the VDU's own networks, which no tunnel may capture; empty for a link in clear."""
    if context.params.technology not in KEYED:
        return []
    return context.vdu.networks(_interfaces(context.inputs) + context.beside.devices)
