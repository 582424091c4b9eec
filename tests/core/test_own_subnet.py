"""An inner subnet must not draw the VDU's own networks into the tunnel."""

import pytest
from support.juju import pair


@pytest.mark.parametrize(
    ("inner", "network"),
    [
        ("10.0.0.99/25", "10.0.0.0/24 of ens3"),  # management: the charm would lock itself out
        ("192.168.8.7/24", "192.168.8.0/24 of ens4"),
        ("192.168.0.7/16", "192.168.8.0/24 of ens4"),
    ],
)
def test_a_subnet_the_vdu_is_on_is_refused_and_the_tunnel_stays(inner, network):
    juju, hss, mme, _ = pair()
    before = hss.interface("s6a")
    assert hss.states()["s6a"] == "up"
    hss.configure("s6a", inner, **{"underlay-interface": "ens4"})
    hss.reconcile()
    plan = hss.plans["s6a"]
    assert plan.unusable
    assert plan.problems[0].startswith(f"configure: inner-address: {inner} overlaps {network}; ")
    assert hss.interface("s6a") == before
    juju.settle()
    assert mme.interface("s6a").peers
