"""A gateway pair on a kernel's own ESP: how long peers are without service, by a 1 kHz probe.

The same pair as in `tests/gateway/test_hot_standby.py`, in one virtual machine. An emulated one is
slow, so gateways tell of themselves less often than the charm has them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.guest import GuestMachine

pytestmark = [pytest.mark.lab, pytest.mark.schedule(order=2, worker="alone")]

IMPORTS = """
from benchmarks import hot_standby as scenarios
from testbed.charon import backend
from testbed.pair import Pair
"""
PROGRAM = """
import json
import os
import tempfile
from pathlib import Path

tempfile.tempdir = os.getcwd()
measured = {"esp": backend()}


def esp(pair, name):
    shown = pair.spaces.ip(name, "-s", "xfrm", "state")
    return shown.count("proto esp")


with tempfile.TemporaryDirectory() as folder:
    with Pair(Path(folder), 2, advert=20, dpd=2, claim=3600) as pair:
        scenarios.settle(pair)
        measured["states"] = {name: esp(pair, name) for name in "ab"}
        for name, does, ends in (
            ("dead", lambda: pair.lose("a"), "b"),
            ("back", lambda: pair.regain("a"), "a"),
            ("killed", lambda: pair.kill_daemon("a"), "b"),
            ("unplugged", lambda: pair.unplug("a"), "b"),
        ):
            if name != "back":
                scenarios.settle(pair)
            measured[name] = pair.probe(60, (2, does), until=lambda: ends in pair.active())
        pair.plug("a")
        scenarios.settle(pair)
        attack = pair.attack("b", 1.5, 0.8)
        measured["attacked"] = pair.probe(6, (2, lambda: pair.lose("a")))
        measured["attack"] = json.loads(attack.communicate(timeout=60)[0])
with open("measured.json", "w") as stream:
    json.dump(measured, stream)
"""
#: Milliseconds: VRRP's three intervals of 200 ms and a skew (RFC 9568 section 6.1), then the claim.
GAP_MS = 6000.0


@pytest.fixture(scope="module")
def measured(
    tmp_path_factory: pytest.TempPathFactory, guest_machine: GuestMachine
) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("standby")
    done = guest_machine.run(folder, guest_machine.lend(IMPORTS) + PROGRAM)
    assert done.code == 0, done.output
    return dict(json.loads((folder / "measured.json").read_text()))


def test_each_gateway_has_the_kernels_esp(measured: dict[str, Any]) -> None:
    assert measured["esp"] == "kernel-netlink"
    # Two peers, both ways; while a key is made anew there is one more.
    assert min(measured["states"].values()) >= 4


@pytest.mark.parametrize("what", ["dead", "back", "killed", "unplugged"])
def test_the_other_gateway_takes_over(measured: dict[str, Any], what: str) -> None:
    print(f"{what}: {measured[what]['gap-ms']:.0f} ms")
    assert 0 < measured[what]["gap-ms"] < GAP_MS
    assert measured[what]["duplicates"] == 0


def test_what_was_recorded_is_not_accepted_by_the_standby(measured: dict[str, Any]) -> None:
    # An emulated processor on a busy machine records few.
    assert measured["attack"]["recorded"] > 2
    assert measured["attack"]["sent"] > 2
    assert measured["attacked"]["duplicates"] == 0
