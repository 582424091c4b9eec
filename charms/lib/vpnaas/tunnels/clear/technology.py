"""No VPN as a technology of links: the baseline of a measurement."""

from typing import List, Sequence

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
        return admit(inputs.context(state.applied))

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
