"""What acceptance finds at an OpenStack, on a model of its connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace as Thing
from typing import Any

import keystoneauth1.exceptions as keystone
import pytest
from openstack.exceptions import ConflictException, ForbiddenException
from support.cloud import environment

from operate.acceptance import vim
from operate.acceptance.report import Step
from operate.client import OperateError

RULE = {
    "direction": "ingress",
    "ethertype": "IPv4",
    "protocol": "tcp",
    "port_range_min": 20,
    "port_range_max": 30,
    "remote_group_id": None,
}


class Cloud:
    """An OpenStack on which all is well."""

    current_project_id = "p1"

    def __init__(self) -> None:
        self.images = [Thing(id="i1", created_at="1", status="active", min_disk=0, min_ram=0)]
        self.found = [Thing(id="n1", name="mgmt", mtu=1500)]
        self.subnet = Thing(
            id="s1", ip_version=4, is_dhcp_enabled=True, cidr="10.1.0.0/24", dns_nameservers=["9"]
        )
        self.aliases = [Thing(alias="port-security")]
        self.group = Thing(id="g1", name="default", security_group_rules=[dict(RULE)])
        self.known = [Thing(name="m1", **vim.SIZE)]
        self.limits = Thing(
            instances=-1, instances_used=9, total_cores=20, total_cores_used=18,
            total_ram=51200, total_ram_used=0,
        )  # fmt: skip
        self.room = {name: {"limit": 10, "used": 3} for name in ("networks", "subnets", "ports")}
        self.ports: list[Any] = []
        self.made: list[str] = []
        self.mtu = 1450
        self.image = Thing(images=lambda name: self.images)
        self.compute = Thing(
            flavors=lambda: self.known, get_limits=lambda: Thing(absolute=self.limits),
            create_flavor=lambda **_: self.made.append("flavor"),
            delete_flavor=lambda _: self.made.remove("flavor"),
        )  # fmt: skip
        self.network = Thing(
            networks=lambda: self.found, subnets=lambda network_id: [self.subnet],
            extensions=lambda: self.aliases, security_groups=lambda project_id: [self.group],
            get_quota=lambda project, details: Thing(**self.room),
            create_network=self.create_network, create_subnet=lambda **_: None,
            create_port=self.create_port, update_port=lambda *_, **__: None,
            ports=lambda network_id: list(self.ports), delete_port=self.ports.remove,
            delete_network=lambda _: self.made.remove("network"),
        )  # fmt: skip

    def create_network(self, name: str) -> Any:
        self.made.append("network")
        return Thing(id="n2", mtu=self.mtu)

    def create_port(self, **_: Any) -> Any:
        self.ports.append("port")
        return "port"


def findings(cloud: Any, config: dict[str, Any] | None = None) -> list[Step]:
    """Return the steps that have not passed."""
    steps = []
    for title, look in vim.CHECKS:
        step = Step(title)
        look(cloud, config or {}, step)
        steps.append(step)
    return [step for step in steps if step.state != "passed"]


def test_a_ready_vim_passes() -> None:
    cloud = Cloud()
    assert findings(cloud) == []
    assert (cloud.made, cloud.ports) == ([], [])


@dataclass
class Case:
    """A flaw, the sentence that names it, and the beginning of the command that mends it."""

    title: str
    flaw: Callable[[Cloud], Any]
    sentence: str
    command: str
    state: str = "failed"


def put(where: str, **values: Any) -> Callable[[Cloud], None]:
    def change(cloud: Cloud) -> None:
        found = getattr(cloud, where)
        thing = found[0] if isinstance(found, list) else found
        vars(thing).update(values)

    return change


CASES = [
    Case("image at the VIM", lambda c: c.images.clear(), "There is no image ubuntu22.04.",
         "openstack image create ubuntu22.04 "),
    Case("image at the VIM", lambda c: c.images.insert(0, Thing(id="i2", created_at="2")),
         "There are 2 images ubuntu22.04, and OSM takes none then.", "openstack image delete i1"),
    Case("image at the VIM", put("images", status="queued"),
         "The image is queued, not active.", "openstack image delete ubuntu22.04"),
    Case("image at the VIM", put("images", min_disk=20),
         "The image asks for 0 MiB and 20 GB; a VDU has 1024 MiB and 10 GB.",
         "openstack image set --min-ram 0 --min-disk 0 "),
    Case("management network at the VIM", lambda c: c.found.clear(), "There is no network mgmt.",
         "openstack network create mgmt && openstack subnet create mgmt "),
    Case("management network at the VIM", lambda c: c.found.append(Thing(id="n3", name="mgmt")),
         "There are 2 networks mgmt.", "openstack network delete n1"),
    Case("management network at the VIM", put("subnet", ip_version=6),
         "Network mgmt has no IPv4 subnet.", "openstack subnet create mgmt --network mgmt "),
    Case("management network at the VIM", put("subnet", is_dhcp_enabled=False),
         "Network mgmt has no DHCP, by which VDUs get their first address.",
         "openstack subnet set --dhcp s1"),
    Case("management network at the VIM", put("subnet", dns_nameservers=[]),
         "mgmt, 10.1.0.0/24, MTU 1500; it names no DNS server, so Day-0 may find no package mirror",
         "openstack subnet set --dns-nameserver 9.9.9.9 s1", state="unknown"),
    Case("extension port-security", lambda c: c.aliases.clear(),
         "Neutron has no extension port-security, so no port can be without it.",
         "crudini --set /etc/neutron/plugins/ml2/ml2_conf.ini ml2 extension_drivers "),
    Case("security group", put("group", name="other", id="g2"),
         "There is no security group default.", "openstack security group create default"),
    Case("security group", put("group", security_group_rules=[
            {**RULE, "direction": "egress"}, {**RULE, "protocol": "udp"},
            {**RULE, "remote_group_id": "g1"}, {**RULE, "port_range_min": 23},
            {**RULE, "ethertype": "IPv6"}]),
         "Group default does not let TCP 22 in on management.",
         "openstack security group rule create g1 --protocol tcp --dst-port 22"),
    Case("quotas at the VIM", put("limits", total_cores_used=19),
         "Of 20 cores 19 are in use, and the smallest service needs 2.",
         "openstack quota set --cores 21 p1"),
    Case("quotas at the VIM", lambda c: c.room.update(ports={"limit": 10, "used": 7}),
         "Of 10 ports 7 are in use, and the smallest service needs 4.",
         "openstack quota set --ports 11 p1"),
    Case("network of a link", lambda c: setattr(c, "mtu", 1300),
         "Networks have an MTU of 1300; a tunnel needs 1360.",
         "crudini --set /etc/neutron/neutron.conf DEFAULT global_physnet_mtu 1500"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
def test_a_flaw_is_named_with_the_command_that_mends_it(case: Case) -> None:
    cloud = Cloud()
    case.flaw(cloud)
    [step] = findings(cloud)
    assert (step.title, step.state, step.sentence) == (case.title, case.state, case.sentence)
    assert step.command.startswith(case.command)
    assert (cloud.made, cloud.ports) == ([], [])


def test_flavors_are_looked_at_as_osm_does() -> None:
    cloud = Cloud()
    cloud.known = [Thing(name="m2", ram=2048, vcpus=2, disk=20)]
    assert findings(cloud) == []
    cloud.compute.create_flavor = refuse(ForbiddenException("Policy doesn't allow it."))
    [step] = findings(cloud)
    assert step.sentence == "No flavor fits, and this user may make none."
    assert step.command.startswith("openstack flavor create acceptance ")
    assert findings(cloud, {"use_existing_flavors": True}) == []


def refuse(error: Exception) -> Callable[..., None]:
    def raises(*_: Any, **__: Any) -> None:
        raise error

    return raises


def test_nothing_is_left_where_the_vim_refuses_in_the_middle() -> None:
    cloud = Cloud()
    error = ConflictException("409", details="Quota exceeded for\nresources: ['port'].")
    cloud.network.create_port = refuse(error)
    with pytest.raises(OperateError, match=r"^Quota exceeded for resources: \['port'\]\.$"):  # noqa: SIM117
        with vim.refusals():
            findings(cloud)
    assert cloud.made == []


def test_credentials_are_those_of_openstacks_client(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OS_CLOUD", "OS_AUTH_URL"):
        monkeypatch.delenv(name, raising=False)
    step = Step("VIM itself")
    assert vim.connect(step) is None
    assert (step.state, step.command) == ("unknown", "")
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    for error, sentence in (
        (keystone.Unauthorized("no"), "OpenStack refuses these credentials."),
        (keystone.ConnectFailure("no"), "OpenStack does not answer."),
    ):
        monkeypatch.setattr("keystoneauth1.session.Session.get_token", refuse(error))
        step = Step("VIM itself")
        assert vim.connect(step) is None
        assert (step.state, step.sentence) == ("failed", sentence)
