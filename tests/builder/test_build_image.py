"""The container image of execution environments: built by podman, run as the chart runs it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from support.helm import certificates
from support.ports import free_port
from support.waiting import PATIENCE, wait_until

from builder import helm
from builder.tree import Tree
from lab.api.listener import Listener
from lab.certificates import Authority
from lab.cluster.frontend import Frontend
from lab.errors import ClusterError

PROGRAMS = ("podman", "mmdebstrap")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(
        not all(shutil.which(name) for name in PROGRAMS),
        reason=f"needs {' and '.join(PROGRAMS)}",
    ),
]
ADDRESS = "127.0.2.50"
RELEASE, NAMESPACE = "vpn-endpoint-0123456789", "ns"
BASE, IMAGE = "localhost/python:3.11", "localhost/osm-vpnaas-ee:1"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
MINUTES = 60
#: A process without the right to raise its limits starts containers with lower ones.
LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096")
#: crun wants the one hierarchy of cgroups that current systems have.
ONE_HIERARCHY = 'mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec "$@"'


def run(argv: list[str], seconds: int = 10 * MINUTES, wrong: bool = False) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=seconds, check=False)
    assert wrong or done.returncode == 0, f"{argv}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout + (done.stderr if wrong else "")


class Podman:
    """podman, with images and containers in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._words = ["unshare", "--mount", "sh", "-c", ONE_HIERARCHY, "sh", "podman"]
        self._words += ["--root", str(folder / "store"), "--runroot", str(folder / "run")]
        self._words += ["--tmpdir", str(folder / "tmp"), "--cgroup-manager", "cgroupfs"]
        self._words += ["--events-backend", "none"]

    def __call__(self, *words: str, wrong: bool = False) -> str:
        return run([*self._words, *words], wrong=wrong)


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    folder = tmp_path_factory.mktemp("podman")
    podman = Podman(folder)
    yield podman
    podman("rm", "--all", "--force", wrong=True)
    podman("system", "reset", "--force", wrong=True)


@pytest.fixture(scope="module")
def image(podman: Podman, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Build the folder of dist/, over a Python 3.11 of Debian's packages."""
    folder = tmp_path_factory.mktemp("image")
    context = folder / helm.CONTEXT
    helm.context(Tree.find(Path(__file__).parent), context)
    system = folder / "system.tar"
    # What the distribution manages, pip leaves alone; the image has no such mark.
    unmark = 'rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED'
    run(
        ["mmdebstrap", "--variant=essential", "--mode=root", "--include=python3,python3-pip",
         '--aptopt=APT::Install-Recommends "false"', f"--customize-hook={unmark}",
         "bookworm", str(system)]
    )  # fmt: skip
    podman("import", str(system), BASE)
    # The build has no network: wheels come by this machine's pip, which checks the hashes too.
    wheels = folder / "wheels"
    pins = str(context / "requirements.txt")
    choice = ["--only-binary=:all:", "--python-version=3.11", "--require-hashes", "--no-deps"]
    run(
        [sys.executable, "-m", "pip", "download", "--quiet", *choice, "-d", str(wheels), "-r", pins]
    )
    (folder / "pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n")
    podman(
        "build", "--isolation", "chroot", "--build-arg", f"PYTHON={BASE}",
        "--volume", f"{wheels}:/wheels:ro", "--volume", f"{folder / 'pip.conf'}:/etc/pip.conf:ro",
        "--tag", IMAGE, str(context),
    )  # fmt: skip
    return IMAGE


class ApiServer:
    """What a pod asks of a Kubernetes API server: its Secret, its ConfigMap, those of others."""

    def __init__(self, folder: Path, port: int) -> None:
        self.secret: dict[str, str] = {}
        self.offer = ""
        self.refused: list[str] = []
        base = f"/api/v1/namespaces/{NAMESPACE}"
        app = Starlette(
            routes=[
                Route(f"{base}/secrets/{RELEASE}", self._secret, methods=["GET", "PATCH"]),
                Route(f"{base}/configmaps/{RELEASE}", self._own, methods=["PATCH"]),
                Route(f"{base}/configmaps", self._all, methods=["GET"]),
            ]
        )
        self._listener = Listener(app, folder, ADDRESS, port)
        self.authority = self._listener.certificate
        self._thread = threading.Thread(target=self._listener.run, daemon=True)
        self._thread.start()

    def _denied(self, request: Request) -> bool:
        if request.headers.get("authorization") == "Bearer token-of-the-pod":
            return False
        self.refused.append(request.url.path)
        return True

    async def _secret(self, request: Request) -> JSONResponse:
        if self._denied(request):
            return JSONResponse({"kind": "Status", "message": "who?", "code": 401}, 401)
        if request.method == "PATCH":
            self.secret.update(json.loads(await request.body())["stringData"])
        data = {k: base64.b64encode(v.encode()).decode() for k, v in self.secret.items()}
        return JSONResponse({"metadata": {"name": RELEASE, "namespace": NAMESPACE}, "data": data})

    async def _own(self, request: Request) -> JSONResponse:
        self.offer = json.loads(await request.body())["data"]["offer"]
        return JSONResponse({"metadata": {"name": RELEASE, "namespace": NAMESPACE}})

    async def _all(self, request: Request) -> JSONResponse:
        return JSONResponse({"metadata": {"resourceVersion": "1"}, "items": []})

    def stop(self) -> None:
        self._listener.stop()
        self._thread.join(PATIENCE)


@pytest.fixture(scope="module")
def pod(podman: Podman, image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    folder = tmp_path_factory.mktemp("pod")
    api = ApiServer(folder / "api", port := free_port())
    tls, lcm = certificates(folder, Authority(folder / "authority"))
    account = folder / "account"
    account.mkdir()
    for name, text in (("token", "token-of-the-pod"), ("namespace", NAMESPACE)):
        (account / name).write_text(text)
    shutil.copyfile(api.authority, account / "ca.crt")
    for path in (*tls.iterdir(), *account.iterdir()):
        path.chmod(0o444)
    for path in (folder, tls, account):
        path.chmod(0o755)
    yield Pod(podman, image, api, port, tls, account, lcm)
    api.stop()


class Pod:
    """The container as the StatefulSet of the chart describes it."""

    def __init__(
        self,
        podman: Podman,
        image: str,
        api: ApiServer,
        port: int,
        tls: Path,
        account: Path,
        lcm: Path,
    ) -> None:
        self.podman, self.image, self.api, self.port = podman, image, api, port
        self.tls, self.account = tls, account
        self.frontend = Frontend(ADDRESS, f"{RELEASE}.{NAMESPACE}.svc", lcm)

    def start(self, charm: str = "vpn-endpoint") -> str:
        chart = Path(Tree.find(Path(__file__).parent).common) / "helm" / "chart" / "templates"
        text = (chart / "statefulset.yaml").read_text(encoding="utf-8")
        assert "runAsUser: 65532" in text and "readOnlyRootFilesystem: true" in text
        assert "capabilities: {drop: [ALL]}" in text and "allowPrivilegeEscalation: false" in text
        environment = {
            "VPNAAS_RELEASE": RELEASE,
            "VPNAAS_RUN": "/run/osm-vpnaas",
            "VPNAAS_HOST": ADDRESS,
            "VPNAAS_TLS": "/etc/osm-vpnaas/tls",
            "VPNAAS_CA": "/etc/osm-vpnaas/tls",
            "KUBERNETES_SERVICE_HOST": ADDRESS,
            "KUBERNETES_SERVICE_PORT": str(self.port),
        }
        words = [word for key, value in environment.items() for word in ("--env", f"{key}={value}")]
        return self.podman(
            "run", "--detach", "--network", "host", "--cgroups", "disabled", *LIMITS, "--read-only",
            "--user", "65532:65532", "--cap-drop", "all", "--security-opt", "no-new-privileges",
            "--tmpfs", "/run/osm-vpnaas:mode=1777,size=16m",
            "--volume", f"{self.tls}:/etc/osm-vpnaas/tls:ro",
            "--volume", f"{self.account}:{ACCOUNT}:ro",
            *words, self.image, f"/opt/osm-vpnaas/charms/{charm}/src/charm.py",
        ).strip()  # fmt: skip

    def log(self, container: str) -> str:
        return self.podman("logs", container, wrong=True)


def test_the_image_runs_what_it_says(podman: Podman, image: str) -> None:
    [found] = json.loads(podman("image", "inspect", image))
    config = found["Config"]
    assert (config["User"], config["Entrypoint"]) == ("65532:65532", ["python3"])
    # The check of the page "Run on an OSM without Juju".
    words = ("run", "--rm", "--network", "none", "--cgroups", "disabled", *LIMITS, image)
    podman(*words, "-c", "import grpclib, paramiko, lightkube, vpnaas, helm_ee")
    names = podman(*words, "-c", "import os; print(*sorted(os.listdir('.')))").split()
    assert set(names) == set(Tree.find(Path(__file__).parent).charms())


def test_lcm_speaks_with_it_over_tls(pod: Pod) -> None:
    container = pod.start()
    try:
        key = pod.frontend.ssh_key(PATIENCE)
        assert key.startswith("ssh-ed25519 "), pod.log(container)
        # The private half is in the Secret of the release and nowhere in the log.
        assert "PRIVATE KEY" in pod.api.secret["state"]
        assert "PRIVATE" not in pod.log(container)
        assert pod.api.refused == []
        status, answer = pod.frontend.primitive("no-such", {}, PATIENCE)
        assert status == "ERROR" and "no-such" in answer
        status, answer = pod.frontend.primitive("show-status", {"colour": "red"}, PATIENCE)
        assert status == "ERROR" and "colour" in answer
        login = {
            "ssh-hostname": "127.0.0.1",
            "ssh-username": "root",
            "osm": "x",
            "relations": "none",
        }
        status, answer = pod.frontend.primitive("config", login, PATIENCE)
        assert status == "ERROR" and answer.count("\n") == 0, answer
        # As a user without rights, on a file system that cannot be changed.
        who = yaml.safe_load(json.dumps(pod.podman("exec", container, "id", "-u").strip()))
        assert who == "65532"
        assert "Read-only" in pod.podman("exec", container, "touch", "/opt/x", wrong=True)
        # Another pod's certificate is for servers only.
        stranger = Frontend(ADDRESS, pod.frontend.name, pod.tls)
        with pytest.raises(ClusterError):
            stranger.ssh_key(5)
    finally:
        pod.podman("stop", "--time", "20", container)
    [state] = json.loads(pod.podman("container", "inspect", container))
    assert state["State"]["ExitCode"] == 0, pod.log(container)


def test_every_charm_starts(pod: Pod) -> None:
    for charm in Tree.find(Path(__file__).parent).charms():
        container = pod.start(charm)
        try:
            wait_until(lambda c=container: "serving on port" in pod.log(c), charm)
            assert pod.frontend.primitive("no-such", {}, PATIENCE)[0] == "ERROR", charm
        finally:
            pod.podman("rm", "--force", "--time", "5", container)
