"""Every service of the build with each of its parameter files, as plans of networks and servers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from builder import documents, packages
from builder.parameters import variants
from builder.tree import Tree
from lab.descriptors import topology

TREE = Tree(Path(__file__).resolve().parents[2])


@cache
def catalogue() -> dict[str, packages.Package]:
    """Return every package of the build by name. Nobody changes it."""
    return packages.catalogue(TREE)


def bodies(kind: str) -> dict[str, dict[str, Any]]:
    """Return the descriptors of a kind by id, expanded."""
    return {name: each.body for name, each in catalogue().items() if each.kind == kind}


@cache
def files() -> dict[str, dict[str, Any]]:
    """Return the parameter files by name. Nobody changes them."""
    return variants.parameter_files(TREE)


def services() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield name of the service, name of the parameter file, and parameters."""
    for file, document in files().items():
        parts = document.get("netslice-subnet")
        for part in parts if parts is not None else [document]:
            members = {e["member-vnf-index"] for e in part.get("additionalParamsForVnf", ())}
            for name, nsd in bodies("ns").items():
                if members == {p["id"] for p in nsd["df"][0]["vnf-profile"]}:
                    yield name, file, part


def distinct() -> list[tuple[str, str, topology.Plan]]:
    """Return service, parameter file and plan of each plan that is like none before it."""
    found: dict[str, tuple[str, str, topology.Plan]] = {}
    for service, file, params in services():
        made = plan(service, params)
        found.setdefault(repr((service, made)), (service, file, made))
    return list(found.values())


def slices() -> dict[str, tuple[str, int]]:
    """Return the template and the number of VNFs of each parameter file of a slice."""
    return {
        name: (
            slice_["nst"],
            sum(len(part["additionalParamsForVnf"]) for part in files()[name]["netslice-subnet"]),
        )
        for name, slice_ in documents.read(TREE.root / "params/slices.yaml").items()
    }


def distinct_slices() -> dict[str, tuple[str, int]]:
    """Return the slices with services that are like those of none before it."""
    asked: dict[str, list[Any]] = defaultdict(list)
    for service, file, params in services():
        asked[file].append((service, plan(service, params)))
    found: dict[str, tuple[str, tuple[str, int]]] = {}
    for file, slice_ in slices().items():
        found.setdefault(repr(asked[file]), (file, slice_))
    return dict(found.values())


def plan(name: str, params: dict[str, Any]) -> topology.Plan:
    """Return the networks and servers of a service."""
    nsd = bodies("ns")[name]
    vnfds = {p["id"]: bodies("vnf")[p["vnfd-id"]] for p in nsd["df"][0]["vnf-profile"]}
    return topology.plan("x", nsd, vnfds, {**params, "vimAccountId": "vim"}, {})
