"""Assembled charms, run by their dispatch under the lab's Juju, without any VDU."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder import charms
from builder.tree import Tree
from lab.vca import Controller, Model, Settings

WAIT = 90.0
QUICK = Settings(retry_start=0.05, retry_max=0.4, lock_timeout=10, stop_timeout=20)


@pytest.fixture(scope="session", params=["ops-1.5.5", "ops-current"])
def folders(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of charm folders, as vendored or with the current ops in front.

    With ops 1.5.5 the charm runs on the lab's choice of Python, which is 3.6 where there is one.
    """
    tree = Tree.find()
    base = tmp_path_factory.mktemp(request.param)
    for name in ("hss", "mme"):
        charms.assemble(tree, name, base / name)
    if request.param == "ops-current":
        target = tree.cache / "ops-current"
        if not (target / "ops").is_dir():
            words = ["install", "--quiet", "--no-compile", "--target", str(target), "ops>=2"]
            done = subprocess.run(
                [sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False
            )
            if done.returncode:
                pytest.skip(f"the current ops cannot be had: {done.stderr.strip()[-200:]}")
        for charm in ("hss", "mme"):
            venv = base / charm / "venv"
            # PyYAML's vendored files are for other Pythons' C parser; ops wants its own.
            for old in (venv / "ops", venv / "yaml", venv / "_yaml"):
                shutil.rmtree(old, ignore_errors=True)
            shutil.copytree(target, venv, dirs_exist_ok=True)
    return base


@pytest.fixture
def model(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Model]:
    """Return a running model."""
    if folders.name.startswith("ops-current"):
        monkeypatch.setenv("OSMLAB_CHARM_PYTHON", sys.executable)
    running = Controller(tmp_path / "lab", settings=QUICK).add_model("charm-tests")
    with running:
        yield running


@pytest.fixture
def related(model: Model, folders: Path) -> Model:
    """Return a model with an HSS and an MME, related, before OSM has configured anything."""
    model.deploy("hss", folders / "hss")
    model.deploy("mme", folders / "mme")
    model.add_relation("hss:s6a", "mme:s6a")
    model.wait_idle(WAIT)
    return model
