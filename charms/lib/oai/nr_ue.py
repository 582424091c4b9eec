"""5G user equipment: OAI's nrUE, its radio simulated over TCP to the gNB (rfsim)."""

from typing import Any, Dict, List, Tuple

from vpnaas.vdu.steps import Results, Step

from . import pdn
from .enb import rfsim_options
from .function import Function
from .gnb import BLOCKS, NUMEROLOGY, RADIO_OPTIONS, SSB_HZ
from .model import LEVELS, Check, Container, File, Part, Software, conf, filled
from .params import Equipment, Secrets
from .pdn import DEVICE, DEVICES

FILE = "/opt/oai-nr-ue/etc/nr-ue.conf"


def device(number: int) -> str:
    """Return the tun device of a PDU session, by session number from 1."""
    return DEVICE if number == 1 else "{}p{}".format(DEVICE, number)


def configuration(params: Equipment, keys: Secrets) -> str:
    form = '{{ id = {}; dnn = "{}"; nssai_sst = {}; nssai_sd = 0x{}; type = "IPV4"; }}'
    sessions = [
        form.format(number, one.dnn, one.slice.sst, one.slice.differentiator)
        for number, one in enumerate(params.requested, start=1)
    ]
    return filled(
        "nr-ue.conf",
        params=params,
        keys=keys,
        mnc_length=len(params.plmn.mnc),
        sessions=",\n        ".join(sessions),
    )


def software(params: Equipment, station: Part, keys: Secrets, **_: Any) -> Software:
    level = LEVELS[params.log_level]
    options = RADIO_OPTIONS + rfsim_options(params.registry.version("nr-ue"), station.address)
    options += ("-r", str(BLOCKS), "--numerology", str(NUMEROLOGY), "-C", str(SSB_HZ))
    options += ("--log_config.global_log_level", level)
    options += ("--log_config.global_log_options", "level,nocolor,time")
    return Software(
        containers=(
            Container(
                "nr-ue",
                words=("-O", FILE) + options,
                volumes=((conf("nr-ue.conf"), FILE),),
                entrypoint="/opt/oai-nr-ue/bin/nr-uesoftmodem",
            ),
        ),
        files=(File(conf("nr-ue.conf"), configuration(params, keys)),),
        checks=tuple(
            Check(
                "interface",
                "no PDU session in slice {} yet: {} has no address".format(
                    one.slice, device(number)
                ),
                address="any",
                unit=device(number),
            )
            for number, one in enumerate(params.requested, start=1)
        ),
    )


def devices_steps(count: int) -> List[Step]:
    return [pdn.address_step(device(n), device(n)) for n in range(1, count + 1)]


def devices(results: Results, count: int) -> Dict[int, Tuple[str, str]]:
    """Return name and address of the device of each PDU session, by session number from 1."""
    names = {n: device(n) for n in range(1, count + 1)}
    return {n: (name, pdn.address(results, name)) for n, name in names.items()}


FUNCTION = Function(
    "nr-ue", Equipment, software, secrets=True, station=("gNB", "uu"), devices=(DEVICES,)
)
