"""What acceptance asks the VIM itself, with the credentials of OpenStack's own client."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import keystoneauth1.exceptions as keystone
import openstack
from openstack.exceptions import ForbiddenException, SDKException

from operate.acceptance.reasons import finding
from operate.acceptance.report import Step
from operate.client import OperateError

IMAGE = "ubuntu22.04"
#: Memory in MiB, vCPUs and GB of disk of a VDU of the smallest service.
SIZE = {"ram": 1024, "vcpus": 1, "disk": 10}
#: What the smallest service takes of a project, by the names of the options of `quota set`.
NEEDED = {"instances": 2, "cores": 2, "ram": 2048, "networks": 1, "subnets": 1, "ports": 4}
#: IPv6's least MTU (RFC 8200) inside WireGuard over IPv6.
LEAST_MTU = 1360

_ERRORS = (SDKException, keystone.ClientException)


def connect(step: Step) -> Any:
    """Return a connection by $OS_CLOUD, or $OS_AUTH_URL and its like; None without one."""
    if not os.environ.keys() & {"OS_CLOUD", "OS_AUTH_URL"}:
        step.state, step.sentence = "unknown", "set $OS_CLOUD, or $OS_AUTH_URL and its like"
        return None
    step.speaker = "OpenStack"
    try:
        cloud = openstack.connect(app_name="osm-vpnaas", api_timeout=120)
        cloud.session.get_token()
    except _ERRORS as error:
        refused = isinstance(error, keystone.Unauthorized)
        step.fail(*finding("credentials" if refused else "no-answer"), _text(error))
        return None
    step.sentence = f"project {cloud.current_project.name or cloud.current_project_id}"
    return cloud


@contextmanager
def refusals() -> Iterator[None]:
    """Turn the errors of the client into one."""
    try:
        yield
    except _ERRORS as error:
        raise OperateError(_text(error)) from None


def _text(error: Exception) -> str:
    return " ".join((getattr(error, "details", None) or str(error)).split())


def enough(step: Step, name: str, total: float, used: float, option: str = "") -> bool:
    """Fail the step where a quota (-1: without end) has no room for the smallest service."""
    needed = NEEDED[option or name]
    if not 0 <= total < used + needed:
        return True
    words = {"name": name, "used": used, "needed": needed, "option": option or name}
    step.fail(*finding("quota", total=total, room=int(used + needed), **words))
    return False


def _image(cloud: Any, _: Mapping[str, Any], step: Step) -> None:
    images = list(cloud.image.images(name=IMAGE))
    if not images:
        step.fail(*finding("no-image", image=IMAGE))
    elif len(images) > 1:
        oldest = min(images, key=lambda image: str(image.created_at))
        step.fail(*finding("many-images", count=len(images), image=IMAGE, oldest=oldest))
    elif images[0].status != "active":
        step.fail(*finding("image-state", state=images[0].status, image=IMAGE))
    elif (images[0].min_disk or 0) > SIZE["disk"] or (images[0].min_ram or 0) > SIZE["ram"]:
        step.fail(*finding("image-size", asks=images[0], size=SIZE, image=IMAGE))


def _management(cloud: Any, config: Mapping[str, Any], step: Step) -> None:
    name = config.get("management_network_name") or config.get("management_network_id") or "mgmt"
    network = cloud.network
    found = [each for each in network.networks() if name in (each.id, each.name)]
    if len(found) != 1:
        case = "many-networks" if found else "no-network"
        step.fail(*finding(case, count=len(found), name=name, networks=found))
        return
    subnets = [s for s in network.subnets(network_id=found[0].id) if s.ip_version == 4]
    if not subnets:
        step.fail(*finding("no-subnet", name=name))
        return
    [subnet, *_others] = subnets
    if not subnet.is_dhcp_enabled:
        step.fail(*finding("no-dhcp", name=name, subnet=subnet))
        return
    step.sentence = f"{name}, {subnet.cidr}, MTU {found[0].mtu}"
    if not subnet.dns_nameservers:
        more, command = finding("no-dns", subnet=subnet)
        step.state, step.sentence, step.command = "unknown", step.sentence + more, command


def _port_security(cloud: Any, _: Mapping[str, Any], step: Step) -> None:
    if "port-security" not in {each.alias for each in cloud.network.extensions()}:
        step.fail(*finding("no-port-security"))


def _security_group(cloud: Any, config: Mapping[str, Any], step: Step) -> None:
    asked = config.get("security_groups") or "default"
    names = [asked] if isinstance(asked, str) else asked
    mine = list(cloud.network.security_groups(project_id=cloud.current_project_id))
    found = [group for group in mine if {group.id, group.name} & set(names)]
    if not found:
        step.fail(*finding("no-group", name=names[0]))
        return
    rules = [rule for group in found for rule in group.security_group_rules]
    if not any(_lets_logins_in(rule) for rule in rules):
        # An administrator sees a group `default` of each project.
        step.fail(*finding("no-logins", group=found[0]))


def _lets_logins_in(rule: Mapping[str, Any]) -> bool:
    first, last = rule["port_range_min"], rule["port_range_max"]
    return (
        rule["direction"] == "ingress"
        and rule["ethertype"] == "IPv4"
        and rule["protocol"] in (None, "tcp", "6")
        and not rule["remote_group_id"]
        and (first is None or first <= 22 <= last)
    )


def _flavor(cloud: Any, config: Mapping[str, Any], step: Step) -> None:
    nova, nearest = cloud.compute, bool(config.get("use_existing_flavors"))
    for flavor in nova.flavors():
        has = {key: getattr(flavor, key) for key in SIZE}
        if has == SIZE or (nearest and all(has[key] >= SIZE[key] for key in SIZE)):
            step.sentence = f"{flavor.name} fits"
            return
    try:
        made = nova.create_flavor(name=f"acceptance-{os.urandom(3).hex()}", **SIZE)
    except ForbiddenException as error:
        step.fail(*finding("no-flavor"), _text(error))
        return
    nova.delete_flavor(made)
    step.sentence = "none fits, and this user may make one"


def _quotas(cloud: Any, _: Mapping[str, Any], step: Step) -> None:
    limits = cloud.compute.get_limits().absolute
    project = cloud.current_project_id
    room = {
        "instances": (limits.instances, limits.instances_used),
        "cores": (limits.total_cores, limits.total_cores_used),
        "ram": (limits.total_ram, limits.total_ram_used),
    }
    details = cloud.network.get_quota(project, details=True)
    for name in ("networks", "subnets", "ports"):
        quota = getattr(details, name)
        room[name] = (quota["limit"], quota["used"])
    for name, (total, used) in room.items():
        if not enough(step, name, total, used):
            step.command = step.command.replace("PROJECT", project)
            return
    step.sentence = "enough for the smallest service"


def _underlay(cloud: Any, _: Mapping[str, Any], step: Step) -> None:
    """Make the network of a link, with a port as OSM makes it, and delete it."""
    network = cloud.network
    made = network.create_network(name=f"acceptance-{os.urandom(3).hex()}")
    try:
        network.create_subnet(
            network_id=made.id,
            ip_version=4,
            cidr="192.168.255.0/24",
            gateway_ip=None,
            is_dhcp_enabled=False,
        )
        port = network.create_port(network_id=made.id, fixed_ips=[{"ip_address": "192.168.255.1"}])
        network.update_port(port, is_port_security_enabled=False, security_group_ids=[])
        step.sentence = f"MTU {made.mtu}"
        if (made.mtu or LEAST_MTU) < LEAST_MTU:
            step.fail(*finding("small-mtu", mtu=made.mtu, least=LEAST_MTU))
    finally:
        for each in network.ports(network_id=made.id):
            network.delete_port(each)
        network.delete_network(made)


#: Steps: the title, and a function of the connection and the account's configuration.
CHECKS: tuple[tuple[str, Callable[[Any, Mapping[str, Any], Step], None]], ...] = (
    ("image at the VIM", _image),
    ("management network at the VIM", _management),
    ("extension port-security", _port_security),
    ("security group", _security_group),
    ("flavor", _flavor),
    ("quotas at the VIM", _quotas),
    ("network of a link", _underlay),
)
