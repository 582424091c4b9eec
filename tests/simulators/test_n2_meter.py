"""The meter of N2 on NGAP messages that pycrate encodes."""

from __future__ import annotations

import struct

import pytest

from experiments.vdu import signalling_meter
from simulators.core5g import ngap

AMF, GNB = bytes([172, 16, 20, 10]), bytes([172, 16, 20, 40])
UE = 70000


def packet(up: bool, messages: list[bytes], tsn: int, flags: int = 3) -> bytes:
    """Return an IPv4 packet with SCTP that carries NGAP, one chunk of DATA a message."""
    chunks = b""
    for number, data in enumerate(messages):
        size = 16 + len(data)
        head = struct.pack("!BBHIHHI", 0, flags, size, tsn + number, 1, 0, 60)
        chunks += head + data + bytes(-size % 4)
    ports, tag = ((50000, 38412), 1) if up else ((38412, 50000), 2)
    # A SACK goes before them, as it does when a message answers another one.
    sctp = struct.pack("!HHII", *ports, tag, 0) + struct.pack("!BBHIIHH", 3, 0, 16, 0, 0, 0, 0)
    source, target = (GNB, AMF) if up else (AMF, GNB)
    size = 20 + len(sctp) + len(chunks)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, size, 0, 0, 64, 132, 0, source, target)
    return ip + sctp + chunks


def ngap_message(name: str, ue: int = UE, **values: object) -> bytes:
    both = {"AMF-UE-NGAP-ID": 3, "RAN-UE-NGAP-ID": ue}
    if name == "InitialUEMessage":
        del both["AMF-UE-NGAP-ID"]
    return ngap.PROTOCOL.encode(name, {**both, **values})


NAS = {"NAS-PDU": b"\x7e" * 300}  # Its length takes two octets.


@pytest.fixture
def meter() -> signalling_meter.N2:
    return signalling_meter.N2()


def test_a_registration_and_a_session_are_timed(meter: signalling_meter.N2) -> None:
    rounds = [
        (True, ngap_message("InitialUEMessage", **NAS), 1.0),
        (False, ngap_message("DownlinkNASTransport", **NAS), 1.01),
        (True, ngap_message("UplinkNASTransport", **NAS), 1.02),
        (False, ngap_message("InitialContextSetupRequest"), 1.05),
        (True, ngap_message("InitialContextSetupResponse"), 1.06),
        (True, ngap_message("UplinkNASTransport", **NAS), 1.07),
        (True, ngap_message("UplinkNASTransport", **NAS), 1.10),
        (False, ngap_message("PDUSessionResourceSetupRequest"), 1.14),
        (True, ngap_message("PDUSessionResourceSetupResponse"), 1.15),
    ]
    for number, (up, message, now) in enumerate(rounds):
        meter.packet(packet(up, [message], 10 * number), now)
    result = meter.summary()
    assert {name: one["count"] for name, one in result.items()} == dict.fromkeys(result, 1)
    means = {name: one["mean-ms"] for name, one in result.items()}
    assert means == {
        "registration": pytest.approx(50),
        "context-setup": pytest.approx(10),
        "session": pytest.approx(40),
        "session-setup": pytest.approx(10),
    }
    assert meter.answered() == 1


def test_ues_are_told_apart_and_what_is_sent_again_counts_once(meter: signalling_meter.N2) -> None:
    first = packet(True, [ngap_message("InitialUEMessage", ue, **NAS) for ue in (1, 2)], 1)
    meter.packet(first, 1.0)
    meter.packet(first, 1.5)  # SCTP sends it again.
    meter.packet(packet(False, [ngap_message("InitialContextSetupRequest", 2)], 1), 2.0)
    meter.packet(packet(False, [ngap_message("InitialContextSetupRequest", 3)], 2), 2.1)
    result = meter.summary()["registration"]
    assert (result["count"], result["mean-ms"]) == (1, 1000.0)
    # One is still open.
    meter.packet(packet(False, [ngap_message("InitialContextSetupRequest", 1)], 3), 3.0)
    assert meter.summary()["registration"]["max-ms"] == 2000.0


def test_a_clock_that_is_set_back_gives_no_time(meter: signalling_meter.N2) -> None:
    meter.packet(packet(True, [ngap_message("InitialUEMessage", **NAS)], 1), 10.0)
    meter.packet(packet(False, [ngap_message("InitialContextSetupRequest")], 1), 9.0)
    result = meter.summary()
    assert (result["registration"]["count"], result["clock-set-back"]) == (0, 1)


def test_the_first_part_of_a_long_message_is_enough(meter: signalling_meter.N2) -> None:
    whole = ngap_message("InitialUEMessage", **NAS)
    meter.packet(packet(True, [whole[:100]], 1, flags=2), 1.0)
    meter.packet(packet(True, [whole[100:]], 2, flags=1), 1.0)
    meter.packet(packet(False, [ngap_message("InitialContextSetupRequest")], 1), 1.2)
    assert meter.summary()["registration"]["count"] == 1


@pytest.mark.parametrize("size", range(0, 120, 7))
def test_what_is_cut_off_is_left_out(meter: signalling_meter.N2, size: int) -> None:
    whole = packet(True, [ngap_message("InitialUEMessage", **NAS)], 1)
    meter.packet(whole[:size], 1.0)
    meter.packet(b"\x45" + bytes(8) + b"\x84" + bytes(size), 1.0)
    meter.message(b"gnb", whole[-size:], 1.0)
    assert all(one["count"] == 0 for one in meter.summary().values())
