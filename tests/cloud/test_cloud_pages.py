"""Every `openstack` line of the how-tos does what its page says: real client, real servers.

Each page has a project of its own, in which its lines run in order. A word in capitals is a name
that the page's reader has; here the test makes what it names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.cloud import ROOT, beside_the_servers, connect

pytestmark = [pytest.mark.long, pytest.mark.schedule(order=2, worker="cloud")]

PAGES = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "docs/how-to").glob("*.md"))
    if re.search(r"^\s*openstack |`openstack ", path.read_text(encoding="utf-8"), re.M)
}
#: What the reader has before.
BEFORE = """
mkdir -p dist
truncate --size 1M jammy-server-cloudimg-amd64.img dist/osm-vpnaas.qcow2
openstack router create edge
openstack network create core
openstack subnet create core --network core --subnet-range 10.40.0.0/24 --no-dhcp
openstack port create core-port --network core
"""
#: A server, where a page asks for one; its image has the name that all pages know.
SERVER = """
openstack flavor create tiny --vcpus 1 --ram 64 --disk 1
openstack server create server --image kept --flavor tiny --nic net-id=core --wait
"""
WORDS = {
    "EXTERNAL_NETWORK": "public",
    "EDGE_ROUTER": "edge",
    "CORE_PORT": "core-port",
    "PORT": "core-port",
    "SERVER": "server",
    "NAME": "vlans",
    "PROJECT": "pages",
}
#: What this OpenStack cannot do: neither has linuxbridge VLANs of tenants, nor Nova's fake driver a
#: console.
REFUSED = ("openstack network create vlans --transparent-vlan",)


def script(text: str) -> str:
    """Return the calls of the client in a page, with the loops around them."""
    lines = []
    for block in re.findall(r"^\s*```sh\n(.*?)```", text, re.M | re.S):
        if re.search(r"^\s*openstack ", block, re.M):
            joined = re.sub(r"\\\n\s*", " ", block)
            loops = re.sub(r"^\s*for (?!n in).*?^\s*done$", "", joined, flags=re.M | re.S)
            lines += re.findall(
                r"^\s*(?:openstack |\w+=\$\(openstack |for n in|done\b).*", loops, re.M
            )
    lines += [" ".join(call.split()) for call in re.findall(r"`(openstack [^`]+)`", text)]
    return re.sub(r"\b[A-Z_]{4,}\b", lambda word: WORDS.get(word[0], word[0]), "\n".join(lines))


@pytest.fixture(scope="module")
def image(cloud: Any) -> Iterator[None]:
    """The image has another name, because the pages make one of this name."""
    [own] = cloud.image.images(name="ubuntu22.04")
    cloud.image.update_image(own, name="kept")
    yield
    cloud.image.update_image(own, name="ubuntu22.04")


@pytest.fixture
def project(cloud: Any, image: None) -> Iterator[str]:
    identity = cloud.identity
    made = identity.create_project(name="pages", domain_id="default")
    admin = identity.find_role("admin")
    identity.assign_project_role_to_user(made, identity.find_user("osm"), admin)
    flavors = {flavor.id for flavor in cloud.compute.flavors()}
    yield "pages"
    mine = connect("pages")
    for server in mine.compute.servers():
        mine.delete_server(server.id, wait=True)
    network, only = mine.network, {"project_id": made.id}
    for router in network.routers(**only):
        for port in network.ports(device_id=router.id, device_owner="network:router_interface"):
            network.remove_interface_from_router(router, port_id=port.id)
        network.delete_router(router)
    for port in network.ports(**only):
        if not port.device_owner:
            network.delete_port(port)
    for each in network.networks(**only):
        network.delete_network(each)
    for group in network.security_groups(**only):
        network.delete_security_group(group)
    for each in cloud.image.images(owner=made.id):
        cloud.image.delete_image(each)
    for flavor in mine.compute.flavors():
        if flavor.id not in flavors:
            mine.compute.delete_flavor(flavor)
    identity.delete_project(made)


@pytest.mark.parametrize("page", PAGES)
def test_the_lines_of_a_page_work(project: str, page: str) -> None:
    lines = script(PAGES[page])
    assert "openstack " in lines
    before = BEFORE + (SERVER if "server show" in lines else "")
    said = beside_the_servers(before + lines, project)
    failed = [line for line in said.splitlines() if line.startswith("FAILED: ")]
    assert [f for f in failed if not f.removeprefix("FAILED: ").startswith(REFUSED)] == [], said
