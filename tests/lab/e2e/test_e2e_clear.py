"""The variant without a VPN: the control of every capture, and a second service of equal ranges."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e_support import NEIGHBOURS, Service, captured, wireguard_only

pytestmark = pytest.mark.lab

SERVER, CLIENT = "10.77.0.1", "10.77.0.2"
OUTER = "192.168.100.11"
#: What a ping carries (its option -p), to be found in a capture or not.
MARKER = b"osm-vpnaas-clear"
MARKED = ("-p", MARKER.hex(), "-s", "64")


def test_without_vpn_everything_is_in_clear(clear: Service, tmp_path: Path) -> None:
    told = clear["server"].status("vpn-server")
    assert (told["state"], told["reason"]) == ("clear", "")
    assert clear["server"].boot_cycles() == ""
    assert clear["client"].run("wg", "show", "interfaces").stdout.strip() == ""
    with captured(clear, "data", tmp_path / "clear.pcap") as capture:
        assert clear["client"].pings(SERVER, *MARKED)
        assert clear["server"].pings(CLIENT, *MARKED)
    assert capture.count(f"icmp and host {SERVER} and host {CLIENT}") >= 4
    assert capture.holds(MARKER)


def test_configure_switches_to_wireguard(clear: Service, tmp_path: Path) -> None:
    for index, address in (("server", SERVER), ("client", CLIENT)):
        clear[index].action(
            "configure",
            link=f"vpn-{index}",
            technology="wireguard",
            inner_address=f"{address}/24",
            underlay_interface="ens4",
        )
    with captured(clear, "data", tmp_path / "secured.pcap") as capture:
        assert clear["client"].pings(SERVER, *MARKED)
        assert clear["server"].pings(CLIENT, *MARKED)
    assert capture.count(wireguard_only(51820)) >= 4
    other = f"not {NEIGHBOURS} and not {wireguard_only(51820)}"
    assert capture.count(other) == 0, capture.sample(other)
    assert capture.count(f"host {SERVER} or host {CLIENT}") == 0
    assert not capture.holds(MARKER)
    for index in ("server", "client"):
        assert clear[index].status(f"vpn-{index}")["state"] == "up"


def test_services_of_equal_ranges_do_not_meet(
    basic: Service, clear: Service, tmp_path: Path
) -> None:
    """Both have these addresses inside and outside; each client reaches its own server only."""
    with captured(clear, "data", tmp_path / "clear.pcap") as capture:
        assert basic["client"].pings(SERVER)
        assert clear["client"].pings(SERVER)
    seen = {mac: capture.count(f"ether host {mac}") > 0 for mac in macs(clear) | macs(basic)}
    assert seen == {mac: mac in macs(clear) for mac in seen}
    clear["server"].out("ip", "link", "set", "ens4", "down")
    try:
        for address in (OUTER, SERVER):
            assert basic["client"].pings(address)
            assert not clear["client"].pings(address)
    finally:
        clear["server"].out("ip", "link", "set", "ens4", "up")
    # The kernel dropped the routes with the interface; no charm brings them back.
    for address in (OUTER, SERVER):
        assert clear["client"].pings(address, tries=60)


def test_a_tunnel_outlives_its_underlay_going_down_and_up(basic: Service) -> None:
    """Its routes lead into an interface of its own, which stays."""
    basic["server"].out("ip", "link", "set", "ens4", "down")
    try:
        assert not basic["client"].pings(SERVER, tries=5)
    finally:
        basic["server"].out("ip", "link", "set", "ens4", "up")
    assert basic["client"].pings(SERVER, tries=60)
    assert basic["server"].pings(CLIENT)


def macs(service: Service) -> set[str]:
    """Return the hardware addresses of a service's VDUs on its data network."""
    network = service.network("data")
    return {
        port.mac
        for vnf in service.vnfs.values()
        for port in vnf.server.ports
        if port.network_id == network
    }
