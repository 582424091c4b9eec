"""What a reconcile knows of a VNF, and of one of its links, before it decides anything."""

from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

import attr

from vpnaas.base import fields
from vpnaas.base.links import NONE
from vpnaas.base.x509 import Certificate
from vpnaas.params.gateway import GatewayParams, SharedAddress
from vpnaas.params.intent import Intent, LinkParams
from vpnaas.peers.leases import Asking
from vpnaas.peers.offer import KeyOffer, Offer, Remote
from vpnaas.peers.peer import Peer, read_record
from vpnaas.vdu import facts
from vpnaas.vdu.facts import VduFacts
from vpnaas.vdu.steps import Results

Network = Tuple[str, fields.IPNetwork]
"""A network, with the name of an interface or of a parameter."""
AGAIN = "again/"
"""Start of the ids of results that were read after the steps of `Technology.prepare`."""


@attr.frozen
class Given:
    """A certificate that an operator brings, its root, and the intermediate authorities between."""

    certificate: Certificate
    root: Certificate
    chain: Tuple[Certificate, ...] = ()


@attr.frozen
class Beside:
    """What links must know of a VNF's addition, see `features.feature.Addition`."""

    # Starts of the names of a network function's devices, and networks among its parameters.
    devices: Tuple[str, ...] = ()
    networks: Tuple[Network, ...] = ()
    # What only this VNF has on the VDU besides links, of `features.feature.Feature`.
    features: Tuple[Any, ...] = ()
    # Address of our gateway pair for manual peers, None if there is none.
    shared: Optional[SharedAddress] = None
    # The address that only the active gateway of our pair has, None if there is no pair.
    virtual: Optional[fields.IPAddress] = None


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
    # Links that were down at the last look, or whose other end or operator asks for a look. A
    # packet of the last seconds proves one direction only, so their peers are asked in any case.
    doubted: FrozenSet[str] = frozenset()
    # Parameters of the security gateway, None for another VNF.
    gateway: Optional[GatewayParams] = None
    # Certificates from an operator for a link.
    certificates: Mapping[str, Given] = attr.Factory(dict)
    monitoring: int = 0  # Port of the exporter of metrics, 0 for none.
    # Links that wait for an address from their gateway; `intent` is without them.
    asking: Mapping[str, Asking] = attr.Factory(dict)
    # `Peer.holdings` of the last reconcile, by link and peer name.
    holdings: Mapping[str, Mapping[str, str]] = attr.Factory(dict)
    beside: Beside = attr.Factory(Beside)
    versions: bool = False  # Look for versions of the VDU's programs too.
    # The latest generation of each key that this VDU had, by link and technology.
    generations: Mapping[str, int] = attr.Factory(dict)

    @property
    def has_tunnels(self) -> bool:
        return any(params.technology != NONE for params in self.intent.links.values())

    def using(self, technology: str) -> List[str]:
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
        shared = self.beside.shared
        return inner | {shared.address.ip} if shared else inner

    def needs_preshared(self, link: str) -> bool:
        """Tell whether either end of a link wants a preshared key."""
        theirs = self.keys(link).values()
        return self.intent.links[link].needs_preshared or any(keys.preshared for keys in theirs)


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
        return self.params.link

    @property
    def remotes(self) -> Tuple[Remote, ...]:
        return self.charm_state.remotes.get(self.link, ())

    @property
    def role(self) -> str:
        """Return "provider" or "requirer", as charm.yaml has the link."""
        return self.charm_state.roles[self.link]

    @property
    def revoked(self) -> Tuple[str, ...]:
        """Return the digests of keys that an operator revoked."""
        return self.charm_state.intent.revoked.get(self.link, ())

    def latest(self) -> Tuple[Results, str]:
        """Return the last results about the link's keys, and what starts their ids."""
        again, prepared = AGAIN + self.link + "/", self.prepared
        if prepared is not None and any(id.startswith(again) for id in prepared.ids()):
            return prepared, AGAIN
        return self.results, ""

    def taken(self) -> Dict[str, Tuple[fields.IPNetwork, ...]]:
        """Return the inner subnets and pools of the VDU's other links, by link."""
        return {
            link: (params.inner_address.network, *params.ipsec.pool)
            for link, params in self.charm_state.intent.links.items()
            if link != self.link
        }

    def ends(self) -> Dict[str, List[fields.IPAddress]]:
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
