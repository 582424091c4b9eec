"""The hook tools, run in the controller on behalf of the client process.

Names, options, outputs and refusals are those of Juju 2.9 (worker/uniter/runner/jujuc). Tools
2.9 does not have (secret-*, payload-*, k8s-*) are absent, as they are on the PATH of a 2.9 unit.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import yaml

from lab.vca.context import ContextRelation, HookContext, ToolError
from lab.vca.state import StatusInfo, Unit
from lab.vca.toolformat import FORMATS
from lab.vca.unitlog import level_of

WORKLOAD_STATUSES = ("maintenance", "blocked", "waiting", "active")
RESERVED_RESULTS = frozenset({"stdout", "stdout-encoding", "stderr", "stderr-encoding"})
_RESULT_KEY = re.compile(r"^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$")
_PORT = re.compile(r"^(?:(?P<low>\d+)(?:-(?P<high>\d+))?(?:/(?P<protocol>[a-z0-9]+))?|icmp)$")
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


class UsageError(Exception):
    """Wrong arguments of a tool; exit code 2."""


class NeedStdinError(Exception):
    """The tool reads standard input, which the client has not sent yet."""


@dataclass(frozen=True)
class Request:
    """One call of a tool."""

    tool: str
    arguments: Sequence[str]
    directory: Path
    stdin: bytes | None = None

    def read(self, path: str) -> bytes:
        """Return a file's content; `-` is standard input."""
        if path == "-":
            if self.stdin is None:
                raise NeedStdinError
            return self.stdin
        try:
            return (self.directory / path).read_bytes()
        except OSError as error:
            raise ToolError(f"open {path}: {(error.strerror or 'failed').lower()}") from None


@dataclass(frozen=True)
class Answer:
    """What the client prints and exits with."""

    code: int = 0
    stdout: str = ""
    stderr: str = ""


class Arguments:
    """Options and operands, in any order, as Juju's gnuflag reads them."""

    def __init__(
        self,
        arguments: Sequence[str],
        values: Mapping[str, str] | None = None,
        switches: Mapping[str, str] | None = None,
    ) -> None:
        """Parse; `values` and `switches` map spellings (`-r`, `--relation`) to a key."""
        self._found: dict[str, str] = {}
        self._on: dict[str, bool] = {}
        self.operands: list[str] = []
        values, switches = values or {}, switches or {}
        rest = list(arguments)
        while rest:
            word = rest.pop(0)
            if word == "--":
                self.operands += rest
                break
            if word == "-" or not word.startswith("-"):
                self.operands.append(word)
                continue
            if word.startswith("--"):
                flag, equals, value = word.partition("=")
            else:
                flag, equals, value = word[:2], "=" if len(word) > 2 else "", word[2:].lstrip("=")
            if flag in switches:
                if equals and value not in _BOOLEANS:
                    raise UsageError(f'invalid value "{value}" for option {flag}: not a boolean')
                self._on[switches[flag]] = _BOOLEANS[value] if equals else True
            elif flag in values:
                if not equals:
                    if not rest:
                        raise UsageError(f"option needs an argument: {flag}")
                    value = rest.pop(0)
                self._found[values[flag]] = value
            else:
                raise UsageError(f"option provided but not defined: {flag}")

    def get(self, key: str) -> str | None:
        """Return an option's value, or None."""
        return self._found.get(key)

    def on(self, key: str) -> bool:
        """Whether a switch is on."""
        return self._on.get(key, False)

    def take(self, most: int) -> list[str]:
        """Return the operands, at most so many."""
        if len(self.operands) > most:
            shown = " ".join(f'"{word}"' for word in self.operands[most:])
            raise UsageError(f"unrecognized args: [{shown}]")
        return self.operands


OUTPUT = {"--format": "format", "-o": "output", "--output": "output"}
RELATION = {"-r": "relation", "--relation": "relation"}


def _show(request: Request, arguments: Arguments, value: object, default: str = "smart") -> Answer:
    chosen = arguments.get("format") or default
    if chosen not in FORMATS:
        raise UsageError(f'invalid value "{chosen}" for option --format: unknown format "{chosen}"')
    text = FORMATS[chosen](value)
    path = arguments.get("output")
    if path:
        (request.directory / path).write_text(text, encoding="utf-8")
        return Answer()
    return Answer(stdout=text)


def _relation(context: HookContext, arguments: Arguments) -> ContextRelation:
    text = arguments.get("relation")
    if text is None:
        if context.hook is None or context.hook.relation_id is None:
            raise UsageError("no relation id specified")
        return context.relation(context.hook.relation_id)
    name, _, number = text.rpartition(":")
    if not number.isdigit():
        raise UsageError(f'invalid value "{text}" for option -r: invalid relation id')
    try:
        relation = context.relation(int(number))
    except ToolError as error:
        raise UsageError(f'invalid value "{text}" for option -r: {error}') from None
    if name and name != relation.endpoint:
        raise UsageError(f'invalid value "{text}" for option -r: invalid relation id')
    return relation


def _key_values(words: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageError(f'expected "key=value", got "{word}"')
        if key in found:
            raise UsageError(f'key "{key}" specified more than once')
        found[key] = value
    return found


def _yaml_map(request: Request, path: str) -> dict[str, str]:
    try:
        # The base loader leaves scalars as they are written: everything is text in a databag.
        content = yaml.load(request.read(path), Loader=yaml.BaseLoader)  # noqa: S506
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ToolError(f"yaml: {' '.join(str(error).split())}") from None
    if content is None or content == "":
        return {}
    if not isinstance(content, dict) or not all(isinstance(v, str) for v in content.values()):
        raise ToolError("yaml: unmarshal errors: expected a map of text to text")
    return content


def _config_get(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, OUTPUT, {"-a": "all", "--all": "all"})
    operands = arguments.take(1)
    if operands:
        if arguments.on("all"):
            raise UsageError(f'cannot use argument --all together with key "{operands[0]}"')
        return _show(request, arguments, context.config.get(operands[0]))
    config = context.config
    if not arguments.on("all"):
        config = {name: value for name, value in config.items() if value is not None}
    return _show(request, arguments, config)


def _relation_get(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, {**OUTPUT, **RELATION}, {"--app": "app"})
    relation = _relation(context, arguments)
    operands = arguments.take(2)
    key = operands[0] if operands and operands[0] != "-" else ""
    by_app = arguments.on("app")
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
    return _show(request, arguments, settings.get(key) if key else settings)


def _relation_set(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(
        request.arguments,
        {**RELATION, "--file": "file", "--format": "format"},
        {"--app": "app"},
    )
    relation = _relation(context, arguments)
    overrides = _key_values(arguments.operands)
    path = arguments.get("file")
    changes = {**(_yaml_map(request, path) if path else {}), **overrides}
    if arguments.on("app"):
        if not context.is_leader():
            raise ToolError("cannot write relation settings")
        try:
            settings = relation.own_app()
        except ToolError as error:
            raise ToolError(f"cannot read relation application settings: {error}") from None
    else:
        try:
            settings = relation.own_unit()
        except ToolError as error:
            raise ToolError(f"cannot read relation settings: {error}") from None
    settings.update(changes)
    return Answer()


def _relation_ids(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, OUTPUT)
    operands = arguments.take(1)
    if operands:
        name = operands[0]
    elif context.hook is not None and context.hook.relation_id is not None:
        name = context.relation(context.hook.relation_id).endpoint
    else:
        raise UsageError("no relation name specified")
    return _show(
        request, arguments, sorted(r.fake_id for r in context.relations if r.endpoint == name)
    )


def _relation_list(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, {**OUTPUT, **RELATION}, {"--app": "app"})
    arguments.take(0)
    relation = _relation(context, arguments)
    return _show(
        request, arguments, relation.remote_app if arguments.on("app") else relation.members()
    )


def _relation_model_get(context: HookContext, request: Request) -> Answer:
    # Newer than 2.9 (Juju 3.6.2); current ops asks for it.
    arguments = Arguments(request.arguments, {**OUTPUT, **RELATION})
    _relation(context, arguments)
    with context.document() as document:
        return _show(request, arguments, {"uuid": document.uuid})


def _status_set(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, {}, {"--application": "application"})
    operands = arguments.take(2)
    if not operands:
        raise UsageError("invalid args, require <status> [message]")
    status, message = operands[0], operands[1] if len(operands) > 1 else ""
    if status not in WORKLOAD_STATUSES:
        expected = " ".join(WORKLOAD_STATUSES)
        raise UsageError(f'invalid status "{status}", expected one of [{expected}]')
    if arguments.on("application"):
        context.set_app_status(status, message)
    else:
        context.set_status(status, message)
    return Answer()


def _details(info: StatusInfo, everything: bool) -> dict[str, Any]:
    details: dict[str, Any] = {"status": info.status}
    if everything:
        details |= {"message": info.message, "status-data": {}}
    return details


def _status_get(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(
        request.arguments, OUTPUT, {"--include-data": "data", "--application": "application"}
    )
    arguments.take(0)
    everything = arguments.on("data")
    word_only = not everything and (arguments.get("format") or "smart") == "smart"
    if not arguments.on("application"):
        info = context.unit_status()
        return _show(request, arguments, info.status if word_only else _details(info, everything))
    if not context.is_leader():
        raise ToolError("finding application status: this unit is not the leader")
    app, units = context.application()
    info = app.status or StatusInfo()
    if word_only:
        return _show(request, arguments, info.status)
    told = _details(info, everything)
    told["units"] = {unit.name: _details(unit.workload, everything) for unit in units}
    return _show(request, arguments, {"application-status": told})


def _is_leader(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, OUTPUT)
    arguments.take(0)
    return _show(request, arguments, context.is_leader())


def _leader_get(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, OUTPUT)
    operands = arguments.take(1)
    settings = context.leader_settings()
    if operands and operands[0] != "-":
        return _show(request, arguments, settings.get(operands[0]))
    return _show(request, arguments, settings)


def _leader_set(context: HookContext, request: Request) -> Answer:
    context.set_leader_settings(_key_values(Arguments(request.arguments).operands))
    return Answer()


def _action_get(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, OUTPUT)
    operands = arguments.take(1)
    value: object = context.require_action().params
    for key in operands[0].split(".") if operands else []:
        value = value.get(key) if isinstance(value, Mapping) else None
    return _show(request, arguments, value)


def _action_set(context: HookContext, request: Request) -> Answer:
    found: list[tuple[list[str], str]] = []
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
        found.append((keys, value))
    results = context.require_action().results
    for keys, value in found:
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


def _action_log(context: HookContext, request: Request) -> Answer:
    operands = Arguments(request.arguments).operands
    if not operands:
        raise UsageError("no message specified")
    context.log_action(" ".join(operands))
    return Answer()


def _state_get(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, OUTPUT, {"--strict": "strict"})
    operands = arguments.take(1)
    state = context.charm_state()
    if not operands or operands[0] == "-":
        return _show(request, arguments, state or None)
    if operands[0] not in state and arguments.on("strict"):
        raise ToolError(f'"{operands[0]}" not found')
    return _show(request, arguments, state.get(operands[0], ""))


def _state_set(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, {"--file": "file"})
    overrides = _key_values(arguments.operands)
    path = arguments.get("file")
    if not path and not overrides:
        return Answer()
    context.change_charm_state({**(_yaml_map(request, path) if path else {}), **overrides})
    return Answer()


def _state_delete(context: HookContext, request: Request) -> Answer:
    operands = Arguments(request.arguments).take(1)
    if not operands:
        raise UsageError("missing required key")
    context.change_charm_state({operands[0]: None})
    return Answer()


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


def _juju_reboot(context: HookContext, request: Request) -> Answer:
    Arguments(request.arguments, {}, {"--now": "now"}).take(0)
    raise ToolError("juju-reboot: the machine of this unit cannot be rebooted")


def _network_get(context: HookContext, request: Request) -> Answer:
    switches = ("--primary-address", "--bind-address", "--ingress-address", "--egress-subnets")
    arguments = Arguments(
        request.arguments, {**OUTPUT, **RELATION}, {flag: flag[2:] for flag in switches}
    )
    operands = arguments.take(1)
    if not operands:
        raise UsageError("no arguments specified")
    if arguments.get("relation") is not None:
        _relation(context, arguments)
    if not context.has_binding(operands[0]):
        raise ToolError(f'no network config found for binding "{operands[0]}"')
    address = context.unit.address
    if arguments.on("primary-address"):
        return _show(request, arguments, address)
    parts: dict[str, object] = {
        "bind-address": address,
        "egress-subnets": [f"{address}/32"],
        "ingress-address": address,
    }
    asked = {key: value for key, value in parts.items() if arguments.on(key)}
    if asked:
        return _show(request, arguments, asked if len(asked) > 1 else next(iter(asked.values())))
    return _show(
        request,
        arguments,
        {
            "bind-addresses": [
                {
                    "mac-address": "",
                    "interface-name": "eth0",
                    "addresses": [
                        {
                            "hostname": "",
                            "address": address,
                            "value": address,
                            "cidr": f"{address}/32",
                        }
                    ],
                }
            ],
            "egress-subnets": [f"{address}/32"],
            "ingress-addresses": [address],
        },
    )


def _unit_get(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, OUTPUT)
    operands = arguments.take(1)
    if not operands:
        raise UsageError("no setting specified")
    if operands[0] not in ("private-address", "public-address"):
        raise UsageError(f'unknown setting "{operands[0]}"')
    return _show(request, arguments, context.unit.address)


def _goal_state(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, OUTPUT)
    arguments.take(0)

    def told(status: str, since: float) -> dict[str, str]:
        moment = datetime.fromtimestamp(since, timezone.utc)
        return {"status": status, "since": moment.strftime("%Y-%m-%d %H:%M:%SZ")}

    def unit(u: Unit) -> dict[str, str]:
        # Juju shows a unit that is being removed as what it is, whatever status it set.
        return told("dying" if u.life == "dying" else u.workload.status, u.workload.since)

    with context.document() as document:
        units = {u.name: unit(u) for u in document.units_of(context.app_name)}
        ends: dict[str, dict[str, dict[str, str]]] = {}
        for relation in context.relations:
            if relation.is_peer or relation.id not in document.relations:
                continue
            end = ends.setdefault(relation.endpoint, {})
            remote = document.units_of(relation.remote_app)
            since = min((u.agent.since for u in remote), default=0.0)
            end[relation.remote_app] = told("joined", since)
            end.update({u.name: unit(u) for u in remote})
    return _show(request, arguments, {"units": units, "relations": ends}, default="yaml")


def _application_version_set(context: HookContext, request: Request) -> Answer:
    operands = Arguments(request.arguments).take(1)
    if not operands:
        raise UsageError("no version specified")
    context.set_workload_version(operands[0])
    return Answer()


def _change_port(context: HookContext, request: Request, opened: bool) -> Answer:
    arguments = Arguments(request.arguments, {"--format": "format", "--endpoints": "endpoints"})
    operands = arguments.take(1)
    if not operands:
        raise UsageError("no port or range specified")
    text = operands[0].lower()
    match = _PORT.match(text)
    if match is None:
        raise UsageError(
            f'expected <port>[/<protocol>] or <from>-<to>[/<protocol>] or icmp; got "{operands[0]}"'
        )
    if text != "icmp":
        low, high = int(match["low"]), int(match["high"] or match["low"])
        protocol = match["protocol"] or "tcp"
        if protocol not in ("tcp", "udp"):
            raise UsageError(f'protocol must be "tcp", "udp", or "icmp"; got "{protocol}"')
        if not 1 <= low <= 65535 or not 1 <= high <= 65535:
            raise UsageError(f'port must be in the range [1, 65535]; got "{match["low"]}"')
        if low > high:
            raise UsageError(
                f"invalid port range {low}-{high}/{protocol}; expected fromPort <= toPort"
            )
        text = f"{low}/{protocol}" if low == high else f"{low}-{high}/{protocol}"
    context.change_port(text, opened)
    return Answer()


def _open_port(context: HookContext, request: Request) -> Answer:
    return _change_port(context, request, opened=True)


def _close_port(context: HookContext, request: Request) -> Answer:
    return _change_port(context, request, opened=False)


def _opened_ports(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, OUTPUT, {"--endpoints": "endpoints"})
    arguments.take(0)
    ports = sorted(context.unit.opened_ports)
    if arguments.on("endpoints"):
        ports = [f"{port} (*)" for port in ports]
    return _show(request, arguments, ports)


def _resource_get(context: HookContext, request: Request) -> Answer:
    operands = Arguments(request.arguments).take(1)
    if not operands:
        raise UsageError("missing required resource name")
    raise ToolError(
        f'could not download resource: resource "{context.app_name}/{operands[0]}" not found'
    )


def _credential_get(context: HookContext, request: Request) -> Answer:
    Arguments(request.arguments, OUTPUT).take(0)
    raise ToolError("cannot access cloud credentials")


def _storage_list(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, OUTPUT)
    arguments.take(1)
    return _show(request, arguments, [])


Tool = Callable[[HookContext, Request], Answer]
TOOLS: Mapping[str, Tool] = {
    "action-fail": _action_fail,
    "action-get": _action_get,
    "action-log": _action_log,
    "action-set": _action_set,
    "application-version-set": _application_version_set,
    "close-port": _close_port,
    "config-get": _config_get,
    "credential-get": _credential_get,
    "goal-state": _goal_state,
    "is-leader": _is_leader,
    "juju-log": _juju_log,
    "juju-reboot": _juju_reboot,
    "leader-get": _leader_get,
    "leader-set": _leader_set,
    "network-get": _network_get,
    "open-port": _open_port,
    "opened-ports": _opened_ports,
    "relation-get": _relation_get,
    "relation-ids": _relation_ids,
    "relation-list": _relation_list,
    "relation-model-get": _relation_model_get,
    "relation-set": _relation_set,
    "resource-get": _resource_get,
    "state-delete": _state_delete,
    "state-get": _state_get,
    "state-set": _state_set,
    "status-get": _status_get,
    "status-set": _status_set,
    "storage-list": _storage_list,
    "unit-get": _unit_get,
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
