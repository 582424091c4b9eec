"""Good packages give no problem, in any form a package can have."""

import pytest
import yaml
from support.validating import validate_package
from validate_support import GOOD, PARAMS, VNFD, catalog, ns, nst, vnf

from builder.validate import Catalog, validate_params


@pytest.mark.parametrize("name", GOOD)
def test_a_good_tar_gz(name, tmp_path):
    assert validate_package(GOOD[name]().tar(tmp_path / "x.tar.gz"), catalog()) == []


@pytest.mark.parametrize("name", GOOD)
def test_a_good_zip(name, tmp_path):
    assert validate_package(GOOD[name]().zip(tmp_path / "x.zip"), catalog()) == []


@pytest.mark.parametrize("name", GOOD)
def test_a_good_folder(name, tmp_path):
    for path, entry in GOOD[name]().all_files().items():
        file = tmp_path / "x" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(entry.text)
        file.chmod(entry.mode)
    assert validate_package(tmp_path / "x", catalog()) == []


@pytest.mark.parametrize("draft", [ns, nst])
def test_a_good_descriptor_alone(draft, tmp_path):
    path = tmp_path / "one.yaml"
    path.write_text(yaml.safe_dump(draft().document))
    assert validate_package(path, catalog()) == []


@pytest.mark.parametrize(
    ("draft", "old", "new"),
    [(vnf, "vnfd", "etsi-nfv-vnfd:vnfd"), (ns, "nsd", "etsi-nfv-nsd:nsd"), (nst, "nst", "nst:nst")],
)
def test_envelopes_with_a_prefix(draft, old, new, tmp_path):
    made = draft()
    made.document = {new: made.document[old]}
    assert validate_package(made.tar(tmp_path / "x.tar.gz"), catalog()) == []


def test_numbers_where_text_belongs_are_taken_as_osm_takes_them(tmp_path):
    made = ns()
    for link in (0, 1):
        place = f"df/0/vnf-profile/0/virtual-link-connectivity/{link}/constituent-cpd-id/0"
        made.put(f"{place}/constituent-base-element-id", 1)
    made.put("ns-configuration/relation/0/provider/vnf-profile-id", 1)
    made.put("version", 1.0)
    assert validate_package(made.tar(tmp_path / "x.tar.gz"), catalog()) == []


def test_relations_of_a_vnfd_and_the_old_form(tmp_path):
    made = vnf()
    entry = "df/0/lcm-operations-configuration/operate-vnf-op-config/day1-2/0"
    ends = {"provider": {"endpoint": "left"}, "requirer": {"endpoint": "right"}}
    made.put(f"{entry}/relation", [{"name": "self", **ends}])
    (problems,) = validate_package(made.tar(tmp_path / "x.tar.gz"), catalog())
    assert problems.code == "relation-self"  # well formed, and Juju relates no charm with itself
    service = ns()
    entities = [{"id": "1", "endpoint": "left"}, {"id": "2", "endpoint": "right"}]
    service.put("ns-configuration/relation/0", {"name": "vpn", "entities": entities})
    assert validate_package(service.tar(tmp_path / "y.tar.gz"), catalog()) == []


def test_what_nbi_takes_without_envelope_or_list_of_one(tmp_path):
    bare = vnf()
    bare.document = bare.body
    assert validate_package(bare.tar(tmp_path / "x.tar.gz"), catalog()) == []
    for wrap in (lambda body: {"nsd": body}, lambda body: body):
        made = ns()
        made.document = wrap(made.body)
        assert validate_package(made.tar(tmp_path / "y.tar.gz"), catalog()) == []
    made = vnf()
    (disk,) = made.body["vdu"][0]["virtual-storage-desc"]
    made.put("vdu/0/virtual-storage-desc", disk)
    assert validate_package(made.tar(tmp_path / "z.tar.gz"), catalog()) == []
    service = ns()
    (vnfd,) = service.body["vnfd-id"]
    service.put("vnfd-id", vnfd)
    assert validate_package(service.tar(tmp_path / "z.tar.gz"), catalog()) == []


def test_good_parameters():
    assert validate_params("ns", PARAMS, catalog()) == []


def test_good_parameters_of_a_slice():
    subnet = {"id": "core", "vnf": [{"member-vnf-index": "1", "vim_account": "x"}]}
    document = {"netslice-subnet": [subnet], "netslice-vld": [{"name": "between"}]}
    assert validate_params("nsi", document, catalog()) == []


def test_parameters_for_several_vims():
    made = yaml.safe_load(yaml.safe_dump(PARAMS))
    made["vnf"][0]["vim_account"] = "north"
    made["vld"][0] |= {"wim_account": False, "vim-network-name": {"north": "a", "south": "b"}}
    made["vld"][0].pop("ip-profile")
    assert validate_params("ns", made, catalog()) == []


def test_parameters_of_a_vdu_stand_for_those_of_its_vnf():
    made = yaml.safe_load(yaml.safe_dump(PARAMS))
    made["additionalParamsForVnf"][0] = {
        "member-vnf-index": "1",
        "additionalParams": {"port": 1},
        "additionalParamsForVdu": [{"vdu_id": "vm", "additionalParams": {"name": "a"}}],
    }
    assert validate_params("ns", made, catalog()) == []


@pytest.mark.parametrize(
    "text",
    [
        "#cloud-config\n{% raw %}runcmd: ['echo ${#a}']{% endraw %}\n",
        "#cloud-config\nchpasswd: {list: ['root:R', 'u:$6$salt$hash']}\n",
        "#cloud-config\nchpasswd: {users: [{name: u, password: $6$salt$hash, type: hash}]}\n",
        "#cloud-config\n# nothing\n",
        "#cloud-config\naddress: {{ OSM['ip_address'] }}\n",
    ],
)
def test_cloud_init_that_osm_leaves_alone(text, tmp_path):
    made = vnf()
    made.files["cloud_init/init.yaml"].text = text
    assert validate_package(made.tar(tmp_path / "x.tar.gz"), catalog()) == []


def test_of_onboarded_packages_only_those_a_service_names_are_read(tmp_path):
    package, nowhere = vnf().tar(tmp_path / "vnf.tar.gz"), tmp_path / "other"
    folders = {"gate_vnf": package, "other_vnf": nowhere}
    known = Catalog(vnfds={"gate_vnf": VNFD["vnfd"]}, folders=folders)
    service = ns()
    service.put("ns-configuration/relation/0/provider/endpoint", "nowhere")
    problems = validate_package(service.tar(tmp_path / "ns.tar.gz"), known)
    assert [(p.code, "'nowhere'" in p.sentence) for p in problems] == [("relation-endpoint", True)]
    assert known.folders == {"other_vnf": nowhere}
    assert known.package("other_vnf") is None
