"""The process of an operation on a slice: ``python -m lab.lcm.sliceworker --home DIR OPERATION``.

Crash-only like ``lab.lcm.worker``: the services it started go on without it, and nsi-delete ends
them with all they made.
"""

from __future__ import annotations

import os
import traceback
from pathlib import Path

import click

from lab.lcm.backends import RealBackends
from lab.lcm.errors import LcmError
from lab.lcm.journal import Journal
from lab.lcm.operations import operation_folder
from lab.lcm.slices import SliceOperations, end_slice_operation
from lab.lcm.timeouts import lab_timeouts
from lab.nbi.errors import NbiError
from lab.nbi.jobs import record_worker
from lab.nbi.store import NSIOPS, Store


@click.command()
@click.option("--home", type=click.Path(path_type=Path), required=True)
@click.argument("operation")
def main(home: Path, operation: str) -> None:
    """Run one operation on a slice of the lab in HOME."""
    raise SystemExit(0 if run(home, operation) == "COMPLETED" else 1)


def run(home: Path, op_id: str) -> str:
    """Run an operation; return its final state."""
    store = Store(home)
    record_worker(store, op_id, os.getpid(), NSIOPS)
    journal = Journal(operation_folder(home, op_id) / "events.jsonl")
    try:
        return SliceOperations(store, RealBackends(home), lab_timeouts(), journal).run(op_id)
    except (NbiError, LcmError) as error:
        return _give_up(store, journal, op_id, str(error))
    except Exception as error:
        traceback.print_exc()
        return _give_up(store, journal, op_id, f"internal error: {error!r}")
    finally:
        journal.close()


def _give_up(store: Store, journal: Journal, op_id: str, reason: str) -> str:
    document = store.find(NSIOPS, op_id)
    if document is not None:
        end_slice_operation(store, document, reason)
    journal.write("end", "nsi", reason, state="FAILED", detail=reason)
    journal.write("settled", "nsi", "failed", idle=True)
    return "FAILED"


if __name__ == "__main__":
    main()
