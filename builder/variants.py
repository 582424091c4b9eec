"""Packages and parameter files that are another one with a few values changed."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonpatch
import yaml

from builder.errors import BuildError
from builder.tree import Tree


@dataclass(frozen=True)
class Variant:
    """One entry of ns-packages/variants.yaml."""

    suffix: str
    services: tuple[str, ...]
    description: str
    compute_factor: int = 1


def load(tree: Tree) -> list[Variant]:
    """Read the variants of services."""
    document = yaml.safe_load((tree.root / "ns-packages/variants.yaml").read_text())
    return [
        Variant(v["suffix"], tuple(v["of"]), v["description"], int(v["compute-factor"]))
        for v in document["variants"]
    ]


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
    for flavour in body["df"]:
        operations = flavour.get("lcm-operations-configuration", {})
        for entry in operations.get("operate-vnf-op-config", {}).get("day1-2", ()):
            if entry["id"] == before:
                entry["id"] += variant.suffix
    return changed


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
    """Return every instantiation parameter file, written or derived, complete, by name."""
    folder = tree.root / "params"
    written = {
        path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("*.yaml"))
        if path.name != "variants.yaml"
    }
    files: dict[str, dict[str, Any]] = {name: _plain(item) for name, item in written.items()}
    derived = yaml.safe_load((folder / "variants.yaml").read_text(encoding="utf-8"))
    for name, entry in derived.items():
        files[name] = _derive(name, entry, written)
    return files


def _derive(name: str, entry: dict[str, Any], written: dict[str, Any]) -> dict[str, Any]:
    where = f"params/variants.yaml: {name}"
    if entry.get("of") not in written:
        raise BuildError(f"{where}: `of` must be one of {', '.join(sorted(written))}")
    document = _plain(written[entry["of"]])
    for member in document["additionalParamsForVnf"]:
        for key, value in entry.get("additional-params", {}).items():
            if key not in member["additionalParams"]:
                raise BuildError(f"{where}: {entry['of']} has no parameter {key}")
            member["additionalParams"][key] = value
    try:
        patched: dict[str, Any] = jsonpatch.apply_patch(document, entry.get("patch", []))
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        raise BuildError(f"{where}: {error}") from None
    return patched


def _plain(value: Any) -> Any:
    """Return a copy in which no part is shared, so that dumping it writes no YAML aliases."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def dump(document: Any, path: Path) -> None:
    """Write YAML as all files of dist/ have it."""
    text = yaml.safe_dump(document, sort_keys=False, width=100, allow_unicode=True)
    path.write_text(text, encoding="utf-8")
