"""The main job: links of a 5G core secure themselves.

Cast: amf, smf, upf, gnb (`5gc_ns`).

Seen:
- all links are up with no manual step;
- a capture of each network has WireGuard only;
- all links of a VNF rotate their keys and stay up.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from e2e_support import CORE_5G, InBackground, Lab, Service, gone, wait
from e2e_wire import Capture, captured, wireguard_only
from support.filters import NEIGHBOURS

pytestmark = [pytest.mark.lab, pytest.mark.long]

MARKER = b"osm-vpnaas-clear"


@dataclass(frozen=True)
class Link:
    """A link of the core: its ends and the port of its tunnel."""

    name: str
    near: str
    far: str
    port: int


LINKS = (
    Link("n2", "gnb", "amf", 51826),
    Link("n3", "gnb", "upf", 51827),
    Link("n4", "upf", "smf", 51828),
    Link("sbi", "smf", "amf", 51829),
)


@dataclass(frozen=True)
class Core:
    """A service and what its parameter file says.

    Attributes:
        members: Member-vnf-index of every VNF.
        inner: Inner address by member and link.
    """

    service: Service
    members: tuple[str, ...]
    inner: dict[tuple[str, str], str]


@pytest.fixture(scope="module")
def core(lab: Lab, dist: Path) -> Iterator[Core]:
    lab.onboard(*CORE_5G)
    service = lab.create("5gc", "5gc_ns", "5gc")
    document = yaml.safe_load((dist / "params" / "5gc.yaml").read_text(encoding="utf-8"))
    items = {
        i["member-vnf-index"]: i["additionalParams"] for i in document["additionalParamsForVnf"]
    }
    inner = {
        (member, link.name): address.split("/")[0]
        for member, given in items.items()
        for link in LINKS
        if (address := given.get(f"{link.name}_inner_address"))
    }
    yield Core(service, tuple(items), inner)
    gone(service)


def test_links_are_up_with_no_manual_step(core: Core) -> None:
    """Nothing but ns-create has happened to this service."""
    record = core.service.record()
    assert (record["nsState"], record["errorDetail"]) == ("READY", None)
    result = {vca["application"]: vca["member-vnf-index"] for vca in
            record["_admin"]["deployed"]["VCA"]}  # fmt: skip
    shown = {result[app]: charm for app, charm in record["lab"]["charms"].items()}
    assert {index: charm["status"] for index, charm in shown.items()} == dict.fromkeys(
        core.members, "active"
    )
    for link in LINKS:
        for end, other in ((link.near, link.far), (link.far, link.near)):
            assert f"{link.name} up" in shown[end]["message"]
            assert core.service[end].pings(core.inner[other, link.name])
    assert len(core.inner) == 2 * len(LINKS)


def transfer(service: Service, link: Link, address: str) -> None:
    """Carry a little TCP over a link."""
    far, near = service[link.far], service[link.near]
    server = InBackground(lambda: far.out("iperf3", "-s", "-1", "-B", address, "-p", "5301"))
    wait(lambda: any(f"{address}:5301" in s for s in far.listening()), "iperf3 listens")
    near.out("iperf3", "-c", address, "-p", "5301", "-t", "1", "-b", "10M")
    server.result()


def test_only_wireguard_is_on_the_wires(core: Core, tmp_path: Path) -> None:
    captures: dict[str, Capture] = {}
    with ExitStack() as stack:
        for link in LINKS:
            context = captured(core.service, link.name, tmp_path / f"{link.name}.pcap")
            captures[link.name] = stack.enter_context(context)
        for link in LINKS:
            for end, other in ((link.near, link.far), (link.far, link.near)):
                target = core.inner[other, link.name]
                assert core.service[end].pings(target, "-p", MARKER.hex(), "-s", "64")
            transfer(core.service, link, core.inner[link.far, link.name])
    hosts = " or ".join(f"host {address}" for address in core.inner.values())
    for link in LINKS:
        capture = captures[link.name]
        # A second of 10 Mbit/s, in however large frames the segments were handed on.
        assert capture.count(wireguard_only(link.port)) > 20
        assert capture.path.stat().st_size > 1_000_000
        other = f"not {NEIGHBOURS} and not {wireguard_only(link.port)}"
        assert capture.count(other) == 0, f"{link.name}: {capture.sample(other)}"
        assert capture.count(hosts) == 0, f"{link.name}: {capture.sample(hosts)}"
        assert not capture.holds(MARKER)


def test_rotation_of_all_links_of_a_vnf(core: Core) -> None:
    member = LINKS[0].near
    mine = [link for link in LINKS if member in (link.near, link.far)]
    old = {link.name: core.service[member].public_key(f"wg-{link.name}") for link in mine}
    assert set(core.service[member].action("rotate-keys", link="all")) == set(old)
    core.service.note_secrets()
    answer = core.service[member].action("show-status", link="all")
    for link in mine:
        other = link.far if link.near == member else link.near
        new = core.service[member].public_key(f"wg-{link.name}")
        assert new != old[link.name]
        assert core.service[other].peers(f"wg-{link.name}") == {new}
        assert answer[link.name]["key-generation"] == 2
        assert answer[link.name]["rotation"] == "none"
        assert core.service[other].pings(core.inner[member, link.name])
