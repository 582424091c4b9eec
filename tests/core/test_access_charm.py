"""The charm of an access VNF on a model of its VDU: what its actions do and answer."""

from __future__ import annotations

import json
import re

import attr
import pytest
from access_support import KEYS, LINK, NOW, Access, Store, own_key
from vpnaas import actions
from vpnaas.base import fields
from vpnaas.charm import Charm
from vpnaas.features import access, monitoring
from vpnaas.kinds.gateway import GATEWAY
from vpnaas.params.intent import Intent, ManualPeer
from vpnaas.peers.offer import KeyOffer, Offer, encode
from vpnaas.vdu import facts


@pytest.fixture
def vnf() -> Access:
    made = Access()
    made.run("configure", **{k.replace("-", "_"): v for k, v in LINK.items()})
    made.run("configure-access", data_interface="ens5")
    return made


def test_nothing_passes_before_the_way_to_the_data_network_is_known():
    vnf = Access()
    assert "no link is configured" in vnf.refused("configure-access", data_interface="ens5")
    vnf.run("configure", **{k.replace("-", "_"): v for k, v in LINK.items()})
    assert "oifname" not in vnf.vdu.devices
    answer = vnf.refused("enrol-device", name="phone", public_key=KEYS[0])
    assert answer == "no data network is configured yet; run configure-access first"
    used, gone = "is used already", "is not there"
    reasons = {"ens3": used, "ens4": used, "wg-access": used, "ens9": gone}
    for name, reason in {**reasons, "lo": "is the loopback interface"}.items():
        answer = vnf.refused("configure-access", data_interface=name)
        assert answer.startswith("configure-access: data-interface: ")
        assert reason in answer
        assert answer.endswith("ens5")
    assert vnf.run("configure-access", data_interface="ens5", data_nat=False) == {
        "data-interface": "ens5",
        "data-nat": False,
    }
    assert 'oifname "ens5"' in vnf.vdu.devices
    assert "masquerade" not in vnf.vdu.devices
    # What devices send is tracked, for the address translation; all else of a gateway is not.
    assert 'iifname != { "wg-access" } fib daddr type != local notrack' in vnf.vdu.firewall


def test_the_data_interface_is_found_by_the_name_in_the_descriptor(monkeypatch) -> None:
    vnf, parse = Access(), facts.parse
    vnf.run("configure", **{k.replace("-", "_"): v for k, v in LINK.items()})

    def tagged(results):
        seen = parse(results)
        nic = attr.evolve(seen.interfaces["ens5"], mac="fa:16:3e:00:00:05")
        return attr.evolve(seen, interfaces=dict(seen.interfaces, ens5=nic), tags={"data": nic.mac})

    monkeypatch.setattr(facts, "parse", tagged)
    assert vnf.run("configure-access", data_interface="data")["data-interface"] == "data"
    assert 'oifname "ens5"' in vnf.vdu.devices


def test_the_answer_has_the_file_of_the_device_and_no_secret(vnf):
    answer = vnf.enrol("phone", 0, expires="30d")
    assert answer["address"] == "172.16.61.2/32"
    assert answer["expires"] == "2027-02-14T08:00:00Z"
    assert answer["networks"] == "10.254.2.0/24"
    assert "PrivateKey = PRIVATE-KEY-OF-PHONE\n" in answer["wg-quick"]
    assert "Endpoint = 192.168.60.1:51830\n" in answer["wg-quick"]
    assert own_key(vnf) in answer["wg-quick"]
    assert re.match(r'<svg xmlns="http://www.w3.org/2000/svg" [^>]*>.*</svg>$', answer["qr-svg"])
    assert vnf.table() == {KEYS[0]: "172.16.61.2/32"}
    private = vnf.vdu.files["/etc/osm-vpnaas/access/private.key"].strip()
    assert private not in json.dumps(answer)
    assert vnf.environment.status[1].endswith("1 device, access up")


def test_the_same_again_changes_nothing(vnf):
    first = vnf.enrol("phone", 0)
    files = dict(vnf.vdu.files)
    vnf.vdu.commands.clear()
    assert vnf.enrol("phone", 0) == first
    assert vnf.vdu.files == files
    assert not [c for c in vnf.vdu.commands if {"set", "-f", "restart", "enable"} & set(c[:2])]


@pytest.mark.parametrize(
    ("name", "key", "expires", "reason"),
    [
        ("laptop", "A" * 43 + "=", "never", "is not a WireGuard key"),
        ("laptop", KEYS[0], "never", "it is the key of phone"),
        ("laptop", "ours", "never", "its key is already in use by this VNF"),
        ("phone", KEYS[1], "never", "phone is enrolled with another key"),
        ("$(reboot)", KEYS[1], "never", "enrol-device: name: "),
        ("laptop", KEYS[1], "2001-01-01", "is not ahead of the VDU's clock"),
        ("laptop", KEYS[1], "soon", "is no time"),
        ("laptop", KEYS[1], "2026-02-30", "is no time"),
        ("laptop", KEYS[1], "0d", "is no time"),
        ("laptop", KEYS[1], "999999d", "is too far ahead"),
        ("laptop", KEYS[1] + "\nAllowedIPs = 0.0.0.0/0", "never", "characters"),
    ],
)
def test_bad_input_changes_nothing(vnf, name, key, expires, reason):
    vnf.enrol("phone", 0)
    key = own_key(vnf) if key == "ours" else key
    answer = vnf.refused("enrol-device", name=name, public_key=key, expires=expires)
    assert reason in answer
    assert vnf.table() == {KEYS[0]: "172.16.61.2/32"}


def test_the_pool_ends_and_a_revoked_device_makes_room(vnf):
    for index in range(5):
        vnf.enrol(f"d{index}", index)
    answer = vnf.refused("enrol-device", name="last", public_key=KEYS[5])
    assert "all addresses of 172.16.61.0/29 are in use" in answer
    assert vnf.run("revoke-device", name="d2") == {"revoked": "d2", "was-enrolled": True}
    assert vnf.enrol("last", 5)["address"] == "172.16.61.4/32"


def test_a_revoked_device_is_out_for_good_even_if_the_vdu_did_not_answer(vnf):
    vnf.enrol("phone", 0)
    vnf.reachable = False
    answer = actions.run(vnf.charm(), "revoke-device", {"name": "phone"})
    assert "does not answer" in answer.failed
    vnf.reachable = True
    vnf.charm().reconcile_and_report()
    assert vnf.table() == {}
    assert KEYS[0] not in vnf.vdu.files["/etc/wireguard/wg-access.conf"]
    assert vnf.run("revoke-device", name="phone") == {"revoked": "phone", "was-enrolled": False}
    assert "it was revoked" in vnf.refused("enrol-device", name="phone", public_key=KEYS[0])
    assert vnf.refused("revoke-device", name="../x").startswith("revoke-device: name: ")


def test_a_device_of_an_unusable_link_is_not_called_revoked_before_it_is_out(vnf):
    vnf.enrol("phone", 0)
    vnf.vdu.underlay["ens4"] = ""
    for _ in range(2):
        answer = actions.run(vnf.charm(), "revoke-device", {"name": "phone"})
        sentence = "revoke-device: the revocation is stored, but access stays as it is"
        assert answer.failed.startswith(sentence)
        assert "ens4 has no address yet" in answer.failed
    vnf.vdu.underlay["ens4"] = "192.168.60.1/24"
    vnf.charm().reconcile_and_report()
    assert vnf.table() == {}


def test_a_revoked_peer_is_out_for_good_even_if_the_vdu_did_not_answer(vnf):
    offer = Offer(
        technology="wireguard",
        inner_address=fields.address("", "172.16.61.6"),
        mtu=1420,
        endpoint=(fields.address("", "192.168.60.9"), 51820),
        keys=KeyOffer(KEYS[0]),
    )
    vnf.environment.related = lambda endpoint: [(7, "cell", encode(offer))]
    vnf.environment.tell = lambda endpoint, relation_id, values: None
    vnf.charm().reconcile_and_report()
    assert vnf.table() == {KEYS[0]: "172.16.61.6/32"}
    assert "no related peer" in vnf.refused("revoke-peer", link="access", peer="cel")
    vnf.vdu.fail_on = "record"
    answer = actions.run(vnf.charm(), "revoke-peer", {"link": "access", "peer": "cell"})
    assert "the revocation is stored, but access stays as it is" in answer.failed
    vnf.vdu.fail_on = None
    vnf.charm().reconcile_and_report()
    assert vnf.table() == {}
    assert "its key was revoked" in vnf.environment.status[1]


@pytest.mark.parametrize("now", ["unreadable", "another key"])
def test_a_peer_cannot_keep_its_key_from_being_revoked(vnf, now):
    offer = Offer(
        technology="wireguard",
        inner_address=fields.address("", "172.16.61.6"),
        mtu=1420,
        keys=KeyOffer(KEYS[0]),
    )
    good = bag = encode(offer)
    vnf.environment.related = lambda endpoint: [(7, "cell", bag)]
    vnf.environment.tell = lambda endpoint, relation_id, values: None
    vnf.charm().reconcile_and_report()
    bag = {**good, "vpnaas-mtu": "x"}
    if now == "another key":
        bag = {**good, "vpnaas-public-key": KEYS[1], "vpnaas-allowed-prefixes": "10.9.0.0/16"}
    vnf.charm().reconcile_and_report()
    assert vnf.table() == {KEYS[0]: "172.16.61.6/32"}  # Refused data change nothing.
    assert KEYS[0] in vnf.run("revoke-peer", link="access", peer="cell")["public-keys"]
    assert vnf.table() == {}
    bag = good
    vnf.charm().reconcile_and_report()
    assert vnf.table() == {}


def test_a_peer_with_new_data_that_are_refused_stays_as_it_is(vnf):
    peer = {"link": "access", "name": "site", "public_key": KEYS[0]}
    peer["allowed_prefixes"] = "172.16.61.3/32"
    vnf.run("add-peer", **peer, endpoint="192.168.60.7:5000")
    answer = vnf.refused("add-peer", **peer, endpoint="172.16.61.3:5000")
    assert "172.16.61.3 lies inside its tunnel" in answer
    assert vnf.run("show-status")["access"]["state"] == "up"
    assert vnf.run("add-peer", **peer, endpoint="192.168.60.8:5000", keepalive=25)
    assert vnf.vdu.interfaces["wg-access"].peers[KEYS[0]].endpoint == "192.168.60.8:5000"


def test_devices_are_shown_and_those_whose_time_is_over_apart(vnf):
    vnf.enrol("phone", 0)
    vnf.enrol("guest", 1, expires="1h")
    shown = {peer["peer"]: peer for peer in vnf.run("show-devices")["peers"]}
    assert set(shown) == {"phone", "guest"}
    assert shown["guest"]["expires"] == "2027-01-15T09:00:00Z"
    assert {"last-handshake-s", "received-bytes", "sent-bytes", "state"} <= set(shown["phone"])
    vnf.vdu.world.clock = NOW + 3600
    answer = vnf.run("show-devices")
    assert [peer["peer"] for peer in answer["peers"]] == ["phone"]
    assert answer["expired"] == {"guest": "2027-01-15T09:00:00Z"}
    assert vnf.table() == {KEYS[0]: "172.16.61.2/32"}
    assert access.TIMER_FILE not in vnf.vdu.files
    assert [peer["peer"] for peer in vnf.run("show-devices", name="phone")["peers"]] == ["phone"]
    assert vnf.run("show-devices", name="guest")["peers"] == []
    assert "show-devices: name: " in vnf.refused("show-devices", name="nobody")


def test_a_clock_of_the_vdu_that_jumps_back_lets_no_device_in_again(vnf, monkeypatch):
    vnf.enrol("phone", 0)
    vnf.enrol("guest", 1, expires="1h")
    vnf.vdu.world.clock = 60  # as after a start without a battery
    monkeypatch.setattr("time.time", lambda: NOW + 3600.5)
    answer = vnf.run("show-devices")
    assert vnf.table() == {KEYS[0]: "172.16.61.2/32"}
    assert answer["expired"] == {"guest": "2027-01-15T09:00:00Z"}
    monkeypatch.setattr("time.time", lambda: NOW + 60)  # it was the charm's clock that was wrong
    vnf.run("show-devices")
    assert set(vnf.table()) == {KEYS[0], KEYS[1]}


def test_many_devices_fit_an_answer():
    vnf = Access()
    vnf.run("configure", **{**{k.replace("-", "_"): v for k, v in LINK.items()},
                            "inner_address": "172.16.0.1/16"})  # fmt: skip
    vnf.run("configure-access", data_interface="ens5")
    vnf.enrol("phone", 0)
    intent = Intent.from_json(vnf.environment.stored("intent"))
    phone = intent.peers[("access", "phone")]
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef"
    for index in range(1000):
        key = f"{letters[index // 32]}{letters[index % 32]}{'A' * 39}BE="
        params = {
            **phone.to_params(),
            "name": f"device-{index}",
            "public-key": key,
            "allowed-prefixes": f"172.16.{1 + index // 250}.{1 + index % 250}/32",
        }
        peer = type(phone)(
            "access", params["name"], key, access.fields.networks("", params["allowed-prefixes"])
        )
        intent = intent.with_peer(peer)
    vnf.environment.store("intent", intent.to_json())
    answer = vnf.run("show-devices")
    assert len(json.dumps(answer)) < actions.OUTPUT_LIMIT
    assert len(answer["peers"]) + answer["peers-not-shown"] == 1001
    # A sentence does not list them all either.
    with pytest.raises(access.InputError, match=" others$") as refusal:
        intent.without_peer("access", "nobody")
    assert len(str(refusal.value)) < 500


def test_a_problem_of_the_exporter_does_not_refuse_parameters_of_the_gateway(vnf):
    assert "the VDU has no python3-prometheus-client" in vnf.environment.status[1]
    assert vnf.run("configure-gateway", tunnels=50)["tunnels"] == 50
    assert Intent.from_json(vnf.environment.stored("intent")).gateway.tunnels == 50
    assert "python3-prometheus-client" in vnf.refused("configure-monitoring", exporter_port=9000)


def test_an_exporter_without_a_management_interface_does_not_refuse_the_gateway(vnf, monkeypatch):
    login = {"ssh-hostname": "203.0.113.9", "ssh-username": "ubuntu"}  # On no interface.
    monkeypatch.setattr(vnf.environment, "option", lambda name: login.get(name, ""))
    vnf.vdu.default = ""
    vnf.vdu.files[monitoring.LIBRARY] = ""
    assert vnf.run("configure-gateway", firewall=False)["firewall"] is False
    blocked, text = vnf.environment.status
    assert blocked
    assert "no interface of the VDU has the management address or a default route" in text
    assert "default route" in vnf.refused("configure-monitoring", exporter_port=9000)


def test_a_link_that_is_switched_off_leaves_no_firewall_and_no_timer(vnf):
    vnf.enrol("phone", 0, expires="30d")
    vnf.run("configure", link="access", inner_address="none")
    assert vnf.vdu.devices == ""
    assert not [path for path in vnf.vdu.files if "expir" in path or "devices" in path]
    vnf.vdu.commands.clear()
    vnf.charm().reconcile_and_report()
    assert not [c for c in vnf.vdu.commands if {"delete", "disable"} & set(c[:2])]


@pytest.mark.parametrize(
    ("address", "then"), [("172.16.61.1/28", 2), ("172.16.61.2/29", 1), ("172.16.99.1/29", 2)]
)
def test_a_device_keeps_its_address_while_the_subnet_of_the_link_has_it(vnf, address, then):
    assert vnf.enrol("phone", 0)["address"] == "172.16.61.2/32"
    link = {k.replace("-", "_"): v for k, v in LINK.items()}
    vnf.run("configure", **{**link, "inner_address": address})
    answer = vnf.enrol("phone", 0)
    assert answer["address"] == f"{address.rpartition('.')[0]}.{then}/32"
    assert vnf.table() == {KEYS[0]: answer["address"]}


def test_no_device_gets_a_file_without_networks(vnf):
    link = {k.replace("-", "_"): v for k, v in LINK.items()}
    vnf.run("configure", **{**link, "allowed_prefixes": "2001:db8:2::/64"})
    assert "leads to no IPv4 network" in vnf.refused("enrol-device", name="p", public_key=KEYS[0])


def test_a_gateway_whose_stored_data_cannot_be_read_can_still_be_removed():
    environment = Store()
    environment.store("standby", "not JSON")
    Charm(GATEWAY, environment).stop()  # An error here would stop Juju from removing the unit.


def test_the_end_of_the_vnf_leaves_nothing(vnf):
    vnf.enrol("phone", 0, expires="30d")
    assert access.TIMER_FILE in vnf.vdu.files
    vnf.charm().stop()
    assert vnf.vdu.devices == ""
    assert not [path for path in vnf.vdu.files if "expir" in path or "devices" in path]


def test_any_device_whose_time_is_over_is_shown_by_its_name():
    address = fields.networks("test", "172.16.61.2/32")
    guests = [
        ManualPeer("access", f"guest-{number:03}", KEYS[0], address, expires=NOW - 60)
        for number in range(101)
    ]
    intent = Intent(peers={("access", guest.name): guest for guest in guests})
    assert len(access.shown(intent, NOW, (), "all")[1]) == 100
    assert set(access.shown(intent, NOW, (), "guest-100")[1]) == {"guest-100"}


HOME, OFFICE, TRAIN = "198.51.100.7:40001", "203.0.113.9:51820", "192.0.2.33:1024"


@pytest.mark.parametrize(
    ("looks", "told"),
    [
        ([(0, HOME), (300, OFFICE), (600, HOME)], True),
        ([(0, HOME), (5, OFFICE), (10, OFFICE), (15, HOME), (20, HOME)], True),
        ([(0, TRAIN), (300, HOME), (600, OFFICE), (900, HOME)], True),
        # From one house with one address: the ports differ.
        ([(0, HOME), (300, "198.51.100.7:40002"), (600, HOME)], True),
        # A device that moves on, stays somewhere, is back after a while, or was asleep.
        ([(0, HOME), (300, OFFICE)], False),
        ([(0, HOME), (300, TRAIN), (600, OFFICE)], False),
        ([(0, HOME), (300, OFFICE), (3600, OFFICE), (3900, HOME)], False),
        ([(0, HOME), (300, ""), (600, HOME)], False),
        # It ends when one of them got its own file.
        ([(0, HOME), (300, OFFICE), (600, HOME), (1200, HOME), (1800, HOME)], False),
    ],
)
def test_one_file_on_two_devices_is_told(vnf, monkeypatch, looks, told):
    vnf.enrol("phone", 0)
    for seconds, endpoint in looks:
        (peer,) = vnf.vdu.interfaces["wg-access"].peers.values()
        peer.endpoint = endpoint or "(none)"
        peer.handshake = vnf.vdu.world.clock
        monkeypatch.setattr("vpnaas.charm.time.time", lambda at=seconds: NOW + at)
        view = vnf.run("show-status")["access"]
    assert ("in turn, as by two devices" in view["reason"]) == told
    assert ("in turn, as by two devices" in vnf.environment.status[1]) == told
    assert view["state"] == "up"
    assert ("in turn" in str(vnf.run("show-devices", name="phone")["peers"])) == told


def test_the_look_at_the_firewall_of_devices_is_that_at_the_links(vnf: Access) -> None:
    vnf.run("show-status", link="all", peer="all")
    before = vnf.vdu.round_trips
    vnf.run("show-status", link="all", peer="all")
    assert vnf.vdu.round_trips - before == 1
    # No device gets in where the firewall fails.
    vnf.vdu.fail_on = "devices/table"
    commands = len(vnf.vdu.commands)
    assert "failed" in vnf.refused("restart", link="access")
    assert not [
        each for each in vnf.vdu.commands[commands:] if each[:2] == ["systemctl", "restart"]
    ]
