"""The actions of experiments: a group that the build adds to a charm."""

from typing import Any, Dict, Iterable, Sequence

from vpnaas.actions import Actions, Params, action
from vpnaas.base import fields
from vpnaas.base.errors import InputError
from vpnaas.features.measure import measure
from vpnaas.peers.peer import Peer
from vpnaas.vdu.ssh import Vdu
from vpnaas.vdu.steps import Results, Step

from . import orders


class Experiments(Actions):
    """What a VDU does in experiments, if Day-1 allows it."""

    def _experiment(self, steps: Sequence[Step]) -> Results:
        """Run steps, also during a reconcile, if Day-1 allows orders."""
        with self._experimental() as vdu:
            return vdu.execute(steps, exclusive=False).check()

    def _ended(self, unit: orders.Unit) -> Dict[str, Any]:
        return unit.result(self._experiment(unit.stop()))

    def _experimental(self) -> Vdu:
        orders.require_allowed(self.charm.environment.option("allow-experiments"))
        return self.charm.vdu()

    def _underlays(self, links: Iterable[str], vdu: Vdu) -> Dict[str, str]:
        """Return the underlay interface of each link; key "" has the management interface."""
        observed = self.charm.facts(vdu)
        charm_state = self.charm.charm_state()
        configured = dict(
            {link: asking.params for link, asking in charm_state.asking.items()},
            **charm_state.intent.links,
        )
        names = {link: configured[link].underlay_interface for link in links}
        return {
            link: observed.underlay(name, charm_state.management).name
            for link, name in dict(names, **{"": ""}).items()
        }

    def _other_end(self, params: Params) -> Peer:
        """Return the peer an experiment goes to, as its offer or `add-peer` describes it."""
        link, name = self.charm.one_link(params), str(params.get("peer", "auto"))
        charm_state = self.charm.charm_state()
        known = [
            Peer(
                remote.peer_name,
                remote.label,
                remote.offer.prefixes(),
                remote.offer.technology,
                inner_address=remote.offer.inner_address,
                endpoint=remote.offer.endpoint,
            )
            for remote in charm_state.remotes.get(link, ())
            if remote.offer is not None
        ]
        known += [
            Peer(one.peer_name, one.name, one.allowed_prefixes, "", endpoint=one.endpoint)
            for one in charm_state.intent.manual(link)
        ]
        return measure.choose_peer(link, "" if name == "auto" else name, known)

    @action("start-capture")
    def start_capture(self, params: Params) -> Dict[str, Any]:
        links = self.charm.chosen(params)
        with self._experimental() as vdu:
            underlays = self._underlays(links, vdu)
            del underlays[""]
            vdu.execute(orders.capture(params, underlays), exclusive=False).check()
        return {"interfaces": underlays}

    @action("stop-capture")
    def stop_capture(self, params: Params) -> Dict[str, Any]:
        return self._ended(orders.CAPTURE)

    @action("start-listener")
    def start_listener(self, params: Params) -> Dict[str, Any]:
        links = sorted(self.charm.chosen(params))
        # A link that waits for an address from its gateway has none to listen at.
        known = self.charm.charm_state().intent.links
        addresses = [str(known[link].inner_address.ip) for link in links if link in known]
        results = self._experiment(orders.listener(params, addresses))
        return {"addresses": addresses, "tcp-ports": orders.listening(results)}

    @action("stop-listener")
    def stop_listener(self, params: Params) -> Dict[str, Any]:
        return self._ended(orders.LISTENER)

    @action("probe")
    def probe(self, params: Params) -> Dict[str, Any]:
        with self._experimental() as vdu:
            step = orders.attempts(params, self._underlays((), vdu)[""])
            return measure.answer(vdu.execute([step], exclusive=False), "probe", "the probe")

    @action("start-stream")
    def start_stream(self, params: Params) -> Dict[str, Any]:
        link = self.charm.one_link(params)
        text = str(params.get("address", "auto"))
        if text == "auto":
            address = measure.target(self._other_end(params), "tunnel", link)
        else:
            address = fields.address("start-stream: address", text)
        self._experiment(orders.stream(params, str(address)))
        return {"address": str(address)}

    @action("stop-stream")
    def stop_stream(self, params: Params) -> Dict[str, Any]:
        return self._ended(orders.STREAM)

    @action("start-load")
    def start_load(self, params: Params) -> Dict[str, Any]:
        peer = self._other_end(params)
        self._experiment(orders.load(params, peer))
        return {"peer": peer.label}

    @action("stop-load")
    def stop_load(self, params: Params) -> Dict[str, Any]:
        return orders.loaded(self._ended(orders.LOAD))

    @action("inject-fault")
    def inject_fault(self, params: Params) -> Dict[str, Any]:
        interface, kind = "", params.get("fault")
        with self._experimental() as vdu:
            if kind == "tunnel":
                plan = self.charm.measured_plan(params, vdu).links[str(params.get("link"))]
                interface = plan.interface if plan.interface != plan.underlay else ""
            elif kind == "link":
                link = self.charm.configured_link(params)
                underlays = self._underlays([link], vdu)
                interface = underlays[link]
                if interface == underlays[""]:
                    allowed = "a link over another interface than management"
                    raise InputError("inject-fault: link", "we would cut ourselves off", allowed)
            orders.broken(vdu.execute(orders.fault(params, interface), exclusive=False))
        return {"fault": kind}
