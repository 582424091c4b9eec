"""An EPC of processes in namespaces by the charms' own files: attach, packets, the wire."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scapy.contrib.diameter import DiamG
from scapy.contrib.gtp import GTP_U_Header
from scapy.contrib.gtp_v2 import GTPHeader
from scapy.contrib.pfcp import PFCP
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.sctp import SCTPChunkData
from scapy.utils import PcapReader
from town import Town, town

from simulators.epc import s1ap

pytestmark = pytest.mark.lab

SERVER = "10.132.12.1"


@pytest.fixture(scope="module")
def epc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    directory = tmp_path_factory.mktemp("epc")
    points = (
        ("mme", "wg-s6a"),
        ("mme", "wg-s11"),
        ("mme", "wg-s1c"),
        ("spgwc", "wg-sxab"),
        ("spgwu", "wg-s1u"),
    )
    with town(directory) as made, made.captured(*points):
        made.bring_up()
        made.until("the UE is attached", made.attached)
        yield made


def ping(epc: Town, count: int = 3) -> bool:
    return epc.ping(SERVER, count)


def test_packets_of_the_ue_reach_the_internet_and_its_answers_the_ue(epc: Town) -> None:
    assert ping(epc)
    for reverse in ([], ["--reverse"]):
        epc.transfer(SERVER, *reverse)


def frames(path: Path, most: int | None = None) -> list[Any]:
    with PcapReader(str(path)) as reader:
        return list(itertools.islice(reader, most))


def test_what_is_on_the_wire_is_what_other_decoders_know(epc: Town) -> None:
    time.sleep(0.5)  # tcpdump writes what it has
    s6a = [bytes(f[TCP].payload) for f in frames(epc.directory / "wg-s6a.pcap") if TCP in f]
    assert {DiamG(octets).drCode for octets in s6a if octets[:1] == b"\1"} >= {257, 318, 316}
    s11 = [bytes(f[UDP].payload) for f in frames(epc.directory / "wg-s11.pcap") if UDP in f]
    assert {GTPHeader(octets).gtp_type for octets in s11} >= {1, 2, 32, 33, 34, 35}
    sxab = [bytes(f[UDP].payload) for f in frames(epc.directory / "wg-sxab.pcap") if UDP in f]
    assert {PFCP(octets).message_type for octets in sxab} >= {1, 2, 5, 6, 50, 51, 52, 53}
    s1c = [f for f in frames(epc.directory / "wg-s1c.pcap") if SCTPChunkData in f]
    assert {f[IP].proto for f in s1c} == {132}
    assert {f[SCTPChunkData].proto_id for f in s1c} == {18}
    names = {s1ap.PROTOCOL.decode(bytes(f[SCTPChunkData].data)).name for f in s1c}
    assert names >= {"S1SetupRequest", "InitialUEMessage", "InitialContextSetupResponse"}
    s1u = [bytes(f[UDP].payload) for f in frames(epc.directory / "wg-s1u.pcap", 20) if UDP in f]
    inner = [GTP_U_Header(octets) for octets in s1u]
    assert any(ICMP in packet for packet in inner)
    # A session that has to be made again gets the next address of the pool.
    assert {packet[IP].src for packet in inner if IP in packet} == {epc.address(), SERVER}


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
def test_wireshark_finds_nothing_wrong(epc: Town) -> None:
    time.sleep(0.5)
    for name in ("wg-s6a", "wg-s11", "wg-s1c", "wg-sxab"):
        done = subprocess.run(
            ["tshark", "-r", str(epc.directory / f"{name}.pcap"), "-Y", "_ws.malformed"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "", name


@pytest.mark.long
def test_a_restarted_user_plane_carries_packets_again(epc: Town) -> None:
    epc.stop("spgwu")
    assert not ping(epc, 1)
    time.sleep(1)
    epc.start("spgwu")
    epc.until("packets flow again", lambda: ping(epc, 1))
    assert epc.attached(), "the UE did not have to attach again"


@pytest.mark.long
def test_no_hss_no_attach_and_a_slow_database_only_delays(epc: Town) -> None:
    epc.stop("ue")
    epc.stop("hss")
    epc.start("ue")
    epc.until("the attach is refused", lambda: "Network failure" in epc.log("ue"))
    epc.stop("cassandra")
    epc.start("cassandra", SIMULATORS_CASSANDRA_DELAY="0.5")
    time.sleep(1)
    epc.start("hss")
    epc.until("the UE is attached", epc.attached)
    epc.until("packets flow", lambda: ping(epc, 1))
