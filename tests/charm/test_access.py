"""The charm of an access VNF with its VDU, a device in front of it and a server behind it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flavours import WAIT, Flavour, once
from vdus import TAG, Site, site

from builder import charms
from builder.tree import Tree
from lab.vim import PortSpec, ServerSpec

pytestmark = [pytest.mark.lab, pytest.mark.long, once]

OUTSIDE, DATA = "192.168.60.0/24", "10.254.2.0/24"
SERVER, ACCESS = "10.254.2.10", "10.254.2.250"


class Service(Site):
    """An access VNF; `device` and `server` are VDUs without a charm."""

    def pings(self, vdu: str, address: str, tries: int = 15) -> bool:
        """Say whether an address answers one of a few echo requests."""
        words = ["ping", "-n", "-q", "-c", "1", "-i", "0.2", "-w", str(max(1, tries // 5))]
        return self.vim.console(self.servers[vdu], [*words, address], timeout=60).returncode == 0

    def action(self, name: str, /, **params: object) -> Any:
        """Run an action that must work; return its answer."""
        done = self._run(name, params)
        assert done.status == "completed", done.results
        return json.loads(done.results["output"])

    def refused(self, name: str, /, **params: object) -> str:
        """Run an action that must fail; return its sentence."""
        done = self._run(name, params)
        assert done.status == "failed", done.results
        return str(done.results["output"])

    def _run(self, name: str, params: dict[str, object]) -> Any:
        given = {key.replace("_", "-"): value for key, value in params.items()}
        return self.model.run_action("access", name, given, timeout=WAIT)

    def key(self, name: str) -> str:
        """Make a key on the device; return its public half."""
        self.out("device", "sh", "-c", f"umask 077; wg genkey >/root/{name}.key")
        return self.out("device", "sh", "-c", f"wg pubkey </root/{name}.key").strip()

    def join(self, interface: str, name: str, answer: dict[str, Any]) -> None:
        """Bring the device up by the text of an answer; only the device puts its key in."""
        path = f"/etc/wireguard/{interface}.conf"
        self.put("device", path, answer["wg-quick"], "600")
        words = f"sed -i s,PRIVATE-KEY-OF-{name.upper()},$(cat /root/{name}.key), {path}"
        self.out("device", "sh", "-c", words)
        self.out("device", "wg-quick", "up", interface)

    def own_key(self) -> str:
        """Return the public key of the access VNF."""
        return self.out("access", "wg", "show", "wg-access", "public-key").strip()

    def table(self) -> str:
        """Return who may come in, and from which addresses."""
        return self.out("access", "wg", "show", "wg-access", "allowed-ips")


@pytest.fixture(scope="module")
def service(flavour: Flavour, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    charms.assemble(Tree.find(Path(__file__).parent), "access", flavour.charm("access"))
    nics = {"access": [("outside", "192.168.60.1"), ("data", ACCESS)]}
    nets = {"outside": OUTSIDE, "data": DATA}
    with site(tmp_path_factory.mktemp("access"), flavour, nets, nics) as made:
        networks = {network.name: network.id for network in made.vim.networks()}
        servers = dict(made.servers)
        for name, where, ip in (("device", "outside", "192.168.60.9"), ("server", "data", SERVER)):
            ports = (
                PortSpec(made.vim.management_network().id),
                PortSpec(networks[where], ip=ip),
            )
            spec = ServerSpec(name, name, "ubuntu22.04", 1, 512, 1, ports)
            servers[name] = made.vim.create_server(spec, TAG).id
        made.let_in("access")
        service = Service(**{**vars(made), "servers": servers})
        link = {"link": "access", "underlay_interface": "ens4", "allowed_prefixes": DATA}
        service.action("configure", inner_address="172.16.61.1/29", **link)
        yield service


def status(service: Service) -> tuple[str, str]:
    service.model.wait_idle(WAIT)
    unit = service.model.status().units["access/0"]
    return unit.workload, unit.message


def test_nobody_enrols_before_the_way_to_the_data_network_is_known(service: Service) -> None:
    answer = service.refused("enrol-device", name="early", public_key=service.key("early"))
    assert answer == "no data network is configured yet; run configure-access first"
    for name, reason in (("ens3", "is used already"), ("ens4", "is used"), ("ens9", "not there")):
        answer = service.refused("configure-access", data_interface=name)
        assert answer.startswith("configure-access: data-interface: ")
        assert reason in answer
        assert answer.endswith("ens5")
    assert service.action("configure-access", data_interface="ens5") == {
        "data-interface": "ens5",
        "data-nat": True,
    }
    assert status(service) == ("active", "0 devices, access waiting (no peer is related)")


def test_a_device_reaches_the_data_network_and_nothing_else(service: Service) -> None:
    answer = service.action("enrol-device", name="phone", public_key=service.key("phone"))
    assert answer["address"] == "172.16.61.2/32"
    assert (answer["networks"], answer["expires"]) == (DATA, "never")
    assert "PrivateKey = PRIVATE-KEY-OF-PHONE\n" in answer["wg-quick"]
    assert answer["qr-svg"].startswith("<svg ")
    service.join("slice", "phone", answer)
    assert service.pings("device", SERVER, 40)
    # The server needs no route back: it sees the VDU's own address.
    assert not re.search("172.16.61", service.out("server", "ip", "route"))
    # Whatever the device puts into its own file: management and other devices are out of reach.
    service.out(
        "device", "wg", "set", "slice", "peer", service.own_key(), "allowed-ips", "0.0.0.0/0"
    )
    for vdu in ("server", "access"):
        management = str(service.vim.server(service.servers[vdu]).ports[0].ip)
        service.out("device", "ip", "route", "add", management, "dev", "slice")
        assert not service.pings("device", management, 5), vdu
        service.out("device", "ip", "route", "del", management, "dev", "slice")
    (shown,) = service.action("show-devices")["peers"]
    assert (shown["peer"], shown["state"], shown["expires"]) == ("phone", "up", "never")
    assert shown["received-bytes"] > 0
    assert status(service) == ("active", "1 device, access up")


ZERO = "A" * 43 + "="


def test_enrolling_again_changes_nothing_but_the_end(service: Service) -> None:
    key = service.out("device", "sh", "-c", "wg pubkey </root/phone.key").strip()
    before = service.table()
    again = service.action("enrol-device", name="phone", public_key=key)
    assert again["address"] == "172.16.61.2/32"
    assert service.table() == before
    ended = service.action("enrol-device", name="phone", public_key=key, expires="30d")
    assert ended["expires"] != "never"
    assert service.table() == before
    assert "OnCalendar=" in service.out("access", "systemctl", "cat", "osm-vpnaas-expiry.timer")
    service.action("enrol-device", name="phone", public_key=key)
    assert "osm-vpnaas-expiry" not in service.out("access", "systemctl", "list-unit-files")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"name": "laptop", "public_key": ZERO}, "is not a WireGuard key"),
        ({"name": "laptop", "public_key": "PHONE"}, "it is the key of phone"),
        ({"name": "laptop", "public_key": "OURS"}, "its key is already in use by this VNF"),
        ({"name": "phone"}, "phone is enrolled with another key"),
        ({"name": "$(reboot)"}, "enrol-device: name: "),
        ({"name": "a;b\n"}, "enrol-device: name: "),
        ({"name": "laptop", "expires": "2001-01-01"}, "is not ahead of the VDU's clock"),
        ({"name": "laptop", "expires": "2026-02-30"}, "is no time"),
        ({"name": "laptop", "expires": "soon"}, "is no time"),
        ({"name": "laptop", "expires": "0d"}, "is no time"),
        ({"name": "laptop", "expires": "999999d"}, "is too far ahead"),
    ],
    ids=lambda value: "".join(value.values())[:20] if isinstance(value, dict) else "",
)
def test_bad_input_gets_a_sentence_and_changes_nothing(
    service: Service, given: dict[str, str], reason: str
) -> None:
    keys = {
        "PHONE": service.out("device", "sh", "-c", "wg pubkey </root/phone.key").strip(),
        "OURS": service.own_key(),
    }
    key = given.get("public_key", "Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE=")
    before = service.table()
    answer = service.refused("enrol-device", **{**given, "public_key": keys.get(key, key)})
    assert reason in answer
    assert len(answer.splitlines()) == 1
    assert service.table() == before
    assert service.pings("device", SERVER)


def test_the_pool_ends_and_a_revoked_device_makes_room(service: Service) -> None:
    for index in range(3, 7):
        answer = service.action("enrol-device", name=f"d{index}", public_key=service.key("any"))
        assert answer["address"] == f"172.16.61.{index}/32"
    reply = service.refused("enrol-device", name="last", public_key=service.key("any"))
    assert "all addresses of 172.16.61.0/29 are in use" in reply
    for index in range(3, 7):
        assert service.action("revoke-device", name=f"d{index}")["was-enrolled"]


def test_a_revoked_device_is_out_at_once_and_for_good(service: Service) -> None:
    assert service.pings("device", SERVER)
    key = service.out("device", "sh", "-c", "wg pubkey </root/phone.key").strip()
    assert service.action("revoke-device", name="phone") == {
        "revoked": "phone",
        "was-enrolled": True,
    }
    assert service.table() == ""
    assert key not in service.out("access", "cat", "/etc/wireguard/wg-access.conf")
    assert not service.pings("device", SERVER, 5)
    # Again: nothing happens, and the answer says so.
    assert service.action("revoke-device", name="phone")["was-enrolled"] is False
    answer = service.refused("enrol-device", name="phone", public_key=key)
    assert "it was revoked" in answer
    assert "name" in service.refused("revoke-device", name="../x")


def test_a_device_whose_time_is_over_is_out_without_a_hook(service: Service) -> None:
    service.out("device", "wg-quick", "down", "slice")
    key = service.key("guest")
    answer = service.action("enrol-device", name="guest", public_key=key, expires="30d")
    service.join("slice", "guest", answer)
    assert service.pings("device", SERVER, 40)
    # The same as a month later: what the VDU was told of the end lies in the past.
    dates = "/etc/osm-vpnaas/access/expiry"
    service.out("access", "sed", "-i", "s/^[0-9]*/1000000000/", dates)
    service.out("access", "systemctl", "start", "osm-vpnaas-expiry.service")
    assert service.table() == ""
    assert key not in service.out("access", "cat", "/etc/wireguard/wg-access.conf")
    assert not service.pings("device", SERVER, 5)
    # The interface does not bring it back, and the file is whole.
    service.out("access", "systemctl", "restart", "wg-quick@wg-access.service")
    assert service.table() == ""


def test_the_end_of_the_vnf_leaves_nothing_of_devices(service: Service) -> None:
    service.action("configure-access", data_interface="ens5")
    service.action("enrol-device", name="x", public_key=service.key("any"), expires="30d")
    look = ("sh", "-c", "nft list tables; ip -br link; find /etc/systemd/system /etc/osm-vpnaas")
    for name in ("osm_vpnaas_devices", "osm-vpnaas-expiry.timer", "wg-access"):
        assert name in service.out("access", *look)
    service.model.remove_application("access")
    service.model.wait_idle(WAIT)
    left = service.out("access", *look)
    for name in ("table ", "devices", "expiry", "wg-access@", "wg-access "):
        assert name not in left, left
