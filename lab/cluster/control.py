"""The cluster of a lab: starts and ends its processes, and passes calls on."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

from builder import documents
from builder.programs import output
from lab import files
from lab.errors import ClusterError
from lab.procs import ProcessRef, last_words, launch, start_time

BUILT = Path(__file__).resolve().parents[2] / ".cache" / "bin"
"""Where the set-up script puts the programs."""
PROGRAMS = ("etcd", "kube-apiserver", "helm")
READY = "https://127.0.0.1:6443/readyz"
READY_SECONDS = 120
SCRIPTS = Path(__file__).resolve().parents[2]


class Cluster:
    """OSM's Kubernetes, in ``<home>/cluster``."""

    def __init__(self, home: Path, exec_prefix: Sequence[str] = ()) -> None:
        """Start nothing yet; ``exec_prefix`` enters the cluster's network namespace."""
        self.folder = home.resolve() / "cluster"
        self._prefix = tuple(exec_prefix)

    def call(self, what: str, **words: Any) -> Any:
        """Start the cluster if it does not run, and do a call of the connector."""
        self.start()
        argv = [*self._prefix, sys.executable, "-m", "lab.cluster.connector", str(self.folder)]
        given = json.dumps({"call": what, **words})
        env = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
        answer = json.loads(output(argv, f"call {what}", ClusterError, input=given, env=env))
        if "error" in answer:
            raise ClusterError(str(answer["error"]))
        return answer["answer"]

    def exists(self) -> bool:
        """Return whether the cluster's folder exists: it was started once and not removed."""
        return self.folder.exists()

    def start(self) -> None:
        """Start the processes that do not run, and wait until the API server answers."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        with files.locked(self.folder / "lock"):
            if all(self._runs(name) for name in ("etcd", "api", "kubelet")):
                return
            self._prepare()
            settings = self._settings()
            self._run("etcd", str(self.folder / "bin" / "etcd"), *settings["etcd"])
            server = str(self.folder / "bin" / "kube-apiserver")
            self._run("api", server, *settings["kube-apiserver"])
            self._wait()
            self._run("kubelet", sys.executable, "-m", "lab.cluster.kubelet", str(self.folder))

    def stop(self) -> None:
        if not self.exists():
            return
        with files.locked(self.folder / "lock"):
            for name in ("kubelet", "api", "etcd"):
                if (process := self._process(name)) is not None:
                    process.end(10)

    # -- processes ----------------------------------------------------------------------------

    def _prepare(self) -> None:
        from lab.certificates import Authority  # It loads slowly, and few labs have a cluster.

        programs = self.folder / "bin"
        programs.mkdir(exist_ok=True)
        for name in PROGRAMS:
            source = BUILT / name
            if not source.exists():
                raise ClusterError(
                    f"Helm execution environments need {name}, which is not there: "
                    "run ./run setup --kubernetes"
                )
            if not (programs / name).is_symlink():
                (programs / name).symlink_to(source)
        authority = Authority(self.folder / "authority")
        (self.folder / "lcm").mkdir(exist_ok=True, mode=0o700)
        names = ["127.0.0.1", "kubernetes.default.svc"]
        for place, (certificate, key) in (
            ("apiserver", authority.issue("kube-apiserver", names)),
            ("admin", authority.issue("admin", client=True, group="system:masters")),
            ("lcm/tls", authority.issue("lcm-client", client=True)),
        ):
            if not (self.folder / f"{place}.crt").exists():
                files.replace(self.folder / f"{place}.key", key)
                files.replace(self.folder / f"{place}.crt", certificate)
        files.replace(self.folder / "lcm" / "ca.crt", authority.certificate)
        # JSON is YAML, which clients read.
        files.replace(self.folder / "kubeconfig", json.dumps(self._settings()["kubeconfig"]))

    def _settings(self) -> dict[str, Any]:
        text = Template(json.dumps(documents.read(Path(__file__).with_name("programs.yaml"))))
        settings: dict[str, Any] = json.loads(
            text.substitute(folder=json.dumps(str(self.folder))[1:-1])
        )
        return settings

    def _wait(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        words = ["curl", "-sf", "--cacert", str(self.folder / "authority" / "ca.crt")]
        while time.monotonic() < deadline:
            probe = [*self._prefix, *words, READY]
            if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
                return
            if not self._runs("api"):
                break
            time.sleep(0.3)
        raise ClusterError(f"the API server is not ready: {last_words(self.folder / 'api.log')}")

    def _run(self, name: str, *command: str) -> None:
        if self._runs(name):
            return
        environment = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
        process = launch([*self._prefix, *command], self.folder / f"{name}.log", environment)
        ProcessRef(process.pid, start_time(process.pid) or 0).save(self.folder / f"{name}.json")

    def _process(self, name: str) -> ProcessRef | None:
        return ProcessRef.saved(self.folder / f"{name}.json")

    def _runs(self, name: str) -> bool:
        return self._process(name) is not None
