"""Execution environments in this process: a cluster in memory, VDUs of the model, real gRPC."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from helm_ee import server
from helm_ee.cluster import Cluster, ClusterError
from helm_ee.execution import Execution
from vpnaas.charm import Kind

from builder import charms
from builder.tree import Tree
from lab.certificates import Authority
from lab.cluster.frontend import Frontend


class Namespace:
    """What the API server keeps of one network service."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.offers: dict[str, str] = {}
        self.clusters: list[InMemory] = []
        self.broken = False

    def changed(self) -> None:
        for cluster in self.clusters:
            cluster.seen()


class InMemory(Cluster):
    """A release's access to it."""

    def __init__(self, namespace: Namespace, name: str) -> None:
        self.namespace = namespace
        self.seen: Callable[[], None] = lambda: None
        super().__init__(name, client=object())
        namespace.states.setdefault(name, "")
        namespace.offers.setdefault(name, "")
        namespace.clusters.append(self)

    def _check(self) -> None:
        if self.namespace.broken:
            raise ClusterError("the API server does not answer")

    def state(self) -> str:
        self._check()
        return self.namespace.states[self.name]

    def keep_state(self, text: str) -> None:
        self._check()
        self.namespace.states[self.name] = text

    def load(self) -> str:
        self._check()
        return "1"

    def offers(self) -> dict[str, str]:
        return dict(self.namespace.offers)

    def tell(self, text: str) -> None:
        self._check()
        if self.namespace.offers.get(self.name) != text:
            self.namespace.offers[self.name] = text
            self.namespace.changed()

    def watch(self, changed: Callable[[], None], stopped: threading.Event) -> None:
        self.seen = changed
        stopped.wait()


def declared(charm: str) -> dict[str, Any]:
    """Return the declarations of a charm, as the image has them."""
    found = charms.load(Tree.find(Path(__file__)), charm)
    documents = {"metadata": found.metadata, "actions": found.actions, "config": found.config}
    loaded: dict[str, Any] = yaml.safe_load(yaml.safe_dump(documents))
    return loaded


class Environment:
    """One release: its pod may be restarted."""

    def __init__(self, namespace: Namespace, name: str, kind: Kind, charm: str, run: Path) -> None:
        self.namespace, self.name, self.kind = namespace, name, kind
        self.declared = declared(charm)
        self.run = run
        self.restart()

    def restart(self) -> None:
        """Begin with what a new pod has: the cluster, and an empty folder."""
        self.pods = getattr(self, "pods", 0) + 1
        self.cluster = InMemory(self.namespace, self.name)
        folder = self.run / f"{self.name}-{self.pods}"
        self.execution = Execution(self.kind, self.cluster, str(folder), self.declared)

    def ask(self, name: str, /, **params: object) -> tuple[str, str]:
        """Run a primitive without gRPC; hyphens stand as underscores."""
        given = {key.replace("_", "-"): value for key, value in params.items()}
        return self.execution.primitive(name, yaml.safe_dump(given))

    @contextlib.contextmanager
    def serving(self, port: int, tls: server.Tls | None, trust: Path | None) -> Iterator[Frontend]:
        """Serve by gRPC on loopback; give LCM's client of it."""
        loop = asyncio.new_event_loop()
        task: list[asyncio.Task[None]] = []

        def run() -> None:
            asyncio.set_event_loop(loop)
            work = server.serve(self.execution, self.cluster, "127.0.0.1", port, tls)
            task.append(loop.create_task(work))
            with contextlib.suppress(asyncio.CancelledError):
                loop.run_until_complete(task[0])

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield Frontend("127.0.0.1", f"{self.name}.ns.svc", trust, port)
        finally:
            loop.call_soon_threadsafe(lambda: task[0].cancel())
            thread.join(120)


def certificates(folder: Path, authority: Authority, client: bool = True) -> tuple[Path, Path]:
    """Write the volumes of a pod and the files of LCM; return both folders."""
    pod, lcm = folder / "pod", folder / "lcm"
    for place, issued in (
        (pod, authority.issue("ns", ["*.ns.svc"])),
        (lcm, authority.issue("lcm", ["lcm"], client=client)),
    ):
        place.mkdir(parents=True)
        (place / "tls.crt").write_text(issued[0])
        (place / "tls.key").write_text(issued[1])
        (place / "ca.crt").write_text(authority.certificate)
    return pod, lcm
