"""From an exporter's metrics to an alarm of OSM: targets, rules, descriptors."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from operate_support import Answering, Instance
from support.validating import validate_package

from builder import alarms, packages
from builder.errors import BuildError
from builder.tree import Tree
from builder.validate import Catalog
from builder.validate.reader import read
from lab.nbi.catalogue import _check_modified
from operate.client import OperateError
from operate.targets import targets

ROOT = Path(__file__).resolve().parents[2]
LABELS = 'ns_id="n1",vnf_member_index="mme",vdu_id="mme"'
RECORDS = {
    "a": {"member-vnf-index-ref": "mme", "ip-address": "192.0.2.5;fd00::5"},
    "b": {"member-vnf-index-ref": "hss", "ip-address": "fd00::6"},
}


class Osm(Answering):
    """Shows a service of two VNFs and remembers primitives."""

    def document(self, verb: str, id: str) -> dict[str, Any]:
        if verb == "ns-show":
            if id != "epc":
                raise OperateError(f"no service {id}")
            return {"_id": "n1", "constituent-vnfr-ref": list(RECORDS)}
        vdur = [{"vdu-id-ref": RECORDS[id]["member-vnf-index-ref"]}]
        return {**RECORDS[id], "nsr-id-ref": "n1", "vdur": vdur}

    def answer(
        self, ns: str, vnf: str, name: str, params: dict[str, Any], instance: Instance
    ) -> dict[str, Any]:
        pressed.append((ns, vnf, name, params))
        told.append(instance)
        return {}


class Scaled(Osm):
    """A service with two instances of a cell, each with a charm of its own."""

    def document(self, verb: str, id: str) -> dict[str, Any]:
        if verb == "ns-show":
            if id != "secgw":
                raise OperateError(f"no service {id}")
            charms = [{"member-vnf-index": "cell1", "vdu_id": "cell", "vdu_count_index": count}
                      for count in (1, 0)]  # fmt: skip
            deployed = {"VCA": [{"member-vnf-index": "gateway", "vdu_id": None}, *charms]}
            return {"constituent-vnfr-ref": ["c"], "_admin": {"deployed": deployed}}
        vdur = [{"vdu-id-ref": "cell", "count-index": count, "ip-address": f"192.0.2.{count}"}
                for count in (0, 1)]  # fmt: skip
        return {"member-vnf-index-ref": "cell1", "nsr-id-ref": "n1", "vdur": vdur}


pressed: list[tuple[str, str, str, dict[str, Any]]] = []
told: list[tuple[str, int] | None] = []


def test_targets_have_the_labels_of_osm() -> None:
    pressed.clear()
    mme, hss = targets(Osm(), ["epc"], 9815, turn_on=False)
    assert mme["targets"] == ["192.0.2.5:9815"]
    assert hss["targets"] == ["[fd00::6]:9815"]
    assert mme["labels"] == {
        "ns": "epc", "vnf": "mme", "ns_id": "n1", "vnf_member_index": "mme", "vdu_id": "mme",
    }  # fmt: skip
    assert not pressed
    (only,) = targets(Osm(), ["epc/hss"], 9000, turn_on=True)
    assert only["targets"] == ["[fd00::6]:9000"]
    assert pressed == [("n1", "hss", "configure-monitoring", {"exporter-port": 9000})]
    with pytest.raises(OperateError, match="epc has no VNF ue; allowed: mme, hss"):
        targets(Osm(), ["epc/ue"], 9815, turn_on=False)


def test_each_instance_of_a_vdu_that_scales_is_a_target() -> None:
    told.clear()
    found = targets(Scaled(), ["secgw/cell1"], 9815, turn_on=True)
    assert [entry["targets"] for entry in found] == [["192.0.2.0:9815"], ["192.0.2.1:9815"]]
    assert told == [("cell", 0), ("cell", 1)]


def sample(values: str, **more: str) -> dict[str, str]:
    extra = "".join(f',{name}="{value}"' for name, value in more.items())
    name = "vpnaas_peer_up" if more else "up"
    return {"series": f'{name}{{job="osm-vpnaas",{LABELS}{extra}}}', "values": values}


def test_prometheus_records_what_an_alarm_compares(tmp_path: Path) -> None:
    """At 30 s all is well, at 90 s a peer is down, at 180 s the exporter is silent."""
    rules = ROOT / "operate/prometheus"
    expected = [
        {
            "expr": f"osm_{alarms.METRIC}",
            "eval_time": at,
            "exp_samples": [{"labels": f"osm_{alarms.METRIC}{{{LABELS}}}", "value": value}],
        }
        for at, value in (("30s", 0), ("90s", 1), ("180s", 1))
    ]
    series = [
        sample("1x8 0x8"),
        sample("1x4 0x4 stale", link="s6a", peer="hss", technology="ipsec"),
        sample("1x8 stale", link="s11", peer="spgwc", technology="wireguard"),
    ]
    test = {"interval": "15s", "input_series": series, "promql_expr_test": expected}
    file = tmp_path / "test.yaml"
    files = [str(rules / "rules.yaml"), str(rules / "osm.yaml")]
    document = {"rule_files": files, "evaluation_interval": "15s", "tests": [test]}
    file.write_text(yaml.safe_dump(document))
    checked(["check", "rules", *files], ["test", "rules", str(file)])


def checked(*commands: list[str]) -> None:
    promtool = shutil.which("promtool")
    assert promtool, "promtool of the package prometheus is missing; ./run setup installs it"
    for words in commands:
        done = subprocess.run([promtool, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_parses_every_query_of_the_dashboard(tmp_path: Path) -> None:
    board = json.loads((ROOT / "operate/grafana/osm-vpnaas.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(queries) > len(board["panels"]) > 0
    # As Grafana puts its variables in.
    rules = [
        {"record": f"panel{n}", "expr": re.sub(r"\$(\w+)", lambda v: VARIABLES[v[1]], query)}
        for n, query in enumerate(queries)
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked(["check", "rules", str(file)])


VARIABLES = {"ns": "epc|secgw", "vnf": ".+", "__rate_interval": "1m"}
PEER_LABELS = f'{LABELS},ns="epc",vnf="mme",link="s6a",peer="hss",technology="wireguard"'


@pytest.mark.parametrize(
    ("series", "alerts"),
    [
        pytest.param({"peer_answers": "1x8 0x12"}, {"2m": 0, "4m": 1}, id="no answer"),
        pytest.param(
            {"sent_bytes_total": "0+640x40", "received_bytes_total": "0+148x8 1184x32"},
            {"2m": 0, "6m": 1},
            id="sends and hears nothing",
        ),
        pytest.param(
            {"sent_bytes_total": "0+32x40", "received_bytes_total": "0x7 92x7 184x7 276x40"},
            {"3m": 0, "5m": 0},
            id="keepalives and handshakes only",
        ),
        pytest.param(
            {"sent_bytes_total": "900x40", "received_bytes_total": "900x40"},
            {"6m": 0},
            id="a device that sleeps",
        ),
    ],
)  # fmt: skip
def test_a_silent_wireguard_peer_is_an_alert(
    tmp_path: Path, series: dict[str, str], alerts: dict[str, int]
) -> None:
    name = "LinkSilent" if "peer_answers" in series else "WireguardPeerSilent"
    where = "s6a to hss of epc/mme "
    summary = {
        "LinkSilent": where + "gets no answer",
        "WireguardPeerSilent": where + "sends, and receives nothing",
    }
    alarm = {
        "exp_labels": dict(re.findall(r'(\w+)="(\w+)"', PEER_LABELS)),
        "exp_annotations": {"summary": summary[name]},
    }
    test = {
        "interval": "15s",
        "input_series": [
            {"series": f"vpnaas_{metric}{{{PEER_LABELS}}}", "values": values}
            for metric, values in series.items()
        ],
        "alert_rule_test": [
            {"alertname": name, "eval_time": at, "exp_alerts": [alarm] * count}
            for at, count in alerts.items()
        ],
    }
    rules = str(ROOT / "operate/prometheus/rules.yaml")
    document = {"rule_files": [rules], "evaluation_interval": "15s", "tests": [test]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(document))
    checked(["test", "rules", str(tmp_path / "test.yaml")])


def test_a_package_in_use_takes_alarms_later() -> None:
    """OSM lets alarms and what they are about change: both are new here."""
    plain: dict[str, Any] = {"vnfd": {"id": "x", "vdu": [{"id": "cell"}]}}
    alarmed = alarms.with_alarms(plain, "https://alarms.example/osm")
    _check_modified(plain["vnfd"], alarmed["vnfd"])


@pytest.mark.slow
def test_packages_have_alarms_where_the_build_is_told_where_they_go(tmp_path: Path) -> None:
    tree = Tree.find(ROOT)
    url = "https://alarms.example/osm"
    (path,) = packages.build(tree, tmp_path, ["secgw_vnf"], alarm_url=url)
    catalog = Catalog()
    catalog.add(read(path))
    assert validate_package(path, catalog) == []
    (vdu,) = catalog.vnfds["secgw_vnf"]["vdu"]
    (alarm,) = vdu["alarm"]
    (parameter,) = vdu["monitoring-parameter"]
    assert parameter["performance-metric"] == alarms.METRIC
    assert alarm["vnf-monitoring-param-ref"] == parameter["id"]
    assert alarm["actions"]["alarm"] == alarm["actions"]["ok"] == [{"url": url}]
    plain = packages.catalogue(tree)["secgw_vnf"].descriptor["vnfd"]["vdu"]
    assert not any("alarm" in vdu for vdu in plain)


@pytest.mark.parametrize(
    "text", ["alarms.example", "ftp://alarms.example/", "http://", "http://a b/"]
)
def test_what_osm_could_not_post_to_is_refused(text: str) -> None:
    with pytest.raises(BuildError, match="allowed is http://HOST/PATH"):
        alarms.receiver(text)
