"""Parameters of links: one end by itself, and the two ends of a relation."""

import copy

import pytest
from validate_support import ENTRY, PARAMS, ns, vnf
from vpnaas.base import links
from vpnaas.base.errors import InputError
from vpnaas.params.intent import link_params
from vpnaas.params.ipsec import IpsecParams, Proposal
from vpnaas.params.qos import TABLE, link_qos

from builder import check, packages
from builder.parameters import agreement, variants
from builder.validate import Catalog, validate_params
from builder.validate.forms import fits
from builder.validate.link_rules import ALIKE


@pytest.fixture(scope="module")
def files(tree):
    return variants.parameter_files(tree)


@pytest.fixture(scope="module")
def catalog(tree):
    return check.add_descriptors(Catalog(), packages.catalogue(tree).values())


@pytest.fixture
def problems(files, catalog):
    """Return the problems of a file after changes of members' parameters."""

    def changed(file, **changes):
        document = copy.deepcopy(files[file])
        for entry in document["additionalParamsForVnf"]:
            entry["additionalParams"] |= changes.get(entry["member-vnf-index"], {})
        return check.document(document, catalog, "x.yaml")

    return changed


@pytest.mark.parametrize(
    ("file", "changes", "at", "words"),
    [
        ("vpn_basic", {"vpn_link": "vpn-server"}, "vpn_link", "another link than 'vpn-client'"),
        ("vpn_basic", {"vpn_technology": "ipsec"}, "vpn_technology", "is ipsec here and wireguard"),
        ("vpn_basic", {"vpn_technology": "vpn-client=none"}, "vpn_technology", "is none here"),
        ("vpn_basic", {"vpn_technology": "wiregard"}, "vpn_technology", "ipsec, none, wireguard"),
        ("vpn_basic", {"vpn_technology": "vpn-client=x"}, "vpn_technology", "'x' is no technology"),
        ("vpn_basic", {"vpn_inner_address": "none"}, "vpn_inner_address", "switches link"),
        ("vpn_basic", {"vpn_inner_address": "10.77.0.1/24"}, "vpn_inner_address", "server, too"),
        ("vpn_basic", {"vpn_inner_address": "pool"}, "vpn_inner_address", "by IKEv2"),
        ("vpn_basic_ipsec", {"vpn_inner_address": "pool"}, "vpn_inner_address", "has no pool"),
        ("vpn_basic_ipsec", {"vpn_credentials": "psk"}, "vpn_credentials", "is psk here"),
        ("vpn_basic_ipsec", {"vpn_credentials": "cmp"}, "vpn_credentials", "is cert-ext"),
        ("vpn_basic_ipsec", {"vpn_proposal": "3gpp"}, "vpn_proposal", "is 3gpp here and aes256gcm"),
        ("vpn_basic", {"vpn_allowed_prefixes": "10.9.0.0/24"}, "vpn_accept_prefixes", "not accept"),
        ("vpn_basic", {"vpn_five_qi": 82}, "vpn_guaranteed_mbps", "with a guaranteed rate"),
        (
            "vpn_basic",
            {"vpn_five_qi": 9, "vpn_guaranteed_mbps": 1},
            "vpn_guaranteed_mbps",
            "5QI 9 guarantees no rate",
        ),
        (
            "vpn_basic",
            {"vpn_five_qi": 1, "vpn_guaranteed_mbps": 9, "vpn_underlay_mbps": 8},
            "vpn_guaranteed_mbps",
            "9 is more than underlay-mbps 8",
        ),
        ("vpn_basic", {"vpn_standby_gateways": "10.0.0.1,10.0.0.2"}, "vpn_standby_gateways", "one"),
        ("vpn_basic_ipsec", {"vpn_standby_gateways": "10.0.0.1"}, "vpn_standby_gateways", "pair"),
    ],
)
def test_each_way_of_an_end_not_to_fit_is_one_sentence(problems, file, changes, at, words):
    (found,) = problems(file, client=changes)
    assert (found.code, found.severity) == ("params-link", "silent")
    assert found.path.endswith(f"/{at}")
    assert words in found.sentence
    assert "; allowed: " in found.sentence


@pytest.mark.parametrize(("link", "code"), [("left", "params-link"), ("lefft", "params-value")])
def test_what_is_no_link_is_told_by_the_action_alone(link, code):
    made, known, document = vnf(), Catalog(), copy.deepcopy(PARAMS)
    made.charm("actions.yaml", "    port:", "    inner-address: {type: string}\n    port:")
    values = {"link": "<link>", "inner-address": "<inner>"}
    place = f"{ENTRY}/0/initial-config-primitive/1/parameter"
    made.put(place, [{"name": name, "value": value} for name, value in values.items()])
    known.add(made.package())
    known.add(ns().package())
    for number, name in enumerate(("left", link)):
        given = {"link": name, "inner": f"10.9.0.{number + 1}/24", "name": "a"}
        document["additionalParamsForVnf"][number]["additionalParams"] = given
    assert [p.code for p in validate_params("ns", document, known)] == [code]


def test_ends_of_network_functions_are_told_once(problems):
    found = problems("epc", enb={"vpn_technology": "none"})
    assert [p.code for p in found] == ["params-link"] * 2
    (found,) = problems("epc", mme={"s6a_inner_address": "172.16.6.129/24"})
    assert found.code == "params-link"


def test_a_subnet_that_both_ends_do_not_share_is_told_of_both(problems):
    found = problems("vpn_basic", client={"vpn_inner_address": "10.78.0.2/24"})
    assert [p.sentence.partition(";")[0] for p in found] == [
        "10.78.0.2/24 of client is outside of 10.77.0.0/24",
        "10.77.0.1/24 of server is outside of 10.78.0.0/24",
    ]


@pytest.mark.parametrize(("mine", "theirs", "good"), [("yes", "no", 0), ("yes", "auto", 1)])
def test_ends_agree_on_sequence_numbers(problems, mine, theirs, good):
    options = [{"vpn_ipsec_options": f"dpd-delay=5, esn={word}"} for word in (mine, theirs)]
    found = problems("vpn_basic_ipsec", server=options[0], client=options[1])
    assert [p.sentence.partition(" of")[0] for p in found] == ["esn"] * (not good)


def test_a_pair_of_gateways_is_told_to_those_who_connect(problems):
    pair = {"vpn_standby_gateways": "10.0.0.1,10.0.0.2"}
    (found,) = problems("vpn_basic_ipsec", server=pair)
    assert "the peers of link 'vpn-server' connect to server" in found.sentence
    assert problems("vpn_basic_ipsec", client=pair) == []
    assert problems("vpn_basic_novpn", client={"vpn_standby_gateways": "10.0.0.1"}) == []


@pytest.mark.parametrize("key", [{"vpn_preshared_key": "true"}, {"vpn_post_quantum": "prefer"}])
def test_a_link_in_clear_has_no_keys(problems, key):
    (found,) = problems("vpn_basic_novpn", client=key)
    assert found.sentence.startswith("technology none has no keys")
    assert problems("vpn_basic", client=key) == []


@pytest.mark.parametrize(
    ("server", "client"),
    [
        ({}, {"vpn_credentials": "cert-external", "vpn_proposal": "3gpp"}),
        ({"vpn_inner_address": "none"}, {"vpn_inner_address": "none"}),
        ({"vpn_inner_address": "10.77.0.1/25"}, {"vpn_inner_address": "10.77.0.2/24"}),
        ({"vpn_accept_prefixes": "10.8.0.0/15"}, {"vpn_allowed_prefixes": "10.9.0.0/24"}),
        ({"vpn_five_qi": 0, "vpn_guaranteed_mbps": 5}, {"vpn_five_qi": -1}),
        ({"vpn_five_qi": 75}, {}),  # No 5QI: what checks the form of values tells of it.
        ({"vpn_five_qi": 1, "vpn_guaranteed_mbps": 5, "vpn_maximum_mbps": 5}, {}),
        ({"vpn_technology": "vpn-server=wireguard"}, {"vpn_technology": "wireguard"}),
    ],
)
def test_what_ends_need_not_share(problems, server, client):
    assert problems("vpn_basic", server=server, client=client) == []


@pytest.mark.parametrize(
    ("file", "changes", "words"),
    [
        ("epc_oai", {"mme": {"s6a_inner_address": "172.16.7.2/24"}}, "one subnet for both"),
        ("epc_oai", {"mme": {"s6a_inner_address": "172.16.6.129/24"}}, "of hss, too"),
        ("epc_oai", {"enb": {"vpn_technology": "none"}}, "none here and wireguard at mme"),
        ("epc_oai", {"mme": {"vpn_technology": "wireguard,s6a=ipsec"}}, "wireguard at hss"),
        ("5gc_n3iwf", {"smf2": {"sbi_inner_address": "172.16.23.20/24"}}, "of smf, too"),
        ("secgw", {"cell2": {"s1c_inner_address": "10.41.0.11/24"}}, "of cell1, too"),
    ],
)
def test_network_functions_are_compared_where_a_relation_joins_them(problems, file, changes, words):
    found = problems(file, **changes)
    assert {each.code for each in found} == {"params-link"}
    assert any(words in each.sentence for each in found), found


def test_what_the_charm_compares():
    for value in range(256):
        row = TABLE.get(value)
        assert fits("five-qi", str(value)) == (row is not None)
        assert fits("gbr", str(value)) == (row is not None and row.guaranteed)
    usual = {"proposal": Proposal.parse("", "auto").text, "credentials": "pubkey", "esn": "auto"}
    assert usual == ALIKE
    assert agreement.TECHNOLOGIES == links.TECHNOLOGIES
    assert (IpsecParams().credentials, IpsecParams().esn) == ("pubkey", "auto")
    link = {"link": "vpn-client", "inner-address": "10.77.0.2/24"}
    for wrong in (
        {"standby-gateways": "10.0.0.1,10.0.0.2"},
        {"standby-gateways": "10.0.0.1", "technology": "ipsec"},
        {"inner-address": "pool"},
        {"technology": "none", "preshared-key": True},
        {"technology": "none", "post-quantum": "prefer"},
        {"technology": "ipsec", "listen-port": 51820},
    ):
        with pytest.raises(InputError):
            link_params(link | wrong)
    for wrong in ({"five-qi": 82}, {"five-qi": 9, "guaranteed-mbps": 1}):
        with pytest.raises(InputError):
            link_qos(link | wrong)
