import copy
import ipaddress
import re
from functools import cache

import pytest
import yaml

from builder import charms, packages
from builder.documents import read
from builder.errors import BuildError
from builder.parameters import variants
from builder.tree import Tree

pytestmark = pytest.mark.slow

SUPPLIED_BY_OSM = {"rw_mgmt_ip"}
RESOURCES = {  # vCPU, GiB, GB
    "hss_vnf": (4, 8, 20),
    "mme_vnf": (2, 4, 20),
    "spgwc_vnf": (3, 4, 30),
    "spgwu_vnf": (1, 3, 20),
    "enb_vnf": (4, 8, 20),
    "ue_vnf": (4, 8, 20),
    "vpn_endpoint_vnf": (1, 1, 10),
}


def day_1_2(document):
    """The only day1-2 entry of a VNFD."""
    operations = document["vnfd"]["df"][0]["lcm-operations-configuration"]
    (entry,) = operations["operate-vnf-op-config"]["day1-2"]
    return entry


def resources(document):
    (compute,) = document["vnfd"]["virtual-compute-desc"]
    (storage,) = document["vnfd"]["virtual-storage-desc"]
    return (
        compute["virtual-cpu"]["num-virtual-cpu"],
        compute["virtual-memory"]["size"],
        storage["size-of-storage"],
    )


def network_services(documents):
    return {n: d["nsd"]["nsd"][0] for n, d in documents.items() if "nsd" in d}


def wanted(step):
    matched = [re.fullmatch("<(.+)>", p["value"]) for p in step["parameter"]]
    return {match[1] for match in matched if match}


@cache
def parameter_files(dist):
    return {path.stem: read(path) for path in (dist / "params").iterdir()}


def files_of(service, dist):
    base = service.removesuffix("_double").removesuffix("_ns")
    match = {n: d for n, d in parameter_files(dist).items() if re.fullmatch(f"{base}(_.+)?", n)}
    if base == "epc":
        others = ("epc_ue", "epc_secgw")
        match = {name: d for name, d in match.items() if not name.startswith(others)}
    if base == "epc_secgw":
        match = {name: d for name, d in match.items() if name == base}
    assert match
    return match


def test_a_vnfd_is_the_same_in_every_release_because_osm_refuses_another_version(tree, monkeypatch):
    monkeypatch.setattr(Tree, "version", "9.9.9")
    made = packages.catalogue(tree).values()
    kinds = {package.kind for package in made if "9.9.9" in str(package.descriptor)}
    assert kinds == {"ns"}
    assert {p.descriptor["vnfd"]["version"] for p in made if p.kind == "vnf"} == {"1.0"}


def test_layout_is_what_osm_reads(unpacked, documents):
    for name, folder in unpacked.items():
        (descriptor,) = [p for p in folder.iterdir() if p.suffix in (".yaml", ".yml", ".json")]
        document = documents[name]
        assert descriptor.name.endswith(("nfd.yaml", "nsd.yaml", "nst.yaml"))
        if "vnfd" in document:
            entry = day_1_2(document)
            (environment,) = entry["execution-environment-list"]
            assert (folder / "charms" / environment["juju"]["charm"] / "dispatch").is_file()
            for vdu in document["vnfd"]["vdu"]:
                assert (folder / "cloud_init" / vdu["cloud-init-file"]).is_file()
                assert vdu["id"] == vdu["name"]  # heal looks one up by the other


@pytest.mark.parametrize("name", sorted(RESOURCES))
def test_resources(documents, name):
    assert resources(documents[name]) == RESOURCES[name]


def test_double_is_the_same_with_twice_the_compute(documents):
    for name in ("hss_vnf", "mme_vnf", "spgwc_vnf", "spgwu_vnf", "enb_vnf"):
        cpu, memory, storage = RESOURCES[name]
        double = documents[f"{name}_double"]
        assert resources(double) == (2 * cpu, 2 * memory, storage)
        assert double["vnfd"]["id"] == f"{name}_double"
        # LCM looks for the day1-2 entry whose id is that of the VNFD, and for no other.
        assert day_1_2(double)["id"] == f"{name}_double"


def test_guarded_packages_have_port_security_where_only_tunnels_are(documents):
    def off(name):
        cpds = [cpd for vdu in documents[name]["vnfd"]["vdu"] for cpd in vdu["int-cpd"]]
        return [c["id"] for c in cpds if c.get("port-security-enabled") is False]

    for name in ("vpn_endpoint_vnf", "hss_vnf", "mme_vnf", "spgwc_vnf", "enb_vnf"):
        assert off(name) != [] == off(f"{name}_guarded")
    # UEs' packets leave by SGi with their own addresses.
    assert off("spgwu_vnf_guarded") == ["sgi-int"]


def test_what_scales_has_a_charm_for_each_instance_and_room_for_their_addresses(documents, dist):
    """A charm of the VNF would be deployed again for each, and be pointed at the first one."""
    scaling = {}
    for name, document in documents.items():
        for flavour in document.get("vnfd", {}).get("df", ()):
            for aspect in flavour.get("scaling-aspect", ()):
                assert aspect["id"] == aspect["name"]
                (delta,) = aspect["aspect-delta-details"]["deltas"]
                (step,) = delta["vdu-delta"]
                assert step["id"] == day_1_2(document)["id"]
                (profile,) = flavour["vdu-profile"]
                scaling[name] = profile["max-number-of-instances"]
                assert aspect["max-scale-level"] == scaling[name] - 1
    assert scaling == {"cell_vnf": 16}
    for service in network_services(documents).values():
        members = {p["id"]: p["vnfd-id"] for p in service["df"][0]["vnf-profile"]}
        if not set(members.values()) & set(scaling):
            continue
        for params in files_of(service["id"], dist).values():
            for link in params["vld"]:
                fixed = {
                    p["member-vnf-index-ref"]: ipaddress.ip_address(p["ip-address"])
                    for p in link.get("vnfd-connection-point-ref", ())
                }
                if not set(fixed) <= set(members):
                    break  # another service's parameters
                for index, address in fixed.items():
                    used = {address + n for n in range(1, scaling.get(members[index], 1))}
                    assert not used & set(fixed.values()), (service["id"], index)


def test_services_name_packages_connection_points_and_endpoints_that_exist(documents, tree):
    for service in network_services(documents).values():
        profiles = service["df"][0]["vnf-profile"]
        assert set(service["vnfd-id"]) == {profile["vnfd-id"] for profile in profiles}
        networks = {link["id"] for link in service["virtual-link-desc"]}
        ends = {}
        for profile in profiles:
            vnfd = documents[profile["vnfd-id"]]["vnfd"]
            points = {point["id"] for point in vnfd["ext-cpd"]}
            used = set()
            for connection in profile["virtual-link-connectivity"]:
                assert connection["virtual-link-profile-id"] in networks
                (point,) = connection["constituent-cpd-id"]
                assert point["constituent-base-element-id"] == profile["id"]
                used.add(point["constituent-cpd-id"])
            assert used == points
            entry = day_1_2({"vnfd": vnfd})
            (environment,) = entry["execution-environment-list"]
            vdu = None if entry["id"] == vnfd["id"] else entry["id"]
            ends[profile["id"]] = (environment["id"], environment["juju"]["charm"], vdu)
        for relation in service.get("ns-configuration", {}).get("relation", ()):
            for role in ("provider", "requirer"):
                end = relation[role]
                reference, charm, vdu = ends[end["vnf-profile-id"]]
                # Without it LCM looks for a charm of the VNF, and counts the relation as added.
                assert end.get("vdu-profile-id") == vdu
                assert end["execution-environment-ref"] == reference
                side = {"provider": "provides", "requirer": "requires"}[role]
                assert end["endpoint"] in charms.load(tree, charm).metadata[side]


def test_subnets_of_a_service_are_those_of_its_parameters(documents, dist):
    """In a slice OSM drops the subnets of the parameters, and those of the NSD count."""
    for name in ("epc_ns", "vpn_basic_ns"):
        profiles = network_services(documents)[name]["df"][0]["virtual-link-profile"]
        result = {
            p["id"]: p["virtual-link-protocol-data"]["l3-protocol-data"]["cidr"] for p in profiles
        }
        links = parameter_files(dist)[name.removesuffix("_ns")]["vld"]
        given = {link["name"]: link["ip-profile"]["subnet-address"] for link in links}
        # Addresses on Uu are the VIM's to choose: parameters say nothing of it.
        assert given == {link: subnet for link, subnet in result.items() if link != "uu"}


def test_no_subnet_of_an_underlay_has_dhcp_that_takes_a_fixed_address(documents, dist):
    profiles = [
        p["virtual-link-protocol-data"]["l3-protocol-data"]
        for service in network_services(documents).values()
        for p in service["df"][0].get("virtual-link-profile", ())
    ]
    assert len(profiles) > 40
    assert {p["dhcp-enabled"] for p in profiles} == {False}
    given = [
        link["ip-profile"]
        for document in parameter_files(dist).values()
        for part in (document, *document.get("netslice-subnet", ()))
        for link in part.get("vld", ())
        if "ip-profile" in link
    ]
    assert len(given) > 100
    assert {profile["dhcp-params"]["enabled"] for profile in given} == {False}


# TS 23.501, table 5.7.4-1: resource type, priority, delay budget (ms), error rate 10^-n, burst (B).
FIVE_QI = {
    6: ("non-GBR", 60, 300, 6, None),
    9: ("non-GBR", 90, 300, 6, None),
    82: ("delay-critical-GBR", 19, 10, 4, 255),
}


def test_quality_of_service_of_the_templates_is_that_of_their_5qi(documents):
    templates = {n: d["nst"][0] for n, d in documents.items() if "nst" in d}
    assert len(templates) == 13
    for name, nst in templates.items():
        qos = nst["quality-of-service"]
        keys = ("resource-type", "priority-level", "packet-delay-budget", "packet-error-rate")
        result = (*(qos[key] for key in keys), qos.get("default-max-data-burst"))
        assert result == FIVE_QI[qos["id"]], name
        assert nst["id"] == nst["name"] == name


def test_slices_that_share_an_hss_differ_on_s6a(dist):
    files = parameter_files(dist)
    cores = [files[f"{n}_shared"]["netslice-subnet"][1] for n in ("embb", "urllc")]
    outer = {c["vld"][0]["vnfd-connection-point-ref"][0]["ip-address"] for c in cores}
    inner = {c["additionalParamsForVnf"][0]["additionalParams"]["s6a_inner_address"] for c in cores}
    assert outer == {"192.168.8.2", "192.168.8.3"}
    assert inner == {"172.16.6.2/24", "172.16.6.3/24"}


def test_slices_take_the_5qi_of_their_template_to_both_ends_of_s1u(dist):
    files = parameter_files(dist)
    for name, five_qi in (("embb", 6), ("urllc", 82), ("mmtc", 9)):
        (core,) = files[name]["netslice-subnet"]
        given = {
            (member["member-vnf-index"], key): value
            for member in core["additionalParamsForVnf"]
            for key, value in member["additionalParams"].items()
            if key.endswith("_five_qi") and value
        }
        assert given == {(end, "s1u_five_qi"): five_qi for end in ("spgwu", "enb")}
    # Outside of a slice nothing is enforced.
    for member in files["epc"]["additionalParamsForVnf"]:
        values = member["additionalParams"]
        assert not any(v for k, v in values.items() if k.endswith(("_five_qi", "_mbps")))


def test_every_link_of_the_core_has_one_relation(documents):
    relations = network_services(documents)["epc_ns"]["ns-configuration"]["relation"]
    assert sorted(relation["name"] for relation in relations) == [
        "s11",
        "s1c",
        "s1u",
        "s6a",
        "sxab",
    ]


def test_initial_primitives_log_in_first_and_then_set_each_link_once(documents, tree):
    for name, document in documents.items():
        if "vnfd" not in document:
            continue
        entry = day_1_2(document)
        steps = list(entry["initial-config-primitive"])
        assert [step["seq"] for step in steps] == list(range(1, len(steps) + 1))
        assert steps[0]["name"] == "config"
        assert {p["data-type"] for p in steps[0]["parameter"]} == {"STRING"}
        charm = charms.load(tree, entry["execution-environment-list"][0]["juju"]["charm"])
        if charm.network_function:
            # Last: it needs the links.
            last = steps.pop()
            assert last["name"] == "configure-nf"
            given = {p["name"]: p["value"] for p in last["parameter"]}
            assert set(given) == set(charm.actions["configure-nf"]["params"]) - {"tun-device"}
            assert all(isinstance(value, str) for value in given.values())
        standby = steps[-1]["name"] == "configure-standby"
        assert standby == (name == "secgw_vnf")
        if standby:
            assert set(charm.actions) >= {steps.pop()["name"]}
        if charm.name == "access":
            last = steps.pop()
            assert last["name"] == "configure-access"
            assert {p["name"]: p["value"] for p in last["parameter"]} == {
                "data-interface": "ens5",
                "data-nat": "<access_data_nat>",
            }
        assert {step["name"] for step in steps[1:]} == ({"configure"} if charm.links else set())
        known = charm.actions["configure"]["params"] if charm.links else {}
        for step in steps:
            for parameter in step["parameter"]:
                # NBI calls startswith() on every value, so a number would be a crash.
                assert isinstance(parameter["value"], str)
        for step in steps[1:]:
            given = {p["name"]: p["value"] for p in step["parameter"]}
            assert set(given) <= set(known)
            assert {"link", "inner-address", "underlay-interface"} <= set(given)
            # Another instance's address could stand there (all instances share the values).
            assert "<rw_mgmt_ip>" not in given.values()
        if name.removesuffix("_guarded") not in ("vpn_endpoint_vnf", "sitegw_vnf"):
            links = [{p["name"]: p["value"] for p in s["parameter"]}["link"] for s in steps[1:]]
            # A gateway, and either box of a small cell, has some links of its charm only.
            some = charm.name in ("secgw", "small-cell")
            assert len(set(links)) == len(links)
            assert set(links) <= set(charm.links) if some else sorted(links) == sorted(charm.links)


GATEWAYS = (
    *("vpn_endpoint_vnf", "secgw_vnf", "cell_vnf", "sitegw_vnf"),
    *("small_cell_gw_vnf", "nr_cell_vnf", "lte_cell_vnf"),
    *("enb_backhaul_vnf", "mme_trusted_vnf", "spgwu_trusted_vnf", "access_vnf"),
)


def test_a_site_gateway_is_named_by_a_parameter_and_its_lan_is_in_clear(documents):
    steps = day_1_2(documents["sitegw_vnf"])["initial-config-primitive"][1:]
    given = [{p["name"]: p["value"] for p in step["parameter"]} for step in steps]
    result = [(each["link"], each["underlay-interface"], each["technology"]) for each in given]
    assert result == [("<site_link>", "ens4", "<vpn_technology>"), ("lan", "ens5", "none")]


def test_underlay_interfaces_are_those_of_the_links(documents):
    for name, document in documents.items():
        # Here a link's name is a parameter, or several links share an interface.
        if "vnfd" not in document or name.removesuffix("_guarded") in GATEWAYS:
            continue
        (vdu,) = document["vnfd"]["vdu"]
        interfaces = {
            point["id"].removesuffix("-int"): point["virtual-network-interface-requirement"][0]
            for point in vdu["int-cpd"]
        }
        positions = sorted(card["position"] for card in interfaces.values())
        assert positions == list(range(1, len(positions) + 1))
        for card in interfaces.values():
            assert card["name"] == f"ens{card['position'] + 2}"
        for step in day_1_2(document)["initial-config-primitive"][1:]:
            given = {p["name"]: p["value"] for p in step["parameter"]}
            if step["name"] == "configure-nf":
                assert given.get("sgi-interface") == interfaces.get("sgi", {}).get("name")
                continue
            if step["name"] == "configure-standby":
                continue  # It leaves the interfaces to the charm's defaults, see below.
            assert given["underlay-interface"] == interfaces[given["link"]]["name"]


def test_a_gateway_ends_its_tunnels_on_one_side_and_is_in_clear_on_the_other(documents):
    cards = {"s1c": "ens4", "s1u": "ens4", "trusted": "ens5"}
    steps = day_1_2(documents["secgw_vnf"])["initial-config-primitive"][1:]
    *given, pair = [{p["name"]: p["value"] for p in step["parameter"]} for step in steps]
    assert {each["link"]: each["underlay-interface"] for each in given} == cards
    technologies = {each["link"]: each["technology"] for each in given}
    assert technologies["trusted"] == "none"
    assert technologies["s1c"] == technologies["s1u"] == "<vpn_technology>"
    assert not any("standby-gateways" in each for each in given)
    cell = [
        {p["name"]: p["value"] for p in step["parameter"]}
        for step in day_1_2(documents["cell_vnf"])["initial-config-primitive"][1:]
    ]
    assert {each["standby-gateways"] for each in cell} == {"<vpn_standby_gateways>"}
    assert steps[-1]["name"] == "configure-standby"
    assert pair["role"] == "<standby_role>"
    offered = {p["name"]: p for p in day_1_2(documents["secgw_vnf"])["config-primitive"]}
    defaults = {p["name"]: p["default-value"] for p in offered["configure-standby"]["parameter"]}
    assert defaults["untrusted-interface"] == cards["s1c"]
    assert defaults["trusted-interface"] == cards["trusted"]


def test_day_2_primitives_ask_for_nothing_but_what_the_action_requires(documents, tree):
    kinds = {"integer": "INTEGER", "boolean": "BOOLEAN", "string": "STRING"}
    for document in documents.values():
        if "vnfd" not in document:
            continue
        entry = day_1_2(document)
        charm = charms.load(tree, entry["execution-environment-list"][0]["juju"]["charm"])
        listed = {primitive["name"] for primitive in entry["config-primitive"]}
        assert listed == set(charm.actions) - {"generate-ssh-key", "get-ssh-public-key"}
        for primitive in entry["config-primitive"]:
            action = charm.actions[primitive["name"]]
            parameters = {p["name"]: p for p in primitive.get("parameter", ())}
            offered = action.get("params") or {}
            if primitive["name"] == charms.KEPT:
                # OSM sends a BOOLEAN in any case, so it could not stay as it is.
                offered = {name: p for name, p in offered.items() if p["type"] != "boolean"}
            assert set(parameters) == set(offered)
            for name, parameter in parameters.items():
                schema = action["params"][name]
                assert parameter["data-type"] == kinds[schema["type"]]
                if name in action.get("required", ()):
                    assert "default-value" not in parameter
                else:
                    # OSM ignores `mandatory`; it asks for whatever has no non-empty default.
                    assert parameter["default-value"] != ""
                    assert yaml.safe_load(parameter["default-value"]) == schema["default"]


@pytest.mark.parametrize(
    "service",
    ["epc_ns", "epc_ns_double", "vpn_basic_ns", "secgw_ha_ns", "epc_secgw_ns", "epc_secgw_ha_ns"],
)
def test_parameter_files_supply_what_the_primitives_take_and_no_more(documents, dist, service):
    profiles = network_services(documents)[service]["df"][0]["vnf-profile"]
    for name, document in files_of(service, dist).items():
        given = {
            m["member-vnf-index"]: m["additionalParams"] for m in document["additionalParamsForVnf"]
        }
        assert set(given) == {profile["id"] for profile in profiles}
        for profile in profiles:
            steps = day_1_2(documents[profile["vnfd-id"]])["initial-config-primitive"]
            needed = set().union(*(wanted(step) for step in steps)) - SUPPLIED_BY_OSM
            assert set(given[profile["id"]]) == needed, (name, profile["id"])
            for key in needed:
                assert re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", key)


def test_addresses_fit_their_networks_and_both_ends_of_a_link(documents, dist):
    for service in ("epc_ns", "vpn_basic_ns"):
        nsd = network_services(documents)[service]
        points = {
            (profile["id"], c["constituent-cpd-id"][0]["constituent-cpd-id"]): (
                c["virtual-link-profile-id"]
            )
            for profile in nsd["df"][0]["vnf-profile"]
            for c in profile["virtual-link-connectivity"]
        }
        for document in files_of(service, dist).values():
            used = set()
            for network in document["vld"]:
                if "ip-profile" not in network:
                    continue
                subnet = ipaddress.ip_network(network["ip-profile"]["subnet-address"])
                for point in network["vnfd-connection-point-ref"]:
                    address = ipaddress.ip_address(point["ip-address"])
                    assert address in subnet
                    assert address not in used
                    used.add(address)
                    key = (point["member-vnf-index-ref"], point["vnfd-connection-point-ref"])
                    assert points[key] == network["name"]
            inner = {}
            for member in document["additionalParamsForVnf"]:
                for key, value in member["additionalParams"].items():
                    if key.endswith("_inner_address"):
                        assert ipaddress.ip_interface(value).is_private
                        inner.setdefault(key, []).append(ipaddress.ip_interface(value))
            for ends in inner.values():
                assert len(ends) == 2
                assert ends[0].network == ends[1].network
                assert ends[0].ip != ends[1].ip


def test_novpn_differs_in_the_technology_alone(dist):
    files = parameter_files(dist)
    for base in ("epc", "vpn_basic"):
        expected = copy.deepcopy(files[base])
        for member in expected["additionalParamsForVnf"]:
            member["additionalParams"]["vpn_technology"] = "none"
        assert files[f"{base}_novpn"] == expected


def test_multisite_puts_the_hss_elsewhere_and_asks_for_no_wim(dist):
    document = parameter_files(dist)["epc_multisite"]
    assert document["vnf"] == [{"member-vnf-index": "hss", "vim_account": "site-b"}]
    assert document["wimAccountId"] is False
    (s6a,) = [network for network in document["vld"] if network["name"] == "s6a"]
    assert set(s6a["vim-network-name"]) == {"site-a", "site-b"}
    members = {
        m["member-vnf-index"]: m["additionalParams"] for m in document["additionalParamsForVnf"]
    }
    for member in ("hss", "mme"):
        assert ipaddress.ip_address(members[member]["s6a_gateway"])


def test_files_for_operators_have_no_aliases_of_yaml(dist):
    for path in (dist / "params").iterdir():
        assert not re.search(r"[:-] [&*]\w", path.read_text()), path


@pytest.mark.parametrize(
    ("file", "before", "after", "words"),
    [
        ("ns-packages/variants.yaml", "suffix:", "sufix:", ["ns-packages/variants.yaml", "suffix"]),
        ("ns-packages/variants.yaml", "_double", "/../x", ["ns-packages/variants.yaml", "suffix"]),
        ("ns-packages/variants.yaml", "[epc_ns]", "[epc]", ["no service epc"]),
        (
            "ns-packages/variants.yaml",
            "factor: 2",
            "factor: two",
            ["compute-factor", "whole number"],
        ),
    ],
)
def test_wrong_sources_are_one_sentence(sources, file, before, after, words):
    path = sources.root / file
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    with pytest.raises(BuildError) as caught:
        packages.catalogue(sources)
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("file", "before", "after", "words"),
    [
        ("params/variants.yaml", "of: epc\n", "of: epq\n", ["of: must be one of 5gc, 5gc_n3iwf,"]),
        ("params/variants.yaml", "vpn_technology", "technology", ["no parameter technology"]),
        ("params/slices.yaml", "members: {hss: hss}", "members: {hs: hss}", ["epc has no hs"]),
        ("params/slices.yaml", "s6a_inner_address", "s6a_inner", ["no parameter s6a_inner"]),
        ("params/slices.yaml", "qos: {s1u: {}}", "qos: {sxu: {}}", ["no member has a link sxu"]),
        ("params/slices.yaml", "nst: mmtc_nst", "nst: iot_nst", ["nst: must be one of"]),
        ("params/deployments/epc_multisite.yaml", "hss: home}", "hss: moon}", ["no site"]),
        ("params/variants.yaml", "description:", "descripton:", ["description"]),
        (
            "params/variants.yaml",
            "    gateway:\n",
            "    gate:\n",
            ["members: gate is none of core"],
        ),
        (
            "params/variants.yaml",
            "site_nat",
            "site_snat",
            ["members: nr has no parameter site_snat"],
        ),
        ("params/vpn_basic.yaml", "vld:", "vld: [", ["params/vpn_basic.yaml", "not YAML"]),
        ("params/cores/epc.core.yaml", "links:", "links: [", ["epc.core.yaml", "not YAML"]),
        ("params/cores/epc.core.yaml", 'mnc: "88"', "mnc: 88", ["epc.core.yaml", "network/mnc"]),
        ("params/cores/epc.core.yaml", "epc_oai:", "vpn_basic:", ["a core file makes it as well"]),
        ("params/cores/epc.core.yaml", "epc_oai:", "../oai:", ["epc.core.yaml", "../oai"]),
        (
            "params/cores/epc.core.yaml",
            "      mme: {underlay: 192.168.8.2",
            "      hss: {underlay: 192.168.8.2",
            ["epc.core.yaml", "'hss' stands in line"],
        ),
        (
            "vnf-packages/hss_vnf/hss_vnfd.yaml",
            "  mgmt-cp:",
            "  id: hss_vnf\n  mgmt-cp:",
            ["hss_vnfd.yaml", "'id' stands in line"],
        ),
        (
            "params/vpn_basic.yaml",
            "additionalParamsForVnf:",
            "additionalParamsForVnfs:",
            ["params/vpn_basic.yaml", "additionalParamsForVnf: field required"],
        ),
    ],
)
def test_wrong_parameter_sources_leave_nothing_behind(
    sources, tmp_path, file, before, after, words
):
    path = sources.root / file
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    target = tmp_path / "out"
    with pytest.raises(BuildError) as caught:
        packages.build(sources, target, ["epc_ns"])
    for word in words:
        assert word in str(caught.value)
    assert not target.exists()


def test_an_optional_parameter_without_a_default_is_refused(sources):
    path = sources.common / "actions.yaml"
    text = path.read_text()
    assert "default: any" in text
    path.write_text(text.replace("default: any", 'default: ""'))
    with pytest.raises(BuildError, match=r"action trust-host-key: fingerprint: an optional"):
        packages.catalogue(sources)


def test_a_parameter_with_a_name_only_must_be_a_shared_one(sources):
    path = sources.common / "actions.yaml"
    path.write_text(path.read_text().replace("    fingerprint:", "    finger:\n    fingerprint:"))
    with pytest.raises(BuildError, match=r"charms/common/actions.yaml: finger must be in common"):
        packages.catalogue(sources)


def test_a_missing_cloud_init_file_is_named(sources, tmp_path):
    (sources.root / "vnf-packages/hss_vnf/cloud_init/vnf.yaml").unlink()
    package = packages.catalogue(sources)["hss_vnf"]
    package.descriptor["vnfd"]["df"] = []  # without its charm, so that nothing is downloaded
    with pytest.raises(BuildError, match=r"hss_vnf: cloud_init/vnf.yaml does not exist"):
        packages._build_one(sources, package, tmp_path, "x86_64", "")
    assert not list(tmp_path.glob("*.tar.gz"))


def test_variant_parameters_never_change_the_written_file(tree):
    before = variants.parameter_files(tree)["epc"]
    assert before["additionalParamsForVnf"][0]["additionalParams"]["vpn_technology"] == "wireguard"
    assert "vnf" not in before
