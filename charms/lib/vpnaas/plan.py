"""The reconcile, as pure functions: charm_state -> observe -> (prepare) -> plan -> outcome.

The caller does the round trips in between:

    results = vdu(observe_steps(charm_state))
    prepared = vdu(prepare_steps(charm_state, results))  # only if there are such steps
    plan = make_plan(charm_state, results, prepared)
    after = vdu(plan.steps)                              # only if something differs
    outcome = conclude(plan, after)

This module uses no ops, paramiko or files. `technology` hides how a link is secured.
"""

from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

import attr

from vpnaas.base import fields
from vpnaas.base.errors import MALFORMED, InputError, VduError, VpnaasError
from vpnaas.base.links import KEYED, NONE, WIREGUARD, ipsec_interface
from vpnaas.features import foreign_firewall
from vpnaas.features.feature import Feature, Sight
from vpnaas.features.gateway.gateway import Gateway
from vpnaas.features.guard import Guard
from vpnaas.features.logs import Logs
from vpnaas.features.measure import responder
from vpnaas.features.monitoring import Monitoring
from vpnaas.features.qos import Qos
from vpnaas.features.repair import Repair
from vpnaas.params.intent import LinkParams
from vpnaas.peers.inputs import AGAIN, CharmState, LinkInputs
from vpnaas.peers.leases import Asking
from vpnaas.peers.peer import Peer, in_turn, read_record
from vpnaas.peers.same_address import is_same
from vpnaas.tunnels import nesting, silence
from vpnaas.tunnels.clear import Clear
from vpnaas.tunnels.ipsec.technology import Ipsec
from vpnaas.tunnels.technology import Draft, Echo, LinkPlan, Technology
from vpnaas.tunnels.wireguard.technology import Wireguard
from vpnaas.vdu import facts, machine, tried
from vpnaas.vdu.facts import VduFacts
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import Broken, Results, Step, ask, authorize, read, which

TABLE: Dict[str, Technology[Any]] = {
    technology.name: technology for technology in (Wireguard(), Ipsec(), Clear())
}
"""By the value of the parameter `technology`."""
FEATURES: Tuple[Feature, ...] = (Guard(), Gateway(), Repair(), Monitoring(), Logs(), Qos())
"""What any VNF may have besides links, in the order of its steps; `Beside` has further ones."""
TOOLS = ("ip", "ping", "systemctl", "systemd-run")
PACKAGES = ("iproute2", "iputils-ping", "nftables", "systemd")
ROOMY_MTU = 1445
"""MTU of an underlay with room for IPsec and WireGuard inside each other over IPv6 (85 and 80)."""
ECHO = "echo"
RECENT = 5
"""A peer that proved itself so many seconds ago need not be asked for an echo."""
ANSWER_SECONDS, FIRST_SECONDS = 3, 6
"""Seconds for an answer through a tunnel that has keys, and through one that must agree on keys
first. WireGuard repeats a handshake after 5 to 5.4 s: two that cross are both lost."""
MAX_PROBES = 1000
"""Peers of a link that are asked in one reconcile, all at once; further ones in turn."""
AFTER = "after/"
GUARD = Guard.name
COMMON = ("machine", "tools", "facts", "devices", "expiry")
"""Starts of the ids of steps without which no link can be planned, or none may come up."""


@attr.frozen
class Plan:
    """What to do on the VDU."""

    now: int
    links: Mapping[str, LinkPlan]
    steps: Tuple[Step, ...]
    # Why a feature is not as requested, one sentence each, by its name.
    problems: Mapping[str, str] = attr.Factory(dict)
    # Peers that the steps ask for an echo, by link.
    asked: Mapping[str, Tuple[str, ...]] = attr.Factory(dict)
    machine: Optional[str] = None  # Identity of the machine.
    # Facts of the VDU, for what the VNF has besides links.
    vdu: VduFacts = attr.Factory(lambda: VduFacts(0, {}))
    untried: Tuple[str, ...] = ()  # Programs of the VDU in versions that nobody tried.


def observe_steps(charm_state: CharmState) -> List[Step]:
    """Return the steps of the first round trip: make missing keys and read the state."""
    steps = [machine.observe(), which("tools", _tools(charm_state))] + facts.observe()
    if charm_state.versions:
        steps += tried.look()
    for feature in _features(charm_state):
        steps += feature.observe(charm_state)
    if charm_state.has_tunnels:
        steps += foreign_firewall.observe()
    steps += nesting.observe(charm_state)
    for technology, links in _used(charm_state):
        steps += technology.observe(charm_state, links)
    for link, params in sorted(charm_state.intent.links.items()):
        steps += _look_for_others(link, params.technology) + responder.observe(link)
    for link in _absent_links(charm_state):
        steps += _look_for_others(link)
    return _in_parts(charm_state, steps)


def _features(charm_state: CharmState) -> Tuple[Feature, ...]:
    return FEATURES + charm_state.beside.features


def _in_parts(charm_state: CharmState, steps: Sequence[Step]) -> List[Step]:
    """Return the steps with the parts of the VNF that they belong to: a failure ends one part.

    The first word of an id names the part: a link, what all links of a technology share, or an
    extra. The facts of the VDU belong to all. No packet may leave in clear, so tunnels need the
    guard.
    """
    secured = {k for k, params in charm_state.intent.links.items() if params.technology != NONE}
    parted = []
    for step in steps:
        words = step.id.split("/")
        part = words[1] if words[0] + "/" in (AGAIN, AFTER) else words[0]
        needs = GUARD if part in secured else ""
        parted.append(step if part in COMMON else attr.evolve(step, part=part, needs=needs))
    return parted


def _broken(params: LinkParams, *found: Optional[Results]) -> Optional[Broken]:
    """Return the step whose failure ended a link, None if it goes on."""
    technology = TABLE[params.technology]
    parts = [params.link, technology.part] + ([GUARD] if technology.keyed else [])
    causes = (results.broken.get(part) for results in found if results for part in parts)
    return next((cause for cause in causes if cause is not None), None)


def _used(charm_state: CharmState) -> Iterator[Tuple[Technology[Any], List[str]]]:
    """Yield each technology that links use, with these links."""
    for name, technology in sorted(TABLE.items()):
        links = charm_state.using(name)
        if links:
            yield technology, links


def _look_for_others(link: str, technology: str = "") -> List[Step]:
    """Return the steps that look for a link by technologies other than its own."""
    return [
        read(_other(link, name), other.marker.format(link), mark=other.mark)
        for name, other in sorted(TABLE.items())
        if name != technology
    ]


def _take_down_others(link: str, results: Results) -> List[Step]:
    steps: List[Step] = []
    for name, other in sorted(TABLE.items()):
        if results.ours(_other(link, name)):
            steps += other.absent(link)
    return steps


def _absent_links(charm_state: CharmState) -> List[str]:
    """Return the links that must not be up.

    The operator switched them off or did not configure them, or they have no inner address. A link
    that is not configured is up if its `configure` died, or lost the leadership, before Juju stored
    anything.
    """
    known = charm_state.intent.off.union(charm_state.asking, charm_state.roles)
    return sorted(known.difference(charm_state.intent.links))


def _switched_off(charm_state: CharmState, results: Results) -> List[Step]:
    """Return the steps that take down links that must not be up."""
    steps: List[Step] = []
    for link in _absent_links(charm_state):
        down = _take_down_others(link, results)
        steps += responder.absent(link) + down if down else []
    return steps


def _other(link: str, technology: str) -> str:
    return "{}/other/{}".format(link, technology)


def _tools(charm_state: CharmState) -> List[str]:
    names = list(TOOLS)
    for technology, _ in _used(charm_state):
        names += technology.tools
    for feature in _features(charm_state):
        names += [name for name in feature.tools(charm_state) if name not in names]
    return names


def prepare_steps(charm_state: CharmState, results: Results) -> List[Step]:
    """Return the steps of a second round trip; often none.

    They continue agreements on keys and certificates, and probe the path MTU to peers.
    """
    steps = nesting.probes(charm_state, facts.parse(results), results)
    for technology, links in _used(charm_state):
        whole = [k for k in links if not _broken(charm_state.intent.links[k], results)]
        steps += technology.prepare(charm_state, whole, results) if whole else []
    return _in_parts(charm_state, steps)


def make_plan(
    charm_state: CharmState, results: Results, prepared: Optional[Results] = None
) -> Plan:
    """Decide the wanted state of the VDU and the steps to it.

    Raises:
        VpnaasError: The VDU as a whole cannot be used (a tool is missing, an answer is not
            understood). Problems of one link or peer do not raise, they are in its LinkPlan.
    """
    require_tools(charm_state, results)
    vdu = facts.parse(results)
    charm_state = attr.evolve(charm_state, intent=charm_state.intent.at(vdu.now))
    known = nesting.learned(results, prepared)
    links = _plan_links(charm_state, vdu, results, prepared, known)
    steps = _switched_off(charm_state, results)
    sight = Sight(charm_state, vdu, results, links)
    steps += _of_features(sight, lambda feature: feature.before_links(sight))
    steps += [step for plan in links.values() for step in plan.steps]
    steps += _of_features(sight, lambda feature: feature.after_links(sight))
    steps += nesting.steps_to(known, results)
    if charm_state.authorize:
        steps.append(authorize("authorize", charm_state.user, charm_state.authorize))
    virtual = charm_state.beside.virtual
    standby = virtual is not None and not vdu.is_local(virtual)
    # Answers to a standby gateway go to the active one, which has the same inner addresses.
    asked = {} if standby else _to_ask(vdu, links, bool(steps), charm_state.doubted)
    steps += _look_again(charm_state, links, asked, changed=bool(steps))
    links.update({link: _waiting(asking) for link, asking in charm_state.asking.items()})
    problems = dict(sight.problems, **broken_extras(links, results))
    names = {link: tuple(sorted(peers)) for link, peers in asked.items()}
    steps = _in_parts(charm_state, steps)
    untried = tried.untried(results) if charm_state.versions else ()
    owner = machine.identity(results)
    return Plan(vdu.now, links, tuple(steps), problems, names, owner, vdu, untried)


def broken_extras(links: Mapping[str, LinkPlan], results: Optional[Results]) -> Dict[str, str]:
    """Return why parts other than these links failed, one sentence each."""
    shown = set(links)
    for plan in links.values():
        technology = TABLE[plan.params.technology]
        shown |= {technology.part, GUARD} if technology.keyed else {technology.part}
    broken = results.broken if results is not None else {}
    return {
        part: "{}: {}".format(part, cause.sentence())
        for part, cause in sorted(broken.items())
        if part not in shown
    }


def _of_features(sight: Sight, wanted: Callable[[Feature], List[Step]]) -> List[Step]:
    """Return the wanted steps of the features that have no problem so far; note new problems."""
    steps: List[Step] = []
    for feature in _features(sight.charm_state):
        if feature.name not in sight.problems and feature.name not in sight.results.broken:
            try:
                steps += wanted(feature)
            except VpnaasError as error:
                if feature.vital:
                    raise
                sight.problems[feature.name] = str(error)
    return steps


def _waiting(asking: Asking) -> LinkPlan:
    """Return the plan of a link that has no address yet."""
    return LinkPlan(
        asking.params,
        unusable=asking.refused,
        problems=(asking.problem,) if asking.problem else (),
        waiting=() if asking.problem else ("waiting for an address from the gateway",),
    )


def _plan_links(
    charm_state: CharmState,
    vdu: VduFacts,
    results: Results,
    prepared: Optional[Results],
    known: Mapping[str, int],
) -> Dict[str, LinkPlan]:
    """Return the plan of each link: first its peers, then the paths to them, then its steps."""
    drafts: Dict[str, Draft] = {}
    plans: Dict[str, LinkPlan] = {}

    def refuse(link: str, error: VpnaasError) -> None:
        plans[link] = LinkPlan(
            charm_state.intent.links[link], unusable=True, problems=(str(error),)
        )
        drafts.pop(link, None)

    # Running peers of all links keep their prefixes. So read them before any peer is admitted.
    peers = _running(charm_state, results)
    for link, params in sorted(charm_state.intent.links.items()):
        elsewhere = {other: theirs for other, theirs in peers.items() if other != link}
        broken = _broken(params, results, prepared)
        if broken is not None:
            refuse(link, VduError(TABLE[params.technology].reason(params, broken)))
            continue
        try:
            inputs = _inputs(charm_state, params, vdu, results, prepared)
            drafts[link] = _admit(attr.evolve(inputs, elsewhere=elsewhere))
            peers[link] = drafts[link].admission.peers
        except VpnaasError as error:
            refuse(link, error)
    # Tunnels nest only once: in the second pass, the MTU of each outer tunnel is known.
    for _ in range(2):
        for link, ways in sorted(nesting.ways(drafts, results, known).items()):
            try:
                drafts[link] = _nested(drafts[link], ways)
            except VpnaasError as error:
                refuse(link, error)
    for link, draft in sorted(drafts.items()):
        try:
            plans[link] = _plan_link(draft)
        except VpnaasError as error:
            refuse(link, error)
    return dict(sorted(plans.items()))


def _running(charm_state: CharmState, results: Results) -> Dict[str, Tuple[Peer, ...]]:
    """Return the applied peers of each link that are still related or manual peers."""
    peers = {}
    for link, params in charm_state.intent.links.items():
        names = {manual.peer_name for manual in charm_state.intent.manual(link)}
        for remote in charm_state.remotes.get(link, ()):
            if remote.offer is not None or remote.problem:
                names.add(remote.peer_name)
        peers[link] = tuple(
            peer
            for peer in read_record(results.text(link + "/applied"))
            if peer.name in names and peer.technology == params.technology
        )
    return peers


def _admit(inputs: LinkInputs) -> Draft:
    technology = TABLE[inputs.params.technology]
    inputs = technology.fitted(inputs)
    state = technology.parse(inputs)
    return Draft(inputs, state, technology.admit(inputs, state))


def _nested(draft: Draft, ways: Mapping[str, nesting.Way]) -> Draft:
    """Return the draft of a link with the MTU and refusals that the paths to its peers cause."""
    inputs = draft.inputs
    technology = TABLE[inputs.params.technology]
    least = fields.MIN_MTU + inputs.overhead
    limit = min([way.mtu for way in ways.values() if way.mtu >= least] or [0])
    refused = dict(inputs.refused, **{n: way.refused for n, way in ways.items() if way.refused})
    inputs = technology.fitted(
        attr.evolve(
            inputs,
            mtu=_own_mtu(inputs.params, inputs.underlay, inputs.overhead, limit),
            through={name: way.through for name, way in ways.items() if way.through},
            refused=refused,
        )
    )
    if refused == draft.inputs.refused:
        return attr.evolve(draft, inputs=inputs)
    return Draft(inputs, draft.state, technology.admit(inputs, draft.state))


def require_tools(charm_state: CharmState, results: Results) -> None:
    """Raise VpnaasError with the names of all programs that the VDU lacks for its links."""
    if "tools" not in results:
        results.check()  # The agent did not look for them.
    paths = results.paths("tools")
    missing = sorted(name for name in _tools(charm_state) if not paths.get(name))
    if missing:
        packages = list(PACKAGES)
        for technology, _ in _used(charm_state):
            packages += technology.packages
        raise VpnaasError(
            "the VDU has no {}; its image or Day-0 cloud-init must install {} and {}".format(
                ", ".join(missing), ", ".join(packages[:-1]), packages[-1]
            )
        )


def _to_ask(
    vdu: VduFacts, links: Mapping[str, LinkPlan], changed: bool, doubted: FrozenSet[str]
) -> Dict[str, Dict[str, Tuple[str, int]]]:
    """Return whom to ask for an echo: address and seconds to wait, by link and peer name.

    These are the peers that have installed us, or whose tunnel is up, unless they have just proved
    themselves on a link that does not change and is not doubted. A manual peer that we do not call
    may sleep, and is left alone without a tunnel. A peer with the option same-address cannot be
    asked: our packets to its address bypass the tunnel.
    """
    asked: Dict[str, Dict[str, Tuple[str, int]]] = {}
    for link, plan in sorted(links.items()):
        if not TABLE[plan.params.technology].keyed:
            continue
        due = {}
        for peer in plan.peers:
            address, alive = peer.echo_address(), fresh(vdu.now, plan, peer)
            expected = peer.reached or peer.name in plan.called
            if address is None or is_same(peer) or not (alive or expected):
                continue
            renewed = bool(plan.steps) and changed
            if renewed or link in doubted or not (alive and proved(vdu.now, plan, peer)):
                slow = renewed or not alive
                due[peer.name] = str(address), FIRST_SECONDS if slow else ANSWER_SECONDS
        chosen = in_turn(sorted(due), MAX_PROBES, vdu.now)
        if chosen:
            asked[link] = {name: due[name] for name in chosen}
    return asked


def _look_again(
    charm_state: CharmState,
    links: Mapping[str, LinkPlan],
    asked: Mapping[str, Mapping[str, Tuple[str, int]]],
    changed: bool,
) -> List[Step]:
    """Return the steps that ask for echoes, and that read the state again."""
    steps: List[Step] = []
    if asked:
        request = {
            "{}/{}".format(link, name): (address, seconds, links[link].mtu)
            for link, peers in asked.items()
            for name, (address, seconds) in peers.items()
        }
        longest = max(seconds for _, seconds, _ in request.values())
        steps.append(ask(ECHO, source("echo.py"), request, timeout=longest + 20))
    if changed or steps:
        for technology, using in _used(charm_state):
            if any(links[link].state is not None for link in using):
                steps += technology.look(AFTER)
    return steps


def proved(now: int, plan: LinkPlan, peer: Peer) -> bool:
    """Tell whether a peer proved itself a few seconds ago, for which packets passed both ways."""
    session = TABLE[plan.params.technology].session(plan.state, plan.params.link, peer)
    age = now - session.handshake if session.handshake else session.age
    return age is not None and abs(age) < RECENT


def fresh(now: int, plan: LinkPlan, peer: Peer, grace: int = 0) -> bool:
    """Tell whether the tunnel to a peer counts as up; `grace` allows more seconds of silence."""
    technology = TABLE[plan.params.technology]
    return technology.alive(plan.state, plan.params.link, peer, now, grace)


def _own_mtu(params: LinkParams, underlay: facts.Interface, overhead: int, limit: int) -> int:
    mtu = min(min(underlay.mtu, limit or underlay.mtu) - overhead, fields.MAX_MTU)
    if mtu < fields.MIN_MTU:
        raise InputError(
            "{}: MTU of {}".format(params.link, underlay.name),
            "{} bytes leave only {} for the tunnel".format(underlay.mtu, mtu),
            "at least {}".format(fields.MIN_MTU + overhead),
        )
    return min(mtu, params.mtu) if params.mtu else mtu


def _own_endpoint(
    charm_state: CharmState, params: LinkParams, underlay: facts.Interface
) -> Optional[Tuple[fields.IPAddress, int]]:
    if params.gateway:
        return params.gateway, params.listen_port
    # A link in clear has its inner address on the underlay; peers do not reach us there.
    inner = charm_state.inner_addresses()
    outer = [address for address in underlay.addresses if address.ip not in inner]
    addresses = sorted(outer, key=lambda a: (a.version, a.ip.is_private is False))
    own = [a for a in underlay.addresses if a.ip == params.inner_address.ip]
    # One that the charm gave it, of a link in clear, is a host prefix.
    if not addresses and any(a.network.prefixlen < a.max_prefixlen for a in own):
        raise InputError(
            "configure: inner-address",
            "{} is the address of {} itself".format(own[0].ip, underlay.name),
            "an address of a subnet that is on none of the VDU's own networks",
        )
    if not addresses:
        raise InputError(
            "{}: underlay".format(params.link),
            "{} has no address yet".format(underlay.name),
            "an address from DHCP or network data (metadata service or configuration drive), "
            "or the gateway parameter",
        )
    return addresses[0].ip, params.listen_port


def _check_own_prefixes(params: LinkParams, endpoint: fields.IPAddress) -> None:
    """Raise InputError if peers of WireGuard would send the tunnel's own packets into it."""
    for prefix in params.allowed_prefixes if params.technology == WIREGUARD else ():
        # wg-quick(8) of a device marks the tunnel's packets for a default route only.
        if prefix.prefixlen and endpoint in prefix:
            raise InputError(
                "configure: allowed-prefixes",
                "{} contains {}, where peers reach {}".format(prefix, endpoint, params.link),
                "prefixes without it",
            )


def _reached(charm_state: CharmState, params: LinkParams, vdu: VduFacts) -> LinkParams:
    """Return the parameters with a floating IP as gateway, if the link runs over management.

    OSM gives the management address of the VDU. If no interface of the VDU has it, it is a floating
    IP, and peers reach a link over the management network at this address too.
    """
    management = charm_state.management
    if params.gateway or params.underlay_interface or params.technology not in KEYED:
        return params
    if management is None or vdu.is_local(management):
        return params
    return attr.evolve(params, gateway=management)


def _inputs(
    charm_state: CharmState,
    params: LinkParams,
    vdu: VduFacts,
    results: Results,
    prepared: Optional[Results],
) -> LinkInputs:
    underlay = vdu.underlay(params.underlay_interface, charm_state.management)
    params = _reached(charm_state, params, vdu)
    endpoint = _own_endpoint(charm_state, params, underlay)
    # A related peer looks for itself; devices and other manual peers do what they are told.
    if endpoint is not None and not charm_state.remotes.get(params.link):
        _check_own_prefixes(params, endpoint[0])
    overhead = _overhead(charm_state, params, underlay)
    return LinkInputs(
        charm_state=charm_state,
        params=params,
        vdu=vdu,
        underlay=underlay,
        overhead=overhead,
        mtu=_own_mtu(params, underlay, overhead, 0),
        endpoint=endpoint,
        results=results,
        prepared=prepared,
    )


def _overhead(charm_state: CharmState, params: LinkParams, underlay: facts.Interface) -> int:
    """Return how many bytes the link adds to a packet at most.

    A header of IPv4 is 20 bytes shorter than one of IPv6. Where the underlay is so small that no
    tunnel would fit into this one, these bytes count, if all that the link can reach is IPv4.
    """
    overhead = TABLE[params.technology].overhead(params)
    if params.technology != WIREGUARD or underlay.mtu >= ROOMY_MTU:
        return overhead
    offers = charm_state.offers(params.link).values()
    ends = [offer.endpoint for offer in offers]
    ends += [peer.endpoint for peer in charm_state.intent.manual(params.link)]
    reached = [end[0] for end in ends if end] + ([params.gateway] if params.gateway else [])
    reached += [each.ip for each in underlay.addresses if not each.ip.is_link_local]
    return overhead - 20 if all(address.version == 4 for address in reached) else overhead


def _plan_link(draft: Draft) -> LinkPlan:
    inputs = draft.inputs
    params, results = inputs.params, inputs.results
    technology = TABLE[params.technology]
    plan = technology.plan(inputs, draft.state, draft.admission, draft.mtu)
    steps = _take_down_others(params.link, results) + list(plan.steps)
    outer = inputs.endpoint[0] if inputs.endpoint else None
    interface, owner = technology.interface(inputs), technology.owner.format(params.link)
    steps += responder.steps_to(params, interface, owner, outer, results)
    return attr.evolve(
        plan,
        steps=tuple(steps),
        waiting=plan.waiting
        + _over_management(inputs)
        + _other_firewalls(inputs)
        + responder.intruder(params, results),
        interface=interface,
        underlay=inputs.underlay.name,
        owner=owner,
        endpoint=inputs.endpoint,
        through=inputs.through,
    )


def _other_firewalls(inputs: LinkInputs) -> Tuple[str, ...]:
    """Return a remark on firewalls of others that may drop what the VDU forwards for a link."""
    chains = foreign_firewall.found(inputs.results)
    if not chains or not TABLE[inputs.params.technology].keyed:
        return ()
    what = (
        "a firewall that is not ours drops packets that it does not accept, also forwarded ones: {}"
    )
    return (what.format(fields.few(chains)),)


def _over_management(inputs: LinkInputs) -> Tuple[str, ...]:
    """Return a remark on a link whose own underlay turns out to be the management interface."""
    named, name = inputs.params.underlay_interface, inputs.underlay.name
    management = inputs.vdu.name_of(inputs.charm_state.management)
    if not named or management != name or len(inputs.vdu.networks()) < 2:
        return ()
    what = "the tunnel runs over the management network: {} has the address of OSM's login"
    return (what.format(name) + "; compare the order of the VDU's NICs with the package",)


def conclude(
    plan: Plan, results: Optional[Results], diagnosis: Optional[Results] = None
) -> Dict[str, LinkPlan]:
    """Merge what the VDU reported after the steps into the link plans.

    The live state becomes the one after the steps. Offers get a key that the steps staged. A link
    whose steps failed gives its peers no new offer.
    """
    if results is None:
        return dict(plan.links)
    concluded = dict(plan.links)
    for link, decided in plan.links.items():
        if decided.state is None:
            continue
        technology = TABLE[decided.params.technology]
        after = technology.conclude(decided, decided.state, results, AFTER)
        names, waiting = plan.asked.get(link, ()), after.waiting
        echoes = _echoes(link, names, results)
        if names and not echoes:
            waiting += ("the VDU cannot send echo requests: {}".format(results.why(ECHO)),)
        silent = _silent(decided, names, results)
        if silent is not None and diagnosis is not None:
            # Policies of IPsec take packets whatever their route; charon's routes come with an SA.
            device = after.interface if after.interface != after.underlay else ""
            alive = fresh(plan.now, after, silent)
            idle = "" if alive else ipsec_interface(link)
            chosen = after.underlay if after.params.underlay_interface else ""
            waiting += silence.causes(link, silent, device, idle, diagnosis, chosen)
        concluded[link] = attr.evolve(after, echoes=echoes, waiting=waiting)
        broken = _broken(decided.params, results)
        if broken is not None:
            reason = technology.reason(decided.params, broken, diagnosis)
            problems = (reason,) + concluded[link].problems
            concluded[link] = attr.evolve(
                concluded[link], unusable=True, problems=problems, offers={}
            )
    return concluded


def diagnose_steps(plan: Plan, results: Results) -> List[Step]:
    """Return the steps that look why steps of links failed, or peers do not answer; often none."""
    steps: List[Step] = []
    for link, decided in plan.links.items():
        silent = _silent(decided, plan.asked.get(link, ()), results)
        steps += silence.look(link, silent, decided.underlay) if silent is not None else []
        broken = _broken(decided.params, results)
        if broken is None or broken.plain:
            continue
        if broken.step.part == decided.params.link:
            steps += TABLE[decided.params.technology].diagnose(decided.params, broken)
    return steps


def _silent(decided: LinkPlan, asked: Tuple[str, ...], results: Results) -> Optional[Peer]:
    """Return the first peer of a link that was asked for an echo and did not answer, or None.

    None, too, if a step of the link failed: that is the cause.
    """
    if _broken(decided.params, results) is not None:
        return None
    echoes = _echoes(decided.params.link, asked, results)
    quiet = {name for name, echo in echoes.items() if not echo.received}
    return next((peer for peer in decided.peers if peer.name in quiet), None)


def _echoes(link: str, names: Tuple[str, ...], results: Results) -> Dict[str, Echo]:
    """Return what came back from the peers that were asked; none if the VDU could not ask."""
    text = results.out(ECHO)
    if not names or text is None:
        return {}
    try:
        echoes = Echo.read(text)
        return {name: echoes["{}/{}".format(link, name)] for name in names}
    except MALFORMED:
        raise VduError("the VDU did not say which peers answered an echo request")
