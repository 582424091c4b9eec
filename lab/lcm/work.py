"""What every operation works with: the records of its service, the backends and the journal.

The records are written as OSM writes them: ``nsState``, ``operational-status``, ``config-status``
and the operation's ``operationState`` and ``detailed-status``.
"""

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lab.descriptors.environments import Environment
from lab.descriptors.service import vdur_of, vnfrs_of
from lab.descriptors.topology import Server
from lab.errors import AgentEndedError, LcmError, WaitTimeoutError
from lab.lcm import condition
from lab.lcm.backends import Backends
from lab.lcm.charmops import CharmOps, shown
from lab.lcm.helmops import HelmOps
from lab.lcm.timeouts import Timeouts
from lab.records.journal import Journal
from lab.records.operations import conclude, fail_operation
from lab.records.store import NSRS, OPS, VNFRS, Document, Store
from lab.vca.events import Event
from lab.vca.model import Model
from lab.vim.model import Server as VimServer

Connector = CharmOps | HelmOps  # LCM has one for each kind of execution environment.


@dataclass(frozen=True)
class Work:
    """The records, backends and times of operations on services."""

    store: Store
    backends: Backends
    timeouts: Timeouts
    journal: Journal
    # Ends the process when an operation takes too long: its threads cannot be stopped one by one.
    # ns-delete removes what they leave.
    abort: Callable[[int], object] = os._exit

    def begin(self, operation: Document, state: str | None, current: str) -> None:
        """Write into the service's record that an operation runs, and its new state if any."""
        with self.store.edit(NSRS, operation["nsInstanceId"]) as nsr:
            if state is not None:
                nsr["nsState"] = state
            nsr["currentOperation"] = current
            nsr["currentOperationID"] = operation["_id"]
            nsr["errorDescription"] = nsr["errorDetail"] = None

    def fail(self, operation: Document, reason: str) -> str:
        """Write that an operation failed, and why; return its state."""
        fail_operation(self.store, operation, reason)
        self._note_failure(reason)
        return "FAILED"

    def _note_failure(self, reason: str) -> None:
        self.journal.write("end", "ns", reason, state="FAILED", detail=reason)
        self.journal.write("settled", "ns", "failed", idle=True)

    def end(self, operation: Document, state: str, detail: Any, error: str | None = None) -> str:
        """Write how an operation ended, and that none runs on its service; return ``state``."""
        with self.store.edit(NSRS, operation["nsInstanceId"]) as nsr:
            nsr["currentOperation"], nsr["currentOperationID"] = "IDLE", None
        conclude(self.store, OPS, operation, state, detail, error)
        self.journal.write("end", "ns", error or "Done", state=state, detail=detail)
        return state

    @contextmanager
    def deadline(
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
                self.abort(1)

        timer = threading.Timer(seconds, expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

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
        failed = model.status().failed | ended
        with self.store.edit(NSRS, ns_id) as nsr:
            nsr["lab"]["charms-idle"] = now if idle else None
            if vms_ready is not None and idle:
                # Without child processes, such as charms.
                used = os.times()
                nsr["lab"]["processor-seconds"] = round(used.user + used.system, 3)
                nsr["lab"]["seconds-vms-ready-to-charms-idle"] = round(now - vms_ready, 3)
        condition.note(self.backends, nsr, failed)
        for unit, reason in sorted(failed.items()):
            self.journal.write("note", "ns", f"{unit}: {reason}")
        self.journal.write(
            "settled", "ns", "all charms idle" if idle else "charms still busy", idle=idle
        )

    def record_server(self, ns_id: str, server: Server, result: VimServer) -> None:
        """Write a server that is up, with its addresses, into the record of its VNF."""
        record = vnfrs_of(self.store, ns_id)[server.member_vnf_index]
        with self.store.edit(VNFRS, record["_id"]) as vnfr:
            vdur = vdur_of(vnfr, server.vdu_id, server.count_index)
            vdur["vim-id"], vdur["status"] = result.id, "ACTIVE"
            for interface, port in zip(vdur["interfaces"], result.ports, strict=True):
                interface["ip-address"], interface["mac-address"] = port.address, port.mac
                reached = port.floating or port.ip
                if interface["mgmt-interface"] and vdur["ip-address"] is None:
                    vdur["ip-address"] = reached
                if interface["mgmt-vnf"] and vnfr["ip-address"] is None:
                    vnfr["ip-address"] = reached

    def record_vca(self, ns_id: str, application: str, **fields: Any) -> None:
        with self.store.edit(NSRS, ns_id) as nsr:
            for vca in nsr["_admin"]["deployed"]["VCA"]:
                if vca["application"] == application:
                    vca.update(fields)
            nsr["configurationStatus"] = configuration_status(nsr)

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

    def connector(self, ns_id: str, env: Environment, vnf_id: str = "") -> Connector:
        """Return LCM's connector for an environment of a service.

        ``vnf_id`` is the id of the record of its VNF; a chart gets it when it is installed.
        """
        if env.helm:
            return HelmOps(self.backends.cluster(), env, ns_id, self.timeouts, vnf_id)
        return CharmOps(self.backends.model(ns_id), env.application, self.timeouts)

    def add_environments(self, ns_id: str, environments: Sequence[Environment]) -> None:
        with self.store.edit(NSRS, ns_id) as nsr:
            nsr["_admin"]["deployed"]["VCA"] += [new_vca(env) for env in environments]
            nsr["configurationStatus"] = configuration_status(nsr)

    def remove_environments(self, ns_id: str, applications: Collection[str]) -> None:
        with self.store.edit(NSRS, ns_id) as nsr:
            deployed = nsr["_admin"]["deployed"]
            deployed["VCA"] = [v for v in deployed["VCA"] if v["application"] not in applications]
            nsr["configurationStatus"] = configuration_status(nsr)

    def _charm_listener(self, model: Model, envs: list[Environment]) -> Callable[[Event], None]:
        """Return a listener that writes the events of charms into the journal."""
        owner = {env.application: env.member_vnf_index for env in envs}

        def listen(event: Event) -> None:
            fields = shown(event, model.log_path(event.unit))
            self.journal.write("charm", owner.get(event.app, "ns"), application=event.app, **fields)

        return listen


def new_vca(env: Environment) -> Document:
    """Return the entry of an environment in a service's record."""
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


def configuration_status(nsr: Document) -> list[dict[str, Any]]:
    """Return the state of each environment of a service, as its record shows it."""
    return [
        {
            "elementType": "VNF" if vca["vdu_id"] is None else "VDU",
            "elementUnderConfiguration": vca["member-vnf-index"],
            "application": vca["application"],
            "status": vca["status"],
        }
        for vca in nsr["_admin"]["deployed"]["VCA"]
    ]
