"""WireGuard as a technology of links; `interface` talks to its programs."""

from typing import Any, Dict, List, Optional, Sequence, Tuple

import attr

from vpnaas.base.links import RECORD, WIREGUARD, wireguard_interface
from vpnaas.params.intent import LinkParams
from vpnaas.peers.inputs import CharmState, LinkInputs
from vpnaas.peers.peer import Peer
from vpnaas.tunnels.key_pair import KeyPair
from vpnaas.tunnels.keyed import KeyedTechnology, observe_preshared
from vpnaas.tunnels.technology import LinkPlan, PeerSession
from vpnaas.tunnels.wireguard import interface as wireguard
from vpnaas.tunnels.wireguard.names import CONF, GATE, KEY, UNIT
from vpnaas.vdu.installed import MARK
from vpnaas.vdu.steps import Broken, Results, Step, disable, remove, run


class Wireguard(KeyedTechnology[wireguard.State]):
    """WireGuard with wg-quick: one interface per link."""

    name = WIREGUARD
    part = "wg"
    marker, mark = CONF, MARK
    owner = UNIT
    renews = True
    more_files = ((GATE, ("wg", "pubkey")),)
    tools = ("wg", "wg-quick")
    packages = ("wireguard-tools",)
    # WireGuard makes a new handshake after 120 s of use.
    fresh = 150

    def overhead(self, params: LinkParams) -> int:
        return wireguard.OVERHEAD

    def interface(self, inputs: LinkInputs) -> str:
        return wireguard_interface(inputs.link)

    def observe(self, charm_state: CharmState, links: Sequence[str]) -> List[Step]:
        steps = [step for link in links for step in self.renew(charm_state, link)]
        steps += wireguard.observe(links)
        for link in links:
            steps += observe_preshared(charm_state, link)
        return steps

    def observed(self, inputs: LinkInputs) -> wireguard.State:
        links = inputs.charm_state.using(self.name)
        return wireguard.parse(links, inputs.link, inputs.vdu, inputs.results)

    def key_pair(self, params: LinkParams) -> KeyPair:
        return wireguard.key_pair(params.link)

    def promote_key(
        self, inputs: LinkInputs, state: wireguard.State
    ) -> Tuple[wireguard.State, List[Step]]:
        switched, steps = super().promote_key(inputs, state)
        if state.live is None:
            return switched, steps
        interface, key = wireguard_interface(inputs.link), KEY.format(inputs.link)
        steps.append(run(inputs.link + "/promote/set", "wg", "set", interface, "private-key", key))
        live = attr.evolve(state.live, public_key=state.next_public_key)
        return attr.evolve(switched, live=live), steps

    def apply(
        self, inputs: LinkInputs, state: wireguard.State, mtu: int, peers: Sequence[Peer]
    ) -> List[Step]:
        configuration = wireguard.Configuration(inputs.params, mtu, tuple(peers))
        return wireguard.steps_to(configuration, state)

    def restart(
        self, inputs: LinkInputs, state: wireguard.State, peers: Sequence[Peer]
    ) -> List[Step]:
        if state.live is None:
            return []
        words = ("systemctl", "restart", UNIT.format(inputs.link))
        return [run(inputs.link + "/restart", *words, timeout=60)]

    def diagnose(self, params: LinkParams, broken: Broken) -> List[Step]:
        return wireguard.diagnose(params)

    def reason(
        self, params: LinkParams, broken: Broken, diagnosis: Optional[Results] = None
    ) -> str:
        found = wireguard.cause(params, diagnosis) if diagnosis is not None else ""
        return found or super().reason(params, broken, diagnosis)

    def look(self, prefix: str) -> List[Step]:
        return wireguard.look(prefix)

    def conclude(
        self, plan: LinkPlan, state: wireguard.State, results: Results, prefix: str
    ) -> LinkPlan:
        plan = super().conclude(plan, state, results, prefix)
        if prefix + "wg/public-key" in results:
            live = wireguard.parse_live(plan.params.link, results, prefix)
            return attr.evolve(plan, state=attr.evolve(plan.state, live=live))
        return plan

    def absent(self, link: str) -> List[Step]:
        interface, unit = wireguard_interface(link), UNIT.format(link)
        return [
            disable(link + "/absent/stop", unit),
            # A unit that failed or was never started may still have left the interface.
            run(link + "/absent/link", "ip", "link", "delete", interface, any_exit=True),
            remove(link + "/absent/file", CONF.format(link), MARK),
            remove(link + "/absent/record", RECORD.format(link)),
        ]

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
        interface = wireguard_interface(plan.params.link)
        return dict(super().details(plan, state), interface=interface)
