"""`add-link` extends a vendor's package: nothing of it is lost, and OSM takes the result."""

from __future__ import annotations

import copy
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from support.vendor import vendors

from builder import archive, links, packages
from builder.cli import main
from builder.errors import BuildError
from builder.links import Link
from builder.tree import Tree
from builder.validate import Catalog, read, validate

pytestmark = pytest.mark.slow

TREE = Tree.find()


def entry_of(folder: Path) -> dict[str, Any]:
    body = read(folder).document["vnfd"]
    entries = body["df"][0]["lcm-operations-configuration"]["operate-vnf-op-config"]["day1-2"]
    found: dict[str, Any] = next(entry for entry in entries if entry["id"] == "acme_vnf")
    return found


@pytest.mark.parametrize("form", ["folder", "tar.gz"])
def test_a_charm_beside_the_vendors_own(tmp_path: Path, form: str) -> None:
    source = vendors(tmp_path / "acme_vnf")
    if form == "tar.gz":
        archive.write(source, tmp_path / "acme_vnf.tar.gz")
        source = tmp_path / "acme_vnf.tar.gz"
    result = links.add(TREE, source, [Link("n6", "provider", "ens4")], tmp_path / "out")
    assert result.problems == []
    entry = entry_of(result.folder)
    environments = [(e["id"], e["juju"]["charm"]) for e in entry["execution-environment-list"]]
    assert environments == [("mycharm-ee", "acme"), ("vpn-ee", "vpn-links")]
    steps = [
        (p["seq"], p["name"], p["execution-environment-ref"])
        for p in entry["initial-config-primitive"]
    ]
    assert steps == [
        (3, "touch", "mycharm-ee"),
        (4, "config", "vpn-ee"),
        (5, "configure", "vpn-ee"),
    ]
    day_2 = {p["name"]: p["execution-environment-ref"] for p in entry["config-primitive"]}
    assert (day_2["run"], day_2["vpn-run"], day_2["show-status"]) == (
        "mycharm-ee", "vpn-ee", "vpn-ee",
    )  # fmt: skip
    assert entry["config-access"]["ssh-access"] == {"required": True, "default-user": "ubuntu"}
    metadata = yaml.safe_load((result.folder / "charms/vpn-links/metadata.yaml").read_text())
    assert metadata["provides"] == {"n6": {"interface": "vpnaas-link"}}
    assert (result.folder / "charms/acme/hooks/start").readlink() == Path("install")
    assert (result.folder / "charms/acme/hooks/install").stat().st_mode & 0o111
    with tarfile.open(result.path) as packed:
        assert "acme_vnf/charms/vpn-links/dispatch" in packed.getnames()
    assert any("wireguard-tools, nftables" in note for note in result.notes)


@pytest.mark.parametrize("configured", [True, False])
def test_a_package_without_a_charm(tmp_path: Path, configured: bool) -> None:
    source = vendors(tmp_path / "acme_vnf", charm=False, configured=configured)
    two = [Link("a", "provider", "ens4"), Link("b", "requirer", "ens4")]
    result = links.add(TREE, source, two, tmp_path / "out", "cloud")
    assert [p.code for p in result.problems] == []
    entry = entry_of(result.folder)
    assert [p["seq"] for p in entry["initial-config-primitive"]] == [1, 2, 3]
    login = {p["name"]: p["value"] for p in entry["initial-config-primitive"][0]["parameter"]}
    assert login["ssh-username"] == entry["config-access"]["ssh-access"]["default-user"] == "cloud"


def test_what_it_prints_makes_a_valid_service(tmp_path: Path) -> None:
    source = vendors(tmp_path / "acme_vnf")
    arguments = ["--link", "a:provider", "--link", "b:requirer"]
    arguments += ["--interface", "ens4", "--interface", "ens4", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(main, ["add-link", str(source), *arguments])
    assert done.exit_code == 0, done.output
    relation, parameters = (
        yaml.safe_load(part) for part in done.stdout.split("# Into ")[1:] for part in [
            part.partition("\n")[2]
        ]
    )  # fmt: skip
    service = copy.deepcopy(packages.catalogue(TREE)["vpn_basic_ns"].descriptor)
    body = service["nsd"]["nsd"][0]
    body["vnfd-id"] = ["acme_vnf"]
    for profile in body["df"][0]["vnf-profile"]:
        profile["vnfd-id"] = "acme_vnf"
    first = relation["ns-configuration"]["relation"][0]
    first["provider"]["vnf-profile-id"] = "server"
    first["requirer"] |= {"vnf-profile-id": "client", "endpoint": "b"}
    body["ns-configuration"] = {"relation": [first]}
    members = []
    for name in ("server", "client"):
        member = copy.deepcopy(parameters["additionalParamsForVnf"][0])
        members.append({**member, "member-vnf-index": name})
    (tmp_path / "ns").mkdir()
    (tmp_path / "ns/x_nsd.yaml").write_text(yaml.safe_dump(service))
    file = tmp_path / "params.yaml"
    file.write_text(yaml.safe_dump({"additionalParamsForVnf": members}))
    paths = [tmp_path / "out/acme_vnf.tar.gz", tmp_path / "ns", file]
    checked = CliRunner().invoke(main, ["validate", "--strict", *map(str, paths)])
    assert (checked.exit_code, checked.output) == (0, "")


@pytest.mark.parametrize(
    ("words", "over", "says"),
    [
        (["n6"], ["ens4"], "allowed: NAME:provider or NAME:requirer"),
        (["n6:server"], ["ens4"], "allowed: NAME:provider or NAME:requirer"),
        (["n6:provider"], ["lo"], "allowed: a NIC"),
        (["n6:provider"], [], "one for each link"),
        (["n6:provider", "n6:requirer"], ["ens4", "ens5"], "each name once"),
    ],
)
def test_options_that_are_refused(words: list[str], over: list[str], says: str) -> None:
    with pytest.raises(BuildError, match=says):
        links.parse(words, over)


@pytest.mark.parametrize("name", ["UPPER", "a" * 13, "1a"])
def test_a_name_that_no_interface_can_have(tmp_path: Path, name: str) -> None:
    source = vendors(tmp_path / "acme_vnf")
    with pytest.raises(BuildError, match="links"):
        links.add(TREE, source, [Link(name, "provider", "ens4")], tmp_path / "out")


def test_a_package_that_osm_refuses_is_left_alone(tmp_path: Path) -> None:
    source = vendors(tmp_path / "acme_vnf")
    file = source / "acme_vnfd.yaml"
    file.write_text(file.read_text().replace("mgmt-cp: mgmt-ext", "mgmt-cp: nowhere"))
    with pytest.raises(BuildError, match="OSM refuses the package: .*mgmt-cp"):
        links.add(TREE, source, [Link("n6", "provider", "ens4")], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    pods = yaml.safe_load((vendors(tmp_path / "pods") / "acme_vnfd.yaml").read_text())["vnfd"]
    for key in ("vdu", "virtual-compute-desc", "virtual-storage-desc", "sw-image-desc"):
        pods.pop(key)
    pods |= {"df": [{"id": "df"}], "kdu": [{"name": "acme", "helm-chart": "stable/acme"}],
             "k8s-cluster": {"nets": [{"id": "n"}]}}  # fmt: skip
    pods["ext-cpd"] = [{"id": "mgmt-ext", "k8s-cluster-net": "n"}]
    (tmp_path / "pods/acme_vnfd.yaml").write_text(yaml.safe_dump({"vnfd": pods}))
    with pytest.raises(BuildError, match="the VNF has none"):
        links.add(TREE, tmp_path / "pods", [Link("n6", "provider", "ens4")], tmp_path / "out")
    with pytest.raises(BuildError, match="that is the package itself"):
        links.add(TREE, vendors(tmp_path / "b"), [Link("n6", "provider", "ens4")], tmp_path)


def test_a_link_out_of_the_package(tmp_path: Path) -> None:
    source = vendors(tmp_path / "repo/acme_vnf")
    built = tmp_path / "repo/built"
    (source / "charms/acme").rename(built)
    (source / "charms/acme").symlink_to("../../built")
    one = [Link("n6", "provider", "ens4")]
    result = links.add(TREE, source, one, tmp_path / "out")
    assert validate(read(result.path), Catalog()) == []
    (source / "charms/acme").unlink()
    (source / "charms/acme").symlink_to("../../gone")
    with pytest.raises(BuildError, match=r"charms/acme links to ../../gone, which is not there"):
        links.add(TREE, source, one, tmp_path / "again")
