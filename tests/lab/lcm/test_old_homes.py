"""A home that an earlier version of the lab made is read, and its services can be deleted.

`home-2026-11-22.tar.gz` has the records of a home of that day with one service, without packages,
VDUs and charms.
"""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.documents import Stored
from lab.errors import VimError
from lab.lcm.backends import Backends
from lab.nbi.engine import Engine
from lab.records.store import NSDS, NSRS, OPS, VIMS, VNFDS, VNFRS
from lab.vim.account import clean
from lab.vim.store import Account, State

OLD = Path(__file__).with_name("home-2026-11-22.tar.gz")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    with tarfile.open(OLD) as archive:
        archive.extractall(tmp_path / "home")  # noqa: S202 - our own
    yield tmp_path / "home"
    clean(tmp_path / "home")  # Who asks for the controller gets its network, as after a restart.


def test_all_its_records_are_read(home: Path) -> None:
    engine = Engine(home)
    found = {kind: len(engine.store.all(kind)) for kind in (VIMS, VNFDS, NSDS, NSRS, VNFRS, OPS)}
    assert found == {VIMS: 1, VNFDS: 1, NSDS: 1, NSRS: 1, VNFRS: 2, OPS: 1}
    (service,) = engine.store.all(NSRS)
    model = Backends(home).controller().model(service["_id"])
    assert {unit.message for unit in model.status().units.values()} == {
        "vpn-server unconfigured, vpn-client up",
        "vpn-client unconfigured, vpn-server up",
    }
    assert Stored(home / "vims/lab/account.json", Account, VimError).read().name == "lab"
    assert len(Stored(home / "vims/lab/state.json", State, VimError).read().servers) == 2


@pytest.mark.lab
@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root")
@pytest.mark.parametrize("readable", [True, False])
def test_its_services_can_be_deleted(home: Path, readable: bool) -> None:
    if not readable:
        (model,) = (home / "vca/models").glob("*/model.json")
        model.write_text(json.dumps({"of": "another version"}), encoding="ascii")
    program = Path(sys.executable).with_name("osm-lab")
    for words in (("ns-delete", "basic", "--wait"), ("--json", "ns-list"), ("lab", "clean")):
        done = subprocess.run(
            [program, "--home", home, *words],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert "could be started" not in done.stdout
        if words[-1] == "ns-list":
            assert json.loads(done.stdout) == []
