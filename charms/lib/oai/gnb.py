"""5G base station: OAI's gNB, its radio simulated over TCP (rfsim)."""

from typing import Any, Dict

from .enb import RADIO_PORT, libconfig_list, log_config, rfsim_options
from .model import Check, Container, Ends, File, Raw, Software, block, closed_ports, conf
from .params import Gnb

FILE = "/opt/oai-gnb/etc/gnb.conf"
NAME = "osm-vpnaas"
BAND = 78
BLOCKS = 106
"""Resource blocks of 30 kHz: 40 MHz (TS 38.101-1 table 5.3.2-1)."""
NUMEROLOGY = 1
SSB = 621312
"""NR-ARFCN of the synchronisation signals (TS 38.104 clause 5.4.2.1)."""
SSB_HZ = 3000000000 + (SSB - 600000) * 15000
RADIO_OPTIONS = ("-E", "--rfsim")
"""Options of both gNB and nrUE: three quarters of the sampling rate, simulated radio."""


def carrier() -> Dict[str, Any]:
    """Return the cell; OAI tests its simulator with these values."""
    return {
        "physCellId": 0,
        "absoluteFrequencySSB": SSB,
        "dl_absoluteFrequencyPointA": 620040,
        "dl_offstToCarrier": 0,
        "dl_subcarrierSpacing": NUMEROLOGY,
        "dl_carrierBandwidth": BLOCKS,
        "initialDLBWPlocationAndBandwidth": 28875,
        "initialDLBWPsubcarrierSpacing": NUMEROLOGY,
        "initialDLBWPcontrolResourceSetZero": 11,
        "initialDLBWPsearchSpaceZero": 0,
        "ul_frequencyBand": BAND,
        "ul_offstToCarrier": 0,
        "ul_subcarrierSpacing": NUMEROLOGY,
        "ul_carrierBandwidth": BLOCKS,
        "pMax": 20,
        "initialULBWPlocationAndBandwidth": 28875,
        "initialULBWPsubcarrierSpacing": NUMEROLOGY,
        "prach_ConfigurationIndex": 98,
        "prach_msg1_FDM": 0,
        "prach_msg1_FrequencyStart": 0,
        "zeroCorrelationZoneConfig": 12,
        "preambleReceivedTargetPower": -104,
        "preambleTransMax": 6,
        "powerRampingStep": 1,
        "ssb_perRACH_OccasionAndCB_PreamblesPerSSB_PR": 4,
        "ssb_perRACH_OccasionAndCB_PreamblesPerSSB": 15,
        "ra_ContentionResolutionTimer": 7,
        "rsrp_ThresholdSSB": 19,
        "prach_RootSequenceIndex_PR": 2,
        "prach_RootSequenceIndex": 1,
        "msg1_SubcarrierSpacing": NUMEROLOGY,
        "restrictedSetConfig": 0,
        "msg3_DeltaPreamble": 1,
        "p0_NominalWithGrant": -90,
        "pucchGroupHopping": 0,
        "hoppingId": 40,
        "p0_nominal": -90,
        "ssb_PositionsInBurst_Bitmap": 1,
        "ssb_periodicityServingCell": 2,
        "dmrs_TypeA_Position": 0,
        "subcarrierSpacing": NUMEROLOGY,
        "referenceSubcarrierSpacing": NUMEROLOGY,
        "dl_UL_TransmissionPeriodicity": 6,
        "nrofDownlinkSlots": 7,
        "nrofDownlinkSymbols": 6,
        "nrofUplinkSlots": 2,
        "nrofUplinkSymbols": 4,
        "ssPBCH_BlockPower": -25,
    }


def configuration(params: Gnb, ends: Ends, amf: str) -> str:
    """Return gnb.conf."""
    slices = ", ".join(
        "{{ sst = {}; sd = 0x{}; }}".format(one.sst, one.differentiator) for one in params.snssais
    )
    # Numbers without leading zeros, and a length: libconfig reads a leading zero as octal.
    plmn = {
        "mcc": int(params.plmn.mcc),
        "mnc": int(params.plmn.mnc),
        "mnc_length": len(params.plmn.mnc),
        "snssaiList": Raw("({})".format(slices)),
    }
    station = {
        "gNB_ID": Raw("0x{:x}".format(params.gnb_id)),
        "gNB_name": NAME,
        "tracking_area_code": params.tac,
        "plmn_list": [plmn],
        # 36 bits: first the gNB identity, then the cell identity (TS 38.413 clause 9.3.1.7).
        "nr_cellid": Raw("{}L".format(params.gnb_id << 8 | 1)),
        "min_rxtxtime": 6,
        "servingCellConfigCommon": [carrier()],
        "SCTP": {"SCTP_INSTREAMS": 2, "SCTP_OUTSTREAMS": 2},
        "amf_ip_address": [{"ipv4": amf}],
        "NETWORK_INTERFACES": {
            "GNB_IPV4_ADDRESS_FOR_NG_AMF": ends["n2"].ip,
            "GNB_IPV4_ADDRESS_FOR_NGU": ends["n3"].ip,
            "GNB_PORT_FOR_S1U": 2152,
        },
    }
    layers = {
        "tr_s_preference": "local_L1",
        "tr_n_preference": "local_RRC",
        "pusch_TargetSNRx10": 200,
        "pucch_TargetSNRx10": 200,
    }
    radio = {
        "local_rf": "yes",
        "nb_tx": 1,
        "nb_rx": 1,
        "att_tx": 0,
        "att_rx": 0,
        "bands": Raw("[{}]".format(BAND)),
        "max_pdschReferenceSignalPower": -27,
        "max_rxgain": 75,
        "eNB_instances": Raw("[0]"),
    }
    protection = {
        "ciphering_algorithms": Raw('( "nea0" )'),
        "integrity_algorithms": Raw('( "nia2", "nia0" )'),
        "drb_ciphering": "yes",
        "drb_integrity": "no",
    }
    lines = [
        'Active_gNBs = ( "{}" );'.format(NAME),
        'Asn1_verbosity = "none";',
        libconfig_list("gNBs", station),
        libconfig_list("MACRLCs", layers),
        libconfig_list("L1s", {"tr_n_preference": "local_mac", "prach_dtx_threshold": 200}),
        libconfig_list("RUs", radio),
        libconfig_list("rfsimulator", {"serveraddr": "server"}),
        block("security", protection),
        log_config(params.log_level, "ngap"),
    ]
    return "\n".join(lines)


def software(params: Gnb, ends: Ends, **_: Any) -> Software:
    """Return the software; it connects to the related AMF."""
    amf = ends["n2"].peer
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
        files=(File(conf("gnb.conf"), configuration(params, ends, amf)),),
        checks=(
            Check(
                "log",
                "the AMF at {} has not accepted the gNB yet".format(amf),
                unit="gnb",
                pattern="Received NGSetupResponse",
                # It does not set up a lost association again.
                lost="Received unsuccessful result for SCTP association",
            ),
            Check("udp", "no GTP-U on N3 yet", address=ends["n3"].ip, port=2152),
        ),
        rules=closed_ports((RADIO_PORT,), params.uu_interface),
    )
