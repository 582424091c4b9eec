"""The version of a release and its section of CHANGELOG.md: ``python -m builder.versions 1.1.0``.

The version stands in pyproject.toml only. ``./run release`` calls this before it builds.
"""

import datetime
import re
import subprocess
import sys
from pathlib import Path

from builder.errors import BuildError
from builder.tree import Tree

OPEN = "## Unreleased"
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")


def prepare(tree: Tree, version: str, today: datetime.date) -> None:
    """Set the version, and close the open section of the changelog with a date.

    A release of the version that the tree has already changes no file.
    """
    if not _VERSION.fullmatch(version):
        raise BuildError(f"'{version}' is no version; allowed: three numbers, such as 1.2.0")
    if changed := _git(tree.root, "status", "--porcelain"):
        files = ", ".join(line[3:] for line in changed.splitlines()[:5])
        raise BuildError(f"a release is made of a commit; commit or remove first: {files}")
    changelog, project = tree.root / "CHANGELOG.md", tree.root / "pyproject.toml"
    text = changelog.read_text(encoding="utf-8")
    before, head, after = text.partition(f"\n{OPEN}\n")
    if not head:
        raise BuildError(f"CHANGELOG.md has no section '{OPEN}'")
    entries, _, _ = after.partition("\n## ")
    some = bool(re.search(r"^[-*] ", entries, re.MULTILINE))
    if version == tree.version:
        if some:
            raise BuildError(
                f"CHANGELOG.md has entries after {version}; give the next version: "
                "./run release VERSION"
            )
        if f"\n## {version} - " not in after:
            raise BuildError(f"CHANGELOG.md has no section of version {version}")
        return
    if _key(version) < _key(tree.version):
        raise BuildError(f"version {version} is earlier than {tree.version}")
    if not some:
        raise BuildError(f"the section '{OPEN}' of CHANGELOG.md is empty: nothing to release")
    changelog.write_text(
        f"{before}\n{OPEN}\n\n## {version} - {today.isoformat()}\n{after}", encoding="utf-8"
    )
    line = re.compile(r'^version = ".*"$', re.MULTILINE)
    project.write_text(
        line.sub(f'version = "{version}"', project.read_text(encoding="utf-8"), count=1),
        encoding="utf-8",
    )


def _key(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{folder} is no clone of the repository: a release is made in one")
    return done.stdout


if __name__ == "__main__":
    try:
        prepare(Tree.find(), sys.argv[1], datetime.datetime.now(datetime.UTC).date())
    except BuildError as refused:
        sys.exit(f"ERROR: {refused}")
