"""Which peer of a link a measurement goes to, and what ping says of it."""

from __future__ import annotations

import ipaddress
import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import attr
import pytest
from vpnaas.base import fields
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.base.links import WIREGUARD
from vpnaas.features.measure import measure
from vpnaas.peers.peer import Peer
from vpnaas.vdu.steps import Results, Step

OUTER = (ipaddress.ip_address("192.168.21.40"), 51823)


def manual(name: str, *prefixes: str) -> Peer:
    networks = tuple(ipaddress.ip_network(prefix) for prefix in prefixes)
    return Peer("man-" + name, name, networks, WIREGUARD, endpoint=OUTER)


RELATED = Peer("rel-1", "mme", (), WIREGUARD, inner_address=ipaddress.ip_address("172.16.6.2"))
GNB = manual("embb-shared-gnb", "172.16.21.40/32")
UPF = manual("urllc-slice-upf", "172.16.21.31/32", "10.47.0.0/16")
SITE = manual("site", "10.81.0.0/16")


def test_a_vnf_of_another_service_is_measured_through_the_tunnel_and_outside_it() -> None:
    chosen = measure.choose_peer("n3", "", [GNB, SITE])
    assert str(chosen.inner_address) == "172.16.21.40"
    assert str(measure.target(chosen, "tunnel", "n3")) == "172.16.21.40"
    assert str(measure.target(chosen, "underlay", "n3")) == "192.168.21.40"


def test_of_several_one_must_be_named() -> None:
    with pytest.raises(InputError, match="embb-shared-gnb, urllc-slice-upf"):
        measure.choose_peer("n3", "", [GNB, UPF])
    assert measure.choose_peer("n3", "urllc-slice-upf", [GNB, UPF]).name == UPF.name


def test_of_hundreds_a_sentence_names_some() -> None:
    many = [manual(f"gnb{number}", f"172.16.21.{number}/32") for number in range(200)]
    with pytest.raises(InputError, match="gnb7 and 192 others$"):
        measure.choose_peer("n3", "", many)
    with pytest.raises(InputError, match="device-31 and 968 others$"):
        fields.choice("name", "nobody", [f"device-{number}" for number in range(1000)])


def test_a_related_peer_comes_first_and_a_manual_one_by_its_name() -> None:
    assert measure.choose_peer("s6a", "", [GNB, RELATED]) == RELATED
    assert measure.choose_peer("s6a", GNB.label, [GNB, RELATED]).name == GNB.name


def test_a_peer_of_prefixes_cannot_be_measured() -> None:
    for name in ("", "site"):
        with pytest.raises(InputError, match="none, the link has no such peer yet"):
            measure.choose_peer("n3", name, [SITE])


PINGED = """PING 172.16.21.40 (172.16.21.40) {}({}) bytes of data.

--- 172.16.21.40 ping statistics ---
2 packets transmitted, {} received, {}% packet loss, time 201ms
{}"""
TIMES = "rtt min/avg/max/mdev = 0.010/0.020/0.030/0.010 ms\n"


@pytest.mark.parametrize(
    ("size", "received", "sentence"),
    [
        (15, 2, "ping to gnb printed no round trip times"),
        (16, 0, "gnb did not answer any of 2 echo requests"),
    ],
)
def test_a_peer_that_answered_is_not_said_to_be_silent(
    size: int, received: int, sentence: str
) -> None:
    out = PINGED.format(size, size + 28, received, 100 - 50 * received, "")
    with pytest.raises(VpnaasError, match=sentence):
        measure.round_trips(Results({"ping": {"code": 0, "out": out}}), "gnb")


def test_requests_are_large_enough_for_a_timestamp() -> None:
    assert measure.LatencyTest.parse({"link": "n3", "size": 16}).size == 16
    with pytest.raises(InputError, match="size: 15 is out of range; .* from 16 to 65507"):
        measure.LatencyTest.parse({"link": "n3", "size": 15})
    out = PINGED.format(16, 44, 1, 50, TIMES)
    figures = measure.round_trips(Results({"ping": {"code": 0, "out": out}}), "gnb")
    assert figures["loss-percent"] == 50.0
    assert figures["rtt-ms"]["avg"] == 0.02


VANISH = "packets of {} bytes vanish, small ones pass; set a smaller mtu"
REPORT = {
    "start": {"version": "iperf 3.9"},
    "end": {"sum_sent": {}, "sum_received": {"bits_per_second": 0}},
}


class Path:
    """A path of 1420 bytes to one peer, on which packets above some bytes vanish."""

    def __init__(self, vanish: int) -> None:
        self.vanish = vanish
        peer = Peer("rel-1", "gnb", (), "wireguard", inner_address=OUTER[0])
        peer = attr.evolve(peer, endpoint=(ipaddress.ip_address("2001:db8::1"), 51820))
        link = SimpleNamespace(peers=(peer,), mtu=1420)
        charm: Any = SimpleNamespace(
            vdu=lambda: nullcontext(SimpleNamespace(execute=self.execute)),
            measured_plan=lambda params, vdu: SimpleNamespace(links={"n3": link}),
        )
        self.actions = measure.MeasureActions(charm)

    def execute(self, steps: list[Step], exclusive: bool) -> Results:
        _, _, self.large = json.loads(steps[-1].body.get("stdin") or "{}").get("peer", (0, 0, 0))
        lost = self.large > self.vanish
        answers = {"iperf3": json.dumps(REPORT), "large": json.dumps({"peer": [5, 5, 1.0, lost]})}
        answers["ping"] = PINGED.format(9, 9, 0, 100, "")
        return Results({id: {"code": 0, "out": out} for id, out in answers.items()})


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ({}, 1420),
        ({"size": 1000}, 1040),
        ({"protocol": "udp"}, 1420),
        ({"protocol": "udp", "size": 1200}, 1228),
        ({"protocol": "udp", "size": 1200, "path": "underlay"}, 1248),
        ({"protocol": "udp", "size": 9000}, 1420),
        ({"path": "underlay"}, 1480),
    ],
)
def test_a_measurement_names_its_packets_that_vanish(given: dict[str, Any], size: int) -> None:
    lossy, whole = Path(size - 1), Path(size)
    answer = lossy.actions.measure_throughput({"link": "n3", **given})
    assert (answer["mbps"], answer["reason"]) == (0, VANISH.format(size))
    assert "reason" not in whole.actions.measure_throughput({"link": "n3", **given})
    assert whole.large == size


def test_a_ping_that_failed_names_its_packets_that_vanish() -> None:
    with pytest.raises(VpnaasError) as failed:
        Path(1000).actions.measure_latency({"link": "n3", "size": 1392})
    silent = "gnb did not answer any of 2 echo requests"
    assert str(failed.value) == f"{silent}; {VANISH.format(1420)}"
    with pytest.raises(VpnaasError) as failed:
        Path(1000).actions.measure_latency({"link": "n3"})
    assert str(failed.value) == silent
