"""A network function as an addition to the links of its VNF, and its changes by actions."""

import json
import logging
from typing import Any, Dict, List, Mapping, Optional, Tuple

import attr
from vpnaas.base import fields
from vpnaas.base.errors import InputError, NotReadyError, VpnaasError
from vpnaas.charm import Charm
from vpnaas.features.feature import Addition, Extra
from vpnaas.peers.inputs import Beside, CharmState
from vpnaas.tunnels.technology import LinkPlan
from vpnaas.vdu.facts import VduFacts
from vpnaas.vdu.ssh import Vdu
from vpnaas.vdu.steps import changes, read, run

from . import addresses, kinds, logs, params, part, pdn, plan, units
from .model import End, Part
from .params import Common, Secrets

logger = logging.getLogger(__name__)

NF_KEY = "nf"
FUNCTIONS_KEY = "nf-functions"
FUNCTIONS = "oai-function"
"""Juju interface of relations between network functions that are no links."""
LOG_BYTES = 1 << 18
ACTION_WAIT = 90
HOOK_WAIT = 20
"""Most seconds a hook waits on the VDU until what it started is ready."""


@attr.frozen
class Request:
    """Input of an action for the next reconcile."""

    params: Optional[Common] = None
    secrets: Optional[Secrets] = None
    restart: bool = False
    wait: int = HOOK_WAIT


class NetworkFunction(Addition):
    """The network function of a VNF."""

    def __init__(self, charm: Charm) -> None:
        self.charm = charm
        self.kind = charm.kind.name
        self.environment = charm.environment
        self.roles = charm.roles
        self.relations = tuple(sorted(charm.environment.endpoints(FUNCTIONS)))
        self.request = Request()

    def stored_params(self) -> Optional[Common]:
        return kinds.from_json(self.kind, self.environment.stored(NF_KEY))

    def configured(self) -> bool:
        return self.request.params is not None or self.stored_params() is not None

    def beside(self) -> Beside:
        try:
            return addresses.beside(self.kind, self.request.params or self.stored_params())
        except VpnaasError:
            return Beside()  # `reconcile` says what is wrong with the stored parameters.

    def stored(self) -> str:
        seen = {
            name: [(label, sorted(bag.items())) for _, label, bag in self.environment.related(name)]
            for name in self.relations
        }
        stored = self.environment.stored(NF_KEY) + self.environment.stored(FUNCTIONS_KEY)
        return stored + json.dumps(seen, sort_keys=True)

    def reconcile(
        self, vdu: Vdu, charm_state: CharmState, seen: VduFacts, plans: Mapping[str, LinkPlan]
    ) -> Optional[Extra]:
        nf_params = None
        try:
            nf_params = self.request.params or self.stored_params()
            if nf_params is None:
                return None
            nf_params = params.resolved(nf_params, seen)
            outcome = self._reconciled(vdu, self._function_state(nf_params, plans))
        except NotReadyError:
            return None
        except VpnaasError as error:
            return plan.failed(self.kind, nf_params, str(error))
        self._publish(outcome, charm_state)
        return outcome

    def _reconciled(self, vdu: Vdu, function_state: plan.FunctionState) -> plan.Outcome:
        observed = vdu.execute(plan.observe_steps(function_state)).check()
        decided = plan.make_plan(function_state, observed)
        results = vdu.execute(decided.steps).check() if decided.steps else None
        logger.info(
            "%s: %s",
            self.kind,
            ", ".join(id for _, id in changes(decided.steps)) or "no difference",
        )
        return plan.conclude(function_state, decided, results)

    def _function_state(
        self, nf_params: Common, plans: Mapping[str, LinkPlan]
    ) -> plan.FunctionState:
        ends: Dict[str, End] = {}
        parts: Dict[str, Tuple[Tuple[str, Part], ...]] = {}
        problems: List[str] = []
        unread: List[str] = []
        for link, decided in sorted(plans.items()):
            address = decided.params.inner_address
            if not decided.interface:
                continue
            problem = plan.unfit(self.kind, link, decided.params.technology, address)
            if problem:
                problems.append(problem)
                continue
            parts[link] = self._parts(link, decided, unread)
            peers = [p.address for _, p in parts[link] if part.expected(self.kind, link, p)]
            ends[link] = End(
                plan.address_interface(self.kind, decided), address, tuple(a for a in peers if a)
            )
        for name in self.relations:
            if part.link_of(name) not in self.roles:
                parts[name] = tuple(peer_part for _, peer_part in self._peer_parts(name, unread))
        request = self.request
        return plan.FunctionState(
            kind=self.kind,
            params=nf_params,
            ends=ends,
            parts=parts,
            problems=tuple(problems),
            unread=tuple(unread),
            used=tuple(addresses.of_links(plans) + addresses.of_functions(self.kind, parts)),
            requested=request.params is not None,
            link_units=tuple(sorted({p.owner for p in plans.values() if p.owner})),
            given=request.secrets,
            restart=request.restart,
            wait=request.wait,
            added={
                link: tuple(sorted(named))
                for link, named in self.manual_functions().items()
                if named
            },
        )

    def _parts(
        self, link: str, decided: LinkPlan, unread: List[str]
    ) -> Tuple[Tuple[str, Part], ...]:
        """Return the parts of the network functions at a reference point; add to `unread`.

        A function at the other end of the link has the address that was admitted for it. A function
        behind a gateway publishes its address in a relation between network functions. The operator
        adds functions of other services.
        """
        admitted = {p.name: str(p.inner_address) for p in decided.peers if p.inner_address}
        result = []
        for peer_name, (label, peer_part) in self._peer_parts(link, unread):
            result.append((label, attr.evolve(peer_part, address=admitted.get(peer_name, ""))))
        for name in self.relations:
            if part.link_of(name) == link:
                result += [peer_part for _, peer_part in self._peer_parts(name, unread)]
        result += sorted(self.manual_functions().get(link, {}).items())
        return tuple(result)

    def _peer_parts(self, relation: str, unread: List[str]) -> List[Tuple[str, Tuple[str, Part]]]:
        """Return the part of each network function of a relation, with label and peer name."""
        result = []
        for id, label, bag in self.environment.related(relation):
            try:
                decoded = part.decode(bag, label)
            except InputError as error:
                unread.append(str(error))
                continue
            if decoded is not None:
                result.append(("rel-{}".format(id), (label, decoded)))
        return result

    def manual_functions(self) -> Dict[str, Dict[str, Part]]:
        """Return the network functions of other services that the operator added, by link."""
        return part.functions_from_json(self.environment.stored(FUNCTIONS_KEY))

    def _publish(self, outcome: plan.Outcome, charm_state: CharmState) -> None:
        for name in (*sorted(self.roles), *self.relations):
            own = outcome.part
            if own is not None and name not in self.roles:
                own = attr.evolve(own, address=self._address_for(name, outcome, charm_state))
            for id in self.environment.relation_ids(name):
                self.environment.tell(name, id, part.encode(own))

    def _address_for(self, relation: str, outcome: plan.Outcome, charm_state: CharmState) -> str:
        """Return our address for the other end of a relation that is not a link."""
        link = part.link_of(relation)
        if link in self.roles:
            # A link is not here until its gateway has assigned an address.
            configured = charm_state.intent.links.get(link)
            return str(configured.inner_address.ip) if configured is not None else ""
        return outcome.uu

    # What actions ask for

    def reconcile_for(self, request: Request) -> plan.Outcome:
        self.request = request
        extra = self.charm.reconcile_now().extra
        if not isinstance(extra, plan.Outcome):
            raise VpnaasError("no network function is configured yet; run configure-nf first")
        return extra

    def params(self) -> Common:
        nf_params = self.stored_params()
        if nf_params is None:
            raise VpnaasError("no network function is configured yet; run configure-nf first")
        return nf_params

    def check_device(self, nf_params: Common) -> None:
        """Raise InputError if a device that only UEs may use is one of management or of a link."""
        parameter, unchecked = kinds.FUNCTIONS[self.kind].for_ues
        name = getattr(nf_params, parameter.replace("-", "_")) if parameter else unchecked
        if name == unchecked:
            return
        charm_state = self.charm.charm_state()
        with self.charm.vdu() as vdu:
            seen = self.charm.facts(vdu)
        name = seen.tagged(name)
        used = {seen.tagged(one.underlay_interface) for one in charm_state.intent.links.values()}
        if name in used | {seen.underlay("", charm_state.management).name}:
            what = "{} is the interface of management or of a link".format(name)
            raise InputError("configure-nf: " + parameter, what, "one that only UEs use")

    def change(self, nf_params: Common, secrets: Optional[Secrets] = None) -> Mapping[str, Any]:
        """Apply new parameters to the network function; store them unless they are refused."""
        self.check_device(nf_params)
        outcome = self.reconcile_for(Request(nf_params, secrets, wait=ACTION_WAIT))
        if outcome.refused:
            self.request = Request()
            self.charm.reconcile_and_report()  # The status must show what is in force.
            raise VpnaasError(outcome.reason)
        self.environment.store(NF_KEY, kinds.to_json(nf_params))
        return outcome.details

    def restart(self) -> Mapping[str, Any]:
        outcome = self.reconcile_for(Request(restart=True, wait=ACTION_WAIT))
        if not outcome.restarted:
            reason = outcome.reason or "this VNF has no software (`software` is none)"
            raise VpnaasError("nothing was restarted: {}".format(reason))
        return outcome.details

    def log(self, container: str) -> Tuple[str, int]:
        """Return the end of what a running container has logged since its start, and its age.

        One that logs tables of what is true now must do so still. The age is in seconds.
        """
        self.params()
        path = "/var/log/{}.log".format(container)
        steps = [
            run("active", "systemctl", "is-active", units.unit(container), any_exit=True),
            read("start", "{}/{}.offset".format(units.RUN, container)),
            run("size", "stat", "--format=%s %Y", path, any_exit=True),
            run("now", "date", "+%s"),
            run("log", "tail", "-c", str(LOG_BYTES), path, any_exit=True),
        ]
        with self.charm.vdu() as vdu:
            results = vdu.execute(steps, exclusive=False).check()
        if results.exit_code("active") != 0:
            raise VpnaasError("the {} does not run; health says why".format(container.upper()))
        words = results.output("size").split() + results.output("now").split()
        counts = [int(word) for word in words if fields.is_count(word)]
        size, logged, now = counts if len(counts) == 3 else (0, 0, 0)
        age = abs(now - logged)  # The clock may have jumped back since.
        if container in logs.TABLED and age > logs.SILENCE:
            what = "the {} has logged nothing for half a minute, so it hangs; restart-nf ends that"
            raise VpnaasError(what.format(container.upper()))
        log, start = results.output("log"), (results.text("start") or "").strip()
        # A file that is shorter than at the start was rotated.
        if fields.is_count(start) and int(start) <= size:
            data = log.encode("utf-8", "replace")
            log = data[max(0, len(data) - size + int(start)) :].decode("utf-8", "replace")
        return log, age

    def address(self, vdu: Vdu, interface: str, missing: str) -> str:
        """Return the IPv4 address of an interface of the VDU; without any, fail with `missing`."""
        address = pdn.address(vdu.execute([pdn.address_step(interface)], exclusive=False))
        if not address:
            raise VpnaasError(missing)
        return address


class FunctionActions:
    """A group of actions on a network function."""

    def __init__(self, charm: Charm) -> None:
        self.charm = charm
        self.function = NetworkFunction.of(charm)
