"""Control plane of SGW and PGW (TS 23.214)."""

import ipaddress
import json
from typing import Any, List, Union

from .model import Check, Container, Ends, File, Software, closed_ports, conf
from .params import SpgwC, SpgwU

FILE = "/openair-spgwc/etc/spgw_c.json"
REST_PORT = 9081
"""HTTP management port that OAI's SPGW-C opens on every address."""


def gateway_name(params: Union[SpgwC, SpgwU]) -> str:
    """Return the name of a user plane, by which the control plane chooses it (TS 29.303)."""
    form = "gw{}.spgw.node.epc.mnc{}.mcc{}.{}"
    return form.format(params.gateway_id, params.plmn.mnc3, params.plmn.mcc, params.realm)


def pool_range(pool: str) -> str:
    """Return the first and last address for UEs; the pool's first host is the gateway itself."""
    network = ipaddress.IPv4Network(pool)
    return "{} - {}".format(network.network_address + 2, network.broadcast_address - 1)


def _scheduling(priority: int) -> object:
    return {"sched_policy": "sched_fifo", "sched_priority": priority}


def configuration(params: SpgwC, ends: Ends) -> str:
    """Return spgw_c.json."""
    apns = [name for name in (params.apn, params.second_apn) if name]
    document = {
        "rest_port": REST_PORT,
        "gtpv2c": {"port": 2123, "n3": 3, "t3_ms": 1000, "sched_params": _scheduling(40)},
        "pfcp": {"port": 8805, "n1": 3, "t1_ms": 1000, "sched_params": _scheduling(42)},
        "s11": {"interface_name": ends["s11"].interface, "ipv4_address": ends["s11"].ip},
        # SGW and PGW are one process; S5/S8 between them stays on loopback.
        "sgws5s8": {"interface_name": "lo", "ipv4_address": "127.0.58.1"},
        "pgws5s8": {"interface_name": "lo", "ipv4_address": "127.0.58.2"},
        "sx": {"interface_name": ends["sxab"].interface, "ipv4_address": ends["sxab"].ip},
        "spgw_app": {
            "sched_params": _scheduling(44),
            "default_dns_ipv4_address": params.dns,
            "default_dns_sec_ipv4_address": params.second_dns,
            "default_dns_ipv6_address": "2001:4860:4860::8888",
            "default_dns_sec_ipv6_address": "2001:4860:4860::8844",
            "force_push_protocol_configuration_options": True,
            "ue_mtu_ipv4": params.ue_mtu,
        },
        # One pool for all APNs: the user plane takes a single network.
        "pdns": [
            {"apn_ni": apn, "dyn_ue_ipv4_range": pool_range(part)}
            for apn, part in zip(apns, _parts(params.ue_pool, len(apns)))
        ],
        "cups": {
            "association_retry_period_ms": 15000,
            "association_heartbeat_period_ms": 2000,
            "feature_overload_control": False,
            "feature_load_control": False,
            "use_nwi": False,
            "up_nodes_selection": [
                {
                    "mcc": params.plmn.mcc,
                    "mnc": params.plmn.mnc,
                    "tac": params.tac,
                    "pdn_idx": index,
                    "id": gateway_name(params),
                }
                for index in range(len(apns))
            ],
        },
    }
    return json.dumps(document, indent=1) + "\n"


def _parts(pool: str, count: int) -> List[str]:
    network = ipaddress.IPv4Network(pool)
    if count == 1:
        return [str(network)]
    return [str(part) for part in network.subnets(prefixlen_diff=1)][:count]


def software(params: SpgwC, ends: Ends, **_: Any) -> Software:
    """Return the software; the SPGW-C does not wait for a peer."""
    return Software(
        containers=(
            Container(
                "spgwc",
                words=("-c", FILE, "-o"),
                volumes=((conf("spgw_c.json"), FILE),),
                entrypoint="/openair-spgwc/bin/oai_spgwc",
            ),
        ),
        files=(File(conf("spgw_c.json"), configuration(params, ends)),),
        checks=(
            Check("udp", "no GTPv2-C on S11 yet", address=ends["s11"].ip, port=2123),
            Check("udp", "no PFCP on SXab yet", address=ends["sxab"].ip, port=8805),
        ),
        rules=closed_ports((REST_PORT,)),
    )
