"""Juju's `update-status` between operations: ``python -m lab.lcm.timer --home DIR``.

Juju fires `update-status` at every unit every five minutes. In the lab the agents of a service run
only while an operation does; so one process per lab runs them when `update-status` is due. While
somebody watches the links, it also looks at them often (`looking`). The worker of an operation
starts it when it is not there, as does every verb that finds services. It ends with the last one.

Like a worker it does not handle SIGTERM.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import click

from lab import files
from lab.errors import ConflictError, LabError, NbiError, WaitTimeoutError
from lab.lcm import condition, looking
from lab.lcm.backends import Backends
from lab.lcm.heartbeat import began, interval
from lab.lcm.timeouts import lab_timeouts
from lab.records.store import NSRS
from lab.vca.model import Model
from lab.vca.status import status_of

CHECKS = 10.0  # Seconds between two looks whether the VDUs run.
LOOKS = 15.0  # Seconds between two looks at the links of a service that somebody watches.


def update_status(backends: Backends, ns_id: str, patience: float) -> None:
    """Fire `update-status` at every unit of a service; see `run_charms`."""
    run_charms(backends, ns_id, Model.update_status, patience, lab_timeouts().settle)


def run_charms(
    backends: Backends, ns_id: str, begin: Callable[[Model], object], patience: float, limit: float
) -> None:
    """Let a service's charms run what `begin` queues, until all units are idle or in error.

    `patience`: seconds to wait for an operation on the service to end; `limit`: for the units.
    ConflictError says that an operation goes on.
    """
    lock = backends.home / "lcm" / "locks" / ns_id
    with files.locked(lock, patience, f"ns {ns_id}"):
        if ns_id not in backends.controller().models():
            raise NbiError(f"ns {ns_id} has no charms")
        begin(backends.controller().model(ns_id))
        with backends.controller().model(ns_id) as model:
            try:
                status = model.wait_idle(limit, retries=False)
            except WaitTimeoutError as error:
                raise NbiError(f"charms of ns {ns_id} are still busy: {error}") from None
            if failed := status.failed:
                text = "; ".join(f"{unit}: {reason}" for unit, reason in sorted(failed.items()))
                raise NbiError(f"charms of ns {ns_id} are in error: {text}")


def keep(home: Path, seconds: float) -> None:
    """Fire `update-status` at all services every ``seconds``, until there is no service.

    While somebody watches, look at their links every ``LOOKS`` seconds too, but not more than half
    of the time.
    """
    backends = Backends(home)
    due: dict[tuple[str, bool], float] = {}
    checked = -CHECKS
    while home.exists() and (services := [n["_id"] for n in backends.store.all(NSRS)]):
        models = backends.controller().models()
        if time.monotonic() >= checked + CHECKS:
            checked = time.monotonic()
            for nsr in backends.store.all(NSRS):
                with suppress(LabError):
                    status = status_of(home, nsr["_id"])
                    condition.note(backends, nsr, status.failed if status is not None else {})
        for ns_id, looks in ((ns_id, looks) for ns_id in services for looks in (False, True)):
            began = time.monotonic()
            pause = LOOKS if looks else seconds
            if not (looking.watched(home) if looks else ns_id in models):
                due.pop((ns_id, looks), None)
                continue
            if due.setdefault((ns_id, looks), began + pause * (not looks)) > began:
                continue
            due[ns_id, looks] = began + pause
            try:
                if looks:
                    looking.look(backends, ns_id, 0)
                else:
                    update_status(backends, ns_id, 0)
            except (LabError, OSError) as error:
                if isinstance(error, ConflictError):  # an operation runs
                    due[ns_id, looks] = began + min(pause, 5.0)
                with suppress(OSError):  # the disk is full
                    print(error, flush=True)
            if looks:
                time.sleep(min(LOOKS, time.monotonic() - began))
        time.sleep(min(seconds, 1.0))


@click.command()
@click.option("--home", type=click.Path(path_type=Path), required=True)
def main(home: Path) -> None:
    """Fire update-status at the services of the lab in HOME, until there is no service."""
    try:
        with files.locked(home / "lcm" / "timer.lock", 0, "update-status"):
            began(home)
            keep(home, interval())
    except NbiError:
        return  # there is one already


if __name__ == "__main__":
    main()
