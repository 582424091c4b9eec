"""Finds parts of a package that OSM 19 refuses, or accepts and later fails on or ignores."""

from pydantic import ValidationError

from builder.validate import (  # noqa: F401  # importing the rules registers them
    charm_rules,
    cloudinit_rules,
    creation_rules,
    nsd_rules,
    nst_rules,
    pool_rules,
    primitive_rules,
    relation_rules,
    tables,
    vnfd_rules,
)
from builder.validate.context import (
    RULES,
    Catalog,
    Context,
    Document,
    body_of,
    checked,
    envelope_of,
)
from builder.validate.params import validate_params
from builder.validate.problem import Problem, problem
from builder.validate.reader import Package, PackageError, place_of, read
from builder.validate.schema import problems_of, shown
from builder.validate.sol006 import MODELS

__all__ = [
    "Catalog",
    "Package",
    "PackageError",
    "Problem",
    "body_of",
    "read",
    "validate",
    "validate_params",
]

ENVELOPES = {
    "vnfd": "a mapping under `vnfd:`",
    "nsd": "`nsd: {nsd: [one network service]}`",
    "nst": "`nst: [one template]`",
}
ROOTS = {"vnfd": "vnfd", "nsd": "nsd/nsd[0]", "nst": "nst[0]"}
OLD_ENVELOPES = {"vnfd-catalog", "vnfd:vnfd-catalog", "nsd-catalog", "nsd:nsd-catalog"}
TOSCA = {"topology_template", "node_types", "TOSCA-Meta-File-Version"}
OLD_KEYS = {
    "connection-point", "mgmt-interface", "internal-vld", "vnf-configuration", "constituent-vnfd",
    "vnfd-connection-point-ref", "service-function-chain", "short-name", "vld", "vendor",
}  # fmt: skip
"""Keys of descriptors before SOL006, which SOL006 does not have at the top."""


def validate(package: Package, catalog: Catalog) -> list[Problem]:
    """Return all problems of a package that was read; none if it is valid."""
    return sorted({*package.notes, *_descriptor(package, catalog)})


def _other_format(document: object, body: object) -> str:
    """Return a sentence about a descriptor in another format than SOL006, "" about any other."""
    keys = {str(key) for key in document} if isinstance(document, dict) else set()
    if any(key.startswith("tosca_definitions_version") or key in TOSCA for key in keys):
        return "this is a TOSCA template (SOL001), which OSM does not read"
    inner = {str(key) for key in body} if isinstance(body, dict) else set()
    inner |= keys - {"vnfd", "nsd", "nst"}
    if OLD_ENVELOPES & keys or (OLD_KEYS & inner and not {"df", "netslice-subnet"} & inner):
        return "this is a descriptor of OSM before Release 9 (pre-SOL006)"
    return ""


def form(package: Package) -> tuple[Document | None, list[Problem]]:
    """Return a descriptor with the types of SOL006, None without its form, and the problems."""
    where = place_of(package.name, package.descriptor_path)
    body = body_of(package)
    old, envelopes = _other_format(package.document, body), "; ".join(ENVELOPES.values())
    if old:
        return None, [problem(where, "old-format/descriptor", old=old, may=envelopes)]
    if not package.kind:
        return None, [problem(where, "envelope/none", may=envelopes)]
    if not isinstance(body, dict):
        may = ENVELOPES[package.kind]
        return None, [problem(where, f"envelope/{package.kind}", may=may)]
    result = []
    envelope = envelope_of(package)
    beside = [str(key) for key in package.document if key != envelope]
    if envelope and beside:
        result.append(problem(where, "envelope-beside", value=shown(beside)))
    try:
        return checked(package.kind, body), result
    except ValidationError as error:
        top = "nsd" if package.kind == "nsd" else ROOTS[package.kind]
        return None, result + problems_of(error, MODELS[package.kind], where, top)


def _descriptor(package: Package, catalog: Catalog) -> list[Problem]:
    document, result = form(package)
    if document is not None:
        context = Context(package, catalog, document, ROOTS[package.kind])
        for rule in RULES[package.kind]:
            result += list(rule(context))
    return result
