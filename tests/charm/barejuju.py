"""A unit of the lab's controller that gets any event at any time, in whatever situation.

The controller fires events in Juju's order. A charm must not depend on that: OSM, upgrades, machine
restarts and resolved failures bring others. Here a test writes the model's document, and one
dispatch runs with the hook tools of `lab.vca`.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builder.tree import BASES, Tree
from lab.vca import process, relations, resolver
from lab.vca.charm import read_charm
from lab.vca.context import HookContext
from lab.vca.events import Publisher
from lab.vca.runtime import Paths, Runtime, Settings
from lab.vca.state import (
    ActionDocument,
    Application,
    Databag,
    Endpoint,
    HookInfo,
    ModelDocument,
    Relation,
    Unit,
    UnitRelation,
)
from lab.vca.store import Store
from lab.vca.toolserver import ToolServer, install_tools

LIMIT = 60.0
"""Seconds a dispatch may take; each waits for a VDU for less."""


def pythons(base: str) -> list[str]:
    """Return the Pythons that charms for a base carry files for."""
    tree = Tree(Path(__file__).parents[2], base=base)
    text = (tree.pins / "cffi-backends.yaml").read_text("utf-8")
    return [BASES[base].python, *re.findall(r'python: "(.+)"', text)]


PYTHONS = {base: pythons(base) for base in BASES}


@dataclass
class Run:
    problem: str = ""  # Why it failed, such as "exit status 1".
    seconds: float = 0.0
    stderr: str = ""
    statuses: list[tuple[str, str]] = field(default_factory=list)
    log: str = ""
    calls: list[str] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)


class _Context(HookContext):
    """A context that notes what the charm says."""

    run: Run

    def set_status(self, status: str, message: str) -> None:
        self.run.statuses.append((status, message))
        super().set_status(status, message)

    def log(self, level: int, message: str) -> None:
        self.run.log += message + "\n"


class _Server(ToolServer):
    """A server that notes the tools the charm calls."""

    run: Run

    def _answer(self, fields: list[bytes], stdin: bytes | None) -> bytes:
        self.run.calls.append(b" ".join(fields[1:]).decode())
        return super()._answer(fields, stdin)


class BareJuju:
    """Unit 0 of an assembled charm, in a model that a test writes."""

    def __init__(self, charm: Path, home: Path, python: Path, prefix: Sequence[str] = ()) -> None:
        """Prepare a unit; `prefix` goes before dispatch, to put it into a namespace."""
        metadata = read_charm(charm).metadata
        self.app, self.name = metadata.name, f"{metadata.name}/0"
        self._roles = {name: (role, spec) for role, name, spec in metadata.endpoints()}
        paths = Paths(home / "model")
        for folder in (home / "bin", paths.charm(self.name), paths.home(self.name)):
            folder.mkdir(parents=True)
        (home / "bin/python3").symlink_to(python)
        install_tools(home / "tools")
        # The charm folder itself is written to; what lies in it is not.
        for entry in charm.iterdir():
            (paths.charm(self.name) / entry.name).symlink_to(entry)
        self._charm = read_charm(paths.charm(self.name))
        app = Application(name=self.app, charm_name=self.app, charm_revision=0)
        unit = Unit(name=self.name, app=self.app, number=0, machine=0, address="252.0.0.1")
        unit.installed = True
        document = ModelDocument(uuid="bare", apps={self.app: app}, units={self.name: unit})
        store = Store.create(paths.model, document)
        store.load()
        log = logging.getLogger(f"bare.{home.name}")
        slots, tools = threading.Semaphore(), home / "tools"
        self._runtime = Runtime(
            store, Settings(), paths, tools, home / "bin", tuple(prefix), slots, Publisher(log), log
        )

    def lead(self, **config: str) -> None:
        """Make the unit the leader, with options set."""
        with self._runtime.store.transaction() as document:
            document.apps[self.app].leader = self.name
            document.apps[self.app].config.update(config)

    def relate(
        self, endpoint: str, number: int, remote: str, bag: Mapping[str, str], own: bool = True
    ) -> None:
        """Let the unit see a relation: with the remote unit and its application's data.

        A peer relation has no remote; its data are those of the unit's own application. With
        `own` false all databags are out of reach, as before a unit entered a relation.
        """
        app = remote.partition("/")[0] or self.app
        role, spec = self._roles[endpoint]
        ends = [Endpoint(app=self.app, name=endpoint, role=role, interface=spec.interface)]
        if remote:
            other = "requirer" if role == "provider" else "provider"
            ends.append(Endpoint(app=app, name=endpoint, role=other, interface=spec.interface))
        bags = {self.name: Databag(), remote or f"{app}/1": Databag()}
        relation = Relation(id=number, endpoints=ends, units=bags, in_scope=list(bags))
        relation.apps = {self.app: Databag(), app: Databag(data=dict(bag))}
        if not own:
            relation.in_scope.remove(self.name)
        with self._runtime.store.transaction() as document:
            document.relations[number] = relation
            members = {remote: 1} if remote else {}
            document.units[self.name].relations[number] = UnitRelation(
                created=True, members=members
            )

    def act(self, name: str) -> Run:
        return self._run(f"actions/{name}", ActionDocument(id="1", unit=self.name, name=name))

    def dispatch(self, hook: HookInfo | str) -> Run:
        info = HookInfo(kind=hook) if isinstance(hook, str) else hook
        if info.kind == relations.BROKEN and info.relation_id is not None:
            # Whatever came before: in this hook Juju lists no remote unit.
            with self._runtime.store.transaction() as document:
                document.units[self.name].relations[info.relation_id].members = {}
        return self._run(f"hooks/{hook_name(self, info)}", info)

    def _run(self, path: str, what: HookInfo | ActionDocument) -> Run:
        runtime, store, run = self._runtime, self._runtime.store, Run()
        hook, action = (what, None) if isinstance(what, HookInfo) else (None, what)
        unit = store.document.units[self.name]
        context = _Context(store, self._charm, unit, hook, action, runtime.log, lambda event: None)
        server = _Server(runtime.paths.contexts / "bare", context)
        context.run = server.run = run
        interrupt = process.Interrupt()
        begun = time.monotonic()
        said: list[str] = []
        try:
            done = process.run(
                [
                    *runtime.exec_prefix,
                    str(process.find_script(runtime.paths.charm(self.name), path)),
                ],
                environment=process.environment(runtime, path, context, "bare", server.address),
                directory=runtime.paths.charm(self.name),
                timeout=LIMIT,
                server=server,
                interrupt=interrupt,
                on_stdout=lambda line: None,
                on_stderr=lambda line: said.append(line + "\n"),
            )
        finally:
            interrupt.close()
            server.close()
        assert not done.problem.startswith("killed"), run.log
        if not done.problem:
            with store.transaction() as document:
                context.flush(document)
        run.problem, run.seconds = done.problem, time.monotonic() - begun
        run.stderr = "".join(said)
        run.results = action.results if action else {}
        return run

    @property
    def document(self) -> ModelDocument:
        return self._runtime.store.document


def hook_name(juju: BareJuju, info: HookInfo) -> str:
    """Return the name of a hook, of a relation hook with its endpoint."""
    return resolver.hook_name(juju.document, juju.app, info)


def relation_event(kind: str, number: int, remote: str) -> HookInfo:
    return HookInfo(
        kind=f"relation-{kind}",
        relation_id=number,
        remote_app=remote.partition("/")[0],
        remote_unit="" if kind in ("created", "broken") else remote,
        departing_unit=remote if kind == "departed" else "",
    )


def problems(run: Run) -> list[str]:
    """Say what a hook must never do: fail, show a traceback, or set another status than two."""
    found = []
    if run.problem:
        found.append(f"{run.problem}: {run.stderr[-400:]}")
    for text in (run.stderr, run.log):
        if "Traceback" in text or "Uncaught exception" in text:
            found.append(text[-600:])
    found += [
        f"status {status}" for status, _ in run.statuses if status not in ("active", "blocked")
    ]
    return found


def is_sentence(text: str) -> bool:
    """Whether a text is one line for people: no traceback, no repr of an exception."""
    return bool(text) and "\n" not in text.strip() and "Error(" not in text and len(text) < 600


@functools.cache
def charm_pythons() -> dict[str, Path]:
    """Return the interpreters at hand the vendored files are made for, by version."""
    candidates = [Path("/usr/bin/python3")]
    override = os.environ.get("OSMLAB_CHARM_PYTHON")
    if override:
        candidates.insert(0, Path(override))
    for version in sorted({version for each in PYTHONS.values() for version in each}):
        shim = shutil.which(f"python{version}")
        if shim:
            candidates.append(Path(shim))
            # A pyenv shim runs only the versions switched on; all installed ones lie beside it.
            versions = Path(shim).parent.parent / "versions"
            candidates += sorted(versions.glob(f"{version}.*/bin/python{version}"))
    found: dict[str, Path] = {}
    for candidate in candidates:
        try:
            done = subprocess.run(
                [candidate, "-I", "-S", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
                capture_output=True,
                text=True,
                timeout=120,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            continue
        found.setdefault(done.stdout.strip(), candidate)
    return found
