"""Says what OSM 19 refuses in a package, and what it accepts and then fails on or ignores."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ValidationError

# Importing the rules registers them.
from builder.validate import charm_rules, cloudinit_rules, nsd_rules, vnfd_rules
from builder.validate.context import RULES, Catalog, Context, body_of
from builder.validate.descriptors import NsdList, Nst, Vnfd
from builder.validate.params import validate_params
from builder.validate.problem import Problem
from builder.validate.reader import Package, PackageError, read
from builder.validate.schema import problems_of

__all__ = [
    "Catalog",
    "Package",
    "PackageError",
    "Problem",
    "charm_rules",
    "cloudinit_rules",
    "nsd_rules",
    "read",
    "validate_package",
    "validate_params",
    "vnfd_rules",
]

MODELS: dict[str, type[BaseModel]] = {"vnfd": Vnfd, "nsd": NsdList, "nst": Nst}
ENVELOPES = {
    "vnfd": "a mapping under `vnfd:`",
    "nsd": "`nsd: {nsd: [one network service]}`",
    "nst": "`nst: [one template]`",
}


def validate_package(path: Path, catalog: Catalog | None = None) -> list[Problem]:
    """Return everything that is wrong with a package; none where it is good.

    Args:
        path: Folder, tar.gz or zip.
        catalog: What else is onboarded; an NSD's VNFDs are looked up there.
    """
    try:
        package = read(path)
    except PackageError as error:
        return [error.problem]
    where = f"{package.name}: {package.descriptor_path}"
    if not package.kind:
        sentence = "no vnfd, nsd or nst at the top level"
        return [Problem(where, "refused", "envelope", sentence)]
    body = body_of(package)
    if not isinstance(body, dict):
        sentence = f"wrong envelope; allowed: {ENVELOPES[package.kind]}"
        return [Problem(where, "refused", "envelope", sentence)]
    model = MODELS[package.kind]
    root = {"vnfd": "vnfd", "nsd": "nsd/nsd[0]", "nst": "nst[0]"}[package.kind]
    try:
        model.model_validate({"nsd": [body]} if package.kind == "nsd" else body)
    except ValidationError as error:
        return problems_of(error, model, where, "nsd" if package.kind == "nsd" else root)
    context = Context(package, catalog or Catalog(), body, root)
    found = []
    for rule in RULES[package.kind]:
        found += list(rule(context))
    return sorted(set(found))
