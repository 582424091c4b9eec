"""What the charm makes of a gateway that is one of a pair: steps, state, refusals."""

from __future__ import annotations

import ipaddress
import json
import re
from typing import Any

import attr
import pytest
from access_support import Store
from support import reading
from vpnaas import actions
from vpnaas.base.errors import InputError, VduError
from vpnaas.charm import Charm, Outcome
from vpnaas.features.feature import Extra
from vpnaas.features.pair import gateway_pair, standby
from vpnaas.features.pair.gateway_pair import AFTER, FILES
from vpnaas.features.pair.pair import PAIR_KEY
from vpnaas.features.pair.params import PairParams, from_json, pair_params
from vpnaas.kinds.gateway import GATEWAY
from vpnaas.params.intent import Intent, link_params
from vpnaas.peers.inputs import CharmState
from vpnaas.peers.peer import Peer
from vpnaas.tunnels.technology import LinkPlan
from vpnaas.vdu.facts import VduFacts
from vpnaas.vdu.steps import Results, Step

GIVEN: dict[str, Any] = {
    "role": "primary",
    "virtual-address": "192.168.121.254/24",
    "other-address": "192.168.121.2",
    "trusted-interface": "ens5",
    "untrusted-interface": "ens4",
    "router-id": 51,
    "advert-interval-ms": 30,
}


SHARED = {"shared-address": "192.168.120.254/24", "shared-identity": "gw.secgw.example"}


def peer(number: int) -> Peer:
    prefix = ipaddress.ip_network(f"10.41.0.{number}/32")
    return Peer(name=f"rel-{number}", label="cell", prefixes=(prefix,), technology="ipsec")


def link(name: str, subnet: str, technology: str = "ipsec", peers: int = 2) -> LinkPlan:
    params = link_params({"link": name, "inner-address": subnet, "technology": technology})
    return LinkPlan(params, peers=tuple(peer(number) for number in range(1, peers + 1)))


LINKS = {
    "s1c": link("s1c", "10.41.0.1/24"),
    "s1u": link("s1u", "10.42.0.1/24"),
    "trusted": link("trusted", "10.43.0.1/24", "none", 1),
}


OURS = 'UNCONN 0 0 0.0.0.0:5798 0.0.0.0:* users:(("python3",pid=7,fd=5))\n'


class Vdu:
    """As much of a VDU as these steps touch."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.units: dict[str, str] = {}
        self.enabled: set[str] = set()
        self.addresses = ["192.168.121.1"]
        self.table = False
        self.changed: list[str] = []
        self.tools = set(gateway_pair.TOOLS)
        self.fail_on = ""
        self.socket = OURS

    def execute(self, steps: list[Step]) -> Results:
        results = {}
        for step in steps:
            if step.id == self.fail_on:
                return Results(results, f"{step.id} failed on purpose")
            results[step.id] = self._do(step)
        return Results(results)

    def _do(self, step: Step) -> dict[str, Any]:
        body = step.body
        if body.get("only_if") and body["only_if"] not in self.files:
            return {}
        if body["do"] == "which":
            return {"found": {n: f"/usr/sbin/{n}" for n in body["names"] if n in self.tools}}
        if body["do"] == "read":
            return reading.read(self.files, body)
        if body["do"] == "write":
            self.files[body["path"]] = body["text"]
        elif body["do"] == "remove":
            reading.remove(self.files, body)
        elif body["do"] == "run":
            return self._run(list(body["argv"]))
        return {}

    def _run(self, argv: list[str]) -> dict[str, Any]:
        if argv[0] == "ip":
            result = [
                {
                    "ifname": name,
                    "addr_info": [
                        {"local": a, "prefixlen": 24, "family": "inet", "scope": "global"}
                        for a in addresses
                    ],
                }
                for name, addresses in (("ens4", ["192.168.120.1"]), ("ens5", self.addresses))
            ]
            return {"code": 0, "out": json.dumps(result)}
        if argv[0] == "systemctl":
            names = [word for word in argv[2:] if not word.startswith("--")]
            return {"code": 0, "out": self._systemctl(argv[1], names)}
        if argv[0] == "ss":
            return {"code": 0, "out": self.socket}
        if argv[0] == "cp":
            self.files[argv[2]] = self.files[argv[1]]
        elif argv[:2] == ["nft", "list"]:
            return {"code": 0 if self.table else 1, "out": ""}
        elif argv[:2] == ["nft", "-f"]:
            self.table = True
        return {"code": 0, "out": ""}

    def _systemctl(self, verb: str, names: list[str]) -> str:
        if verb == "is-enabled":
            return "".join(("enabled" if n in self.enabled else "disabled") + "\n" for n in names)
        if verb == "is-active":
            return "".join(self.units.get(name, "inactive") + "\n" for name in names)
        self.changed += [f"{verb} {name}" for name in names if verb != "enable"]
        if verb == "enable":
            self.enabled |= set(names)
        elif verb in ("restart", "reload"):
            self.units |= dict.fromkeys(names, "active")
            self.table = self.table or gateway_pair.KEEPALIVED in names
        elif verb == "disable":
            self.enabled -= set(names)
            self.units = {}
        return ""


def params_of(given: dict[str, Any]) -> PairParams:
    params = PairParams.parse(given)
    assert params is not None
    return params


def reconcile(vdu: Vdu, links: dict[str, LinkPlan] = LINKS, **changed: Any) -> Any:
    params = params_of({**GIVEN, **changed})
    observed = vdu.execute(gateway_pair.observe())
    gateway_pair.require_tools(observed)
    pair = gateway_pair.desired(params, links, observed)
    steps = gateway_pair.steps_to(pair, observed)
    results = vdu.execute(steps).check() if steps else observed
    prefix = AFTER if steps else ""
    return steps, gateway_pair.conclude(pair, results, prefix)


def test_a_second_reconcile_changes_nothing() -> None:
    vdu = Vdu()
    steps, outcome = reconcile(vdu)
    assert set(FILES) <= set(vdu.files)
    assert outcome.summary() == "pair: standby"
    assert not outcome.bad
    assert reconcile(vdu)[0] == []
    again = vdu.files["/etc/systemd/system/nftables.service.d/osm-vpnaas-standby.conf"]
    assert f"\nExecStartPost=-/usr/sbin/nft -f {standby.FIREWALL_FILE}\n" in again
    assert "s1c,s1u" in vdu.files[standby.WATCH_UNIT]
    assert f" 4 {standby.SPAN} 192.168.121.254 " in vdu.files[standby.WATCH_UNIT]


def test_a_shared_address_moves_with_the_virtual_one_and_its_peers_do_not_count() -> None:
    vdu = Vdu()
    manual = attr.evolve(peer(9), name="man-field")
    plan = link("s1c", "10.41.0.1/24")
    links = {**LINKS, "s1c": attr.evolve(plan, peers=(*plan.peers, manual))}
    _, outcome = reconcile(vdu, links, **SHARED)
    text = vdu.files[standby.KEEPALIVED_FILE]
    (addresses,) = re.findall(r"virtual_ipaddress \{([^}]*)\}", text)
    assert addresses.split("\n")[1:3] == [
        "        192.168.121.254/32 dev ens5",
        "        192.168.120.254/32 dev ens4",
    ]
    assert f" 4 {standby.SPAN} " in vdu.files[standby.WATCH_UNIT]
    assert outcome.details["shared-identity"] == "gw.secgw.example"
    # With such peers alone a running daemon is all that a gateway can show.
    alone = {"s1c": attr.evolve(plan, peers=(manual,))}
    reconcile(vdu, alone, **SHARED)
    assert f" 0 {standby.SPAN} " in vdu.files[standby.WATCH_UNIT]
    params = params_of({**GIVEN, **SHARED})
    assert from_json(params.to_json()) == params


def test_the_shared_address_is_not_that_of_a_peer() -> None:
    plan = link("s1c", "10.41.0.1/24")
    owner = attr.evolve(peer(9), endpoint=(ipaddress.ip_address("192.168.120.254"), 4500))
    with pytest.raises(InputError, match="is that of cell"):
        reconcile(Vdu(), {"s1c": attr.evolve(plan, peers=(owner,))}, **SHARED)


def test_drift_is_put_right_and_what_is_in_order_is_not_restarted() -> None:
    vdu = Vdu()
    reconcile(vdu)
    vdu.changed.clear()
    vdu.files[standby.KEEPALIVED_FILE] += "# by hand\n"
    reconcile(vdu)
    assert vdu.changed == [f"reload {gateway_pair.KEEPALIVED}"]
    vdu.changed.clear()
    vdu.table = False
    reconcile(vdu)
    assert vdu.table
    assert vdu.changed == []
    vdu.units[gateway_pair.WATCH] = "failed"
    reconcile(vdu)
    assert vdu.changed == [f"restart {gateway_pair.WATCH}"]


def test_another_virtual_address_comes_into_force_also_after_a_failure() -> None:
    vdu = Vdu()
    reconcile(vdu)
    other = {"virtual-address": "192.168.121.253/24"}
    vdu.units[gateway_pair.WATCH] = "failed"
    vdu.fail_on = "pair/apply/watch"
    with pytest.raises(VduError, match="failed on purpose"):
        reconcile(vdu, **other)
    vdu.fail_on = ""
    vdu.changed.clear()
    reconcile(vdu, **other)
    assert f"reload {gateway_pair.KEEPALIVED}" in vdu.changed
    assert "192.168.121.253/32" in vdu.files[standby.KEEPALIVED_FILE]


@pytest.mark.parametrize("step", ["reload", "vrrp"])
def test_files_without_their_command_are_put_into_force_by_the_next_reconcile(step) -> None:
    vdu = Vdu()
    reconcile(vdu)
    other = {"virtual-address": "192.168.121.253/24", "router-id": 20}
    vdu.fail_on = f"pair/apply/{step}"
    with pytest.raises(VduError, match="failed on purpose"):
        reconcile(vdu, **other)
    vdu.fail_on = ""
    vdu.changed.clear()
    reconcile(vdu, **other)
    assert vdu.changed == [f"restart {gateway_pair.WATCH}", f"reload {gateway_pair.KEEPALIVED}"]
    assert reconcile(vdu, **other)[0] == []


def test_another_cell_touches_the_watch_program_only() -> None:
    vdu = Vdu()
    reconcile(vdu)
    vdu.changed.clear()
    reconcile(vdu, {**LINKS, "s1c": link("s1c", "10.41.0.1/24", peers=3)})
    assert vdu.changed == [f"restart {gateway_pair.WATCH}"]


def test_who_holds_the_address_is_active_whatever_the_record_says() -> None:
    vdu = Vdu()
    reconcile(vdu)
    vdu.files[standby.RECORD_FILE] = "active 1700000000 7\n"
    vdu.files[standby.HEALTH_FILE] = "150\n"
    assert reconcile(vdu)[1].details["state"] == "standby"
    assert reconcile(vdu)[1].details["since"] == 0
    vdu.addresses.append("192.168.121.254")
    details = reconcile(vdu)[1].details
    assert (details["state"], details["since"], details["takeovers"]) == ("active", 1700000000, 7)
    assert details["priority"] == 210


@pytest.mark.parametrize("text", ["", "active", "active x 3", "active 1 2 3", "fault 5 -1"])
def test_a_record_that_is_none_is_none(text: str) -> None:
    vdu = Vdu()
    reconcile(vdu)
    vdu.files[standby.RECORD_FILE] = text
    assert reconcile(vdu)[1].details["takeovers"] == 0


def test_a_fault_and_a_dead_keepalived_are_told() -> None:
    vdu = Vdu()
    reconcile(vdu)
    vdu.files[standby.RECORD_FILE] = "fault 1700000000 1\n"
    assert "no carrier" in reconcile(vdu)[1].problem
    pair = gateway_pair.desired(params_of(GIVEN), LINKS, vdu.execute(gateway_pair.observe()))
    vdu.units[gateway_pair.KEEPALIVED] = "failed"
    dead = gateway_pair.conclude(pair, vdu.execute(gateway_pair.observe()))
    assert dead.bad
    assert "does not run" in dead.summary()


def test_giving_up_is_at_once_and_lasts_until_resumed() -> None:
    vdu = Vdu()
    reconcile(vdu)
    vdu.files[standby.HEALTH_FILE] = "150\n"
    reconcile(vdu, away=True)
    assert vdu.files[standby.HEALTH_FILE] == "0\n"
    assert standby.AWAY_FILE in vdu.files
    assert reconcile(vdu, away=True)[0] == []
    reconcile(vdu)
    assert standby.AWAY_FILE not in vdu.files


def test_a_gateway_of_its_own_keeps_nothing_of_the_pair() -> None:
    vdu = Vdu()
    reconcile(vdu, away=True)
    vdu.files[standby.RECORD_FILE] = "stopped 1700000000 1\n"
    assert vdu.execute(gateway_pair.observe_absent()).text("pair/was")
    vdu.execute(gateway_pair.absent())
    assert vdu.files == {}
    assert vdu.enabled == set()
    assert not vdu.execute(gateway_pair.observe_absent()).text("pair/was")


def test_who_has_the_port_of_the_watch_is_named() -> None:
    vdu = Vdu()
    reconcile(vdu)
    vdu.socket = OURS.replace("python3", "dnsmasq")
    outcome = reconcile(vdu)[1]
    what = "UDP port 5798 of the VDU, where a gateway hears which peers have traffic, is used by "
    assert (outcome.details["reason"], outcome.bad) == (what + "dnsmasq: end it", False)
    vdu.socket = OURS
    assert reconcile(vdu)[1].details["reason"] == ""


def reconciled(charm: Charm, vdu: Any) -> Extra | None:
    state = CharmState(Intent(), charm.roles)
    return charm.addition.reconcile(vdu, state, VduFacts(0, {}), LINKS)


def test_a_pair_that_the_vdu_does_not_give_up_is_not_called_gone() -> None:
    vdu, environment = Vdu(), Store()
    reconcile(vdu)
    vdu.fail_on = "pair/off"  # keepalived does not stop in time
    stored = params_of(GIVEN).to_json()
    environment.store(PAIR_KEY, stored)
    charm: Any = Charm(GATEWAY, environment)
    charm.reconcile_now = lambda: Outcome({}, 0, (), reconciled(charm, vdu) or Extra())
    charm.reconcile_and_report = lambda: None
    answer = actions.run(charm, "configure-standby", {"role": "none"})
    assert "failed on purpose" in answer.failed
    # So the next reconcile does not leave alone what is there.
    assert environment.stored(PAIR_KEY) == stored


@pytest.mark.parametrize("step", ["pair/apply/enable", "pair/apply/vrrp"])
def test_a_pair_that_could_not_be_made_leaves_nothing(step: str) -> None:
    vdu, environment = Vdu(), Store()
    charm: Any = Charm(GATEWAY, environment)
    charm.reconcile_now = lambda: Outcome({}, 0, (), reconciled(charm, vdu) or Extra())
    vdu.fail_on = step

    def go_back() -> None:
        assert vdu.execute(gateway_pair.observe_absent()).text("pair/was")
        vdu.fail_on = ""
        reconciled(charm, vdu)

    charm.reconcile_and_report = go_back
    answer = actions.run(charm, "configure-standby", GIVEN)
    assert "failed on purpose" in answer.failed
    assert not vdu.enabled
    assert {path for path in vdu.files if not path.startswith("/run/")} == set()


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"role": "third"}, "role"),
        ({"virtual-address": "none"}, "virtual-address: none given"),
        ({"virtual-address": "192.168.121.0/24"}, "virtual-address"),
        ({"other-address": "none"}, "other-address: none given"),
        ({"other-address": "gateway2"}, "other-address"),
        ({"other-address": "192.168.121.1"}, "our own address"),
        ({"other-address": "192.168.99.2"}, "with the virtual address"),
        ({"virtual-address": "192.168.99.254/24"}, "ens5 has no address in 192.168.99.0/24"),
        ({"virtual-address": "192.168.121.1/24"}, "ens5 has no address"),
        ({"trusted-interface": "ens9"}, "no interface ens9"),
        ({"trusted-interface": "ens4"}, "trusted interface too"),
        ({"trusted-interface": "ens5 {"}, "interface name"),
        ({"router-id": 0}, "router-id"),
        ({"advert-interval-ms": 35}, "a multiple of 10"),
        ({"advert-interval-ms": 5}, "advert-interval-ms"),
        ({"router-id": "much"}, "router-id"),
        ({"shared-address": "192.168.120.254/24"}, "shared-identity: none beside a shared-address"),
        ({"shared-identity": "gw.example"}, "shared-address: none beside a shared-identity"),
        ({**SHARED, "shared-address": "192.168.120.254"}, "with prefix length"),
        ({**SHARED, "shared-address": "192.168.99.254/24"}, "not in the subnet of the untrusted"),
        ({**SHARED, "shared-identity": "a b"}, "shared-identity"),
    ],
)
def test_what_makes_no_pair_is_refused_in_one_sentence(
    changed: dict[str, Any], sentence: str
) -> None:
    vdu = Vdu()
    with pytest.raises(InputError, match=sentence):
        reconcile(vdu, **changed)
    assert vdu.files == {}


def test_a_pair_needs_ipsec_and_its_programs() -> None:
    vdu = Vdu()
    with pytest.raises(InputError, match="s1c is WireGuard"):
        reconcile(vdu, {"s1c": link("s1c", "10.41.0.1/24", "wireguard")})
    vdu.tools.remove("keepalived")
    with pytest.raises(InputError, match="the VDU has no keepalived"):
        reconcile(vdu)


def test_parameters_survive_the_peer_relation() -> None:
    params = params_of({**GIVEN, "away": True, "router-id": 20})
    assert from_json(params.to_json()) == params
    assert from_json("") is pair_params({"role": "none"}) is None
    for text in ("[]", "no json", '{"role": "third"}'):
        with pytest.raises(InputError, match="peer relation: standby"):
            from_json(text)


def test_show_status_of_a_vnf_without_more_has_nothing_more() -> None:
    assert Extra().shown() == {}
    assert set(reconcile(Vdu())[1].shown()) == {"standby"}


def test_keepalived_of_somebody_else_keeps_its_file() -> None:
    vdu = Vdu()
    vdu.files[standby.KEEPALIVED_FILE] = "vrrp_instance theirs {\n}\n"
    with pytest.raises(InputError, match="keepalived.conf: somebody else wrote this file"):
        reconcile(vdu)
    assert set(vdu.files) == {standby.KEEPALIVED_FILE}


def test_keepalived_goes_on_with_what_somebody_put_in_place_of_our_file() -> None:
    vdu = Vdu()
    reconcile(vdu)
    vdu.files[standby.KEEPALIVED_FILE] = "vrrp_instance theirs {\n}\n"
    vdu.execute(gateway_pair.absent()).check()
    assert set(vdu.files) == {standby.KEEPALIVED_FILE}
    assert vdu.enabled == {gateway_pair.KEEPALIVED}
