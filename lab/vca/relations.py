"""Relations: which endpoints match, which units are in scope, and which relation hook is next.

`next_hook` is the core of Juju's relation resolver. A unit remembers the version of each remote
databag at its last hook. The next hook comes from the difference to the present versions. So
several changes become one hook: only the latest version counts.
"""

from builder.declarations import Role
from lab.errors import NotFoundError, VcaError
from lab.vca.charm import Charm
from lab.vca.state import (
    Databag,
    Endpoint,
    HookInfo,
    ModelDocument,
    Relation,
    Unit,
    UnitRelation,
)

CREATED = "relation-created"
JOINED = "relation-joined"
CHANGED = "relation-changed"
DEPARTED = "relation-departed"
BROKEN = "relation-broken"
COUNTERPART: dict[Role, Role] = {"provider": "requirer", "requirer": "provider", "peer": "peer"}


def find_endpoint(charm: Charm, app: str, name: str) -> tuple[Endpoint, int | None]:
    """Return the endpoint `name` of `app`, whose charm is `charm`, and its `limit`."""
    for role, declared, spec in charm.metadata.endpoints():
        if declared == name:
            return Endpoint(app=app, name=name, role=role, interface=spec.interface), spec.limit
    raise NotFoundError(f'application "{app}" has no "{name}" relation')


def check_pair(document: ModelDocument, first: Endpoint, second: Endpoint) -> None:
    """Refuse a relation that exists, and one of ends that do not fit."""
    if (
        first.role == "peer"
        or COUNTERPART[first.role] != second.role
        or first.interface != second.interface
    ):
        raise NotFoundError(
            f"no relations found: {first} ({first.role} of {first.interface}) "
            f"does not fit {second} ({second.role} of {second.interface})"
        )
    key = Relation(id=0, endpoints=[first, second]).key
    if any(r.key == key for r in document.relations.values()):
        raise VcaError(f'cannot add relation "{key}": relation {key} already exists')


def check_limit(document: ModelDocument, endpoint: Endpoint, limit: int | None) -> None:
    """Refuse a relation beyond the `limit` of an endpoint."""
    if limit is None:
        return
    used = sum(
        1 for r in document.relations.values() for e in r.endpoints if str(e) == str(endpoint)
    )
    if used >= limit:
        raise VcaError(
            f"cannot add relation: establishing a new relation for {endpoint} would exceed "
            f"its maximum relation limit of {limit}"
        )


def create(document: ModelDocument, endpoints: list[Endpoint]) -> Relation:
    """Add a relation; its application databags exist from the start."""
    relation = Relation(
        id=document.next_relation,
        endpoints=endpoints,
        apps={endpoint.app: Databag() for endpoint in endpoints},
    )
    document.next_relation += 1
    document.relations[relation.id] = relation
    return relation


def enter_scope(relation: Relation, unit: Unit) -> None:
    """Add a unit to the relation's scope: from now on the units at the other end see it."""
    bag = relation.units.setdefault(unit.name, Databag())
    bag.replace(
        {
            **bag.data,
            "egress-subnets": f"{unit.address}/32",
            "ingress-address": unit.address,
            "private-address": unit.address,
        }
    )
    if unit.name not in relation.in_scope:
        relation.in_scope.append(unit.name)
    unit.relations.setdefault(relation.id, UnitRelation())


def leave_scope(document: ModelDocument, relation: Relation, unit: Unit) -> None:
    """Remove a unit from the relation's scope; a dying relation ends with its last unit."""
    if unit.name in relation.in_scope:
        relation.in_scope.remove(unit.name)
    if unit.name in relation.departing:
        relation.departing.remove(unit.name)
    unit.relations.pop(relation.id, None)
    drop_if_over(document, relation)


def drop_if_over(document: ModelDocument, relation: Relation) -> None:
    """Remove a dying relation when no unit is in scope any more."""
    if relation.life == "dying" and not relation.in_scope:
        document.relations.pop(relation.id, None)


def remote_members(relation: Relation, unit: Unit) -> dict[str, int]:
    """Return the units `unit` should see in the relation, with the versions of their databags."""
    other = relation.other_app(unit.app)
    return {
        name: relation.units[name].version
        for name in relation.in_scope
        if name != unit.name and name not in relation.departing and name.rpartition("/")[0] == other
    }


def next_hook(document: ModelDocument, unit: Unit) -> HookInfo | None:
    """Return the relation hook a unit that is otherwise idle has to run, or None.

    Juju goes through the relations in no particular order; the lab takes the oldest first.
    """
    for relation_id in sorted(unit.relations):
        relation = document.relations.get(relation_id)
        if relation is not None:
            info = _next_hook_of(document, relation, unit, unit.relations[relation_id])
            if info is not None:
                return info
    return None


def _next_hook_of(
    document: ModelDocument, relation: Relation, unit: Unit, seen: UnitRelation
) -> HookInfo | None:
    other = relation.other_app(unit.app)
    broken = unit.life == "dying" or relation.life == "dying"
    members = {} if broken else remote_members(relation, unit)

    def info(kind: str, remote_unit: str = "", version: int = 0, departing: str = "") -> HookInfo:
        return HookInfo(
            kind=kind,
            relation_id=relation.id,
            remote_unit=remote_unit,
            remote_app=remote_unit.rpartition("/")[0] if remote_unit else other,
            change_version=version,
            departing_unit=departing,
        )

    if seen.changed_pending:
        # relation-changed follows relation-joined at once, even if the unit is already leaving.
        return info(CHANGED, seen.changed_pending, members.get(seen.changed_pending, 0))
    for name in sorted(seen.members):
        if name not in members:
            leaving_here = unit.life == "dying" or document.apps[unit.app].life == "dying"
            return info(
                DEPARTED, name, seen.members[name], departing=unit.name if leaving_here else name
            )
    if broken and relation.is_peer:
        # Juju 2.9 to 4.0: an agent that was started again takes its peer relations for ordinary
        # ones, but for the name of the other application.
        return info(BROKEN).model_copy(update={"remote_app": ""}) if unit.agent_restarted else None
    if broken:
        return info(BROKEN)
    version = relation.apps[other].version
    # A leader also gets relation-changed for its own writes to a peer relation. Juju's
    # documentation says otherwise, but Juju does this and did not change it (juju issue 20178).
    if seen.apps.get(other, 0) != version:
        return info(CHANGED, "", version)
    for name in sorted(members):
        if name not in seen.members:
            return info(JOINED, name, members[name])
    for name in sorted(members):
        if seen.members[name] != members[name]:
            return info(CHANGED, name, members[name])
    return None


def record(document: ModelDocument, unit: Unit, info: HookInfo) -> None:
    relation_id = info.relation_id
    if relation_id is None or relation_id not in unit.relations:
        return
    seen = unit.relations[relation_id]
    if info.kind == CREATED:
        seen.created = True
    elif info.kind == BROKEN:
        relation = document.relations.get(relation_id)
        if relation is None:
            unit.relations.pop(relation_id)
        else:
            leave_scope(document, relation, unit)
    elif info.kind == DEPARTED:
        seen.members.pop(info.remote_unit, None)
    elif info.remote_unit:
        seen.members[info.remote_unit] = info.change_version
        seen.changed_pending = info.remote_unit if info.kind == JOINED else ""
    else:
        seen.apps[info.remote_app] = info.change_version
