"""The second slice of a campaign: a service and a template of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.dist import built

from builder import packages
from builder.check import archives
from builder.tree import Tree
from builder.validate import Catalog, validate_params
from experiments import qos, setups, slices
from experiments.testbed import Addresses


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, ["epc_ns", "embb_nst", "urllc_nst"])


@pytest.fixture(scope="module")
def catalog(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Both slices' packages, and the VNFs they name."""
    made = slices.packages(dist, tmp_path_factory.mktemp("own"))
    known = packages.catalogue(Tree.find(Path(__file__).parent)).values()
    catalog, problems = archives(made, [package for package in known if package.kind == "vnf"])
    assert problems == []
    return catalog


def test_both_slices_are_valid_and_share_no_address(dist: Path, catalog: Catalog) -> None:
    one, two = slices.requests(dist, qos.RATES)
    for slice_ in (one, two):
        alone = Catalog(vnfds=catalog.vnfds, nsds=catalog.nsds,
                        nsts={slice_.descriptor: catalog.nsts[slice_.descriptor]})  # fmt: skip
        assert validate_params("nsi", slice_.document, alone) == []
    first, second = (Addresses.of(slice_.parameters) for slice_ in (one, two))
    assert first.inner.keys() == second.inner.keys()
    mine = {*first.inner.values(), *first.outer.values()}
    assert not mine & {*second.inner.values(), *second.outer.values()}
    assert "192.168." not in str(catalog.nsds[slices.SECOND])


def test_the_set_ups_beside_the_slices_are_valid(
    tmp_path: Path, dist: Path, catalog: Catalog
) -> None:
    known = packages.catalogue(Tree.find(Path(__file__).parent))
    catalog = Catalog(vnfds=dict(catalog.vnfds), nsds=dict(catalog.nsds))
    for name, package in known.items():
        if name.endswith("_double"):
            body = package.descriptor.get("vnfd") or package.descriptor["nsd"]["nsd"][0]
            catalog.add_descriptor("vnfd" if package.kind == "vnf" else "nsd", body)
    mine = {a for w in slices.requests(dist, qos.RATES)
            for a in Addresses.of(w.parameters).inner.values()}  # fmt: skip
    for service in setups.requests(dist, [setups.DOUBLE, setups.SITES], functions=True):
        nsds = {service.descriptor: catalog.nsds[service.descriptor]}
        alone = Catalog(vnfds=catalog.vnfds, nsds=nsds)
        assert validate_params("ns", dict(service.parameters), alone) == []
        software = {
            m["additionalParams"]["nf_software"]
            for m in service.parameters["additionalParamsForVnf"]
        }
        if service.name == setups.DOUBLE:
            assert software == {"oai"}
            assert not mine & set(Addresses.of(service.parameters).inner.values())
        else:
            assert software == {"none"}
            assert Addresses.of(service.parameters).outer["hss", "s6a"] == "203.0.113.129"
    assert all(file.is_file() for file in setups.vims([setups.SITES]).values())


def test_the_5qi_is_the_templates_and_the_rates_are_the_operators(dist: Path) -> None:
    for slice_, five_qi in zip(slices.requests(dist, qos.RATES),
                               (qos.EMBB, qos.URLLC), strict=True):  # fmt: skip
        for member in slice_.parameters["additionalParamsForVnf"]:
            values = member["additionalParams"]
            if member["member-vnf-index"] in ("enb", "spgwu"):
                assert values["s1u_five_qi"] == five_qi
                assert values["s1u_underlay_mbps"] == qos.BOTTLENECK_MBPS
                assert values["s1u_maximum_mbps"] == qos.RATES[slice_.name]["maximum_mbps"]
