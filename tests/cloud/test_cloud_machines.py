"""Services on machines that boot on the OpenStack, with charms that reach them over its network.

Only with `./run openstack up machines`. Their processors are emulated.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import shipped
from support.cloud import Lab, connect, left
from support.dist import built
from support.waiting import wait_until

from lab.nbi.engine import Engine
from lab.records.store import NSDS, VNFRS, Store
from operate.acceptance.vim import IMAGE

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(5400),
    pytest.mark.schedule(order=2, worker="cloud"),
]

PACKAGES = ("vpn_endpoint_vnf", "vpn_basic_ns", "secgw_vnf", "cell_vnf", "secgw_ha_ns")
#: Of Neutron's VXLAN networks, and of tunnels on them.
UNDERLAY, WIREGUARD, IPSEC = 1450, 1370, 1365
HEADER = 28
PAIR = ("gateway1", "gateway2")
VIRTUAL = "192.168.121.254"
HOOK = "type filter hook output priority 0;"
SILENT = f"table inet silent {{ chain out {{ {HOOK} meta l4proto udp drop; }}; }}"
FORGOTTEN = 200
"""Seconds after which neither a session of WireGuard nor a UDP flow of Linux lives."""


@pytest.fixture(scope="module", autouse=True)
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packages and the project's image, made before the process enters the cloud's network."""
    place = built(tmp_path_factory, PACKAGES)
    program = Path(sys.executable).with_name("osm-lab")
    subprocess.run([program, "lab", "image", place / "image.qcow2"], check=True)
    return place


@pytest.fixture
def image(cloud: Any, dist: Path) -> Iterator[None]:
    """The image of the packages' name boots; the empty one has another name."""
    if {each.hypervisor_type for each in cloud.compute.hypervisors(details=True)} != {"QEMU"}:
        pytest.skip("no machine boots: needs ./run openstack up machines")
    [empty] = cloud.image.images(name=IMAGE)
    cloud.image.update_image(empty, name="kept")
    made = cloud.create_image(
        IMAGE, filename=str(dist / "image.qcow2"), disk_format="qcow2",
        container_format="bare", wait=True,
    )  # fmt: skip
    yield
    cloud.image.delete_image(made)
    cloud.image.update_image(empty, name=IMAGE)


@pytest.fixture
def logins(cloud: Any) -> Iterator[None]:
    """The projects' groups let SSH in, as docs/how-to/deploy-on-osm.md asks for."""
    with ExitStack() as stack:
        for mine in (cloud, connect("south")):
            network = mine.network
            [group] = network.security_groups(project_id=mine.current_project_id, name="default")
            rule = network.create_security_group_rule(
                security_group_id=group.id, direction="ingress", protocol="tcp",
                port_range_min=22, port_range_max=22,
            )  # fmt: skip
            stack.callback(network.delete_security_group_rule, rule)
        yield


class Machine:
    """A VDU, by SSH over the management network."""

    def __init__(self, lab: Lab, member: str, key: Path) -> None:
        found = {vnfr["member-vnf-index-ref"]: vnfr for vnfr in Store(lab.home).all(VNFRS)}
        self.address, self.key = found[member]["ip-address"], key

    def out(self, command: str, code: int = 0) -> str:
        done = subprocess.run(
            ["ssh", "-i", self.key, "-o", "StrictHostKeyChecking=no",
             "-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=60",
             f"ubuntu@{self.address}", command],
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def passes(self, target: str, size: int, source: str = "") -> bool:
        """Say whether packets of a size pass undivided."""
        words = f"ping -c 5 -M do -s {size - HEADER} {source and '-I ' + source} {target}"
        try:
            self.out(words)
        except AssertionError as error:
            print(error)
            return False
        return True


@contextmanager
def service(
    lab: Lab, place: Path, nsd: str, params: Path | str, members: tuple[str, ...], account: str
) -> Iterator[dict[str, Machine]]:
    """Have a service `x`; nothing of the lab is left at the end."""
    key = place / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    try:
        words = lab.creation("ns", nsd, params, account)
        lab.run(*words, "--ssh_keys", f"{key}.pub", "--wait")
        yield {member: Machine(lab, member, key) for member in members}
        lab.run("ns-delete", "x", "--wait")
    finally:
        lab.run("lab", "clean")


def test_a_tunnel_carries_packets_of_its_mtu(
    cloud: Any, image: None, logins: None, dist: Path, tmp_path: Path
) -> None:
    lab = Lab(tmp_path / "lab", dist, "5")
    with service(lab, tmp_path, "vpn_basic_ns", "vpn_basic", ("client",), "north") as machines:
        client = machines["client"]
        route = "ip -o route get 192.168.100.11 | grep -o 'dev [^ ]*' | cut -c5-"
        assert f" mtu {UNDERLAY} " in client.out(f"ip link show dev $({route})")
        assert f" mtu {WIREGUARD} " in client.out("ip -o link show type wireguard")
        assert client.passes("10.77.0.1", WIREGUARD)
        refused = client.out(f"ping -c 1 -M do -s {WIREGUARD - HEADER + 1} 10.77.0.1", 1)
        assert "message too long" in refused
        assert "192.168.100.11" in client.out("sudo wg show")
    assert left(cloud) == []


@pytest.fixture
def sites(cloud: Any) -> Iterator[dict[str, Any]]:
    """Two projects, each with a network behind a router and a floating address.

    docs/how-to/multi-site.md says how. By the site: connection, network, address.
    """
    made = {}
    with ExitStack() as stack:
        for site, mine, number in (("site-a", cloud, 2), ("site-b", connect("south"), 3)):
            neutron, first = mine.network, f"10.{number}0.0.1"
            public = neutron.find_network("public")
            network = neutron.create_network(name=f"transit-{site}")
            stack.callback(neutron.delete_network, network)
            route = {"destination": "172.31.1.0/24", "nexthop": first}
            subnet = neutron.create_subnet(
                network_id=network.id, ip_version=4, cidr=f"10.{number}0.0.0/24", gateway_ip=None,
                is_dhcp_enabled=False, host_routes=[route],
            )  # fmt: skip
            router = neutron.create_router(external_gateway_info={"network_id": public.id})
            stack.callback(neutron.delete_router, router)
            port = neutron.create_port(
                network_id=network.id, fixed_ips=[{"subnet_id": subnet.id, "ip_address": first}]
            )
            neutron.add_interface_to_router(router, port_id=port.id)
            stack.callback(neutron.remove_interface_from_router, router, port_id=port.id)
            address = neutron.create_ip(floating_network_id=public.id)
            stack.callback(neutron.delete_ip, address)
            made[site] = (mine, network, address)
        yield made


def test_a_floating_address_is_an_endpoint(
    cloud: Any, image: None, logins: None, sites: Any, dist: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Neutron lets a flow that began before keep the router's address, and WireGuard follows it.

    After a silence the router has forgotten it, and the floating address is left.
    """
    monkeypatch.setenv("OSMLAB_UPDATE_STATUS_INTERVAL", "60")
    given = (dist / "params/vpn_two_sites.yaml").read_text()
    lab = Lab(tmp_path / "lab", dist, "5")
    outside = {"site-a": "198.51.100.11", "site-b": "203.0.113.12"}
    for (site, (_, network, address)), project in zip(
        sites.items(), ("north", "south"), strict=True
    ):
        lab.account(site, project)
        given = given.replace(f"{site}: transit", f"{site}: {network.name}")
        given = given.replace(outside[site], address.floating_ip_address)
    file = tmp_path / "both.yaml"
    file.write_text(given)
    members = ("server", "client")
    with service(lab, tmp_path, "vpn_basic_ns", file, members, "site-a") as machines:
        assert not machines["client"].passes("10.77.0.1", WIREGUARD)
        ends = {}
        for mine, network, address in sites.values():
            [server] = mine.compute.servers()
            [port] = mine.network.ports(device_id=server.id, network_id=network.id)
            mine.network.update_ip(address, port_id=port.id)
        for member, inner, other in (
            ("client", "10.77.0.1", "site-a"), ("server", "10.77.0.2", "site-b")
        ):  # fmt: skip
            machine = machines[member]
            works = partial(machine.passes, inner, WIREGUARD)
            wait_until(works, f"{member} up", 300)
            print(member, machine.out("sudo wg show all endpoints"))
            ends[member] = (works, f"\t{sites[other][2].floating_ip_address}:")
        for machine in machines.values():
            machine.out(f"sudo nft -f - <<<'{SILENT}'")
        time.sleep(FORGOTTEN)
        for machine in machines.values():
            machine.out("sudo nft delete table inet silent")
        for member, (works, endpoint) in ends.items():
            wait_until(works, f"{member} up again", 600)
            assert endpoint in machines[member].out("sudo wg show all endpoints")
    for mine, network, _ in sites.values():
        assert network.name in left(mine)


@pytest.fixture
def one_cell(dist: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Descriptor and parameters of a pair with one cell: each machine takes minutes."""
    nsd = deepcopy(shipped.bodies("ns")["secgw_ha_ns"])
    [df] = nsd["df"]
    df["vnf-profile"] = [each for each in df["vnf-profile"] if each["id"] != "cell2"]
    wiring = nsd["ns-configuration"]
    wiring["relation"] = [each for each in wiring["relation"] if "cell2" not in each["name"]]
    params = yaml.safe_load((dist / "params/secgw_ha.yaml").read_text())
    for link in params["vld"]:
        key = "vnfd-connection-point-ref"
        link[key] = [each for each in link[key] if each["member-vnf-index-ref"] != "cell2"]
    key = "additionalParamsForVnf"
    params[key] = [each for each in params[key] if each["member-vnf-index"] != "cell2"]
    for each in params[key]:
        if each["member-vnf-index"] in PAIR:
            each["additionalParams"]["standby_advert_interval_ms"] = 1000
    files = (tmp_path / "one_cell_nsd.yaml", tmp_path / "one_cell.yaml")
    for file, document in zip(files, ({"nsd": {"nsd": [nsd]}}, params), strict=True):
        file.write_text(yaml.safe_dump(document))
    return files


def test_a_gateway_pair_moves_its_address_over_ports_of_neutron(
    cloud: Any, image: None, logins: None, one_cell: Any, dist: Path, tmp_path: Path
) -> None:
    lab = Lab(tmp_path / "lab", dist, "10")
    Engine(lab.home).catalogue.update(NSDS, "secgw_ha_ns", one_cell[0])
    members = (*PAIR, "cell1", "core")
    with service(lab, tmp_path, "secgw_ha_ns", one_cell[1], members, "north") as machines:
        cell, core = machines["cell1"], machines["core"]
        core.out("sudo ip address add 10.43.1.10/32 dev lo")
        ports = {
            each.fixed_ips[0]["ip_address"]: each
            for each in cloud.network.ports(project_id=cloud.current_project_id)
        }
        servers = {each.name: each for each in cloud.compute.servers()}

        def owner() -> str:
            """Return the gateway whose port answers for the virtual address at the core."""
            core.out(f"sudo ip neighbour flush to {VIRTUAL}; ping -c 1 -W 5 {VIRTUAL}")
            said = core.out(f"ip neighbour show to {VIRTUAL}")
            macs = {ports[f"192.168.121.{n}"].mac_address: PAIR[n - 1] for n in (1, 2)}
            return next((name for mac, name in macs.items() if mac in said), said)

        def works() -> bool:
            return cell.passes("10.43.1.10", IPSEC, "10.41.0.11")

        assert [ports[f"192.168.121.{n}"].is_port_security_enabled for n in (1, 2)] == [False] * 2
        wait_until(lambda: owner() == "gateway1", "the primary is active", 600)
        wait_until(works, "the tunnel carries packets", 300)
        [first] = [each for name, each in servers.items() if "gateway1" in name]
        cloud.compute.stop_server(first)
        wait_until(lambda: owner() == "gateway2", "the address moves", 300)
        wait_until(works, "the tunnel to the other gateway carries packets", 300)
        cloud.compute.start_server(first)
        wait_until(lambda: owner() == "gateway1", "the primary takes back", 1200)
        wait_until(works, "the tunnel carries packets again", 300)
    assert left(cloud) == []
