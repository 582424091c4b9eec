"""Day-0 as OpenStack gives it without a metadata service: a configuration drive.

The layout is Nova's (docs.openstack.org/nova, "Metadata", "Config drives"): a disk with the label
config-2, read by cloud-init's data source ConfigDrive. Addresses are fixed, by network data.
"""

import ipaddress
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from builder.programs import output
from lab.errors import VimError
from lab.vim.model import Network, Server, ServerSpec, devices

_REGISTRIES = """\
#cloud-boothook
#!/bin/sh
mkdir -p /etc/containers/registries.conf.d
cat >/etc/containers/registries.conf.d/50-cloud.conf <<'END'
{}END
"""


def network_data(server: Server, networks: Mapping[str, Network]) -> dict[str, Any]:
    """Return the addresses of a server's ports; the default route is by the first gateway."""
    links, addresses = [], []
    has_default_route = False
    for port in server.ports:
        network = networks[port.network_id]
        subnet = ipaddress.ip_network(network.subnet)
        routes = []
        targets = [ipaddress.ip_network(target) for target in network.host_routes]
        if network.gateway and not has_default_route:
            has_default_route = True
            targets.append(ipaddress.ip_network("::/0" if subnet.version == 6 else "0.0.0.0/0"))
        if network.gateway:
            routes = [
                {
                    "network": str(target.network_address),
                    "netmask": str(target.netmask),
                    "gateway": network.gateway,
                }
                for target in targets
            ]
        links.append({
            "id": port.device, "vif_id": port.id, "type": "bridge", "mtu": network.mtu,
            "ethernet_mac_address": port.mac,
        })  # fmt: skip
        addresses.append({
            "id": f"on-{port.device}", "network_id": network.id, "link": port.device,
            "type": f"ipv{subnet.version}", "ip_address": port.ip, "netmask": str(subnet.netmask),
            "routes": routes,
        })  # fmt: skip
    return {"links": links, "networks": addresses, "services": []}


def contents(
    spec: ServerSpec,
    default_user: str,
    server: Server,
    networks: Mapping[str, Network],
    registries: str = "",
) -> dict[str, str]:
    """Return the files of the drive below ``openstack/latest``, by name.

    ``registries`` is text for containers-registries.conf(5), if the cloud has a registry.
    """
    meta = {
        "uuid": server.id,
        "name": spec.name,
        "hostname": spec.hostname,
        "public_keys": {f"key-{n}": key for n, key in enumerate(spec.ssh_keys)},
        "devices": devices(server.ports),
    }
    # The cloud's own defaults: the login user, whatever the image's own default is.
    vendor = ["#cloud-config\n" + yaml.safe_dump({"user": {"name": default_user}})]
    if registries:
        # Not by write_files: the user-data's own write_files would replace it.
        vendor.append(_REGISTRIES.format(registries))
    files = {
        "meta_data.json": json.dumps(meta, indent=1),
        "network_data.json": json.dumps(network_data(server, networks), indent=1),
        # One text: cloud-init 24.4 and newer report errors if it is a list.
        "vendor_data.json": json.dumps(
            {"cloud-init": "#cloud-config-archive\n" + yaml.safe_dump(vendor)}
        ),
    }
    if spec.user_data is not None:
        files["user_data"] = spec.user_data
    return files


def write(path: Path, files: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        latest = Path(folder, "openstack", "latest")
        latest.mkdir(parents=True)
        for name, text in files.items():
            (latest / name).write_text(text, encoding="utf-8")
        size = 1024 + sum(len(text.encode()) for text in files.values()) // 512
        words = ["-q", "-F", "-t", "ext2", "-L", "config-2", "-m", "0", "-d", folder]
        argv = ["mke2fs", *words, str(path), f"{size}k"]
        output(argv, "The server's configuration drive was not made", VimError)
