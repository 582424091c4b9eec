"""The data that one hook or action sees, and its changes so far.

A hook changes databags only in the context. When the hook has succeeded, all changes reach the
model together (`flush`); after a failure none does. Status and log take effect at once, as in Juju.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping

from builder.declarations import OptionValue
from lab.vca import relations
from lab.vca.charm import Charm
from lab.vca.events import Event
from lab.vca.state import (
    ActionDocument,
    HookInfo,
    ModelDocument,
    Relation,
    StatusInfo,
    Unit,
)
from lab.vca.store import Store


class ToolError(Exception):
    """An error of a hook tool, in Juju's words; exit code 1."""


class FlushError(Exception):
    """The controller refused the changes of a hook that had succeeded."""


class Settings:
    """A databag of our own, with changes not yet committed."""

    def __init__(self, data: Mapping[str, str]) -> None:
        self.data = dict(data)
        self.dirty = False

    def update(self, changes: Mapping[str, str]) -> None:
        """Apply changes; an empty value removes its key."""
        for key, value in changes.items():
            if value:
                self.data[key] = value
            else:
                self.data.pop(key, None)
        self.dirty = True


class ContextRelation:
    """A relation as the hook sees it."""

    def __init__(self, context: "HookContext", relation_id: int) -> None:
        self._context = context
        self.id = relation_id
        with context.document() as document:
            relation = document.relations[relation_id]
            self.endpoint = relation.endpoint_of(context.app_name).name
            self.remote_app = relation.other_app(context.app_name)
            self.is_peer = relation.is_peer
        self._remote: dict[str, dict[str, str]] = {}
        self.unit_settings: Settings | None = None
        self.app_settings: Settings | None = None

    @property
    def fake_id(self) -> str:
        """The id that charms use: `endpoint:number`."""
        return f"{self.endpoint}:{self.id}"

    def members(self) -> list[str]:
        """Return the remote units that have joined, as far as this unit knows."""
        context = self._context
        seen = context.unit.relations.get(self.id)
        names = set(seen.members) if seen else set()
        hook = context.hook
        if hook is not None and hook.relation_id == self.id and hook.remote_unit:
            if hook.kind == relations.DEPARTED:
                names.discard(hook.remote_unit)
            else:
                names.add(hook.remote_unit)
        return sorted(names)

    def own_unit(self) -> Settings:
        if self.unit_settings is None:
            self.unit_settings = Settings(self._relation().units[self._context.name].data)
        return self.unit_settings

    def own_app(self) -> Settings:
        """Return the databag of this unit's application, for its leader."""
        if self.app_settings is None:
            relation = self._relation()
            hook = self._context.hook
            if hook is not None and hook.kind == relations.BROKEN and hook.relation_id == self.id:
                # Seen with Juju 2.9, canonical/operator issue 793.
                raise ToolError("permission denied (unauthorized access)")
            self.app_settings = Settings(relation.apps[self._context.app_name].data)
        return self.app_settings

    def read_unit(self, name: str) -> dict[str, str]:
        """Return a unit's databag: our own with our changes, another's as committed."""
        if name == self._context.name:
            return dict(self.own_unit().data)
        if name not in self._remote:
            relation = self._relation()
            if name.rpartition("/")[0] != self.remote_app:
                raise ToolError("permission denied")
            if name not in relation.units:
                raise ToolError(
                    f'cannot read settings for unit "{name}" in relation "{relation.key}": '
                    "settings not found"
                )
            self._remote[name] = dict(relation.units[name].data)
        return dict(self._remote[name])

    def read_app(self, name: str) -> dict[str, str]:
        """Return an application's databag, if this unit may read it.

        Only the leader may read that of its own application, except in a peer relation.
        """
        own = name == self._context.app_name
        if own and self._context.is_leader():
            return dict(self.own_app().data)
        if name not in self._remote:
            relation = self._relation()
            if name not in relation.apps or (own and not self.is_peer):
                raise ToolError("permission denied")
            self._remote[name] = dict(relation.apps[name].data)
        return dict(self._remote[name])

    def _relation(self) -> Relation:
        with self._context.document() as document:
            relation = document.relations.get(self.id)
            if relation is None or self._context.name not in relation.in_scope:
                # During install the relation is listed, but its databags cannot be read
                # (canonical/operator issue 1452).
                raise ToolError("permission denied")
            return relation


class HookContext:
    """The execution context of one hook or action of one unit."""

    def __init__(
        self,
        store: Store,
        charm: Charm,
        unit: Unit,
        hook: HookInfo | None,
        action: ActionDocument | None,
        log: logging.Logger,
        publish: Callable[[Event], None],
    ) -> None:
        self._store = store
        self._publish = publish
        self._log = log
        self.name = unit.name
        self.app_name = unit.app
        self.unit = unit.model_copy(deep=True)
        """The unit at the start of the hook: its view does not change while the hook runs."""
        self.hook = hook
        self.action = action
        self.action_failed = False
        self.status_was_set = False
        self._follower = False
        with self.document() as document:
            app = document.apps[unit.app]
            self.config: dict[str, OptionValue | None] = charm.config(app.config)
            present = [
                r.id
                for r in document.relations_of(unit.app)
                if r.id in unit.relations or (r.life == "alive" and not unit.installed)
            ]
        self._relations = {number: ContextRelation(self, number) for number in present}

    @contextlib.contextmanager
    def document(self) -> Iterator[ModelDocument]:
        """Give the model document under its lock."""
        with self._store.lock:
            yield self._store.document

    # -- leadership, status, versions -------------------------------------------------------

    def is_leader(self) -> bool:
        """Whether this unit leads now; after one False it is False for the rest of the hook."""
        if not self._follower:
            with self.document() as document:
                self._follower = document.apps[self.app_name].leader != self.name
        return not self._follower

    def set_status(self, status: str, message: str) -> None:
        self.status_was_set = True
        with self._store.transaction() as document:
            unit = document.units[self.name]
            changed = (unit.workload.status, unit.workload.message) != (status, message)
            unit.workload = StatusInfo(status=status, message=message, since=time.time())
        if changed:
            self._publish(Event("status", self.app_name, self.name, status, message))

    def unit_status(self) -> StatusInfo:
        with self.document() as document:
            return document.units[self.name].workload.model_copy()

    def log(self, level: int, message: str) -> None:
        prefix = ""
        if self.hook is not None and self.hook.relation_id in self._relations:
            prefix = f"{self._relations[self.hook.relation_id].fake_id}: "
        self._log.log(
            level, "%s%s", prefix, message, extra={"source": f"unit.{self.name}.juju-log"}
        )

    # -- relations --------------------------------------------------------------------------

    def relation(self, relation_id: int) -> ContextRelation:
        try:
            return self._relations[relation_id]
        except KeyError:
            raise ToolError("relation not found") from None

    @property
    def relations(self) -> list[ContextRelation]:
        return list(self._relations.values())

    # -- actions ----------------------------------------------------------------------------

    def require_action(self) -> ActionDocument:
        if self.action is None:
            raise ToolError("not running an action")
        return self.action

    # -- the end ----------------------------------------------------------------------------

    def flush(self, document: ModelDocument) -> None:
        """Write the changes of a successful hook into the model (inside a transaction).

        Raises FlushError if the unit wrote as leader and has lost leadership. No change is kept
        then.
        """
        for relation in self._relations.values():
            stored = document.relations.get(relation.id)
            if stored is None:
                continue
            if relation.unit_settings is not None and relation.unit_settings.dirty:
                stored.units[self.name].replace(relation.unit_settings.data)
            if relation.app_settings is not None and relation.app_settings.dirty:
                if document.apps[self.app_name].leader != self.name:
                    raise FlushError(
                        f'cannot apply changes: "{self.name}" is not leader of "{self.app_name}"'
                    )
                stored.apps[self.app_name].replace(relation.app_settings.data)
