"""Base station: OAI's eNB, its radio simulated over TCP (rfsim)."""

import re
from typing import Any, Dict, Tuple

import attr
from vpnaas.base import fields
from vpnaas.base.declared import number_field, text_field, value_field

from . import values
from .function import Function
from .model import LEVELS, Check, Container, Ends, File, Software, closed_ports, conf, filled
from .params import Cell, Common

FILE = "/opt/oai-enb/etc/enb.conf"
MHZ = 1000000
RADIO_PORT = 4043
"""TCP port of OAI's radio simulator. It listens at all addresses, and no option changes that."""
WEEK = re.compile(r"\A(\d{4})\.w(\d{2})")
"""Tags of OAI's eNB and UE images: year and week."""


@attr.frozen
class Enb(Cell):
    """Base station with a simulated radio; UEs reach it by the network of `uu_interface` only."""

    tac: int = value_field(values.tac)
    # A macro eNB has 20 bits (TS 36.413 clause 9.2.1.37).
    enb_id: int = number_field(0, 0xFFFFF)
    uu_interface: str = text_field(fields.network_interface)


def rfsim_options(version: str, server: str) -> Tuple[str, ...]:
    """Return the options with the server of OAI's radio simulator; "server" for the server itself.

    Images from before June 2023 read the environment variable RFSIMULATOR. Those from before 2025
    have one option, newer ones an option per simulator. A version that is not a week counts as new.
    """
    week = WEEK.match(version)
    age = (int(week.group(1)), int(week.group(2))) if week else (9999, 0)
    if age < (2023, 22):
        return ()
    section = "rfsimulator" if age < (2025, 1) else "rfsimulator.[0]"
    return ("--{}.serveraddr".format(section), server)


def configuration(params: Enb, ends: Ends) -> str:
    return filled(
        "enb.conf",
        **numbers(params),
        params=params,
        ends=ends,
        enb_id="0x{:x}".format(params.enb_id),
        downlink_hz=params.downlink_mhz * MHZ,
        level=LEVELS[params.log_level],
    )


def numbers(params: Common) -> Dict[str, int]:
    """Return a network's identity as libconfig needs it: it reads a leading zero as octal."""
    plmn = params.plmn
    return {"mcc": int(plmn.mcc), "mnc": int(plmn.mnc), "mnc_length": len(plmn.mnc)}


def software(params: Enb, ends: Ends, **_: Any) -> Software:
    options = ("--rfsim",) + rfsim_options(params.registry.version("enb"), "server")
    options += ("--log_config.global_log_options", "level,nocolor,time")
    return Software(
        containers=(
            Container(
                "enb",
                words=("-O", FILE) + options,
                volumes=((conf("enb.conf"), FILE),),
                environment=(("RFSIMULATOR", "enb"),),
                entrypoint="/opt/oai-enb/bin/lte-softmodem",
            ),
        ),
        files=(File(conf("enb.conf"), configuration(params, ends)),),
        checks=(
            Check(
                "log",
                "the MME at {} has not accepted the eNB yet".format(ends["s1c"].peer),
                unit="enb",
                pattern=r"S1AP_REGISTER_ENB_CNF: associated MME [1-9]",
                # It does not set up a lost association again.
                lost="S1AP_DEREGISTERED_ENB_IND",
            ),
            Check("udp", "no GTP-U on S1-U yet", address=ends["s1u"].ip, port=2152),
        ),
        rules=closed_ports((RADIO_PORT,), params.uu_interface),
    )


FUNCTION = Function("enb", Enb, software)
