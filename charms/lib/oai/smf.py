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


def configuration(params: Smf, ends: Ends, shared: str) -> str:
    """Return smf.yaml; `shared` is the address of NRF, AMF and UDM on SBI."""
    own, n4 = ends["sbi"], ends["n4"]
    return filled(
        "smf.yaml",
        level=sbi.LOGGED[params.log_level],
        own=own.ip,
        interface=own.interface,
        n4_interface=n4.interface,
        shared=shared,
        port=sbi.PORT,
        nrf_port=sbi.NRF_PORT,
        udm_port=sbi.UDM_PORT,
        pfcp=PFCP,
        upfs=[{"host": peer, "port": PFCP} for peer in n4.peers],
        ue_mtu=params.ue_mtu,
        dns=params.dns,
        second_dns=params.second_dns,
        sst=params.snssai.sst,
        sd=params.snssai.differentiator,
        dnn=params.dnn,
        ue_pool=params.ue_pool,
    )


def software(params: Smf, ends: Ends, **_: Any) -> Software:
    shared = ends["sbi"].peer
    return Software(
        containers=(
            sbi.container("smf", privileged=False, before_start=sbi.wait_for(shared, sbi.NRF_PORT)),
        ),
        files=(File(conf("smf.yaml"), configuration(params, ends, shared)), sbi.WAIT),
        checks=(
            Check("tcp", "the SMF does not listen on SBI yet", ends["sbi"].ip, sbi.PORT),
            Check("udp", "no PFCP on N4 yet", ends["n4"].ip, PFCP),
        ),
    )


FUNCTION = Function("smf", Smf, software, first_address=True)
