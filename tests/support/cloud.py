"""The OpenStack of `./run openstack`: its administrator's view, and a lab with accounts of it."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.nbi.engine import Engine
from lab.records.store import NSDS, NSTS, VNFDS, VNFRS, Store
from support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
RUN = str(ROOT / "run")
URL = "http://127.0.0.1:5000/v3"
OSM = {"user": "osm", "password": "openstack", "tenant": "north"}
_NEWNET = 0x40000000


def init() -> int:
    """Return the process id of its first process."""
    outer = (ROOT / ".cache/openstack/pid").read_text().strip()
    return int(Path(f"/proc/{outer}/task/{outer}/children").read_text())


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


@contextmanager
def network() -> Iterator[None]:
    """Stay in its network; threads and processes that begin meanwhile stay there, too."""
    with Path("/proc/thread-self/ns/net").open() as own:
        with Path(f"/proc/{init()}/ns/net").open() as its:
            _enter(its.fileno())
        try:
            yield
        finally:
            _enter(own.fileno())


def environment(project: str = "north", user: str = "osm") -> dict[str, str]:
    """Return the variables of OpenStack's client."""
    return {
        "OS_AUTH_URL": URL,
        "OS_USERNAME": user,
        "OS_PASSWORD": OSM["password"],
        "OS_PROJECT_NAME": project,
        "OS_USER_DOMAIN_ID": "default",
        "OS_PROJECT_DOMAIN_ID": "default",
        "OS_IDENTITY_API_VERSION": "3",
    }


def _enter_all() -> tuple[str, ...]:
    return ("nsenter", f"--target={init()}", "--all", "--root", "--wdns=/tmp")


def beside_the_servers(script: str, project: str) -> str:
    """Run a script where Debian's `openstack` is; return commands that failed and their words."""
    told = 'trap \'printf "FAILED: %s\\n" "$BASH_COMMAND" >&2\' ERR\n'
    done = subprocess.run(
        [*_enter_all(), "bash", "-c", told + script], capture_output=True, text=True, timeout=800,
        env={**environment(project), "PATH": os.defpath, "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    return done.stderr


@contextmanager
def region_without_port_security() -> Iterator[str]:
    """Have a region whose Neutron lacks the extension port-security, on the same database."""
    identity, bare, port = connect("admin", "admin").identity, "bare", 9697
    settings = f"[DEFAULT]\nbind_port = {port}\n[ml2]\nextension_drivers =\n"
    files = ("neutron.conf", "plugins/ml2/ml2_conf.ini", "bare.ini")
    words = " ".join(f"--config-file=/etc/neutron/{file}" for file in files)
    server = subprocess.Popen(
        [*_enter_all(), "sh", "-c", f"printf '{settings}' >/etc/neutron/bare.ini; exec setpriv "
         f"--reuid=neutron --regid=neutron --clear-groups neutron-server {words}"],
        start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    identity.create_region(id=bare)
    made = [
        identity.create_endpoint(
            service_id=each.service_id, interface="public", region_id=bare,
            url=each.url.replace(":9696", f":{port}"),
        )
        for each in identity.endpoints(interface="public", region_id="RegionOne")
    ]  # fmt: skip
    try:
        yield bare
    finally:
        for endpoint in made:
            identity.delete_endpoint(endpoint)
        identity.delete_region(bare)
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(60)


def connect(project: str = "north", user: str = "osm") -> Any:
    """Return a connection that does not come out of the environment."""
    import openstack

    return openstack.connect(
        load_yaml_config=False,
        load_envvars=False,
        region_name="RegionOne",
        auth={
            "auth_url": URL,
            "username": user,
            "password": OSM["password"],
            "project_name": project,
            "user_domain_id": "default",
            "project_domain_id": "default",
        },
    )


def left(cloud: Any) -> list[str]:
    """Return the names of all that a lab has in the project."""
    project, network = cloud.current_project_id, cloud.network
    owners = ("network:dhcp", "network:router_interface", "network:router_gateway")
    things = [
        *network.networks(project_id=project),
        *(p for p in network.ports(project_id=project) if p.device_owner not in owners),
        *network.ips(project_id=project),
        *cloud.compute.servers(),
        *(flavor for flavor in cloud.compute.flavors() if flavor.name.endswith("-flv")),
    ]
    return [thing.name for thing in things]


class Lab:
    """A lab with the account `north`, and packages.

    ``factor`` is that of OSM's times which the lab waits.
    """

    def __init__(self, home: Path, dist: Path, factor: str) -> None:
        self.home, self.dist, self.factor = home, dist, factor
        self.account("north", "north")
        catalogue = Engine(home).catalogue
        for kind, pattern in ((VNFDS, "vnf"), (NSDS, "ns"), (NSTS, "nst")):
            for package in sorted(dist.glob(f"*_{pattern}[._]*tar.gz")):
                catalogue.onboard(kind, package)

    def account(self, name: str, project: str) -> None:
        self.run("vim-create", "--name", name, "--account_type", "openstack", "--auth_url", URL,
                 "--user", OSM["user"], "--tenant", project)  # fmt: skip

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        program = str(Path(sys.executable).with_name("osm-lab"))
        settings = {"OS_PASSWORD": OSM["password"], "OSMLAB_TIMEOUT_FACTOR": self.factor}
        return subprocess.Popen(
            [program, "--home", self.home, *words], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, **settings},
        )  # fmt: skip

    def run(self, *words: str | Path, code: int = 0) -> str:
        process = self.start(*words)
        said, _ = process.communicate(timeout=5000)
        assert process.returncode == code, said
        return said

    def json(self, *words: str) -> Any:
        return json.loads(self.run("--json", *words))

    def create(
        self, noun: str, package: str, params: str | Path, count: int, account: str = "north"
    ) -> None:
        """Create the service or slice `x`; return when it has so many VDUs, all ACTIVE."""
        self.run(*self.creation(noun, package, params, account))
        wait_until(lambda: self.states() == ["ACTIVE"] * count, lambda: f"{self.states()}", 600)

    def states(self) -> list[str]:
        """Return the states of all VDUs."""
        vnfrs = Store(self.home).all(VNFRS)
        return [str(vdur.get("status")) for vnfr in vnfrs for vdur in vnfr["vdur"]]

    def creation(
        self, noun: str, package: str, params: str | Path, account: str = "north"
    ) -> tuple[str, ...]:
        file = self.dist / f"params/{params}.yaml" if isinstance(params, str) else params
        kind = {"ns": "nsd", "nsi": "nst"}[noun]
        return (f"{noun}-create", f"--{noun}_name", "x", f"--{kind}_name", package,
                "--vim_account", account, "--config_file", str(file))  # fmt: skip
