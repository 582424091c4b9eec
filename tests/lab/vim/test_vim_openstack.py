"""The connector of an OpenStack, on a model of what openstacksdk offers: calls and refusals."""

from __future__ import annotations

import email
import itertools
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

pytest.importorskip("openstack")

import keystoneauth1.exceptions as keystone
from openstack.exceptions import (
    ConflictException,
    ForbiddenException,
    HttpException,
    NotSupported,
)

from lab import accounts
from lab.api.administration import edit_vim
from lab.errors import ConflictError, LcmError, VimError
from lab.lcm.backends import Backends
from lab.nbi.engine import Engine
from lab.records.store import VIMS
from lab.vim import openstack
from lab.vim.account import Vim, vca_prefix
from lab.vim.connector import create, is_openstack
from lab.vim.model import NetworkSpec, PortSpec, ServerSpec
from lab.vim.openstack import OpenStack, asked, connector
from lab.vim.openstack.access import Access, Settings, refusals
from lab.vim.openstack.connector import user_data

LOGIN = {"user": "osm", "password": "secret", "tenant": "north"}
URL = "http://127.0.0.1:1/v3"


class Table:
    """Things of one kind, with the calls of openstacksdk's proxies."""

    def __init__(self, **defaults: Any) -> None:
        self.defaults = defaults
        self.rows: dict[str, Any] = {}
        self.numbers = itertools.count()

    def create(self, **values: Any) -> Any:
        key = f"id-{next(self.numbers)}"
        row = SimpleNamespace(**{**self.defaults, **values, "id": key})
        self.rows[key] = row
        return row

    def list(self, **query: Any) -> list[Any]:
        def matches(row: Any) -> bool:
            for key, value in query.items():
                has = getattr(row, key, value)
                if has not in (value if isinstance(value, list) else [value]):
                    return False
            return True

        return [row for row in self.rows.values() if matches(row)]

    def update(self, key: str, **values: Any) -> None:
        vars(self.rows[key]).update(values)

    def delete(self, key: str) -> None:
        self.rows.pop(key, None)


class Cloud:
    """What the connector asks of a connection."""

    current_project_id = "north"

    def __init__(self) -> None:
        self.networks = Table(description="", mtu=1450, is_router_external=False)
        self.subnets = Table(gateway_ip=None, allocation_pools=[])
        self.ports = Table(device_id="", fixed_ips=[], mac_address="", device_owner="")
        self.ports.defaults["is_port_security_enabled"] = True
        self.ips = Table(port_id=None, floating_ip_address="203.0.113.7", description="")
        self.servers = Table(status="ACTIVE", hostname="", image={}, metadata={}, fault=None)
        self.flavors = Table(extra_specs={}, ephemeral=0, description="")
        self.images = Table()
        groups = [SimpleNamespace(id="g1", name="ssh")]
        self.network = SimpleNamespace(
            networks=self.networks.list, create_network=self.networks.create,
            delete_network=self.networks.delete, subnets=self.subnets.list,
            create_subnet=self.subnets.create, ports=self.ports.list,
            create_port=self.ports.create, update_port=self.ports.update,
            delete_port=self.ports.delete, ips=self.ips.list, create_ip=self.ips.create,
            update_ip=self.ips.update, delete_ip=self.ips.delete,
            security_groups=lambda **_: groups,
        )  # fmt: skip
        self.compute = SimpleNamespace(
            servers=self.servers.list, create_server=self.create_server,
            get_server=self.servers.rows.__getitem__, find_server=self.servers.rows.get,
            delete_server=self.servers.delete, create_flavor=self.flavors.create,
            flavors=lambda **_: self.flavors.list(), delete_flavor=self.flavors.delete,
            stop_server=lambda key: self.servers.update(key, status="SHUTOFF"),
            start_server=lambda key: self.servers.update(key, status="ACTIVE"),
        )  # fmt: skip
        self.image = SimpleNamespace(images=self.images.list)
        self.images.create(name="ubuntu22.04")
        self.networks.create(name="mgmtnet")

    def create_server(self, **values: Any) -> Any:
        server = self.servers.create(**values)
        server.to_dict = lambda: {"fault": server.fault}
        for nic in values["networks"]:
            if nic["port"] in self.ports.rows:  # Nova finds out later
                self.ports.update(nic["port"], device_id=server.id)
        return server

    def left(self) -> dict[str, int]:
        """What there is besides the operator's image and network."""
        named = {"networks": 1, "ports": 0, "ips": 0, "servers": 0, "flavors": 0}
        return {
            name: more
            for name, own in named.items()
            if (more := len(getattr(self, name).rows) - own)
        }


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Cloud:
    made = Cloud()
    monkeypatch.setattr(connector, "connection", lambda access: made)
    monkeypatch.setattr(connector, "_POLL", 0.001)
    return made


@pytest.fixture
def account(cloud: Cloud, tmp_path: Path) -> Callable[..., OpenStack]:
    return lambda **config: OpenStack.create(tmp_path, "north", config, URL, LOGIN)


def vdu(network: str, **more: Any) -> ServerSpec:
    ports = (
        PortSpec(network, management=True, tag="eth0"),
        PortSpec(network, ip="10.1.0.2", port_security=False, tag="eth1"),
    )
    return ServerSpec("vpn-1-box-0", "box", "ubuntu22.04", 1, 1024, 10, ports, **more)


def test_servers_are_made_and_removed(cloud: Cloud, account: Any, tmp_path: Path) -> None:
    vim = account()
    network = vim.create_network(NetworkSpec("data", "10.1.0.0/24", dhcp=False), "ns-1")
    assert (network.tag, network.subnet, network.mtu) == ("ns-1", "10.1.0.0/24", 1450)
    [subnet] = cloud.subnets.rows.values()
    assert (subnet.gateway_ip, subnet.is_dhcp_enabled, subnet.ip_version) == (None, False, 4)
    server = vim.create_server(vdu(network.id), "ns-1")
    assert [(port.tag, port.interface, port.ip) for port in server.ports][1][1] == "ens4"
    assert [port.port_security for port in server.ports] == [True, False]
    [flavor] = cloud.flavors.rows.values()
    assert (flavor.name, flavor.ram, flavor.vcpus, flavor.disk) == ("vpn-1-box-0-flv", 1024, 1, 10)
    vim.create_server(vdu(network.id), "ns-2")
    assert len(cloud.flavors.rows) == 1
    assert [each.id for each in vim.servers("ns-1")] == [server.id]
    assert vim.stop(server.id).status == "SHUTOFF"
    assert vim.start(server.id).status == "ACTIVE"
    again = OpenStack.open(tmp_path, "north")
    again.delete_tag("ns-1")
    assert cloud.left() == {"ports": 2, "servers": 1}
    again.destroy()
    assert cloud.left() == {}
    assert not is_openstack(tmp_path, "north")


def test_ports_of_a_killed_worker_go_with_its_service(cloud: Cloud, account: Any) -> None:
    vim = account()
    cloud.ports.create(network_id="n", description=f"{vim._mark('ns-1')}0")
    cloud.ports.create(network_id="n", description=f"{vim._mark('ns-11')}0")
    vim.delete_tag("ns-1")
    assert cloud.left() == {"ports": 1}


class Unanswered:
    """A call that an API goes on with when the process that made it is dead."""

    def __init__(self, cloud: Cloud, proxy: Any, name: str, looks: int) -> None:
        self.call, self.looks = getattr(proxy, name), looks
        self.asked: list[dict[str, Any]] = []
        self.dead, self.end = threading.Event(), threading.Event()
        setattr(proxy, name, self.ask)
        self.list, cloud.compute.servers = cloud.compute.servers, self.look

    def ask(self, **values: Any) -> None:
        self.asked.append(values)
        self.dead.set()
        self.end.wait(30)
        raise HttpException("the process is dead: it does not come here")

    def look(self) -> list[Any]:
        self.looks -= 1
        if self.looks < 0:
            self.make()
        return self.list()

    def make(self) -> None:
        while self.asked:
            self.call(**self.asked.pop())


@pytest.mark.parametrize("kind", ["network", "port", "flavor", "server", "ip"])
def test_what_a_killed_worker_asked_for_goes_with_its_service(
    cloud: Cloud, account: Any, kind: str
) -> None:
    vim = account(use_floating_ip=kind == "ip")
    cloud.networks.create(name="public", is_router_external=True)
    proxy = cloud.compute if kind in ("flavor", "server") else cloud.network
    call = Unanswered(cloud, proxy, f"create_{kind}", 2)

    def work() -> None:
        with suppress(VimError):
            vim.create_network(NetworkSpec("data", "10.1.0.0/24"), "ns-1")
            vim.create_server(vdu("id-0"), "ns-1")

    worker = threading.Thread(target=work)
    worker.start()
    assert call.dead.wait(30)
    vim.delete_tag("ns-1")
    call.make()
    assert cloud.left() == {"networks": 1}
    call.end.set()
    worker.join(30)


def test_what_never_comes_is_waited_for_as_long_as_an_api_may_take(
    cloud: Cloud, account: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked, "API_SECONDS", 0.3)
    vim = account()
    with pytest.raises(SystemExit), asked.asking(tmp_path / "vims/north/asked", vim._mark("ns-1")):
        raise SystemExit
    vim.delete_tag("ns-2")
    [note] = (tmp_path / "vims/north/asked").iterdir()
    asked_at = note.stat().st_mtime
    vim.delete_tag("ns-1")
    assert time.time() - asked_at >= 0.3
    assert not note.exists()


def test_nothing_is_left_of_a_server_that_fails(cloud: Cloud, account: Any) -> None:
    vim = account()
    cloud.servers.defaults.update(status="ERROR", fault={"message": "No valid host was found. "})
    text = "Server 'vpn-1-box-0' did not become active: No valid host was found."
    with pytest.raises(VimError, match=f"^{text}$"):
        vim.create_server(vdu("id-0"), "ns-1")
    assert cloud.left() == {"flavors": 1}
    vim.delete_tag("ns-1")
    assert cloud.left() == {}


def test_an_image_has_one_meaning(cloud: Cloud, account: Any) -> None:
    vim = account()
    cloud.images.create(name="ubuntu22.04")
    with pytest.raises(VimError, match="More than one image found with this criteria"):
        vim.create_server(vdu("id-0"), "ns-1")
    cloud.images.rows.clear()
    with pytest.raises(VimError, match="Image not found with this criteria: 'ubuntu22.04'"):
        vim.create_server(vdu("id-0"), "ns-1")
    assert cloud.left() == {}


def test_a_flavor_with_enough_is_taken_if_the_account_says_so(cloud: Cloud, account: Any) -> None:
    for ram, vcpus, disk in ((8192, 4, 40), (2048, 1, 10), (4096, 1, 5)):
        cloud.flavors.create(name=f"m{ram}", ram=ram, vcpus=vcpus, disk=disk)
    vim = account(use_existing_flavors=True)
    vim.create_server(vdu("id-0"), "ns-1")
    [server] = cloud.servers.rows.values()
    assert cloud.flavors.rows[server.flavor_id].name == "m2048"
    vim.delete_tag("ns-1")
    assert len(cloud.flavors.rows) == 3


def test_floating_addresses(cloud: Cloud, account: Any) -> None:
    vim = account(use_floating_ip=True, security_groups="ssh")
    with pytest.raises(VimError, match="since no external network is present"):
        vim.create_server(vdu("id-0"), "ns-1")
    assert cloud.left() == {"flavors": 1}
    outside = cloud.networks.create(name="public", is_router_external=True)
    server = vim.create_server(vdu("id-0"), "ns-1")
    assert [port.floating for port in server.ports] == ["203.0.113.7", None]
    groups = [getattr(port, "security_group_ids", None) for port in cloud.ports.rows.values()]
    assert groups == [["g1"], []]
    replaced = vim.replace_server(server.id, vdu("id-0"), "ns-1", same=False)
    assert replaced.id != server.id
    assert [port.floating for port in replaced.ports] == ["203.0.113.7", None]
    vim.delete_server(replaced.id)
    assert cloud.left() == {"networks": 1, "flavors": 1}
    free = cloud.ips.create(floating_network_id=outside.id)
    adopted = vim.create_server(vdu("id-0"), "ns-1")
    vim.delete_server(adopted.id)
    assert list(cloud.ips.rows) == [free.id]


def test_user_data_has_the_keys_and_the_package() -> None:
    message = email.message_from_string(
        str(
            user_data(vdu("n", user_data="#cloud-config\npackages: [x]\n", ssh_keys=("ssh-rsa A",)))
        )
    )
    [package, keys] = [part.get_payload(decode=True) for part in message.get_payload()]
    assert yaml.safe_load(package)["packages"] == ["x"]
    assert yaml.safe_load(keys)["ssh_authorized_keys"] == ["ssh-rsa A"]
    drive = vdu("n", user_data="#!/bin/sh\n", ssh_keys=("ssh-rsa A",), config_drive=True)
    assert user_data(drive) == "#!/bin/sh\n"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (keystone.Unauthorized(), "refuses the password of user 'osm' in project 'north'."),
        (
            keystone.ConnectFailure("Unable to establish connection to http://h:9696/v2.0: x"),
            "does not answer at http://h:9696/v2.0.",
        ),
        (keystone.DiscoveryFailure(), f"is no Keystone of version 3 at {URL}."),
        (
            ConflictException("409", details="Quota exceeded for resources:\n['port']"),
            "refuses: Quota exceeded for resources: ['port'].",
        ),
        (
            NotSupported("The image service for defaults: exists but does not have any supported"),
            "does not answer for its image service.",
        ),
        (
            HttpException("Unexpected API Error. Please report this. <class 'a.ConnectFailure'>"),
            "fails: an API has the error a.ConnectFailure, its log says why.",
        ),
        (ForbiddenException("Policy doesn't allow it."), "refuses: Policy doesn't allow it."),
    ],
)
def test_a_refusal_is_one_sentence(error: Exception, sentence: str) -> None:
    access = Access(id="a", name="north", url=URL, config=Settings(), **LOGIN)
    with pytest.raises(VimError) as refused, refusals(access):
        raise error
    assert str(refused.value) == f"OpenStack 'north' {sentence}"


class _NoKeystone(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(404)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def no_keystone() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _NoKeystone)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v3"
    server.shutdown()
    server.server_close()


def test_what_answers_must_be_a_keystone(no_keystone: str, tmp_path: Path) -> None:
    text = "answers with a page of HTML, as no API does; log-in was at"
    with pytest.raises(VimError) as refused:
        create(tmp_path, "north", "openstack", {}, no_keystone, LOGIN)
    assert str(refused.value) == f"OpenStack 'north' {text} {no_keystone}."
    assert not is_openstack(tmp_path, "north")


def test_where_nothing_answers_the_account_is_one_of_the_lab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    monkeypatch.setattr(Vim, "create", lambda *words: made.append(words))
    said = create(tmp_path, "north", "openstack", {}, URL, LOGIN)
    assert said.startswith(
        f"The account type 'openstack' is taken as 'lab' (nothing answers at {URL})"
    )
    assert made[0][3] == "namespaces"


def test_a_lab_has_one_side(account: Any, tmp_path: Path) -> None:
    account()
    with pytest.raises(VimError, match="A lab has accounts of this machine or of OpenStacks"):
        create(tmp_path, "own", "lab", {})


def test_an_account_from_its_creation_to_its_deletion(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openstack, "answers", lambda url: True)
    engine = Engine(tmp_path)
    more = {"vim_url": URL, "vim_user": "osm", "vim_tenant_name": "north"}
    made = accounts.create(engine, "north", "openstack", {}, more, "secret")
    holders = [p for p in tmp_path.rglob("*") if p.is_file() and "secret" in p.read_text()]
    assert [p.name for p in holders] == ["openstack.json"]
    assert stat.S_IMODE(holders[0].stat().st_mode) == 0o600
    assert vca_prefix(tmp_path) == []
    backends = Backends(tmp_path)
    with pytest.raises(LcmError, match="'north' is an OpenStack: its VDUs are not on this machine"):
        backends.local_vim(made["_id"])
    backends.vim(made["_id"]).create_network(NetworkSpec("data"), "ns-1")
    call = SimpleNamespace(key=made["_id"], body={"vim_password": "new"})
    with pytest.raises(ConflictError, match="are set once in a lab; delete the account"):
        edit_vim(SimpleNamespace(get=lambda *_: made, engine=engine), call)  # type: ignore[arg-type]
    accounts.delete(engine, "north")
    assert cloud.left() == {}
    assert not engine.store.all(VIMS)
    assert not is_openstack(tmp_path, "north")
