"""Our IPsec configuration on a kernel's own ESP: strongSwan's kernel-netlink in a virtual machine.

Two namespaces of it are the two VDUs; files are what the charm's pure core renders.
"""

from __future__ import annotations

import re

import pytest
from support.ends import Guest, Link
from support.filters import NEIGHBOURS
from support.guest import GuestMachine
from vpnaas.tunnels.ipsec.observed import parse_sas
from vpnaas.vdu.steps import Results

pytestmark = [pytest.mark.lab, pytest.mark.schedule(order=2, worker="alone")]

#: What a ping carries (its option -p), to be found on the wire or not.
MARKER = b"esp-in-the-kerne"
S6A, S11 = "172.16.6.1", "172.16.7.1"
ESN = "esn=yes,replay-window=256"
LINKS = (
    Link("s6a", {"left": f"{S6A}/24", "right": "172.16.6.2/24"}, {"ipsec-options": ESN}, {}),
    # Opened by the first packet, ESP in UDP though no NAT is there. The left end copies the DSCP of
    # the outer header inwards too.
    Link(
        "s11",
        {"left": f"{S11}/24", "right": "172.16.7.2/24"},
        {},
        {
            "left": {"ipsec-options": ESN + ",copy-dscp=yes"},
            "right": {"ipsec-options": "esn=yes,start=trap,encap=yes"},
        },
    ),
)


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory, guest_machine: GuestMachine) -> Guest:
    outer = {"left": "192.168.8.1", "right": "192.168.8.2"}
    made = Guest(tmp_path_factory.mktemp("ends"), outer, LINKS, guest_machine)
    made.prepare()
    return made


@pytest.fixture(scope="module")
def shown(guest: Guest) -> dict[str, str]:
    name = guest.connection("s6a")
    marked = f"ping -n -p {MARKER.hex()}"
    steps = [
        ("plugins", "swanctl --stats --raw", True),
        ("initiate", f"swanctl --initiate --ike {name} --child s6a --timeout 60", False),
        ("ping", f"{marked} -c 20 -Q 0xb8 -i 0.05 {S6A}", False),
        ("sas", "swanctl --list-sas --raw", True),
        ("states", "ip -s xfrm state", True),
        ("rekey", "swanctl --rekey --child s6a", True),
        ("rekeying", "sleep 2", True),
        ("after", f"ping -n -q -c 5 {S6A}", False),
        ("rekeyed", "swanctl --list-sas --raw", True),
        ("terminate", f"swanctl --terminate --ike {name}", False),
        ("down", f"{marked} -q -c 2 -W 1 -i 0.2 {S6A}", False),
        ("trapped", f"ping -n -q -c 5 -W 5 -Q 0xb8 {S11}", False),
        ("in-udp", "swanctl --list-sas --raw", True),
    ]
    # A router on the way marks the outer headers of one end, and of one tunnel only.
    inwards = [
        ("marked", "right", table("postrouting", "udp dport 4500 ip dscp set af41"), True),
        ("counted", "left", table("input", "icmp type echo-request ip dscp af41 counter"), True),
        ("inwards", "right", f"ping -n -q -c 5 -i 0.2 {S11}", False),
        ("seen", "left", "nft list table ip test", True),
    ]
    there = [(label, "right", command, must) for label, command, must in steps]
    return guest.run({}, [*there, *inwards])


def table(hook: str, rule: str) -> str:
    """Return the command that adds a table of nftables with one rule."""
    chain = f"{{ type filter hook {hook} priority 0; {rule}; }}"
    return f"sh -c \"echo 'table ip test {{ chain c {chain}; }}' | nft -f -\""


def test_the_kernel_carries_the_packets(shown: dict[str, str]) -> None:
    assert "kernel-netlink" in shown["plugins"]
    assert "kernel-libipsec" not in shown["plugins"]
    assert "20 received" in shown["ping"], shown["initiate"] + shown["ping"]


def test_states_have_extended_sequence_numbers_and_the_window(shown: dict[str, str]) -> None:
    states = shown["states"]
    assert len(re.findall(r"^src ", states, re.M)) == 2
    keys = re.findall(r"aead rfc4106\(gcm\(aes\)\) 0x([0-9a-f]+) .* 128", states)
    assert [len(key) for key in keys] == [72, 72]  # 256 bits and a salt of 32, RFC 4106
    assert states.count("esn") >= 2
    assert set(re.findall(r"replay_window (\d+),", states)) >= {"256"}, states
    (sa,) = parse_sas("s6a", _results(shown["sas"]))
    (child,) = sa.children
    assert (child.cipher, child.esn, child.encap) == ("AES_GCM_16-256", True, False)
    assert child.sent > 0


def test_a_child_is_rekeyed_without_loss(shown: dict[str, str]) -> None:
    (before,) = parse_sas("s6a", _results(shown["sas"]))
    (after,) = parse_sas("s6a", _results(shown["rekeyed"]))
    assert "5 received" in shown["after"]
    assert after.id == before.id
    assert after.up


def test_only_ike_and_esp_were_on_the_wire_even_without_a_tunnel(
    guest: Guest, shown: dict[str, str]
) -> None:
    assert "0 received" in shown["down"]
    assert guest.count("ip proto 50") >= 40
    assert guest.count("udp port 4500 and udp[8:4] != 0") >= 8  # not IKE's marker, RFC 3948
    assert guest.count("udp port 4500") >= 4
    assert guest.count(f"not ip proto 50 and not udp port 4500 and not {NEIGHBOURS}") == 0
    assert MARKER not in (guest.folder / "pcap").read_bytes()


def test_the_first_packet_opens_a_trapped_tunnel_and_esp_can_be_forced_into_udp(
    shown: dict[str, str],
) -> None:
    # The packet that opens it is lost.
    assert re.search(r" [45] received", shown["trapped"]), shown["trapped"]
    (sa,) = parse_sas("s11", _results(shown["in-udp"]))
    (child,) = sa.children
    assert (child.esn, child.encap) == (True, True)


def test_the_outer_header_has_the_dscp_of_the_inner_one(
    guest: Guest, shown: dict[str, str]
) -> None:
    assert shown["ping"]
    for kind in ("ip proto 50", "udp port 4500"):
        assert guest.count(f"{kind} and ip[1] & 0xfc = 0xb8") >= 8


def test_the_inner_header_gets_the_dscp_of_the_outer_one_where_it_is_to(
    shown: dict[str, str],
) -> None:
    assert re.search(r" [45] received", shown["inwards"]), shown["inwards"]
    (count,) = re.findall(r"counter packets (\d+)", shown["seen"])
    assert int(count) >= 4


def _results(text: str) -> Results:
    return Results({"ipsec/sas": {"code": 0, "out": text}})
