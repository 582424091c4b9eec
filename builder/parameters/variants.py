"""Packages and parameter files that are copies of others with a few changed values."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, StringConstraints

from builder import charms, documents
from builder.descriptors import CONFIGURE, SHARED
from builder.errors import BuildError
from builder.parameters import core, slices
from builder.strict import Strict, checked
from builder.tree import Tree

TECHNOLOGY = "vpn_technology"


class Variant(Strict):
    """One entry of ns-packages/variants.yaml."""

    # End of the names and ids of the variant's packages. NBI accepts any text as an id. The name
    # is also a file name and a YAML key.
    suffix: Annotated[str, StringConstraints(pattern=r"^_[a-z0-9_]+$")]
    # Service packages that get the variant, with the VNF packages they name.
    services: tuple[str, ...] = Field(alias="of", min_length=1)
    description: str  # Appended to that of each package.
    compute_factor: int = Field(default=1, ge=1, le=64)  # Multiplies vCPU and memory.
    # On at the NICs that only tunnels use (docs/reference/packages.md).
    port_security: bool = False


class _Variants(Strict):
    variants: list[Variant]


class _WrittenMember(BaseModel):
    index: str = Field(alias="member-vnf-index")
    params: dict[str, Any] = Field(alias="additionalParams")


class _Written(BaseModel):
    """What the build reads in a parameter file of a service; the validator checks the rest."""

    members: list[_WrittenMember] = Field(alias="additionalParamsForVnf")


class _Derived(Strict):
    """One entry of params/variants.yaml."""

    of: str
    description: str
    # Values for every member.
    additional_params: dict[str, Any] = Field(default_factory=dict)
    # Values for single members, by member-vnf-index.
    members: dict[str, dict[str, Any]] = Field(default_factory=dict)


def load(tree: Tree) -> list[Variant]:
    path = tree.root / "ns-packages/variants.yaml"
    return checked(_Variants, documents.read(path), "ns-packages/variants.yaml").variants


def vnfd(descriptor: dict[str, Any], variant: Variant) -> dict[str, Any]:
    """Return the VNFD of a variant: its names get the suffix, its compute the factor."""
    changed = copy.deepcopy(descriptor)
    body = changed["vnfd"]
    before = body["id"]
    for key in ("id", "product-name"):
        body[key] += variant.suffix
    body["description"] += f", {variant.description}"
    for compute in body["virtual-compute-desc"]:
        compute["virtual-cpu"]["num-virtual-cpu"] *= variant.compute_factor
        compute["virtual-memory"]["size"] *= variant.compute_factor
    for entry in documents.day_1_2(body):
        if entry["id"] == before:
            entry["id"] += variant.suffix
        if variant.port_security:
            _secure(body, _underlays(entry))
    return changed


def _underlays(entry: dict[str, Any]) -> set[str]:
    """Return the NICs of the links that Day-1 configures with a tunnel."""
    result = set()
    for primitive in entry["initial-config-primitive"]:
        given = {p["name"]: p["value"] for p in primitive["parameter"]}
        if "underlay-interface" in given and given.get("technology") != "none":
            result.add(given["underlay-interface"])
    return result


def _secure(body: dict[str, Any], nics: set[str]) -> None:
    for cpd in (cpd for vdu in body["vdu"] for cpd in vdu["int-cpd"]):
        if {nic["name"] for nic in cpd["virtual-network-interface-requirement"]} <= nics:
            cpd.pop("port-security-enabled", None)


def nsd(descriptor: dict[str, Any], variant: Variant) -> dict[str, Any]:
    """Return the NSD of a variant: itself and every VNFD it names get the suffix."""
    changed = copy.deepcopy(descriptor)
    body = changed["nsd"]["nsd"][0]
    for key in ("id", "name"):
        body[key] += variant.suffix
    body["description"] += f", {variant.description}"
    body["vnfd-id"] = [name + variant.suffix for name in body["vnfd-id"]]
    for flavour in body["df"]:
        for profile in flavour["vnf-profile"]:
            profile["vnfd-id"] += variant.suffix
    return changed


def parameter_files(tree: Tree) -> dict[str, dict[str, Any]]:
    """Return every instantiation parameter file by name: written ones and variants, completed."""
    folder = tree.root / "params"
    written = {
        path.stem: _plain(documents.read(path))
        for path in sorted(folder.glob("*.yaml"))
        if path.name not in ("variants.yaml", "slices.yaml")
    }
    for name, document in core.parameter_files(tree).items():
        if name in written:
            raise BuildError(f"params/{name}.yaml: a core file makes it as well")
        written[name] = _plain(document)
    defaults = _defaults(tree)
    for name, document in written.items():
        _complete(document, f"params/{name}.yaml", defaults)
    files: dict[str, dict[str, Any]] = dict(written)
    for name, entry in documents.read(folder / "variants.yaml").items():
        if name in written:
            raise BuildError(f"params/variants.yaml: {name}: params/{name}.yaml exists as well")
        files[name] = _derive(str(name), entry, written)
    entries = {str(name): entry for name, entry in documents.read(folder / "slices.yaml").items()}
    for name in entries:
        if name in files:
            raise BuildError(f"params/slices.yaml: {name}: a service has parameters of that name")
    return files | slices.parameter_files(entries, dict(files), _templates(tree))


def _defaults(tree: Tree) -> dict[str, Any]:
    """Return the parameters that all links of a VNF share, with the defaults of `configure`."""
    declared = charms.declared_actions(tree, "common/actions.yaml")[CONFIGURE]["params"]
    found = {}
    for name in declared:
        if name in SHARED:
            default = declared[name]["default"]
            # An instantiation parameter is a text or a number.
            found[f"vpn_{name}".replace("-", "_")] = (
                str(default).lower() if isinstance(default, bool) else default
            )
    return found


def _complete(document: dict[str, Any], where: str, defaults: Mapping[str, Any]) -> None:
    """Add what a file leaves out: the defaults of `configure`, no 5QI, no rates.

    A member with links has the parameter `vpn_technology`.
    """
    checked(_Written, document, where)
    for member in document["additionalParamsForVnf"]:
        values = member["additionalParams"]
        if TECHNOLOGY in values:
            for key, default in defaults.items():
                values.setdefault(key, default)
        for key in [key for key in values if key.endswith("_inner_address")]:
            link = key.removesuffix("_inner_address")
            for word in slices.QOS:
                values.setdefault(f"{link}_{word}", 0)


def _templates(tree: Tree) -> dict[str, slices.Template]:
    """Return the values of each slice template, by its id."""
    result = {}
    for path in sorted(tree.root.glob("nst-packages/*/*_nst.yaml")):
        for template in documents.read(path).get("nst") or ():
            result[str(template["id"])] = slices.Template.of(template)
    return result


def _derive(name: str, entry: Any, written: dict[str, Any]) -> dict[str, Any]:
    where = f"params/variants.yaml: {name}"
    derived = checked(_Derived, entry, where)
    if derived.of not in written:
        raise BuildError(f"{where}: of: must be one of {', '.join(sorted(written))}")
    document: dict[str, Any] = _plain(written[derived.of])
    named = {
        m["member-vnf-index"]: m["additionalParams"] for m in document["additionalParamsForVnf"]
    }
    members = list(named.values())
    for key, value in derived.additional_params.items():
        # A member without links, such as a UE, does not have the parameters of links.
        having = [params for params in members if key in params]
        if not having:
            raise BuildError(f"{where}: additional-params: {derived.of} has no parameter {key}")
        for params in having:
            params[key] = value
    for name, given in derived.members.items():
        if name not in named:
            raise BuildError(f"{where}: members: {name} is none of {', '.join(sorted(named))}")
        for key, value in given.items():
            if key not in named[name]:
                raise BuildError(f"{where}: members: {name} has no parameter {key}")
            named[name][key] = value
    return document


def _plain(value: Any) -> Any:
    """Return a copy in which no part is shared, so that dumping it writes no YAML aliases."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def dump(document: Any, path: Path) -> None:
    """Write YAML in the style of all files of dist/."""
    path.write_text(documents.dump(document), encoding="utf-8")
