"""Two VNFs on virtual machines: the kernels' own WireGuard and ESP, by the unchanged packages.

The tests follow each other: WireGuard first, then the same service with IPsec.

Cast: server, client (`vpn_basic_ns`, on virtual machines).

Seen:
- rotation loses no datagram, by WireGuard and by ESP;
- after a reboot or a power cut the tunnel comes back by itself, and the guard is in force before
  the network;
- AppArmor in force lets the daemon work, and ESP keys are renewed by time and volume.
"""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from e2e_basic import CLIENT, INNER, LINKS, SERVER, configure_both
from e2e_support import (
    BASIC,
    PATIENCE,
    InBackground,
    Lab,
    Service,
    Vnf,
    associations,
    gone,
    unbroken,
    wait,
)
from e2e_wire import captured
from support.filters import NEIGHBOURS
from support.flow import Flow
from vpnaas.features.guard import BOOT, TABLE

from lab.vim.qemu.accelerator import accelerator

pytestmark = [
    pytest.mark.lab,
    pytest.mark.vm,
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.schedule(order=4, worker="alone"),
]

LONGEST = 1500
"""Seconds that a stream lasts at most."""
UNIT = BOOT.unit
UNDERLAY = "192.168.100.11"
"""The server's."""


@pytest.fixture(scope="module")
def pair(machines: Lab) -> Iterator[Service]:
    machines.onboard(*BASIC)
    service = machines.create("pair", "vpn_basic_ns", "vpn_basic")
    yield service
    gone(service)


def link_kinds(service: Service, kind: str) -> list[str]:
    """Return the kind of each interface of a type that a VDU has, on both VDUs."""
    words = ("ip", "-json", "-details", "link", "show", "type", kind)
    return [
        row["linkinfo"]["info_kind"]
        for vnf in service.vnfs.values()
        for row in json.loads(vnf.out(*words))
        if row  # interfaces of other types are listed as empty objects
    ]


@contextmanager
def under_traffic(service: Service, rate: int) -> Iterator[Flow]:
    """Run a TCP stream and `rate` datagrams a second from the client beside the block.

    Both last until the block ends: an emulated processor may need minutes for a rotation.
    """
    client, server = service["client"], service["server"]
    listen = ("iperf3", "--server", "--one-off", "--bind", SERVER, "--port", "5301", "--json")
    sink = InBackground(lambda: server.run(*listen, timeout=LONGEST))
    wait(lambda: any(":5301" in s for s in server.listening()), "iperf3 listens")
    pace = ("--bitrate", "2M", "--length", "8K")
    send = ("iperf3", "--client", SERVER, "--port", "5301", "--time", str(LONGEST), *pace)
    source = InBackground(lambda: client.run(*send, "--json", timeout=LONGEST))
    flow = Flow(client, server, SERVER, seconds=LONGEST, rate=rate, size=64)
    time.sleep(3)
    try:
        yield flow
        assert not source.ended, f"the stream ended too early: {source.result().stdout[-2000:]}"
        time.sleep(2)
    finally:
        flow.stop()
        client.run("pkill", "-INT", "-x", "iperf3")
    unbroken(sink.result().stdout)


def rotated(service: Service, rate: int) -> None:
    """Rotate the keys of both ends while traffic passes; no datagram may be missed."""
    before = {index: service[index].status(link) for index, link in LINKS.items()}
    with under_traffic(service, rate) as flow:
        for index, link in LINKS.items():
            service[index].action("rotate-keys", link=link)
            service.note_secrets()
    for index, link in LINKS.items():
        after = service[index].status(link)
        assert after["key-generation"] == before[index]["key-generation"] + 1
        assert after["public-key"] != before[index]["public-key"]
        assert (after["state"], after["rotation"]) == ("up", "none")
    stream = flow.result()
    assert stream.sent > 3000
    assert stream.lost == 0, stream.summary()


def test_tunnel_of_the_kernels_own_wireguard(pair: Service) -> None:
    assert pair["client"].pings(SERVER)
    assert pair["server"].pings(CLIENT)
    assert link_kinds(pair, "wireguard") == ["wireguard", "wireguard"]
    assert all("wireguard" in vnf.out("lsmod") for vnf in pair.vnfs.values())


def test_a_nic_that_the_kernel_names_otherwise_is_found_by_its_tag(machines: Lab) -> None:
    machines.onboard(*BASIC)
    images = {"images": {"ubuntu22.04": {"hw_machine_type": "q35"}}}
    account = ("--account_type", "qemu", "--config", json.dumps(images))
    machines.done("vim-create", "--name", "q35", *account)
    service = machines.create("q35", "vpn_basic_ns", "vpn_basic", vim="q35")
    try:
        client = service["client"]
        assert client.pings(SERVER)
        assert UNDERLAY in client.out("ip", "route", "get", UNDERLAY, "oif", "enp4s0")
        assert 'iifname "enp4s0"' in client.out("nft", "list", "table", "inet", TABLE)
    finally:
        gone(service)


@pytest.mark.kvm
def test_rotation_of_wireguard_loses_no_datagram(pair: Service) -> None:
    # WireGuard keeps 128 packets of a peer during a handshake. On an emulated processor a handshake
    # took about 170 ms: of 1,000 datagrams a second 41 of 121,840 were lost.
    rotated(pair, 200)


@pytest.mark.kvm
def test_a_reboot_brings_the_tunnel_back_by_itself(pair: Service) -> None:
    client = pair["client"]
    before = client.out("cat", "/proc/sys/kernel/random/boot_id")
    pair.vim.reboot(client.server_id)
    pair.vim.wait_active(client.server_id, PATIENCE)
    assert client.out("cat", "/proc/sys/kernel/random/boot_id") != before
    pair.wait(lambda: client.pings(SERVER), "the tunnel is back")


@pytest.mark.kvm
def test_a_power_cut_brings_the_tunnel_back_by_itself(pair: Service) -> None:
    server, client = pair["server"], pair["client"]
    pair.vim.stop(server.server_id, timeout=0)
    assert not client.pings(SERVER, tries=5)
    pair.vim.start(server.server_id)
    pair.vim.wait_active(server.server_id, PATIENCE)
    pair.wait(lambda: client.pings(SERVER), "the tunnel is back")


#: Settings of each interface by name, with what is to be in force: Day-0's.
SETTINGS = {
    "ipv4/conf/{}/send_redirects": "0",
    "ipv4/conf/{}/accept_redirects": "0",
    "ipv6/conf/{}/accept_redirects": "0",
    "ipv4/conf/{}/forwarding": "0",
}


@pytest.mark.kvm
def test_settings_of_the_kernel_hold_after_a_boot_of_its_own(pair: Service) -> None:
    for index, link in LINKS.items():
        vnf = pair[index]
        assert float(vnf.out("cat", "/proc/uptime").split()[0]) < 3600
        for interface in ("ens3", "ens4", f"wg-{link}"):
            for setting, expected in SETTINGS.items():
                path = f"/proc/sys/net/{setting.format(interface)}"
                assert vnf.out("cat", path).strip() == expected, path
            # The higher of both is in force (ip-sysctl, rp_filter): 2 is loose.
            values = [
                int(vnf.out("cat", f"/proc/sys/net/ipv4/conf/{name}/rp_filter"))
                for name in ("all", interface)
            ]
            assert max(values) == 2, interface


@pytest.mark.kvm
def test_the_guard_is_in_force_before_the_network_of_a_boot(pair: Service) -> None:
    server, client = pair["server"], pair["client"]
    words = ("systemctl", "show", "--value", "--property")
    guard = int(server.out(*words, "ActiveEnterTimestampMonotonic", UNIT))
    network = int(server.out(*words, "InactiveExitTimestampMonotonic", "systemd-networkd"))
    assert 0 < guard < network
    # The inner address is reached through the tunnel only, also from the link beside.
    chain = ("nft", "list", "chain", "inet", TABLE, "input")
    before = re.findall(r"counter packets (\d+)", server.out(*chain))
    client.out("ip", "route", "replace", f"{SERVER}/32", "via", UNDERLAY, "dev", "ens4")
    try:
        assert not client.pings(SERVER, tries=5)
    finally:
        client.out("ip", "route", "delete", f"{SERVER}/32", "via", UNDERLAY)
    after = re.findall(r"counter packets (\d+)", server.out(*chain))
    assert sum(map(int, after)) > sum(map(int, before))
    assert client.pings(SERVER)


@pytest.fixture(scope="module")
def ipsec(pair: Service) -> Service:
    """The service switched over to IPsec, with what only a kernel has."""
    options = "esn=yes,replay-window=128,child-rekey=60,child-mbytes=20"
    configure_both(pair, technology="ipsec", ipsec_options=options)
    pair.wait(lambda: pair["client"].pings(SERVER), "the tunnel is up")
    pair.note_secrets()
    return pair


def test_the_kernel_carries_esp_on_xfrm_interfaces(ipsec: Service) -> None:
    assert ipsec["client"].pings(SERVER)
    assert ipsec["server"].pings(CLIENT)
    assert link_kinds(ipsec, "xfrm") == ["xfrm", "xfrm"]
    assert link_kinds(ipsec, "wireguard") == []
    for index, link in LINKS.items():
        answer = ipsec[index].status(link)
        assert (answer["state"], answer["dataplane"], answer["inner-address"]) == (
            *("up", "xfrm"),
            f"{INNER[index]}/24",
        )
        states = ipsec[index].out("ip", "xfrm", "state")
        assert states.count("proto esp") >= 2
        assert re.findall(r"if_id 0x[1-9a-f]", states)
        assert " esn" in states
        assert "replay_window 128" in states
        mtu = answer["mtu"]
        other = CLIENT if index == "server" else SERVER
        assert ipsec[index].pings(other, "-M", "do", "-s", str(mtu - 28))
        assert not ipsec[index].pings(other, "-M", "do", "-s", str(mtu - 27), tries=5)


@pytest.mark.kvm
@pytest.mark.parametrize("what", ["state", "policy"])
def test_flushed_states_and_policies_are_made_anew_in_seconds(ipsec: Service, what: str) -> None:
    ipsec["client"].out("ip", "xfrm", what, "flush")
    wait(lambda: ipsec["client"].pings(SERVER, tries=1), "the tunnel is back", seconds=30)


ENFORCE = """
profile=/etc/apparmor.d/usr.sbin.charon-systemd
sed -e 's/complain,//' -e 's/flags=(complain)//' $profile | apparmor_parser --replace
grep -c '^/usr/sbin/charon-systemd (enforce)' /sys/kernel/security/apparmor/profiles
"""


@pytest.mark.kvm
def test_apparmor_in_force_lets_the_daemon_do_its_work(ipsec: Service) -> None:
    """Debian's profile of charon only reports; here it is in force."""
    client, server = ipsec["client"], ipsec["server"]
    assert client.out("sh", "-ec", ENFORCE).strip() == "1"
    loaded = client.out("cat", "/sys/kernel/security/apparmor/profiles")
    assert "/usr/sbin/swanctl (enforce)" in loaded
    client.out("systemctl", "restart", "strongswan")
    pid = client.out("pidof", "charon-systemd").strip()
    assert "(enforce)" in client.out("cat", f"/proc/{pid}/attr/current")
    client.action("show-status", link="vpn-client")
    wait(lambda: client.pings(SERVER) and server.pings(CLIENT), "the tunnel is back")
    assert 'apparmor="DENIED"' not in client.out("journalctl", "--dmesg", "--no-pager")


@pytest.mark.kvm
def test_keys_of_esp_are_made_anew_after_their_time_and_their_volume(ipsec: Service) -> None:
    client = ipsec["client"]

    def spis() -> set[str]:
        return set(re.findall(r"spi (0x\w+)", client.out("ip", "xfrm", "state")))

    before = spis()
    client.action("measure-throughput", link="vpn-client", duration=10)
    wait(lambda: not before & spis(), "20 MB have passed, or a minute has")
    assert client.pings(SERVER)
    before = spis()
    wait(lambda: not before & spis(), "a minute has passed")
    assert client.pings(SERVER)
    assert len(associations(client)) == 1


@pytest.mark.kvm
def test_rotation_of_ipsec_loses_no_datagram(ipsec: Service) -> None:
    # At 1,000 a second an emulated processor has no time left for the receiver, nor for the charm.
    rotated(ipsec, 1000 if accelerator().real else 200)


@pytest.mark.kvm
def test_a_restart_keeps_the_xfrm_interface(ipsec: Service) -> None:
    """Debian's kernel would wait for ever in the deletion of one that has carried much traffic."""

    def listed(vnf: Vnf) -> list[dict[str, Any]]:
        words = ("ip", "-json", "link", "show", "type", "xfrm")
        return [row for row in json.loads(vnf.out(*words)) if row]

    for index, link in LINKS.items():
        (before,) = listed(ipsec[index])
        ipsec[index].action("restart", link=link)
        (after,) = listed(ipsec[index])
        assert after["ifindex"] == before["ifindex"]
        assert "UP" in after["flags"]
        wait(lambda: ipsec["client"].pings(SERVER), "the tunnel is back")
        assert "unregister_netdevice" not in ipsec[index].out("journalctl", "--dmesg", "--no-pager")


@pytest.fixture(scope="module")
def tagged(pair: Service) -> Service:
    """The service with a VLAN on the network between its VDUs, which has IPv6 only."""
    for number, vnf in enumerate(pair.vnfs.values(), start=11):
        vnf.out("modprobe", "8021q")
        vnf.out(
            "ip", "link", "add", "link", "ens4", "name", "ens4.100", "type", "vlan", "id", "100"
        )
        vnf.out("ip", "address", "add", f"fd00:100::{number}/64", "dev", "ens4.100", "nodad")
        vnf.out("ip", "link", "set", "ens4.100", "up")
    return pair


@pytest.mark.kvm
@pytest.mark.parametrize("technology", ["wireguard", "ipsec"])
def test_a_tagged_underlay_carries_a_tunnel_over_ipv6(
    tagged: Service, technology: str, tmp_path: Path
) -> None:
    configure_both(tagged, technology=technology, underlay_interface="ens4.100")
    client, server = tagged["client"], tagged["server"]
    wait(lambda: client.pings(SERVER) and server.pings(CLIENT), "the tunnel is up")
    shown = client.status("vpn-client")
    (peer,) = shown["peers"]
    assert (shown["state"], peer["endpoint"][:12]) == ("up", "[fd00:100::1")
    with captured(tagged, "data", tmp_path / "vlan.pcap") as capture:
        for _ in range(3):
            assert client.pings(SERVER, "-M", "do", "-s", str(shown["mtu"] - 28))
            assert client.pings(SERVER, "-s", "4000")
    assert capture.count("vlan 100 and ip6 and not icmp6") >= 12
    # No frame without the tag, and no outer packet in parts.
    assert capture.count(f"ether[12:2] != 0x8100 and not {NEIGHBOURS}") == 0
    assert capture.count("vlan 100 and ip6[6] = 44") == 0
