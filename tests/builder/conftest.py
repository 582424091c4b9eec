"""A built dist/ of all packages, and a copy of the sources that a test may break."""

import shutil
from pathlib import Path

import pytest
from support import dist as shared

from builder.documents import read
from builder.tree import Tree

SOURCES = (
    "charms",
    "cloud-init",
    "experiments/vdu",
    "ns-packages",
    "nst-packages",
    "params",
    "vnf-packages",
    "LICENSE",
    "pyproject.toml",
)


@pytest.fixture(scope="session")
def tree():
    return Tree.find(Path(__file__).resolve().parent)


@pytest.fixture(scope="session")
def dist(tmp_path_factory):
    return shared.built(tmp_path_factory)


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory):
    return shared.unpacked(tmp_path_factory)


@pytest.fixture(scope="session")
def documents(unpacked):
    return {name: read(next(folder.glob("*.yaml"))) for name, folder in unpacked.items()}


@pytest.fixture
def sources(tree, tmp_path):
    for name in SOURCES:
        source = tree.root / name
        if source.is_dir():
            ignore = shutil.ignore_patterns("__pycache__", ".*")
            shutil.copytree(source, tmp_path / name, ignore=ignore)
        else:
            shutil.copyfile(source, tmp_path / name)
    return Tree(tmp_path)
