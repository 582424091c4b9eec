"""A build leaves what was built from the same sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.tree import MARK, Tree
from builder.unchanged import STAMP, Stamp

SETTINGS = ("x86_64", "")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    source = tmp_path / "tree"
    (source / MARK).parent.mkdir(parents=True)
    (source / MARK).write_text("configure: {}\n")
    target = source / "dist"
    (target / "params").mkdir(parents=True)
    for name in ("a.tar.gz", "params/a.yaml"):
        (target / name).write_text("built")
    made = Stamp(Tree(source), target, SETTINGS)
    (target / "a").mkdir()
    made.write([target / "a", target / "a.tar.gz", target / "params/a.yaml"])
    return Tree(source)


def has(tree: Tree, *names: str, settings: tuple[str, ...] = SETTINGS) -> bool:
    return Stamp(tree, tree.dist, settings).has(names)


def test_a_second_build_of_the_same_sources_does_nothing(tree: Tree) -> None:
    assert has(tree, "a")


def test_another_package_or_other_settings_are_built(tree: Tree) -> None:
    assert not has(tree, "a", "b")
    assert not has(tree, "a", settings=("aarch64", ""))


@pytest.mark.parametrize("what", ["changed", "new", "mode"])
def test_a_change_of_the_sources_is_built(tree: Tree, what: str) -> None:
    file = tree.root / MARK
    if what == "new":
        file.with_name("more.yaml").write_text("")
    elif what == "mode":
        file.chmod(0o755)
    else:
        file.write_text("configure: {x: 1}\n")
    assert not has(tree, "a")


def test_a_file_that_came_into_the_folder_of_a_package_goes(tree: Tree) -> None:
    (tree.dist / "a/stale").touch()
    assert not has(tree, "a")


@pytest.mark.parametrize("name", ["a.tar.gz", "params/a.yaml", STAMP])
@pytest.mark.parametrize("gone", [True, False])
def test_what_is_gone_or_was_written_since_is_built(tree: Tree, name: str, gone: bool) -> None:
    file = tree.dist / name
    file.unlink()
    if not gone:
        file.write_text("[]")
    assert not has(tree, "a")
