"""ops edge of a network function: `VnfCharm` with OpenAirInterface on top of its links."""

import json
import logging
from typing import Any, Dict, List, Mapping, Optional, Tuple

import attr
from vpnaas.actions import Params, action
from vpnaas.base.errors import InputError, NotReadyError, VpnaasError
from vpnaas.charm import VnfCharm
from vpnaas.extras.extra import Extra
from vpnaas.tunnels.technology import LinkPlan
from vpnaas.vdu.ssh import Vdu
from vpnaas.vdu.steps import Step, changes

from . import params, part, pdn, plan, values
from .milenage import opc
from .model import End
from .params import Common, Secrets

logger = logging.getLogger(__name__)

NF_KEY = "nf"
FUNCTIONS = "oai-function"
"""Juju interface of relations between network functions that are no links."""
HOOK_WAIT = 20
"""Seconds a hook waits on the VDU for what it has just started; less where that is ready."""
ACTION_WAIT = 90
LOG_BYTES = 1 << 18


class Request:
    """What an action asks of the next reconcile."""

    def __init__(
        self,
        asked: Optional[Common] = None,
        secrets: Optional[Secrets] = None,
        restart: bool = False,
        wait: int = HOOK_WAIT,
    ) -> None:
        self.params = asked
        self.secrets = secrets
        self.restart = restart
        self.wait = wait


class NfCharm(VnfCharm):
    """Proxy charm of an EPC network function; `functions` has a class for each.

    Attributes:
        kind: Which network function it is, the name of its charm.
    """

    kind = ""

    def __init__(self, *args: Any) -> None:
        self._request = Request()
        super().__init__(*args)

    # The reconcile

    def _more_relations(self) -> List[str]:
        return sorted(
            name
            for name, endpoint in self.meta.relations.items()
            if endpoint.interface_name == FUNCTIONS
        )

    def _stored_params(self) -> Optional[Common]:
        return params.from_json(self.kind, self._stored(NF_KEY))

    def _has_more(self) -> bool:
        return self._request.params is not None or self._stored_params() is not None

    def _extra_state(self) -> str:
        seen = {
            name: [(label, sorted(bag.items())) for _, label, bag in self._databags(name)]
            for name in self._more_relations()
        }
        return self._stored(NF_KEY) + json.dumps(seen, sort_keys=True)

    def _extra_absent(self) -> List[Step]:
        return plan.removal_steps(self.kind)

    def _extend(self, vdu: Vdu, plans: Mapping[str, LinkPlan]) -> Optional[Extra]:
        asked = None
        try:
            asked = self._request.params or self._stored_params()
            if asked is None:
                return None
            outcome = self._reconcile_nf(vdu, self._nf_situation(asked, plans))
        except NotReadyError:
            return None
        except VpnaasError as error:
            return plan.failed(self.kind, asked, str(error))
        self._publish_part(outcome.part)
        return outcome

    def _reconcile_nf(self, vdu: Vdu, situation: plan.Situation) -> plan.Outcome:
        observed = vdu.execute(plan.observe_steps(situation)).check()
        decided = plan.make_plan(situation, observed, opc)
        results = vdu.execute(decided.steps).check() if decided.steps else None
        logger.info(
            "%s: %s",
            self.kind,
            ", ".join(id for _, id in changes(decided.steps)) or "no difference",
        )
        return plan.conclude(situation, decided, results)

    def _nf_situation(self, asked: Common, plans: Mapping[str, LinkPlan]) -> plan.Situation:
        ends: Dict[str, End] = {}
        parts: Dict[str, Tuple[Tuple[str, part.Part], ...]] = {}
        problems: List[str] = []
        for link, decided in sorted(plans.items()):
            address = decided.params.inner_address
            if not decided.interface:
                continue
            if address.version != 4:
                problems.append("{}: {} is not IPv4, which OAI needs".format(link, address))
                continue
            inner = [str(p.inner_address) for p in decided.peers if p.inner_address is not None]
            ends[link] = End(decided.interface, address, tuple(inner))
        for name in sorted(ends) + self._more_relations():
            parts[name] = self._parts(name, problems)
        request = self._request
        return plan.Situation(
            kind=self.kind,
            params=asked,
            ends=ends,
            parts=parts,
            problems=tuple(problems),
            link_units=tuple(sorted({p.owner for p in plans.values() if p.owner})),
            given=request.secrets,
            restart=request.restart,
            wait=request.wait,
        )

    def _parts(self, relation: str, problems: List[str]) -> Tuple[Tuple[str, part.Part], ...]:
        """Return what the network functions at the other end told; adds to `problems`."""
        found = []
        for _, label, bag in self._databags(relation):
            try:
                told = part.decode(bag, label)
            except InputError as error:
                problems.append(str(error))
                continue
            if told is not None:
                found.append((label, told))
        return tuple(found)

    def _publish_part(self, own: Optional[part.Part]) -> None:
        more = self._more_relations()
        for name in sorted(self.roles) + more:
            told = own
            if own is not None and name in more:
                # No link gives an address there: it is that of management.
                told = attr.evolve(own, address=self._management_address())
            for relation in self.model.relations[name]:
                bag = relation.data[self.app]
                for key, value in part.encode(told).items():
                    if bag.get(key, "") != value:
                        bag[key] = value

    def _management_address(self) -> str:
        login = self._login()
        try:
            return values.ipv4("ssh-hostname", login.host if login else "")
        except InputError:
            return ""

    # Actions

    def _reconcile_for(self, request: Request) -> plan.Outcome:
        self._request = request
        extra = self._reconcile_now().extra
        if not isinstance(extra, plan.Outcome):
            raise VpnaasError("no network function is configured yet; run configure-nf first")
        return extra

    def _configured(self) -> Common:
        asked = self._stored_params()
        if asked is None:
            raise VpnaasError("no network function is configured yet; run configure-nf first")
        return asked

    @action("configure-nf")
    def _configure_nf(self, given: Params) -> Mapping[str, Any]:
        asked = params.parse(self.kind, given)
        return self._change(asked, params.parse_secrets(self.kind, given))

    def _change(self, asked: Common, secrets: Optional[Secrets] = None) -> Mapping[str, Any]:
        """Bring the network function to new parameters, and keep them unless they cannot work."""
        outcome = self._reconcile_for(Request(asked, secrets, wait=ACTION_WAIT))
        if outcome.refused:
            self._request = Request()
            self._reconcile_and_report()  # The status is to tell of what is in force.
            raise VpnaasError(outcome.reason)
        self._store(NF_KEY, params.to_json(asked))
        return outcome.details

    @action("restart-nf")
    def _restart_nf(self, given: Params) -> Mapping[str, Any]:
        self._configured()
        return self._reconcile_for(Request(restart=True, wait=ACTION_WAIT)).details

    @action("health")
    def _health(self, given: Params) -> Mapping[str, Any]:
        self._configured()
        return self._reconcile_for(Request(wait=0)).details

    @action("show-config")
    def _show_config(self, given: Params) -> Dict[str, Any]:
        asked = self._configured()
        outcome = self._reconcile_for(Request(wait=0))
        return {"parameters": params.to_given(asked), "files": outcome.files}

    @action("set-log-level")
    def _set_log_level(self, given: Params) -> Mapping[str, Any]:
        if self.kind not in params.LEVELLED:
            raise VpnaasError("OAI's {} has one log level only".format(self.kind))
        return self._change_some(given, "set-log-level")

    def _change_some(self, given: Params, where: str) -> Mapping[str, Any]:
        """Change the parameters an action names; "keep" and 0 leave one as it is."""
        asked = self._configured()
        named: Dict[str, Any] = {name: v for name, v in given.items() if v not in ("keep", 0)}
        if "sgi-nat" in named:
            named["sgi-nat"] = named["sgi-nat"] == "yes"
        return self._change(params.changed(self.kind, asked, named, where))

    def _address(self, vdu: Vdu, interface: str, missing: str) -> str:
        """Return the IPv4 address of an interface of the VDU."""
        results = vdu.execute([pdn.address_step(interface)], exclusive=False)
        return pdn.address(results, missing)
