"""The addresses of every service of the build are free at a VIM as OpenStack is one."""

from dataclasses import replace
from typing import Any

import pytest
from support import shipped

from lab.errors import VimError
from lab.lcm.vimdeploy import server_spec
from lab.vim import planning
from lab.vim.store import Config, State


def place(name: str, params: dict[str, Any], agents: int) -> int:
    """Plan all networks and servers of a service; return the number of addresses."""
    config = Config(dhcp_agents_per_network=agents)
    plan = shipped.plan(name, params)
    state = State()
    ids = {}
    for network in plan.networks:
        ranges = [n.subnet for n in state.networks.values()]
        made = planning.plan_network(network, "ns", ranges, config)
        state.networks[made.id] = made
        ids[network.key] = made.id
    for server in plan.servers:
        spec = server_spec(server, [ids[p.network_id] for p in server.ports], None, ())
        spec = replace(spec, image="ubuntu22.04")
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
    placed = {(name, file): place(name, params, 2) for name, file, params in shipped.services()}
    assert len(placed) > 40
    assert all(count > 1 for count in placed.values())


@pytest.mark.parametrize("name", ["secgw", "secgw_ha", "sitegw", "access", "small_cell_two_boxes"])
def test_with_dhcp_its_port_would_have_taken_the_first_address(name: str) -> None:
    """What this shows was seen on OpenStack: five families could not come up."""
    ((service, _, params),) = [found for found in shipped.services() if found[1] == name]
    with pytest.raises(VimError, match=r"IP address [0-9.]+\.1 already allocated in subnet"):
        place(service, with_dhcp(params), 1)
