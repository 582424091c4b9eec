"""A release sets the version, closes the changelog, and is made of a commit with entries."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path

import pytest

from builder.errors import BuildError
from builder.tree import MARK, Tree
from builder.versions import prepare

DAY = datetime.date(2027, 2, 28)
CHANGELOG = "# Changelog\n\nWords.\n\n## Unreleased\n{}\n## 1.0.0 - 2026-11-26\n\n- First.\n"
ENTRY = "\n### Added\n\n- A thing.\n"


def git(folder: Path, *words: str) -> None:
    own = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A clone of version 1.0.0 with one entry after it."""
    (tmp_path / MARK).parent.mkdir(parents=True)
    (tmp_path / MARK).touch()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1.0.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG.format(ENTRY))
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return Tree(tmp_path)


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "tests: commit")


def test_the_version_is_set_and_the_section_closed_with_its_date(tree: Tree) -> None:
    prepare(tree, "1.10.0", DAY)
    assert tree.version == "1.10.0"
    text = (tree.root / "CHANGELOG.md").read_text()
    assert text == CHANGELOG.format(f"\n## 1.10.0 - 2027-02-28\n{ENTRY}")
    with pytest.raises(BuildError, match=r"commit or remove first: CHANGELOG.md, pyproject.toml"):
        prepare(tree, "1.10.0", DAY)
    commit(tree.root)
    prepare(tree, "1.10.0", DAY)  # the same again, which changes nothing
    assert (tree.root / "CHANGELOG.md").read_text() == text


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.1", "'1.1' is no version; allowed: three numbers"),
        ("v1.1.0", "is no version"),
        ("0.9.9", "version 0.9.9 is earlier than 1.0.0"),
        ("1.0.0", "has entries after 1.0.0; give the next version"),
    ],
)
def test_a_version_that_does_not_follow_is_refused(tree: Tree, version: str, reason: str) -> None:
    with pytest.raises(BuildError, match=reason):
        prepare(tree, version, DAY)
    assert tree.version == "1.0.0"


@pytest.mark.parametrize("entries", ["", "\n### Added\n"])
def test_an_empty_section_is_refused(tree: Tree, entries: str) -> None:
    (tree.root / "CHANGELOG.md").write_text(CHANGELOG.format(entries))
    commit(tree.root)
    with pytest.raises(BuildError, match="is empty: nothing to release"):
        prepare(tree, "1.1.0", DAY)


@pytest.mark.parametrize("file", ["pyproject.toml", "vnf-packages/new.yaml"])
def test_what_is_not_committed_is_refused(tree: Tree, file: str) -> None:
    path = tree.root / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(path.read_text() + "\n" if path.exists() else "new")
    with pytest.raises(BuildError, match=f"commit or remove first: {file.split('/')[0]}"):
        prepare(tree, "1.1.0", DAY)


def test_a_folder_without_history_is_refused(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / ".git").rename(tmp_path.parent / "history")
    with pytest.raises(BuildError, match="is no clone of the repository"):
        prepare(tree, "1.1.0", DAY)
