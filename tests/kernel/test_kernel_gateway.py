"""The gateway benchmark over a kernel's own ESP, which the machine's kernel may lack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.guest import GuestMachine

pytestmark = [pytest.mark.lab, pytest.mark.schedule(order=2, worker="alone")]

ETHTOOL = Path("/usr/sbin/ethtool")
"""The benchmark sets up its wires with it; a VDU does not need it, so Day-0 does not install it."""
PROGRAM = """
import json
import os
import tempfile
from pathlib import Path

tempfile.tempdir = os.getcwd()
found = {}
for backend in (Plain(), Ipsec(2)):
    with tempfile.TemporaryDirectory() as folder, Route(backend, Path(folder)) as route:
        found[backend.name] = {"kind": backend.kind()}
        for load in (fixed(1514), ASYMMETRIC2):
            loop = Loop(load, route.end("field"), route.end("core"), route.backend.mtu)
            outcome = find(loop, 256, 0.1, 1.0, route.spent, 0.01)
            loop.close()
            figures = [outcome.frames, outcome.arrived, outcome.loss, outcome.spent]
            found[backend.name][load.name] = figures
        if backend.name == "ipsec":
            shown = route.spaces.run("gw", "ip", "-s", "xfrm", "state")
            found["states"] = shown.count("proto esp")
            children = backend.daemons[0].children()
            found["carried"] = [int(child["packets-out"]) for child in children]
with open("found.json", "w") as stream:
    json.dump(found, stream)
"""


IMPORTS = """
from testbed.backends import Ipsec, Plain
from testbed.generator import Loop, find
from testbed.loads import ASYMMETRIC2, fixed
from testbed.route import Route
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, guest_machine: GuestMachine) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("guest")
    program = guest_machine.lend(IMPORTS) + PROGRAM
    guest_machine.put(ETHTOOL)
    done = guest_machine.run(folder, program, sees_kernel_threads=True)
    assert done.code == 0, done.output
    return dict(json.loads((folder / "found.json").read_text()))


def test_the_kernel_carries_esp_and_nothing_is_fragmented(found: dict[str, Any]) -> None:
    assert "kernel-netlink" in found["ipsec"]["kind"]
    assert found["states"] == 4, "two tunnels, both ways"
    assert min(found["carried"]) > 100
    frames, packets, loss, _ = found["ipsec"]["1514"]
    assert frames == packets > 10
    assert loss < 0.01


def test_both_ways_pass_and_cost_the_gateway_more_than_forwarding(found: dict[str, Any]) -> None:
    for load in ("1514", "imix2 90/10"):
        frames, _, loss, spent = found["ipsec"][load]
        plain_frames, _, _, plain = found["plain"][load]
        assert loss < 0.01
        assert spent / frames > plain / plain_frames
