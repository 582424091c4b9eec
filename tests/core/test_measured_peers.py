"""Which peer of a link a measurement goes to, and what ping says of it."""

from __future__ import annotations

import ipaddress

import pytest
from vpnaas.base import fields
from vpnaas.base.errors import InputError, VpnaasError
from vpnaas.base.links import WIREGUARD
from vpnaas.features.measure import measure
from vpnaas.peers.peer import Peer
from vpnaas.vdu.steps import Results

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
