"""Actions by declaration: `@action("NAME")` ties an action to the method that does its work."""

import json
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Mapping, Optional, Tuple

import attr

from vpnaas.base.errors import VpnaasError

if TYPE_CHECKING:
    from vpnaas.charm import Charm

OUTPUT_LIMIT = 60000
"""Characters of `output`; OSM keeps results in a MongoDB document of at most 16 MiB per NS."""

Params = Mapping[str, Any]
Work = Callable[[Any, Params], Mapping[str, Any]]


@attr.frozen
class Declared:
    """An action that a group declares."""

    name: str  # As in actions.yaml.
    method: str  # Name of the method that does the work.
    leader: bool  # Whether only the leader may run it.
    plain: bool  # Whether the method returns the results themselves, by key.
    failed: Mapping[str, str]  # Results that a failed action has in addition to `output`.


@attr.frozen
class Answer:
    """Results of an action, and a sentence if it failed."""

    results: Dict[str, Any]
    failed: str = ""


def action(
    name: str,
    leader: bool = True,
    plain: bool = False,
    failed: Optional[Mapping[str, str]] = None,
) -> Callable[[Work], Work]:
    """Declare a method of a group as the one that does the work of an action.

    The method takes the parameters and returns the answer. The answer becomes the JSON in `output`.
    See `Declared` for the arguments.
    """

    def declare(work: Work) -> Work:
        work.__dict__["action"] = Declared(name, work.__name__, leader, plain, failed or {})
        return work

    return declare


class Actions:
    """A group of actions, which stands beside the feature that it serves."""

    def __init__(self, charm: "Charm") -> None:
        self.charm = charm


def declared(groups: Iterable[type]) -> Dict[str, Tuple[type, Declared]]:
    """Return the actions that groups declare, by name, each with its group."""
    return {
        work.action.name: (group, work.action)
        for group in groups
        for work in vars(group).values()
        if hasattr(work, "action")
    }


def run(charm: "Charm", name: str, params: Params) -> Answer:
    """Run an action of a charm.

    A VpnaasError fails the action. Its sentence goes into `output` too, because OSM shows nothing
    else of a failed action. What the charm could not write after it had changed the VDU is a
    remark.
    """
    group, declaration = declared(charm.kind.groups)[name]
    try:
        if declaration.leader and not charm.environment.is_leader():
            raise VpnaasError("this unit is not the leader; run the action on the application")
        answer = getattr(group(charm), declaration.method)(params)
    except VpnaasError as error:
        return Answer(dict(declaration.failed, output=str(error)), str(error))
    if not declaration.plain:
        remark = {"remark": charm.unit.unwritten} if charm.unit.unwritten else {}
        answer = {"output": _json(dict(answer, **remark))}
    results = answer
    return Answer({key: _short(value) for key, value in results.items()})


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _short(value: Any) -> str:
    text = str(value)
    if len(text) <= OUTPUT_LIMIT:
        return text
    return text[:OUTPUT_LIMIT] + "... ({} characters cut)".format(len(text) - OUTPUT_LIMIT)
