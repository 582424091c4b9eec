"""Addresses given out by a network: refusals in OpenStack's manner, and what is chosen."""

import ipaddress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import VimError
from lab.vim import addresses, planning
from lab.vim.model import Network, NetworkSpec, PortSpec, ServerSpec
from lab.vim.store import Config, State


@pytest.mark.parametrize("text", ["10.0.0.1/24", "10.0.0.0/33", "net", "", "10.0.0.0/31"])
def test_subnet_refused(text: str) -> None:
    with pytest.raises(VimError, match=r"Invalid input for cidr: .*\.$"):
        addresses.parse_subnet(text)


def test_addresses_are_given_in_order() -> None:
    subnet = addresses.parse_subnet("10.0.0.0/29")
    used: list[str] = []
    for _ in range(6):
        used.append(addresses.take_ip(subnet, None, used))
    assert used == [f"10.0.0.{number}" for number in range(1, 7)]
    with pytest.raises(VimError, match="No more IP addresses available on subnet 10.0.0.0/29"):
        addresses.take_ip(subnet, None, used)


def test_ipv6_uses_all_of_the_range() -> None:
    subnet = addresses.parse_subnet("fd00::/126")
    used: list[str] = []
    for _ in range(3):
        used.append(addresses.take_ip(subnet, None, used))
    assert used == ["fd00::1", "fd00::2", "fd00::3"]


@pytest.mark.parametrize(
    ("spec", "agents", "taken"),
    [
        (NetworkSpec("n", "10.0.0.0/24"), 1, ("10.0.0.1",)),
        (NetworkSpec("n", "10.0.0.0/24"), 2, ("10.0.0.1", "10.0.0.2")),
        (NetworkSpec("n", "10.0.0.0/24", gateway="10.0.0.1"), 1, ("10.0.0.2",)),
        (NetworkSpec("n", "fd00::/64"), 1, ("fd00::1",)),
        (NetworkSpec("n", "10.0.0.0/24", pool=("10.0.0.200", "10.0.0.219")), 1, ("10.0.0.200",)),
        (NetworkSpec("n", "10.0.0.0/24", pool=("10.0.0.9", "10.0.0.9")), 2, ("10.0.0.9",)),
        (NetworkSpec("n", "10.0.0.0/24", dhcp=False), 2, ()),
    ],
)
def test_dhcp_takes_the_first_addresses_of_the_pool(
    spec: NetworkSpec, agents: int, taken: tuple[str, ...]
) -> None:
    config = Config(dhcp_agents_per_network=agents)
    network = planning.plan_network(spec, "ns", [], config)
    assert network.dhcp_ports == taken
    state = State(networks={network.id: network})
    for address in taken:
        with pytest.raises(VimError, match=f"IP address {address} already allocated in subnet"):
            plan_port(state, network, address)
    first = ipaddress.ip_network(network.subnet).network_address + 1
    if str(first) not in (*taken, network.gateway):
        assert plan_port(state, network, str(first)) == str(first)


def plan_port(state: State, network: Network, ip: str | None) -> str:
    """Return the address of the only port of a new server."""
    server = ServerSpec("s", "s", "ubuntu22.04", 1, 512, 1, (PortSpec(network.id, ip),))
    return planning.plan_server(server, "ns", state, Config()).server.ports[0].ip


def test_a_port_without_a_fixed_address_gets_one_of_the_pool() -> None:
    spec = NetworkSpec("n", "10.0.0.0/24", pool=("10.0.0.200", "10.0.0.201"))
    network = planning.plan_network(spec, "ns", [])
    state = State(networks={network.id: network})
    assert plan_port(state, network, None) == "10.0.0.201"
    small = replace(network, pool=("10.0.0.200", "10.0.0.200"))
    with pytest.raises(VimError, match="No more IP addresses available"):
        plan_port(State(networks={network.id: small}), network, None)


@pytest.mark.parametrize(
    ("pool", "gateway", "words"),
    [
        (("10.0.0.250", "10.0.1.5"), None, "spans beyond the subnet cidr 10.0.0.0/24"),
        (("10.0.0.250", "10.0.0.255"), None, "spans beyond the subnet cidr"),
        (("10.0.0.9", "10.0.0.8"), None, "The allocation pool {'start': '10.0.0.9'"),
        (("10.0.0.1", "10.0.0.8"), "10.0.0.3", "Gateway ip 10.0.0.3 conflicts with"),
    ],
)
def test_pool_refused(pool: tuple[str, str], gateway: str | None, words: str) -> None:
    with pytest.raises(VimError, match=words):
        planning.plan_network(NetworkSpec("n", "10.0.0.0/24", gateway, pool=pool), "ns", [])


@pytest.mark.parametrize(("asked", "mtu"), [(None, 1450), (1500, 1500), (1400, 1400)])
def test_the_mtu_of_a_network_is_that_of_neutrons_tenant_networks(
    asked: int | None, mtu: int
) -> None:
    assert planning.plan_network(NetworkSpec("n", mtu=asked), "ns", []).mtu == mtu
    other = planning.plan_network(NetworkSpec("n", mtu=asked), "ns", [], Config(network_mtu=1400))
    assert other.mtu == (asked or 1400)


@pytest.mark.parametrize("ip", ["10.0.1.1", "10.0.0.0", "10.0.0.255", "fd00::1", "x"])
def test_address_outside_the_subnet(ip: str) -> None:
    subnet = addresses.parse_subnet("10.0.0.0/24")
    with pytest.raises(VimError, match="is not a valid IP"):
        addresses.take_ip(subnet, ip, [])


def test_address_in_use() -> None:
    subnet = addresses.parse_subnet("10.0.0.0/24")
    with pytest.raises(VimError, match=r"IP address 10.0.0.7 already allocated in subnet"):
        addresses.take_ip(subnet, "10.0.0.7", ["10.0.0.7"])


def test_address_in_use_in_another_spelling() -> None:
    subnet = addresses.parse_subnet("fd00::/64")
    with pytest.raises(VimError, match="already allocated"):
        addresses.take_ip(subnet, "fd00:0::0007", ["fd00::7"])


def test_gateway_outside() -> None:
    subnet = addresses.parse_subnet("10.0.0.0/24")
    with pytest.raises(VimError, match="Gateway 10.1.0.1 is not valid on subnet 10.0.0.0/24"):
        addresses.parse_gateway(subnet, "10.1.0.1")


def test_default_subnets_never_overlap() -> None:
    used = ["192.168.0.0/23", "10.0.0.0/8", "fd00::/64"]
    assert addresses.default_subnet(used) == "192.168.2.0/24"
    with pytest.raises(VimError, match=r"No 192\.168\.x\.0/24 range is left"):
        addresses.default_subnet(["192.168.0.0/16"])


@pytest.mark.parametrize("mac", ["01:00:00:00:00:01", "00:00:00:00:00:00", "fa:16", "zz:" * 5])
def test_mac_refused(mac: str) -> None:
    with pytest.raises(VimError, match="Invalid input for mac_address"):
        addresses.take_mac(mac, [], "n")


def test_mac_in_use_in_another_spelling() -> None:
    with pytest.raises(VimError, match=r"mac address 02:00:00:00:00:0a is in use\."):
        addresses.take_mac("02-00-00-00-00-0A", ["02:00:00:00:00:0a"], "n")


def test_mac_is_openstacks() -> None:
    assert addresses.take_mac(None, [], "n").startswith("fa:16:3e:")


def test_link_local_of_rfc4291_example() -> None:
    assert addresses.link_local("34:56:78:9a:bc:de") == "fe80::3656:78ff:fe9a:bcde"


@given(st.integers(16, 30), st.sets(st.integers(0, 40)))
def test_taken_address_is_a_free_host(length: int, offsets: set[int]) -> None:
    subnet = addresses.parse_subnet(f"10.64.0.0/{length}")
    hosts = {str(subnet.network_address + n) for n in offsets}
    free = {str(host) for host in subnet.hosts()} - hosts if length > 24 else None
    try:
        ip = addresses.take_ip(subnet, None, hosts)
    except VimError:
        assert free == set()
        return
    assert ip not in hosts
    assert ipaddress.ip_address(ip) in subnet
    assert ip not in (str(subnet.network_address), str(subnet.broadcast_address))
