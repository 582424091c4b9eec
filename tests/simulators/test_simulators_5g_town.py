"""A 5G core of processes in namespaces by the charms' files: PDU sessions, packets, the wire."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from scapy.contrib.gtp import GTP_U_Header
from scapy.layers.inet import UDP
from scapy.layers.sctp import SCTPChunkData
from scapy.utils import PcapReader
from town import town
from town_5g import Core, frames
from vpnaas.vdu.programs import source

from simulators.core5g import nas, ngap

pytestmark = [pytest.mark.lab, pytest.mark.long]

SERVER = "10.132.12.1"
QFI = 6


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Core]:
    points = (("amf", "wg-n2"), ("amf", "wg-sbi"), ("smf", "wg-n4"), ("upf", "wg-n3"))
    with town(tmp_path_factory.mktemp("core"), Core) as made, made.captured(*points):
        assert isinstance(made, Core)
        made.bring_up()
        made.until("the UE has a PDU session", made.attached)
        yield made


def packets(path: Path, layer: Any, count: int | None = None) -> list[Any]:
    time.sleep(0.5)  # tcpdump writes what it has
    with PcapReader(str(path)) as reader:
        return list(islice((one for one in reader if layer in one), count))


def test_packets_pass_in_both_directions_in_the_session_s_qos_flow(core: Core) -> None:
    core.until("packets flow", lambda: core.ping(SERVER, 1))
    assert core.ping(SERVER)
    core.transfer(SERVER)
    seen = set()
    for frame in packets(core.directory / "wg-n3.pcap", UDP, 40):
        packet = GTP_U_Header(bytes(frame[UDP].payload))
        extension = packet.payload
        seen.add((extension.type, extension.QFI))
    assert seen == {(0, QFI), (1, QFI)}, "downlink and uplink"


def test_functions_log_what_operators_read(core: Core) -> None:
    core.until("the table has the UE", lambda: "5GMM-REGISTERED" in core.log("amf"))
    table = core.log("amf").rpartition("gNBs' Information")[2]
    assert "|             Connected              |               0x0E00               |" in table
    assert "242881234500000" in table
    assert f"PAA IPv4:\t\t{core.address()}" in core.log("smf")
    assert "sst, sd: 1, 000001" in core.log("smf")
    assert "Received NGSetupResponse from AMF" in core.log("gnb")


def test_a_restarted_user_plane_carries_packets_again(core: Core) -> None:
    core.stop("upf")
    assert not core.ping(SERVER, 1)
    time.sleep(1)
    core.start("upf")
    core.until("packets flow again", lambda: core.ping(SERVER, 1))
    assert core.log("amf").count("is registered") == 1, "the UE did not have to register again"


def test_the_meter_of_n2_tells_the_times_of_the_packets(core: Core) -> None:
    core.stop("nr-ue")
    core.until("the AMF knows", lambda: "deregisters" in core.log("amf"))
    words = (sys.executable, "-I", "-c", source("signalling_meter.py", "experiments.vdu"))
    request = {"link": "n2", "interface": "wg-n2", "seconds": 120, "count": 1, "idle": 0}
    with subprocess.Popen(
        ["ip", "netns", "exec", core.netns("amf"), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as meter:
        assert meter.stdin and meter.stdout and meter.stderr
        meter.stdin.write(json.dumps(request))
        meter.stdin.close()
        assert meter.stderr.readline() == "listening\n"
        core.start("nr-ue")
        result = json.loads(meter.stdout.read())
    seen = [
        (ngap.PROTOCOL.decode(bytes(frame[SCTPChunkData].data)).name, float(frame.time))
        for frame in packets(core.directory / "wg-n2.pcap", SCTPChunkData)
    ]
    last = dict(seen)  # Of the last registration in the capture.
    for name, first, final in (
        ("registration", "InitialUEMessage", "InitialContextSetupRequest"),
        ("context-setup", "InitialContextSetupRequest", "InitialContextSetupResponse"),
        ("session-setup", "PDUSessionResourceSetupRequest", "PDUSessionResourceSetupResponse"),
    ):
        assert result[name]["count"] == 1, name
        milliseconds = (last[final] - last[first]) * 1000
        assert result[name]["mean-ms"] == pytest.approx(milliseconds, abs=5), name
    assert result["session"]["count"] == 1
    assert result["packets-lost-by-the-meter"] == 0
    core.until("packets flow", lambda: core.ping(SERVER, 1))


def test_a_ue_that_goes_leaves_nothing(core: Core) -> None:
    core.stop("nr-ue")
    core.until("the AMF knows", lambda: "deregisters" in core.log("amf"))
    last = core.log("smf").rpartition("SMF CONTEXT:")[2]
    assert "imsi-242881234500000" in last
    assert "PDU SESSION" not in last


def test_other_decoders_find_nothing_wrong(core: Core) -> None:
    """Last: the captures have registration, session, packets, restart and release."""
    kinds = set()
    for frame in packets(core.directory / "wg-n2.pcap", SCTPChunkData):
        assert frame[SCTPChunkData].proto_id == ngap.PROTOCOL.ppid
        message = ngap.PROTOCOL.decode(bytes(frame[SCTPChunkData].data))
        kinds.add(message.name)
        pdu = message.values.get("NAS-PDU")
        if pdu is not None:
            kinds.add(nas.decode(nas.inner(pdu)).name)  # NEA0
    assert kinds >= {
        "NGSetupRequest",
        "InitialUEMessage",
        "InitialContextSetupResponse",
        "PDUSessionResourceSetupResponse",
        "UEContextReleaseComplete",
        "RegistrationRequest",
        "AuthenticationResponse",
        "SecurityModeComplete",
        "RegistrationAccept",
        "RegistrationComplete",
        "ULNASTransport",
        "MODeregistrationRequest",
    }
    plain = ("-o", "nas-5gs.null_decipher:TRUE")
    for name in ("wg-n2", "wg-n4", "wg-n3"):
        wrong = frames(core.directory / f"{name}.pcap", *plain, "-Y", "_ws.malformed")
        assert wrong == [], name
    http = ("-d", "tcp.port==8080-8082,http2")
    assert frames(core.directory / "wg-sbi.pcap", *http, "-Y", "_ws.malformed") == []
    asked = frames(
        core.directory / "wg-sbi.pcap", *http, "-Y", "http2.headers.path", "-T", "fields",
        *("-e", "http2.headers.method", "-e", "http2.headers.path"),
    )  # fmt: skip
    paths = {line.split("?")[0].partition("\t")[2] for line in asked}
    assert "/nsmf-pdusession/v1/sm-contexts" in paths
    assert "/namf-comm/v1/ue-contexts/imsi-242881234500000/n1-n2-messages" in paths
    assert "/nudm-sdm/v2/imsi-242881234500000/sm-data" in paths
