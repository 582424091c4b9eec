"""A model: the document that the controller stores on disk, as pydantic models.

There is one document per model, and it is replaced as a whole. So a hook's effects on databags,
charm state and the unit's own progress become visible together or not at all.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from builder.declarations import OptionValue, Role

Life = Literal["alive", "dying"]
OpKind = Literal["continue", "run-hook", "upgrade"]


class Document(BaseModel):
    """Base of all stored parts; a key that only an earlier version had is left out."""

    model_config = ConfigDict(extra="ignore", defer_build=True)


class StatusInfo(Document):
    """A status word, its message and when it was set (seconds since the epoch)."""

    status: str = "unknown"
    message: str = ""
    since: float = 0.0


class Databag(Document):
    """Settings with a version that grows with each real change (Juju's transaction revision)."""

    version: int = 0
    data: dict[str, str] = Field(default_factory=dict)

    def replace(self, data: dict[str, str]) -> bool:
        """Replace the settings by `data`; return whether anything changed."""
        if data == self.data:
            return False
        self.data = dict(data)
        self.version += 1
        return True


class Endpoint(Document):
    """One end of a relation."""

    app: str
    name: str
    role: Role
    interface: str

    def __str__(self) -> str:
        """Return `application:endpoint`."""
        return f"{self.app}:{self.name}"


class Relation(Document):
    """A relation between two applications, or of one with itself (peer)."""

    id: int
    endpoints: list[Endpoint]
    life: Life = "alive"
    units: dict[str, Databag] = Field(default_factory=dict)
    """Unit databags. They stay readable after their unit left, as in Juju."""
    apps: dict[str, Databag] = Field(default_factory=dict)
    in_scope: list[str] = Field(default_factory=list)
    departing: list[str] = Field(default_factory=list)
    """Units still in scope that others already see as gone (a dying unit)."""

    @property
    def is_peer(self) -> bool:
        return len(self.endpoints) == 1

    @property
    def key(self) -> str:
        """Juju's relation key: requirer before provider."""
        order = {"requirer": 0, "provider": 1, "peer": 2}
        return " ".join(str(e) for e in sorted(self.endpoints, key=lambda e: order[e.role]))

    def endpoint_of(self, app: str) -> Endpoint:
        return next(e for e in self.endpoints if e.app == app)

    def other_app(self, app: str) -> str:
        """Return the application at the other end; of a peer relation, `app` itself."""
        return next((e.app for e in self.endpoints if e.app != app), app)

    def involves(self, app: str) -> bool:
        return any(e.app == app for e in self.endpoints)


class HookInfo(Document):
    """A hook to be run: its kind and, for relation hooks, the relation and unit."""

    kind: str  # Juju's hook kind: install, config-changed, relation-joined, ...
    relation_id: int | None = None
    remote_unit: str = ""
    remote_app: str = ""
    change_version: int = 0
    departing_unit: str = ""


class Operation(Document):
    """Progress of a unit's agent. After a crash an unfinished hook is run again."""

    kind: OpKind = "continue"
    hook: HookInfo | None = None
    context_id: str = ""
    """Set while a process runs in that context: after a crash the next start kills what is left."""
    failed: bool = False
    attempts: int = 0
    error: str = ""  # Message about a failed hook in `status`.


class UnitRelation(Document):
    """What a unit knows about a relation from its hooks so far."""

    created: bool = False
    members: dict[str, int] = Field(default_factory=dict)
    apps: dict[str, int] = Field(default_factory=dict)
    changed_pending: str = ""


class Unit(Document):
    """A unit and its agent's progress."""

    name: str
    app: str
    number: int
    machine: int
    address: str
    life: Life = "alive"
    agent_restarted: bool = False
    """Whether the unit's agent was started again since it unpacked the charm."""
    charm_revision: int | None = None
    """Revision unpacked in the unit's charm folder; None before the first."""
    installed: bool = False
    started: bool = False
    stopped: bool = False
    removed: bool = False
    leader: bool = False  # Whether leader-elected has run in the present term of leadership.
    leader_settings_seen: bool = False
    """Whether leader-settings-changed has run: in Juju once, even if the leader sets none."""
    config_seen: str = ""
    update_status_seen: int = 0
    status_set: bool = False
    operation: Operation = Field(default_factory=Operation)
    hooks: dict[str, HookInfo] = Field(default_factory=dict)
    """The last run of each hook that succeeded, in their order, for a replay."""
    running_action: str = ""
    pending_actions: list[str] = Field(default_factory=list)
    relations: dict[int, UnitRelation] = Field(default_factory=dict)
    workload: StatusInfo = Field(
        default_factory=lambda: StatusInfo(status="waiting", message="waiting for machine")
    )
    agent: StatusInfo = Field(default_factory=lambda: StatusInfo(status="allocating"))


class Application(Document):
    """An application: its charm, options and leadership."""

    name: str
    charm_name: str
    charm_revision: int
    life: Life = "alive"
    config: dict[str, OptionValue] = Field(default_factory=dict)
    """Options that were set; defaults stay in the charm."""
    leader: str = ""
    next_unit: int = 0
    next_charm_revision: int = 0


class ModelDocument(Document):
    """The whole model."""

    uuid: str
    apps: dict[str, Application] = Field(default_factory=dict)
    units: dict[str, Unit] = Field(default_factory=dict)
    relations: dict[int, Relation] = Field(default_factory=dict)
    next_relation: int = 0
    next_machine: int = 0
    next_action: int = 1
    update_status_version: int = 0

    def units_of(self, app: str) -> list[Unit]:
        """Return the units of `app` in the order of their numbers."""
        return sorted((u for u in self.units.values() if u.app == app), key=lambda u: u.number)

    def relations_of(self, app: str) -> list[Relation]:
        """Return the relations `app` is in, oldest first."""
        return [r for _, r in sorted(self.relations.items()) if r.involves(app)]


class ActionDocument(Document):
    """A queued action, and its result when it has ended.

    `results` contains only the values that the charm set with action-set. `message` is the text of
    action-fail, or the reason of a failure outside the charm. The output of the process is in the
    unit's log.
    """

    id: str
    unit: str
    name: str
    params: dict[str, object] = Field(default_factory=dict)
    status: Literal["pending", "running", "completed", "failed"] = "pending"
    message: str = ""
    results: dict[str, Any] = Field(default_factory=dict)
    completed: float | None = None
