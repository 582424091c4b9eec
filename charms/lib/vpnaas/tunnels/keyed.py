"""Common code of technologies with keys: agreement, rotation, offers.

Every rotation has two phases. First the owner offers the next key together with the current one.
When every related peer has acknowledged the next key, it replaces the current one.
"""

from typing import Any, Dict, Generic, List, Mapping, Optional, Sequence, Tuple, TypeVar

import attr

from vpnaas.base import fields, x509
from vpnaas.base.links import PROVIDER
from vpnaas.params.intent import MANUAL, REQUIRE, LinkParams
from vpnaas.params.ipsec import PSK
from vpnaas.peers import leases
from vpnaas.peers.admission import Admission, Context, Proof, admit
from vpnaas.peers.inputs import AGAIN, CharmState, LinkInputs
from vpnaas.peers.offer import QUANTUM_OFFERS, UNABLE, KeyOffer, Offer, Remote
from vpnaas.peers.peer import Agreed, KeyState, Peer
from vpnaas.tunnels import preshared
from vpnaas.tunnels.key_pair import KeyPair
from vpnaas.tunnels.technology import LinkPlan, Technology
from vpnaas.vdu import secret_store
from vpnaas.vdu.steps import Broken, Results, Step

_WANTS = {offered: wanted for wanted, offered in QUANTUM_OFFERS.items()}


Keys = TypeVar("Keys", bound=KeyState)


class KeyedTechnology(Technology[Keys], Generic[Keys]):
    """A technology with a key pair per link; a subclass defines its keys and peers."""

    keyed = True
    renews = False
    """Whether a rotation may renew hybrid preshared keys: sessions continue meanwhile."""
    more_files: Sequence[Tuple[str, Tuple[str, ...]]] = ()
    """Further files of a link (`FILE.format(link)`), each with a command that fails if it cannot be
    used."""

    def observed(self, inputs: LinkInputs) -> Keys:
        """Read the results of `observe` for a link, without preshared keys."""
        raise NotImplementedError

    def parse(self, inputs: LinkInputs) -> Keys:
        able, kem_key = _kem(inputs.charm_state, inputs.link, inputs.results)
        state = self.observed(inputs)
        return attr.evolve(state, agreed=_agreed(inputs, able), kem_key=kem_key, able=able)

    def key_pair(self, params: LinkParams) -> KeyPair:
        """Return the keys of a link."""
        raise NotImplementedError

    def reason(
        self, params: LinkParams, broken: Broken, diagnosis: Optional[Results] = None
    ) -> str:
        key = "" if broken.plain else self.key_pair(params).unusable(broken.step.id)
        return key or super().reason(params, broken, diagnosis)

    def renew(self, charm_state: CharmState, link: str) -> List[Step]:
        """Return the steps that remove files of a forced rotation's link that cannot be used."""
        if not (charm_state.force and link in charm_state.rotate):
            return []
        wrap = (preshared.WRAP_KEY.format(link), ("openssl", "pkey", "-noout"))
        pair = self.key_pair(charm_state.intent.links[link])
        return pair.renew(wrap, *((file.format(link), check) for file, check in self.more_files))

    def stage_key(self, inputs: LinkInputs, state: Keys) -> List[Step]:
        """Return the steps that make the next key; its public half is the result LINK/next."""
        return self.key_pair(inputs.params).stage()

    def proofs(self, inputs: LinkInputs, state: Keys) -> Optional[Mapping[str, Proof]]:
        """Return the state of certificates by peer name, None for a link without certificates."""
        return None

    def due(self, inputs: LinkInputs, state: Keys) -> bool:
        """Tell whether the key must be rotated now, without an action."""
        return False

    def lacking(self, inputs: LinkInputs, state: Keys) -> Sequence[str]:
        """Return texts that name who must still certify the staged key."""
        return ()

    def acknowledged(self, params: LinkParams, state: Keys, peer: Peer) -> Tuple[str, ...]:
        """Return the keys of an installed peer that our offer acknowledges."""
        return peer.public_keys()

    def promote_key(self, inputs: LinkInputs, state: Keys) -> Tuple[Keys, List[Step]]:
        """Return the state after the staged key has replaced the current one, and the steps."""
        switched = attr.evolve(
            state,
            public_key=state.next_public_key,
            next_public_key="",
            generation=max(state.generation, self._latest(inputs)) + 1,
        )
        return switched, self.key_pair(inputs.params).promote(switched.generation)

    def _latest(self, inputs: LinkInputs) -> int:
        """Return the latest generation of the link's keys that this VDU had, 0 if unknown."""
        return inputs.charm_state.generations.get(counter(inputs.link, self.name), 0)

    def apply(self, inputs: LinkInputs, state: Keys, mtu: int, peers: Sequence[Peer]) -> List[Step]:
        """Return the steps from the observed to the wanted state; none where they agree."""
        raise NotImplementedError

    def restart(self, inputs: LinkInputs, state: Keys, peers: Sequence[Peer]) -> List[Step]:
        """Return the steps that take the tunnels of a link down and up."""
        raise NotImplementedError

    def key_offer(self, inputs: LinkInputs, state: Keys) -> KeyOffer:
        """Return the data on our keys that all relations get."""
        return KeyOffer(
            public_key=state.public_key,
            key_generation=state.generation,
            next_public_key=state.next_public_key,
            preshared=inputs.params.needs_preshared,
            wrap_key=_wrap_key(inputs),
            post_quantum=QUANTUM_OFFERS[inputs.params.post_quantum] if state.able else UNABLE,
            kem_key=state.kem_key,
        )

    def prepare(
        self, charm_state: CharmState, links: Sequence[str], results: Results
    ) -> List[Step]:
        """Return the steps that continue agreements, and then read their state again."""
        steps = self.agree(charm_state, links, results)
        if steps:
            for link in links:
                steps += self.look_again(charm_state, link)
        return steps

    def look_again(self, charm_state: CharmState, link: str) -> List[Step]:
        """Return the steps that read again what `agree` may have changed."""
        return observe_preshared(charm_state, link, AGAIN)

    def agree(self, charm_state: CharmState, links: Sequence[str], results: Results) -> List[Step]:
        """Return the steps that continue agreements on preshared keys."""
        steps: List[Step] = []
        for link in links:
            able, _ = _kem(charm_state, link, results)
            for _, each in _agreements(charm_state, link, results, able=able).values():
                steps += each
        return steps

    def admit(self, inputs: LinkInputs, state: Keys) -> Admission:
        return admit(
            Context(
                inputs,
                state.applied,
                inputs.charm_state.intent.manual(inputs.link),
                (state.public_key, state.next_public_key),
                state.agreed,
                self.proofs(inputs, state),
            )
        )

    def plan(self, inputs: LinkInputs, state: Keys, admission: Admission, mtu: int) -> LinkPlan:
        charm_state, link = inputs.charm_state, inputs.link
        waiting = list(admission.waiting) + _failed_fetches(inputs)
        waiting += inputs.params.other_gifts
        latest = self._latest(inputs)
        if state.generation < latest:
            what = "its key has the number {} after {}, as from an old backup; run rotate-keys"
            waiting.append(what.format(state.generation, latest))
        steps: List[Step] = []
        if self.key_pair(inputs.params).renewed(inputs.results):
            state = attr.evolve(state, generation=state.generation + 1)
            steps.append(self.key_pair(inputs.params).count(state.generation))
        elif not state.next_public_key:
            if link in charm_state.rotate or self.due(inputs, state):
                steps += self.stage_key(inputs, state)
        else:
            late, never = _unacknowledged(inputs.remotes, state, admission)
            lacking = self.lacking(inputs, state)
            forced = charm_state.force and link in charm_state.rotate
            if lacking and not forced:
                waiting.append(
                    "key rotation waits for a certificate {}".format(fields.few(lacking))
                )
            elif late and not forced:
                waiting.append("key rotation waits for {}".format(fields.few(late)))
                if never:
                    what = "{} has not accepted our present key either, see its status;"
                    what += " rotate-keys with force=true does not wait"
                    waiting.append(what.format(fields.few(never)))
            else:
                if self.renews:
                    hybrid = [peer.name for peer in state.applied if peer.hybrid]
                    provider = charm_state.roles[link] == PROVIDER
                    steps += preshared.renew(link, provider, hybrid)
                state, promotion = self.promote_key(inputs, state)
                steps += promotion
        peers = admission.peers
        steps += self.apply(inputs, state, mtu, peers)
        known = [remote.peer_name for remote in inputs.remotes]
        known += [manual.peer_name for manual in charm_state.intent.manual(link)]
        steps += preshared.forget(link, known, inputs.results)
        if link in charm_state.restart:
            steps += self.restart(inputs, state, peers)
        return LinkPlan(
            params=inputs.params,
            problems=admission.problems + inputs.params.refused_gifts,
            waiting=tuple(waiting),
            peers=peers,
            mtu=mtu,
            offers=self._offers(inputs, state, peers, admission),
            state=state,
            steps=tuple(steps),
            called=frozenset(p.name for p in peers if p.is_manual and self.calls(inputs, p)),
        )

    def calls(self, inputs: LinkInputs, peer: Peer) -> bool:
        """Tell whether we keep calling a manual peer, which is then down while it is silent."""
        return bool(peer.endpoint and peer.keepalive)

    def _offers(
        self, inputs: LinkInputs, state: Keys, peers: Sequence[Peer], admission: Admission
    ) -> Dict[int, Offer]:
        keys = self.key_offer(inputs, state)
        installed = {peer.name: peer for peer in peers}
        offers = {}
        for remote in inputs.remotes:
            agreed = state.agreed.get(remote.peer_name, Agreed(None))
            peer = installed.get(remote.peer_name)
            offers[remote.relation_id] = Offer(
                technology=self.name,
                inner_address=inputs.params.inner_address.ip,
                mtu=inputs.mtu,
                endpoint=inputs.endpoint,
                allowed_prefixes=inputs.params.allowed_prefixes,
                request=inputs.params.request,
                assigned=leases.interfaces(
                    inputs.params, admission.leases.get(remote.peer_name, ())
                ),
                keys=attr.evolve(
                    keys,
                    acknowledged=(
                        self.acknowledged(inputs.params, state, peer) if peer is not None else ()
                    ),
                    wrapped=agreed.wrapped,
                    sealed=agreed.sealed,
                ),
            )
        return offers

    def conclude(self, plan: LinkPlan, state: Keys, results: Results, prefix: str) -> LinkPlan:
        """Add a key that the steps staged to the state and the offers."""
        staged = x509.body(results.out(plan.params.link + "/next"))
        if not staged or state.next_public_key:
            return plan
        plan = attr.evolve(plan, state=attr.evolve(state, next_public_key=staged))
        return plan.with_keys(lambda _, keys: attr.evolve(keys, next_public_key=staged))

    def details(self, plan: LinkPlan, state: Keys) -> Dict[str, Any]:
        return {
            "listen-port": plan.params.listen_port,
            "public-key": state.public_key,
            "key-generation": state.generation,
            "rotation": "under way" if state.next_public_key else "none",
        }


def counted(plans: Mapping[str, LinkPlan], known: Mapping[str, int]) -> Dict[str, int]:
    """Return the generation of each planned key that is later than the known one.

    The names are those of `CharmState.generations`.
    """
    found = {}
    for link, plan in plans.items():
        if isinstance(plan.state, KeyState):
            name = counter(link, plan.params.technology)
            if plan.state.generation > known.get(name, 0):
                found[name] = plan.state.generation
    return found


def counter(link: str, technology: str) -> str:
    """Return the name of a link's keys in `CharmState.generations`."""
    return "{} {}".format(link, technology)


def observe_preshared(charm_state: CharmState, link: str, prefix: str = "") -> List[Step]:
    """Return the steps that read the state of a link's preshared keys, if it needs any."""
    steps = [] if prefix else preshared.observe_files(link)
    if not charm_state.needs_preshared(link):
        return steps
    provider = charm_state.roles[link] == PROVIDER
    if not provider:
        steps += preshared.observe_wrap_key(link, prefix)
    if not prefix and _wants_hybrid(charm_state, link):
        steps += preshared.observe_kem(link, provider)
    related = [remote.peer_name for remote in charm_state.remotes.get(link, ())]
    stored = _stored_for(charm_state, link)
    for name in [*related, *_wrapped_for(charm_state, link), *stored]:
        steps += preshared.observe(link, name, prefix)
    for name in stored if not prefix else ():
        file = preshared.PRESHARED.format(link, name)
        steps.append(secret_store.observe(_state_id(link, name), file))
    return steps


def _wrapped_for(charm_state: CharmState, link: str) -> Dict[str, str]:
    """Return the wrap keys of manual peers that use a preshared key, by peer name."""
    if charm_state.intent.links[link].ipsec.credentials != PSK:
        return {}
    manual = charm_state.intent.manual(link)
    return {peer.peer_name: peer.public_key for peer in manual if not peer.stored}


def _stored_for(charm_state: CharmState, link: str) -> List[str]:
    """Return the manual peers whose preshared key comes from a secret store."""
    if charm_state.intent.links[link].ipsec.credentials != PSK:
        return []
    return [peer.peer_name for peer in charm_state.intent.manual(link) if peer.stored]


def _failed_fetches(inputs: LinkInputs) -> List[str]:
    """Return why the last fetches of preshared keys failed."""
    reasons = []
    for name in _stored_for(inputs.charm_state, inputs.link):
        reason = secret_store.last_refusal(_state_id(inputs.link, name), inputs.results)
        reasons += ["{}: {}".format(name[len(MANUAL) :], reason)] if reason else []
    return reasons


def _state_id(link: str, peer: str) -> str:
    return "{}/psk/{}/state".format(link, peer)


def _wants_hybrid(charm_state: CharmState, link: str) -> bool:
    """Tell whether either end of a link asks for hybrid keys."""
    theirs = [keys.post_quantum for keys in charm_state.keys(link).values()]
    return preshared.wants_hybrid(charm_state.intent.links[link].post_quantum, theirs)


def _kem(charm_state: CharmState, link: str, results: Results) -> Tuple[bool, str]:
    """Return whether the VDU has ML-KEM (True if no end asks for it), and our public key."""
    if not charm_state.needs_preshared(link) or not _wants_hybrid(charm_state, link):
        return True, ""
    return preshared.parse_kem(link, results)


def _agreements(
    charm_state: CharmState, link: str, results: Results, prefix: str = "", able: bool = True
) -> Dict[str, Tuple[Agreed, List[Step]]]:
    """Return the agreement on a preshared key with each peer, and the steps that continue it."""
    if not charm_state.needs_preshared(link):
        return {}
    provider = charm_state.roles[link] == PROVIDER
    params = charm_state.intent.links[link]
    table: Dict[str, Tuple[Agreed, List[Step]]] = {}
    for name, keys in charm_state.keys(link).items():
        if keys.preshared or params.needs_preshared:
            theirs = keys.post_quantum
            hybrid, lacking = preshared.lacking(params.post_quantum, able, theirs)
            if lacking and REQUIRE in (params.post_quantum, _WANTS.get(theirs)):
                table[name] = Agreed(None, lacking=lacking), []
                continue
            state = preshared.parse(link, name, results, prefix)
            now, steps = preshared.agreement(
                link, name, provider, keys, hybrid and not lacking, state
            )
            table[name] = attr.evolve(now, lacking=lacking), steps
    for name, key in sorted(_wrapped_for(charm_state, link).items()):
        state, keys = preshared.parse(link, name, results, prefix), KeyOffer(key, wrap_key=key)
        table[name] = preshared.agreement(link, name, True, keys, False, state)
    return table


def _wrap_key(inputs: LinkInputs) -> str:
    charm_state, link = inputs.charm_state, inputs.link
    if charm_state.roles[link] == PROVIDER or not charm_state.needs_preshared(link):
        return ""
    return preshared.parse_wrap_key(link, inputs.results)


def _agreed(inputs: LinkInputs, able: bool) -> Dict[str, Agreed]:
    """Return the agreement with each peer, by peer name; `able` as in `KeyState`."""
    results, prefix = inputs.latest()
    listed = _agreements(inputs.charm_state, inputs.link, results, prefix, able)
    table = {name: agreed for name, (agreed, _) in listed.items()}
    for name in _stored_for(inputs.charm_state, inputs.link):
        table[name] = Agreed(preshared.fetched(preshared.parse(inputs.link, name, results, prefix)))
    return table


def _unacknowledged(
    remotes: Sequence[Remote], state: KeyState, admission: Admission
) -> Tuple[List[str], List[str]]:
    """Return the related applications that have not installed the staged key.

    The second list has those of them that have not even installed the present one.
    """
    late: List[str] = []
    never: List[str] = []
    installed = {peer.name for peer in admission.peers}
    for remote in remotes:
        if remote.peer_name not in installed:
            continue  # It has no tunnel that a switch could break, for example if it is revoked.
        offer = admission.offers.get(remote.peer_name)
        keys = offer.keys if offer else None
        if keys is None or state.next_public_key not in keys.acknowledged:
            late.append(remote.label)
        if keys is None or not {state.public_key, state.next_public_key} & set(keys.acknowledged):
            never.append(remote.label)
    return late, never
