"""Two sites with IPv6 only, joined over IPv6: by WireGuard, then by IPsec.

IPv4 goes in the same tunnel.

Cast: hub, spoke, hub-host, spoke-host (`sitegw_ns`).

Seen:
- the hosts reach each other by IPv6 and by IPv4;
- fragments pass, and a host is told the size that fits;
- a gateway that reboots forwards again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from e2e_labs import open_lab
from e2e_support import SITEGW, Secrets, Service, wait
from e2e_wire import Capture
from sites_support import TREE
from support.filters import NEIGHBOURS

pytestmark = [pytest.mark.lab, pytest.mark.long]

CONFIG = str(TREE.root / "lab/sites/ipv6.yaml")
LINKS = {"hub": "site-hub", "spoke": "site-spoke"}
INNER = {"hub": "10.80.0.1", "spoke": "10.80.0.2"}
BEHIND = {"hub": "fd00:81::/48", "spoke": "fd00:82::/48"}
HUB_HOST, SPOKE_HOST = "fd00:81::10", "fd00:82::10"
SECOND = {"hub-host": "fd00:81:0:1::10", "spoke-host": "fd00:82:0:1::10"}
#: Size of a packet of each link that the tunnel takes: 1,500 less the overhead.
HEADERS = {4: 28, 6: 48}
#: By the header of UDP: pcap-filter(7) does not index above IPv6.
WIREGUARD = (
    "(ip6 and udp src port 51820 and udp dst port 51820 and ip6[48] >= 1 and ip6[48] <= 4"
    " and ip6[49] = 0 and ip6[50:2] = 0)"
)
IPSEC = "(ip6 and (udp src port 4500 and udp dst port 4500 or ip6 proto 50))"
FRAGMENTS = "ip6[6] = 44"


@pytest.fixture(scope="module")
def six(
    dist: Path, secrets: Secrets, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """The service in a lab whose VIM has networks of IPv6, as the how-to makes them."""
    for lab in open_lab(tmp_path_factory.mktemp("six"), dist, secrets, "--config_file", CONFIG):
        lab.onboard(*SITEGW)
        service = lab.create("six", "sitegw_ns", "sitegw_ipv6")
        for member, address in SECOND.items():
            service[member].out("ip", "address", "add", f"{address}/128", "dev", "lo")
        yield service
        service.note_secrets()


@pytest.fixture(scope="module", params=["wireguard", "ipsec"])
def sites(six: Service, request: pytest.FixtureRequest) -> Service:
    """The service with one technology after the other between its gateways."""
    if request.param != "wireguard":
        for member, link in LINKS.items():
            other = next(m for m in LINKS if m != member)
            six[member].action(
                "configure",
                link=link,
                technology=request.param,
                inner_address=f"{INNER[member]}/24",
                underlay_interface="ens4",
                allowed_prefixes=BEHIND[member],
                accept_prefixes=BEHIND[other],
            )
    wait(lambda: whole(six, SPOKE_HOST, 100), "the sites reach each other")
    return six


def whole(sites: Service, address: str, size: int, *options: str) -> bool:
    """Tell whether packets of so many bytes get from the hub's host to an address unfragmented."""
    words = ("-n", "-q", "-c", "3", "-i", "0.2", "-w", "5", "-M", "do")
    asked = str(size - HEADERS[6])
    return sites["hub-host"].run("ping", *words, "-s", asked, *options, address).returncode == 0


@contextmanager
def only_tunnel(sites: Service, path: Path) -> Iterator[Capture]:
    """Capture between the gateways: the tunnel is all there is, and no outer packet is in parts."""
    (wan,) = (network.id for network in sites.vim.networks() if network.name == "wan-ipv6")
    capture = Capture(path)
    with sites.vim.capture(wan, path):
        yield capture
    technology = sites["hub"].status(LINKS["hub"])["technology"]
    tunnel = {"wireguard": WIREGUARD, "ipsec": IPSEC}[technology]
    assert capture.count(tunnel) >= 6
    other = f"not {NEIGHBOURS} and not {tunnel}"
    assert capture.count(other) == 0, capture.sample(other)
    assert capture.count(FRAGMENTS) == 0, capture.sample(FRAGMENTS)
    assert capture.count("icmp6[0] = 128 or icmp6[0] = 129") == 0


def test_sites_with_ipv6_only_reach_each_other_over_ipv6(sites: Service, tmp_path: Path) -> None:
    with only_tunnel(sites, tmp_path / "wan.pcap"):
        assert sites["hub-host"].pings(SPOKE_HOST)
        assert sites["spoke-host"].pings(HUB_HOST)
        assert sites["spoke-host"].pings(SECOND["hub-host"], "-I", SECOND["spoke-host"])
    for member, link in LINKS.items():
        shown = sites[member].status(link)
        (peer,) = shown["peers"]
        assert (shown["state"], peer["state"]) == ("up", "up")
        assert peer["endpoint"].startswith("[fd00:130::")


def test_ipv4_goes_through_the_same_tunnel(sites: Service, tmp_path: Path) -> None:
    with only_tunnel(sites, tmp_path / "wan.pcap"):
        assert sites["hub"].pings(INNER["spoke"])
        assert sites["spoke"].pings(INNER["hub"])
        assert sites["hub"].pings(INNER["spoke"], "-s", "4000")


def test_parts_of_a_packet_go_through_and_the_outer_one_is_whole(
    sites: Service, tmp_path: Path
) -> None:
    with only_tunnel(sites, tmp_path / "wan.pcap"):
        # The first parts are as large as the LAN takes; the gateway says what fits.
        host = sites["hub-host"]
        wait(lambda: host.pings(SPOKE_HOST, "-s", "4000"), "the host learns what fits")
        assert sites["spoke-host"].pings(HUB_HOST, "-s", "1200")
        assert sites["hub"].action("measure-latency", link=LINKS["hub"], size=3000, count=5)


def test_a_host_is_told_what_fits_into_the_tunnel(sites: Service) -> None:
    """A gateway answers what is too big with Packet Too Big (RFC 8201)."""
    mtu = sites["hub"].status(LINKS["hub"])["mtu"]
    sites["hub-host"].out("ip", "-6", "route", "flush", "cache")
    assert whole(sites, SPOKE_HOST, mtu)
    assert not whole(sites, SPOKE_HOST, mtu + 1)
    result = sites["hub-host"].out("ip", "-6", "route", "get", SPOKE_HOST)
    assert f"mtu {mtu}" in result


def test_a_gateway_that_reboots_forwards_again(sites: Service) -> None:
    sites.vim.reboot(sites["hub"].server_id)
    wait(lambda: sites["hub-host"].pings(SPOKE_HOST), "the hub forwards again")
    forwarding = ("sysctl", "-n", "net.ipv6.conf.all.forwarding")
    assert sites["hub"].out(*forwarding).strip() == "1"
    assert sites["hub-host"].run(*forwarding).stdout.strip() == "0"
