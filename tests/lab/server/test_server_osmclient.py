"""A service from its VIM account to its deletion, by clients of OSM over HTTPS.

Once by requests as osmclient makes them; once by the osmclient that is installed, where one is.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
from support.nbi_server import Api, instantiation

from lab.nbi.engine import Engine
from lab.vim import clean

pytestmark = pytest.mark.lab

PASSWORD = "correct horse"
LAB = [sys.executable, "-m", "lab.cli"]


@dataclass(frozen=True)
class Server:
    """A running `osm-lab serve`."""

    port: int
    home: Path
    process: subprocess.Popen[str]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("served")
    env = {**os.environ, "OSMLAB_HOME": str(home), "OSMLAB_PASSWORD": PASSWORD}
    process = subprocess.Popen(
        [*LAB, "serve", "--port", "0"], env=env, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.match(r"https://127.0.0.1:(\d+)/osm, certificate ", line)
        assert found, line
        yield Server(int(found[1]), home, process)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        finally:
            process.kill()
            subprocess.run([*LAB, "lab", "clean"], env=env, check=False)
            clean(home)


@pytest.fixture(scope="module")
def osm(server: Server) -> list[str]:
    """The command line of an osmclient, in this server's direction."""
    program = os.environ.get("OSMCLIENT") or shutil.which("osm")
    if program is None:
        pytest.skip("no osmclient is installed, and OSMCLIENT names none")
    told = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
    if "--hostname" not in told.stdout:
        pytest.skip(f"{program} is no osmclient")
    where = f"127.0.0.1:{server.port}"
    return [program, "--hostname", where, "--password", PASSWORD]


def run(osm: list[str], *words: str | Path) -> str:
    done = subprocess.run(
        [*osm, *map(str, words)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


ACCESS = ["--user", "u", "--password", "p", "--tenant", "t", "--auth_url", "http://127.0.0.1/v3"]


def test_osmclient(osm: list[str], dist: Path) -> None:
    run(osm, "vim-create", "--name", "north", "--account_type", "openstack", *ACCESS, "--wait")
    assert "ENABLED" in run(osm, "vim-list", "--long")
    run(osm, "vnfpkg-create", dist / "vpn_endpoint_vnf.tar.gz")
    again = [*osm, "vnfpkg-create", str(dist / "vpn_endpoint_vnf.tar.gz")]
    refused = subprocess.run(again, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "already exists for this project" in refused.stdout + refused.stderr
    run(osm, "nspkg-create", dist / "vpn_basic_ns.tar.gz")
    params = dist / "params" / "vpn_basic.yaml"
    made = ("--ns_name", "vpn", "--nsd_name", "vpn_basic_ns", "--vim_account", "north")
    run(osm, "ns-create", *made, "--config_file", params, "--wait")
    assert "READY" in run(osm, "ns-list", "--long")
    action = ("--vnf_name", "server", "--action_name", "show-status", "--wait")
    identity = run(osm, "ns-action", "vpn", *action).strip().splitlines()[-1]
    assert "vpn-server" in run(osm, "ns-op-show", identity)
    assert "instantiate" in run(osm, "ns-op-list", "vpn", "--long")
    assert "server" in run(osm, "vnf-list", "--ns", "vpn")
    run(osm, "ns-delete", "vpn", "--wait")
    assert " vpn " not in run(osm, "ns-list")
    run(osm, "nspkg-delete", "vpn_basic_ns")
    [vnfd] = re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", run(osm, "vnfpkg-list"))
    run(osm, "vnfpkg-delete", vnfd)
    run(osm, "vim-delete", "north", "--wait")


class Served(Api):
    """The same requests to a server that is another process."""

    def __init__(self, server: Server) -> None:
        self.engine = Engine(server.home)
        self.url = f"https://127.0.0.1:{server.port}/osm"
        self.http = requests.Session()
        self.http.trust_env = False
        self.http.verify = str(server.home / "server" / "cert.pem")
        self.headers = {"Accept": "application/json", "Content-Type": "application/yaml"}

    def ended(self, key: str) -> str:
        """Wait for an operation as osmclient does; one that is gone took its service along."""
        for _ in range(240):
            answer = self.get(f"/nslcm/v1/ns_lcm_op_occs/{key}")
            if answer.status_code == 404:
                return "gone"
            state: str = answer.json()["operationState"]
            if state != "PROCESSING":
                return state
            time.sleep(0.5)
        raise AssertionError(answer.json())


def test_requests(server: Server, dist: Path) -> None:
    with Served(server) as api:
        body = {
            "name": "south",
            "vim_type": "openstack",
            "description": None,
            "vim_url": "http://127.0.0.1/v3",
            "vim_user": "u",
            "vim_password": "secret-of-the-vim",
            "vim_tenant_name": "t",
            "config": {"management_subnet": "10.251.7.0/24"},
        }
        answer = api.post("/admin/v1/vim_accounts", body)
        assert answer.status_code == 202, answer.text
        vim = answer.json()["id"]
        bad = {**body, "name": "bad", "config": {"management_subnet": "x"}}
        answer = api.post("/admin/v1/vim_accounts", bad)
        assert answer.status_code == 400, answer.text
        assert "bad" not in [v["name"] for v in api.get("/admin/v1/vim_accounts").json()]
        kept = [p for p in server.home.rglob("*") if p.is_file() and "secret-of-the-vim" in text(p)]
        assert kept == []
        request = instantiation(dist, api.onboard(dist), vim)
        made = api.post("/nslcm/v1/ns_instances_content", request).json()
        assert api.ended(made["nslcmop_id"]) == "COMPLETED"
        answer = api.delete(f"/admin/v1/vim_accounts/{vim}")
        assert answer.status_code == 409
        action = {"member_vnf_index": "client", "primitive": "show-status", "primitive_params": {}}
        done = api.post(f"/nslcm/v1/ns_instances/{made['id']}/action", action).json()
        assert api.ended(done["id"]) == "COMPLETED"
        [entry] = api.get(f"/nslcm/v1/ns_lcm_op_occs?id={done['id']}").json()
        assert "vpn-client" in entry["detailed-status"]["output"]
        answer = api.delete(f"/nslcm/v1/ns_instances_content/{made['id']}")
        assert api.ended(answer.json()["_id"]) == "gone"
        for kind in ("/nsd/v1/ns_descriptors", "/vnfpkgm/v1/vnf_packages"):
            [entry] = api.get(kind).json()
            assert api.delete(f"{kind}/{entry['_id']}").status_code == 204
        assert api.delete(f"/admin/v1/vim_accounts/{vim}").status_code == 202
        assert api.get("/admin/v1/vim_accounts").json() == []


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


@pytest.mark.parametrize(
    ("host", "password", "reason"),
    [
        ("0.0.0.0", "", "other machines can reach 0.0.0.0: give a password of your own"),
        ("192.0.2.7", "admin", "other machines can reach 192.0.2.7: give a password"),
        ("192.0.2.7", "mine", "cannot listen on 192.0.2.7 port"),
        ("no such host", "mine", "cannot listen on no such host port"),
    ],
)
def test_refuses_to_start(tmp_path: Path, host: str, password: str, reason: str) -> None:
    env = {**os.environ, "OSMLAB_HOME": str(tmp_path), "OSMLAB_PASSWORD": password}
    done = subprocess.run(
        [*LAB, "serve", "--host", host, "--port", "0"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert done.stderr.startswith(f"ERROR: {reason}")
