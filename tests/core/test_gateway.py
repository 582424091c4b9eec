"""A gateway's settings by the one reconcile: put once, seen to, taken away."""

from __future__ import annotations

import re
from ipaddress import ip_address
from pathlib import Path

import pytest
from support.juju import pair
from support.model import ModelVdu
from vpnaas.base.errors import InputError
from vpnaas.features.gateway import gateway
from vpnaas.params.gateway import GatewayParams
from vpnaas.params.intent import Intent, link_params
from vpnaas.tunnels.ipsec.daemon import daemon_conf

ON = GatewayParams()


def settled(technology="ipsec"):
    _, hss, mme, _ = pair(technology)
    hss.reconcile(gateway=ON)
    mme.reconcile()  # Its keeper opens the tunnel again after the daemon's restart.
    hss.reconcile(gateway=ON)
    return hss, mme


@pytest.mark.parametrize("technology", ["ipsec", "wireguard"])
def test_a_gateway_is_made_once_and_then_left_alone(technology):
    hss, _ = settled(technology)
    assert 'iifname { "ens4" } jump from_untrusted' in hss.vdu.firewall
    assert 'iifname "ens3" jump from_management' in hss.vdu.firewall
    assert hss.vdu.sysctl["net.ipv4.ip_forward"] == "1"
    assert gateway.UNIT in hss.vdu.enabled
    hss.vdu.commands.clear()
    assert hss.reconcile(gateway=ON) == 1
    assert not [c for c in hss.vdu.commands if {"-f", "-p", "restart"} & set(c)]
    assert hss.states() == {"s6a": "up"}


def test_ports_of_wireguard_pass_and_those_of_ike_always_do():
    hss, _ = settled("wireguard")
    assert hss.vdu.firewall.count("dport { 500, 4500, 51821 } accept") == 1
    assert hss.vdu.firewall.count("sport { 500, 4500, 51821 } accept") == 1
    assert gateway.DAEMON_FILE not in hss.vdu.files
    hss, _ = settled("ipsec")
    assert "dport { 500, 4500 } accept" in hss.vdu.firewall


def test_the_daemon_restarts_once_for_new_settings_which_override_those_of_links():
    hss, _ = settled()
    assert "ikesa_table_size = 1024" in hss.vdu.files[gateway.DAEMON_FILE]
    assert daemon_conf("userspace").count("cookie_threshold") == 1
    assert gateway.DAEMON_FILE > "/etc/strongswan.d/00-osm-vpnaas.conf"
    hss.vdu.commands.clear()
    hss.reconcile(gateway=GatewayParams(tunnels=3000))
    restarts = [c for c in hss.vdu.commands if c[:2] == ["systemctl", "restart"]]
    assert restarts == [["systemctl", "restart", "strongswan.service"]]
    assert "ikesa_table_size = 4096" in hss.vdu.files[gateway.DAEMON_FILE]


@pytest.mark.parametrize("step", ["s6a/apply", "gateway/restart"])
def test_settings_that_the_daemon_did_not_read_are_read_after_the_next_reconcile(step):
    hss, _ = settled()
    hss.configure("s6a", "172.16.6.130/24", technology="ipsec", **{"underlay-interface": "ens4"})
    hss.vdu.commands.clear()
    hss.vdu.fail_on = step
    hss.reconcile(gateway=GatewayParams(tunnels=3000))
    assert step in hss.error
    hss.vdu.fail_on = None
    restart = ["systemctl", "restart", "strongswan.service"]
    # A link that fails does not keep the gateway from its restart.
    done = hss.vdu.commands.count(restart)
    assert done == (step == "s6a/apply")
    hss.reconcile(gateway=GatewayParams(tunnels=3000))
    assert hss.vdu.commands.count(restart) == 1
    hss.vdu.commands.clear()
    hss.reconcile(gateway=GatewayParams(tunnels=3000))
    assert restart not in hss.vdu.commands


def test_a_firewall_that_was_not_loaded_is_loaded_by_the_next_reconcile():
    hss, _ = settled("wireguard")
    port = {"underlay-interface": "ens4", "listen-port": 50000}
    hss.configure("s6a", "172.16.6.129/24", **port)
    hss.vdu.fail_on = "gateway/load"
    hss.reconcile(gateway=ON)
    hss.vdu.fail_on = None
    hss.reconcile(gateway=ON)
    assert "dport { 500, 4500, 50000 } accept" in hss.vdu.firewall


def test_a_new_vdu_gets_its_firewall_though_one_link_cannot_work():
    hss, _ = settled("wireguard")
    hss.vdu = ModelVdu(hss.vdu.world, {"ens3": "10.0.0.9/24", "ens4": "192.168.8.129/24"})
    hss.intent = hss.intent.configured(
        {"link": "s11", "inner-address": "172.16.7.1/24", "underlay-interface": "ens5"}
    )
    hss.roles = {**hss.roles, "s11": "provider"}
    hss.reconcile(gateway=ON)
    assert hss.states()["s11"] == "blocked"
    assert "dport { 500, 4500, 51821 } accept" in hss.vdu.firewall
    assert "wg-s6a" in hss.vdu.guard


def test_files_of_the_kernels_settings_come_after_those_of_others():
    """Of files that set the same thing, the last one counts at a boot (sysctl.d(5))."""
    day0 = (Path(__file__).parents[2] / "cloud-init/vnf.yaml").read_text(encoding="utf-8")
    files = re.findall("^- path: (/etc/sysctl.d/.*)$", day0, re.M)
    assert len(files) == 1
    assert all(path > "/etc/sysctl.d/99-sysctl.conf" for path in (*files, gateway.SYSCTL_FILE))


def test_a_file_that_an_earlier_release_had_elsewhere_goes():
    hss, _ = settled("wireguard")
    old = "/etc/sysctl.d/61-osm-vpnaas-gateway.conf"
    hss.vdu.files[old] = hss.vdu.files.pop(gateway.SYSCTL_FILE)
    hss.reconcile(gateway=ON)
    assert gateway.SYSCTL_FILE in hss.vdu.files
    assert old not in hss.vdu.files


@pytest.mark.parametrize("fault", ["table", "file", "sysctl", "unit"])
def test_what_somebody_changed_is_put_right(fault):
    hss, _ = settled()
    good = hss.vdu.files[gateway.FILE], hss.vdu.firewall
    if fault == "table":
        hss.vdu.firewall = ""
    elif fault == "file":
        hss.vdu.files[gateway.FILE] += "x"
    elif fault == "sysctl":
        hss.vdu.sysctl["net.ipv4.ip_forward"] = "0"
    else:
        hss.vdu.enabled.discard(gateway.UNIT)
    hss.reconcile(gateway=ON)
    assert (hss.vdu.files[gateway.FILE], hss.vdu.firewall) == good
    assert hss.vdu.sysctl["net.ipv4.ip_forward"] == "1"
    assert gateway.UNIT in hss.vdu.enabled


def test_the_firewall_is_there_after_a_reboot():
    hss, _ = settled()
    before = hss.vdu.firewall
    hss.vdu.reboot()
    assert hss.vdu.firewall == before != ""


def test_the_firewall_can_be_taken_off():
    hss, _ = settled()
    hss.reconcile(gateway=GatewayParams(firewall=False))
    assert hss.vdu.firewall == ""
    assert gateway.FILE not in hss.vdu.files
    hss.reconcile(gateway=ON)
    assert hss.vdu.firewall


def test_tunnels_over_the_interface_of_management_make_no_gateway_and_change_nothing():
    hss, _ = settled()
    before = hss.vdu.firewall
    hss.configure("s6a", "172.16.6.129/24", technology="ipsec")
    hss.reconcile(gateway=ON)
    assert hss.vdu.firewall == before
    assert hss.problems == (
        "gateway: untrusted: ens3 is the management interface; allowed: "
        "an interface of its own for the untrusted side (underlay-interface)",
    )


def test_only_the_firewall_needs_to_know_the_interface_of_management():
    _, hss, mme, _ = pair("ipsec")
    hss.management = ip_address("203.0.113.9")  # A floating address, on no interface.
    hss.vdu.default = ""
    for _ in range(2):
        hss.reconcile(gateway=ON)
        mme.reconcile()
    assert (hss.error, hss.states()) == ("", {"s6a": "up"})
    assert hss.problems == (
        "gateway: management: no interface of the VDU has the address of ssh-hostname or a default "
        "route; allowed: a default route, or configure-gateway with firewall false",
    )
    assert hss.vdu.sysctl["net.ipv4.ip_forward"] == "0"  # It forwards nothing without a firewall.
    hss.reconcile(gateway=GatewayParams(firewall=False))
    assert (hss.error, hss.problems) == ("", ())
    assert hss.vdu.sysctl["net.ipv4.ip_forward"] == "1"


def test_a_vnf_that_is_no_gateway_is_never_asked_about_one():
    _, hss, _, _ = pair("ipsec")
    assert not [c for c in hss.vdu.commands if "nproc" in c or "osm_vpnaas_gateway" in c]
    assert gateway.FILE not in hss.vdu.files


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"tunnels": 0}, "tunnels"),
        ({"tunnels": True}, "tunnels"),
        ({"peers-per-address": 100001}, "peers-per-address"),
        ({"firewall": "yes"}, "firewall"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(params, named):
    with pytest.raises(InputError, match=f"configure-gateway: {named}"):
        GatewayParams.parse(params)


def test_the_intent_keeps_what_was_asked_and_reads_documents_of_before():
    asked = Intent(gateway=GatewayParams(7, 3, False))
    assert Intent.from_json(asked.to_json()) == asked
    link = link_params({"link": "s6a", "inner-address": "172.16.6.2/24"})
    text = Intent({"s6a": link}).to_json()
    before = text.replace(
        '"gateway": {"firewall": true, "peers-per-address": 32, "tunnels": 1000}, ', ""
    )
    assert before != text
    assert Intent.from_json(before) == Intent.from_json(text)
