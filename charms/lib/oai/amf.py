"""Core functions that 5G slices share (TS 23.501): AMF, NRF, AUSF, UDM, UDR and their database.

All are on one VDU. AUSF, UDR and database serve this VDU only, so they listen on loopback. There is
no NSSF: each S-NSSAI has one SMF, which the AMF finds at the NRF.
"""

import json
from typing import Any, Dict, List, Tuple

import attr
from vpnaas.base.declared import At, number_field, text_field, value_field
from vpnaas.params.qos import TABLE
from vpnaas.vdu.programs import source

from . import fill, nssai, provision_5g, sbi, values
from .function import Function
from .logs import SILENCE, STATISTICS_SECONDS
from .model import FILL, LEVELS, LIBRARY, Check, Container, Ends, File, Software, conf, filled
from .params import MAX_SUBSCRIBERS, Common, Secrets, check_range, sessions_field

STATEMENTS = LIBRARY + "/provision_5g.py"
SCHEMA = LIBRARY + "/" + provision_5g.SCHEMA
PROVISION_FILE = conf("udr-provision.json")
DATA = "/var/lib/osm-vpnaas/mysql"
LOOPBACK = "127.0.0.1"
STARTED = "gNBs' [Ii]nformation"
"""The table that OAI's AMF logs regularly once it runs, at level info."""


@attr.frozen
class Amf(Common):
    """AMF, NRF, AUSF, UDM, UDR and database, which slices share, with their first subscribers.

    Region, set and pointer make the AMF's GUAMI (TS 23.003 clause 2.10.1). Every subscriber of the
    range may use every slice.
    """

    tac: int = value_field(values.tac_5g)
    amf_region: int = number_field(0, 255, 1)
    amf_set: int = number_field(0, 1023, 1)
    amf_pointer: int = number_field(0, 63, 1)
    slices: str = sessions_field(3)
    first_imsi: str = text_field(values.imsi)
    subscribers: int = number_field(0, MAX_SUBSCRIBERS)
    ambr_mbps: int = number_field(1, 4000000, 1000)

    def check(self, at: At) -> None:
        check_range(self.plmn, self.first_imsi, self.subscribers, at)

    @property
    def sessions(self) -> Tuple[nssai.Session, ...]:
        """Return the slices with their data networks and 5QIs."""
        return nssai.parse("slices", self.slices, 3)

    @property
    def served(self) -> Tuple[nssai.Session, ...]:
        return tuple(attr.evolve(one, five_qi=0) for one in self.sessions)


def sessions(params: Amf) -> List[Dict[str, Any]]:
    """Return the slices in the form of `provision_5g`."""
    return [
        {
            "sst": one.slice.sst,
            "sd": one.slice.differentiator,
            "dnn": one.dnn,
            "five_qi": one.five_qi,
            "priority": TABLE[one.five_qi].priority,
        }
        for one in params.sessions
    ]


def files(params: Amf, ends: Ends, database: str) -> Tuple[File, ...]:
    """Return the configuration of each function; `database` is the password of the database."""
    offered = dict.fromkeys(one.slice for one in params.sessions)
    amf = filled(
        "amf.yaml",
        statistics_seconds=STATISTICS_SECONDS,
        params=params,
        region="{:02X}".format(params.amf_region),
        set="{:03X}".format(params.amf_set),
        pointer="{:02X}".format(params.amf_pointer),
        slices=[{"sst": one.sst, "sd": one.differentiator} for one in offered],
    )
    udr = filled("udr.yaml", host=LOOPBACK, rows=provision_5g, password=database)
    level = LEVELS[params.log_level]
    return (
        _file("amf", sbi.LOGGED[params.log_level], ends, amf),
        _file("ausf", level, ends),
        _file("nrf", level, ends),
        _file("udm", level, ends),
        _file("udr", level, ends, udr),
    )


def _file(name: str, level: str, ends: Ends, more: str = "") -> File:
    common = filled("core_5g.yaml", ends=ends, sbi=sbi, level=level, loopback=LOOPBACK)
    return File(conf(name + ".yaml"), common + more)


def software(params: Amf, ends: Ends, keys: Secrets, **_: Any) -> Software:
    address = ends["sbi"].ip
    rows = {
        "first_imsi": params.first_imsi,
        "subscribers": params.subscribers,
        "plmn": str(params.plmn),
        "key": keys.subscriber_key,
        "opc": keys.opc,
        "sessions": sessions(params),
        "ambr_mbps": params.ambr_mbps,
    }
    registry = sbi.wait_for(address, sbi.NRF_PORT)
    return Software(
        containers=(
            Container(
                "mysql",
                words=("--bind-address=" + LOOPBACK, "--mysqlx=OFF"),
                volumes=((DATA, "/var/lib/mysql"),),
                environment=(
                    ("MYSQL_DATABASE", provision_5g.DATABASE),
                    ("MYSQL_USER", provision_5g.USER),
                    ("MYSQL_PASSWORD", keys.database),
                    ("MYSQL_ROOT_PASSWORD", keys.database),
                ),
                privileged=False,
            ),
            sbi.container("nrf", privileged=False),
            sbi.container(
                "udr",
                privileged=False,
                after=("mysql", "nrf"),
                before_start=(FILL, STATEMENTS, PROVISION_FILE, DATA),
                start_seconds=fill.DEADLINE + 60,
            ),
            sbi.container("udm", privileged=False, after=("nrf",), before_start=registry),
            sbi.container("ausf", privileged=False, after=("nrf",), before_start=registry),
            sbi.container("amf", privileged=False, after=("nrf",), before_start=registry),
        ),
        files=files(params, ends, keys.database)
        + (
            File(PROVISION_FILE, json.dumps(rows, indent=1, sort_keys=True) + "\n"),
            File(FILL, source("fill.py", "oai"), 0o755),
            File(STATEMENTS, source("provision_5g.py", "oai")),
            File(SCHEMA, source(provision_5g.SCHEMA, "oai")),
            sbi.WAIT,
        ),
        checks=(
            Check("tcp", "the NRF does not listen yet", address, sbi.NRF_PORT),
            Check("tcp", "the UDM does not listen yet", address, sbi.UDM_PORT),
            Check("tcp", "the AUSF does not listen yet", LOOPBACK, sbi.AUSF_PORT),
            Check("tcp", "the UDR does not listen yet", LOOPBACK, sbi.UDR_PORT),
            Check("tcp", "the AMF does not listen on SBI yet", address, sbi.PORT),
            Check(
                "log",
                "the AMF does not run yet, or hangs",
                unit="amf",
                pattern=STARTED,
                silence=SILENCE,
            ),
        ),
    )


FUNCTION = Function(
    "amf",
    Amf,
    software,
    containers=("mysql", "nrf", "udr", "udm", "ausf", "amf"),
    secrets=True,
    first_address=True,
)
