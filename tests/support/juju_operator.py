"""What an operator of Juju or a failing machine does to a model, and LCM never does."""

from typing import Any

from lab.errors import NotFoundError, VcaError
from lab.vca import applications, relations
from lab.vca.model import Model
from lab.vca.state import ModelDocument, OptionValue


def add_units(model: Model, app: str, count: int = 1) -> list[str]:
    """Add units to an application; return their names."""
    with model._edit() as document:
        applications.find_alive(document, app)
        names = applications.add_units(document, app, count)
        applications.elect(document)
    model._spawn()
    return names


def remove_unit(model: Model, unit: str) -> None:
    """Remove a unit after its last hooks."""
    with model._edit() as document:
        applications.set_dying(document, applications.find_unit(document, unit))
        depose(document, unit)


def depose(document: ModelDocument, unit: str) -> None:
    """Let another unit lead, if there is one."""
    app = document.apps[unit.rpartition("/")[0]]
    others = [u.name for u in document.units_of(app.name) if u.life == "alive" and u.name != unit]
    if app.leader == unit and others:
        app.leader = others[0]


def config(model: Model, app: str) -> dict[str, OptionValue | None]:
    """Return the effective options of an application."""
    application = applications.find(model._view(), app)
    return model._runtime.charm_of(application).config(application.config)


def remove_relation(model: Model, first: str, second: str) -> None:
    """Remove a relation: units get relation-departed, then relation-broken."""
    with model._edit() as document:
        for relation in document.relations.values():
            ends = {str(end) for end in relation.endpoints}
            if ends == {first, second} and relation.life == "alive":
                break
        else:
            raise NotFoundError(f'relation "{first} {second}" not found')
        if relation.is_peer:
            raise VcaError(f'cannot remove relation "{relation.key}": is a peer relation')
        relation.life = "dying"
        relations.drop_if_over(document, relation)


def kill_unit_agent(model: Model, unit: str) -> None:
    """Stop a unit's agent as if its machine failed: kill its hook, elect another leader."""
    agent: Any = model._agents[unit]
    with model._edit() as document:
        agent.stop()
        depose(document, unit)
    while agent.thread.is_alive():
        agent.kill_hook()
        agent.thread.join(0.02)
    agent.busy = lambda *_: ""


def restore_unit_agent(model: Model, unit: str) -> None:
    """Restore a lost agent; it runs an interrupted hook again."""
    model._spawn()
