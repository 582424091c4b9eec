"""The hook tools, run in the controller on behalf of the client process.

Names, options, outputs and refusals are those of Juju 2.9 (worker/uniter/runner/jujuc). Tools
2.9 does not have (secret-*, payload-*, k8s-*) are absent, as they are on the PATH of a 2.9 unit.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from lab.vca import actiontools, relationtools
from lab.vca.context import HookContext, ToolError
from lab.vca.state import Unit
from lab.vca.toolcall import OUTPUT, Answer, Arguments, Request, Tool, UsageError, show
from lab.vca.unitlog import level_of

OF_UNIT = {"--application": "application"}
"""Switch of the status tools. ops sets it to false; no charm here sets an application's status."""
WORKLOAD_STATUSES = ("maintenance", "blocked", "waiting", "active")


def _config_get(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, OUTPUT, {"-a": "all", "--all": "all"})
    operands = arguments.take(1)
    if operands:
        if arguments.on("all"):
            raise UsageError(f'cannot use argument --all together with key "{operands[0]}"')
        return show(request, arguments, context.config.get(operands[0]))
    config = context.config
    if not arguments.on("all"):
        config = {name: value for name, value in config.items() if value is not None}
    return show(request, arguments, config)


def _check_unit(arguments: Arguments) -> None:
    if arguments.on("application"):
        raise ToolError("the lab has no status of an application, only of its units")


def _status_set(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, {}, OF_UNIT)
    operands = arguments.take(2)
    _check_unit(arguments)
    if not operands:
        raise UsageError("invalid args, require <status> [message]")
    status, message = operands[0], operands[1] if len(operands) > 1 else ""
    if status not in WORKLOAD_STATUSES:
        expected = " ".join(WORKLOAD_STATUSES)
        raise UsageError(f'invalid status "{status}", expected one of [{expected}]')
    context.set_status(status, message)
    return Answer()


def _status_get(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, OUTPUT, {"--include-data": "data", **OF_UNIT})
    arguments.take(0)
    _check_unit(arguments)
    everything = arguments.on("data")
    info = context.unit_status()
    if not everything and (arguments.get("format") or "smart") == "smart":
        return show(request, arguments, info.status)
    details: dict[str, Any] = {"status": info.status}
    if everything:
        details |= {"message": info.message, "status-data": {}}
    return show(request, arguments, details)


def _is_leader(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, OUTPUT)
    arguments.take(0)
    return show(request, arguments, context.is_leader())


def _juju_log(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(
        request.arguments,
        {"-l": "level", "--log-level": "level", "--format": "format"},
        {"--debug": "debug"},
    )
    if not arguments.operands:
        raise UsageError("no message specified")
    word = arguments.get("level") or "INFO"
    level = logging.DEBUG if arguments.on("debug") else level_of(word)
    if level is None:
        context.log(logging.WARNING, f'Specified log level of "{word}" is not valid')
        level = logging.INFO
    context.log(level, " ".join(arguments.operands))
    return Answer()


def _goal_state(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, OUTPUT)
    arguments.take(0)

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
    return show(request, arguments, {"units": units, "relations": ends}, default="yaml")


TOOLS: Mapping[str, Tool] = {
    **actiontools.TOOLS,
    **relationtools.TOOLS,
    "config-get": _config_get,
    "goal-state": _goal_state,
    "is-leader": _is_leader,
    "juju-log": _juju_log,
    "status-get": _status_get,
    "status-set": _status_set,
}


def run_tool(context: HookContext, request: Request) -> Answer:
    """Run one hook tool.

    Raises NeedStdinError if the client must send its standard input.
    """
    tool = TOOLS.get(request.tool)
    if tool is None:
        return Answer(1, stderr=f"ERROR bad request: unknown command: {request.tool}\n")
    if not os.path.isabs(request.directory):
        return Answer(1, stderr="ERROR bad request: Dir is not absolute\n")
    if "--help" in request.arguments:
        return Answer(stdout=f"Usage: {request.tool} [options]\n")
    try:
        return tool(context, request)
    except UsageError as error:
        return Answer(2, stderr=f"ERROR {error}\n")
    except ToolError as error:
        return Answer(1, stderr=f"ERROR {error}\n")
