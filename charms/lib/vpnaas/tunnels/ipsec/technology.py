"""IPsec as a technology of links; the other modules talk to strongSwan."""

from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

import attr

from vpnaas.base import fields
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.base.links import IPSEC, PROVIDER, ipsec_interface
from vpnaas.params.intent import LinkParams
from vpnaas.params.ipsec import EXTERNAL
from vpnaas.peers import same_address
from vpnaas.peers.admission import Admission, Proof
from vpnaas.peers.inputs import AGAIN, CharmState, LinkInputs
from vpnaas.peers.offer import KeyOffer
from vpnaas.peers.peer import Peer, in_turn
from vpnaas.tunnels.ipsec import (
    algorithms,
    certificates,
    enrolment,
    observed,
    refusals,
    transition,
    validation,
)
from vpnaas.tunnels.ipsec.configuration import Configuration, Made, connections
from vpnaas.tunnels.ipsec.names import DAEMON, IDENTITY, POLICY, TUN, TUN_MTU, UP, USERSPACE, XFRM
from vpnaas.tunnels.ipsec.observed import State
from vpnaas.tunnels.key_pair import KeyPair
from vpnaas.tunnels.keyed import KeyedTechnology, observe_preshared
from vpnaas.tunnels.technology import LinkPlan, PeerSession, Trouble
from vpnaas.vdu import trouble
from vpnaas.vdu.steps import Broken, Results, Step

NO_PORTS = (
    "charon of the VDU does not have UDP ports 500 and 4500, as /etc/strongswan.d may have others"
)
NO_UDP = "it sends ESP without UDP in spite of encap=yes"
MOST_CALLS = 8
"""Peers to which one reconcile initiates a tunnel; one that does not answer costs 5 s."""


class Ipsec(KeyedTechnology[State]):
    """IKEv2 and ESP by strongSwan."""

    name = IPSEC
    part = "ipsec"
    marker = UP  # It is there before the swanctl file and goes last.
    owner = DAEMON
    more_files = ((IDENTITY, ("grep", "-qxE", "[0-9a-f]{16}")),)
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
        return params.ipsec.proposal.overhead()

    def interface(self, inputs: LinkInputs) -> str:
        """Return the interface at which decrypted packets arrive."""
        plane = observed.parse_plane(inputs.results)
        return {
            XFRM: ipsec_interface(inputs.link),
            POLICY: inputs.underlay.name,
            USERSPACE: TUN,
        }[plane]

    def observe(self, charm_state: CharmState, links: Sequence[str]) -> List[Step]:
        types = {link: charm_state.intent.links[link].ipsec.key_type for link in links}
        steps = [step for link in links for step in self.renew(charm_state, link)]
        steps += [*observed.observe(types), algorithms.observe()]
        for link in links:
            steps += observe_preshared(charm_state, link)
            steps += certificates.observe(charm_state, link)
        return steps

    def diagnose(self, params: LinkParams, broken: Broken) -> List[Step]:
        argv = broken.step.body.get("argv", ())
        unit = argv[-1] if argv[:2] == ["systemctl", "restart"] else ""
        return [trouble.look_at_journal(params.link + "/why", unit)] if unit else []

    def reason(
        self, params: LinkParams, broken: Broken, diagnosis: Optional[Results] = None
    ) -> str:
        sentence = super().reason(params, broken, diagnosis)
        said = trouble.journal(diagnosis, params.link + "/why") if diagnosis is not None else ""
        return "{} and says: {}".format(sentence, said) if said else sentence

    def agree(self, charm_state: CharmState, links: Sequence[str], results: Results) -> List[Step]:
        steps = super().agree(charm_state, links, results)
        for link in links:
            if certificates.has_certificates(charm_state, link):
                keys, identity = observed.keys_of(link, results)
                steps += certificates.prepare(charm_state, link, keys, identity, results)
        return steps

    def look_again(self, charm_state: CharmState, link: str) -> List[Step]:
        again = certificates.observe(charm_state, link, AGAIN)
        return super().look_again(charm_state, link) + again

    def fitted(self, inputs: LinkInputs) -> LinkInputs:
        params = inputs.params
        intruder = observed.intruder(inputs.results)
        if intruder:
            raise InputError(params.link, intruder, "no other IKE daemon beside strongSwan")
        missing = algorithms.lacking(params.ipsec.proposal, inputs.results)
        if missing:
            raise InputError(
                "configure: proposal",
                "{} needs {}, which charon on this VDU lacks".format(
                    params.ipsec.proposal.text, ", ".join(missing)
                ),
                "one that `swanctl --list-algs` shows there; most plugins are in the package"
                " libstrongswan-standard-plugins, and ML-KEM needs OpenSSL 3.5 besides",
            )
        if observed.parse_plane(inputs.results) == USERSPACE:
            if params.ipsec.esn == "yes":
                raise InputError(
                    "configure: ipsec-options: esn",
                    "this VDU's kernel has no ESP, and strongSwan's own has no extended sequence"
                    " numbers",
                    "esn=auto or esn=no",
                )
            inputs = attr.evolve(inputs, mtu=min(inputs.mtu, TUN_MTU))
        if params.ipsec.same_address:
            same_address.check(params, inputs.underlay)
        return inputs

    def plan(self, inputs: LinkInputs, state: State, admission: Admission, mtu: int) -> LinkPlan:
        plan = super().plan(inputs, state, admission, mtu)
        more = enrolment.untimely(plan.state.held, inputs.vdu.now)
        if state.validated is not None:
            more = state.validated.waiting + more
        certified = certificates.has_certificates(inputs.charm_state, inputs.link)
        if certified:
            more += refusals.unserved(state.notes, inputs.vdu.now)
        if certified and inputs.params.ipsec.revocation == "relaxed":
            more += refusals.unproved(state.notes, inputs.link, inputs.vdu.now)
        return attr.evolve(plan, waiting=plan.waiting + more)

    def calls(self, inputs: LinkInputs, peer: Peer) -> bool:
        kept = inputs.params.ipsec.start == "start"
        return kept and peer.name in _initiates(inputs, [peer])

    def observed(self, inputs: LinkInputs) -> State:
        charm_state, link = inputs.charm_state, inputs.link
        state = observed.parse(charm_state.using(self.name), link, inputs.vdu, inputs.results)
        results, prefix = inputs.latest()
        now = inputs.vdu.now
        held = certificates.parse(charm_state, link, results, now, state.applied, prefix)
        return self._validated(inputs, attr.evolve(state, held=held))

    @staticmethod
    def _validated(inputs: LinkInputs, state: State) -> State:
        """Return the state with the result of the certificate checks, if the link has any."""
        if not certificates.has_certificates(inputs.charm_state, inputs.link):
            return state
        keys = (state.public_key, state.next_public_key)
        validated = validation.validate(inputs, state.held, keys, state.identity)
        return attr.evolve(state, validated=validated)

    def proofs(self, inputs: LinkInputs, state: State) -> Optional[Mapping[str, Proof]]:
        return state.validated.proofs if state.validated is not None else None

    def due(self, inputs: LinkInputs, state: State) -> bool:
        """Tell whether our key must be rotated: its type is not the wanted one, or renewal is due.

        A certificate that can be renewed is due after two thirds of its validity.
        """
        if fields.ipsec_key_type(state.public_key) != inputs.params.ipsec.key_type:
            return True
        external = inputs.params.ipsec.credentials == EXTERNAL
        if state.validated is None or external:
            return False
        time = state.validated.renewal
        return time is not None and inputs.vdu.now >= time

    def lacking(self, inputs: LinkInputs, state: State) -> Sequence[str]:
        return state.validated.lacking if state.validated is not None else ()

    def key_pair(self, params: LinkParams) -> KeyPair:
        return observed.key_pair(params.link, params.ipsec.key_type)

    def stage_key(self, inputs: LinkInputs, state: State) -> List[Step]:
        steps = super().stage_key(inputs, state)
        if certificates.has_certificates(inputs.charm_state, inputs.link):
            steps += certificates.ask(inputs.link, state.identity, staged=True)
        return steps

    def promote_key(self, inputs: LinkInputs, state: State) -> Tuple[State, List[Step]]:
        switched, steps = super().promote_key(inputs, state)
        # The key moves first: its certificate is valid in either file, so a failure ends no tunnel.
        steps += enrolment.promote(inputs.link, state.held)
        switched = attr.evolve(switched, held=state.held.promoted(inputs.link))
        return self._validated(inputs, switched), steps

    def _configuration(
        self, inputs: LinkInputs, state: State, mtu: int, peers: Sequence[Peer]
    ) -> Configuration:
        validated = state.validated
        brought: List[Step] = []
        if validated is not None:
            brought = enrolment.steps_to(inputs, state.held, validated, peers, state.applied)
        inner = inputs.charm_state.inner_addresses()
        addresses = [a.ip for a in inputs.underlay.addresses if a.ip not in inner]
        intent = inputs.charm_state.intent
        links = [intent.links[link] for link in inputs.charm_state.using(IPSEC)]
        return Configuration(
            params=inputs.params,
            mtu=mtu,
            tun_mtu=min([mtu] + [self._cap(inputs, each) for each in links]),
            peers=tuple(peers),
            underlay=tuple(addresses),
            initiates=_initiates(inputs, peers),
            sources=inputs.sources(),
            certificate=validated.name if validated is not None else None,
            certificates=tuple(brought),
            same_address=any(each.ipsec.same_address for each in links),
            shared=inputs.charm_state.beside.shared,
            asks=any(each.request for each in links),
        )

    def _cap(self, inputs: LinkInputs, params: LinkParams) -> int:
        """Return the largest MTU that an IPsec link of the VDU can have."""
        try:
            underlay = inputs.vdu.underlay(params.underlay_interface, inputs.charm_state.management)
        except VpnaasError:
            return TUN_MTU
        room = underlay.mtu - self.overhead(params)
        cap = max(min(room, params.mtu or room, TUN_MTU), fields.MIN_MTU)
        # The MTU of another link's interface is what the peers of that link allow.
        live = inputs.vdu.interfaces.get(ipsec_interface(params.link))
        return min(cap, live.mtu) if live is not None and params.link != inputs.link else cap

    def apply(
        self, inputs: LinkInputs, state: State, mtu: int, peers: Sequence[Peer]
    ) -> List[Step]:
        configuration = self._configuration(inputs, state, mtu, peers)
        made = connections(configuration, state)
        steps = transition.steps_to(configuration, state, made)
        return steps + self._wake(inputs, configuration, state, peers, made)

    @staticmethod
    def _wake(
        inputs: LinkInputs,
        configuration: Configuration,
        state: State,
        peers: Sequence[Peer],
        made: Made,
    ) -> List[Step]:
        """Return the steps that initiate tunnels, and end the ones that these replace.

        A peer that does not answer costs some seconds. So one reconcile initiates to some peers
        only, and a later one to others. A peer that gets addresses from us initiates itself, since
        only the initiator can ask for them (RFC 7296 section 2.19).
        """
        reached = [peer for peer in peers if peer.reached and not peer.given]
        link = configuration.link
        awake = {p.name for p in reached if any(sa.up for sa in state.of(link, p.name))}
        asleep = [peer.name for peer in reached if peer.name not in awake]
        chosen = awake.union(in_turn(asleep, MOST_CALLS, inputs.vdu.now))
        steps: List[Step] = []
        for peer in reached:
            if peer.name in chosen:
                steps += transition.wake(configuration, state, peer, made)
        return steps

    def restart(self, inputs: LinkInputs, state: State, peers: Sequence[Peer]) -> List[Step]:
        configuration = self._configuration(inputs, state, inputs.mtu, peers)
        steps = transition.restart(configuration)
        gone = attr.evolve(state, sas=())
        for step in self._wake(
            inputs, configuration, gone, peers, connections(configuration, gone)
        ):
            steps.append(attr.evolve(step, id=step.id + "/again"))
        return steps

    def key_offer(self, inputs: LinkInputs, state: State) -> KeyOffer:
        chosen = inputs.params.ipsec
        return attr.evolve(
            super().key_offer(inputs, state),
            identity=state.identity,
            proposal=chosen.proposal.text,
            credentials=chosen.proof,
            certs=enrolment.offered(state.validated),
        )

    def look(self, prefix: str) -> List[Step]:
        return observed.look(prefix)

    def conclude(self, plan: LinkPlan, state: State, results: Results, prefix: str) -> LinkPlan:
        plan = super().conclude(plan, state, results, prefix)
        if prefix + "ipsec/sas" in results:
            link = plan.params.link
            sas = observed.parse_sas(link, results, prefix)
            loaded = observed.parse_loaded(results, prefix)
            problems = list(plan.problems)
            if results.out(prefix + "ipsec/stats") and not observed.listens(results, prefix):
                problems.append(NO_PORTS)
            ends = {observed.end_of(name) for name in loaded}
            for peer in plan.peers:
                if "{}_{}".format(link, peer.name) not in ends:
                    # The exit code of swanctl does not show this.
                    problems.append(
                        "{}: strongSwan did not load its connection, see the VDU's"
                        " `swanctl --load-conns`".format(peer.label)
                    )
            notes = observed.parse_notes(results, prefix)
            state = attr.evolve(plan.state, sas=sas, loaded=loaded, notes=notes)
            plan = attr.evolve(plan, state=state, problems=tuple(problems))
            if plan.params.given:
                plan = self._acknowledging(plan)
        return plan

    def _acknowledging(self, plan: LinkPlan) -> LinkPlan:
        """Return a plan whose offers acknowledge the keys of peers with a tunnel that is up."""
        peers = {peer.name: peer for peer in plan.peers}

        def change(id: int, keys: KeyOffer) -> KeyOffer:
            peer = peers.get("rel-{}".format(id))
            if peer is None:
                return keys
            now = self.acknowledged(plan.params, plan.state, peer)
            return attr.evolve(keys, acknowledged=now)

        return plan.with_keys(change)

    def acknowledged(self, params: LinkParams, state: State, peer: Peer) -> Tuple[str, ...]:
        """Return the keys of an installed peer that our offer acknowledges.

        A gateway that gives us addresses cannot initiate a tunnel to test it. So we acknowledge its
        keys only when the tunnel is up.
        """
        if params.given and not any(sa.up for sa in state.of(params.link, peer.name)):
            return ()
        return peer.public_keys()

    def absent(self, link: str) -> List[Step]:
        return transition.absent(link)

    def alive(self, state: State, link: str, peer: Peer, now: int, grace: int) -> bool:
        """Tell whether packets pass; the daemon detects dead peers (RFC 7296 section 2.4)."""
        return any(sa.up for sa in state.of(link, peer.name))

    def session(self, state: State, link: str, peer: Peer) -> PeerSession:
        mine = state.of(link, peer.name)
        best = sorted(mine, key=lambda sa: (not sa.up, -sa.id))[:1]
        if not best:
            return PeerSession(details={"ike": "none"})
        children = [child for sa in mine for child in sa.children]
        newest = sorted(best[0].children, key=lambda child: child.age)[:1]
        details = {"ike": best[0].state.lower(), "ike-proposal": best[0].ike}  # type: Dict[str, Any]
        if best[0].given:
            details["given-addresses"] = ",".join(best[0].given)
        for child in newest:
            details.update({"esp": child.cipher, "esn": child.esn, "esp-in-udp": child.encap})
            details["last-rekey-s"] = child.age
        passing = [child for sa in mine for child in sa.passing]
        if passing:
            ours, theirs = observed.selectors(passing)
            details.update({"own-selectors": ",".join(ours), "selectors": ",".join(theirs)})
        return PeerSession(
            age=best[0].age,
            received=sum(child.received for child in children),
            sent=sum(child.sent for child in children),
            endpoint=best[0].remote,
            details=details,
        )

    def trouble(self, state: State, params: LinkParams, peer: Peer) -> Trouble:
        """Compare the CHILD_SAs with what was agreed; without any, return the last refusal."""
        mine = state.of(params.link, peer.name)
        passing = [child for sa in mine for child in sa.passing]
        if passing:
            lacks = refusals.lacking(params, peer, [(c.ours, c.theirs) for c in passing])
            if params.ipsec.encap and not all(child.encap for child in passing):
                lacks = "; ".join(filter(None, [lacks, NO_UDP]))
            return Trouble(lacks)
        if any(sa.lost for sa in mine):
            what = "the kernel lacks states or policies of its tunnel, which somebody removed"
            return Trouble(what, down=True)
        known = any(sa.authenticated for sa in mine)
        alone = "it proved itself, but there is no CHILD_SA, so no packet can pass" if known else ""
        note = refusals.last(state.notes, params.link, peer)
        return Trouble(str(note or alone), down=known)

    def details(self, plan: LinkPlan, state: State) -> Dict[str, Any]:
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


def _initiates(inputs: LinkInputs, peers: Sequence[Peer]) -> FrozenSet[str]:
    """Return the peers to which this side keeps the tunnel up; only one end of a link does so.

    In a relation, the requirer does so. To a manual peer, we do so if its endpoint is known. With a
    shared address, the manual peer does so, because the standby gateway cannot.
    """
    manual = inputs.charm_state.beside.shared is None
    provider = inputs.charm_state.roles[inputs.link] == PROVIDER
    return frozenset(
        peer.name
        for peer in peers
        if peer.endpoint and (manual if peer.is_manual else not provider)
    )
