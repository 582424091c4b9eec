"""Small plans of links, shares of their capacity, and standby gateways."""

from __future__ import annotations

import ipaddress
from typing import Any

from vpnaas.base.links import WIREGUARD
from vpnaas.features import qos
from vpnaas.features.pair.params import PRIMARY, PairParams
from vpnaas.features.pair.standby import Standby
from vpnaas.params.intent import LinkParams, link_params
from vpnaas.params.qos import link_qos
from vpnaas.tunnels.technology import LinkPlan

ADDRESSES = {"s6a": "172.16.6.2/24", "s1c": "192.168.247.102/24", "vpn-server": "10.77.0.1/24"}


def params(link: str, technology: str = WIREGUARD) -> LinkParams:
    given = {"link": link, "inner-address": ADDRESSES[link], "technology": technology}
    return link_params(given)


def plan(link: str, technology: str = WIREGUARD, interface: str = "") -> LinkPlan:
    return LinkPlan(params(link, technology), interface=interface or f"wg-{link}", underlay="ens4")


URLLC = {"link": "s1u", "five-qi": 82, "guaranteed-mbps": 5, "maximum-mbps": 8, "underlay-mbps": 50}


def share(params: dict[str, object], technology: str = "wireguard", port: int = 51825) -> qos.Share:
    rates = link_qos(params)
    assert rates is not None
    address = ipaddress.ip_address
    return qos.Share(rates, technology, f"wg-{rates.link}", "ens4", port,
                     address("192.168.248.10"), (address("192.168.9.159"),))  # fmt: skip


def gateway(**changed: Any) -> Standby:
    values: dict[str, Any] = {
        "role": PRIMARY,
        "trusted": "ens5",
        "untrusted": "ens4",
        "own": ipaddress.ip_address("10.9.0.1"),
        "other": ipaddress.ip_address("10.9.0.2"),
        "virtual": ipaddress.ip_interface("10.9.0.254/24"),
    }
    values.update(changed)
    own = values.pop("own")
    return Standby(PairParams(**values), own, peers=8, children=("s1c", "s1u"))
