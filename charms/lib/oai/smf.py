"""Session Management Function of a slice (TS 23.501 clause 6.2.2)."""

from typing import Any

import attr
from vpnaas.base.declared import At, number_field, text_field

from . import sbi, values
from .function import Function
from .model import Check, Ends, File, Software, conf, filled
from .params import SliceOfDnn, check_servers

PFCP = 8805
"""UDP port of N4 (TS 29.244 clause 4.2.2)."""


@attr.frozen
class Smf(SliceOfDnn):
    """Session Management Function of a slice."""

    dns: str = text_field(values.ipv4)
    second_dns: str = text_field(values.ipv4)
    ue_mtu: int = number_field(576, 9000)

    def check(self, at: At) -> None:
        check_servers((self.dns, self.second_dns), self.ue_pool, at)


def configuration(params: Smf, ends: Ends) -> str:
    """Return smf.yaml; NRF, AMF and UDM have the address of the other end of SBI."""
    return filled(
        "smf.yaml",
        params=params,
        ends=ends,
        sbi=sbi,
        level=sbi.LOGGED[params.log_level],
        pfcp=PFCP,
        upfs=[{"host": peer, "port": PFCP} for peer in ends["n4"].peers],
    )


def software(params: Smf, ends: Ends, **_: Any) -> Software:
    registry = sbi.wait_for(ends["sbi"].peer, sbi.NRF_PORT)
    return Software(
        containers=(sbi.container("smf", privileged=False, before_start=registry),),
        files=(File(conf("smf.yaml"), configuration(params, ends)), sbi.WAIT),
        checks=(
            Check("tcp", "the SMF does not listen on SBI yet", ends["sbi"].ip, sbi.PORT),
            Check("udp", "no PFCP on N4 yet", ends["n4"].ip, PFCP),
        ),
    )


FUNCTION = Function("smf", Smf, software, first_address=True)
