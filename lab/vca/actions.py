"""Actions: the model queues them, agents run them, and their records are kept."""

import time
from collections.abc import Mapping
from typing import Literal

from lab.vca.charm import Charm
from lab.vca.errors import NotFoundError
from lab.vca.state import ActionDocument, ModelDocument, Unit
from lab.vca.store import Store


def enqueue(
    store: Store,
    document: ModelDocument,
    unit: Unit,
    charm: Charm,
    name: str,
    params: Mapping[str, object],
) -> ActionDocument:
    """Queue an action for a unit (inside a transaction).

    Raises NotFoundError for an action the charm does not have and InvalidValueError for
    parameters that do not match its schema.
    """
    declared = charm.actions.get(name)
    if declared is None:
        raise NotFoundError(f'action "{name}" not defined on unit "{unit.name}"')
    action = ActionDocument(
        id=str(document.next_action),
        unit=unit.name,
        name=name,
        params=declared.complete(params),
    )
    document.next_action += 1
    store.save_action(action)
    unit.pending_actions.append(action.id)
    return action


def finish(
    store: Store, action: ActionDocument, status: Literal["completed", "failed"], message: str
) -> None:
    """Record the end of an action."""
    action.status, action.message, action.completed = status, message, time.time()
    store.save_action(action)


def fail_unfinished(store: Store, unit: str) -> None:
    """Record that the actions of a removed unit have failed, except those that have ended."""
    for action in (store.load_action(action_id) for action_id in store.action_ids()):
        if action.unit == unit and action.completed is None:
            finish(store, action, "failed", "the unit was removed")
