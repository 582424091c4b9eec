"""The benchmark of many cells: its descriptors and parameters are of the form that OSM takes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks import instances
from builder import archive, packages
from builder.parameters import variants
from builder.tree import Tree

TREE = Tree.find(Path(__file__).parent)


def shipped() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the NSD and the parameters of the service as built."""
    nsd = packages.catalogue(TREE)[instances.SERVICE].descriptor
    return dict(nsd), dict(variants.parameter_files(TREE)[instances.PARAMETERS])


@pytest.mark.parametrize("count", [1, 2, 16])
def test_each_cell_has_its_relations_and_addresses(count: int) -> None:
    nsd, params = shipped()
    (body,) = instances.descriptor(nsd, count)["nsd"]["nsd"]
    cells = [f"cell{number}" for number in range(1, count + 1)]
    assert [p["id"] for p in body["df"][0]["vnf-profile"]] == ["gateway", "core", *cells]
    result = {r["requirer"]["vnf-profile-id"] for r in body["ns-configuration"]["relation"]}
    assert result == {"gateway", *cells}
    assert len(body["ns-configuration"]["relation"]) == 1 + 2 * count
    made = instances.parameters(params, count)
    members = {m["member-vnf-index"]: m["additionalParams"] for m in made["additionalParamsForVnf"]}
    for link in instances.LINKS:
        assert len({members[cell][f"{link}_inner_address"] for cell in cells}) == count
    assert members[cells[-1]]["s1c_inner_address"] == f"10.41.0.{10 + count}/24"
    outer = {p["member-vnf-index-ref"]: p["ip-address"]
             for network in made["vld"] for p in network["vnfd-connection-point-ref"]
             if p["vnfd-connection-point-ref"] == "backhaul-ext"}  # fmt: skip
    assert outer == {cell: f"192.168.120.{10 + n}" for n, cell in enumerate(cells, 1)}


def test_a_package_is_as_the_build_makes_it(tmp_path: Path) -> None:
    dist, folder = tmp_path / "dist", tmp_path / "cells"
    packages.build(TREE, dist, [instances.SERVICE])
    folder.mkdir()
    shutil.unpack_archive(instances.package(dist, folder, 3), tmp_path / "unpacked")
    (top,) = (tmp_path / "unpacked").iterdir()
    assert top.name == "cells3_ns"
    assert (top / "checksums.txt").read_text(encoding="utf-8") == archive.checksums(top)
    (file,) = top.glob("*.yaml")
    assert yaml.safe_load(file.read_text(encoding="utf-8"))["nsd"]["nsd"][0]["id"] == "cells3_ns"


def test_a_curve_that_grows_faster_than_its_cells_is_told() -> None:
    rows = [{"cells": 1, "bringup-s": 10.0, "processor-s": 20.0,
             "rotations-processor-s": 2.0},
            {"cells": 4, "bringup-s": 39.0, "processor-s": 90.0,
             "rotations-processor-s": 8.0}]  # fmt: skip
    assert [goal.met for goal in instances.judge(rows)] == [True, False, True]
