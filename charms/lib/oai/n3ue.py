"""5G user equipment in an untrusted Wi-Fi: free5GC's N3IWUE."""

import re
from typing import Any, Dict, List, Tuple

import attr
from vpnaas.base import fields, x509
from vpnaas.base.declared import At, text_field
from vpnaas.base.errors import InputError
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import Results, Step, run

from .function import Function
from .model import LEVELS, Check, Container, File, Part, Software, conf, filled
from .params import Equipment, Secrets

HOME = "/n3iwue"
START = HOME + "/start.sh"
SIGNALLING, TUNNELS = "ipsec", "gretun"
"""Prefixes of the names of its devices: for IPsec, and for GRE of PDU sessions."""
FIRST_ID = 1
"""if_id of the interface for signalling; those of PDU sessions follow."""
_ADDRESS = re.compile(
    r"^\d+: (gretun-id-([0-9]{1,9})-\d+)(?:@\S+)?\s+inet ([0-9.]+)[/ ]", re.MULTILINE
)


@attr.frozen
class N3ue(Equipment):
    """5G user equipment in an untrusted Wi-Fi, which is the network of `wifi_interface`."""

    wifi_interface: str = text_field(fields.network_interface)

    def check(self, at: At) -> None:
        super().check(at)
        for one in self.requested:
            if one.slice.sst > 15:
                what = "slice {}: the UE's configuration has one digit for SST".format(one.slice)
                raise InputError(at("sessions"), what, "SST 1 to 15")


def configuration(params: N3ue, own: str, n3iwf: Part, keys: Secrets) -> str:
    """Return n3ue.yaml; JSON is YAML. `own` is our address in the Wi-Fi."""
    sessions = [
        {"DNN": s.dnn, "SNSSAI": {"SST": "{:x}".format(s.slice.sst), "SD": s.slice.differentiator}}
        for s in params.requested
    ]
    return filled(
        "n3ue.yaml",
        params=params,
        n3iwf=n3iwf,
        keys=keys,
        msin=params.imsi[len(str(params.plmn)) :],
        imsi=int(params.imsi),
        spi=0x100 + int(params.imsi) % 10**9,
        own=own,
        first_id=FIRST_ID,
        signalling=SIGNALLING,
        tunnels=TUNNELS,
        sessions=sessions,
        level=LEVELS[params.log_level],
    )


def software(params: N3ue, station: Part, keys: Secrets, own: str, **_: Any) -> Software:
    root = x509.armour(station.authority, x509.CERTIFICATE)
    return Software(
        containers=(
            Container(
                "n3iwue",
                words=(START,),
                volumes=(
                    (conf("n3ue.yaml"), HOME + "/n3ue.yaml"),
                    (conf("start-n3iwue.sh"), START),
                    (conf("n3iwf-ca.pem"), HOME + "/cert/ca.pem"),
                ),
                entrypoint="/bin/sh",
                workdir=HOME,
                devices=(SIGNALLING + "-", TUNNELS + "-"),
            ),
        ),
        files=(
            File(conf("n3ue.yaml"), configuration(params, own, station, keys)),
            File(conf("start-n3iwue.sh"), source("start_n3iwue.sh", "oai"), 0o755),
            # free5GC's UE verifies no certificate; others do (TS 33.501 clause 7.2.1).
            File(conf("n3iwf-ca.pem"), root),
        ),
        checks=tuple(
            Check(
                "interface",
                "no PDU session in slice {} yet".format(one.slice),
                address="any",
                unit="{}-id-{}-*".format(TUNNELS, FIRST_ID + number),
            )
            for number, one in enumerate(params.requested, start=1)
        ),
    )


FUNCTION = Function(
    "n3ue",
    N3ue,
    software,
    containers=("n3iwue",),
    secrets=True,
    station=("N3IWF", "nwu"),
    kernel=("xfrm_interface", "ip_gre"),
    devices=(SIGNALLING + "-", TUNNELS + "-"),
)


def devices_steps(count: int) -> List[Step]:
    return [run("nf/devices", "ip", "-4", "-o", "address", "show")]


def devices(results: Results, count: int) -> Dict[int, Tuple[str, str]]:
    """Return name and address of the device of each PDU session, by session number from 1."""
    rows = _ADDRESS.findall(results.output("nf/devices"))
    return {int(number) - FIRST_ID: (name, address) for name, number, address in rows}
