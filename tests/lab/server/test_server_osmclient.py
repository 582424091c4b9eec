"""A service from its VIM account to its deletion, by clients of OSM over HTTPS.

Once by requests as osmclient makes them; once by each osmclient that OSMCLIENT names (paths of the
command `osm`, as in PATH), or by the one that is installed. Seen with those of 2020, 2023 and 2025.
"""

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
from support.waiting import wait_until

from lab.nbi.engine import Engine
from lab.vim.account import clean

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
        match = re.match(r"https://127.0.0.1:(\d+)/osm, certificate ", line)
        assert match, line
        yield Server(int(match[1]), home, process)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(120)
        finally:
            process.kill()
            subprocess.run([*LAB, "lab", "clean"], env=env, check=False)
            clean(home)


def programs() -> list[str]:
    named = [path for path in os.environ.get("OSMCLIENT", "").split(os.pathsep) if path]
    return named or [shutil.which("osm") or ""]


@dataclass(frozen=True)
class Osmclient:
    """The command line of an osmclient, in a server's direction."""

    words: list[str]
    commands: str
    """What its help lists: older ones have fewer."""

    def ask(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        argv = [*self.words, *map(str, words)]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)

    def run(self, *words: str | Path) -> str:
        done = self.ask(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def refused(self, *words: str | Path) -> str:
        done = self.ask(*words)
        assert done.returncode != 0, (words, done.stdout)
        return done.stdout + done.stderr

    def ids(self, *words: str) -> list[str]:
        return re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", self.run(*words))

    def has(self, command: str) -> bool:
        return f"  {command} " in self.commands


@pytest.fixture(scope="module", params=programs())
def osm(server: Server, request: pytest.FixtureRequest) -> Osmclient:
    program = request.param
    if not program:
        pytest.skip("no osmclient is installed, and OSMCLIENT names none")
    done = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
    if "--hostname" not in done.stdout:
        pytest.skip(f"{program} is no osmclient")
    where = f"127.0.0.1:{server.port}"
    return Osmclient([program, "--hostname", where, "--password", PASSWORD], done.stdout)


ACCESS = ["--user", "u", "--password", "p", "--tenant", "t", "--auth_url", "http://127.0.0.1/v3"]
VCA = ["--endpoints", "192.0.2.1:17070", "--user", "u", "--secret", "s", "--cacert", "PEM"]
VCA += ["--lxd-cloud", "c", "--lxd-credentials", "c", "--k8s-cloud", "k", "--k8s-credentials", "k"]
LISTS = ("wim-list", "sdnc-list", "k8scluster-list", "repo-list", "pdu-list", "alarm-list")


def test_osmclient_lists(osm: Osmclient) -> None:
    for command in LISTS:
        if osm.has(command):
            assert osm.ids(command) == []
    for command in ("project-list", "user-list"):
        assert "admin" in osm.run(command)
    assert "system_admin" in osm.run("role-list")
    if osm.has("vca-list"):
        assert "lab" in osm.run("vca-list")
        osm.run("vca-add", "osm-vca", *VCA)
        assert "osm-vca" in osm.run("vca-list", "--long")
        assert "already exists" in osm.refused("vca-add", "osm-vca", *VCA)
        osm.run("vca-show", "osm-vca")
        osm.run("vca-update", "osm-vca", "--secret", "t")
        osm.run("vca-delete", "osm-vca")
        assert "osm-vca" not in osm.run("vca-list")


def test_osmclient(osm: Osmclient, dist: Path) -> None:
    osm.run("vim-create", "--name", "north", "--account_type", "lab", *ACCESS, "--wait")
    assert "ENABLED" in osm.run("vim-list", "--long")
    osm.run("vim-update", "north", "--description", "of the north")
    assert "of the north" in osm.run("vim-show", "north")
    package = dist / "vpn_endpoint_vnf.tar.gz"
    osm.run("vnfpkg-create", package)
    assert "already exists for this project" in osm.refused("vnfpkg-create", package)
    [vnfd] = osm.ids("vnfpkg-list")
    osm.run("nspkg-create", dist / "vpn_basic_ns.tar.gz")
    osm.run("nspkg-update", "--content", dist / "vpn_basic_ns.tar.gz", "vpn_basic_ns")
    assert "vpn_endpoint_vnf" in osm.run("nspkg-show", "vpn_basic_ns", "--literal")
    params = dist / "params" / "vpn_basic.yaml"
    made = ("--ns_name", "vpn", "--nsd_name", "vpn_basic_ns", "--vim_account", "north")
    osm.run("ns-create", *made, "--config_file", params, "--wait")
    assert "READY" in osm.run("ns-list", "--long")
    assert "vpn_basic_ns" in osm.run("ns-show", "vpn", "--literal")
    action = ("--vnf_name", "server", "--action_name")
    identity = osm.run("ns-action", "vpn", *action, "show-status", "--wait").split()[-1]
    assert "vpn-server" in osm.run("ns-op-show", identity)
    assert "no-such" in osm.refused("ns-action", "vpn", *action, "no-such", "--wait")
    assert "instantiate" in osm.run("ns-op-list", "vpn", "--long")
    assert "server" in osm.run("vnf-list", "--ns", "vpn")
    scaling = ("vnf-scale", "vpn", "server", "--scaling-group", "x", "--wait")
    assert "is not present at vnf" in osm.refused(*scaling)
    [vnf, *_] = osm.ids("vnf-list", "--ns", "vpn", "--filter", "member-vnf-index-ref=client")
    assert "client" in osm.run("vnf-show", vnf)
    if osm.has("ns-heal"):
        osm.run("ns-heal", "vpn", "--vnf", vnf, "--wait")
        change = f"{{changeVnfPackageData: [{{vnfInstanceId: {vnf}, vnfdId: {vnfd}}}]}}"
        update = ("ns-update", "vpn", "--updatetype", "CHANGE_VNFPKG")
        osm.run(*update, "--config", change, "--wait")
    osm.run("ns-delete", "vpn", "--wait")
    assert " vpn " not in osm.run("ns-list")
    osm.run("nst-create", dist / "vpn_basic_nst.tar.gz")
    made = ("--nsi_name", "s", "--nst_name", "vpn_basic_nst", "--vim_account", "north")
    osm.run("nsi-create", *made, "--config_file", dist / "params" / "vpn_slice.yaml", "--wait")
    assert "running" in osm.run("nsi-list")
    assert "instantiate" in osm.run("nsi-op-list", "s")
    osm.run("nsi-delete", "s", "--wait")
    osm.run("nst-delete", "vpn_basic_nst")
    osm.run("nspkg-delete", "vpn_basic_ns")
    osm.run("vnfpkg-delete", vnfd)
    osm.run("vim-delete", "north", "--wait")


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
        place = f"/nslcm/v1/ns_instances/{made['id']}"
        assert api.ended(made["nslcmop_id"]) == "COMPLETED"
        answer = api.delete(f"/admin/v1/vim_accounts/{vim}")
        assert answer.status_code == 409
        action = {"member_vnf_index": "client", "primitive": "show-status", "primitive_params": {}}
        hasty = api.post(f"{place}/action", action).json()
        cancel = f"/nslcm/v1/ns_lcm_op_occs/{hasty['id']}/cancel"
        answer = api.post(cancel, {"cancelMode": "FORCEFUL"})
        assert answer.status_code == 202, answer.text
        assert api.ended(hasty["id"]) == "FAILED_TEMP"
        done = api.post(f"{place}/action", action).json()
        assert api.ended(done["id"]) == "COMPLETED"
        [entry] = api.get(f"/nslcm/v1/ns_lcm_op_occs?id={done['id']}").json()
        assert "vpn-client" in entry["detailed-status"]["output"]
        over = f"/nslcm/v1/ns_instances_content/{made['id']}"
        assert api.delete(over).status_code == 202
        wait_until(lambda: api.get(place).status_code == 404, "the service is deleted")
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
