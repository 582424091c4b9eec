"""Worker processes: starting one for an operation, and knowing whether it still lives.

A worker has its own session, so it outlives the verb that started it. It is known by process id
and start time: an id alone may belong to somebody else by now.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.records.journal import Tail
from lab.records.operations import operation_folder
from lab.records.store import OPS, Document, Store


def start(store: Store, operation: Document, collection: str = OPS) -> Tail:
    """Start the worker of an operation; return its progress, opened before the first event.

    ``collection`` is where the operation's document lies: ``OPS`` or ``NSIOPS``.
    """
    folder = operation_folder(store.home, operation["_id"])
    folder.mkdir(parents=True, exist_ok=True)
    tail = Tail(folder / "events.jsonl")
    with (folder / "worker.log").open("ab") as log:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "lab.lcm.worker",
                "--home",
                str(store.home.resolve()),
                collection,
                operation["_id"],
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": python_path()},
        )
    record_worker(store, operation["_id"], process.pid, collection)
    return tail


def python_path() -> str:
    """Return a PYTHONPATH by which a worker finds the code this process runs."""
    here = str(Path(__file__).resolve().parents[2])
    rest = os.environ.get("PYTHONPATH", "")
    return f"{here}{os.pathsep}{rest}" if rest else here


def record_worker(store: Store, op_id: str, pid: int, collection: str = OPS) -> None:
    """Write the worker of an operation into its document, if that is still there."""
    identity = {"pid": pid, "start": start_time(pid)}
    if identity["start"] is None:
        return

    def change(document: Document) -> None:
        document["lab"]["worker"] = identity

    if store.find(collection, op_id) is not None:
        store.update(collection, op_id, change)


def start_time(pid: int) -> int | None:
    """Return the start of a process in clock ticks since boot, ``None`` if it is not running."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    if fields[0] in ("Z", "X"):
        return None
    return int(fields[19])


def alive(operation: Document) -> bool:
    """Say whether the operation's worker is running."""
    worker: dict[str, Any] | None = operation["lab"].get("worker")
    if worker is None:
        # Between writing the document and starting the worker; give that a moment.
        return bool(time.time() - operation["startTime"] < 5)
    return runs(worker)


def runs(process: Mapping[str, Any] | None) -> bool:
    """Say whether a process, known by ``pid`` and ``start``, is running."""
    return process is not None and start_time(int(process["pid"])) == int(process["start"])


def kill(operation: Document, patience: float = 5.0) -> None:
    """End the operation's worker: SIGTERM, and SIGKILL after ``patience`` seconds."""
    end(operation["lab"].get("worker"), patience)


def end(process: Mapping[str, Any] | None, patience: float = 5.0) -> None:
    """End a process as ``kill`` does; ignore ``None`` and ended processes."""
    if process is None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + patience
        while runs(process):
            if time.monotonic() >= deadline:
                break
            try:
                os.kill(process["pid"], number)
            except ProcessLookupError:
                return
            time.sleep(0.05)
        else:
            return
