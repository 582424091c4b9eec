"""Instantiation parameters: one change, exactly one problem."""

import copy
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from params_cases import CASES, EXTRA, NIC, dhcp, edit, spread
from validate_support import CODES, ENTRY, NST, PARAMS, catalog, ns, ns_with_charm, nst, vnf
from vpnaas.base.errors import InputError
from vpnaas.params.intent import Intent

from builder.charms import _complete
from builder.check import users_parameters
from builder.cli import main
from builder.validate import Catalog, validate, validate_params
from builder.validate.primitive_rules import misfit


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_one_change_gives_exactly_one_problem(case):
    document = copy.deepcopy(PARAMS)
    case.change(document)
    problems = validate_params("ns", document, catalog(), "params.yaml")
    assert [problem.code for problem in problems] == [case.code], problems
    assert problems[0].path.startswith("params.yaml: ")
    assert problems[0].path.endswith(case.at)
    assert problems[0].severity == CODES[case.code]
    assert bool(problems[0].osm_message) == (problems[0].severity == "refused")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("01400", 768), ("0600", 384), ("-010", -8), ("20:10", 1210), ("1:30:00", 5400),
        ("'01400'", None), ("1400", None), ("0", None), ("00", None), ("07", None), ("0x578", None),
        ("1_400", None), ("2001:db8::1", None), ("1400.0", None), ("&a 1400", None),
    ],
)  # fmt: skip
def test_a_number_that_yaml_reads_with_another_base_is_named(text, number, tmp_path):
    file = tmp_path / "params.yaml"
    file.write_text(f"additionalParamsForVnf:\n- member-vnf-index: '1'\n  config-units: {text}\n")
    found = [p for p in users_parameters(file, Catalog()) if "for YAML" in p.sentence]
    assert [(p.path, p.code) for p in found] == [("params.yaml:3", "params-value")] * bool(number)
    assert all(p.sentence.startswith(f"{text} is the number {number} for") for p in found)


SOUTH = "6d1f8a2e-0000-4000-8000-000000000001"
OTHER = "6d1f8a2e-0000-4000-8000-000000000002"


@pytest.mark.parametrize(
    ("default", "networks", "missing"),
    [
        (None, {"north": "a"}, "the default VIM"),
        (None, {"south": "a"}, "north"),
        (None, {"north": "a", "south": "b"}, None),
        (SOUTH, {"north": "a", "south": "b"}, None),
        (SOUTH, {"north": "a"}, SOUTH),
        (SOUTH, {"north": "a", OTHER: "b"}, SOUTH),
        (SOUTH, {SOUTH: "a", OTHER: "b"}, None),
        (SOUTH, {"south": "b", "east": "c"}, "north"),
    ],
)
def test_a_network_for_each_vim_of_a_link(default, networks, missing):
    document = copy.deepcopy(PARAMS)
    spread(document, wimAccountId=False, **{"vim-network-name": networks})
    if default:
        document["vimAccountId"] = default
    problems = validate_params("ns", document, catalog())
    assert [p.code for p in problems] == ["params-vim-network"] * bool(missing)
    assert all(f"no network of {missing}; allowed" in p.sentence for p in problems)


def test_clients_do_not_turn_names_into_uuids_in_vim_network_id():
    document = copy.deepcopy(PARAMS)
    networks = {"north": "a", "south": "b"}
    spread(document, wimAccountId=False, **{"vim-network-id": networks})
    document["vimAccountId"] = SOUTH
    assert [p.code for p in validate_params("ns", document, catalog())] == ["params-vim-network"]


def message_of(change):
    document = copy.deepcopy(PARAMS)
    change(document)
    (problem,) = validate_params("ns", document, catalog())
    return problem.osm_message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            edit(f"{EXTRA}/additionalParams/port", delete=True),
            "Parameter '<port>' needed for vnfd[id=gate_vnf]:day1-2 configuration:"
            "initial-config-primitive[name=configure] not supplied",
        ),
        (
            edit("vnf/0/member-vnf-index", "3"),
            "Invalid parameter member_vnf_index='3' is not one of the nsd:constituent-vnfd",
        ),
        (
            edit("vnf/0/vdu/0/id", "x"),
            "Invalid parameter vnf[member-vnf-index='1']:vdu[id='x'] is not present at vnfd:vdu",
        ),
        (
            edit(f"{NIC}/name", "x"),
            "Invalid parameter vnf[member-vnf-index='1']:vdu[id='vm']:int-cpd[id='x'] is not "
            "present at vnfd:vdu:int-cpd",
        ),
        (
            edit(f"{EXTRA}/additionalParams/a-b", 1),
            "Invalid param name at additionalParamsForVnf[member-vnf-index=1]:a-b. Must contain "
            "only alphanumeric characters and underscores, and cannot start with a digit",
        ),
    ],
)
def test_nbis_own_words(change, message):
    assert message_of(change) == message


def test_the_service_has_parameters_of_its_own():
    service = ns_with_charm()
    primitive = "ns-configuration/initial-config-primitive/0"
    service.put(f"{primitive}/parameter/0/value", "<wan>")
    known = Catalog()
    known.add(vnf().package())
    known.add(service.package())
    (problem,) = validate_params("ns", PARAMS, known, "p")
    assert (problem.code, problem.path) == ("params-ns-missing", "p: additionalParamsForNs")
    assert problem.osm_message == (
        "Parameter '<wan>' needed for vnfd[id=gate_ns]:day1-2 configuration:"
        "initial-config-primitive[name=config] not supplied"
    )
    assert validate_params("ns", {**PARAMS, "additionalParamsForNs": {"wan": "x"}}, known) == []


@pytest.mark.parametrize(
    "change",
    [
        edit("vld/0/ip-profile/dns-server", None),
        edit("vld/0/ip-profile/gateway-address", None),
        edit("vld/0/wimAccountId", None),
        edit("vld/0/wim_account", "wim"),
        edit("vld/0/vim-network-name", "it's (a) network"),
        edit("vld/0/provider-network", {"physical-network": "p", "segmentation-id": "100", "x": 1}),
        edit("vnf/0/vdu/0/volume", [{"name": "disk", "vim-volume-id": "v"}]),
    ],
)
def test_what_nbi_takes_is_taken(change):
    document = copy.deepcopy(PARAMS)
    change(document)
    assert validate_params("ns", document, catalog()) == []


@pytest.mark.parametrize(("named", "good"), [(["a"], False), (["a", "b"], True), ([], True)])
def test_a_member_that_names_groups_names_all_that_its_vdus_use(named, good):
    made = vnf()
    groups = [{"id": name, "type": "anti-affinity", "scope": "nfvi-node"} for name in "abc"]
    made.put("df/0/affinity-or-anti-affinity-group", groups)
    made.put("df/0/vdu-profile/0/affinity-or-anti-affinity-group", [{"id": "a"}, {"id": "b"}])
    known = Catalog()
    known.add(made.package())
    known.add(ns().package())
    document = copy.deepcopy(PARAMS)
    if named:
        document["additionalParamsForVnf"][0]["affinity-or-anti-affinity-group"] = [
            {"id": name, "vim-affinity-group-id": "there"} for name in named
        ]
    found = validate_params("ns", document, known)
    assert [p.code for p in found] == ["params-affinity"] * (not good)


@pytest.mark.parametrize(("given", "good"), [("VNF", False), ("KDU", True)])
def test_a_kdu_has_parameters_of_its_own(given, good):
    made = vnf()
    made.put("kdu", [{"name": "k", "helm-chart": "repo/chart"}])
    primitive = {"seq": 1, "name": "x", "parameter": [{"name": "size", "value": "<size>"}]}
    made.add(ENTRY, {"id": "k", "initial-config-primitive": [primitive]})
    made.drop("df/0/scaling-aspect")
    known = Catalog()
    known.add(made.package())
    known.add(ns().package())
    document = copy.deepcopy(PARAMS)
    for entry in document["additionalParamsForVnf"]:
        if given == "KDU":
            own = {"kdu_name": "k", "additionalParams": {"size": 1}}
            entry["additionalParamsForKdu"] = [own]
        else:
            entry["additionalParams"]["size"] = "1"
    found = validate_params("ns", document, known)
    assert [p.code for p in found] == ["params-missing"] * 2 * (not good)


def test_further_instances_have_the_next_addresses():
    made = vnf()
    made.put("df/0/instantiation-level/0/vdu-level/0/number-of-instances", 2)
    known = Catalog()
    known.add(made.package())
    known.add(ns().package())
    document = copy.deepcopy(PARAMS)
    (found,) = validate_params("ns", document, known)  # 1 has 10.0.0.1 and .2, 2 has .2 and .3.
    assert found.sentence.startswith("10.0.0.2 is 1's on link 'data'")
    document["vld"][0]["vnfd-connection-point-ref"][0]["ip-address"] = "10.0.0.3"
    assert validate_params("ns", document, known) == []
    document["vld"][0]["vnfd-connection-point-ref"][0]["ip-address"] = "10.0.0.254"
    (found,) = validate_params("ns", document, known)
    assert found.sentence.startswith("10.0.0.255 is the first or last")


@pytest.mark.parametrize(("instances", "good"), [(None, True), (1, True), (1 << 60, False)])
def test_a_level_says_how_many_instances_or_not(instances, good):
    made = vnf()
    level = {"vdu-id": "vm"} | ({} if instances is None else {"number-of-instances": instances})
    made.put("df/0/instantiation-level/0/vdu-level", [level])
    known = Catalog()
    known.add(made.package())
    known.add(ns().package())
    assert (validate_params("ns", PARAMS, known) == []) is good


def test_the_address_of_a_link_counts_and_not_that_of_the_nic():
    document = copy.deepcopy(PARAMS)
    point = {"member-vnf-index-ref": "1", "vnfd-connection-point-ref": "data-ext"}
    document["vld"][0]["vnfd-connection-point-ref"].append(point | {"ip-address": "10.0.0.9"})
    document["vnf"][0]["vdu"][0]["interface"][0]["ip-address"] = "10.0.0.2"
    assert validate_params("ns", document, catalog()) == []


@pytest.mark.parametrize(
    "change", [lambda d: d.drop("netslice-subnet"), lambda d: d.put("netslice-subnet", [])]
)
def test_a_template_has_services(change):
    made = nst()
    change(made)
    assert "nst-no-subnet" in [p.code for p in validate(made.package(), catalog())]


@pytest.mark.parametrize(("key", "good"), [("a.b", False), ("$a", False), ("a-b", True)])
def test_keys_of_a_slice_have_no_dot(key, good):
    found = validate_params("nsi", {"additionalParamsForNsi": {key: 1}}, slice_catalog(), "p")
    told = [p for p in found if p.path == "p: additionalParamsForNsi"]
    assert [p.code for p in told] == ["params-key"] * (not good)
    assert all(p.osm_message.endswith("must not contain dots or $") for p in told)


@pytest.mark.parametrize("key", ["netslice-subnet", "netslice-vld"])
def test_a_list_of_a_slice_has_an_entry(key):
    (found,) = validate_params("nsi", {key: []}, Catalog())
    assert (found.code, found.sentence) == (
        "wrong-value",
        "[] is not allowed; allowed: a list with an entry",
    )


def test_an_empty_mapping_for_a_vdu_leaves_those_of_the_vnf():
    document = copy.deepcopy(PARAMS)
    own = [{"vdu_id": "vm", "additionalParams": {}}]
    document["additionalParamsForVnf"][0]["additionalParamsForVdu"] = own
    assert validate_params("ns", document, catalog()) == []


@pytest.mark.parametrize(("value", "good"), [("left", True), ("up", False), (1, False)])
def test_text_for_an_action_with_an_enum(value, good):
    made = vnf()
    made.put(f"{ENTRY}/0/initial-config-primitive/1/parameter/0/value", "<side>")
    known = Catalog()
    known.add(made.package())
    known.add(ns().package())
    document = copy.deepcopy(PARAMS)
    for entry in document["additionalParamsForVnf"]:
        entry["additionalParams"]["side"] = "right"
    document["additionalParamsForVnf"][1]["additionalParams"]["side"] = value
    problems = [(p.code, p.path) for p in validate_params("ns", document, known, "p")]
    place = "p: additionalParamsForVnf[1]/additionalParams/side"
    assert problems == ([] if good else [("params-value", place)])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (123456, "stays a number"),
        (1.5, "stays a number"),
        (False, "stays a number or boolean"),
        (None, "is empty (null)"),
        ("None", "is a word"),
        (["a"], "becomes a line of YAML"),
        ({"a": 1}, "becomes a line of YAML"),
        (" lab", "begins or ends with a blank"),
        ("lab\t", "begins or ends with a blank"),
        ("lab\n", "line end"),
        ("lab\u00a01", "no-break space (U+00A0)"),
        ("a\u2013b", "en dash (U+2013)"),
        ("\u201clab\u201d", "left double quotation mark"),
        ("la\u200bb", "zero width space"),
        ("lab\r", "a control character (U+000D)"),
        ("10.0.0.1 /24", "looks like an IPv4 address"),
        ("10.0.0.0/8, 10.0.0.300", "looks like an IPv4 address"),
        ("10.0.0.1/33", "looks like an IPv4 address"),
        ("lab", ""),
        ("a b", ""),
        ("none", ""),
        ("pässwört", ""),
        ("-----BEGIN-----\nabc\n-----END-----\n", ""),
        ("10.0.0.0/8, fd00::/64", ""),
        ("10.0.0.1-10.0.0.9", ""),
    ],
)
@pytest.mark.parametrize("option", ["config", "configure"])
def test_a_text_that_the_charm_would_refuse_after_all_machines_are_up(option, value, words):
    made = vnf()
    number, name = {"config": (0, "ssh-username"), "configure": (1, "note")}[option]
    parameter = {"name": name, "data-type": "STRING", "value": "<ssh_password>"}
    made.put(f"{ENTRY}/0/initial-config-primitive/{number}/parameter/0", parameter)
    known = Catalog()
    known.add(made.package())
    known.add(ns().package())
    document = copy.deepcopy(PARAMS)
    for entry in document["additionalParamsForVnf"]:
        entry["additionalParams"]["ssh_password"] = "good"
    document["additionalParamsForVnf"][1]["additionalParams"]["ssh_password"] = value
    found = validate_params("ns", document, known, "p")
    place = "p: additionalParamsForVnf[1]/additionalParams/ssh_password"
    assert [(p.code, p.path) for p in found] == [("params-value", place)] * bool(words)
    assert all(words in p.sentence and "123456" not in p.sentence for p in found)


def test_a_boolean_of_another_word_is_true_for_osm():
    made = vnf()
    parameter = {"name": "psk", "data-type": "BOOLEAN", "value": "<psk>"}
    made.put(f"{ENTRY}/0/initial-config-primitive/1/parameter/0", parameter)
    known = Catalog()
    known.add(made.package())
    known.add(ns().package())
    known.packages.clear()
    for value, good in ((False, True), ("false", True), ("no", False), (0, False), ("", False)):
        document = copy.deepcopy(PARAMS)
        for entry in document["additionalParamsForVnf"]:
            entry["additionalParams"]["psk"] = value
        codes = [p.code for p in validate_params("ns", document, known)]
        assert codes == ["params-value"] * (0 if good else 2), value


def validated(folder, text, *drafts):
    """Return (exit code, output) of `vpnaas-build validate` for packages and a parameter file."""
    paths = [draft.tar(folder / f"{number}.tar.gz") for number, draft in enumerate(drafts)]
    file = folder / "mine.yaml"
    file.write_text(text if isinstance(text, str) else yaml.safe_dump(text))
    result = CliRunner().invoke(main, ["validate", *map(str, paths), str(file)])
    return result.exit_code, result.output


def test_a_parameter_file_beside_its_packages(tmp_path):
    assert validated(tmp_path, PARAMS, vnf(), ns()) == (0, "")
    document = copy.deepcopy(PARAMS)
    document["additionalParamsForVnf"][0]["additionalParams"] = {"name": "a", "port": "51 820"}
    code, output = validated(tmp_path, document, vnf(), ns())
    assert (code, output.count("\n")) == (0, 1)
    assert output.startswith("silent: mine.yaml: additionalParamsForVnf[0]/additionalParams/port: ")
    del document["additionalParamsForVnf"][0]["additionalParams"]["name"]
    code, output = validated(tmp_path, document, vnf(), ns())
    assert "cloud-init of 1, vdu vm, needs it; allowed: with 'name'" in output


def test_a_key_that_stands_twice_in_a_parameter_file(tmp_path):
    text = yaml.safe_dump(PARAMS) + "vld: []\n"
    _, output = validated(tmp_path, text, vnf(), ns())
    assert "silent: mine.yaml:" in output
    assert "'vld' is repeated" in output


def test_a_parameter_file_of_a_member_that_is_not_there(tmp_path):
    document = copy.deepcopy(PARAMS)
    document["additionalParamsForVnf"][1]["member-vnf-index"] = "3"
    code, output = validated(tmp_path, document, vnf(), ns())
    assert (code, "'3' is no member of gate_ns" in output) == (1, True)
    assert "no service has exactly the members 1, 3" in validated(tmp_path, document, vnf())[1]


def test_a_parameter_file_of_a_slice(tmp_path):
    own = copy.deepcopy(PARAMS)
    del own["vld"][0]["ip-profile"]
    document = {"netslice-subnet": [{"id": name, **own} for name in ("core", "edge")]}
    assert validated(tmp_path, document, vnf(), ns(), nst()) == (0, "")
    document["netslice-subnet"][1]["id"] = "x"
    assert "'x' is no netslice-subnet" in validated(tmp_path, document, vnf(), ns(), nst())[1]


@pytest.mark.parametrize("text", ["vnf: {id: x}\n", "{}", "- a\n", "id: x\ndf: []\n"])
def test_a_descriptor_is_no_parameter_file(tmp_path, text):
    assert validated(tmp_path, text)[0] == 1
    assert "params" not in validated(tmp_path, text)[1]


def test_parameters_of_a_vdus_own_primitives_come_from_the_vdu():
    known = catalog()
    made = vnf()
    entry = copy.deepcopy(made.body["df"][0]["lcm-operations-configuration"])
    entry["operate-vnf-op-config"]["day1-2"][0]["id"] = "vm"
    made.put("df/0/lcm-operations-configuration", entry)
    known.vnfds.clear()
    known.add(made.package())
    document = copy.deepcopy(PARAMS)
    own = [{"vdu_id": "vm", "additionalParams": {"name": "a"}}]
    document["additionalParamsForVnf"][0]["additionalParamsForVdu"] = own
    problems = validate_params("ns", document, known)
    assert [problem.code for problem in problems] == ["params-missing"]
    own[0]["additionalParams"]["port"] = 1
    assert validate_params("ns", document, known) == []


@pytest.mark.parametrize("document", [None, [], "x", 1])
def test_parameters_that_are_no_mapping(document):
    assert [p.code for p in validate_params("ns", document, catalog())] == ["params-form"]


def test_parameters_that_contain_themselves():
    document = {"additionalParamsForNs": {}}
    document["additionalParamsForNs"]["again"] = document
    assert [p.code for p in validate_params("ns", document, catalog())] == ["params-form"]


def slice_catalog():
    known = catalog()
    return Catalog(
        vnfds=known.vnfds,
        nsds=known.nsds,
        packages=known.packages,
        nsts={"gate_slice": copy.deepcopy(NST["nst"][0])},
    )


def test_parameters_of_a_slice_are_those_of_its_services():
    own = copy.deepcopy(PARAMS)
    del own["vld"][0]["ip-profile"]
    document = {"netslice-subnet": [{"id": name, **own} for name in ("core", "edge")]}
    assert validate_params("nsi", document, slice_catalog()) == []
    document["netslice-subnet"][1]["additionalParamsForVnf"] = []
    document["netslice-subnet"].append({"id": "x"})
    document["netslice-vld"] = [{"name": "x"}]
    problems = {(p.code, p.severity) for p in validate_params("nsi", document, slice_catalog())}
    assert problems == {
        ("params-missing", "refused"),
        ("params-cloud-init", "silent"),
        ("params-nss", "refused"),
        ("params-nsi-vld", "silent"),
    }


def test_a_second_entry_of_a_service_in_a_slice_is_told():
    own = copy.deepcopy(PARAMS)
    del own["vld"][0]["ip-profile"]
    document = {"netslice-subnet": [{"id": name, **own} for name in ("core", "edge", "core")]}
    (found,) = validate_params("nsi", document, slice_catalog())
    assert (found.code, found.path) == ("params-twice", "parameters: netslice-subnet[2]/id")


def test_what_lcm_drops_of_a_link_in_a_slice_is_told():
    services = [{"id": name, **copy.deepcopy(PARAMS)} for name in ("core", "edge")]
    document = {"netslice-subnet": services}
    known = slice_catalog()
    # The link "data" has an end of the slice's link; without it OSM forgets the subnet.
    assert validate_params("nsi", document, known) == []
    known.nsts["gate_slice"]["netslice-subnet"].pop()
    services.pop()
    del known.nsts["gate_slice"]["netslice-vld"]
    problems = [p for p in validate_params("nsi", document, known) if p.code == "params-nss-vld"]
    (problem,) = problems
    assert "ip-profile of link 'data'" in problem.sentence


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ((82, 0), None),
        ((82, 82), None),
        ((9, 82), "params-five-qi"),
        ((0, 0), "params-five-qi-unused"),
        ((-1, 0), "params-five-qi-unused"),
        (("-1", "0"), "params-five-qi-unused"),
    ],
)
def test_vnfs_enforce_the_5qi_of_their_template(given, code):
    made = vnf()
    place = f"{ENTRY}/0/initial-config-primitive/1/parameter/0"
    made.put(f"{place}/name", "five-qi")
    made.put(f"{place}/value", "<s1u_five_qi>")
    known = slice_catalog()
    known.vnfds.clear()
    known.add(made.package())
    known.packages.clear()  # The charm of this VNF has another action.
    known.nsts["gate_slice"]["quality-of-service"] = {"id": 82}
    own = copy.deepcopy(PARAMS)
    del own["vld"][0]["ip-profile"]
    for entry, value in zip(own["additionalParamsForVnf"], given, strict=True):
        entry["additionalParams"]["s1u_five_qi"] = value
    document = {"netslice-subnet": [{"id": name, **own} for name in ("core", "edge")]}
    problems = {p.code for p in validate_params("nsi", document, known)}
    assert problems - {"params-value"} == ({code} if code else set())


@pytest.mark.parametrize(
    ("params", "address", "gateway"),
    [
        ({"enabled": False}, "10.0.0.1", None),
        ({}, "10.0.0.1", None),
        ({"enabled": True}, "10.0.0.3", None),
        ({"enabled": True, "start-address": "10.0.0.9", "count": 20}, "10.0.0.1", None),
        ({"enabled": True, "start-address": "10.0.0.9", "count": 1}, "10.0.0.10", "10.0.0.1"),
    ],
)
def test_addresses_that_dhcp_does_not_take(params, address, gateway):
    document = copy.deepcopy(PARAMS)
    dhcp(document, params, address)
    if gateway:
        document["vld"][0]["ip-profile"]["gateway-address"] = gateway
    assert validate_params("ns", document, catalog()) == []


def test_dhcp_takes_the_address_after_a_gateway_that_is_the_first():
    document = copy.deepcopy(PARAMS)
    dhcp(document, {"enabled": True}, "10.0.0.3")
    document["vld"][0]["ip-profile"]["gateway-address"] = "10.0.0.1"
    assert [p.code for p in validate_params("ns", document, catalog())] == ["params-dhcp"]


@pytest.mark.parametrize(
    ("cidr", "address", "dhcp_on", "problems"),
    [
        ("10.0.0.0/24", "10.0.0.1", True, ["params-dhcp"]),
        ("10.0.0.0/24", "10.0.0.1", False, []),
        ("fd00::/64", "fd00::1", True, ["params-dhcp"]),
        ("fd00::/64", "fd00::9", True, []),
    ],
)
def test_dhcp_of_the_nsd_counts_where_no_ip_profile_is_given(cidr, address, dhcp_on, problems):
    known = catalog()
    layer3 = {"cidr": cidr, "dhcp-enabled": dhcp_on}
    profile = {"id": "data", "virtual-link-desc-id": "data"}
    profile["virtual-link-protocol-data"] = {"l3-protocol-data": layer3}
    (nsd,) = known.nsds.values()
    nsd["df"][0]["virtual-link-profile"] = [profile]
    document = copy.deepcopy(PARAMS)
    del document["vld"][0]["ip-profile"]
    document["vld"][0]["vnfd-connection-point-ref"][0]["ip-address"] = address
    del document["vnf"]
    del nsd["df"][0]["vnf-profile"][0]["virtual-link-connectivity"][1]["constituent-cpd-id"][0][
        "ip-address"
    ]
    assert [p.code for p in validate_params("ns", document, known)] == problems
    document["vld"][0]["ip-profile"] = {}  # LCM takes it in place of the NSD's.
    (found,) = validate_params("ns", document, known)
    assert found.sentence.startswith("OSM makes link 'data' with any 192.168.x.0/24")
    del document["vld"][0]["ip-profile"]
    document["vld"][0]["vim-network-name"] = "there"
    assert validate_params("ns", document, known) == []


def test_a_shared_service_needs_no_parameters():
    known = slice_catalog()
    for subnet in known.nsts["gate_slice"]["netslice-subnet"]:
        subnet["is-shared-nss"] = True
    assert validate_params("nsi", {}, known) == []


def test_without_the_service_only_the_form_is_looked_at():
    document = copy.deepcopy(PARAMS)
    document["vld"][0]["name"] = "x"
    assert validate_params("ns", document, Catalog()) == []


def test_records_of_a_database_serve_as_catalogue():
    known = catalog()
    records = {"u1": {**known.nsds["gate_ns"], "_id": "u1", "_admin": {"revision": 1}}}
    again = Catalog(vnfds=known.vnfds, nsds=records)
    document = {**copy.deepcopy(PARAMS), "nsdId": "u1"}
    document["vld"][0]["name"] = "x"
    assert [p.code for p in validate_params("ns", document, again)] == ["params-vld"]


ACTIONS = Path(__file__).parents[3] / "charms/common/actions.yaml"
CONFIGURE = yaml.safe_load(ACTIONS.read_text())["configure"]["params"]


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        (
            "inner-address",
            [
                "10.77.0.1/24",
                "fd00::2/64",
                "10.0.0.1/32",
                "10.0.0.0/31",
                "none",
                "pool",
                "pool:ipv4",
                "pool:ipv4+ipv4",
                "pool:ipv4+ipv6",
            ],
            "10.77.0.1 10.77.0.0/24 10.77.0.255/24 10.77.0.1/255.255.255.0 10.77.0.1\uff0f24"
            " 127.0.0.1/8 224.0.0.1/24 0.0.0.0/0 fe80::1/64 ::1/128 169.254.1.1/24 off"
            " 10.77.0.1/24,10.78.0.1/24 10.0.0.1/0 pool: pool:10.77.0.9 pool:ipv6 none:1 auto:",
        ),
        (
            "gateway",
            ["192.0.2.1", "2001:db8::1", "auto", ""],
            "AUTO auto:1 gw.example.com 192.0.2.1:51820 [2001:db8::1] 192.0.2.1/32 none 3232235777",
        ),
        (
            "accept-prefixes",
            ["10.1.0.0/16", "10.1.0.0/16, fd00::/32", "10.1.0.1", "none", ""],
            "10.1.0.1/16 10.1.0.0/16;10.2.0.0/16 0.0.0.0/0 ::/0 none,10.1.0.0/16 all any"
            " 10.0.0.0/7",
        ),
    ],
)
def test_the_validator_refuses_addresses_that_the_charm_would_refuse(name, good, bad):
    schema = _complete("", CONFIGURE[name])
    params = {"link": "s6a", "technology": "ipsec", "inner-address": "10.0.0.1/24"}
    for value in good:
        Intent().configured({**params, name: value})
        assert misfit(value, "STRING", schema) == "", value
    for value in bad.split():
        with pytest.raises(InputError):
            Intent().configured({**params, name: value})
        assert misfit(value, "STRING", schema), value


@pytest.mark.parametrize(
    ("inner", "accepted", "covering"),
    [
        ("10.9.0.1/24", "10.44.0.0/16, 10.9.0.0/16", "10.9.0.0/16"),
        ("10.9.0.1/24", "10.9.0.1", "10.9.0.1/32"),
        ("fd00::1/64", "fd00::/16", "fd00::/16"),
        ("10.9.0.1/24", "10.9.0.2,fd00::/16", ""),
        ("fd00::1/64", "none", ""),
        ("pool", "10.0.0.0/8", ""),
        ("none", "10.0.0.0/8", ""),
    ],
)
@pytest.mark.parametrize("literal", [False, True])
def test_no_peer_may_announce_the_links_own_address(inner, accepted, covering, literal):
    values = {"link": "left", "inner-address": "<inner>", "accept-prefixes": "<accepted>"}
    if literal:
        values["accept-prefixes"] = accepted
    if inner == "pool":
        values["technology"] = "ipsec"
    made = vnf()
    made.put(
        f"{ENTRY}/0/initial-config-primitive/1/parameter",
        [{"name": name, "value": value} for name, value in values.items()],
    )
    known = Catalog()
    known.add(made.package())
    known.add(ns().package())
    document = copy.deepcopy(PARAMS)
    for entry in document["additionalParamsForVnf"]:
        entry["additionalParams"] = {"inner": "none", "accepted": "none", "name": "a"}
    document["additionalParamsForVnf"][1]["additionalParams"].update(inner=inner, accepted=accepted)
    found = validate_params("ns", document, known, "p")
    place = f"p: additionalParamsForVnf[1]/additionalParams/{'inner' if literal else 'accepted'}"
    assert [(p.code, p.path) for p in found] == [("params-value", place)] * bool(covering)
    assert all(p.sentence.startswith(f"{covering} covers ") for p in found)
    params = {"link": "s6a", "technology": "ipsec", "inner-address": inner}
    try:
        Intent().configured({**params, "accept-prefixes": accepted})
        refused = False
    except InputError:
        refused = True
    assert refused is bool(covering)


@pytest.mark.parametrize(
    ("name", "value", "beside", "overlaps"),
    [
        ("inner-address", "10.0.0.200/28", {}, True),
        ("inner-address", "10.0.0.9/32", {"technology": "ipsec"}, True),
        ("inner-address", "10.0.0.9/32", {"technology": "wireguard,left=none"}, False),
        ("inner-address", "10.0.0.9/32", {"ipsec-options": "same-address=yes"}, False),
        ("inner-address", "10.0.1.9/24", {}, False),
        ("inner-address", "fd00::1/64", {}, False),
        ("ue-pool", "10.0.0.0/16", {}, True),
        ("ue-pool", "10.0.0.64/29", {"technology": "none"}, True),
        ("inner-pool", "10.0.0.64/29", {}, True),
        ("dns", "10.0.0.53", {}, True),
        ("second-dns", "10.1.0.53", {}, False),
        ("realm", "10.0.0.53", {}, False),
    ],
)
@pytest.mark.parametrize("named", [False, True])
def test_what_is_in_tunnels_or_of_ues_is_on_no_network_of_the_vdu(
    name, value, beside, overlaps, named
):
    made = vnf()
    given = {"link": "left", **beside, name: "<value>"}
    made.put(
        f"{ENTRY}/0/initial-config-primitive/1/parameter",
        [{"name": key, "value": text} for key, text in given.items()],
    )
    known = Catalog()
    known.add(made.package())
    known.add(ns().package())
    document = copy.deepcopy(PARAMS)
    for entry in document["additionalParamsForVnf"]:
        entry["additionalParams"] = {"value": "none", "name": "a"}
    document["additionalParamsForVnf"][1]["additionalParams"]["value"] = value
    if named:  # A network of the VIM has a subnet that OSM does not make.
        document["vld"][0]["vim-network-name"] = "lan"
    found = [p for p in validate_params("ns", document, known, "p") if "on which" in p.sentence]
    place = "p: additionalParamsForVnf[1]/additionalParams/value"
    assert [(p.code, p.path) for p in found] == [("params-value", place)] * (overlaps and not named)


@pytest.mark.parametrize("form", [None, [], ["any"], [["address"]], 5, [{}], "address", [None, 1]])
def test_a_form_of_a_stranger_is_none(form):
    assert misfit("x", "STRING", {"type": "string", "x-form": form}) == ""
    assert "such as 192.0.2.1, later" in misfit("x", "STRING", {"x-form": ["address", "later"]})
