"""Termination of a network service."""

from lab.descriptors.service import service, vnfrs_of
from lab.errors import LcmError
from lab.lcm.removal import delete_resources, run_terminate_primitives
from lab.lcm.work import Work
from lab.records.operations import remove_service
from lab.records.store import NSRS, VIMS, Document


def run(work: Work, operation: Document) -> str:
    ns_id = operation["nsInstanceId"]
    params = operation["operationParams"]
    work.begin(operation, "TERMINATING", "TERMINATING")
    nsr = work.store.get(NSRS, ns_id)
    with work.deadline(operation, "timeout_ns_terminate"):
        if not params.get("skip_terminate_primitives"):
            _primitives(work, nsr)
        errors = delete_resources(work.backends, ns_id, _vims(work, nsr), work.journal)
    if errors and not params.get("force"):
        raise LcmError("; ".join(errors))
    remove_service(work.store, ns_id)
    work.journal.write("end", "ns", "Done", state="COMPLETED", detail="Done")
    work.journal.write("settled", "ns", "deleted", idle=True)
    return "COMPLETED"


def _vims(work: Work, nsr: Document) -> list[str]:
    """Return the VIM accounts in which the service may have resources, and that still exist."""
    params = nsr["instantiate_params"]
    used = {params["vimAccountId"]}
    used.update(entry.get("vimAccountId") for entry in params.get("vnf") or ())
    used.update(r["vim-account-id"] for r in vnfrs_of(work.store, nsr["_id"]).values())
    return [v["_id"] for v in work.store.all(VIMS) if v["_id"] in used]


def _primitives(work: Work, nsr: Document) -> None:
    day1_run = {
        v["application"] for v in nsr["_admin"]["deployed"]["VCA"] if v.get("needed_terminate")
    }
    if not day1_run:
        return
    svc = service(nsr, work.store)
    if not any(e.terminate and e.application in day1_run for e in svc.environments):
        return
    with work.charms_running(nsr["_id"], svc.environments):
        run_terminate_primitives(work, nsr["_id"], svc.environments, day1_run)
