"""What a look at a link finds: who is asked for an echo, and what that says."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import Any

import attr
import pytest
from support.juju import pair
from vpnaas.base.errors import VduError
from vpnaas.params.intent import manual_peer
from vpnaas.peers.offer import looking
from vpnaas.plan import ECHO, MAX_PROBES, RECENT, Plan, conclude
from vpnaas.status import Memory, link_status, summary
from vpnaas.tunnels.technology import Echo, LinkPlan
from vpnaas.vdu.programs import source
from vpnaas.vdu.programs.echo import Asked, message
from vpnaas.vdu.programs.echo import Echo as Asking
from vpnaas.vdu.steps import Results

LAPTOP = "Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE="


def asked(vnf: Any) -> list[list[str]]:
    return [c for c in vnf.vdu.commands if c[:1] == ["python3"] and c[3] == source("echo.py")]


def test_a_silent_peer_is_asked_and_is_down_although_its_handshake_is_young() -> None:
    juju, hss, mme, _ = pair()
    juju.world.clock += RECENT
    mme.interface("s6a").peers.clear()
    hss.vdu.commands.clear()
    hss.reconcile()
    assert len(asked(hss)) == 1
    assert hss.states() == {"s6a": "down"}
    juju.world.clock += 3600
    mme.reconcile()
    hss.reconcile()
    assert hss.states() == {"s6a": "up"}


def test_a_peer_that_was_just_heard_is_not_asked() -> None:
    juju, hss, _, _ = pair()
    juju.world.clock += RECENT - 1
    hss.vdu.commands.clear()
    assert hss.reconcile() == 1
    assert asked(hss) == []


def test_ipsec_is_asked_though_its_daemon_has_the_tunnel() -> None:
    juju, hss, mme, _ = pair(technology="ipsec")
    for sa in hss.vdu.charon.sas:
        sa.age = 60
    # Its packets arrive, and none of ours; the daemon does not know it yet.
    juju.world.ping = lambda *_: False
    hss.reconcile()
    assert hss.states() == {"s6a": "down"}


def test_a_doubted_link_is_asked_although_its_peer_was_heard() -> None:
    """What came in the last seconds says nothing of the other direction."""
    juju, hss, mme, _ = pair()
    mme.interface("s6a").peers.clear()
    hss.reconcile()
    assert hss.states() == {"s6a": "up"}
    hss.reconcile(doubted=frozenset({"s6a"}))
    assert hss.states() == {"s6a": "down"}


def plan_of(vnf: Any) -> LinkPlan:
    plan: LinkPlan = vnf.plans["s6a"]
    return plan


def test_a_peer_that_confirmed_our_key_a_moment_ago_is_pending() -> None:
    juju, hss, _, _ = pair()
    plan = plan_of(hss)
    (peer,) = plan.peers
    silent = attr.evolve(plan, echoes={peer.name: Echo(9, 0)})
    clock = juju.world.clock
    first = link_status("s6a", silent, clock, at=100)
    assert (first.state, first.reason) == ("pending", "waiting for the first handshake with mme")
    later = link_status("s6a", silent, clock, before=first.memory, at=119)
    assert later.state == "pending"
    red = link_status("s6a", silent, clock, before=later.memory, at=120)
    assert (red.state, red.reason, red.details["since"]) == (
        "down", "no answer from mme", "1970-01-01T00:02:00Z",
    )  # fmt: skip
    assert summary([red]) == (True, "s6a down since 1970-01-01T00:02:00Z (no answer from mme)")
    # The reconcile after it knows since when, also after it was stored.
    stored = Memory.from_json(json.loads(json.dumps(red.memory.to_json())))
    assert stored == red.memory
    assert (
        link_status("s6a", silent, clock, before=stored, at=500).details["since"].endswith("2:00Z")
    )
    # A key of today starts anew, also after a rotation.
    renewed = attr.evolve(silent, state=attr.evolve(plan.state, public_key=LAPTOP))
    assert link_status("s6a", renewed, clock, before=stored, at=500).state == "pending"


def test_a_clock_of_the_charm_that_jumps_back_hides_no_dead_link() -> None:
    juju, hss, _, _ = pair()
    plan, clock = plan_of(hss), juju.world.clock
    (peer,) = plan.peers
    silent = attr.evolve(plan, echoes={peer.name: Echo(9, 0)})
    before = link_status("s6a", plan, clock, at=5000).memory
    jumped = link_status("s6a", silent, clock, before=before, at=100)
    assert jumped.state == "pending"
    red = link_status("s6a", silent, clock, before=jumped.memory, at=120)
    assert (red.state, red.details["since"]) == ("down", "1970-01-01T00:02:00Z")
    again = link_status("s6a", silent, clock, before=red.memory, at=60)
    assert again.details["since"] == "1970-01-01T00:01:00Z", "no time ahead of its clock"


def test_a_bad_look_asks_the_other_end_for_another_one_and_not_for_ever() -> None:
    juju, hss, mme, _ = pair()
    plan = plan_of(hss)
    (peer,) = plan.peers
    silent, clock = attr.evolve(plan, echoes={peer.name: Echo(9, 0)}), juju.world.clock
    memory, numbers = Memory(), []
    for at in range(0, 600, 10):
        memory = link_status("s6a", silent, clock, before=memory, at=at).memory
        numbers.append(memory.looks[0])
    assert numbers[:4] == [1, 2, 3, 3]
    assert numbers[-1] == 3
    good = link_status("s6a", plan, clock, before=memory, at=600).memory
    again = link_status("s6a", silent, clock, before=good, at=900).memory
    # The other end may still call the link down, so the recovery asks it to look, once.
    assert (good.looks[0], again.looks[0]) == (4, 5)
    assert link_status("s6a", plan, clock, before=good, at=601).memory.looks[0] == 4
    assert link_status("s6a", silent, clock, before=again, at=910).memory.looks[0] == 5
    woken = link_status("s6a", plan, clock, before=memory, at=600, woken=["7"]).memory
    assert woken.looks == (3, 0), "the end that has asked comes back by itself"
    assert link_status("s6a", plan, clock, before=again, at=930).memory.looks[0] == 5, "too soon"
    # An end that was woken for a look does not ask for one itself.
    assert link_status("s6a", silent, clock, before=good, at=900, woken=["7"]).memory.looks[0] == 4
    bag = looking(4, {"vpnaas-look": "7"})
    assert bag == {"vpnaas-look": "4", "vpnaas-looked": "7"}
    for hostile in ("-1", "7\n", "x" * 99, "٣", "1" * 10):
        assert looking(0, {"vpnaas-look": hostile}) == {"vpnaas-look": "", "vpnaas-looked": ""}


@pytest.mark.parametrize("pattern", ["alternate", "one way", "random", "down", "up"])
def test_ends_of_a_link_that_comes_and_goes_do_not_wake_each_other_for_ever(pattern: str) -> None:
    juju, hss, _, _ = pair()
    plan = plan_of(hss)
    (peer,) = plan.peers
    silent, chance = attr.evolve(plan, echoes={peer.name: Echo(9, 0)}), random.Random(5)  # noqa: S311
    ends, events, looks = [Memory(), Memory()], [], 0
    bags: list[dict[str, str]] = [{}, {}]
    for at in range(0, 3600, 5):  # a look takes 5 s; update-status comes every 300 s
        if at % 300 == 0:
            events += [0, 1]
        if not events:
            continue
        end = events.pop(0)
        looks += 1
        good = {
            "alternate": looks % 4 < 2, "one way": end == 0, "random": chance.random() < 0.5,
            "down": False, "up": True,
        }[pattern]  # fmt: skip
        seen = plan if good else silent
        status = link_status(
            "s6a", seen, juju.world.clock, before=ends[end], at=at,
            woken=[bags[1 - end].get("vpnaas-look", "")],
        )  # fmt: skip
        ends[end] = status.memory
        told = looking(status.memory.looks[0], bags[1 - end])
        if told != bags[end]:
            bags[end] = told
            events.append(1 - end)
    assert looks <= 24 * 5, "more than four looks for each of update-status"


def test_a_manual_peer_may_sleep_or_filter_echo_requests() -> None:
    juju, hss, _, _ = pair()
    given = {
        "link": "s6a",
        "name": "laptop",
        "public-key": LAPTOP,
        "allowed-prefixes": "172.16.6.9",
    }
    hss.intent = hss.intent.with_peer(manual_peer(given))
    hss.reconcile()
    juju.world.clock += 60
    hss.vdu.commands.clear()
    hss.reconcile()
    assert "man-laptop" not in str(asked(hss)), "it has no tunnel, so it may sleep"
    hss.interface("s6a").peers[LAPTOP].handshake = juju.world.clock - 60
    hss.reconcile()
    plan, clock = plan_of(hss), juju.world.clock
    assert plan.echoes["man-laptop"].received == 0

    def seen(memory: Memory) -> str:
        status = link_status("s6a", plan, clock, before=memory, at=clock)
        states = {peer["peer"]: peer["state"] for peer in status.details["peers"]}
        assert status.state == "up"
        return str(states["laptop"])

    assert seen(Memory()) == "up", "it may filter ICMP"
    assert seen(Memory(answered=frozenset({"man-laptop"}))) == "idle"


@pytest.mark.slow
def test_many_peers_are_asked_at_once() -> None:
    juju, hss, _, _ = pair()
    for number in range(MAX_PROBES + 50):
        key = f"{number:042d}AA="[-44:]
        prefix = f"172.16.{100 + number // 250}.{number % 250 + 1}"
        given = {"link": "s6a", "name": f"p{number}", "public-key": key, "allowed-prefixes": prefix}
        hss.intent = hss.intent.with_peer(manual_peer(given))
    hss.reconcile()
    for peer in hss.interface("s6a").peers.values():
        peer.handshake = juju.world.clock - 30
    hss.vdu.commands.clear()
    hss.reconcile()
    assert len(asked(hss)) == 1
    assert len(plan_of(hss).echoes) == MAX_PROBES


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"s6a/rel-1": [1, 2]}', '{"s6a/rel-1": [1e999, 0, 0]}']
)
def test_an_answer_that_is_none_is_named(text: str) -> None:
    _, hss, _, _ = pair()
    plan = Plan(0, {"s6a": plan_of(hss)}, (), {}, {"s6a": ("rel-1",)})
    with pytest.raises(VduError, match="did not say which peers answered"):
        conclude(plan, Results({ECHO: {"code": 0, "out": text}}))
    failed = Results({ECHO: {"code": 1, "out": "", "err": "Operation not permitted"}})
    (reason,) = conclude(plan, failed)["s6a"].waiting
    assert reason.startswith("the VDU cannot send echo requests: ")


def test_the_program_asks_both_versions_of_ip() -> None:
    asked = {"a": ["127.0.0.1", 2], "b": ["::1", 2]}
    answer = run(asked)
    assert {name: counts[:2] for name, counts in answer.items()} == {"a": [5, 5], "b": [5, 5]}


def test_the_program_says_who_did_not_answer() -> None:
    answer = run({"a": ["192.0.2.1", 0.3], "b": ["2001:db8::1", 0.3]}, "unshare", "--net")
    assert [counts[1:3] for counts in answer.values()] == [[0, None], [0, None]]


@pytest.mark.parametrize(
    ("rule", "vanish"), [("length > 1100", True), ("length > 1300", False), ("length > 0", False)]
)
def test_the_program_says_where_large_packets_vanish(rule: str, vanish: bool) -> None:
    hook = f"type filter hook output priority 0; meta {rule} drop;"
    text = f"table inet t {{ chain c {{ {hook} }}; }}"
    script = f"ip link set lo up && nft '{text}' && exec \"$@\""
    before = ("unshare", "--net", "sh", "-c", script, "sh")
    answer = run(
        {"a": ["127.0.0.1", 0.3, 1280], "b": ["::1", 0.3, 1280], "c": ["127.0.0.2", 0.3, 1281]},
        *before,
    )
    assert {counts[3] for counts in answer.values()} == {vanish}


def test_the_program_waits_for_large_packets_on_a_long_way() -> None:
    one = Asked(0, "192.0.2.1", 6, 1280)
    one.sent = [0.02 * number for number in range(5)]
    one.answered = {number: at + 1.2 for number, at in enumerate(one.sent)}
    one.large = [at + 1.3 for at in one.sent]
    assert not one.done(2.6)
    assert one.done(5.0)


def test_large_packets_that_vanish_are_named_while_the_link_is_up() -> None:
    _, hss, _, _ = pair()
    plan = plan_of(hss)
    (peer,) = plan.peers
    lossy = attr.evolve(plan, echoes={peer.name: Echo(5, 5, 1.0, True)})
    status = link_status("s6a", lossy, plan.state.now)
    assert (status.state, status.reason) == (
        "up",
        f"{peer.label}: packets of 1420 bytes vanish, small ones pass; set a smaller mtu",
    )


def run(asked: dict[str, Any], *before: str) -> dict[str, Any]:
    words = [*before, sys.executable, "-I", "-c", source("echo.py")]
    done = subprocess.run(
        words, input=json.dumps(asked), capture_output=True, text=True, check=True
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_only_an_answer_to_our_own_request_counts() -> None:
    asking = Asking({"a": ["192.0.2.1", 3]})
    one = asking.asked["a"]
    one.sent.append(0.0)
    head = b"E" + bytes(19)
    for body, origin in (
        (asking.token + bytes(4), "192.0.2.2"),
        (bytes(12), "192.0.2.1"),
        (asking.token + b"\0\0\0\1", "192.0.2.1"),
        (asking.token, "192.0.2.1"),
    ):
        asking.answer(4, head + message(4, 0, 0, body), origin)
    asking.answer(4, head + message(4, 0, 1, asking.token + bytes(4)), "192.0.2.1")
    asking.answer(4, b"", "192.0.2.1")
    assert one.answered == {}
    asking.answer(4, head + message(4, 0, 0, asking.token + bytes(4)), "192.0.2.1")
    assert list(one.answered) == [0]
