"""Actions on links: what they should be, their keys, and their state."""

from typing import Any, Dict, Sequence

import attr

from vpnaas.actions import Actions, Params, action
from vpnaas.base import fields
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.charm import NOTICE_KEY, Outcome
from vpnaas.features.qos import Qos
from vpnaas.plan import TABLE


class LinkActions(Actions):
    """What an operator does with the links of a VNF."""

    @action("configure")
    def configure(self, params: Params) -> Dict[str, Any]:
        link = self.charm.one_link(params)

        def refusals(outcome: Outcome) -> Sequence[str]:
            plan = outcome.plans.get(link)
            if plan is None:
                return outcome.reasons(link)
            reasons = [p for p in plan.problems if plan.unusable or p.startswith("set-qos")]
            return reasons + outcome.reasons(Qos.name)

        outcome = self.charm.change_intent(self.charm.intent().configured(params), refusals)
        return self.charm.view(outcome, frozenset([link]))

    @action("rotate-keys")
    def rotate_keys(self, params: Params) -> Dict[str, Any]:
        configured = self.charm.intent().links
        links = frozenset(
            link for link in self.charm.chosen(params) if TABLE[configured[link].technology].keyed
        )
        force = bool(params.get("force", False))
        if not links:
            raise InputError("link", "no chosen link uses keys", "a link with a VPN")
        # The first pass stages the keys. The second switches the keys that need no acknowledgement.
        outcome = self.charm.reconcile_now(rotate=links)
        staged = {link: _rotation(outcome, link) for link in sorted(links)}
        # The first pass may have ended a rotation: `force` then begins no other one.
        # It also replaces keys that cannot be used.
        late = frozenset(k for k, view in staged.items() if view.get("next-public-key", "broken"))
        # The next event finishes a staged rotation. So the rotation does not fail if the VDU fails
        # now, for example because it is slow.
        try:
            outcome = self.charm.reconcile_now(rotate=late if force else frozenset(), force=force)
            # A staged key that could not be used was made anew and is not in use yet.
            behind = frozenset(k for k in late if _rotation(outcome, k).get("next-public-key"))
            if force and behind:
                outcome = self.charm.reconcile_now(rotate=behind, force=True)
        except VpnaasError as error:
            if all(view["rotation"] == "failed" for view in staged.values()):
                raise
            return {link: dict(view, reason=str(error)) for link, view in staged.items()}
        answer = {}
        for link, before in staged.items():
            answer[link] = _rotation(outcome, link)
            if answer[link]["rotation"] == "failed" != before["rotation"]:
                answer[link] = dict(before, reason=answer[link]["reason"])
        return answer

    @action("restart")
    def restart(self, params: Params) -> Dict[str, Any]:
        links = self.charm.chosen(params)
        return self.charm.view(self.charm.reconcile_now(restart=links), links)

    @action("show-status")
    def show_status(self, params: Params) -> Dict[str, Any]:
        link = str(params.get("link", "all"))
        if link != "all":
            fields.choice("link", link, sorted(self.charm.roles))
        peer = str(params.get("peer", "all"))
        whole = link == "all" and peer == "all"
        links = frozenset(self.charm.roles) if link == "all" else frozenset([link])
        outcome = self.charm.reconcile_now(versions=whole, doubted=links)
        more = outcome.extra.shown() if whole else {}
        if outcome.notice:
            more = dict(more, notice=outcome.notice)
            self.charm.environment.store(NOTICE_KEY, "")
            self.charm.report(attr.evolve(outcome, notice=""))
        if self.charm.environment.version and whole:
            more = dict(more, **{"charm-version": self.charm.environment.version})
        if outcome.untried:
            more = dict(more, untried=list(outcome.untried))
        if self.charm.environment.problems():
            more = dict(more, problems=list(self.charm.environment.problems()))
        view = self.charm.view(outcome, links, peer)
        configured = self.charm.intent().links
        for name in set(view) & set(configured):
            view[name] = dict(view[name], configured=configured[name].to_params())
        return dict(view, **more)


def _rotation(outcome: Outcome, link: str) -> Dict[str, Any]:
    plan = outcome.plans[link]
    if plan.unusable or plan.state is None:
        return {"rotation": "failed", "reason": "; ".join(plan.problems or plan.waiting)}
    return {
        "rotation": "waiting for peers" if plan.state.next_public_key else "done",
        "key-generation": plan.state.generation,
        "public-key": plan.state.public_key,
        "next-public-key": plan.state.next_public_key,
        "reason": "; ".join(plan.waiting),
        # These peers get no offer; their owners must enter the new key themselves.
        "manual-peers": [peer.label for peer in plan.peers if peer.is_manual],
    }
