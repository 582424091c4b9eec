"""A release: what is in it, what its checksums cover, and what its wheel gives when installed."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from builder import packages, release, versions
from builder.cli import main
from builder.tree import Tree

pytestmark = pytest.mark.long  # pip makes a wheel

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["vpn_basic_ns", "vpn_basic_nst"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Make a release of packages without charms; return its folder and its wheel."""
    target = tmp_path_factory.mktemp("release")
    (target / "params").mkdir()
    for name in ("stale_ns.tar.gz", "params/stale.yaml"):
        (target / name).write_bytes(b"of another day")
    done = CliRunner().invoke(main, ["build", *NAMES, "--release", "--out", str(target)])
    assert done.exit_code == 0, done.output
    [wheel] = target.glob("*.whl")
    return target, wheel


def test_checksums_cover_the_release_and_nothing_else(made: tuple[Path, Path], tree: Tree) -> None:
    target, wheel = made
    done = subprocess.run(
        ["sha256sum", "--check", "--quiet", release.SUMS], cwd=target, check=False
    )
    assert done.returncode == 0
    listed = {
        line.split(maxsplit=1)[1]: line.split()[0]
        for line in (target / release.SUMS).read_text().splitlines()
    }
    params = {f"params/{path.name}" for path in (target / "params").glob("*.yaml")}
    params.remove("params/stale.yaml")
    own = {f"{name}.tar.gz" for name in NAMES} | {wheel.name, "VERSION", "sbom.cdx.json"}
    assert set(listed) == params | own
    assert listed[wheel.name] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert (target / "VERSION").read_text() == f"{tree.version}\n"
    bom = json.loads((target / "sbom.cdx.json").read_text())
    assert bom["metadata"]["component"]["version"] == tree.version
    assert wheel.name == f"osm_vpnaas-{tree.version}-py3-none-any.whl"


def clone(source: Path, folder: Path) -> Path:
    """Return a clone that runs in this environment, with its own code."""
    subprocess.run(["git", "clone", "--quiet", source, folder], check=True)
    (folder / ".venv").symlink_to(Path(sys.prefix))
    (folder / ".cache").symlink_to(ROOT / ".cache")
    return folder


def run_in(folder: Path, *argv: str, umask: int = -1) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        argv, cwd=folder, env=environment, capture_output=True, text=True, check=False, umask=umask
    )


COMMIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "--quiet", "--all")


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a clone of the repository")
def test_two_clones_make_the_same_release(tmp_path: Path) -> None:
    first = clone(ROOT, tmp_path / "first")
    changelog = first / "CHANGELOG.md"
    head = f"{versions.OPEN}\n"
    entry = f"{head}\n### Fixed\n\n- What this test needs.\n"
    changelog.write_text(changelog.read_text().replace(head, entry, 1))
    refused = run_in(first, "./run", "release", "99.1.0")
    assert refused.returncode == 1
    assert "commit or remove first: CHANGELOG.md" in refused.stderr
    assert run_in(first, *COMMIT, "--message", "docs: add an entry").returncode == 0
    made = run_in(first, "./run", "release", "99.1.0", *NAMES)
    assert made.returncode == 0, made.stderr
    assert "git tag v99.1.0" in made.stderr
    assert f"## Unreleased\n\n## 99.1.0 - {datetime.now(UTC).date()}\n" in changelog.read_text()
    assert run_in(first, *COMMIT, "--message", "release: version 99.1.0").returncode == 0
    second = clone(first, tmp_path / "second")
    again = run_in(second, "./run", "release", *NAMES, umask=0o077)
    assert again.returncode == 0, again.stderr
    assert "git tag" not in again.stderr
    sums = [(folder / "dist" / release.SUMS).read_text() for folder in (first, second)]
    assert sums[0] == sums[1]
    assert "osm_vpnaas-99.1.0-py3-none-any.whl" in sums[0]


def test_installed_wheel(made: tuple[Path, Path], tree: Tree, tmp_path: Path) -> None:
    target, wheel = made
    place = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    subprocess.run([*pip, "--target", place, wheel], check=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for pattern in project["tool"]["setuptools"]["packages"]["find"]["include"]:
        assert (place / pattern.removesuffix("*")).is_dir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def run(module: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", f"from {module}.cli import main; main()", *words],
            cwd=elsewhere,
            env={**os.environ, "PYTHONPATH": str(place), "XDG_CACHE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )

    folder = Path(run("builder", "where").stdout.strip())
    assert folder == tmp_path / "osm-vpnaas" / f"packages-{tree.version}"
    for name in NAMES:
        packed = (folder / f"{name}.tar.gz").read_bytes()
        assert packed == (target / f"{name}.tar.gz").read_bytes()
    assert (folder / "params" / "vpn_basic.yaml").is_file()
    assert len(run("builder", "list").stdout.splitlines()) == len(packages.catalogue(tree))
    # The sources are there, too: the same package comes of them.
    built = run("builder", "build", "vpn_basic_ns")
    assert built.returncode == 0, built.stderr
    again = elsewhere / "dist" / "vpn_basic_ns.tar.gz"
    assert again.read_bytes() == (target / "vpn_basic_ns.tar.gz").read_bytes()
    with tarfile.open(again) as archive:
        assert "vpn_basic_ns/vpn_basic_nsd.yaml" in archive.getnames()
    assert "acceptance" in run("operate", "--help").stdout
    refused = run("builder", "build", "--release")
    assert (refused.returncode, refused.stderr) == (1, "Error: --release: only in the repository\n")
