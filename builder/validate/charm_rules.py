"""Rules for charms, primitives and their parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from builder.validate.context import Charm, Context, Document, numbered, rule
from builder.validate.problem import Problem

WHOLE = re.compile(r"^<[^<>]+>$")
INSIDE = re.compile(r"<[A-Za-z_][A-Za-z0-9_]*>")
BUILT_IN = {"rw_mgmt_ip", "OSM", "ns_config_info", "VDU_SCALE_INFO"}
PARAM_KEY = re.compile(r"^[a-zA-Z_][a-zA-Z0-9_]*$")
SCHEMA_TYPES = {"INTEGER": ("integer", "number"), "BOOLEAN": ("boolean",), "STRING": ("string",)}
EARLIEST = 315532800  # 1980-01-01, where the ZIP epoch begins


@rule("vnfd")
def folders(ctx: Context) -> Iterator[Problem]:
    """Charm folders must be there under the right name."""
    named = [
        (place, environment["juju"]["charm"])
        for where, entry in ctx.day12()
        for place, environment in _environments(where, entry)
        if (environment.get("juju") or {}).get("charm")
    ]
    present = ctx.package.names("charms")
    for place, name in named:
        if not present:
            yield ctx.problem(
                "refused",
                "charm-missing",
                f"{place}/juju/charm",
                f"the package has no {ctx.package.folder('charms')} folder for charm {name!r}",
                f"Charm defined in vnf[id={ctx.body['id']}] but not present in package",
            )
        elif name not in present:
            yield ctx.problem(
                "silent",
                "charm-name",
                f"{place}/juju/charm",
                f"the package has no charm {name!r}, LCM will fail; "
                f"allowed: {', '.join(sorted(present))}",
            )
    wrong = "charms" if ctx.package.layout == "zip" else "Scripts/charms"
    if any(path.startswith(wrong + "/") for path in ctx.package.files):
        yield ctx.in_file(
            "silent",
            "charm-place",
            wrong,
            f"a {ctx.package.layout} package is read from {ctx.package.folder('charms')}",
        )


@rule("vnfd", "nsd")
def charm_folder(ctx: Context) -> Iterator[Problem]:
    """What libjuju and Juju do to a charm folder."""
    for name in sorted(ctx.package.names("charms")):
        charm = ctx.charm(name)
        if charm is not None:
            yield from _one_charm(ctx, charm)


def _one_charm(ctx: Context, charm: Charm) -> Iterator[Problem]:
    files = {
        path[len(charm.folder) :]: entry
        for path, entry in ctx.package.files.items()
        if path.startswith(charm.folder)
    }
    where = charm.folder.rstrip("/")
    if not charm.metadata:
        yield ctx.in_file("silent", "charm-metadata", where, "metadata.yaml is missing or broken")
    elif charm.metadata.get("name") != charm.name:
        yield ctx.in_file(
            "silent",
            "charm-metadata",
            f"{where}/metadata.yaml",
            f"name is {charm.metadata.get('name')!r}; allowed: {charm.name!r}, the folder's name",
        )
    if charm.metadata and "bionic" not in (charm.metadata.get("series") or ()):
        yield ctx.in_file(
            "silent",
            "charm-series",
            f"{where}/metadata.yaml",
            "series does not list bionic, the series LCM gives every machine",
        )
    starts = [path for path in files if path == "dispatch" or path.startswith("hooks/")]
    if not any(files[path].mode & 0o111 or files[path].link for path in starts):
        yield ctx.in_file(
            "silent", "charm-dispatch", where, "neither an executable dispatch nor hooks/*"
        )
    for path, entry in sorted(files.items()):
        if path.startswith("build/"):
            yield ctx.in_file(
                "silent", "charm-skipped", f"{where}/build", "libjuju leaves build/ out"
            )
            break
        if "/" not in path and path.startswith("."):
            yield ctx.in_file("silent", "charm-skipped", f"{where}/{path}", "libjuju leaves it out")
        if entry.link and (entry.link.startswith("/") or ".." in entry.link.split("/")):
            yield ctx.in_file(
                "silent", "charm-link", f"{where}/{path}", "libjuju refuses links out of the charm"
            )
        if entry.link and ctx.package.layout == "zip":
            yield ctx.in_file("silent", "zip-link", f"{where}/{path}", "OSM's unzip loses links")
        if entry.mtime < EARLIEST:
            yield ctx.in_file(
                "silent", "charm-date", f"{where}/{path}", "libjuju cannot zip dates before 1980"
            )
            break


@rule("vnfd")
def environments(ctx: Context) -> Iterator[Problem]:
    """Execution environments, key injection and references to them."""
    for where, entry in ctx.day12():
        listed = _environments(where, entry)
        known = [environment["id"] for _, environment in listed]
        if len(set(known)) != len(known):
            sentence = "two execution environments have one id"
            yield ctx.problem("silent", "ee-id", f"{where}/execution-environment-list", sentence)
        points = _points(ctx.body)
        for place, environment in listed:
            point = environment.get("external-connection-point-ref")
            if point and point not in points:
                yield ctx.problem(
                    "silent",
                    "ee-connection-point",
                    f"{place}/external-connection-point-ref",
                    f"{point!r} is no ext-cpd; allowed: {', '.join(sorted(points))}",
                )
        access = (entry.get("config-access") or {}).get("ssh-access") or {}
        if access.get("required") and not access.get("default-user"):
            yield ctx.problem(
                "silent",
                "ssh-user",
                f"{where}/config-access/ssh-access",
                "required without default-user: OSM skips the key injection and says nothing",
            )
        for place, primitive in _primitives(where, entry):
            reference = primitive.get("execution-environment-ref")
            if reference is not None and reference not in known:
                yield ctx.problem(
                    "silent",
                    "ee-reference",
                    f"{place}/execution-environment-ref",
                    f"{reference!r} is no execution environment; allowed: "
                    + (", ".join(known) or "none is defined"),
                )
            if reference is None and known:
                yield ctx.problem(
                    "silent",
                    "ee-reference",
                    place,
                    f"execution-environment-ref is missing; allowed: {', '.join(known)}",
                )


@rule("vnfd")
def initial_primitives(ctx: Context) -> Iterator[Problem]:
    """Initial and terminate primitives against the charm."""
    for where, entry in ctx.day12():
        for kind in ("initial-config-primitive", "terminate-config-primitive"):
            for place, primitive in numbered(f"{where}/{kind}", entry.get(kind)):
                charm = _charm_for(ctx, entry, primitive)
                yield from _sequence(ctx, place, entry, kind, primitive)
                for at, parameter in numbered(f"{place}/parameter", primitive.get("parameter")):
                    yield from _value(ctx, at, parameter, kind)
                if charm is None:
                    continue
                if primitive["name"] == "config" and kind.startswith("initial"):
                    yield from _config(ctx, place, primitive, charm)
                else:
                    yield from _against_action(ctx, place, primitive, charm, "value")


def _sequence(
    ctx: Context, place: str, entry: Document, kind: str, primitive: Document
) -> Iterator[Problem]:
    same = [p for p in entry[kind] if p["seq"] == primitive["seq"]]
    if len(same) > 1 and same[0] is primitive:
        yield ctx.problem(
            "refused", "duplicate-seq", f"{place}/seq", f"seq {primitive['seq']} is used twice"
        )
    if primitive.get("user-defined-script"):
        sentence = "OSM ignores user-defined-script"
        yield ctx.problem("silent", "user-script", f"{place}/user-defined-script", sentence)


def _value(ctx: Context, at: str, parameter: Document, kind: str) -> Iterator[Problem]:
    if "value" not in parameter:
        sentence = f"parameter {parameter['name']!r} has no value, which NBI fails on (KeyError)"
        yield ctx.problem("refused", "parameter-value", at, sentence)
        return
    value = parameter["value"]
    if not isinstance(value, str):
        return
    if INSIDE.search(value) and not WHOLE.match(value):
        yield ctx.problem(
            "silent",
            "substitution",
            f"{at}/value",
            f"{value!r} is passed as it is; OSM substitutes only a value that is <name> as a whole",
        )
    elif WHOLE.match(value):
        name = value[1:-1]
        if kind.startswith("terminate"):
            yield ctx.problem(
                "silent",
                "substitution",
                f"{at}/value",
                f"{value} is passed as it is: terminate primitives get no substitution",
            )
        elif name == "member_vnf_index":
            yield ctx.problem(
                "silent", "substitution", f"{at}/value", f"{value} does not exist in OSM"
            )
        elif name not in BUILT_IN and not PARAM_KEY.match(name):
            yield ctx.problem(
                "silent",
                "substitution",
                f"{at}/value",
                f"{value} cannot be supplied: keys of additionalParams are letters, digits and '_'",
            )
    elif parameter.get("data-type") == "BOOLEAN" and value.lower() not in ("true", "false"):
        yield _truth(ctx, f"{at}/value", value)


def _truth(ctx: Context, place: str, value: str) -> Problem:
    return ctx.problem(
        "silent",
        "boolean-text",
        place,
        f"{value!r} is true for OSM, as is every text but 'false'; allowed: 'true', 'false'",
    )


def _config(ctx: Context, place: str, primitive: Document, charm: Charm) -> Iterator[Problem]:
    for at, parameter in numbered(f"{place}/parameter", primitive.get("parameter")):
        if parameter.get("data-type", "STRING") != "STRING" or (
            "value" in parameter and not isinstance(parameter["value"], str)
        ):
            yield ctx.problem(
                "silent",
                "config-string",
                at,
                "libjuju raises for a `config` value that is not text; "
                "allowed: data-type STRING and a quoted value",
            )
        if parameter["name"] not in charm.options():
            yield ctx.problem(
                "silent",
                "config-option",
                f"{at}/name",
                f"charm {charm.name} has no option {parameter['name']!r}; allowed: "
                + ", ".join(sorted(charm.options())),
            )


@rule("vnfd")
def operator_primitives(ctx: Context) -> Iterator[Problem]:
    """Config primitives against the charm."""
    for where, entry in ctx.day12():
        seen: set[str] = set()
        for place, primitive in numbered(
            f"{where}/config-primitive", entry.get("config-primitive")
        ):
            if primitive["name"] in seen:
                yield ctx.problem(
                    "refused", "duplicate-primitive", place, f"{primitive['name']!r} is there twice"
                )
            seen.add(primitive["name"])
            charm = _charm_for(ctx, entry, primitive)
            if charm is not None:
                yield from _against_action(ctx, place, primitive, charm, "default-value")


def _against_action(
    ctx: Context, place: str, primitive: Document, charm: Charm, key: str
) -> Iterator[Problem]:
    name = primitive.get("execution-environment-primitive") or primitive["name"]
    if name not in charm.actions:
        yield ctx.problem(
            "silent",
            "action-missing",
            f"{place}/name",
            f"charm {charm.name} has no action {name!r}; allowed: "
            + ", ".join(sorted(charm.actions)),
        )
        return
    action = charm.actions[name] or {}
    schemas = action.get("params") or {}
    given = {p["name"]: p for p in primitive.get("parameter") or ()}
    for required in action.get("required") or ():
        if required not in given:
            yield ctx.problem(
                "silent",
                "action-required",
                place,
                f"action {name} requires the parameter {required!r}",
            )
    for at, parameter in numbered(f"{place}/parameter", primitive.get("parameter")):
        if parameter["name"] not in schemas:
            yield ctx.problem(
                "silent",
                "action-parameter",
                f"{at}/name",
                f"action {name} has no parameter {parameter['name']!r}; allowed: "
                + (", ".join(sorted(schemas)) or "none"),
            )
            continue
        schema = schemas[parameter["name"]] or {}
        yield from _typed(ctx, at, parameter, schema, key)


def _typed(
    ctx: Context, at: str, parameter: Document, schema: Document, key: str
) -> Iterator[Problem]:
    kind = parameter.get("data-type", "STRING")
    wanted = schema.get("type", "string")
    if wanted not in SCHEMA_TYPES[kind]:
        yield ctx.problem(
            "silent",
            "action-type",
            f"{at}/data-type",
            f"OSM sends {kind}, the action takes {wanted}",
        )
        return
    value = parameter.get(key)
    if key == "default-value" and not parameter.get("mandatory") and value in (None, ""):
        yield ctx.problem(
            "silent",
            "default-empty",
            at,
            f"{parameter['name']!r} is optional but has no non-empty default-value, "
            "so NBI demands it",
        )
    if value is None or (isinstance(value, str) and (WHOLE.match(value) or value == "")):
        return
    reason = _misfit(value, kind, schema)
    if reason:
        yield ctx.problem("silent", "action-value", f"{at}/{key}", reason)
    if kind == "BOOLEAN" and str(value).lower() not in ("true", "false"):
        yield _truth(ctx, f"{at}/{key}", str(value))


def _misfit(value: Any, kind: str, schema: Document) -> str:
    """Say why a value does not fit an action's schema, "" where it does."""
    if kind == "INTEGER":
        try:
            number = int(str(value))
        except ValueError:
            return f"{value!r} is not an integer"
        low, high = schema.get("minimum", number), schema.get("maximum", number)
        if not low <= number <= high:
            return f"{number} is out of range; allowed: {low} to {high}"
    elif kind == "STRING" and schema.get("enum") and value not in schema["enum"]:
        return f"{value!r} is unknown; allowed: {', '.join(map(str, schema['enum']))}"
    return ""


def _environments(where: str, entry: Document) -> list[tuple[str, Document]]:
    return numbered(f"{where}/execution-environment-list", entry.get("execution-environment-list"))


def _primitives(where: str, entry: Document) -> list[tuple[str, Document]]:
    kinds = ("initial-config-primitive", "terminate-config-primitive", "config-primitive")
    return [item for kind in kinds for item in numbered(f"{where}/{kind}", entry.get(kind))]


def _charm_for(ctx: Context, entry: Document, primitive: Document) -> Charm | None:
    """Return the charm a primitive runs on: that of its reference, else of the first."""
    listed = entry.get("execution-environment-list") or []
    reference = primitive.get("execution-environment-ref")
    for environment in listed:
        if reference in (None, environment["id"]) and (environment.get("juju") or {}).get("charm"):
            return ctx.charm(environment["juju"]["charm"])
    return None


def _points(body: Document) -> set[str]:
    return {str(point["id"]) for point in body.get("ext-cpd") or ()}
