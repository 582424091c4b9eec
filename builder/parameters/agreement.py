"""Checks that the network functions of one parameter file agree, before OSM gets it.

A core whose MME and HSS name different realms, or whose eNB is in another tracking area, comes up
and then serves no UE. Several VNFs have parameters that must be equal. This module compares them,
in files that the build made and in edited files.
"""

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_interface, ip_network
from pathlib import Path
from typing import Any

from builder import documents

SAME = documents.read(Path(__file__).with_suffix(".yaml"))
"""Parameters that must be equal in all network functions that have them, and their meaning."""
#: Parameters with addresses or prefixes of UEs or for them, which no link has.
OF_UES = {"nf_ue_pool", "nf_inner_pool", "nf_dns", "nf_second_dns"}
SECRET = ("nf_operator_key", "nf_subscriber_key")
INNER = "_inner_address"
NO_LINK = "none"
POOL = "pool"  # An inner address that the gateway assigns: "pool" or "pool:REQUEST".
TECHNOLOGIES = ("wireguard", "ipsec", "none")
REALM = re.compile(r"(?:^|\.)mnc([0-9]{3})\.mcc([0-9]{3})\.3gppnetwork\.org$", re.IGNORECASE)


def disagreements(document: dict[str, Any]) -> list[str]:
    """Return a sentence for each value on which two members of a parameter file do not agree.

    The file, of a service or a slice, has the form of its schema. Members of a slice are called
    SERVICE/MEMBER. Links inside a service are left out: `link_rules` compares ends of relations.
    """
    members = {
        f"{place}{member['member-vnf-index']}": member.get("additionalParams") or {}
        for place, service in _services(document)
        for member in service.get("additionalParamsForVnf") or ()
    }
    words = list(_own_subnets(members))
    functions = {name: given for name, given in members.items() if "nf_mcc" in given}
    if not functions:
        return words
    # If a gateway is between two network functions, each of them has a link with the gateway.
    ended = {link for name in members.keys() - functions.keys() for link in _links(members[name])}
    return [
        *words,
        *_same(functions),
        *_technologies(functions, ended),
        *_texts(functions),
        *_realms(functions),
        *_subscribers(functions),
        *_stations(functions),
        *_slices(functions),
        *_addresses(functions, ended),
    ]


def _services(document: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the parameters of a service, or of each service of a slice, with its place."""
    if "netslice-subnet" not in document:
        return [("", document)]
    return [(f"{subnet['id']}/", subnet) for subnet in document["netslice-subnet"]]


def _same(functions: dict[str, dict[str, Any]]) -> Iterator[str]:
    for key, title in SAME.items():
        firsts: dict[str, tuple[str, Any]] = {}
        for name, given in functions.items():
            if key not in given:
                continue
            value = given[key]
            # Slices have pools and data networks of their own.
            group = str(given.get("nf_slice")) if key in ("nf_ue_pool", "nf_dnn") else ""
            first, expected = firsts.setdefault(group, (name, value))
            # Compare as text: 600 and "600" are one area, 88 and "088" are two networks.
            if str(value) != str(expected):
                shown = ("", "") if key in SECRET else (f" {value}", f" {expected}")
                yield f"{key}: {name} has {title}{shown[0]}, {first} has{shown[1] or ' another'}"


def _links(given: dict[str, Any]) -> list[str]:
    ends = [key for key in given if key.endswith(INNER) and given[key] != NO_LINK]
    return [key.removesuffix(INNER) for key in ends]


def technology(given: Mapping[str, Any], link: str) -> str:
    """Return the technology of a link, from a member's parameters such as "wireguard,s6a=ipsec"."""
    entries = str(given.get("vpn_technology", "wireguard")).split(",")
    parts = [entry.rpartition("=") for entry in entries]
    by_link = {link.strip(): word.strip() for link, _, word in parts}
    return by_link.get(link, by_link.get("", "wireguard"))


def _own_subnets(members: dict[str, dict[str, Any]]) -> Iterator[str]:
    for name, given in members.items():
        own: dict[str, Any] = {}
        for link in _links(given):
            try:
                address = ip_interface(str(given[link + INNER]))
            except ValueError:
                continue
            for other, subnet in own.items():
                if subnet.version == address.version and subnet.overlaps(address.network):
                    what = f"{name} on {link} has {address}, which overlaps {subnet}"
                    yield f"{link}{INNER}: {what} of its {other}"
            own[link] = address.network


def _apart(one: str, other: str) -> bool:
    """Tell whether two members are of different services."""
    return one.rpartition("/")[0] != other.rpartition("/")[0]


def _technologies(functions: dict[str, dict[str, Any]], ended: set[str]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for name, given in functions.items():
        for link in _links(given):
            own = technology(given, link)
            first = seen.setdefault(link, name)
            other = technology(functions[first], link)
            if link not in ended and other != own and _apart(name, first):
                yield f"vpn_technology: {name} has {own} on {link}, {first} has {other}"
                break


def _texts(functions: dict[str, dict[str, Any]]) -> Iterator[str]:
    for name, given in functions.items():
        for key, lengths in (("nf_mcc", (3,)), ("nf_mnc", (2, 3))):
            value = given.get(key, "")
            if not isinstance(value, str) or not value.isdigit() or len(value) not in lengths:
                count = " or ".join(str(length) for length in lengths)
                yield f"{key}: {name} has {value!r}; allowed: {count} digits in quotes"


def _realms(functions: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Compare MNC and MCC of a realm in 3GPP's form with the network's (TS 23.003, 19.2).

    A realm of another form is the operator's own and contains no MNC and MCC.
    """
    for name, given in functions.items():
        mcc, mnc = str(given["nf_mcc"]), str(given.get("nf_mnc", ""))
        realm = str(given.get("nf_realm", ""))
        match = REALM.search(realm)
        if match and match.groups() != (mnc.zfill(3), mcc):
            expected = f"mnc{mnc.zfill(3)}.mcc{mcc}.3gppnetwork.org"
            yield f"nf_realm: {name} has {realm}, but its network {mcc}/{mnc} is {expected}"


def _stations(functions: dict[str, dict[str, Any]]) -> Iterator[str]:
    for key in ("nf_enb_id", "nf_gnb_id"):
        seen: dict[str, str] = {}
        for name, given in functions.items():
            number = str(given.get(key, ""))
            if number and number in seen:
                yield f"{key}: {name} has {number}, which is that of {seen[number]}"
            seen.setdefault(number, name)


def _slices(functions: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Compare the slices of SMFs, UPFs, gNBs and UEs with those of the AMF, if there is one."""
    offered: dict[str, str] = {}
    for given in functions.values():
        if "nf_amf_region" in given:
            listed = [entry.strip().split("/") for entry in str(given.get("nf_slices")).split(",")]
            offered |= {entry[0].upper(): entry[1] for entry in listed if len(entry) > 1}
    if not offered:
        return
    known = ", ".join(offered)
    for name, given in functions.items():
        if given.get("nf_sessions") == "":
            yield f"nf_sessions: {name} has no slice, the AMF has {known}"
        for key in ("nf_slice", "nf_slices", "nf_sessions"):
            for entry in str(given.get(key) or "").split(","):
                slice, _, dnn = entry.strip().partition("/")
                dnn = dnn.partition("/")[0] or str(given.get("nf_dnn", ""))
                if slice and slice.upper() not in offered:
                    yield f"{key}: {name} has slice {slice}, the AMF has {known}"
                elif slice and dnn and dnn != offered[slice.upper()]:
                    expected = offered[slice.upper()]
                    yield f"{key}: {name} has DNN {dnn} in slice {slice}, the AMF has {expected}"


def _subscribers(functions: dict[str, dict[str, Any]]) -> Iterator[str]:
    for name, given in functions.items():
        network = f"{given['nf_mcc']}{given.get('nf_mnc', '')}"
        for key in ("nf_first_imsi", "nf_imsi"):
            imsi = str(given.get(key, network))
            if not imsi.startswith(network):
                yield f"{key}: {name} has {imsi}, which is not of network {network}"


def _addresses(functions: dict[str, dict[str, Any]], ended: set[str]) -> Iterator[str]:
    subnets: dict[str, Any] = {}
    firsts: dict[str, str] = {}
    owners: dict[Any, str] = {}
    for name, given in functions.items():
        for key, value in given.items():
            if not key.endswith(INNER) or str(value).partition(":")[0] in (NO_LINK, POOL):
                continue
            link = key.removesuffix(INNER)
            try:
                address = ip_interface(str(value))
            except ValueError:
                yield f"{key}: {name} has {value!r}, which is no address with prefix length"
                continue
            owner = f"{name} on {link}"
            if address.ip in owners and _apart(owner, owners[address.ip]):
                yield f"{key}: {owner} has {address.ip}, which is that of {owners[address.ip]}"
            owners[address.ip] = owner
            compared = _apart(name, firsts.setdefault(link, name))
            if compared and link in subnets.keys() - ended and address.network != subnets[link]:
                yield f"{key}: {owner} is in {address.network}, the other end in {subnets[link]}"
            subnets.setdefault(link, address.network)
    for name, given in functions.items():
        for key in sorted(OF_UES & given.keys()):
            try:
                pool = ip_network(str(given[key]))
            except ValueError:
                yield f"{key}: {name} has {given[key]!r}, which is no prefix"
                continue
            for link, subnet in subnets.items():
                if pool.version == subnet.version and pool.overlaps(subnet):
                    yield f"{key}: {pool} of {name} overlaps {subnet} of link {link}"
