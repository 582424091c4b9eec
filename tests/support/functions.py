"""An EPC and a 5G core as the renderers see them."""

from __future__ import annotations

import json
import re
import struct
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import attr
from oai import plan, units
from oai.kinds import parse
from oai.model import End, Part
from oai.network_function import NetworkFunction
from oai.params import Common, Secrets
from oai.part import of
from vpnaas.base import fields
from vpnaas.vdu.steps import Results

from support import reading

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


def acting(group: type, kind: str, vdu: Any = None, **charm: Any) -> Any:
    """Return a group of actions of a configured network function, with what it asks its charm."""
    function: Any = NetworkFunction.__new__(NetworkFunction)
    function.kind, function.params = kind, lambda: params(kind)
    login = {"vdu": lambda: nullcontext(vdu), **charm}
    function.charm = SimpleNamespace(addition=function, **login)
    return group(function.charm)


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


def interface_row(name: str, address: str) -> dict[str, Any]:
    """Return a row of `ip -j address`."""
    local, _, length = address.partition("/")
    shown = {"family": "inet", "local": local, "prefixlen": int(length)}
    return {"ifname": name, "mtu": 1500, "addr_info": [shown]}


class Vdu:
    """Files and started units of one VDU; runs nothing."""

    def __init__(self, engine: str | None = "/usr/bin/podman") -> None:
        self.engine = engine
        self.files: dict[str, str] = {}
        self.restarted: list[str] = []
        self.uu = "192.168.77.10"
        self.tables: set[str] = set()
        self.interfaces: dict[str, str] = {}
        self.outputs: dict[str, str] = {}
        self.probe: dict[str, Any] = {"reasons": [], "units": {}, "restarts": 0}

    def execute(self, steps: list[Any]) -> Results:
        found: dict[str, Any] = {}
        for step in steps:
            body, result = step.body, {}
            if body["do"] == "read":
                result = reading.read(self.files, body)
            elif body["do"] == "write":
                self.files[body["path"]] = body["text"]
            elif body["do"] == "remove":
                reading.remove(self.files, body)
            elif body["do"] == "which":
                result = {"found": {"podman": self.engine, "docker": None}}
            elif body["do"] == "run":
                result = {"code": self._run(body["argv"]), "out": ""}
                result["out"] = self.outputs.get(step.id, "")
                if step.id == "nf/probe":
                    result["out"] = json.dumps(self.probe)
                if step.id == "facts/addresses":
                    rows = [interface_row(*each) for each in self.interfaces.items()]
                    result["out"] = json.dumps(rows)
                if step.id == "address" and self.uu:
                    result["out"] = json.dumps([{"addr_info": [{"local": self.uu}]}])
            found[step.id] = result
        return Results(found)

    def _run(self, argv: list[str]) -> int:
        assert not any(secret in word for word in argv for secret in (OP, K))
        if argv[:2] == ["systemctl", "restart"]:
            for unit in argv[3:]:
                name = unit.removesuffix(".service")
                self.restarted.append(name)
                text = self.files[units.DIGEST_FILE.format(name)]
                self.files[f"{units.RUN}/{name}.digest"] = text
        if argv[:2] == ["nft", "-f"]:
            self.tables.add(" ".join(units.table(self.files[argv[2]])))
        if argv[:2] == ["nft", "delete"]:
            self.tables.discard(" ".join(argv[2:]))
        return int(argv[:2] == ["nft", "list"] and " ".join(argv[2:]) not in self.tables)


def reconcile(vdu: Vdu, asked: plan.FunctionState) -> plan.Outcome:
    decided = plan.make_plan(asked, vdu.execute(plan.observe_steps(asked)))
    results = vdu.execute(list(decided.steps)) if decided.steps else None
    return plan.conclude(asked, decided, results)


def columns(schema: list[str]) -> dict[str, set[str]]:
    """Return the columns by table of the statements that make them."""
    made = [re.match(r"CREATE TABLE IF NOT EXISTS (?:vhss\.)?(\w+) \((.*)\);", s) for s in schema]
    return {found[1]: set(re.findall(r"(\w+)`? [a-z]", found[2])) for found in made if found}


def avp(code: int, data: bytes) -> bytes:
    size = struct.pack("!I", 8 + len(data))[1:]
    return struct.pack("!IB", code, 0x40) + size + data + bytes(-len(data) % 4)


def message(
    command: int, hop: int, request: bool, *avps: bytes, end: int = 0, again: bool = False
) -> bytes:
    body = b"".join(avps)
    head = b"\x01" + struct.pack("!I", 20 + len(body))[1:]
    flags = (0xC0 if request else 0x40) | (0x10 if again else 0)
    head += bytes([flags]) + struct.pack("!I", command)[1:]
    return head + struct.pack("!III", 16777251, hop, end or hop) + body


SUCCESS = avp(268, struct.pack("!I", 2001))
