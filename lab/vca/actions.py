"""Actions: the model queues them, agents run them, and their records are kept."""

import time
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from lab.vca.charm import Charm
from lab.vca.errors import NotFoundError
from lab.vca.state import ActionDocument, ModelDocument, Unit
from lab.vca.store import Store


class ActionResult(BaseModel):
    """Result of an action.

    `results` contains only the values that the charm set with action-set. `message` is the text of
    action-fail, or the reason of a failure outside the charm. The output of the process is
    separate.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    id: str
    unit: str
    name: str
    status: Literal["completed", "failed"]
    results: dict[str, Any]
    message: str
    stdout: str
    stderr: str
    return_code: int | None
    seconds: float


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
        enqueued=time.time(),
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


def unfinished(store: Store, unit: str) -> list[ActionDocument]:
    """Return the actions of a unit that have not ended."""
    stored = (store.load_action(action_id) for action_id in store.action_ids())
    return [action for action in stored if action.unit == unit and action.completed is None]


def result_of(action: ActionDocument) -> ActionResult | None:
    """Return the result of an action that has ended, else None."""
    if action.completed is None or action.status not in ("completed", "failed"):
        return None
    return ActionResult(
        id=action.id,
        unit=action.unit,
        name=action.name,
        status="completed" if action.status == "completed" else "failed",
        results=dict(action.results),
        message=action.message,
        stdout=action.stdout,
        stderr=action.stderr,
        return_code=action.return_code,
        seconds=action.completed - (action.started or action.completed),
    )
