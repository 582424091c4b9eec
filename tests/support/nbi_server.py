"""A client that sends what osmclient sends: its headers, its paths, its bodies."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import Any

import requests
import yaml
from starlette.types import ASGIApp, Receive, Scope, Send

from lab.api.app import create_app
from lab.api.listener import Listener
from lab.api.tokens import Tokens
from lab.nbi.engine import Engine
from lab.records.store import NSDS, NSRS, OPS, VNFDS, VNFRS

BASIC = ("vpn_endpoint_vnf", "vpn_basic_ns", "vpn_basic_nst")
PASSWORD = "correct horse"
VIM = "11111111-2222-4333-8444-555555555555"
"""Id of the VIM account."""


class Site:
    """One HTTPS server for all tests; each puts the application of its own lab behind it."""

    def __init__(self, folder: Path) -> None:
        self.app: ASGIApp | None = None
        self._listener = Listener(self, folder, "127.0.0.1", 0)
        self.url, self.certificate = self._listener.url, self._listener.certificate
        self._thread = threading.Thread(target=self._listener.run, daemon=True)
        self._thread.start()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.app is not None
        await self.app(scope, receive, send)

    def stop(self) -> None:
        self._listener.stop()
        self._thread.join(120)


class Api:
    """Requests as osmclient makes them, with a token of the user `admin`."""

    def __init__(self, engine: Engine, site: Site, vca: bool = True) -> None:
        self.engine = engine
        self.site = site
        site.app = create_app(engine, Tokens(PASSWORD), vca)
        self.url = site.url
        self.http = requests.Session()
        self.http.trust_env = False  # REQUESTS_CA_BUNDLE would win over the next line
        self.http.verify = str(site.certificate)
        # osmclient's own, of every release: JSON labelled as YAML, answers in JSON.
        self.headers = {"Accept": "application/json", "Content-Type": "application/yaml"}

    def __enter__(self) -> Api:
        credentials = {"username": "admin", "password": PASSWORD, "project_id": "admin"}
        token = self.post("/admin/v1/tokens", credentials).json()
        self.headers["Authorization"] = f"Bearer {token['id']}"
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def get(self, path: str, **headers: str) -> requests.Response:
        return self.http.get(f"{self.url}{path}", headers={**self.headers, **headers})

    def post(self, path: str, body: Any, **headers: str) -> requests.Response:
        return self.http.post(f"{self.url}{path}", json=body, headers={**self.headers, **headers})

    def patch(self, path: str, body: Any) -> requests.Response:
        return self.http.patch(f"{self.url}{path}", json=body, headers=self.headers)

    def delete(self, path: str) -> requests.Response:
        return self.http.delete(f"{self.url}{path}", headers=self.headers)

    def upload(
        self, method: str, path: str, file: Path, data: bytes | None = None, **headers: str
    ) -> requests.Response:
        """Send a package by the headers of osmclient's ``nfpkg-create``."""
        content = file.read_bytes() if data is None else data
        md5 = hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()
        sent = {
            "Content-Type": "application/gzip",
            "Content-Filename": file.name,
            "Content-File-MD5": md5,
            **headers,
        }
        return self.http.request(
            method, f"{self.url}{path}", data=content, headers={**self.headers, **sent}
        )

    def onboard(self, dist: Path) -> str:
        """Take the packages of the basic service; return the id of its NSD."""
        vnfd = dist / "vpn_endpoint_vnf.tar.gz"
        assert self.upload("POST", "/vnfpkgm/v1/vnf_packages_content", vnfd).status_code == 201
        answer = self.upload("POST", "/nsd/v1/ns_descriptors_content", dist / "vpn_basic_ns.tar.gz")
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])


def instantiation(dist: Path, nsd: str, vim: str, name: str = "vpn") -> dict[str, Any]:
    """Return the body of ``osm ns-create --config_file``."""
    config = yaml.safe_load((dist / "params" / "vpn_basic.yaml").read_text())
    return {
        "nsdId": nsd,
        "nsName": name,
        "nsDescription": "default description",
        "vimAccountId": vim,
        **config,
    }


def refused(answer: requests.Response, status: int, code: str, text: str) -> None:
    """Check a refusal with NBI's three fields, and no others."""
    body = answer.json()
    assert set(body) == {"code", "status", "detail"}
    assert (answer.status_code, body["status"], body["code"]) == (status, status, code), body
    assert text in body["detail"]


def nothing_made(engine: Engine) -> None:
    uploads = engine.store.root / "uploads"
    packages = engine.store.root / "packages"
    for collection in (VNFDS, NSDS, NSRS, VNFRS, OPS):
        assert engine.store.all(collection) == []
    for folder in (uploads, packages):
        assert not folder.exists() or list(folder.iterdir()) == []
