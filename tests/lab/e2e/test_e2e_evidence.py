"""Experiments and quality of service on running services; the campaign itself is `./run demo`."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from e2e_support import ActionError, Service, captured
from rich.console import Console

from experiments import confidentiality, reach
from experiments.testbed import Testbed

pytestmark = [pytest.mark.lab, pytest.mark.long]

LINK = "vpn-client"


@pytest.fixture(scope="module")
def bed(epc: Service, dist: Path) -> Testbed:
    """The shared EPC as the only slice."""
    made = Testbed(epc.lab.home, dist, Console())
    made.adopt("epc", yaml.safe_load((dist / "params" / "epc.yaml").read_text(encoding="utf-8")))
    return made


def test_wires_show_nothing_and_the_control_shows_it(bed: Testbed) -> None:
    told, good = confidentiality.run(bed, "tunnel")
    assert good, told
    assert {link["clear"] for link in told["links"].values()} == {0}
    told, good = confidentiality.run(bed, "underlay")
    assert good, told
    assert told["links"]["epc/s6a"]["frames"]["diameter"] > 0


def test_nobody_reaches_who_is_not_related(bed: Testbed) -> None:
    told, good = reach.run(bed, "listening", 0.5)
    assert good, told
    assert (told["pairs"], told["unexpected"]) == (10, [])
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
