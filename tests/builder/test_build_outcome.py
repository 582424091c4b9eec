"""What stands in dist/: archives with their content beside them, a version, a bill of materials."""

from __future__ import annotations

import filecmp
import hashlib
import json
import tarfile
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from builder import vendor
from builder.cli import main
from builder.tree import Tree

pytestmark = pytest.mark.slow

NAMES = ("vpn_endpoint_vnf", "vpn_basic_ns", "vpn_basic_nst")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what two builds leave, the second over the first."""
    target = tmp_path_factory.mktemp("out") / "dist"
    for _ in range(2):
        result = CliRunner().invoke(main, ["build", "--out", str(target), *NAMES])
        assert result.exit_code == 0, result.output
        # Of an older build: the next one takes it away.
        (target / "vpn_basic_ns/stale").touch()
    result = CliRunner().invoke(main, ["build", "--out", str(target), "vpn_basic_ns"])
    assert result.exit_code == 0, result.output
    return target


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_beside_each_archive_has_the_same_content(
    out: Path, tmp_path: Path, name: str
) -> None:
    with tarfile.open(out / f"{name}.tar.gz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4 on
        archive.extractall(tmp_path)  # noqa: S202 - made by ourselves
    files = {p.relative_to(tmp_path / name) for p in (tmp_path / name).rglob("*") if p.is_file()}
    assert files == {p.relative_to(out / name) for p in (out / name).rglob("*") if p.is_file()}
    same, *other = filecmp.cmpfiles(tmp_path / name, out / name, files, shallow=False)
    assert (len(same), other) == (len(files), [[], []])
    # It is a package as it stands.
    done = CliRunner().invoke(main, ["validate", *(str(out / each) for each in NAMES)])
    assert done.exit_code == 0, done.output


def test_services_and_charms_carry_the_version_of_the_project(out: Path, tree: Tree) -> None:
    vnf = out / "vpn_endpoint_vnf"
    nsd = yaml.safe_load((out / "vpn_basic_ns/vpn_basic_nsd.yaml").read_text(encoding="utf-8"))
    assert nsd["nsd"]["nsd"][0]["version"] == tree.version
    assert (vnf / "charms/vpn-endpoint/version").read_text(encoding="ascii").strip() == tree.version


@pytest.mark.parametrize("architecture", vendor.ARCHITECTURES)
def test_the_bill_of_materials_lists_the_wheels_that_are_vendored(
    tree: Tree, tmp_path: Path, architecture: str
) -> None:
    from builder import sbom

    vendor.vendored(tree, architecture)
    path = tmp_path / "sbom.cdx.json"
    sbom.write(tree, path, architecture)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
    assert document["metadata"]["component"]["version"] == tree.version
    listed = {c["hashes"][0]["content"]: (c["name"], c["version"]) for c in document["components"]}
    wheels = (tree.cache / "wheels" / architecture).glob("*.whl")
    files = {hashlib.sha256(w.read_bytes()).hexdigest(): w.name for w in wheels}
    assert set(listed) <= set(files)
    for digest, (name, version) in listed.items():
        assert files[digest].lower().startswith(f"{name}-{version}-".lower().replace("_", "-"))
    pins = (tree.common / "requirements.txt").read_text(encoding="utf-8")
    assert {name for name, _ in listed.values()} == {
        line.partition("==")[0] for line in pins.splitlines() if "==" in line
    }
    assert len(listed) == len(document["dependencies"]) - 1
    sbom.write(tree, tmp_path / "again", architecture)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_a_build_has_its_bill_of_materials(out: Path) -> None:
    document = json.loads((out / "sbom.cdx.json").read_text(encoding="utf-8"))
    assert "paramiko" in {component["name"] for component in document["components"]}
