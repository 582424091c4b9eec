"""The main job: five links of an EPC secure themselves, and only WireGuard is on their wires."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from e2e_support import InBackground, Service, wait
from e2e_wire import NEIGHBOURS, Capture, captured, wireguard_only

pytestmark = [pytest.mark.lab, pytest.mark.long]

MARKER = b"osm-vpnaas-clear"


@dataclass(frozen=True)
class Link:
    """A link of the EPC: its ends and the port of its tunnel."""

    name: str
    near: str
    far: str
    port: int


LINKS = (
    Link("s6a", "mme", "hss", 51821),
    Link("s11", "mme", "spgwc", 51822),
    Link("s1c", "enb", "mme", 51823),
    Link("sxab", "spgwu", "spgwc", 51824),
    Link("s1u", "enb", "spgwu", 51825),
)


@pytest.fixture(scope="module")
def inner(dist: Path) -> dict[tuple[str, str], str]:
    """The inner address of each end of each link, from the parameter file given to OSM."""
    document = yaml.safe_load((dist / "params" / "epc_ue.yaml").read_text(encoding="utf-8"))
    return {
        (item["member-vnf-index"], link.name): address.split("/")[0]
        for item in document["additionalParamsForVnf"]
        for link in LINKS
        if (address := item["additionalParams"].get(f"{link.name}_inner_address"))
    }


def test_links_are_up_with_no_manual_step(epc: Service, inner: dict[tuple[str, str], str]) -> None:
    """Nothing but ns-create has happened to this service."""
    record = epc.record()
    assert (record["nsState"], record["errorDetail"]) == ("READY", None)
    told = {vca["application"]: vca["member-vnf-index"] for vca in
            record["_admin"]["deployed"]["VCA"]}  # fmt: skip
    shown = {told[app]: charm for app, charm in record["lab"]["charms"].items()}
    assert {index: charm["status"] for index, charm in shown.items()} == dict.fromkeys(
        ("hss", "mme", "spgwc", "spgwu", "enb", "ue"), "active"
    )
    for link in LINKS:
        for end, other in ((link.near, link.far), (link.far, link.near)):
            assert f"{link.name} up" in shown[end]["message"]
            assert epc[end].pings(inner[other, link.name])
    assert len(inner) == 2 * len(LINKS)


def transfer(epc: Service, link: Link, address: str) -> None:
    """Carry a little TCP over a link."""
    far, near = epc[link.far], epc[link.near]
    server = InBackground(lambda: far.out("iperf3", "-s", "-1", "-B", address, "-p", "5301"))
    wait(lambda: any(f"{address}:5301" in s for s in far.listening()), "iperf3 listens")
    near.out("iperf3", "-c", address, "-p", "5301", "-t", "1", "-b", "10M")
    server.result()


def test_only_wireguard_is_on_the_wires(
    epc: Service, inner: dict[tuple[str, str], str], tmp_path: Path
) -> None:
    captures: dict[str, Capture] = {}
    with ExitStack() as stack:
        for link in LINKS:
            context = captured(epc, link.name, tmp_path / f"{link.name}.pcap")
            captures[link.name] = stack.enter_context(context)
        for link in LINKS:
            for end, other in ((link.near, link.far), (link.far, link.near)):
                target = inner[other, link.name]
                assert epc[end].pings(target, "-p", MARKER.hex(), "-s", "64")
            transfer(epc, link, inner[link.far, link.name])
    hosts = " or ".join(f"host {address}" for address in inner.values())
    for link in LINKS:
        capture = captures[link.name]
        # A second of 10 Mbit/s, in however large frames the segments were handed on.
        assert capture.count(wireguard_only(link.port)) > 20
        assert capture.path.stat().st_size > 1_000_000
        other = f"not {NEIGHBOURS} and not {wireguard_only(link.port)}"
        assert capture.count(other) == 0, f"{link.name}: {capture.sample(other)}"
        assert capture.count(hosts) == 0, f"{link.name}: {capture.sample(hosts)}"
        assert not capture.holds(MARKER)


def test_measurement_of_one_link(epc: Service) -> None:
    latency = epc["enb"].action("measure-latency", link="s1u", count=5, interval_ms=20)
    assert (latency["sent"], latency["received"]) == (5, 5)
    rate = epc["enb"].action("measure-throughput", link="s1u", duration=1)
    assert rate["mbps"] > 0


def test_rotation_of_all_links_of_a_vnf(epc: Service, inner: dict[tuple[str, str], str]) -> None:
    mine = [link for link in LINKS if "mme" in (link.near, link.far)]
    old = {link.name: epc["mme"].public_key(f"wg-{link.name}") for link in mine}
    assert set(epc["mme"].action("rotate-keys", link="all")) == set(old)
    epc.note_secrets()
    told = epc["mme"].action("show-status", link="all")
    for link in mine:
        other = link.far if link.near == "mme" else link.near
        new = epc["mme"].public_key(f"wg-{link.name}")
        assert new != old[link.name]
        assert epc[other].peers(f"wg-{link.name}") == {new}
        assert told[link.name]["key-generation"] == 2
        assert told[link.name]["rotation"] == "none"
        assert epc[other].pings(inner["mme", link.name])
