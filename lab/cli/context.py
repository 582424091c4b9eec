"""What every verb of the command line needs."""

from collections.abc import Iterable
from pathlib import Path

import click

from lab.cli.progress import watch
from lab.cli.render import Output
from lab.errors import NbiError, spoken
from lab.lcm import heartbeat
from lab.nbi import views
from lab.nbi.engine import Engine, Started
from lab.nbi.slice_requests import Slices
from lab.records import jobs
from lab.records.operations import discard
from lab.records.store import NSIOPS, NSRS, Document


class Lab:
    """What every verb needs: the home directory, the engine and where output goes."""

    def __init__(self, home: Path, form: str) -> None:
        self.home = home.absolute()
        self.out = Output(form)
        self.engine = Engine(self.home)
        # After a restart of the machine it is gone.
        if self.engine.store.has(NSRS):
            heartbeat.ensure(self.home)

    @property
    def slices(self) -> Slices:
        return Slices(self.engine)

    def view(self, collection: str, document: Document) -> Document:
        """Return a record as OSM's interface shows it."""
        return views.view(collection, document, self.engine.store)

    def views(self, collection: str, documents: Iterable[Document]) -> list[Document]:
        """Return records as OSM's interface lists them, with a line for each damaged one."""
        return views.views(collection, self.engine.store, documents)

    def discarded(self, collection: str, key: str) -> bool:
        """Delete a record that is damaged and tell what stays; return whether it was."""
        done = discard(self.engine.store, collection, key)
        if done:
            self.out.remark("Deleted the damaged record. VDUs of it stay until `lab clean`.")
        return done

    def follow(
        self, started: Started, wait: bool, timeout: float | None = None, until_idle: bool = True
    ) -> None:
        """Print warnings; with ``wait`` show progress until the operation's end.

        With ``until_idle`` also until the charms have nothing more to do.
        """
        for warning in started.warnings:
            self.out.remark(f"WARNING: {warning}")
        if not wait:
            return
        op_id = started.operation["_id"]
        what = "nsi" if started.collection == NSIOPS else "ns"
        subject = f"{what} '{started.nsr['name']}'"
        seen = started.operation

        def alive() -> bool:
            nonlocal seen
            # Deleting a service also deletes its operations. The last document read still names
            # the worker, and the journal has the result.
            seen = self.engine.store.readable(started.collection, op_id) or seen
            return jobs.alive(seen)

        kind = started.operation["lcmOperationType"]
        try:
            outcome = watch(started.tail, alive, self.out.progress, timeout, until_idle)
        except KeyboardInterrupt:
            undo = f"; undo it with: osm-lab {what}-delete {started.nsr['name']}"
            self.out.remark(
                f"{kind} of {subject} goes on; follow it with: osm-lab {what}-op-show {op_id}"
                f"{undo if kind == 'instantiate' else ''}"
            )
            raise
        if outcome.lost and alive() is False and seen["operationState"] == "COMPLETED":
            return  # Only its journal could not be written, as the disk is full.
        if outcome.lost:
            reason = jobs.ending(self.engine.store, seen)
            self.slices.reap()
            raise NbiError(f"{kind} of {subject} failed: {reason}")
        if outcome.state is None:
            raise NbiError(
                f"{kind} of {subject} is not done after {timeout:.0f} s and goes on; "
                f"see {what}-op-show {op_id}"
            )
        if outcome.state == "FAILED":
            raise NbiError(f"{kind} of {subject} failed: {spoken(outcome.detail)}")

    def finish(self, started: Started, wait: bool) -> None:
        """Follow an operation, then print its id."""
        self.follow(started, wait)
        self.out.identity(started.operation)


pass_lab = click.make_pass_decorator(Lab)
