"""Actions by declaration: `@action("NAME")` ties an action to the method that does its work."""

import functools
import json
from typing import Any, Callable, Dict, Mapping, Optional

from ops.charm import ActionEvent, CharmBase

from vpnaas.base.errors import VpnaasError

OUTPUT_LIMIT = 60000
"""Characters of `output`; OSM keeps results in a MongoDB document of at most 16 MiB per NS."""

Params = Mapping[str, Any]
Work = Callable[[Any, Params], Mapping[str, Any]]
Handler = Callable[[Any, ActionEvent], None]


def action(
    name: str,
    leader: bool = True,
    plain: bool = False,
    failed: Optional[Mapping[str, str]] = None,
) -> Callable[[Work], Handler]:
    """Declare a method of a charm as the handler of an action.

    The method takes the parameters and returns the answer. The answer becomes the JSON in `output`.
    A VpnaasError fails the action. Its sentence goes into `output` too, because OSM shows nothing
    else of a failed action.

    Args:
        name: Name of the action, as in actions.yaml.
        leader: Whether only the leader may run it.
        plain: Whether the method returns the results themselves, by key.
        failed: Results that a failed action has in addition to `output`.
    """

    def declare(work: Work) -> Handler:
        @functools.wraps(work)
        def handle(charm: Any, event: ActionEvent) -> None:
            try:
                if leader and not charm.unit.is_leader():
                    raise VpnaasError(
                        "this unit is not the leader; run the action on the application"
                    )
                answer = work(charm, event.params)
            except VpnaasError as error:
                event.set_results(dict(failed or {}, output=str(error)))
                event.fail(str(error))
                return
            results = answer if plain else {"output": _json(answer)}
            event.set_results({key: _short(value) for key, value in results.items()})

        handle.__dict__["action"] = name
        return handle

    return declare


def declared(charm: type) -> Dict[str, Handler]:
    """Return the handlers that a class of charms declares, by action; a subclass's own counts."""
    return {
        str(value.action): value
        for owner in reversed(charm.__mro__)
        for value in vars(owner).values()
        if hasattr(value, "action")
    }


def observe(charm: CharmBase) -> None:
    """Have a charm handle the actions it declares, as far as its actions.yaml has them."""
    for name, handler in declared(type(charm)).items():
        if name in charm.meta.actions:
            event = getattr(charm.on, name.replace("-", "_") + "_action")
            charm.framework.observe(event, getattr(charm, handler.__name__))


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _short(value: Any) -> str:
    text = str(value)
    if len(text) <= OUTPUT_LIMIT:
        return text
    return text[:OUTPUT_LIMIT] + "... ({} characters cut)".format(len(text) - OUTPUT_LIMIT)
