"""The core file makes files whose network functions agree; the check finds each way not to."""

import copy

import pytest
import yaml
from click.testing import CliRunner
from oai import kinds
from oai.params import SECRET_NAMES
from vpnaas.base.errors import InputError
from vpnaas.params.intent import Intent, link_params

from builder import charms, check, packages
from builder.cli import main
from builder.errors import BuildError
from builder.parameters import agreement, core, variants
from builder.tree import Tree
from builder.validate import Catalog


@pytest.fixture(scope="module")
def files(tree):
    return variants.parameter_files(tree)


def member(document, name):
    (found,) = [
        m["additionalParams"]
        for m in document["additionalParamsForVnf"]
        if m["member-vnf-index"] == name
    ]
    return found


@pytest.mark.parametrize(
    "name",
    [
        "epc",
        "epc_oai",
        "epc_oai_novpn",
        "epc_ue",
        "epc_ue_novpn",
        "5gc",
        "5gc_oai",
        "5gc_ue",
        "5gc_n3iwf",
    ],
)
def test_what_the_build_makes_agrees(files, name):
    assert agreement.disagreements(files[name]) == []


def test_the_two_files_differ_in_the_software_only(files):
    without, software = copy.deepcopy(files["epc"]), files["epc_oai"]
    for entry in without["additionalParamsForVnf"]:
        entry["additionalParams"]["nf_software"] = "oai"
    assert without == software


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_the_charms_take_every_value(tree, files, kind):
    """As OSM hands them over: by data type of the primitive, then by the schema of the action."""
    with_slices = kinds.FUNCTIONS[kind].in_5gs
    file = "5gc_ue" if with_slices else "epc_ue"
    if kind in ("n3iwf", "n3ue"):
        file = "5gc_n3iwf"
    given = member(files[file], kind.replace("nr-", "").replace("n3ue", "ue"))
    schema = charms.load(tree, kind).actions["configure-nf"]["params"]
    result = {}
    for name, entry in schema.items():
        value = given.get(
            "nf_" + name.replace("-", "_"), "tun0" if name == "tun-device" else "ens6"
        )
        casts = {"integer": int, "boolean": lambda text: text == "true", "string": str}
        result[name] = casts[entry["type"]](value)
    parsed = kinds.parse(kind, result)
    persisted = {name for name in kinds.to_given(parsed) if name != "log-level"}
    assert persisted == set(schema) - set(SECRET_NAMES)
    assert bool(kinds.parse_secrets(kind, result)) == (kinds.FUNCTIONS[kind].secrets)
    for key, value in given.items():
        if key.endswith("_inner_address"):
            link = key.removesuffix("_inner_address")
            link_params({"link": link, "inner-address": value})


@pytest.mark.parametrize(
    ("name", "key", "value", "words"),
    [
        ("mme", "nf_realm", "other.example.org", "nf_realm: mme has realm other.example.org, hss"),
        ("enb", "nf_tac", 7, "nf_tac: enb has tracking area code 7, mme has 600"),
        ("enb", "nf_mnc", "088", "nf_mnc: enb has mobile network code 088, hss has 88"),
        ("hss", "nf_mnc", 88, "nf_mnc: hss has 88; allowed: 2 or 3 digits in quotes"),
        ("spgwc", "nf_apn", "ims", "nf_apn: spgwc has APN ims, hss has internet"),
        ("spgwu", "nf_ue_pool", "10.9.0.0/16", "nf_ue_pool: spgwu has pool of UE addresses"),
        ("spgwu", "nf_gateway_id", 2, "nf_gateway_id: spgwu has number of the user plane 2"),
        ("spgwu", "nf_software", "none", "nf_software: spgwu has network function software none"),
        ("hss", "nf_first_imsi", "208951234500000", "which is not of network 24288"),
        ("mme", "s11_inner_address", "172.16.6.77/25", "which overlaps 172.16.6.0/24 of its s6a"),
        ("mme", "s6a_inner_address", "nowhere", "is no address with prefix length"),
        ("mme", "nf_mcc", "001", "mme has epc.mnc088.mcc242.3gppnetwork.org, but its"),
    ],
)
def test_each_way_not_to_agree_is_one_sentence(files, name, key, value, words):
    document = copy.deepcopy(files["epc_oai"])
    member(document, name)[key] = value
    problems = agreement.disagreements(document)
    assert any(words in sentence for sentence in problems), problems
    assert all("\n" not in sentence for sentence in problems)


def test_a_list_in_place_of_a_text_is_no_error():
    given = {"nf_mcc": "001", "nf_mnc": "01", "nf_slice": ["1-000001"], "nf_ue_pool": "10.0.0.0/24"}
    member = {"member-vnf-index": "upf", "additionalParams": given}
    assert agreement.disagreements({"additionalParamsForVnf": [member]}) == []


@pytest.mark.parametrize("value", ["pool", "pool:ipv4+ipv4"])
def test_a_base_station_may_ask_its_gateway_for_its_inner_address(files, value):
    document = copy.deepcopy(files["epc_secgw"])
    member(document, "enb")["s1u_inner_address"] = value
    assert agreement.disagreements(document) == []


S1 = ("s1c", "s1u")


def test_links_of_a_gateway_need_subnets_of_their_own():
    """As the charm wants it at Day-1, of a VNF that is no network function, too."""
    inner = {"s1c_inner_address": "10.41.0.1/24", "s1u_inner_address": "10.41.0.129/25"}
    document = {
        "additionalParamsForVnf": [{"member-vnf-index": "gateway", "additionalParams": inner}]
    }
    said = "gateway on s1u has 10.41.0.129/25, which overlaps 10.41.0.0/24 of its s1c"
    assert agreement.disagreements(document) == [f"s1u_inner_address: {said}"]
    params = [{"link": link, "inner-address": inner[f"{link}_inner_address"]} for link in S1]
    intent = Intent().configured(params[0])
    with pytest.raises(InputError, match="overlaps"):
        intent.configured(params[1])
    for free in ("10.42.0.1/24", "fd00::1/64", "pool", "none"):
        inner["s1u_inner_address"] = free
        assert agreement.disagreements(document) == []


@pytest.mark.parametrize(
    ("name", "key", "value", "words"),
    [
        ("smf", "nf_slice", "3-000003", "nf_slice: smf has slice 3-000003, the AMF has 1-000001"),
        ("upf", "nf_dnn", "ims", "nf_dnn: upf has data network name ims, smf has internet"),
        ("upf", "nf_ue_pool", "10.9.0.0/16", "nf_ue_pool: upf has pool of UE addresses"),
        ("gnb", "nf_slices", "1", "nf_slices: gnb has slice 1, the AMF has 1-000001"),
        ("gnb", "nf_tac", 7, "nf_tac: gnb has tracking area code 7, amf has 600"),
        ("ue", "nf_sessions", "1-000001/ims", "ue has DNN ims in slice 1-000001, the AMF has"),
        ("ue", "nf_sessions", "", "nf_sessions: ue has no slice, the AMF has 1-000001"),
        ("ue", "nf_imsi", "208951234500000", "which is not of network 24288"),
    ],
)
def test_each_way_of_a_5g_core_not_to_agree_is_one_sentence(files, name, key, value, words):
    document = copy.deepcopy(files["5gc_ue"])
    member(document, name)[key] = value
    problems = agreement.disagreements(document)
    assert any(words in sentence for sentence in problems), problems


@pytest.mark.parametrize(
    ("realm", "good"),
    [
        ("epc.mnc001.mcc001.3gppnetwork.org", True),
        ("EPC.MNC001.MCC001.3gppnetwork.org", True),
        ("core.operator.example", True),
        ("epc.mnc088.mcc242.3gppnetwork.org", False),
        ("epc.mnc010.mcc001.3gppnetwork.org", False),
    ],
)
def test_a_site_whose_realm_is_of_another_network_is_refused(tree, realm, good):
    text = (tree.root / "params/cores/epc.core.yaml").read_text()
    given = yaml.safe_load(text.replace("24288123450", "00101123450"))
    given["network"] |= {"mcc": "001", "mnc": "01", "realm": realm}
    site = core.Epc.model_validate(given)
    problems = agreement.disagreements(core.document(site, site.files["epc"]))
    assert problems == [] if good else len(problems) == 5
    assert good or f"hss has {realm}, but its network 001/01 is mnc001.mcc001." in problems[0]


def test_a_site_has_as_many_enbs_as_one_likes(tree):
    given = yaml.safe_load((tree.root / "params/cores/epc.core.yaml").read_text())
    given["order"] += ["enb2", "enb3"]
    given["radio"]["more-enbs"] = {"enb2": 3586, "enb3": 3587}
    for link, other in (("s1c", "mme"), ("s1u", "spgwu")):
        ends = given["links"][link]["ends"]
        inner, outer = (ends["enb"][key].rpartition(".")[0] for key in ("inner", "underlay"))
        for number in (2, 3):
            end = {"inner": f"{inner}.{10 + number}", "underlay": f"{outer}.{200 + number}"}
            ends[f"enb{number}"] = end
        assert set(ends) == {other, "enb", "enb2", "enb3"}
    site = core.Epc.model_validate(given)
    document = core.document(site, site.files["epc_oai"])
    assert agreement.disagreements(document) == []
    assert [member(document, f"enb{n}")["nf_enb_id"] for n in ("", 2, 3)] == [3585, 3586, 3587]
    assert member(document, "enb3")["s1c_inner_address"] == "192.168.247.13/24"
    assert set(member(document, "enb")) == set(member(document, "enb2"))
    (s1u,) = [vld for vld in document["vld"] if vld["name"] == "s1u"]
    assert len(s1u["vnfd-connection-point-ref"]) == 4
    member(document, "enb3")["nf_enb_id"] = 3586
    assert agreement.disagreements(document) == ["nf_enb_id: enb3 has 3586, which is that of enb2"]


def test_a_pool_of_ues_inside_a_link_is_found(files):
    document = copy.deepcopy(files["epc_oai"])
    for name in ("spgwc", "spgwu"):
        member(document, name)["nf_ue_pool"] = "172.16.0.0/16"
    problems = agreement.disagreements(document)
    assert any("overlaps 172.16.6.0/24 of link s6a" in sentence for sentence in problems)
    member(document, "spgwc")["nf_dns"] = "172.16.1.53"
    sentence = "nf_dns: 172.16.1.53/32 of spgwc overlaps 172.16.1.0/24 of link s11"
    assert sentence in agreement.disagreements(document)


def test_keys_that_differ_are_not_shown(files):
    document = copy.deepcopy(files["epc_oai"])
    key = "f" * 32
    member(document, "enb")["nf_subscriber_key"] = key
    (problems,) = agreement.disagreements(document)
    assert "subscriber key" in problems
    assert key not in problems
    assert member(document, "hss")["nf_subscriber_key"] not in problems


def test_files_without_network_functions_have_nothing_to_agree_on(files):
    assert agreement.disagreements(files["vpn_basic"]) == []
    assert agreement.disagreements({}) == []


def test_the_verb_says_what_an_edited_file_lacks(files, tmp_path):
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(yaml.safe_dump(files["epc_oai"]))
    edited = copy.deepcopy(files["epc_oai"])
    member(edited, "enb")["nf_tac"] = 7
    bad.write_text(yaml.safe_dump(edited))
    assert CliRunner().invoke(main, ["agree", str(good)]).exit_code == 0
    result = CliRunner().invoke(main, ["agree", str(good), str(bad)])
    assert result.exit_code == 1
    assert f"{bad}: nf_tac: enb has tracking area code 7, mme has 600" in result.output


def test_the_services_of_a_slice_have_to_agree(files, tree, tmp_path):
    document = copy.deepcopy(files["embb_shared_oai"])
    member(document["netslice-subnet"][1], "mme")["nf_realm"] = "other.example.org"
    (sentence, *_) = agreement.disagreements(document)
    assert sentence == (
        "nf_realm: core/mme has realm other.example.org, hss/hss has "
        "epc.mnc088.mcc242.3gppnetwork.org"
    )
    known = check.add_descriptors(Catalog(), packages.catalogue(tree).values())
    assert "params-disagree" in [p.code for p in check.document(document, known, "x.yaml")]
    path = tmp_path / "slice.yaml"
    path.write_text(yaml.safe_dump(document))
    result = CliRunner().invoke(main, ["agree", str(path)])
    assert result.exit_code == 1
    assert f"{path}: {sentence}" in result.output


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"links: {}\n", "no parameters of VNFs"),
        (b"a: \xe9\n", "not YAML"),
        (b"a: 2024-13-45\n", "not YAML: month must be in 1..12"),
        (b"additionalParamsForVnf:\n", "additionalParamsForVnf: None is not allowed"),
        (b"additionalParamsForVnf: [{additionalParams: {}}]\n", "'member-vnf-index' is missing"),
    ],
)
def test_what_is_no_parameter_file_does_not_agree(tmp_path, content, words):
    path = tmp_path / "one.yaml"
    path.write_bytes(content)
    result = CliRunner().invoke(main, ["agree", str(path)])
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert words in result.output
    assert len(result.output.splitlines()) == 1


def test_a_link_may_have_a_dash_in_its_name(tree, tmp_path):
    text = (tree.root / "params/cores/epc.core.yaml").read_text()
    path = tmp_path / "dash.core.yaml"
    path.write_text(text.replace("  s1c:", "  s1-c:"))
    site = core.load(path)
    given = member(core.document(site, site.files["epc"]), "enb")
    assert given["s1_c_inner_address"] == "192.168.247.10/24"


def test_a_network_may_not_have_the_name_of_a_link(tree, tmp_path):
    text = (tree.root / "params/cores/epc.core.yaml").read_text()
    path = tmp_path / "twice.core.yaml"
    own = "  s1c: {underlay: 10.9.0.0/24, ends: {enb: 10.9.0.2}}"
    path.write_text(text.replace("\nnetworks:\n", f"\nnetworks:\n{own}\n"))
    words = "networks: s1c is a link already; allowed: another name"
    with pytest.raises(BuildError, match=words):
        core.load(path)


@pytest.mark.slow
def test_a_site_whose_addresses_clash_is_not_built(sources, tmp_path, monkeypatch):
    path = sources.root / "params/cores/epc.core.yaml"
    text = path.read_text()
    path.write_text(text.replace("inner: 172.16.6.129}", "inner: 172.16.6.2}"))
    monkeypatch.setattr(Tree, "find", classmethod(lambda cls: sources))
    result = CliRunner().invoke(main, ["build", "vpn_basic_ns", "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "172.16.6.2, which is that of" in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[1-000001, 2", "[9-typo, 2", "ue: no slice 9-typo; allowed: 1-000001, 2-000002"),
        ("smf: smf2", "smf: smf", "slices: smf serves 1-000001 and 2-000002; allowed: one"),
        ("upf: upf2", "upf: upf", "slices: upf serves 1-000001 and 2-000002; allowed: one"),
    ],
)
def test_a_5g_site_whose_slices_are_mixed_up_is_refused(tree, tmp_path, old, new, words):
    text = (tree.root / "params/cores/5gc_n3iwf.core.yaml").read_text()
    path = tmp_path / "mixed.core.yaml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(BuildError, match=f"^mixed.core.yaml: the document: {words}$"):
        core.load(path)


SLICES_5G = {
    "embb_5g": ("1-000001", "internet", 6),
    "urllc_5g": ("2-000002", "factory", 82),
    "mmtc_5g": ("3-000003", "sensors", 9),
}


@pytest.mark.parametrize("name", SLICES_5G)
def test_the_s_nssai_of_a_template_reaches_every_function_of_its_slice(tree, files, name):
    template = yaml.safe_load((tree.root / f"nst-packages/{name}_nst/{name}_nst.yaml").read_text())
    assert template["nst"][0]["SNSSAI-identifier"]["slice-differentiator"] == SLICES_5G[name][0][2:]
    slice, dnn, five_qi = SLICES_5G[name]
    shared, own = files[name]["netslice-subnet"]
    for kind in ("smf", "upf"):
        given = member(own, kind)
        assert (given["nf_slice"], given["nf_dnn"]) == (slice, dnn)
    assert member(own, "upf")["n3_five_qi"] == five_qi
    # What the template says is for N3; a subscriber's default QoS flow is non-GBR.
    offered = "1-000001/internet/6,2-000002/factory/80,3-000003/sensors/9"
    assert member(shared, "amf")["nf_slices"] == offered
    assert member(shared, "gnb")["nf_slices"] == ",".join(one for one, _, _ in SLICES_5G.values())
    assert member(shared, "ue")["nf_sessions"] == f"{slice}/{dnn}"
    # The whole slice agrees, as a service of all its members would.
    together = {
        "additionalParamsForVnf": shared["additionalParamsForVnf"] + own["additionalParamsForVnf"]
    }
    assert agreement.disagreements(together) == []


def test_slices_of_one_network_do_not_meet_in_an_address(files):
    for link, kind in (("sbi", "smf"), ("n3", "upf")):
        found = [member(files[n]["netslice-subnet"][1], kind) for n in SLICES_5G]
        assert len({given[f"{link}_inner_address"] for given in found}) == 3
        assert len({given["nf_ue_pool"] for given in found}) == 3
