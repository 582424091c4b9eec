"""The process of an operation on a slice: ``python -m lab.lcm.sliceworker --home DIR OPERATION``.

Crash-only like ``lab.lcm.worker``: the services it started go on without it, and nsi-delete ends
them with all they made.
"""

from __future__ import annotations

from pathlib import Path

import click

from lab.lcm.backends import Backends
from lab.lcm.running import run_operation
from lab.lcm.slices import SliceOperations
from lab.lcm.timeouts import lab_timeouts
from lab.records.journal import Journal
from lab.records.operations import end_slice_operation
from lab.records.store import NSIOPS, Store


@click.command()
@click.option("--home", type=click.Path(path_type=Path), required=True)
@click.argument("operation")
def main(home: Path, operation: str) -> None:
    """Run one operation on a slice of the lab in HOME."""
    raise SystemExit(0 if run(home, operation) == "COMPLETED" else 1)


def run(home: Path, op_id: str) -> str:
    """Run an operation; return its final state."""
    store = Store(home)

    def work(journal: Journal) -> str:
        return SliceOperations(store, Backends(home), lab_timeouts(), journal).run(op_id)

    return run_operation(store, op_id, NSIOPS, "nsi", work, end_slice_operation)


if __name__ == "__main__":
    main()
