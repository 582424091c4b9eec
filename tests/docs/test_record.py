"""The records of runs: what came out, and what no run has passed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from support import record


def report(name: str, outcome: str, when: str = "call", reason: str = "", **more: Any) -> Any:
    return SimpleNamespace(
        nodeid=name,
        outcome=outcome,
        when=when,
        duration=1.5,
        failed=outcome == "failed",
        skipped=outcome == "skipped",
        longrepr=("file.py", 7, f"Skipped: {reason}") if reason else None,
        user_properties=list(more.items()),
    )


def run(*reports: Any, of: str = "long") -> record.Document:
    found = record.Run()
    for one in reports:
        found.note(one)
    return found.document(of, 61.4)


def test_a_record_says_what_came_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    document = run(
        report("a.py::good[x@y]", "passed"),
        report("a.py::good", "passed", "setup"),
        report("a.py::good@basic", "passed", mbps=7),
        report("a.py::left", "skipped", "setup", "no KVM here"),
        report("a.py::bad", "failed"),
        report("a.py::bad", "passed", "teardown"),
        report("a.py::busy", "rerun"),
        report("a.py::busy", "passed"),
        report("a.py::bad", "rerun"),
        report("a.py::late", "passed"),
        report("a.py::late", "failed", "teardown"),
    )
    assert document["passed"] == ["a.py::busy", "a.py::good", "a.py::good[x@y]"]
    assert document["failed-once"] == ["a.py::busy"]
    assert document["failed"] == ["a.py::bad", "a.py::late"]
    assert document["skipped"] == {"no KVM here": ["a.py::left"]}
    assert document["slowest"]["a.py::good"] == 3.0
    assert document["figures"] == {"a.py::good: mbps": 7}
    assert document["machine"]["processors"] >= 1
    monkeypatch.setattr(record, "RUNS", tmp_path)
    record.write("long", document)
    assert yaml.safe_load((tmp_path / "long.yaml").read_text("utf-8")) == document


def test_what_no_run_has_passed_is_told_once_with_its_reason() -> None:
    kvm, tool = "x.py::a", "x.py::b"
    first = run(
        report(kvm, "skipped", "setup", "no KVM"), report(tool, "skipped", reason="no tool")
    )
    assert dict(record.never([first, {"rows": []}])) == {kvm: "no KVM", tool: "no tool"}
    emulated = run(report(kvm, "passed"), of="kvm")
    assert dict(record.never([first, emulated])) == {tool: "no tool"}
    # On another machine, where so many passed that only what did not is named.
    other = {**run(report("x.py::c", "failed")), "passed": 700}
    assert list(record.never([first, other])) == []
    assert dict(record.never([first, {**other, "of": "not long"}])).keys() == {kvm, tool}


def test_kept_records_can_be_read() -> None:
    record.main()
