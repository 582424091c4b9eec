"""Validation of what the build made, against everything this tree can build."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import yaml

from builder.packages import Package
from builder.validate import Catalog, Problem, validate_package, validate_params


def catalog_of(paths: Iterable[Path], known: Iterable[Package] = ()) -> Catalog:
    """Return a catalogue of archives, completed by the descriptors of packages not built now.

    Args:
        paths: Archives; the charms inside can be looked into.
        known: Packages of this tree, so that a service can be built without its VNFs.
    """
    catalog = Catalog.from_packages(paths)
    for package in known:
        if package.kind == "vnf":
            catalog.add_descriptor("vnfd", package.descriptor["vnfd"])
        elif package.kind == "ns":
            catalog.add_descriptor("nsd", package.descriptor["nsd"]["nsd"][0])
    return catalog


def packages(paths: Iterable[Path], catalog: Catalog) -> list[Problem]:
    """Return the problems of archives or package folders."""
    return [problem for path in paths for problem in validate_package(path, catalog)]


def parameters(folder: Path, catalog: Catalog) -> list[Problem]:
    """Return the problems of every parameter file, checked with each service it fits.

    A file fits the services that have exactly its members; one that fits none is a problem.
    """
    found = []
    for path in sorted(folder.glob("*.yaml")):
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        members = {str(m["member-vnf-index"]) for m in document.get("additionalParamsForVnf", ())}
        services = [
            nsd
            for nsd in catalog.nsds.values()
            if members == {str(profile["id"]) for profile in nsd["df"][0]["vnf-profile"]}
        ]
        if not services:
            sentence = f"no service has exactly the members {', '.join(sorted(members))}"
            found.append(Problem(path.name, "silent", "params-no-service", sentence))
        for nsd in services:
            alone = Catalog(vnfds=catalog.vnfds, nsds={nsd["id"]: nsd}, packages=catalog.packages)
            found += validate_params("ns", document, alone, path.name)
    return found
