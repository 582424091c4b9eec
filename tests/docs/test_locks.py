"""The locks of Python packages belong to pyproject.toml; the check finds what differs."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import locks
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in ("pyproject.toml", *locks.LOCKS):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def test_the_locks_are_those_of_pyproject() -> None:
    assert list(locks.differences(ROOT)) == []


@pytest.mark.parametrize(
    ("file", "pattern", "replacement", "difference"),
    [
        ("pyproject.toml", '"click>=8.1"', '"click>=8.1", "toolz"', "programs.lock lacks toolz"),
        ("pyproject.toml", '"click>=8.1"', '"click>=99"', "programs.lock lacks click>=99, it has "),
        ("pyproject.toml", '    "click>=8.1",\n', "", "programs.lock was made from other"),
        ("pyproject.toml", '"pytest>=8,', '"pytest>=99,', "tests.lock lacks pytest<9.2,>=99"),
        ("pyproject.toml", r"setuptools>=\d+", "setuptools>=999", "lacks setuptools>=999"),
        ("programs.lock", r"\nclick==", "\nclock==", "programs.lock lacks click>=8.1, it has none"),
        (
            "programs.lock",
            r"\nscipy==1\.17[^\n]*",
            "\nscipy==1.1 \\\\",
            "lacks scipy>=1.10, it has",
        ),
    ],
)
def test_what_differs_is_found(
    copy: Path, file: str, pattern: str, replacement: str, difference: str
) -> None:
    text, count = re.subn(pattern, replacement, (copy / file).read_text(encoding="utf-8"))
    assert count == 1
    (copy / file).write_text(text, encoding="utf-8")
    assert any(difference in found for found in locks.differences(copy))


@pytest.mark.parametrize("name", locks.LOCKS)
def test_a_lock_has_hashes_and_names_no_registry(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "://" not in text
    for pins in locks.entries(text).values():
        assert all("--hash=sha256:" in pin for pin in pins)
