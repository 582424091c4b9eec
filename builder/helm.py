"""Packages for an OSM without Juju: a Helm execution environment in place of each proxy charm.

The sources are the same. In a VNFD only the environment and the parameters of `config` change. An
NSD loses its relations, because LCM ignores them for Helm execution environments. Each VNF gets its
relations as an instantiation parameter instead.
"""

import copy
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from builder import charms, documents
from builder.errors import BuildError
from builder.tree import Tree

JUJU, HELM = "juju", "helm"
KINDS = (JUJU, HELM)
IMAGE = "osm-vpnaas-ee"
CONTEXT = "execution-environment"  # Folder of dist/ from which the container image is built.
PINS = "helm/requirements.txt"  # What the image installs, below charms/common.
LIBRARIES = ("helm_ee", "oai", "vpnaas")
RELATIONS = "vpn_relations"
MORE_CONFIG = {"osm": "<OSM>", "relations": f"<{RELATIONS}>"}
"""Parameters of `config` besides the login: the identity of the VNF, and its relations."""


def image(given: str, tree: Tree) -> str:
    """Return the reference of the container image: the given one, or a default."""
    reference = given or f"{IMAGE}:{tree.version}"
    if not re.fullmatch(r"[a-z0-9][A-Za-z0-9._/:@-]{0,254}", reference):
        raise BuildError(f"--image: {reference!r} is no image; allowed: registry/name:tag")
    return reference


def vnfd(descriptor: dict[str, Any]) -> dict[str, Any]:
    """Return a VNFD whose execution environments are Helm charts, named as their charms."""
    changed = copy.deepcopy(descriptor)
    for entry in documents.day_1_2(changed["vnfd"]):
        for environment in entry.get("execution-environment-list") or ():
            juju = environment.pop("juju", None)
            if juju:
                environment |= {"helm-chart": juju["charm"], "helm-version": "v3"}
        for primitive in entry.get("initial-config-primitive") or ():
            if primitive["name"] == "config":
                primitive["parameter"] += [
                    {"name": name, "data-type": "STRING", "value": value}
                    for name, value in MORE_CONFIG.items()
                ]
    return changed


def nsd(descriptor: dict[str, Any]) -> dict[str, Any]:
    """Return an NSD without relations."""
    changed = copy.deepcopy(descriptor)
    configuration = changed["nsd"]["nsd"][0].get("ns-configuration") or {}
    configuration.pop("relation", None)
    if not configuration:
        changed["nsd"]["nsd"][0].pop("ns-configuration", None)
    return changed


def chart(tree: Tree, charm: str, target: Path, image: str) -> None:
    source = tree.common / "helm" / "chart"
    shutil.copytree(source, target)
    document = {
        "apiVersion": "v2",
        "name": charm,
        "description": charms.load(tree, charm).metadata["summary"],
        "type": "application",
        "version": tree.version,
        "appVersion": tree.version,
    }
    text = documents.dump(document)
    (target / "Chart.yaml").write_text(text, encoding="utf-8")
    values = (source / "values.yaml").read_text(encoding="utf-8")
    values = values.replace("IMAGE", image).replace("CHARM", charm)
    (target / "values.yaml").write_text(values, encoding="utf-8")


def context(tree: Tree, target: Path) -> None:
    """Write the folder from which the container image of all charms is built."""
    helm = tree.common / "helm"
    target.mkdir()
    for name in ("Containerfile", "requirements.txt"):
        shutil.copyfile(helm / name, target / name)
    shutil.copyfile(tree.root / "LICENSE", target / "LICENSE")
    charms.copy_packages(tree, LIBRARIES, True, target)
    for name in tree.charms():
        charms.declare(tree, name, target / "charms" / name)


def parameters(document: dict[str, Any], nsds: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the parameters of a service with the relations of each VNF.

    ``nsds`` are the services that have exactly its members.
    """
    related = [relations(nsd) for nsd in nsds]
    if any(one != related[0] for one in related):
        raise BuildError("services with the same members have other relations: name them apart")
    changed = copy.deepcopy(document)
    for member in changed.get("additionalParamsForVnf") or ():
        ends = related[0].get(str(member["member-vnf-index"]), []) if related else []
        member["additionalParams"][RELATIONS] = ",".join(ends) or "none"
    return changed


def relations(body: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the relations of an NSD, by member, as `endpoint=member:endpoint`."""
    result: dict[str, list[str]] = {}
    for relation in (body.get("ns-configuration") or {}).get("relation") or ():
        ends = (relation["provider"], relation["requirer"])
        for own, other in (ends, ends[::-1]):
            text = f"{own['endpoint']}={other['vnf-profile-id']}:{other['endpoint']}"
            result.setdefault(str(own["vnf-profile-id"]), []).append(text)
    return result
