"""Add, find, upgrade and remove applications and their units in the model document.

Pure functions of the document; errors have Juju's texts.
"""

from lab.errors import NotFoundError, VcaError
from lab.vca import relations
from lab.vca.charm import Charm
from lab.vca.state import Application, Endpoint, ModelDocument, Unit

MAX_UNITS = 250
"""Units that a model can have in its life: each gets its own address of 252.0.0.0/24."""


def find(document: ModelDocument, app: str) -> Application:
    """Return an application; raises NotFoundError if there is none of that name."""
    try:
        return document.apps[app]
    except KeyError:
        raise NotFoundError(f'application "{app}" not found') from None


def find_alive(document: ModelDocument, app: str) -> Application:
    """Return an application; raises NotFoundError if there is none or it is being removed."""
    application = find(document, app)
    if application.life == "dying":
        raise NotFoundError(f'application "{app}" not found or not alive')
    return application


def find_leader(document: ModelDocument, app: str) -> Unit:
    """Return the unit that leads an application; raises NotFoundError if there is none."""
    leader = find(document, app).leader
    if not leader:
        raise NotFoundError(f'could not determine leader for "{app}": not found')
    return document.units[leader]


def find_unit(document: ModelDocument, unit: str) -> Unit:
    """Return a unit; raises NotFoundError if there is none of that name."""
    try:
        return document.units[unit]
    except KeyError:
        raise NotFoundError(f'unit "{unit}" not found') from None


def add_peers(document: ModelDocument, app: str, charm: Charm) -> None:
    """Add the peer relations of a charm that its application does not have yet."""
    present = {r.endpoints[0].name for r in document.relations_of(app) if r.is_peer}
    for name, spec in charm.metadata.peers.items():
        if name not in present:
            relations.create(
                document, [Endpoint(app=app, name=name, role="peer", interface=spec.interface)]
            )


def add_units(document: ModelDocument, app: str, count: int) -> list[str]:
    """Add units to an application; return their names."""
    if count < 0:
        raise VcaError(f"cannot add {count} units: the number must not be negative")
    if document.next_machine + count > MAX_UNITS:
        raise VcaError(f"a model can have {MAX_UNITS} units in its life, no more")
    names = []
    for _ in range(count):
        number, machine = document.apps[app].next_unit, document.next_machine
        unit = Unit(
            name=f"{app}/{number}",
            app=app,
            number=number,
            machine=machine,
            address=f"252.0.0.{machine + 1}",
            update_status_seen=document.update_status_version,
        )
        document.units[unit.name] = unit
        document.apps[app].next_unit += 1
        document.next_machine += 1
        names.append(unit.name)
    return names


def check_upgrade(document: ModelDocument, app: Application, charm: Charm) -> None:
    """Refuse a revision of another charm, or one that lacks an endpoint in use."""
    if charm.metadata.name != app.charm_name:
        raise VcaError(
            f'cannot upgrade application "{app.name}" from charm "{app.charm_name}" '
            f'to charm "{charm.metadata.name}"'
        )
    declared = {(role, name, spec.interface) for role, name, spec in charm.metadata.endpoints()}
    for relation in document.relations_of(app.name):
        end = relation.endpoint_of(app.name)
        if (end.role, end.name, end.interface) not in declared:
            raise VcaError(
                f'cannot upgrade application "{app.name}": would break relation "{relation.key}"'
            )


def elect(document: ModelDocument) -> None:
    """Give each application whose leader was removed another one, if a unit can lead.

    In Juju the first unit that claims the lease leads. The lab does not wait until a lease ends
    (30 to 60 s in Juju).
    """
    for app in document.apps.values():
        if app.leader not in document.units:
            able = (u.name for u in document.units_of(app.name) if u.life == "alive")
            app.leader = next(able, "")


def set_dying(document: ModelDocument, unit: Unit) -> None:
    """Mark a unit as dying: other units see it as gone while it runs its last hooks."""
    unit.life = "dying"
    for relation in document.relations.values():
        if unit.name in relation.in_scope and unit.name not in relation.departing:
            relation.departing.append(unit.name)


def remove_unit(document: ModelDocument, name: str) -> None:
    """Remove a unit from the model; with its last unit a dying application is removed, too."""
    unit = document.units.pop(name)
    for relation in list(document.relations.values()):
        if relation.involves(unit.app):
            relations.leave_scope(document, relation, unit)
    app = document.apps[unit.app]
    if app.life == "dying" and not document.units_of(app.name):
        remove_application(document, app.name)
    elect(document)


def remove_application(document: ModelDocument, name: str) -> None:
    """Remove an application without units from the model, with its relations."""
    for relation in document.relations_of(name):
        if relation.is_peer:
            document.relations.pop(relation.id)
        else:
            relation.life = "dying"
            relations.drop_if_over(document, relation)
    document.apps.pop(name)
