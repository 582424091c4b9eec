"""Packages as OSM is given them, and charms, built once for all workers of a run."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from builder import charms, packages
from builder.tree import Tree


@contextmanager
def _shared(factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder that all workers share; one worker at a time may write there."""
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    with (root / "dist.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield root


def built(factory: pytest.TempPathFactory, names: Iterable[str] = ()) -> Path:
    """Return a folder with these packages, all where none is named. Nobody writes to it."""
    tree = Tree.find(Path(__file__).resolve().parent)
    requested = list(dict.fromkeys(names)) or list(packages.catalogue(tree))
    with _shared(factory) as root:
        target = root / "dist"
        (target / "params").mkdir(parents=True, exist_ok=True)
        missing = [name for name in requested if not (target / f"{name}.tar.gz").exists()]
        if missing:
            with tempfile.TemporaryDirectory(dir=root) as scratch:
                packages.build(tree, Path(scratch), missing)
                (root / "unpacked").mkdir(exist_ok=True)
                for name in missing:
                    Path(scratch, name).replace(root / "unpacked" / name)
                # Others may be reading: each file is there whole, or not yet.
                for path in (*Path(scratch).glob("*.tar.gz"), *Path(scratch).glob("params/*")):
                    path.replace(target / path.relative_to(scratch))
    return target


def assembled(factory: pytest.TempPathFactory, names: Iterable[str]) -> Path:
    """Return a folder with these charms. All who ask name the same, and nobody writes there."""
    tree = Tree.find(Path(__file__).resolve().parent)
    with _shared(factory) as root:
        target = root / "charms"
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=root) as scratch:
                for name in names:
                    charms.assemble(tree, name, Path(scratch, "charms", name))
                Path(scratch, "charms").replace(target)
    return target


def unpacked(factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the folder of every package, by name. Nobody writes to them."""
    target = built(factory).parent / "unpacked"
    return {path.name: path for path in sorted(target.iterdir())}
