"""Actions of a charm on a model of its VDU: what they answer, and what they leave behind."""

from __future__ import annotations

import errno
import ipaddress
import json
import logging
import os
import subprocess
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from access_support import KEYS, Reached, Store
from ops.model import ModelError, RelationDataContent
from ops.testing import Harness
from support.ends_certs import Operator
from support.model_world import WgInterface, World
from vpnaas import actions, juju
from vpnaas.base.errors import NotReadyError, StorageError, VduError
from vpnaas.charm import Charm
from vpnaas.kinds.vnf import VNF
from vpnaas.peers.offer import KeyOffer, Offer, asking, encode
from vpnaas.vdu.ssh import CommandResult
from vpnaas.vdu.steps import Results

S6A = {"link": "s6a", "inner-address": "172.16.6.2/24", "underlay-interface": "ens4"}
S11 = {"link": "s11", "inner-address": "172.16.11.2/24", "underlay-interface": "ens4"}
LAPTOP = {
    "link": "s6a",
    "name": "laptop",
    "public-key": KEYS[1],
    "allowed-prefixes": "172.16.6.50/32",
}
CELL = {"link": "s6a", "inner-address": "pool", "technology": "ipsec"}
WAITING = "waiting for an address from the gateway"


class Related(Store):
    """An execution environment whose s6a has a relation."""

    actions = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self.theirs: dict[str, str] = {}
        self.ours: dict[str, str] = {}

    def endpoints(self, interface):
        return {"s6a": "requirer", "s11": "requirer"}

    def related(self, endpoint):
        return [(1, "hss", self.theirs)] if endpoint == "s6a" else []

    def published(self, endpoint):
        return [self.ours] if endpoint == "s6a" else []

    def relation_ids(self, endpoint):
        return [1] if endpoint == "s6a" else []

    def tell(self, endpoint, relation_id, values):
        self.ours = {key: text for key, text in {**self.ours, **values}.items() if text}


class Vnf:
    """A VNF and its charm, a new process for each action."""

    def __init__(self) -> None:
        self.vdu = Reached(World(), {"ens3": "10.0.0.1/24", "ens4": "192.168.8.2/24"})
        self.environment = Related()

    def charm(self) -> Charm:
        charm = Charm(VNF, self.environment)

        @contextmanager
        def vdu():
            yield self.vdu

        charm.vdu = vdu
        return charm

    def run(self, action, **params):
        answer = actions.run(self.charm(), action, params)
        assert not answer.failed, answer.failed
        return json.loads(answer.results["output"])

    def refused(self, action, **params) -> str:
        answer = actions.run(self.charm(), action, params)
        assert answer.failed
        return answer.failed


@pytest.fixture
def vnf() -> Vnf:
    return Vnf()


@pytest.fixture
def cell(vnf: Vnf) -> Vnf:
    """Return a VNF whose link waits for an address from its gateway."""
    vnf.run("configure", **CELL, credentials="cert-external")
    assert vnf.run("show-status", link="s6a")["s6a"]["reason"] == WAITING
    return vnf


def crowded(vnf: Vnf) -> None:
    """Guarantee the whole rate of the underlay to s11."""
    vnf.run("configure", **S11)
    rates = {"guaranteed-mbps": 100, "underlay-mbps": 100}
    vnf.run("set-qos", link="s11", **{"five-qi": 1, **rates})


def test_a_new_link_that_is_refused_is_not_left_up(vnf: Vnf) -> None:
    crowded(vnf)
    more = {"five-qi": 1, "guaranteed-mbps": 50, "underlay-mbps": 100}
    sentence = vnf.refused("configure", **S6A, **more)
    assert sentence.startswith("set-qos: guaranteed-mbps: 150 Mbit/s are guaranteed")
    assert set(vnf.vdu.interfaces) == {"wg-s11"}
    assert vnf.environment.ours["vpnaas-technology"] == "off"
    assert vnf.run("show-status", link="s6a")["s6a"]["state"] == "unconfigured"
    assert vnf.run("configure", **S6A)["s6a"]["state"] == "waiting"
    assert set(vnf.vdu.interfaces) == {"wg-s11", "wg-s6a"}


@pytest.mark.parametrize("step", ["wg/public-key", "s6a/public", "s6a/apply/start", "guard/load"])
def test_a_first_configure_that_fails_leaves_the_link_blocked_with_its_reason(vnf: Vnf, step):
    vnf.run("configure", **{**S11, "technology": "none"})
    vnf.vdu.fail_on = step
    reason = vnf.refused("configure", **S6A)
    status = vnf.charm().environment.status
    assert status[0]
    assert f"s6a blocked ({reason}" in status[1]
    shown = vnf.run("show-status", link="s6a")["s6a"]
    assert (shown["state"], shown["reason"].split("; ")[0]) == ("blocked", reason.split("; ")[0])
    vnf.vdu.fail_on = None
    vnf.charm().reconcile_and_report()
    assert vnf.run("show-status", link="s6a")["s6a"]["state"] == "waiting"
    assert set(vnf.vdu.interfaces) == {"wg-s6a"}


@pytest.mark.parametrize(
    ("why", "sentence"),
    [
        ("another reconcile holds /run/osm-vpnaas.lock", "another reconcile holds "),
        ("[Errno 30] Read-only file system: '/run/osm-vpnaas.lock'", "the VDU's disk is read-only"),
        ("[Errno 28] No space left on device: '/run/osm-vpnaas.lock'", "the VDU's disk is full"),
    ],
)
def test_a_vdu_where_nobody_could_look_lacks_no_programs(vnf: Vnf, why, sentence) -> None:
    vnf.vdu.execute = lambda *_, **__: Results({}, why)
    assert vnf.refused("configure", **S6A).startswith(sentence)


def test_a_link_that_fails_leaves_the_others_alone(vnf: Vnf) -> None:
    vnf.run("configure", **S6A)
    del vnf.vdu.interfaces["wg-s6a"]
    vnf.vdu.taken[51821] = "python3"
    vnf.vdu.fail_on = "s6a/apply/start"
    assert vnf.run("configure", **S11)["s11"]["state"] == "waiting"
    assert set(vnf.vdu.interfaces) == {"wg-s11"}
    reason = "UDP port 51821 of the VDU is used by python3; allowed: another listen-port"
    assert vnf.run("show-status", link="s6a")["s6a"]["reason"].startswith(reason)


@pytest.mark.parametrize("owner", ["", "wireguard-go"])
def test_another_wireguard_interface_at_the_port_is_named(vnf: Vnf, owner: str) -> None:
    vnf.vdu.interfaces["wg0"] = WgInterface(port="51821")
    vnf.vdu.taken[51821] = owner
    vnf.vdu.fail_on = "s6a/apply/start"
    said = "UDP port 51821 of the VDU is used by wg0; allowed: another listen-port"
    assert vnf.refused("configure", **S6A) == said
    vnf.vdu.interfaces["wg0"].up = False
    assert " is used by wg0" not in vnf.run("show-status", link="s6a")["s6a"]["reason"]


def test_the_end_of_a_units_journal_is_in_a_sentence(vnf: Vnf) -> None:
    vnf.vdu.journal = "[#] ip link add wg-s6a type wireguard\nUnknown device type.\n└──┘\n"
    vnf.vdu.fail_on = "s6a/apply/start"
    says = "wg-quick@wg-s6a.service of the VDU failed and says: Unknown device type."
    assert vnf.refused("configure", **S6A) == says


def test_a_link_that_was_up_keeps_what_it_had_when_a_change_fails(vnf: Vnf) -> None:
    vnf.run("configure", **S6A)
    vnf.vdu.fail_on = "s6a/apply/port"
    assert vnf.refused("configure", **dict(S6A, **{"listen-port": 51900}))
    assert vnf.run("show-status", link="s6a")["s6a"]["listen-port"] == 51821
    assert "ListenPort = 51821" in vnf.vdu.files["/etc/wireguard/wg-s6a.conf"]


def test_a_vdu_that_fails_as_a_whole_during_an_action_is_in_the_status(vnf: Vnf) -> None:
    vnf.run("configure", **S6A)
    vnf.vdu.fail_on = "facts/now"
    sentence = vnf.refused("restart", link="s6a")
    assert vnf.charm().environment.status == (True, sentence)


def test_a_key_that_cannot_be_used_is_named_and_a_forced_rotation_replaces_it(vnf: Vnf) -> None:
    before = vnf.run("configure", **S6A)["s6a"]["public-key"]
    vnf.vdu.files["/etc/osm-vpnaas/s6a/private.key"] = ""
    reason = vnf.run("show-status", link="s6a")["s6a"]["reason"]
    assert "/etc/osm-vpnaas/s6a/private.key" in reason
    assert "rotate-keys with force" in reason
    assert vnf.run("rotate-keys", link="s6a")["s6a"]["rotation"] == "failed"
    done = vnf.run("rotate-keys", link="s6a", force=True)["s6a"]
    assert (done["rotation"], done["key-generation"]) == ("done", 2)
    assert done["public-key"] != before
    assert vnf.run("show-status", link="s6a")["s6a"]["state"] == "waiting"


def test_so_is_the_staged_key_of_a_rotation(vnf: Vnf) -> None:
    vnf.run("configure", **S6A)
    vnf.vdu.files["/etc/osm-vpnaas/s6a/next.key"] = "no key"
    assert "/etc/osm-vpnaas/s6a/next.key" in vnf.run("show-status", link="s6a")["s6a"]["reason"]
    assert vnf.run("rotate-keys", link="s6a", force=True)["s6a"]["rotation"] == "done"


def test_a_link_that_is_stored_nowhere_is_taken_down(vnf: Vnf) -> None:
    """Its action lost the leadership, or died, and so Juju kept nothing of it."""
    vnf.run("configure", **S11)
    stored = vnf.environment.stored("intent")
    vnf.run("configure", **S6A)
    vnf.environment.store("intent", stored)
    vnf.charm().reconcile_and_report()
    assert set(vnf.vdu.interfaces) == {"wg-s11"}
    assert "172.16.6.2" not in vnf.vdu.guard
    assert vnf.run("show-status", link="s6a")["s6a"]["state"] == "unconfigured"


METADATA = """
name: mme
requires:
  s6a: {interface: vpnaas-link}
  s11: {interface: vpnaas-link}
peers:
  proxypeer: {interface: proxypeer}
"""
OPTIONS = """
options:
  ssh-hostname: {type: string, default: 10.0.0.1}
  ssh-username: {type: string, default: ubuntu}
"""


@pytest.mark.parametrize("related", [False, True])
def test_a_unit_that_loses_the_leadership_says_so(related, tmp_path, monkeypatch) -> None:
    """What it writes then is refused: by ops, or by relation-set for several keys."""

    def refuse(*_):
        raise ModelError("ERROR cannot write relation settings")

    harness = Harness(juju.charm_of(VNF), meta=METADATA, config=OPTIONS, actions="{}")
    peers = harness.add_relation("proxypeer", "mme")
    harness.set_leader(True)
    if related:
        harness.add_relation_unit(harness.add_relation("s6a", "hss"), "hss/0")
    harness.begin()
    code = harness.charm.code
    vnf = Vnf()
    code.environment.folder = str(tmp_path)
    code.vdu = vnf.charm().vdu
    execute = vnf.vdu.execute

    def lose(steps, exclusive=True):
        if any(step.id.startswith("s6a/apply") for step in steps):
            monkeypatch.setattr(RelationDataContent, "_commit", refuse)
            (tmp_path / "relation-set").write_text("#!/bin/sh\necho 'ERROR refused' >&2\nexit 1\n")
            (tmp_path / "relation-set").chmod(0o755)
            monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
            harness.set_leader(False)
        return execute(steps)

    vnf.vdu.execute = lose
    answer = actions.run(code, "configure", S6A)
    assert answer.failed.startswith("Juju refuses data of the application, perhaps this unit ")
    assert "intent" not in harness.get_relation_data(peers, "mme")
    code.reconcile_and_report()
    assert harness.charm.unit.status.message == "standby, the leader manages the VDU"
    harness.cleanup()


def test_an_event_that_loses_the_leadership_ends_as_a_standby(vnf: Vnf, monkeypatch) -> None:
    def store(key, value):
        vnf.environment.is_leader = lambda: False
        raise NotReadyError("refused")

    vnf.run("configure", **S6A)
    vnf.vdu.host_key = "ssh-ed25519 AAAA"
    monkeypatch.setattr(vnf.environment, "store", store)
    vnf.charm().reconcile_and_report()
    assert vnf.environment.status == (False, "standby, the leader manages the VDU")


def test_a_vnf_whose_only_link_asks_for_an_address_asks(cell: Vnf) -> None:
    assert cell.environment.ours["vpnaas-address-request"] == "ipv4"
    assert cell.environment.status == (False, f"s6a waiting ({WAITING}), s11 unconfigured")


def test_rotation_of_a_link_without_an_address_says_why_there_is_none(cell: Vnf) -> None:
    view = cell.run("rotate-keys", link="s6a")["s6a"]
    assert view == {"rotation": "failed", "reason": WAITING}


def test_certificates_of_a_link_without_an_address_are_refused_with_the_reason(cell: Vnf) -> None:
    assert cell.refused("show-csr", link="s6a") == WAITING
    root = Operator().root
    given = {"certificate": root, "ca-certificate": root}
    assert cell.refused("set-certificate", link="s6a", **given) == WAITING


def test_a_link_without_an_address_is_not_called_unconfigured(cell: Vnf) -> None:
    sentence = cell.refused("measure-latency", link="s6a", count=3)
    assert sentence.startswith("peer: 'auto' matches 0 peers of s6a")
    cell.environment.theirs = asking("ipsec", (4,))
    assert cell.refused("revoke-peer", link="s6a", peer="hss").startswith(
        "revoke-peer: peer: no related peer 'hss' of s6a offers a key"
    )


@pytest.fixture
def stuck(vnf: Vnf) -> Vnf:
    """Return a VNF with a related and a manual peer on a link that has lost its underlay."""
    vnf.environment.actions = frozenset({"configure-gateway"})
    vnf.run("configure", **S6A)
    hss = Offer(
        technology="wireguard",
        inner_address=ipaddress.ip_address("172.16.6.129"),
        mtu=1400,
        endpoint=(ipaddress.ip_address("192.168.8.129"), 51821),
        keys=KeyOffer(KEYS[0]),
    )
    vnf.environment.theirs = encode(hss)
    vnf.run("add-peer", **LAPTOP)
    assert set(vnf.vdu.interfaces["wg-s6a"].peers) == {KEYS[0], KEYS[1]}
    vnf.vdu.underlay["ens4"] = ""
    return vnf


def test_show_status_names_the_charm_with_all_links_only(vnf: Vnf) -> None:
    vnf.run("configure", **S6A)
    assert "charm-version" not in vnf.run("show-status")
    vnf.environment.version = "1.2.3"
    assert vnf.run("show-status")["charm-version"] == "1.2.3"
    assert set(vnf.run("show-status", link="s6a")) == {"s6a"}


def test_the_answer_about_a_manual_peer_is_its_file(vnf: Vnf) -> None:
    vnf.run("configure", **S6A)
    answer = vnf.run("add-peer", **LAPTOP)
    assert answer["wg-quick"].splitlines() == [
        "[Interface]",
        "PrivateKey = PRIVATE-KEY-OF-LAPTOP",
        "Address = 172.16.6.50/32",
        "MTU = 1420",
        "",
        "[Peer]",
        "PublicKey = " + answer["public-key"],
        f"Endpoint = 192.168.8.2:{answer['listen-port']}",
        "AllowedIPs = 172.16.6.2/32",
        "PersistentKeepalive = 25",
    ]
    site = {**LAPTOP, "allowed-prefixes": "10.5.0.0/24", "endpoint": "192.168.8.9:51900"}
    file = vnf.run("add-peer", **site)["wg-quick"]
    assert "\nAddress = ADDRESS-OF-LAPTOP\n" in file
    assert "\nListenPort = 51900\n" in file


@pytest.mark.parametrize("endpoint", ["192.168.8.9:51900", "none"])
def test_a_manual_peer_may_leave_the_keepalive_to_the_charm(vnf: Vnf, endpoint: str) -> None:
    vnf.run("configure", **S6A)
    assert vnf.run("add-peer", **LAPTOP, endpoint=endpoint, keepalive=-1)["wg-quick"]


def test_the_answer_about_a_manual_peer_of_ipsec_is_its_file(vnf: Vnf) -> None:
    vnf.run("configure", **S6A, technology="ipsec")
    given = {**LAPTOP, "public-key": "MCowBQYDK2VwAyEAZXzl4qop5ouc36kXfoFNKd0SsGngWfeugKTbEYz1vng="}
    answer = vnf.run("add-peer", **given)
    file = answer["swanctl"]
    for line in (
        "remote_addrs = 192.168.8.2",
        "id = @laptop",
        "id = @" + answer["ike-identity"],
        "pubkeys = laptop.pem",
        "pubkeys = 0s" + answer["public-key"],
        "local_ts = 172.16.6.50/32",
        "remote_ts = 172.16.6.2/32",
        "start_action = trap",
    ):
        assert f" {line}\n" in file
    called = vnf.run("add-peer", **given, endpoint="192.168.8.9:4500")["swanctl"]
    assert " start_action = none\n" in called


def test_an_unusable_link_keeps_a_revoked_peer_and_the_action_says_so(stuck: Vnf) -> None:
    sentence = stuck.refused("revoke-peer", link="s6a", peer="hss")
    assert sentence.startswith("revoke-peer: the revocation is stored, but s6a stays as it is")
    assert "ens4 has no address yet" in sentence
    assert KEYS[0] in stuck.vdu.interfaces["wg-s6a"].peers
    stuck.vdu.underlay["ens4"] = "192.168.8.2/24"
    stuck.charm().reconcile_and_report()
    assert set(stuck.vdu.interfaces["wg-s6a"].peers) == {KEYS[1]}


def test_a_revocation_can_take_an_unusable_link_down(stuck: Vnf) -> None:
    stuck.refused("revoke-peer", link="s6a", peer="hss")
    stuck.run("configure", link="s6a", **{"inner-address": "none"})
    assert stuck.vdu.interfaces == {}


def test_an_unusable_link_keeps_a_manual_peer(stuck: Vnf) -> None:
    sentence = stuck.refused("delete-peer", link="s6a", name="laptop")
    assert "ens4 has no address yet" in sentence
    stuck.vdu.underlay["ens4"] = "192.168.8.2/24"
    assert stuck.run("delete-peer", link="s6a", name="laptop")["deleted"] == "laptop"
    assert set(stuck.vdu.interfaces["wg-s6a"].peers) == {KEYS[0]}


def test_a_gateway_says_that_its_firewall_stays_as_it_is(stuck: Vnf) -> None:
    stays = "gateway: the firewall stays as it is while s6a cannot be used"
    stuck.vdu.firewall = ""  # nft flush ruleset
    stuck.charm().reconcile_and_report()
    assert 'iifname { "ens4" }' in stuck.vdu.firewall
    assert stays in stuck.environment.status[1]
    assert stuck.refused("configure-gateway", tunnels=50) == stays
    assert stuck.run("configure-gateway", firewall=False)["firewall"] is False
    assert stuck.vdu.firewall == ""
    assert stays not in stuck.environment.status[1]


def test_a_new_link_is_guarded_while_another_one_is_unusable(stuck: Vnf) -> None:
    stuck.run("configure", **{**S11, "underlay-interface": "ens3"})
    assert "wg-s11" in stuck.vdu.interfaces
    assert 'iifname != { "lo", "wg-s11" } ip daddr 172.16.11.2 counter drop' in stuck.vdu.guard
    assert 'iifname != { "lo", "wg-s6a" } ip daddr 172.16.6.2 counter drop' in stuck.vdu.guard
    guard = stuck.vdu.guard
    stuck.vdu.guard = ""  # nft flush ruleset
    stuck.charm().reconcile_and_report()
    assert stuck.vdu.guard == guard


def test_another_fingerprint_of_the_host_key_is_tried_at_once(vnf: Vnf, monkeypatch) -> None:
    option = vnf.environment.option
    vnf.run("configure", **S6A)
    before = vnf.vdu.round_trips
    vnf.charm().reconcile_and_report(unless_settled=True)
    assert vnf.vdu.round_trips == before  # Nothing changed, so no login.
    changed = {"ssh-host-key-fingerprint": "SHA256:" + "A" * 43}
    monkeypatch.setattr(vnf.environment, "option", lambda name: changed.get(name) or option(name))
    vnf.charm().reconcile_and_report(unless_settled=True)
    assert vnf.vdu.round_trips > before


def test_a_link_that_needs_no_certificate_says_so(vnf: Vnf) -> None:
    vnf.run("configure", **S6A)
    assert vnf.refused("show-csr", link="s6a") == "s6a needs no certificate"


class HookTools:
    """What gives a text to Juju, each time as an argument of a program."""

    name = "hss/0"

    def __init__(self) -> None:
        self.told: list[str] = []

    def tell(self, text: str) -> None:
        subprocess.run(["true", text], check=True)
        self.told.append(text)

    fail = tell
    status = property(fset=lambda self, status: self.tell(status.message))

    def set_results(self, results) -> None:
        for key, value in results.items():
            self.tell(f"{key}={value}")


def act(vnf: Vnf, tools: HookTools) -> None:
    event = SimpleNamespace(
        handle=SimpleNamespace(kind="run_action"),
        params={"command": "cat /proc/1/environ"},
        set_results=tools.set_results,
        fail=tools.fail,
    )
    juju.JujuCharm.handle_action(SimpleNamespace(code=vnf.charm()), event)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("A=1\0B=2\n", "A=1\ufffdB=2\n"),
        ("\ufffd" * 60000, "\ufffd" * 33333 + "... (cut)"),
        ("\x1b]0;\x07\ud800\t\u00fc", "\ufffd]0;\ufffd\ufffd\t\u00fc"),
    ],
)
def test_what_a_vdu_says_reaches_the_operator(vnf: Vnf, text: str, shown: str) -> None:
    tools = HookTools()
    vnf.vdu.command = lambda _: CommandResult(0, text, "")
    act(vnf, tools)
    assert tools.told == ["output=" + shown, "exit-code=0"]


@pytest.mark.parametrize("text", ["no\0pe", "no\ud800pe", "no pe" * 100000])
def test_an_error_of_a_vdu_ends_no_hook_and_no_action(vnf: Vnf, text: str) -> None:
    def command(_):
        raise VduError(text)

    tools = HookTools()
    vnf.vdu.command = command
    act(vnf, tools)
    charm = SimpleNamespace(unit=tools, charm_dir="", meta=SimpleNamespace(actions={}))
    juju.JujuEnvironment(charm).set_status(True, text)
    assert all("no\ufffdpe" in told or told.endswith("... (cut)") for told in tools.told)
    assert len(tools.told) == 3
    assert len(tools.told[2]) < 5000


def test_nor_does_what_is_logged_of_it(monkeypatch) -> None:
    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            tools.tell(self.format(record))

    def main(kind: type) -> None:
        logger.warning("links were not taken down: %s", VduError("no\0pe"))

    tools, logger = HookTools(), logging.Logger("charm")
    logger.addHandler(Handler())
    monkeypatch.setattr(juju, "main", main)
    monkeypatch.setattr(logging, "disable", lambda level: None)
    factory = logging.getLogRecordFactory()
    try:
        juju.run(VNF)
    finally:
        logging.setLogRecordFactory(factory)
    assert tools.told == ["links were not taken down: no\ufffdpe"]


def test_an_action_says_what_it_did_though_juju_takes_no_status(tmp_path, monkeypatch) -> None:
    harness = Harness(juju.charm_of(VNF), meta=METADATA, config=OPTIONS, actions="{}")
    harness.add_relation("proxypeer", "mme")
    harness.set_leader(True)
    harness.begin()
    code, vnf = harness.charm.code, Vnf()
    code.environment.folder = str(tmp_path)
    code.vdu = vnf.charm().vdu

    def full(*_, **__):
        raise ModelError(b"ERROR there is no room left in the folder /home\n")

    monkeypatch.setattr(type(harness._backend), "status_set", full)
    answer = actions.run(code, "configure", S6A)
    assert not answer.failed
    shown = json.loads(answer.results["output"])
    assert shown["s6a"]["state"] == "waiting"
    assert shown["remark"] == (
        "Juju does not take the status of the unit: ERROR there is no room left in the folder /home"
    )
    with pytest.raises(StorageError):  # Juju repeats a hook.
        code.reconcile_and_report()


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("s6a/apply/file", "/etc/wireguard/wg-s6a.conf cannot be used on the VDU"),
        ("s6a/apply/peers", "(s6a/apply/peers failed on purpose)"),
    ],
)
def test_no_peer_is_added_that_the_vdu_does_not_take(vnf: Vnf, step: str, said: str) -> None:
    """Its disk may be full."""
    vnf.run("configure", **S6A)
    vnf.vdu.fail_on = step
    assert vnf.refused("add-peer", **LAPTOP).endswith(said)
    vnf.vdu.fail_on = None
    assert vnf.run("show-status", link="s6a")["s6a"]["peers"] == []
    vnf.run("add-peer", **LAPTOP)


@pytest.mark.parametrize("action", ["rotate-keys", "configure", "show-status", "delete-peer"])
def test_an_action_says_what_it_did_though_the_charms_folder_is_full(vnf: Vnf, monkeypatch, action):
    vnf.run("configure", **S6A)
    vnf.run("add-peer", **LAPTOP)
    before = vnf.run("show-status", link="s6a")["s6a"]["public-key"]
    given = {
        "rotate-keys": {"link": "s6a", "force": True},
        "configure": dict(S6A, **{"listen-port": 51999}),
        "show-status": {"link": "s6a"},
        "delete-peer": {"link": "s6a", "name": "laptop"},
    }

    def full(file, stream=None):
        raise OSError(errno.ENOSPC, "No space left on device")

    os.remove(os.path.join(vnf.environment.folder, "looks.json"))
    monkeypatch.setattr("vpnaas.vdu.ssh.os.replace", full)
    answer = vnf.run(action, **given[action])
    sentence = f"the folder {vnf.environment.folder} of the charm has no room left"
    assert answer["remark"] == sentence
    blocked, text = vnf.environment.status
    assert blocked
    assert sentence in text
    assert [name for name in os.listdir(vnf.environment.folder) if name.endswith(".tmp")] == []
    monkeypatch.undo()
    shown = vnf.run("show-status", link="s6a")["s6a"]
    assert (shown["public-key"] != before) == (action == "rotate-keys")
    assert sentence not in vnf.environment.status[1]
