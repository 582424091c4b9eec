"""Hook tools on relations: their ids, members and databags."""

from __future__ import annotations

from collections.abc import Mapping

from lab.vca.context import ContextRelation, HookContext, ToolError
from lab.vca.toolcall import (
    OUTPUT,
    Answer,
    Arguments,
    Request,
    Tool,
    UsageError,
    key_values,
    show,
    yaml_map,
)

RELATION = {"-r": "relation", "--relation": "relation"}


def addressed(context: HookContext, arguments: Arguments) -> ContextRelation:
    """Return the relation that -r names, else that of the hook."""
    text = arguments.get("relation")
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


def _relation_get(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, {**OUTPUT, **RELATION}, {"--app": "app"})
    relation = addressed(context, arguments)
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
    return show(request, arguments, settings.get(key) if key else settings)


def _relation_set(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(
        request.arguments,
        {**RELATION, "--file": "file", "--format": "format"},
        {"--app": "app"},
    )
    relation = addressed(context, arguments)
    overrides = key_values(arguments.operands)
    path = arguments.get("file")
    changes = {**(yaml_map(request, path) if path else {}), **overrides}
    if arguments.on("app"):
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


def _relation_ids(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, OUTPUT)
    operands = arguments.take(1)
    if operands:
        name = operands[0]
    elif context.hook is not None and context.hook.relation_id is not None:
        name = context.relation(context.hook.relation_id).endpoint
    else:
        raise UsageError("no relation name specified")
    return show(
        request, arguments, sorted(r.fake_id for r in context.relations if r.endpoint == name)
    )


def _relation_list(context: HookContext, request: Request) -> Answer:
    arguments = Arguments(request.arguments, {**OUTPUT, **RELATION}, {"--app": "app"})
    arguments.take(0)
    relation = addressed(context, arguments)
    return show(
        request, arguments, relation.remote_app if arguments.on("app") else relation.members()
    )


def _relation_model_get(context: HookContext, request: Request) -> Answer:
    # Juju 2.9 does not have it (3.6.2 does), but current ops calls it.
    arguments = Arguments(request.arguments, {**OUTPUT, **RELATION})
    addressed(context, arguments)
    with context.document() as document:
        return show(request, arguments, {"uuid": document.uuid})


TOOLS: Mapping[str, Tool] = {
    "relation-get": _relation_get,
    "relation-ids": _relation_ids,
    "relation-list": _relation_list,
    "relation-model-get": _relation_model_get,
    "relation-set": _relation_set,
}
