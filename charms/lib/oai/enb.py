"""Base station: OAI's eNB, its radio simulated over TCP (rfsim)."""

import re
from typing import Any, Dict, Tuple

from .model import LEVELS, Check, Container, Ends, File, Raw, Software, block, closed_ports, conf
from .params import Enb

FILE = "/opt/oai-enb/etc/enb.conf"
NAME = "osm-vpnaas"
UPLINK_OFFSET_HZ = -120000000
"""Duplex distance of band 7 (TS 36.101 table 5.7.3-1)."""
MHZ = 1000000
RADIO_PORT = 4043
"""TCP port of OAI's radio simulator. It listens at all addresses, and no option changes that."""
WEEK = re.compile(r"\A(\d{4})\.w(\d{2})")
"""Tags of OAI's eNB and UE images: year and week."""


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


def carrier(params: Enb) -> Dict[str, Any]:
    """Return the cell; except frequency and bandwidth, OAI tests its simulator with these."""
    return {
        "node_function": "3GPP_eNODEB",
        "node_timing": "synch_to_ext_device",
        "node_synch_ref": 0,
        "frame_type": "FDD",
        "tdd_config": 3,
        "tdd_config_s": 0,
        "prefix_type": "NORMAL",
        "eutra_band": 7,
        "downlink_frequency": Raw("{}L".format(params.downlink_mhz * MHZ)),
        "uplink_frequency_offset": UPLINK_OFFSET_HZ,
        "Nid_cell": 10,
        "N_RB_DL": params.resource_blocks,
        "Nid_cell_mbsfn": 0,
        "nb_antenna_ports": 1,
        "nb_antennas_tx": 1,
        "nb_antennas_rx": 1,
        "tx_gain": 90,
        "rx_gain": 115,
        "pbch_repetition": "FALSE",
        "prach_root": 0,
        "prach_config_index": 0,
        "prach_high_speed": "DISABLE",
        "prach_zero_correlation": 1,
        "prach_freq_offset": 2,
        "pucch_delta_shift": 1,
        "pucch_nRB_CQI": 0,
        "pucch_nCS_AN": 0,
        "pucch_n1_AN": 0,
        "pdsch_referenceSignalPower": -29,
        "pdsch_p_b": 0,
        "pusch_n_SB": 1,
        "pusch_enable64QAM": "DISABLE",
        "pusch_hoppingMode": "interSubFrame",
        "pusch_hoppingOffset": 0,
        "pusch_groupHoppingEnabled": "ENABLE",
        "pusch_groupAssignment": 0,
        "pusch_sequenceHoppingEnabled": "DISABLE",
        "pusch_nDMRS1": 1,
        "phich_duration": "NORMAL",
        "phich_resource": "ONESIXTH",
        "srs_enable": "DISABLE",
        "pusch_p0_Nominal": -96,
        "pusch_alpha": "AL1",
        "pucch_p0_Nominal": -96,
        "msg3_delta_Preamble": 6,
        "pucch_deltaF_Format1": "deltaF2",
        "pucch_deltaF_Format1b": "deltaF3",
        "pucch_deltaF_Format2": "deltaF0",
        "pucch_deltaF_Format2a": "deltaF0",
        "pucch_deltaF_Format2b": "deltaF0",
        "rach_numberOfRA_Preambles": 64,
        "rach_preamblesGroupAConfig": "DISABLE",
        "rach_powerRampingStep": 4,
        "rach_preambleInitialReceivedTargetPower": -108,
        "rach_preambleTransMax": 10,
        "rach_raResponseWindowSize": 10,
        "rach_macContentionResolutionTimer": 48,
        "rach_maxHARQ_Msg3Tx": 4,
        "pcch_default_PagingCycle": 128,
        "pcch_nB": "oneT",
        "bcch_modificationPeriodCoeff": 2,
        "ue_TimersAndConstants_t300": 1000,
        "ue_TimersAndConstants_t301": 1000,
        "ue_TimersAndConstants_t310": 1000,
        "ue_TimersAndConstants_t311": 10000,
        "ue_TimersAndConstants_n310": 20,
        "ue_TimersAndConstants_n311": 1,
        "ue_TransmissionMode": 1,
    }


def configuration(params: Enb, ends: Ends, mme: str) -> str:
    """Return enb.conf."""
    s1c, s1u = ends["s1c"], ends["s1u"]
    # Numbers without leading zeros, and a length: libconfig reads a leading zero as octal.
    plmn = {
        "mcc": int(params.plmn.mcc),
        "mnc": int(params.plmn.mnc),
        "mnc_length": len(params.plmn.mnc),
    }
    station = {
        "eNB_ID": Raw("0x{:x}".format(params.enb_id)),
        "cell_type": "CELL_MACRO_ENB",
        "eNB_name": NAME,
        "tracking_area_code": params.tac,
        "plmn_list": [plmn],
        "tr_s_preference": "local_mac",
        "rrc_inactivity_threshold": 0,
        "component_carriers": [carrier(params)],
        "srb1_parameters": {
            "timer_poll_retransmit": 80,
            "timer_reordering": 35,
            "timer_status_prohibit": 0,
            "poll_pdu": 4,
            "poll_byte": 99999,
            "max_retx_threshold": 4,
        },
        "SCTP": {"SCTP_INSTREAMS": 2, "SCTP_OUTSTREAMS": 2},
        "enable_measurement_reports": "no",
        "mme_ip_address": [
            {"ipv4": mme, "ipv6": "::", "port": 36412, "active": "yes", "preference": "ipv4"}
        ],
        "enable_x2": "no",
        "t_reloc_prep": 1000,
        "tx2_reloc_overall": 2000,
        "t_dc_prep": 1000,
        "t_dc_overall": 2000,
        "NETWORK_INTERFACES": {
            "ENB_INTERFACE_NAME_FOR_S1_MME": s1c.interface,
            "ENB_IPV4_ADDRESS_FOR_S1_MME": s1c.ip,
            "ENB_INTERFACE_NAME_FOR_S1U": s1u.interface,
            "ENB_IPV4_ADDRESS_FOR_S1U": s1u.ip,
            "ENB_PORT_FOR_S1U": 2152,
            "ENB_IPV4_ADDRESS_FOR_X2C": s1c.ip,
            "ENB_PORT_FOR_X2C": 36422,
        },
    }
    lines = [
        'Active_eNBs = ( "{}" );'.format(NAME),
        'Asn1_verbosity = "none";',
        libconfig_list("eNBs", station),
        libconfig_list(
            "MACRLCs",
            {
                "num_cc": 1,
                "tr_s_preference": "local_L1",
                "tr_n_preference": "local_RRC",
                "phy_test_mode": 0,
                "puSch10xSnr": 160,
                "puCch10xSnr": 160,
            },
        ),
        libconfig_list("L1s", {"num_cc": 1, "tr_n_preference": "local_mac"}),
        libconfig_list(
            "RUs",
            {
                "local_rf": "yes",
                "nb_tx": 1,
                "nb_rx": 1,
                "att_tx": 3,
                "att_rx": 0,
                "bands": Raw("[7]"),
                "max_pdschReferenceSignalPower": -27,
                "max_rxgain": 115,
                "eNB_instances": Raw("[0]"),
            },
        ),
        libconfig_list(
            "THREAD_STRUCT",
            {"parallel_config": "PARALLEL_SINGLE_THREAD", "worker_config": "WORKER_ENABLE"},
        ),
        log_config(params.log_level, "enb_app"),
    ]
    return "\n".join(lines)


def log_config(level: str, checked: str) -> str:
    """Return the log levels; the readiness check needs a line that `checked` logs at level info."""
    parts = ("global", "hw", "phy", "mac", "rlc", "pdcp", "rrc")
    levels = {part + "_log_level": LEVELS[level] for part in parts}
    return block("log_config", dict(levels, **{checked + "_log_level": "info"}))


def libconfig_list(name: str, group: Dict[str, Any]) -> str:
    """Return a list of one group; in a list libconfig allows no semicolon after a group."""
    body = block("", group).split("\n", 1)[1].rstrip()
    return "{} =\n(\n{}\n);\n".format(name, body.rstrip(";"))


def software(params: Enb, ends: Ends, **_: Any) -> Software:
    """Return the software; it connects to the related MME."""
    mme = ends["s1c"].peer
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
        files=(File(conf("enb.conf"), configuration(params, ends, mme)),),
        checks=(
            Check(
                "log",
                "the MME at {} has not accepted the eNB yet".format(mme),
                unit="enb",
                pattern=r"S1AP_REGISTER_ENB_CNF: associated MME [1-9]",
                # It does not set up a lost association again.
                lost="S1AP_DEREGISTERED_ENB_IND",
            ),
            Check("udp", "no GTP-U on S1-U yet", address=ends["s1u"].ip, port=2152),
        ),
        rules=closed_ports((RADIO_PORT,), params.uu_interface),
    )
