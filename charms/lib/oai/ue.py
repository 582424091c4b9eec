"""User equipment: OAI's LTE UE, its radio simulated over TCP to the eNB (rfsim)."""

from typing import Any

from vpnaas.vdu.programs import source

from .enb import MHZ, rfsim_options
from .model import LEVELS, Check, Container, File, Raw, Software, block, conf
from .params import Secrets, Ue
from .part import Part
from .pdn import DEVICE

FILE = "/opt/oai-lte-ue/etc/ue_usim.conf"
START = "/opt/oai-lte-ue/bin/start-ue.sh"
IMEI = "356113022094149"
"""A number from the test range of OAI's own examples."""


def configuration(params: Ue, keys: Secrets) -> str:
    """Return ue_usim.conf."""
    plmn = str(params.plmn)
    names = {
        "FULLNAME": "osm-vpnaas",
        "SHORTNAME": "osm-vpnaas",
        "MNC": params.plmn.mnc,
        "MCC": params.plmn.mcc,
    }
    empty = Raw("()")
    return block("PLMN", {"PLMN0": names}) + block(
        "UE0",
        {
            "USER": {
                "IMEI": IMEI,
                "MANUFACTURER": "OpenAirInterface",
                "MODEL": "LTE UE",
                "PIN": "0000",
            },
            "SIM": {
                "MSIN": params.imsi[len(plmn) :],
                "USIM_API_K": keys.subscriber_key,
                "OPC": keys.opc,
                "MSISDN": params.msisdn,
            },
            "HPLMN": plmn,
            "UCPLMN_LIST": empty,
            "OPLMN_LIST": Raw('("{}")'.format(plmn)),
            "OCPLMN_LIST": empty,
            "FPLMN_LIST": empty,
            "EHPLMN_LIST": empty,
        },
    )


def software(params: Ue, station: Part, keys: Secrets, **_: Any) -> Software:
    """Return the software; it connects to the related eNB."""
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
