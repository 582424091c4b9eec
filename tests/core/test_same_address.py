"""An end whose inner address is its outer one: an explicit choice, vetted at both ends."""

import ipaddress

import pytest
from support.juju import Juju
from vpnaas.features import guard
from vpnaas.params.intent import link_params
from vpnaas.peers import same_address
from vpnaas.tunnels.ipsec.daemon import MARKED, daemon_conf
from vpnaas.tunnels.ipsec.names import KEEPER_FILE, POLICY, USERSPACE, interface_id

OUTER = "192.168.8.2"
CORE = "10.43.0.0/24"
UP = "/etc/osm-vpnaas/s1u/ipsec.up"


def deploy(
    cell_inner=f"{OUTER}/32",
    accept=f"{OUTER}/32",
    gateway_options="same-address=yes",
    cell_options="same-address=yes",
    plane="",
):
    juju = Juju()
    nics = {"ens3": "10.0.0.1/24", "ens4": "192.168.8.1/24"}
    gateway = juju.deploy("gateway", {"s1u": "provider"}, nics)
    cell = juju.deploy("cell", {"s1u": "requirer"}, {"ens3": "10.0.0.2/24", "ens4": f"{OUTER}/24"})
    juju.relate("s1u", "gateway", "cell")
    common = {"technology": "ipsec", "underlay-interface": "ens4"}
    gateway.configure(
        "s1u",
        "10.52.0.1/24",
        **common,
        **{
            "allowed-prefixes": CORE,
            "accept-prefixes": accept,
            "ipsec-options": gateway_options,
        },
    )
    cell.configure(
        "s1u",
        cell_inner,
        **common,
        **{"accept-prefixes": f"{CORE},10.52.0.1/32", "ipsec-options": cell_options},
    )
    juju.settle()
    return juju, gateway, cell


def test_the_tunnel_comes_up_and_only_what_it_protects_is_routed_into_it():
    juju, gateway, cell = deploy()
    assert gateway.error == cell.error == ""
    assert gateway.states() == cell.states() == {"s1u": "up"}
    up = gateway.vdu.files[UP].splitlines()
    number = interface_id("s1u")
    rule = f"priority {same_address.priority(number)} table {number}"
    assert [line for line in up if line.startswith("rule")] == [
        f"rule add from 10.43.0.0/24 {rule}",
        f"rule add from 10.52.0.1/32 {rule}",
    ]
    assert [line for line in up if OUTER in line] == [
        f"route replace {OUTER}/32 dev xf-s1u table {number}"
    ]
    # The cell routes by destination, as ever.
    up = cell.vdu.files[UP]
    assert f"address add {OUTER}/32 dev xf-s1u\n" in up
    assert "route replace 10.43.0.0/24 dev xf-s1u\n" in up
    assert "rule" not in up
    # A rule of somebody else may have this priority.
    down = gateway.vdu.files["/etc/osm-vpnaas/s1u/ipsec.down"].splitlines()
    assert set(down) == {f"rule del {rule}"}


def test_settled_it_changes_nothing_and_pings_nobody_outside_the_tunnel():
    juju, gateway, cell = deploy()
    for charm in (gateway, cell):
        charm.vdu.commands.clear()
        assert charm.reconcile() == 1
        assert not [c for c in charm.vdu.commands if OUTER in c and c[0] == "ping"]


def test_a_peer_that_goes_takes_its_route_along():
    juju, gateway, cell = deploy()
    juju.unrelate(juju.relations[0])
    gateway.vdu.commands.clear()
    gateway.reconcile()
    routes = [c for c in gateway.vdu.commands if c[:3] == ["ip", "route", "del"]]
    assert [c[3] for c in routes] == [f"{OUTER}/32"]
    assert OUTER not in gateway.vdu.files[UP]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gateway_options": "none"}, "is outside our inner subnet"),
        ({"accept": "none"}, "is outside our inner subnet"),
        ({"accept": "192.168.9.0/24"}, "is outside our inner subnet"),
    ],
)
def test_the_gateway_takes_it_only_where_its_operator_says_so(changes, reason):
    juju, gateway, cell = deploy(**changes)
    assert reason in gateway.plans["s1u"].problems[0]
    assert gateway.plans["s1u"].peers == ()


@pytest.mark.parametrize(
    ("inner", "outer", "reason"),
    [
        ("192.168.8.77", OUTER, "is outside our inner subnet"),  # Not where it is reached at.
        ("192.168.8.1", "192.168.8.1", "is one of this VDU"),
        ("10.0.0.9", "10.0.0.9", "overlaps 10.0.0.0/24 of ens3"),  # The network of management.
        ("192.168.8.3", "192.168.8.3", "is the inner one of"),  # Another cell's.
    ],
)
def test_no_peer_draws_the_address_of_another(inner, outer, reason):
    juju, gateway, cell = deploy(accept="192.168.8.0/24,10.0.0.0/24")
    other = juju.deploy(
        "other", {"s1u": "requirer"}, {"ens3": "10.0.0.3/24", "ens4": "192.168.8.3/24"}
    )
    other.configure(
        "s1u",
        "10.52.0.13/24",
        technology="ipsec",
        **{"underlay-interface": "ens4", "ipsec-options": "same-address=yes"},
    )
    juju.relate("s1u", "gateway", "other")
    juju.settle()
    assert len(gateway.plans["s1u"].peers) == 2
    bag = juju.relations[0].ends["cell"]
    claim = {"vpnaas-inner-address": inner, "vpnaas-endpoint-address": outer}
    juju.relations[0].ends["cell"] = {**bag, **claim}
    gateway.reconcile()
    (problem,) = gateway.plans["s1u"].problems
    assert problem.startswith("cell") and reason in problem
    # What ran before goes on.
    kept = {peer.label: str(peer.inner_address) for peer in gateway.plans["s1u"].peers}
    assert kept == {"cell": OUTER, "other": "10.52.0.13"}


@pytest.mark.parametrize(
    ("inner", "reason"),
    [("192.168.8.99/32", "is not on ens4"), ("fd00::2/128", "is not IPv4")],
)
def test_the_address_must_be_that_of_the_underlay(inner, reason):
    juju, gateway, cell = deploy(cell_inner=inner)
    assert cell.plans["s1u"].unusable
    assert reason in cell.plans["s1u"].problems[0]


def test_two_ends_without_an_address_apart_are_refused():
    params = link_params(
        {
            "link": "s1u",
            "technology": "ipsec",
            "inner-address": f"{OUTER}/32",
            "accept-prefixes": "192.168.8.1/32",
            "ipsec-options": "same-address=yes",
        }
    )
    address = ipaddress.ip_address("192.168.8.1")
    assert not same_address.fits(params, address, address)


def test_the_guard_lets_ike_and_esp_reach_the_address_and_nothing_else():
    juju, gateway, cell = deploy()
    text = cell.vdu.files[guard.FILE]
    mine = [line.strip() for line in text.splitlines() if f"daddr {OUTER}" in line]
    assert [line.rpartition(f"daddr {OUTER} ")[2] for line in mine] == [
        "meta l4proto { 1, 50 } accept",
        "udp dport { 68, 4500 } accept",
        "counter drop",
    ]
    forward = gateway.vdu.files[guard.FILE].partition("chain forward")[2]
    assert f"ip saddr {OUTER}/32 counter drop" in forward


def test_the_daemon_marks_its_own_packets_where_it_routes_by_itself():
    assert "allow_peer_ts" not in daemon_conf(USERSPACE)
    conf = daemon_conf(USERSPACE, True)
    assert "allow_peer_ts = yes" in conf
    assert MARKED in conf
    assert daemon_conf(POLICY, True) == daemon_conf(POLICY)


def test_a_route_of_the_own_table_that_failed_is_made_by_the_next_reconcile():
    juju, gateway, cell = deploy()
    juju.unrelate(juju.relations[0])
    juju.settle()
    juju.relate("s1u", "gateway", "cell")
    cell.reconcile()
    gateway.break_off("own-route")
    gateway.vdu.commands.clear()
    gateway.reconcile()
    made = ["ip", "route", "replace", f"{OUTER}/32", "dev", "xf-s1u", "table"]
    assert [c[:7] for c in gateway.vdu.commands if c[:3] == made[:3]] == [made]


@pytest.mark.parametrize("theirs", [(), ("all", "7"), ("10.43.0.0/24", "7"), ("10.1.0.0/16", "")])
def test_a_rule_that_is_gone_is_put_back_whatever_rules_have_its_priority(theirs):
    juju, gateway, cell = deploy()
    before = set(gateway.vdu.rules)
    (ours,) = (rule for rule in before if rule[0] == CORE)
    gateway.vdu.rules.remove(ours)
    if theirs:
        gateway.vdu.rules.add((theirs[0], ours[1], theirs[1] or ours[2]))
    gateway.reconcile()
    assert gateway.vdu.rules >= before
    gateway.vdu.commands.clear()
    assert gateway.reconcile() == 1
    assert not [c for c in gateway.vdu.commands if "restart" in c]


def test_an_interface_with_other_rules_is_made_anew_also_after_a_failure():
    juju, gateway, cell = deploy()
    params = {**gateway.intent.links["s1u"].to_params(), "allowed-prefixes": "10.44.0.0/24"}
    gateway.intent = gateway.intent.with_link(link_params(params))
    gateway.vdu.files[KEEPER_FILE] = "of an earlier release"
    gateway.break_off("apply/reload")
    gateway.vdu.commands.clear()
    gateway.reconcile()
    assert ["systemctl", "restart", "osm-vpnaas-ipsec@s1u.service"] in gateway.vdu.commands
