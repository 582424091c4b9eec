"""Assembled charms under the interpreters and the ops releases they have to work with."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from barejuju import PYTHONS, charm_pythons
from flavours import Flavour
from support.dist import assembled
from support.pip import fetched

from builder import charms
from builder.tree import Tree
from lab.vca.python import choose_python

CHARMS = ("hss", "mme", "spgwc")
#: Modules that start many charms: OSM's ops in each run, the current one in long runs.
MANY = ("test_charm_events.py", "test_charm_vdu.py", "test_dispatch.py")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what the current ops repeats in these modules as long."""
    for item in items:
        if item.path.name in MANY and "ops-current" in item.name:
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def vendored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return assembled(tmp_path_factory, CHARMS)


@pytest.fixture(scope="session")
def with_current_ops(vendored: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the same charms with the current ops in place of the vendored one."""
    cache = Tree.find(Path(__file__).resolve().parent).cache
    target = fetched(cache, "ops-current", "ops>=2.17")
    base = tmp_path_factory.mktemp("current")
    for name in CHARMS:
        shutil.copytree(vendored / name, base / name, symlinks=True)
        venv = base / name / "venv"
        for old in ("ops", "yaml", "_yaml"):
            shutil.rmtree(venv / old, ignore_errors=True)
        shutil.copytree(target, venv, dirs_exist_ok=True)
    return base


@pytest.fixture(scope="session", params=["ops-1.5.5", "ops-current"])
def flavour(request: pytest.FixtureRequest) -> Flavour:
    """The charms as vendored, on Python 3.6 where there is one, and with the current ops."""
    if request.param == "ops-current":
        folder = request.getfixturevalue("with_current_ops")
        return Flavour("ops-current", folder, Path(sys.executable))
    folder = request.getfixturevalue("vendored")
    return Flavour("ops-1.5.5", folder, choose_python().path)


@pytest.fixture(scope="session")
def for_jammy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = replace(Tree.find(Path(__file__).resolve().parent), base="jammy")
    base = tmp_path_factory.mktemp("jammy")
    charms.assemble(tree, "hss", base / "hss")
    return base


@pytest.fixture(
    scope="session",
    params=[f"{base}-{version}" for base, versions in PYTHONS.items() for version in versions],
)
def vendored_on(request: pytest.FixtureRequest) -> Flavour:
    """The charms as vendored, on each Python they carry files for."""
    base, _, version = request.param.partition("-")
    python = charm_pythons().get(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine")
    folder = request.getfixturevalue("vendored" if base == "bionic" else "for_jammy")
    return Flavour(request.param, folder, python)
