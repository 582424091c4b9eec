"""The next step of a unit's agent, and the record of its hooks: pure functions of the document.

The order of the checks is that of Juju 2.9's uniter (worker/uniter/resolver.go and the
resolvers it calls), for a machine model without storage, subordinates or series upgrades.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from builder.declarations import OptionValue
from lab.errors import NotFoundError, VcaError
from lab.vca import relations
from lab.vca.state import HookInfo, ModelDocument, Operation, Unit

INSTALL = "install"
START = "start"
STOP = "stop"
REMOVE = "remove"
CONFIG_CHANGED = "config-changed"
UPGRADE_CHARM = "upgrade-charm"
UPDATE_STATUS = "update-status"
LEADER_ELECTED = "leader-elected"
LEADER_SETTINGS_CHANGED = "leader-settings-changed"
STATUS_BEFORE = {
    INSTALL: "installing charm software",
    STOP: "cleaning up prior to charm deletion",
}
"""Messages of the status `maintenance` that Juju sets before hooks."""

StepKind = Literal[
    "unpack",  # the first charm revision
    "upgrade",  # another charm revision, then upgrade-charm
    "enter-scope",
    "resign",
    "hook",
    "action",
    "fail-action",  # interrupted by a crash; Juju never repeats an action
    "die",
]


@dataclass(frozen=True)
class Step:
    """One step of a unit's agent."""

    kind: StepKind
    hook: HookInfo | None = None
    relation_id: int | None = None
    action_id: str = ""

    def __str__(self) -> str:
        if self.hook is not None:
            return f"{self.hook.kind} hook"
        return f"action {self.action_id}" if self.action_id else self.kind


def config_hash(config: Mapping[str, OptionValue | None]) -> str:
    """Return a digest of the effective options; an equal digest means no config-changed."""
    text = json.dumps(config, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class UnpackedCharm:
    """Data of the charm revision in a unit's charm folder, for the unit's next step."""

    config_digest: str  # Of the options it sees now.
    endpoints: frozenset[str]


def next_step(document: ModelDocument, unit: Unit, charm: UnpackedCharm) -> Step | None:
    """Return what `unit` has to do now, or None if it is idle or waits in error.

    A failed hook is no step: the agent's retry timer decides when it is run again.
    """
    operation = unit.operation
    if unit.running_action:
        return Step("fail-action", action_id=unit.running_action)
    if operation.kind == "upgrade":
        return Step("upgrade")
    if unit.charm_revision is None:
        return Step("die") if unit.life == "dying" else Step("unpack")
    idle = operation.kind == "continue"
    if idle and unit.installed and unit.life == "alive":
        step = _created(document, unit, charm) or _leadership(document, unit)
        if step is not None:
            return step
    if unit.leader and (unit.life == "dying" or document.apps[unit.app].leader != unit.name):
        return Step("resign")
    if unit.pending_actions and unit.installed and (idle or operation.failed):
        return Step("action", action_id=unit.pending_actions[0])
    if not idle:
        return None if operation.failed else Step("hook", hook=operation.hook)
    return _idle_step(document, unit, charm)


def _hook(kind: str, **more: Any) -> Step:
    return Step("hook", hook=HookInfo(kind=kind, **more))


def _created(document: ModelDocument, unit: Unit, charm: UnpackedCharm) -> Step | None:
    known = [
        r
        for r in document.relations_of(unit.app)
        # A peer relation that is new in a revision waits until the unit has that revision.
        if r.life == "alive" and r.endpoint_of(unit.app).name in charm.endpoints
    ]
    for relation in known:
        if relation.id not in unit.relations:
            return Step("enter-scope", relation_id=relation.id)
    for relation in known:
        if not unit.relations[relation.id].created:
            other = relation.other_app(unit.app)
            return _hook(relations.CREATED, relation_id=relation.id, remote_app=other)
    return None


def _leadership(document: ModelDocument, unit: Unit) -> Step | None:
    app = document.apps[unit.app]
    if not unit.leader and app.leader == unit.name:
        return _hook(LEADER_ELECTED)
    if app.leader != unit.name and not unit.leader_settings_seen:
        return _hook(LEADER_SETTINGS_CHANGED)
    return None


def _idle_step(document: ModelDocument, unit: Unit, charm: UnpackedCharm) -> Step | None:
    if unit.life == "dying":
        # All relations are broken before the unit stops.
        info = relations.next_hook(document, unit)
        if info is not None:
            return Step("hook", hook=info)
        if unit.started and not unit.stopped:
            return _hook(STOP)
        if unit.installed and not unit.removed:
            return _hook(REMOVE)
        return Step("die")
    if not unit.installed:
        return _hook(INSTALL)
    if unit.charm_revision != document.apps[unit.app].charm_revision:
        return Step("upgrade")
    if unit.config_seen != charm.config_digest:
        return _hook(CONFIG_CHANGED)
    info = relations.next_hook(document, unit)
    if info is not None:
        return Step("hook", hook=info)
    if unit.update_status_seen != document.update_status_version:
        return _hook(UPDATE_STATUS, change_version=document.update_status_version)
    return None


def record_done(document: ModelDocument, unit: Unit, info: HookInfo, config_digest: str) -> None:
    """Record that a hook has run or was skipped, and queue the hook that must follow.

    `config_digest` is that of the options the hook saw.
    """
    unit.operation = Operation()
    kind = info.kind
    if kind == INSTALL:
        unit.installed = True
    elif kind == CONFIG_CHANGED:
        unit.config_seen = config_digest
        if not unit.started:
            unit.operation = queued(START)
    elif kind == START:
        unit.started = True
    elif kind == UPGRADE_CHARM:
        unit.operation = queued(CONFIG_CHANGED)
    elif kind == STOP:
        unit.stopped = True
    elif kind == REMOVE:
        unit.removed = True
    elif kind == LEADER_ELECTED:
        unit.leader = unit.leader_settings_seen = True
    elif kind == LEADER_SETTINGS_CHANGED:
        unit.leader_settings_seen = True
    elif kind == UPDATE_STATUS:
        unit.update_status_seen = info.change_version
    else:
        relations.record(document, unit, info)


def queued(kind: str) -> Operation:
    """Return the state of a unit whose next step is a hook."""
    return Operation(kind="run-hook", hook=HookInfo(kind=kind))


def hook_name(document: ModelDocument, app: str, info: HookInfo) -> str:
    """Return the name of a hook's file, such as `db-relation-changed`."""
    if info.relation_id is None:
        return info.kind
    return f"{document.relations[info.relation_id].endpoint_of(app).name}-{info.kind}"


def replay(document: ModelDocument, unit: Unit, name: str = "") -> str:
    """Queue a hook as it last ran; without a name the failed hook, else the last one.

    Returns its name. A hook without a record is refused, and one that cannot come again now.
    """
    pending = unit.operation.hook
    if pending is not None:
        first = hook_name(document, unit.app, pending)
        if name not in ("", first):
            raise VcaError(f'unit "{unit.name}" has to run {first} first')
        return first
    name = name or next(reversed(unit.hooks), "")
    info = unit.hooks.get(name)
    if info is None:
        known = ", ".join(sorted(unit.hooks)) or "one that runs from now on"
        hook = f'hook "{name}"' if name else "hook"
        raise NotFoundError(f'no {hook} of unit "{unit.name}" is recorded; allowed: {known}')
    if unit.life != "alive" or info.relation_id not in {None, *unit.relations}:
        raise VcaError(f'hook "{name}" of unit "{unit.name}" is about something removed')
    unit.operation = Operation(kind="run-hook", hook=info)
    return name
