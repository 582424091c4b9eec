"""The set-ups beside the slices, on a lab: double resources, and two sites."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from builder import packages
from builder.tree import Tree
from experiments import on_the_lab, performance, setups, signalling
from experiments.testbed import VNFS, Testbed
from lab.vim.account import clean

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.schedule(order=-2)]

NAMES = (setups.DOUBLE, setups.SITES)


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """Both services side by side, without the slices."""
    dist, home = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("matrix")
    double = [f"{name}_vnf_double" for name in VNFS]
    built = [*(f"{name}_vnf" for name in VNFS), "epc_ns", *double, "epc_ns_double"]
    packages.build(Tree.find(Path(__file__).parent), dist, built)
    try:
        with on_the_lab.served(home) as outside:
            outside.accounts(setups.vims(NAMES))
            made = Testbed(outside.osm, dist, Console(), lab=outside)
            vnfs = [dist / f"{name}_vnf.tar.gz" for name in VNFS]
            made.prepare([*vnfs, dist / "epc_ns.tar.gz", *setups.packages(dist, NAMES)])
            made.deploy(setups.requests(dist, NAMES, functions=True))
            yield made
    finally:
        on_the_lab.clean(home)
        clean(home)


def test_two_sites_are_18_ms_and_200_mbit_apart_with_the_tunnel_and_without(bed: Testbed) -> None:
    for path in ("underlay", "tunnel"):
        result, _ = performance.run(bed, setups.SITES, "s6a", path, "", 3)
        # Never below what the wire adds; far above only on a very busy machine.
        assert 18 <= result["rtt_ms"] < 100
        assert 10 < result["mbps"] < 200
    assert bed.slice_named(setups.SITES).addresses.outer["hss", "s6a"] == "203.0.113.129"


def test_double_resources_are_those_of_a_flavour_twice_as_large(bed: Testbed) -> None:
    result = {
        path: performance.run(bed, setups.DOUBLE, "s1u", path, "", 2)[0]
        for path in ("underlay", "tunnel")
    }
    assert result["underlay"]["rtt_ms"] < result["tunnel"]["rtt_ms"]
    if result["tunnel"]["limited"]:
        server = bed.slice_named(setups.DOUBLE)["spgwu"]
        (quota,) = quotas(server.server)
        assert quota == 2


def quotas(server: str) -> list[float]:
    """Return the processors a server's control groups let it have, in either version."""
    found = []
    for file in Path("/sys/fs/cgroup").glob(f"**/{server}/cpu.max"):
        words = file.read_text(encoding="ascii").split()
        if words[0] != "max":
            found.append(int(words[0]) / int(words[1]))
    for file in Path("/sys/fs/cgroup").glob(f"**/{server}/cpu.cfs_quota_us"):
        period = int((file.parent / "cpu.cfs_period_us").read_text(encoding="ascii"))
        found.append(int(file.read_text(encoding="ascii")) / period)
    return found


def test_response_times_are_those_of_its_own_hss(bed: Testbed) -> None:
    for path, technology in (("tunnel", "wireguard"), ("underlay", "none")):
        result, _ = signalling.run(bed, setups.DOUBLE, path, 5)
        assert result["technology"] == technology
        assert min(result["answers"].values()) >= 5
        assert 0 < result["air_median_ms"] < result["attach_median_ms"]
