"""The hook tools, run in the controller on behalf of the client process.

Names, options, outputs and refusals are those of Juju 2.9 (worker/uniter/runner/jujuc). Tools
2.9 does not have (secret-*, payload-*, k8s-*) are absent, as they are on the PATH of a 2.9 unit.
"""

import logging
import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from lab.vca.context import ContextRelation, HookContext, ToolError
from lab.vca.state import Unit
from lab.vca.toolcall import (
    OUTPUT,
    Answer,
    Call,
    Request,
    UsageError,
    key_values,
    refusal,
    yaml_map,
)
from lab.vca.unitlog import level_of

RELATION = {"-r": "relation", "--relation": "relation"}
APP = {"--app": "app"}
OF_UNIT = {"--application": "application"}
"""Switch of the status tools. ops sets it to false; no charm here sets an application's status."""
WORKLOAD_STATUSES = ("maintenance", "blocked", "waiting", "active")
RESERVED_RESULTS = frozenset({"stdout", "stdout-encoding", "stderr", "stderr-encoding"})
_RESULT_KEY = re.compile(r"^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$")

TOOLS: dict[str, Callable[[HookContext, Request], Answer]] = {}
Function = Callable[[HookContext, Call], Answer]


def tool(
    name: str,
    values: Mapping[str, str],
    switches: Mapping[str, str] | None = None,
    operands: int | None = None,
) -> Callable[[Function], Function]:
    """Make a hook tool of a function.

    `values` and `switches` map spellings of options with and without a value to their keys; the
    tool takes at most `operands` operands.
    """

    def register(function: Function) -> Function:
        def run(context: HookContext, request: Request) -> Answer:
            call = Call(request, values, switches or {})
            if operands is not None and len(call.operands) > operands:
                shown = " ".join(f'"{word}"' for word in call.operands[operands:])
                raise UsageError(f"unrecognized args: [{shown}]")
            return function(context, call)

        TOOLS[name] = run
        return function

    return register


def run_tool(context: HookContext, request: Request) -> Answer:
    """Run one hook tool.

    Raises NeedStdinError if the client must send its standard input.
    """
    if request.tool not in TOOLS:
        return refusal(f"bad request: unknown command: {request.tool}")
    if not os.path.isabs(request.directory):
        return refusal("bad request: Dir is not absolute")
    if "--help" in request.arguments:
        return Answer(stdout=f"Usage: {request.tool} [options]\n")
    try:
        return TOOLS[request.tool](context, request)
    except UsageError as error:
        return refusal(error, 2)
    except ToolError as error:
        return refusal(error)


# -- options, leadership, status and log ----------------------------------------------------


@tool("config-get", OUTPUT, {"-a": "all", "--all": "all"}, operands=1)
def _config_get(context: HookContext, call: Call) -> Answer:
    config = context.config
    if call.operands:
        name = call.operands[0]
        if call.on("all"):
            raise UsageError(f'cannot use argument --all together with key "{name}"')
        return call.show(config.get(name))
    if not call.on("all"):
        config = {name: value for name, value in config.items() if value is not None}
    return call.show(config)


def _check_unit(call: Call) -> None:
    if call.on("application"):
        raise ToolError("the lab has no status of an application, only of its units")


@tool("status-set", {}, OF_UNIT, operands=2)
def _status_set(context: HookContext, call: Call) -> Answer:
    _check_unit(call)
    if not call.operands:
        raise UsageError("invalid args, require <status> [message]")
    status, message = (*call.operands, "")[:2]
    if status not in WORKLOAD_STATUSES:
        expected = " ".join(WORKLOAD_STATUSES)
        raise UsageError(f'invalid status "{status}", expected one of [{expected}]')
    context.set_status(status, message)
    return Answer()


@tool("status-get", OUTPUT, {"--include-data": "data", **OF_UNIT}, operands=0)
def _status_get(context: HookContext, call: Call) -> Answer:
    _check_unit(call)
    everything = call.on("data")
    info = context.unit_status()
    if not everything and (call.get("format") or "smart") == "smart":
        return call.show(info.status)
    details: dict[str, Any] = {"status": info.status}
    if everything:
        details |= {"message": info.message, "status-data": {}}
    return call.show(details)


@tool("is-leader", OUTPUT, operands=0)
def _is_leader(context: HookContext, call: Call) -> Answer:
    return call.show(context.is_leader())


@tool(
    "juju-log",
    {"-l": "level", "--log-level": "level", "--format": "format"},
    {"--debug": "debug"},
)
def _juju_log(context: HookContext, call: Call) -> Answer:
    if not call.operands:
        raise UsageError("no message specified")
    word = call.get("level") or "INFO"
    level = logging.DEBUG if call.on("debug") else level_of(word)
    if level is None:
        context.log(logging.WARNING, f'Specified log level of "{word}" is not valid')
        level = logging.INFO
    context.log(level, " ".join(call.operands))
    return Answer()


@tool("goal-state", OUTPUT, operands=0)
def _goal_state(context: HookContext, call: Call) -> Answer:
    def entry(status: str, since: float) -> dict[str, str]:
        moment = datetime.fromtimestamp(since, UTC)
        return {"status": status, "since": moment.strftime("%Y-%m-%d %H:%M:%SZ")}

    def unit(u: Unit) -> dict[str, str]:
        # Juju shows a unit that is removed as dying, whatever its workload status is.
        return entry("dying" if u.life == "dying" else u.workload.status, u.workload.since)

    with context.document() as document:
        units = {u.name: unit(u) for u in document.units_of(context.app_name)}
        ends: dict[str, dict[str, dict[str, str]]] = {}
        for relation in context.relations:
            if relation.is_peer or relation.id not in document.relations:
                continue
            end = ends.setdefault(relation.endpoint, {})
            remote = document.units_of(relation.remote_app)
            since = min((u.agent.since for u in remote), default=0.0)
            end[relation.remote_app] = entry("joined", since)
            end.update({u.name: unit(u) for u in remote})
    return call.show({"units": units, "relations": ends}, default="yaml")


# -- relations ------------------------------------------------------------------------------


def _addressed(context: HookContext, call: Call) -> ContextRelation:
    """Return the relation that -r names, else that of the hook."""
    text = call.get("relation")
    if text is None:
        if context.hook is None or context.hook.relation_id is None:
            raise UsageError("no relation id specified")
        return context.relation(context.hook.relation_id)
    name, _, number = text.rpartition(":")
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise UsageError(f'invalid value "{text}" for option -r: invalid relation id')
    try:
        relation = context.relation(int(number))
    except ToolError as error:
        raise UsageError(f'invalid value "{text}" for option -r: {error}') from None
    if name and name != relation.endpoint:
        raise UsageError(f'invalid value "{text}" for option -r: invalid relation id')
    return relation


@tool("relation-get", {**OUTPUT, **RELATION}, APP, operands=2)
def _relation_get(context: HookContext, call: Call) -> Answer:
    relation = _addressed(context, call)
    operands = call.operands
    key = operands[0] if operands and operands[0] != "-" else ""
    by_app = call.on("app")
    hook = context.hook
    if len(operands) > 1:
        name = operands[1].partition("/")[0] if by_app else operands[1]
    elif hook is not None and hook.relation_id is not None and hook.remote_unit and not by_app:
        name = hook.remote_unit
    elif hook is not None and hook.relation_id is not None and hook.remote_app:
        name, by_app = hook.remote_app, True
    else:
        raise UsageError("no unit or application specified")
    settings = relation.read_app(name) if by_app else relation.read_unit(name)
    return call.show(settings.get(key) if key else settings)


@tool("relation-set", {**RELATION, "--file": "file", "--format": "format"}, APP)
def _relation_set(context: HookContext, call: Call) -> Answer:
    relation = _addressed(context, call)
    overrides = key_values(call.operands)
    path = call.get("file")
    changes = {**(yaml_map(call.request, path) if path else {}), **overrides}
    if call.on("app"):
        if not context.is_leader():
            raise ToolError("cannot write relation settings")
        what, settings_of = "relation application settings", relation.own_app
    else:
        what, settings_of = "relation settings", relation.own_unit
    try:
        settings_of().update(changes)
    except ToolError as error:
        raise ToolError(f"cannot read {what}: {error}") from None
    return Answer()


@tool("relation-ids", OUTPUT, operands=1)
def _relation_ids(context: HookContext, call: Call) -> Answer:
    if call.operands:
        name = call.operands[0]
    elif context.hook is not None and context.hook.relation_id is not None:
        name = context.relation(context.hook.relation_id).endpoint
    else:
        raise UsageError("no relation name specified")
    return call.show(sorted(r.fake_id for r in context.relations if r.endpoint == name))


@tool("relation-list", {**OUTPUT, **RELATION}, APP, operands=0)
def _relation_list(context: HookContext, call: Call) -> Answer:
    relation = _addressed(context, call)
    return call.show(relation.remote_app if call.on("app") else relation.members())


@tool("relation-model-get", {**OUTPUT, **RELATION})
def _relation_model_get(context: HookContext, call: Call) -> Answer:
    # Juju 2.9 does not have it (3.6.2 does), but current ops calls it.
    _addressed(context, call)
    with context.document() as document:
        return call.show({"uuid": document.uuid})


# -- actions --------------------------------------------------------------------------------


@tool("action-get", OUTPUT, operands=1)
def _action_get(context: HookContext, call: Call) -> Answer:
    value: object = context.require_action().params
    for key in call.operands[0].split(".") if call.operands else []:
        value = value.get(key) if isinstance(value, Mapping) else None
    return call.show(value)


@tool("action-set", {})
def _action_set(context: HookContext, call: Call) -> Answer:
    pairs: list[tuple[list[str], str]] = []
    for word in call.operands:
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


@tool("action-fail", {}, operands=1)
def _action_fail(context: HookContext, call: Call) -> Answer:
    action = context.require_action()
    reason = "action failed without reason given, check action for errors"
    action.message = call.operands[0] if call.operands else reason
    context.action_failed = True
    return Answer()
