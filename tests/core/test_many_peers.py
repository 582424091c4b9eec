"""A link with 1,000 peers: it fits, and one more costs what it costs among few."""

import base64
import hashlib
import json

import attr
import pytest
from support.juju import Juju
from support.model_world import public_of
from vpnaas.base import fields
from vpnaas.base.errors import InputError
from vpnaas.params.intent import manual_peer
from vpnaas.peers.peer import Peer, in_turn
from vpnaas.status import bounded, link_status, of_peer
from vpnaas.tunnels.wireguard import interface
from vpnaas.vdu import facts, steps
from vpnaas.vdu.file_cache import FileCache, difference
from vpnaas.vdu.steps import Results

SPKI = bytes.fromhex("302a300506032b6570032100")


class Counted:
    """A gateway whose steps travel as over SSH, but for the agent; counts the requests' bytes."""

    def __init__(self, technology):
        self.technology = technology
        nics = {"ens3": "10.0.0.1/24", "ens4": "192.168.8.129/24"}
        self.charm = Juju().deploy("gateway", {"s1c": "provider"}, nics)
        more = {"underlay-interface": "ens4"}
        self.charm.configure("s1c", "10.64.0.1/10", technology=technology, **more)
        self.cache, self.sent = FileCache(), 0
        self.vdu, self._execute = self.charm.vdu, self.charm.vdu.execute
        self.vdu.execute = self.execute

    def execute(self, listed):
        self.sent += len(steps.program(listed, True, self.cache))
        done = self._execute(listed)
        answer = {"results": {id: done._results[id] for id in done.ids()}, "failed": done.failed}
        return Results.from_json(json.dumps(answer), listed, self.cache)

    def peer(self, index):
        raw = hashlib.sha256(b"%d" % index).digest()
        key = raw if self.technology == "wireguard" else SPKI + raw
        return manual_peer(
            {
                "link": "s1c",
                "name": f"cell-{index:04}",
                "public-key": base64.b64encode(key).decode(),
                "allowed-prefixes": f"10.{65 + index // 250}.{index % 250}.1/32",
            }
        )

    def become(self, *indexes):
        """Reconcile to these peers; return the bytes of the requests."""
        peers = {("s1c", peer.name): peer for peer in map(self.peer, indexes)}
        self.charm.intent = type(self.charm.intent)(self.charm.intent.links, peers)
        self.sent = 0
        self.charm.reconcile()
        assert self.charm.error == ""
        plan = self.charm.plans["s1c"]
        assert plan.problems == ()
        assert len(plan.peers) == len(peers)
        return self.sent


@pytest.mark.slow
@pytest.mark.parametrize("technology", ["ipsec", "wireguard"])
def test_one_more_peer_is_told_in_as_many_bytes_among_many_as_among_few(technology):
    result = {}
    for count in (32, 320):
        gateway = Counted(technology)
        others = [index for index in range(count + 1) if index != count // 2]
        gateway.become(*others)
        unchanged = gateway.become(*others)
        result[count] = (
            unchanged,
            gateway.become(*others, count // 2),
            gateway.become(*others),
        )
    for few, many in zip(result[32], result[320], strict=True):
        assert abs(many - few) < 400


@pytest.mark.slow
@pytest.mark.parametrize("technology", ["ipsec", "wireguard"])
def test_a_thousand_peers_come_at_once_and_go(technology):
    gateway = Counted(technology)
    sent = gateway.become(*range(1000))
    assert sent < 300_000
    vdu = gateway.vdu
    loaded = vdu.charon.connections if technology == "ipsec" else vdu.interfaces["wg-s1c"].peers
    assert len(loaded) == 1000
    gateway.become()
    loaded = vdu.charon.connections if technology == "ipsec" else vdu.interfaces["wg-s1c"].peers
    assert len(loaded) == 0


def test_one_watch_serves_the_rotations_of_all_peers():
    gateway = Counted("wireguard")
    peers = [gateway.peer(index) for index in range(300)]
    peers = [
        Peer(p.name, p.name, p.allowed_prefixes, "wireguard", None, p.public_key, public_of(p.name))
        for p in peers
    ]
    before = [attr.evolve(peer, next_public_key="") for peer in peers]
    params = gateway.charm.intent.links["s1c"]
    gateway.become()
    for present in (before, peers):
        looks = [*facts.observe(), *facts.observe_routes(), *interface.observe(["s1c"])]
        seen = gateway.vdu.execute(looks).check()
        state = interface.parse(["s1c"], "s1c", facts.parse(seen), seen)
        steps = interface.steps_to(interface.Configuration(params, 1400, tuple(present)), state)
        gateway.vdu.execute(steps).check()
    assert len(steps) < 15
    assert len(gateway.vdu.interfaces["wg-s1c"].peers) == 600
    assert len(json.loads(gateway.vdu.files["/etc/osm-vpnaas/s1c/handover.json"])) == 300
    assert [c for c in gateway.vdu.commands if c[0] == "systemd-run"] == [
        [
            "systemd-run", "--collect", "--quiet", "--nice=-10",
            "--unit=osm-vpnaas-handover-s1c.service",
            "--property=RuntimeDirectory=osm-vpnaas-handover-s1c",
            "/usr/bin/python3", "-I", "/usr/local/lib/osm-vpnaas/handover",
            "wg-s1c", "/etc/osm-vpnaas/s1c/handover.json", "1800",
        ]
    ]  # fmt: skip


@pytest.mark.parametrize("technology", ["ipsec", "wireguard"])
def test_a_peer_is_judged_as_cheaply_among_many(technology, monkeypatch):
    calls = {}
    for name in ("overlaps", "covers"):
        real = getattr(fields, name)

        def counting(one, other, real=real):
            calls["now"] += 1
            return real(one, other)

        monkeypatch.setattr(fields, name, counting)
    each = []
    for count in (32, 200):
        gateway = Counted(technology)
        calls["now"] = 0
        gateway.become(*range(count))
        each.append(calls["now"] / count)
    assert each[1] <= each[0]


def test_what_is_told_of_a_thousand_peers_can_be_read():
    gateway = Counted("ipsec")
    gateway.become(*range(300))
    link = link_status("s1c", gateway.charm.plans.get("s1c"), 0)
    assert bounded({"s1c": link.details}, 1_000_000) == {"s1c": link.details}
    result = bounded({"s1c": link.details}, 54_000)
    assert len(json.dumps(result)) < 60_000
    assert len(result["s1c"]["peers"]) == 100
    assert (result["s1c"]["peers-by-state"], result["s1c"]["peers-not-shown"]) == (
        {"idle": 300},
        200,
    )
    (one,) = of_peer({"s1c": link.details}, "cell-0299")["s1c"]["peers"]
    assert one["peer"] == "cell-0299"
    with pytest.raises(InputError, match="no link has 'cell-0300'"):
        of_peer({"s1c": link.details}, "cell-0300")


def test_who_is_not_up_is_told_first():
    peers = [{"peer": f"p{n}", "state": "down" if n == 70 else "up"} for n in range(200)]
    result = bounded({"s1c": {"state": "down", "peers": peers}}, 3000)["s1c"]
    assert result["peers"][0]["peer"] == "p70"
    assert result["peers-by-state"] == {"up": 199, "down": 1}


def test_a_prefix_of_another_is_found_among_many_whichever_is_wider():
    gateway = Counted("ipsec")
    peers = {("s1c", peer.name): peer for peer in map(gateway.peer, range(100))}
    for name, prefix in (("wide", "10.65.40.0/22"), ("inside", "10.65.7.1/32")):
        given = gateway.peer(900 if name == "wide" else 901).to_params()
        given.update({"name": name, "allowed-prefixes": prefix})
        peers["s1c", name] = manual_peer(given)
    gateway.charm.intent = type(gateway.charm.intent)(gateway.charm.intent.links, peers)
    gateway.charm.reconcile()
    assert gateway.charm.plans["s1c"].problems == (
        "inside: 10.65.7.1/32 is already in use by cell-0007; allowed: prefixes of its own",
        "wide: 10.65.40.0/22 is already in use by cell-0040; allowed: prefixes of its own",
    )


def test_what_differs_is_found_wherever_it_is():
    for before, after in (
        ("abcd", "abXcd"),
        ("abXcd", "abcd"),
        ("aaaa", "aaaaa"),
        ("", "x"),
        ("x", ""),
        ("same", "same"),
        ("abc", "xyz"),
    ):
        start, end = difference(before, after)
        assert before[:start] == after[:start]
        assert start + end <= min(len(before), len(after))
        middle = after[start : len(after) - end]
        assert before[:start] + middle + before[len(before) - end :] == after


def test_who_has_to_wait_comes_next():
    names = [f"p{index}" for index in range(20)]
    assert in_turn(names[:8], 8, 5) == names[:8]
    seen = [in_turn(names, 8, minute * 60) for minute in range(5)]
    assert {len(chosen) for chosen in seen} == {8}
    assert {name for chosen in seen for name in chosen} == set(names)
