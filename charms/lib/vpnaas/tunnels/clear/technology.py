"""No VPN as a technology of links: the baseline of a measurement."""

from typing import List, Sequence

from vpnaas.base.links import NONE
from vpnaas.peers.admission import vet
from vpnaas.peers.offer import Offer
from vpnaas.tunnels.clear import routes as clear
from vpnaas.tunnels.technology import LinkPlan, Situation, Technology, View
from vpnaas.vdu.steps import Step


class Clear(Technology):
    """Inner addresses in clear over the underlay."""

    name = NONE

    def marker(self, link: str) -> str:
        """Return the file that brings the link up."""
        return clear.up_file(link)

    def interface(self, view: View) -> str:
        """Return the underlay, which carries the inner addresses."""
        return view.underlay.name

    def owner(self, view: View) -> str:
        """Return the unit that sets the addresses and routes."""
        return clear.unit(view.link)

    def observe(self, situation: Situation, links: Sequence[str]) -> List[Step]:
        """Return the steps that look at the links."""
        return [step for link in links for step in clear.observe(link)]

    def plan(self, view: View) -> LinkPlan:
        """Decide what a link should be."""
        params = view.params
        state = clear.parse(view.link, view.results)
        vetted = vet(view.context(state.applied))
        offer = Offer(
            technology=NONE,
            inner_address=params.inner_address.ip,
            mtu=view.mtu,
            endpoint=view.endpoint,
            allowed_prefixes=params.allowed_prefixes,
        )
        return LinkPlan(
            params=params,
            problems=vetted.problems,
            waiting=vetted.waiting,
            peers=vetted.peers,
            mtu=view.mtu,
            offers={remote.relation_id: offer for remote in view.remotes},
            steps=tuple(clear.steps_to(params, view.underlay.name, vetted.peers, state)),
        )

    def absent(self, link: str) -> List[Step]:
        """Return the steps that take a link down for good."""
        return clear.absent(link)
