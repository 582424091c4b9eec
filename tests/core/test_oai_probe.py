"""The look at a network function, with an engine that answers, refuses, or is busy."""

from __future__ import annotations

from pathlib import Path

import pytest
from oai import probe


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
