"""The pair that a security gateway may be one of, and the actions on it."""

import logging
from typing import Any, Mapping, Optional

import attr

from vpnaas.actions import Actions, Params, action
from vpnaas.base import fields
from vpnaas.base.errors import NotReadyError, VpnaasError
from vpnaas.features.feature import Addition, Extra
from vpnaas.features.pair import gateway_pair
from vpnaas.features.pair.gateway_pair import PairOutcome
from vpnaas.features.pair.params import NO_ROLE, PairParams, from_json, pair_params
from vpnaas.peers.inputs import Beside, CharmState
from vpnaas.tunnels.technology import LinkPlan
from vpnaas.vdu.facts import VduFacts
from vpnaas.vdu.ssh import Vdu
from vpnaas.vdu.steps import changes

logger = logging.getLogger(__name__)

PAIR_KEY = "standby"
GIVE_UP = "give-up"
RESUME = "resume"


class Pair(Addition):
    """The pair that a gateway is one of, if it is one."""

    # Parameters that are being tried, in the form of those that are stored.
    tried = None  # type: Optional[str]

    def params(self) -> Optional[PairParams]:
        return from_json(self.stored() if self.tried is None else self.tried)

    def beside(self) -> Beside:
        params = self.params()
        return Beside(shared=params.shared, virtual=params.virtual.ip) if params else Beside()

    def stored(self) -> str:
        return self.environment.stored(PAIR_KEY)

    def reconcile(
        self, vdu: Vdu, charm_state: CharmState, seen: VduFacts, plans: Mapping[str, LinkPlan]
    ) -> Optional[Extra]:
        params = None
        try:
            params = self.params()
            if params is not None:
                return _reconciled(vdu, seen, params, plans)
            # Only a reconcile with new parameters looks for an earlier pair.
            if self.tried is not None:
                found = vdu.execute(gateway_pair.observe_absent()).check()
                if found.text("pair/was") is not None:
                    vdu.execute(gateway_pair.absent()).check()
            return None
        except NotReadyError:
            return None
        except VpnaasError as error:
            return gateway_pair.failed(params.role if params else NO_ROLE, str(error))


def _reconciled(
    vdu: Vdu, seen: VduFacts, params: PairParams, plans: Mapping[str, LinkPlan]
) -> PairOutcome:
    observed = vdu.execute(gateway_pair.observe()).check()
    gateway_pair.require_tools(observed)
    params = seen.resolved(params, "trusted", "untrusted")
    pair = gateway_pair.desired(params, plans, observed)
    steps = gateway_pair.steps_to(pair, observed)
    logger.info("pair: %s", ", ".join(id for _, id in changes(steps)) or "no difference")
    if not steps:
        return gateway_pair.conclude(pair, observed)
    return gateway_pair.conclude(pair, vdu.execute(steps).check(), gateway_pair.AFTER)


class PairActions(Actions):
    """Makes a gateway one of a pair, and has it give way to the other."""

    @property
    def pair(self) -> Pair:
        return Pair.of(self.charm)

    def _change_pair(self, params: Optional[PairParams]) -> PairOutcome:
        """Apply new parameters to the VDU, and store them if they can work."""
        self.pair.tried = params.to_json() if params else ""
        extra = self.charm.reconcile_now().extra
        if params is None and not isinstance(extra, PairOutcome):
            extra = PairOutcome(NO_ROLE, details={"role": NO_ROLE})
        if not isinstance(extra, PairOutcome) or extra.state == "failed":
            self.pair.tried = self.pair.stored()
            self.charm.reconcile_and_report()  # Go back to the stored parameters, or to no pair.
            reason = extra.problem if isinstance(extra, PairOutcome) else "not ready yet; try again"
            raise VpnaasError(reason)
        self.charm.environment.store(PAIR_KEY, self.pair.tried)
        return extra

    @action("configure-standby")
    def configure_standby(self, params: Params) -> Mapping[str, Any]:
        pair, before = pair_params(params), self.pair.params()
        if pair is not None and before is not None:
            pair = attr.evolve(pair, away=before.away)
        return self._change_pair(pair).details

    @action("switch-over")
    def switch_over(self, params: Params) -> Mapping[str, Any]:
        given = str(params.get("activity", GIVE_UP))
        what = fields.choice("switch-over: activity", given, (GIVE_UP, RESUME))
        pair = self.pair.params()
        if pair is None:
            raise VpnaasError("this gateway is not one of a pair; run configure-standby first")
        self._change_pair(attr.evolve(pair, away=what == GIVE_UP))
        if what == GIVE_UP:
            with self.charm.vdu() as vdu:
                gone = vdu.execute(gateway_pair.left(pair), exclusive=False).check()
            if gone.exit_code("pair/left") != 0:
                self._change_pair(attr.evolve(pair, away=False))
                raise VpnaasError(
                    "the other gateway does not take over; this one stays active, see"
                    " show-status there"
                )
        return self._change_pair(self.pair.params()).details
