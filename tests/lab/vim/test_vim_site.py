"""Sites: routers, floating addresses, and the wire between them.

Two sites have the same private range; instead of servers there are bare network namespaces.
"""

import os
import re
import shutil
import signal
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.waiting import wait_until

from lab.errors import VimError
from lab.vim import cgroups
from lab.vim.account import Vim, clean
from lab.vim.fabric import NETNS, enter, netns_names
from lab.vim.model import Network
from lab.vim.site import nat_rules
from lab.vim.store import Home
from lab.vim.wire import HEADER, Direction, size_on_wire


def frame(size: int, kind: int = 0, header: int = 0, segment: int = 0) -> bytes:
    return struct.pack("=BBHHHH", 0, kind, header, segment, 0, 0) + bytes(size)


def test_a_burst_counts_its_headers_once_a_segment() -> None:
    assert size_on_wire(frame(1500)) == 1500
    # 40 bytes of headers and three segments of 1460, 1460 and 80 bytes.
    assert size_on_wire(frame(3040, kind=1, header=40, segment=1460)) == 3040 + 2 * 40


class Clock:
    """Time and file descriptors of a wire, by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.arriving: list[bytes] = []
        self.left: list[tuple[float, int]] = []
        monkeypatch.setattr("lab.vim.wire.time.monotonic", lambda: self.now)
        monkeypatch.setattr("lab.vim.wire.os.read", self._read)
        monkeypatch.setattr("lab.vim.wire.os.write", self._write)

    def _read(self, handle: int, size: int) -> bytes:
        if not self.arriving:
            raise BlockingIOError
        return self.arriving.pop(0)

    def _write(self, handle: int, data: bytes) -> int:
        self.left.append((round(self.now - 100.0, 6), len(data) - HEADER))
        return len(data)


def test_packets_leave_one_after_the_other_at_the_rate_and_after_the_delay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    way = Direction(3, 4, rate=125_000, delay=0.010, limit=1.0)  # 1 Mbit/s
    clock.arriving = [frame(125), frame(125)]
    way.take()
    for _ in range(130):
        way.give(clock.now)
        clock.now = round(clock.now + 0.0001, 7)
    assert [size for _, size in clock.left] == [125, 125]
    assert [at for at, _ in clock.left] == pytest.approx([0.011, 0.012], abs=2e-4)


def test_what_would_wait_too_long_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    way = Direction(3, 4, rate=125_000, delay=0.0, limit=0.010)
    clock.arriving = [frame(125) for _ in range(50)]  # a millisecond each
    way.take()
    assert len(way.waiting) in (10, 11)


def test_rules_translate_both_ways() -> None:
    network = Network("i", "n", "", "10.2.0.0/24", "10.2.0.1", 1500, False, "b", True, True)
    text = nat_rules("192.0.2.1", {"10.2.0.9": "192.0.2.9"}, [network.subnet])
    assert "dnat to ip daddr map { 192.0.2.9 : 10.2.0.9 }" in text
    assert "snat to ip saddr map { 10.2.0.9 : 192.0.2.9 }" in text
    assert "ip saddr { 10.2.0.0/24 } snat to 192.0.2.1" in text


A = {
    "external_subnet": "198.51.100.0/24",
    "uplink": {"rate_mbit": 50, "rtt_ms": 10},
    "networks": [
        {"name": "inside", "subnet": "10.9.0.0/24", "floating": {"10.9.0.5": "198.51.100.5"}},
        {"name": "routed", "subnet": "10.8.1.0/24", "nat": False},
    ],
}
B = {
    "external_subnet": "203.0.113.0/24",
    "uplink": {"rate_mbit": 50, "rtt_ms": 10},
    "networks": [
        {"name": "inside", "subnet": "10.9.0.0/24", "floating": {"10.9.0.5": "203.0.113.5"}},
        {"name": "routed", "subnet": "10.8.2.0/24", "nat": False},
    ],
}


@pytest.fixture(scope="module")
def home(lab_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("sites")
    yield home
    clean(home)
    assert netns_names(Home.at(home).prefix) == []


@pytest.fixture(scope="module")
def sites(home: Path) -> dict[str, Vim]:
    return {"a": Vim.create(home, "a", A), "b": Vim.create(home, "b", B)}


@pytest.fixture(scope="module")
def hosts(home: Path, sites: dict[str, Vim]) -> dict[tuple[str, str], list[str]]:
    """Words to run a command on a host: by site and network."""
    prefix = Home.at(home).prefix
    found = {}
    for name, vim in sites.items():
        for number, network in enumerate(n for n in vim.networks() if n.routed):
            host = f"{prefix}-h{name}{number}"
            address = network.subnet.replace(".0/24", ".5/24")
            subprocess.run(["ip", "netns", "add", host], check=True)
            script = (
                f"ip -n {vim.fabric} link add h{number} mtu {network.mtu} type veth"
                f" peer name e mtu {network.mtu} netns {host}\n"
                f"ip -n {vim.fabric} link set h{number} master {network.bridge} up\n"
                f"ip -n {host} link set e up\nip -n {host} address add {address} dev e\n"
                f"ip -n {host} route add default via {network.gateway}\n"
            )
            subprocess.run(["sh", "-ec", script], check=True)
            found[name, network.name] = enter(host)
    return found


def ping(words: list[str], address: str, count: int = 1) -> str:
    argv = [*words, "ping", "-n", "-q", "-c", str(count), "-i", "0.05", "-W", "1", address]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


@pytest.mark.lab
def test_floating_addresses_lead_to_equal_private_ones(hosts: Any) -> None:
    for words, address in ((hosts["a", "inside"], "203.0.113.5"),):
        said = ping(words, address, 10)
        assert " 0% packet loss" in said
        average = float(re.search(r"= [\d.]+/([\d.]+)/", said)[1])  # type: ignore[index]
        # Never less than the two uplinks add; more by what the machine is busy with.
        assert average >= 20.0
    assert " 0% packet loss" in ping(hosts["b", "inside"], "198.51.100.5")


@pytest.mark.lab
def test_ranges_without_translation_are_routed(hosts: Any) -> None:
    assert " 0% packet loss" in ping(hosts["a", "routed"], "10.8.2.5")


@pytest.mark.lab
def test_private_ranges_and_neighbours_are_out_of_reach(hosts: Any) -> None:
    # 10.9.0.5 at site a is the host itself, so the question is asked from a routed network.
    assert " 100% packet loss" in ping(hosts["a", "routed"], "10.9.0.5")
    assert " 100% packet loss" in ping(hosts["b", "inside"], "10.8.2.5")


@pytest.mark.lab
def test_the_rate_is_that_of_the_uplink(hosts: Any) -> None:
    if shutil.which("iperf3") is None:
        pytest.fail("iperf3 is missing")
    server = subprocess.Popen(
        [*hosts["b", "routed"], "iperf3", "-s", "-1", "--forceflush"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        while "listening" not in server.stdout.readline():
            pass
        argv = [*hosts["a", "routed"], "iperf3", "-c", "10.8.2.5", "-t", "3", "-f", "m"]
        said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    finally:
        server.wait(120)
    (line,) = [row for row in said.splitlines() if row.endswith("receiver")]
    rate = float(re.search(r"([\d.]+) Mbits/sec", line)[1])  # type: ignore[index]
    assert 1 < rate < 50


@pytest.mark.lab
def test_a_capture_of_the_uplink_shows_translated_addresses(
    sites: dict[str, Vim], hosts: Any, tmp_path: Path
) -> None:
    file = tmp_path / "uplink.pcap"
    with sites["a"].capture_uplink(file):
        ping(hosts["a", "inside"], "203.0.113.5", 2)
    argv = ["tcpdump", "-n", "-r", str(file), "icmp"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert "198.51.100.5 > 203.0.113.5" in done
    assert "10.9.0" not in done


@pytest.mark.lab
@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"use_floating_ip": True}, "need the range of its external network"),
        ({**A, "networks": []}, "198.51.100.0/24 overlaps 198.51.100.0/24 of VIM 'a'"),
        (
            {
                "external_subnet": "192.0.2.0/24",
                "networks": [{"name": "n", "subnet": "10.8.1.0/24", "nat": False}],
            },
            "10.8.1.0/24 overlaps 10.8.1.0/24 of VIM 'a'",
        ),
        (
            {
                "external_subnet": "192.0.2.0/24",
                "networks": [
                    {"name": "n", "subnet": "10.1.0.0/24"},
                    {"name": "m", "subnet": "10.1.0.0/25"},
                ],
            },
            "10.1.0.0/25 of network 'm' overlaps 10.1.0.0/24",
        ),
        (
            {
                "external_subnet": "192.0.2.0/24",
                "networks": [
                    {
                        "name": "n",
                        "subnet": "10.1.0.0/24",
                        "floating": {"10.1.0.2": "192.0.2.1"},
                    }
                ],
            },
            "192.0.2.1 already allocated",
        ),
        ({"uplink": {"rate_mbit": -1}}, "uplink.rate_mbit"),
    ],
)
def test_sites_that_cannot_be_are_refused(
    home: Path, sites: dict[str, Vim], config: dict[str, Any], words: str
) -> None:
    with pytest.raises(VimError, match=re.escape(words)):
        Vim.create(home, "c", config)
    assert Vim.names(home) == ["a", "b"]


@pytest.mark.lab
def test_a_site_is_made_again_after_a_restart(
    home: Path, sites: dict[str, Vim], hosts: Any
) -> None:
    """Its namespaces are lost, the records are there."""
    for name in netns_names(Home.at(home).prefix):
        if "-h" not in name:
            subprocess.run(["ip", "netns", "delete", name], check=True)
    for name in sites:
        Vim.open(home, name)
    for vim in sites.values():
        argv = [*enter(vim.site.router), "ping", "-n", "-q", "-c", "1", "-W", "2"]
        other = "203.0.113.1" if vim.name == "a" else "198.51.100.1"
        assert subprocess.run([*argv, other], capture_output=True, check=False).returncode == 0


@pytest.mark.lab
def test_a_wire_that_has_ended_is_made_again_and_nothing_else(
    home: Path, sites: dict[str, Vim]
) -> None:
    vim = sites["a"]
    before = (NETNS / vim.fabric).stat().st_ino
    for pid in cgroups.pids(vim.site.group):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not cgroups.pids(vim.site.group), "the wire ends")
    assert " 0% packet loss" not in ping(enter(vim.site.router), "203.0.113.1")
    Vim.open(home, "a")
    assert " 0% packet loss" in ping(enter(vim.site.router), "203.0.113.1")
    assert (NETNS / vim.fabric).stat().st_ino == before
