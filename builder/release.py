"""A release: packages, parameter files, bill of materials, version, wheel, and checksums."""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from builder import archive, shared
from builder.programs import output
from builder.tree import RELEASED, SOURCES, Tree

SUMS = "SHA256SUMS"
VERSION = "VERSION"
#: Python packages and the files that pip reads, copied unchanged from the source tree.
_PROJECT = (
    *("pyproject.toml", "README.md", "LICENSE", "benchmarks", "builder", "experiments", "lab"),
    *("operate", "simulators", "testbed"),
)
_UMASK = 0o022
_IGNORED = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.pyc", ".*_cache")


def write(tree: Tree, target: Path, built: Iterable[Path]) -> Path:
    """Complete the build in ``target`` to a release of what was ``built``; return the wheel.

    Other archives and parameter files there do not belong to it.
    """
    (target / VERSION).write_text(f"{tree.version}\n", encoding="ascii")
    parts = [*sorted(built), target / "sbom.cdx.json"]
    with tempfile.TemporaryDirectory(dir=target, prefix=".release-") as scratch:
        made = _wheel(tree, target, parts, Path(scratch))
        wheel = made.replace(target / made.name)
    listed = [*parts, target / VERSION, wheel]
    lines = [f"{_digest(path)}  {path.relative_to(target)}\n" for path in sorted(listed)]
    (target / SUMS).write_text("".join(lines), encoding="ascii")
    return wheel


def install(tree: Tree) -> None:
    """Make the packages of an installed wheel in the user's cache, those that are not there."""
    shutil.copytree(RELEASED / "packages", tree.packages, dirs_exist_ok=True)
    shared.restore(RELEASED / "files", tree.packages)


def _wheel(tree: Tree, target: Path, parts: Sequence[Path], scratch: Path) -> Path:
    """Return a wheel of the project with ``parts`` and the sources of the packages in it."""
    project = scratch / "project"
    project.mkdir()
    for name in (*_PROJECT, "charms/lib"):
        _copy(tree.root / name, project / name)
    for name in SOURCES:
        _copy(tree.root / name, project / "builder/released/sources" / name)
    archives = [path for path in parts if path.name.endswith(".tar.gz")]
    shared.store(archives, project / "builder/released/files")
    for path in set(parts) - set(archives):
        _copy(path, project / "builder/released/packages" / path.relative_to(target))
    for path in project.rglob("*"):  # The wheel has their modes.
        runs = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod((0o777 if runs else 0o666) & ~_UMASK)
    argv = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    argv += ["--no-deps", "--wheel-dir", str(scratch / "wheel"), str(project)]
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(archive.TIMESTAMP)}
    output(argv, "pip makes no wheel", env=env, umask=_UMASK)
    [wheel] = (scratch / "wheel").glob("*.whl")
    return wheel


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=_IGNORED)
    else:
        shutil.copy(source, target)


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
