"""What services' records show of charms is what these say now, and how old it is."""

import time
from pathlib import Path

import pytest
from vca_support import WAIT, write_charm

from lab.cli import nouns
from lab.cli.context import Lab
from lab.lcm.backends import Backends


def test_a_record_has_what_charms_say_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.lcm.backends.vca_prefix", lambda home: [])
    lab = Lab(tmp_path / "home", "")
    model = Backends(lab.home).model("a")
    model.deploy("app", write_charm(tmp_path / "app", "app", script="status-set active ready"))
    with model:
        model.wait_idle(WAIT)
    deployed = {"VCA": [{"application": name} for name in ("app", "not-there-yet")]}
    old = {"app": {"status": "active", "message": "as after the last operation"}}
    nsr = {"_id": "a", "_admin": {"deployed": deployed}, "lab": {"charms": old, "more": 1}}
    found = nouns.of_now(lab, nsr)["lab"]
    assert (found["more"], list(found["charms"])) == (1, ["app"])
    said = found["charms"]["app"]
    assert (said["status"], said["message"]) == ("active", "ready")
    assert 0 <= time.time() - said["looked"] < WAIT
    # A model that cannot be read: what the last operation recorded.
    next(lab.home.glob("vca/models/*/model.json")).write_text("{")
    assert nouns.of_now(lab, nsr) == nouns.of_now(lab, {**nsr, "_id": "b"}) | {"_id": "a"} == nsr
