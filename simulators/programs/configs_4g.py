"""Configuration files of the images, read into the simulators' configurations.

It checks only the values that a simulator uses. The error for a missing or wrong value names the
file and the key.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import re
from dataclasses import dataclass
from pathlib import Path

from simulators.epc import diameter, mme, nas, spgwc, ue
from simulators.errors import EpcError
from simulators.programs.config_file import File, interface_address, json_file, libconfig, text_of
from simulators.shared import base_station, user_plane
from simulators.shared.addresses import Pdn
from simulators.shared.identity import Gummei, Plmn, Tai
from simulators.shared.usim import Usim


@dataclass(frozen=True)
class FreeDiameter:
    """The part of a freeDiameter configuration that the simulators use.

    Attributes:
        identity, realm, address, port: the node itself.
        peer, peer_address, peer_port: the peer it connects to, empty for none.
        extensions: arguments of the extensions it loads, by file name.
    """

    identity: str
    realm: str
    address: str
    port: int
    peer: str = ""
    peer_address: str = ""
    peer_port: int = 3868
    extensions: tuple[tuple[str, str], ...] = ()


_DIRECTIVE = re.compile(
    r"(?P<name>\w+)\s*=\s*(?P<value>[^;{]*?)\s*(?:\{(?P<block>[^}]*)\}\s*)?;|\w+\s*;", re.S
)


def free_diameter(path: str | Path) -> FreeDiameter:
    """Read a freeDiameter configuration.

    Raises:
        EpcError: a necessary part is missing.
    """
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
    file = json_file(path)
    node = free_diameter(file.get("common", "fdcfg"))
    accept: tuple[str, ...] = ()
    for name, argument in node.extensions:
        if os.path.basename(name) == "acl_wl.fdx":
            accept = allowed_peers(argument)
    return HssConfig(
        node,
        str(file.get("hss", "casssrv")),
        bool(file.find("hss", "roamallow", default=False)),
        accept,
        tuple(file.number("hss", name) for name in ("gtwport", "restport", "ossport")),
        str(file.get("hss", "optkey")),
    )


def _plmn(file: File, *keys: str | int) -> Plmn:
    return Plmn(str(file.get(*keys, "MCC")), str(file.get(*keys, "MNC")))


def mme_config(path: str | Path) -> mme.Config:
    """Read mme.conf and the freeDiameter configuration it names."""
    file = libconfig(path)
    node = free_diameter(file.get("MME", "S6A", "S6A_CONF"))
    host = file.get("MME", "S6A", "HSS_HOSTNAME")
    if node.peer != host:
        raise EpcError(f"{path}: MME.S6A.HSS_HOSTNAME is not the ConnectPeer of freeDiameter.")
    gummeis = tuple(
        Gummei(
            _plmn(file, "MME", "GUMMEI_LIST", number),
            file.number("MME", "GUMMEI_LIST", number, "MME_GID"),
            file.number("MME", "GUMMEI_LIST", number, "MME_CODE"),
        )
        for number in range(len(file.get("MME", "GUMMEI_LIST")))
    )
    tais = frozenset(
        Tai(
            _plmn(file, "MME", "TAI_LIST", number),
            file.number("MME", "TAI_LIST", number, "TAC"),
        )
        for number in range(len(file.get("MME", "TAI_LIST")))
    )
    if not gummeis or not tais:
        raise EpcError(f"{path}: GUMMEI_LIST and TAI_LIST may not be empty.")
    order = file.find("MME", "NAS", "ORDERED_SUPPORTED_CIPHERING_ALGORITHM_LIST", default=["EEA0"])
    supported = {"EEA0": nas.EEA0, "EEA2": nas.EEA2}
    interfaces = ("MME", "NETWORK_INTERFACES")
    return mme.Config(
        diameter.Identity(node.identity, node.realm, node.address),
        host,
        file.get("MME", "S6A", "HSS_REALM"),
        node.peer_address,
        file.address(*interfaces, "MME_IPV4_ADDRESS_FOR_S1_MME"),
        file.address(*interfaces, "MME_IPV4_ADDRESS_FOR_S11_MME"),
        file.address("MME", "S-GW", "SGW_IPV4_ADDRESS_FOR_S11"),
        gummeis,
        tais,
        node.peer_port,
        file.number("MME", "MAXENB"),
        file.number("MME", "MAXUE"),
        next((supported[name] for name in order if name in supported), nas.EEA0),
        file.number("MME", "STATS_TIMER_SEC") if "STATS_TIMER_SEC" in file.get("MME") else 60,
    )


#: The simulators' loggers and the components of Magma's MME that set their levels.
_MME_LOGGERS = {"udp": "UDP", "diameter": "S6A"}


def mme_levels(path: str | Path) -> dict[str, int]:
    """Return the log level of each logger from mme.conf; the default is DEBUG."""
    levels = libconfig(path).find("MME", "LOGGING", default={})

    def level(component: str) -> int:
        return logging.getLevelNamesMapping()[str(levels.get(f"{component}_LOG_LEVEL", "DEBUG"))]

    names = {name: name for name in ("MME_APP", "NAS", "SERVICE303")} | _MME_LOGGERS
    return {logger: level(component) for logger, component in names.items()}


def spgwc_config(path: str | Path) -> spgwc.Config:
    """Read spgw_c.json."""
    file = json_file(path)
    pdns = []
    for number in range(len(file.get("pdns"))):
        text = str(file.get("pdns", number, "dyn_ue_ipv4_range"))
        first, dash, last = (part.strip() for part in text.partition("-"))
        if not dash:
            raise file.wrong(("pdns", number, "dyn_ue_ipv4_range"), "not FIRST - LAST")
        pdns.append(Pdn(str(file.get("pdns", number, "apn_ni")), first, last))
    names = ("default_dns_ipv4_address", "default_dns_sec_ipv4_address")
    selection = file.find("cups", "up_nodes_selection", default=[])
    return spgwc.Config(
        _own(file, "s11", "ipv4_address"),
        _own(file, "sx", "ipv4_address"),
        tuple(pdns),
        tuple(file.address("spgw_app", name) for name in names if file.find("spgw_app", name)),
        file.number("spgw_app", "ue_mtu_ipv4"),
        tuple(str(one["id"]) for one in selection if "id" in one),
        int(file.find("rest_port", default=0)),
    )


def _own(file: File, section: str, key: str) -> str:
    """Return an own address; "read" means the address of the interface."""
    if file.get(section, key) == "read":
        return interface_address(str(file.get(section, "interface_name")))
    return file.address(section, key)


def spgwu_config(path: str | Path) -> user_plane.Config:
    """Read spgw_u.conf."""
    file = libconfig(path)
    interfaces = ("SPGW-U", "INTERFACES")

    def own(name: str) -> str:
        if file.find(*interfaces, name, "IPV4_ADDRESS", default="read") == "read":
            return interface_address(str(file.get(*interfaces, name, "INTERFACE_NAME")))
        return file.address(*interfaces, name, "IPV4_ADDRESS")

    pools = tuple(
        str(ipaddress.IPv4Network(one["NETWORK_IPV4"], strict=False))
        for one in file.get("SPGW-U", "PDN_NETWORK_LIST")
    )
    snat = str(file.find("SPGW-U", "SNAT", default="no")).lower() == "yes"
    count = len(file.get("SPGW-U", "SPGW-C_LIST"))
    cps = (file.address("SPGW-U", "SPGW-C_LIST", n, "IPV4_ADDRESS") for n in range(count))
    return user_plane.Config(
        str(file.get("SPGW-U", "FQDN")),
        own("SX"),
        own("S1U_S12_S4_UP"),
        pools,
        tuple(cps),
        str(file.get(*interfaces, "SGI", "INTERFACE_NAME")) if snat else "",
    )


def spgwu_level(path: str | Path) -> int:
    """Return the log level from spgw_u.conf; without one OAI's SPGW-U logs nothing."""
    name = str(libconfig(path).find("SPGW-U", "LOG_LEVEL", default="off")).upper()
    return logging.getLevelNamesMapping().get(name, logging.CRITICAL + 1)


def enb_levels(path: str | Path) -> dict[str, int]:
    """Return the log level of each logger from enb.conf: ENB_APP's own, else the global one."""
    levels = libconfig(path).find("log_config", default={})

    def level(component: str, default: str) -> str:
        return str(levels.get(f"{component}_log_level", default))

    both = {"enb": level("global", "info")}
    both["ENB_APP"] = level("enb_app", both["enb"])
    known = logging.getLevelNamesMapping()
    return {logger: known[name.upper()] for logger, name in both.items()}


def enb_config(path: str | Path) -> base_station.Config:
    """Read enb.conf."""
    file = libconfig(path)
    one = ("eNBs", 0)
    plmns = tuple(
        Plmn(f"{int(p['mcc']):03d}", f"{int(p['mnc']):0{int(p.get('mnc_length', 2))}d}")
        for p in file.get(*one, "plmn_list")
    )
    interfaces = (*one, "NETWORK_INTERFACES")
    return base_station.Config(
        str(file.find(*one, "eNB_name", default="eNB")),
        file.number(*one, "eNB_ID") & 0xFFFFF,
        plmns,
        file.number(*one, "tracking_area_code"),
        file.address(*one, "mme_ip_address", 0, "ipv4"),
        file.address(*interfaces, "ENB_IPV4_ADDRESS_FOR_S1_MME"),
        file.address(*interfaces, "ENB_IPV4_ADDRESS_FOR_S1U"),
    )


def ue_config(path: str | Path, enb_address: str) -> ue.Config:
    """Read ue_usim.conf, for the eNB at an address."""
    file = libconfig(path)
    usims, hplmns = [], []
    for name in sorted(key for key in file.content if re.fullmatch(r"UE\d+", key)):
        home = str(file.get(name, "HPLMN"))
        if not re.fullmatch(r"\d{5,6}", home):
            raise file.wrong((name, "HPLMN"), f"'{home}' is not an MCC and MNC")
        hplmns.append(Plmn(home[:3], home[3:]))
        imsi = home + str(file.get(name, "SIM", "MSIN"))
        usims.append(
            Usim(
                imsi,
                file.octets(name, "SIM", "USIM_API_K"),
                file.octets(name, "SIM", "OPC"),
            )
        )
    if not usims:
        raise EpcError(f"{path}: UE0 is missing.")
    try:
        ipaddress.IPv4Address(enb_address)
    except ValueError:
        raise EpcError(
            f"The radio simulator's server '{enb_address}' is not an IPv4 address."
        ) from None
    return ue.Config(tuple(usims), tuple(dict.fromkeys(hplmns)), enb_address)
