"""The reconcile, as pure functions: situation -> observe -> (prepare) -> plan -> outcome.

The edge does the round trips in between:

    results = vdu(observe_steps(situation))
    results = vdu(prepare_steps(situation, results))   # only while a preshared key is agreed
    plan = make_plan(situation, results)
    after = vdu(plan.steps)                            # only where something differs
    outcome = conclude(plan, after)

Nothing here knows ops, paramiko or files.
"""

from typing import Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

import attr

from . import clear, facts, fields, preshared, responder, wireguard
from .errors import InputError, VpnaasError
from .facts import VduFacts
from .intent import Intent, LinkParams
from .links import NONE, PROVIDER, WIREGUARD, wireguard_interface
from .offer import Offer, WireguardOffer, decode
from .steps import Results, Step, authorize, run, which
from .tunnel import Peer
from .vet import Context, Remote, Vetted, vet

FRESH = 150
"""Seconds a handshake vouches for a peer. WireGuard makes a new one after 120 s of use."""
TOOLS = ("wg", "wg-quick", "ip", "ping", "systemctl", "systemd-run")
PROBE_SECONDS = 2


@attr.frozen
class Situation:
    """All that was gathered in Juju.

    Attributes:
        intent: What the operator asked for.
        roles: "provider" or "requirer" of each link the charm declares.
        remotes: Related applications with units, per link.
        management: Address of the VDU that OSM gave.
        user: Login user on the VDU.
        rotate: Links whose key is to be rotated now.
        force: Switch rotated keys without waiting for acknowledgements.
        restart: Links to take down and up.
        authorize: SSH public keys of our other units, which must be able to take over.
    """

    intent: Intent
    roles: Mapping[str, str]
    remotes: Mapping[str, Tuple[Remote, ...]] = attr.Factory(dict)
    management: Optional[fields.IPAddress] = None
    user: str = ""
    rotate: FrozenSet[str] = frozenset()
    force: bool = False
    restart: FrozenSet[str] = frozenset()
    authorize: Tuple[str, ...] = ()

    def needs_preshared(self, link: str) -> bool:
        """Tell whether either end of a link wants a preshared key."""
        params = self.intent.links[link]
        return params.preshared_key or any(
            offer.wireguard is not None and offer.wireguard.preshared
            for offer in _offers(self, link).values()
        )


@attr.frozen
class LinkPlan:
    """What was decided for one link.

    Attributes:
        params: Its Day-1 parameters.
        unusable: The parameters cannot work on this VDU; the link stays as it is.
        problems: Sentences, each a reason why a peer or the link is not as asked for.
        waiting: Sentences of the same kind that need no operator, only time.
        peers: What the VDU is to have.
        mtu: Of the tunnel, bytes.
        offer: What we tell each relation, by relation id.
        wireguard: State the plan starts from, None for technology none.
    """

    params: LinkParams
    unusable: bool = False
    problems: Tuple[str, ...] = ()
    waiting: Tuple[str, ...] = ()
    peers: Tuple[Peer, ...] = ()
    mtu: int = 0
    offers: Mapping[int, Offer] = attr.Factory(dict)
    state: Optional[wireguard.State] = None
    steps: Tuple[Step, ...] = ()


@attr.frozen
class Plan:
    """What to do on the VDU."""

    now: int
    links: Mapping[str, LinkPlan]
    steps: Tuple[Step, ...]


def observe_steps(situation: Situation) -> List[Step]:
    """Return the one round trip that makes missing keys and looks at everything."""
    steps = [which("tools", TOOLS)] + facts.observe() + wireguard.observe(_secured(situation))
    for link, params in sorted(situation.intent.links.items()):
        if params.technology == NONE:
            steps += clear.observe(link)
            steps.append(_present(link, wireguard.conf_path(link)))
        else:
            steps.append(_present(link, clear.up_file(link)))
            steps += _observe_preshared(situation, link)
        steps += responder.observe(link)
    return steps


def _secured(situation: Situation) -> List[str]:
    links = situation.intent.links.items()
    return sorted(link for link, params in links if params.technology == WIREGUARD)


def _present(link: str, path: str) -> Step:
    return run(link + "/other", "true", only_if=path)


def _observe_preshared(situation: Situation, link: str, prefix: str = "") -> List[Step]:
    if not situation.needs_preshared(link):
        return []
    steps = []
    if situation.roles[link] != PROVIDER:
        steps += preshared.observe_wrap_key(link, prefix)
    for remote in situation.remotes.get(link, ()):
        steps += preshared.observe(link, remote.peer_name, prefix)
    return steps


def prepare_steps(situation: Situation, results: Results) -> List[Step]:
    """Return the steps that move agreements on preshared keys on, with a fresh look; often none."""
    steps: List[Step] = []
    for link in sorted(situation.intent.links):
        for remote, offer, state in _agreements(situation, link, results):
            keys = offer.wireguard
            assert keys is not None  # noqa: S101 - _agreements yields WireGuard offers only
            provider = situation.roles[link] == PROVIDER
            _, act = preshared.agreement(provider, keys.wrap_key, keys.wrapped, state)
            if act and provider and preshared.is_wrap_key(keys.wrap_key):
                steps += preshared.wrap(link, remote.peer_name, keys.wrap_key)
            elif act and not provider:
                steps += preshared.unwrap(link, remote.peer_name, keys.wrapped)
    if steps:
        for link in sorted(situation.intent.links):
            steps += _observe_preshared(situation, link, "again/")
    return steps


def _agreements(
    situation: Situation, link: str, results: Results, prefix: str = ""
) -> List[Tuple[Remote, Offer, preshared.PresharedState]]:
    if not _uses_wireguard(situation, link) or not situation.needs_preshared(link):
        return []
    offers = _offers(situation, link)
    return [
        (
            remote,
            offers[remote.peer_name],
            preshared.parse(link, remote.peer_name, results, prefix),
        )
        for remote in situation.remotes.get(link, ())
        if remote.peer_name in offers and offers[remote.peer_name].wireguard is not None
    ]


def _uses_wireguard(situation: Situation, link: str) -> bool:
    return situation.intent.links[link].technology == WIREGUARD


def _offers(situation: Situation, link: str) -> Dict[str, Offer]:
    """Return the offers of a link that can be read, by peer name."""
    found = {}
    for remote in situation.remotes.get(link, ()):
        try:
            offer = decode(remote.bag, remote.label)
        except InputError:
            continue
        if offer is not None:
            found[remote.peer_name] = offer
    return found


def make_plan(situation: Situation, results: Results, prepared: Optional[Results] = None) -> Plan:
    """Decide what the VDU should be and which steps lead there.

    Args:
        situation: What was gathered in Juju.
        results: What `observe_steps` brought back.
        prepared: What `prepare_steps` brought back, where there were any.

    Raises:
        VpnaasError: The VDU as a whole cannot be used (a tool is missing, an answer is not
            understood). Problems of one link or peer do not raise, they are in its LinkPlan.
    """
    require_tools(results.found("tools"))
    vdu = facts.parse(results)
    links: Dict[str, LinkPlan] = {}
    for link, params in sorted(situation.intent.links.items()):
        try:
            if params.technology == NONE:
                links[link] = _plan_clear(situation, params, vdu, results)
            else:
                links[link] = _plan_wireguard(situation, params, vdu, results, prepared)
        except VpnaasError as error:
            links[link] = LinkPlan(params, unusable=True, problems=(str(error),))
    steps = [step for plan in links.values() for step in plan.steps]
    if situation.authorize:
        steps.append(authorize("authorize", situation.user, situation.authorize))
    steps += _probes(vdu, links, changed=bool(steps))
    return Plan(vdu.now, links, tuple(steps))


def require_tools(found: Mapping[str, Optional[str]]) -> None:
    """Raise VpnaasError naming every program the VDU lacks."""
    missing = sorted(name for name in TOOLS if not found.get(name))
    if missing:
        raise VpnaasError(
            "the VDU has no {}; its image or Day-0 cloud-init must install {}".format(
                ", ".join(missing), "wireguard-tools, iproute2, iputils-ping and systemd"
            )
        )


def _probes(vdu: VduFacts, links: Mapping[str, LinkPlan], changed: bool) -> List[Step]:
    """Return a bounded ping to each peer that says it has us, and a second look."""
    steps: List[Step] = []
    for link, plan in sorted(links.items()):
        live = plan.state.live if plan.state else None
        due = [p for p in plan.peers if p.reached and not _fresh(vdu.now, p, live)]
        for peer in plan.peers if plan.steps and changed else due:
            if peer.reached and peer.inner_address:
                steps.append(
                    run(
                        "{}/probe/{}".format(link, peer.name),
                        *ping(peer.inner_address),
                        any_exit=True,
                        timeout=PROBE_SECONDS + 3,
                    )
                )
    if (changed or steps) and any(plan.state is not None for plan in links.values()):
        steps += wireguard.look("after/")
    return steps


def ping(address: fields.IPAddress) -> Tuple[str, ...]:
    """Return the command that asks a peer for one echo; it also makes WireGuard shake hands."""
    # With -w, -c counts answers, so this ends with the first of up to ten.
    return ("ping", "-n", "-q", "-c", "1", "-i", "0.2", "-w", str(PROBE_SECONDS), str(address))


def _fresh(now: int, peer: Peer, live: Optional[wireguard.Live]) -> bool:
    times = [live.peers[k].handshake for k in peer.public_keys() if k in live.peers] if live else []
    return bool(times) and now - max(times) < FRESH


def _own_mtu(params: LinkParams, underlay: facts.Interface, overhead: int) -> int:
    mtu = min(underlay.mtu - overhead, fields.MAX_MTU)
    if mtu < fields.MIN_MTU:
        raise InputError(
            "{}: MTU of {}".format(params.link, underlay.name),
            "{} bytes leave only {} for the tunnel".format(underlay.mtu, mtu),
            "at least {}".format(fields.MIN_MTU + overhead),
        )
    return min(mtu, params.mtu) if params.mtu else mtu


def _own_endpoint(
    situation: Situation, params: LinkParams, underlay: facts.Interface
) -> Optional[Tuple[fields.IPAddress, int]]:
    if params.gateway:
        return params.gateway, params.listen_port
    # A link in clear has its inner address on the underlay, which is no way to reach us.
    inner = {link.inner_address.ip for link in situation.intent.links.values()}
    outer = [address for address in underlay.addresses if address.ip not in inner]
    addresses = sorted(outer, key=lambda a: (a.version, a.ip.is_private is False))
    if not addresses:
        raise InputError(
            "{}: underlay".format(params.link),
            "{} has no address yet".format(underlay.name),
            "an interface with an IPv4 or IPv6 address, or the gateway parameter",
        )
    return addresses[0].ip, params.listen_port


def _plan_clear(
    situation: Situation, params: LinkParams, vdu: VduFacts, results: Results
) -> LinkPlan:
    link = params.link
    underlay = vdu.underlay(params.underlay_interface, situation.management)
    state = clear.parse(link, results)
    mtu = _own_mtu(params, underlay, 0)
    vetted = vet(_context(situation, params, vdu, state.applied))
    offer = Offer(
        technology=NONE,
        inner_address=params.inner_address.ip,
        mtu=mtu,
        endpoint=_own_endpoint(situation, params, underlay),
        allowed_prefixes=params.allowed_prefixes,
    )
    steps: List[Step] = []
    if results.exit_code(link + "/other") is not None:
        steps += wireguard.absent(link)
    steps += clear.steps_to(params, underlay.name, vetted.peers, state)
    steps += responder.steps_to(params, underlay.name, _outer(offer), results)
    return LinkPlan(
        params=params,
        problems=vetted.problems,
        waiting=vetted.waiting,
        peers=vetted.peers,
        mtu=mtu,
        offers={r.relation_id: offer for r in situation.remotes.get(link, ())},
        steps=tuple(steps),
    )


def _plan_wireguard(
    situation: Situation,
    params: LinkParams,
    vdu: VduFacts,
    results: Results,
    prepared: Optional[Results],
) -> LinkPlan:
    link = params.link
    underlay = vdu.underlay(params.underlay_interface, situation.management)
    state = wireguard.parse(_secured(situation), link, results)
    own_mtu = _own_mtu(params, underlay, wireguard.OVERHEAD)
    endpoint = _own_endpoint(situation, params, underlay)
    again = prepared is not None
    agreed = _agreed(situation, link, prepared if prepared is not None else results, again)
    psk_ids = {name: psk for name, (psk, _) in agreed.items()}
    steps: List[Step] = []
    if results.exit_code(link + "/other") is not None:
        steps += clear.absent(link)
    own_keys = [state.public_key] + ([state.next_public_key] if state.next_public_key else [])
    vetted = vet(_context(situation, params, vdu, state.applied, own_keys, psk_ids))
    waiting = list(vetted.waiting)
    if link in situation.rotate and not state.next_public_key:
        steps += wireguard.stage_key(link)
    elif state.next_public_key:
        late = _unacknowledged(situation, link, state.next_public_key, vetted)
        if late and not (situation.force and link in situation.rotate):
            waiting.append("key rotation waits for {}".format(", ".join(late)))
        else:
            generation = state.generation + 1
            steps += wireguard.promote_key(link, generation, live=state.live is not None)
            state = attr.evolve(
                state,
                public_key=state.next_public_key,
                next_public_key="",
                generation=generation,
                live=state.live and attr.evolve(state.live, public_key=state.next_public_key),
            )
    peers = vetted.peers
    mtu = min([own_mtu] + [peer.mtu for peer in peers if peer.mtu])
    wanted = wireguard.Wanted.of(params, mtu, peers)
    steps += wireguard.steps_to(wanted, state)
    if link in situation.restart and state.live is not None:
        steps += wireguard.restart(link)
    offer = Offer(
        technology=WIREGUARD,
        inner_address=params.inner_address.ip,
        mtu=own_mtu,
        endpoint=endpoint,
        allowed_prefixes=params.allowed_prefixes,
        wireguard=WireguardOffer(
            public_key=state.public_key,
            key_generation=state.generation,
            next_public_key=state.next_public_key,
            preshared=params.preshared_key,
            wrap_key=_wrap_key(situation, link, results),
        ),
    )
    steps += responder.steps_to(params, wireguard_interface(link), _outer(offer), results)
    installed = {peer.name: peer.public_keys() for peer in peers}
    offers = {}
    for remote in situation.remotes.get(link, ()):
        assert offer.wireguard is not None  # noqa: S101 - made above
        _, wrapped = agreed.get(remote.peer_name, (None, ""))
        offers[remote.relation_id] = attr.evolve(
            offer,
            wireguard=attr.evolve(
                offer.wireguard,
                acknowledged=installed.get(remote.peer_name, ()),
                wrapped=wrapped,
            ),
        )
    return LinkPlan(
        params=params,
        problems=vetted.problems,
        waiting=tuple(waiting),
        peers=peers,
        mtu=mtu,
        offers=offers,
        state=state,
        steps=tuple(steps),
    )


def _context(
    situation: Situation,
    params: LinkParams,
    vdu: VduFacts,
    applied: Sequence[Peer],
    own_keys: Sequence[str] = (),
    preshared_ids: Optional[Mapping[str, Optional[str]]] = None,
) -> Context:
    link = params.link
    secured = params.technology == WIREGUARD
    return Context(
        params=params,
        vdu=vdu,
        remotes=situation.remotes.get(link, ()),
        manual=situation.intent.manual(link) if secured else (),
        applied=tuple(applied),
        own_keys=tuple(own_keys),
        preshared_required=secured and situation.needs_preshared(link),
        preshared_ids=preshared_ids or {},
    )


def _outer(offer: Offer) -> Optional[fields.IPAddress]:
    return offer.endpoint[0] if offer.endpoint else None


def _wrap_key(situation: Situation, link: str, results: Results) -> str:
    if situation.roles[link] == PROVIDER or not situation.needs_preshared(link):
        return ""
    return preshared.parse_wrap_key(link, results)


def _agreed(
    situation: Situation, link: str, results: Results, again: bool
) -> Dict[str, Tuple[Optional[str], str]]:
    """Return (identity, ciphertext to publish) of the preshared key of each peer."""
    provider = situation.roles[link] == PROVIDER
    table = {}
    for remote, offer, state in _agreements(situation, link, results, "again/" if again else ""):
        keys = offer.wireguard or WireguardOffer("")
        identity, _ = preshared.agreement(provider, keys.wrap_key, keys.wrapped, state)
        table[remote.peer_name] = (identity, state.wrapped if provider and identity else "")
    return table


def _unacknowledged(situation: Situation, link: str, key: str, vetted: Vetted) -> List[str]:
    """Return the related applications that have not installed a staged key."""
    late = []
    for remote in situation.remotes.get(link, ()):
        offer = vetted.offers.get(remote.peer_name)
        if offer is None and not any(p.name == remote.peer_name for p in vetted.peers):
            continue  # It has no tunnel that a switch could break.
        keys = offer.wireguard if offer else None
        if keys is None or key not in keys.acknowledged:
            late.append(remote.label)
    return late


def conclude(plan: Plan, results: Optional[Results]) -> Dict[str, LinkPlan]:
    """Merge what the VDU reported after the steps into the link plans.

    The live state becomes that of after the steps, and offers tell of a key staged by them.
    """
    if results is None:
        return dict(plan.links)
    links = {}
    for link, decided in plan.links.items():
        state = decided.state
        if state is not None:
            staged = (results.out(link + "/next") or "").strip()
            if staged and not state.next_public_key:
                state = attr.evolve(state, next_public_key=staged)
                decided = attr.evolve(
                    decided,
                    offers={
                        id: attr.evolve(
                            offer,
                            wireguard=offer.wireguard
                            and attr.evolve(offer.wireguard, next_public_key=staged),
                        )
                        for id, offer in decided.offers.items()
                    },
                )
            if "after/wg/public-key" in results:
                state = attr.evolve(state, live=wireguard.parse_live(link, results, "after/"))
            decided = attr.evolve(decided, state=state)
        links[link] = decided
    return links
