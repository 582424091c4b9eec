"""Updates: the charms of a VNF are refreshed, a VDU is started, stopped or rebuilt.

Source: OSM 19, LCM ``update``, ``rebuild_start_stop``; RO ``recreate``. As in OSM, a rebuilt VDU
does not get the charm's key.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from builder.archive import digest
from lab.descriptors.service import service, vdur_of
from lab.errors import LcmError, WaitTimeoutError
from lab.lcm.recreate import Target, recreate
from lab.lcm.request import charm_folder
from lab.lcm.work import Work
from lab.records.packages import prune_revisions
from lab.records.store import NSRS, VNFDS, VNFRS, Document

NO_VERSION = "1.0"  # What LCM takes for the software version of a VNFD that has none.


def run(work: Work, operation: Document) -> str:
    """Run an update of one of LCM's types."""
    work.begin(operation, None, "UPDATING")
    params = operation["operationParams"]
    with work.deadline(operation, "timeout_ns_update"):
        if params["updateType"] == "CHANGE_VNFPKG":
            return _change_package(work, operation, params["changeVnfPackageData"])
        _operate(work, operation["nsInstanceId"], params["operateVnfData"])
        return _updated(work, operation)


def _updated(work: Work, operation: Document) -> str:
    state = work.end(operation, "COMPLETED", "Done")
    work.journal.write("settled", "ns", "updated", idle=True)
    return state


def _change_package(work: Work, operation: Document, data: Mapping[str, Any]) -> str:
    """Refresh the charms of a VNF that differ in the latest revision of its package."""
    ns_id = operation["nsInstanceId"]
    vnfr = work.store.get(VNFRS, data["vnfInstanceId"])
    package = work.store.get(VNFDS, data["vnfdId"])
    latest = package["_admin"].get("revision", 1)
    current = vnfr.get("revision", 1)
    if current == latest:
        return _updated(work, operation)
    revisions = package["_admin"]["revisions"]
    old = revisions[str(current)]
    svc = service(work.store.get(NSRS, ns_id), work.store)
    index = str(vnfr["member-vnf-index-ref"])
    mine = [env for env in svc.environments if env.member_vnf_index == index]
    version = package["descriptor"].get("software-version", NO_VERSION)
    if version != old["software-version"] and mine:
        raise LcmError(
            "FAILED Checking if existing VNF has charm: Software version change is not supported "
            f"as VNF instance {vnfr['_id']} has charm."
        )
    changed = []
    for env in mine:
        folder = charm_folder(svc, work.store, env)
        before = (
            work.store.root
            / old["folder"]
            / folder.relative_to(work.store.root / package["folder"])
        )
        if digest(before) != digest(folder):
            changed.append((env, folder))

    def revise() -> None:
        with work.store.edit(VNFRS, vnfr["_id"]) as record:
            record["revision"] = latest
        prune_revisions(work.store)

    if not changed:
        revise()
        return _updated(work, operation)
    with work.charms_running(ns_id, svc.environments) as model:
        if model is None:
            raise LcmError("KDUs deployed with Helm do not support charm upgrade")
        for env, folder in changed:
            work.journal.write("charm", index, "refreshing charm", application=env.application)
            model.upgrade_charm(env.application, folder)
        revise()
        with suppress(WaitTimeoutError):
            model.wait_idle(work.timeouts.settle)
        state = work.end(operation, "COMPLETED", "Done")
        work.let_settle(ns_id, model)
    return state


def _operate(work: Work, ns_id: str, data: Mapping[str, Any]) -> None:
    """Start, stop or rebuild a VDU. As in OSM, no charm gets an event."""
    vnfr = work.store.get(VNFRS, data["vnfInstanceId"])
    given = data["additionalParam"]
    target = Target(vnfr, vdur_of(vnfr, given["vdu_id"], given["count-index"]))
    svc = service(work.store.get(NSRS, ns_id), work.store)
    vim = work.backends.vim(vnfr["vim-account-id"])
    kind = data["changeStateTo"]
    if kind == "start":
        vim.start(target.vdur["vim-id"])
        vim.wait_active(target.vdur["vim-id"], work.timeouts.vm_ip)
    elif kind == "stop":
        vim.stop(target.vdur["vim-id"])
    else:
        # A new disk from the image, with the same user data and RO's key; ports and addresses stay.
        recreate(work, svc, target, same=True)
