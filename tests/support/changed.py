"""Which test modules a change reaches: by imports, and by folder for files that are not Python.

A charm's `dispatch` and a package are no imports: TOLD names the tests of such files.
"""

from __future__ import annotations

import ast
import functools
import subprocess
import tomllib
from collections.abc import Iterable
from pathlib import Path

import grimp

#: Where modules begin, the longest first.
ROOTS = ("charms/lib/", "tests/", "")
#: What a file reaches besides its importers: a beginning of its path, and folders of tests.
TOLD = {
    "charms/": ("charm",),
    "charms/common/": ("builder", "charm", "core", "docs"),
    "cloud-init/": ("builder",),
    "docs/": ("docs",),
    "ns-packages/": ("builder", "docs"),
    "nst-packages/": ("builder", "docs"),
    "params/": ("builder", "docs"),
    "vnf-packages/": ("builder", "docs"),
    "run": ("docs",),
}
#: Folders whose tests bring up whole services: reached only if they change themselves.
WHOLE_SERVICES = ("experiments/", "gateway/", "kernel/", "lab/e2e/")


def changed_files(root: Path, base: str) -> list[str]:
    """Return the files that differ from a revision, those included that git does not know yet."""
    listed: list[str] = []
    for command in (
        ("diff", "--name-only", base, "--"),
        ("ls-files", "--others", "--exclude-standard"),
    ):
        asked = subprocess.run(
            ("git", *command), cwd=root, capture_output=True, text=True, check=True
        )
        listed += asked.stdout.splitlines()
    return sorted(set(listed))


def module(path: str) -> str:
    """Return the name under which a Python file is imported."""
    start = next(start for start in ROOTS if path.startswith(start))
    return path.removeprefix(start).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@functools.cache
def imports(path: Path) -> frozenset[str]:
    """Return every name that a file imports; whether it is a module or lies in one stays open."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return frozenset(names)


def _modules_reached(root: Path, changed: Iterable[str]) -> set[str]:
    """Return the modules of our packages that changed, and those that import them."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    graph = grimp.build_graph(*settings["tool"]["importlinter"]["root_packages"], cache_dir=None)
    reached: set[str] = set()
    for path in changed:
        if path.startswith("tests/"):
            continue
        # Data of a package counts as the package.
        name = module(path if path.endswith(".py") else f"{Path(path).parent}/__init__.py")
        while "." in name and name not in graph.modules:
            name = name.rpartition(".")[0]
        if name not in graph.modules:
            continue
        reached |= {name, *graph.find_downstream_modules(name)}
        if not path.endswith(".py"):
            reached |= graph.find_descendants(name)
    return reached


def reached(root: Path, changed: list[str]) -> set[str]:
    """Return the test modules, below `tests/`, that changed files reach.

    All of them where what they have in common has changed: dependencies and settings of pytest.
    """
    tests = root / "tests"
    modules = {path.relative_to(tests).as_posix() for path in tests.rglob("test_*.py")}
    if {"pyproject.toml", "tests/conftest.py"} & set(changed):
        return modules
    names = _modules_reached(root, changed)
    # What tests share may import each other.
    support = {f"support.{path.stem}": imports(path) for path in tests.glob("support/*.py")}
    names |= {module(path) for path in changed if path.startswith("tests/support/")}
    while more := {name for name, needs in support.items() if needs & names} - names:
        names |= more
    own = {path.removeprefix("tests/") for path in changed if path.startswith("tests/")}
    told = {
        f"{folder}/"
        for path in changed
        for start, folders in TOLD.items()
        if path.startswith(start)
        for folder in folders
    }
    if any(path.endswith(".md") for path in changed):
        told.add("docs/")

    def is_reached(test: str) -> bool:
        near = {f"{parent.as_posix()}/conftest.py" for parent in Path(test).parents[:-1]}
        if test in own or near & own:
            return True
        if test.startswith(WHOLE_SERVICES):
            return False
        files = [tests / test, *(tests / path for path in near if (tests / path).exists())]
        return test.startswith(tuple(told)) or any(names & imports(file) for file in files)

    return {test for test in modules if is_reached(test)}
