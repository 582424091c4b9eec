"""Actions by declaration: `@action("NAME")` ties an action to the method that does its work."""

import json
from typing import Any, Callable, Dict, Mapping, Optional

import attr

from vpnaas.base.errors import VpnaasError

OUTPUT_LIMIT = 60000
"""Characters of `output`; OSM keeps results in a MongoDB document of at most 16 MiB per NS."""

Params = Mapping[str, Any]
Work = Callable[[Any, Params], Mapping[str, Any]]


@attr.frozen
class Declared:
    """An action that a class of charms declares."""

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
    """Declare a method of a charm as the one that does the work of an action.

    The method takes the parameters and returns the answer. The answer becomes the JSON in `output`.
    See `Declared` for the arguments.
    """

    def declare(work: Work) -> Work:
        work.__dict__["action"] = Declared(name, work.__name__, leader, plain, failed or {})
        return work

    return declare


def declared(charm: type) -> Dict[str, Declared]:
    """Return the actions that a class of charms declares, by name; subclasses override."""
    return {
        value.action.name: value.action
        for owner in reversed(charm.__mro__)
        for value in vars(owner).values()
        if hasattr(value, "action")
    }


def run(charm: Any, name: str, params: Params) -> Answer:
    """Run an action that the class of a charm declares.

    A VpnaasError fails the action. Its sentence goes into `output` too, because OSM shows nothing
    else of a failed action. What the charm could not write after it had changed the VDU is a
    remark.
    """
    declaration = declared(type(charm))[name]
    try:
        if declaration.leader and not charm.environment.is_leader():
            raise VpnaasError("this unit is not the leader; run the action on the application")
        answer = getattr(charm, declaration.method)(params)
    except VpnaasError as error:
        return Answer(dict(declaration.failed, output=str(error)), str(error))
    if not declaration.plain:
        remark = {"remark": charm.unwritten} if charm.unwritten else {}
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
