"""The experiments over OSM's API, and the quality of service.

The whole campaign is `./run demo`.

Cast: server, client (`vpn_basic_ns`).

Seen:
- captures of secured links show nothing, and the control without a VPN shows it;
- no VNF reaches one of another service, and the matrix notices if one does;
- a load is sent beside a measurement;
- a stream loses nothing, and a cut link breaks it;
- a 5QI shapes and marks packets, and comes off again.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e_support import ActionError, Lab, Service, Vnf, allowed, gone, wait
from e2e_wire import captured
from rich.console import Console
from vpnaas.features import repair

from experiments import confidentiality, diameter, on_the_lab, performance, reach
from experiments.testbed import LINKS, PAIR_LINKS, Testbed
from experiments.traffic import Flow
from experiments.wire import NEIGHBOURS
from operate.osm import SERVICES

pytestmark = [pytest.mark.lab, pytest.mark.schedule(worker="basic")]

LINK = "vpn-client"


@pytest.fixture(scope="module")
def outside(lab: Lab) -> Iterator[on_the_lab.Lab]:
    """The lab's own server, and what the lab alone can do."""
    with on_the_lab.served(lab.home) as made:
        yield made


def adopted(outside: on_the_lab.Lab, dist: Path, links: Any, **given: str) -> Testbed:
    """Return running services as slices, given the texts of their parameters by name."""
    made = Testbed(outside.osm, dist, Console(), lab=outside)
    for name, text in given.items():
        service = outside.osm.required(SERVICES, name=name)["_id"]
        made.slices[name] = made.read(name, yaml.safe_load(text), service, links)
    return made


@pytest.fixture(scope="module")
def pairs(lab: Lab, basic: Service, dist: Path, outside: on_the_lab.Lab) -> Iterator[Testbed]:
    """Two of the smallest services as slices, with addresses of their own."""
    text = allowed((dist / "params" / "vpn_basic.yaml").read_text(encoding="utf-8"))
    moved = text.replace("192.168.100.", "10.68.100.").replace("10.77.", "10.78.")
    file = lab.home / "second.yaml"
    file.write_text(moved, encoding="utf-8")
    words = ("--ns_name", "second", "--nsd_name", "vpn_basic_ns", "--vim_account", "lab")
    lab.done("ns-create", *words, "--config_file", str(file), "--wait")
    yield adopted(outside, dist, PAIR_LINKS, basic=text, second=moved)
    gone(Service(lab, "second"))


def test_links_show_nothing(pairs: Testbed) -> None:
    result, good = confidentiality.run(pairs, "tunnel")
    assert good, result
    # What the VDUs count and what Wireshark sees from outside are the same.
    for where in ("links", "outside"):
        assert {link["clear"] for link in result[where].values()} == {0}
        assert all(set(link["frames"]) <= {"wg", *NEIGHBOURS} for link in result[where].values())


@pytest.mark.long
def test_the_control_shows_it(pairs: Testbed) -> None:
    result, good = confidentiality.run(pairs, "underlay")
    assert good, result
    for where in ("links", "outside"):
        assert result[where]["basic/data"]["imsis"] == [diameter.TEST_IMSI]
        assert result[where]["basic/data"]["frames"]["diameter"] > 0
    shown = result["outside"]["basic/data"]["excerpt"]
    assert any(f"IMSI {diameter.TEST_IMSI}" in line for line in shown)


def test_nobody_reaches_a_vnf_of_another_service(pairs: Testbed) -> None:
    result, good = reach.run(pairs, 0.5)
    assert good, result
    assert (result["pairs"], result["unexpected"]) == (8, [])
    assert result["control"] == {"attempts": 2, "failed": []}
    row = result["matrix"]["basic/client"]
    assert row["basic/server"] == {"tunnel": True}
    assert row["second/server"]["attempts"] > 10
    assert (row["second/server"]["allowed"], row["second/server"]["forbidden"]) == (1, 0)


@pytest.mark.long
def test_reach_notices_who_gets_through(pairs: Testbed, server: Vnf) -> None:
    """The experiment can fail: without its guard a VNF is reached by force."""
    server.out("systemctl", "stop", repair.UNIT)  # it would load the guard at once
    server.out("nft", "flush", "ruleset")
    try:
        result, good = reach.run(pairs, 0.5)
    finally:
        server.action("show-status", link="vpn-server")  # Whose reconcile mends it.
    assert not good
    assert {row["to"] for row in result["unexpected"]} == {"basic/server"}
    assert result["matrix"]["second/client"]["basic/server"]["forbidden"] > 0
    assert "table inet" in server.out("nft", "list", "ruleset")


@pytest.mark.long
def test_a_measurement_beside_a_load(pairs: Testbed) -> None:
    result, _ = performance.run(pairs, "second", "data", "tunnel", "saturated", 1)
    assert result["mbps"] > 1
    assert 0 < result["rtt_ms"] < 1000
    times = [ms for _, ms in result["rtt_within"]]
    assert times == sorted(times)
    assert times[-1] == pytest.approx(result["rtt_max_ms"], rel=0.01)  # ping prints three digits


@pytest.mark.long
def test_a_stream_loses_nothing_and_a_cut_link_breaks_it(pairs: Testbed) -> None:
    found = pairs.slices["basic"]
    stream = Flow(found, "data", rate=100).result()
    assert stream.lost == 0
    assert 0 < stream.sent["sent"] < 6000  # ended long before its time
    flow = Flow(found, "data", rate=100)
    found["server"].action("inject-fault", fault="link", link="vpn-server", seconds=2)
    time.sleep(3)
    broken = flow.result()
    assert broken.lost > 0
    assert broken.longest_loss_ms > 1000
    wait(lambda: pairs.answers(found, "data"), "the link comes back by itself")


WITHOUT_THE_LAB = """
import sys
sys.modules["lab"] = sys.modules["simulators"] = None  # an import of either fails
from experiments.__main__ import main
main()
"""


@pytest.mark.long
@pytest.mark.parametrize("names", [("confidentiality", "reach"), ("dependability",)], ids=" ".join)
def test_slices_by_name_with_the_api_alone(
    pairs: Testbed, outside: on_the_lab.Lab, tmp_path: Path, names: tuple[str, ...]
) -> None:
    only = [word for name in names for word in ("--only", name)]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_LAB, "run", "--slice", "basic", "--slice", "second",
         "--osm", outside.osm.nbi.url, "--ca", outside.certificate, "--out", str(tmp_path / "c"),
         *only],
        env={**os.environ, "OSM_PASSWORD": outside.password},
        capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    made = [json.loads(file.read_text()) for file in (tmp_path / "c" / "runs").glob("*.json")]
    assert {(run["experiment"], run["passed"]) for run in made} == {(name, True) for name in names}
    page = (tmp_path / "c" / "report.html").read_text(encoding="utf-8")
    assert "basic and second" in page


@pytest.fixture(scope="module")
def bed(epc: Service, dist: Path, outside: on_the_lab.Lab) -> Testbed:
    """The shared EPC with its network functions as the only slice."""
    text = (dist / "params" / "epc_ue.yaml").read_text(encoding="utf-8")
    return adopted(outside, dist, LINKS, epc=text)


@pytest.mark.long
@pytest.mark.schedule(worker="epc")
def test_the_control_shows_the_subscribers_of_an_epc(bed: Testbed, outside: on_the_lab.Lab) -> None:
    result, good = confidentiality.run(bed, "underlay")
    assert good, result
    # UEs really attached through S6a.
    assert set(outside.imsis(bed.slices["epc"], 3)) <= set(result["links"]["epc/s6a"]["imsis"])


@pytest.mark.long
def test_a_5qi_shapes_and_marks_and_comes_off_again(basic: Service, tmp_path: Path) -> None:
    client = basic["client"]
    shaped = {"five_qi": 3, "guaranteed_mbps": 10, "maximum_mbps": 20, "underlay_mbps": 100}
    with pytest.raises(ActionError, match="5QI 9 is non-GBR and guarantees nothing"):
        client.action("set-qos", link=LINK, **{**shaped, "five_qi": 9})
    theirs = ("dev", "ens4", "root", "tbf", "rate", "1gbit", "burst", "1mb", "limit", "1mb")
    client.out("tc", "qdisc", "add", *theirs)
    try:
        with pytest.raises(ActionError, match="ens4 of the VDU has a queue of somebody else, tbf"):
            client.action("set-qos", link=LINK, **shaped)
        assert "qdisc tbf " in client.out("tc", "qdisc", "show", "dev", "ens4")
    finally:
        client.out("tc", "qdisc", "del", "dev", "ens4", "root")
    try:
        answer = client.action("set-qos", link=LINK, **shaped)[LINK]
        assert (answer["in-force"], answer["dscp"], answer["priority"]) == (True, "ef", 30)
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
