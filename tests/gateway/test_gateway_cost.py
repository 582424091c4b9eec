"""The gateway benchmark: its arithmetic, and all of it once through at the size of a test."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from benchmarks.gateway import measure, render, summary
from benchmarks.gateway.measure import Bench, Profile
from experiments.model import Cell, Run
from testbed.backends import Ipsec, WireGuard
from testbed.generator import Loop, Outcome, find
from testbed.loads import ASYMMETRIC2, HEADERS, IMIX, IMIX2, fixed, fragments, header
from testbed.route import hidden_threads

SMOKE = Profile((fixed(64), fixed(1514), ASYMMETRIC2), {2: (IMIX,)}, (4,), 0.15, 0.05, 0.5, 1, (1,))


HOST = {"cpus": 2, "cpu": "any", "kernel": "any"}


def test_mixes_have_the_mean_sizes_that_go_by_their_names() -> None:
    assert IMIX.mean == pytest.approx((7 * 64 + 4 * 590 + 1514) / 12)
    assert IMIX2.mean == pytest.approx(720.02)
    assert sum(size <= 127 for size in IMIX2.sizes()) == 44


def test_a_header_is_one_that_others_can_read() -> None:
    text = header((b"\2" * 6, b"\4" * 6), "10.200.0.1", "10.128.0.4", 128, 1025)
    frame = Ether(text + bytes(128 - HEADERS))
    assert len(text) == HEADERS
    assert (frame[IP].src, frame[IP].dst, frame[IP].len) == ("10.200.0.1", "10.128.0.4", 114)
    assert (frame[UDP].sport, frame[UDP].len) == (1025, 94)
    result = frame[IP].chksum
    del frame[IP].chksum
    assert Ether(bytes(frame))[IP].chksum == result


@pytest.mark.parametrize(
    ("size", "mtu", "count"), [(1514, 1500, 1), (1515, 1500, 2), (1414, 1400, 1), (1514, 1400, 2)]
)
def test_a_frame_too_large_for_a_tunnel_counts_as_its_fragments(
    size: int, mtu: int, count: int
) -> None:
    assert fragments(size, mtu) == count


def _run(backend: str, repetition: int, rate: float, load: str = "64", tunnels: int = 1) -> Run:
    size = int(load) if load.isdigit() else None
    params = {"backend": backend, "tunnels": tunnels, "load": load, "size": size, "down": 1.0,
              "place": 0}  # fmt: skip
    cell = Cell("forwarding", params)
    result = dict.fromkeys(("kpps", "gbps", "us-per-frame", "loss", "window"), 1.0)
    result |= {"gbps-per-core": rate, "valid": True}
    return Run("forwarding", params, cell.key, repetition, 0, 0.0, 1.0, 0.5, result)


def test_ratios_are_paired_by_round_and_stand_beside_plain_and_one_tunnel() -> None:
    runs = [_run("plain", n, 10.0 * (n + 1)) for n in range(3)]
    runs += [_run("ipsec", n, 2.0 * (n + 1)) for n in range(3)]
    runs += [_run("ipsec", n, 1.0 * (n + 1), tunnels=32) for n in range(3)]
    plain, one, many = summary.rows(runs, "forwarding")
    assert plain.to_plain is None
    assert one.to_plain is not None
    assert one.to_plain.mean == pytest.approx(0.2)
    assert one.to_plain.high == pytest.approx(0.2), "the same ratio in each round"
    assert many.to_one is not None
    assert many.to_one.mean == pytest.approx(0.5)


def test_each_source_is_compared_with_itself_only() -> None:
    runs = [_run("plain", 0, 3.0, "imix"), _run("plain", 0, 6.0, "imix2")]
    result = summary.mixes(summary.rows(runs, "forwarding"))
    assert result[0] == ("plain", pytest.approx(2.0))
    assert result[1][1] == pytest.approx(13.75 / 7.5)


def test_what_is_measured_is_what_the_documentation_says() -> None:
    names = {load.name for load in measure.STANDARD.loads}
    assert {"64", "128", "256", "512", "1024", "1280", "1400", "1514", "64 up", "1514 up"} <= names
    assert {"imix", "imix2", "imix2 90/10"} <= names
    assert set(measure.STANDARD.many) == {2, 4, 32, 1000}
    assert measure.STANDARD.cores[0] == 1


def test_flows_stand_beside_what_is_published() -> None:
    runs = [_run("ipsec", 0, 1.0, "1024", tunnels) for tunnels in (1, 2, 4)]
    page = render.html(
        {"seed": 1, "left-out": {}, "backends": {}, "environment": {"host": HOST}}, runs
    )
    assert (
        '<td class="text">NXP 2023</td><td>1024</td><td>14.6</td><td>14.6</td><td>19.9</td>' in page
    )
    assert '<td class="text">ipsec</td><td>1024</td><td>1.000</td>' in page


@pytest.mark.lab
def test_a_pinned_gateway_stays_on_its_processors(bench: Bench) -> None:
    route = bench.routes["wireguard", 1]
    assert isinstance(route.backend, WireGuard)
    last = max(os.sched_getaffinity(0))

    def threads() -> set[int]:
        found: set[int] = set()
        for pid in route.backend.gateway_pids():
            for task in Path(f"/proc/{pid}/task").iterdir():
                found |= os.sched_getaffinity(int(task.name))
        return found

    with route.pinned(1):
        assert threads() <= {last}
    assert threads() <= os.sched_getaffinity(0)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    found, _ = measure.backends(SMOKE)
    with Bench(SMOKE, found, tmp_path_factory.mktemp("gateway")) as made:
        yield made


@pytest.fixture(scope="module")
def runs(bench: Bench) -> list[Run]:
    return bench.runs(1, lambda step, count: None)


def _forwarding(runs: list[Run]) -> dict[tuple[str, int, str], Any]:
    return {(r.params["backend"], r.params["tunnels"], r.params["load"]): r.result
            for r in runs if r.experiment == "forwarding"}  # fmt: skip


@pytest.mark.lab
def test_every_load_passes_every_backend(runs: list[Run]) -> None:
    table = _forwarding(runs)
    assert len(table) == 11
    assert {cell: result for cell, result in table.items() if result["kpps"] <= 0} == {}
    # A busy machine may lose packets; a path that carries none or half of them is another thing.
    assert {cell: result for cell, result in table.items() if result["loss"] > 0.1} == {}


@pytest.mark.lab
@pytest.mark.skipif(bool(hidden_threads()), reason=hidden_threads())
def test_a_tunnel_costs_the_gateway_more_than_forwarding_does(runs: list[Run]) -> None:
    table = _forwarding(runs)
    for load in ("64", "1514"):
        plain = table["plain", 1, load]["us-per-frame"]
        assert 0 < plain < table["wireguard", 1, load]["us-per-frame"]
        assert plain < table["ipsec", 1, load]["us-per-frame"]


@pytest.mark.lab
def test_frames_went_through_each_of_the_tunnels(bench: Bench, runs: list[Run]) -> None:
    route = bench.routes["ipsec", 2]
    assert isinstance(route.backend, Ipsec)
    carried = [child["packets-out"] for child in route.backend.daemons[0].children()]
    assert len(carried) == 2
    assert min(int(count) for count in carried) > 10
    route = bench.routes["wireguard", 2]
    shown = route.spaces.run("gw", "wg", "show", f"{route.tag}w", "transfer")
    sent = [int(line.split()[2]) for line in shown.splitlines()]
    assert len(sent) == 2
    assert min(sent) > 1000


@pytest.mark.lab
def test_users_get_their_answers(runs: list[Run]) -> None:
    outcome = {r.params["backend"]: r.result for r in runs if r.experiment == "http"}
    assert set(outcome) == {"plain", "wireguard", "ipsec"}
    for result in outcome.values():
        assert result["requests-per-s"] > 0
        assert sum(result["errors"].values()) == 0
        assert 0 < result["latency-ms"]["p50"] <= result["latency-ms"]["p99"]


@pytest.mark.lab
def test_loss_is_told_and_not_measured_away(bench: Bench) -> None:
    route = bench.routes["plain", 1]
    hook = "type filter hook forward priority 0; numgen random mod 10 0 drop;"
    rules = f"table ip t {{ chain c {{ {hook} }}; }}"
    route.spaces.run("gw", "nft", "-f", "-", text=rules)
    try:
        loop = Loop(fixed(64), route.end("field"), route.end("core"), route.backend.mtu)
        outcome = find(loop, 32, 0.0, 0.2, route.spent, measure.LOSS)
        loop.close()
    finally:
        route.spaces.run("gw", "nft", "delete", "table", "ip", "t")
    assert outcome.window == 16
    assert 0.01 < outcome.loss < 0.4


class _Starved:
    """A loop whose sender gets no processor for some measurements."""

    def __init__(self, times: int) -> None:
        self.times = times

    def run(self, window: int, *_: object) -> Outcome:
        self.times -= 1
        arrived = 0 if self.times >= 0 else 100
        return Outcome(0.0, arrived, arrived, 0.3, 0.1, window)


@pytest.mark.parametrize(("times", "arrived"), [(0, 100), (3, 100), (99, 0)])
def test_a_measurement_in_which_nothing_was_sent_is_repeated(times: int, arrived: int) -> None:
    outcome = find(cast(Loop, _Starved(times)), 256, 0.1, 0.3, float, measure.LOSS)
    assert (outcome.arrived, outcome.window) == (arrived, 256)


@pytest.mark.lab
def test_page_and_table_tell_of_every_cell(runs: list[Run], tmp_path: Path) -> None:
    document = {"seed": 1, "left-out": {"x": "y"}, "backends": {"plain": "p"},
                "environment": {"host": HOST}, "runs": [asdict(run) for run in runs]}  # fmt: skip
    page, table = render.write(document, runs, tmp_path / "gateway.json")
    text = page.read_text()
    assert text.count("<svg") >= 3
    assert not re.search(r"(src|href)=\"http", text)
    with table.open() as stream:
        result = list(csv.DictReader(stream))
    assert {row["key"] for row in result} == {run.key for run in runs}
    assert {row["backend"] for row in result} == {"plain", "wireguard", "ipsec"}
