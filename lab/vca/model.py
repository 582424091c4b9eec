"""A model: applications, relations, options and actions, and the agents that run the charms."""

import contextlib
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from builder.declarations import NAME, Action, OptionValue
from lab.errors import (
    AgentEndedError,
    ModelBusyError,
    NotFoundError,
    VcaError,
    WaitTimeoutError,
)
from lab.vca import applications, process, relations
from lab.vca import charm as charms
from lab.vca.agent import UnitAgent
from lab.vca.charm import Charm
from lab.vca.events import Callback, Publisher
from lab.vca.resolver import replay
from lab.vca.runtime import Paths, Runtime, Settings
from lab.vca.state import (
    ActionDocument,
    Application,
    Endpoint,
    ModelDocument,
)
from lab.vca.status import ModelStatus, model_status, show_unit
from lab.vca.store import ProcessLock, Store
from lab.vca.unitlog import close_log, open_log

INCOMING = ".incoming-"


class Model:
    """One Juju model. Get it from a Controller.

    The model is on disk. Any process may change it; between `start` and `stop` this process runs
    the hooks that follow from the changes. Only one process at a time may change or run a model:
    others wait for it, up to `lock_timeout`, and then get ModelBusyError.
    """

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        tools: Path,
        python_bin: Path,
        exec_prefix: Sequence[str],
    ) -> None:
        self.uuid = directory.name
        self.paths = Paths(directory)
        self._settings = settings
        self._store = Store(directory)
        self._process_lock = ProcessLock(directory / "lock")
        self._log = open_log(directory / "logs" / "model.log", "model")
        self._publisher = Publisher(self._log)
        self._agents: dict[str, UnitAgent] = {}
        self._runtime = Runtime(
            store=self._store,
            settings=settings,
            paths=self.paths,
            tools=tools,
            python_bin=python_bin,
            exec_prefix=tuple(exec_prefix),
            slots=threading.Semaphore(settings.parallel),
            publisher=self._publisher,
            log=self._log,
        )
        self._mutex = threading.RLock()
        self.running = False  # Whether this process runs the model's agents.

    # -- running ----------------------------------------------------------------------------

    def __enter__(self) -> "Model":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Run the agents in this process; they repeat hooks that a killed process left unfinished.

        Raises ModelBusyError if another process runs the model for longer than `lock_timeout`.
        """
        with self._mutex:
            if self.running:
                return
            self._acquire()
            try:
                self._clear_leftovers()
                self.running = True
                with self._store.transaction() as document:
                    for unit in document.units.values():
                        unit.operation.context_id = ""
                        unit.operation.attempts = 0
                self._spawn()
            except BaseException:
                self.running = False
                self._release()
                raise

    def stop(self, kill: bool = False) -> None:
        """Stop the agents. Running hooks may finish, up to `stop_timeout`; then they are killed.

        The next start runs a killed hook again; a killed action has failed.
        """
        with self._mutex:
            if not self.running:
                return
            agents = list(self._agents.values())
            with self._store.changed:
                for agent in agents:
                    agent.stop()
                self._store.changed.notify_all()
            deadline = time.monotonic() + (0.0 if kill else self._settings.stop_timeout)
            for agent in agents:
                agent.thread.join(max(0.0, deadline - time.monotonic()))
            while alive := [agent for agent in agents if agent.thread.is_alive()]:
                for agent in alive:
                    # Repeat it: a hook may have started just after the first kill.
                    agent.kill_hook()
                    agent.thread.join(0.05)
            self._agents.clear()
            self.running = False
            self._release()

    def _acquire(self) -> None:
        self._process_lock.acquire(self._settings.lock_timeout)
        try:
            self._store.load()
        except BaseException:
            self._process_lock.release()
            raise

    def _release(self) -> None:
        self._store.unload()
        self._process_lock.release()

    def _clear_leftovers(self) -> None:
        contexts = frozenset(
            unit.operation.context_id
            for unit in self._store.document.units.values()
            if unit.operation.context_id
        )
        interrupted = any(u.running_action for u in self._store.document.units.values())
        if contexts or interrupted:
            # An action's context is not recorded: after an interrupted action kill all processes.
            killed = process.end_leftovers(self.paths.units, None if interrupted else contexts)
            if killed:
                self._log.warning("ended processes of an interrupted run: %s", killed)
        shutil.rmtree(self.paths.contexts, ignore_errors=True)
        for folder in (self.paths.model / "charms").glob(f"{INCOMING}*"):
            owner = folder.name.removeprefix(INCOMING).partition("-")[0]
            if not Path("/proc", owner).exists():
                shutil.rmtree(folder, ignore_errors=True)

    def _spawn(self) -> None:
        """Start an agent for each unit without one."""
        if not self.running:
            return
        with self._store.lock:
            for name in self._store.document.units:
                known = self._agents.get(name)
                if known is None or not (known.thread.is_alive() or known.fault):
                    self._agents[name] = agent = UnitAgent(self._runtime, name)
                    agent.thread.start()

    @contextlib.contextmanager
    def _edit(self) -> Iterator[ModelDocument]:
        """Change the model; if this process does not run it, take the process lock for it."""
        with self._mutex:
            if self.running:
                with self._store.transaction() as document:
                    yield document
                return
            self._acquire()
            try:
                with self._store.transaction() as document:
                    yield document
            finally:
                self._release()

    def _view(self) -> ModelDocument:
        """Return a copy of the document, also if another process runs the model."""
        with self._store.lock:
            if self._store.loaded:
                return self._store.document.model_copy(deep=True)
        return self._store.read()

    # -- applications -----------------------------------------------------------------------

    def deploy(self, app: str, charm_dir: Path | str, num_units: int = 1) -> list[str]:
        """Add an application from a charm folder; return the names of its units.

        If the name or the folder is refused, the model does not change.
        """
        if not NAME.match(app):
            raise VcaError(f'invalid application name "{app}"')
        # Copy before locking the model: a charm with its libraries is thousands of files.
        with self._incoming(Path(charm_dir)) as (folder, charm):
            if charm.metadata.subordinate:
                raise VcaError(f"{charm_dir}: subordinate charms are not supported")
            with self._edit() as document:
                if app in document.apps:
                    raise VcaError(f'cannot add application "{app}": application already exists')
                self._keep(folder, app, 0)
                document.apps[app] = Application(
                    name=app,
                    charm_name=charm.metadata.name,
                    charm_revision=0,
                    next_charm_revision=1,
                )
                applications.add_peers(document, app, charm)
                names = applications.add_units(document, app, num_units)
                applications.elect(document)
        self._spawn()
        return names

    @contextlib.contextmanager
    def _incoming(self, charm_dir: Path) -> Iterator[tuple[Path, Charm]]:
        """Yield a copy of a charm folder; remove it afterwards if it was not moved away."""
        folder = self.paths.model / "charms" / f"{INCOMING}{os.getpid()}-{secrets.token_hex(8)}"
        try:
            for warning in charms.pack(charm_dir, folder):
                self._log.warning("%s", warning)
            yield folder, charms.read_charm(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _keep(self, folder: Path, app: str, revision: int) -> None:
        package = self.paths.package(app, revision)
        if package.exists():
            shutil.rmtree(package)  # of a removed application with the same name
        folder.rename(package)

    def remove_application(self, app: str) -> None:
        """Remove an application: its units break their relations, stop and are removed."""
        with self._edit() as document:
            application = applications.find(document, app)
            application.life = "dying"
            units = document.units_of(app)
            for unit in units:
                applications.set_dying(document, unit)
            for relation in document.relations_of(app):
                if not relation.is_peer:
                    relation.life = "dying"
                    relations.drop_if_over(document, relation)
            if not units:
                applications.remove_application(document, app)

    def upgrade_charm(self, app: str, charm_dir: Path | str) -> int:
        """Add a new revision of an application's charm; return its number.

        Units run upgrade-charm and config-changed when they are next idle, which a unit in error
        is not. Another charm is refused, and one that lacks an endpoint in use.
        """
        with self._incoming(Path(charm_dir)) as (folder, charm), self._edit() as document:
            application = applications.find_alive(document, app)
            applications.check_upgrade(document, application, charm)
            revision = application.next_charm_revision
            self._keep(folder, app, revision)
            application.charm_revision = revision
            application.next_charm_revision = revision + 1
            application.config = {
                name: value for name, value in application.config.items() if name in charm.options
            }
            applications.add_peers(document, app, charm)
        return revision

    def set_config(self, app: str, options: Mapping[str, OptionValue]) -> None:
        """Set options. Text is converted to the option's type, as Juju's API does.

        After an unknown option or a wrong value none is changed. An unchanged value causes no
        config-changed.
        """
        with self._edit() as document:
            application = applications.find_alive(document, app)
            charm = self._runtime.charm_of(application)
            parsed = {name: charm.parsed(name, value) for name, value in options.items()}
            application.config.update(parsed)

    # -- relations --------------------------------------------------------------------------

    def add_relation(self, first: str, second: str) -> int:
        """Relate two endpoints (`application:endpoint`); return the relation's number."""
        with self._edit() as document:
            one, other = self._endpoint(document, first), self._endpoint(document, second)
            relations.check_pair(document, one[0], other[0])
            for end, limit in (one, other):
                relations.check_limit(document, end, limit)
            return relations.create(document, [one[0], other[0]]).id

    def _endpoint(self, document: ModelDocument, text: str) -> tuple[Endpoint, int | None]:
        """Return an end of a relation, and how many relations it may have (None: any number)."""
        app, _, name = text.partition(":")
        charm = self._runtime.charm_of(applications.find_alive(document, app))
        return relations.find_endpoint(charm, app, name)

    # -- actions ----------------------------------------------------------------------------

    def actions(self, app: str) -> dict[str, Action]:
        return dict(self._runtime.charm_of(applications.find(self._view(), app)).actions)

    def enqueue_action(
        self, target: str, name: str, params: Mapping[str, object] | None = None
    ) -> str:
        """Queue an action for a unit, or for the leader of an application; return its id.

        An action the charm does not have is refused, and parameters that do not match its schema.
        """
        with self._edit() as document:
            unit = (
                applications.find_unit(document, target)
                if "/" in target
                else applications.find_leader(document, target)
            )
            declared = self._runtime.charm_of_unit(document, unit).actions.get(name)
            if declared is None:
                raise NotFoundError(f'action "{name}" not defined on unit "{unit.name}"')
            action = ActionDocument(
                id=str(document.next_action),
                unit=unit.name,
                name=name,
                params=charms.complete(declared, params or {}),
            )
            document.next_action += 1
            self._store.save_action(action)
            unit.pending_actions.append(action.id)
        return action.id

    def run_action(
        self,
        target: str,
        name: str,
        params: Mapping[str, object] | None = None,
        timeout: float = 600.0,
    ) -> ActionDocument:
        """Queue an action and wait for its end.

        Raises WaitTimeoutError; the action stays queued or running then, as in Juju.
        """
        return self.wait_action(self.enqueue_action(target, name, params), timeout)

    def forget_action(self, action_id: str) -> None:
        """Delete the record of an action that has ended."""
        self._store.delete_action(action_id)

    def action(self, action_id: str) -> ActionDocument | None:
        """Return an action, or None if it has not ended."""
        action = self._store.load_action(action_id)
        return action if action.completed is not None else None

    def wait_action(self, action_id: str, timeout: float) -> ActionDocument:
        """Wait for the end of an action. Raises WaitTimeoutError and AgentEndedError."""
        deadline = time.monotonic() + timeout
        with self._store.changed:
            while (result := self.action(action_id)) is None:
                left = deadline - time.monotonic()
                queued = self._store.load_action(action_id)
                self._check_agents(queued.unit)
                if left <= 0:
                    raise WaitTimeoutError(
                        f"action {queued.name} of {queued.unit} is still {queued.status} "
                        f"after {timeout:g} s"
                    )
                self._store.changed.wait(left)
        return result

    # -- looking and waiting ----------------------------------------------------------------

    def status(self) -> ModelStatus:
        """Return the status, also of a model another process runs."""
        return model_status(self._view())

    def show_unit(self, unit: str) -> dict[str, Any]:
        """Return what `juju show-unit` shows: leadership, relations and their databags."""
        document = self._view()
        return show_unit(document, applications.find_unit(document, unit))

    def log_path(self, unit: str) -> Path:
        return self.paths.log(unit)

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Call `callback` with each Event while the model runs here; return its unsubscriber."""
        return self._publisher.subscribe(callback)

    def wait_for(
        self, predicate: Callable[[ModelStatus], bool], timeout: float, app: str = ""
    ) -> ModelStatus:
        """Wait until `predicate` is true; return the status for which it is.

        Raises WaitTimeoutError, and AgentEndedError if the agent of a unit, or of a unit of `app`,
        has ended.
        """
        deadline = time.monotonic() + timeout
        with self._store.changed:
            while True:
                status = self.status()
                if predicate(status):
                    return status
                self._check_agents(app)
                left = deadline - time.monotonic()
                if left <= 0:
                    raise WaitTimeoutError(f"the condition did not come about within {timeout:g} s")
                # Check again without a notification: another process may run the model.
                self._store.changed.wait(min(left, 0.2))

    def wait_idle(self, timeout: float, retries: bool = True) -> ModelStatus:
        """Wait until no agent has anything to do; return the status then.

        Raises WaitTimeoutError, naming the unfinished work, and AgentEndedError. A failed hook is
        unfinished work; without `retries` only until its next repetition has failed too.
        """
        deadline = time.monotonic() + timeout
        with self._store.changed:
            while busy := self._busy(retries):
                self._check_agents()
                left = deadline - time.monotonic()
                if left <= 0:
                    unfinished = "; ".join(f"{name}: {what}" for name, what in sorted(busy.items()))
                    raise WaitTimeoutError(f"not idle after {timeout:g} s: {unfinished}")
                # Check again without a notification: a retry may become due.
                self._store.changed.wait(min(left, 1.0))
            return model_status(self._store.document)

    def _check_agents(self, of: str = "") -> None:
        """Raise AgentEndedError if an agent has ended (`of`: the unit's, or the application's)."""
        for name, agent in self._agents.items():
            asked = of in ("", name, name.rpartition("/")[0])
            if agent.fault and asked and name in self._store.document.units:
                raise AgentEndedError(agent.fault)

    def _busy(self, retries: bool) -> dict[str, str]:
        document = self._store.document
        result = {}
        for name, unit in document.units.items():
            agent = self._agents.get(name)
            what = agent.busy(document, unit, retries) if agent else "about to start"
            if what:
                result[name] = what
        return result

    # -- faults and upkeep ------------------------------------------------------------------

    def update_status(self) -> None:
        """Let every unit run update-status (Juju does every 5 minutes)."""
        with self._edit() as document:
            document.update_status_version += 1

    def replay(self, unit: str, event: str = "", shell: Sequence[str] = ()) -> str:
        """Let a unit run a hook again as it is recorded, or an action by its number.

        Without an event it is the failed hook, else the last one. A `shell` is a command that runs
        once on this process's terminal in place of the charm. Call this before `start`, which runs
        a failed hook at once. Returns the name of the hook or action. An event without a record is
        refused, and one that cannot come again now.
        """
        if event.isdigit():
            record = self._store.load_action(event)
            if record.unit != unit:
                raise NotFoundError(f'action "{event}" is one of unit "{record.unit}"')
            self.enqueue_action(unit, record.name, record.params)
            name = record.name
        else:
            with self._edit() as document:
                name = replay(document, applications.find_unit(document, unit), event)
        if shell:
            self._runtime.shells[unit, name] = shell
        return name

    # -- for the controller -----------------------------------------------------------------

    def destroy(self, timeout: float, force: bool) -> None:
        """Remove the model with everything on disk (used by Controller.destroy_model)."""
        with self._mutex:
            if not force:
                self._wind_down(timeout)
            self.stop(kill=True)
            self._process_lock.acquire(self._settings.lock_timeout)
            try:
                process.end_leftovers(self.paths.units)
                close_log(self._log)
                shutil.rmtree(self.paths.model)
            finally:
                self._process_lock.release()

    def _wind_down(self, timeout: float) -> None:
        """Run the last hooks of all charms (relation-broken, stop, remove) until `timeout`."""
        try:
            self.start()
        except (ModelBusyError, NotFoundError):
            raise
        except VcaError as error:
            self._log.warning("destroyed without its last hooks: %s", error)
            return
        try:
            for app, status in self.status().applications.items():
                if status.life == "alive":
                    self.remove_application(app)
            self.wait_for(lambda now: not now.applications, timeout)
        except (WaitTimeoutError, AgentEndedError) as error:
            left = ", ".join(sorted(self.status().units))
            self._log.warning("destroyed while units were left: %s (%s)", left, error)
