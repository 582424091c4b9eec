"""Worker processes: start one for an operation, check whether it runs, end it.

A worker has its own session, so it outlives the verb that started it. It is identified by process
id and start time: another process may get the same id later.
"""

import os
import sys
import time
from dataclasses import asdict
from http import HTTPStatus
from pathlib import Path
from typing import Any

from lab import procs
from lab.errors import NbiError
from lab.procs import ProcessRef
from lab.records.journal import Tail
from lab.records.operations import fail, operation_folder
from lab.records.store import NSIOPS, OPS, Document, Store

WORKER = "lab.lcm.worker"


def start(store: Store, operation: Document, collection: str = OPS) -> Tail:
    """Start the worker of an operation; return its journal, opened before the first event.

    ``collection`` is that of the operation's document: ``OPS`` or ``NSIOPS``. If no process can be
    started, the operation has failed.
    """
    folder = operation_folder(store.home, operation["_id"])
    folder.mkdir(parents=True, exist_ok=True)
    tail = Tail(folder / "events.jsonl")
    words = ("--home", str(store.home.resolve()), collection, operation["_id"])
    try:
        pid = launch(WORKER, folder / "worker.log", *words)
    except OSError as error:
        reason = f"no process could be started for the operation: {error}"
        fail(store, collection, operation, reason)
        raise NbiError(reason, HTTPStatus.INTERNAL_SERVER_ERROR) from None
    record_worker(store, operation["_id"], pid, collection)
    return tail


def launch(module: str, log: Path, *words: str) -> int:
    """Start a module of the lab as a program that outlives this process; return its process id."""
    log.parent.mkdir(parents=True, exist_ok=True)
    here = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", module, *words]
    return procs.launch(command, log, {**os.environ, "PYTHONPATH": path}).pid


def record_worker(store: Store, op_id: str, pid: int, collection: str = OPS) -> None:
    """Write the worker of an operation into its document, if that still exists."""
    process = ProcessRef.of(pid)
    if process is None:
        return
    if store.find(collection, op_id) is not None:
        with store.edit(collection, op_id) as document:
            document["lab"]["worker"] = asdict(process)


def ending(store: Store, operation: Document) -> str:
    """Say how a worker ended that left no result, with the last line it printed."""
    log = operation_folder(store.home, operation["_id"]) / "worker.log"
    words = procs.last_words(log, "") if log.parent.exists() else ""
    how = f"has ended: {words}" if words else "was killed"
    return f"the process running the operation {how}"


def alive(operation: Document) -> bool:
    worker: dict[str, Any] | None = operation["lab"].get("worker")
    if worker is None:
        # The document is written before the worker starts: allow 5 s for the start. Where the clock
        # jumped back since, there is no start to wait for.
        return bool(abs(time.time() - operation["startTime"]) < 5)
    return ProcessRef(**worker).alive()


def lost(store: Store, operation: Document) -> bool:
    """Say whether an operation on a service is PROCESSING and its worker is dead."""
    if operation["operationState"] != "PROCESSING" or alive(operation):
        return False
    if operation["lab"].get("worker") is not None:
        return True
    # The worker of a slice starts the operations on its services, one after another. A service
    # that slices share is in the lists of all, and only the slice that ordered it starts it.
    owner = operation["operationParams"].get("netsliceInstanceId")
    return not any(
        of_slice["operationState"] == "PROCESSING"
        and operation["_id"] in of_slice["operationParams"]["nslcmops_ids"]
        and owner in (None, of_slice["netsliceInstanceId"])
        and alive(of_slice)
        for of_slice in store.all(NSIOPS)
    )


def kill(operation: Document) -> None:
    """End the operation's worker, if it has one."""
    worker = operation["lab"].get("worker")
    if worker is not None:
        ProcessRef(**worker).end()
