"""The S6a meter on packets made by hand, and what cqlsh and the MME's log say."""

from __future__ import annotations

import random
import struct

import pytest
from oai import cql, logs
from support.functions import SUCCESS, avp, message
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.vdu.steps import Results

from experiments.vdu import signalling as meters
from experiments.vdu import signalling_meter

MME, HSS = bytes([172, 16, 6, 2]), bytes([172, 16, 6, 129])


def packet(
    source: bytes,
    target: bytes,
    ports: tuple[int, int],
    sequence: int,
    data: bytes,
    flags: int = 0x18,
) -> bytes:
    tcp = struct.pack("!HHIIBBHHH", *ports, sequence, 0, 5 << 4, flags, 1000, 0, 0) + data
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0, source, target)
    return ip + tcp


class Wire:
    """Both directions of one connection."""

    def __init__(self) -> None:
        self.meter = signalling_meter.S6a()
        self.place = {MME: 1000, HSS: 0xFFFFFFF0}  # one wraps around

    def send(self, source: bytes, data: bytes, now: float) -> None:
        ports = (40000, 3868) if source == MME else (3868, 40000)
        target = HSS if source == MME else MME
        self.meter.packet(packet(source, target, ports, self.place[source], data), now)
        self.place[source] = (self.place[source] + len(data)) & 0xFFFFFFFF


def test_requests_and_answers_are_paired_by_their_identifier() -> None:
    wire = Wire()
    wire.send(MME, message(318, 1, True) + message(318, 2, True), 10.0)
    wire.send(HSS, message(318, 2, False, SUCCESS), 10.005)
    wire.send(HSS, message(318, 1, False, SUCCESS), 10.010)
    wire.send(MME, message(316, 3, True), 11.0)
    unknown = avp(297, avp(266, b"\0\0\x28\xaf") + avp(298, struct.pack("!I", 5001)))
    wire.send(HSS, message(316, 3, False, unknown), 11.002)
    wire.send(MME, message(316, 4, True), 12.0)
    wire.send(MME, message(280, 9, True), 12.0)  # a watchdog is nobody's registration
    result = wire.meter.summary()
    assert result["AIR"]["count"] == 2
    assert (result["AIR"]["min-ms"], result["AIR"]["max-ms"]) == (5.0, 10.0)
    assert result["AIR"]["results"] == {"2001": 2}
    assert (result["ULR"]["count"], result["ULR"]["unanswered"]) == (1, 1)
    assert result["ULR"]["results"] == {"5001": 1}


def test_messages_cut_anywhere_and_segments_out_of_order_are_put_together() -> None:
    wire = Wire()
    wire.send(MME, message(318, 1, True), 1.0)
    answer = message(318, 1, False, avp(1, bytes(range(200))), SUCCESS)
    parts = [answer[:7], answer[7:30], answer[30:100], answer[100:]]
    # The first segment starts the stream; the others may come in any order.
    wire.send(HSS, message(280, 5, False, SUCCESS), 1.0)
    start = wire.place[HSS]
    offsets = [(start + sum(map(len, parts[:i]))) & 0xFFFFFFFF for i in range(len(parts))]
    order = list(range(len(parts)))
    random.Random(7).shuffle(order)  # noqa: S311
    for index in order:
        segment = packet(HSS, MME, (3868, 40000), offsets[index], parts[index])
        wire.meter.packet(segment, 1.5)
        wire.meter.packet(segment, 1.6)  # and twice
    assert wire.meter.summary()["AIR"]["count"] == 1
    assert wire.meter.summary()["AIR"]["results"] == {"2001": 1}


def test_an_identifier_belongs_to_its_connection() -> None:
    meter, air = signalling_meter.S6a(), message(318, 7, True)
    for port, at in ((40000, 1.0), (40001, 2.0)):
        meter.packet(packet(MME, HSS, (port, 3868), 5, air), at)
    answer = message(318, 7, False, SUCCESS)
    meter.packet(packet(HSS, MME, (3868, 40001), 9, answer), 2.004)
    result = meter.summary()["AIR"]
    assert (result["count"], result["max-ms"], result["unanswered"]) == (1, 4.0, 1)
    # The answer to another command is none, though it has the number.
    meter.packet(packet(HSS, MME, (3868, 40000), 9, message(316, 7, False, SUCCESS)), 3.0)
    assert meter.answered() == 1


def test_a_request_sent_again_over_a_new_connection_counts_from_its_first_time() -> None:
    meter = signalling_meter.S6a()
    meter.packet(packet(MME, HSS, (40000, 3868), 5, message(316, 7, True, end=99)), 1.0)
    again = message(316, 1, True, end=99, again=True)
    meter.packet(packet(MME, HSS, (40001, 3868), 5, again), 1.5)
    answer = message(316, 1, False, SUCCESS, end=99)
    meter.packet(packet(HSS, MME, (3868, 40001), 9, answer), 1.75)
    result = meter.summary()["ULR"]
    assert (result["count"], result["min-ms"], result["unanswered"]) == (1, 750.0, 0)


def test_a_connection_with_the_ports_of_an_older_one_is_another_one() -> None:
    wire = Wire()
    wire.send(MME, message(318, 1, True), 1.0)
    wire.place[MME] = 77
    wire.meter.packet(packet(MME, HSS, (40000, 3868), 76, b"", flags=0x02), 2.0)
    wire.send(MME, message(318, 2, True), 2.0)
    wire.send(HSS, message(318, 2, False, SUCCESS), 2.003)
    assert wire.meter.summary()["AIR"]["min-ms"] == 3.0


def test_segments_that_overlap_are_read_once() -> None:
    wire = Wire()
    first, second = message(318, 1, True), message(318, 2, True)
    start = wire.place[MME]
    wire.send(MME, first, 1.0)
    # The first is sent again with the second behind it, more often than anything is kept.
    for _ in range(200):
        wire.meter.packet(packet(MME, HSS, (40000, 3868), start, first + second), 2.0)
    for hop in (1, 2):
        wire.send(HSS, message(318, hop, False, SUCCESS), 2.5)
    result = wire.meter.summary()["AIR"]
    assert (result["count"], result["min-ms"], result["max-ms"]) == (2, 500.0, 1500.0)


def test_a_clock_that_is_set_back_gives_no_time() -> None:
    wire = Wire()
    wire.send(MME, message(318, 1, True), 10.0)
    wire.send(HSS, message(318, 1, False, SUCCESS), 9.0)
    result = wire.meter.summary()
    assert (result["AIR"]["count"], result["clock-set-back"]) == (0, 1)


def test_other_packets_are_nothing() -> None:
    meter = signalling_meter.S6a()
    generator = random.Random(1)  # noqa: S311
    for size in range(0, 200, 7):
        meter.packet(bytes(generator.randrange(256) for _ in range(size)), 1.0)
        meter.packet(packet(MME, HSS, (1, 3868), size, bytes([1] * size)), 1.0)
    assert meter.answered() == 0


def test_a_measurement_without_registrations_is_a_sentence() -> None:
    empty = '{"AIR": {"count": 0}, "ULR": {"count": 0}}'
    with pytest.raises(VpnaasError, match="no UE registered"):
        meters.answer("s6a", Results({"meter": {"code": 0, "out": empty}}))
    error = {"code": 1, "out": "", "err": "Traceback\nOSError: No such device"}
    with pytest.raises(VpnaasError, match="the VDU has no such interface"):
        meters.answer("s6a", Results({"meter": error}))


# -- what programs print -------------------------------------------------------------------------

ROWS = """
 imsi            | msisdn         | mmehost
-----------------+----------------+---------
 242881234500001 | 24288880000001 | mme.x
 242881234500000 | 24288880000000 | null

(2 rows)
"""


def test_the_result_is_at_most_one_avp_deep() -> None:
    code = avp(298, struct.pack("!I", 5001))
    assert signalling_meter.result_code(avp(297, code)) == 5001
    nested = code
    for _ in range(1200):
        nested = avp(297, nested)
    assert signalling_meter.result_code(nested) == 0


def test_tables_of_cqlsh_are_read() -> None:
    rows = cql.table(ROWS)
    assert [row["imsi"] for row in rows] == ["242881234500001", "242881234500000"]
    assert cql.shown(rows, 1) == {
        "subscribers": [{"imsi": "242881234500000", "msisdn": "24288880000000"}],
        "more": True,
    }
    assert cql.table("\n(0 rows)\n") == []
    assert cql.table("") == []
    cql.applied(cql.table("\n [applied]\n-----------\n      True\n\n"), "1")
    with pytest.raises(InputError, match="242 is a subscriber already"):
        cql.applied(cql.table(" [applied] | imsi\n-----------+------\n False | 242\n"), "242")


GLOG = "I1122 03:04:05.123456    17 glog_logging.cpp:73] 00031{} DEBUG SERVIC "
TABLE = "".join(
    GLOG.format(number) + f"{name:<15}| {count:>10}      |\n"
    for number, (name, count) in enumerate(
        {
            "": "Current Status",
            "Attached UEs": 7,
            "Connected UEs": 5,
            "Connected eNBs": "{0}",
            "Default Bearers": 7,
            "S1-U Bearers": 5,
        }.items()
    )
)


def test_the_last_complete_table_of_the_mme_counts() -> None:
    log = TABLE.format(1) + "noise\n" + TABLE.format(3) + TABLE.format(9)[:300]
    result = logs.statistics(log)
    assert result == {
        **{"attached-ues": 7, "connected-ues": 5, "enbs": 3},
        **{"default-bearers": 7, "s1u-bearers": 5},
    }
    with pytest.raises(VpnaasError, match="no statistics yet"):
        logs.statistics(TABLE.format(4)[300:])  # its beginning is cut off
    with pytest.raises(VpnaasError, match="no statistics yet"):
        logs.statistics("nothing")
