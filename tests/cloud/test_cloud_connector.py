"""The connector of an OpenStack against a real one, whose hypervisor is Nova's fake driver."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.cloud import OSM, URL, left, region_without_port_security
from support.waiting import PATIENCE, wait_until

from lab.errors import VimError
from lab.vim.model import NetworkSpec, PortSpec, ServerSpec
from lab.vim.openstack import OpenStack, answers

pytestmark = [pytest.mark.long, pytest.mark.schedule(order=2, worker="cloud")]


def vdu(network: str, *ports: PortSpec, **more: Any) -> ServerSpec:
    size = {"vcpus": 1, "ram_mib": 1024, "disk_gb": 5, "image": "ubuntu22.04", **more}
    return ServerSpec(name="x-box-0", hostname="box", ports=ports or (PortSpec(network),), **size)


def test_nics_have_their_order_and_addresses(cloud: Any, vim: OpenStack) -> None:
    management = vim.management_network().id
    data = vim.create_network(NetworkSpec("data", "10.1.0.0/24", dhcp=False), "ns")
    pool = vim.create_network(
        NetworkSpec("pool", "10.2.0.0/24", pool=("10.2.0.200", "10.2.0.219")), "ns"
    )
    assert (data.mtu, data.gateway, pool.pool) == (1450, None, ("10.2.0.200", "10.2.0.219"))
    ports = (
        PortSpec(management, tag="eth0", management=True),
        PortSpec(data.id, ip="10.1.0.1", port_security=False, tag="eth1"),
        PortSpec(pool.id, ip="10.2.0.1", tag="eth2"),
        PortSpec(pool.id, tag="eth3"),
    )
    server = vim.wait_active(vim.create_server(vdu("", *ports), "ns").id, PATIENCE)
    assert [port.tag for port in server.ports] == ["eth0", "eth1", "eth2", "eth3"]
    assert [port.ip for port in server.ports][1:3] == ["10.1.0.1", "10.2.0.1"]
    assert server.ports[3].ip.startswith("10.2.0.2")
    assert [port.port_security for port in server.ports] == [True, False, True, True]
    assert vim.stop(server.id).status == "SHUTOFF"
    assert vim.start(server.id).status == "ACTIVE"
    again = vim.replace_server(server.id, vdu("", *ports), "ns", same=True)
    assert [(p.ip, p.mac) for p in again.ports] == [(p.ip, p.mac) for p in server.ports]
    vim.delete_tag("ns")
    assert left(cloud) == []


# -- refusals ------------------------------------------------------------------------------------


def refused(text: str) -> Any:
    return pytest.raises(VimError, match=f"^{text}$")


def test_a_wrong_password(cloud: Any, tmp_path: Path) -> None:
    text = r"OpenStack 'a' refuses the password of user 'osm' in project 'north'\."
    with refused(text):
        OpenStack.create(tmp_path, "a", {}, URL, {**OSM, "password": "wrong"})


def test_a_management_network_that_is_not_there(cloud: Any, tmp_path: Path) -> None:
    with refused("Network not found with this criteria: 'lost'"):
        OpenStack.create(tmp_path, "a", {"management_network_name": "lost"}, URL, OSM)


def test_an_image_that_is_missing_or_twice(cloud: Any, vim: OpenStack) -> None:
    management = vim.management_network().id
    with refused("Image not found with this criteria: 'lost'"):
        vim.create_server(vdu(management, image="lost"), "ns")
    twice = [cloud.image.create_image(name="twice", disk_format="raw", container_format="bare")
             for _ in range(2)]  # fmt: skip
    try:
        with refused("More than one image found with this criteria: 'twice'"):
            vim.create_server(vdu(management, image="twice"), "ns")
    finally:
        for image in twice:
            cloud.image.delete_image(image)


def test_an_address_that_is_taken(cloud: Any, vim: OpenStack) -> None:
    network = vim.create_network(NetworkSpec("data", "10.1.0.0/24", dhcp=False), "ns")
    vim.create_server(vdu(network.id, PortSpec(network.id, ip="10.1.0.1")), "ns")
    text = r"OpenStack 'north' refuses: IP address 10\.1\.0\.1 already allocated in subnet .*"
    with refused(text):
        vim.create_server(vdu(network.id, PortSpec(network.id, ip="10.1.0.1")), "ns")
    assert len(vim.servers("ns")) == 1


def test_no_address_left(cloud: Any, vim: OpenStack) -> None:
    network = vim.create_network(NetworkSpec("small", "10.3.0.0/30", dhcp=False), "ns")
    ports = [PortSpec(network.id)] * 3
    with refused(r"OpenStack 'north' refuses: No more IP addresses available on network .*\."):
        vim.create_server(vdu(network.id, *ports), "ns")
    assert [p.name for p in cloud.network.ports(network_id=network.id)] == []


def test_a_quota(cloud: Any, vim: OpenStack) -> None:
    project = cloud.current_project_id
    network = vim.create_network(NetworkSpec("data", "10.1.0.0/24", dhcp=False), "ns")
    cloud.set_compute_quotas(project, instances=0)
    try:
        with refused(r"OpenStack 'north' refuses: Quota exceeded for instances: .*\."):
            vim.create_server(vdu(network.id), "ns")
    finally:
        cloud.set_compute_quotas(project, instances=-1)
    cloud.set_network_quotas(project, networks=1)
    try:
        with refused(r"OpenStack 'north' refuses: Quota exceeded for resources: \['network'\]\."):
            vim.create_network(NetworkSpec("more"), "ns")
    finally:
        cloud.set_network_quotas(project, networks=-1)


def test_a_flavor_that_the_user_may_not_make(cloud: Any, tmp_path: Path) -> None:
    guest = OpenStack.create(tmp_path, "guest", {}, URL, {**OSM, "user": "guest"})
    try:
        text = r"OpenStack 'guest' refuses: Policy doesn't allow os_compute_api:os-flavor-manage.*"
        with refused(text):
            guest.create_server(vdu(guest.management_network().id, ram_mib=777), "ns")
    finally:
        guest.destroy()
    assert left(cloud) == []


def test_an_api_that_is_down(cloud: Any, vim: OpenStack, tmp_path: Path) -> None:
    record = tmp_path / "vims/north/openstack.json"
    as_it_was = record.read_text()
    record.write_text(as_it_was.replace(":5000", ":5001"))
    try:
        with refused(r"OpenStack 'north' does not answer at http://127\.0\.0\.1:5001/v3\S*\."):
            OpenStack.open(tmp_path, "north").delete_tag("ns")
    finally:
        record.write_text(as_it_was)


@contextmanager
def unreachable(port: int) -> Iterator[None]:
    rule = f"INPUT -p tcp --dport {port} -j REJECT --reject-with tcp-reset".split()
    subprocess.run(["iptables", "--insert", *rule], check=True)
    try:
        yield
    finally:
        subprocess.run(["iptables", "--delete", *rule], check=True)


@pytest.mark.parametrize(
    ("port", "sentence"),
    [
        (9696, r"fails: an API has the error \S*ConnectFailure, its log says why"),
        (8774, r"does not answer at http://127\.0\.0\.1:8774\S*"),
    ],
    ids=["neutron", "nova"],
)
def test_an_api_that_goes_down_in_the_middle(
    cloud: Any, vim: OpenStack, monkeypatch: pytest.MonkeyPatch, port: int, sentence: str
) -> None:
    """What is half-made then goes with its service as soon as the API answers again."""
    network = vim.create_network(NetworkSpec("data", "10.1.0.0/24", dhcp=False), "ns")
    spec = vdu(network.id, PortSpec(network.id, port_security=False))
    finish, down = vim._finish, unreachable(port)

    def middle(*words: Any) -> None:
        down.__enter__()
        finish(*words)

    monkeypatch.setattr(vim, "_finish", middle)
    try:
        with refused(f"OpenStack 'north' {sentence}\\."):
            vim.create_server(spec, "ns")
    finally:
        down.__exit__(None, None, None)
    assert left(cloud) != []
    vim.delete_tag("ns")
    assert left(cloud) == []


def test_a_neutron_without_the_extension_port_security(cloud: Any, tmp_path: Path) -> None:
    with region_without_port_security() as region:
        wait_until(lambda: answers("http://127.0.0.1:9697"), "Neutron", 120)
        for name, more in (("off", {}), ("left", {"no_port_security_extension": True})):
            vim = OpenStack.create(tmp_path, name, {"region_name": region, **more}, URL, OSM)
            try:
                network = vim.create_network(NetworkSpec("d", "10.1.0.0/24", dhcp=False), "ns").id
                spec = vdu("", PortSpec(network, port_security=False))
                if more:
                    made = vim.create_server(spec, "ns")
                    assert vim.wait_active(made.id, PATIENCE).ports[0].ip.startswith("10.1.0.")
                    continue
                text = r"Unrecognized attribute\(s\) 'port_security_enabled'\."
                with refused(f"OpenStack 'off' refuses: {text}"):
                    vim.create_server(spec, "ns")
                assert vim.servers("ns") == []
            finally:
                vim.destroy()
    assert left(cloud) == []


def test_an_image_service_that_is_down(cloud: Any, vim: OpenStack) -> None:
    text = r"OpenStack 'north' does not answer for its image service\."
    with unreachable(9292), refused(text):
        vim.create_server(vdu(vim.management_network().id), "ns")


def test_an_expired_token_is_renewed(cloud: Any, vim: OpenStack) -> None:
    """Nova has not seen this token yet: it takes one for valid for some minutes after that."""
    token = vim._cloud.session.get_token()
    cloud.session.delete(f"{URL}/auth/tokens", headers={"X-Subject-Token": token})
    assert vim.servers("ns") == []
    assert vim._cloud.session.get_token() != token


def test_a_password_that_is_changed_while_the_account_is_there(cloud: Any, tmp_path: Path) -> None:
    guest = OpenStack.create(tmp_path, "guest", {}, URL, {**OSM, "user": "guest"})
    user = cloud.identity.find_user("guest")
    cloud.identity.update_user(user, password="another")  # all its tokens end with it
    try:
        text = r"OpenStack 'guest' refuses the password of user 'guest' in project 'north'\."
        with refused(text):
            guest.servers("ns")
    finally:
        cloud.identity.update_user(user, password=OSM["password"])
    # Keystone counts whole seconds: tokens of the second of a change end with it.
    time.sleep(2)
    guest.destroy()


def test_a_provider_network_that_is_gone(cloud: Any, tmp_path: Path) -> None:
    network = cloud.network.create_network(name="provider")
    cloud.network.create_subnet(network_id=network.id, ip_version=4, cidr="10.8.0.0/24")
    config = {"management_network_name": "provider"}
    vim = OpenStack.create(tmp_path, "north", config, URL, OSM)
    management = vim.management_network().id
    cloud.network.delete_network(network)
    with refused("Network not found with this criteria: 'provider'"):
        vim.management_network()
    with refused(f"OpenStack 'north' refuses: Network {management} could not be found\\."):
        vim.create_server(vdu(management), "ns")
    vim.destroy()
    assert left(cloud) == []


def test_a_flavor_that_is_too_small_for_the_image(cloud: Any, vim: OpenStack) -> None:
    image = cloud.create_image(
        "large", filename=__file__, disk_format="raw", container_format="bare", min_ram=4096,
        wait=True,
    )  # fmt: skip
    try:
        text = r"OpenStack 'north' refuses: Flavor's memory is too small for requested image\."
        with refused(text):
            vim.create_server(vdu(vim.management_network().id, image="large"), "ns")
    finally:
        cloud.image.delete_image(image)


def test_ranges_that_overlap(cloud: Any, vim: OpenStack) -> None:
    """Two networks of a service may have one range; two subnets of one network may not."""
    first, second = (
        vim.create_network(NetworkSpec(name, "10.1.0.0/24", dhcp=False), "ns") for name in "ab"
    )
    ports = [PortSpec(net.id, ip="10.1.0.1") for net in (first, second)]
    server = vim.wait_active(vim.create_server(vdu("", *ports), "ns").id, PATIENCE)
    assert [port.ip for port in server.ports] == ["10.1.0.1", "10.1.0.1"]
    text = "OpenStack 'north' refuses: Invalid input for operation: Requested subnet with cidr: "
    again = {"network_id": first.id, "ip_version": 4, "cidr": "10.1.0.0/25"}
    text += f"10.1.0.0/25 for network: {first.id} overlaps with another subnet\\."
    with refused(text), vim._refusals():
        vim._cloud.network.create_subnet(**again)


@pytest.mark.parametrize("made", [2, 4])
def test_nothing_is_left_of_a_killed_worker(
    cloud: Any, vim: OpenStack, tmp_path: Path, made: int
) -> None:
    """After the fourth port it asks for the server, which Nova may make when the worker is dead."""
    network = vim.create_network(NetworkSpec("data", "10.1.0.0/24", dhcp=False), "ns").id
    ports = "PortSpec(network, port_security=False), " * 4
    program = f"""
from lab.vim.model import PortSpec, ServerSpec
from lab.vim.openstack import OpenStack, answers
network = "{network}"
spec = ServerSpec("x-box-0", "box", "ubuntu22.04", 1, 1024, 5, ({ports}))
OpenStack.open("{tmp_path}", "north").create_server(spec, "ns")
"""
    worker = subprocess.Popen([sys.executable, "-c", program])
    wait_until(lambda: len(list(cloud.network.ports(network_id=network))) >= made, "ports")
    worker.kill()
    worker.wait()
    assert left(cloud) != []
    vim.delete_tag("ns")
    assert left(cloud) == []


def test_a_floating_address(cloud: Any, tmp_path: Path) -> None:
    network = cloud.network.create_network(name="behind")
    subnet = cloud.network.create_subnet(network_id=network.id, ip_version=4, cidr="10.9.0.0/24")
    public = cloud.network.find_network("public")
    router = cloud.network.create_router(external_gateway_info={"network_id": public.id})
    cloud.network.add_interface_to_router(router, subnet_id=subnet.id)
    config = {"management_network_name": "behind", "use_floating_ip": True}
    vim = OpenStack.create(tmp_path, "north", config, URL, OSM)
    try:
        port = PortSpec(network.id, management=True, tag="eth0")
        server = vim.create_server(vdu("", port), "ns")
        assert str(server.ports[0].floating).startswith("172.31.1.")
        again = vim.replace_server(server.id, vdu("", port), "ns", same=False)
        assert again.ports[0].address == server.ports[0].address
    finally:
        vim.destroy()
        cloud.network.remove_interface_from_router(router, subnet_id=subnet.id)
        cloud.network.delete_router(router)
        cloud.network.delete_network(network)
    assert left(cloud) == []


def test_an_unknown_server_and_one_that_was_never_there(cloud: Any, vim: OpenStack) -> None:
    lost = str(uuid.uuid4())
    vim.delete_server(lost)
    vim.delete_tag("never")
    with refused(f"OpenStack 'north' refuses: Instance {lost} could not be found."):
        vim.server(lost)
