"""An EPC and a 5G core as the renderers see them."""

from __future__ import annotations

from typing import Any

import attr
from oai import plan, units
from oai.model import End
from oai.params import Common, Secrets, parse
from oai.part import Part, of
from vpnaas.base import fields

OP = "1006020f0a478bf6b699f15c062e42b3"
K = "449c4b91aeacd0ace182cf3a5a72bfa1"
"""Public test keys."""
SECRETS = Secrets(OP, K)
DATABASE = "5e" * 16
REALM = "epc.mnc088.mcc242.3gppnetwork.org"
NETWORK = {"mcc": "242", "mnc": "88", "realm": REALM}
GIVEN: dict[str, dict[str, Any]] = {
    "hss": {
        **NETWORK,
        "first-imsi": "242881234500000",
        "first-msisdn": "24288880000000",
        "subscribers": 1024,
        "apn": "internet",
        "second-apn": "none",
    },
    "mme": {**NETWORK, "tac": 600, "mme-group": 32768, "mme-code": 3},
    "spgwc": {
        **NETWORK,
        "tac": 600,
        "apn": "internet",
        "second-apn": "none",
        "dns": "192.0.2.53",
        "second-dns": "198.51.100.53",
        "ue-pool": "10.250.0.0/16",
        "ue-mtu": 1354,
    },
    "spgwu": {**NETWORK, "ue-pool": "10.250.0.0/16", "sgi-interface": "ens6", "sgi-nat": True},
    "enb": {**NETWORK, "tac": 600, "enb-id": 3585, "uu-interface": "ens6"},
    "ue": {
        **NETWORK,
        "imsi": "242881234500000",
        "msisdn": "24288880000000",
    },
}
PLMN_5G = {"mcc": "242", "mnc": "88"}
SLICE = {**PLMN_5G, "slice": "1-000001", "dnn": "internet", "ue-pool": "10.46.0.0/16"}
GIVEN_5G: dict[str, dict[str, Any]] = {
    "amf": {
        **PLMN_5G,
        "tac": 40960,
        "amf-region": 1,
        "amf-set": 1,
        "amf-pointer": 1,
        "slices": "1-000001/internet/6,2-000002/factory/80",
        "first-imsi": "242881234500000",
        "subscribers": 16,
    },
    "smf": {**SLICE, "dns": "192.0.2.53", "second-dns": "198.51.100.53", "ue-mtu": 1354},
    "upf": {**SLICE, "n6-interface": "ens6", "n6-nat": True},
    "gnb": {
        **PLMN_5G,
        "tac": 40960,
        "gnb-id": 3584,
        "uu-interface": "ens6",
        "slices": "1-000001,2-000002",
    },
    "nr-ue": {**PLMN_5G, "imsi": "242881234500000", "sessions": "1-000001/internet"},
    "n3iwf": {
        **PLMN_5G,
        "tac": 40960,
        "n3iwf-id": 135,
        "nwu-interface": "ens6",
        "slices": "1-000001,2-000002",
        "inner-pool": "10.45.0.0/24",
    },
    "n3ue": {
        **PLMN_5G,
        "imsi": "242881234500000",
        "sessions": "1-000001/internet,2-000002/factory",
        "wifi-interface": "ens4",
    },
}
GIVEN |= GIVEN_5G
UES = ("ue", "nr-ue", "n3ue")
KEYED = ("hss", "ue", "amf", "nr-ue", "n3ue")
STANDS_FOR = {"n3iwf": "gnb"}
"""Who has the place of another one in the network below."""
AUTHORITY = (
    "MIHgMIGToAMCAQICAQEwBQYDK2VwMA0xCzAJBgNVBAMMAmNhMCAXDTI2MDEwMTAwMDAwMFoYDzIwNTYw"
    "MTAxMDAwMDAwWjANMQswCQYDVQQDDAJjYTAqMAUGAytlcAMhAJMP2aibcLwfnk57GnhV0x+0EWgD+v+N"
    "ekBgHzAuzAhaoxYwFDASBgNVHRMBAf8ECDAGAQH/AgEAMAUGAytlcANBAI5Q6+NWd2/kKDqLhOKU29W+"
    "hYDqa7D4qALQ0watbhcTr6LH1YBLtMlSQKhYKukesTwnhW6WlSP72lwyBGfYZgg="
)
"""A root: base64 of its DER."""
OWN = "192.168.25.40"
"""Address on Uu or NWu."""
ADDRESSES = {
    ("hss", "s6a"): "172.16.6.129/24",
    ("mme", "s6a"): "172.16.6.2/24",
    ("mme", "s11"): "172.16.1.102/24",
    ("mme", "s1c"): "192.168.247.102/24",
    ("spgwc", "s11"): "172.16.1.104/24",
    ("spgwc", "sxab"): "172.30.55.101/24",
    ("spgwu", "sxab"): "172.30.55.102/24",
    ("spgwu", "s1u"): "192.168.248.159/24",
    ("enb", "s1c"): "192.168.247.10/24",
    ("enb", "s1u"): "192.168.248.10/24",
    ("amf", "n2"): "172.16.20.10/24",
    ("gnb", "n2"): "172.16.20.40/24",
    ("upf", "n3"): "172.16.21.30/24",
    ("gnb", "n3"): "172.16.21.40/24",
    ("smf", "n4"): "172.16.22.20/24",
    ("upf", "n4"): "172.16.22.30/24",
    ("amf", "sbi"): "172.16.23.10/24",
    ("smf", "sbi"): "172.16.23.20/24",
}


def params(kind: str, **changes: object) -> Common:
    return parse(kind, {**GIVEN[kind], **changes})


def ends(kind: str) -> dict[str, End]:
    found = {}
    kind = STANDS_FOR.get(kind, kind)
    for (member, link), address in ADDRESSES.items():
        if member == kind:
            peers = [
                a.split("/")[0] for (m, name), a in ADDRESSES.items() if name == link and m != kind
            ]
            inner = fields.interface_address("test", address)
            found[link] = End(f"wg-{link}", inner, tuple(peers))
    return found


def parts(kind: str, ready: bool = True) -> dict[str, tuple[tuple[str, Part], ...]]:
    kind = STANDS_FOR.get(kind, kind)
    return {
        link: tuple(
            (member, of(member, params(member), ready))
            for member, other in ADDRESSES
            if other == link and member != kind
        )
        for link in ends(kind)
    }


def air(kind: str = "ue") -> dict[str, tuple[tuple[str, Part], ...]]:
    """Return what a UE hears of its eNB, gNB or N3IWF."""
    station = {"ue": "enb", "nr-ue": "gnb", "n3ue": "n3iwf"}[kind]
    result = attr.evolve(of(station, params(station), True), address="192.168.77.10")
    if kind == "n3ue":
        return {"nwu": ((station, attr.evolve(result, authority=AUTHORITY)),)}
    return {"uu": ((station, result),)}


def function_state(kind: str, **changes: Any) -> plan.FunctionState:
    given = {
        "kind": kind,
        "params": params(kind),
        "ends": ends(kind),
        "parts": air(kind) if kind in UES else parts(kind),
        "link_units": tuple(f"wg-quick@wg-{link}.service" for link in sorted(ends(kind))),
        "given": SECRETS if kind in KEYED else None,
    }
    return plan.FunctionState(**{**given, **changes})


def rendered(kind: str, **changes: Any) -> dict[str, str]:
    """Return every file of a network function by its path."""
    asked = function_state(kind, **changes)
    software = plan.build(asked, attr.evolve(SECRETS, database=DATABASE), OWN)
    files = units.all_files(software, "/usr/bin/podman", asked.params.registry, asked.link_units)
    return {path: file.text for path, file in files.items()}
