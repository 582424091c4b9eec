"""Strict parsers: what they take, what they refuse, and that they never repair."""

import ipaddress
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from vpnaas.base import fields
from vpnaas.base.errors import InputError
from vpnaas.base.links import KEEPALIVE
from vpnaas.params.intent import Intent, link_params, manual_peer
from vpnaas.peers.offer import KeyOffer, Offer, decode, encode

KEY = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="
OTHER = "TrMvSoP4jYQlY6RIzBgbssQqY3vxI2Pi+y71lOWWXX0="


@pytest.mark.parametrize(
    ("parse", "good"),
    [
        (fields.address, "192.0.2.1"),
        (fields.address, "2001:db8::1"),
        (fields.interface_address, "172.16.6.2/24"),
        (fields.interface_address, "fd00::2/64"),
        (fields.interface_address, "192.0.2.0/31"),
        (fields.network, "10.45.0.0/16"),
        (fields.wireguard_key, KEY),
        (fields.network_interface, "ens4"),
        (fields.name, "laptop-1"),
    ],
)
def test_good_values_pass_and_read_back(parse, good):
    assert str(parse("here", good)) == good


@pytest.mark.parametrize(
    ("parse", "bad"),
    [
        (fields.address, ""),
        (fields.address, "192.0.2.1 "),
        (fields.address, "192.0.2.01"),
        (fields.address, "127.0.0.1"),
        (fields.address, "224.0.0.1"),
        (fields.address, "0.0.0.0"),
        (fields.address, "255.255.255.255"),
        (fields.address, "fe80::1%ens3"),
        (fields.address, "١٩٢.0.2.1"),
        (fields.address, "host.example"),
        (fields.interface_address, "172.16.6.2"),
        (fields.interface_address, "172.16.6.0/24"),
        (fields.interface_address, "172.16.6.255/24"),
        (fields.interface_address, "172.16.6.2/255.255.255.0"),
        (fields.interface_address, "172.16.6.2/33"),
        (fields.interface_address, "172.16.6.2/024"),
        (fields.network, "10.0.0.1/8"),
        (fields.network, "0.0.0.0/0"),
        (fields.network, "::/0"),
        (fields.network, "224.0.0.0/8"),
        (fields.wireguard_key, KEY[:-1]),
        (fields.wireguard_key, KEY + "\n"),
        (fields.wireguard_key, "A" * 43 + "="),
        # Same 32 bytes, not canonical base64.
        (fields.wireguard_key, KEY[:-2] + "h="),
        (fields.network_interface, "ens4; reboot"),
        (fields.network_interface, "a" * 16),
        (fields.network_interface, "-eth0"),
        (fields.name, "Laptop"),
        (fields.name, "-x"),
        (fields.name, "x" * 33),
        (fields.ssh_public_key, 'command="id" ssh-ed25519 AAAA'),
        (fields.host_key_fingerprint, "MD5:00"),
    ],
)
def test_bad_values_are_one_clear_sentence(parse, bad):
    with pytest.raises(InputError) as caught:
        parse("here", bad)
    sentence = str(caught.value)
    assert sentence.startswith("here: ")
    assert "allowed: " in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize("value", [True, False, None, 1.5, "1.0", "0x10", "１", " 1", "--1"])
def test_integers_are_not_guessed(value):
    with pytest.raises(InputError):
        fields.integer("here", value, 0, 100)


@given(st.text())
def test_no_text_crashes_a_parser_or_comes_through_changed(text):
    for parse in (
        fields.address,
        fields.interface_address,
        fields.network,
        fields.wireguard_key,
        fields.network_interface,
        fields.name,
        fields.ssh_public_key,
    ):
        try:
            parsed = parse("here", text)
        except InputError as error:
            assert str(error).isascii()
        else:
            assert all(" " <= char <= "~" for char in str(parsed))


@given(
    st.ip_addresses(v=4).filter(lambda a: a.is_private and not a.is_loopback and not a.is_link_local
                                and not a.is_unspecified and not a.is_reserved),
    st.integers(1, 65535),
)  # fmt: skip
def test_endpoints_read_back(address, port):
    if address in ipaddress.ip_network("0.0.0.0/8"):
        return
    assert fields.endpoint("here", fields.show_endpoint(address, port)) == (address, port)


def test_ipv6_endpoints_need_brackets():
    six = ipaddress.ip_address("2001:db8::1")
    assert fields.endpoint("here", "[2001:db8::1]:51820") == (six, 51820)
    assert fields.show_endpoint(six, 51820) == "[2001:db8::1]:51820"
    for bad in ("2001:db8::1:51820", "[192.0.2.1]:51820", "192.0.2.1", ":1", "192.0.2.1:0"):
        with pytest.raises(InputError):
            fields.endpoint("here", bad)


PARAMS = {
    "link": "s6a",
    "technology": "wireguard",
    "inner-address": "172.16.6.2/24",
    "underlay-interface": "ens4",
    "gateway": "203.0.113.7",
    "listen-port": 4444,
    "allowed-prefixes": "10.45.0.0/16,10.46.0.0/16",
    "accept-prefixes": "10.99.0.0/16",
    "mtu": 1400,
    "keepalive": 15,
    "preshared-key": True,
}


def test_an_intent_survives_the_peer_relation():
    peer = manual_peer(
        {
            "link": "s6a",
            "name": "laptop",
            "public-key": KEY,
            "endpoint": "[2001:db8::7]:51820",
            "allowed-prefixes": "172.16.6.77",
            "keepalive": 5,
        }
    )
    intent = Intent().with_link(link_params(PARAMS)).with_peer(peer)
    assert Intent.from_json(intent.to_json()) == intent
    assert intent.links["s6a"].to_params() == PARAMS


ACTIONS = yaml.safe_load(
    (Path(__file__).parents[2] / "charms/common/actions.yaml").read_text(encoding="utf-8")
)
REQUIRED = {
    "configure": {"link": "s6a", "inner-address": "172.16.6.2/24"},
    "add-peer": {"link": "s6a", "name": "a", "public-key": KEY, "allowed-prefixes": "172.16.6.9"},
}
PARSED = {"configure": link_params, "add-peer": manual_peer}


def declared(action, key):
    """Return a word of the declaration of each parameter that has it."""
    params = ACTIONS[action]["params"]
    return {name: params[name][key] for name in params if key in (params[name] or {})}


@pytest.mark.parametrize("action", PARSED)
def test_the_defaults_of_the_parser_are_those_that_the_action_declares(action):
    required = REQUIRED[action]
    expected = PARSED[action](required)
    for name, default in declared(action, "default").items():
        assert PARSED[action]({name: default, **required}) == expected, name


@pytest.mark.parametrize("action", PARSED)
def test_the_parser_takes_no_number_outside_the_range_that_the_action_declares(action):
    of_qos = {"five-qi", "guaranteed-mbps", "maximum-mbps", "underlay-mbps"}
    for name, (low, high) in declared(action, "range").items():
        if name in of_qos:
            continue  # Parsed by `link_qos`.
        for number in (low - 1, high + 1):
            with pytest.raises(InputError, match=name):
                PARSED[action]({**REQUIRED[action], name: number})
        PARSED[action]({**REQUIRED[action], name: high})


@pytest.mark.parametrize("action", PARSED)
def test_the_description_of_keepalive_has_the_seconds_that_the_charm_uses(action):
    assert f"-1 is {KEEPALIVE} s" in ACTIONS[action]["params"]["keepalive"]["description"]


def test_the_words_for_nothing_mean_the_same_as_empty():
    words = {"underlay-interface": "auto", "gateway": "auto", "allowed-prefixes": "none"}
    minimal = {"link": "s6a", "inner-address": "172.16.6.2/24"}
    assert link_params({**minimal, **words}) == link_params({**minimal, **dict.fromkeys(words, "")})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mtu": 500}, "mtu"),
        ({"mtu": True}, "mtu"),
        ({"technology": "ipsec9"}, "technology"),
        ({"preshared-key": "yes"}, "preshared-key"),
        ({"technology": "none"}, "preshared-key"),
        ({"accept-prefixes": "172.16.0.0/12"}, "accept-prefixes"),
        ({"inner-address": "172.16.6.2/24\nPostUp = reboot"}, "inner-address"),
        ({"mtu": 10**5000}, "mtu: a value that is too long is out of range"),
        ({"link": ""}, "link"),
        ({"gateway": "::ffff:203.0.113.7"}, "gateway"),
        ({"accept-prefixes": "::ffff:10.99.0.0/112"}, "accept-prefixes"),
        ({"accept-prefixes": "::/16"}, "accept-prefixes"),
        ({"inner-address": "172.16.6.129"}, "inner-address"),
        ({"inner-address": "172.16.6.0/24"}, "inner-address"),
        ({"inner-address": "172.16.6.255/24"}, "inner-address"),
        ({"inner-address": "127.0.0.1/8"}, "inner-address"),
        ({"gateway": "localhost"}, "gateway"),
        ({"gateway": "192.0.2.1; reboot"}, "gateway"),
        ({"underlay-interface": "a b"}, "underlay-interface"),
        ({"allowed-prefixes": "0.0.0.0/0"}, "allowed-prefixes"),
        ({"allowed-prefixes": "10.0.0.1/8"}, "allowed-prefixes"),
        ({"accept-prefixes": "172.16.6.0/24"}, "accept-prefixes"),
        ({"accept-prefixes": "10.0.0.0/8 ,, x"}, "accept-prefixes"),
        ({"technology": "none", "preshared-key": True}, "preshared-key"),
        ({"technology": "openvpn"}, "technology"),
    ],
)
def test_bad_link_parameters_say_which(change, words):
    with pytest.raises(InputError, match="configure: " + words):
        link_params({**PARAMS, **change})


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"name": "Laptop"}, "name"),
        ({"public-key": "x"}, "public-key"),
        ({"public-key": KEY[:-1]}, "public-key"),
        ({"endpoint": "192.0.2.1"}, "endpoint"),
        ({"endpoint": "2001:db8::1:51820"}, "endpoint"),
        ({"allowed-prefixes": ""}, "allowed-prefixes"),
        ({"allowed-prefixes": "::/0"}, "allowed-prefixes"),
    ],
)
def test_bad_manual_peers_say_which(change, word):
    peer = {"link": "s6a", "name": "laptop", "public-key": KEY, "allowed-prefixes": "172.16.6.9/32"}
    with pytest.raises(InputError, match=f"add-peer: {word}: .*; allowed: "):
        manual_peer({**peer, **change})


def test_two_links_cannot_share_port_or_subnet():
    intent = Intent().with_link(link_params(PARAMS))
    with pytest.raises(InputError, match="4444 is taken by link s6a"):
        intent.with_link(link_params({**PARAMS, "link": "s11", "inner-address": "172.16.1.2/24"}))
    with pytest.raises(InputError, match="overlaps 172.16.6.2/24 of link s6a"):
        intent.with_link(
            link_params(
                {**PARAMS, "link": "s11", "listen-port": 1, "inner-address": "172.16.6.9/25"}
            )
        )


@pytest.mark.parametrize("given", [{}, {"inner-address": "none"}, {"inner-address": "10.1.0.1/24"}])
def test_a_link_must_have_a_name(given):
    with pytest.raises(InputError, match="configure: (link|inner-address)"):
        Intent().configured(given)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"version": ' + "[" * 900 + "]" * 900 + "}",
        '{"version": 1, "links": [{"mtu": ' + "1" * 5000 + "}]}",
        '{"version": 1, "links": [{"inner-address": "10.1.0.1/24"}], "peers": []}',
    ],
)
def test_an_intent_that_somebody_else_wrote_is_one_sentence(text):
    with pytest.raises(InputError, match="^(peer relation|configure): .{1,200}$"):
        Intent.from_json(text)


def test_an_endpoint_inside_the_tunnel_has_no_second_form():
    mapped = {**encode(OFFER), "vpnaas-endpoint-address": "::ffff:172.16.6.9"}
    with pytest.raises(InputError, match="mme: endpoint-address"):
        decode(mapped, "mme")


OFFER = Offer(
    technology="wireguard",
    inner_address=ipaddress.ip_address("172.16.6.2"),
    mtu=1420,
    endpoint=(ipaddress.ip_address("192.168.8.2"), 51821),
    allowed_prefixes=(ipaddress.ip_network("10.45.0.0/16"),),
    keys=KeyOffer(KEY, 3, OTHER, (OTHER,), True),
)


def test_an_offer_survives_the_databag():
    bag = {key: value for key, value in encode(OFFER).items() if value}
    assert decode(bag, "mme") == OFFER
    # Keys of other libraries do no harm, as Juju itself writes some.
    assert decode({**bag, "ingress-address": "10.0.0.1"}, "mme") == OFFER


def test_no_offer_yet_is_not_an_error():
    assert decode({"ingress-address": "10.0.0.1"}, "mme") is None


@given(st.dictionaries(st.sampled_from(sorted(encode(OFFER))), st.text(), max_size=5))
def test_decoding_never_crashes(change):
    try:
        offer = decode({**encode(OFFER), **change}, "mme")
    except InputError as error:
        assert str(error).startswith("mme: ")
    else:
        assert offer is None or encode(offer)


@pytest.mark.parametrize(
    ("text", "technology"),
    [
        ("ipsec", "ipsec"),
        ("wireguard, s6a=ipsec", "ipsec"),
        ("s11=none,ipsec", "ipsec"),
        ("s11=ipsec", "wireguard"),
    ],
)
def test_a_link_takes_the_technology_that_is_for_it(text, technology):
    given = {**PARAMS, "link": "s6a", "listen-port": 0, "technology": text}
    assert link_params(given).technology == technology


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("s6a=openvpn", "'openvpn' is unknown; allowed: wireguard, ipsec, none"),
        ("s11=openvpn", "'openvpn' is unknown"),
        ("wireguard,ipsec", "every link is named twice"),
        ("s6a=ipsec,s6a=none", "s6a is named twice"),
        ("s6a,", "'s6a' is unknown"),
        ("$(reboot)=ipsec", "configure: technology"),
        ("=ipsec", "configure: technology"),
    ],
)
def test_a_wrong_technology_is_refused_in_one_sentence(text, words):
    with pytest.raises(InputError) as result:
        link_params({**PARAMS, "technology": text})
    assert words in str(result.value)
    assert "\n" not in str(result.value)


def test_the_declared_limit_of_the_mtu_is_the_one_in_force() -> None:
    text = (Path(__file__).resolve().parents[2] / "charms/common/actions.yaml").read_text()
    assert yaml.safe_load(text)["configure"]["params"]["mtu"]["range"][1] == fields.MAX_MTU
