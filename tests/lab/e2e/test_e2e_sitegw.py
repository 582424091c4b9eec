"""Two sites joined by their gateways: one tunnel for all links of the VNFs behind them.

Cast: hub, spoke, hub-host, spoke-host (`sitegw_ns`).

Seen:
- links of two sites share the tunnel of their gateways, and a link of two hosts runs inside it;
- while the tunnel is down nothing takes another way.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e_support import SITEGW, Secrets, wait
from e2e_wire import Capture, wireguard_only
from sites_support import Sites, opened

from operate.join import End, join

pytestmark = pytest.mark.lab

HUB, SPOKE = "198.51.100.20", "203.0.113.20"
HUB_HOST, SPOKE_HOST = "10.81.0.10", "10.82.0.10"
#: Of a second link between the same hosts.
HUB_SECOND, SPOKE_SECOND = "10.81.1.10", "10.82.1.10"
NESTED = {"hub-host": "10.83.0.1", "spoke-host": "10.83.0.2"}


@pytest.fixture(scope="module")
def sites(
    dist: Path, secrets: Secrets, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sites]:
    for sites in opened(tmp_path_factory.mktemp("sitegw"), dist, secrets):
        sites.lab.onboard(*SITEGW)
        words = ("--ns_name", "gw", "--nsd_name", "sitegw_ns", "--vim_account", "site-a")
        file = str(dist / "params/sitegw_two_sites.yaml")
        sites.lab.done("ns-create", *words, "--config_file", file, "--wait")
        for member, address in (("hub-host", HUB_SECOND), ("spoke-host", SPOKE_SECOND)):
            sites.out("gw", member, "ip", "address", "add", f"{address}/32", "dev", "lo")
        yield sites


def test_links_of_two_sites_share_the_tunnel_of_their_gateways(
    sites: Sites, tmp_path: Path
) -> None:
    capture = Capture(tmp_path / "uplink.pcap")
    with sites.vim("site-b").capture_uplink(capture.path):
        assert sites.round_trip("gw", "hub-host", SPOKE_HOST) >= 18.0
        assert sites.round_trip("gw", "spoke-host", "-I", SPOKE_SECOND, HUB_SECOND) >= 18.0
    between = f"host {HUB} and host {SPOKE}"
    assert capture.count(f"{between} and {wireguard_only(51820)}") >= 40
    assert capture.count(f"{between} and not {wireguard_only(51820)}") == 0
    inside = "net 10.80.0.0/14 or net 192.168.128.0/21"
    assert capture.count(f"icmp or {inside}") == 0, capture.sample(f"icmp or {inside}")
    for member, link, far in (("hub", "site-hub", SPOKE), ("spoke", "site-spoke", HUB)):
        shown = sites.status("gw", member, link)
        (peer,) = shown["peers"]
        assert (shown["state"], peer["endpoint"]) == ("up", f"{far}:51820")


@pytest.mark.long
def test_a_link_of_two_hosts_runs_inside_the_tunnel_of_the_gateways(
    sites: Sites, tmp_path: Path
) -> None:
    """The hosts are told by their gateway what fits, and nothing is fragmented on the way."""
    reached = {"hub-host": HUB_HOST, "spoke-host": SPOKE_HOST}
    for member, inner in NESTED.items():
        sites.action(
            "gw",
            member,
            "configure",
            link="vpn-server",
            inner_address=f"{inner}/24",
            underlay_interface="ens4",
            gateway=reached[member],
        )
    ends = [End.parse(f"gw/{m}:vpn-server@{address}") for m, address in reached.items()]
    join(sites.lab.client(), *ends)
    for member in NESTED:
        assert sites.status("gw", member, "vpn-server")["mtu"] == 1370 - 80
    (lan,) = [n for n in sites.vim("site-a").networks() if n.name.endswith("-hub-lan")]
    capture = Capture(tmp_path / "lan.pcap")
    with sites.vim("site-a").capture(lan.id, capture.path):
        far = NESTED["spoke-host"]
        wait(lambda: sites.whole("gw", "hub-host", far, 1370 - 80), "the tunnel inside")
        assert not sites.whole("gw", "hub-host", far, 1370 - 79)
    assert capture.count(wireguard_only(51820)) >= 6
    assert capture.count("ip[6:2] & 0x3fff != 0 or icmp") == 0
    # The same two hosts, the same moment: also what is not in a tunnel of its own.
    assert sites.round_trip("gw", "hub-host", SPOKE_HOST) >= 18.0


def test_while_the_tunnel_is_down_nothing_goes_another_way(sites: Sites, tmp_path: Path) -> None:
    capture = Capture(tmp_path / "down.pcap")
    sites.out("gw", "hub", "systemctl", "stop", "wg-quick@wg-site-hub")
    try:
        with sites.vim("site-a").capture_uplink(capture.path):
            assert not sites.whole("gw", "hub-host", SPOKE_HOST, 100)
            assert not sites.whole("gw", "spoke-host", HUB_HOST, 100)
    finally:
        sites.out("gw", "hub", "systemctl", "restart", "wg-quick@wg-site-hub")
    # Whoever sends to the closed port is told so, between outer addresses.
    inside = "net 10.80.0.0/14"
    assert capture.count(inside) == 0, capture.sample(inside)
    wait(lambda: sites.whole("gw", "spoke-host", HUB_HOST, 100), "the tunnel is back")
