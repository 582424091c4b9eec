"""The look at a network function, with an engine that answers, refuses, or is busy."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from oai import probe
from vpnaas.vdu.programs import source


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ("exit 0", []),
        ("exit 125", ["image a of one is not pulled yet", "image b of two is not pulled yet"]),
        ("exec sleep 60", ["the container engine is busy, an image may be on its way"]),
    ],
)
def test_a_function_that_is_not_ready_is_told_with_its_images(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: str, said: list[str]
) -> None:
    program = tmp_path / "engine"
    program.write_text(f"#!/bin/sh\n{engine}\n")
    program.chmod(0o755)
    monkeypatch.setattr(probe, "RUN", str(tmp_path))
    monkeypatch.setattr(probe, "SINCE", str(tmp_path / "since"))
    monkeypatch.setattr(probe, "ENGINE_SECONDS", 0.5 if "sleep" in engine else 20)
    monkeypatch.setattr(probe, "unit_states", lambda _: {"one": {"ActiveState": "activating"}})
    result = probe.main({
        "wait": 0, "units": ["one"], "images": {"two": "b", "one": "a"}, "engine": str(program),
        "checks": [],
    })  # fmt: skip
    assert result["reasons"] == [*said, "one is starting"]


def test_a_function_stays_ready_while_its_log_grows_and_is_rotated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = tmp_path / "gnb.log"
    monkeypatch.setattr(probe, "RUN", str(tmp_path))
    monkeypatch.setattr(probe, "LOG", f"{tmp_path}/{{}}.log")
    monkeypatch.setattr(probe, "LOG_LIMIT", 100)
    check = {"kind": "log", "unit": "gnb", "pattern": "Received NGSetupResponse"}
    old = "Received NGSetupResponse, of an earlier start\n"
    (tmp_path / "gnb.offset").write_text(f"{len(old)}\n")
    log.write_text(old + "no AMF yet\n" * 20)
    assert not probe.holds(check)
    log.write_text(old + "Received NGSetupResponse\n" + "Frame.Slot 128.0\n" * 20)
    assert probe.holds(check)
    for text in (old + "Frame.Slot 128.0\n" * 40, "after a rotation\n"):
        log.write_text(text)
        assert probe.holds(check)


def test_a_start_forgets_what_was_logged(tmp_path: Path) -> None:
    script = source("nf_prepare.sh", "oai")
    for number, path in enumerate(("/run/osm-vpnaas-nf", "/var/log", "/etc/osm-vpnaas/nf")):
        (tmp_path / str(number)).mkdir()
        script = script.replace(path, str(tmp_path / str(number)))
    (tmp_path / "1/gnb.log").write_text("a line\n")
    (tmp_path / "2/gnb.digest").write_text("0\n")
    (tmp_path / "0/gnb.logged").write_text("Received NGSetupResponse\n")
    subprocess.run(["sh", "-c", script, "nf-prepare", "gnb"], check=True)
    assert {path.name for path in (tmp_path / "0").iterdir()} == {"gnb.digest", "gnb.offset"}
    assert (tmp_path / "0/gnb.offset").read_text() == "7\n"
