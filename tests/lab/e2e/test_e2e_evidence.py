"""Experiments and quality of service on running services; the campaign itself is `./run demo`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from conftest import gone
from e2e_support import ActionError, Lab, Service
from e2e_wire import captured
from rich.console import Console

from experiments import confidentiality, diameter, performance, reach, signalling
from experiments.testbed import Link, Testbed
from experiments.traffic import Flow

pytestmark = pytest.mark.lab

LINK = "vpn-client"
PAIR = {"data": Link("data", "Data", "client", "server",
                     {"client": "vpn-client", "server": "vpn-server"})}  # fmt: skip
"""The link of the smallest service, by the name of its network."""


@pytest.fixture(scope="module")
def pairs(lab: Lab, basic: Service, dist: Path) -> Iterator[Testbed]:
    """Two of the smallest services as slices, with addresses of their own."""
    text = (dist / "params" / "vpn_basic.yaml").read_text(encoding="utf-8")
    moved = text.replace("192.168.100.", "10.68.100.").replace("10.77.", "10.78.")
    file = lab.home / "second.yaml"
    file.write_text(moved, encoding="utf-8")
    words = ("--ns_name", "second", "--nsd_name", "vpn_basic_ns", "--vim_account", "lab")
    lab.done("ns-create", *words, "--config_file", str(file), "--wait")
    made = Testbed(lab.home, dist, Console())
    for name, given in (("basic", text), ("second", moved)):
        # Addresses are found by the name of the network.
        document = yaml.safe_load(given.replace("vpn_inner_address", "data_inner_address"))
        made.adopt(name, document, links=PAIR)
    yield made
    gone(Service(lab, "second"))


def test_wires_show_nothing_and_the_control_shows_it(pairs: Testbed) -> None:
    told, good = confidentiality.run(pairs, "tunnel")
    assert good, told
    assert {link["clear"] for link in told["links"].values()} == {0}
    told, good = confidentiality.run(pairs, "underlay")
    assert good, told
    assert told["links"]["basic/data"]["imsis"] == [diameter.TEST_IMSI]
    assert told["links"]["basic/data"]["frames"]["diameter"] > 0


def test_nobody_reaches_a_vnf_of_another_service(pairs: Testbed) -> None:
    told, good = reach.run(pairs, "listening", 0.5)
    assert good, told
    assert (told["pairs"], told["unexpected"]) == (8, [])
    assert told["control"] == {"attempts": 2, "failed": []}


def test_reach_notices_who_gets_through(pairs: Testbed) -> None:
    """The experiment can fail: without its guard a VNF is reached by force."""
    server = pairs.slices["basic"]["server"]
    server.out("nft", "flush", "ruleset")
    try:
        told, good = reach.run(pairs, "listening", 0.5)
    finally:
        pairs.action(server, "show-status", link="vpn-server")  # Whose reconcile mends it.
    assert not good
    assert {row["to"] for row in told["unexpected"]} == {"basic/server"}
    assert "table inet" in server.out("nft", "list", "ruleset")


def test_a_flow_tells_what_a_measurement_beside_it_costs(pairs: Testbed) -> None:
    told, _ = performance.run(pairs, "second", "data", "tunnel", "saturated", 1)
    assert told["mbps"] > 1
    assert 0 < told["rtt_ms"] < 1000
    ends, address = pairs.slices["basic"], pairs.slices["basic"].target("data", "tunnel")
    flow = Flow(ends["client"], ends["server"], address, seconds=30, rate=100)
    flow.stop()  # Long before its end.
    stream = flow.result()
    assert stream.lost == 0
    assert stream.sent < 3000


@pytest.fixture(scope="module")
def bed(epc: Service, dist: Path) -> Testbed:
    """The shared EPC with its network functions as the only slice."""
    made = Testbed(epc.lab.home, dist, Console())
    made.adopt("epc", yaml.safe_load((dist / "params" / "epc_ue.yaml").read_text(encoding="utf-8")))
    return made


@pytest.mark.long
def test_wires_of_an_epc_show_nothing_and_the_control_shows_it(bed: Testbed) -> None:
    told, good = confidentiality.run(bed, "tunnel")
    assert good, told
    assert {link["clear"] for link in told["links"].values()} == {0}
    told, good = confidentiality.run(bed, "underlay")
    assert good, told
    # UEs really attached through S6a.
    assert set(signalling.imsis(bed.slices["epc"], 3)) <= set(told["links"]["epc/s6a"]["imsis"])


@pytest.mark.long
def test_response_times_of_s6a_with_its_tunnel_and_without(bed: Testbed) -> None:
    for path, technology in (("tunnel", "wireguard"), ("underlay", "none")):
        told, _ = signalling.run(bed, "epc", path, 5)
        assert told["technology"] == technology
        assert min(told["answers"].values()) >= 5
        assert 0 < told["air_median_ms"] < told["attach_median_ms"]


@pytest.mark.long
def test_nobody_reaches_who_is_not_related(bed: Testbed) -> None:
    told, good = reach.run(bed, "listening", 0.5)
    assert good, told
    # Six VNFs, of which the UE has no link.
    assert (told["pairs"], told["unexpected"]) == (20, [])
    assert told["control"] == {"attempts": 5, "failed": []}


def test_a_5qi_shapes_and_marks_and_comes_off_again(basic: Service, tmp_path: Path) -> None:
    client = basic["client"]
    shaped = {"five_qi": 3, "guaranteed_mbps": 10, "maximum_mbps": 20, "underlay_mbps": 100}
    with pytest.raises(ActionError, match="5QI 9 is non-GBR and guarantees nothing"):
        client.action("set-qos", link=LINK, **{**shaped, "five_qi": 9})
    try:
        told = client.action("set-qos", link=LINK, **shaped)[LINK]
        assert (told["in-force"], told["dscp"], told["priority"]) == (True, "ef", 30)
        with captured(basic, "data", tmp_path / "data.pcap") as capture:
            rate = client.action("measure-throughput", link=LINK, duration=3)["mbps"]
        assert 5 < rate < 24  # a burst of 70 kB comes on top
        ours = f"src host {client.server.ports[1].ip} and udp"
        assert capture.count(f"{ours} and ip[1] & 0xfc = 0xb8") > 10  # EF is 46 (RFC 3246)
        assert capture.count(f"{ours} and ip[1] & 0xfc != 0xb8") == 0
        assert client.action("show-qos")[LINK]["sent-packets"] > 10
    finally:
        assert client.action("set-qos", link=LINK, five_qi=0) == {}
    assert client.action("measure-throughput", link=LINK, duration=1)["mbps"] > 30
