"""Keys, order, storage and statistics of campaigns."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import math
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from support.campaigns import ENVIRONMENT as ENVIRONMENT_OF_A_LAB

from experiments import __main__ as command
from experiments import (
    campaign,
    confidentiality,
    dependability,
    fiveg,
    model,
    named,
    on_the_lab,
    procedures,
    qos,
    reach,
    revocation,
    signalling,
    stats,
    sweep,
    testbed,
    traffic,
    wire,
)
from experiments.__main__ import main
from experiments.campaign import EXPERIMENTS, beside, matching, plan
from experiments.model import Cell, Experiment, Run
from experiments.profiles import PROFILES
from experiments.report import render
from experiments.schedule import Planned, interleaved
from experiments.slices import RANGES, Request, moved
from experiments.store import Campaign
from experiments.testbed import LINKS, Addresses, Link, Slice, Testbed, Vnf
from lab.cli.commands import DEFAULT_HOME
from lab.errors import VimError
from operate.client import OperateError
from operate.nbi import Nbi
from operate.orders import Order
from operate.osm import NSTS, SERVICES, SLICES, VIMS, Osm

ENVIRONMENT = {"host": {"cpus": 2, "kernel": "6.1"}}


def test_equal_parameters_have_equal_keys_whatever_their_order() -> None:
    assert Cell("x", {"a": 1, "b": "2"}).key == Cell("x", {"b": "2", "a": 1}).key
    keys = {Cell("x", {"a": 1}).key, Cell("x", {"a": 2}).key, Cell("y", {"a": 1}).key}
    assert len(keys) == 3


@given(st.integers(1, 6), st.integers(1, 5), st.integers())
def test_each_round_has_every_cell_once(cells: int, repetitions: int, seed: int) -> None:
    table = [Cell("x", {"n": n}) for n in range(cells)]
    made = list(interleaved(table, repetitions, seed))
    assert made == list(interleaved(table, repetitions, seed))
    assert [item.order for item in made] == list(range(cells * repetitions))
    for number in range(repetitions):
        turn = [i.cell.params["n"] for i in made[number * cells : (number + 1) * cells]]
        assert sorted(turn) == list(range(cells))


def test_rounds_differ_in_order() -> None:
    table = [Cell("x", {"n": n}) for n in range(8)]
    made = [item.cell.params["n"] for item in interleaved(table, 5, 1)]
    assert len({tuple(made[n : n + 8]) for n in range(0, 40, 8)}) > 1


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_a_profile_names_experiments_and_no_run_twice(name: str) -> None:
    steps = plan(PROFILES[name], seed=1)
    runs = {(step.cell.experiment, step.cell.key, step.repetition) for step in steps}
    assert len(runs) == len(steps)
    assert {step.cell.experiment for step in steps} <= set(EXPERIMENTS)
    assert [step.order for step in steps] == list(range(len(steps)))


def test_the_full_profile_repeats_often_enough() -> None:
    steps = plan(PROFILES["full"], seed=1)
    made = Counter((step.cell.experiment, step.cell.key) for step in steps)
    assert {number for (name, _), number in made.items() if EXPERIMENTS[name].title} == {3}
    assert {number for (name, _), number in made.items() if not EXPERIMENTS[name].title} == {5}


def test_the_full_profile_has_the_whole_matrix_with_its_baselines() -> None:
    cells = [step.cell for step in plan(PROFILES["full"], seed=1)]
    for experiment in ("performance", "signalling"):
        table = {
            tuple(v for k, v in sorted(cell.params.items()) if k != "path"): set()
            for cell in cells
            if cell.experiment == experiment
        }
        for cell in cells:
            if cell.experiment == experiment:
                point = tuple(v for k, v in sorted(cell.params.items()) if k != "path")
                table[point].add(cell.params["path"])
        assert set(map(frozenset, table.values())) == {frozenset({"underlay", "tunnel"})}
    measured = {(c.params["slice"], c.params["link"], c.params["neighbour"]) for c in cells
                if c.experiment == "performance"}  # fmt: skip
    assert {("double", "s6a", ""), ("double", "s1u", ""), ("sites", "s6a", "")} < measured
    assert {("embb", "s6a", "saturated"), ("urllc", "s6a", "")} < measured


def test_a_campaign_goes_on_with_more_rounds() -> None:
    few, more = (plan(PROFILES["full"], 3, repetitions) for repetitions in (2, 4))
    assert {(s.cell.key, s.repetition) for s in few} < {(s.cell.key, s.repetition) for s in more}
    for part in (PROFILES["full"].first, PROFILES["full"].measured, PROFILES["full"].last):
        made = [[(s.cell, s.repetition) for s in steps if s.cell in part] for steps in (few, more)]
        assert made[0] == made[1][: 2 * len(part)]


def test_runs_are_chosen_by_experiment_and_slice() -> None:
    steps = plan(PROFILES["full"], 1)
    assert matching(steps, ()) == steps
    sites = matching(steps, ("sites",))
    assert {step.cell.params["slice"] for step in sites} == {"sites"}
    assert beside(sites) == ["sites"]
    both = matching(steps, ("signalling:double", "reach"))
    assert {step.cell.experiment for step in both} == {"signalling", "reach"}
    assert beside(both) == ["double"]
    assert beside(matching(steps, ("confidentiality",))) == []
    with pytest.raises(click.BadParameter, match=r"--only reech: .*allowed: .*reach.*sites"):
        matching(steps, ("reech",))


def test_a_run_that_fails_is_left_for_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = {"n": 0}

    def sometimes(_bed: object, n: int, **_: str) -> tuple[dict[str, int], None]:
        if n < good["n"]:
            return {"n": n}, None
        raise click.ClickException("no [tunnel]")

    monkeypatch.setitem(campaign.EXPERIMENTS, "x", Experiment(sometimes))  # type: ignore[misc]
    name = "core[/a]"  # rich would take it for markup
    steps = [Planned(Cell("x", {"n": n, "slice": name}), 0, n) for n in range(3)]
    made, out = Campaign(tmp_path), io.StringIO()
    bed = Testbed(Osm(Nbi("https://127.0.0.1:9")), tmp_path, Console(file=out))
    sentence = rf"3 runs in a row gave no result.*no \[tunnel\]; .*--out {tmp_path} goes on"
    with pytest.raises(click.ClickException, match=sentence):
        campaign.make(bed, made, steps)
    good["n"] = 2
    assert campaign.make(bed, made, steps) == 1
    assert "no [tunnel]" in out.getvalue()
    assert f"x 0 {name}: " in out.getvalue()
    assert [run.result["n"] for run in made.runs()] == [0, 1]
    good["n"] = 3
    assert campaign.make(bed, made, steps) == 0
    assert len(made.runs()) == 3


def test_a_failure_of_the_lab_is_one_of_a_single_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sometimes(_bed: object, n: int) -> tuple[dict[str, int], None]:
        if n == 0:
            raise VimError("'cat' did not end within 120 s in the server.")
        return {"n": n}, None

    monkeypatch.setitem(campaign.EXPERIMENTS, "x", Experiment(sometimes))  # type: ignore[misc]
    steps = [Planned(Cell("x", {"n": n}), 0, n) for n in range(2)]
    made, out, osm = Campaign(tmp_path), io.StringIO(), Osm(Nbi("https://127.0.0.1:9"))
    lab = on_the_lab.Lab(tmp_path, osm)
    bed = Testbed(osm, tmp_path, Console(file=out, width=120), lab=lab)
    assert campaign.make(bed, made, steps) == 1
    assert "1/2 NO RESULT x 0: 'cat' did not end within 120 s in the server\n" in out.getvalue()
    assert [run.result["n"] for run in made.runs()] == [1]


def member(id: str, *links: str) -> dict[str, Any]:
    """Return the record of a VNF whose VDU has an interface for each of these links."""
    return {"_id": id, "vdur": [{"interfaces": [{"ns-vld-id": link} for link in links]}]}


def test_a_link_is_captured_though_the_name_of_another_ends_with_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    osm = Osm(Nbi("https://127.0.0.1:9"))
    hub = Vnf("gw", "ns", "hub", "vnf", "vdu", "server", "10.0.0.1", "app", "sitegw_vnf", osm)
    made = Slice("gw", "ns", Addresses({}, {}), {"hub": hub}, links={})
    ports = [SimpleNamespace(device=name) for name in ("longer", "own")]
    lab = on_the_lab.Lab(tmp_path, osm)
    vim = SimpleNamespace(server=lambda _: SimpleNamespace(ports=ports))
    monkeypatch.setattr(lab, "vim", lambda _: vim)
    monkeypatch.setattr(Osm, "members", lambda *_: [member("vnf", "site-lan", "lan")])
    assert lab.ports("hub", [made], "lan") == [(vim, "own")]


def test_what_the_lab_lacks_is_a_failure_of_a_single_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    osm = Osm(Nbi("https://127.0.0.1:9"))
    enb = Vnf("epc", "ns", "enb", "vnf", "vdu", "server", "10.0.0.1", "app", "enb_vnf", osm)
    made = Slice("epc", "ns", Addresses({}, {}), {"enb": enb}, links={"s1c": LINKS["s1c"]})
    cut_off = subprocess.CompletedProcess([], 0, '{"attached": 1', "")
    vim = SimpleNamespace(
        server=lambda _: SimpleNamespace(ports=()), console=lambda *_, **__: cut_off
    )
    monkeypatch.setattr(Osm, "members", lambda *_: [member("vnf", "mgmt")])
    lab = on_the_lab.Lab(tmp_path, osm)
    monkeypatch.setattr(lab, "vim", lambda _: vim)
    with pytest.raises(click.ClickException, match="is on the network of s1c"):
        lab.captured([made], tmp_path).__enter__()
    monkeypatch.setattr(on_the_lab, "PATIENCE", -1)
    with pytest.raises(click.ClickException, match="UEs cannot attach: no message"):
        lab._load(enb, {"count": 1, "rate": 0.0})


def test_a_capture_that_takes_too_long_to_read_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], **how: Any) -> None:
        raise subprocess.TimeoutExpired(command, how["timeout"])

    monkeypatch.setattr(wire.subprocess, "run", run)
    with pytest.raises(click.ClickException, match=r"^tshark did not read a\.pcap within 300 s$"):
        wire.dissect(tmp_path / "a.pcap")


def test_links_have_their_time_also_after_a_long_instantiation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    osm, states = Osm(Nbi("https://127.0.0.1:9")), iter(["down", "up"])

    def instantiated(place: str, key: str) -> None:
        now[0] += 3600

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _: None)
    monkeypatch.setattr(testbed, "time", clock)
    monkeypatch.setattr(osm, "action", lambda *_: {"s6a": {"state": next(states)}})
    monkeypatch.setattr(osm, "finished", instantiated)
    bed = Testbed(osm, tmp_path, Console(file=io.StringIO()))
    mme = Vnf("epc", "ns", "mme", "vnf", "vdu", "server", "10.0.0.1", "app", "mme_vnf", osm)
    made = Slice("epc", "ns", Addresses({}, {}), {"mme": mme}, links={"s6a": LINKS["s6a"]})
    monkeypatch.setattr(bed, "instantiate", lambda _: Order("ns", "operation"))
    monkeypatch.setattr(bed, "read", lambda *_: made)
    bed.deploy([Request("epc", "epc_ns", {}, alone=True)])
    assert bed.slices == {"epc": made}


class Shared(Nbi):
    """An OSM with a slice `embb` of somebody else, that takes the name a second time."""

    def __init__(self) -> None:
        super().__init__("https://127.0.0.1:9", pause=0)
        self.lists = {
            SLICES: [{"_id": "theirs", "name": "embb"}],
            SERVICES: [{"_id": "their service", "name": "embb.core"}],
            NSTS: [{"_id": "t", "id": "embb_nst"}],
            VIMS: [{"_id": "v", "name": "lab"}],
        }

    def get(self, path: str) -> Any:
        if path in self.lists:
            return self.lists[path]
        place, _, id = path.rpartition("/")
        if place == SERVICES:
            return {"_id": id, "_admin": {"deployed": {"VCA": []}}}
        if place == SLICES:
            return {"_admin": {"nsrs-detailed-list": [{"nss-id": "core", "nsrId": "our service"}]}}
        return {"operationState": "COMPLETED"} if "op_occs" in place else []

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        self.lists[path].append({"_id": "ours", "name": body["nsiName"]})
        return {"id": "ours", "nsilcmop_id": "operation"}

    def delete(self, path: str) -> Any:
        place, _, id = path.rpartition("/")
        self.lists[place] = [entry for entry in self.lists[place] if entry["_id"] != id]
        return {"_id": "deletion"}


def test_a_slice_of_somebody_else_is_neither_used_nor_deleted(tmp_path: Path) -> None:
    osm = Osm(Shared())
    bed = Testbed(osm, tmp_path, Console(file=io.StringIO()))
    document = {"netslice-subnet": [{"id": "core", "vld": [], "additionalParamsForVnf": []}]}
    expected = Request("embb", "embb_nst", document, "core")
    with pytest.raises(click.ClickException, match=r"OSM has embb, embb\.core already"):
        bed.refuse_taken([expected])
    bed.refuse_taken([Request("urllc", "urllc_nst", document, "core")])
    bed.deploy([expected])
    assert bed.slices["embb"].ns_id == "our service"
    assert bed.clean() == []
    assert [entry["_id"] for entry in osm.nbi.get(SLICES)] == ["theirs"]


def test_a_floating_address_is_where_the_other_end_reaches() -> None:
    text = """
vld:
- name: s6a
  vnfd-connection-point-ref: [{member-vnf-index-ref: hss, ip-address: 10.30.0.129}]
additionalParamsForVnf:
- member-vnf-index: hss
  additionalParams: {s6a_inner_address: 172.16.6.129/24, s6a_gateway: 203.0.113.129}
"""
    found = Addresses.of(yaml.safe_load(text))
    assert found.outer["hss", "s6a"] == "203.0.113.129"
    assert Addresses.of(yaml.safe_load(text.replace("203.0.113.129", "auto"))).outer == {
        ("hss", "s6a"): "10.30.0.129"
    }


@pytest.mark.parametrize("given", [{}, {"additionalParamsForVnf": [{"member-vnf-index": "hss"}]}])
def test_a_service_without_parameters_has_no_addresses(given: dict[str, Any]) -> None:
    assert Addresses.of({"nsName": "mine", **given}) == Addresses({}, {})


def test_a_campaign_goes_on_where_it_was(tmp_path: Path, runs: list[Run]) -> None:
    made = Campaign(tmp_path / "c")
    made.begin("quick", 7, ENVIRONMENT)
    made.add(runs[0])
    again = Campaign(tmp_path / "c")
    assert again.begin("quick", 8, ENVIRONMENT)["seed"] == 7
    cell = Cell(runs[0].experiment, runs[0].params)
    assert again.has(cell, 0)
    assert not again.has(cell, 1)
    assert again.runs() == [runs[0]]


def test_runs_of_another_machine_are_not_mixed_in(tmp_path: Path) -> None:
    Campaign(tmp_path).begin("quick", 1, ENVIRONMENT)
    other = {"host": {"cpus": 2, "kernel": "6.8"}}
    with pytest.raises(click.ClickException, match=r"environment.*kernel '6\.1' there, '6\.8'"):
        Campaign(tmp_path).begin("quick", 1, other)
    with pytest.raises(click.ClickException, match="another profile"):
        Campaign(tmp_path).begin("full", 1, ENVIRONMENT)


@pytest.mark.parametrize("spoil", ["{", "[]", '{"schema": 0}', "key", "extra", "started", "result"])
def test_a_file_that_is_no_run_is_told(tmp_path: Path, runs: list[Run], spoil: str) -> None:
    made = Campaign(tmp_path)
    made.begin("quick", 1, ENVIRONMENT)
    made.add(runs[0])
    (file,) = (tmp_path / "runs").glob("*.json")
    document = json.loads(file.read_text())
    if spoil == "key":
        document["params"]["link"] = "s1u"
        spoil = json.dumps(document)
    elif spoil == "extra":
        spoil = json.dumps(dict(document, extra=1))
    elif spoil in document:
        spoil = json.dumps({**document, spoil: "x"})
    file.write_text(spoil)
    with pytest.raises(click.ClickException, match=f"{file.name} is not a run"):
        made.runs()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "describes no campaign: Expecting"),
        ("[]", "describes no campaign: it needs profile, seed and environment"),
        ('{"profile": "quick", "seed": 1}', "it needs profile, seed and environment"),
        ('{"profile": "old", "seed": 1, "environment": {}}', "profile old is unknown; known: 5g"),
    ],
)
def test_a_description_that_is_none_is_one_sentence(
    tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "campaign.json").write_text(text)
    done = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert (done.exit_code, done.output.count("\n")) == (1, 1)
    assert sentence in done.output


def test_a_report_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    Campaign(tmp_path).begin("quick", 1, ENVIRONMENT_OF_A_LAB)
    done = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert f"the campaign in {tmp_path} has no runs yet, so there is nothing to rep" in done.output
    assert not (tmp_path / "report.html").exists()
    (tmp_path / "figures").write_text("")
    with pytest.raises(click.ClickException) as caught:
        render.write(Campaign(tmp_path))
    assert f"{tmp_path / 'figures'}: File exists" in caught.value.message
    done = CliRunner().invoke(main, ["report", str(tmp_path / "figures")])
    assert "figures holds no campaign" in done.output
    with pytest.raises(click.ClickException, match="figures/campaign.json cannot be written: "):
        Campaign(tmp_path / "figures").begin("quick", 1, ENVIRONMENT_OF_A_LAB)


def test_a_full_disk_leaves_no_half_file_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object, to: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", to)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(click.ClickException, match="cannot be written: No space left on device"):
        Campaign(tmp_path).begin("quick", 1, ENVIRONMENT)
    assert list(tmp_path.iterdir()) == []


def test_an_interval_is_students() -> None:
    found = stats.mean([10.0, 12.0, 14.0])
    # t(0.975, 2) = 4.3027; s = 2, n = 3.
    assert (found.mean, found.n) == (12, 3)
    assert found.high - found.mean == pytest.approx(4.3027 * 2 / math.sqrt(3), rel=1e-4)
    assert str(found) == "12.0 (7.0 to 17.0)"
    assert not stats.mean([5.0]).known
    assert str(stats.mean([0.5])) == "0.50"
    with pytest.raises(ValueError, match="no value"):
        stats.mean([])


def test_a_ratio_is_paired_and_symmetric() -> None:
    one, base = [2.0, 4.4, 1.8], [4.0, 8.0, 4.0]
    there, back = stats.ratio(one, base), stats.ratio(base, one)
    assert there.mean * back.mean == pytest.approx(1)
    assert there.low * back.high == pytest.approx(1)
    # Drift that both share leaves the ratio alone.
    assert stats.ratio([1.0, 2.0], [2.0, 4.0]).high == pytest.approx(0.5)
    for bad in (([1.0], [1.0, 2.0]), ([0.0, 1.0], [1.0, 1.0]), ([], [])):
        with pytest.raises(ValueError, match="value"):
            stats.ratio(*bad)


@pytest.mark.parametrize(
    ("change", "good"),
    [
        ({}, True),
        ({"port": 4043}, False),
        ({"address": "inner/s1u"}, False),
        ({"protocol": "udp"}, False),
    ],
)
def test_only_logins_are_open_by_design(change: dict[str, object], good: bool) -> None:
    found = {"address": "management", "port": 22, "to": "embb/enb", "protocol": "tcp"}
    assert reach.by_design({**found, **change}) == good


def test_losses_of_a_stream() -> None:
    delay = {"min": 0.1, "median": 0.2, "p99": 1.0, "max": 2.0}
    seen = {"received": 70, "first": 10, "last": 99, "longest-run-lost": 5, "gap-ms": 25.0,
            "within-budget": 60, "delay-ms": delay}  # fmt: skip
    stream = traffic.Stream(200, {"sent": 100, "late-ms": 0.1}, seen)
    assert (stream.lost, stream.longest_loss_ms, stream.within_percent) == (30, 50, 60)
    late = traffic.Stream(200, {"sent": 200, "late-ms": 0.1}, seen)
    assert late.longest_loss_ms == 500
    nothing = traffic.Stream(200, {"sent": 10, "late-ms": 0.1})
    assert (nothing.lost, nothing.longest_loss_ms, nothing.within_percent) == (10, 50, 0)
    assert nothing.summary()["delay_max_ms"] is None
    wrong = {**seen, "delay-ms": {**delay, "min": -3.0}}
    with pytest.raises(click.ClickException, match=r"3\.0 ms before it was sent: the clocks"):
        _ = traffic.Stream(200, {"sent": 100, "late-ms": 0.1}, wrong).within_percent


def test_a_stream_of_nothing_is_no_result() -> None:
    with pytest.raises(click.ClickException, match="nothing of a stream was sent"):
        traffic.Stream(200, {"sent": 0, "late-ms": 0.0}).summary()


def pair(tmp_path: Path, links: Mapping[str, Link] = LINKS) -> Testbed:
    """Return a test bed with two slices of an eNB each, whose 5QIs are in their parameters."""
    osm = Osm(Nbi("https://127.0.0.1:9"))
    bed = Testbed(osm, tmp_path, Console(file=io.StringIO()))
    values = {"s1u_five_qi": 82, "s1u_underlay_mbps": 50,
              "s1u_guaranteed_mbps": 5, "s1u_maximum_mbps": 5}  # fmt: skip
    members = [{"member-vnf-index": end, "additionalParams": values} for end in ("enb", "amf")]
    for name in ("embb", "urllc"):
        enb = Vnf(name, name, "enb", "", "", "", "", "", "", osm)
        made = Slice(
            name, name, Addresses({}, {}), {"enb": enb}, {"additionalParamsForVnf": members}, links
        )
        bed.slices[name] = made
    return bed


@pytest.mark.parametrize(
    ("run", "params"),
    [
        (confidentiality.run, {}),
        (signalling.run, {"slice": "embb", "ues": 1}),
        (procedures.run, {"slice": "embb", "ues": 1}),
    ],
)
def test_a_link_is_secured_again_also_if_an_answer_is_lost(
    run: Any, params: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed, asked = pair(tmp_path, fiveg.SHARED_LINKS), list[str]()
    bed.lab = object()  # type: ignore[assignment]

    def configure(name: str, link: str, technology: str) -> None:
        asked.append(technology)
        if technology == "none":
            raise click.ClickException("no answer")

    monkeypatch.setattr(bed, "configure", configure)
    with pytest.raises(click.ClickException, match="no answer"):
        run(bed, path="underlay", **params)
    assert asked == ["none", "wireguard"]


def test_5qis_of_which_half_were_set_are_set_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed, force, failing = pair(tmp_path), {"embb": True, "urllc": True}, [True]

    def action(service: str, member: str, primitive: str, params: Mapping[str, Any]) -> None:
        if service == "embb" and failing and failing.pop():
            raise OperateError("no answer")
        force[service] = bool(params["five-qi"])

    monkeypatch.setattr(bed.osm, "action", action)
    bed.shaped = True
    with pytest.raises(click.ClickException, match="no answer"):
        qos.ensure(bed, enforced=False)
    qos.ensure(bed, enforced=True)
    assert (force, bed.shaped) == ({"embb": True, "urllc": True}, True)


LATE = {"received": 8, "first": 0, "last": 7, "longest-run-lost": 0, "within-budget": 0,
        "delay-ms": {"min": 20.0, "median": 50.0, "p99": 90.0, "max": 99.0}}  # fmt: skip


@pytest.mark.parametrize(
    ("seen", "mbps", "good"),
    [(LATE, 45.0, True), ({}, 45.0, False), (LATE, 0.0, False), ({}, 0.0, False)],
)
def test_the_control_of_qos_needs_traffic(
    seen: dict[str, Any], mbps: float, good: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed, stream = pair(tmp_path), traffic.Stream(200, {"sent": 8, "late-ms": 0.1}, seen)
    bed.lab = SimpleNamespace(  # type: ignore[assignment]
        ports=lambda *_: [], bottleneck=lambda *_: contextlib.nullcontext()
    )
    monkeypatch.setattr(bed.osm, "action", lambda *_: {})
    monkeypatch.setattr(qos, "load", lambda *_, **__: contextlib.nullcontext({"mbps": mbps}))
    monkeypatch.setattr(qos, "Flow", lambda *_, **__: SimpleNamespace(result=lambda: stream))
    monkeypatch.setattr(qos, "time", SimpleNamespace(sleep=lambda _: None))
    _, passed = qos.run(bed, "urllc", "embb", enforced=False, seconds=4)
    assert passed == good


@pytest.mark.parametrize(
    ("sent", "failed", "good"), [(210, 0, True), (130, 0, False), (210, 80, False)]
)
def test_a_thief_that_stops_by_itself_shows_nothing(
    sent: int, failed: int, good: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed, streams = pair(tmp_path), [{}, {"thief": {"received": 100}}]
    # The first stream is what the thief sent until the peer was deleted, which took long.
    stops = [{"sent": sent, "failed": failed}, {"sent": 900, "failed": 0}]
    for name, slice_ in bed.slices.items():
        hss = Vnf(name, name, "hss", "", "", "", "10.0.0.1", "", "", bed.osm)
        addresses = Addresses({("hss", "s6a"): "172.16.6.129"}, {})
        bed.slices[name] = replace(slice_, vnfs={"hss": hss}, addresses=addresses)
    answers = {
        "show-status": lambda: {"s6a": {"public-key": "k", "listen-port": 51821, "peers": []}},
        "stop-listener": lambda: {"streams": streams.pop(), "ran-until-stopped": True},
        "stop-stream": lambda: stops.pop(),
    }
    monkeypatch.setattr(bed.osm, "action", lambda *words: answers.get(words[2], dict)())
    monkeypatch.setattr(Vnf, "run", lambda *_: "key")
    clock = SimpleNamespace(sleep=lambda _: None, monotonic=lambda: 0.0)
    monkeypatch.setattr(revocation, "time", clock)
    result, passed = revocation.run(bed, "embb", "urllc", seconds=2)
    assert (passed, result["arrived"], result["after-deletion"]) == (good, 100, 0)


def test_a_meter_that_saw_nothing_gives_no_result() -> None:
    known = {"count": 2, "mean-ms": 1.5, "median-ms": 1}
    assert signalling.times({"AIR": known}, ["AIR"], "mean", "median") == {
        "air_mean_ms": 1.5, "air_median_ms": 1,
    }  # fmt: skip
    with pytest.raises(click.ClickException, match="the meter saw no ULR"):
        signalling.times({"AIR": known, "ULR": {"count": 0}}, signalling.REQUESTS, "mean")
    with pytest.raises(click.ClickException, match="the meter lost 3 packets"):
        signalling.times({"AIR": known, "packets-lost-by-the-meter": 3}, ["AIR"], "mean")


def test_what_runs_beside_a_failure_has_ended_when_the_failure_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would disturb the run that comes next."""
    bed, ended = pair(tmp_path), list[str]()

    def slow(name: str) -> None:
        time.sleep(0.3)
        ended.append(name)

    def work(slice_: Slice) -> None:
        if slice_.name == "embb":
            raise click.ClickException("no answer")
        slow(slice_.name)

    def lost(operation: str) -> str:
        raise OperateError("no answer")

    with pytest.raises(click.ClickException, match="no answer"):
        bed.in_slices(work)
    assert ended == ["urllc"]
    monkeypatch.setattr(bed.osm, "output", lost)
    sockets = iter([0, 0, 1])  # The meter captures at the second look.
    bed.lab = cast(on_the_lab.Lab, SimpleNamespace(taps=lambda _: next(sockets)))
    mme: Any = SimpleNamespace(start=lambda *_, **__: "operation")
    with pytest.raises(OperateError, match="no answer"):
        signalling.metered(bed, mme, "measure-s6a", lambda: slow("load"), count=2)
    assert next(sockets, None) is None
    assert ended == ["urllc", "load"]


@pytest.mark.parametrize("ended", ["capture", "listener", "stream"])
def test_what_ended_before_it_was_stopped_is_no_result(
    ended: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = Link("s1u", "S1-U", "enb", "enb")
    bed = pair(tmp_path, {"s1u": link})
    addresses = Addresses({("enb", "s1u"): "10.0.0.1"}, {})
    bed.slices = {"embb": replace(bed.slices["embb"], addresses=addresses)}

    def flow(**how: Any) -> None:
        traffic.Flow(bed.slices["embb"], "s1u", **how).result()

    def action(service: str, member: str, primitive: str, params: Mapping[str, Any]) -> Any:
        ran = {"ran-until-stopped": primitive != f"stop-{ended}"}
        return {**ran, "sent": 8, "streams": {}, "links": {}}

    monkeypatch.setattr(bed.osm, "action", action)
    run = partial(confidentiality.run, bed, "tunnel") if ended == "capture" else flow
    with pytest.raises(click.ClickException, match=f"/enb: the {ended} ended before it was stop"):
        run()
    if ended == "stream":  # It may end by itself if that was asked for.
        flow(seconds=4)


def test_a_light_embb_has_the_rate_that_it_was_given_however_long_it_lasts() -> None:
    for sent in (4000, 9000):
        whole = traffic.Stream(1000, {"sent": sent}, {"received": sent})
        assert sweep.light_mbps(whole) == pytest.approx(10)
        half = traffic.Stream(1000, {"sent": sent}, {"received": sent // 2})
        assert sweep.light_mbps(half) == pytest.approx(5)


def test_what_a_capture_missed_is_no_result() -> None:
    end = {"sent": {"wg": 3, "arp": 1}, "received": {"tcp": 9}, "missed": 0,
           "identities": {"001010000000001": 0}}  # fmt: skip
    other = {**end, "sent": {"wg": 2}, "identities": {"001010000000001": 1}}
    found = confidentiality.merged([end, other])
    assert (found.frames, found.imsis) == ({"arp": 1, "wg": 5}, ("001010000000001",))
    with pytest.raises(click.ClickException, match="missed 4 frames"):
        confidentiality.merged([end, {**end, "missed": 4}])


def test_runs_that_need_the_lab_are_left_out_elsewhere() -> None:
    everything = plan(PROFILES["full"], 1)
    steps = campaign.without_the_lab(everything)
    left_out = {one.cell.experiment for one in everything} - {s.cell.experiment for s in steps}
    assert left_out == {"qos", "signalling"}
    fiveg = campaign.without_the_lab(plan(PROFILES["5g-full"], 1))
    assert {step.cell.experiment for step in fiveg} == {
        *("confidentiality", "reach", "sessions", "performance", "dependability", "revocation"),
    }
    assert campaign.without_the_lab(plan(PROFILES["5g-sweep"], 1)) == []
    faults = {step.cell.params["fault"] for step in steps if "fault" in step.cell.params}
    assert faults == {"vnf", "tunnel", "link"}
    assert beside(steps) == ["double"]


@pytest.mark.parametrize(
    ("protocols", "icmp6", "kind"),
    [
        ("eth:ethertype:ip:udp:wg", "", "wg"),
        ("eth:ethertype:ip:udp:udpencap:esp", "", "esp"),
        ("eth:ethertype:ip:udp:udpencap:isakmp", "", "isakmp"),
        ("eth:ethertype:arp", "", "arp"),
        ("eth:ethertype:ipv6:icmpv6", "135", "icmpv6-nd"),
        ("eth:ethertype:ipv6:icmpv6", "143", "icmpv6-mld"),
        ("eth:ethertype:ipv6:icmpv6", "128", "icmpv6"),
        ("eth:ethertype:ip:tcp:diameter", "", "diameter"),
        ("eth:ethertype:ip:udp:gtp:ip:icmp:data", "", "gtp"),
        ("eth:ethertype:ip:udp:gtp:ip:udp:udpencap:esp", "", "gtp"),
        ("eth:ethertype:ip:udp:data", "", "udp"),
        ("eth:ethertype:ip:tcp", "", "tcp"),
    ],
)
def test_frames_are_what_the_dissector_says(protocols: str, icmp6: str, kind: str) -> None:
    assert wire.kind(protocols, icmp6) == kind
    clear = wire.Wire({kind: 1}, ()).clear
    assert bool(clear) == (kind in {"icmpv6", "diameter", "gtp", "udp", "tcp"})


def test_a_second_slice_shares_no_address_with_the_first() -> None:
    text = """
vld:
- name: s6a
  ip-profile: {subnet-address: 192.168.8.0/24}
  vnfd-connection-point-ref:
  - {member-vnf-index-ref: hss, ip-address: 192.168.8.129}
  - {member-vnf-index-ref: mme, ip-address: 192.168.8.2}
- name: outside
additionalParamsForVnf:
- {member-vnf-index: hss, additionalParams: {s6a_inner_address: 172.16.6.129/24, ssh_password: ""}}
- {member-vnf-index: mme, additionalParams: {s6a_inner_address: 172.30.6.2/24}}
"""
    one, two = (Addresses.of(yaml.safe_load(t)) for t in (text, moved(text, RANGES["epc"])))
    assert one.inner[("hss", "s6a")] == "172.16.6.129"
    assert one.outer[("mme", "s6a")] == "192.168.8.2"
    assert (one.inner.keys(), one.outer.keys()) == (two.inner.keys(), two.outer.keys())
    mine = {*one.inner.values(), *one.outer.values()}
    assert not mine & {*two.inner.values(), *two.outer.values()}


def test_a_real_osm_needs_nothing_of_the_lab(tmp_path: Path) -> None:
    """Nor does a command load matplotlib, which takes longer than all the rest."""
    program = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('lab', 'simulators', 'matplotlib')))\n"
        "from experiments.__main__ import main\n"
        "main()\n"
    )
    words = ["run", "--osm", "https://127.0.0.1:9", "--vim", "x", "--out", str(tmp_path / "c")]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True,
                          check=False, timeout=120)  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "https://127.0.0.1:9/osm does not answer" in done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--osm", "https://127.0.0.1:9"], "--osm and --vim go together"),
        (["--vim", "x"], "--osm and --vim go together"),
        (["--slice", "a"], "two slices at least"),
        (["--slice", "a", "--slice", "a"], "two slices at least"),
        (["--slice", "a", "--slice", "b", "--vim", "x"], "not for --slice"),
    ],
)
def test_options_that_do_not_go_together(words: list[str], sentence: str) -> None:
    done = CliRunner().invoke(main, ["run", *words])
    assert done.exit_code == 2
    assert sentence in done.output


def test_a_machine_without_a_dataplane_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def probe() -> None:
        raise VimError("This kernel has no WireGuard.")

    monkeypatch.setattr(on_the_lab, "probe", probe)
    done = CliRunner().invoke(main, ["run"])
    assert (done.exit_code, done.output) == (1, "Error: This kernel has no WireGuard.\n")


@pytest.mark.parametrize(
    ("words", "sentence", "begun"),
    [
        (["--only", "reech"], "--only reech: no run is of that name", False),
        (["--home", "/dev/null"], "--home /dev/null: File exists", True),
    ],
)
def test_a_wrong_word_brings_nothing_up(
    words: list[str], sentence: str, begun: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_the_lab, "environment", lambda *_: ENVIRONMENT)
    done = CliRunner().invoke(main, ["run", *words, "--out", str(tmp_path / "c")])
    assert sentence in done.output
    assert (tmp_path / "c").exists() == begun


def test_named_slices_need_a_lab_that_is_there(tmp_path: Path) -> None:
    words = ["run", "--slice", "a", "--slice", "b", "--home", str(tmp_path / "typo")]
    done = CliRunner().invoke(main, words)
    assert f"{tmp_path / 'typo'} has no lab" in done.output
    assert not (tmp_path / "typo").exists()


def test_a_slice_that_is_named_twice_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adopted: list[str] = []
    nbi = SimpleNamespace(version=lambda: {"version": "lab"})
    lab = SimpleNamespace(osm=SimpleNamespace(nbi=nbi))
    monkeypatch.setattr(on_the_lab, "served", lambda _: contextlib.nullcontext(lab))
    monkeypatch.setattr(command, "adopt", lambda _, name: adopted.append(name))
    (tmp_path / "nbi").mkdir()
    names = [word for name in "aba" for word in ("--slice", name)]
    out = tmp_path / "c"
    CliRunner().invoke(main, ["run", *names, "--home", str(tmp_path), "--out", str(out)])
    assert adopted == ["a", "b"]
    described = Campaign(out).describe()["environment"]
    # Two labs, or one on another machine, are not mixed.
    assert described["osm"]["url"] == f"the lab in {tmp_path}"
    assert described["host"]["kernel"]


def test_runs_of_a_slice_are_not_mixed_with_those_of_one_made_again_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    age = iter("xxyy")
    nbi = SimpleNamespace(version=lambda: {"version": "lab"})
    lab = SimpleNamespace(osm=SimpleNamespace(nbi=nbi))
    monkeypatch.setattr(on_the_lab, "served", lambda _: contextlib.nullcontext(lab))
    monkeypatch.setattr(command, "adopt", lambda _, name: [f"{name}-{next(age)}"])
    (tmp_path / "nbi").mkdir()
    words = ["run", "--slice", "a", "--slice", "b", "--home", str(tmp_path), "--out",
             str(tmp_path / "c")]  # fmt: skip
    CliRunner().invoke(main, words)
    assert Campaign(tmp_path / "c").describe()["environment"]["slices"] == {
        "a": ["a-x"],
        "b": ["b-x"],
    }
    done = CliRunner().invoke(main, words)
    assert "another environment: slices a ['a-x'] there, ['a-y'] here; take another" in done.output


def test_a_name_that_two_slices_have_needs_an_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed = Testbed(Osm(Nbi("https://127.0.0.1:9")), tmp_path, Console(file=io.StringIO()))
    both = [{"_id": key, "name": "core"} for key in ("s1", "s2")]
    monkeypatch.setattr(bed.osm.nbi, "get", lambda place: both if place == SLICES else [])
    with pytest.raises(click.ClickException, match="OSM has core 2 times; allowed: an id, s1, s2"):
        named.adopt(bed, "core")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--slice", "wrong"], "OSM has no slice and no service wrong"),
        (["--slice", "b", "--only", "reech"], "--only reech: no run is of that name"),
    ],
)
def test_a_wrong_name_leaves_no_campaign_behind(
    words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def adopt(_bed: object, name: str) -> None:
        if name == "wrong":
            raise click.ClickException("OSM has no slice and no service wrong")

    nbi = SimpleNamespace(version=lambda: {"version": "lab"})
    lab = SimpleNamespace(osm=SimpleNamespace(nbi=nbi))
    monkeypatch.setattr(on_the_lab, "served", lambda _: contextlib.nullcontext(lab))
    monkeypatch.setattr(command, "adopt", adopt)
    (tmp_path / "nbi").mkdir()
    where = ["--home", str(tmp_path), "--out", str(tmp_path / "c")]
    done = CliRunner().invoke(main, ["run", "--slice", "a", *words, *where])
    assert sentence in done.output
    assert not (tmp_path / "c").exists()


def test_the_commit_is_known_also_in_a_tree_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = ("-c", "user.name=n", "-c", "user.email=e")
    for words in (("init", "-q"), (*who, "commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert re.fullmatch("[0-9a-f]+", model.environment(tmp_path)["versions"]["commit"])


def test_a_lab_that_is_not_removed_is_told(tmp_path: Path) -> None:
    screen = Console(file=io.StringIO(), width=200)
    (tmp_path / "vca").mkdir()
    command._clean(screen, lambda: on_the_lab.clean(tmp_path))
    shown = screen.file.getvalue()  # type: ignore[attr-defined]
    assert f"not deleted: ERROR: {tmp_path} is no home of a lab" in shown
    (tmp_path / "vca").rmdir()
    assert on_the_lab.clean(tmp_path) == []


def test_packages_that_are_not_built_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = SimpleNamespace(osm=None, machines=False, accounts=lambda _: None)
    monkeypatch.setattr(on_the_lab, "environment", lambda *_: ENVIRONMENT)
    monkeypatch.setattr(on_the_lab, "served", lambda *_: contextlib.nullcontext(lab))
    monkeypatch.setattr(on_the_lab, "clean", lambda _: "")
    place = ["--home", str(tmp_path / "lab"), "--out", str(tmp_path / "c")]
    done = CliRunner().invoke(main, ["run", *place, "--dist", str(tmp_path / "dost")])
    assert f"Error: {tmp_path / 'dost'}" in done.output, done.exception
    assert (done.exit_code, "No such file or directory" in done.output) == (1, True)


@pytest.mark.parametrize("name", ["nbi/vim_accounts/x.json", "server/index.js"])
def test_what_was_in_a_home_stays(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_the_lab, "environment", lambda *_: ENVIRONMENT)
    monkeypatch.setattr(on_the_lab, "served", lambda *_: 1 / 0)
    record = tmp_path / "lab" / name
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    words = ["run", "--home", str(tmp_path / "lab"), "--out", str(tmp_path / "c")]
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, record.exists()) == (1, True)
    assert "is not empty" in done.output


@pytest.mark.parametrize("home", ["", "/elsewhere"])
def test_named_slices_are_those_of_the_lab_that_osm_lab_uses(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def served(place: Path) -> None:
        raise click.ClickException(f"home {place}")

    monkeypatch.setattr(on_the_lab, "served", served)
    monkeypatch.delenv("OSMLAB_HOME", raising=False)
    monkeypatch.setattr(Path, "exists", lambda _: True)
    if home:
        monkeypatch.setenv("OSMLAB_HOME", home)
    done = CliRunner().invoke(main, ["run", "--slice", "a", "--slice", "b"])
    assert f"home {home or DEFAULT_HOME}\n" in done.output


def test_an_empty_variable_is_no_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OSMLAB_HOME", "")
    assert on_the_lab.default_home() == Path(DEFAULT_HOME)


def test_a_charm_of_a_lab_in_a_relative_home_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system knows working directories by their absolute path."""
    folder = tmp_path / "lab" / "vca" / "hss"
    folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    lab = on_the_lab.Lab(Path("lab"), Osm(Nbi("https://127.0.0.1:9")))
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], cwd=folder, stdin=subprocess.PIPE
    ) as charm:
        clock = SimpleNamespace(monotonic=iter((0, 0, 60)).__next__, sleep=lambda _: None)
        monkeypatch.setattr(on_the_lab, "time", clock)
        try:
            lab.kill_charm("hss")
        finally:
            charm.terminate()
        assert charm.wait(60) == -9


def test_captures_of_slices_of_any_name_have_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = on_the_lab.Lab(tmp_path, Osm(Nbi("https://127.0.0.1:9")))
    vim = SimpleNamespace(capture=lambda _, file: contextlib.nullcontext(file.touch()))
    monkeypatch.setattr(lab, "vim", lambda _: vim)
    monkeypatch.setattr(on_the_lab, "_port", lambda *_: SimpleNamespace(network_id=""))
    near, link = SimpleNamespace(), SimpleNamespace(near="hss")
    slices: Any = [
        Slice(name, "", Addresses({}, {}), {"hss": near}, links={to: link})  # type: ignore[dict-item]
        for name, to in (("a/b", "c"), ("a", "b-c"), ("a-b", "c"))
    ]
    with lab.captured(slices, tmp_path) as files:
        assert len(set(files.values())) == 3


def test_a_victim_of_which_nothing_arrived_shows_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: Any = {"sent": 800, "late-ms": 0.1}
    near = SimpleNamespace(stop=lambda _: sent)
    flow = SimpleNamespace(near=near, far="embb/spgwu", seen=dict, result=lambda: None)
    monkeypatch.setattr(dependability, "_flow", lambda *_, **__: flow)
    monkeypatch.setattr(dependability, "_DO", {"tunnel": lambda *_: lambda: None})
    monkeypatch.setattr(dependability, "_wait_recovered", lambda *_: None)
    with pytest.raises(click.ClickException, match="embb/spgwu: nothing of the victim's stream"):
        dependability.run(pair(tmp_path), "embb", "urllc", "tunnel", seconds=0)


def test_the_streams_last_as_long_as_the_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def flow(slice_: Any, own_end: bool) -> Any:
        sent = {"sent": 800, "late-ms": 0.1}
        near = SimpleNamespace(stop=lambda _: said.append("victim's stream ended") or sent)
        whole = SimpleNamespace(lost=0, seen={}, summary=dict)
        return SimpleNamespace(
            near=near,
            far="embb/spgwu",
            seen=lambda: {"received": 700, "first": 0, "last": 799, "longest-run-lost": 90},
            result=lambda: said.append("neighbour's stream ended") or whole,
        )

    monkeypatch.setattr(dependability, "_flow", flow)

    def fault(_bed: Any, _end: Any, mending: contextlib.ExitStack) -> None:
        mending.callback(said.append, "mended")

    monkeypatch.setattr(dependability, "_DO", {"tunnel": fault})
    monkeypatch.setattr(dependability, "_wait_recovered", lambda *_: said.append("back"))
    monkeypatch.setattr(dependability, "_timeline", lambda *_: {})
    dependability.run(pair(tmp_path), "embb", "urllc", "tunnel", seconds=0)
    assert said == ["mended", "back", "neighbour's stream ended", "victim's stream ended"]


@pytest.mark.parametrize("vdus", [{}, {"vdur": []}])
def test_a_named_slice_with_a_vnf_of_kubernetes_is_one_sentence(
    vdus: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed = Testbed(Osm(Nbi("https://127.0.0.1:9")), tmp_path, Console(file=io.StringIO()))
    record = {"_id": "s", "name": "core", "instantiate_params": {}, "nsd": {},
              "_admin": {"deployed": {"VCA": []}}}  # fmt: skip
    member = {"_id": "v", "member-vnf-index-ref": "amf", "vnfd-id": "d", "ip-address": None}
    answers = {SLICES: [], SERVICES: [record], f"{SERVICES}/s": record}
    monkeypatch.setattr(bed.osm.nbi, "get", lambda path: answers.get(path, [{**member, **vdus}]))
    with pytest.raises(click.ClickException, match="core/amf has no VDU"):
        named.adopt(bed, "core")


def test_links_of_a_named_slice_are_the_relations_of_its_nsd() -> None:
    end = {"vnf-profile-id": "hss", "endpoint": "s6a"}
    nsd = {"ns-configuration": {"relation": [
        {"name": "r", "provider": end, "requirer": {"vnf-profile-id": "mme", "endpoint": "x"}},
        {"name": "old", "entities": []},
        {"name": "ns", "provider": {"endpoint": "a"}, "requirer": end},
    ]}}  # fmt: skip
    (link,) = named.related(nsd)
    assert (link.near, link.far) == ("mme", "hss")
    assert (link.endpoint("mme"), link.endpoint("hss")) == ("x", "s6a")
    assert list(named.related({})) == []


def test_each_experiment_tells_its_own_figures(judged: list[Run], matrix: list[Run]) -> None:
    assert all(experiment.headline for experiment in EXPERIMENTS.values())
    told = {run.experiment: EXPERIMENTS[run.experiment].told(run.result) for run in judged}
    assert told == {
        "confidentiality": "0 protected frames, 10 clear, identities 001010000000001",
        "reach": "70 pairs, 1 reached what they must not",
        "dependability": "neighbour lost 0, victim all",
        "revocation": "300 arrived before, 0 after the deletion",
    }
    signalling = next(run for run in matrix if run.experiment == "signalling")
    assert EXPERIMENTS["signalling"].told(signalling.result).startswith("AIR 2.00 ms, ULR 1.00 ms")
