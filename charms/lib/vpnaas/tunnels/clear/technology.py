"""No VPN as a technology of links: the baseline of a measurement."""

from typing import Dict, List, Sequence, Tuple

import attr

from vpnaas.base import fields
from vpnaas.base.links import NONE
from vpnaas.peers.admission import Admission, admit
from vpnaas.peers.offer import Offer
from vpnaas.tunnels.clear import routes as clear
from vpnaas.tunnels.technology import CharmState, LinkInputs, LinkPlan, Technology
from vpnaas.vdu.steps import Step


class Clear(Technology[clear.State]):
    """Inner addresses in clear over the underlay."""

    name = NONE

    def marker(self, link: str) -> str:
        """Return the file that brings the link up."""
        return clear.up_file(link)

    def interface(self, inputs: LinkInputs) -> str:
        """Return the underlay, which carries the inner addresses."""
        return inputs.underlay.name

    def owner(self, inputs: LinkInputs) -> str:
        """Return the unit that sets the addresses and routes."""
        return clear.unit(inputs.link)

    def observe(self, charm_state: CharmState, links: Sequence[str]) -> List[Step]:
        """Return the steps that look at the links."""
        return [step for link in links for step in clear.observe(link)]

    def parse(self, inputs: LinkInputs) -> clear.State:
        """Read the results of `observe` for a link."""
        return clear.parse(inputs.link, inputs.results)

    def admit(self, inputs: LinkInputs, state: clear.State) -> Admission:
        """Decide which peers a link has."""
        return admit(attr.evolve(inputs, refused=_refused(inputs)).context(state.applied))

    def plan(
        self, inputs: LinkInputs, state: clear.State, admission: Admission, mtu: int
    ) -> LinkPlan:
        """Return the plan of a link with these peers."""
        params = inputs.params
        offer = Offer(
            technology=NONE,
            inner_address=params.inner_address.ip,
            mtu=inputs.mtu,
            endpoint=inputs.endpoint,
            allowed_prefixes=params.allowed_prefixes,
        )
        return LinkPlan(
            params=params,
            problems=admission.problems,
            waiting=admission.waiting,
            peers=admission.peers,
            mtu=inputs.mtu,
            state=state,
            offers={remote.relation_id: offer for remote in inputs.remotes},
            steps=tuple(clear.steps_to(params, inputs.underlay.name, admission.peers, state)),
        )

    def absent(self, link: str) -> List[Step]:
        """Return the steps that take a link down for good."""
        return clear.absent(link)


def _refused(inputs: LinkInputs) -> Dict[str, Tuple[str, str]]:
    """Return why the endpoint of a peer cannot be a next hop, and what is allowed, by peer name.

    `ip -batch` ends at a route that the kernel refuses, and the link would come up for no peer.
    """
    inner = inputs.charm_state.inner_addresses()
    outer = [address for address in inputs.underlay.addresses if address.ip not in inner]
    allowed = "an address of another host on {}".format(
        ", ".join(str(address.network) for address in outer)
    )
    refused = {}
    for name, offer in inputs.charm_state.offers(inputs.link).items():
        host = offer.endpoint[0] if offer.endpoint else None
        if host is not None and not any(_is_next(host, address) for address in outer):
            what = "{} is no next hop on {}".format(host, inputs.underlay.name)
            refused[name] = (what, allowed)
    return refused


def _is_next(host: fields.IPAddress, own: fields.IPInterface) -> bool:
    """Tell whether a host can be a next hop on the network of one of our addresses."""
    if own.version == 6 and own.network.prefixlen == 128:
        return host.version == 6  # From DHCPv6: only the routers tell which network is here.
    ends = (own.network.network_address, own.network.broadcast_address)
    no_host = host in ends and own.network.num_addresses > 2
    return host in own.network and host != own.ip and not no_host
