"""Mobility Management Entity: Magma's MME with its SCTP process and Redis, as OAI runs it."""

from typing import Any

from vpnaas.vdu.programs import source

from . import diameter, hss
from .model import TLS, Check, Container, Ends, File, Raw, Software, block, conf
from .params import Mme

ETC = "/magma-mme/etc"
START = "/magma-mme/scripts/start-mme.sh"
STATISTICS_SECONDS = 10
STARTED = "MME app initialization complete"
"""Log line of Magma's MME when all its tasks run, at level DEBUG of MME_APP."""


def identity(params: Mme) -> str:
    """Return the Diameter identity of an MME."""
    return "{}.{}".format(params.mme_name, params.realm)


def configuration(params: Mme, ends: Ends, sgw: str) -> str:
    """Return mme.conf."""
    area = {"MCC": params.plmn.mcc, "MNC": params.plmn.mnc, "TAC": str(params.tac)}
    parts = ("SCTP", "GTPV1U", "SPGW_APP", "UDP", "S1AP", "NAS", "GTPV2C", "S11", "S6A", "UTIL")
    levels = dict.fromkeys((part + "_LOG_LEVEL" for part in parts), params.log_level.upper())
    return block(
        "MME",
        {
            "REALM": params.realm,
            "PID_DIRECTORY": "/var/run",
            "MAXENB": 64,
            "MAXUE": 4096,
            "RELATIVE_CAPACITY": 10,
            "EMERGENCY_ATTACH_SUPPORTED": "no",
            "UNAUTHENTICATED_IMSI_SUPPORTED": "no",
            "EPS_NETWORK_FEATURE_SUPPORT_IMS_VOICE_OVER_PS_SESSION_IN_S1": "no",
            "EPS_NETWORK_FEATURE_SUPPORT_EMERGENCY_BEARER_SERVICES_IN_S1_MODE": "no",
            "EPS_NETWORK_FEATURE_SUPPORT_LOCATION_SERVICES_VIA_EPC": "no",
            "EPS_NETWORK_FEATURE_SUPPORT_EXTENDED_SERVICE_REQUEST": "no",
            "STATS_TIMER_SEC": STATISTICS_SECONDS,
            "USE_STATELESS": "",
            "INTERTASK_INTERFACE": {"ITTI_QUEUE_SIZE": 2000000},
            "S6A": {
                "S6A_CONF": ETC + "/mme_fd.conf",
                "HSS_HOSTNAME": hss.identity(params.realm),
                "HSS_REALM": params.realm,
            },
            "S1AP": {"S1AP_OUTCOME_TIMER": 10},
            "GUMMEI_LIST": [
                {
                    "MCC": params.plmn.mcc,
                    "MNC": params.plmn.mnc,
                    "MME_GID": str(params.mme_group),
                    "MME_CODE": str(params.mme_code),
                }
            ],
            "TAI_LIST": [area],
            "TAC_LIST": [area],
            "CSFB": {
                "NON_EPS_SERVICE_CONTROL": "OFF",
                "CSFB_MCC": params.plmn.mcc,
                "CSFB_MNC": params.plmn.mnc,
                "LAC": "1",
            },
            "NAS": {
                "ORDERED_SUPPORTED_INTEGRITY_ALGORITHM_LIST": Raw('[ "EIA2", "EIA1", "EIA0" ]'),
                "ORDERED_SUPPORTED_CIPHERING_ALGORITHM_LIST": Raw('[ "EEA0", "EEA1", "EEA2" ]'),
                # Timers of TS 24.301 clause 10.2: minutes for T3402 and T3412, else seconds.
                "T3402": 1,
                "T3412": 54,
                "T3422": 6,
                "T3450": 6,
                "T3460": 6,
                "T3470": 6,
                "T3485": 8,
                "T3486": 8,
                "T3489": 4,
                "T3495": 8,
            },
            "SGS": {"TS6_1": 10, "TS8": 4, "TS9": 2, "TS10": 4, "TS13": 4},
            "NETWORK_INTERFACES": {
                "MME_INTERFACE_NAME_FOR_S1_MME": ends["s1c"].interface,
                "MME_IPV4_ADDRESS_FOR_S1_MME": str(ends["s1c"].address),
                "MME_INTERFACE_NAME_FOR_S11_MME": ends["s11"].interface,
                "MME_IPV4_ADDRESS_FOR_S11_MME": str(ends["s11"].address),
                "MME_PORT_FOR_S11_MME": 2123,
            },
            "LOGGING": dict(
                levels,
                OUTPUT="CONSOLE",
                THREAD_SAFE="no",
                COLOR="no",
                # For the line of the readiness check, and for the table of `show-connected`.
                MME_APP_LOG_LEVEL="DEBUG",
                SERVICE303_LOG_LEVEL="DEBUG",
                MSC_LOG_LEVEL="ERROR",
                ITTI_LOG_LEVEL="ERROR",
            ),
            "S-GW": {"SGW_IPV4_ADDRESS_FOR_S11": sgw},
        },
    )


def software(params: Mme, ends: Ends, **_: Any) -> Software:
    """Return the software; it connects to the related HSS and SPGW-C."""
    server, sgw = ends["s6a"].peer, ends["s11"].peer
    fd = diameter.configuration(
        identity(params),
        params.realm,
        ends["s6a"].ip,
        (diameter.MME_PORT, 5870),
        ETC + "/tls",
        peers=[(hss.identity(params.realm), server)],
    )
    return Software(
        containers=(
            Container(
                "redis",
                words=("redis-server", "--bind", "127.0.0.1", "--port", "6380"),
                privileged=False,
            ),
            Container(
                "mme",
                words=(START,),
                volumes=(
                    (conf("mme.conf"), ETC + "/mme.conf"),
                    (conf("mme_fd.conf"), ETC + "/mme_fd.conf"),
                    (TLS, ETC + "/tls"),
                    (conf("start-mme.sh"), START),
                ),
                # Else glog writes to a file in the container.
                environment=(("FEATURES", "mme_oai"), ("GLOG_logtostderr", "1")),
                entrypoint="/bin/bash",
                after=("redis",),
            ),
        ),
        files=(
            File(conf("mme.conf"), configuration(params, ends, sgw)),
            File(conf("mme_fd.conf"), fd),
            File(conf("start-mme.sh"), source("start_mme.sh", "oai"), 0o755),
        ),
        checks=(
            Check(
                "connected",
                "no S6a connection to the HSS at {}".format(server),
                address=server,
                port=diameter.PORT,
            ),
            Check("udp", "the MME does not listen on S11 yet", address=ends["s11"].ip, port=2123),
            Check("log", "the MME's tasks do not run yet", unit="mme", pattern=STARTED),
        ),
        common_name=identity(params),
    )
