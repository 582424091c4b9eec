"""Every rule: one small change, exactly one problem."""

import copy

import pytest
from support.validating import validate_package
from validate_cases import CASES, member, put
from validate_support import CODES, ENTRY, File, catalog, ns, problems, vnf


def sentence_is_good(sentence):
    assert sentence == " ".join(sentence.split())
    assert 10 < len(sentence) < 600
    assert not sentence.endswith(".")
    return True


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_one_change_gives_exactly_one_problem(case, tmp_path):
    reported = problems(case.package(), tmp_path)
    assert [problem.code for problem in reported] == [case.code], reported
    problem = reported[0]
    assert problem.path.endswith(case.at)
    assert problem.path.startswith("gate.tar.gz: ")
    assert problem.severity == CODES[case.code]
    assert case.osm in problem.osm_message
    assert sentence_is_good(problem.sentence)
    # What OSM says it says only where it refuses.
    assert not problem.osm_message or problem.severity == "refused"


@pytest.mark.parametrize(
    ("kind", "place", "given", "code"),
    [
        ("initial-", "/value", ("INTEGER", "abc"), "action-value"),
        ("", "", ("STRING", ""), "default-empty"),
        ("", "/default-value", ("INTEGER", "x"), "action-value"),
        ("", "/default-value", ("BOOLEAN", "no"), "boolean-text"),
        ("", "/default-value", ("BOOLEAN", "true"), None),
    ],
)
def test_parameters_of_a_helm_chart_are_checked(kind, place, given, code, tmp_path):
    made = vnf()
    environment = made.body["df"][0]["lcm-operations-configuration"]["operate-vnf-op-config"]
    environment = environment["day1-2"][0]["execution-environment-list"][0]
    environment["helm-chart"] = environment.pop("juju")["charm"]
    made.files["helm-charts/gate/Chart.yaml"] = File("name: gate\n")
    key = "value" if kind else "default-value"
    parameter = {"name": "p", "data-type": given[0], key: given[1]}
    primitive = {"name": "go", "execution-environment-ref": "ee", "parameter": [parameter]}
    made.add(f"{ENTRY}/0/{kind}config-primitive", primitive | ({"seq": 3} if kind else {}))
    reported = problems(made, tmp_path)
    assert [problem.code for problem in reported] == [code] * bool(code)
    assert all(problem.path.endswith(f"parameter[0]{place}") for problem in reported)


def test_a_number_as_member_shows_in_any_envelope(tmp_path):
    for keys in (("nsd",), ("nsd", "nsd"), ("etsi-nfv-nsd:nsd", "nsd")):
        made = ns()
        made.put("df/0/vnf-profile/0/id", 1)
        body = [made.body] if len(keys) > 1 else made.body
        for key in reversed(keys):
            body = {key: body}
        made.document = body
        assert [problem.code for problem in problems(made, tmp_path)] == ["member-number"]


def entry_of(name):
    """Return a day1-2 entry with the charm of the good package."""
    environment = {"id": "ee", "external-connection-point-ref": "mgmt-ext"}
    return {"id": name, "execution-environment-list": [{**environment, "juju": {"charm": "gate"}}]}


@pytest.mark.parametrize(
    ("ids", "count"), [(("node", "edge"), 0), (("node-number-1", "node-number-2"), 1)]
)
def test_charms_of_the_vdus_of_one_vnf_have_names_of_their_own(ids, count, tmp_path):
    made = vnf()
    for name in ids:
        vdu = copy.deepcopy(made.body["vdu"][0])
        vdu |= {"id": name, "name": name, "monitoring-parameter": [], "alarm": []}
        made.add("vdu", vdu)
        made.add("df/0/vdu-profile", {"id": name, "min-number-of-instances": 1})
        made.add("df/0/instantiation-level/0/vdu-level", {"vdu-id": name, "number-of-instances": 1})
        made.add(ENTRY, entry_of(name))
    made.drop("df/0/scaling-aspect")
    reported = problems(made, tmp_path)
    assert [problem.code for problem in reported] == ["app-name"] * count
    assert all("'node-number-1/ee' and 'node-number-2/ee'" in p.sentence for p in reported)


def test_charms_of_vdus_have_names_of_their_own(tmp_path):
    """Two members whose VNFD has its charm at a VDU, as cells have."""
    known, service = catalog(), ns()
    operations = known.vnfds["gate_vnf"]["df"][0]["lcm-operations-configuration"]
    operations["operate-vnf-op-config"]["day1-2"][0]["id"] = "vm"
    for number, name in enumerate(("gate-number-1", "gate-number-2")):
        for edit in (put(f"df/0/vnf-profile/{number}/id", name), *member(number, name)):
            edit(service)
    service.drop("ns-configuration")
    (problem,) = validate_package(service.tar(tmp_path / "gate.tar.gz"), known)
    assert problem.code == "app-name"


def nics(draft, *named):
    """Give the VDU NICs of (name, position), the first of which is that of management."""
    for number, (name, position) in enumerate(named):
        nic = {"name": name} | ({} if position is None else {"position": position})
        draft.put(f"vdu/0/int-cpd/{number}/virtual-network-interface-requirement", [nic])
    return draft


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ([("ens3", 2), ("ens4", 1), ("ens5", 3)], "ens4 is ens3 there, ens3 is ens4 there"),
        ([("eth1", None), ("eth0", None), ("eth2", None)], "in the order eth1, eth0, eth2"),
        ([("enp2s0", 1), ("enp1s0", 2), ("enp10s0", 3)], "enp2s0, enp1s0, enp10s0"),
        ([("ens9", 1), ("ens10", 2), ("ens11", 3)], ""),
        ([("eth0", 1), ("eth1", 2), ("lan", 3)], ""),
        ([("mgmtVM-eth0", 1), ("dataVM-xe0", 2), ("x", 3)], ""),
    ],
)
def test_nics_come_in_the_order_of_their_positions(named, words, tmp_path):
    found = problems(nics(vnf(), *named), tmp_path)
    assert [p.code for p in found] == ["nic-order"] * bool(words)
    assert all(words in p.sentence for p in found)


OWN, LINUX = ("mgmtVM-eth0", "dataVM-xe0", "more"), ("ens3", "ens4", "ens5")


@pytest.mark.parametrize(
    ("names", "positions", "interface", "says"),
    [
        (OWN, (2, 1, 3), "ens4", "over the management network"),
        (OWN, (1, 2, 3), "ens4", ""),
        (OWN, (2, 1, 3), "ens3", ""),
        (OWN, (1, 2, 3), "ens6", "ens6 would be NIC number 4 of VDU"),
        (LINUX, (1, 2, 3), "ens5", ""),
        (LINUX, (1, 2, 3), "ens6", "ens6 would be NIC number 4 of VDU"),
    ],
)
def test_an_underlay_that_is_not_the_links_network(names, positions, interface, says, tmp_path):
    made = nics(vnf(), *zip(names, positions, strict=True))
    made.charm("actions.yaml", "quick:", "underlay-interface: {type: string}\n    quick:")
    parameter = {"name": "underlay-interface", "value": interface}
    made.add(f"{ENTRY}/0/initial-config-primitive/1/parameter", parameter)
    found = problems(made, tmp_path)
    assert [p.code for p in found] == ["nic-order"] * bool(says)
    assert all(says in p.sentence for p in found)


def test_no_tunnel_runs_over_the_loopback(tmp_path):
    made = vnf()
    made.charm("actions.yaml", "quick:", "underlay-interface: {type: string}\n    quick:")
    parameter = {"name": "underlay-interface", "value": "lo"}
    made.add(f"{ENTRY}/0/initial-config-primitive/1/parameter", parameter)
    (problem,) = problems(made, tmp_path)
    assert (problem.code, "over 'lo'" in problem.sentence) == ("action-value", True)


def test_each_execution_environment_may_take_the_management_address_first(tmp_path):
    made = vnf()
    second = {"id": "other", "external-connection-point-ref": "mgmt-ext", "juju": {"charm": "gate"}}
    made.add(f"{ENTRY}/0/execution-environment-list", second)
    config = {
        "seq": 3,
        "name": "config",
        "execution-environment-ref": "other",
        "parameter": [{"name": "ssh-hostname", "value": "<rw_mgmt_ip>"}],
    }
    made.add(f"{ENTRY}/0/initial-config-primitive", config)
    assert problems(made, tmp_path) == []
    made.add(f"{ENTRY}/0/initial-config-primitive", {**config, "seq": 4})
    (problem,) = problems(made, tmp_path)
    assert problem.path.endswith("initial-config-primitive[3]/parameter[0]/value")


@pytest.mark.parametrize(
    ("layer", "place"),
    [
        ({"ip-version": "ipv6", "cidr": "10.0.0.0/24"}, "/ip-version"),
        ({"cidr": "10.1.0.0/24"}, "/ip-address"),
        ({"cidr": "10.0.0.1/32"}, None),
        ({"cidr": "fd00::/64"}, "/ip-address"),
        ({"cidr": "10.0.0.0/24", "gateway-ip": "192.168.9.1"}, "/gateway-ip"),
        ({"cidr": "10.0.0.0/24", "gateway-ip": "fd00::1"}, "/gateway-ip"),
        ({"ip-version": "ipv4", "cidr": "10.0.0.0/24", "gateway-ip": "10.0.0.9"}, None),
        ({"gateway-ip": "192.168.8.1"}, None),
    ],
)
def test_a_subnet_and_what_stands_beside_it(layer, place, tmp_path):
    made = ns()
    profile = {"id": "data", "virtual-link-desc-id": "data"}
    profile["virtual-link-protocol-data"] = {"l3-protocol-data": layer}
    made.put("df/0/virtual-link-profile", [profile])
    found = problems(made, tmp_path)
    assert [p.code for p in found] == ["link-cidr"] * bool(place)
    assert all(p.path.endswith(place) for p in found)


def test_a_vnf_may_have_two_interfaces_on_one_virtual_link(tmp_path):
    made = ns()
    made.put("df/0/vnf-profile/0/virtual-link-connectivity/0/virtual-link-profile-id", "data")
    assert problems(made, tmp_path) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("metadata.yaml", "left: {interface: link}", "left: 5", "left: must be a mapping"),
        ("metadata.yaml", "[bionic, focal]", "bionic", "series: must be a list"),
        ("actions.yaml", "status: {}", "status: 5", "status: must be a mapping"),
        ("actions.yaml", "{type: number}", "{$ref: x}", "$ref and $schema are not allowed by Juju"),
        ("config.yaml", "options:", "options: 5\nx:", "options: must be a mapping"),
    ],
)
def test_a_wrong_file_of_a_charm_is_told_in_words_of_yaml(file, old, new, says, tmp_path):
    made = vnf()
    made.charm(file, old, new)
    (problem,) = [p for p in problems(made, tmp_path) if p.code == "charm-file"]
    assert problem.sentence.endswith(says)


def test_a_huge_value_is_not_shown_as_a_whole(tmp_path):
    made = ns()
    made.put("vnfd-id/0", "a" * 70000)
    found = problems(made, tmp_path)
    assert {"vnfd-unknown", "vnfd-reference"} <= {problem.code for problem in found}
    for problem in found:
        assert len(problem.sentence) + len(problem.osm_message) < 4000
        assert "; allowed: " in problem.sentence
