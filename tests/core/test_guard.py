"""The guard: which rules there are, when they change, and that a reboot keeps them."""

from __future__ import annotations

import ipaddress

import attr
import pytest
from nft_support import params, plan
from support.juju import pair
from vpnaas.base.links import NONE
from vpnaas.features import guard, qos
from vpnaas.params.intent import Intent
from vpnaas.peers.inputs import CharmState
from vpnaas.status import link_status
from vpnaas.vdu import nftables
from vpnaas.vdu.steps import Results


def observed(text: str | None, loaded: bool = True, shown: str | None = None) -> Results:
    shown = text if shown is None else shown
    return Results(
        {
            "guard/file": {"text": text},
            "guard/unit": {"text": guard.UNIT_TEXT},
            "guard/after-flush": {"text": nftables.after_flush_text(guard.FILE)},
            "guard/table": {"code": 0 if loaded else 1, "out": shown if loaded else ""},
            "guard/enabled": {"code": 0, "out": "enabled\n"},
        }
    )


def ids(steps: list[object]) -> list[str]:
    return [step.id for step in steps]  # type: ignore[attr-defined]


def test_each_direction_of_each_link_is_kept_to_its_interface() -> None:
    text = guard.render([guard.guarded(plan("s6a")), guard.guarded(plan("s1c"))])
    assert (
        'meta l4proto 6 th dport { 3868, 3870, 5868, 5870 } oifname != { "lo", "wg-s6a" }' in text
    )
    for protocol, ports, link in (
        (6, "3868, 3870, 5868, 5870", "s6a"),
        (132, "36412", "s1c"),
    ):
        for name in ("iifname", "oifname"):
            for end in ("dport", "sport"):
                rule = (
                    f"meta l4proto {protocol} th {end} {{ {ports} }} "
                    f'{name} != {{ "lo", "wg-{link}" }} counter drop'
                )
                assert text.count(rule) == 1, rule


def test_where_the_tunnel_has_no_interface_the_kernels_mark_decides() -> None:
    text = guard.render([guard.guarded(plan("s6a", interface="ens4"))])
    lines = [line.strip() for line in text.splitlines() if "dport" in line]
    ports = "meta l4proto 6 th dport { 3868, 3870, 5868, 5870 }"
    assert '"lo" meta ipsec missing ip daddr 172.16.6.2 counter drop' in text
    assert lines == [
        f'{ports} iifname != "lo" meta ipsec exists accept',
        f'{ports} iifname != "lo" counter drop',
        f'{ports} oifname != "lo" rt ipsec exists accept',
        f'{ports} oifname != "lo" counter drop',
    ]


@pytest.mark.parametrize("link", ["vpn-server", "s6a"])
def test_inner_addresses_take_only_what_came_through_the_tunnel(link: str) -> None:
    address = params(link).inner_address
    text = guard.render([guard.guarded(plan(link))])
    outside = f'iifname != {{ "lo", "wg-{link}" }}'
    assert text.count(f"{outside} ip daddr {address.ip} counter drop") == 1
    # Into this VDU and through it.
    assert text.count(f"{outside} ip saddr {address.network} counter drop") == 2
    assert ("th dport" in text) == (link == "s6a")


def test_ssh_is_for_management_only() -> None:
    drop = 'iifname "ens4" tcp dport 22 counter drop'
    assert drop in guard.render([guard.guarded(plan("s6a"), "ens3")])
    kernel = guard.render([guard.guarded(plan("s6a", interface="ens4"), "ens3")])
    assert 'iifname "ens4" meta ipsec missing tcp dport 22 counter drop' in kernel
    # Where the underlay is management too, or nobody knows, the charm must still log in.
    for management in ("ens4", ""):
        text = guard.render([guard.guarded(plan("s6a"), management)])
        assert "dport 22" not in text


def test_links_in_clear_have_no_guard() -> None:
    state = CharmState(Intent({"s6a": params("s6a", NONE)}), {})
    assert ids(guard.Guard().observe(state)) == ["guard/file"]
    plans = {"s6a": plan("s6a", NONE)}
    assert guard.steps_to(plans, observed(None)) == []
    # What was guarded before is not any more.
    assert ids(guard.steps_to(plans, observed("old")))[:2] == ["guard/off", "guard/delete"]


def test_nothing_is_done_where_it_is_in_force_and_a_flush_is_mended() -> None:
    plans = {"s6a": plan("s6a")}
    text = guard.render([guard.guarded(plans["s6a"])])
    assert guard.steps_to(plans, observed(text)) == []
    # Somebody has deleted a rule, or all of them: `nft flush table`.
    for shown in (text.replace("counter drop", "", 1), ""):
        assert "guard/load" in ids(guard.steps_to(plans, observed(text, shown=shown)))
    assert "guard/load" in ids(guard.steps_to(plans, observed(text, loaded=False)))
    assert "guard/load" in ids(guard.steps_to(plans, observed("something else")))


@pytest.mark.parametrize("technology", ["wireguard", "ipsec", "none"])
def test_rules_that_somebody_removed_are_told_once(technology: str) -> None:
    juju, hss, *_ = pair(technology)

    def reason() -> str:
        hss.reconcile()
        return link_status("s6a", hss.plans["s6a"], juju.world.clock).reason

    assert reason() == ""
    for left in ("", hss.vdu.guard.replace("counter drop", "", 1)):
        whole, hss.vdu.guard = hss.vdu.guard, left
        assert reason() == (guard.ROBBED if whole else "")
        assert (hss.states()["s6a"], hss.vdu.guard) == ("up" if whole else "clear", whole)
        assert reason() == ""


def test_a_link_nothing_was_decided_of_keeps_its_guard() -> None:
    plans = {"s6a": attr.evolve(plan("s6a"), unusable=True, interface="")}
    assert guard.steps_to(plans, observed("what guards it")) == []


def test_without_a_guard_the_other_links_get_theirs() -> None:
    """As on a healed VDU that lacks an interface."""
    plans = {
        "s6a": attr.evolve(plan("s6a"), unusable=True, interface=""),
        "s1c": plan("s1c"),
    }
    (put,) = [step for step in guard.steps_to(plans, observed(None)) if step.id == "guard/put"]
    assert put.body["text"] == guard.render([guard.guarded(plans["s1c"])])


def test_an_unusable_link_keeps_its_rules_and_the_others_get_theirs() -> None:
    before = {"s6a": plan("s6a"), "s1c": plan("s1c")}
    present = guard.render([guard.guarded(each) for each in before.values()])
    stuck = attr.evolve(plan("s6a"), unusable=True, interface="", underlay="")
    assert guard.steps_to({**before, "s6a": stuck}, observed(present)) == []
    more = attr.evolve(plan("s1c"), underlay="ens5")
    steps = guard.steps_to({"s6a": stuck, "s1c": more}, observed(present), "ens3")
    (put,) = [step for step in steps if step.id == "guard/put"]
    wanted = guard.render([guard.guarded(plan("s6a")), guard.guarded(more, "ens3")])
    assert put.body["text"] == wanted
    assert 'iifname "ens5" tcp dport 22' in wanted
    # Its rules go with the link.
    steps = guard.steps_to({"s1c": before["s1c"]}, observed(present))
    (put,) = [step for step in steps if step.id == "guard/put"]
    assert put.body["text"] == guard.render([guard.guarded(before["s1c"])])


@pytest.mark.parametrize("present", ["without the names of links", None])
def test_a_flush_is_mended_while_a_link_is_unusable(present: str | None) -> None:
    present = present or guard.render([guard.guarded(plan("s6a"))])
    stuck = {"s6a": attr.evolve(plan("s6a"), unusable=True, interface="")}
    steps = guard.steps_to(stuck, observed(present, loaded=False))
    assert "guard/load" in ids(steps)
    assert [step.body["text"] for step in steps if step.id == "guard/put"] == [present]


def test_sections_are_what_was_rendered() -> None:
    """For links with each kind of rule."""
    inner = ipaddress.ip_interface("10.80.0.1/24")
    far = tuple(ipaddress.ip_network(text) for text in ("10.82.0.0/16", "2001:db8:2::/48"))
    ours = guard.Guarded("hub", "", (), inner, "wg-hub", apart=far[:1], behind=far)
    one = guard.Guarded("s1c", "sctp", (36412,), inner, outer=True, underlay="ens4")
    both = guard.sections(guard.render([ours, one]))
    assert list(both) == ["hub", "s1c"]
    assert both["hub"] == guard.sections(guard.render([ours]))["hub"]
    assert guard.render([], both) == guard.render([ours, one])
    assert guard.sections("") == guard.sections("table inet filter {\n}\n") == {}


@pytest.mark.parametrize("step", ["guard/read-additions", "guard/load"])
def test_rules_that_were_not_loaded_are_loaded_by_the_next_reconcile(step: str) -> None:
    _, hss, _, _ = pair()
    hss.configure("s6a", "172.16.6.130/24", **{"underlay-interface": "ens4"})
    hss.break_off(step)
    assert "172.16.6.130" not in hss.vdu.guard
    hss.reconcile()
    assert "172.16.6.130" in hss.vdu.guard
    assert hss.vdu.files[guard.FILE] == hss.vdu.guard


def test_what_lies_behind_a_peer_leaves_by_the_tunnel_or_not_at_all() -> None:
    inner = ipaddress.ip_interface("10.80.0.1/24")
    behind = tuple(
        ipaddress.ip_network(text) for text in ("10.82.0.0/16", "10.82.1.0/24", "2001:db8:2::/48")
    )
    text = guard.render([guard.Guarded("site-hub", "", (), inner, "wg-site-hub", behind=behind)])
    elsewhere = 'oifname != { "lo", "wg-site-hub" }'
    v4 = f"{elsewhere} ip daddr {{ 10.80.0.0/24, 10.82.0.0/16 }} counter drop"
    v6 = f"{elsewhere} ip6 daddr {{ 2001:db8:2::/48 }} counter drop"
    forwarded = text.partition("chain forward")[2]
    assert v4 in forwarded
    assert v6 in forwarded
    kernel = guard.render([guard.Guarded("s6a", "", (), inner)])
    assert 'oifname != "lo" rt ipsec missing ip daddr { 10.80.0.0/24 } counter drop' in kernel


def test_the_tunnels_own_packets_get_out_where_inner_and_outer_address_are_one() -> None:
    inner = ipaddress.ip_interface("192.168.120.11/24")
    text = guard.render([guard.Guarded("s1c", "", (), inner, "ipsec0", outer=True)])
    assert "daddr { 192.168.120.0/24 }" not in text


def test_at_boot_it_comes_after_the_rules_of_others() -> None:
    # They begin with `flush ruleset` (Debian's and Ubuntu's /etc/nftables.conf).
    after = [line for line in guard.UNIT_TEXT.splitlines() if line.startswith("After=")]
    assert "nftables.service" in after[0].partition("=")[2].split()


def test_who_flushes_all_tables_loads_it_again() -> None:
    plans = {"s6a": plan("s6a")}
    (text,) = (s for s in guard.steps_to(plans, observed("old")) if s.id == "guard/put-after-flush")
    assert text.body["path"].startswith("/etc/systemd/system/nftables.service.d/")
    assert text.body["text"].splitlines() == [
        "[Service]",
        "ExecStartPost=-/usr/sbin/nft -f /etc/osm-vpnaas/guard.nft",
        "ExecReload=-/usr/sbin/nft -f /etc/osm-vpnaas/guard.nft",
    ]
    (reread,) = (
        s for s in guard.steps_to(plans, observed("old")) if "daemon-reload" in str(s.body)
    )
    assert reread.body["only_if"].endswith("sysinit.target.wants/nftables.service")
    # The unit of the marks is active, so systemd restarts it together with the other.
    assert "\nPartOf=nftables.service\n" in qos.UNIT_TEXT
