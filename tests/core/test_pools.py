"""Pools of inner addresses, for peers that ask: what is rendered, and what is refused."""

import base64
import ipaddress
import re

import attr
import pytest
from hypothesis import given as tried_with
from hypothesis import settings
from hypothesis import strategies as st
from support.juju import pair
from vpnaas.base.errors import InputError
from vpnaas.features import guard
from vpnaas.params import pools
from vpnaas.params.intent import Intent, link_params, manual_peer
from vpnaas.peers import leases
from vpnaas.peers.offer import KeyOffer, Offer, Remote, encode

CONF = "/etc/swanctl/conf.d/osm-vpnaas-s6a.conf"
UP = "/etc/osm-vpnaas/s6a/ipsec.up"
KEY = "MCowBQYDK2VwAyEAZXzl4qop5ouc36kXfoFNKd0SsGngWfeugKTbEYz1vng="
POOL = "10.60.0.0/24+2001:db8:60::/64"


def asking(**changes):
    given = {"link": "s6a", "name": "cell", "public-key": KEY, "allowed-prefixes": "pool"}
    return manual_peer({**given, **changes})


def with_cell(pool=POOL):
    juju, hss, mme, _ = pair("ipsec", **{"ipsec-options": f"pool={pool}"})
    hss.intent = hss.intent.with_peer(asking())
    hss.reconcile()
    juju.settle()
    return juju, hss, mme


def used(conf):
    """Return the addresses of the pools that the connections of a swanctl file name."""
    addresses = dict(re.findall(r"^  (\S+) \{\n    addrs = (\S+)\n  \}$", conf, re.M))
    return [
        addresses[name] for line in re.findall("pools = (.*)", conf) for name in line.split(", ")
    ]


def test_who_asks_gets_addresses_of_the_pool_and_others_go_on():
    juju, hss, mme = with_cell()
    assert hss.error == ""
    assert hss.plans["s6a"].problems == ()
    assert hss.states()["s6a"] == mme.states()["s6a"] == "up"
    conf = hss.vdu.files[CONF]
    assert conf.count("remote_ts = dynamic\n") == conf.count("pools = ") == 1
    assert used(conf) == POOL.split("+")
    for prefix in POOL.split("+"):
        assert f"route replace {prefix} dev xf-s6a\n" in hss.vdu.files[UP]
    assert ["swanctl", "--load-pools"] in hss.vdu.commands
    hss.vdu.commands.clear()
    assert hss.reconcile() == 1


def test_what_has_an_address_of_the_pool_comes_out_of_the_tunnel():
    _, hss, _ = with_cell()
    forward = hss.vdu.files[guard.FILE].partition("chain forward")[2]
    assert "ip saddr 10.60.0.0/24 counter drop" in forward
    assert "ip6 saddr 2001:db8:60::/64 counter drop" in forward


@pytest.mark.parametrize("asks", ["manual", "related"])
def test_another_pool_is_not_taken_for_the_former_one(asks):
    """charon keeps a pool of the same name as long as a peer has an address of it."""
    juju, hss, *_ = with_cell("172.16.6.64/27") if asks == "manual" else asking_pair()
    (before,) = re.findall("pools = (.*)", hss.vdu.files[CONF])
    params = {**hss.intent.links["s6a"].to_params(), "ipsec-options": "pool=172.16.6.192/27"}
    hss.intent = hss.intent.with_link(link_params(params))
    juju.changed |= {"hss", "mme"}
    juju.settle()
    (after,) = re.findall("pools = (.*)", hss.vdu.files[CONF])
    assert after != before
    assert f"  {after} {{\n    addrs = 172.16.6." in hss.vdu.files[CONF]


def test_without_anybody_who_asks_there_is_none():
    _, hss, _ = with_cell()
    hss.intent = hss.intent.without_peer("s6a", "cell")
    hss.vdu.commands.clear()
    hss.reconcile()
    assert "pools" not in hss.vdu.files[CONF]
    assert ["swanctl", "--load-pools"] in hss.vdu.commands
    assert "10.60.0.0/24" not in hss.vdu.files[UP] + hss.vdu.files[guard.FILE]


def test_it_survives_being_stored():
    on = {
        "link": "s6a",
        "technology": "ipsec",
        "inner-address": "172.16.6.2/24",
        "ipsec-options": f"pool={POOL}",
    }
    intent = Intent().with_link(link_params(on)).with_peer(asking())
    assert Intent.from_json(intent.to_json()) == intent
    assert pools.show(intent.links["s6a"].ipsec.pool) == POOL


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("10.60.0.0/24+10.61.0.0/24", "two prefixes of one IP version"),
        ("10.0.0.0/8", "out of range"),
        ("10.60.0.0/31", "out of range"),
        ("2001:db8::/48", "out of range"),
        ("10.60.0.1/24", "not a prefix"),
        ("all", "not a prefix"),
    ],
)
def test_pools_out_of_form_are_refused(text, reason):
    with pytest.raises(InputError, match=reason):
        pools.parse("pool", text)


@pytest.mark.parametrize(
    ("pool", "whose"),
    [
        ("172.16.6.128/25", "our own network on the link"),  # has .129, our own
        ("192.168.8.0/25", "a network of ens4"),
        ("10.0.0.0/12", "a network of ens3"),
    ],
)
def test_a_pool_hands_out_nothing_that_is_taken(pool, whose):
    _, hss, _, _ = pair("ipsec")
    common = {"technology": "ipsec", "underlay-interface": "ens4"}
    hss.configure("s6a", "172.16.6.129/24", **common, **{"ipsec-options": f"pool={pool}"})
    hss.reconcile()
    assert hss.plans["s6a"].unusable
    assert whose in hss.plans["s6a"].problems[0]


def test_a_related_peer_takes_no_address_of_the_pool():
    _, hss, _, _ = pair("ipsec")
    common = {"technology": "ipsec", "underlay-interface": "ens4"}
    hss.configure("s6a", "172.16.6.129/24", **common, **{"ipsec-options": "pool=172.16.6.0/26"})
    hss.reconcile()
    (problem, *_) = hss.plans["s6a"].problems
    assert problem.startswith("mme: 172.16.6.2/32 overlaps our pool 172.16.6.0/26")


@pytest.mark.parametrize(
    ("changes", "options", "reason"),
    [
        ({}, "none", "has no pool"),
        ({"endpoint": "192.0.2.1:4500"}, f"pool={POOL}", "connects to this VNF"),
        ({"allowed-prefixes": "none"}, f"pool={POOL}", "or pool"),
    ],
)
def test_who_may_ask(changes, options, reason):
    on = {"link": "s6a", "technology": "ipsec", "inner-address": "172.16.6.2/24"}
    intent = Intent().with_link(link_params({**on, "ipsec-options": options}))
    with pytest.raises(InputError, match=reason):
        intent.with_peer(asking(**changes))


# Related peers who ask

CELL = {"technology": "ipsec", "underlay-interface": "ens4"}


def asking_pair(pool="172.16.6.64/26", inner="pool", **options):
    """Return a gateway (hss) with a pool, and a cell (mme) that asks it."""
    juju, hss, mme, relation = pair("ipsec")
    hss.configure("s6a", "172.16.6.1/24", **CELL, **{"ipsec-options": f"pool={pool}"}, **options)
    mme.configure("s6a", inner, **CELL)
    juju.changed |= {"hss", "mme"}
    juju.settle()
    return juju, hss, mme, relation


def test_a_related_cell_asks_and_gets_an_address_of_its_own():
    juju, hss, mme, relation = asking_pair()
    assert (hss.states()["s6a"], mme.states()["s6a"]) == ("up", "up")
    given = relation.ends["hss"]["vpnaas-assigned-addresses"]
    address = given.partition("/")[0]
    assert ipaddress.ip_address(address) in ipaddress.ip_network("172.16.6.64/26")
    assert given.endswith("/24")
    assert relation.ends["mme"]["vpnaas-inner-address"] == address
    assert relation.ends["mme"]["vpnaas-address-request"] == "ipv4"
    conf = hss.vdu.files[CONF]
    assert used(conf) == [address]
    assert f"remote_ts = {address}/32\n" in conf
    assert f"vips = {address}\n" in mme.vdu.files[CONF]
    assert f"address add {given} dev xf-s6a" in mme.vdu.files[UP]
    assert "install_virtual_ip = no" in mme.vdu.files["/etc/strongswan.d/00-osm-vpnaas.conf"]
    assert "install_virtual_ip" not in hss.vdu.files["/etc/strongswan.d/00-osm-vpnaas.conf"]
    # Who is called cannot ask, so the gateway never calls.
    (ours,) = re.findall(r"^  (s6a_rel-1_\S+) \{", conf, re.M)
    assert not [words for words in hss.vdu.commands if "--initiate" in words and ours in words]
    assert [words for words in mme.vdu.commands if "--initiate" in words]
    # Nothing moves any more.
    for charm in (hss, mme):
        charm.vdu.commands.clear()
        assert charm.reconcile() == 1
    assert juju.changed == set()


@pytest.mark.parametrize(
    ("pool", "inner", "second"),
    [
        ("172.16.6.64/26", "pool:ipv4+ipv4", "172.16.6.64/26"),
        ("172.16.6.64/26+2001:db8:60::/64", "pool:ipv4+ipv6", "2001:db8:60::/64"),
    ],
)
def test_a_cell_gets_two_addresses_in_one_tunnel(pool, inner, second):
    _, hss, mme, relation = asking_pair(pool, inner)
    assert (hss.states()["s6a"], mme.states()["s6a"]) == ("up", "up")
    first, other = (
        ipaddress.ip_interface(text)
        for text in relation.ends["hss"]["vpnaas-assigned-addresses"].split(",")
    )
    assert other.ip in ipaddress.ip_network(second) and first.ip != other.ip
    assert f"vips = {first.ip}, {other.ip}\n" in mme.vdu.files[CONF]
    assert used(hss.vdu.files[CONF]) == [str(first.ip), str(other.ip)]
    host = f"{other.ip}/{other.max_prefixlen}"
    assert {str(prefix) for prefix in hss.plans["s6a"].peers[0].prefixes} == {
        f"{first.ip}/32",
        host,
    }
    assert f"address add {host} dev xf-s6a" in mme.vdu.files[UP]
    # Clear packets to either address are dropped at the cell.
    for address in (first, other):
        assert f"daddr {address.ip} counter drop" in mme.vdu.files[guard.FILE]


def test_addresses_stay_over_a_new_vdu_at_either_end_and_a_stored_intent():
    juju, hss, mme, relation = asking_pair(inner="pool:ipv4+ipv4")
    before = relation.ends["hss"]["vpnaas-assigned-addresses"]
    assert mme.intent.links["s6a"].to_params()["inner-address"] == "pool:ipv4+ipv4"
    assert Intent.from_json(mme.intent.to_json()) == mme.intent
    for charm in (hss, mme):
        charm.vdu.files.clear()
        juju.changed |= {"hss", "mme"}
        juju.settle()
        assert relation.ends["hss"]["vpnaas-assigned-addresses"] == before
    # While the gateway's data cannot be read, the tunnel stays as it is.
    relation.ends["hss"]["vpnaas-mtu"] = "many"
    mme.reconcile()
    assert mme.states()["s6a"] == "blocked"
    assert f"vips = {before.partition('/')[0]}, " in mme.vdu.files[CONF]


def test_a_gateway_without_a_pool_says_so_and_the_cell_waits():
    _, hss, mme, relation = asking_pair(pool="none")
    assert hss.states()["s6a"] == "blocked"
    assert (
        "it asks for an address: the link has no pool of IPv4 here" in hss.plans["s6a"].problems[0]
    )
    assert mme.states()["s6a"] == "waiting"
    assert mme.plans["s6a"].waiting == ("waiting for an address from the gateway",)
    assert CONF not in mme.vdu.files


def test_a_cell_whose_address_is_taken_back_has_no_tunnel():
    juju, hss, mme, _ = asking_pair()
    assert CONF in mme.vdu.files
    hss.configure("s6a", "172.16.6.1/24", **CELL)
    juju.changed |= {"hss", "mme"}
    juju.settle()
    assert mme.states()["s6a"] == "waiting"
    assert CONF not in mme.vdu.files


def test_a_cell_that_takes_another_address_is_not_admitted_with_it():
    _, hss, mme, relation = asking_pair()
    given = relation.ends["mme"]["vpnaas-inner-address"]
    relation.ends["mme"]["vpnaas-inner-address"] = "172.16.6.2"  # in the subnet, not of the pool
    hss.reconcile()
    (peer,) = hss.plans["s6a"].peers
    assert str(peer.inner_address) == given
    assert any("waiting for mme to take" in text for text in hss.plans["s6a"].waiting)


def test_a_gateway_with_a_revoked_key_does_not_decide_beside_another_one():
    _, _, mme, relation = asking_pair()
    bag = relation.ends["hss"]
    key = bag["vpnaas-public-key"]
    other = {**bag, "vpnaas-assigned-addresses": "172.16.6.90/24", "vpnaas-public-key": KEY}
    remotes = {"s6a": [Remote.read(1, "hss", bag), Remote.read(2, "other", other)]}
    for revoked, given in ((), bag["vpnaas-assigned-addresses"]), ((key,), "172.16.6.90/24"):
        intent = mme.intent.with_revoked("s6a", revoked)
        intent, _ = leases.resolved(intent, mme.roles, remotes, {})
        assert str(intent.links["s6a"].inner_address) == given


def two_gateways():
    """Return a cell with a tunnel to the second of two related gateways, and both relations."""
    juju, hss, mme, relation = asking_pair()
    attacker = juju.deploy("attacker", {"s6a": "provider"}, {"ens4": "192.168.8.77/24"})
    attacker.configure("s6a", "172.16.6.7/24", **CELL, **{"ipsec-options": "pool=172.16.6.64/26"})
    other = juju.relate("s6a", "attacker", "mme")
    juju.relations.remove(other)
    other.id = 0
    juju.relations.insert(0, other)
    juju.settle()
    assert {peer.label for peer in mme.plans["s6a"].peers} == {"hss", "attacker"}
    return juju, hss, mme, relation, other


THEFTS = {
    "another address": ("172.16.6.99/24", "it gives 172.16.6.99/24, not {}, which is in force"),
    "another subnet": ("10.99.0.5/24", "it gives 10.99.0.5/24, not {}, which is in force"),
    "the other gateway's": ("172.16.6.1/24", "172.16.6.1/24 is the inner address of hss of s6a"),
    "what covers it": ("192.168.8.130/25", "contains 192.168.8.129 of hss of s6a"),
    "in accept-prefixes": ("10.45.0.5/24", "10.45.0.5/24 is in accept-prefixes"),
    "two": ("172.16.6.99/24,172.16.6.98/24", "ipv4 was asked for"),
    "no address": ("all of them", "not an address"),
}


@pytest.mark.parametrize("theft", THEFTS)
@pytest.mark.parametrize("running", [True, False])
def test_one_gateway_takes_no_tunnel_of_another_one(theft, running):
    juju, hss, mme, relation, other = two_gateways()
    mme.configure("s6a", "pool", **CELL, **{"accept-prefixes": "10.45.0.0/16"})
    juju.changed.add("mme")
    juju.settle()
    given = relation.ends["hss"]["vpnaas-assigned-addresses"]
    assert mme.addresses == {"s6a": given}
    if not running:
        mme.plans["s6a"] = attr.evolve(
            mme.plans["s6a"], peers=[p for p in mme.plans["s6a"].peers if p.label == "hss"]
        )
    answer, reason = THEFTS[theft]
    other.ends["attacker"] = {**other.ends["attacker"], "vpnaas-assigned-addresses": answer}
    for _ in range(2):
        mme.reconcile()
        plan = mme.plans["s6a"]
        assert mme.addresses == {"s6a": given}
        assert str(plan.params.inner_address) == given
        assert "hss" in {peer.label for peer in plan.peers}
        assert any(
            reason.format(given) in text and text.startswith("attacker: ")
            for text in plan.problems + plan.waiting
        ), (plan.problems, plan.waiting)
    assert juju.world.ping(mme.vdu, "172.16.6.1")


def test_gateways_that_agree_may_give_another_address():
    _, hss, mme, relation, other = two_gateways()
    for bag in (relation.ends["hss"], other.ends["attacker"]):
        before = mme.addresses["s6a"]
        bag["vpnaas-assigned-addresses"] = "172.16.6.101/24"
        mme.reconcile()
    assert before != mme.addresses["s6a"] == "172.16.6.101/24"


GIFTS = ["172.16.6.70/24", "172.16.6.71/24", "10.9.0.4/24", "172.16.6.9/24", "192.168.8.1/24"]
"""The second to last is a gateway's own; the last has their outer addresses in its subnet."""


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@tried_with(
    gifts=st.lists(st.sampled_from(["", *GIFTS]), min_size=1, max_size=3),
    running=st.sets(st.sampled_from(["rel-0", "rel-1", "rel-2"])),
    kept=st.sampled_from(["", *GIFTS[:3]]),
)
def test_what_is_in_force_stays_unless_all_who_run_give_the_same(gifts, running, kept):
    link = {"link": "s6a", "technology": "ipsec", "inner-address": "pool"}
    remotes = []
    for number, gift in enumerate(gifts):
        offer = Offer(
            technology="ipsec",
            inner_address=ipaddress.ip_address("172.16.6.9"),
            mtu=1400,
            endpoint=(ipaddress.ip_address(f"192.168.8.{number + 10}"), 4500),
            assigned=(ipaddress.ip_interface(gift),) if gift else (),
            keys=KeyOffer(KEY, identity="x", proposal="aes256gcm-curve25519", credentials="pubkey"),
        )
        remotes.append(Remote.read(number, f"gw{number}", encode(offer)))
        assert not remotes[-1].problem
    intent, asking = leases.resolved(
        Intent().with_link(link_params(link)),
        {"s6a": "requirer"},
        {"s6a": remotes},
        {"s6a": kept},
        running={"s6a": running},
    )
    after = str(intent.links["s6a"].inner_address) if "s6a" in intent.links else ""
    assert after not in GIFTS[3:]
    tunnels = [gift for number, gift in enumerate(gifts) if f"rel-{number}" in running]
    if kept and any(gifts):
        assert after, "the tunnel was lost"
    if kept and kept in (tunnels or gifts):
        assert after == kept
    if kept and after not in ("", kept):
        assert set(tunnels) <= {after}
    if not kept and set(gifts) & set(GIFTS[:3]):
        assert after == next(gift for gift in gifts if gift in GIFTS[:3])


def asker(name, offered="", applied="", request="ipv4"):
    def addresses(text):
        return tuple(map(ipaddress.ip_address, text.split())) if text else ()

    asked = pools.parse_request("", request)
    return leases.Asker(name, name, asked, addresses(offered), addresses(applied))


POOL4 = [ipaddress.ip_network("10.60.0.0/28")]


def test_nobody_takes_the_address_of_one_who_has_it():
    granted = leases.grant(
        POOL4, [], [asker("thief", offered="10.60.0.5"), asker("b", "10.60.0.5", "10.60.0.5")]
    )
    assert str(granted["b"][0]) == "10.60.0.5"
    assert granted["thief"] != granted["b"]


def test_two_gateways_that_chose_differently_come_to_the_same():
    """Cells take what the first gateway gave and tell the second, which follows, also crosswise."""
    crossed = [asker("a", "10.60.0.3", "10.60.0.4"), asker("b", "10.60.0.4", "10.60.0.3")]
    granted = leases.grant(POOL4, [], crossed)
    assert {name: str(given[0]) for name, given in granted.items()} == {
        "a": "10.60.0.3",
        "b": "10.60.0.4",
    }


def test_a_pool_gives_each_host_once_and_then_nothing():
    askers = [asker(f"cell{number}") for number in range(15)]
    granted = leases.grant(POOL4, [ipaddress.ip_address("10.60.0.1")], askers)
    addresses = [given[0] for given in granted.values()]
    assert len(set(addresses)) == len(addresses) == 13
    assert not {str(address) for address in addresses} & {"10.60.0.0", "10.60.0.1", "10.60.0.15"}
    # One that gets a single address of two gets none.
    assert leases.grant(POOL4, [], [asker("x", request="ipv4+ipv6")]) == {}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("172.16.6.70/24,172.16.6.71/24", "ipv4 was asked for"),
        ("10.0.0.9/24", "overlaps 10.0.0.0/24 of ens3"),
        ("2001:db8::1/64", "ipv4 was asked for"),
        ("172.16.6.70", "not an address with prefix length"),
        ("172.16.6.70/24,172.16.6.71/24,172.16.6.72/24", "too many"),
    ],
)
def test_what_a_gateway_may_give(answer, reason):
    _, _, mme, relation = asking_pair()
    relation.ends["hss"]["vpnaas-assigned-addresses"] = answer
    mme.reconcile()
    assert reason in mme.plans["s6a"].problems[0]


OSM = "172.21.248.20"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (f"{OSM}/32", "the subnet of 172.21.248.20/32 contains 172.21.248.20, from where OSM logs"),
        ("172.21.248.21/30", "contains 172.21.248.20, from where OSM logs in; allowed: a subnet"),
        ("172.16.0.5/12", "the subnet of 172.16.0.5/12 contains 172.21.248.20, from where OSM"),
        ("203.0.113.9/24", "the subnet of 203.0.113.9/24 contains 203.0.113.7 of a peer of s11"),
        (
            "9.9.9.8/8",
            "the subnet of 9.9.9.8/8 is too wide; allowed: a prefix length of at least 12",
        ),
    ],
)
def test_a_gateway_draws_nothing_else_into_the_tunnel(answer, reason):
    """It chooses address and prefix length freely, whatever accept-prefixes has."""
    juju, _, mme, relation = asking_pair()
    mme.vdu.login = OSM
    peer = {"link": "s11", "name": "sgw", "public-key": base64.b64encode(b"k" * 32).decode()}
    peer.update({"allowed-prefixes": "10.99.11.1/32", "endpoint": "203.0.113.7:51822"})
    mme.roles["s11"] = "requirer"
    mme.configure("s11", "10.99.11.2/24", **{"underlay-interface": "ens4"})
    mme.intent = mme.intent.with_peer(manual_peer(peer))
    mme.reconcile()
    assert (mme.error, mme.states()["s6a"]) == ("", "up")
    before = mme.vdu.files[UP]
    bag = {**relation.ends["hss"], "vpnaas-assigned-addresses": answer}
    bag["vpnaas-inner-address"] = str(ipaddress.ip_interface(answer).ip + 1)
    relation.ends["hss"] = bag
    mme.reconcile()
    assert reason in mme.plans["s6a"].problems[0]
    assert mme.vdu.files[UP] == before


def test_a_second_address_is_not_that_of_the_login_either():
    _, _, mme, relation = asking_pair(inner="pool:ipv4+ipv4")
    mme.vdu.login = OSM
    first = relation.ends["hss"]["vpnaas-assigned-addresses"].partition(",")[0]
    relation.ends["hss"]["vpnaas-assigned-addresses"] = f"{first},{OSM}/32"
    mme.reconcile()
    assert f"the subnet of {OSM}/32 contains {OSM}, from where" in mme.plans["s6a"].problems[0]


def test_a_subnet_that_is_in_use_stays_though_the_login_comes_from_it():
    """So another unit of the charm, which gets through, may have an address in it."""
    juju, hss, mme, relation = asking_pair()
    mme.vdu.login = hss.vdu.login = "172.16.6.250"
    for charm in (hss, mme):
        charm.reconcile()
        assert (charm.error, charm.states()["s6a"]) == ("", "up")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"inner-address": "pool:ipv6"}, "is unknown; allowed: ipv4, ipv4"),
        ({"inner-address": "pool:"}, "is unknown"),
        ({"inner-address": "pool", "technology": "wireguard"}, "technology ipsec"),
        ({"inner-address": "pool", "ipsec-options": "pool=10.60.0.0/24"}, "without the options"),
    ],
)
def test_who_cannot_ask(changes, reason):
    given = {"link": "s6a", "technology": "ipsec", **changes}
    with pytest.raises(InputError, match=reason):
        link_params(given)


def test_an_end_that_asks_may_accept_any_prefix():
    given = {"link": "s6a", "technology": "ipsec", "inner-address": "pool"}
    params = link_params({**given, "accept-prefixes": "192.0.2.0/24"})
    assert params.accept_prefixes == (ipaddress.ip_network("192.0.2.0/24"),)


def test_the_end_that_is_called_cannot_ask():
    _, hss, _, _ = pair("ipsec")
    hss.configure("s6a", "pool", **CELL)
    hss.reconcile()
    assert hss.plans["s6a"].unusable
    assert "the peers of s6a connect to this VNF" in hss.plans["s6a"].problems[0]
