"""Instantiation parameters: one change, exactly one problem."""

import copy

import pytest
from validate_support import PARAMS, catalog, vnf

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
    ("params-member", "vnf[0]/member-vnf-index", edit("vnf/0/member-vnf-index", "3")),
    ("params-member", "member-vnf-index-ref", edit(f"{REF}/member-vnf-index-ref", "3")),
    (
        "params-member",
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
        "params-wim",
        "vld[0]",
        lambda d: spread(d, **{"vim-network-name": {"north": "a", "south": "b"}}),
    ),
    ("params-floating-ip", "floating-ip-required", edit(f"{NIC}/floating-ip-required", True)),
]


@pytest.mark.parametrize(
    ("code", "place", "change"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)]
)
def test_one_change_gives_exactly_one_problem(code, place, change):
    document = copy.deepcopy(PARAMS)
    change(document)
    found = validate_params("ns", document, catalog(), "params.yaml")
    assert [problem.code for problem in found] == [code], found
    assert found[0].path.startswith("params.yaml: ")
    assert found[0].path.endswith(place)
    assert found[0].severity == CODES[code].severity
    assert bool(found[0].osm_message) == (found[0].severity == "refused") or code == "params-key"


def test_nbis_own_words():
    document = copy.deepcopy(PARAMS)
    del document["additionalParamsForVnf"][0]["additionalParams"]["port"]
    found = validate_params("ns", document, catalog())
    assert found[0].osm_message == (
        "Parameter <port> needed for vnfd[id=gate_vnf]:day1-2 "
        "configuration:initial-config-primitive not supplied"
    )


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
    found = validate_params("ns", document, known)
    assert [problem.code for problem in found] == ["params-missing"]
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
    found = validate_params("nsi", document, catalog(), "p")
    assert [(p.code, p.path) for p in found] == [
        ("params-nsi-vim", "p: netslice-subnet[0]/vnf[0]/vim_account")
    ]


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
