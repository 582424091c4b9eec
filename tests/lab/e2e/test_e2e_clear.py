"""The variant without a VPN: the control of every capture.

Cast: server, client (`vpn_basic_ns`, without a VPN).

Seen:
- all packets are readable in the capture, and are not after `configure` to WireGuard;
- a tunnel survives its underlay going down and up, and a tunnel in a tunnel fragments nothing.
"""

from pathlib import Path

import pytest
from e2e_basic import CLIENT, LINKS, SERVER, configure_both
from e2e_support import BASIC, ActionError, Service, own_service
from e2e_wire import captured, wireguard_only
from support.filters import NEIGHBOURS

pytestmark = [pytest.mark.lab, pytest.mark.schedule(order=-6, worker="clear")]

#: What a ping carries (its option -p), to be found in a capture or not.
MARKER = b"osm-vpnaas-clear"
MARKED = ("-p", MARKER.hex(), "-s", "64")


def test_without_vpn_everything_is_in_clear(clear: Service, tmp_path: Path) -> None:
    answer = clear["server"].status("vpn-server")
    assert (answer["state"], answer["reason"]) == ("clear", "")
    assert clear["server"].boot_cycles() == ""
    assert clear["client"].run("wg", "show", "interfaces").stdout.strip() == ""
    with captured(clear, "data", tmp_path / "clear.pcap") as capture:
        assert clear["client"].pings(SERVER, *MARKED)
        assert clear["server"].pings(CLIENT, *MARKED)
    assert capture.count(f"icmp and host {SERVER} and host {CLIENT}") >= 4
    assert capture.holds(MARKER)


def test_experiments_are_refused_unless_day_1_allows_them(clear: Service) -> None:
    for primitive in ("start-capture", "start-listener"):
        with pytest.raises(ActionError, match="allow_experiments must be yes"):
            clear["client"].action(primitive)


def test_configure_switches_to_wireguard(clear: Service, tmp_path: Path) -> None:
    configure_both(clear, technology="wireguard")
    with captured(clear, "data", tmp_path / "secured.pcap") as capture:
        assert clear["client"].pings(SERVER, *MARKED)
        assert clear["server"].pings(CLIENT, *MARKED)
    assert capture.count(wireguard_only(51820)) >= 4
    other = f"not {NEIGHBOURS} and not {wireguard_only(51820)}"
    assert capture.count(other) == 0, capture.sample(other)
    assert capture.count(f"host {SERVER} or host {CLIENT}") == 0
    assert not capture.holds(MARKER)
    for index, link in LINKS.items():
        assert clear[index].status(link)["state"] == "up"


def test_a_tunnel_outlives_its_underlay_going_down_and_up(clear: Service) -> None:
    """Its routes lead into an interface of its own, which stays."""
    clear["server"].out("ip", "link", "set", "ens4", "down")
    try:
        assert not clear["client"].pings(SERVER, tries=5)
    finally:
        clear["server"].out("ip", "link", "set", "ens4", "up")
    assert clear["client"].pings(SERVER, tries=60)
    assert clear["server"].pings(CLIENT)


INNERMOST = {"server": "10.78.0.1", "client": "10.78.0.2"}
#: The two ends of a second link, inside the first: each VNF has the other role on it.
SECOND = {"server": "vpn-client", "client": "vpn-server"}


nested = own_service(BASIC, "nested", "vpn_basic_ns", "vpn_basic")


@pytest.mark.long
def test_a_tunnel_inside_the_tunnel_has_its_mtu_and_no_packet_is_fragmented(
    nested: Service, tmp_path: Path
) -> None:
    for index, reached in (("server", SERVER), ("client", CLIENT)):
        nested[index].action(
            "configure",
            link=SECOND[index],
            inner_address=f"{INNERMOST[index]}/24",
            underlay_interface="ens4",
            gateway=reached,
            listen_port=51830,
        )
    nested.note_secrets()
    for index, other, reached in (("server", "client", CLIENT), ("client", "server", SERVER)):
        nested[index].action(
            "add-peer",
            link=SECOND[index],
            name=other,
            public_key=nested[other].public_key(f"wg-{SECOND[other]}"),
            allowed_prefixes=f"{INNERMOST[other]}/32",
            endpoint=f"{reached}:51830",
        )
    for index, outer in LINKS.items():
        shown = nested[index].action("show-status")
        (peer,) = shown[SECOND[index]]["peers"]
        assert peer["through"] == outer
        assert shown[SECOND[index]]["mtu"] == shown[outer]["mtu"] - 80 == 1290
    far = INNERMOST["server"]
    with captured(nested, "data", tmp_path / "nested.pcap") as capture:
        assert nested["client"].pings(far, "-M", "do", "-s", str(1290 - 28), tries=50)
        assert not nested["client"].pings(far, "-M", "do", "-s", str(1290 - 27), tries=5)
    assert capture.count(wireguard_only(51820)) >= 2
    assert capture.count("ip[6:2] & 0x3fff != 0") == 0
    # Once more the same inside that is refused, and leaves the link as it is.
    with pytest.raises(ActionError, match="allowed: tunnels nested once"):
        nested["client"].action(
            "add-peer",
            link="vpn-client",
            name="deeper",
            public_key="AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE=",
            allowed_prefixes="10.77.0.9/32",
            endpoint=f"{far}:51820",
        )
    assert nested["client"].pings(far)
