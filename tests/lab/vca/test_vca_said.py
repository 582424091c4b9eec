"""What services' records show of charms is what these say now, and how old it is."""

import time
from pathlib import Path
from typing import Any

from vca_support import WAIT, write_charm

from lab.lcm.backends import Backends
from lab.nbi.views import view
from lab.records.store import NSRS
from lab.vca.model import Model


def services_charms(backends: Backends) -> Any:
    """Return what NBI shows of the charms of a service, as every client gets it."""
    deployed = {"VCA": [{"application": name} for name in ("app", "not-there-yet")]}
    nsr = {
        "_id": "a",
        "_admin": {"deployed": deployed},
        "lab": {"charms": {"app": {"status": "active", "message": "after an operation"}}},
        "nsd": {"df": [{}]},
        "constituent-vnfr-ref": [],
        "instantiate_params": {},
        "currentOperation": "IDLE",
        "currentOperationID": None,
    }
    return view(NSRS, nsr, backends.store)["lab"]["charms"]


def test_every_client_gets_what_charms_say_now(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("lab.lcm.backends.vca_prefix", lambda home: [])
    backends = Backends(tmp_path / "home")
    assert services_charms(backends) == {}  # None is deployed yet.
    model: Model = backends.model("a")
    model.deploy("app", write_charm(tmp_path / "app", "app", script="status-set active ready"))
    with model:
        model.wait_idle(WAIT)
    found = services_charms(backends)
    assert list(found) == ["app"]
    assert (found["app"]["status"], found["app"]["message"]) == ("active", "ready")
    assert 0 <= time.time() - found["app"]["looked"] < WAIT
    next(backends.home.glob("vca/models/*/model.json")).write_text("{")
    assert services_charms(backends)["app"]["status"] == "unknown"
