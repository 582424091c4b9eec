"""The process that runs one operation: ``python -m lab.lcm.worker --home DIR OPERATION``.

It is crash-only: nothing is done on SIGTERM, because a SIGKILL would skip it anyway. What a dead
worker leaves behind is found by its tag and model and removed by ns-delete.
"""

from __future__ import annotations

from pathlib import Path

import click

from lab.lcm import keeper
from lab.lcm.backends import Backends
from lab.lcm.operations import Operations
from lab.lcm.running import run_operation
from lab.lcm.timeouts import lab_timeouts
from lab.records.journal import Journal
from lab.records.operations import fail_operation, ns_folder
from lab.records.store import OPS, Store, file_lock


@click.command()
@click.option("--home", type=click.Path(path_type=Path), required=True)
@click.argument("operation")
def main(home: Path, operation: str) -> None:
    """Run one operation of the lab in HOME."""
    raise SystemExit(0 if run(home, operation) == "COMPLETED" else 1)


def run(home: Path, op_id: str) -> str:
    """Run an operation after those before it on the same service; return its final state."""
    store = Store(home)
    ns_id = store.get(OPS, op_id)["nsInstanceId"]
    lock = home / "lcm" / "locks" / ns_id

    def work(journal: Journal) -> str:
        timeouts = lab_timeouts()
        with file_lock(lock, timeouts.ns_deploy, f"ns {ns_id}"):
            state = Operations(store, Backends(home), timeouts, journal).run(op_id)
        if not ns_folder(home, ns_id).exists() and state == "COMPLETED":
            lock.unlink(missing_ok=True)
        else:
            keeper.ensure(home)
        return state

    return run_operation(store, op_id, OPS, "ns", work, fail_operation)


if __name__ == "__main__":
    main()
