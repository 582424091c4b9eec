"""The interface between a link and the technology that secures it.

A technology is one object of class `Technology`. `plan` finds it by name in its `TABLE`, where a
new one adds a line, and uses only its interface. `keyed` is the common code of technologies with
keys.
"""

import json
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
from vpnaas.params.intent import LinkParams
from vpnaas.peers.admission import Admission
from vpnaas.peers.inputs import CharmState, LinkInputs
from vpnaas.peers.offer import KeyOffer, Offer
from vpnaas.peers.peer import Peer
from vpnaas.vdu.steps import Broken, Results, Step

VANISH = "packets of {} bytes vanish, small ones pass; set a smaller mtu"
"""What `Echo.large_lost` means."""


@attr.frozen
class Echo:
    """What came back from a peer through its tunnel."""

    sent: int  # Echo requests.
    received: int  # Answers.
    rtt_ms: Optional[float] = None  # Milliseconds until the first answer, None without any.
    large_lost: bool = False  # Whether large packets, such as those of the tunnel's MTU, get none.

    @classmethod
    def read(cls, printed: str) -> Dict[str, "Echo"]:
        """Read what `echo.py` printed; one of MALFORMED where it is something else."""
        return {
            name: cls(int(sent), int(received), None if took is None else float(took), lost is True)
            for name, (sent, received, took, lost) in json.loads(printed).items()
        }


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
    # Names of the manual peers that we keep calling; others may sleep.
    called: FrozenSet[str] = frozenset()
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
    marker = ""  # File that exists if the VDU has a link in this technology: `marker.format(link)`.
    mark = ""  # How our file begins, if somebody else may have one of that name.
    # systemd unit that starts and stops the measurement socket of a link, in the same form.
    owner = ""
    tools: Tuple[str, ...] = ()  # Programs that a VDU needs for its links.
    packages: Tuple[str, ...] = ()  # Packages that contain these programs.
    keyed = False  # Whether peers have keys, which authenticate them and can be rotated.
    fresh = 0  # Seconds after a handshake during which a peer counts as up.

    def overhead(self, params: LinkParams) -> int:
        """Return the maximum growth of a packet in bytes."""
        return 0

    def interface(self, inputs: LinkInputs) -> str:
        """Return the interface that carries the packets of the link."""
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

    def look(self, prefix: str) -> List[Step]:
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
