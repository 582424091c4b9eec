"""The process that runs one operation: ``python -m lab.lcm.worker --home DIR OPERATION``.

It is crash-only: nothing is done on SIGTERM, because a SIGKILL would skip it anyway. What a dead
worker leaves behind is found by its tag and model and removed by ns-delete.
"""

from __future__ import annotations

import os
import traceback
from pathlib import Path

import click

from lab.lcm.backends import RealBackends
from lab.lcm.errors import LcmError
from lab.lcm.journal import Journal
from lab.lcm.operations import Operations, fail_operation, ns_folder, operation_folder
from lab.lcm.timeouts import lab_timeouts
from lab.nbi.errors import NbiError
from lab.nbi.jobs import record_worker
from lab.nbi.store import OPS, Store, file_lock


@click.command()
@click.option("--home", type=click.Path(path_type=Path), required=True)
@click.argument("operation")
def main(home: Path, operation: str) -> None:
    """Run one operation of the lab in HOME."""
    raise SystemExit(0 if run(home, operation) == "COMPLETED" else 1)


def run(home: Path, op_id: str) -> str:
    """Run an operation after those before it on the same service; return its final state."""
    store = Store(home)
    record_worker(store, op_id, os.getpid())
    document = store.get(OPS, op_id)
    ns_id = document["nsInstanceId"]
    journal = Journal(operation_folder(home, op_id) / "events.jsonl")
    try:
        timeouts = lab_timeouts()
        with file_lock(home / "lcm" / "locks" / ns_id, timeouts.ns_deploy, f"ns {ns_id}"):
            state = Operations(store, RealBackends(home), timeouts, journal).run(op_id)
        if not ns_folder(home, ns_id).exists() and state == "COMPLETED":
            (home / "lcm" / "locks" / ns_id).unlink(missing_ok=True)
        return state
    except (NbiError, LcmError) as error:
        return _give_up(store, journal, op_id, str(error))
    except Exception as error:
        traceback.print_exc()
        return _give_up(store, journal, op_id, f"internal error: {error!r}")
    finally:
        journal.close()


def _give_up(store: Store, journal: Journal, op_id: str, reason: str) -> str:
    document = store.find(OPS, op_id)
    if document is not None:
        fail_operation(store, document, reason)
    journal.write("end", "ns", reason, state="FAILED", detail=reason)
    journal.write("settled", "ns", "failed", idle=True)
    return "FAILED"


if __name__ == "__main__":
    main()
