"""One small change to good parameters for every code, and the one problem it must give."""

import copy
import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """A change of good parameters, and the code of the one problem that it makes."""

    code: str
    change: Callable[[dict[str, Any]], Any]
    at: str
    """The end of the problem's path."""


def edit(path, value=None, delete=False):
    """Return a change of PARAMS at a path such as "vld/0/name"."""

    def change(document):
        node = document
        *parents, last = [int(p) if p.isdigit() else p for p in path.split("/")]
        for part in parents:
            node = node[part]
        if delete:
            del node[last]
        elif last == -1:
            node.append(value)
        else:
            node[last] = copy.deepcopy(value)

    return change


DAY = datetime.date(2026, 1, 31)
REF = "vld/0/vnfd-connection-point-ref/0"
NIC = "vnf/0/vdu/0/interface/0"
EXTRA = "additionalParamsForVnf/0"


def spread(document, **link):
    """Put member 1 onto another VIM."""
    document["vnf"][0]["vim_account"] = "north"
    document["vld"][0] |= link


def at_management(document):
    """Give the NIC of another link an address of this one."""
    points = document["vld"][0]["vnfd-connection-point-ref"]
    points[0]["vnfd-connection-point-ref"] = "mgmt-ext"


def dhcp(document, params, address="10.0.0.20"):
    """Give the link other parameters of DHCP, member 2 an address, and member 1 one far away."""
    link = document["vld"][0]
    link["ip-profile"]["dhcp-params"] = params
    link["vnfd-connection-point-ref"][0]["ip-address"] = address
    document["vnf"][0]["vdu"][0]["interface"][0]["ip-address"] = "10.0.0.100"


CASES = [
    Case("unknown-key", edit("vlds", []), at="vlds"),
    Case("unknown-key", edit("vnf/0/vdu/0/name", "x"), at="vnf[0]/vdu[0]/name"),
    Case("unknown-key", edit("vld/0/ip-profile/dns", "x"), at="ip-profile/dns"),
    Case("missing-key", edit("vld/0/name", delete=True), at="vld[0]/name"),
    Case("wrong-value", edit("vnf/0/member-vnf-index", 1), at="member-vnf-index"),
    Case("wrong-value", edit("vnf", []), at="vnf"),
    Case("wrong-value", edit("vnf/0/vdu", delete=True), at="vnf[0]"),
    Case("wrong-value", edit(f"{REF}/ip-address", delete=True), at=f"{REF.replace('/0', '[0]')}"),
    Case("wrong-value", edit(f"{REF}/ip-address", "10.0.0.300"), at="ip-address"),
    Case(
        "wrong-value", edit("vld/0/ip-profile/subnet-address", "10.0.0.0/31"), at="subnet-address"
    ),
    Case("wrong-value", edit("vld/0/ip-profile/subnet-address", "fd00::/64"), at="subnet-address"),
    Case("wrong-value", edit("vld/0/ip-profile/dhcp-params/enabled", "true"), at="enabled"),
    Case("wrong-value", edit(f"{NIC}/mac-address", "01:00:00:00:00:01"), at="mac-address"),
    Case("wrong-value", edit("vld/0/wimAccountId", 1), at="wimAccountId"),
    Case("wrong-value", edit("vld/0/vim-network-name", {}), at="vim-network-name"),
    Case("wrong-value", edit(f"{EXTRA}/additionalParams", []), at="additionalParams"),
    Case("wrong-value", edit(f"{EXTRA}/config-units", 0), at="config-units"),
    Case("wrong-value", edit("config-units", "2"), at="config-units"),
    # NBI takes null for a subnet and what is beside it, and for nothing else but a WIM.
    Case("wrong-value", edit("vnf", None), at="vnf"),
    Case("wrong-value", edit("vld/0/ip-profile", None), at="ip-profile"),
    Case("wrong-value", edit(f"{EXTRA}/additionalParams", None), at="additionalParams"),
    Case("wrong-value", edit(f"{NIC}/ip-address", None), at="ip-address"),
    # Its names have none of , ; ( ) ' ".
    Case("wrong-value", edit(f"{EXTRA}/member-vnf-index", "1,2"), at="member-vnf-index"),
    Case("wrong-value", edit("vnf/0/vdu/0/instance_name", "vm (1)"), at="instance_name"),
    Case("wrong-value", edit("nsDescription", "it's"), at="nsDescription"),
    Case("wrong-value", edit("vld/0/wimAccountId", "wim"), at="wimAccountId"),
    Case("wrong-value", edit("vld/0/vim-network-name", "n" * 256), at="vim-network-name"),
    Case(
        "wrong-value",
        edit("vld/0/provider-network", {"physical-network": "p", "segmentation-id": 100}),
        at="provider-network",
    ),
    Case(
        "missing-key",
        edit(f"{EXTRA}/additionalParamsForKdu", [{"additionalParams": {}, "config-units": 1}]),
        at="additionalParamsForKdu[0]/kdu_name",
    ),
    Case(
        "wrong-value",
        edit(f"{EXTRA}/affinity-or-anti-affinity-group", [{"id": "a"}]),
        at="affinity-or-anti-affinity-group[0]",
    ),
    Case("wrong-value", edit("timeout_ns_deploy", "7200"), at="timeout_ns_deploy"),
    Case("wrong-value", edit("timeout_ns_deploy", 7200.0), at="timeout_ns_deploy"),
    Case("wrong-value", edit("vld/0/ip-profile/dhcp-params/count", "10"), at="dhcp-params/count"),
    Case("params-member", edit("vnf/0/member-vnf-index", "3"), at="vnf[0]/member-vnf-index"),
    Case(
        "params-member-ignored", edit(f"{REF}/member-vnf-index-ref", "3"), at="member-vnf-index-ref"
    ),
    Case(
        "params-member-ignored",
        lambda d: d["additionalParamsForVnf"].append(
            {"member-vnf-index": "3", "additionalParams": {}}
        ),
        at="additionalParamsForVnf[2]/member-vnf-index",
    ),
    Case("params-vld", edit("vld/0/name", "x"), at="vld[0]/name"),
    Case(
        "params-cpd", edit(f"{REF}/vnfd-connection-point-ref", "x"), at="vnfd-connection-point-ref"
    ),
    Case("params-vdu", edit("vnf/0/vdu/0/id", "x"), at="vnf[0]/vdu[0]/id"),
    Case(
        "params-vdu-unknown",
        edit(f"{EXTRA}/additionalParamsForVdu", [{"vdu_id": "x", "additionalParams": {}}]),
        at="additionalParamsForVdu[0]/vdu_id",
    ),
    Case("params-key", edit(f"{EXTRA}/additionalParams/a-b", 1), at="additionalParams"),
    Case(
        "params-key",
        edit(
            f"{EXTRA}/additionalParamsForVdu",
            [{"vdu_id": "vm", "additionalParams": {"name": "a", "1b": 1}}],
        ),
        at="additionalParamsForVdu[0]/additionalParams",
    ),
    Case(
        "params-missing",
        edit(f"{EXTRA}/additionalParams/port", delete=True),
        at="additionalParamsForVnf[1]",
    ),
    Case(
        "params-cloud-init",
        edit(f"{EXTRA}/additionalParams/name", delete=True),
        at="additionalParamsForVnf[1]",
    ),
    Case(
        "params-cloud-init",
        edit(f"{EXTRA}/additionalParamsForVdu", [{"vdu_id": "vm", "additionalParams": {"a": 1}}]),
        at="additionalParamsForVnf[1]",
    ),
    Case("params-vim-network", lambda d: spread(d, wimAccountId=False), at="vld[0]"),
    Case(
        "params-vim-subnet",
        lambda d: (
            d["vld"][0].pop("vnfd-connection-point-ref"),
            spread(d),
            d["vnf"].append({"member-vnf-index": "2", "vim_account": "north"}),
        ),
        at="vld[0]",
    ),
    Case(
        "params-wim",
        lambda d: spread(d, **{"vim-network-name": {"north": "a", "south": "b"}}),
        at="vld[0]",
    ),
    Case(
        "params-floating-ip", edit(f"{NIC}/floating-ip-required", True), at="floating-ip-required"
    ),
    Case(
        "params-flavor",
        lambda d: d["vnf"][0]["vdu"][0].update({"vim-flavor-id": "a", "vim-flavor-name": "b"}),
        at="vnf[0]/vdu[0]",
    ),
    Case("params-interface", edit(f"{NIC}/name", "x"), at="interface[0]/name"),
    Case(
        "params-interface",
        lambda d: d["vnf"][0]["vdu"][0]["interface"].append({"name": "x"}),
        at="interface[1]/name",
    ),
    Case(
        "params-internal-vld",
        edit("vnf/0/internal-vld", [{"name": "x", "vim-network-name": "n"}]),
        at="internal-vld[0]/name",
    ),
    Case(
        "params-internal-vld",
        edit(
            "vnf/0/internal-vld",
            [
                {
                    "name": "inner",
                    "internal-connection-point": [{"id-ref": "x", "ip-address": "10.0.0.1"}],
                }
            ],
        ),
        at="internal-connection-point[0]/id-ref",
    ),
    Case(
        "params-volume",
        edit("vnf/0/vdu/0/volume", [{"name": "x", "vim-volume-id": "v"}]),
        at="volume[0]/name",
    ),
    Case(
        "params-affinity",
        edit(
            f"{EXTRA}/affinity-or-anti-affinity-group", [{"id": "a", "vim-affinity-group-id": "b"}]
        ),
        at="affinity-or-anti-affinity-group[0]/id",
    ),
    Case(
        "params-address",
        edit(f"{REF}/ip-address", "10.1.0.2"),
        at=f"{REF.replace('/0', '[0]')}/ip-address",
    ),
    Case(
        "params-address",
        lambda d: (
            d.pop("vnf")
            and d["vld"][0]["vnfd-connection-point-ref"].append(
                {
                    "member-vnf-index-ref": "1",
                    "vnfd-connection-point-ref": "data-ext",
                    "ip-address": "10.0.0.2",
                }
            )
        ),
        at="vnfd-connection-point-ref[0]/ip-address",
    ),
    Case(
        "params-address",
        edit(f"{REF}/ip-address", "10.0.0.255"),
        at=f"{REF.replace('/0', '[0]')}/ip-address",
    ),
    Case("params-address", edit("vld/0/ip-profile/ip-version", "ipv6"), at="ip-version"),
    Case(
        "params-address",
        edit(
            "vnf/0/internal-vld",
            [{"name": "inner", "ip-profile": {"subnet-address": "10.5.0.1/24"}}],
        ),
        at="internal-vld[0]/ip-profile/subnet-address",
    ),
    Case("params-cpd", at_management, at="vnfd-connection-point-ref"),
    Case("params-address", edit(f"{NIC}/ip-address", "10.1.0.2"), at="interface[0]/ip-address"),
    Case("params-address", edit(f"{NIC}/ip-address", "10.0.0.0"), at="interface[0]/ip-address"),
    Case(
        "params-address",
        edit("vld/0/ip-profile/subnet-address", "10.0.0.1/24"),
        at="vld[0]/ip-profile/subnet-address",
    ),
    Case(
        "params-address",
        edit("vld/0/ip-profile/gateway-address", "10.1.0.1"),
        at="vld[0]/ip-profile/gateway-address",
    ),
    Case(
        "params-address",
        lambda d: d["vld"][0]["ip-profile"].update(
            {"gateway-address": d["vld"][0]["vnfd-connection-point-ref"][0]["ip-address"]}
        ),
        at=f"{REF.replace('/0', '[0]')}/ip-address",
    ),
    # DHCP takes .1; with two agents .2 too. The NSD's profile counts where no ip-profile is given.
    Case("params-dhcp", lambda d: dhcp(d, {"enabled": True}, "10.0.0.1"), at="vld[0]/ip-profile"),
    Case("params-dhcp", lambda d: dhcp(d, {"enabled": True}, "10.0.0.2"), at="vld[0]/ip-profile"),
    Case(
        "params-dhcp",
        lambda d: dhcp(d, {"enabled": True, "start-address": "10.0.0.9", "count": 20}, "10.0.0.28"),
        at="vld[0]/ip-profile",
    ),
    Case("params-pool", lambda d: dhcp(d, {"start-address": "10.0.0.9"}), at="vld[0]/ip-profile"),
    Case(
        "params-pool",
        lambda d: dhcp(d, {"enabled": True, "start-address": "10.0.0.250", "count": 6}),
        at="vld[0]/ip-profile",
    ),
    Case(
        "params-pool",
        lambda d: (
            dhcp(d, {"enabled": True, "start-address": "10.0.0.250", "count": 1}),
            d["vld"][0].pop("vnfd-connection-point-ref"),
        ),
        at="vld[0]/ip-profile",
    ),
    Case(
        "params-pool",
        lambda d: (
            dhcp(d, {"enabled": True, "start-address": "10.0.0.250", "count": 2}),
            d["vld"][0]["ip-profile"].update({"gateway-address": "10.0.0.251"}),
        ),
        at="vld[0]/ip-profile",
    ),
    Case(
        "params-twice",
        lambda d: d["vld"][0]["vnfd-connection-point-ref"].append(
            {**d["vld"][0]["vnfd-connection-point-ref"][0], "ip-address": "10.0.0.77"}
        ),
        at="vld[0]/vnfd-connection-point-ref[1]/vnfd-connection-point-ref",
    ),
    Case(
        "params-twice", lambda d: d["vld"].append({"name": d["vld"][0]["name"]}), at="vld[1]/name"
    ),
    Case(
        "params-twice",
        lambda d: d["additionalParamsForVnf"].append(dict(d["additionalParamsForVnf"][0])),
        at="additionalParamsForVnf[2]/member-vnf-index",
    ),
    Case(
        "params-value", edit(f"{EXTRA}/additionalParams/port", "many"), at="additionalParams/port"
    ),
    Case("params-value", edit(f"{EXTRA}/additionalParams/port", 65536), at="additionalParams/port"),
    Case("params-value", edit(f"{EXTRA}/additionalParams/port", [1]), at="additionalParams/port"),
    Case("params-key", edit("additionalParamsForNs", {"a-b": 1}), at="additionalParamsForNs"),
    Case("wrong-value", edit("vnf/0/vimAccountId", "openstack"), at="vnf[0]/vimAccountId"),
    Case("wrong-value", edit("vimAccountId", "openstack"), at="vimAccountId"),
    Case("wrong-value", edit(f"{EXTRA}/additionalParams/since", DAY), at="additionalParams/since"),
    Case("wrong-value", edit(f"{EXTRA}/additionalParams/name", {"a"}), at="additionalParams/name"),
    Case("wrong-value", edit(f"{EXTRA}/additionalParams/port", float("inf")), at="port"),
    Case("params-value", edit(f"{EXTRA}/additionalParams/port", None), at="additionalParams/port"),
    Case("params-value", edit(f"{EXTRA}/additionalParams/name", None), at="additionalParams/name"),
]
