"""Day-2 primitives through the `osm` command, or another with the same verbs and options."""

import contextlib
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import click

from builder.documents import DocumentError, load


class OperateError(click.ClickException):
    """One sentence for the operator; any function of this package may raise it."""


Instance = tuple[str, int] | None
"""VDU and count index of a charm at the level of VDUs; None for a charm of the whole VNF."""
Params = Mapping[str, Any]

SILENCE = 10.0  # Seconds between two progress lines of an operation.
_BAR = re.compile("[|\u2502\u2503]")
"""Column separator in the client's tables: ASCII or box-drawing characters."""
_MALFORMED = (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError)
"""Errors of a reader whose document has another form: an OSM or a VNF may answer anything."""


@contextmanager
def understood(whose: str) -> Iterator[None]:
    """Make one sentence of errors while an answer is read; also a decorator of a function."""
    try:
        yield
    except _MALFORMED as error:
        lacks = isinstance(error, KeyError) and error.args and isinstance(error.args[0], str)
        how = f"it lacks '{error.args[0]}'" if lacks else "it has another form"
        raise OperateError(f"{whose} gives an answer that cannot be used: {how}") from error


@contextmanager
def going_on(operation: str, verb: str = "osm ns-op-show") -> Iterator[str]:
    """Yield how to follow an operation that goes on; say so if Ctrl-C ends the wait for it."""
    how = f"goes on; follow it with: {verb} {operation}"
    try:
        yield how
    except KeyboardInterrupt:
        click.echo(f"operation {operation} {how}", err=True)
        raise


def waited(
    read: Callable[[], dict[str, Any]],
    limit: float,
    pause: float,
    late: Callable[[dict[str, Any]], str],
    tell: Callable[[str], object] = lambda _: None,
) -> dict[str, Any]:
    """Wait for the end of an operation, however it ends; return its record.

    Args:
        read: Function that returns the record as it is now.
        limit: Seconds until the wait ends with an error.
        pause: Seconds between two records.
        late: Function that returns the sentence of this error.
        tell: Function that gets a line every ten seconds, with the stage from OSM.
    """
    started = told = time.monotonic()
    while True:
        record = read()
        if record.get("operationState") not in ("PROCESSING", "ROLLING_BACK", None):
            return record
        now = time.monotonic()
        if now > started + limit:
            raise OperateError(late(record))
        if now - told >= SILENCE:
            told = now
            tell(f"{now - started:.0f} s: {record.get('stage') or 'in progress'}")
        time.sleep(pause)


@dataclass(frozen=True)
class Client:
    """The client's command line."""

    command: tuple[str, ...] = ("osm",)  # Words before the verb: ``("osm",)``.
    timeout: float = 600.0  # Seconds a primitive may take.
    pause: float = 1.0  # Seconds between two queries for the state of a primitive.
    # Environment variables of the command, in addition to those of this process.
    environment: Mapping[str, str] = field(default_factory=dict)

    def verb(self, *words: str) -> str:
        """Run a verb and return what it printed."""
        argv = [*self.command, *words]
        try:
            done = subprocess.run(
                argv,
                env={**os.environ, **self.environment},
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except OSError as error:
            raise OperateError(f"{self.command[0]} cannot be run: {error.strerror}") from None
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise OperateError(f"{words[0]}: {said[-1] if said else 'no reason given'}")
        return done.stdout

    def document(self, verb: str, id: str) -> dict[str, Any]:
        printed = self.verb(verb, "--literal", id)
        with contextlib.suppress(DocumentError):
            if isinstance(document := load(printed), dict):
                return document
        raise OperateError(f"{verb} --literal printed no document")

    def slice_ids(self) -> dict[str, str]:
        """Return the ids of all slices by name, from the table that the client prints."""
        rows = [_BAR.split(line) for line in self.verb("nsi-list").splitlines()]
        cells = [(row[1].strip(), row[2].strip()) for row in rows if len(row) > 3]
        return {name: id for name, id in cells if name and name != "netslice instance name"}

    def start(self, ns: str, vnf: str, name: str, params: Params, instance: Instance = None) -> str:
        """Start a day-2 primitive; return the id of its operation."""
        given = json.dumps(dict(params))
        words = ["ns-action", ns, "--vnf_name", vnf, "--action_name", name, "--params", given]
        if instance is not None:
            words += ["--vdu_id", instance[0], "--vdu_count", str(instance[1])]
        printed = self.verb(*words).split()
        return printed[-1] if printed else ""

    def wait(self, operation: str) -> dict[str, Any]:
        """Wait for the end of an operation, however it ends; return its record."""
        with going_on(operation, " ".join((*self.command, "ns-op-show"))) as how:
            late = f"operation {operation} is not done after {self.timeout:.0f} s and {how}"
            record = partial(self.document, "ns-op-show", operation)
            return waited(record, self.timeout, self.pause, lambda _: late)

    def action(
        self, ns: str, vnf: str, name: str, params: Params, instance: Instance = None
    ) -> dict[str, Any]:
        """Run a day-2 primitive of our charms on a member-vnf-index; return its JSON output."""
        record = self.wait(self.start(ns, vnf, name, params, instance))
        detail = record.get("detailed-status")
        if record["operationState"] != "COMPLETED":
            raise OperateError(f"{name} on {ns}/{vnf} failed: {detail}")
        output = detail.get("output") if isinstance(detail, dict) else detail
        try:
            result = json.loads(str(output))
        except (ValueError, RecursionError):
            raise OperateError(f"{name} on {ns}/{vnf} answered no JSON: {output}") from None
        if not isinstance(result, dict):
            raise OperateError(f"{name} on {ns}/{vnf} answered no mapping: {output}")
        return result
