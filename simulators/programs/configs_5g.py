"""Configuration files of the 5G images: OAI's YAML and libconfig, free5GC's YAML."""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from simulators.core5g.snssai import Snssai
from simulators.errors import EpcError
from simulators.programs.config_file import File, interface_address, libconfig, text_of
from simulators.shared.identity import Plmn, Tai

if TYPE_CHECKING:  # a program imports only its own modules, because the codecs take a second
    from cryptography import x509

    from simulators.core5g import amf, gnb, sbi, smf, ue
    from simulators.core5g import udm_ausf as home
    from simulators.shared import user_plane
    from simulators.wifi import n3iwf, n3ue

_LEVELS = {"warn": "WARNING", "off": "CRITICAL", "trace": "DEBUG"}


def core(path: str | Path) -> File:
    """Read a YAML file of the core.

    Raises:
        EpcError: it is not valid YAML.
    """
    try:
        document = yaml.safe_load(text_of(path))
    except yaml.YAMLError as error:
        raise EpcError(f"{path}: {error}.") from None
    return File(path, document)


def level(file: File, name: str) -> int:
    """The log level of a network function."""
    levels = file.find("log_level", default={})
    word = str(levels.get(name, levels.get("general", "info"))).lower()
    return logging.getLevelNamesMapping()[_LEVELS.get(word, word.upper())]


def _own(file: File, *keys: str) -> str:
    return interface_address(str(file.get("nfs", *keys, "interface_name")))


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
        file.number("http_version") if "http_version" in file.content else 2,
        {other.upper(): _url(file, other) for other in known},
        _url(file, "nrf") if registers and name != "nrf" else "",
        profile or {},
        int(file.find("http_request_timeout", default=3000)) / 1000,
    )


def database(file: File) -> home.Database:
    """Return address and login of the UDR's database."""
    from simulators.core5g import udm_ausf as home

    return home.Database(
        str(file.get("database", "host")),
        file.number("database", "port"),
        str(file.get("database", "user")),
        str(file.get("database", "password")),
        str(file.get("database", "database_name")),
    )


def _plmn(file: File, *keys: str | int) -> Plmn:
    return Plmn(str(file.get(*keys, "mcc")), str(file.get(*keys, "mnc")))


def amf_config(file: File) -> amf.Config:
    """Return the AMF's configuration."""
    from simulators.core5g import amf, nas

    guamis = tuple(
        amf.Guami(
            _plmn(file, "amf", "served_guami_list", at),
            *(
                int(str(file.get("amf", "served_guami_list", at, name)), 16)
                for name in ("amf_region_id", "amf_set_id", "amf_pointer")
            ),
        )
        for at in range(len(file.get("amf", "served_guami_list")))
    )
    slices: dict[Tai, frozenset[Snssai]] = {}
    for at in range(len(file.get("amf", "plmn_support_list"))):
        keys = ("amf", "plmn_support_list", at)
        tai = Tai(_plmn(file, *keys), file.number(*keys, "tac"))
        slices[tai] = frozenset(Snssai.of(one) for one in file.get(*keys, "nssai"))
    if not guamis or not slices:
        raise EpcError(f"{file.path}: served_guami_list and plmn_support_list may not be empty.")
    known = {"NEA0": nas.NEA0, "NEA2": nas.NEA2}
    order = file.find("amf", "supported_encryption_algorithms", default=["NEA0"])
    return amf.Config(
        str(file.get("amf", "amf_name")),
        _own(file, "amf", "n2"),
        service(file, "amf"),
        guamis,
        slices,
        tuple(known[name] for name in order if name in known),
        int(file.find("amf", "relative_capacity", default=10)),
        float(file.find("amf", "statistics_timer_interval", default=20)),
    )


def _networks(file: File) -> dict[str, ipaddress.IPv4Network]:
    """Return the prefixes of UEs by DNN."""
    networks = {}
    for at in range(len(file.get("dnns"))):
        prefix = str(file.get("dnns", at, "ipv4_subnet"))
        try:
            networks[str(file.get("dnns", at, "dnn"))] = ipaddress.IPv4Network(prefix, strict=False)
        except ValueError:
            raise file.wrong(("dnns", at, "ipv4_subnet"), f"'{prefix}' is no prefix") from None
    return networks


def smf_config(file: File) -> smf.Config:
    """Return the SMF's configuration."""
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
    names = ("primary_ipv4", "secondary_ipv4")
    return smf.Config(
        _own(file, "smf", "n4"),
        service(file, "smf", {"smfInfo": information} if information else {}),
        pools,
        slices,
        tuple(
            file.address("smf", "ue_dns", one) for one in names if file.find("smf", "ue_dns", one)
        ),
        int(file.find("smf", "ue_mtu", default=1500)),
        local,
        file.address("smf", "upfs", 0, "host") if file.find("smf", "upfs", default=[]) else "",
    )


def upf_config(file: File) -> user_plane.Config:
    """Return the UPF's configuration."""
    from simulators.shared import user_plane

    snat = file.find("upf", "support_features", "enable_snat", default=False)
    n4 = _own(file, "upf", "n4")
    return user_plane.Config(
        n4,
        n4,
        _own(file, "upf", "n3"),
        tuple(str(one) for one in _networks(file).values()),
        tuple(
            file.address("upf", "smfs", at, "host") for at in range(len(file.get("upf", "smfs")))
        ),
        str(file.get("nfs", "upf", "n6", "interface_name")) if snat else "",
        "tun0",
        peer="SMF",
    )


def _numbered(one: dict[str, Any]) -> Snssai:
    """Return an S-NSSAI that libconfig has as numbers."""
    return Snssai(int(one["sst"]), int(one.get("sd", 0xFFFFFF)))


def gnb_config(path: str | Path) -> gnb.Config:
    """Read gnb.conf."""
    from simulators.core5g import gnb

    file = libconfig(path)
    one = ("gNBs", 0)
    plmns = []
    slices: dict[Snssai, None] = {}
    for at in range(len(file.get(*one, "plmn_list"))):
        entry = file.get(*one, "plmn_list", at)
        plmns.append(
            Plmn(f"{int(entry['mcc']):03d}", f"{int(entry['mnc']):0{int(entry['mnc_length'])}d}")
        )
        slices |= dict.fromkeys(_numbered(item) for item in entry["snssaiList"])
    interfaces = (*one, "NETWORK_INTERFACES")
    number = file.number(*one, "gNB_ID")
    return gnb.Config(
        str(file.find(*one, "gNB_name", default="gNB")),
        number,
        tuple(plmns),
        file.number(*one, "tracking_area_code"),
        file.address(*one, "amf_ip_address", 0, "ipv4"),
        file.address(*interfaces, "GNB_IPV4_ADDRESS_FOR_NG_AMF"),
        file.address(*interfaces, "GNB_IPV4_ADDRESS_FOR_NGU"),
        slices=tuple(slices),
        cell=int(file.find(*one, "nr_cellid", default=number << 4)),
    )


def ue_config(path: str | Path, gnb_address: str) -> ue.Config:
    """Read nr-ue.conf, for the gNB at an address."""
    from simulators.core5g import ue
    from simulators.shared.usim import Usim

    file = libconfig(path)
    imsi = str(file.get("uicc0", "imsi"))
    usim = Usim(imsi, file.octets("uicc0", "key"), file.octets("uicc0", "opc"))
    listed: Sequence[dict[str, Any]] = file.find("uicc0", "pdu_sessions", default=())
    sessions = tuple(
        ue.SessionRequest(
            int(one.get("id", at)),
            str(one.get("dnn", "")),
            Snssai(int(one["nssai_sst"]), int(one.get("nssai_sd", 0xFFFFFF))),
        )
        for at, one in enumerate(listed, 1)
    )
    try:
        ipaddress.IPv4Address(gnb_address)
    except ValueError:
        raise EpcError(
            f"The radio simulator's server '{gnb_address}' is not an IPv4 address."
        ) from None
    home = Plmn(imsi[:3], imsi[3 : 3 + int(file.find("uicc0", "nmc_size", default=2))])
    return ue.Config(usim, (home,), gnb_address, sessions)


# -- free5GC's N3IWF and UE -----------------------------------------------------------------------

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _seconds(file: File, *keys: str) -> float:
    """Return the seconds of a duration in Go's format, such as ``1m30s``."""
    text = str(file.get(*keys))
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    if "".join(number + unit for number, unit in parts) != text and text != "0":
        raise file.wrong(keys, f"'{text}' is no duration")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _versioned(path: str | Path, version: str) -> File:
    file = core(path)
    number = str(file.get("info", "version"))
    if number != version:
        raise file.wrong(("info", "version"), f"'{number}' is not {version}")
    return file


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
    top = "configuration"
    one = (top, "n3iwfInformation")
    area = (*one, "supportedTAList", 0)
    plmns, slices = [], []
    for at, entry in enumerate(file.get(*area, "broadcastPlmnList")):
        plmns.append(_plmn(file, *area, "broadcastPlmnList", at, "plmnID"))
        slices += [Snssai.of(item["snssai"]) for item in entry["taiSliceSupportList"]]
    private = home / str(file.get(top, "privateKey"))
    try:
        key = load_pem_private_key(text_of(private).encode(), None)
    except (ValueError, TypeError) as error:
        raise EpcError(f"{private}: {error}") from None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise EpcError(f"{private}: not an RSA key.")
    liveness = (top, "livenessCheck")
    return n3iwf.Config(
        str(file.find(*one, "name", default="N3IWF")),
        file.number(*one, "globalN3IWFID", "n3iwfID"),
        tuple(plmns),
        int(str(file.get(*area, "tac")), 16),
        file.address(top, "amfSCTPAddresses", 0, "ip", 0),
        file.address(top, "localSctpAddr"),
        file.address(top, "n3iwfGtpBindAddress"),
        slices=tuple(dict.fromkeys(slices)),
        nwu=file.address(top, "ikeBindAddress"),
        inner=file.address(top, "ipSecTunnelAddress"),
        pool=str(ipaddress.IPv4Network(str(file.get(top, "ueIpAddressRange")), strict=False)),
        nas_port=file.number(top, "nasTcpPort"),
        fqdn=str(file.get(top, "fqdn")),
        key=key,
        certificate=_certificate(home / str(file.get(top, "certificate"))),
        device=f"{file.find(top, 'xfrmInterfaceName', default='ipsec')}-default",
        liveness=_seconds(file, *liveness, "transFreq") if file.get(*liveness, "enable") else 0,
        retries=1 + int(file.find(*liveness, "maxRetryTimes", default=0)),
    )


def n3ue_config(path: str | Path) -> n3ue.Config:
    """Read n3ue.yaml, and the CA of the N3IWF, which free5GC's UE does not use."""
    from simulators.core5g import ue
    from simulators.shared.usim import Usim
    from simulators.wifi import n3ue

    file = _versioned(path, "1.0.1")
    one = ("configuration", "N3UEInformation")
    plmn = Plmn(*(str(file.get(*one, "IMSI", "PLMNID", name)) for name in ("MCC", "MNC")))
    imsi = f"{plmn.mcc}{plmn.mnc}{file.get(*one, 'IMSI', 'MSIN')}"
    k, opc = (bytes.fromhex(str(file.get(*one, "Security", name))) for name in ("K", "OPC"))
    sessions = []
    for at, item in enumerate(file.get(*one, "SmPolicy"), 1):
        sd = item["SNSSAI"].get("SD", "ffffff")
        slice_ = Snssai(int(str(item["SNSSAI"]["SST"]), 16), int(str(sd), 16))
        sessions.append(ue.SessionRequest(at, str(item["DNN"]), slice_))
    root = Path(path).resolve().parent.parent / "cert" / "ca.pem"
    return n3ue.Config(
        Usim(imsi, k, opc),
        (plmn,),
        file.address("configuration", "N3IWFInformation", "IPSecIfaceAddr"),
        tuple(sessions),
        address=file.address(*one, "IPSecIfaceAddr"),
        root=_certificate(root),
        device=str(file.get(*one, "XfrmiName")),
        tunnels=str(file.get(*one, "GreIfaceName")),
        first=file.number(*one, "XfrmiId"),
        liveness=_seconds(file, *one, "DpdInterval"),
    )
