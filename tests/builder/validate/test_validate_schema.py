"""Keys of SOL006 and of OSM's augments that few packages use are keys all the same."""

import pytest
from support.validating import validate_package
from validate_support import catalog, ns, vnf


@pytest.mark.parametrize(
    ("draft", "path", "value"),
    [
        (vnf, "vdu/0/int-cpd/0/nicio-requirements", "small"),
        (vnf, "vdu/0/int-cpd/0/virtual-network-interface-requirement/0/ip-address", "10.0.0.9"),
        (vnf, "vdu/0/alarm/0/severity", "LOW"),
        (vnf, "vdu/0/alarm/0/period", 60),
        (vnf, "ext-cpd/0/role", "leaf"),
        (vnf, "ext-cpd/0/protocol", [{"associated-layer-protocol": "ipv4"}]),
        (vnf, "virtual-compute-desc/0/virtual-cpu/pinning", {"thread-policy": "AVOID"}),
        (vnf, "df/0/supported-vnf-interfaces", [{"name": "vnf-indicator"}]),
        (vnf, "df/0/lcm-operations-configuration/change-vnf-flavour-op-config", {}),
        (vnf, "df/0/scaling-aspect/0/aspect-delta-details/step-deltas", "one"),
        (vnf, "auto-scale", ["x"]),
        (vnf, "service", [{"name": "x", "mgmt-service": True}]),
        (ns, "df/0/default-instantiation-level", "one"),
        (ns, "df/0/monitored-info", [{"id": "x"}]),
    ],
)
def test_keys_that_are_seldom_used(draft, path, value, tmp_path):
    made = draft()
    made.put(path, value)
    assert validate_package(made.tar(tmp_path / "x.tar.gz"), catalog()) == []
