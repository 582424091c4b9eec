"""A service on machines that boot on the OpenStack, with charms that reach them over its network.

Only with `./run openstack up machines`. Their processors are emulated.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cloud import Lab, left
from support.dist import built

from lab.records.store import VNFRS, Store
from operate.acceptance.vim import IMAGE

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.schedule(order=2, worker="cloud"),
]

BASIC = ("vpn_endpoint_vnf", "vpn_basic_ns")
#: Of Neutron's VXLAN networks, and of the tunnel on them.
UNDERLAY, TUNNEL = 1450, 1370


@pytest.fixture(scope="module", autouse=True)
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packages and the project's image, made before the process enters the cloud's network."""
    place = built(tmp_path_factory, BASIC)
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
    """The project's group lets SSH in, as docs/how-to/deploy-on-osm.md asks for."""
    network = cloud.network
    [group] = network.security_groups(project_id=cloud.current_project_id, name="default")
    rule = network.create_security_group_rule(
        security_group_id=group.id, direction="ingress", protocol="tcp",
        port_range_min=22, port_range_max=22,
    )  # fmt: skip
    yield
    network.delete_security_group_rule(rule)


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


def test_a_tunnel_carries_packets_of_its_mtu(
    cloud: Any, image: None, logins: None, dist: Path, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    lab = Lab(tmp_path / "lab", dist, "5")
    try:
        words = lab.creation("ns", "vpn_basic_ns", "vpn_basic")
        lab.run(*words, "--ssh_keys", f"{key}.pub", "--wait")
        client = Machine(lab, "client", key)
        route = "ip -o route get 192.168.100.11 | grep -o 'dev [^ ]*' | cut -c5-"
        assert f" mtu {UNDERLAY} " in client.out(f"ip link show dev $({route})")
        assert f" mtu {TUNNEL} " in client.out("ip -o link show type wireguard")
        header = 28
        client.out(f"ping -c 5 -M do -s {TUNNEL - header} 10.77.0.1")
        refused = client.out(f"ping -c 1 -M do -s {TUNNEL - header + 1} 10.77.0.1", 1)
        assert "message too long" in refused
        assert "192.168.100.11" in client.out("sudo wg show")
        lab.run("ns-delete", "x", "--wait")
        assert left(cloud) == []
    finally:
        lab.run("lab", "clean")
