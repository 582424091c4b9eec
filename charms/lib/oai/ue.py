"""User equipment: OAI's LTE UE, its radio simulated over TCP to the eNB (rfsim)."""

from typing import Any

import attr
from vpnaas.base.declared import At, text_field
from vpnaas.vdu.programs import source

from . import values
from .enb import MHZ, rfsim_options
from .function import Function
from .model import LEVELS, Check, Container, File, Part, Software, conf, filled
from .params import Cell, Secrets
from .pdn import DEVICE, DEVICES

FILE = "/opt/oai-lte-ue/etc/ue_usim.conf"
START = "/opt/oai-lte-ue/bin/start-ue.sh"


@attr.frozen
class Ue(Cell):
    """User equipment with a simulated radio."""

    imsi: str = text_field(values.imsi)
    msisdn: str = text_field(values.msisdn)

    def check(self, at: At) -> None:
        values.imsi_of(at("imsi"), self.imsi, self.plmn)


def configuration(params: Ue, keys: Secrets) -> str:
    msin = params.imsi[len(str(params.plmn)) :]
    return filled("ue_usim.conf", params=params, keys=keys, msin=msin)


def software(params: Ue, station: Part, keys: Secrets, **_: Any) -> Software:
    options = ("--rfsim",) + rfsim_options(params.registry.version("ue"), station.address)
    options += ("-C", str(params.downlink_mhz * MHZ), "-r", str(params.resource_blocks))
    options += ("--ue-rxgain", "140", "--ue-txgain", "120")
    options += ("--log_config.global_log_level", LEVELS[params.log_level])
    options += ("--log_config.global_log_options", "level,nocolor,time")
    return Software(
        containers=(
            Container(
                "ue",
                words=(START,) + options,
                volumes=((conf("ue_usim.conf"), FILE), (conf("start-ue.sh"), START)),
                environment=(("RFSIMULATOR", station.address),),
                entrypoint="/bin/bash",
            ),
        ),
        files=(
            File(conf("ue_usim.conf"), configuration(params, keys)),
            File(conf("start-ue.sh"), source("start_ue.sh", "oai"), 0o755),
        ),
        checks=(
            Check(
                "interface",
                "the UE is not attached: {} has no address".format(DEVICE),
                address="any",
                unit=DEVICE,
            ),
        ),
    )


FUNCTION = Function("ue", Ue, software, secrets=True, station=("eNB", "uu"), devices=(DEVICES,))
