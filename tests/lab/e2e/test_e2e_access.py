"""A device enrols in two slices at a time by WireGuard.

The same networks are behind both, and no packet crosses from one slice to the other.

Cast: access (`access_ns`, twice); device, a namespace with WireGuard.

Seen:
- the device reaches the networks of its slice and nothing else;
- a slice keeps its rate while its neighbour is saturated;
- a revoked or expired device is cut at once, in this slice only;
- nothing of a device stays when the VNF ends.
"""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from e2e_device import ADDRESSES, MARKERS, PORT, SERVER, Slices
from e2e_support import (
    ACCESS,
    ActionError,
    InBackground,
    Lab,
    Service,
    Vdu,
    gone,
    outsider,
    wait,
)
from e2e_wire import captured
from support.filters import NEIGHBOURS

pytestmark = [pytest.mark.lab, pytest.mark.schedule(order=-4)]


@pytest.fixture(scope="module")
def slices(lab: Lab) -> Iterator[Slices]:
    lab.onboard(*ACCESS)
    services = {}
    for slice, params, outside in (("embb", "access", 60), ("urllc", "access_urllc", 62)):
        text = (lab.dist / "params" / f"{params}.yaml").read_text(encoding="utf-8")
        file = lab.home / f"{slice}.yaml"
        # Only for the device of this test, which has a NIC towards each.
        file.write_text(text.replace("192.168.60.", f"192.168.{outside}."), encoding="utf-8")
        words = ("--ns_name", slice, "--nsd_name", "access_ns", "--vim_account", "lab")
        lab.done("ns-create", *words, "--config_file", str(file), "--wait")
        services[slice] = Service(lab, slice)
    embb, urllc = services["embb"], services["urllc"]
    with ExitStack() as stack:
        servers = {
            slice: stack.enter_context(outsider(service, "data", SERVER))
            for slice, service in services.items()
        }
        device = stack.enter_context(
            outsider(embb, "outside", "192.168.60.9", (urllc, "outside", "192.168.62.9"))
        )
        yield Slices(services, servers, device)
    for service in services.values():
        gone(service)


@pytest.fixture(scope="module", autouse=True)
def answers(slices: Slices) -> dict[str, dict[str, str]]:
    """What enrolled the device in each slice."""
    return {slice: slices.enrol(slice, f"phone-{slice}") for slice in slices.services}


def test_one_device_in_two_slices_and_no_packet_of_one_in_the_other(
    slices: Slices, answers: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    for slice, answer in answers.items():
        assert answer["address"] == f"{ADDRESSES[slice]}/32"
        assert answer["networks"] == "10.254.2.0/24"
    with ExitStack() as stack:
        wires = {
            (slice, network): stack.enter_context(
                captured(service, network, tmp_path / f"{slice}-{network}.pcap")
            )
            for slice, service in slices.services.items()
            for network in ("outside", "data")
        }
        for slice in slices.services:
            for _ in range(3):
                assert slices.pings(slice), slice
    for slice, marker in MARKERS.items():
        for (other, network), wire in wires.items():
            # In clear only behind the access VNF of its own slice.
            assert wire.holds(marker) == (other == slice and network == "data"), (slice, other)
        outside = wires[(slice, "outside")]
        assert outside.count(f"udp port {PORT}") >= 6
        beside = f"not {NEIGHBOURS} and not udp port {PORT} and not udp port 67"
        assert outside.count(beside) == 0, outside.sample(beside)
        # A server sees the access VNF, not the device (access_data_nat).
        assert wires[(slice, "data")].count("icmp and src host 10.254.2.250") >= 3


@pytest.mark.long
def test_the_device_reaches_the_networks_of_its_slice_and_nothing_else(slices: Slices) -> None:
    device = slices.device
    for slice, service in slices.services.items():
        access, server = service["access"], slices.servers[slice]
        # Whatever the device makes of its file.
        device.out("wg", "set", slice, "peer", access.public_key("wg-access"),
                   "allowed-ips", "0.0.0.0/0")  # fmt: skip
        table = device.out("ip", "rule", "show", "from", ADDRESSES[slice]).split()[-1]
        try:
            for address in (server.management, access.management):
                device.out("ip", "route", "add", address, "dev", slice, "table", table)
                assert not slices.pings(slice, 5, address), address
            # With an address that is not its own it is nobody.
            device.out("ip", "address", "add", "172.16.61.77/32", "dev", slice)
            assert not device.pings(SERVER, "-I", "172.16.61.77", tries=5)
        finally:
            device.run("ip", "address", "del", "172.16.61.77/32", "dev", slice)
            device.out("wg-quick", "down", slice)
            device.out("wg-quick", "up", slice)
        assert slices.pings(slice)


def udp(device: Vdu, address: str) -> float:
    """Return the share of datagrams that arrive, of 100 a second for ten seconds."""
    words = ("iperf3", "-J", "-c", SERVER, "-B", address, "-u", "-b", "800k", "-l", "1000")
    result = json.loads(device.out(*words, "-t", "10", timeout=120))["end"]["sum"]
    assert result["packets"] > 500
    return 1 - float(result["lost_percent"]) / 100


@pytest.mark.long
def test_a_slice_passes_while_its_neighbour_is_saturated(slices: Slices) -> None:
    for server in slices.servers.values():
        server.out("iperf3", "-s", "-D")
    alone = udp(slices.device, ADDRESSES["urllc"])
    flood = ("iperf3", "-J", "-c", SERVER, "-B", ADDRESSES["embb"], "-P", "4", "-t", "25")
    load = InBackground(lambda: slices.device.out(*flood, timeout=120.0))
    time.sleep(5)
    beside = udp(slices.device, ADDRESSES["urllc"])
    loaded = json.loads(load.result())["end"]["sum_received"]["bits_per_second"] / 1e6
    print(f"arrived: alone {alone:.3f}, beside {loaded:.0f} Mbit/s of the neighbour {beside:.3f}")
    assert loaded > 10
    assert beside / alone > 0.95


@pytest.mark.long
def test_a_device_is_shown_with_its_handshake_and_its_bytes(slices: Slices) -> None:
    (shown,) = slices.services["embb"]["access"].action("show-devices")["peers"]
    assert (shown["peer"], shown["state"], shown["expires"]) == ("phone-embb", "up", "never")
    assert shown["received-bytes"] > 1_000_000
    assert shown["last-handshake-s"] < 180
    assert shown["endpoint"].startswith("192.168.60.9:")


@pytest.mark.long
def test_a_device_whose_time_is_over_is_cut_at_that_moment(slices: Slices) -> None:
    access = slices.services["urllc"]["access"]
    access.action("revoke-device", name="phone-urllc")
    slices.device.out("wg-quick", "down", "urllc")
    answer = slices.enrol("urllc", "guest", expires="1m")
    end = int(slices.device.out("date", "+%s", "-d", answer["expires"]))
    assert answer["address"] == "172.16.62.2/32"
    assert slices.pings("urllc")
    peers = "wg show wg-access peers; systemctl is-active osm-vpnaas-expiry.timer; date +%s"
    key, active, now = access.out("sh", "-c", peers).split()
    assert (active, int(now) < end) == ("active", True)
    # Nobody looks: no hook runs, only the VDU's own timer.
    hooks = slices.services["urllc"].hook_log()
    seen = "while wg show wg-access peers | grep -q .; do sleep 0.1; done; date +%s.%N"
    cut = float(access.out("sh", "-c", seen, timeout=300))
    assert slices.services["urllc"].hook_log() == hooks
    print(f"cut {cut - end:.1f} s after the end")
    assert 0 <= cut - end < 15
    assert not slices.pings("urllc", 5)
    assert key not in access.out("cat", "/etc/wireguard/wg-access.conf")
    assert slices.pings("embb")
    reply = access.action("show-devices")
    assert (reply["peers"], reply["expired"]) == ([], {"guest": answer["expires"]})
    # A restart of the VDU does not bring it back.
    access.out("systemctl", "restart", "wg-quick@wg-access")
    assert access.peers("wg-access") == set()


@pytest.mark.long
def test_a_revoked_device_is_cut_at_once_and_the_other_slice_is_not(
    slices: Slices, tmp_path: Path
) -> None:
    embb = slices.services["embb"]
    key = slices.device.out("wg", "show", "embb", "public-key").strip()
    endless = ("ping", "-q", "-i", "0.05", "-w", "60", "-I", ADDRESSES["embb"], SERVER)
    pinging = InBackground(lambda: slices.device.run(*endless, timeout=120.0))
    wait(lambda: slices.pings("embb"), "the device is in")
    answer = embb["access"].action("revoke-device", name="phone-embb")
    with captured(embb, "data", tmp_path / "after.pcap") as after:
        time.sleep(5)
        assert not pinging.ended
    pinging.result()
    assert answer == {"revoked": "phone-embb", "was-enrolled": True}
    assert after.count("icmp") == 0, after.sample("icmp")
    assert embb["access"].peers("wg-access") == set()
    with pytest.raises(ActionError, match="it was revoked"):
        embb["access"].action("enrol-device", name="phone-embb", public_key=key)
    again = embb["access"].action("revoke-device", name="phone-embb")
    assert again == {"revoked": "phone-embb", "was-enrolled": False}


@pytest.mark.long
def test_the_end_of_the_vnf_leaves_nothing_of_devices(slices: Slices) -> None:
    embb = slices.services["embb"]
    access = embb["access"]
    access.action("enrol-device", name="last", public_key=slices.key("last"), expires="30d")
    look = ("sh", "-c", "nft list tables; ip -br link; find /etc/systemd/system /etc/osm-vpnaas")
    for name in ("osm_vpnaas_devices", "osm-vpnaas-expiry.timer", "wg-access"):
        assert name in access.out(*look)
    embb.note_secrets()
    with embb.controller() as controlled:
        controlled.model.remove_application(access.application)
        controlled.settle()
    left = access.out(*look)
    for name in ("table ", "devices", "expiry", "wg-access@", "wg-access "):
        assert name not in left, left
