"""The locks of Python packages: what pyproject.toml asks for, pinned with hashes.

    python tests/locks.py           # say where they differ from pyproject.toml; exit code 1 if so
    python tests/locks.py make UV   # make them anew, with the program uv

programs.lock is for the programs. tests.lock has only what tests, checks and documentation need
besides. Both are for all Pythons that pyproject.toml allows.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCKS = ("programs.lock", "tests.lock")
OLDEST = "3.11"
HEADER = "# Made by `./run lock`. The requirements in pyproject.toml have the digest "


def wanted(project: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the requirements of the programs, with those to install them, and of the tests."""
    settings = project["project"]
    extra = settings["optional-dependencies"]
    required = [*project["build-system"]["requires"], *extra["setup"], *settings["dependencies"]]
    return required, extra["test"]


def digest(project: dict[str, Any]) -> str:
    """Return the digest of all requirements."""
    return hashlib.sha256(json.dumps(wanted(project)).encode()).hexdigest()[:16]


def entries(text: str) -> dict[str, list[str]]:
    """Return the entries of a lock by name; a name has several if it depends on the Python."""
    found: dict[str, list[str]] = {}
    for entry in re.split(r"\n(?=\w)", text):
        if (name := re.match(r"([\w.-]+)==", entry)) is not None:
            found.setdefault(canonicalize_name(name[1]), []).append(entry.strip("\n"))
    return found


def differences(root: Path) -> Iterator[str]:
    """Yield where the locks differ from pyproject.toml."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    locked: dict[str, list[str]] = {}
    for lock, requirements in zip(LOCKS, wanted(project), strict=True):
        text = (root / lock).read_text(encoding="utf-8") if (root / lock).exists() else ""
        if not text.startswith(HEADER + digest(project)):
            yield f"{lock} was made from other requirements than those in pyproject.toml"
        locked |= entries(text)
        for requirement in map(Requirement, requirements):
            pins = locked.get(canonicalize_name(requirement.name), [])
            versions = [re.split(r"==|[ \\]", pin, maxsplit=2)[1] for pin in pins]
            if not versions or not all(map(requirement.specifier.contains, versions)):
                yield f"{lock} lacks {requirement}, it has {', '.join(versions) or 'none'}"


def make(root: Path, uv: str) -> None:
    """Write the locks."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    programs, tests = wanted(project)
    words = ["--universal", "--python-version", OLDEST, "--generate-hashes", "--no-header"]
    known: dict[str, list[str]] = {}
    for lock, requirements in zip(LOCKS, (programs, programs + tests), strict=True):
        constraints = ["--constraint", LOCKS[0]] if known else []
        made = subprocess.run(
            [uv, "pip", "compile", "--quiet", "--no-annotate", *words, *constraints, "-"],
            input="\n".join(requirements),
            cwd=root,
            text=True,
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        rows = [row for name, pins in entries(made).items() if name not in known for row in pins]
        known |= entries(made)
        text = "\n".join([HEADER + digest(project) + ".", *rows])
        (root / lock).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    here = Path(__file__).resolve().parents[1]
    if sys.argv[1:2] == ["make"]:
        make(here, sys.argv[2])
    found = list(differences(here))
    print(*(f"{difference}; `./run lock` makes it anew" for difference in found), sep="\n", end="")
    sys.exit(1 if found else 0)
