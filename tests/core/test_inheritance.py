"""No class adds private names to those of a library's class, whose next version may use them."""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import inspect
import textwrap
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = {*SETTINGS["tool"]["mypy"]["packages"], "support"}
#: What a library's class wants to be set by those who inherit from it.
WANTED = {"_fields_"}


def modules() -> Iterator[Path]:
    for top in ("", "charms/lib", "tests"):
        for package in PACKAGES if top != "tests" else {"support"}:
            yield from sorted((ROOT / top / package).rglob("*.py"))


def is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in {*PACKAGES, __name__}


def of_libraries(kind: type) -> list[type]:
    """Return the library's classes that a class inherits from, but not pure interfaces.

    An interface says that its instances hold nothing (`__slots__`), and does nothing itself.
    """
    return [
        each
        for each in kind.__mro__
        if not is_ours(each)
        and each is not object
        and each.__module__ not in ("abc", "typing")
        and vars(each).get("__slots__") != ()
    ]


def stored(tree: ast.AST) -> set[str]:
    """Return the attributes that methods of a class set on `self`."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def defined(tree: ast.ClassDef) -> set[str]:
    """Return the names of methods and attributes of a class."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


@functools.cache
def stored_by(kind: type) -> set[str]:
    """Return what a library's class sets on its instances, as far as its source is Python."""
    try:
        return stored(ast.parse(textwrap.dedent(inspect.getsource(kind))))
    except (OSError, TypeError):
        return set()


def complaints(tree: ast.ClassDef, libraries: list[type]) -> Iterator[str]:
    """Yield what is wrong with a class that inherits from classes of libraries."""
    added = (defined(tree) | stored(tree)) - WANTED
    for name in sorted(added):
        if name.startswith("_") and not name.startswith("__"):
            yield f"{tree.name}.{name}: private, so {libraries[0].__name__} may use it one day"
    theirs = set().union(*map(dir, libraries))
    on_theirs = set().union(*map(stored_by, libraries))
    for name in sorted((stored(tree) & theirs) | (defined(tree) & on_theirs) - theirs):
        yield f"{tree.name}.{name}: {libraries[0].__name__} has something else of this name"


def classes(path: Path) -> Iterator[tuple[ast.ClassDef, list[type]]]:
    """Yield the classes of a module that inherit from classes of libraries, and these."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [each for each in ast.walk(tree) if isinstance(each, ast.ClassDef) and each.bases]
    if not found:
        return
    top = next(top for top in (ROOT / "charms/lib", ROOT / "tests", ROOT) if top in path.parents)
    name = path.relative_to(top).with_suffix("").as_posix().replace("/", ".")
    namespace = {**vars(importlib.import_module(name.removesuffix(".__init__")))}
    for each in found:
        libraries = []
        for base in map(ast.unparse, each.bases):
            if base.partition("[")[0].partition(".")[0] not in namespace | vars(builtins):
                imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
                exec("\n".join(map(ast.unparse, imports)), namespace)
            kind = eval(base, namespace)  # noqa: S307
            kind = getattr(kind, "__origin__", kind)
            libraries += of_libraries(kind) if isinstance(kind, type) else []
        if libraries:
            yield each, libraries


@pytest.mark.slow
def test_no_class_adds_private_names_to_a_librarys_class() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{node.lineno}: {complaint}"
        for path in modules()
        for node, libraries in classes(path)
        for complaint in complaints(node, libraries)
    ] == []


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("def _context(self): ...", "Agent._context: private, so Thread may use it one day"),
        ("_last = 0", "Agent._last: private, so Thread may use it one day"),
        ("def run(self): self._end = 1", "Agent._end: private, so Thread may use it one day"),
        ("def run(self): self.join = 1", "Agent.join: Thread has something else of this name"),
        ("def run(self): self.executing = 1", ""),
    ],
)
def test_such_a_name_is_found(body: str, complaint: str) -> None:
    tree = ast.parse(f"class Agent(Thread):\n    {body}").body[0]
    assert isinstance(tree, ast.ClassDef)
    found = list(complaints(tree, of_libraries(threading.Thread)))
    # Python 3.14's own `_context` is found twice.
    assert complaint in found if complaint else found == []
