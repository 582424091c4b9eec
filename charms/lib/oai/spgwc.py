"""Control plane of SGW and PGW (TS 23.214)."""

import ipaddress
from typing import Any, List

import attr
from vpnaas.base.declared import At, number_field, text_field, value_field

from . import values
from .function import Function
from .model import Check, Container, Ends, File, Software, closed_ports, conf, filled
from .params import WithApns, check_servers, pool_field

FILE = "/openair-spgwc/etc/spgw_c.json"
REST_PORT = 9081
"""HTTP management port that OAI's SPGW-C opens on every address."""


@attr.frozen
class SpgwC(WithApns):
    """Control plane of SGW and PGW."""

    tac: int = value_field(values.tac)
    dns: str = text_field(values.ipv4)
    second_dns: str = text_field(values.ipv4)
    ue_pool: str = pool_field()
    ue_mtu: int = number_field(576, 9000)
    gateway_id: int = number_field(1, 255, 1)

    @property
    def gateway(self) -> str:
        return self.gateway_name(self.gateway_id)

    def check(self, at: At) -> None:
        super().check(at)
        check_servers((self.dns, self.second_dns), self.ue_pool, at)


def pool_range(pool: str) -> str:
    """Return the first and last address for UEs; the pool's first host is the gateway itself."""
    network = ipaddress.IPv4Network(pool)
    return "{} - {}".format(network.network_address + 2, network.broadcast_address - 1)


def configuration(params: SpgwC, ends: Ends) -> str:
    """Return spgw_c.json. SGW and PGW are one process; S5/S8 between them stays on loopback."""
    apns = [name for name in (params.apn, params.second_apn) if name]
    # One pool for all APNs: the user plane takes a single network.
    pools = _parts(params.ue_pool, len(apns))
    plmn, name = params.plmn, params.gateway
    nodes = [
        {"mcc": plmn.mcc, "mnc": plmn.mnc, "tac": params.tac, "pdn_idx": index, "id": name}
        for index in range(len(apns))
    ]
    return filled(
        "spgw_c.json",
        params=params,
        ends=ends,
        rest_port=REST_PORT,
        pdns=[
            {"apn_ni": apn, "dyn_ue_ipv4_range": pool_range(part)} for apn, part in zip(apns, pools)
        ],
        nodes=nodes,
    )


def _parts(pool: str, count: int) -> List[str]:
    network = ipaddress.IPv4Network(pool)
    if count == 1:
        return [str(network)]
    return [str(part) for part in network.subnets(prefixlen_diff=1)][:count]


def software(params: SpgwC, ends: Ends, **_: Any) -> Software:
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


FUNCTION = Function("spgwc", SpgwC, software, levelled=False)
