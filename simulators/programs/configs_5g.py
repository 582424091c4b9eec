"""Configuration files of the 5G images: OAI's YAML and libconfig, free5GC's YAML."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulators.core5g.snssai import NO_SD, Snssai
from simulators.errors import EpcError
from simulators.programs import config_file
from simulators.programs.config_file import File, interface_address, read, text_of
from simulators.shared.identity import Plmn, Tai

if TYPE_CHECKING:  # a program imports only its own modules, because the codecs take a second
    import ipaddress

    from cryptography import x509

    from simulators.core5g import amf, gnb, sbi, smf, ue
    from simulators.core5g import udm_ausf as home
    from simulators.shared import user_plane
    from simulators.wifi import n3iwf, n3ue


def level(file: File, name: str) -> int:
    common = file.text("log_level", "general", default="info")
    return config_file.level(file.text("log_level", name, default=common))


def _own(file: File, *keys: str) -> str:
    return interface_address(file.text("nfs", *keys, "interface_name"))


def _url(file: File, name: str) -> str:
    host = file.address("nfs", name, "host")
    return f"http://{host}:{file.number('nfs', name, 'sbi', 'port')}"


def service(file: File, name: str, profile: dict[str, Any] | None = None) -> sbi.Config:
    """The part of a network function in the service-based architecture."""
    from simulators.core5g import sbi

    registers = file.find("register_nf", "general", default=True)
    registers = file.find("register_nf", name, default=registers)
    nfs = file.get("nfs")
    known = {other for other in nfs if other not in (name, "upf") and "host" in nfs[other]}
    return sbi.Config(
        name.upper(),
        _own(file, name, "sbi"),
        file.number("nfs", name, "sbi", "port"),
        file.number("http_version", default=2),
        {other.upper(): _url(file, other) for other in known},
        _url(file, "nrf") if registers and name != "nrf" else "",
        profile or {},
        file.number("http_request_timeout", default=3000) / 1000,
    )


def database(file: File) -> home.Database:
    """Return address and login of the UDR's database."""
    from simulators.core5g import udm_ausf as home

    own = file.at("database")
    return home.Database(
        own.text("host"),
        own.number("port"),
        own.text("user"),
        own.text("password"),
        own.text("database_name"),
    )


def amf_config(file: File) -> amf.Config:
    from simulators.core5g import amf, nas

    own = file.at("amf")
    names = ("amf_region_id", "amf_set_id", "amf_pointer")
    guamis = tuple(
        amf.Guami(one.plmn(), *(int(one.text(name), 16) for name in names))
        for one in own.each("served_guami_list")
    )
    slices = {
        Tai(one.plmn(), one.number("tac")): frozenset(map(Snssai.of, one.get("nssai")))
        for one in own.each("plmn_support_list")
    }
    if not guamis or not slices:
        raise EpcError(f"{file.path}: served_guami_list and plmn_support_list may not be empty.")
    known = {"NEA0": nas.NEA0, "NEA2": nas.NEA2}
    order = own.find("supported_encryption_algorithms", default=["NEA0"])
    return amf.Config(
        own.text("amf_name"),
        _own(file, "amf", "n2"),
        service(file, "amf"),
        guamis,
        slices,
        tuple(known[name] for name in order if name in known),
        own.number("relative_capacity", default=10),
        float(own.find("statistics_timer_interval", default=20)),
    )


def _networks(file: File) -> dict[str, ipaddress.IPv4Network]:
    return {one.text("dnn"): one.network("ipv4_subnet") for one in file.each("dnns")}


def smf_config(file: File) -> smf.Config:
    from simulators.core5g import smf
    from simulators.shared.addresses import Pdn

    pools = tuple(
        # The first host address belongs to the UPF.
        Pdn(dnn, str(one.network_address + 2), str(one.broadcast_address - 1))
        for dnn, one in _networks(file).items()
    )
    information = file.find("smf", "smf_info", default={})
    slices = frozenset(
        (Snssai.of(one["sNssai"]), str(dnn["dnn"]))
        for one in information.get("sNssaiSmfInfoList", ())
        for dnn in one["dnnSmfInfoList"]
    )
    local = None
    if file.find("smf", "support_features", "use_local_subscription_info", default=False):
        local = {
            (Snssai.of(one["single_nssai"]), str(one["dnn"])): (
                int(one["qos_profile"]["5qi"]),
                str(one["qos_profile"]["session_ambr_dl"]),
                str(one["qos_profile"]["session_ambr_ul"]),
            )
            for one in file.get("smf", "local_subscription_infos")
        }
    own = file.at("smf")
    return smf.Config(
        _own(file, "smf", "n4"),
        service(file, "smf", {"smfInfo": information} if information else {}),
        pools,
        slices,
        File(file.path, own.find("ue_dns"), ("smf", "ue_dns")).addresses(
            "primary_ipv4", "secondary_ipv4"
        ),
        own.number("ue_mtu", default=1500),
        local,
        own.address("upfs", 0, "host") if own.find("upfs") else "",
    )


def upf_config(file: File) -> user_plane.Config:
    from simulators.shared import user_plane

    snat = file.find("upf", "support_features", "enable_snat", default=False)
    n4 = _own(file, "upf", "n4")
    return user_plane.Config(
        n4,
        n4,
        _own(file, "upf", "n3"),
        tuple(str(one) for one in _networks(file).values()),
        tuple(one.address("host") for one in file.each("upf", "smfs")),
        file.text("nfs", "upf", "n6", "interface_name") if snat else "",
        "tun0",
        peer="SMF",
    )


def gnb_config(path: str | Path) -> gnb.Config:
    from simulators.core5g import gnb

    file = read(path).at("gNBs", 0)
    entries = file.each("plmn_list")
    number = file.number("gNB_ID")
    return gnb.Config(
        file.text("gNB_name", default="gNB"),
        number,
        tuple(entry.plmn() for entry in entries),
        file.number("tracking_area_code"),
        file.address("amf_ip_address", 0, "ipv4"),
        file.address("NETWORK_INTERFACES", "GNB_IPV4_ADDRESS_FOR_NG_AMF"),
        file.address("NETWORK_INTERFACES", "GNB_IPV4_ADDRESS_FOR_NGU"),
        slices=tuple(
            dict.fromkeys(
                Snssai(one.number("sst"), one.number("sd", default=NO_SD))
                for entry in entries
                for one in entry.each("snssaiList")
            )
        ),
        cell=file.number("nr_cellid", default=number << 4),
    )


def ue_config(path: str | Path, gnb_address: str) -> ue.Config:
    """Read nr-ue.conf, for the gNB at an address."""
    from simulators.core5g import ue
    from simulators.shared.usim import Usim

    file = read(path).at("uicc0")
    imsi = file.text("imsi")
    sessions = tuple(
        ue.SessionRequest(
            one.number("id", default=at),
            one.text("dnn", default=""),
            Snssai(one.number("nssai_sst"), one.number("nssai_sd", default=NO_SD)),
        )
        for at, one in enumerate(file.each("pdu_sessions") if file.find("pdu_sessions") else (), 1)
    )
    usim = Usim(imsi, file.octets("key"), file.octets("opc"))
    home = Plmn(imsi[:3], imsi[3 : 3 + file.number("nmc_size", default=2)])
    return ue.Config(usim, (home,), gnb_address, sessions)


# -- free5GC's N3IWF and UE -----------------------------------------------------------------------

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _seconds(file: File, *keys: str) -> float:
    """Return the seconds of a duration in Go's format, such as ``1m30s``."""
    text = file.text(*keys)
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    if "".join(number + unit for number, unit in parts) != text and text != "0":
        raise file.wrong(keys, f"'{text}' is no duration")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _versioned(path: str | Path, version: str) -> File:
    """Read a file of free5GC that has this version; return its configuration."""
    file = read(path)
    number = file.text("info", "version")
    if number != version:
        raise file.wrong(("info", "version"), f"'{number}' is not {version}")
    return file.at("configuration")


def _certificate(path: Path) -> x509.Certificate:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(text_of(path).encode())
    except ValueError as error:
        raise EpcError(f"{path}: {error}") from None


def n3iwf_config(path: str | Path) -> n3iwf.Config:
    """Read n3iwfcfg.yaml; paths in it are relative to the parent of its directory."""
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    from simulators.wifi import n3iwf

    file = _versioned(path, "1.0.5")
    home = Path(path).resolve().parent.parent
    area = file.at("n3iwfInformation", "supportedTAList", 0)
    plmns = area.each("broadcastPlmnList")
    private = home / file.text("privateKey")
    try:
        key = load_pem_private_key(text_of(private).encode(), None)
    except (ValueError, TypeError) as error:
        raise EpcError(f"{private}: {error}") from None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise EpcError(f"{private}: not an RSA key.")
    liveness = file.at("livenessCheck")
    return n3iwf.Config(
        file.text("n3iwfInformation", "name", default="N3IWF"),
        file.number("n3iwfInformation", "globalN3IWFID", "n3iwfID"),
        tuple(one.plmn("plmnID") for one in plmns),
        int(area.text("tac"), 16),
        file.address("amfSCTPAddresses", 0, "ip", 0),
        file.address("localSctpAddr"),
        file.address("n3iwfGtpBindAddress"),
        slices=tuple(
            dict.fromkeys(
                Snssai.of(item["snssai"])
                for one in plmns
                for item in one.get("taiSliceSupportList")
            )
        ),
        nwu=file.address("ikeBindAddress"),
        inner=file.address("ipSecTunnelAddress"),
        pool=str(file.network("ueIpAddressRange")),
        nas_port=file.number("nasTcpPort"),
        fqdn=file.text("fqdn"),
        key=key,
        certificate=_certificate(home / file.text("certificate")),
        device=f"{file.text('xfrmInterfaceName', default='ipsec')}-default",
        liveness=_seconds(liveness, "transFreq") if liveness.get("enable") else 0,
        retries=1 + liveness.number("maxRetryTimes", default=0),
    )


def n3ue_config(path: str | Path) -> n3ue.Config:
    """Read n3ue.yaml, and the CA of the N3IWF, which free5GC's UE does not use."""
    from simulators.core5g import ue
    from simulators.shared.usim import Usim
    from simulators.wifi import n3ue

    file = _versioned(path, "1.0.1")
    own = file.at("N3UEInformation")
    plmn = own.plmn("IMSI", "PLMNID", mcc="MCC", mnc="MNC")
    usim = Usim(
        f"{plmn.mcc}{plmn.mnc}{own.get('IMSI', 'MSIN')}",
        own.octets("Security", "K"),
        own.octets("Security", "OPC"),
    )
    sessions = []
    for at, item in enumerate(own.each("SmPolicy"), 1):
        sst, sd = item.text("SNSSAI", "SST"), item.text("SNSSAI", "SD", default="ffffff")
        sessions.append(ue.SessionRequest(at, item.text("DNN"), Snssai(int(sst, 16), int(sd, 16))))
    root = Path(path).resolve().parent.parent / "cert" / "ca.pem"
    return n3ue.Config(
        usim,
        (plmn,),
        file.address("N3IWFInformation", "IPSecIfaceAddr"),
        tuple(sessions),
        address=own.address("IPSecIfaceAddr"),
        root=_certificate(root),
        device=own.text("XfrmiName"),
        tunnels=own.text("GreIfaceName"),
        first=own.number("XfrmiId"),
        liveness=_seconds(own, "DpdInterval"),
    )
