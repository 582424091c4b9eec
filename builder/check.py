"""Validation of what the build made, against everything this tree can build."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from builder import documents, identities
from builder.packages import Package as Source
from builder.validate import Catalog, PackageError, Problem, read, validate, validate_params
from builder.validate.context import Document


def archives(paths: Iterable[Path], known: Iterable[Source] = ()) -> tuple[Catalog, list[Problem]]:
    """Return a catalogue of archives or package folders, and their problems.

    Args:
        paths: Archives or folders. Each is read once; rules can read the charms inside.
        known: Packages of this tree, so that a service can be checked without its VNFs.
    """
    catalog, read_packages, problems = Catalog(), [], []
    for path in paths:
        try:
            package = read(path)
        except PackageError as error:
            problems.append(error.problem)
        else:
            catalog.add(package)
            read_packages.append(package)
    add_descriptors(catalog, known)
    for package in read_packages:
        problems += validate(package, catalog)
    return catalog, problems


def add_descriptors(catalog: Catalog, known: Iterable[Source]) -> Catalog:
    """Add the descriptors of packages that were not built; return the catalogue."""
    for package in known:
        if package.kind == "vnf":
            catalog.add_descriptor("vnfd", package.descriptor["vnfd"])
        elif package.kind == "ns":
            catalog.add_descriptor("nsd", package.descriptor["nsd"]["nsd"][0])
        elif package.kind == "nst":
            catalog.add_descriptor("nst", package.descriptor["nst"][0])
    return catalog


def parameters(folder: Path, catalog: Catalog) -> list[Problem]:
    """Return the problems of every parameter file of a folder."""
    return [
        problem
        for path in sorted(folder.glob("*.yaml"))
        for problem in document(documents.read(path), catalog, path.name)
    ]


def document(params: dict[str, Any], catalog: Catalog, name: str) -> list[Problem]:
    """Return the problems of parameters, checked with each service or slice that they fit.

    They fit the services that have exactly their members, and the slices that have exactly their
    services and, if they have a 5QI, this 5QI. Parameters that fit nothing are a problem.
    """
    if "netslice-subnet" in params:
        problems = _of_slices(params, catalog, name)
    else:
        problems = _of_services(params, catalog, name)
    return problems + [
        Problem(name, "params-disagree", finding) for finding in identities.disagreements(params)
    ]


def _of_services(params: dict[str, Any], catalog: Catalog, name: str) -> list[Problem]:
    members = {str(m["member-vnf-index"]) for m in params.get("additionalParamsForVnf", ())}
    services = [
        nsd
        for nsd in catalog.nsds.values()
        if members == {str(profile["id"]) for profile in nsd["df"][0]["vnf-profile"]}
    ]
    if not services:
        sentence = f"no service has exactly the members {', '.join(sorted(members))}"
        return [Problem(name, "params-no-service", sentence)]
    result = []
    for nsd in services:
        alone = Catalog(vnfds=catalog.vnfds, nsds={nsd["id"]: nsd}, packages=catalog.packages)
        result += validate_params("ns", params, alone, name)
    return result


def _of_slices(document: dict[str, Any], catalog: Catalog, name: str) -> list[Problem]:
    services = {str(subnet["id"]) for subnet in document["netslice-subnet"]}
    fitting = [
        nst
        for nst in catalog.nsts.values()
        if services == {str(subnet["id"]) for subnet in nst.get("netslice-subnet") or ()}
        and _members(document) == _members_of(nst, catalog)
    ]
    if not fitting:
        sentence = f"no slice template has exactly the services {', '.join(sorted(services))}"
        return [Problem(name, "params-no-service", sentence)]
    alternatives = []
    for nst in fitting:
        alone = Catalog(
            vnfds=catalog.vnfds,
            nsds=catalog.nsds,
            nsts={nst["id"]: nst},
            packages=catalog.packages,
        )
        alternatives.append(validate_params("nsi", document, alone, name))
    # Templates with equal services differ in their 5QI. The file fits the templates with its 5QI.
    agreeing = [one for one in alternatives if not any(p.code == "params-five-qi" for p in one)]
    return [problem for one in agreeing or alternatives for problem in one]


def _members(document: dict[str, Any]) -> dict[str, set[str]]:
    """Return the members in a slice's parameters, by service."""
    return {
        str(s["id"]): {str(m["member-vnf-index"]) for m in s.get("additionalParamsForVnf", ())}
        for s in document["netslice-subnet"]
    }


def _members_of(nst: Document, catalog: Catalog) -> dict[str, set[str]]:
    result = {}
    for subnet in nst.get("netslice-subnet") or ():
        nsd = catalog.nsds.get(subnet["nsd-ref"])
        profiles = nsd["df"][0].get("vnf-profile") or () if nsd else ()
        result[str(subnet["id"])] = {str(profile["id"]) for profile in profiles}
    return result
