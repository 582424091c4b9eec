"""What a service gets of the lab's own VIM is what it gets of a real OpenStack; so are refusals.

The lab's VDUs do not boot here: how they would is the matter of other tests.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pytest
from support import shipped
from support.cloud import OSM, URL, left

from lab.errors import VimError
from lab.lcm.vimdeploy import server_spec
from lab.vim import addresses
from lab.vim.account import KINDS, Vim
from lab.vim.connector import VimConnector
from lab.vim.model import ACTIVE, Network, NetworkSpec, PortSpec, ServerSpec
from lab.vim.openstack import OpenStack
from lab.vim.store import ServerRecord
from lab.vim.vdu import Vdu

pytestmark = [
    pytest.mark.lab,
    pytest.mark.long,
    pytest.mark.schedule(order=2, worker="cloud"),
]


@dataclass(frozen=True)
class Paper(Vdu):
    """A VDU that is recorded only."""

    poll = 0.1
    log = "paper.log"

    def power_on(self, record: ServerRecord) -> list[str]:
        return []

    def status(self) -> tuple[str, str]:
        return ACTIVE, ""

    def listens(self, port: int) -> bool:
        return True


@pytest.fixture(scope="module")
def vims(
    cloud: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[VimConnector, VimConnector]]:
    """The lab's own VIM, and an account of the OpenStack."""
    patched = pytest.MonkeyPatch()
    patched.setitem(KINDS, "namespaces", Paper)
    home = tmp_path_factory.mktemp("own")
    own = Vim.create(home, "north", {"management_subnet": "172.31.0.0/24"}, "namespaces")
    real = OpenStack.create(tmp_path_factory.mktemp("real"), "north", {}, URL, OSM)
    yield own, real
    real.destroy()
    own.destroy()
    patched.undo()
    assert left(cloud) == []


def place(address: str, asked: str | None, subnet: str) -> str:
    """Return an address that was asked for; of another one only that it is in its range."""
    inside = ipaddress.ip_address(address) in ipaddress.ip_network(subnet)
    return address if asked else f"{'in' if inside else 'outside of'} {subnet}"


def ends(network: Network) -> tuple[str, str]:
    """Return the ends of a network's pool; that of a network without one is its whole range."""
    inside = addresses.pool_of(addresses.parse_subnet(network.subnet), network.pool)
    free = [address for address in inside if address != network.gateway]
    return free[0], free[-1]


def service_at(vim: VimConnector, plan: Any) -> dict[str, Any]:
    """Make a service, and return what its networks and ports are."""
    networks = {
        planned.key: vim.management_network()
        if planned.management
        else vim.create_network(planned, "ns")
        for planned in plan.networks
    }
    named = {network.id: network for network in networks.values()}

    def make(server: Any) -> list[Any]:
        spec = server_spec(server, [networks[p.network_id].id for p in server.ports], None, [])
        made = vim.wait_active(vim.create_server(spec, "ns").id, 300)
        return [
            (port.interface, port.tag, named[port.network_id].name, port.port_security,
             place(port.ip, asked.ip, named[port.network_id].subnet))
            for port, asked in zip(made.ports, spec.ports, strict=True)
        ]  # fmt: skip

    try:
        with ThreadPoolExecutor(4) as pool:
            ports = dict(
                zip((s.name for s in plan.servers), pool.map(make, plan.servers), strict=True)
            )
        ids = {network.id for network in networks.values()}
        return {
            "networks": sorted(
                (n.name, n.subnet, n.gateway or "", 0 if n.management else n.mtu, ends(n))
                for n in vim.networks()
                if n.id in ids
            ),
            "servers": ports,
        }
    finally:
        vim.delete_tag("ns")


@pytest.mark.parametrize(
    "plan", [pytest.param(found[2], id=f"{found[0]}-{found[1]}") for found in shipped.distinct()]
)
def test_a_service_gets_the_same(vims: tuple[VimConnector, VimConnector], plan: Any) -> None:
    # A network of the operator is one of each VIM; here the service makes it.
    plan = replace(plan, networks=[replace(n, existing=None) for n in plan.networks])
    own, real = (service_at(vim, plan) for vim in vims)
    assert own == real


@dataclass
class Attempt:
    """What a VIM must refuse, on a network 10.1.0.0/24 that has a server at 10.1.0.5.

    Neutron takes what is ``strict``; in the lab a VDU could not use it.
    """

    what: str
    network: NetworkSpec | None = None
    port: Callable[[str], PortSpec] | None = None
    server: dict[str, Any] | None = None
    strict: bool = False


LOST = "11111111-2222-4333-8444-555555555555"
ATTEMPTS = [
    Attempt("an address that is taken", port=lambda n: PortSpec(n, ip="10.1.0.5")),
    Attempt("an address outside the subnet", port=lambda n: PortSpec(n, ip="10.2.0.5")),
    Attempt("the subnet's own address", port=lambda n: PortSpec(n, ip="10.1.0.0")),
    Attempt("no address", port=lambda n: PortSpec(n, ip="10.1.0.300")),
    Attempt("a MAC address that is taken", port=lambda n: PortSpec(n, mac="fa:16:3e:00:00:05")),
    Attempt("no MAC address", port=lambda n: PortSpec(n, mac="fa:16")),
    Attempt("a network that is not there", port=lambda n: PortSpec(LOST)),
    Attempt("an image that is not there", server={"image": "lost"}),
    Attempt("no vCPU", server={"vcpus": 0}),
    Attempt("no range", NetworkSpec("x", "10.3.0.0/33")),
    Attempt("a pool outside", NetworkSpec("x", "10.3.0.0/24", pool=("10.4.0.1", "10.4.0.9"))),
    Attempt("a pool upside down", NetworkSpec("x", "10.3.0.0/24", pool=("10.3.0.9", "10.3.0.1"))),
    Attempt("a gateway in the pool",
            NetworkSpec("x", "10.3.0.0/24", "10.3.0.5", pool=("10.3.0.2", "10.3.0.9"))),
    Attempt("a gateway outside", NetworkSpec("x", "10.3.0.0/24", "10.4.0.1"), strict=True),
    Attempt("an MTU that IPv6 forbids", NetworkSpec("x", "fd00::/64", mtu=1200), strict=True),
    Attempt("an MTU that is too large", NetworkSpec("x", "10.3.0.0/24", mtu=70000)),
]  # fmt: skip


def refusal(vim: VimConnector, attempt: Attempt) -> str:
    """Return what a VIM says of an attempt, without its name, ids and what the lab has in place.

    The lab names the range of a subnet, and the images that are there; its MTU has another limit.
    """
    size = {"image": "ubuntu22.04", "vcpus": 1, "ram_mib": 1024, "disk_gb": 5}
    data = vim.create_network(NetworkSpec("data", "10.1.0.0/24", dhcp=False), "ns").id
    first = PortSpec(data, ip="10.1.0.5", mac="fa:16:3e:00:00:05")
    try:
        vim.create_server(ServerSpec("a", "a", ports=(first,), **size), "ns")
        if attempt.network:
            vim.create_network(attempt.network, "ns")
        else:
            port = attempt.port(data) if attempt.port else PortSpec(data)
            size |= attempt.server or {}
            vim.create_server(ServerSpec("b", "b", ports=(port,), **size), "ns")
    except VimError as error:
        text = re.sub(r"^OpenStack 'north' refuses: ", "", str(error))
        text = re.sub(
            r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=in subnet )\S+/\d+", "ID", text
        )
        text = re.sub(r" \(this VIM has: .*\)\.", "", text)
        return re.sub(r"(?<=maximum is )\d+", "N", text)
    finally:
        vim.delete_tag("ns")
    return "taken"


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.what)
def test_a_refusal_is_the_same(vims: tuple[VimConnector, VimConnector], attempt: Attempt) -> None:
    own, real = (refusal(vim, attempt) for vim in vims)
    assert own != "taken"
    assert real == ("taken" if attempt.strict else own)
