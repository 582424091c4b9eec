"""Session Management Function of a slice (TS 23.501 clause 6.2.2)."""

from typing import Any

import attr
from vpnaas.base.declared import At, number_field, text_field

from . import sbi, values
from .function import Function
from .model import Check, Ends, File, Software, conf
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
    snssai = {"sst": params.snssai.sst, "sd": params.snssai.differentiator}
    nfs = {
        "smf": sbi.function(own.ip, sbi.PORT, own.interface, n4=(n4.interface, PFCP)),
        "amf": sbi.function(shared, sbi.PORT),
        "nrf": sbi.function(shared, sbi.NRF_PORT),
        "udm": sbi.function(shared, sbi.UDM_PORT),
    }
    smf = {
        # The UPF is not at the NRF. Either end may set up the association (TS 29.244 clause 6.2.6).
        "upfs": [{"host": peer, "port": PFCP} for peer in n4.peers],
        "ue_mtu": params.ue_mtu,
        "support_features": {
            # 5QI and AMBR of a session come from the subscriber's data at the UDM.
            "use_local_subscription_info": False,
            "use_local_pcc_rules": True,
        },
        "ue_dns": {"primary_ipv4": params.dns, "secondary_ipv4": params.second_dns},
        "smf_info": {
            "sNssaiSmfInfoList": [{"sNssai": snssai, "dnnSmfInfoList": [{"dnn": params.dnn}]}]
        },
    }
    more = {"smf": smf, "dnns": [sbi.data_network(params.dnn, params.ue_pool)]}
    return sbi.document(sbi.LOGGED[params.log_level], nfs, more)


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
