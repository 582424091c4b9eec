"""5G base station: OAI's gNB, its radio simulated over TCP (rfsim)."""

from typing import Any

import attr
from vpnaas.base import fields
from vpnaas.base.declared import number_field, text_field

from .enb import RADIO_PORT, numbers, rfsim_options
from .function import Function
from .model import LEVELS, Check, Container, Ends, File, Software, closed_ports, conf, filled
from .params import AccessNode

FILE = "/opt/oai-gnb/etc/gnb.conf"
BAND = 78
BLOCKS = 106
"""Resource blocks of 30 kHz: 40 MHz (TS 38.101-1 table 5.3.2-1)."""
NUMEROLOGY = 1
SSB = 621312
"""NR-ARFCN of the synchronisation signals (TS 38.104 clause 5.4.2.1)."""
SSB_HZ = 3000000000 + (SSB - 600000) * 15000
RADIO_OPTIONS = ("-E", "--rfsim")
"""Options of both gNB and nrUE: three quarters of the sampling rate, simulated radio."""


@attr.frozen
class Gnb(AccessNode):
    """5G base station with a simulated radio; UEs reach it by the network of `uu_interface`."""

    # OAI gives the gNB identity of the NG Setup 28 bits (TS 38.413 clause 9.3.1.6: 22 to 32).
    gnb_id: int = number_field(0, 0xFFFFFFF)
    uu_interface: str = text_field(fields.network_interface)


def configuration(params: Gnb, ends: Ends) -> str:
    slices = ("{{ sst = {}; sd = 0x{}; }}".format(s.sst, s.differentiator) for s in params.snssais)
    return filled(
        "gnb.conf",
        **numbers(params),
        params=params,
        ends=ends,
        gnb_id="0x{:x}".format(params.gnb_id),
        # 36 bits: first the gNB identity, then the cell identity (TS 38.413 clause 9.3.1.7).
        cell=params.gnb_id << 8 | 1,
        slices=", ".join(slices),
        band=BAND,
        blocks=BLOCKS,
        numerology=NUMEROLOGY,
        ssb=SSB,
        level=LEVELS[params.log_level],
    )


def software(params: Gnb, ends: Ends, **_: Any) -> Software:
    options = RADIO_OPTIONS + rfsim_options(params.registry.version("gnb"), "server")
    options += ("--log_config.global_log_options", "level,nocolor,time")
    return Software(
        containers=(
            Container(
                "gnb",
                words=("-O", FILE) + options,
                volumes=((conf("gnb.conf"), FILE),),
                entrypoint="/opt/oai-gnb/bin/nr-softmodem",
            ),
        ),
        files=(File(conf("gnb.conf"), configuration(params, ends)),),
        checks=(
            Check(
                "log",
                "the AMF at {} has not accepted the gNB yet".format(ends["n2"].peer),
                unit="gnb",
                pattern="Received NGSetupResponse",
                # It does not set up a lost association again.
                lost="Received unsuccessful result for SCTP association",
            ),
            Check("udp", "no GTP-U on N3 yet", address=ends["n3"].ip, port=2152),
        ),
        rules=closed_ports((RADIO_PORT,), params.uu_interface),
    )


FUNCTION = Function("gnb", Gnb, software)
