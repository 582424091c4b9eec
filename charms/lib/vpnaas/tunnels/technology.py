"""The interface between a link and the technology that secures it.

A technology is one object of class `Technology`. `plan` finds it by name in its `TABLE`, where a
new one adds a line, and uses only its interface. `keyed` is the common code of technologies with
keys.
"""

from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    Generic,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
)

import attr

from vpnaas.base import fields
from vpnaas.base.links import NONE
from vpnaas.base.x509 import Certificate
from vpnaas.params.gateway import GatewayParams, SharedAddress
from vpnaas.params.intent import Intent, LinkParams, ManualPeer
from vpnaas.peers.admission import Admission, Beside, Context, Proof
from vpnaas.peers.leases import Asking
from vpnaas.peers.offer import KeyOffer, Offer, Remote
from vpnaas.peers.peer import Agreed, Peer, read_record
from vpnaas.vdu import facts
from vpnaas.vdu.facts import VduFacts
from vpnaas.vdu.steps import Broken, Results, Step

AGAIN = "again/"
"""Start of the ids of results that were read after the steps of `Technology.prepare`."""


@attr.frozen
class Given:
    """A certificate that an operator brings, its root, and the intermediate authorities between."""

    certificate: Certificate
    root: Certificate
    chain: Tuple[Certificate, ...] = ()


@attr.frozen
class CharmState:
    """All data from Juju that a reconcile needs."""

    intent: Intent  # Parameters from the operator.
    roles: Mapping[str, str]  # "provider" or "requirer" of each link the charm declares.
    # Related applications with units, per link.
    remotes: Mapping[str, Tuple[Remote, ...]] = attr.Factory(dict)
    management: Optional[fields.IPAddress] = None  # Address of the VDU that OSM gave.
    user: str = ""  # Login user on the VDU.
    rotate: FrozenSet[str] = frozenset()  # Links that rotate their key now.
    force: bool = False  # Switch rotated keys without waiting for acknowledgements.
    restart: FrozenSet[str] = frozenset()  # Links to take down and up.
    # SSH public keys of our other units, so that they can take over.
    authorize: Tuple[str, ...] = ()
    # Links that were down at the last look, or whose other end asks for a look. A packet of the
    # last seconds proves one direction only, so their peers are asked in any case.
    doubted: FrozenSet[str] = frozenset()
    # Parameters of the security gateway, None for another VNF.
    gateway: Optional[GatewayParams] = None
    # What only this VNF has besides links, of `extras.extra.Feature`.
    features: Tuple[Any, ...] = ()
    # Certificates from an operator for a link.
    certificates: Mapping[str, Given] = attr.Factory(dict)
    monitoring: int = 0  # Port of the exporter of metrics, 0 for none.
    # Links that wait for an address from their gateway; `intent` is without them.
    asking: Mapping[str, Asking] = attr.Factory(dict)
    # Address of our gateway pair for manual peers, None if there is none.
    shared: Optional[SharedAddress] = None
    # `Peer.holdings` of the last reconcile, by link and peer name.
    holdings: Mapping[str, Mapping[str, str]] = attr.Factory(dict)
    beside: Beside = attr.Factory(Beside)  # The VNF's network function.
    # The latest generation of each key that this VDU had, by link and technology.
    generations: Mapping[str, int] = attr.Factory(dict)

    @property
    def has_tunnels(self) -> bool:
        """Tell whether a link is secured."""
        return any(params.technology != NONE for params in self.intent.links.values())

    def using(self, technology: str) -> List[str]:
        """Return the links of one technology, by name."""
        links = self.intent.links.items()
        return sorted(link for link, params in links if params.technology == technology)

    def offers(self, link: str) -> Dict[str, Offer]:
        """Return the offers of a link that can be read, by peer name."""
        remotes = self.remotes.get(link, ())
        return {r.peer_name: r.offer for r in remotes if r.offer is not None}

    def keys(self, link: str) -> Dict[str, KeyOffer]:
        """Return the key parts of a link's offers, by peer name."""
        offers = self.offers(link).items()
        return {name: offer.keys for name, offer in offers if offer.keys is not None}

    def inner_addresses(self) -> FrozenSet[fields.IPAddress]:
        """Return our addresses that do not belong to an underlay, on any interface."""
        links = self.intent.links.values()
        inner = frozenset(link.inner_address.ip for link in links if not link.is_outer)
        # The shared address counts always: it moves between the gateways of the pair.
        return inner | {self.shared.address.ip} if self.shared else inner

    def needs_preshared(self, link: str) -> bool:
        """Tell whether either end of a link wants a preshared key."""
        theirs = self.keys(link).values()
        return self.intent.links[link].needs_preshared or any(keys.preshared for keys in theirs)


@attr.frozen
class Echo:
    """What came back from a peer through its tunnel."""

    sent: int  # Echo requests.
    received: int  # Answers.
    rtt_ms: Optional[float] = None  # Milliseconds until the first answer, None without any.


@attr.frozen
class LinkPlan:
    """Plan of one link."""

    params: LinkParams  # Its Day-1 parameters.
    # Whether the parameters cannot work on this VDU. The link then stays unchanged.
    unusable: bool = False
    # Sentences, each a reason why a peer or the link is not as requested.
    problems: Tuple[str, ...] = ()
    # Sentences of the same kind about what ends without an operator, and remarks.
    waiting: Tuple[str, ...] = ()
    peers: Tuple[Peer, ...] = ()  # Wanted peers on the VDU.
    mtu: int = 0  # MTU of the tunnel in bytes.
    offers: Mapping[int, Offer] = attr.Factory(dict)  # Our offer to each relation, by relation id.
    # Observed state, in the form of the link's technology; None without a decision.
    state: Any = None
    steps: Tuple[Step, ...] = ()
    interface: str = ""  # Interface that carries the link's packets, "" without a decision.
    underlay: str = ""  # Interface the link runs over.
    owner: str = ""  # systemd unit that brings the link up.
    # Outer address and port at which peers reach the link, None without a decision.
    endpoint: Optional[Tuple[fields.IPAddress, int]] = None
    # Link whose tunnel carries our packets to a peer, by the peer's name.
    through: Mapping[str, str] = attr.Factory(dict)
    # What came back from the peers that were asked in this reconcile, by name.
    echoes: Mapping[str, Echo] = attr.Factory(dict)

    def with_keys(self, change: Callable[[int, KeyOffer], KeyOffer]) -> "LinkPlan":
        """Return the plan with changed offers; `change` gets the relation id and our keys."""
        offers = {
            id: attr.evolve(offer, keys=offer.keys and change(id, offer.keys))
            for id, offer in self.offers.items()
        }
        return attr.evolve(self, offers=offers)


@attr.frozen
class LinkInputs:
    """Input to a technology's plan of one link."""

    charm_state: CharmState
    params: LinkParams
    vdu: VduFacts
    underlay: facts.Interface
    overhead: int  # Maximum number of bytes that the tunnel adds to a packet.
    mtu: int  # MTU of the tunnel in bytes, as far as known.
    endpoint: Optional[Tuple[fields.IPAddress, int]]
    results: Results
    # Results of the steps of `Technology.prepare`, None without such steps.
    prepared: Optional[Results] = None
    through: Mapping[str, str] = attr.Factory(dict)  # As in `LinkPlan`.
    # Why the endpoint of a peer cannot be used, and what is allowed, by peer name.
    refused: Mapping[str, Tuple[str, str]] = attr.Factory(dict)
    # Peers of the VDU's other links, by link.
    elsewhere: Mapping[str, Sequence[Peer]] = attr.Factory(dict)

    @property
    def link(self) -> str:
        """Return the name of the link."""
        return self.params.link

    @property
    def remotes(self) -> Tuple[Remote, ...]:
        """Return the related applications of the link."""
        return self.charm_state.remotes.get(self.link, ())

    def latest(self) -> Tuple[Results, str]:
        """Return the last results about the link's keys, and what starts their ids."""
        again, prepared = AGAIN + self.link + "/", self.prepared
        if prepared is not None and any(id.startswith(again) for id in prepared.ids()):
            return prepared, AGAIN
        return self.results, ""

    def context(
        self,
        applied: Sequence[Peer],
        manual: Sequence[ManualPeer] = (),
        own_keys: Sequence[str] = (),
        agreed: Optional[Mapping[str, Agreed]] = None,
        proofs: Optional[Mapping[str, Proof]] = None,
    ) -> Context:
        """Return the input to the admission of peers."""
        return Context(
            params=self.params,
            role=self.charm_state.roles[self.link],
            vdu=self.vdu,
            remotes=self.remotes,
            manual=tuple(manual),
            applied=tuple(applied),
            own_keys=tuple(own_keys),
            agreed=agreed or {},
            refused=self.refused,
            elsewhere=self.elsewhere,
            ends=self._ends() if self.params.given else {},
            taken={
                link: (params.inner_address.network,) + params.ipsec.pool
                for link, params in self.charm_state.intent.links.items()
                if link != self.link
            },
            proofs=proofs,
            revoked=frozenset(self.charm_state.intent.revoked.get(self.link, ())),
            holdings=self.charm_state.holdings.get(self.link, {}),
            beside=self.charm_state.beside,
        )

    def _ends(self) -> Dict[str, List[fields.IPAddress]]:
        """Return the outer addresses of applied peers of the VDU's other links, by link."""
        others = [link for link in self.charm_state.intent.links if link != self.link]
        applied = {link: read_record(self.results.text(link + "/applied")) for link in others}
        return {
            link: [p.endpoint[0] for p in peers if p.endpoint] for link, peers in applied.items()
        }

    def sources(self) -> Dict[str, fields.IPAddress]:
        """Return our outer address of each tunnel inside another one, by peer name."""
        links = self.charm_state.intent.links
        return {name: links[link].inner_address.ip for name, link in self.through.items()}


@attr.frozen
class Draft:
    """A link with its decided peers, before the steps are made."""

    inputs: LinkInputs
    state: Any  # Observed state, in the form of the link's technology.
    admission: Admission

    @property
    def mtu(self) -> int:
        """Return the MTU of the tunnel, bytes: what we and all peers can take."""
        return min([self.inputs.mtu] + [peer.mtu for peer in self.admission.peers if peer.mtu])


@attr.frozen
class PeerSession:
    """What the VDU knows of one peer at this moment."""

    handshake: int = 0  # When the peer last proved itself, seconds since the epoch, 0 for never.
    age: Optional[int] = None  # Seconds since then, for technologies that report this instead.
    heard: Optional[int] = None  # Seconds since its last packet, for technologies that report this.
    received: int = 0
    sent: int = 0
    endpoint: str = ""  # Where it is reached now, "" where unknown.
    details: Mapping[str, Any] = attr.Factory(dict)  # What show-status adds for this technology.


@attr.frozen
class Trouble:
    """What is wrong with the tunnel to a peer, "" for nothing known."""

    reason: str = ""  # A sentence without the peer's name.
    down: bool = False  # Whether it shows that no packet can pass.


State = TypeVar("State")


class Technology(Generic[State]):
    """One way to carry a link; the methods are pure.

    `State` is the type of its observed state of a link.
    """

    name = ""  # Value of the parameter `technology`.
    part = ""  # First word of the ids of steps that all its links share.
    tools: Tuple[str, ...] = ()  # Programs that a VDU needs for its links.
    packages: Tuple[str, ...] = ()  # Packages that contain these programs.
    keyed = False  # Whether peers have keys, which authenticate them and can be rotated.
    fresh = 0  # Seconds after a handshake during which a peer counts as up.

    def overhead(self, params: LinkParams) -> int:
        """Return the maximum growth of a packet in bytes."""
        return 0

    def marker(self, link: str) -> str:
        """Return the path of the file that exists if the VDU has the link in this technology."""
        raise NotImplementedError

    def interface(self, inputs: LinkInputs) -> str:
        """Return the interface that carries the packets of the link."""
        raise NotImplementedError

    def owner(self, inputs: LinkInputs) -> str:
        """Return the systemd unit that starts and stops the link's measurement socket."""
        raise NotImplementedError

    def observe(self, charm_state: CharmState, links: Sequence[str]) -> List[Step]:
        """Return the steps that make missing keys and observe `links`; there are always some."""
        raise NotImplementedError

    def prepare(
        self, charm_state: CharmState, links: Sequence[str], results: Results
    ) -> List[Step]:
        """Return the steps of a second round trip before the plan; often none."""
        return []

    def fitted(self, inputs: LinkInputs) -> LinkInputs:
        """Return the inputs, limited to what this VDU allows."""
        return inputs

    def parse(self, inputs: LinkInputs) -> State:
        """Read the results of `observe` and `prepare` for a link."""
        raise NotImplementedError

    def admit(self, inputs: LinkInputs, state: State) -> Admission:
        """Decide which peers a link has."""
        raise NotImplementedError

    def plan(self, inputs: LinkInputs, state: State, admission: Admission, mtu: int) -> LinkPlan:
        """Return the plan of a link with these peers."""
        raise NotImplementedError

    def look(self, charm_state: CharmState, links: Sequence[str], prefix: str) -> List[Step]:
        """Return the steps that read the live state again, for `conclude`."""
        return []

    def conclude(self, plan: LinkPlan, state: State, results: Results, prefix: str) -> LinkPlan:
        """Merge what the VDU reported after the steps into the plan of a link."""
        return plan

    def diagnose(self, params: LinkParams, broken: Broken) -> List[Step]:
        """Return the steps that look why a step of a link failed; none of them fails."""
        return []

    def reason(
        self, params: LinkParams, broken: Broken, diagnosis: Optional[Results] = None
    ) -> str:
        """Return why a step of a link failed, from the results of `diagnose` if there are any."""
        return broken.sentence()

    def absent(self, link: str) -> List[Step]:
        """Return the steps that take a link down for good; its keys stay."""
        raise NotImplementedError

    def session(self, state: State, link: str, peer: Peer) -> PeerSession:
        """Return what the VDU knows of a peer."""
        return PeerSession()

    def trouble(self, state: State, params: LinkParams, peer: Peer) -> Trouble:
        """Return what is wrong with the tunnel to a peer, as far as the VDU knows it."""
        return Trouble()

    def alive(self, state: State, link: str, peer: Peer, now: int, grace: int) -> bool:
        """Tell whether a peer's last handshake is recent enough for its tunnel to count as up.

        A handshake too far in the future does not count: the clock was set back after it.
        """
        handshake = self.session(state, link, peer).handshake
        return bool(handshake) and abs(now - handshake) < self.fresh + grace

    def details(self, plan: LinkPlan, state: State) -> Dict[str, Any]:
        """Return the details for show-status that only this technology has."""
        return {}
