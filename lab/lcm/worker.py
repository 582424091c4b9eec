"""The process of one operation: ``python -m lab.lcm.worker --home DIR COLLECTION OPERATION``.

It records a reason for every failure. It does not handle SIGTERM, because a SIGKILL would skip the
handler. ns-delete finds the resources of a dead worker by tag and model, and removes them. If the
worker of a slice dies, the operations it started on services go on; nsi-delete cancels them and
removes their resources.
"""

import os
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from builder.errors import of_file
from lab.errors import LabError, LcmError
from lab.files import locked
from lab.lcm import heartbeat
from lab.lcm.backends import Backends
from lab.lcm.operations import action, heal, instantiate, scale, terminate, update
from lab.lcm.slice_operations import SliceOperations
from lab.lcm.timeouts import lab_timeouts
from lab.lcm.work import Work
from lab.records.jobs import record_worker
from lab.records.journal import Journal
from lab.records.operations import fail, ns_folder, operation_folder
from lab.records.store import NSIOPS, OPS, Document, Store


@click.command()
@click.option("--home", type=click.Path(path_type=Path), required=True)
@click.argument("collection", type=click.Choice([OPS, NSIOPS]))
@click.argument("operation")
def main(home: Path, collection: str, operation: str) -> None:
    """Run one operation of the lab in HOME, whose document lies in COLLECTION."""
    raise SystemExit(0 if run(home, operation, collection) == "COMPLETED" else 1)


def run(home: Path, op_id: str, collection: str = OPS) -> str:
    """Run an operation in this process; return its final state."""
    store = Store(home)
    record_worker(store, op_id, os.getpid(), collection)
    folder = operation_folder(home, op_id)
    journal = Journal(folder / "events.jsonl")
    try:
        work = Work(store, Backends(home), lab_timeouts(), journal)
        if collection == NSIOPS:
            return SliceOperations(work).run(op_id)
        return _on_service(work, op_id)
    except Exception as error:
        reason = str(error)
        if isinstance(error, OSError):
            reason = of_file(error)
        elif not isinstance(error, LabError):
            traceback.print_exc()
            reason = f"internal error; {folder / 'worker.log'} says more"
        document = store.readable(collection, op_id)
        subject = "nsi" if collection == NSIOPS else "ns"
        try:
            if document is not None:
                fail(store, collection, document, reason)
        except OSError as full:
            # Without a record of the end, others quote the last line of the worker's log.
            print("; ".join(dict.fromkeys([reason, of_file(full)])), flush=True)
        journal.write("end", subject, reason, state="FAILED", detail=reason)
        journal.write("settled", subject, "failed", idle=True)
        return "FAILED"
    finally:
        journal.close()


OPERATIONS: Mapping[str, Callable[[Work, Document], str]] = {
    "instantiate": instantiate.run,
    "action": action.run,
    "heal": heal.run,
    "scale": scale.run,
    "update": update.run,
    "terminate": terminate.run,
}


def perform(work: Work, op_id: str) -> str:
    """Run an operation on a service; return its final state, ``COMPLETED`` or ``FAILED``."""
    operation = work.store.get(OPS, op_id)
    try:
        return OPERATIONS[operation["lcmOperationType"]](work, operation)
    except LcmError as error:
        return work.fail(operation, str(error))


def _on_service(work: Work, op_id: str) -> str:
    """Run an operation while no other runs on the same service; return its final state."""
    store, journal = work.store, work.journal
    operation = store.get(OPS, op_id)
    ns_id = operation["nsInstanceId"]
    lock = store.home / "lcm" / "locks" / ns_id
    with locked(lock, work.timeouts.ns_deploy, f"ns {ns_id}"):
        if store.find(OPS, op_id) is None:
            # While this operation waited, a termination removed the service with its operations.
            state = "COMPLETED" if operation["lcmOperationType"] == "terminate" else "FAILED"
            text = "the service was deleted meanwhile"
            journal.write("end", "ns", text, state=state, detail=text)
            journal.write("settled", "ns", "deleted", idle=True)
            return state
        state = perform(work, op_id)
    if not ns_folder(store.home, ns_id).exists() and state == "COMPLETED":
        lock.unlink(missing_ok=True)
    else:
        heartbeat.ensure(store.home)
    return state


if __name__ == "__main__":
    main()
