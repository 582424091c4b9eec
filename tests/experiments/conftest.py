"""Runs made up for tests of schedule, store and report; none of them was measured."""

from __future__ import annotations

import pytest
from support.campaigns import performance

from experiments.model import Cell, Run


@pytest.fixture
def runs() -> list[Run]:
    """Three rounds of one link of two slices, at a quarter of the baseline's rate with a VPN."""
    made = []
    for repetition, drift in enumerate((1.0, 1.1, 0.9)):
        for name in ("embb", "urllc"):
            for load, share in (("", 1.0), ("saturated", 0.5)):
                for path, rate in (("underlay", 8000.0), ("tunnel", 2000.0)):
                    made.append(
                        performance(name, path, load, repetition, rate * share * drift, 0.5 / share)
                    )
    return made


@pytest.fixture
def matrix() -> list[Run]:
    """Three rounds of an EPC with double resources, of one over two sites, and of S6a."""
    made = []
    for repetition, drift in enumerate((1.0, 1.1, 0.9)):
        for name, plain, rate, rtt in (
            ("double", 8000.0, 3000.0, 0.5),
            ("sites", 180.0, 150.0, 19),
        ):
            made.append(performance(name, "underlay", "", repetition, plain * drift, rtt / 2))
            made.append(performance(name, "tunnel", "", repetition, rate * drift, rtt))
        for name in ("embb", "urllc", "double"):
            for path, air in (("underlay", 2.0), ("tunnel", 3.0)):
                params = {"slice": name, "path": path, "ues": 9}
                result = {
                    "air_mean_ms": air * drift, "ulr_mean_ms": drift, "attach_median_ms": 9.0,
                }  # fmt: skip
                key = Cell("signalling", params).key
                made.append(Run("signalling", params, key, repetition, 0, 1e9, 1.0, 0.5, result))
    return made


@pytest.fixture
def judged() -> list[Run]:
    """One run of each experiment that has a verdict."""
    wires = {
        "tunnel": {"frames": {"wg": 10, "arp": 2}, "protected": 10, "clear": 0, "imsis": []},
        "underlay": {
            "frames": {"diameter": 1, "tcp": 9},
            "protected": 0,
            "clear": 10,
            "imsis": ["001010000000001"],
        },
    }
    stream = {
        "sent": 800, "lost": 0, "loss_percent": 0.0, "longest_loss_ms": 0.0, "gap_ms": 4.0,
        "sender_late_ms": 1.0, "delay_p50_ms": 0.3, "delay_p99_ms": 2.0, "delay_max_ms": 5.0,
    }  # fmt: skip
    unexpected = {"from": "a/hss", "to": "b/<mme>", "way": "forced", "port": 7777,
                  "protocol": "udp", "address": "inner/s6a"}  # fmt: skip
    outcome = [
        ("confidentiality", {"path": p}, {"links": {"embb/s6a": seen}}, True)
        for p, seen in wires.items()
    ]
    outcome += [
        ("reach", {"patience": 0.5},
         {"pairs": 70, "tcp-ports": "22", "unexpected": [unexpected], "open-by-design": 70,
          "outcomes": {"routed": {"tcp open": 70, "tcp silent": 3, "udp sent": 1}},
          "control": {"attempts": 10, "failed": []},
          "matrix": {"a/mme": {"a/hss": {"tunnel": True},
                               "b/<mme>": {"attempts": 9, "allowed": 1, "forbidden": 0}},
                     "a/hss": {"b/<mme>": {"attempts": 9, "allowed": 0, "forbidden": 1}},
                     "b/<mme>": {}}}, False),
        ("dependability",
         {"victim": "embb", "neighbour": "urllc", "fault": "vnf", "seconds": 4},
         {"neighbour": stream, "victim": {"lost": None}, "victim-broke": True,
          "timeline": {"fault_s": 1.0, "back_s": 5.5, "ended_s": 4.0, "silent": [1.0, 5.5]}}, True),
        ("revocation", {"victim": "embb", "thief": "urllc", "seconds": 5},
         {"sent": 500, "sent-after-deletion": 180, "arrived": 300, "after-deletion": 0,
          "primitive-s": 3.0, "peer-still-known": False}, True),
    ]  # fmt: skip
    return [
        Run(name, params, Cell(name, params).key, 0, order, 1e9 + order, 1.0, 0.5, result, passed)
        for order, (name, params, result, passed) in enumerate(outcome)
    ]
