"""User plane of SGW and PGW: a switch in user space between GTP-U and a tun device."""

from typing import Any

from . import pdn
from .model import Check, Container, Ends, File, Software, block, conf
from .params import SpgwU
from .spgwc import gateway_name

FILE = "/openair-spgwu-tiny/etc/spgw_u.conf"


def _interface(name: str, address: str, priority: int) -> object:
    return {
        "INTERFACE_NAME": name,
        "IPV4_ADDRESS": address,
        "SCHED_PARAMS": {
            "SCHED_POLICY": "SCHED_FIFO",
            "SCHED_PRIORITY": priority,
            "THREAD_POOL_SIZE": 1,
        },
    }


def configuration(params: SpgwU, ends: Ends, control: str) -> str:
    """Return spgw_u.conf."""
    s1u, sxab = ends["s1u"], ends["sxab"]
    text = block(
        "SPGW-U",
        {
            "FQDN": gateway_name(params),
            "INSTANCE": 0,
            "PID_DIRECTORY": "/var/run",
            # spdlog's levels have the same names; without one the SPGW-U logs nothing.
            "LOG_LEVEL": params.log_level,
            "INTERFACES": {
                "S1U_S12_S4_UP": _interface(s1u.interface, str(s1u.address), 80),
                "SX": _interface(sxab.interface, str(sxab.address), 81),
                "SGI": _interface(params.sgi_interface, "read", 80),
            },
            # The VDU does NAT (`rules`): the container would add a rule at each start.
            "SNAT": "no",
            "PDN_NETWORK_LIST": [{"NETWORK_IPV4": params.ue_pool}],
            "SPGW-C_LIST": [{"IPV4_ADDRESS": control}],
            "NON_STANDART_FEATURES": {"BYPASS_UL_PFCP_RULES": "no"},
            "SUPPORT_5G_FEATURES": {
                "ENABLE_5G_FEATURES": "no",
                "REGISTER_NRF": "no",
                "USE_FQDN_NRF": "no",
                "NRF": {
                    "IPV4_ADDRESS": "127.0.0.1",
                    "PORT": 80,
                    "API_VERSION": "v1",
                    "FQDN": "none",
                },
            },
        },
    )
    return text.replace("SPGW-U :", "SPGW-U =", 1)


def software(params: SpgwU, ends: Ends, **_: Any) -> Software:
    """Return the software; it connects to the related SPGW-C."""
    control = ends["sxab"].peer
    return Software(
        containers=(
            Container(
                "spgwu",
                words=("-c", FILE, "-o"),
                volumes=((conf("spgw_u.conf"), FILE),),
                entrypoint="/openair-spgwu-tiny/bin/oai_spgwu",
            ),
        ),
        files=(File(conf("spgw_u.conf"), configuration(params, ends, control)),),
        checks=(
            Check("udp", "no PFCP on SXab yet", address=ends["sxab"].ip, port=8805),
            Check("udp", "no GTP-U on S1-U yet", address=ends["s1u"].ip, port=2152),
            pdn.device_check(params.tun_device, "SGi"),
        ),
        rules=pdn.rules(params.sgi_interface, params.tun_device, params.ue_pool, params.sgi_nat),
    )
