"""Packages as OSM is given them, built once for all workers of a run."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from builder import packages
from builder.tree import Tree


def built(factory: pytest.TempPathFactory, names: Iterable[str] = ()) -> Path:
    """Return a folder with these packages, all where none is named. Nobody writes to it."""
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    target = root / "dist"
    (target / "params").mkdir(parents=True, exist_ok=True)
    tree = Tree.find(Path(__file__).resolve().parent)
    with (root / "dist.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        requested = list(names) or list(packages.catalogue(tree))
        missing = [name for name in requested if not (target / f"{name}.tar.gz").exists()]
        if missing:
            with tempfile.TemporaryDirectory(dir=root) as scratch:
                packages.build(tree, Path(scratch), missing)
                # Others may be reading: each file is there whole, or not yet.
                for path in (*Path(scratch).glob("*.tar.gz"), *Path(scratch).glob("params/*")):
                    path.replace(target / path.relative_to(scratch))
    return target
