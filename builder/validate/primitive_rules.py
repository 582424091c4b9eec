"""Rules for primitives and their parameters, against the charm's actions and options."""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import jsonschema

from builder.declarations import Action
from builder.documents import DAY12, charm_of, placeholder
from builder.validate import forms
from builder.validate.charm_files import Charm
from builder.validate.charm_rules import named_charm
from builder.validate.context import Context, Document, numbered, rule
from builder.validate.problem import Problem
from builder.validate.schema import shown

INSIDE = re.compile(r"<[A-Za-z_][A-Za-z0-9_]*>")
PARAM_KEY = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
BUILT_IN = {"rw_mgmt_ip", "OSM"}
"""Names that LCM substitutes in initial primitives without an instantiation parameter."""
ELSEWHERE = {
    "ns_config_info": "in the charm of a network service only",
    "VDU_SCALE_INFO": "in primitives of a scaling-config-action only",
    "member_vnf_index": "nowhere",
}
PRODUCED = {"INTEGER": {"integer", "number"}, "BOOLEAN": {"boolean"}, "STRING": {"string"}}
"""JSON schema types of the values that LCM sends for each data-type."""
LOOPBACK = ("underlay-interface", "lo")
NO_LOOPBACK = "no peer is reached over 'lo'; allowed: a NIC such as 'ens4', or 'auto'"

SCHEMA = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft4Validator,
    {"pattern": lambda *_: None, "patternProperties": lambda *_: None, "x-form": forms.check},
)
"""JSON schema without patterns: a stranger's regular expression may take for ever."""


@rule("vnfd")
def day1(ctx: Context) -> Iterator[Problem]:
    """Initial and terminate primitives of VNFs and VDUs."""
    for where, entry in ctx.day12():
        for kind in ("initial-config-primitive", "terminate-config-primitive"):
            primitives = numbered(f"{where}/{kind}", entry.get(kind))
            for place, primitive in primitives:
                charm = _charm_for(ctx, entry, primitive)
                initial = kind.startswith("initial")
                yield from _values(ctx, place, primitive, initial)
                yield from _against_charm(ctx, place, primitive, charm, initial)
            if kind.startswith("initial"):
                for _, own in groupby(sorted(primitives, key=_environment), key=_environment):
                    yield from _management_address(ctx, list(own))


@rule("vnfd")
def day2(ctx: Context) -> Iterator[Problem]:
    """Primitives of operators."""
    for place, primitive, (_, entry, _) in ctx.each(f"{DAY12}[]/config-primitive[]"):
        for at, parameter in numbered(f"{place}/parameter", primitive.get("parameter")):
            yield from _default(ctx, at, parameter)
        if charm := _charm_for(ctx, entry, primitive):
            yield from _against_action(ctx, place, primitive, charm, "default-value")


@rule("nsd")
def ns_charm(ctx: Context) -> Iterator[Problem]:
    """The charm of a network service; NBI does not check it."""
    config = ctx.body.get("ns-configuration") or {}
    where = "/ns-configuration"
    name = (config.get("juju") or {}).get("charm")
    charm = ctx.charm(name) if name else None
    if name and charm is None:
        if ctx.package.names("charms"):
            yield from named_charm(ctx, f"{where}/juju/charm", name)
        else:
            yield ctx.tell("charm-name/none", f"{where}/juju/charm", name=name)
    if charm is not None and charm.config is not None:
        if "ns_config_info" not in charm.config.options:
            file = f"{charm.folder}config.yaml"
            yield ctx.in_file("ns-config-info", file)
    primitives = numbered(
        f"{where}/initial-config-primitive", config.get("initial-config-primitive")
    )
    for place, primitive in primitives:
        yield from _values(ctx, place, primitive, True, {"ns_config_info", "OSM"})
        yield from _against_charm(ctx, place, primitive, charm, True)


def _values(
    ctx: Context, place: str, primitive: Document, initial: bool, built_in: set[str] = BUILT_IN
) -> Iterator[Problem]:
    for at, parameter in numbered(f"{place}/parameter", primitive.get("parameter")):
        # LCM sets this parameter itself, but only at termination.
        if parameter["name"] == "member_vnf_index" and not initial:
            continue
        value = parameter.get("value")
        if value is None:
            fails = "creating a service fails (KeyError in NBI)" if initial else "LCM fails"
            yield ctx.tell("parameter-value", at, parameter=parameter, fails=fails)
        elif isinstance(value, bool) and parameter.get("data-type", "STRING") == "STRING":
            yield ctx.tell("boolean-text/value", f"{at}/value", value=str(value))
        elif isinstance(value, str):
            yield from _text(ctx, f"{at}/value", parameter, initial, built_in)
        yield from _integer(ctx, f"{at}/value", parameter, value)


def _default(ctx: Context, at: str, parameter: Document) -> Iterator[Problem]:
    """Check a parameter of an operator's primitive, whatever runs it."""
    value = parameter.get("default-value")
    spot = f"{at}/default-value"
    if value in (None, ""):
        if not parameter.get("mandatory"):
            yield ctx.tell("default-empty", at, parameter=parameter)
        return
    if parameter.get("data-type") == "BOOLEAN" and value.lower() not in ("true", "false"):
        if not placeholder(value):
            yield _truth(ctx, spot, value)
    yield from _integer(ctx, spot, parameter, value)


def _integer(ctx: Context, at: str, parameter: Document, value: Any) -> Iterator[Problem]:
    """Check that LCM can convert a value of data-type INTEGER."""
    if parameter.get("data-type") == "INTEGER" and value not in (None, ""):
        reason = "" if placeholder(value) else misfit(value, "INTEGER", {})
        if reason:
            yield ctx.tell("action-value", at, reason=reason)


def _text(
    ctx: Context, at: str, parameter: Document, initial: bool, built_in: set[str]
) -> Iterator[Problem]:
    value: str = parameter["value"]
    reason = ""
    if not placeholder(value):
        if INSIDE.search(value):
            reason = "OSM substitutes only a value that is <name> as a whole"
        elif parameter.get("data-type") == "BOOLEAN" and value.lower() not in ("true", "false"):
            yield _truth(ctx, at, value)
    elif not initial:
        reason = "terminate primitives get no substitution"
    elif value[1:-1] in ELSEWHERE and value[1:-1] not in built_in:
        reason = f"OSM fills it {ELSEWHERE[value[1:-1]]}"
    elif value[1:-1] == "rw_mgmt_ip" and "rw_mgmt_ip" not in built_in:
        reason = "the charm of a network service has no management address"
    elif value[1:-1] not in built_in and not PARAM_KEY.fullmatch(value[1:-1]):
        reason = "keys of additionalParams have letters, digits and '_' only"
    if reason:
        yield ctx.tell("substitution", at, value=shown(value), reason=reason)


def _environment(item: tuple[str, Document]) -> str:
    """Return the execution environment of a primitive, "" for the first."""
    return str(item[1].get("execution-environment-ref") or "")


def _management_address(ctx: Context, primitives: list[tuple[str, Document]]) -> Iterator[Problem]:
    first = min((primitive["seq"] for _, primitive in primitives), default=0)
    for place, primitive in primitives:
        if primitive["seq"] == first:
            continue
        for at, parameter in numbered(f"{place}/parameter", primitive.get("parameter")):
            if parameter.get("value") == "<rw_mgmt_ip>":
                yield ctx.tell("rw-mgmt-ip", f"{at}/value")


def _truth(ctx: Context, place: str, value: str) -> Problem:
    return ctx.tell("boolean-text/truth", place, value=shown(value))


def _charm_for(ctx: Context, entry: Document, primitive: Document) -> Charm | None:
    name = charm_of(entry, primitive)
    return ctx.charm(name) if name else None


def _against_charm(
    ctx: Context, place: str, primitive: Document, charm: Charm | None, initial: bool
) -> Iterator[Problem]:
    if charm is None:
        return
    if primitive["name"] == "config" and initial:
        yield from _config(ctx, place, primitive, charm)
    else:
        yield from _against_action(ctx, place, primitive, charm, "value")


def _config(ctx: Context, place: str, primitive: Document, charm: Charm) -> Iterator[Problem]:
    for at, parameter in numbered(f"{place}/parameter", primitive.get("parameter")):
        value = parameter.get("value")
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if parameter.get("data-type", "STRING") != "STRING" or number:
            yield ctx.tell("config-string", at)
        if charm.config is not None and parameter["name"] not in charm.config.options:
            words = {"charm": charm, "parameter": parameter, "may": charm.config.options}
            yield ctx.tell("config-option", f"{at}/name", **words)


def _against_action(
    ctx: Context, place: str, primitive: Document, charm: Charm, key: str
) -> Iterator[Problem]:
    if charm.actions is None:
        return
    name = primitive.get("execution-environment-primitive") or primitive["name"]
    action = charm.actions.get(name)
    if action is None:
        yield ctx.tell(
            "action-missing/primitive", f"{place}/name", charm=charm, name=name, may=charm.actions
        )
        return
    given = {parameter["name"] for parameter in primitive.get("parameter") or ()}
    for required in action.required:
        if required not in given:
            yield ctx.tell("action-required", place, name=name, required=required)
    for at, parameter in numbered(f"{place}/parameter", primitive.get("parameter")):
        yield from _parameter(ctx, at, parameter, (name, action), key)


def _parameter(
    ctx: Context, at: str, parameter: Document, action: tuple[str, Action], key: str
) -> Iterator[Problem]:
    name, declared = action
    if parameter["name"] not in declared.params:
        yield ctx.tell(
            "action-parameter", f"{at}/name", name=name, parameter=parameter, may=declared.params
        )
        return
    schema = declared.params[parameter["name"]]
    kind = parameter.get("data-type", "STRING")
    expected = schema.get("type", list(PRODUCED[kind]))
    if not PRODUCED[kind] & set([expected] if isinstance(expected, str) else expected):
        yield ctx.tell("action-type", f"{at}/data-type", kind=kind, value=shown(expected))
        return
    value = parameter.get(key)
    if (parameter["name"], value) == LOOPBACK:
        yield ctx.tell("action-value", f"{at}/{key}", reason=NO_LOOPBACK)
        return
    if value in (None, "") or placeholder(value):
        return
    reason = misfit(value, kind, schema)
    if reason:
        yield ctx.tell("action-value", f"{at}/{key}", reason=reason)


def misfit(value: Any, kind: str, schema: Document, quoted: str = "") -> str:
    """Return the reason why a value does not fit an action's schema, "" if it fits.

    `quoted` stands in the reason for a value that nobody must see.
    """
    sent: Any = str(value)
    if kind == "INTEGER":
        try:
            sent = int(str(value))
        except ValueError:
            return f"{shown(value)} is not an integer; allowed: one in quotes or without"
    elif kind == "BOOLEAN":
        sent = str(value).lower() != "false"
    try:
        error = next(SCHEMA(schema).iter_errors(sent), None)
    except OverflowError:  # multipleOf divides
        return f"{quoted or shown(sent)} is too large; allowed: a smaller number"
    if error is None:
        return ""
    rule = f"{error.validator} {shown(error.validator_value)}"
    if error.validator == "enum":
        rule = ", ".join(map(str, error.validator_value))
    if error.validator == "x-form":
        kind, *words = map(str, error.validator_value)
        words += [str(schema["default"])] if "default" in schema else []
        rule = ", ".join(dict.fromkeys(filter(None, [forms.FORMS[kind]["allowed"], *words])))
    return f"{quoted or shown(sent)} does not fit the action; allowed: {rule}"
