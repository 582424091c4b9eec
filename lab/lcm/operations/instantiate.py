"""Instantiation of a network service."""

from contextlib import AbstractContextManager, nullcontext

from lab.descriptors.service import service, vnfrs_of
from lab.lcm.bring_up import STAGES, Instantiation, Report
from lab.lcm.request import request
from lab.lcm.work import Work, configuration_status, new_vca
from lab.records.operations import end_building
from lab.records.store import NSRS, VNFRS, Document
from lab.vca.model import Model


def run(work: Work, operation: Document) -> str:
    ns_id = operation["nsInstanceId"]
    work.journal.write("stage", "ns", STAGES[0])
    svc = service(work.store.get(NSRS, ns_id), work.store)
    for note in svc.plan.notes:
        work.journal.write("note", "ns", note)
    work.begin(operation, "BUILDING", "INSTANTIATING")
    with work.store.edit(NSRS, ns_id) as nsr:
        nsr["_admin"]["deployed"]["VCA"] = [new_vca(env) for env in svc.environments]
        nsr["configurationStatus"] = configuration_status(nsr)
        nsr["operational-status"] = nsr["config-status"] = "init"
        nsr["detailed-status"] = STAGES[1]
    bring_up = Instantiation(work, request(svc, work.store))
    running: AbstractContextManager[Model | None] = nullcontext()
    if svc.environments:
        running = work.charms_running(ns_id, svc.environments)
    with running as model:
        with work.deadline(
            operation, "timeout_ns_deploy", work.timeouts.ns_deploy, f"{STAGES[1]} Detail: "
        ):
            report = bring_up.run()
        state = _finish(work, operation, report)
        work.let_settle(ns_id, model, report.vms_ready)
    return state


def _finish(work: Work, operation: Document, report: Report) -> str:
    ns_id = operation["nsInstanceId"]
    failed = bool(report.errors)
    detail = "; ".join(report.errors)
    with work.store.edit(NSRS, ns_id) as nsr:
        nsr["_admin"]["nsState"] = "INSTANTIATED"
        nsr["nsState"] = "BROKEN" if failed else "READY"
        nsr["operational-status"] = "failed" if report.vim_failed else "running"
        nsr["config-status"] = "failed" if report.broken else "configured"
        nsr["detailed-status"] = f"{STAGES[1]} Detail: {detail}" if failed else "Done"
        if failed:
            nsr["errorDescription"] = f"Operation: INSTANTIATING.{operation['_id']}, {STAGES[1]}"
            nsr["errorDetail"] = detail
        for vca in nsr["_admin"]["deployed"]["VCA"]:
            vca["status"] = "BROKEN" if vca["application"] in report.broken else "READY"
        nsr["configurationStatus"] = configuration_status(nsr)
        nsr["lab"]["vms-ready"] = report.vms_ready
    for record in vnfrs_of(work.store, ns_id).values():
        with work.store.edit(VNFRS, record["_id"]) as vnfr:
            vnfr["_admin"]["nsState"] = "INSTANTIATED"
    end_building(work.store, ns_id)
    if failed:
        return work.end(operation, "FAILED", f"{STAGES[1]} Detail: {detail}", detail)
    return work.end(operation, "COMPLETED", "Done")
