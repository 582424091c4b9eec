"""Check packages and parameters against OSM's rules with ``builder.validate``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from builder.documents import profiles_of
from lab.errors import NbiError
from lab.records.store import Document

if TYPE_CHECKING:
    from builder.validate import Catalog, Package, Problem

# The functions import the rules, because this import is the slowest part of a short command.


def catalog(
    root: Path, vnfds: Iterable[Document], nsds: Iterable[Document], nsts: Iterable[Document] = ()
) -> Catalog:
    """Return the catalogue of some packages, given by their records; ``root`` has their folders."""
    from builder.validate import Catalog

    def bodies(records: Iterable[Document]) -> dict[str, Document]:
        return {each["id"]: each["descriptor"] for each in records}

    vnfds = list(vnfds)
    folders = {each["id"]: root / str(each["folder"]) for each in vnfds}
    return Catalog(bodies(vnfds), bodies(nsds), nsts=bodies(nsts), folders=folders)


def package(path: Path, known: Catalog, strict: bool) -> tuple[Package, list[str]]:
    """Read a package; return it and the warnings. ``strict``: refuse it for any finding."""
    from builder.validate import PackageError, read, validate

    try:
        found = read(path)
    except PackageError as error:
        raise _refusal([error.problem], path.name) from None
    return found, _sorted(validate(found, known), strict, path.name)


def parameters(
    kind: Literal["ns", "nsi"], document: Mapping[str, Any], known: Catalog
) -> list[str]:
    """Return the warnings about the parameters of a service or slice, as an operator wrote them.

    If there are slice templates, the slice's own is the only one; else the service's NSD is.
    """
    from builder.validate import validate_params

    own = {"ns": "nsdId", "nsi": "nstId"}[kind]
    request = {key: value for key, value in document.items() if key != own}
    try:
        return _sorted(validate_params(kind, request, known), False, "parameters")
    except NbiError as error:
        raise NbiError(f"{error}{_whose(kind, document, known)}", error.status) from None


def _whose(kind: str, document: Mapping[str, Any], known: Catalog) -> str:
    """Return for what a file of parameters seems to be, "" if it fits the service or slice."""
    if kind == "ns" and "netslice-subnet" in document:
        return "; this file is for a slice"
    if kind == "nsi" and {"additionalParamsForVnf", "vld"} & document.keys():
        return "; this file is for a service"
    subnets = [subnet for nst in known.nsts.values() for subnet in nst.get("netslice-subnet") or ()]
    names = [subnet["nsd-ref"] for subnet in subnets] if kind == "nsi" else list(known.nsds)
    there = {member for name in names for member in profiles_of(known.nsds.get(name, {}))}
    parts = [document] if kind == "ns" else document.get("netslice-subnet")
    named = {
        str(entry.get("member-vnf-index"))
        for part in _mappings(parts)
        for entry in _mappings(part.get("additionalParamsForVnf"))
    }
    if not named and there:
        return "; give a file of parameters, such as one of dist/params for this package"
    if named <= there:
        return ""
    what = ", ".join(names)
    return f"; this file is for members {_list(named)}, and {what} has {_list(there)}"


def _mappings(value: Any) -> list[Document]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _list(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _sorted(findings: list[Problem], strict: bool, what: str) -> list[str]:
    """Return the warnings; raise for what NBI refuses, with ``strict`` for any finding."""
    refused = [f for f in findings if strict or f.severity == "refused"]
    if refused:
        raise _refusal(refused, what)
    return [f"{f.path}: {f.sentence}" if f.path else f.sentence for f in findings]


def _refusal(refused: list[Problem], what: str) -> NbiError:
    first = refused[0]
    text = first.osm_message or first.sentence
    if first.path and first.path not in text:
        text = f"{text} (at {first.path})"
    more = f"; and {len(refused) - 1} more" if len(refused) > 1 else ""
    return NbiError(f"{what}: {text}{more}", _status(first))


def _status(finding: Problem) -> HTTPStatus:
    """Return the HTTP status with which NBI refuses a finding."""
    text = finding.osm_message
    if "non existing" in text or "already exists" in text:
        return HTTPStatus.CONFLICT
    if finding.code.startswith(("archive-", "descriptor-")):
        return HTTPStatus.BAD_REQUEST
    if finding.code.startswith("params-") and not text.startswith("Format error"):
        return HTTPStatus.BAD_REQUEST
    return HTTPStatus.UNPROCESSABLE_ENTITY
