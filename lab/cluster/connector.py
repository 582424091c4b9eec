"""One call of LCM's Helm connector, in the network namespace of the cluster.

``python -m lab.cluster.connector FOLDER`` reads a call as JSON and writes its answer as JSON.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import lightkube
import yaml
from lightkube.models.core_v1 import Namespace as NamespaceModel  # noqa: F401 - loads the models
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Namespace, Pod, Secret

from builder.programs import output
from lab.certificates import Authority
from lab.cluster.frontend import Frontend
from lab.errors import ClusterError

POLICY = "pod-security.kubernetes.io/enforce"
BASELINE = "baseline"  # The pod security level that LCM demands by default.


def client(folder: Path, namespace: str | None = None) -> lightkube.Client:
    """Return a client of the API server with all rights."""
    config = lightkube.KubeConfig.from_file(folder / "kubeconfig")
    return lightkube.Client(config, namespace=namespace)


class Connector:
    """The calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self, namespace: str) -> None:
        """Make the namespace of a network service, with the certificates of its pods."""
        api = client(self.folder, namespace)
        labels = {POLICY: BASELINE, "osm-lab": "service"}
        _create(api, Namespace(metadata=ObjectMeta(name=namespace, labels=labels)))
        authority = Authority(self.folder / "authority")
        certificate, key = authority.issue(namespace, [f"*.{namespace}.svc"])
        for name, data in (
            ("osm-ca", {"ca.crt": authority.certificate}),
            ("ee-tls", {"ca.crt": authority.certificate, "tls.crt": certificate, "tls.key": key}),
        ):
            _create(api, Secret(metadata=ObjectMeta(name=name), stringData=data))

    def install(
        self, namespace: str, release: str, chart: str, values: dict[str, Any], timeout: float
    ) -> None:
        """Install a chart as a release, and wait until its pod is ready."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(values, file)
            file.flush()
            words = ["install", release, chart, "--namespace", namespace, "--values", file.name]
            self._helm(*words, "--atomic", "--timeout", f"{timeout:.0f}s")

    def uninstall(self, namespace: str, release: str) -> None:
        """Remove a release; a missing one is no error."""
        self._helm("uninstall", release, "--namespace", namespace, "--ignore-not-found")

    def destroy(self, namespace: str) -> int:
        """Remove the namespace of a network service with all releases; return how many are left."""
        api = client(self.folder, namespace)
        listed = json.loads(self._helm("list", "--namespace", namespace, "--all", "-o", "json"))
        for release in listed:
            self.uninstall(namespace, release["name"])
        try:
            api.delete(Namespace, namespace)
            # This cluster has no namespace controller, which would remove the finalizers.
            record = api.get(Namespace, namespace)
            if record.spec is not None:
                record.spec.finalizers = []
            body = Namespace.Finalize(metadata=record.metadata, spec=record.spec)
            api.replace(body, namespace)
        except httpx2.HTTPStatusError as error:
            if error.response.status_code != 404:
                raise
        return len(list(api.list(Namespace, labels={"osm-lab": "service"})))

    def ssh_key(self, namespace: str, release: str, timeout: float) -> str:
        return self._frontend(namespace, release).ssh_key(timeout)

    def primitive(
        self,
        namespace: str,
        release: str,
        name: str,
        params: dict[str, Any],
        timeout: float,
        limit: float,
    ) -> tuple[str, str]:
        return self._frontend(namespace, release).primitive(name, params, timeout, limit)

    def _frontend(self, namespace: str, release: str) -> Frontend:
        # In place of the Service's address and the cluster's DNS.
        pod = client(self.folder, namespace).get(Pod, f"{release}-0")
        address = (pod.status and pod.status.podIP) or ""
        if not address:
            raise ClusterError(f"pod {release}-0 has no address")
        return Frontend(address, f"{release}.{namespace}.svc", self.folder / "lcm")

    def _helm(self, *words: str) -> str:
        env = {"KUBECONFIG": str(self.folder / "kubeconfig"), "HOME": str(self.folder)}
        env["PATH"] = "/usr/bin:/bin"
        argv = [str(self.folder / "bin" / "helm"), *words]
        return output(argv, f"helm {words[0]}", ClusterError, env=env)


def _create(api: lightkube.Client, item: Any) -> None:
    try:
        api.create(item)
    except httpx2.HTTPStatusError as error:
        if error.response.status_code != 409:
            raise


def main() -> None:
    """Do the call that standard input describes; write its answer to standard output."""
    call = json.load(sys.stdin)
    method: Callable[..., Any] = getattr(Connector(Path(sys.argv[1])), call.pop("call"))
    try:
        answer = {"answer": method(**call)}
    except (ClusterError, httpx2.HTTPError, OSError) as error:
        answer = {"error": str(error) or repr(error)}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
