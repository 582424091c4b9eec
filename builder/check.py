"""Validation of what the build made, against everything this tree can build."""

from collections.abc import Iterable
from copy import copy
from pathlib import Path
from typing import Any

from builder import documents
from builder.packages import Package as Source
from builder.validate import Catalog, PackageError, Problem, read, validate, validate_params
from builder.validate.context import Document
from builder.validate.creation_rules import misread_numbers, twice
from builder.validate.params_models import MODELS
from builder.validate.problem import problem
from builder.validate.reader import KINDS as ENVELOPES

PARAMETERS = {field.alias for model in MODELS.values() for field in model.model_fields.values()}
"""Keys of parameters of a service or a slice."""
SLICE_KEYS = {field.alias for field in MODELS["nsi"].model_fields.values()} - {
    field.alias for field in MODELS["ns"].model_fields.values()
}


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
        catalog.add_descriptor("nst" if package.kind == "nst" else f"{package.kind}d", package.body)
    return catalog


def parameters(folder: Path, catalog: Catalog) -> list[Problem]:
    """Return the problems of every parameter file of a folder."""
    return [
        problem
        for path in sorted(folder.glob("*.yaml"))
        for problem in users_parameters(path, catalog)
    ]


def document(params: dict[str, Any], catalog: Catalog, name: str) -> list[Problem]:
    """Return the problems of parameters, checked with each service or slice that they fit.

    They fit the services that have exactly their members, and the slices that have exactly their
    services and, if they have a 5QI, this 5QI; if there is one service or slice only, that one.
    Parameters that fit nothing are a problem.
    """
    of_slice = bool(SLICE_KEYS & params.keys())
    form = validate_params("nsi" if of_slice else "ns", params, Catalog(), name)
    if any(problem.severity == "refused" for problem in form):
        return form
    found = (_of_slices if of_slice else _of_services)(params, catalog, name)
    unknown = any(problem.code == "params-no-service" for problem in found)
    return sorted({*found, *(form if unknown else ())})


def parameter_file(path: Path) -> bool:
    """Tell whether a path is a file of instantiation parameters, and no descriptor."""
    try:
        written = path.suffix in (".yaml", ".yml") and path.is_file()
        known = documents.load(path.read_bytes()) if written else None
    except (OSError, documents.DocumentError):
        return False
    if not isinstance(known, dict) or {"id", *ENVELOPES} & known.keys():
        return False
    return bool(PARAMETERS & known.keys())


def users_parameters(path: Path, catalog: Catalog) -> list[Problem]:
    """Return the problems of a parameter file that somebody wrote for packages of a catalogue."""
    text = path.read_bytes().decode()
    return [
        *twice(path.name, text),
        *misread_numbers(path.name, text),
        *document(documents.load(text), catalog, path.name),
    ]


def _only(catalog: Catalog, **tables: dict[str, Document]) -> Catalog:
    """Return a catalogue with other tables. What is in it was checked, and is not again."""
    one = copy(catalog)
    vars(one).update(tables)
    return one


def _of_services(params: dict[str, Any], catalog: Catalog, name: str) -> list[Problem]:
    members = {str(m["member-vnf-index"]) for m in params.get("additionalParamsForVnf") or ()}
    known = list(catalog.nsds.values())
    services = [nsd for nsd in known if members == documents.profiles_of(nsd).keys()] or (
        known if len(known) == 1 else []
    )
    if not services:
        return [problem(name, "params-no-service/service", members=", ".join(sorted(members)))]
    result = []
    for nsd in services:
        result += validate_params("ns", params, _only(catalog, nsds={nsd["id"]: nsd}), name)
    return result


def _of_slices(document: dict[str, Any], catalog: Catalog, name: str) -> list[Problem]:
    services = {str(subnet["id"]) for subnet in document.get("netslice-subnet") or ()}
    known = list(catalog.nsts.values())
    fitting = [
        nst
        for nst in known
        if services == {str(subnet["id"]) for subnet in nst.get("netslice-subnet") or ()}
        and _members(document) == _members_of(nst, catalog)
    ] or (known if len(known) == 1 else [])
    if not fitting:
        return [problem(name, "params-no-service/slice", services=", ".join(sorted(services)))]
    alternatives = [
        validate_params("nsi", document, _only(catalog, nsts={nst["id"]: nst}), name)
        for nst in fitting
    ]
    # Templates with equal services differ in their 5QI. The file fits the templates with its 5QI.
    agreeing = [one for one in alternatives if not any(p.code == "params-five-qi" for p in one)]
    return [problem for one in agreeing or alternatives for problem in one]


def _members(document: dict[str, Any]) -> dict[str, set[str]]:
    """Return the members in a slice's parameters, by service."""
    return {
        str(s["id"]): {str(m["member-vnf-index"]) for m in s.get("additionalParamsForVnf") or ()}
        for s in document.get("netslice-subnet") or ()
    }


def _members_of(nst: Document, catalog: Catalog) -> dict[str, set[str]]:
    return {
        str(subnet["id"]): set(documents.profiles_of(catalog.nsds.get(subnet["nsd-ref"], {})))
        for subnet in nst.get("netslice-subnet") or ()
    }
