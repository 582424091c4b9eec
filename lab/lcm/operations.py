"""The operations on a network service; a worker process runs them.

Each one updates the records as OSM does: ``nsState``, ``operational-status``, ``config-status`` and
the operation's ``operationState`` and ``detailed-status``.
"""

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from lab.descriptors.day0 import osm_params
from lab.descriptors.environments import Environment
from lab.descriptors.primitives import map_primitive_params
from lab.descriptors.service import Service, service, vdur_of, vnfrs_of
from lab.descriptors.topology import Server
from lab.errors import LcmError
from lab.lcm import changes, scaling
from lab.lcm.backends import Backends
from lab.lcm.charmops import shown
from lab.lcm.instantiate import STAGES, Connector, Instantiation, Report, connector
from lab.lcm.request import request
from lab.lcm.terminate import delete_resources, run_terminate_primitives
from lab.lcm.timeouts import Timeouts
from lab.records.journal import Journal
from lab.records.operations import fail_operation, remove_service
from lab.records.store import NSRS, OPS, VIMS, VNFRS, Document, Store
from lab.vca import AgentEndedError, Event, Model, WaitTimeoutError
from lab.vim import Server as VimServer


class Operations:
    """Runs operations from their documents."""

    def __init__(
        self,
        store: Store,
        backends: Backends,
        timeouts: Timeouts,
        journal: Journal,
        abort: Callable[[int], object] = os._exit,
    ) -> None:
        """Work on the records in ``store`` through ``backends``.

        ``abort`` ends the process when an operation takes too long: its threads cannot be stopped
        one by one. ns-delete removes what they leave.
        """
        self._abort = abort
        self.store = store
        self.backends = backends
        self.timeouts = timeouts
        self.journal = journal

    def run(self, op_id: str) -> str:
        """Run the operation and return its final state, ``COMPLETED`` or ``FAILED``."""
        operation = self.store.get(OPS, op_id)
        handler = {
            "instantiate": self._instantiate,
            "action": self._action,
            "heal": lambda document: self._in_time(changes.heal, document),
            "scale": lambda document: self._in_time(scaling.scale, document),
            "update": lambda document: self._in_time(changes.update, document),
            "terminate": self._terminate,
        }[operation["lcmOperationType"]]
        try:
            return handler(operation)
        except LcmError as error:
            return self._fail(operation, str(error))

    # -- instantiate -------------------------------------------------------------------------

    def _instantiate(self, operation: Document) -> str:
        ns_id = operation["nsInstanceId"]
        self.journal.write("stage", "ns", STAGES[0])
        svc = service(self.store.get(NSRS, ns_id), self.store)
        for note in svc.plan.notes:
            self.journal.write("note", "ns", note)
        self.begin(operation, "BUILDING", "INSTANTIATING")
        self.store.update(NSRS, ns_id, lambda nsr: _start_records(nsr, svc))
        run = Instantiation(self, request(svc, self.store))
        running: AbstractContextManager[Model | None] = nullcontext()
        if svc.environments:
            running = self.charms_running(ns_id, svc.environments)
        with running as model:
            with self._deadline(
                operation, "timeout_ns_deploy", self.timeouts.ns_deploy, f"{STAGES[1]} Detail: "
            ):
                report = run.run()
            state = self._finish_instantiate(operation, svc, report)
            self.let_settle(ns_id, model, report.vms_ready)
        return state

    @contextmanager
    def _deadline(
        self, operation: Document, field: str, default: float | None = None, step: str = ""
    ) -> Iterator[None]:
        """Fail the operation and end the process when the time in its ``field`` is over.

        Without ``field`` and ``default`` there is no limit. An operation that has its result may
        still wait for its charms. ``step`` is put before the reason.
        """
        given = operation["operationParams"].get(field) or default
        if given is None:
            yield
            return
        seconds = float(given)

        def expire() -> None:
            reason = f"{step}Timeout after {seconds:g} s"
            if fail_operation(self.store, operation, reason):
                self._note_failure(reason)
                self._abort(1)

        timer = threading.Timer(seconds, expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _in_time(
        self, handler: "Callable[[Operations, Document], str]", operation: Document
    ) -> str:
        """Run a handler for at most ``timeout_ns_heal`` seconds, or how its limit is called."""
        with self._deadline(operation, f"timeout_ns_{operation['lcmOperationType']}"):
            return handler(self, operation)

    def _finish_instantiate(self, operation: Document, svc: Service, report: Report) -> str:
        ns_id = operation["nsInstanceId"]
        failed = bool(report.errors)
        detail = "; ".join(report.errors)

        def change(nsr: Document) -> None:
            nsr["_admin"]["nsState"] = "INSTANTIATED"
            nsr["nsState"] = "BROKEN" if failed else "READY"
            nsr["operational-status"] = "failed" if report.vim_failed else "running"
            nsr["config-status"] = "failed" if report.broken else "configured"
            nsr["detailed-status"] = f"{STAGES[1]} Detail: {detail}" if failed else "Done"
            if failed:
                nsr["errorDescription"] = (
                    f"Operation: INSTANTIATING.{operation['_id']}, {STAGES[1]}"
                )
                nsr["errorDetail"] = detail
            for vca in nsr["_admin"]["deployed"]["VCA"]:
                vca["status"] = "BROKEN" if vca["application"] in report.broken else "READY"
            nsr["configurationStatus"] = _configuration_status(nsr)
            nsr["lab"]["vms-ready"] = report.vms_ready

        self.store.update(NSRS, ns_id, change)
        for record in vnfrs_of(self.store, ns_id).values():
            self.store.update(VNFRS, record["_id"], _mark_instantiated)
        if failed:
            return self.end(operation, "FAILED", f"{STAGES[1]} Detail: {detail}", detail)
        return self.end(operation, "COMPLETED", "Done")

    def let_settle(self, ns_id: str, model: Model | None, vms_ready: float | None = None) -> None:
        """Wait until the charms are idle and record it; tunnels come up after the operation.

        The operation has ended, so a failure is only a note.
        """
        if model is None:
            return
        try:
            self._settle(ns_id, model, vms_ready)
        except LcmError as error:
            self.journal.write("note", "ns", str(error))

    def _settle(self, ns_id: str, model: Model, vms_ready: float | None) -> None:
        idle, ended = True, {}
        try:
            model.wait_idle(self.timeouts.settle)
        except WaitTimeoutError:
            idle = False
        except AgentEndedError as error:
            idle, ended = False, {"charms": str(error)}
        now = time.time()
        status = model.status()
        statuses = {}
        for vca in self.store.get(NSRS, ns_id)["_admin"]["deployed"]["VCA"]:
            name = vca["application"]
            found = status.applications.get(name)
            statuses[name] = (
                {"status": "missing", "message": f"application {name} not found"}
                if found is None
                else {"status": found.status, "message": found.message}
            )
        errors = status.failed | ended
        errors.update({a: s["message"] for a, s in statuses.items() if s["status"] == "error"})

        def change(nsr: Document) -> None:
            nsr["lab"]["charms"] = statuses
            nsr["lab"]["charms-idle"] = now if idle else None
            if vms_ready is not None and idle:
                # Without child processes, such as charms.
                used = os.times()
                nsr["lab"]["processor-seconds"] = round(used.user + used.system, 3)
                nsr["lab"]["seconds-vms-ready-to-charms-idle"] = round(now - vms_ready, 3)
            if nsr["nsState"] in ("READY", "DEGRADED"):
                nsr["nsState"] = "DEGRADED" if errors else "READY"
                nsr["errorDetail"] = (
                    "; ".join(f"{k}: {v}" for k, v in sorted(errors.items())) if errors else None
                )

        self.store.update(NSRS, ns_id, change)
        for unit, reason in sorted((status.failed | ended).items()):
            self.journal.write("note", "ns", f"{unit}: {reason}")
        self.journal.write(
            "settled", "ns", "all charms idle" if idle else "charms still busy", idle=idle
        )

    def record_server(self, ns_id: str, server: Server, result: VimServer) -> None:
        """Write a server that is up, with its addresses, into the record of its VNF."""
        record = vnfrs_of(self.store, ns_id)[server.member_vnf_index]

        def change(vnfr: Document) -> None:
            vdur = vdur_of(vnfr, server.vdu_id, server.count_index)
            vdur["vim-id"], vdur["status"] = result.id, "ACTIVE"
            for interface, port in zip(vdur["interfaces"], result.ports, strict=True):
                interface["ip-address"], interface["mac-address"] = port.address, port.mac
                reached = port.floating or port.ip
                if interface["mgmt-interface"] and vdur["ip-address"] is None:
                    vdur["ip-address"] = reached
                if interface["mgmt-vnf"] and vnfr["ip-address"] is None:
                    vnfr["ip-address"] = reached

        self.store.update(VNFRS, record["_id"], change)

    def record_vca(self, ns_id: str, application: str, **fields: Any) -> None:
        """Write fields of an application into the service's record."""

        def change(nsr: Document) -> None:
            for vca in nsr["_admin"]["deployed"]["VCA"]:
                if vca["application"] == application:
                    vca.update(fields)
            nsr["configurationStatus"] = _configuration_status(nsr)

        self.store.update(NSRS, ns_id, change)

    @contextmanager
    def charms_running(self, ns_id: str, environments: list[Environment]) -> Iterator[Model | None]:
        """Run the charms of a service, if it has any, in this process during the block."""
        if environments and all(env.helm for env in environments):
            # Pods run by themselves.
            yield None
            return
        model = self.backends.model(ns_id)
        with model:
            model.subscribe(self._charm_listener(model, environments))
            yield model

    def connected(self, ns_id: str) -> Callable[[Environment], Connector]:
        """Return a function that returns LCM's connector for an environment of a service."""
        return lambda env: connector(self.backends, env, ns_id, self.timeouts)

    def add_environments(self, ns_id: str, environments: Sequence[Environment]) -> None:
        """Write new environments into the service's record."""

        def change(nsr: Document) -> None:
            nsr["_admin"]["deployed"]["VCA"] += [_vca(env) for env in environments]
            nsr["configurationStatus"] = _configuration_status(nsr)

        self.store.update(NSRS, ns_id, change)

    def remove_environments(self, ns_id: str, applications: Collection[str]) -> None:
        """Take environments out of the service's record."""

        def change(nsr: Document) -> None:
            deployed = nsr["_admin"]["deployed"]
            deployed["VCA"] = [v for v in deployed["VCA"] if v["application"] not in applications]
            nsr["configurationStatus"] = _configuration_status(nsr)

        self.store.update(NSRS, ns_id, change)

    def _charm_listener(self, model: Model, envs: list[Environment]) -> Callable[[Event], None]:
        """Return a listener that writes the events of charms into the journal."""
        owner = {env.application: env.member_vnf_index or "ns" for env in envs}

        def listen(event: Event) -> None:
            fields = shown(event, model.log_path(event.unit))
            self.journal.write("charm", owner.get(event.app, "ns"), application=event.app, **fields)

        return listen

    # -- action ------------------------------------------------------------------------------

    def _action(self, operation: Document) -> str:
        params = operation["operationParams"]
        index = params.get("member_vnf_index")
        if index is None:
            # A bug in OSM: the handler uses the VNF record before it loads one.
            raise LcmError(
                "FAILED Getting nsd from database: UnboundLocalError: local variable 'db_vnfr' "
                "referenced before assignment"
            )
        ns_id = operation["nsInstanceId"]
        svc = service(self.store.get(NSRS, ns_id), self.store)
        vdu_id, count = params.get("vdu_id"), int(params.get("vdu_count_index") or 0)
        name = params["primitive"]
        try:
            env, primitive = find_primitive(svc, index, vdu_id, count, name)
            values = map_primitive_params(
                primitive, params.get("primitive_params") or {}, self._day2_values(svc, env)
            )
        except LcmError as error:
            # LCM names its last step, although the error is in the primitive.
            raise LcmError(f"FAILED Getting vnfd from database: {error}") from None
        real_name = primitive.get("execution-environment-primitive") or name
        self.begin(operation, None, "RUNNING ACTION")
        timeout = float(params.get("timeout_ns_action") or self.timeouts.action)
        self.journal.write("primitive", index, name, application=env.application, number=1, total=1)
        with self.charms_running(ns_id, svc.environments) as model:
            n2vc = self.connected(ns_id)(env)
            try:
                if real_name == "config":
                    # LCM hides the values in one option named "params", so nothing is set.
                    n2vc.verify(env.application)
                    result: Mapping[str, Any] | str = {"output": "CONFIG OK"}
                else:
                    result = n2vc.primitive(env.application, real_name, values, timeout)
            except LcmError as error:
                state = self.end(operation, "FAILED", str(error), str(error))
            else:
                output = result if isinstance(result, str) else dict(result)
                state = self.end(operation, "COMPLETED", output)
            self.let_settle(ns_id, model)
        return state

    def _day2_values(self, svc: Service, env: Environment) -> dict[str, Any]:
        records = vnfrs_of(self.store, svc.nsr["_id"])
        record = records[str(env.member_vnf_index)]
        values = dict(record["additionalParamsForVnf"])
        for vdur in record["vdur"]:
            if vdur["vdu-id-ref"] == env.vdu_id and vdur["additionalParams"]:
                values = dict(vdur["additionalParams"])
        values["OSM"] = osm_params(record, env.vdu_id, env.count_index)
        return values

    # -- terminate ---------------------------------------------------------------------------

    def _terminate(self, operation: Document) -> str:
        ns_id = operation["nsInstanceId"]
        params = operation["operationParams"]
        self.begin(operation, "TERMINATING", "TERMINATING")
        nsr = self.store.get(NSRS, ns_id)
        with self._deadline(operation, "timeout_ns_terminate"):
            if not params.get("skip_terminate_primitives"):
                try:
                    self._terminate_primitives(nsr)
                except LcmError as error:
                    return self._fail(operation, str(error))
            errors = delete_resources(self.backends, ns_id, self._vims(nsr), self.journal)
        if errors and not params.get("force"):
            return self._fail(operation, "; ".join(errors))
        remove_service(self.store, ns_id)
        self.journal.write("end", "ns", "Done", state="COMPLETED", detail="Done")
        self.journal.write("settled", "ns", "deleted", idle=True)
        return "COMPLETED"

    def _vims(self, nsr: Document) -> list[str]:
        """Return the VIM accounts in which the service may have resources, and that still exist."""
        params = nsr["instantiate_params"]
        used = {params["vimAccountId"]}
        used.update(entry.get("vimAccountId") for entry in params.get("vnf") or ())
        used.update(r["vim-account-id"] for r in vnfrs_of(self.store, nsr["_id"]).values())
        return [v["_id"] for v in self.store.all(VIMS) if v["_id"] in used]

    def _terminate_primitives(self, nsr: Document) -> None:
        day1_run = {
            v["application"] for v in nsr["_admin"]["deployed"]["VCA"] if v.get("needed_terminate")
        }
        if not day1_run:
            return
        svc = service(nsr, self.store)
        if not any(e.terminate and e.application in day1_run for e in svc.environments):
            return
        with self.charms_running(nsr["_id"], svc.environments):
            run_terminate_primitives(self, nsr["_id"], svc.environments, day1_run)

    # -- records -----------------------------------------------------------------------------

    def begin(self, operation: Document, state: str | None, current: str) -> None:
        """Write into the service's record that an operation runs, and its new state if any."""

        def change(nsr: Document) -> None:
            if state is not None:
                nsr["nsState"] = state
            nsr["currentOperation"] = current
            nsr["currentOperationID"] = operation["_id"]
            nsr["errorDescription"] = nsr["errorDetail"] = None

        self.store.update(NSRS, operation["nsInstanceId"], change)

    def _fail(self, operation: Document, reason: str) -> str:
        fail_operation(self.store, operation, reason)
        self._note_failure(reason)
        return "FAILED"

    def _note_failure(self, reason: str) -> None:
        self.journal.write("end", "ns", reason, state="FAILED", detail=reason)
        self.journal.write("settled", "ns", "failed", idle=True)

    def end(self, operation: Document, state: str, detail: Any, error: str | None = None) -> str:
        """Write how an operation ended, and that none runs on its service; return ``state``."""

        def idle(nsr: Document) -> None:
            nsr["currentOperation"], nsr["currentOperationID"] = "IDLE", None

        def change(document: Document) -> None:
            document["operationState"] = state
            document["statusEnteredTime"] = time.time()
            document["detailed-status"] = detail
            document["errorMessage"] = error

        self.store.update(NSRS, operation["nsInstanceId"], idle)
        self.store.update(OPS, operation["_id"], change)
        self.journal.write("end", "ns", error or "Done", state=state, detail=detail)
        return state


def find_primitive(
    svc: Service, index: str, vdu_id: str | None, count: int, name: str
) -> tuple[Environment, Mapping[str, Any]]:
    """Return the environment and ``config-primitive`` entry an action goes to."""
    for env in svc.environments:
        if (env.member_vnf_index, env.vdu_id) != (index, vdu_id):
            continue
        if vdu_id is not None and env.count_index != count:
            continue
        for primitive in env.config:
            if primitive["name"] == name:
                return env, primitive
    raise LcmError(f"Primitive {name} not found at [ns|vnf|vdu]-configuration:config-primitive ")


def _vca(env: Environment) -> Document:
    return {
        "application": env.application,
        "ee_id": None,
        "ee_descriptor_id": env.ee_id,
        "charm_name": env.charm,
        "member-vnf-index": env.member_vnf_index,
        "vdu_id": env.vdu_id,
        "vdu_count_index": env.count_index,
        "needed_terminate": False,
        "status": "BUILDING",
    }


def _start_records(nsr: Document, svc: Service) -> None:
    nsr["_admin"]["deployed"]["VCA"] = [_vca(env) for env in svc.environments]
    nsr["configurationStatus"] = _configuration_status(nsr)
    nsr["operational-status"] = nsr["config-status"] = "init"
    nsr["detailed-status"] = STAGES[1]


def _configuration_status(nsr: Document) -> list[dict[str, Any]]:
    return [
        {
            "elementType": "NS"
            if vca["member-vnf-index"] is None
            else ("VNF" if vca["vdu_id"] is None else "VDU"),
            "elementUnderConfiguration": vca["member-vnf-index"] or nsr["_id"],
            "application": vca["application"],
            "status": vca["status"],
        }
        for vca in nsr["_admin"]["deployed"]["VCA"]
    ]


def _mark_instantiated(vnfr: Document) -> None:
    vnfr["_admin"]["nsState"] = "INSTANTIATED"
    for vdur in vnfr["vdur"]:
        if vdur["status"] == "BUILD":
            vdur["status"] = "ERROR"
