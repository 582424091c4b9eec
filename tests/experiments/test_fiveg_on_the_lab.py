"""The experiments on two slices of a 5G network, on a lab."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from builder import packages
from builder.tree import Tree
from experiments import (
    confidentiality,
    dependability,
    fiveg,
    on_the_lab,
    performance,
    procedures,
    qos,
    reach,
    revocation,
    sessions,
)
from experiments.slices import EMBB, URLLC
from experiments.testbed import Testbed
from lab.vim.account import clean

TWO = (EMBB, URLLC)
pytestmark = [
    pytest.mark.lab,
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.schedule(order=-6),
]


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """Both slices, joined."""
    dist, home = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("fiveg")
    templates = [f"{name}_nst" for name in ("embb_5g", "urllc_5g")]
    services = ["5gc_shared_ns", fiveg.NSD, *templates]
    built = [*(f"{name}_vnf" for name in fiveg.VNFS), *services]
    packages.build(Tree.find(Path(__file__).parent), dist, built)
    try:
        with on_the_lab.served(home) as outside:
            outside.accounts({})
            made = Testbed(outside.osm, dist, Console(), lab=outside)
            made.prepare(fiveg.packages(dist, tmp_path_factory.mktemp("own"), TWO))
            fiveg.deploy(made, fiveg.requests(dist, TWO))
            yield made
    finally:
        on_the_lab.clean(home)
        clean(home)


@pytest.mark.parametrize("path", ["tunnel", "underlay"])
def test_identities_show_without_the_tunnel_only(bed: Testbed, path: str) -> None:
    result, good = confidentiality.run(bed, path)
    assert good, result
    shown = result["links"]["shared/n2"]["imsis"]
    assert shown == ([] if path == "tunnel" else [fiveg.MSIN])


def test_nobody_reaches_a_stranger(bed: Testbed) -> None:
    result, good = reach.run(bed, 0.5)
    assert good, result["unexpected"] or result["control"]


def test_sessions_are_kept_apart_by_snssai(bed: Testbed) -> None:
    result, good = sessions.run(bed, 5)
    assert good, result


def test_urllc_keeps_its_budget_while_embb_saturates_n3(bed: Testbed) -> None:
    result, _ = qos.run(bed, URLLC, EMBB, True, 4)
    assert result["shown"]["n3"]["in-force"]
    assert result["embb_mbps"] > 5


@pytest.mark.parametrize("path", ["underlay", "tunnel"])
def test_a_joined_link_is_measured_with_the_tunnel_and_without(bed: Testbed, path: str) -> None:
    link, _ = performance.run(bed, URLLC, "n3", path, "saturated", 1)
    assert link["mbps"] > 1


def test_the_way_of_a_ue_is_measured(bed: Testbed) -> None:
    whole, _ = performance.run(bed, EMBB, sessions.LINK, "tunnel", "", 1)
    assert whole["mbps"] > 0.1
    assert whole["lost"] < whole["sent"]


@pytest.mark.parametrize("path", ["underlay", "tunnel"])
def test_procedures_are_timed_on_n2(bed: Testbed, path: str) -> None:
    result, _ = procedures.run(bed, EMBB, path, 5)
    assert result["technology"] == ("wireguard" if path == "tunnel" else "none")
    assert result["count"] == {"registration": 5, "session": 5}
    assert 0 < result["registration_mean_ms"] < result["ue_median_ms"] * 5


def test_a_storm_is_served_or_told(bed: Testbed) -> None:
    result, _ = procedures.storm(bed, EMBB, 20, 10)
    assert result["served_per_second"] > 0
    assert result["lost"] < 20


# The other faults: test_e2e_evidence.py.
@pytest.mark.parametrize("fault", ["vnf", "link"])
def test_a_fault_in_one_slice_costs_the_other_nothing(bed: Testbed, fault: str) -> None:
    result, good = dependability.run(bed, EMBB, URLLC, fault, 4)
    assert good, result


def test_a_stolen_key_of_n4_is_revoked(bed: Testbed) -> None:
    result, good = revocation.run(bed, EMBB, URLLC, 2)
    assert good, result
