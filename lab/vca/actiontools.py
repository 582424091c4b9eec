"""Hook tools of actions: parameters, results and failure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lab.vca.context import HookContext
from lab.vca.toolcall import OUTPUT, Answer, Arguments, Request, Tool, UsageError, show

RESERVED_RESULTS = frozenset({"stdout", "stdout-encoding", "stderr", "stderr-encoding"})
_RESULT_KEY = re.compile(r"^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$")


def _action_get(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, OUTPUT)
    operands = arguments.take(1)
    value: object = context.require_action().params
    for key in operands[0].split(".") if operands else []:
        value = value.get(key) if isinstance(value, Mapping) else None
    return show(request, arguments, value)


def _action_set(context: HookContext, request: Request) -> Answer:
    pairs: list[tuple[list[str], str]] = []
    for word in Arguments(request.arguments).operands:
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f'argument "{word}" must be of the form key...=value')
        keys = name.split(".")
        for key in keys:
            if not _RESULT_KEY.match(key):
                raise UsageError(
                    f'key "{key}" must start and end with lowercase alphanumeric, and contain '
                    "only lowercase alphanumeric, hyphens and periods"
                )
            if key in RESERVED_RESULTS:
                raise UsageError(f'cannot set reserved action key "{key}"')
        pairs.append((keys, value))
    results = context.require_action().results
    for keys, value in pairs:
        place: dict[str, object] = results
        for key in keys[:-1]:
            inner = place.get(key)
            if not isinstance(inner, dict):
                inner = place[key] = {}
            place = inner
        place[keys[-1]] = value
    return Answer()


def _action_fail(context: HookContext, request: Request) -> Answer:
    operands = Arguments(request.arguments).take(1)
    action = context.require_action()
    action.message = (
        operands[0] if operands else "action failed without reason given, check action for errors"
    )
    context.action_failed = True
    return Answer()


TOOLS: Mapping[str, Tool] = {
    "action-fail": _action_fail,
    "action-get": _action_get,
    "action-set": _action_set,
}
