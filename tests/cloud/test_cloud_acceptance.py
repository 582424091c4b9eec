"""What acceptance finds at a real OpenStack, and that the command it names mends it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.cloud import beside_the_servers, connect, environment

from operate.acceptance import vim
from operate.acceptance.report import Step

pytestmark = [pytest.mark.long, pytest.mark.schedule(order=2, worker="cloud")]

CONFIG = {"management_network_name": "mgmt"}


@pytest.fixture(scope="module")
def project(cloud: Any) -> Iterator[Any]:
    """A project of its own with a management network, as `osm` sees it."""
    identity, network = cloud.identity, cloud.network
    made = identity.create_project(name="acceptance", domain_id="default")
    osm, guest = identity.find_user("osm"), identity.find_user("guest")
    identity.assign_project_role_to_user(made, osm, identity.find_role("admin"))
    identity.assign_project_role_to_user(made, guest, identity.find_role("member"))
    cloud.set_network_quotas(made.id, ports=-1, networks=-1, subnets=-1)
    cloud.set_compute_quotas(made.id, instances=-1, cores=-1, ram=-1)
    mine = connect("acceptance")
    mgmt = mine.network.create_network(name="mgmt")
    mine.network.create_subnet(
        network_id=mgmt.id, ip_version=4, cidr="10.250.0.0/24", dns_nameservers=["9.9.9.9"]
    )
    [group] = mine.network.security_groups(project_id=made.id)
    mine.network.create_security_group_rule(
        security_group_id=group.id, direction="ingress", protocol="tcp",
        port_range_min=22, port_range_max=22,
    )  # fmt: skip
    yield mine
    for port in network.ports(network_id=mgmt.id):
        if not port.device_owner:
            network.delete_port(port)
    network.delete_network(mgmt)
    network.delete_security_group(group)
    identity.delete_project(made)


def findings(cloud: Any, config: dict[str, Any] | None = None) -> list[Step]:
    steps = []
    for title, look in vim.CHECKS:
        step = Step(title)
        with vim.refusals():
            look(cloud, config or CONFIG, step)
        steps.append(step)
    return [step for step in steps if step.state != "passed"]


def mended(project: Any, sentence: str) -> None:
    """Run the command of the one finding; nothing is found afterwards."""
    [step] = findings(project)
    assert step.sentence == sentence
    files = "truncate --size 1M jammy-server-cloudimg-amd64.img\n"
    said = beside_the_servers(files + step.command, "acceptance")
    assert "FAILED" not in said
    assert [found.sentence for found in findings(project)] == []


def test_credentials_come_out_of_the_environment(
    project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment("acceptance").items():
        monkeypatch.setenv(name, value)
    step = Step("VIM itself")
    connection = vim.connect(step)
    assert (step.state, step.sentence) == ("passed", "project acceptance")
    assert findings(connection) == []
    monkeypatch.setenv("OS_PASSWORD", "wrong")
    step = Step("VIM itself")
    assert vim.connect(step) is None
    assert (step.state, step.sentence) == ("failed", "OpenStack refuses these credentials.")


def test_nothing_is_left(project: Any) -> None:
    only = {"project_id": project.current_project_id}
    findings(project)
    assert [network.name for network in project.network.networks(**only)] == ["mgmt"]
    assert [f.name for f in project.compute.flavors() if f.name.startswith("acceptance")] == []


def test_an_image_that_is_missing_and_one_that_is_twice(cloud: Any, project: Any) -> None:
    [own] = cloud.image.images(name=vim.IMAGE)
    cloud.image.update_image(own, name="kept")
    try:
        mended(project, "There is no image ubuntu22.04.")
        cloud.image.update_image(own, name=vim.IMAGE)
        [step] = findings(project)
        assert step.sentence == "There are 2 images ubuntu22.04, and OSM takes none then."
    finally:
        for each in cloud.image.images(owner=project.current_project_id):
            cloud.image.delete_image(each)
        cloud.image.update_image(own, name=vim.IMAGE)


def test_networks(project: Any) -> None:
    network = project.network
    [subnet] = network.subnets(project_id=project.current_project_id)
    network.update_subnet(subnet, is_dhcp_enabled=False)
    mended(project, "Network mgmt has no DHCP, by which VDUs get their first address.")
    network.update_subnet(subnet, dns_nameservers=[])
    [step] = findings(project)
    assert step.state == "unknown"
    mended(project, step.sentence)
    [step] = findings(project, {"management_network_name": "lost"})
    assert step.sentence == "There is no network lost."


def test_a_security_group_without_logins(project: Any) -> None:
    network = project.network
    [group] = network.security_groups(project_id=project.current_project_id)
    for rule in group.security_group_rules:
        if rule["port_range_min"] == 22:
            network.delete_security_group_rule(rule["id"])
    mended(project, "Group default does not let TCP 22 in on management.")


@pytest.mark.parametrize(
    ("quota", "sentence"),
    [
        ("cores", "Of 1 cores 0 are in use, and the smallest service needs 2."),
        ("instances", "Of 1 instances 0 are in use, and the smallest service needs 2."),
        ("subnets", "Of 1 subnets 1 are in use, and the smallest service needs 1."),
    ],
)
def test_quotas(cloud: Any, project: Any, quota: str, sentence: str) -> None:
    of = cloud.set_network_quotas if quota == "subnets" else cloud.set_compute_quotas
    of(project.current_project_id, **{quota: 1})
    try:
        # The network of a link is refused by a full quota, too.
        step = Step("quotas at the VIM")
        dict(vim.CHECKS)[step.title](project, CONFIG, step)
        assert step.sentence == sentence
        assert "FAILED" not in beside_the_servers(step.command, "acceptance")
        assert findings(project) == []
    finally:
        of(project.current_project_id, **{quota: -1})


def test_a_user_who_may_make_no_flavor(project: Any) -> None:
    guest = connect("acceptance", "guest")
    found = [step for step in findings(guest) if step.title == "flavor"]
    assert [step.sentence for step in found] == ["No flavor fits, and this user may make none."]
    assert "FAILED" not in beside_the_servers(found[0].command, "acceptance")
    try:
        assert findings(guest) == []
    finally:
        project.compute.delete_flavor(project.compute.find_flavor("acceptance"))
