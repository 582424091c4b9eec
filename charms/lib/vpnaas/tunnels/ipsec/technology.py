"""IPsec as a technology of links; the other modules talk to strongSwan."""

from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

import attr

from vpnaas.base import fields
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.base.links import IPSEC, PROVIDER, ipsec_interface
from vpnaas.params.intent import LinkParams
from vpnaas.peers import same_address
from vpnaas.peers.admission import Admission, Proof
from vpnaas.peers.offer import KeyOffer
from vpnaas.peers.peer import Peer, in_turn
from vpnaas.tunnels import ipsec
from vpnaas.tunnels.ipsec import algorithms, certificates, enrolment, validation
from vpnaas.tunnels.keyed import KeyedTechnology, observe_preshared
from vpnaas.tunnels.technology import LinkPlan, Seen, Situation, View
from vpnaas.vdu.steps import Results, Step

HYBRID_SINCE = (6, 0)
"""strongSwan's first version with additional key exchanges (RFC 9370) and ML-KEM."""


MOST_CALLS = 8
"""Peers without a tunnel that are called in one reconcile; each may take 5 s to not answer."""


class Ipsec(KeyedTechnology[ipsec.State]):
    """IKEv2 and ESP by strongSwan."""

    name = IPSEC
    tools = ("swanctl", "openssl", "sed")
    packages = (
        "charon-systemd",
        "strongswan-swanctl",
        "libcharon-extra-plugins",
        "libstrongswan-extra-plugins",
        "libstrongswan-standard-plugins",
        "openssl",
    )

    def overhead(self, params: LinkParams) -> int:
        """Return by how many bytes a packet grows at most."""
        return params.ipsec.proposal.overhead()

    def marker(self, link: str) -> str:
        """Return the swanctl file."""
        return ipsec.conf_path(link)

    def interface(self, view: View) -> str:
        """Return the interface decrypted packets come in by."""
        plane = ipsec.parse_plane(view.results)
        return {
            ipsec.XFRM: ipsec_interface(view.link),
            ipsec.POLICY: view.underlay.name,
            ipsec.USERSPACE: ipsec.TUN,
        }[plane]

    def owner(self, view: View) -> str:
        """Return the daemon's unit."""
        return ipsec.DAEMON

    def observe(self, situation: Situation, links: Sequence[str]) -> List[Step]:
        """Return the steps that make missing keys and look at the daemon and interfaces."""
        steps = [*ipsec.observe(links), algorithms.observe()]
        for link in links:
            steps += observe_preshared(situation, link)
            steps += certificates.observe(situation, link)
        return steps

    def agree(self, situation: Situation, links: Sequence[str], results: Results) -> List[Step]:
        """Return the steps that move agreements on keys and certificates on."""
        steps = super().agree(situation, links, results)
        for link in links:
            if certificates.role(situation, link):
                keys, identity = ipsec.keys_of(link, results)
                steps += certificates.prepare(situation, link, keys, identity, results)
        return steps

    def look_again(self, situation: Situation, link: str) -> List[Step]:
        """Return the steps that look at what `agree` may have changed."""
        again = certificates.observe(situation, link, certificates.AGAIN)
        return super().look_again(situation, link) + again

    def fitted(self, view: View) -> View:
        """Return the view with what this VDU's strongSwan and kernel allow."""
        params = view.params
        version = ipsec.parse_version(view.results)
        if params.ipsec.proposal.hybrid and version < HYBRID_SINCE:
            raise InputError(
                "configure: proposal",
                "this VDU's strongSwan {} has no {}".format(
                    ".".join(str(part) for part in version), params.ipsec.proposal.hybrid
                ),
                "a proposal without it, or an image with strongSwan 6.0 or newer",
            )
        missing = algorithms.lacking(params.ipsec.proposal, view.results)
        if missing:
            raise InputError(
                "configure: proposal",
                "{} needs {}, which this VDU's charon has not".format(
                    params.ipsec.proposal.text, ", ".join(missing)
                ),
                "what `swanctl --list-algs` shows there; most plugins are in the package"
                " libstrongswan-standard-plugins",
            )
        if ipsec.parse_plane(view.results) == ipsec.USERSPACE:
            if params.ipsec.esn == "yes":
                raise InputError(
                    "configure: ipsec-options: esn",
                    "this VDU's kernel has no ESP, and strongSwan's own has no extended sequence"
                    " numbers",
                    "esn=auto or esn=no",
                )
            view = attr.evolve(view, mtu=min(view.mtu, ipsec.TUN_MTU))
        if params.ipsec.same_address:
            same_address.check(params, view.underlay)
        return view

    def plan(self, view: View, state: ipsec.State, admission: Admission, mtu: int) -> LinkPlan:
        """Decide what a link with these peers should be."""
        plan = super().plan(view, state, admission, mtu)
        untimely = enrolment.untimely(plan.state.held, view.vdu.now)
        return attr.evolve(plan, waiting=plan.waiting + untimely)

    def observed(self, view: View) -> ipsec.State:
        """Read what `observe` brought back of a link."""
        situation, link = view.situation, view.link
        state = ipsec.parse(situation.using(self.name), link, view.vdu, view.results)
        results, prefix = view.results, ""
        if view.prepared is not None and certificates.looked_again(link, view.prepared):
            results, prefix = view.prepared, certificates.AGAIN
        held = certificates.parse(situation, link, results, prefix)
        return self._judged(view, attr.evolve(state, held=held))

    @staticmethod
    def _judged(view: View, state: ipsec.State) -> ipsec.State:
        """Return the state with what follows from its certificates, where the link has any."""
        if not certificates.role(view.situation, view.link):
            return state
        keys = (state.public_key, state.next_public_key)
        judged = validation.judge(view, state.held, keys, state.identity)
        return attr.evolve(state, judged=judged)

    def proofs(self, view: View, state: ipsec.State) -> Optional[Mapping[str, Proof]]:
        """Return where peers stand with certificates."""
        return state.judged.proofs if state.judged is not None else None

    def due(self, view: View, state: ipsec.State) -> bool:
        """Tell whether two thirds of a certificate's life are over that can be renewed."""
        kind = certificates.role(view.situation, view.link)
        if state.judged is None or kind == certificates.OPERATED:
            return False
        time = validation.renewal(state.judged)
        return time is not None and view.vdu.now >= time

    def lacking(self, view: View, state: ipsec.State) -> Sequence[str]:
        """Return whence the staged key still needs a certificate."""
        return state.judged.lacking if state.judged is not None else ()

    def told(
        self, view: View, state: ipsec.State, peers: Mapping[str, Peer], keys: KeyOffer
    ) -> Mapping[str, KeyOffer]:
        """Return what single relations are told of our keys and certificates."""
        kind, judged = certificates.role(view.situation, view.link), state.judged
        if judged is None:
            return {}
        own = (state.public_key, state.next_public_key)
        offers = view.situation.offers(view.link)
        told = {}
        for remote in view.remotes:
            name = remote.peer_name
            certs = enrolment.offered(view, state.held, judged, remote, own)
            if kind == certificates.AUTHORITY:
                pair = enrolment.issued(state.held, judged, peers.get(name), offers.get(name))
                certs = attr.evolve(certs, issued=pair[0], next_issued=pair[1])
            told[name] = attr.evolve(keys, certs=certs)
        return told

    def stage_key(self, view: View, state: ipsec.State) -> List[Step]:
        """Return the steps that make the next key and, for a certificate, its request."""
        steps = ipsec.stage_key(view.link)
        if certificates.role(view.situation, view.link):
            steps += certificates.ask(view.link, state.identity, staged=True)
        return steps

    def promote_key(self, view: View, state: ipsec.State) -> Tuple[ipsec.State, List[Step]]:
        """Return the state after the switch to the staged key, and the steps."""
        generation = state.generation + 1
        switched = attr.evolve(
            state,
            public_key=state.next_public_key,
            next_public_key="",
            generation=generation,
            held=state.held.promoted(),
        )
        steps = enrolment.promote(view.link, state.held)
        return self._judged(view, switched), steps + ipsec.promote_key(view.link, generation)

    def _wanted(
        self, view: View, state: ipsec.State, mtu: int, peers: Sequence[Peer]
    ) -> ipsec.Wanted:
        kind, judged = certificates.role(view.situation, view.link), state.judged
        chains: Dict[str, ipsec.Chain] = {}
        brought: List[Step] = []
        if judged is not None:
            brought = enrolment.steps_to(view, state.held, judged, peers, state.applied)
            for peer in peers:
                slot = peer.name if kind == certificates.SUBJECT else ""
                chains[peer.name] = ipsec.Chain(
                    name=judged.own_handle(slot),
                    own=certificates.own_file(view.link, slot),
                    authority=certificates.trust_file(view.link, slot),
                    strict=kind == certificates.AUTHORITY,
                )
        inner = view.situation.inner_addresses()
        addresses = [a.ip for a in view.underlay.addresses if a.ip not in inner]
        return ipsec.Wanted(
            params=view.params,
            mtu=mtu,
            tun_mtu=min([mtu] + [self._cap(view, link) for link in view.situation.using(IPSEC)]),
            peers=tuple(peers),
            underlay=tuple(addresses),
            initiates=_initiates(view, peers),
            sources=view.sources(),
            chains=chains,
            certificates=tuple(brought),
            same_address=any(
                view.situation.intent.links[link].ipsec.same_address
                for link in view.situation.using(IPSEC)
            ),
        )

    def _cap(self, view: View, link: str) -> int:
        """Return the MTU another link of the VDU can have at most."""
        params = view.situation.intent.links[link]
        try:
            underlay = view.vdu.underlay(params.underlay_interface, view.situation.management)
        except VpnaasError:
            return ipsec.TUN_MTU
        room = underlay.mtu - self.overhead(params)
        return max(min(room, params.mtu or room, ipsec.TUN_MTU), fields.MIN_MTU)

    def apply(self, view: View, state: ipsec.State, mtu: int, peers: Sequence[Peer]) -> List[Step]:
        """Return the steps to the wanted connections."""
        wanted = self._wanted(view, state, mtu, peers)
        made = ipsec.connections(wanted, state)
        steps = ipsec.steps_to(wanted, state, made)
        return steps + self._wake(view, wanted, state, peers, made)

    @staticmethod
    def _wake(
        view: View,
        wanted: ipsec.Wanted,
        state: ipsec.State,
        peers: Sequence[Peer],
        made: ipsec.Made,
    ) -> List[Step]:
        """Return the steps that open tunnels, and end what these replace.

        A peer that does not answer takes some seconds. So not all are called in one reconcile, and
        those that are change with time.
        """
        reached = [peer for peer in peers if peer.reached]
        link = wanted.link
        awake = {p.name for p in reached if any(sa.up for sa in state.of(link, p.name))}
        asleep = [peer.name for peer in reached if peer.name not in awake]
        chosen = awake.union(in_turn(asleep, MOST_CALLS, view.vdu.now))
        steps: List[Step] = []
        for peer in reached:
            if peer.name in chosen:
                steps += ipsec.wake(wanted, state, peer, made)
        return steps

    def restart(self, view: View, state: ipsec.State, peers: Sequence[Peer]) -> List[Step]:
        """Return the steps that take the tunnels down and up."""
        wanted = self._wanted(view, state, view.mtu, peers)
        steps = ipsec.restart(wanted, state)
        gone = attr.evolve(state, sas=())
        for step in self._wake(view, wanted, gone, peers, ipsec.connections(wanted, gone)):
            steps.append(attr.evolve(step, id=step.id + "/again"))
        return steps

    def key_offer(self, view: View, state: ipsec.State) -> KeyOffer:
        """Return what all relations are told."""
        chosen = view.params.ipsec
        return attr.evolve(
            super().key_offer(view, state),
            identity=state.identity,
            proposal=chosen.proposal.text,
            credentials=chosen.credentials,
        )

    def look(self, situation: Situation, links: Sequence[str], prefix: str) -> List[Step]:
        """Return the steps that read the live state of all links."""
        return ipsec.look(prefix)

    def staged(self, link: str, results: Results) -> str:
        """Return the public half of a key that the steps staged, without its armour."""
        return ipsec.public_key(super().staged(link, results))

    def conclude(
        self, plan: LinkPlan, state: ipsec.State, results: Results, prefix: str
    ) -> LinkPlan:
        """Take over the live state of after the steps."""
        plan = super().conclude(plan, state, results, prefix)
        plan = attr.evolve(
            plan,
            offers={
                id: attr.evolve(
                    offer,
                    keys=offer.keys
                    and attr.evolve(
                        offer.keys,
                        certs=enrolment.concluded(plan.params.link, offer.keys.certs, results),
                    ),
                )
                for id, offer in plan.offers.items()
            },
        )
        if prefix + "ipsec/sas" in results:
            sas = ipsec.parse_sas(plan.params.link, results, prefix)
            loaded = ipsec.parse_loaded(results, prefix)
            problems = list(plan.problems)
            ends = {ipsec.end_of(name) for name in loaded}
            for peer in plan.peers:
                if "{}_{}".format(plan.params.link, peer.name) not in ends:
                    # swanctl says nothing by its exit code.
                    problems.append(
                        "{}: strongSwan did not load its connection, see the VDU's"
                        " `swanctl --load-conns`".format(peer.label)
                    )
            state = attr.evolve(plan.state, sas=sas, loaded=loaded)
            return attr.evolve(plan, state=state, problems=tuple(problems))
        return plan

    def absent(self, link: str) -> List[Step]:
        """Return the steps that take a link down for good."""
        return ipsec.absent(link)

    def alive(self, state: ipsec.State, link: str, peer: Peer, now: int, grace: int) -> bool:
        """Tell whether packets pass; dead peers are found by the daemon itself (RFC 7296 2.4)."""
        return any(sa.up for sa in state.of(link, peer.name))

    def seen(self, state: ipsec.State, link: str, peer: Peer) -> Seen:
        """Return what the daemon knows of a peer."""
        mine = state.of(link, peer.name)
        best = sorted(mine, key=lambda sa: (not sa.up, -sa.id))[:1]
        if not best:
            return Seen(details={"ike": "none"})
        children = [child for sa in mine for child in sa.children]
        newest = sorted(best[0].children, key=lambda child: child.age)[:1]
        details = {"ike": best[0].state.lower(), "ike-proposal": best[0].ike}  # type: Dict[str, Any]
        if best[0].given:
            details["given-addresses"] = ",".join(best[0].given)
        for child in newest:
            details.update(
                {
                    "esp": child.cipher,
                    "esn": child.esn,
                    "esp-in-udp": child.encap,
                    "last-rekey-s": child.age,
                }
            )
        return Seen(
            age=best[0].age,
            received=sum(child.received for child in children),
            sent=sum(child.sent for child in children),
            endpoint=best[0].remote,
            details=details,
        )

    def details(self, plan: LinkPlan, state: ipsec.State) -> Dict[str, Any]:
        """Return what show-status tells of a link."""
        return dict(
            super().details(plan, state),
            **{
                "interface": ipsec_interface(plan.params.link),
                "ike-identity": state.identity,
                "dataplane": state.plane,
                "proposal": plan.params.ipsec.proposal.text,
                "credentials": plan.params.ipsec.credentials,
            },
            **enrolment.shown(state.held),
        )


def _initiates(view: View, peers: Sequence[Peer]) -> FrozenSet[str]:
    """Return the peers towards which this side holds the tunnel up; never do both ends.

    In a relation that is the requirer; a manual peer is called where its endpoint is known.
    """
    provider = view.situation.roles[view.link] == PROVIDER
    return frozenset(
        peer.name
        for peer in peers
        if peer.endpoint and (peer.name.startswith("man-") or not provider)
    )
