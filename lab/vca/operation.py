"""Record in the model document which hooks a unit has run, and which hook must follow.

Pure functions of the document; `resolver` reads what they record.
"""

from __future__ import annotations

import time

from lab.vca import relations
from lab.vca.resolver import (
    CONFIG_CHANGED,
    INSTALL,
    LEADER_ELECTED,
    LEADER_SETTINGS_CHANGED,
    REMOVE,
    START,
    STOP,
    UPDATE_STATUS,
    UPGRADE_CHARM,
)
from lab.vca.state import HookInfo, ModelDocument, Operation, StatusInfo, Unit


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
    return Operation(kind="run-hook", step="queued", hook=HookInfo(kind=kind))


def status_before(kind: str) -> StatusInfo | None:
    """Return the workload status Juju sets before a hook, None if Juju does not change it."""
    if kind == INSTALL:
        message = "installing charm software"
    elif kind == STOP:
        message = "cleaning up prior to charm deletion"
    else:
        return None
    return StatusInfo(status="maintenance", message=message, since=time.time())
