"""A peer that does not answer: what of this VDU may be the cause is named."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support.juju import pair
from vpnaas.status import link_status
from vpnaas.tunnels.silence import causes, look
from vpnaas.vdu.steps import Results

DROP = {"expr": [{"match": {"right": 51821}}, {"drop": None}]}
ACME = {"family": "inet", "table": "acme", "chain": "o", "handle": 4}


def cut() -> Any:
    juju, hss, _, _ = pair()
    juju.world.clock += 60
    juju.world.ping = lambda *_: False
    return hss


def reason(hss: Any) -> str:
    hss.reconcile()
    return link_status("s6a", hss.plans["s6a"], hss.juju.world.clock, at=60).reason


@pytest.mark.parametrize(
    ("inner", "outer", "sentence"),
    [
        ("ens3", "ens4", "sends packets to {inner} into ens3 instead of wg-s6a"),
        ("", "ens4", "refuses packets to {inner}"),
        ("wg-s6a", "", "refuses packets to {outer}"),
        ("wg-s6a", "ens3", "sends packets to {outer} into ens3 instead of ens4"),
    ],
)
def test_a_foreign_way_is_named(inner: str, outer: str, sentence: str) -> None:
    hss = cut()
    hss.reconcile()
    (peer,) = hss.plans["s6a"].peers
    ends = {"inner": str(peer.inner_address), "outer": str(peer.endpoint[0])}
    hss.vdu.ways = {ends["inner"]: inner, ends["outer"]: outer}
    assert "a route or rule of the VDU " + sentence.format(**ends) in reason(hss)
    hss.vdu.ways = {ends["inner"]: "wg-s6a", ends["outer"]: "ens4"}
    assert reason(hss) == "no answer from mme"


def test_the_way_past_an_interface_that_could_not_start_is_no_cause() -> None:
    hss = cut()
    hss.reconcile()
    (peer,) = hss.plans["s6a"].peers
    del hss.vdu.interfaces["wg-s6a"]
    hss.vdu.taken[51821], hss.vdu.fail_on = "python3", "s6a/apply/start"
    hss.vdu.ways = {str(peer.inner_address): "ens3"}
    found = reason(hss)
    assert found.startswith("UDP port 51821 of the VDU is used by python3; ")
    assert "a route or rule" not in found


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["BROADCAST"], "is down; `ip link set ens4 up` sets it up"),
        (["NO-CARRIER", "BROADCAST", "UP"], "has no carrier"),
    ],
)
def test_an_underlay_that_is_down_is_named_alone(flags: list[str], sentence: str) -> None:
    hss = cut()
    hss.reconcile()
    (peer,) = hss.plans["s6a"].peers
    hss.vdu.flags["ens4"] = flags
    hss.vdu.ways = {str(peer.endpoint[0]): "ens3"}
    assert reason(hss) == f"interface ens4 of the VDU {sentence}; no answer from mme"


@pytest.mark.parametrize(("alive", "named"), [(True, True), (False, False)])
def test_the_way_into_a_link_of_ipsec_is_foreign_only_beside_a_tunnel(
    alive: bool, named: bool
) -> None:
    """Without security associations charon has no routes, so packets end in the link's device."""
    (peer,) = pair(technology="ipsec")[1].plans["s6a"].peers
    results = Results({"s6a/silent/inner": {"code": 0, "out": '[{"dev": "xf-s6a"}]'}})
    idle = "" if alive else "xf-s6a"
    assert bool(causes("s6a", peer, "ipsec0", idle, results)) == named


@pytest.mark.parametrize(
    ("found", "chains", "shown"),
    [
        ([{"rule": {**ACME, **DROP}}], [], "o of table inet acme"),
        ([{"rule": {**ACME, "expr": [{"reject": {"type": "icmp"}}]}}], [], "o of table inet acme"),
        ([], [{"family": "ip", "table": "t", "name": "IN", "policy": "drop"}], "IN of table ip t"),
        ([{"rule": {**ACME, "table": "osm_vpnaas_guard", **DROP}}], [], ""),
        ([{"rule": {**ACME, "expr": [{"accept": None}]}}], [], ""),
        ([{"rule": {**ACME, "table": "a\nb", **DROP}}], [], "o of table inet ab"),
    ],
)
def test_a_foreign_firewall_is_named(found: list[Any], chains: list[Any], shown: str) -> None:
    hss = cut()
    hss.vdu.drops, hss.vdu.chains = found, chains
    text = f"a firewall that is not ours may drop packets: {shown}; " if shown else ""
    assert reason(hss) == text + "no answer from mme"


LISTED = """-P INPUT {}
-P FORWARD ACCEPT
-N ufw-out
-A INPUT -i lo -j ACCEPT
-A ufw-out -p udp -m udp --dport 51820 -j {}
"""


@pytest.mark.parametrize(
    ("policy", "target", "chains"),
    [
        ("DROP", "ACCEPT", ["INPUT"]),
        ("ACCEPT", "REJECT --reject-with icmp-port-unreachable", ["ufw-out"]),
        ("DROP", "DROP", ["INPUT", "ufw-out"]),
        ("ACCEPT", "DROPS", []),
    ],
)
@pytest.mark.parametrize("program", ["iptables", "ip6tables"])
def test_rules_of_the_old_iptables_are_named(
    policy: str, target: str, chains: list[str], program: str
) -> None:
    (peer,) = pair()[1].plans["s6a"].peers
    (step,) = (
        each for each in look("s6a", peer, "ens4") if each.body["argv"][0] == program + "-legacy"
    )
    assert step.body["only_if"] in ("/proc/net/ip_tables_names", "/proc/net/ip6_tables_names")
    listed = "\n".join(re.findall(step.body["pick"], LISTED.format(policy, target), re.M))
    said = causes("s6a", peer, "", "", Results({step.id: {"code": 0, "out": listed}}))
    named = ", ".join(f"{chain} of {program}" for chain in chains)
    text = f"a firewall that is not ours may drop packets: {named}"
    assert said == ((text,) if chains else ())


def test_whoever_answers_costs_no_further_look() -> None:
    juju, hss, _, _ = pair()
    juju.world.clock += 60
    hss.vdu.commands.clear()
    hss.reconcile()
    assert not [command for command in hss.vdu.commands if "ruleset" in command]


def test_a_link_that_had_its_handshake_and_died_does_not_wait_for_the_first() -> None:
    juju, hss, _, _ = pair()
    memory = link_status("s6a", hss.plans["s6a"], juju.world.clock, at=100).memory
    juju.world.clock += 9
    juju.world.ping = lambda *_: False
    hss.reconcile()
    status = link_status("s6a", hss.plans["s6a"], juju.world.clock, before=memory, at=109)
    assert (status.state, status.reason) == ("down", "no answer from mme")
