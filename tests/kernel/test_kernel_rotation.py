"""All peers of an IPsec link rotate on a kernel's own ESP, and no packet is lost.

`tests/gateway/test_rotation.py` has the same of WireGuard, and of strongSwan's own ESP.
"""

from __future__ import annotations

import json

import pytest
from support.guest import GuestMachine

pytestmark = [pytest.mark.lab, pytest.mark.schedule(order=2, worker="alone")]

IMPORTS = "from benchmarks.rotation import measure"
PROGRAM = """
import json
import os
import tempfile

tempfile.tempdir = os.getcwd()
with open("told.json", "w") as stream:
    json.dump(measure("ipsec", 20, 10, 50.0, 0), stream)
"""


def test_all_peers_rotate_without_a_lost_packet(
    tmp_path_factory: pytest.TempPathFactory, guest_machine: GuestMachine
) -> None:
    folder = tmp_path_factory.mktemp("rotation")
    done = guest_machine.run(folder, guest_machine.lend(IMPORTS) + PROGRAM)
    assert done.code == 0, done.output
    result = json.loads((folder / "told.json").read_text())
    print(result)
    assert result["backend"] == "kernel-netlink"
    assert (result["let-in"], result["lost"], result["twice"]) == (20, 0, 0), result
    # Without the precedence of the former tunnel 8 of 6,500 were lost.
    assert result["sent"] > 3000
