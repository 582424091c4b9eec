"""Source packages: plain SOL006, in folders as OSM's own packages have them."""

import shutil

import pytest
import yaml
from click.testing import CliRunner

from builder import check, packages, validate
from builder.cli import main
from builder.errors import BuildError
from builder.tree import Tree

TREE = Tree.find()
FOLDERS = sorted(TREE.root.glob("*-packages/*/"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_source_is_sol006_as_it_stands(folder):
    (file,) = folder.glob("*.yaml")
    document = yaml.safe_load(file.read_text())
    form, problems = validate.form(validate.Package(folder.name, "tar", {}, file.name, document))
    assert form
    assert problems == []
    for name in {vdu.get("cloud-init-file") for vdu in form.get("vdu", ())}:
        assert (folder / "cloud_init" / name).is_file()


def test_services_and_templates_are_packages_without_a_build():
    known = packages.catalogue(TREE).values()
    ready = [folder for folder in FOLDERS if folder.parent.name != "vnf-packages"]
    _, problems = check.archives(ready, [p for p in known if p.kind == "vnf"])
    assert problems == []


def copies(target, **names):
    """Copy packages of the tree under other names, which their descriptors take as well."""
    for old, new in names.items():
        kind = old.rpartition("_")[2]
        source = TREE.root / f"{kind}-packages" / old
        shutil.copytree(source, target / new)
        (file,) = (target / new).glob("*.yaml")
        text = file.read_text()
        for before, after in names.items():
            text = text.replace(before, after)
        file.write_text(text)
    return [str(target / new) for new in names.values()]


@pytest.mark.slow
def test_packages_of_another_folder_are_built_by_the_same_command(tmp_path):
    names = {"vpn_endpoint_vnf": "my_vnf", "vpn_basic_ns": "my_ns", "vpn_basic_nst": "my_nst"}
    paths = copies(tmp_path / "elsewhere", **names)
    out = tmp_path / "out"
    result = CliRunner().invoke(main, ["build", "--out", str(out), *paths])
    assert result.exit_code == 0, result.output
    assert {path.name for path in out.glob("*.tar.gz")} == {f"{n}.tar.gz" for n in names.values()}
    built = yaml.safe_load((out / "my_vnf/vpn_endpoint_vnfd.yaml").read_text())["vnfd"]
    ours = packages.catalogue(TREE)["vpn_endpoint_vnf"].body
    assert {key for key in ours if built[key] != ours[key]} == {"id", "product-name", "df"}
    (entry,) = built["df"][0]["lcm-operations-configuration"]["operate-vnf-op-config"]["day1-2"]
    assert "show-status" in {primitive["name"] for primitive in entry["config-primitive"]}
    assert (out / "my_vnf/charms/vpn-endpoint/src/charm.py").is_file()
    assert (out / "my_vnf/cloud_init/vnf.yaml").is_file()


def test_a_charm_inside_a_source_package_stays_as_it_is(tmp_path):
    (path,) = copies(tmp_path, hss_vnf="own_vnf")
    (tmp_path / "own_vnf/charms/hss").mkdir(parents=True)
    before = yaml.safe_load((tmp_path / "own_vnf/hss_vnfd.yaml").read_text())["vnfd"]
    after = dict(packages.source(TREE, tmp_path / "own_vnf").body)
    assert after.pop("version") == packages.VNFD_VERSION
    assert after == before


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("value: s6a", "value: s6b", "charm hss has no link s6b; it has s6a"),
        ("underlay-interface", "underlay", "configure of charm hss has no parameter underlay"),
        ("name: configure-nf", "name: configure-fn", "charm hss has no action configure-fn"),
        ("name: configure\n", "name: configure-nf\n", "none of them is configured on day 1"),
        ("charm: hss", "charm: hs", "no charm hs; allowed are access, amf"),
        ("  mgmt-cp", "  mgmt-pc", "unknown key 'mgmt-pc'; did you mean 'mgmt-cp'?"),
        ("vnfd:", "vnf:", "no vnfd, nsd or nst at the top level"),
        ("config-primitive:", "config-primitive: !day-1", "line 55"),
    ],
)
def test_a_wrong_source_is_one_sentence(tmp_path, before, after, words):
    copies(tmp_path, hss_vnf="hss_vnf")
    file = tmp_path / "hss_vnf/hss_vnfd.yaml"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))
    with pytest.raises(BuildError, match=words) as caught:
        packages.source(TREE, tmp_path / "hss_vnf")
    assert "hss_vnfd.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_descriptor_is_no_package(tmp_path):
    with pytest.raises(BuildError, match=r"0 descriptors; allowed: one, \*vnfd.yaml"):
        packages.source(TREE, tmp_path)
