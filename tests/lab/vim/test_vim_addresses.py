"""Addresses given out by a network: refusals in OpenStack's manner, and what is chosen."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.vim import addresses
from lab.vim.errors import VimError


@pytest.mark.parametrize("text", ["10.0.0.1/24", "10.0.0.0/33", "net", "", "10.0.0.0/31"])
def test_subnet_refused(text: str) -> None:
    with pytest.raises(VimError, match=r"Invalid input for cidr: .*\.$"):
        addresses.parse_subnet(text)


def test_first_address_is_left_for_a_router_until_the_last() -> None:
    subnet = addresses.parse_subnet("10.0.0.0/29")
    used: list[str] = []
    for _ in range(6):
        used.append(addresses.take_ip(subnet, None, used))
    assert used == ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.1"]
    with pytest.raises(VimError, match="No more IP addresses available on subnet 10.0.0.0/29"):
        addresses.take_ip(subnet, None, used)


def test_ipv6_uses_all_of_the_range() -> None:
    subnet = addresses.parse_subnet("fd00::/126")
    used: list[str] = []
    for _ in range(3):
        used.append(addresses.take_ip(subnet, None, used))
    assert used == ["fd00::2", "fd00::3", "fd00::1"]


@pytest.mark.parametrize("ip", ["10.0.1.1", "10.0.0.0", "10.0.0.255", "fd00::1", "x"])
def test_address_outside_the_subnet(ip: str) -> None:
    subnet = addresses.parse_subnet("10.0.0.0/24")
    with pytest.raises(VimError, match="is not a valid IP for the subnet 10.0.0.0/24"):
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
        addresses.take_mac(mac, [])


def test_mac_in_use_in_another_spelling() -> None:
    with pytest.raises(VimError, match="is in use on this network"):
        addresses.take_mac("02-00-00-00-00-0A", ["02:00:00:00:00:0a"])


def test_mac_is_openstacks() -> None:
    assert addresses.take_mac(None, []).startswith("fa:16:3e:")


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
