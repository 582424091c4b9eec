"""User plane of SGW and PGW: a switch in user space between GTP-U and a tun device."""

from typing import Any

import attr
from vpnaas.base import fields
from vpnaas.base.declared import At, number_field, switch_field, text_field

from . import pdn
from .function import Function
from .model import Check, Container, Ends, File, Software, conf, filled
from .params import TUN, Eps, check_device, pool_field

FILE = "/openair-spgwu-tiny/etc/spgw_u.conf"


@attr.frozen
class SpgwU(Eps):
    """User plane of SGW and PGW."""

    ue_pool: str = pool_field()
    sgi_interface: str = text_field(fields.network_interface)
    sgi_nat: bool = switch_field(True)
    gateway_id: int = number_field(1, 255, 1)
    tun_device: str = text_field(fields.network_interface, TUN)

    @property
    def gateway(self) -> str:
        return self.gateway_name(self.gateway_id)

    def check(self, at: At) -> None:
        super().check(at)
        check_device(self.tun_device, self.sgi_interface, at)


def software(params: SpgwU, ends: Ends, **_: Any) -> Software:
    return Software(
        containers=(
            Container(
                "spgwu",
                words=("-c", FILE, "-o"),
                volumes=((conf("spgw_u.conf"), FILE),),
                entrypoint="/openair-spgwu-tiny/bin/oai_spgwu",
            ),
        ),
        files=(File(conf("spgw_u.conf"), filled("spgw_u.conf", params=params, ends=ends)),),
        checks=(
            Check("udp", "no PFCP on SXab yet", address=ends["sxab"].ip, port=8805),
            Check("udp", "no GTP-U on S1-U yet", address=ends["s1u"].ip, port=2152),
            pdn.device_check(params.tun_device, "SGi"),
        ),
        rules=pdn.rules(params.sgi_interface, params.tun_device, params.ue_pool, params.sgi_nat),
    )


FUNCTION = Function(
    "spgwu", SpgwU, software, for_ues=("tun-device", TUN), data_network="sgi_interface"
)
