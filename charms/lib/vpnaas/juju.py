"""Runs a charm's code as a Juju unit, with ops. Every event leads to one reconcile.

OSM waits an hour for a unit that is neither active nor blocked, so no other status is set.
"""

import json
import logging
import os
import re
import sqlite3
import subprocess
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Mapping, Optional, Type

from ops.charm import ActionEvent, CharmBase, ConfigChangedEvent, RelationEvent
from ops.framework import EventBase, StoredState
from ops.main import main
from ops.model import ActiveStatus, BlockedStatus, ModelError, Relation

from vpnaas import actions
from vpnaas.base.errors import NotReadyError, StorageError
from vpnaas.base.links import PROVIDER, REQUIRER
from vpnaas.charm import Charm, Kind
from vpnaas.environment import Environment, Related

logger = logging.getLogger(__name__)

PEER_RELATION = "proxypeer"
SSH_PUBLIC_KEY = "ssh-public-key"
SENTENCE = 4000
"""Most bytes of a status, and of the reason of a failed action."""
RESULT = 100000
"""Most bytes of a result; Linux starts no program with an argument of 128 KiB."""
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def passable(text: str, most: int = SENTENCE) -> str:
    """Return a text, part of which a VDU may have chosen, as an argument for a tool of Juju.

    U+FFFD replaces control characters and lone surrogates; a text of more than `most` bytes is cut.
    """
    # Surrogates in the pattern would take a thirtieth of the time of a hook.
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    data = _CONTROL.sub("\ufffd", whole).encode("utf-8")
    if len(data) <= most:
        return data.decode("utf-8")
    return data[:most].decode("utf-8", "ignore") + "... (cut)"


def log_record(*args: Any, **options: Any) -> logging.LogRecord:
    """Return a log record whose text a tool of Juju takes."""
    record = logging.LogRecord(*args, **options)
    record.msg, record.args = passable(record.getMessage(), RESULT), ()
    return record


@contextmanager
def _of_the_leader() -> Iterator[None]:
    """Raise NotReadyError where Juju refuses what only the leader may read or write."""
    try:
        yield
    except ModelError as error:
        what = "Juju refuses data of the application, perhaps this unit no longer leads; try again"
        raise NotReadyError("{} ({})".format(what, error))


def _version(folder: str) -> str:
    """Return the version of the charm in a folder, "" if it has no such file."""
    try:
        with open(os.path.join(folder, "version"), encoding="utf-8") as stream:
            return stream.read().strip()
    except OSError:
        return ""


class JujuEnvironment(Environment):
    """A Juju unit: application databags, and a peer relation for stored data."""

    def __init__(self, charm: "JujuCharm") -> None:
        self._charm = charm
        self._unit = charm.unit
        self.folder = os.path.join(
            str(charm.charm_dir), ".osm-vpnaas", charm.unit.name.replace("/", "-")
        )
        self.actions = frozenset(charm.meta.actions)
        self.version = _version(str(charm.charm_dir))
        self._written: Dict[int, Dict[str, str]] = {}

    def endpoints(self, interface: str) -> Dict[str, str]:
        meta = self._charm.meta
        return {
            name: role
            for role, endpoints in ((PROVIDER, meta.provides), (REQUIRER, meta.requires))
            for name, endpoint in endpoints.items()
            if endpoint.interface_name == interface
        }

    def option(self, name: str) -> str:
        return str(self._charm.config.get(name) or "")

    def is_leader(self) -> bool:
        return bool(self._unit.is_leader())

    def set_status(self, blocked: bool, text: str) -> None:
        shown = passable(text)
        try:
            self._unit.status = BlockedStatus(shown) if blocked else ActiveStatus(shown)
        except ModelError as error:
            said = error.args[0]
            said = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
            what = "Juju does not take the status of the unit: {}"
            raise StorageError(what.format(passable(said.strip())))

    def related(self, endpoint: str) -> List[Related]:
        # Juju does not list departing units.
        found: List[Related] = [
            (relation.id, relation.app.name, dict(relation.data[relation.app]))
            for relation in self._charm.model.relations[endpoint]
            if relation.app is not None and any(u.app is relation.app for u in relation.units)
        ]
        return sorted(found, key=lambda item: item[0])

    def published(self, endpoint: str) -> List[Mapping[str, str]]:
        relations = self._charm.model.relations[endpoint]
        return [self._own(relation) for relation in relations if relation.units]

    def relation_ids(self, endpoint: str) -> List[int]:
        return [relation.id for relation in self._charm.model.relations[endpoint]]

    def tell(self, endpoint: str, relation_id: int, values: Mapping[str, str]) -> None:
        for relation in self._charm.model.relations[endpoint]:
            if relation.id != relation_id:
                continue
            own = self._own(relation)
            changed = {key: value for key, value in values.items() if own.get(key, "") != value}
            if changed:
                with _of_the_leader():
                    self._write(relation, changed)

    def _own(self, relation: Relation) -> Dict[str, str]:
        with _of_the_leader():
            own = dict(relation.data[self._charm.app])
        own.update(self._written.get(relation.id, {}))
        return {key: value for key, value in own.items() if value}

    def _write(self, relation: Relation, values: Mapping[str, str]) -> None:
        """Write several keys of an application's databag; Juju removes those with no value."""
        bag = relation.data[self._charm.app]
        if "update" in vars(type(bag)):
            bag.update(values)
            return
        # ops 1.5 starts one relation-set process per key. Here one process writes all keys.
        # ops does not see these values, so `_written` has them.
        words = ("relation-set", "-r", str(relation.id), "--app", "--file", "-")
        done = subprocess.run(
            words,
            input=json.dumps(values).encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=60,
        )
        if done.returncode:
            raise ModelError(done.stderr.decode("utf-8", "replace").strip())
        self._written.setdefault(relation.id, {}).update(values)

    def _peers(self) -> Optional[Relation]:
        return self._charm.model.get_relation(PEER_RELATION)

    def has_store(self) -> bool:
        return self._peers() is not None

    def stored(self, key: str) -> str:
        relation = self._peers()
        try:
            if relation is not None:
                return str(relation.data[self._charm.app].get(key, ""))
        except ModelError:
            pass
        raise NotReadyError("the peer relation cannot be read yet; try again")

    def store(self, key: str, value: str) -> None:
        relation = self._peers()
        if relation is None:
            raise NotReadyError("the peer relation does not exist yet; try again")
        with _of_the_leader():
            if relation.data[self._charm.app].get(key, "") != value:
                relation.data[self._charm.app][key] = value

    def settled(self) -> str:
        return str(self._charm.settled.fingerprint)

    def settle(self, digest: str) -> None:
        self._charm.settled.fingerprint = digest

    def unit_keys(self) -> Dict[str, str]:
        relation = self._peers()
        units = sorted(relation.units, key=lambda u: u.name) if relation else []
        try:
            return {
                u.name: str(relation.data[u].get(SSH_PUBLIC_KEY, "")) for u in units if relation
            }
        except ModelError:
            raise NotReadyError("the peer relation cannot be read yet; try again")

    def announce(self, key: str) -> None:
        relation = self._peers()
        try:
            if relation and relation.data[self._unit].get(SSH_PUBLIC_KEY, "") != key:
                relation.data[self._unit][SSH_PUBLIC_KEY] = key
        except ModelError:
            raise NotReadyError("the peer relation cannot be written yet; try again")

    def others_go_on(self) -> bool:
        # Ask Juju itself: before ops 2.3, planned_units also counts dying units, and so always
        # counts the unit that stops.
        command = ["goal-state", "--format=json"]
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60)
            units = json.loads(done.stdout.decode("utf-8")).get("units") or {}
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            logger.warning("goal-state does not tell about other units: %s", error)
            return False
        return any(
            name != self._unit.name and status.get("status") != "dying"
            for name, status in units.items()
        )


class JujuCharm(CharmBase):
    """Hands Juju's events and actions to the code of a charm."""

    kind: Kind
    settled = StoredState()  # type: ignore[no-untyped-call]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.settled.set_default(fingerprint="")
        self.code = Charm(self.kind, JujuEnvironment(self))
        events = [
            self.on.install,
            self.on.start,
            self.on.config_changed,
            self.on.leader_elected,
            self.on.leader_settings_changed,
            self.on.upgrade_charm,
            self.on.update_status,
        ]
        for endpoint in (PEER_RELATION, *sorted(self.code.roles), *self.code.addition.relations):
            relation = self.on[endpoint]
            events += [
                relation.relation_created,
                relation.relation_joined,
                relation.relation_changed,
                relation.relation_departed,
                relation.relation_broken,
            ]
        for event in events:
            self.framework.observe(event, self.handle_event)
        self.framework.observe(self.on.stop, self.handle_stop)
        for name in actions.declared(self.kind.groups):
            if name in self.meta.actions:
                event = getattr(self.on, name.replace("-", "_") + "_action")
                self.framework.observe(event, self.handle_action)

    def handle_event(self, event: EventBase) -> None:
        # Juju repeats events. If the data in Juju is as the last reconcile left it, do not contact
        # the VDU. The event update-status looks for drift there.
        repeats = isinstance(event, (RelationEvent, ConfigChangedEvent))
        self.code.reconcile_and_report(unless_settled=repeats)

    def handle_stop(self, event: EventBase) -> None:
        self.code.stop()

    def handle_action(self, event: ActionEvent) -> None:
        name = event.handle.kind[: -len("_action")].replace("_", "-")
        answer = actions.run(self.code, name, event.params)
        results = answer.results.items()
        event.set_results({key: passable(str(value), RESULT) for key, value in results})
        if answer.failed:
            event.fail(passable(answer.failed))


def charm_of(kind: Kind) -> Type[JujuCharm]:
    # ops stores data under the name of the class: as NrUeCharm that of the kind nr-ue.
    words = [word.capitalize() for word in kind.name.split("-")]
    return type("".join(words) + "Charm", (JujuCharm,), {"kind": kind})


def run(kind: Kind) -> None:
    """Handle the event for which Juju started this process."""
    # Each log record starts a juju-log process, and Juju logs each event itself.
    logging.disable(logging.DEBUG)
    logging.setLogRecordFactory(log_record)
    try:
        main(charm_of(kind))
    except sqlite3.OperationalError as error:
        # The disk is full. Juju repeats a hook; an action has given its results.
        if not os.environ.get("JUJU_ACTION_NAME"):
            raise
        logger.warning("the state of this unit is not stored: %s", error)
