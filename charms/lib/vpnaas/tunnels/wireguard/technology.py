"""WireGuard as a technology of links; `interface` talks to its programs."""

from typing import Any, Dict, List, Sequence, Tuple

import attr

from vpnaas.base.links import WIREGUARD, wireguard_interface
from vpnaas.params.intent import LinkParams
from vpnaas.peers.peer import Peer
from vpnaas.tunnels.keyed import KeyedTechnology, observe_preshared
from vpnaas.tunnels.technology import CharmState, LinkInputs, LinkPlan, PeerSession
from vpnaas.tunnels.wireguard import interface as wireguard
from vpnaas.vdu.steps import Results, Step


class Wireguard(KeyedTechnology[wireguard.State]):
    """WireGuard with wg-quick: one interface per link."""

    name = WIREGUARD
    renews = True
    tools = ("wg", "wg-quick")
    packages = ("wireguard-tools",)
    # WireGuard makes a new handshake after 120 s of use.
    fresh = 150

    def overhead(self, params: LinkParams) -> int:
        """Return the maximum growth of a packet in bytes."""
        return wireguard.OVERHEAD

    def marker(self, link: str) -> str:
        """Return the wg-quick file."""
        return wireguard.conf_path(link)

    def interface(self, inputs: LinkInputs) -> str:
        """Return the WireGuard interface."""
        return wireguard_interface(inputs.link)

    def owner(self, inputs: LinkInputs) -> str:
        """Return the unit that makes the interface."""
        return wireguard.unit(inputs.link)

    def observe(self, charm_state: CharmState, links: Sequence[str]) -> List[Step]:
        """Return the steps that make missing keys and look at the interfaces."""
        steps = wireguard.observe(links)
        for link in links:
            steps += observe_preshared(charm_state, link)
        return steps

    def observed(self, inputs: LinkInputs) -> wireguard.State:
        """Read the results of `observe` for a link."""
        return wireguard.parse(inputs.charm_state.using(self.name), inputs.link, inputs.results)

    def stage_key(self, inputs: LinkInputs, state: wireguard.State) -> List[Step]:
        """Return the steps that make the next key."""
        return wireguard.stage_key(inputs.link)

    def promote_key(
        self, inputs: LinkInputs, state: wireguard.State
    ) -> Tuple[wireguard.State, List[Step]]:
        """Return the state after the switch to the staged key, and the steps."""
        generation = state.generation + 1
        steps = wireguard.promote_key(inputs.link, generation, live=state.live is not None)
        switched = attr.evolve(
            state,
            public_key=state.next_public_key,
            next_public_key="",
            generation=generation,
            live=state.live and attr.evolve(state.live, public_key=state.next_public_key),
        )
        return switched, steps

    def apply(
        self, inputs: LinkInputs, state: wireguard.State, mtu: int, peers: Sequence[Peer]
    ) -> List[Step]:
        """Return the steps to the wanted interface."""
        return wireguard.steps_to(wireguard.Configuration.of(inputs.params, mtu, peers), state)

    def restart(
        self, inputs: LinkInputs, state: wireguard.State, peers: Sequence[Peer]
    ) -> List[Step]:
        """Return the steps that take the interface down and up."""
        return wireguard.restart(inputs.link) if state.live is not None else []

    def look(self, charm_state: CharmState, links: Sequence[str], prefix: str) -> List[Step]:
        """Return the steps that read all live interfaces."""
        return wireguard.look(prefix)

    def conclude(
        self, plan: LinkPlan, state: wireguard.State, results: Results, prefix: str
    ) -> LinkPlan:
        """Return the plan with the live state after the steps."""
        plan = super().conclude(plan, state, results, prefix)
        if prefix + "wg/public-key" in results:
            live = wireguard.parse_live(plan.params.link, results, prefix)
            return attr.evolve(plan, state=attr.evolve(plan.state, live=live))
        return plan

    def absent(self, link: str) -> List[Step]:
        """Return the steps that take a link down for good."""
        return wireguard.absent(link)

    def session(self, state: wireguard.State, link: str, peer: Peer) -> PeerSession:
        """Return what the interface knows of a peer, under its current and its next key."""
        live = state.live
        keys = peer.public_keys()
        entries = [live.peers[key] for key in keys if key in live.peers] if live else []
        roamed = [entry.endpoint for entry in entries if entry.endpoint]
        return PeerSession(
            handshake=max([entry.handshake for entry in entries] or [0]),
            received=sum(entry.received for entry in entries),
            sent=sum(entry.sent for entry in entries),
            endpoint=roamed[0] if roamed else "",
        )

    def details(self, plan: LinkPlan, state: wireguard.State) -> Dict[str, Any]:
        """Return the details of a link for show-status."""
        interface = wireguard_interface(plan.params.link)
        return dict(super().details(plan, state), interface=interface)
