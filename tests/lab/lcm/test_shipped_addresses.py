"""The addresses of every service of the build are free at a VIM as OpenStack is one."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from builder import packages
from builder.parameters import variants
from builder.tree import Tree
from lab.descriptors import topology
from lab.lcm.vimdeploy import network_spec, ports_of
from lab.vim import ServerSpec, VimError, planning
from lab.vim.store import Config, State

TREE = Tree(Path(__file__).resolve().parents[3])


@cache
def bodies(kind: str) -> dict[str, dict[str, Any]]:
    """Return the descriptors of a kind by id, expanded."""
    found = {}
    for name, package in packages.catalogue(TREE).items():
        if package.kind == kind:
            body = (
                package.descriptor["nsd"]["nsd"][0] if kind == "ns" else package.descriptor["vnfd"]
            )
            found[name] = body
    return found


def services() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield name of the service, name of the parameter file, and parameters."""
    for file, document in variants.parameter_files(TREE).items():
        parts = document.get("netslice-subnet")
        for part in parts if parts is not None else [document]:
            members = {e["member-vnf-index"] for e in part.get("additionalParamsForVnf", ())}
            for name, nsd in bodies("ns").items():
                if members == {p["id"] for p in nsd["df"][0]["vnf-profile"]}:
                    yield name, file, part


def place(name: str, params: dict[str, Any], agents: int) -> int:
    """Plan all networks and servers of a service; return the number of addresses."""
    nsd, config = bodies("ns")[name], Config(dhcp_agents_per_network=agents)
    vnfds = {p["id"]: bodies("vnf")[p["vnfd-id"]] for p in nsd["df"][0]["vnf-profile"]}
    given = {**params, "vimAccountId": "vim"}
    plan = topology.plan("x", nsd, vnfds, given, {})
    state = State()
    ids = {}
    for network in plan.networks:
        spec = network_spec(network)
        made = planning.plan_network(
            spec, "ns", [n.subnet for n in state.networks.values()], config
        )
        state.networks[made.id] = made
        ids[network.key] = made.id
    for server in plan.servers:
        ports = ports_of(server, [ids[p.network] for p in server.ports])
        spec = ServerSpec("s", "s", "ubuntu22.04", 1, 1, 1, ports)
        record = planning.plan_server(spec, "ns", state, config)
        state.servers[record.server.id] = record
    return len(planning.ports(state))


def with_dhcp(params: dict[str, Any]) -> dict[str, Any]:
    links = []
    for link in params.get("vld", ()):
        profile = link.get("ip-profile")
        links.append({**link, "ip-profile": {**profile, "dhcp-params": {"enabled": True}}}
                     if profile else link)  # fmt: skip
    return {**params, "vld": links}


def test_every_service_gets_its_addresses() -> None:
    placed = {(name, file): place(name, params, 2) for name, file, params in services()}
    assert len(placed) > 40
    assert all(count > 1 for count in placed.values())


@pytest.mark.parametrize("name", ["secgw", "secgw_ha", "sitegw", "access", "small_cell_two_boxes"])
def test_with_dhcp_its_port_would_have_taken_the_first_address(name: str) -> None:
    """What this shows was seen on OpenStack: five families could not come up."""
    ((service, _, params),) = [found for found in services() if found[1] == name]
    with pytest.raises(VimError, match=r"IP address [0-9.]+\.1 already allocated in subnet"):
        place(service, with_dhcp(params), 1)
