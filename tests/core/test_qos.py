"""Quality of service: the table, parameters, rules, and what the reconcile does with them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import attr
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nft_support import URLLC, share
from support.juju import pair
from vpnaas.base.errors import InputError
from vpnaas.features import qos
from vpnaas.params.intent import Intent, link_params
from vpnaas.params.qos import TABLE, LinkQos, link_qos
from vpnaas.vdu.steps import Results

EMBB = {"link": "s1c", "five-qi": 9, "maximum-mbps": 40, "underlay-mbps": 50}


@pytest.mark.parametrize(
    ("value", "row"),
    [
        (1, ("GBR", 20, 100, None, 20, "ef")),
        (9, ("non-GBR", 90, 300, None, 20, "cs0")),
        (5, ("non-GBR", 10, 100, None, 20, "af31")),
        (80, ("non-GBR", 68, 10, None, 2, "af31")),
        (82, ("delay-critical GBR", 19, 10, 255, 1, "ef")),
        (84, ("delay-critical GBR", 24, 30, 1354, 5, "ef")),
        (85, ("delay-critical GBR", 21, 5, 255, 2, "ef")),
        (74, ("GBR", 56, 500, None, 20, "af41")),
    ],
)
def test_rows_of_the_table(value: int, row: tuple[object, ...]) -> None:
    found = TABLE[value]
    assert row == (
        found.resource,
        found.priority,
        found.budget_ms,
        found.burst,
        found.core_ms,
        found.dscp,
    )


def test_the_table_is_whole() -> None:
    gbr = {1, 2, 3, 4, 65, 66, 67, 71, 72, 73, 74, 76}
    critical = set(range(82, 91))
    assert set(TABLE) == gbr | critical | {5, 6, 7, 8, 9, 10, 69, 70, 79, 80}
    for value, row in TABLE.items():
        assert row.guaranteed == (value in gbr | critical)
        assert (row.burst is not None) == (value in critical)
        assert row.core_ms < row.budget_ms
        assert row.precedence == 0 if value in critical else 1 <= row.precedence <= 6


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"five-qi": 75}, "five-qi: 75 is not standardised"),
        ({"five-qi": 300}, "out of range"),
        ({"guaranteed-mbps": 0}, "5QI 82 is delay-critical GBR and has no guaranteed rate"),
        ({"five-qi": 9}, "5QI 9 is non-GBR and guarantees nothing"),
        ({"guaranteed-mbps": 9}, "9 is more than maximum-mbps 8"),
        ({"guaranteed-mbps": 60, "maximum-mbps": 0}, "60 is more than underlay-mbps 50"),
        ({"maximum-mbps": "many"}, "not a whole number"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(change: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        link_qos({**URLLC, **change})


def test_links_of_an_interface_may_not_contradict_each_other() -> None:
    one, two = share(URLLC), share(EMBB)
    qos.fitting([one, two])
    other = attr.evolve(two, qos=attr.evolve(two.qos, underlay_mbps=70))
    with pytest.raises(InputError, match="links over ens4 say 50 and 70"):
        qos.fitting([one, other])
    greedy = share({"link": "s1c", "five-qi": 3, "guaranteed-mbps": 46, "underlay-mbps": 50})
    with pytest.raises(InputError, match="51 Mbit/s are guaranteed over ens4, which has 50"):
        qos.fitting([one, greedy])


def test_ipsec_links_to_one_peer_have_one_5qi() -> None:
    urllc, embb = share(URLLC, "ipsec"), share(EMBB, "ipsec")
    with pytest.raises(InputError, match="links s1u and s1c to 192.168.9.159 have 5QIs 82 and 9"):
        qos.fitting([urllc, embb])
    qos.fitting([urllc, attr.evolve(urllc, qos=attr.evolve(urllc.qos, link="s1c"))])
    qos.fitting([urllc, attr.evolve(embb, peers=())])
    qos.fitting([urllc, attr.evolve(embb, underlay="ens5")])
    qos.fitting([urllc, share(EMBB)])


def test_urgent_links_go_first_and_have_what_was_promised() -> None:
    files = qos.render([share(EMBB, port=51823), share(URLLC)])
    tc, nft = files[qos.TC_FILE], files[qos.NFT_FILE]
    burst = "burst 70000b cburst 70000b"
    assert f"classid 5c1e:1 htb rate 50mbit ceil 50mbit {burst}" in tc
    assert f"classid 5c1e:10 htb prio 0 rate 5mbit ceil 8mbit {burst}" in tc
    assert f"classid 5c1e:11 htb prio 6 rate 1mbit ceil 40mbit {burst}" in tc
    assert "htb default 2" in tc
    assert 'oifname "ens4" udp sport 51825 ip dscp set ef' in nft
    assert 'oifname "ens4" udp sport 51825 counter meta priority set 5c1e:10' in nft
    assert 'oifname "ens4" udp sport 51823 counter meta priority set 5c1e:11' in nft
    assert 'oifname "wg-s1u" ip6 dscp set ef' in nft
    assert "parent 5c1e:11 fq_codel" in files[qos.LEAVES_FILE]
    assert "1:10" not in files[qos.LEAVES_FILE]


def test_other_technologies_are_told_by_their_addresses() -> None:
    nft = qos.render([share(URLLC, "ipsec")])[qos.NFT_FILE]
    assert "ip daddr 192.168.9.159 meta l4proto 50 ip dscp set ef" in nft
    assert "ip6 dscp set ef" in nft  # of the inner packets
    assert "ip daddr 192.168.9.159 udp sport { 500, 4500 } counter meta priority set 5c1e:10" in nft
    assert "ip saddr 192.168.248.10 counter" in qos.render([share(URLLC, "none")])[qos.NFT_FILE]


@pytest.mark.parametrize("more", [(), ("ens4",), ("ens5",)])
def test_the_only_ipsec_link_of_an_interface_has_its_packets_to_peers_anywhere(
    more: tuple[str, ...],
) -> None:
    _, hss, _, _ = pair("ipsec")
    for underlay in more:
        given = {"link": "s11", "inner-address": "172.16.1.1/24", "technology": "ipsec"}
        hss.roles = {**hss.roles, "s11": "provider"}
        hss.vdu.underlay["ens5"] = "192.168.9.1/24"
        hss.intent = hss.intent.with_link(link_params({**given, "underlay-interface": underlay}))
    hss.intent = hss.intent.with_qos("s6a", link_qos({**EMBB, "link": "s6a"}))
    hss.reconcile()
    assert hss.error == ""
    nft = hss.vdu.files[qos.NFT_FILE]
    to = "ip daddr 192.168.8.2 " if more == ("ens4",) else ""
    assert f'oifname "ens4" {to}meta l4proto 50 counter meta priority set 5c1e:10' in nft
    assert f'oifname "ens4" {to}udp sport {{ 500, 4500 }} counter' in nft
    assert ("daddr" in nft) == bool(to)


@given(st.sampled_from(sorted(TABLE)), st.integers(1, 1000))
def test_a_queue_holds_a_super_packet_and_no_more_than_the_budget_allows(
    five_qi: int, rate: int
) -> None:
    row = TABLE[five_qi]
    rates = LinkQos("s1u", five_qi, rate if row.guaranteed else 0, rate, 0)
    held = qos.queue_bytes(rates, 0)
    assert qos.SUPER_PACKET <= held <= qos.LONGEST_QUEUE
    if held > 4 * qos.SUPER_PACKET:
        assert held * 8 / (rate * 1000) <= row.core_ms


@pytest.mark.parametrize("technology", ["wireguard", "ipsec", "none"])
def test_the_rules_are_nfts(technology: str) -> None:
    alone = attr.evolve(share(EMBB, technology), alone=True, underlay="ens5")
    text = qos.render([share(URLLC, technology), alone])[qos.NFT_FILE]
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", "nft", "--check", "--file", "-"],
        input=text, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "unshare" in done.stderr:
        pytest.skip("no user namespaces here")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("handle", ["", "handle 1:"])
def test_at_boot_and_at_the_end_only_a_queue_of_ours_is_taken_away(
    handle: str, tmp_path: Path
) -> None:
    files = qos.render([attr.evolve(share(URLLC), underlay="lo")])
    for name, path in (("on", qos.TC_FILE), ("off", qos.OFF_FILE)):
        (tmp_path / name).write_text(files[path])
    script = f"""tc qdisc add dev lo root {handle} tbf rate 1mbit burst 10kb latency 10ms
for batch in off off-theirs on off; do
    if [ $batch = off-theirs ]; then tc qdisc del dev lo root; else tc -force -batch $batch; fi
    echo $(tc qdisc show dev lo)
done"""
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", script],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "unshare" in done.stderr:
        pytest.skip("no user namespaces here")
    theirs, none, ours, gone = done.stdout.splitlines()
    assert theirs.startswith("qdisc tbf "), done
    assert ours.startswith("qdisc htb 5c1e: root"), done
    assert none == gone == ""


def test_the_intent_keeps_it() -> None:
    params = link_params({"link": "s1u", "inner-address": "10.0.0.1/24"})
    intent = Intent().with_link(params).with_qos("s1u", link_qos(URLLC))
    assert Intent.from_json(intent.to_json()) == intent
    assert intent.with_qos("s1u", link_qos({"link": "s1u", "five-qi": 0})).qos == {}
    with pytest.raises(InputError, match="s6a is not configured"):
        intent.with_qos("s6a", None)
    before = '{"version": 1, "links": [], "peers": []}'
    assert Intent.from_json(before).qos == {}


def test_the_reconcile_puts_it_into_force_once_and_mends_it() -> None:
    _, hss, _, _ = pair()
    vdu = hss.vdu
    assert qos.NFT_FILE not in vdu.files
    hss.intent = hss.intent.with_qos("s6a", link_qos({**EMBB, "link": "s6a"}))
    hss.reconcile()
    assert {qos.UNIT} <= vdu.active & vdu.enabled
    assert "5c1e:10 htb prio 6" in vdu.files[qos.TC_FILE]
    vdu.commands.clear()
    hss.reconcile()
    assert not [
        c for c in vdu.commands if qos.UNIT in c and c[1] not in ("is-active", "is-enabled")
    ]
    vdu.active.discard(qos.UNIT)
    hss.reconcile()
    assert qos.UNIT in vdu.active
    hss.intent = hss.intent.with_qos("s6a", None)
    hss.reconcile()
    assert not {qos.UNIT} & (vdu.active | vdu.enabled)
    assert qos.NFT_FILE not in vdu.files
    assert hss.states() == {"s6a": "up"}


@pytest.mark.parametrize(
    ("queue", "theirs"),
    [
        # As iproute2 6.1 prints them.
        ("tbf 800d: dev ens4 root refcnt 2 rate 1Mbit burst 10000b lat 0us ", "tbf 800d:"),
        ("htb 1: dev ens4 root refcnt 2 r2q 10 default 0x20 direct_packets_stat 0", "htb 1:"),
        (
            "pfifo_fast 0: dev ens4 root refcnt 2 bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1",
            "",
        ),
        ("htb 1: dev ens4 root refcnt 2 r2q 10 default 0x2 direct_packets_stat 0", ""),
        ("htb 5c1e: dev ens4 root refcnt 2 r2q 10 default 2 direct_packets_stat 0", ""),
        ("tbf 800d: dev ens3 root refcnt 2 rate 1Mbit burst 10000b lat 0us ", ""),
        ("mq 0: dev ens4 root \nqdisc fq_codel 8001: dev ens4 parent :1 limit 10240p", ""),
    ],
)
def test_a_queue_of_somebody_else_stays(queue: str, theirs: str) -> None:
    _, hss, _, _ = pair()
    hss.vdu.queue = f"qdisc {queue}\n"
    hss.intent = hss.intent.with_qos("s6a", link_qos({**EMBB, "link": "s6a"}))
    hss.reconcile()
    assert (qos.UNIT in hss.vdu.active) == (not theirs)
    assert (qos.TC_FILE in hss.vdu.files) == (not theirs)
    said = (
        f"set-qos: five-qi: ens4 of the VDU has a queue of somebody else, {theirs}; allowed: none;"
        " `tc qdisc del dev ens4 root` takes it away"
    )
    assert hss.plans["s6a"].problems == ((said,) if theirs else ())


def test_counters_are_read_from_what_tc_prints() -> None:
    classes = """class htb 5c1e:11 parent 5c1e:1 leaf 8006: prio 6 rate 1Mbit ceil 40Mbit
 Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)
class htb 5c1e:10 parent 5c1e:1 leaf 8005: prio 0 rate 5Mbit ceil 8Mbit burst 70000b
 Sent 1234 bytes 7 pkt (dropped 2, overlimits 3 requeues 0)
"""
    queues = "qdisc bfifo 8005: parent 5c1e:10 limit 70000b\n"
    results = Results({"show/ens4": {"code": 0, "out": classes},
                       "show-queues/ens4": {"code": 0, "out": queues}})  # fmt: skip
    result = qos.shown([share(URLLC)], results)["s1u"]
    assert (result["sent-bytes"], result["sent-packets"], result["dropped"]) == (1234, 7, 2)
    assert (result["queue"], result["in-force"], result["delay-budget-ms"]) == ("bfifo", True, 10)
    assert not qos.shown([share(URLLC)], Results({}))["s1u"]["in-force"]


def test_configure_sets_a_5qi_takes_it_away_or_leaves_it() -> None:
    day_1 = {"link": "s1u", "inner-address": "192.168.248.10/24"}
    intent = Intent().configured({**day_1, **URLLC})
    assert intent.qos["s1u"] == link_qos(URLLC)
    assert intent.configured({**day_1, "technology": "none"}).qos == intent.qos
    assert intent.configured({**day_1, "five-qi": -1, "maximum-mbps": 3}).qos == intent.qos
    assert intent.configured({**day_1, "five-qi": 0}).qos == {}
    with pytest.raises(InputError, match=r"configure: guaranteed-mbps.*has no guaranteed rate"):
        Intent().configured({**day_1, "five-qi": 82})
    with pytest.raises(InputError, match=r"configure: five-qi.*from -1 to 255"):
        Intent().configured({**day_1, "five-qi": -2})
