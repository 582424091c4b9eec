"""Every folder of a package or charm says what it is and what OSM sees."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from builder import packages, pages
from builder.parameters import variants
from builder.tree import Tree

ROOT = Path(__file__).resolve().parents[2]
TREE = Tree(ROOT)
PACKAGES = sorted(path.parent for path in ROOT.glob("*-packages/*/*.yaml"))
CHARMS = [ROOT / "charms" / name for name in TREE.charms()]
CODE = re.compile(r"`([^`]+)`")


def name_of(folder: Path) -> str:
    return str(folder.relative_to(ROOT))


def text_of(folder: Path) -> str:
    return (folder / "README.md").read_text(encoding="utf-8")


@cache
def built() -> dict[str, packages.Package]:
    return packages.catalogue(TREE)


@cache
def files() -> dict[str, Any]:
    made: dict[str, Any] = variants.parameter_files(TREE)
    return made | packages.deployments(TREE, built(), made)


@pytest.mark.parametrize("folder", [*PACKAGES, *CHARMS], ids=name_of)
def test_a_folder_has_a_short_readme_that_names_its_product_file(folder: Path) -> None:
    text = text_of(folder)
    assert text.startswith(f"# {folder.name}\n")
    assert len(text.splitlines()) <= 16
    (product,) = folder.glob("charm.yaml") if folder in CHARMS else folder.glob("*_*.yaml")
    assert f"`{product.name}`" in text
    assert "- Source: " in text
    assert "- OSM sees: " in text or folder.parent.name == "nst-packages"
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert (folder / target).exists(), target


@pytest.mark.parametrize("folder", PACKAGES, ids=name_of)
def test_the_readme_of_a_package_names_what_is_in_it(folder: Path) -> None:
    text, package = text_of(folder), built()[folder.name]
    named = set(CODE.findall(text))
    if package.kind == "vnf":
        flavour = package.descriptor["vnfd"]["df"][0]
        operations = flavour["lcm-operations-configuration"]["operate-vnf-op-config"]
        (entry,) = operations["day1-2"]
        assert {p["name"] for p in entry["initial-config-primitive"]} == {
            word for word in named if word == "config" or word.startswith("configure")
        }
        charm = entry["execution-environment-list"][0]["juju"]["charm"]
        assert f"charms/{charm}/README.md" in text
        users = {
            name
            for name, other in built().items()
            if other.kind == "ns" and folder.name in other.descriptor["nsd"]["nsd"][0]["vnfd-id"]
        }
        assert set(CODE.findall(text.partition("- Used by: ")[2])) == users
    elif package.kind == "nst":
        subnets = package.descriptor["nst"][0]["netslice-subnet"]
        assert {subnet["nsd-ref"] for subnet in subnets} <= named
    own = {word for word in named if word.endswith(".yaml")} - {package.file}
    others = {path.name for path in (ROOT / "cloud-init").glob("*.yaml")}
    given = {Path(word).name.removesuffix(".yaml") for word in own} - {
        Path(other).stem for other in others
    }
    assert given <= set(files())
    assert given or package.kind == "vnf"


@pytest.mark.parametrize("folder", CHARMS, ids=name_of)
def test_the_readme_of_a_charm_names_its_actions_and_users(folder: Path) -> None:
    text = text_of(folder)
    own = folder / "actions.yaml"
    actions = yaml.safe_load(own.read_text(encoding="utf-8")) if own.is_file() else {}
    if "pdu-sessions: true" in (folder / "charm.yaml").read_text(encoding="utf-8"):
        sessions = ROOT / "charms/common/session-actions.yaml"
        actions |= yaml.safe_load(sessions.read_text(encoding="utf-8"))
    sources = {path.name for path in folder.iterdir() if path.is_file()} - {"README.md"}
    assert [name for name in sources if f"`{name}`" not in text] == []
    shared = {"measure-throughput", "measure-latency", "serve-throughput"}
    assert [name for name in set(actions) - shared if f"`{name}`" not in text] == []
    users = set(re.findall(r"vnf-packages/(\w+)/README", text))
    found = {
        path.parent.name
        for path in ROOT.glob("vnf-packages/*/*_vnfd.yaml")
        if f"juju: {{charm: {folder.name}," in path.read_text(encoding="utf-8")
    }
    assert users == found


@pytest.mark.slow
def test_the_costs_of_readme_and_demo_are_those_of_the_recorded_campaign() -> None:
    from experiments.__main__ import ONE_MACHINE

    page = (ROOT / "docs/reference/results.md").read_text(encoding="utf-8")
    results = pages.on_page_markdown(page)
    sites = re.search(r"^\| two sites \| ([0-9.]+) .*? \| ([0-9.]+) ", results, re.M)
    alone = re.search(r"^\| eMBB alone \| ([0-9.]+) .*? \| ([0-9.]+) ", results, re.M)
    assert sites and alone
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"throughput {sites[1]} of that without a VPN" in readme
    assert f"round trip {sites[2]} times" in readme
    assert f"throughput {alone[1]} (" in readme
    assert f"round trip {float(alone[2]):.1f} times" in readme
    assert f"{sites[1]} of the throughput and {sites[2]} of the round trip" in ONE_MACHINE
