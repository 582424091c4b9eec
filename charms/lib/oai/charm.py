"""The charm of a network function: `VnfCharm` with OpenAirInterface on top of its links."""

import json
import logging
from typing import Any, Dict, List, Mapping, Optional, Tuple

import attr
from vpnaas.actions import Params, action
from vpnaas.base import fields
from vpnaas.base.errors import InputError, NotReadyError, VpnaasError
from vpnaas.charm import VnfCharm
from vpnaas.features.feature import Extra
from vpnaas.params.servers import SecretReference
from vpnaas.peers.inputs import Beside
from vpnaas.tunnels.technology import LinkPlan
from vpnaas.vdu import machine, secret_store
from vpnaas.vdu.ssh import Vdu
from vpnaas.vdu.steps import changes, read, run

from . import addresses, kinds, params, part, pdn, plan, units, values
from .model import SECRETS_FILE, SUBSCRIBER_FILE, End, Part
from .params import NONE, Common, Secrets

logger = logging.getLogger(__name__)

NF_KEY = "nf"
FUNCTIONS_KEY = "nf-functions"
FUNCTIONS = "oai-function"
"""Juju interface of relations between network functions that are no links."""
HOOK_WAIT = 20
"""Most seconds a hook waits on the VDU until what it started is ready."""
ACTION_WAIT = 90
LOG_BYTES = 1 << 18


@attr.frozen
class Request:
    """Input of an action for the next reconcile."""

    params: Optional[Common] = None
    secrets: Optional[Secrets] = None
    restart: bool = False
    wait: int = HOOK_WAIT


class NfCharm(VnfCharm):
    """Proxy charm of a network function; `functions` and `functions_5g` have a class for each."""

    kind = ""  # The network function, which is also the name of its charm.
    _request = Request()

    # The reconcile

    def more_relations(self) -> List[str]:
        """Return the endpoints between network functions that are no links."""
        return sorted(self.environment.endpoints(FUNCTIONS))

    def _stored_params(self) -> Optional[Common]:
        return kinds.from_json(self.kind, self.environment.stored(NF_KEY))

    def _has_more(self) -> bool:
        return self._request.params is not None or self._stored_params() is not None

    def _beside(self) -> Beside:
        try:
            return addresses.beside(self.kind, self._request.params or self._stored_params())
        except VpnaasError:
            return Beside()  # `_extend` says what is wrong with the stored parameters.

    def _extra_state(self) -> str:
        seen = {
            name: [(label, sorted(bag.items())) for _, label, bag in self.environment.related(name)]
            for name in self.more_relations()
        }
        stored = self.environment.stored(NF_KEY) + self.environment.stored(FUNCTIONS_KEY)
        return stored + json.dumps(seen, sort_keys=True)

    def _extend(self, vdu: Vdu, plans: Mapping[str, LinkPlan]) -> Optional[Extra]:
        nf_params = None
        try:
            nf_params = self._request.params or self._stored_params()
            if nf_params is None:
                return None
            nf_params = params.resolved(nf_params, self.seen)
            outcome = self._reconcile_nf(vdu, self._function_state(nf_params, plans))
        except NotReadyError:
            return None
        except VpnaasError as error:
            return plan.failed(self.kind, nf_params, str(error))
        self._publish_part(outcome)
        return outcome

    def _reconcile_nf(self, vdu: Vdu, function_state: plan.FunctionState) -> plan.Outcome:
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
        for name in self.more_relations():
            if part.link_of(name) not in self.roles:
                parts[name] = tuple(peer_part for _, peer_part in self._peer_parts(name, unread))
        request = self._request
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
                for link, named in self._manual_functions().items()
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
        for name in self.more_relations():
            if part.link_of(name) == link:
                result += [peer_part for _, peer_part in self._peer_parts(name, unread)]
        result += sorted(self._manual_functions().get(link, {}).items())
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

    def _manual_functions(self) -> Dict[str, Dict[str, Part]]:
        """Return the network functions of other services that the operator added, by link."""
        return part.functions_from_json(self.environment.stored(FUNCTIONS_KEY))

    def _publish_part(self, outcome: plan.Outcome) -> None:
        for name in sorted(self.roles) + self.more_relations():
            own = outcome.part
            if own is not None and name not in self.roles:
                own = attr.evolve(own, address=self._address_for(name, outcome))
            for id in self.environment.relation_ids(name):
                self.environment.tell(name, id, part.encode(own))

    def _address_for(self, relation: str, outcome: plan.Outcome) -> str:
        """Return our address for the other end of a relation that is not a link."""
        link = part.link_of(relation)
        if link in self.roles:
            # A link is not here until its gateway has assigned an address.
            configured = self._charm_state().intent.links.get(link)
            return str(configured.inner_address.ip) if configured is not None else ""
        return outcome.uu

    # Actions

    def _reconcile_for(self, request: Request) -> plan.Outcome:
        self._request = request
        extra = self._reconcile_now().extra
        if not isinstance(extra, plan.Outcome):
            raise VpnaasError("no network function is configured yet; run configure-nf first")
        return extra

    def _configured(self) -> Common:
        nf_params = self._stored_params()
        if nf_params is None:
            raise VpnaasError("no network function is configured yet; run configure-nf first")
        return nf_params

    @action("configure-nf")
    def _configure_nf(self, given: Params) -> Mapping[str, Any]:
        try:
            stored = self._stored_params()
        except InputError:
            stored = None  # Of another version: what is given takes its place.
        nf_params = kinds.parse(self.kind, kinds.completed(given, stored))
        return self._change(nf_params, kinds.parse_secrets(self.kind, given))

    def _for_ues(self, parameter: str, name: str) -> None:
        """Raise InputError if a device that only UEs may use is one of management or of a link."""
        charm_state = self._charm_state()
        with self._vdu() as vdu:
            seen = self._facts(vdu)
        name = seen.tagged(name)
        used = {seen.tagged(one.underlay_interface) for one in charm_state.intent.links.values()}
        if name in used | {seen.underlay("", charm_state.management).name}:
            what = "{} is the interface of management or of a link".format(name)
            raise InputError("configure-nf: " + parameter, what, "one that only UEs use")

    def _change(self, nf_params: Common, secrets: Optional[Secrets] = None) -> Mapping[str, Any]:
        """Apply new parameters to the network function; store them unless they are refused."""
        outcome = self._reconcile_for(Request(nf_params, secrets, wait=ACTION_WAIT))
        if outcome.refused:
            self._request = Request()
            self.reconcile_and_report()  # The status must show what is in force.
            raise VpnaasError(outcome.reason)
        self.environment.store(NF_KEY, kinds.to_json(nf_params))
        return outcome.details

    @action("fetch-keys")
    def _fetch_keys(self, given: Params) -> Mapping[str, Any]:
        if not kinds.FUNCTIONS[self.kind].secrets:
            raise VpnaasError("the {} has no keys of operator and subscribers".format(self.kind))
        nf_params, where = self._configured(), "fetch-keys"
        reference = SecretReference.parse(given, where)
        imsi, file, forms = str(given.get("imsi", NONE)), SECRETS_FILE, dict(params.KEY_FORMS)
        if imsi != NONE:
            imsi = values.imsi_of(where + ": imsi", imsi, nf_params.plmn)
            file = SUBSCRIBER_FILE.format(imsi)
            del forms["operator_key"]
        with self._vdu() as vdu:
            self._disowned(vdu, vdu.execute([machine.observe()]))
            results = vdu.execute([secret_store.fetch("keys", reference, forms, file)]).check()
        reason = secret_store.refusal("keys", results)
        if imsi == NONE:
            outcome = self._reconcile_for(Request(wait=ACTION_WAIT))  # Also for the status.
        if reason:
            raise VpnaasError("{}: {}".format(where, reason))
        return outcome.details if imsi == NONE else {"fetched": imsi}

    @action("restart-nf")
    def _restart_nf(self, given: Params) -> Mapping[str, Any]:
        self._configured()
        return self._restart_containers()

    def _restart_containers(self) -> Mapping[str, Any]:
        outcome = self._reconcile_for(Request(restart=True, wait=ACTION_WAIT))
        if not outcome.restarted:
            reason = outcome.reason or "this VNF has no software (`software` is none)"
            raise VpnaasError("nothing was restarted: {}".format(reason))
        return outcome.details

    @action("health")
    def _health(self, given: Params) -> Mapping[str, Any]:
        self._configured()
        return self._reconcile_for(Request(wait=0)).details

    @action("show-config")
    def _show_config(self, given: Params) -> Dict[str, Any]:
        nf_params = self._configured()
        outcome = self._reconcile_for(Request(wait=0))
        return {"parameters": kinds.to_given(nf_params), "files": outcome.files}

    @action("set-log-level")
    def _set_log_level(self, given: Params) -> Mapping[str, Any]:
        if not kinds.FUNCTIONS[self.kind].levelled:
            raise VpnaasError("OAI's {} has one log level only".format(self.kind))
        return self._change_some(given, "set-log-level")

    # Changes of some parameters; actions.yaml says which of these actions a charm has.

    @action("configure-cell")
    def _configure_cell(self, given: Params) -> Mapping[str, Any]:
        return self._change_some(given, "configure-cell")

    @action("configure-n6")
    def _configure_n6(self, given: Params) -> Mapping[str, Any]:
        return self._change_some(given, "configure-n6")

    @action("configure-sgi")
    def _configure_sgi(self, given: Params) -> Mapping[str, Any]:
        return self._change_some(given, "configure-sgi")

    @action("add-function")
    def _add_function(self, given: Params) -> Mapping[str, Any]:
        link = self._one_link(given)
        name = fields.name("add-function: name", str(given.get("name", "")))
        function = part.from_json(str(given.get("function", "")), "add-function: function")
        functions = self._manual_functions()
        functions.setdefault(link, {})[name] = function
        return self._with_functions(functions, {"added": name, "link": link})

    @action("delete-function")
    def _delete_function(self, given: Params) -> Mapping[str, Any]:
        link, name = self._one_link(given), str(given.get("name", ""))
        functions = self._manual_functions()
        known = ", ".join(sorted(functions.get(link, {})))
        if functions.get(link, {}).pop(name, None) is None:
            raise InputError(
                "delete-function: name",
                "{} is none of {}".format(fields.shown(name), link),
                known or "none was added",
            )
        return self._with_functions(functions, {"deleted": name, "link": link})

    def _with_functions(
        self, functions: Mapping[str, Mapping[str, Part]], answer: Dict[str, Any]
    ) -> Mapping[str, Any]:
        """Store the functions of other services, and reconcile with them."""
        self.environment.store(FUNCTIONS_KEY, part.functions_to_json(functions))
        outcome = self._reconcile_for(Request(wait=ACTION_WAIT))
        return dict(answer, state=outcome.state, reason=outcome.reason)

    def _change_some(self, given: Params, where: str) -> Mapping[str, Any]:
        """Change the parameters that an action gives; "keep" and 0 leave one as it is."""
        nf_params = self._configured()
        named: Dict[str, Any] = {name: v for name, v in given.items() if v not in ("keep", 0)}
        for name in ("sgi-nat", "n6-nat"):
            if name in named:
                named[name] = named[name] == "yes"
        return self._change(kinds.changed(self.kind, nf_params, named, where))

    def _log(self, container: str) -> str:
        """Return the end of what a running container has logged since its start."""
        self._configured()
        path = "/var/log/{}.log".format(container)
        steps = [
            run("active", "systemctl", "is-active", units.unit(container), any_exit=True),
            read("start", "{}/{}.offset".format(units.RUN, container)),
            run("size", "stat", "--format=%s", path, any_exit=True),
            run("log", "tail", "-c", str(LOG_BYTES), path, any_exit=True),
        ]
        with self._vdu() as vdu:
            results = vdu.execute(steps, exclusive=False).check()
        if results.exit_code("active") != 0:
            raise VpnaasError("the {} does not run; health says why".format(container.upper()))
        log, start = results.output("log"), (results.text("start") or "").strip()
        size = results.output("size").strip()
        # A file that is shorter than at the start was rotated.
        if fields.is_count(start) and fields.is_count(size) and int(start) <= int(size):
            data = log.encode("utf-8", "replace")
            log = data[max(0, len(data) - int(size) + int(start)) :].decode("utf-8", "replace")
        return log

    def _address(self, vdu: Vdu, interface: str, missing: str) -> str:
        """Return the IPv4 address of an interface of the VDU; without any, fail with `missing`."""
        address = pdn.address(vdu.execute([pdn.address_step(interface)], exclusive=False))
        if not address:
            raise VpnaasError(missing)
        return address
