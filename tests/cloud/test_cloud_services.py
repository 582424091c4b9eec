"""Services and slices of the build on a real OpenStack, by `osm-lab`: made, looked at, deleted.

Its hypervisor is Nova's fake driver. As no machine boots, charms find none: a service is looked at
when all its VDUs are ACTIVE, and deleted while its creation goes on.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support import shipped
from support.cloud import Lab, connect, left
from support.dist import built
from support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.schedule(order=2, worker="cloud")]

#: What services and slices ask of the VIM; parameter files of which another one asks the same are
#: left out.
_OF_SLICES = shipped.slices()
SERVICES = [found for found in shipped.distinct() if found[1] not in _OF_SLICES]
SLICES = shipped.distinct_slices()


@pytest.fixture(scope="module", autouse=True)
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All packages, built before the process enters the cloud's network: pip needs its own."""
    return built(tmp_path_factory)


@pytest.fixture
def lab(whole: Lab) -> Iterator[Lab]:
    """The lab, which has no service afterwards, also if a test fails."""
    yield whole
    for noun in ("nsi", "ns"):
        for left_behind in whole.json(f"{noun}-list"):
            whole.run(f"{noun}-delete", left_behind["name"], "--wait")


@pytest.fixture(scope="module")
def whole(cloud: Any, dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("lab"), dist, "0.1")
    yield made
    for account in made.json("vim-list"):
        made.run("vim-delete", account["name"])
    assert made.json("vim-list") == []
    made.run("lab", "clean")


def check(cloud: Any, plan: Any) -> None:
    """Compare what the project has with the plan of a service."""
    network = cloud.network
    mine = {each.name: each for each in network.networks(project_id=cloud.current_project_id)}
    names = {each.id: each.name for each in network.networks()}
    for planned in plan.networks:
        if planned.management or planned.existing:
            continue
        made = mine[planned.name]
        [subnet] = network.subnets(network_id=made.id)
        assert made.mtu == 1450
        assert (subnet.is_dhcp_enabled, subnet.gateway_ip) == (planned.dhcp, planned.gateway)
        assert planned.subnet in (None, subnet.cidr)
        if planned.pool:
            [pool] = subnet.allocation_pools
            assert (pool["start"], pool["end"]) == tuple(planned.pool)
    servers = {each.name: each for each in cloud.compute.servers()}
    keys = {planned.key: planned for planned in plan.networks}
    for server in plan.servers:
        made = servers[server.name]
        assert made.status == "ACTIVE"
        ports = sorted(network.ports(device_id=made.id), key=lambda p: p.description)
        for port, asked in zip(ports, server.ports, strict=True):
            on = keys[asked.network_id]
            expected = "mgmtnet" if on.management else on.existing or on.name
            assert names[port.network_id] == expected
            assert asked.ip in (None, port.fixed_ips[0]["ip_address"])
            assert port.is_port_security_enabled == asked.port_security
            assert port.allowed_address_pairs == []
        # Nova lists networks in the order of the NICs, the interfaces in any.
        assert list(made.addresses) == list(dict.fromkeys(names[port.network_id] for port in ports))


@pytest.fixture
def before(cloud: Any, plan: Any) -> Iterator[list[str]]:
    """Networks that a service expects at its VIM, by their names."""
    network = cloud.network
    asked = {planned.existing: planned.subnet for planned in plan.networks if planned.existing}
    with ExitStack() as stack:
        for name, subnet in asked.items():
            made = network.create_network(name=name)
            stack.callback(network.delete_network, made)
            third = subnet.split(".")[2]
            network.create_subnet(
                network_id=made.id, ip_version=6, cidr=f"fd00:{third}::/64", gateway_ip=None,
                is_dhcp_enabled=False,
            )  # fmt: skip
        yield list(asked)


@pytest.mark.parametrize(
    ("service", "params", "plan"),
    [pytest.param(*found, id=f"{found[0]}-{found[1]}") for found in SERVICES],
)
def test_a_service_is_made_as_planned_and_removed(
    cloud: Any, before: list[str], lab: Lab, service: str, params: str, plan: Any
) -> None:
    # The lab comes after the networks, so that at the end no service is on them.
    lab.create("ns", service, params, len(plan.servers))
    check(cloud, plan)
    lab.run("ns-delete", "x", "--wait")
    assert sorted(left(cloud)) == sorted(before)


@pytest.mark.parametrize("params", SLICES)
def test_a_slice_is_made_and_removed(cloud: Any, lab: Lab, params: str) -> None:
    template, count = SLICES[params]
    lab.create("nsi", template, params, count)
    assert [server.status for server in cloud.compute.servers()] == ["ACTIVE"] * count
    lab.run("nsi-delete", "x", "--wait")
    assert left(cloud) == []


def test_nothing_is_left_of_a_service_that_fails_in_the_middle(cloud: Any, lab: Lab) -> None:
    project = cloud.current_project_id
    cloud.set_compute_quotas(project, instances=2)
    try:
        said = lab.run(*lab.creation("ns", "secgw_ha_ns", "secgw_ha"), "--wait", code=1)
    finally:
        cloud.set_compute_quotas(project, instances=-1)
    assert "OpenStack 'north' refuses: Quota exceeded for instances: " in said
    assert len(list(cloud.compute.servers())) == 2
    lab.run("ns-delete", "x", "--wait")
    assert left(cloud) == []


def test_nothing_is_left_of_a_killed_worker(cloud: Any, lab: Lab) -> None:
    verb = lab.start(*lab.creation("ns", "secgw_ha_ns", "secgw_ha"), "--wait")
    wait_until(lambda: list(cloud.compute.servers()), "the first server")
    [operation] = lab.json("ns-op-list", "x")
    os.kill(operation["lab"]["worker"]["pid"], signal.SIGKILL)
    said, _ = verb.communicate(timeout=120)
    assert "the process running the operation was killed" in said
    assert left(cloud) != []
    lab.run("ns-delete", "x", "--wait")
    assert left(cloud) == []


def test_a_service_has_a_vnf_in_each_of_two_projects(cloud: Any, lab: Lab) -> None:
    """Each project has a network of the operator; `osm` sees those of both."""
    clouds = {"site-a": cloud, "site-b": connect("south")}
    given = (lab.dist / "params/vpn_two_sites.yaml").read_text()
    networks = []
    for (site, mine), project, number in zip(
        clouds.items(), ("north", "south"), (2, 3), strict=True
    ):
        lab.account(site, project)
        given = given.replace(f"{site}: transit", f"{site}: transit-{site}")
        networks.append(mine.network.create_network(name=f"transit-{site}"))
        mine.network.create_subnet(
            network_id=networks[-1].id, ip_version=4, cidr=f"10.{number}0.0.0/24",
            is_dhcp_enabled=False,
        )  # fmt: skip
    file = lab.home / "both.yaml"
    file.write_text(given)
    lab.create("ns", "vpn_basic_ns", file, 2, "site-a")
    for mine, network, address in zip(
        clouds.values(), networks, ("10.20.0.11", "10.30.0.12"), strict=True
    ):
        [server] = mine.compute.servers()
        assert server.status == "ACTIVE"
        [port] = mine.network.ports(device_id=server.id, network_id=network.id)
        assert port.fixed_ips[0]["ip_address"] == address
    lab.run("ns-delete", "x", "--wait")
    for mine, network in zip(clouds.values(), networks, strict=True):
        assert left(mine) == [network.name]
        mine.network.delete_network(network)
