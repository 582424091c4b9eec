"""The charm of every VNF: one reconcile for every event, and the changes that actions ask for."""

import hashlib
import json
import logging
import time
from functools import partial
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple, Type

import attr

from vpnaas import status
from vpnaas.actions import OUTPUT_LIMIT, Params
from vpnaas.base import fields
from vpnaas.base.errors import InputError, NotReadyError, VpnaasError
from vpnaas.base.links import RELATION_INTERFACE
from vpnaas.environment import Environment
from vpnaas.features.feature import Addition, Extra
from vpnaas.params.gateway import effective
from vpnaas.params.intent import Intent, ManualPeer
from vpnaas.peers import leases
from vpnaas.peers.inputs import CharmState, Given
from vpnaas.peers.offer import Remote, asking, declined, encode, look, looking, show_assigned
from vpnaas.plan import (
    Plan,
    broken_extras,
    conclude,
    diagnose_steps,
    make_plan,
    observe_steps,
    prepare_steps,
    require_tools,
)
from vpnaas.tunnels.keyed import counted
from vpnaas.tunnels.technology import LinkPlan
from vpnaas.unit import Unit
from vpnaas.vdu import facts, machine
from vpnaas.vdu.facts import VduFacts
from vpnaas.vdu.ssh import Vdu, ensure_key
from vpnaas.vdu.steps import Results, changes

logger = logging.getLogger(__name__)

INTENT_KEY = "intent"
ADDRESSES_KEY = "given-addresses"
GENERATIONS_KEY = "key-generations"
NOTICE_KEY = "notice"
HOLDINGS_FILE, MEMORY_FILE = "holdings.json", "looks.json"
STANDBY = "standby, the leader manages the VDU"
#: Time in `stop` for a VDU that is probably gone: a lost SYN is sent again after 1 and 3 s.
STOP_SECONDS = 4


@attr.frozen
class Outcome:
    """What a reconcile found and did."""

    plans: Mapping[str, LinkPlan]
    now: int
    links: Sequence[status.LinkStatus]
    extra: Extra
    problems: Mapping[str, str] = attr.Factory(dict)
    # A sentence on what it did that nobody asked for, until show-status has shown it.
    notice: str = ""
    untried: Sequence[str] = ()  # Programs of the VDU in versions that nobody tried.

    def reasons(self, feature: str) -> List[str]:
        """Return why a feature is not as requested, [] if it is."""
        return [self.problems[feature]] if feature in self.problems else []


@attr.frozen
class Kind:
    """What charms have in common that run the same code."""

    name: str  # Juju stores it with the data of ops.
    groups: Tuple[type, ...]  # Their actions: classes in the form of `vpnaas.actions.Actions`.
    addition: Type[Addition] = Addition  # What they have besides links.


class Charm:
    """The code of a VNF's charm; its links are the endpoints of interface vpnaas-link."""

    def __init__(self, kind: Kind, environment: Environment) -> None:
        self.kind = kind
        self.environment = environment  # Where the code runs.
        self.unit = Unit(environment)
        # "provider" or "requirer" of each link.
        self.roles = environment.endpoints(RELATION_INTERFACE)
        self.addition = kind.addition(self)

    # Events

    def reconcile_and_report(self, unless_settled: bool = False) -> None:
        """Reconcile, and set the unit status.

        With `unless_settled`, do nothing if the data of the last reconcile has not changed.
        """
        environment = self.environment
        try:
            if environment.unit_keys():
                # The leader authorizes our key on the VDU before we may have to take over.
                environment.announce(ensure_key(self.unit.key_file()))
            if not environment.is_leader():
                environment.set_status(False, STANDBY)
                return
            charm_state = self.charm_state()
            if unless_settled and environment.settled() == self._fingerprint(charm_state):
                return
            self.report(self.reconcile(charm_state))
        except NotReadyError:
            # The unit has no peer relation yet, for example in the hook install. Or it led before.
            environment.set_status(False, "starting" if environment.is_leader() else STANDBY)
        except VpnaasError as error:
            environment.set_status(True, str(error))

    def report(self, outcome: Optional[Outcome]) -> None:
        if outcome is None:
            if not self.unit.login():
                missing = "ssh-hostname and ssh-username"
            else:
                missing = "a link" if self.roles else "its parameters"
            text = "ready, waiting for OSM to set {}".format(missing)
            self.environment.set_status(False, text)
            return
        bad, links = status.summary(outcome.links)
        problems = tuple(outcome.problems.values()) + self.environment.problems()
        parts = problems + (outcome.notice, outcome.extra.summary(), links)
        text = ", ".join(words for words in parts if words)
        bad = bad or outcome.extra.bad or bool(problems)
        self.environment.set_status(bool(bad), text)

    def stop(self) -> None:
        """Remove links and secrets if this is the last unit; the VDU may be gone already."""
        environment = self.environment
        if not environment.is_leader() or environment.others_go_on() or not self.unit.login():
            return
        try:
            self.unit.leaving = True
            with self.vdu() as vdu:
                vdu.connect_seconds = STOP_SECONDS
                vdu.execute(machine.forget(all_data=False)).check()
        except VpnaasError as error:
            logger.warning("links were not taken down: %s", error)

    # The reconcile

    def _fingerprint(self, charm_state: CharmState) -> str:
        """Return a digest of all data in Juju that a reconcile reads or writes."""
        seen = {
            "login": str(self.unit.login()),
            "host-key": self.environment.option("ssh-host-key-fingerprint"),
            "intent": charm_state.intent.to_json(),
            "authorize": charm_state.authorize,
            "extra": self.addition.stored(),
            "remotes": {
                link: [(id, sorted(bag.items())) for id, _, bag in self.environment.related(link)]
                for link in self.roles
            },
            # Our published data counts too: if Juju lost it, the charm must write it again.
            "own": {
                link: [sorted(bag.items()) for bag in self.environment.published(link)]
                for link in sorted(
                    charm_state.intent.off.union(charm_state.intent.links, charm_state.asking)
                )
            },
        }
        return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()

    def reconcile(self, charm_state: CharmState) -> Optional[Outcome]:
        """Bring the VDU to the wanted state; None if there is nothing to reconcile yet."""
        configured = not charm_state.intent.empty or charm_state.asking
        if not self.unit.login() or not (configured or self.addition.configured()):
            return None
        started = time.monotonic()
        with self.vdu() as vdu:
            plan = self.plan(charm_state, vdu)
            results = None
            if plan.steps:
                # If a step fails, the VDU is no longer as the last reconcile left it.
                self.environment.settle("")
                results = vdu.execute(plan.steps).check()
            asked = diagnose_steps(plan, results) if results is not None else []
            diagnosis = vdu.execute(asked, exclusive=False) if asked else None
            plans = conclude(plan, results, diagnosis)
            extra = self.addition.reconcile(vdu, charm_state, plan.vdu, plans)
            logger.info(
                "reconciled in %d round trips and %.2f s: %s",
                vdu.round_trips,
                time.monotonic() - started,
                ", ".join(id for _, id in changes(plan.steps)) or "no difference",
            )
        links = self._statuses(charm_state, plan.now, plans)
        self._publish(charm_state, plans, {link.link: link.memory.looks[0] for link in links})
        if results is None or not results.broken:
            self._note_generations(plan.machine, plans)
        notice = self.environment.stored(NOTICE_KEY)
        problems = dict(plan.problems, **broken_extras(plans, results))
        if self.unit.unwritten:
            problems["files"] = self.unit.unwritten
        outcome = Outcome(plans, plan.now, links, extra or Extra(), problems, notice, plan.untried)
        calm = all(link.state not in (status.BLOCKED, status.DOWN) for link in outcome.links)
        calm = calm and outcome.extra.calm and not (problems or self.environment.problems())
        self.environment.settle(self._fingerprint(charm_state) if calm else "")
        return outcome

    def _woken(self, link: str) -> Tuple[str, ...]:
        """Return the numbers of the looks that the other ends of a link ask for."""
        return tuple(look(bag) for _, _, bag in self.environment.related(link))

    def _doubted(self) -> FrozenSet[str]:
        before = self.unit.stored(MEMORY_FILE)
        known = {link: status.Memory.from_json(before.get(link)) for link in self.roles}
        return frozenset(
            link
            for link, memory in known.items()
            if memory.state == status.DOWN or memory.woken != self._woken(link)
        )

    def _statuses(
        self, charm_state: CharmState, now: int, plans: Mapping[str, LinkPlan]
    ) -> List[status.LinkStatus]:
        """Return the status of each link; what the next reconcile should know of it is stored."""
        before, at, off = self.unit.stored(MEMORY_FILE), int(time.time()), charm_state.intent.off
        links = []
        for name in sorted(self.roles):
            known = status.Memory.from_json(before.get(name))
            woken = self._woken(name)
            links.append(status.link_status(name, plans.get(name), now, off, known, at, woken))
        self.unit.store(MEMORY_FILE, {link.link: link.memory.to_json() for link in links}, before)
        return links

    def plan(self, charm_state: CharmState, vdu: Vdu) -> Plan:
        results = vdu.execute(observe_steps(charm_state))
        self.unit.pin(vdu)
        require_tools(charm_state, results)
        if self.disowned(vdu, results):
            results = vdu.execute(observe_steps(charm_state))
        results.check()
        known = self._generations(machine.identity(results))
        charm_state = attr.evolve(charm_state, generations=known)
        prepare = prepare_steps(charm_state, results)
        prepared = vdu.execute(prepare).check() if prepare else None
        return make_plan(charm_state, results, prepared)

    def disowned(self, vdu: Vdu, results: Results) -> bool:
        """Remove what another machine has left on this VDU; tell whether there was any."""
        if not machine.foreign(results):
            return False
        vdu.execute(machine.forget(all_data=True)).check()
        if self.environment.is_leader():
            self.environment.store(NOTICE_KEY, machine.NOTICE)
        return True

    def _generations(self, identity: Optional[str]) -> Dict[str, int]:
        """Return the latest generation of each key that this machine had, {} for a new one."""
        text = self.environment.stored(GENERATIONS_KEY)
        seen = fields.json_object("peer relation: " + GENERATIONS_KEY, text) if text else {}
        return dict(seen["latest"]) if seen.get("machine") == identity else {}

    def _note_generations(self, identity: Optional[str], plans: Mapping[str, LinkPlan]) -> None:
        known = self._generations(identity)
        later = counted(plans, known)
        if later:
            seen = {"machine": identity, "latest": dict(known, **later)}
            self.environment.store(GENERATIONS_KEY, json.dumps(seen, sort_keys=True))

    def charm_state(
        self,
        intent: Optional[Intent] = None,
        rotate: FrozenSet[str] = frozenset(),
        force: bool = False,
        restart: FrozenSet[str] = frozenset(),
        certificates: Optional[Mapping[str, Given]] = None,
        versions: bool = False,
        doubted: FrozenSet[str] = frozenset(),
    ) -> CharmState:
        login = self.unit.login()
        management = None
        if login:
            try:
                management = fields.address("ssh-hostname", login.host)
            except InputError:
                pass  # A host name is enough to log in, but it is not an address of the VDU.
        # Besides the VDU's clock, whose jump back would let in who was enrolled until an hour ago.
        intent = (intent if intent is not None else self.intent()).at(int(time.time()))
        kept = {link: params for link, params in intent.links.items() if link in self.roles}
        remotes = {
            link: tuple(Remote.read(*related) for related in self.environment.related(link))
            for link in self.roles
        }
        intent = attr.evolve(intent, links=kept, off=intent.off & frozenset(self.roles))
        holdings = self.unit.stored(HOLDINGS_FILE)
        intent, waiting = leases.resolved(
            intent, self.roles, remotes, self._addresses(), running=holdings
        )
        return CharmState(
            intent=intent,
            asking=waiting,
            roles=self.roles,
            remotes=remotes,
            management=management,
            user=login.user if login else "",
            rotate=rotate,
            force=force,
            restart=restart,
            certificates=certificates or {},
            versions=versions,
            authorize=self._other_ssh_keys(),
            doubted=doubted | self._doubted(),
            gateway=intent.gateway if self._is_gateway() else None,
            holdings=holdings,
            monitoring=effective(intent.monitoring, self._is_gateway()),
            beside=self.addition.beside(),
        )

    def _is_gateway(self) -> bool:
        """Tell whether charm.yaml has `gateway: true`, which adds this action."""
        return "configure-gateway" in self.environment.actions

    def _publish(
        self, charm_state: CharmState, plans: Mapping[str, LinkPlan], looks: Mapping[str, int]
    ) -> None:
        for link in sorted(charm_state.intent.off):
            for id in self.environment.relation_ids(link):
                self.environment.tell(link, id, declined())
        for link, each in sorted(charm_state.asking.items()):
            for id in self.environment.relation_ids(link) if not each.refused else ():
                request = asking(each.params.technology, each.params.request)
                self.environment.tell(link, id, request)
        given = dict(self._addresses())
        for link, plan in plans.items():
            if not plan.params.given:
                given.pop(link, None)
            elif not plan.unusable:
                given[link] = show_assigned(plan.params.given)
        given = {link: text for link, text in given.items() if link in plans}
        if given != self._addresses():
            self.environment.store(ADDRESSES_KEY, json.dumps(given, sort_keys=True))
        self._note_holdings(charm_state, plans)
        for link, plan in plans.items():
            bags = {id: bag for id, _, bag in self.environment.related(link)}
            for id in self.environment.relation_ids(link):
                offer = plan.offers.get(id)
                if offer is not None:
                    again = looking(looks[link], bags.get(id, {}))
                    self.environment.tell(link, id, dict(encode(offer), **again))

    # Stored data

    def intent(self) -> Intent:
        return Intent.from_json(self.environment.stored(INTENT_KEY))

    def _addresses(self) -> Mapping[str, str]:
        """Return the last addresses from gateways by link, as texts of `show_assigned`."""
        text = self.environment.stored(ADDRESSES_KEY)
        return fields.json_object("peer relation: " + ADDRESSES_KEY, text) if text else {}

    def _note_holdings(self, charm_state: CharmState, plans: Mapping[str, LinkPlan]) -> None:
        """Store what peers hold. A related one that has to wait keeps what it held."""
        noted = {}
        for link, plan in plans.items():
            names = {remote.peer_name for remote in charm_state.remotes.get(link, ())}
            before = charm_state.holdings.get(link, {})
            noted[link] = {name: held for name, held in before.items() if name in names}
            noted[link].update((peer.name, peer.holdings()) for peer in plan.peers)
        self.unit.store(HOLDINGS_FILE, noted, charm_state.holdings)

    def _other_ssh_keys(self) -> Tuple[str, ...]:
        return tuple(
            fields.ssh_public_key("proxypeer: " + unit, text)
            for unit, text in self.environment.unit_keys().items()
            if text
        )

    # What actions ask for

    def vdu(self) -> Vdu:
        return self.unit.vdu()

    def facts(self, vdu: Vdu) -> VduFacts:
        """Look at the VDU for an action that does not reconcile."""
        return facts.parse(vdu.execute(facts.observe(), exclusive=False).check())

    def measured_plan(self, params: Params, vdu: Vdu) -> Plan:
        """Look at the VDU without changing it, to know the peers of the link to measure."""
        self.configured_link(params)
        return self.plan(self.charm_state(), vdu)

    def one_link(self, params: Params) -> str:
        return fields.choice("link", str(params.get("link", "")), sorted(self.roles))

    def configured_link(self, params: Params) -> str:
        link = self.one_link(params)
        if link not in self.intent().links:
            raise InputError("link", "{} is not configured".format(link), "run configure first")
        return link

    def chosen(self, params: Params) -> FrozenSet[str]:
        """Return the links that an action works on: the one in `link`, or all configured ones."""
        configured = self.intent().links
        if not configured:
            raise VpnaasError("no link is configured yet; run configure first")
        if params.get("link", "all") == "all":
            return frozenset(configured)
        return frozenset([self.configured_link(params)])

    def reconcile_now(self, **options: Any) -> Outcome:
        try:
            outcome = self.reconcile(self.charm_state(**options))
        except VpnaasError as error:
            self.unit.after_work(partial(self.environment.set_status, True, str(error)))
            raise
        if outcome is None:
            if not self.unit.login():
                raise VpnaasError("ssh-hostname and ssh-username are not set yet")
            raise VpnaasError("no link is configured yet; run configure first")
        self.unit.after_work(partial(self.report, outcome))
        return outcome

    def change_intent(
        self, intent: Intent, refusals: Callable[[Outcome], Sequence[str]] = lambda _: ()
    ) -> Outcome:
        """Reconcile with a new intent, and store it unless `refusals` returns a reason.

        A new link that cannot be used is stored all the same: there is no earlier state to return
        to, so it is blocked with its reason, and comes up when the cause is gone.
        """
        stored = self.intent()
        new = frozenset(intent.links) - frozenset(stored.links)
        try:
            outcome = self.reconcile_now(intent=intent)
        except VpnaasError:
            if new and self.unit.login():
                self._store(intent)
            raise
        refused = refusals(outcome)
        if refused and any(outcome.plans[link].unusable for link in new & set(outcome.plans)):
            self._store(intent)
        elif refused:
            if new:
                # The stored intent says nothing of a link that is up only now.
                self.reconcile_now(intent=attr.evolve(stored, off=stored.off | new))
            self.reconcile_and_report()
        if refused:
            raise VpnaasError(refused[0])
        self._store(intent)
        return outcome

    def change_feature(self, intent: Intent, name: str) -> None:
        """Store an intent that differs in one feature only.

        Reconcile with it first, unless it is empty; a problem of this feature refuses it.
        """
        if intent.empty:
            self._store(intent)
        else:
            self.change_intent(intent, lambda outcome: outcome.reasons(name))

    def admit(self, intent: Intent, peer: ManualPeer) -> Outcome:
        """Change to an intent with a manual peer, unless its link does not have it as requested."""
        return self.change_intent(intent, lambda outcome: _missing(outcome.plans[peer.link], peer))

    def revoke(self, action: str, link: str, intent: Intent) -> None:
        """Change to an intent without a peer that must not come back."""
        if intent != self.intent():
            # Store it first: if the VDU does not answer now, the next reconcile removes the peer.
            self._store(intent)
        plan = self.reconcile_now().plans.get(link)
        if plan is not None and plan.unusable:
            what = "{}: the revocation is stored, but {} stays as it is until it can be used: {}"
            raise VpnaasError(what.format(action, link, plan.problems[0]))

    def _store(self, intent: Intent) -> None:
        self.environment.store(INTENT_KEY, intent.to_json())

    def view(self, outcome: Outcome, links: FrozenSet[str], peer: str = "all") -> Dict[str, Any]:
        """Return the details of links, with as many peers as fit, or with one peer only."""
        result = {link.link: link.details for link in outcome.links if link.link in links}
        if peer != "all":
            return status.of_peer(result, peer)
        return self.bounded(result, OUTPUT_LIMIT * 9 // 10)

    bounded = staticmethod(status.bounded)


def _missing(plan: LinkPlan, peer: ManualPeer) -> Sequence[str]:
    """Return why a link does not have a manual peer as requested, () if it has it."""
    # A peer whose new data are refused keeps its old ones; none is sure where steps failed.
    asked = (peer.peer_name, peer.allowed_prefixes, peer.public_key, peer.endpoint)
    for p in () if plan.unusable else plan.peers:
        if (p.name, p.prefixes, p.public_key, p.endpoint) == asked:
            if p.keepalive == peer.keepalive_seconds and p.identity in ("", peer.identity):
                return ()
    problems = plan.problems + (() if peer.stored else plan.waiting)
    reasons = [text for text in problems if text.startswith(peer.name + ":")]
    if peer.stored and not plan.unusable:
        return reasons  # The peer comes after fetch-preshared-key.
    return reasons or list(plan.problems) or ["peer refused"]
