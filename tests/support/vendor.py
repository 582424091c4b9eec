"""A VNF package of a vendor, as public ones are: one VDU, Day-0 and a charm of its own."""

from __future__ import annotations

import copy
from pathlib import Path

import yaml

from builder import packages
from builder.tree import Tree

TREE = Tree.find()
ACTIONS = """\
touch: {params: {filename: {type: string}}, required: [filename]}
run: {description: d}
get-ssh-public-key: {description: d}
generate-ssh-key: {description: d}
verify-ssh-credentials: {description: d}
"""
SCRIPT = "#!/bin/sh\n"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43
SCRIPTS = {
    "touch": "action-set output=touched filename=$(action-get filename)",
    "run": "action-set output=ran",
    "get-ssh-public-key": f"action-set pubkey='{KEY} acme'",
    "generate-ssh-key": "true",
    "verify-ssh-credentials": "action-set verified=True",
}


def vendors(
    folder: Path,
    charm: bool = True,
    configured: bool = True,
    name: str = "acme_vnf",
    installs: str = "python3",
) -> Path:
    """Write a package of a vendor: the endpoint's VDU, with a charm of its own or none.

    `installs` are the packages of Day-0.
    """
    document = copy.deepcopy(packages.catalogue(TREE)["vpn_endpoint_vnf"].descriptor)
    body = document["vnfd"]
    body["id"] = body["product-name"] = name
    body["vdu"][0]["cloud-init-file"] = "day0.txt"
    flavour = body["df"][0]
    primitive = {"name": "touch", "parameter": [{"name": "filename", "value": "/a"}]}
    entry = {
        "id": name,
        "execution-environment-list": [{"id": "mycharm-ee", "juju": {"charm": "acme"}}],
        "initial-config-primitive": [{"seq": 3, **primitive}],
        "config-primitive": [{"name": "run", "execution-environment-ref": "mycharm-ee"}],
    }
    if charm:
        flavour["lcm-operations-configuration"]["operate-vnf-op-config"]["day1-2"] = [entry]
        scripts = {f"actions/{action}": f"{SCRIPT}{text}\n" for action, text in SCRIPTS.items()}
        for file, text in {
            "metadata.yaml": "name: acme\nsummary: s\ndescription: d\nseries: [bionic]\n",
            "actions.yaml": ACTIONS,
            "hooks/install": SCRIPT + "status-set active works\n",
            **scripts,
        }.items():
            path = folder / "charms/acme" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        (folder / "charms/acme/hooks/start").symlink_to("install")
    elif not configured:
        del flavour["lcm-operations-configuration"]
    else:
        flavour["lcm-operations-configuration"]["operate-vnf-op-config"]["day1-2"] = [
            {"id": "endpoint", "execution-environment-list": []}
        ]
    (folder / "cloud_init").mkdir(parents=True)
    (folder / "cloud_init/day0.txt").write_text(f"#cloud-config\npackages: [{installs}]\n")
    (folder / "acme_vnfd.yaml").write_text(yaml.safe_dump(document))
    return folder
