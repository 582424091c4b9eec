"""Deployment files: what comes out, and what is refused with a sentence."""

import copy

import pytest
import yaml
from click.testing import CliRunner

from builder import packages
from builder.cli import main
from builder.errors import BuildError
from builder.parameters import placement, variants


@pytest.fixture(scope="module")
def known(tree):
    return packages.catalogue(tree)


@pytest.fixture
def given(tree):
    """A deployment of the core, and a function that makes its parameters."""
    path = tree.root / "params/deployments/epc_multisite.yaml"
    return yaml.safe_load(path.read_text())


@pytest.fixture
def make(tree, known, tmp_path):
    files = variants.parameter_files(tree)

    def run(document):
        path = tmp_path / "d.yaml"
        path.write_text(yaml.safe_dump(document))
        return packages.deployed(path, known, files)

    return run


def test_parameters_have_the_form_osm_takes(given, make, tree):
    document = make(given)
    assert document["vnf"] == [{"member-vnf-index": "hss", "vim_account": "site-b"}]
    assert document["wimAccountId"] is False
    (s6a,) = [link for link in document["vld"] if link["name"] == "s6a"]
    assert s6a == {
        "name": "s6a",
        "vim-network-name": {"site-a": "transit", "site-b": "transit"},
        "vnfd-connection-point-ref": [
            {
                "member-vnf-index-ref": "hss",
                "vnfd-connection-point-ref": "s6a-ext",
                "ip-address": "10.30.0.129",
            },
            {
                "member-vnf-index-ref": "mme",
                "vnfd-connection-point-ref": "s6a-ext",
                "ip-address": "10.20.0.2",
            },
        ],
    }
    values = {
        m["member-vnf-index"]: m["additionalParams"] for m in document["additionalParamsForVnf"]
    }
    assert values["hss"]["s6a_gateway"] == "203.0.113.129"
    assert values["mme"]["s6a_gateway"] == "198.51.100.2"
    # Everything else is as at one site.
    base = variants.parameter_files(tree)["epc"]
    assert [link for link in document["vld"] if link["name"] != "s6a"] == [
        link for link in base["vld"] if link["name"] != "s6a"
    ]
    for member in base["additionalParamsForVnf"]:
        before = dict(member["additionalParams"])
        after = dict(values[member["member-vnf-index"]])
        for params in (before, after):
            params.pop("s6a_gateway", None)
        assert before == after


def test_an_end_without_floating_address_offers_its_own(given, make):
    del given["endpoints"]["s6a"]["mme"]["floating"]
    document = make(given)
    values = {
        m["member-vnf-index"]: m["additionalParams"] for m in document["additionalParamsForVnf"]
    }
    assert (values["mme"]["s6a_gateway"], values["hss"]["s6a_gateway"]) == ("auto", "203.0.113.129")


def test_the_gateway_of_a_link_is_found_by_its_interface(tree, make):
    path = tree.root / "params/deployments/vpn_two_sites.yaml"
    document = make(yaml.safe_load(path.read_text()))
    gateways = [m["additionalParams"]["vpn_gateway"] for m in document["additionalParamsForVnf"]]
    assert gateways == ["198.51.100.11", "203.0.113.12"]


@pytest.fixture
def pair():
    """Both gateways of a pair and the core at another site than the cells."""
    networks = {"backhaul": "transit", "trusted": "trusted-b"}
    return {
        "service": "secgw_ha_ns",
        "parameters": "secgw_ha",
        "sites": {
            "cells": {"vim": "site-a", "networks": {"backhaul": "transit"}},
            "core": {"vim": "site-b", "networks": networks},
        },
        "default": "cells",
        "members": {"gateway1": "core", "gateway2": "core", "core": "core"},
        "endpoints": {"backhaul": {"gateway1": {"floating": "203.0.113.1"}}},
    }


def test_all_links_over_an_interface_get_its_floating_address(pair, make):
    values = {
        m["member-vnf-index"]: m["additionalParams"] for m in make(pair)["additionalParamsForVnf"]
    }
    for link in ("s1c", "s1u"):
        assert values["gateway1"][f"{link}_gateway"] == "203.0.113.1"
        assert values["gateway2"][f"{link}_gateway"] == "auto"


def test_a_gateway_of_the_parameter_file_stays(pair, make, tree):
    base = variants.parameter_files(tree)["secgw_ha"]["additionalParamsForVnf"]
    made = make(pair)["additionalParamsForVnf"]
    shared = [m["additionalParams"].get("trusted_gateway") for m in made]
    assert shared == [m["additionalParams"].get("trusted_gateway") for m in base]
    assert shared.count("192.168.121.254") == 2


ADDRESSES = "vnfd-connection-point-ref"


def test_a_link_at_another_site_uses_a_network_that_is_there(tree, make):
    path = tree.root / "params/deployments/epc_edge.yaml"
    given = yaml.safe_load(path.read_text())
    base = {link["name"]: link for link in variants.parameter_files(tree)["epc"]["vld"]}
    links = {link["name"]: link for link in make(given)["vld"]}
    for name, network in (("s1u", "edge-s1u"), ("sgi", "edge-sgi"), ("uu", "edge-uu")):
        assert links[name] == {
            "name": name,
            "vim-network-name": {"site-b": network},
            **{key: value for key, value in base.get(name, {}).items() if key == ADDRESSES},
        }
    assert links["s11"] == base["s11"]
    given["endpoints"]["s1u"] = {"enb": {"address": "192.168.9.77"}}
    (s1u,) = [link for link in make(given)["vld"] if link["name"] == "s1u"]
    ends = {p["member-vnf-index-ref"]: p["ip-address"] for p in s1u["vnfd-connection-point-ref"]}
    assert ends == {"spgwu": "192.168.9.159", "enb": "192.168.9.77"}
    del given["sites"]["edge"]["networks"]["s1u"]
    with pytest.raises(BuildError, match="link s1u is not at the default site core"):
        make(given)


def test_a_link_without_vpn_crosses_as_well(tree, known):
    """SGi has no tunnel and so no gateway; its networks are told all the same."""
    nsd = copy.deepcopy(known["epc_ns"].descriptor["nsd"]["nsd"][0])
    profiles = {p["id"]: p for p in nsd["df"][0]["vnf-profile"]}
    sgi = profiles["spgwu"]["virtual-link-connectivity"][-1]
    assert sgi["virtual-link-profile-id"] == "sgi"
    vnfds = {n: p.descriptor["vnfd"] for n, p in known.items() if p.kind == "vnf"}
    assert placement._gateway_parameters(vnfds["spgwu_vnf"], "sgi-ext") == []
    assert placement._gateway_parameters(vnfds["spgwu_vnf"], "s1u-ext") == ["s1u_gateway"]


def test_the_gateway_of_a_vlan_is_that_of_its_interface(known):
    vnfd = copy.deepcopy(known["spgwu_vnf"].descriptor["vnfd"])
    operations = vnfd["df"][0]["lcm-operations-configuration"]["operate-vnf-op-config"]
    for step in operations["day1-2"][0]["initial-config-primitive"]:
        for given in step["parameter"]:
            if given["name"] == "underlay-interface":
                given["value"] += ".100"
    assert placement._gateway_parameters(vnfd, "s1u-ext") == ["s1u_gateway"]
    assert placement._gateway_parameters(vnfd, "sgi-ext") == []


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("default", "moon", "moon is no site; allowed: core, home"),
        ("members", {"hss": "moon"}, "moon is no site"),
        ("members", {"hsm": "home"}, "hsm is no member of epc_ns; allowed: enb, hss"),
        ("service", "x_ns", "no service x_ns"),
        ("service", "hss_vnf", "no service hss_vnf"),
        ("parameters", "embb", "no parameters of a service embb"),
        ("endpoints/s11", {"mme": {}}, "s11 is at core alone; links that are not: s6a"),
        ("endpoints/s6a/mme/address", "10.20.0", "endpoints/s6a/mme/address"),
        ("endpoints/s6a/mme/gateway", "10.20.0.1", "endpoints/s6a/mme/gateway"),
        ("sites/home/vim", "site-a", "two have the same vim"),
        ("sites/home/networks", {}, "home: networks: link s6a crosses sites"),
        ("sites", {"core": {"vim": "site-a"}}, "sites"),
    ],
)
def test_what_fits_nothing_is_refused(given, make, path, value, words):
    *parents, last = path.split("/")
    node = given
    for part in parents:
        node = node[part]
    node[last] = value
    with pytest.raises(BuildError) as caught:
        make(given)
    assert words in str(caught.value)


def test_a_floating_address_needs_a_gateway_parameter(given, make):
    given["members"] = {"spgwu": "home"}
    for site in given["sites"].values():
        site["networks"] = {"sgi": "t", "sxab": "t", "s1u": "t"}
    given["endpoints"] = {"sgi": {"spgwu": {"floating": "203.0.113.9"}}}
    with pytest.raises(BuildError, match="sgi: spgwu: floating: spgwu has no link over"):
        make(given)


def test_a_deployment_has_a_member_at_another_site(given, make):
    given["members"] = {"hss": "core"}
    given["endpoints"] = {}
    with pytest.raises(BuildError, match="members: all are at the default site core; allowed"):
        make(given)


@pytest.mark.slow
def test_the_command_writes_valid_parameters_and_says_how_to_use_them(tree, tmp_path):
    source = tree.root / "params/deployments/epc_edge.yaml"
    out = tmp_path / "sub" / "mine.yaml"
    result = CliRunner().invoke(main, ["deployment", str(source), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert result.output.strip() == (
        "osm ns-create --ns_name epc_edge --nsd_name epc_ns --vim_account site-a "
        f"--config_file {out}"
    )
    document = yaml.safe_load(out.read_text())
    assert [v["member-vnf-index"] for v in document["vnf"]] == ["spgwu", "enb"]


def test_the_build_has_a_file_for_every_deployment(dist, tree):
    names = {path.stem for path in (tree.root / "params/deployments").glob("*.yaml")}
    assert names == {"5gc_edge", "epc_multisite", "epc_edge", "sitegw_two_sites", "vpn_two_sites"}
    assert names <= {path.stem for path in (dist / "params").iterdir()}


@pytest.mark.slow
def test_a_file_of_any_name_is_validated(given, tree, tmp_path):
    given["endpoints"]["s6a"]["hss"]["address"] = given["endpoints"]["s6a"]["mme"]["address"]
    path, out = tmp_path / "d.yaml", tmp_path / "out.yml"
    path.write_text(yaml.safe_dump(given))
    result = CliRunner().invoke(main, ["deployment", str(path), "--out", str(out)])
    assert result.exit_code == 1
    assert "allowed: an address of its own" in result.output
    assert not out.exists()
