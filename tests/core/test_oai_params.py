"""Parameters of network functions and what they tell each other: refused unless plainly right."""

from __future__ import annotations

import json
from typing import Any

import attr
import pytest
from oai import kinds
from oai import params as nf
from oai.enb import rfsim_options
from oai.nf_actions import NfActions
from oai.part import (
    decode,
    disagreements,
    encode,
    expected,
    from_json,
    functions_from_json,
    functions_to_json,
    link_of,
    of,
)
from support.functions import GIVEN, OP, SECRETS, K, acting, params, rendered
from vpnaas.base.errors import InputError

KINDS = tuple(GIVEN)


@pytest.mark.parametrize("kind", KINDS)
def test_what_persists_is_read_back_and_holds_no_key(kind: str) -> None:
    asked = params(kind)
    text = kinds.to_json(asked)
    assert kinds.from_json(kind, text) == asked
    assert K not in text
    assert OP not in text
    assert kinds.from_json(kind, "") is None


@pytest.mark.parametrize("text", ["x", "[]", '{"version":2,"nf":{}}', '{"version":1,"nf":1}'])
def test_what_another_wrote_is_a_sentence(text: str) -> None:
    with pytest.raises(InputError, match="peer relation: nf"):
        kinds.from_json("mme", text)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("n3iwf", "n3iwf-id", 0),
        ("mme", "mcc", "24"),
        ("mme", "mcc", 242.0),
        ("mme", "mnc", "8"),
        ("mme", "mnc", "0088"),
        ("mme", "realm", "localhost"),
        ("mme", "realm", "a.b; reboot"),
        ("mme", "realm", "EPC.example.org"),
        ("mme", "tac", 0),
        ("mme", "tac", 65534),
        ("mme", "tac", True),
        ("mme", "mme-group", 65536),
        ("mme", "mme-code", 256),
        ("mme", "software", "open5gs"),
        ("mme", "image-prefix", "https://docker.io"),
        ("mme", "image-prefix", "docker.io --privileged"),
        ("mme", "image-pins", "mme"),
        ("mme", "image-pins", "mme=sha256:12"),
        ("mme", "image-pins", "nobody=v1"),
        ("mme", "image-pins", "mme=v1,mme=v2"),
        ("mme", "image-pins", "mme=v1 --privileged"),
        ("hss", "first-imsi", "24288123450000"),
        ("hss", "first-imsi", "208951234500000"),
        ("hss", "first-msisdn", "+4712345678"),
        ("hss", "subscribers", 100001),
        ("hss", "apn", "racoon"),
        ("hss", "second-apn", "internet"),
        ("hss", "first-msisdn", "999999999999999"),
        ("spgwc", "second-apn", "internet"),
        ("hss", "apn", 'internet"; x'),
        ("spgwc", "dns", "2001:db8::1"),
        ("spgwc", "dns", "10.250.0.1"),
        ("spgwc", "second-dns", "10.250.0.53"),
        ("smf", "dns", "10.46.0.53"),
        ("smf", "second-dns", "10.46.255.255"),
        ("spgwc", "ue-pool", "10.250.0.0/30"),
        ("spgwc", "ue-pool", "10.250.0.1/16"),
        ("spgwc", "ue-mtu", 500),
        ("spgwu", "sgi-interface", "ens6 up"),
        ("spgwu", "sgi-nat", "yes"),
        ("spgwu", "tun-device", "ens6"),
        ("upf", "tun-device", "ens6"),
        ("upf", "tun-device", "lo"),
        ("upf", "tun-device", 'tun0"; drop'),
        ("enb", "enb-id", 1 << 20),
        ("enb", "resource-blocks", 26),
        ("enb", "downlink-mhz", 1800),
        ("ue", "imsi", "208951234500000"),
    ],
)
def test_a_wrong_value_is_one_sentence(kind: str, name: str, value: object) -> None:
    with pytest.raises(InputError) as caught:
        params(kind, **{name: value})
    assert str(caught.value).startswith(f"configure-nf: {name}: ")
    assert "; allowed: " in str(caught.value)


def test_a_range_that_leaves_the_network_is_refused() -> None:
    with pytest.raises(InputError, match="leave the network"):
        params("hss", **{"first-imsi": "242889999999999", "subscribers": 2})


@pytest.mark.parametrize("key", ["", "g" * 32, K[:-1], K + "0"])
def test_a_wrong_key_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(InputError) as caught:
        kinds.parse_secrets("hss", {"operator-key": OP, "subscriber-key": key})
    assert "subscriber-key" in str(caught.value)
    assert not key or key not in str(caught.value)


@pytest.mark.parametrize("kind", sorted(GIVEN))
def test_a_parameter_that_is_not_given_keeps_its_value(kind: str) -> None:
    changes = {"log-level": "debug", "image-prefix": "registry.example/x"}
    changes |= {"spgwu": {"sgi-nat": False}, "upf": {"n6-nat": False}}.get(kind, {})
    changes |= {"amf": {"amf-region": 0}, "hss": {"subscribers": 0}}.get(kind, {})
    before = params(kind, **changes)
    # As Juju and OSM fill them in.
    untouched: dict[str, Any] = {
        name: -1 if isinstance(value, int) else "keep"
        for name, value in kinds.to_given(before).items()
        if not isinstance(value, bool)
    }
    assert kinds.parse(kind, kinds.completed(untouched, before)) == before
    after = kinds.parse(kind, kinds.completed({**untouched, "log-level": "error"}, before))
    assert after == attr.evolve(before, log_level="error")
    # The first time there is nothing to keep.
    with pytest.raises(InputError, match="configure-nf: "):
        kinds.parse(kind, kinds.completed(untouched, None))
    assert kinds.parse(kind, kinds.completed(GIVEN[kind], None)) == params(kind)


def test_configure_nf_with_one_parameter_changes_nothing_else() -> None:
    before, asked = params("spgwc"), list[Any]()
    group = acting(NfActions, "spgwc")
    group.function.stored_params = lambda: before
    group.function.change = lambda *given: asked.append(given) or {}
    group.configure_nf({"dns": "192.0.2.99"})
    assert asked == [(attr.evolve(before, dns=asked[0][0].dns), None)]
    assert str(asked[0][0].dns) == "192.0.2.99"


@pytest.mark.parametrize("given", [{}, {"operator-key": "keep", "subscriber-key": "keep"}])
def test_keys_that_are_not_given_are_those_of_the_vdu(given: dict[str, str]) -> None:
    assert kinds.parse_secrets("hss", given) is None
    with pytest.raises(InputError, match="the other key stays as it is; allowed: keep, or both"):
        kinds.parse_secrets("hss", {"operator-key": OP})


def test_keys_are_masked_and_never_part_of_a_repr() -> None:
    text = nf.masked(f"a {OP} b {K.upper()}", (OP, K, ""))
    assert text == "a ******** b ********"
    assert K not in repr(SECRETS)
    assert nf.Secrets.from_json(SECRETS.to_json()) == SECRETS
    assert "5e5e" not in attr.evolve(SECRETS, database="5e5e").to_json()
    assert not nf.Secrets.from_json("{}")
    assert not nf.Secrets.from_json('{"operator_key": "x", "subscriber_key": "y"}')


def test_day_two_changes_what_it_names_only() -> None:
    before = params("enb")
    after = kinds.changed("enb", before, {"resource-blocks": 50}, "configure-cell")
    assert (after.resource_blocks, after.downlink_mhz) == (50, 2680)  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="configure-cell: resource-blocks"):
        kinds.changed("enb", before, {"resource-blocks": 7}, "configure-cell")


# -- relation data -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_is_read_back_and_nothing_secret_is_in_it(kind: str) -> None:
    part = of(kind, params(kind), ready=True)
    bag = encode(part)
    assert decode(bag, "x") == part
    assert K not in str(bag)
    assert decode(encode(None), "x") is None
    assert decode({"vpnaas-version": "1"}, "x") is None


@pytest.mark.parametrize(
    "change",
    [
        {"nf-version": "2"},
        {"nf-kind": "pcrf"},
        {"nf-realm": "a b"},
        {"nf-plmn": "24288; x"},
        {"nf-ready": "maybe"},
        {"nf-tac": "0"},
        {"nf-apn": "$(reboot)"},
        {"nf-ue-pool": "0.0.0.0/0"},
        {"nf-address": "localhost"},
        {"nf-gateway": "x" * 5000},
        {"nf-realm": "\u2028"},
    ],
)
def test_a_hostile_part_is_a_sentence(change: dict[str, str]) -> None:
    bag = encode(of("spgwc", params("spgwc"), ready=True))
    with pytest.raises(InputError) as caught:
        decode({**bag, **change}, "thief")
    assert str(caught.value).startswith("thief: nf-")
    assert len(str(caught.value)) < 300


def test_ends_that_do_not_agree_say_what_and_where() -> None:
    mme = of("mme", params("mme"), ready=False)
    assert disagreements(mme, of("hss", params("hss"), True), "s6a", "hss") == []
    other = of("hss", params("hss", realm="example.org"), True)
    assert disagreements(mme, other, "s6a", "hss") == [
        f"s6a: realm of hss is example.org; allowed: {mme.realm}, as here"
    ]
    enb = of("enb", params("enb", tac=7), True)
    assert (
        "tracking area code of enb is 7; allowed: 600" in disagreements(mme, enb, "s1c", "enb")[0]
    )
    assert disagreements(mme, of("spgwc", params("spgwc"), True), "s6a", "gw") == [
        "s6a: gw is a network function spgwc; allowed: hss"
    ]
    control = of("spgwc", params("spgwc"), True)
    user = of("spgwu", params("spgwu", **{"ue-pool": "10.9.0.0/16", "gateway-id": 2}), True)
    texts = " ".join(disagreements(control, user, "sxab", "u"))
    assert "pool of UE addresses" in texts
    assert "name of the user plane" in texts


def test_pins_replace_tags_and_stand_below_the_prefix() -> None:
    digest = "sha256:" + "0123456789abcdef" * 4
    given = {"image-prefix": "registry.example.net:5000/m", "image-pins": f"redis=7, mme={digest}"}
    asked = params("mme", **given)
    assert asked.registry.reference("mme") == (
        f"registry.example.net:5000/m/oaisoftwarealliance/magma-mme@{digest}"
    )
    assert asked.registry.reference("redis") == "registry.example.net:5000/m/library/redis:7"
    again = kinds.from_json("mme", kinds.to_json(asked))
    assert again == asked


@pytest.mark.parametrize("version", ["2022.w46", "2022.w46@sha256:" + "01" * 32])
def test_an_image_is_taken_by_its_digest_and_known_by_its_tag(version: str) -> None:
    asked = params("enb", **{"image-pins": f"enb={version}"}).registry
    tag, _, digest = version.partition("@")
    assert asked.reference("enb").endswith("oai-enb" + (f"@{digest}" if digest else f":{tag}"))
    assert rfsim_options(asked.version("enb"), "server") == ()


def test_newer_images_are_told_of_the_radio_by_words() -> None:
    newer, newest = (
        rendered(kind, params=params(kind, **{"image-pins": f"{kind}={version}"}))
        for kind, version in (("enb", "2024.w10"), ("ue", "2025.w20"))
    )
    unit = newer["/etc/systemd/system/enb.service"]
    assert " --rfsim --rfsimulator.serveraddr server " in unit
    unit = newest["/etc/systemd/system/ue.service"]
    assert " --rfsim --rfsimulator.[0].serveraddr 192.168.77.10 " in unit


def test_a_function_of_another_service_is_as_its_show_status_tells_it() -> None:
    result = attr.evolve(of("hss", params("hss"), True), address="172.16.6.129")
    text = json.dumps(encode(result))
    assert from_json(text, "x") == result
    kept = functions_to_json({"s6a": {"other-hss": result}})
    assert functions_from_json(kept) == {"s6a": {"other-hss": result}}
    assert functions_from_json("") == {}


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "x", "{}", "1" * 5000, "[" * 100000, '{"nf-version": "1"}'),
        json.dumps(encode(of("hss", params("hss"), True))),  # without an address
        json.dumps({**encode(of("hss", params("hss"), True)), "nf-address": "1.2.3.4;reboot"}),
        json.dumps({**encode(of("hss", params("hss"), True)), "nf-address": 5}),
    ],
)
def test_what_is_no_function_is_a_sentence(text: str) -> None:
    with pytest.raises(InputError):
        from_json(text, "add-function: function")


def test_a_function_of_another_kind_gives_no_address() -> None:
    assert expected("mme", "s6a", of("hss", params("hss"), True))
    assert not expected("enb", "s1c", of("spgwu", params("spgwu"), True))
    assert (link_of("s1c-function"), link_of("uu")) == ("s1c", "uu")


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [("mme", "mme-name", "mme.x"), ("hss", "mme-names", "mme,"), ("hss", "mme-names", "a;b")],
)
def test_names_of_mmes_are_labels(kind: str, name: str, value: str) -> None:
    with pytest.raises(InputError, match="is not the name of a host"):
        params(kind, **{name: value})
