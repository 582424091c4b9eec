"""Cells reach the core through a security gateway by IPsec.

S1-C and S1-U have a tunnel each.

Cast: gateway, core, cell1, cell2 (`secgw_ns`); field cell, a VDU set up by hand.

Seen:
- both cells reach the core, and the backhaul has IPsec only;
- the gateway answers strangers on no port;
- the field cell gets an address and reaches the core;
- without its daemon gateway and cell send nothing in clear, also during a reboot.
"""

import ipaddress
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e_core import MME, SGW, http_server, tried, with_core
from e2e_support import PATIENCE, ActionError, Lab, Service, associations, outsider, scraped
from e2e_wire import captured, ipsec_only
from support.filters import NEIGHBOURS

UNTRUSTED, TRUSTED = "192.168.120.1", "192.168.121.1"

pytestmark = [pytest.mark.lab, pytest.mark.long]

SECOND = "10.44.1.5"


@pytest.fixture(scope="module")
def secgw(lab: Lab) -> Iterator[Service]:
    with with_core(lab, "secgw", "secgw_ns", "secgw") as service:
        yield service


def test_two_cells_reach_the_core_and_only_ipsec_is_on_the_backhaul(
    secgw: Service, tmp_path: Path
) -> None:
    with captured(secgw, "backhaul", tmp_path / "backhaul.pcap") as capture:
        for cell in ("cell1", "cell2"):
            for address in (MME, SGW):
                assert secgw[cell].pings(address), (cell, address)
    assert capture.count(ipsec_only()) >= 8
    other = f"not {NEIGHBOURS} and not {ipsec_only()}"
    assert capture.count(other) == 0, capture.sample(other)
    assert len(associations(secgw["gateway"])) == 4


def test_the_core_reaches_each_cell_by_the_tunnel_meant_for_it(secgw: Service) -> None:
    core = secgw["core"]
    for host in (11, 12):
        assert core.pings(f"10.41.0.{host}", "-I", MME), host
        assert core.pings(f"10.42.0.{host}", "-I", SGW), host
    # The MME's addresses are not among the traffic selectors of S1-U.
    assert not core.pings("10.42.0.11", "-I", MME, tries=5)


def test_a_second_inner_address_uses_the_same_tunnel(secgw: Service) -> None:
    """One tunnel and two inner addresses: the second belongs to a radio of its own."""
    cell = secgw["cell1"]
    cell.out("ip", "address", "add", f"{SECOND}/32", "dev", "lo")
    assert not cell.pings(SGW, "-I", SECOND, tries=5)
    for _ in range(2):  # The second time nothing changes.
        cell.action(
            "configure",
            link="s1u",
            technology="ipsec",
            inner_address="10.42.0.11/24",
            underlay_interface="ens4",
            allowed_prefixes=f"{SECOND}/32",
            accept_prefixes="10.43.2.0/24",
        )
    with secgw.controller() as controlled:
        controlled.settle()
    assert cell.pings(SGW, "-I", SECOND, tries=50)
    assert cell.pings(SGW)
    assert len(associations(secgw["gateway"])) == 4


POOL = "10.44.9.0/24"


def test_a_cell_set_up_by_hand_is_given_an_address_and_reaches_the_core(
    secgw: Service, tmp_path: Path
) -> None:
    gateway, core = secgw["gateway"], secgw["core"]
    s1c = {
        "link": "s1c",
        "technology": "ipsec",
        "inner_address": "10.41.0.1/24",
        "underlay_interface": "ens4",
        "allowed_prefixes": "10.43.1.0/24",
        "accept_prefixes": "10.44.0.0/16",
    }
    with outsider(secgw, "backhaul", "192.168.120.50") as cell:
        key = "/etc/swanctl/private/field-cell.pem"
        cell.out("openssl", "genpkey", "-algorithm", "ED25519", "-out", key)
        public = cell.out(
            "openssl", "pkey", "-in", "/etc/swanctl/private/field-cell.pem", "-pubout"
        )
        cell.out("tee", "/etc/swanctl/pubkey/field-cell.pem", input=public)
        field_cell = {
            "link": "s1c",
            "name": "field-cell",
            "public_key": "".join(public.splitlines()[1:-1]),
            "allowed_prefixes": "pool",
        }
        with pytest.raises(ActionError, match="s1c has no pool"):
            gateway.action("add-peer", **field_cell)
        with pytest.raises(ActionError, match=r"pool: 10\.43\.1\.0/24 overlaps"):
            gateway.action("configure", **s1c, ipsec_options="pool=10.43.1.0/24")
        gateway.action("configure", **s1c, ipsec_options=f"pool={POOL}")
        added = gateway.action("add-peer", **field_cell)
        cell.out("tee", "/etc/swanctl/conf.d/gateway.conf", input=added["swanctl"])
        # Where the kernel has no ESP, strongSwan carries packets itself, as on the VNFs.
        daemon = "/etc/strongswan.d/00-osm-vpnaas.conf"
        cell.out("tee", daemon, input=secgw["cell1"].out("cat", daemon))
        with captured(secgw, "backhaul", tmp_path / "by-hand.pcap") as capture:
            cell.out("systemctl", "restart", "strongswan")
            assert cell.pings(MME, tries=60)
            answer = {p["peer"]: p for p in gateway.status("s1c")["peers"]}
            given = answer["field-cell"]["given-addresses"]
            assert ipaddress.ip_address(given) in ipaddress.ip_network(POOL)
            assert answer["field-cell"]["state"] == "up"
            assert core.pings(given, "-I", MME)
        assert capture.count(f"host 192.168.120.50 and {ipsec_only()}") >= 8
        assert capture.count("net 10.0.0.0/8") == 0
        # The related cells have the link as ever.
        assert len(associations(gateway)) == 5
        assert secgw["cell1"].pings(MME)
        gateway.action("delete-peer", link="s1c", name="field-cell")
        assert not cell.pings(MME, tries=5)
        assert len(associations(gateway)) == 4
    gateway.action("configure", **s1c)
    assert secgw["cell1"].pings(MME)


def test_the_gateway_answers_strangers_on_no_port_and_osm_on_that_of_ssh(secgw: Service) -> None:
    gateway, cell, core = secgw["gateway"], secgw["cell1"], secgw["core"]
    with http_server(gateway):
        silent = {"22": "silence", "8080": "silence"}
        assert tried(cell, UNTRUSTED, 22, 8080) == silent
        assert tried(cell, gateway.management, 22, 8080) == dict(silent, **{"22": "open"})
        # Nor out of a tunnel or from the trusted side, where those are whom it serves.
        assert tried(cell, "10.42.0.1", 22, 8080) == silent
        assert tried(core, TRUSTED, 22, 8080) == silent
        # It can fail: the same without the firewall. The guard of the links still closes SSH.
        gateway.action("configure-gateway", firewall=False)
        assert tried(cell, UNTRUSTED, 22, 8080) == {"22": "silence", "8080": "open"}
        gateway.action("configure-gateway")
        assert tried(cell, UNTRUSTED, 22, 8080) == silent
    assert gateway.action("run", command="echo there").strip() == "there"
    assert len(associations(gateway)) == 4


def test_the_daemon_and_the_kernel_are_those_of_a_gateway(secgw: Service) -> None:
    gateway = secgw["gateway"]
    started = gateway.out("systemctl", "show", "-P", "ExecMainStartTimestamp", "strongswan")
    assert "ikesa_table_size = 1024" in gateway.out(
        "cat", "/etc/strongswan.d/10-osm-vpnaas-gateway.conf"
    )
    threads = 12 + 4 * min(16, int(gateway.out("nproc")))
    assert f"workers {{total={threads} " in gateway.out("swanctl", "--stats", "--raw")
    assert gateway.out("sysctl", "-n", "net.ipv4.ip_forward").strip() == "1"
    with secgw.controller() as controlled:
        controlled.update_status()
    # Nothing is done again where all is as it should be.
    assert started == gateway.out("systemctl", "show", "-P", "ExecMainStartTimestamp", "strongswan")


def test_prometheus_finds_the_metrics_of_the_gateway_on_management_only(secgw: Service) -> None:
    gateway, cell, core = secgw["gateway"], secgw["cell1"], secgw["core"]
    before = scraped(core, gateway)
    up = {key: value for key, value in before.items() if key[0] == "vpnaas_peer_up"}
    assert {key[1] for key in up} == {"s1c", "s1u"}
    assert list(up.values()) == [1] * 4
    assert before["vpnaas_ike_daemon_up",] == 1
    for address in (UNTRUSTED, "10.42.0.1"):
        assert tried(cell, address, 9815) == {"9815": "silence"}
    dropped = ("vpnaas_dropped_packets_total", "from_untrusted", "osm_vpnaas_gateway")
    secgw.wait(lambda: scraped(core, gateway)[dropped] > before[dropped], "the drops are told")


def test_a_gateway_without_its_daemon_lets_nothing_out_in_clear(
    secgw: Service, tmp_path: Path
) -> None:
    gateway, core = secgw["gateway"], secgw["core"]
    gateway.out("systemctl", "stop", "strongswan")
    # Worse: somebody routes the cells in clear.
    routes = [("10.41.0.11", "192.168.120.11"), ("10.42.0.11", "192.168.120.11")]
    try:
        for inner, outer in routes:
            gateway.out("ip", "route", "replace", inner, "via", outer)
        with captured(secgw, "backhaul", tmp_path / "gateway-down.pcap") as capture:
            assert not core.pings("10.41.0.11", "-I", MME, tries=10)
            assert not core.pings("10.42.0.11", "-I", SGW, tries=10)
            assert not gateway.pings("10.42.0.11", tries=5)
        clear = f"(net 10.41.0.0/16 or net 10.42.0.0/15) and not {NEIGHBOURS}"
        assert capture.count(clear) == 0, capture.sample(clear)
    finally:
        for inner, _ in routes:
            gateway.out("ip", "route", "del", inner)
        gateway.out("systemctl", "start", "strongswan")
    secgw.wait(lambda: len(associations(gateway)) == 4, "all tunnels are back")
    assert core.pings("10.42.0.11", "-I", SGW, tries=25)


def test_a_gateway_that_reboots_is_closed_before_it_is_open(secgw: Service) -> None:
    gateway = secgw["gateway"]
    secgw.vim.reboot(gateway.server_id)
    secgw.vim.wait_active(gateway.server_id, PATIENCE)
    secgw.wait(lambda: len(associations(gateway)) == 4, "all tunnels are back")
    assert tried(secgw["cell1"], UNTRUSTED, 22) == {"22": "silence"}
    assert secgw["cell1"].pings(SGW, tries=25)
    assert gateway.boot_cycles() == ""


def test_without_its_daemon_a_cell_sends_nothing_in_clear(secgw: Service, tmp_path: Path) -> None:
    cell = secgw["cell2"]
    cell.out("systemctl", "stop", "osm-vpnaas-ipsec-keeper", "strongswan")
    try:
        with captured(secgw, "backhaul", tmp_path / "down.pcap") as capture:
            assert not cell.pings(MME, tries=10)
            assert not cell.pings(SGW, tries=10)
        clear = f"ip proto \\icmp and host 192.168.120.31 or net 10.43.0.0/16 and not {NEIGHBOURS}"
        assert capture.count(clear) == 0, capture.sample(clear)
        assert secgw["cell1"].pings(MME)
    finally:
        cell.out("systemctl", "start", "strongswan", "osm-vpnaas-ipsec-keeper")
    secgw.wait(lambda: cell.pings(MME), "the cell's tunnel is back")
