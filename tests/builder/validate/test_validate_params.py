"""Instantiation parameters: one change, exactly one problem."""

import copy

import pytest
from validate_support import ENTRY, NST, PARAMS, catalog, ns, ns_with_charm, vnf

from builder.validate import CODES, Catalog, validate_params


def edit(path, value=None, delete=False):
    """Return a change of PARAMS at a path such as "vld/0/name"."""

    def change(document):
        node = document
        *parents, last = [int(p) if p.isdigit() else p for p in path.split("/")]
        for part in parents:
            node = node[part]
        if delete:
            del node[last]
        elif last == -1:
            node.append(value)
        else:
            node[last] = copy.deepcopy(value)

    return change


REF = "vld/0/vnfd-connection-point-ref/0"
NIC = "vnf/0/vdu/0/interface/0"
EXTRA = "additionalParamsForVnf/0"


def spread(document, **link):
    """Put member 1 onto another VIM."""
    document["vnf"][0]["vim_account"] = "north"
    document["vld"][0] |= link


CASES = [
    ("unknown-key", "vlds", edit("vlds", [])),
    ("unknown-key", "vnf[0]/vdu[0]/name", edit("vnf/0/vdu/0/name", "x")),
    ("unknown-key", "ip-profile/dns", edit("vld/0/ip-profile/dns", "x")),
    ("missing-key", "vld[0]/name", edit("vld/0/name", delete=True)),
    ("wrong-value", "member-vnf-index", edit("vnf/0/member-vnf-index", 1)),
    ("wrong-value", "vnf", edit("vnf", [])),
    ("wrong-value", "vnf[0]", edit("vnf/0/vdu", delete=True)),
    ("wrong-value", f"{REF.replace('/0', '[0]')}", edit(f"{REF}/ip-address", delete=True)),
    ("wrong-value", "ip-address", edit(f"{REF}/ip-address", "10.0.0.300")),
    ("wrong-value", "subnet-address", edit("vld/0/ip-profile/subnet-address", "10.0.0.0/31")),
    ("wrong-value", "subnet-address", edit("vld/0/ip-profile/subnet-address", "fd00::/64")),
    ("wrong-value", "enabled", edit("vld/0/ip-profile/dhcp-params/enabled", "true")),
    ("wrong-value", "mac-address", edit(f"{NIC}/mac-address", "01:00:00:00:00:01")),
    ("wrong-value", "wimAccountId", edit("vld/0/wimAccountId", 1)),
    ("wrong-value", "vim-network-name", edit("vld/0/vim-network-name", {})),
    ("wrong-value", "additionalParams", edit(f"{EXTRA}/additionalParams", [])),
    ("wrong-value", "config-units", edit(f"{EXTRA}/config-units", 0)),
    ("wrong-value", "config-units", edit("config-units", "2")),
    ("wrong-value", "timeout_ns_deploy", edit("timeout_ns_deploy", "7200")),
    ("wrong-value", "timeout_ns_deploy", edit("timeout_ns_deploy", 7200.0)),
    ("wrong-value", "dhcp-params/count", edit("vld/0/ip-profile/dhcp-params/count", "10")),
    ("params-member", "vnf[0]/member-vnf-index", edit("vnf/0/member-vnf-index", "3")),
    ("params-member-ignored", "member-vnf-index-ref", edit(f"{REF}/member-vnf-index-ref", "3")),
    (
        "params-member-ignored",
        "additionalParamsForVnf[2]/member-vnf-index",
        lambda d: d["additionalParamsForVnf"].append(
            {"member-vnf-index": "3", "additionalParams": {}}
        ),
    ),
    ("params-vld", "vld[0]/name", edit("vld/0/name", "x")),
    ("params-cpd", "vnfd-connection-point-ref", edit(f"{REF}/vnfd-connection-point-ref", "x")),
    ("params-vdu", "vnf[0]/vdu[0]/id", edit("vnf/0/vdu/0/id", "x")),
    (
        "params-vdu-unknown",
        "additionalParamsForVdu[0]/vdu_id",
        edit(f"{EXTRA}/additionalParamsForVdu", [{"vdu_id": "x", "additionalParams": {}}]),
    ),
    ("params-key", "additionalParams", edit(f"{EXTRA}/additionalParams/a-b", 1)),
    (
        "params-key",
        "additionalParamsForVdu[0]/additionalParams",
        edit(
            f"{EXTRA}/additionalParamsForVdu",
            [{"vdu_id": "vm", "additionalParams": {"name": "a", "1b": 1}}],
        ),
    ),
    (
        "params-missing",
        "additionalParamsForVnf[1]",
        edit(f"{EXTRA}/additionalParams/port", delete=True),
    ),
    (
        "params-cloud-init",
        "additionalParamsForVnf[1]",
        edit(f"{EXTRA}/additionalParams/name", delete=True),
    ),
    (
        "params-cloud-init",
        "additionalParamsForVnf[1]",
        edit(f"{EXTRA}/additionalParamsForVdu", [{"vdu_id": "vm", "additionalParams": {"a": 1}}]),
    ),
    (
        "params-vim-network",
        "vld[0]",
        lambda d: spread(d, wimAccountId=False),
    ),
    (
        "params-vim-subnet",
        "vld[0]",
        lambda d: (
            d["vld"][0].pop("vnfd-connection-point-ref"),
            spread(d),
            d["vnf"].append({"member-vnf-index": "2", "vim_account": "north"}),
        ),
    ),
    (
        "params-wim",
        "vld[0]",
        lambda d: spread(d, **{"vim-network-name": {"north": "a", "south": "b"}}),
    ),
    ("params-floating-ip", "floating-ip-required", edit(f"{NIC}/floating-ip-required", True)),
    (
        "params-flavor",
        "vnf[0]/vdu[0]",
        lambda d: d["vnf"][0]["vdu"][0].update({"vim-flavor-id": "a", "vim-flavor-name": "b"}),
    ),
    ("params-interface", "interface[0]/name", edit(f"{NIC}/name", "x")),
    (
        "params-interface-ignored",
        "interface[1]/name",
        lambda d: d["vnf"][0]["vdu"][0]["interface"].append({"name": "x"}),
    ),
    (
        "params-internal-vld",
        "internal-vld[0]/name",
        edit("vnf/0/internal-vld", [{"name": "x", "vim-network-name": "n"}]),
    ),
    (
        "params-address",
        f"{REF.replace('/0', '[0]')}/ip-address",
        edit(f"{REF}/ip-address", "10.1.0.2"),
    ),
    (
        "params-address",
        "vnfd-connection-point-ref[1]/ip-address",
        lambda d: d["vld"][0]["vnfd-connection-point-ref"].append(
            {
                "member-vnf-index-ref": "1",
                "vnfd-connection-point-ref": "data-ext",
                "ip-address": "10.0.0.2",
            }
        ),
    ),
    (
        "params-address",
        f"{REF.replace('/0', '[0]')}/ip-address",
        edit(f"{REF}/ip-address", "10.0.0.255"),
    ),
    ("params-twice", "vld[1]/name", lambda d: d["vld"].append({"name": d["vld"][0]["name"]})),
    (
        "params-twice",
        "additionalParamsForVnf[2]/member-vnf-index",
        lambda d: d["additionalParamsForVnf"].append(dict(d["additionalParamsForVnf"][0])),
    ),
    ("params-value", "additionalParams/port", edit(f"{EXTRA}/additionalParams/port", "many")),
    ("params-value", "additionalParams/port", edit(f"{EXTRA}/additionalParams/port", 65536)),
    ("params-value", "additionalParams/port", edit(f"{EXTRA}/additionalParams/port", [1])),
    ("params-key", "additionalParamsForNs", edit("additionalParamsForNs", {"a-b": 1})),
]


@pytest.mark.parametrize(
    ("code", "place", "change"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)]
)
def test_one_change_gives_exactly_one_problem(code, place, change):
    document = copy.deepcopy(PARAMS)
    change(document)
    problems = validate_params("ns", document, catalog(), "params.yaml")
    assert [problem.code for problem in problems] == [code], problems
    assert problems[0].path.startswith("params.yaml: ")
    assert problems[0].path.endswith(place)
    assert problems[0].severity == CODES[code].severity
    assert bool(problems[0].osm_message) == (problems[0].severity == "refused")


SOUTH = "6d1f8a2e-0000-4000-8000-000000000001"
OTHER = "6d1f8a2e-0000-4000-8000-000000000002"


@pytest.mark.parametrize(
    ("default", "networks", "missing"),
    [
        (None, {"north": "a"}, "the default VIM"),
        (None, {"south": "a"}, "north"),
        (None, {"north": "a", "south": "b"}, None),
        ("south", {"north": "a", "south": "b"}, None),
        ("south", {"north": "a"}, "south"),
        ("south", {"north": "a", "east": "b"}, "south"),
        ("south", {"typo": "a"}, "north, south"),
        ("north", {"north": "a"}, None),
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


def test_a_slice_names_vims_by_uuid():
    document = {
        "netslice-subnet": [{"id": "a", "vnf": [{"member-vnf-index": "1", "vim_account": "x"}]}]
    }
    problems = validate_params("nsi", document, catalog(), "p")
    assert [(p.code, p.path) for p in problems] == [
        ("params-nsi-vim", "p: netslice-subnet[0]/vnf[0]/vim_account")
    ]


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
