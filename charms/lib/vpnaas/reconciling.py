"""The reconcile of a charm: the same one for every event and every VNF."""

import hashlib
import json
import logging
import os
import time
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

import attr

from vpnaas import status
from vpnaas.base import fields
from vpnaas.base.errors import (
    InputError,
    NotReadyError,
    StorageError,
    UnreachableError,
    VpnaasError,
)
from vpnaas.base.links import RELATION_INTERFACE
from vpnaas.environment import Environment
from vpnaas.features.feature import Extra
from vpnaas.params.gateway import effective
from vpnaas.params.intent import Intent
from vpnaas.peers import leases
from vpnaas.peers.inputs import Beside, CharmState, Given
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
from vpnaas.vdu import machine
from vpnaas.vdu.facts import VduFacts
from vpnaas.vdu.ssh import Login, Vdu, address_of, ensure_key, replace_file
from vpnaas.vdu.steps import Results, changes

logger = logging.getLogger(__name__)
# Each log record starts a juju-log process. paramiko logs every packet of a login, and the
# traceback of a failed login line by line. Our own error already says what failed.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)

INTENT_KEY = "intent"
ADDRESSES_KEY = "given-addresses"
GENERATIONS_KEY = "key-generations"
NOTICE_KEY = "notice"
HOST_KEY = "ssh-host-key"
TRUST_KEY = "ssh-host-key-trust"
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


class Addition:
    """What only some VNFs have besides links; it is reconciled after them, in the same session."""

    relations: Tuple[str, ...] = ()
    """Endpoints other than links whose events lead to a reconcile."""

    def configured(self) -> bool:
        """Tell whether there is something to reconcile without any link."""
        return False

    def beside(self) -> Beside:
        return Beside()

    def stored(self) -> str:
        """Return the data in Juju that it depends on, without the relations of links."""
        return ""

    def reconcile(
        self, vdu: Vdu, charm_state: CharmState, seen: VduFacts, plans: Mapping[str, LinkPlan]
    ) -> Optional[Extra]:
        """Bring it to the wanted state; an error is part of the outcome."""
        return None


class ReconcilingCharm:
    """The code of a VNF's charm; its links are the endpoints of interface vpnaas-link."""

    # Why the charm could not keep a file of its own, "" if it could. The VDU was changed before, so
    # that is no reason to call an action failed.
    unwritten = ""

    def __init__(self, environment: Environment, addition: Optional[Addition] = None) -> None:
        self.environment = environment  # Where the code runs.
        self.addition = addition or Addition()
        # "provider" or "requirer" of each link.
        self.roles = environment.endpoints(RELATION_INTERFACE)
        # The peer relation may be gone before the hook `stop`.
        self._leaving = False

    # Events

    def reconcile_and_report(self, unless_settled: bool = False) -> None:
        """Reconcile, and set the unit status.

        With `unless_settled`, do nothing if the data of the last reconcile has not changed.
        """
        environment = self.environment
        try:
            if environment.unit_keys():
                # The leader authorizes our key on the VDU before we may have to take over.
                environment.announce(ensure_key(self._key_file()))
            if not environment.is_leader():
                environment.set_status(False, STANDBY)
                return
            charm_state = self._charm_state()
            if unless_settled and environment.settled() == self._fingerprint(charm_state):
                return
            self._report(self._reconcile(charm_state))
        except NotReadyError:
            # The unit has no peer relation yet, for example in the hook install. Or it led before.
            environment.set_status(False, "starting" if environment.is_leader() else STANDBY)
        except VpnaasError as error:
            environment.set_status(True, str(error))

    def _report(self, outcome: Optional[Outcome]) -> None:
        if outcome is None:
            if not self._login():
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
        if not environment.is_leader() or environment.others_go_on() or not self._login():
            return
        try:
            self._leaving = True
            with self._vdu() as vdu:
                vdu.connect_seconds = STOP_SECONDS
                vdu.execute(machine.forget(all_data=False)).check()
        except VpnaasError as error:
            logger.warning("links were not taken down: %s", error)

    # The reconcile

    def _fingerprint(self, charm_state: CharmState) -> str:
        """Return a digest of all data in Juju that a reconcile reads or writes."""
        seen = {
            "login": str(self._login()),
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

    def _reconcile(self, charm_state: CharmState) -> Optional[Outcome]:
        """Bring the VDU to the wanted state; None if there is nothing to reconcile yet."""
        configured = not charm_state.intent.empty or charm_state.asking
        if not self._login() or not (configured or self.addition.configured()):
            return None
        started = time.monotonic()
        with self._vdu() as vdu:
            plan = self._plan(charm_state, vdu)
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
        if self.unwritten:
            problems["files"] = self.unwritten
        outcome = Outcome(plans, plan.now, links, extra or Extra(), problems, notice, plan.untried)
        calm = all(link.state not in (status.BLOCKED, status.DOWN) for link in outcome.links)
        calm = calm and outcome.extra.calm and not (problems or self.environment.problems())
        self.environment.settle(self._fingerprint(charm_state) if calm else "")
        return outcome

    def _woken(self, link: str) -> Tuple[str, ...]:
        """Return the numbers of the looks that the other ends of a link ask for."""
        return tuple(look(bag) for _, _, bag in self.environment.related(link))

    def _doubted(self) -> FrozenSet[str]:
        before = self._stored(MEMORY_FILE)
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
        before, at, off = self._stored(MEMORY_FILE), int(time.time()), charm_state.intent.off
        links = []
        for name in sorted(self.roles):
            known = status.Memory.from_json(before.get(name))
            woken = self._woken(name)
            links.append(status.link_status(name, plans.get(name), now, off, known, at, woken))
        self._store(MEMORY_FILE, {link.link: link.memory.to_json() for link in links}, before)
        return links

    def _plan(self, charm_state: CharmState, vdu: Vdu) -> Plan:
        results = vdu.execute(observe_steps(charm_state))
        self._pin(vdu)
        require_tools(charm_state, results)
        if self._disowned(vdu, results):
            results = vdu.execute(observe_steps(charm_state))
        results.check()
        known = self._generations(machine.identity(results))
        charm_state = attr.evolve(charm_state, generations=known)
        prepare = prepare_steps(charm_state, results)
        prepared = vdu.execute(prepare).check() if prepare else None
        return make_plan(charm_state, results, prepared)

    def _disowned(self, vdu: Vdu, results: Results) -> bool:
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

    def _charm_state(
        self,
        intent: Optional[Intent] = None,
        rotate: FrozenSet[str] = frozenset(),
        force: bool = False,
        restart: FrozenSet[str] = frozenset(),
        certificates: Optional[Mapping[str, Given]] = None,
        versions: bool = False,
    ) -> CharmState:
        login = self._login()
        management = None
        if login:
            try:
                management = fields.address("ssh-hostname", login.host)
            except InputError:
                pass  # A host name is enough to log in, but it is not an address of the VDU.
        # Besides the VDU's clock, whose jump back would let in who was enrolled until an hour ago.
        intent = (intent if intent is not None else self._intent()).at(int(time.time()))
        kept = {link: params for link, params in intent.links.items() if link in self.roles}
        remotes = {
            link: tuple(Remote.read(*related) for related in self.environment.related(link))
            for link in self.roles
        }
        intent = attr.evolve(intent, links=kept, off=intent.off & frozenset(self.roles))
        holdings = self._holdings()
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
            doubted=self._doubted(),
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

    def _intent(self) -> Intent:
        return Intent.from_json(self.environment.stored(INTENT_KEY))

    def _addresses(self) -> Mapping[str, str]:
        """Return the last addresses from gateways by link, as texts of `show_assigned`."""
        text = self.environment.stored(ADDRESSES_KEY)
        return fields.json_object("peer relation: " + ADDRESSES_KEY, text) if text else {}

    def _stored(self, name: str) -> Mapping[str, Any]:
        """Return a JSON object of this unit; {} if it has none."""
        try:
            with open(os.path.join(os.path.dirname(self._key_file()), name), "rb") as stream:
                return fields.json_object(name, stream.read().decode("ascii"))
        except (OSError, ValueError, InputError):
            return {}

    def _store(self, name: str, value: Mapping[str, Any], before: Mapping[str, Any]) -> None:
        """Store a JSON object of this unit, unless it is as `before`."""
        text = json.dumps(value, sort_keys=True)
        if json.loads(text) != before:
            self._keep(os.path.join(os.path.dirname(self._key_file()), name), text)

    def _keep(self, path: str, text: str) -> None:
        """Write a file of this unit that a later reconcile can do without."""
        self._after_work(lambda: replace_file(path, text.encode()))

    def _after_work(self, note: Callable[[], None]) -> None:
        """Write something down after the VDU was changed; note if there is no room for it."""
        try:
            note()
        except StorageError as error:
            self.unwritten = str(error)

    def _holdings(self) -> Mapping[str, Mapping[str, str]]:
        """Return `Peer.holdings` of the last reconcile, by link and peer name."""
        return self._stored(HOLDINGS_FILE)

    def _note_holdings(self, charm_state: CharmState, plans: Mapping[str, LinkPlan]) -> None:
        """Store what peers hold. A related one that has to wait keeps what it held."""
        noted = {}
        for link, plan in plans.items():
            names = {remote.peer_name for remote in charm_state.remotes.get(link, ())}
            before = charm_state.holdings.get(link, {})
            noted[link] = {name: held for name, held in before.items() if name in names}
            noted[link].update((peer.name, peer.holdings()) for peer in plan.peers)
        self._store(HOLDINGS_FILE, noted, charm_state.holdings)

    # SSH

    def _key_file(self) -> str:
        return os.path.join(self.environment.folder, "id_ed25519")

    def _login(self) -> Optional[Login]:
        host = address_of(self.environment.option("ssh-hostname"))
        user = self.environment.option("ssh-username").strip()
        if not host or not user:
            return None
        return Login(host, user, self.environment.option("ssh-password"), self._key_file())

    def _vdu(self) -> Vdu:
        login = self._login()
        if login is None:
            raise UnreachableError("ssh-hostname and ssh-username are not set")
        option = self.environment.option("ssh-host-key-fingerprint")
        fingerprint = fields.host_key_fingerprint("ssh-host-key-fingerprint", option)
        pinned = ""
        if self.environment.is_leader():
            try:
                text = self.environment.stored(HOST_KEY)
                fingerprint = fingerprint or self.environment.stored(TRUST_KEY)
            except NotReadyError:
                text = self._last_pin() if self._leaving else ""
                if not text.startswith(login.host + " "):
                    raise
            host, _, key = text.partition(" ")
            pinned = key if host == login.host else ""
        cache = os.path.join(os.path.dirname(self._key_file()), "file-cache.json")
        return Vdu(login, cache, pinned, fingerprint)

    def _pin(self, vdu: Vdu) -> None:
        login = self._login()
        if login and vdu.host_key and self.environment.is_leader():
            pin = "{} {}".format(login.host, vdu.host_key)
            self.environment.store(HOST_KEY, pin)
            if self._last_pin() != pin:
                self._keep(self._pin_file(), pin)

    def _pin_file(self) -> str:
        return os.path.join(os.path.dirname(self._key_file()), "host-key")

    def _last_pin(self) -> str:
        """Return the VDU's address and host key as this unit pinned them last, "" without any."""
        try:
            with open(self._pin_file(), encoding="ascii") as stream:
                return stream.read()
        except (OSError, ValueError):
            return ""

    def _other_ssh_keys(self) -> Tuple[str, ...]:
        return tuple(
            fields.ssh_public_key("proxypeer: " + unit, text)
            for unit, text in self.environment.unit_keys().items()
            if text
        )
