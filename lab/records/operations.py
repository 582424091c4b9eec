"""Records of operations: their folders, and the end of a failed or dead one."""

import shutil
import time
from pathlib import Path
from typing import Any

from lab.records.packages import prune_revisions
from lab.records.store import NSIOPS, NSIS, NSRS, OPS, VNFRS, Document, Store

SLICE_ENDING = ("terminating", "terminated")
"""Operational states of a slice that no longer uses its shared services."""


def ns_folder(home: Path, ns_id: str) -> Path:
    """Return the private folder of a service (RO's key, lock)."""
    return home / "lcm" / "ns" / ns_id


def ro_key_path(home: Path, ns_id: str) -> Path:
    return ns_folder(home, ns_id) / "ro_key"


def operation_folder(home: Path, op_id: str) -> Path:
    """Return the folder of an operation (progress, log of the worker)."""
    return home / "lcm" / "operations" / op_id


def discard(store: Store, collection: str, key: str) -> bool:
    """Delete a record, and those that belong to it, if it is damaged; return whether it was."""
    if not store.is_damaged(collection, key):
        return False
    if collection == NSRS:
        remove_service(store, key)
    elif collection == NSIS:
        remove_slice(store, key)
    else:
        store.delete(collection, key)
    if collection in (OPS, NSIOPS):
        shutil.rmtree(operation_folder(store.home, key), ignore_errors=True)
    return True


def remove_service(store: Store, ns_id: str) -> None:
    """Delete the records of a service with those of its members and operations."""
    members = [r["_id"] for r in store.all(VNFRS) if r["nsr-id-ref"] == ns_id]
    nsr = store.readable(NSRS, ns_id) or {}
    for key in {*members, *nsr.get("constituent-vnfr-ref", ())}:  # also a damaged one
        store.delete(VNFRS, key)
    for operation in store.all(OPS):
        if operation["nsInstanceId"] == ns_id:
            store.delete(OPS, operation["_id"])
            shutil.rmtree(operation_folder(store.home, operation["_id"]), ignore_errors=True)
    store.delete(NSRS, ns_id)
    shutil.rmtree(ns_folder(store.home, ns_id), ignore_errors=True)
    prune_revisions(store)


def remove_slice(store: Store, nsi_id: str) -> None:
    """Delete the records of a slice with those of its operations; services stay."""
    for operation in store.all(NSIOPS):
        if operation["netsliceInstanceId"] == nsi_id:
            store.delete(NSIOPS, operation["_id"])
            shutil.rmtree(operation_folder(store.home, operation["_id"]), ignore_errors=True)
    store.delete(NSIS, nsi_id)


def fail(store: Store, collection: str, operation: Document, reason: str) -> None:
    """Mark an operation on a service or on a slice FAILED, if it has not ended."""
    if collection == NSIOPS:
        end_slice_operation(store, operation, reason)
    else:
        fail_operation(store, operation, reason)


def conclude(
    store: Store, collection: str, operation: Document, state: str, detail: Any, error: str | None
) -> str:
    """Write how an operation ended, unless it had ended; return its state before.

    The state is "" if a termination has deleted the record meanwhile.
    """
    if store.readable(collection, operation["_id"]) is None:
        return ""
    with store.edit(collection, operation["_id"]) as document:
        before = str(document["operationState"])
        if before == "PROCESSING":
            document["operationState"] = state
            document["statusEnteredTime"] = time.time()
            document["detailed-status"] = detail
            document["errorMessage"] = error
    return before


def fail_operation(store: Store, operation: Document, reason: str, state: str = "FAILED") -> bool:
    """Mark an operation FAILED, and for an instantiation or termination the service BROKEN.

    Nothing changes if the operation has ended in the meantime. ``state`` is FAILED_TEMP for a
    cancelled operation. Return whether the operation was marked.
    """
    kind = operation["lcmOperationType"]
    current = {"instantiate": "INSTANTIATING", "terminate": "TERMINATING"}.get(kind, "ACTION")
    before = conclude(store, OPS, operation, state, reason, reason)
    if before in ("", "PROCESSING") and store.readable(NSRS, operation["nsInstanceId"]) is not None:
        with store.edit(NSRS, operation["nsInstanceId"]) as nsr:
            if kind in ("instantiate", "terminate"):
                nsr["nsState"] = "BROKEN"
                nsr["errorDescription"] = f"Operation: {current}.{operation['_id']}"
                nsr["errorDetail"] = reason
            if kind == "instantiate":
                nsr["operational-status"] = nsr["config-status"] = "failed"
                nsr["_admin"]["nsState"] = "INSTANTIATED"
            if kind in ("instantiate", "scale"):
                for vca in (*nsr["_admin"]["deployed"]["VCA"], *nsr["configurationStatus"]):
                    vca["status"] = "BROKEN" if vca["status"] == "BUILDING" else vca["status"]
            if kind == "terminate":
                nsr["operational-status"] = "failed"
            nsr["currentOperation"], nsr["currentOperationID"] = "IDLE", None
        if kind in ("instantiate", "scale"):
            end_building(store, operation["nsInstanceId"])
    return before == "PROCESSING"


def end_building(store: Store, ns_id: str) -> None:
    """Mark the VDUs of a service that nobody builds any more."""
    for record in [r for r in store.all(VNFRS) if r["nsr-id-ref"] == ns_id]:
        with store.edit(VNFRS, record["_id"]) as vnfr:
            for vdur in vnfr["vdur"]:
                vdur["status"] = "ERROR" if vdur["status"] == "BUILD" else vdur["status"]


def end_slice_operation(store: Store, operation: Document, error: str = "") -> str:
    """Write how an operation on a slice ended; return its state.

    Nothing changes if the operation has ended in the meantime.
    """
    state, detail = ("FAILED", f"FAILED : {error}") if error else ("COMPLETED", "done")
    before = conclude(store, NSIOPS, operation, state, detail, error or None)
    if before not in ("", "PROCESSING"):
        return before
    if store.readable(NSIS, operation["netsliceInstanceId"]) is not None:
        with store.edit(NSIS, operation["netsliceInstanceId"]) as nsi:
            nsi["_admin"]["nsiState"] = "INSTANTIATED"
            nsi["operational-status"] = "failed" if error else "running"
            # LCM calls a slice configured even if its services are not.
            nsi["config-status"] = "configured"
            nsi["detailed-status"] = f"ERROR : {error}" if error else "done"
    return state
