"""Bad input at the command line.

Cast: operator; server, client (`vpn_basic_ns`).

Seen:
- one sentence and a non-zero exit code for each;
- no record, no VDU and no change of the running tunnel.
"""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e_support import BASIC, Lab, Service
from support.verbs import shown

pytestmark = [pytest.mark.lab, pytest.mark.schedule(worker="basic")]

Change = Callable[[dict[str, Any]], object]


def inventory(lab: Lab) -> dict[str, object]:
    """Everything an instantiation makes, as far as the lab's own lists tell."""
    vim = shown(lab.home, "vim-show", "lab")
    return {
        "services": sorted(row["name"] for row in shown(lab.home, "ns-list")),
        "vnfs": len(shown(lab.home, "vnf-list")),
        "servers": sorted(server["id"] for server in vim["servers"]),
        "networks": sorted(network["id"] for network in vim["networks"]),
        "models": sorted(p.name for p in (lab.home / "vca" / "models").iterdir())
        if (lab.home / "vca" / "models").is_dir()
        else [],
    }


def member(document: dict[str, Any], index: str) -> dict[str, Any]:
    items = document["additionalParamsForVnf"]
    found: dict[str, Any] = next(i for i in items if i["member-vnf-index"] == index)
    return found


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda d: member(d, "client")["additionalParams"].pop("vpn_inner_address"),
            "<vpn_inner_address>",
        ),
        (lambda d: d["additionalParamsForVnf"].append({"member-vnf-index": "laptop"}), "laptop"),
        (lambda d: d["vld"][0].update(name="dataa"), "dataa"),
        (lambda d: d.update(additionalParamsForVnfs=[]), "additionalParamsForVnfs"),
        (lambda d: d.update(vld="data"), "vld"),
        (lambda d: member(d, "client")["additionalParams"].update({"a-b": "1"}), "a-b"),
    ],
    ids=["missing value", "unknown vnf", "unknown link", "unknown key", "wrong type", "key name"],
)
def test_bad_instantiation_parameters(
    lab: Lab, dist: Path, tmp_path: Path, change: Change, reason: str
) -> None:
    lab.onboard(*BASIC)
    good = yaml.safe_load((dist / "params" / "vpn_basic.yaml").read_text(encoding="utf-8"))
    bad = copy.deepcopy(good)
    change(bad)
    assert bad != good
    file = tmp_path / "params.yaml"
    file.write_text(yaml.safe_dump(bad), encoding="utf-8")
    before = inventory(lab)
    words = ("--ns_name", "bad", "--nsd_name", "vpn_basic_ns", "--vim_account", "lab")
    assert reason in lab.refused("ns-create", *words, "--config_file", str(file), "--wait")
    assert inventory(lab) == before


ACTION = ("ns-action", "basic", "--wait")


@pytest.mark.parametrize(
    ("vnf", "action", "params", "reason"),
    [
        ("client", "measure-luck", {}, "measure-luck"),
        ("laptop", "show-status", {}, "member_vnf_index='laptop'"),
        ("client", "measure-latency", {}, "Needed parameter link"),
        ("client", "measure-latency", {"link": "vpn-client", "luck": 1}, "luck"),
        ("client", "measure-latency", {"link": "vpn-client", "count": "many"}, "must be integer"),
        ("client", "measure-latency", {"link": "vpn-client", "count": 0}, "count"),
        ("client", "measure-latency", {"link": "s6a"}, "s6a"),
        ("client", "configure", {"link": "vpn-client", "inner-address": "10.77.0.2/40"}, "inner"),
        (
            "client",
            "configure",
            {"link": "vpn-client", "inner-address": "10.77.0.2/24", "underlay-interface": "eth9"},
            "the VDU has no interface eth9",
        ),
    ],
)
def test_bad_actions(
    lab: Lab, basic: Service, vnf: str, action: str, params: dict[str, object], reason: str
) -> None:
    words = (*ACTION, "--vnf_name", vnf, "--action_name", action, "--params", json.dumps(params))
    before = basic["client"].out("wg", "showconf", "wg-vpn-client")
    assert reason in lab.refused(*words)
    assert basic["client"].out("wg", "showconf", "wg-vpn-client") == before
    assert basic["client"].pings("10.77.0.1")
