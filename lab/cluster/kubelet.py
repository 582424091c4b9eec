"""Makes the pods of StatefulSets and runs them: ``python -m lab.cluster.kubelet FOLDER``.

It replaces the controller of StatefulSets, the scheduler and a kubelet. Pods are objects of the
API server, which checks them as in any cluster. A container is a process with a root file system,
mounts, users and processes of its own. Its image is the folder of dist/ from which a real one is
built, over the machine's own files.
"""

import base64
import contextlib
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path
from typing import Any

import httpx2
from lightkube.models.authentication_v1 import TokenRequestSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apps_v1 import StatefulSet
from lightkube.resources.core_v1 import Pod, Secret, ServiceAccountToken

from lab.cluster.connector import client
from lab.procs import launch

PERIOD = 0.4
IMAGES = "OSMLAB_EE_IMAGE"
"""Variable with the folder of the image; the default is the folder in dist/."""
IMAGE = Path(__file__).resolve().parents[2] / "dist" / "execution-environment"
ROOT = "/opt/osm-vpnaas"
SITE = "/opt/site-packages"
TOKEN_SECONDS = 24 * 3600

START = Path(__file__).with_name("start.sh").read_text(encoding="utf-8")


class Running:
    """The process of a pod."""

    def __init__(self, address: str, process: subprocess.Popen[bytes]) -> None:
        self.address = address
        self.process = process
        self.ready = False
        self.started = time.monotonic()

    def end(self) -> None:
        """End it as a kubelet does: SIGTERM, and SIGKILL after 2 s."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Kubelet:
    """Starts and ends processes, so that they match the StatefulSets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.api = client(folder)
        self.running: dict[tuple[str, str], Running] = {}
        self._next = 1

    def step(self) -> None:
        """Read the StatefulSets once, and start and end processes for them."""
        sets = {}
        for stateful_set in self.api.list(StatefulSet, namespace="*"):
            metadata = stateful_set.metadata
            if metadata and stateful_set.spec and not metadata.deletionTimestamp:
                sets[str(metadata.namespace), str(metadata.name)] = stateful_set
        for key in [key for key in self.running if key not in sets]:
            self.running.pop(key).end()
            self._forget(*key)
        for key, stateful_set in sets.items():
            try:
                self._bring(key, stateful_set)
            except (httpx2.HTTPError, OSError) as error:  # the next step tries again
                print(f"{key[1]}: {error}", flush=True)

    def _bring(self, key: tuple[str, str], stateful_set: Any) -> None:
        namespace, name = key
        before = self.running.get(key)
        if before is not None and before.process.poll() is None:
            if not before.ready and _listens(before.address):
                before.ready = True
                self._tell_ready(namespace, name, stateful_set, before.address)
            return
        if before is not None and time.monotonic() - before.started < 1:
            return
        pod = self._pod(namespace, name, stateful_set)
        address = before.address if before else self._address()
        self.running[key] = self._run(pod, address)
        body = {"status": {"phase": "Running", "podIP": address}}
        self.api.patch(Pod.Status, f"{name}-0", body, namespace=namespace)

    def _address(self) -> str:
        number, self._next = self._next, self._next + 1
        return f"127.1.{number // 250}.{number % 250 + 1}"

    def _pod(self, namespace: str, name: str, stateful_set: Any) -> Any:
        """Return the pod of a StatefulSet; create it if it is missing."""
        metadata = ObjectMeta(
            name=f"{name}-0", namespace=namespace, labels=stateful_set.spec.template.metadata.labels
        )
        try:
            return self.api.create(Pod(metadata=metadata, spec=stateful_set.spec.template.spec))
        except httpx2.HTTPStatusError as error:
            if error.response.status_code != 409:
                raise
        return self.api.get(Pod, f"{name}-0", namespace=namespace)

    def _forget(self, namespace: str, name: str) -> None:
        with contextlib.suppress(httpx2.HTTPError):
            self.api.delete(Pod, f"{name}-0", namespace=namespace, grace_period=0)

    def _tell_ready(self, namespace: str, name: str, stateful_set: Any, address: str) -> None:
        ready = [{"type": "Ready", "status": "True"}]
        body: dict[str, Any] = {"status": {"podIP": address, "conditions": ready}}
        self.api.patch(Pod.Status, f"{name}-0", body, namespace=namespace)
        generation = stateful_set.metadata.generation if stateful_set.metadata else 1
        counts = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas")
        status: dict[str, Any] = {**dict.fromkeys(counts, 1), "observedGeneration": generation}
        status |= {"availableReplicas": 1, "currentRevision": "1", "updateRevision": "1"}
        self.api.patch(StatefulSet.Status, name, {"status": status}, namespace=namespace)

    # -- containers ---------------------------------------------------------------------------

    def _run(self, pod: Any, address: str) -> Running:
        namespace, name = str(pod.metadata.namespace), str(pod.metadata.name)
        folder = self.folder / "pods" / namespace / name
        (folder / "fs").mkdir(parents=True, exist_ok=True)
        container = pod.spec.containers[0]
        volumes = {
            volume.name: self._volume(pod, volume, folder) for volume in pod.spec.volumes or ()
        }
        mounts = [
            (str(os.environ.get(IMAGES) or IMAGE), ROOT),
            (sysconfig.get_paths()["purelib"], SITE),
        ]
        # /var/run is a link to /run, which would lead out of the new root.
        mounts += [
            (volumes[m.name], m.mountPath.replace("/var/run/", "/run/"))
            for m in container.volumeMounts or ()
        ]
        (folder / "mounts").write_text("".join(f"{a} {b}\n" for a, b in mounts))
        # PYTHONPATH and python3 as in the Containerfile.
        environment = {
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": f"{ROOT}/lib:{SITE}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": "6443",
            **_environment(container, address),
        }
        user = str((pod.spec.securityContext and pod.spec.securityContext.runAsUser) or 0)
        command = [
            # If this process is killed, its pods end, too.
            *("setpriv", "--pdeathsig", "KILL"),
            *("unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child"),
            *("sh", "-c", START, "sh"),
            *("setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--no-new-privs"),
            *("--bounding-set=-all", "--inh-caps=-all"),
            *("env", "-i", *(f"{key}={value}" for key, value in environment.items())),
            *(f"/usr/bin/python3.{sys.version_info[1]}", *(container.args or ())),
        ]
        own = {"POD": str(folder), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        return Running(address, launch(command, folder / "log", own))

    def _volume(self, pod: Any, volume: Any, folder: Path) -> str:
        """Write a volume's files; return the folder."""
        namespace = str(pod.metadata.namespace)
        target = folder / "volumes" / volume.name
        target.mkdir(parents=True, exist_ok=True)
        user = int((pod.spec.securityContext and pod.spec.securityContext.runAsUser) or 0)
        os.chown(target, user, user)
        files: dict[str, bytes] = {}
        if volume.secret is not None:
            secret = self.api.get(Secret, str(volume.secret.secretName), namespace=namespace)
            data = {key: base64.b64decode(value) for key, value in (secret.data or {}).items()}
            items = volume.secret.items
            files = {i.path: data[i.key] for i in items} if items else data
        elif volume.projected is not None:
            files = self._projected(pod, namespace)
        for name, content in files.items():
            path = target / name
            path.unlink(missing_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
            os.chown(path, user, user)
        return str(target)

    def _projected(self, pod: Any, namespace: str) -> dict[str, bytes]:
        """Return the files of a service account: token, CA certificate and namespace."""
        account = str(pod.spec and pod.spec.serviceAccountName)
        spec = TokenRequestSpec(audiences=[], expirationSeconds=TOKEN_SECONDS)
        made: Any = ServiceAccountToken(metadata=ObjectMeta(), spec=spec)
        made = self.api.create(made, account, namespace=namespace)
        authority = (self.folder / "authority" / "ca.crt").read_bytes()
        return {
            "token": made.status.token.encode(),
            "ca.crt": authority,
            "namespace": namespace.encode(),
        }


def _environment(container: Any, address: str) -> dict[str, str]:
    environment = {}
    for item in container.env or ():
        field = item.valueFrom and item.valueFrom.fieldRef
        environment[item.name] = address if field else str(item.value or "")
    return environment


def _listens(address: str) -> bool:
    try:
        with socket.create_connection((address, 50050), 0.5):
            return True
    except OSError:
        return False


def main() -> None:
    """Run pods until SIGTERM."""
    kubelet = Kubelet(Path(sys.argv[1]))
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    while not ended.wait(PERIOD):
        try:
            kubelet.step()
        except httpx2.HTTPError as error:
            print(f"the API server: {error}", flush=True)
    for running in kubelet.running.values():
        running.end()


if __name__ == "__main__":
    main()
