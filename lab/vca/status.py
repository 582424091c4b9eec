"""The status of a model, typed, and the view `juju show-unit` gives of a unit."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from lab.errors import NotFoundError
from lab.vca.state import Application, ModelDocument, StatusInfo, Unit
from lab.vca.store import Store, models_folder

# Worst first: Juju derives an application's status from its units' if its leader sets none.
_SEVERITY = (
    "error",
    "blocked",
    "waiting",
    "maintenance",
    "active",
    "terminated",
    "unknown",
)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, defer_build=True)


class UnitStatus(_Frozen):
    """A unit as `juju status` shows it."""

    name: str
    workload: str
    message: str
    agent: str
    agent_message: str
    leader: bool
    machine: int
    since: float = 0.0
    """When the charm set its status last, seconds since the epoch: its last look at the VDU."""


class ApplicationStatus(_Frozen):
    """An application as `juju status` shows it."""

    status: str
    message: str
    life: str
    units: dict[str, UnitStatus]


class ModelStatus(_Frozen):
    """A model as `juju status` shows it."""

    applications: dict[str, ApplicationStatus]

    def said(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return what those of these applications that are there say, and when they last looked."""
        return {
            name: {
                "status": found.status,
                "message": found.message,
                "looked": min((unit.since for unit in found.units.values()), default=0.0),
            }
            for name in names
            if (found := self.applications.get(name)) is not None
        }

    @property
    def units(self) -> dict[str, UnitStatus]:
        return {n: u for app in self.applications.values() for n, u in app.units.items()}

    @property
    def failed(self) -> dict[str, str]:
        """The reason for each unit whose hook keeps failing."""
        return {
            name: unit.message or "hook failed"
            for name, unit in self.units.items()
            if unit.agent == "error"
        }


def severity(status: str) -> int:
    """Return the place of a workload status, 0 for the worst; an unknown one comes last."""
    return _SEVERITY.index(status) if status in _SEVERITY else len(_SEVERITY)


def workload_of(unit: Unit) -> StatusInfo:
    """Return the workload status to show: a failed hook hides the charm's own.

    Unlike in Juju, the error is also shown while the hook is repeated.
    """
    operation = unit.operation
    if (operation.failed or operation.attempts) and operation.error:
        return StatusInfo(status="error", message=operation.error, since=unit.agent.since)
    return unit.workload


def status_of(home: Path, uuid: str) -> ModelStatus | None:
    """Return the status of a lab's model, whoever runs it; None where there is no such model."""
    try:
        return model_status(Store(models_folder(home) / uuid).read())
    except NotFoundError:
        return None


def model_status(document: ModelDocument) -> ModelStatus:
    applications = {}
    for name, app in sorted(document.apps.items()):
        units = document.units_of(name)
        info = min(
            map(workload_of, units),
            key=lambda info: severity(info.status),
            default=StatusInfo(),
        )
        applications[name] = ApplicationStatus(
            status=info.status,
            message=info.message,
            life=app.life,
            units={u.name: _unit_status(app, u) for u in units},
        )
    return ModelStatus(applications=applications)


def _unit_status(app: Application, unit: Unit) -> UnitStatus:
    workload = workload_of(unit)
    return UnitStatus(
        name=unit.name,
        workload=workload.status,
        message=workload.message,
        agent=unit.agent.status,
        agent_message=unit.agent.message,
        leader=app.leader == unit.name,
        machine=unit.machine,
        since=workload.since,
    )


def show_unit(document: ModelDocument, unit: Unit) -> dict[str, Any]:
    """Return what `juju show-unit` prints of a unit."""
    info = []
    for relation in document.relations_of(unit.app):
        if unit.name not in relation.in_scope:
            continue
        other = relation.other_app(unit.app)
        own_app = relation.endpoint_of(unit.app)
        entry: dict[str, Any] = {
            "relation-id": relation.id,
            "endpoint": own_app.name,
            "related-endpoint": relation.endpoint_of(other).name,
            "application-data": dict(relation.apps[other].data),
            "local-unit": {"in-scope": True, "data": dict(relation.units[unit.name].data)},
        }
        related = {
            name: {"in-scope": name in relation.in_scope, "data": dict(bag.data)}
            for name, bag in sorted(relation.units.items())
            if name != unit.name and name.rpartition("/")[0] == other
        }
        if related:
            entry["related-units"] = related
        info.append(entry)
    app = document.apps[unit.app]
    return {
        "charm": f"local:{app.charm_name}-{app.charm_revision}",
        "leader": app.leader == unit.name,
        "life": unit.life,
        "machine": str(unit.machine),
        "opened-ports": [],
        "workload-version": "",
        "public-address": unit.address,
        "relation-info": info,
    }
