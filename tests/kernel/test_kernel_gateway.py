"""The gateway benchmark over a kernel's own ESP, which the machine's kernel may lack."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.guest import GuestMachine

pytestmark = pytest.mark.lab

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path[:0] = PATHS
tempfile.tempdir = os.getcwd()

IMPORTS

found = {}
for backend in (Plain(), Ipsec(2)):
    with tempfile.TemporaryDirectory() as folder, Route(backend, Path(folder)) as route:
        found[backend.name] = {"kind": backend.kind()}
        for load in (fixed(1514), ASYMMETRIC2):
            loop = Loop(load, route.end("field"), route.end("core"), route.backend.mtu)
            outcome = find(loop, 256, 0.1, 1.0, route.spent, 0.01)
            loop.close()
            spent = outcome.marks[1].gateway - outcome.marks[0].gateway
            found[backend.name][load.name] = [outcome.frames, outcome.arrived, outcome.loss, spent]
        if backend.name == "ipsec":
            shown = route.spaces.run("gw", "ip", "-s", "xfrm", "state")
            found["states"] = shown.count("proto esp")
            found["carried"] = [int(c["packets-out"]) for sa in backend.sas() for c in sa]
with open("found.json", "w") as stream:
    json.dump(found, stream)
"""


IMPORTS = """
from benchmarks.gateway.backends import Ipsec, Plain
from benchmarks.gateway.generator import Loop, find
from benchmarks.gateway.loads import ASYMMETRIC2, fixed
from benchmarks.gateway.route import Route
"""
#: What of the packages in use lies outside the distribution, each by its file or folder.
LISTING = """
import sys
from pathlib import Path
for root in sys.path[:0:-1]:
    tops = {name.partition(".")[0] for name in sys.modules}
    for top in sorted(tops):
        found = [p for p in (Path(root, top), Path(root, top + ".py")) if p.exists()]
        if not root.startswith("/usr") and found:
            print(root, found[0])
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, guest_machine: GuestMachine) -> dict[str, Any]:
    if not Path(sys.executable).resolve().is_relative_to("/usr"):
        pytest.skip("the machine has the distribution's Python only")
    folder = tmp_path_factory.mktemp("guest")
    own = [str(ROOT), str(ROOT / "charms/lib")]
    begin = f"import sys; sys.path[:0] = {own!r}"
    listed = subprocess.run(
        [sys.executable, "-c", f"{begin}\n{IMPORTS}\n{LISTING}"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split() for line in listed.stdout.splitlines()]
    guest_machine.put(*sorted({Path(path) for _, path in rows}))
    paths = [*own, *sorted({root for root, _ in rows} - set(own))]
    program = PROGRAM.replace("PATHS", repr(paths)).replace("IMPORTS", IMPORTS)
    done = guest_machine.run(folder, program, 500)
    assert done.code == 0, done.output
    return dict(json.loads((folder / "found.json").read_text()))


def test_the_kernel_carries_esp_and_nothing_is_fragmented(found: dict[str, Any]) -> None:
    assert "kernel-netlink" in found["ipsec"]["kind"]
    assert found["states"] == 4, "two tunnels, both ways"
    assert min(found["carried"]) > 100
    frames, packets, loss, _ = found["ipsec"]["1514"]
    assert frames == packets > 100
    assert loss < 0.01


def test_both_ways_pass_and_cost_the_gateway_more_than_forwarding(found: dict[str, Any]) -> None:
    for load in ("1514", "imix2 90/10"):
        frames, _, loss, spent = found["ipsec"][load]
        plain_frames, _, _, plain = found["plain"][load]
        assert loss < 0.01
        assert spent / frames > plain / plain_frames
