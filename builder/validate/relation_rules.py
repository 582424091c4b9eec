"""Rules for relations; OSM does not check them, and drops Juju's errors about them."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from builder import documents
from builder.documents import DAY12
from builder.validate.charm_files import Charm, charm_of
from builder.validate.context import Context, Document, day12_of, ids, numbered, rule
from builder.validate.problem import Problem

ROLES = {"provider": "provides", "requirer": "requires"}


@dataclass(frozen=True)
class Side:
    """One end of a relation, in the same form for both ways to write it."""

    key: str  # "provider" or "requirer".
    place: str  # Path of the end in the descriptor.
    member: str  # vnf-profile-id or entity id of an NSD's relation, "" for the NS or in a VNFD.
    vdu: str  # vdu-profile-id, "" for the VNF's own entry.
    reference: str | None  # execution-environment-ref, None for the first.
    endpoint: str | None  # Name of the endpoint, None if it is missing.


@dataclass(frozen=True)
class Found:
    """The charm of an end; None if its package is not available, so it cannot be checked."""

    charm: Charm | None


Finder = Callable[[Side], Generator[Problem, None, Found | None]]
"""Reports the problems of an end; returns its charm, None if it has none."""


@rule("nsd")
def of_services(ctx: Context) -> Iterator[Problem]:
    members = {p["id"]: p["vnfd-id"] for _, p, _ in ctx.each("df[]/vnf-profile[]")}
    for place, relation, _ in ctx.each("ns-configuration/relation[]"):
        yield from _relation(ctx, place, relation, lambda side: _in_service(ctx, side, members))


@rule("vnfd")
def of_functions(ctx: Context) -> Iterator[Problem]:
    """Relations of a VNFD must be in the day1-2 entry with the VNFD's id."""
    own = str(ctx.body["id"])
    for place, relation, (_, entry, _) in ctx.each(f"{DAY12}[]/relation[]"):
        if entry["id"] != own:
            yield ctx.tell("relation-place", place, own=own)
        else:
            yield from _relation(ctx, place, relation, lambda side: _in_function(ctx, side))


def _relation(ctx: Context, place: str, relation: Document, find: Finder) -> Iterator[Problem]:
    new = [key for key in ROLES if relation.get(key)]
    old = len(relation.get("entities") or ())
    if (len(new), old) not in ((2, 0), (0, 2)):
        yield ctx.tell("relation-form", place)
    ends = []
    for side in sides(place, relation):
        end = yield from find(side)
        ends.append((side, end))
    yield from _compared(ctx, place, ends)


def sides(place: str, relation: Document) -> list[Side]:
    """Return the ends; in the deprecated form the first entity is the provider."""
    ends = [
        Side(
            key,
            f"{place}/{key}",
            end.get("vnf-profile-id") or "",
            end.get("vdu-profile-id") or "",
            end.get("execution-environment-ref") or None,
            end.get("endpoint"),
        )
        for key in ROLES
        if (end := relation.get(key))
    ]
    entities = zip(ROLES, numbered(f"{place}/entities", relation.get("entities")), strict=False)
    return ends or [
        Side(key, at, entity["id"], "", None, entity.get("endpoint"))
        for key, (at, entity) in entities
    ]


def _in_service(
    ctx: Context, side: Side, members: dict[str, str]
) -> Generator[Problem, None, Found | None]:
    """Report the problems of an end of an NSD's relation; return Found or None."""
    own = str(ctx.body["id"])
    if not side.member or (side.member == own and own not in members):
        name = ((ctx.body.get("ns-configuration") or {}).get("juju") or {}).get("charm")
        if not name:
            yield ctx.tell("relation-member/service", side.place)
            return None
        return Found(ctx.charm(name))
    if side.member not in members:
        yield ctx.tell("relation-member/profile", side.place, side=side, may=members)
        return None
    vnfd_id = members[side.member]
    vnfd = ctx.catalog.vnfds.get(vnfd_id)
    if vnfd is None:
        return None  # another rule reports this
    entries = {entry["id"]: entry for _, entry in day12_of("", vnfd["df"][0])}
    name = yield from _environment(ctx, side, entries.get(side.vdu or vnfd_id), vnfd_id)
    package = ctx.catalog.package(vnfd_id)
    return Found(charm_of(package, name) if package and name else None) if name else None


def _in_function(ctx: Context, side: Side) -> Generator[Problem, None, Found | None]:
    """Report the problems of an end of a VNFD's relation; return Found or None."""
    own = str(ctx.body["id"])
    entity = side.vdu or side.member or own
    known = {own} | ids(ctx.body.get("vdu"))
    if entity not in known:
        yield ctx.tell("relation-member/entity", side.place, entity=entity, may=known)
        return None
    entries = {entry["id"]: entry for _, entry in ctx.day12()}
    name = yield from _environment(ctx, side, entries.get(entity), entity)
    return Found(ctx.charm(name)) if name else None


def _environment(
    ctx: Context, side: Side, entry: Document | None, whose: str
) -> Generator[Problem, None, str]:
    """Return the charm's name at an end; if there is none, report it and return ""."""
    entry = entry or {}
    if name := documents.charm_of(entry, {"execution-environment-ref": side.reference}):
        return name
    charms = documents.walk(entry, "execution-environment-list[]/juju/charm?")
    known = [environment["id"] for _, _, (environment,) in charms]
    words = {"whose": side.vdu or whose, "environment": side.reference or "with a charm"}
    yield ctx.tell("relation-ee", side.place, may=known, **words)
    return ""


def _compared(ctx: Context, place: str, ends: list[tuple[Side, Found | None]]) -> Iterator[Problem]:
    who = [(side.member, side.vdu, side.reference) for side, placed in ends if placed is not None]
    if len(who) == 2 and who[0] == who[1]:
        yield ctx.tell("relation-self", place)
    interfaces = []
    for side, placed in ends:
        if placed is None:
            continue
        if side.endpoint is None:
            yield ctx.tell("relation-endpoint/missing", side.place)
            continue
        if placed.charm is None or placed.charm.metadata is None:
            continue
        metadata, spot = placed.charm.metadata, f"{side.place}/endpoint"
        ends_of = {name: (role, end) for role, name, end in metadata.endpoints()}
        words = {"charm": placed.charm, "side": side}
        if side.endpoint not in ends_of:
            known = {*metadata.provides, *metadata.requires}
            yield ctx.tell("relation-endpoint/unknown", spot, may=known, **words)
            continue
        role, end = ends_of[side.endpoint]
        if role != side.key:
            may = getattr(metadata, ROLES[side.key])
            words |= {"role": {**ROLES, "peer": "peers"}[role], "wanted": ROLES[side.key]}
            yield ctx.tell("relation-role", spot, may=may, **words)
        interfaces.append(end.interface)
    if len(set(interfaces)) == 2:
        yield ctx.tell("relation-interface", place, interfaces=interfaces)
