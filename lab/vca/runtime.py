"""What a model's agents share: settings, folders, log and limits."""

import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.vca.charm import Charm, read_charm
from lab.vca.events import Publisher
from lab.vca.state import Application, ModelDocument, Unit
from lab.vca.store import Store

JUJU_VERSION = "2.9.44"


@dataclass(frozen=True)
class Settings:
    """Limits of a controller; times in seconds."""

    parallel: int = max(4, 2 * (os.cpu_count() or 1))
    """Charm processes that may run at the same time."""
    hook_timeout: float = 1800.0
    """After this a hook is killed and counts as failed. Juju has no such limit."""
    action_timeout: float = 7200.0
    retry_start: float = 0.5
    """Wait before the first repetition of a failed hook; doubles each time (Juju: 5 s)."""
    retry_max: float = 30.0  # Longest wait between repetitions (Juju: 300 s).
    lock_timeout: float = 60.0  # How long to wait for another process that runs the model.
    stop_timeout: float = 60.0
    """How long `stop` waits before it kills running hooks (the next start repeats them)."""

    def retry_delay(self, attempts: int) -> float:
        """Return the wait after the last of so many failures in a row."""
        return min(self.retry_max, self.retry_start * 2.0 ** min(attempts - 1, 32))


@dataclass(frozen=True)
class Paths:
    """Folders of one model."""

    model: Path

    def package(self, app: str, revision: int) -> Path:
        """Return the folder in which the controller keeps a charm revision of an application."""
        return self.model / "charms" / f"{app}-{revision}"

    @property
    def units(self) -> Path:
        return self.model / "units"

    def unit(self, name: str) -> Path:
        return self.units / name.replace("/", "-")

    def charm(self, name: str) -> Path:
        return self.unit(name) / "charm"

    def home(self, name: str) -> Path:
        return self.unit(name) / "home"

    def log(self, name: str) -> Path:
        return self.model / "logs" / f"{name.replace('/', '-')}.log"

    @property
    def contexts(self) -> Path:
        return self.model / "run"


@dataclass(frozen=True)
class Runtime:
    """Shared by the agents of a model while this process runs it."""

    store: Store
    settings: Settings
    paths: Paths
    tools: Path
    python_bin: Path
    exec_prefix: Sequence[str]
    slots: threading.Semaphore
    publisher: Publisher
    log: logging.Logger
    shells: dict[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    """By unit and event: what runs once on this terminal, in place of the charm."""

    def charm_of(self, app: Application, revision: int | None = None) -> Charm:
        """Return the declarations of a charm revision, by default the application's latest."""
        revision = app.charm_revision if revision is None else revision
        return read_charm(self.paths.package(app.name, revision))

    def charm_of_unit(self, document: ModelDocument, unit: Unit) -> Charm:
        """Return the declarations of the charm a unit runs."""
        return self.charm_of(document.apps[unit.app], unit.charm_revision)
