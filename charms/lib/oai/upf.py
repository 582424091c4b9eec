"""User Plane Function of a slice: a switch in user space between GTP-U and a tun device."""

from typing import Any

import attr
from vpnaas.base import fields
from vpnaas.base.declared import At, switch_field, text_field

from . import pdn, sbi
from .function import Function
from .model import LEVELS, Check, Ends, File, Software, conf, filled
from .params import TUN, SliceOfDnn, check_device


@attr.frozen
class Upf(SliceOfDnn):
    """User Plane Function of a slice."""

    n6_interface: str = text_field(fields.network_interface)
    n6_nat: bool = switch_field(True)
    tun_device: str = text_field(fields.network_interface, TUN)

    def check(self, at: At) -> None:
        super().check(at)
        check_device(self.tun_device, self.n6_interface, at)


def software(params: Upf, ends: Ends, **_: Any) -> Software:
    level = LEVELS[params.log_level]
    configuration = filled("upf.yaml", params=params, ends=ends, sbi=sbi, level=level)
    return Software(
        containers=(sbi.container("upf"),),
        files=(File(conf("upf.yaml"), configuration),),
        checks=(
            Check("udp", "no PFCP on N4 yet", address=ends["n4"].ip, port=8805),
            Check("udp", "no GTP-U on N3 yet", address=ends["n3"].ip, port=2152),
            pdn.device_check(params.tun_device, "N6"),
        ),
        rules=pdn.rules(params.n6_interface, params.tun_device, params.ue_pool, params.n6_nat),
    )


FUNCTION = Function(
    "upf",
    Upf,
    software,
    first_address=True,
    for_ues=("tun-device", TUN),
    data_network="n6_interface",
)
