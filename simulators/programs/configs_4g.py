"""Configuration files of the images, read into the simulators' configurations.

It checks only the values that a simulator uses. The error for a missing or wrong value names the
file and the key.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from simulators.epc import diameter, mme, nas, spgwc, ue
from simulators.errors import EpcError
from simulators.programs.config_file import File, interface_address, level, read, text_of
from simulators.shared import base_station, user_plane
from simulators.shared.addresses import Pdn
from simulators.shared.identity import Gummei, Plmn, Tai
from simulators.shared.usim import Usim


@dataclass(frozen=True)
class FreeDiameter:
    """The part of a freeDiameter configuration that the simulators use."""

    # `identity`, `realm`, `address`, `port`: the node itself.
    identity: str
    realm: str
    address: str
    port: int
    # `peer`, `peer_address`, `peer_port`: the peer it connects to, empty for none.
    peer: str = ""
    peer_address: str = ""
    peer_port: int = 3868
    # Arguments of the extensions it loads, by file name.
    extensions: tuple[tuple[str, str], ...] = ()


_DIRECTIVE = re.compile(
    r"(?P<name>\w+)\s*=\s*(?P<value>[^;{]*?)\s*(?:\{(?P<block>[^}]*)\}\s*)?;|\w+\s*;", re.S
)


def free_diameter(path: str | Path) -> FreeDiameter:
    """Read a freeDiameter configuration."""
    text = re.sub(r"#.*", "", text_of(path))
    values: dict[str, str] = {}
    extensions: list[tuple[str, str]] = []
    peer, block = "", ""
    for match in _DIRECTIVE.finditer(text):
        name, value = match["name"], match["value"]
        if name is None:
            continue
        words = re.findall(r'"([^"]*)"', value)
        if name == "LoadExtension" and words:
            extensions.append((words[0], words[1] if len(words) > 1 else ""))
        elif name == "ConnectPeer" and words:
            peer, block = words[0], match["block"] or ""
        else:
            values[name] = words[0] if words else value
    for name in ("Identity", "Realm", "ListenOn"):
        if name not in values:
            raise EpcError(f"{path}: {name} is missing.")
    inner = dict(re.findall(r'(\w+)\s*=\s*"?([^";]+)"?\s*;', block))
    return FreeDiameter(
        values["Identity"],
        values["Realm"],
        values["ListenOn"],
        int(values.get("Port", "3868")),
        peer,
        inner.get("ConnectTo", ""),
        int(inner.get("port", "3868")),
        tuple(extensions),
    )


def allowed_peers(path: str | Path) -> tuple[str, ...]:
    """Return the suffixes (".REALM") or complete names in an acl_wl configuration."""
    result = []
    for line in re.sub(r"#.*", "", text_of(path)).splitlines():
        for word in line.split():
            if not word.startswith("ALLOW_"):
                result.append(word.removeprefix("*"))
    return tuple(result)


@dataclass(frozen=True)
class HssConfig:
    """Configuration of the HSS: node, store, peers, management ports, the operator's key."""

    node: FreeDiameter
    cassandra: str
    roaming: bool
    accept: tuple[str, ...]
    rest: tuple[int, ...]
    operator_key: str


def hss(path: str | Path) -> HssConfig:
    """Read hss_rel14.json and the files that it names."""
    file = read(path)
    node = free_diameter(file.get("common", "fdcfg"))
    accept: tuple[str, ...] = ()
    for name, argument in node.extensions:
        if os.path.basename(name) == "acl_wl.fdx":
            accept = allowed_peers(argument)
    own = file.at("hss")
    return HssConfig(
        node,
        own.text("casssrv"),
        bool(own.find("roamallow", default=False)),
        accept,
        tuple(own.number(name) for name in ("gtwport", "restport", "ossport")),
        own.text("optkey"),
    )


def mme_config(path: str | Path) -> mme.Config:
    """Read mme.conf and the freeDiameter configuration it names."""
    file = read(path).at("MME")
    node = free_diameter(file.get("S6A", "S6A_CONF"))
    host = file.get("S6A", "HSS_HOSTNAME")
    if node.peer != host:
        raise EpcError(f"{path}: MME.S6A.HSS_HOSTNAME is not the ConnectPeer of freeDiameter.")
    gummeis = tuple(
        Gummei(one.plmn(mcc="MCC", mnc="MNC"), one.number("MME_GID"), one.number("MME_CODE"))
        for one in file.each("GUMMEI_LIST")
    )
    tais = frozenset(
        Tai(one.plmn(mcc="MCC", mnc="MNC"), one.number("TAC")) for one in file.each("TAI_LIST")
    )
    if not gummeis or not tais:
        raise EpcError(f"{path}: GUMMEI_LIST and TAI_LIST may not be empty.")
    order = file.find("NAS", "ORDERED_SUPPORTED_CIPHERING_ALGORITHM_LIST", default=["EEA0"])
    supported = {"EEA0": nas.EEA0, "EEA2": nas.EEA2}
    return mme.Config(
        diameter.Identity(node.identity, node.realm, node.address),
        host,
        file.get("S6A", "HSS_REALM"),
        node.peer_address,
        file.address("NETWORK_INTERFACES", "MME_IPV4_ADDRESS_FOR_S1_MME"),
        file.address("NETWORK_INTERFACES", "MME_IPV4_ADDRESS_FOR_S11_MME"),
        file.address("S-GW", "SGW_IPV4_ADDRESS_FOR_S11"),
        gummeis,
        tais,
        node.peer_port,
        file.number("MAXENB"),
        file.number("MAXUE"),
        next((supported[name] for name in order if name in supported), nas.EEA0),
        file.number("STATS_TIMER_SEC", default=60),
    )


#: The simulators' loggers and the components of Magma's MME that set their levels.
_MME_LOGGERS = {"udp": "UDP", "diameter": "S6A"} | {
    name: name for name in ("MME_APP", "NAS", "SERVICE303")
}


def mme_levels(path: str | Path) -> dict[str, int]:
    """Return the log level of each logger from mme.conf; the default is DEBUG."""
    file = read(path)
    return {
        logger: level(file.text("MME", "LOGGING", f"{component}_LOG_LEVEL", default="DEBUG"))
        for logger, component in _MME_LOGGERS.items()
    }


def _own(file: File, key: str, name: str) -> str:
    """Return an own address; "read" means the address of the interface."""
    if file.text(key, default="read") == "read":
        return interface_address(file.text(name))
    return file.address(key)


def spgwc_config(path: str | Path) -> spgwc.Config:
    file = read(path)
    pdns = []
    for one in file.each("pdns"):
        first, dash, last = (part.strip() for part in one.text("dyn_ue_ipv4_range").partition("-"))
        if not dash:
            raise one.wrong(("dyn_ue_ipv4_range",), "not FIRST - LAST")
        pdns.append(Pdn(one.text("apn_ni"), first, last))
    return spgwc.Config(
        _own(file.at("s11"), "ipv4_address", "interface_name"),
        _own(file.at("sx"), "ipv4_address", "interface_name"),
        tuple(pdns),
        file.at("spgw_app").addresses("default_dns_ipv4_address", "default_dns_sec_ipv4_address"),
        file.number("spgw_app", "ue_mtu_ipv4"),
        tuple(
            str(one["id"])
            for one in file.find("cups", "up_nodes_selection", default=[])
            if "id" in one
        ),
        file.number("rest_port", default=0),
    )


def spgwu_config(path: str | Path) -> user_plane.Config:
    file = read(path).at("SPGW-U")
    snat = file.text("SNAT", default="no").lower() == "yes"
    return user_plane.Config(
        file.text("FQDN"),
        _own(file.at("INTERFACES", "SX"), "IPV4_ADDRESS", "INTERFACE_NAME"),
        _own(file.at("INTERFACES", "S1U_S12_S4_UP"), "IPV4_ADDRESS", "INTERFACE_NAME"),
        tuple(str(one.network("NETWORK_IPV4")) for one in file.each("PDN_NETWORK_LIST")),
        tuple(one.address("IPV4_ADDRESS") for one in file.each("SPGW-C_LIST")),
        file.text("INTERFACES", "SGI", "INTERFACE_NAME") if snat else "",
    )


def spgwu_levels(path: str | Path) -> dict[str, int]:
    """Return the log level from spgw_u.conf; without one OAI's SPGW-U logs nothing."""
    return {"": level(read(path).text("SPGW-U", "LOG_LEVEL", default="off"), level("off"))}


def enb_levels(path: str | Path) -> dict[str, int]:
    """Return the log level of each logger from enb.conf: ENB_APP's own, else the global one."""
    file = read(path)
    common = file.text("log_config", "global_log_level", default="info")
    own = file.text("log_config", "enb_app_log_level", default=common)
    return {"enb": level(common), "ENB_APP": level(own)}


def enb_config(path: str | Path) -> base_station.Config:
    file = read(path).at("eNBs", 0)
    return base_station.Config(
        file.text("eNB_name", default="eNB"),
        file.number("eNB_ID") & 0xFFFFF,
        tuple(one.plmn() for one in file.each("plmn_list")),
        file.number("tracking_area_code"),
        file.address("mme_ip_address", 0, "ipv4"),
        file.address("NETWORK_INTERFACES", "ENB_IPV4_ADDRESS_FOR_S1_MME"),
        file.address("NETWORK_INTERFACES", "ENB_IPV4_ADDRESS_FOR_S1U"),
    )


def ue_config(path: str | Path, enb_address: str) -> ue.Config:
    """Read ue_usim.conf, for the eNB at an address."""
    file = read(path)
    usims, hplmns = [], []
    for name in sorted(key for key in file.content if re.fullmatch(r"UE\d+", key)):
        one = file.at(name)
        home = one.text("HPLMN")
        if not re.fullmatch(r"\d{5,6}", home):
            raise one.wrong(("HPLMN",), f"'{home}' is not an MCC and MNC")
        hplmns.append(Plmn(home[:3], home[3:]))
        imsi = home + one.text("SIM", "MSIN")
        usims.append(Usim(imsi, one.octets("SIM", "USIM_API_K"), one.octets("SIM", "OPC")))
    if not usims:
        raise EpcError(f"{path}: UE0 is missing.")
    return ue.Config(tuple(usims), tuple(dict.fromkeys(hplmns)), enb_address)
