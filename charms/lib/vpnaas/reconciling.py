"""ops edge: turns any event of Juju into one reconcile, for every VNF.

Every event leads to `_reconcile`; the handlers differ only in their report. OSM waits an hour for a
unit that is neither active nor blocked, so the charm sets no other status.
"""

import hashlib
import json
import logging
import os
import subprocess
import time
from typing import Any, FrozenSet, List, Mapping, Optional, Tuple

import attr
from ops.charm import CharmBase, ConfigChangedEvent, RelationEvent
from ops.framework import EventBase, StoredState
from ops.model import ActiveStatus, BlockedStatus, ModelError, Relation

from vpnaas import status
from vpnaas.base import fields
from vpnaas.base.errors import InputError, NotReadyError, UnreachableError, VpnaasError
from vpnaas.base.links import PROVIDER, RELATION_INTERFACE, REQUIRER
from vpnaas.base.x509 import Certificate
from vpnaas.extras import gateway, guard, monitoring, qos, responder
from vpnaas.extras.extra import Extra
from vpnaas.params.intent import Intent
from vpnaas.params.monitoring import effective
from vpnaas.peers.offer import Remote, declined, encode
from vpnaas.plan import Plan, conclude, make_plan, observe_steps, prepare_steps, require_tools
from vpnaas.tunnels.technologies import TABLE
from vpnaas.tunnels.technology import CharmState, LinkPlan
from vpnaas.vdu.ssh import HostKeyRule, Login, Vdu, address_of, ensure_key
from vpnaas.vdu.steps import Step, changes

logger = logging.getLogger(__name__)
# Each record costs a juju-log process; paramiko tells of every packet of a login, and of a failed
# one with a traceback, line by line. What failed is in the sentence of our own error.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)

PEER_RELATION = "proxypeer"
INTENT_KEY = "intent"
HOST_KEY = "ssh-host-key"
TRUST_KEY = "ssh-host-key-trust"
SSH_PUBLIC_KEY = "ssh-public-key"


class Outcome:
    """What a reconcile found and did."""

    def __init__(
        self,
        plans: Mapping[str, LinkPlan],
        now: int,
        declared: Tuple[str, ...],
        extra: Optional[Extra] = None,
        off: FrozenSet[str] = frozenset(),
        problems: Tuple[str, ...] = (),
    ) -> None:
        self.plans = plans
        self.problems = problems
        self.now = now
        self.links = status.statuses(declared, plans, now, off)
        self.extra = extra or Extra()


class ReconcilingCharm(CharmBase):
    """Proxy charm of a VNF; its links are the relations of interface vpnaas-link."""

    _settled = StoredState()  # type: ignore[no-untyped-call]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._settled.set_default(fingerprint="")
        self.roles = {
            name: role
            for role, endpoints in (
                (PROVIDER, self.meta.provides),
                (REQUIRER, self.meta.requires),
            )
            for name, endpoint in endpoints.items()
            if endpoint.interface_name == RELATION_INTERFACE
        }
        events = [
            self.on.install,
            self.on.start,
            self.on.config_changed,
            self.on.leader_elected,
            self.on.leader_settings_changed,
            self.on.upgrade_charm,
            self.on.update_status,
        ]
        for endpoint in [PEER_RELATION] + sorted(self.roles) + self._more_relations():
            relation = self.on[endpoint]
            events += [
                relation.relation_created,
                relation.relation_joined,
                relation.relation_changed,
                relation.relation_departed,
                relation.relation_broken,
            ]
        for event in events:
            self.framework.observe(event, self._on_event)
        self.framework.observe(self.on.stop, self._on_stop)

    # What a VNF with more than links overrides

    def _more_relations(self) -> List[str]:
        """Return the endpoints that are no links."""
        return []

    def _has_more(self) -> bool:
        """Tell whether there is something to reconcile besides links."""
        return False

    def _extend(self, vdu: Vdu, plans: Mapping[str, LinkPlan]) -> Optional[Extra]:
        """Reconcile what stands on the links, over the same connection; must not raise."""
        return None

    def _extra_state(self) -> str:
        """Return what of Juju `_extend` depends on, beyond relations of links."""
        return ""

    def _extra_absent(self) -> List[Step]:
        """Return the steps that take it off the VDU."""
        return []

    # Events

    def _on_event(self, event: EventBase) -> None:
        # Juju repeats itself. Where all that a reconcile depends on in Juju is as the last one left
        # it, the VDU need not be asked; update-status looks for drift there.
        self._reconcile_and_report(isinstance(event, (RelationEvent, ConfigChangedEvent)))

    def _reconcile_and_report(self, unless_settled: bool = False) -> None:
        try:
            self._announce_ssh_key()
            if not self.unit.is_leader():
                self.unit.status = ActiveStatus("standby, the leader manages the VDU")
                return
            charm_state = self._charm_state()
            if unless_settled and str(self._settled.fingerprint) == self._fingerprint(charm_state):
                return
            self._report(self._reconcile(charm_state))
        except NotReadyError:
            # Before the unit has entered its peer relation, as in install.
            self.unit.status = ActiveStatus("starting")
        except VpnaasError as error:
            self.unit.status = BlockedStatus(str(error))

    def _report(self, outcome: Optional[Outcome]) -> None:
        if outcome is None:
            wanted = "a link" if self.roles else "its parameters"
            missing = "ssh-hostname and ssh-username" if not self._login() else wanted
            self.unit.status = ActiveStatus("ready, waiting for OSM to set {}".format(missing))
            return
        bad, links = status.summary(outcome.links)
        parts = outcome.problems + (outcome.extra.summary(), links)
        text = ", ".join(words for words in parts if words)
        bad = bad or outcome.extra.bad or bool(outcome.problems)
        self.unit.status = BlockedStatus(text) if bad else ActiveStatus(text)

    def _on_stop(self, event: EventBase) -> None:
        """Take the links down with the last unit; a VDU that is gone already is fine."""
        if not self.unit.is_leader() or self._others_go_on() or not self._login():
            return
        steps = self._extra_absent() + monitoring.absent()
        for link in sorted(self.roles):
            steps += responder.absent(link)
            for _, technology in sorted(TABLE.items()):
                steps += technology.absent(link)
        steps += qos.absent()
        if self._is_gateway():
            steps += gateway.absent()
        # Last: nothing may leave in clear while the tunnels go.
        steps += guard.absent()
        try:
            with self._vdu() as vdu:
                vdu.execute(steps)
        except VpnaasError as error:
            logger.warning("links were not taken down: %s", error)

    def _others_go_on(self) -> bool:
        """Tell whether another unit of the application stays.

        It asks Juju itself: before ops 2.3, planned_units also counts dying units, and so always
        counts the unit that stops.
        """
        command = ["goal-state", "--format=json"]
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60)
            units = json.loads(done.stdout.decode("utf-8")).get("units") or {}
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            logger.warning("goal-state does not tell of other units: %s", error)
            return False
        return any(
            name != self.unit.name and told.get("status") != "dying" for name, told in units.items()
        )

    # The one path

    def _fingerprint(self, charm_state: CharmState) -> str:
        """Return a digest of all data in Juju that a reconcile reads or writes."""
        seen = {
            "login": str(self._login()),
            "intent": charm_state.intent.to_json(),
            "authorize": charm_state.authorize,
            "extra": self._extra_state(),
            "remotes": {
                link: [(id, sorted(bag.items())) for id, _, bag in self._databags(link)]
                for link in self.roles
            },
            # What we published is part of it: if Juju dropped it, we are not settled.
            "own": {
                link: [
                    sorted(relation.data[self.app].items())
                    for relation in self.model.relations[link]
                    if relation.units
                ]
                for link in sorted(frozenset(charm_state.intent.links) | charm_state.intent.off)
            },
        }
        return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()

    def _reconcile(self, charm_state: CharmState) -> Optional[Outcome]:
        """Bring the VDU to the wanted state; None if there is nothing to reconcile yet."""
        if not self._login() or (charm_state.intent.empty and not self._has_more()):
            return None
        started = time.monotonic()
        with self._vdu() as vdu:
            plan = self._plan(charm_state, vdu)
            results = None
            if plan.steps:
                results = vdu.execute(plan.steps).check()
            plans = conclude(plan, results)
            extra = self._extend(vdu, plans)
            logger.info(
                "reconciled in %d round trips and %.2f s: %s",
                vdu.round_trips,
                time.monotonic() - started,
                ", ".join(id for _, id in changes(plan.steps)) or "no difference",
            )
        self._publish(charm_state, plans)
        off = charm_state.intent.off
        outcome = Outcome(plans, plan.now, tuple(self.roles), extra, off, plan.problems)
        calm = all(link.state not in (status.BLOCKED, status.DOWN) for link in outcome.links)
        calm = calm and outcome.extra.calm and not outcome.problems
        self._settled.fingerprint = self._fingerprint(charm_state) if calm else ""
        return outcome

    def _plan(self, charm_state: CharmState, vdu: Vdu) -> Plan:
        results = vdu.execute(observe_steps(charm_state))
        self._pin(vdu)
        require_tools(charm_state, results)
        results.check()
        prepare = prepare_steps(charm_state, results)
        prepared = vdu.execute(prepare).check() if prepare else None
        return make_plan(charm_state, results, prepared)

    def _charm_state(
        self,
        intent: Optional[Intent] = None,
        rotate: FrozenSet[str] = frozenset(),
        force: bool = False,
        restart: FrozenSet[str] = frozenset(),
        certificates: Optional[Mapping[str, Tuple[Certificate, Certificate]]] = None,
    ) -> CharmState:
        login = self._login()
        management = None
        if login:
            try:
                management = fields.address("ssh-hostname", login.host)
            except InputError:
                pass  # A host name is fine to log in to; it just is no address of ours.
        intent = intent if intent is not None else self._intent()
        kept = {link: params for link, params in intent.links.items() if link in self.roles}
        return CharmState(
            intent=attr.evolve(intent, links=kept, off=intent.off & frozenset(self.roles)),
            roles=self.roles,
            remotes={
                link: tuple(Remote.read(*related) for related in self._databags(link))
                for link in self.roles
            },
            management=management,
            user=login.user if login else "",
            rotate=rotate,
            force=force,
            restart=restart,
            certificates=certificates or {},
            authorize=self._other_ssh_keys(),
            gateway=intent.gateway if self._is_gateway() else None,
            monitoring=effective(intent.monitoring, self._is_gateway()),
        )

    def _is_gateway(self) -> bool:
        """Tell whether charm.yaml says `gateway: true`, which brings the action."""
        return "configure-gateway" in self.meta.actions

    def _databags(self, link: str) -> List[Tuple[int, str, Mapping[str, str]]]:
        """Return relation id, name and databag of each related application, by id."""
        found = []
        for relation in self.model.relations[link]:
            # In departed and broken hooks the units that left are not listed any more.
            if relation.app is not None and any(u.app is relation.app for u in relation.units):
                bag = dict(relation.data[relation.app])
                found.append((relation.id, relation.app.name, bag))
        return sorted(found, key=lambda item: item[0])

    def _publish(self, charm_state: CharmState, plans: Mapping[str, LinkPlan]) -> None:
        for link in sorted(charm_state.intent.off):
            for relation in self.model.relations[link]:
                self._tell(relation, declined())
        for link, plan in plans.items():
            for relation in self.model.relations[link]:
                offer = plan.offers.get(relation.id)
                if offer is not None:
                    self._tell(relation, encode(offer))

    def _tell(self, relation: Relation, told: Mapping[str, str]) -> None:
        bag = relation.data[self.app]
        for key, value in told.items():
            if bag.get(key, "") != value:
                bag[key] = value

    # What persists

    def _peers(self) -> Optional[Relation]:
        return self.model.get_relation(PEER_RELATION)

    def _stored(self, key: str) -> str:
        relation = self._peers()
        try:
            if relation is not None:
                return str(relation.data[self.app].get(key, ""))
        except ModelError:
            pass
        # Nothing must pass for an empty intent that only cannot be read.
        raise NotReadyError("the peer relation cannot be read yet; try again")

    def _store(self, key: str, value: str) -> None:
        relation = self._peers()
        if relation is None:
            raise NotReadyError("the peer relation does not exist yet; try again")
        if relation.data[self.app].get(key, "") != value:
            relation.data[self.app][key] = value

    def _intent(self) -> Intent:
        return Intent.from_json(self._stored(INTENT_KEY))

    # SSH

    def _key_file(self) -> str:
        name = self.unit.name.replace("/", "-")
        return os.path.join(str(self.charm_dir), ".osm-vpnaas", name, "id_ed25519")

    def _login(self) -> Optional[Login]:
        host = address_of(str(self.config.get("ssh-hostname") or ""))
        user = str(self.config.get("ssh-username") or "").strip()
        if not host or not user:
            return None
        return Login(host, user, str(self.config.get("ssh-password") or ""), self._key_file())

    def _vdu(self) -> Vdu:
        login = self._login()
        if login is None:
            raise UnreachableError("ssh-hostname and ssh-username are not set")
        option = str(self.config.get("ssh-host-key-fingerprint") or "")
        wanted = fields.host_key_fingerprint("ssh-host-key-fingerprint", option)
        pinned = ""
        if self.unit.is_leader():
            host, _, key = self._stored(HOST_KEY).partition(" ")
            pinned = key if host == login.host else ""
            if not wanted:
                wanted = self._stored(TRUST_KEY)
        recall = os.path.join(os.path.dirname(self._key_file()), "recall.json")
        return Vdu(login, HostKeyRule(pinned, wanted), recall)

    def _pin(self, vdu: Vdu) -> None:
        login = self._login()
        if login and vdu.host_key and self.unit.is_leader():
            self._store(HOST_KEY, "{} {}".format(login.host, vdu.host_key))

    def _announce_ssh_key(self) -> None:
        """Tell our other units our public key, so that the leader lets us in before we need it."""
        relation = self._peers()
        if relation is None or not relation.units:
            return
        key = ensure_key(self._key_file())
        try:
            if relation.data[self.unit].get(SSH_PUBLIC_KEY, "") != key:
                relation.data[self.unit][SSH_PUBLIC_KEY] = key
        except ModelError:
            raise NotReadyError("the peer relation cannot be written yet; try again")

    def _other_ssh_keys(self) -> Tuple[str, ...]:
        relation = self._peers()
        keys: List[str] = []
        for unit in sorted(relation.units, key=lambda u: u.name) if relation else ():
            text = relation.data[unit].get(SSH_PUBLIC_KEY, "") if relation else ""
            if text:
                keys.append(fields.ssh_public_key("proxypeer: " + unit.name, text))
        return tuple(keys)
