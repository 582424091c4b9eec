"""The unit agent: one thread per unit that does one step after another."""

import json
import secrets
import shutil
import threading
import time
from pathlib import Path

from builder.errors import of_file
from lab.errors import VcaError
from lab.vca import applications, process, relations
from lab.vca import charm as charms
from lab.vca.context import FlushError, HookContext
from lab.vca.events import Event, EventKind
from lab.vca.python import check
from lab.vca.resolver import (
    START,
    STATUS_BEFORE,
    STOP,
    UPDATE_STATUS,
    UPGRADE_CHARM,
    Step,
    UnpackedCharm,
    config_hash,
    hook_name,
    next_step,
    queued,
    record_done,
)
from lab.vca.runtime import Runtime
from lab.vca.state import ActionDocument, HookInfo, ModelDocument, Operation, StatusInfo, Unit
from lab.vca.toolserver import ToolServer
from lab.vca.unitlog import close_log, open_log

_MOST_FAULTS = 5  # Errors of the system in a row after which an agent gives up.


class UnitAgent:
    """Runs the hooks and actions of one unit, as Juju's uniter does."""

    def __init__(self, runtime: Runtime, name: str) -> None:
        self.thread = threading.Thread(target=self._run, name=f"vca-{name}", daemon=True)
        self._runtime = runtime
        self._store = runtime.store
        self._unit_name = name
        self._app = name.rpartition("/")[0]
        self._stopping = False
        self._retry_at = 0.0
        self._faults = 0  # Errors of the system in a row.
        self.fault = ""  # Why the agent ended before its unit did.
        self._interrupt: process.Interrupt | None = None
        self.executing = False
        self._log = open_log(runtime.paths.log(name), f"unit.{name}")

    # -- control from other threads ---------------------------------------------------------

    def stop(self) -> None:
        """Do no further step. The caller notifies the store's condition."""
        self._stopping = True

    def kill_hook(self) -> None:
        """Kill the running hook or action, if any."""
        with self._store.lock:
            if self._interrupt is not None:
                self._interrupt.fire()

    def busy(self, document: ModelDocument, unit: Unit, retries: bool = True) -> str:
        """Return the unit's present or next work; empty if it is idle (store locked).

        Without ``retries`` a failed hook is work only when its repetition is due.
        """
        if self.executing or unit.agent.status == "executing":
            return unit.agent.message or "executing"
        step = next_step(document, unit, self._charm_view(document, unit))
        if self._faults:
            return "an internal error of the agent, see its log; to be repeated"
        if step is not None:
            return f"{step} to come"
        if unit.operation.failed and (retries or self._retry_due(unit)):
            return f"{unit.agent.message}, to be retried"
        return ""

    # -- the loop ---------------------------------------------------------------------------

    def _run(self) -> None:
        """Do steps until stopped or until the unit is gone; say why if it ends before."""
        reason = "no reason known"
        try:
            self._note_restart()
            while self._try_step():
                pass
        except BaseException as error:
            reason = str(error) if isinstance(error, VcaError) else repr(error)
            reason = of_file(error) if isinstance(error, OSError) else reason
            self._log.exception("the agent of %s ends", self._unit_name)
            self._runtime.log.exception("the agent of %s ends", self._unit_name)
        finally:
            with self._store.changed:
                if not self._is_over():
                    self.fault = f"the agent of {self._unit_name} has ended: {reason}"
                self._store.changed.notify_all()
            close_log(self._log)

    def _note_restart(self) -> None:
        with self._store.lock:
            unit = self._store.document.units.get(self._unit_name)
            known = unit is None or unit.charm_revision is None or unit.agent_restarted
        if not known:
            with self._store.transaction() as document:
                document.units[self._unit_name].agent_restarted = True

    def _try_step(self) -> bool:
        """Do one step; after an error of the system, such as a full disk, wait and try again.

        The next attempt begins with what is recorded, as Juju's agent does after its restart.
        """
        try:
            going_on = self._one_step()
        except OSError:
            self._faults += 1
            if self._faults == _MOST_FAULTS:
                raise
            delay = self._runtime.settings.retry_delay(self._faults)
            message = "internal error in the agent of %s, to be repeated in %g s"
            self._log.exception(message, self._unit_name, delay)
            self._runtime.log.exception(message, self._unit_name, delay)
            with self._store.changed:
                self._store.changed.wait_for(self._is_over, delay)
            return True
        self._faults = 0
        return going_on

    def _is_over(self) -> bool:
        return self._stopping or self._unit_name not in self._store.document.units

    def _one_step(self) -> bool:
        if not self._wait_for_step():
            return False
        slot = self._runtime.slots
        while not slot.acquire(timeout=0.2):
            if self._stopping:
                return False
        try:
            with self._store.lock:
                # The next step may have changed during the wait for a slot.
                step = None if self._stopping else self._next()
                self.executing = step is not None
            if step is not None:
                self._execute(step)
        finally:
            with self._store.changed:
                self.executing = False
                self._store.changed.notify_all()
            slot.release()
        return True

    def _wait_for_step(self) -> bool:
        """Wait until there is a step; return False if there will be none."""
        with self._store.changed:
            while not self._is_over():
                if self._next() is not None:
                    return True
                self._note_idle()
                self._store.changed.wait(self._until_retry())
        return False

    def _next(self) -> Step | None:
        document = self._store.document
        unit = document.units[self._unit_name]
        step = next_step(document, unit, self._charm_view(document, unit))
        if step is None and self._retry_due(unit):
            return Step("hook", hook=unit.operation.hook)
        return step

    def _retry_due(self, unit: Unit) -> bool:
        return unit.operation.failed and time.monotonic() >= self._retry_at

    def _until_retry(self) -> float | None:
        unit = self._store.document.units[self._unit_name]
        if unit.operation.failed:
            return max(0.001, self._retry_at - time.monotonic())
        return None

    def _charm_view(self, document: ModelDocument, unit: Unit) -> UnpackedCharm:
        """Return the data of the unit's charm revision that its next step depends on."""
        charm = self._runtime.charm_of_unit(document, unit)
        return UnpackedCharm(
            config_digest=config_hash(charm.config(document.apps[unit.app].config)),
            endpoints=frozenset(name for _, name, _ in charm.metadata.endpoints()),
        )

    def _note_idle(self) -> None:
        unit = self._store.document.units[self._unit_name]
        if unit.operation.kind == "continue" and unit.agent.status not in ("idle", "allocating"):
            with self._store.transaction() as document:
                self._set_agent(document.units[self._unit_name], "idle", "")

    # -- steps ------------------------------------------------------------------------------

    def _execute(self, step: Step) -> None:
        if step.kind == "hook" and step.hook is not None:
            self._run_hook(step.hook)
        elif step.kind == "action":
            self._run_action(step.action_id)
        elif step.kind == "fail-action":
            self._fail_interrupted(step.action_id)
        elif step.kind in ("unpack", "upgrade"):
            self._unpack(step)
        elif step.kind == "enter-scope" and step.relation_id is not None:
            with self._store.transaction() as document:
                relations.enter_scope(
                    document.relations[step.relation_id], document.units[self._unit_name]
                )
        elif step.kind == "resign":
            with self._store.transaction() as document:
                document.units[self._unit_name].leader = False
        elif step.kind == "die":
            self._die()

    def _unpack(self, step: Step) -> None:
        with self._store.transaction() as document:
            unit = document.units[self._unit_name]
            revision = document.apps[self._app].charm_revision
            if step.kind == "upgrade":
                unit.operation = Operation(kind="upgrade")
                self._set_agent(unit, "executing", "upgrading charm")
            else:
                unit.workload = StatusInfo(
                    status="waiting", message="installing agent", since=time.time()
                )
        charms.unpack(
            self._runtime.paths.package(self._app, revision),
            self._runtime.paths.charm(self._unit_name),
        )
        self._runtime.paths.home(self._unit_name).mkdir(exist_ok=True)
        with self._store.transaction() as document:
            unit = document.units[self._unit_name]
            unit.charm_revision = revision
            if step.kind == "upgrade":
                unit.operation = queued(UPGRADE_CHARM)

    def _die(self) -> None:
        # Change the document last: after a crash the unit is still in it, and this runs again.
        for action in map(self._store.load_action, self._store.action_ids()):
            if action.unit == self._unit_name and action.completed is None:
                self._store.end_action(action, "failed", "the unit was removed")
        shutil.rmtree(self._runtime.paths.unit(self._unit_name), ignore_errors=True)
        with self._store.transaction() as document:
            applications.remove_unit(document, self._unit_name)

    # -- hooks ------------------------------------------------------------------------------

    def _run_hook(self, info: HookInfo) -> None:
        with self._store.lock:
            name = hook_name(self._store.document, self._app, info)
        context_id = self._context_id(name)
        with self._store.transaction() as document:
            unit = document.units[self._unit_name]
            before_failure = unit.operation if unit.operation.failed else Operation()
            attempts = before_failure.attempts
            unit.operation = Operation(
                kind="run-hook",
                hook=info,
                context_id=context_id,
                attempts=attempts,
                error=before_failure.error,
            )
            if info.kind != UPDATE_STATUS:
                self._set_agent(unit, "executing", f"running {name} hook")
            message = STATUS_BEFORE.get(info.kind)
            if message and (info.kind == STOP or not unit.status_set):
                unit.workload = StatusInfo(status="maintenance", message=message, since=time.time())
            context = self._context(document, unit, info, None)
        self._tell("hook-retried" if attempts else "hook-started", name)
        skipped, outcome = False, process.Outcome()
        try:
            outcome = self._run_process(f"hooks/{name}", context, context_id)
        except process.MissingHookError:
            skipped = True
        if outcome.interrupted:
            self._log.warning("%s hook was interrupted and will be run again", name)
            with self._store.transaction() as document:
                document.units[self._unit_name].operation.context_id = ""
            return
        problem = outcome.problem
        if not problem:
            try:
                self._commit_hook(name, info, context)
            except FlushError as error:
                problem = str(error)
        if problem:
            self._note_failure(name, problem)
        elif skipped:
            self._log.info("skipped %s hook (missing)", name)
        else:
            self._log.info("ran %s hook in %.2f s of processor time", name, outcome.processor)

    def _note_failure(self, name: str, problem: str) -> None:
        self._log.error('hook "%s" failed: %s', name, problem)
        with self._store.transaction() as document:
            unit = document.units[self._unit_name]
            unit.operation.failed = True
            unit.operation.attempts += 1
            unit.operation.context_id = ""
            unit.operation.error = f'hook failed: "{name}"'
            self._set_agent(unit, "error", unit.operation.error)
            self._retry_at = time.monotonic() + self._runtime.settings.retry_delay(
                unit.operation.attempts
            )
        self._tell("hook-failed", name, problem)

    def _commit_hook(self, name: str, info: HookInfo, context: HookContext) -> None:
        with self._store.transaction() as document:
            unit = document.units[self._unit_name]
            context.flush(document)
            unit.hooks.pop(name, None)
            unit.hooks[name] = info
            unit.status_set = unit.status_set or context.status_was_set
            if info.kind == STOP:
                unit.workload = StatusInfo(status="terminated", since=time.time())
            elif info.kind == START and not unit.status_set:
                unit.workload = StatusInfo(since=time.time())
            record_done(document, unit, info, config_hash(context.config))

    # -- actions ----------------------------------------------------------------------------

    def _run_action(self, action_id: str) -> None:
        action = self._store.load_action(action_id)
        context_id = self._context_id(action.name)
        action.status = "running"
        self._store.save_action(action)
        with self._store.transaction() as document:
            unit = document.units[self._unit_name]
            unit.pending_actions.remove(action_id)
            unit.running_action = action_id
            agent_before = unit.agent.model_copy()
            failed = unit.operation.failed
            self._set_agent(unit, "executing", f"running action {action.name}")
            context = self._context(document, unit, None, action)
        self._tell("action-started", action.name)
        try:
            outcome = self._run_process(f"actions/{action.name}", context, context_id)
        except process.MissingHookError:
            missing = f'action not implemented on unit "{self._unit_name}"'
            outcome = process.Outcome(problem=missing)
        problem = "action terminated" if outcome.interrupted else outcome.problem
        self._conclude(action, context, problem, agent_before if failed else None)
        self._log.info(
            "ran action %s (%s): %s, in %.2f s of processor time",
            action.name,
            action_id,
            action.status,
            outcome.processor,
        )

    def _conclude(
        self, action: ActionDocument, context: HookContext, problem: str, error: StatusInfo | None
    ) -> None:
        """Commit the action's changes and its record; `error` becomes the agent status again."""
        try:
            with self._store.transaction() as document:
                if not problem:
                    context.flush(document)
                # The record comes first: after a crash in between, the agent finds it complete.
                failed = problem or context.action_failed
                self._store.end_action(
                    action, "failed" if failed else "completed", problem or action.message
                )
                unit = document.units[self._unit_name]
                unit.running_action = ""
                unit.status_set = unit.status_set or context.status_was_set
                if error is not None:
                    # The unit was in error before the action, and it still is.
                    unit.agent = error
        except FlushError as refused:
            self._conclude(action, context, str(refused), error)
        except OSError as full:
            ended = (
                f"failed ({problem})"
                if problem
                else f"ran to its end and returned {json.dumps(action.results)}"
            )
            raise VcaError(f"{action.name} {ended}; not recorded: {of_file(full)}") from full

    def _fail_interrupted(self, action_id: str) -> None:
        action = self._store.load_action(action_id)
        if action.completed is None:
            self._store.end_action(action, "failed", "action terminated")
        with self._store.transaction() as document:
            document.units[self._unit_name].running_action = ""

    # -- processes --------------------------------------------------------------------------

    def _run_process(
        self, dispatch_path: str, context: HookContext, context_id: str
    ) -> process.Outcome:
        runtime = self._runtime
        charm_dir = runtime.paths.charm(self._unit_name)
        settings = runtime.settings
        timeout = settings.action_timeout if context.action else settings.hook_timeout
        source = {"source": f"unit.{self._unit_name}.{Path(dispatch_path).name}"}
        shell = runtime.shells.pop((self._unit_name, Path(dispatch_path).name), None)
        interrupt = process.Interrupt()
        folder = runtime.paths.contexts / secrets.token_hex(8)
        try:
            script = process.find_script(charm_dir, dispatch_path)
            server = ToolServer(folder, context)
            try:
                with self._store.lock:
                    self._interrupt = interrupt
                outcome = process.run(
                    [*runtime.exec_prefix, *(shell or (str(script),))],
                    environment=process.environment(
                        runtime, dispatch_path, context, context_id, server.address
                    ),
                    directory=charm_dir,
                    timeout=timeout,
                    server=server,
                    interrupt=interrupt,
                    on_stdout=lambda line: self._log.debug("%s", line, extra=source),
                    on_stderr=lambda line: self._log.warning("%s", line, extra=source),
                    terminal=shell is not None,
                )
            finally:
                with self._store.lock:
                    self._interrupt = None
                server.close()
            if outcome.problem and not outcome.interrupted:
                check(runtime.python_bin / "python3")
            return outcome
        except OSError as error:
            return process.Outcome(problem=f"cannot start: {error.strerror or error}")
        finally:
            interrupt.close()

    def _context(
        self,
        document: ModelDocument,
        unit: Unit,
        info: HookInfo | None,
        action: ActionDocument | None,
    ) -> HookContext:
        return HookContext(
            self._store,
            self._runtime.charm_of_unit(document, unit),
            unit,
            info,
            action,
            self._log,
            self._runtime.publisher.publish,
        )

    def _context_id(self, name: str) -> str:
        return f"{self._unit_name}-{name}-{secrets.randbits(62)}"

    @staticmethod
    def _set_agent(unit: Unit, status: str, message: str) -> None:
        unit.agent = StatusInfo(status=status, message=message, since=time.time())

    def _tell(self, kind: EventKind, name: str, message: str = "") -> None:
        self._runtime.publisher.publish(Event(kind, self._app, self._unit_name, name, message))
