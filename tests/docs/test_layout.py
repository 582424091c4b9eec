"""The tree: what is imported does not depend on the order of paths, and the checks stand once."""

from __future__ import annotations

import configparser
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PATHS = [ROOT / path for path in SETTINGS["tool"]["pytest"]["ini_options"]["pythonpath"]]


def importable(folder: Path) -> set[str]:
    """Return the names of modules and packages in a folder; a package has `__init__.py`."""
    return {path.stem for path in folder.glob("*.py")} | {
        path.parent.name for path in folder.glob("*/__init__.py")
    }


def test_no_two_paths_have_a_package_of_the_same_name() -> None:
    seen: dict[str, Path] = {}
    for folder in PATHS:
        names = importable(folder)
        assert names
        assert [f"{name} in {folder} and {seen[name]}" for name in names & set(seen)] == []
        seen |= dict.fromkeys(names, folder)


def test_every_package_is_typed_and_installed() -> None:
    packages = {name for folder in PATHS[:2] for name in importable(folder)}
    assert "tests" in {path.name for path in PATHS[2:]}
    assert set(SETTINGS["tool"]["mypy"]["packages"]) == packages
    included = SETTINGS["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {name.rstrip("*") for name in included} == packages


def test_tox_runs_what_run_runs() -> None:
    tox = configparser.ConfigParser()
    tox.read(ROOT / "tox.ini")
    assert tox["testenv:static"]["commands"] == "sh tests/static"
    # No folder is named, so none is left out.
    assert tox["testenv:tests"]["commands"] == "pytest {posargs}"
    run = "".join(
        path.read_text(encoding="utf-8") for path in [ROOT / "run", *ROOT.glob("tools/*.sh")]
    )
    assert "sh tests/static" in run
    assert not [tool for tool in ("ruff", "mypy", "vermin") if f"{tool}" in run]


def test_every_folder_of_tests_is_in_contributing() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    _, table = text.split("| Folder of `tests/` |")
    rows = [line.split("|")[1] for line in table.split("\n\n")[0].splitlines()[2:]]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    folders = {path.parent.parent.name for path in ROOT.glob("tests/*/*/test_*.py")}
    folders |= {path.parent.name for path in ROOT.glob("tests/*/test_*.py")}
    tests = {path.name for path in (ROOT / "tests").iterdir()}
    assert named == folders & tests
