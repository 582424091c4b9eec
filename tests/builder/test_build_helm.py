"""Packages for an OSM without Juju: the same sources, another execution environment."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from builder import check, helm, packages, sbom
from builder.cli import main
from builder.errors import BuildError
from builder.parameters import variants
from builder.validate import Catalog

pytestmark = pytest.mark.slow

NAMES = ("vpn_endpoint_vnf", "mme_vnf", "vpn_basic_ns", "epc_ns")
IMAGE = "registry.example:5000/vpn/osm-vpnaas-ee:1"
PROGRAMS = Path(__file__).parents[2] / ".cache" / "bin"


@pytest.fixture(scope="module")
def built(tree, tmp_path_factory):
    target = tmp_path_factory.mktemp("helm")
    packages.build(tree, target, NAMES, image=IMAGE)
    return target


def load(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def entry_of(vnfd):
    operations = vnfd["df"][0]["lcm-operations-configuration"]["operate-vnf-op-config"]
    return operations["day1-2"][0]


def charts(built):
    return sorted(built.glob("*_vnf/helm-charts/*"))


def test_both_kinds_differ_in_the_environment_and_config_only(tree, built):
    for name in ("vpn_endpoint_vnf", "mme_vnf"):
        package = packages.catalogue(tree)[name]
        juju, other = package.descriptor, load(built / name / package.file)
        charm = entry_of(juju["vnfd"])["execution-environment-list"][0]["juju"]["charm"]
        entry = entry_of(other["vnfd"])
        environment = entry["execution-environment-list"][0]
        assert (environment.pop("helm-chart"), environment.pop("helm-version")) == (charm, "v3")
        environment["juju"] = {"charm": charm, "proxy": True}
        config = entry["initial-config-primitive"][0]["parameter"]
        assert [p["value"] for p in config[-2:]] == ["<OSM>", "<vpn_relations>"]
        del config[-2:]
        assert other == juju


def test_an_nsd_loses_its_relations_and_the_parameters_get_them(tree, built):
    assert "ns-configuration" not in load(built / "epc_ns" / "epc_nsd.yaml")["nsd"]["nsd"][0]
    result = {
        m["member-vnf-index"]: m["additionalParams"]["vpn_relations"]
        for m in load(built / "params" / "epc.yaml")["additionalParamsForVnf"]
    }
    assert result["mme"] == "s6a=hss:s6a,s11=spgwc:s11,s1c=enb:s1c"
    assert result["hss"] == "s6a=mme:s6a"
    basic = load(built / "params" / "vpn_basic.yaml")["additionalParamsForVnf"]
    assert basic[0]["additionalParams"]["vpn_relations"] == "vpn-server=client:vpn-client"


def test_every_service_of_a_slice_gets_its_relations(built):
    document = load(built / "params" / "vpn_slice.yaml")
    for subnet in document["netslice-subnet"]:
        for member in subnet["additionalParamsForVnf"]:
            assert "=" in member["additionalParams"]["vpn_relations"]


def test_the_parameters_of_a_deployment_fit_these_packages(tree, tmp_path):
    source, out = tree.root / "params/deployments/epc_multisite.yaml", tmp_path / "out.yaml"
    words = ["deployment", str(source), "--out", str(out)]
    result = CliRunner().invoke(main, [*words, "--execution-environment", "helm"])
    assert result.exit_code == 0, result.output
    known = [packages.without_juju(p) for p in packages.catalogue(tree).values()]
    assert check.document(load(out), check.add_descriptors(Catalog(), known), "out.yaml") == []
    values = {
        m["member-vnf-index"]: m["additionalParams"] for m in load(out)["additionalParamsForVnf"]
    }
    assert values["hss"]["vpn_relations"] == "s6a=mme:s6a"
    assert values["hss"]["s6a_gateway"] == "203.0.113.129"


def test_what_was_built_is_valid(tree, built):
    known = [packages.without_juju(p) for p in packages.catalogue(tree).values()]
    archives = [built / f"{name}.tar.gz" for name in NAMES]
    catalog, problems = check.archives(archives, known)
    assert problems == []
    assert check.parameters(built / "params", catalog) == []


def test_a_package_carries_its_chart_and_no_charm(built):
    with tarfile.open(built / "mme_vnf.tar.gz") as archive:
        names = archive.getnames()
    assert "mme_vnf/helm-charts/mme/Chart.yaml" in names
    assert not [name for name in names if "/charms" in name]
    values = load(built / "mme_vnf/helm-charts/mme/values.yaml")
    assert (values["image"], values["charm"]) == (IMAGE, "mme")


def test_the_image_has_every_charm_of_the_tree(tree, built):
    context = built / helm.CONTEXT
    for name in tree.charms():
        folder = context / "charms" / name
        for file in ("metadata.yaml", "actions.yaml", "config.yaml", "src/charm.py"):
            assert (folder / file).is_file()
        assert runpy.run_path(str(folder / "src/charm.py"))["main"].__module__ == "vpnaas.edge"
    libraries = sorted(p.name for p in (context / "lib").iterdir())
    assert libraries == ["experiments", "helm_ee", "oai", "vpnaas"]
    # Each wheel is pinned for both architectures, or is one for all.
    pins = (context / "requirements.txt").read_text()
    for pin in re.findall(r"^\S+==\S+(?: \\\n\s+--hash=\S+)+", pins, re.MULTILINE):
        assert pin.count("--hash=sha256:") in (1, 2)


def test_the_bill_of_materials_is_that_of_the_image(tree, built, tmp_path):
    sbom.write(tree, tmp_path / "sbom.json", "aarch64", pods=True)
    listed = json.loads((tmp_path / "sbom.json").read_text())["components"]
    pins = (built / helm.CONTEXT / "requirements.txt").read_text()
    names = re.findall(r"^([\w.-]+)==", pins, re.MULTILINE)
    assert sorted(c["name"] for c in listed) == sorted(names)
    assert {"grpclib", "lightkube", "paramiko"} <= set(names)
    assert "ops" not in names


def test_services_alike_in_members_must_be_alike_in_relations():
    nsd = {
        "ns-configuration": {
            "relation": [
                {
                    "provider": {"vnf-profile-id": "a", "endpoint": "x"},
                    "requirer": {"vnf-profile-id": "b", "endpoint": "y"},
                }
            ]
        }
    }
    assert helm.relations(nsd) == {"a": ["x=b:y"], "b": ["y=a:x"]}
    with pytest.raises(BuildError, match="other relations"):
        helm.parameters({"additionalParamsForVnf": []}, [nsd, {}])


@pytest.mark.parametrize("image", ["Registry/x", "a b", "a;b", "", "x" * 300])
def test_an_image_is_a_reference(tree, image):
    if not image:
        assert helm.image(image, tree) == f"osm-vpnaas-ee:{tree.version}"
        return
    with pytest.raises(BuildError, match="is no image"):
        helm.image(image, tree)


def run_helm(*words):
    program = PROGRAMS / "helm"
    if not program.exists():
        pytest.skip("no helm: ./run setup --kubernetes builds it")
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


def test_helm_finds_nothing_wrong_with_a_chart(built):
    for chart in charts(built):
        done = run_helm("lint", "--strict", str(chart))
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("secure", ["true", "false"])
def test_helm_renders_what_a_restricted_namespace_takes(built, secure):
    for chart in charts(built):
        done = run_helm("template", "x-1", str(chart), "-n", "ns", "--set", f"tls.enabled={secure}")
        assert done.returncode == 0, done.stderr
        objects = [o for o in yaml.safe_load_all(done.stdout) if o]
        by_kind = {o["kind"]: o for o in objects}
        assert {o["metadata"]["name"] for o in objects} == {"x-1"}
        role = by_kind["Role"]["rules"]
        # Only its own objects can be changed.
        for rule in role:
            if set(rule["verbs"]) - {"list", "watch"}:
                assert rule["resourceNames"] == ["x-1"]
        assert [r["resources"] for r in role if "resourceNames" not in r] == [["configmaps"]]
        assert by_kind["Service"]["spec"]["ports"][0]["port"] == 50050
        pod = by_kind["StatefulSet"]["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        (container,) = pod["containers"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        environment = {e["name"] for e in container["env"]}
        assert ("VPNAAS_TLS" in environment) == (secure == "true")


def test_juju_is_what_is_built_by_default(tree):
    files = variants.parameter_files(tree)
    assert "vpn_relations" not in str(files["vpn_basic"])
