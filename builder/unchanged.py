"""Whether packages have been built already from the sources as they are."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from builder.archive import digest
from builder.tree import SOURCES, Tree

STAMP = ".built.json"  # File in the target folder: what was built there, and from what.


class Stamp:
    """What was built into a folder from these sources with these settings."""

    def __init__(self, tree: Tree, target: Path, settings: Iterable[str]) -> None:
        """Read the stamp; one of other sources or settings counts as none."""
        self.target = target
        self.sources = _digest(tree, settings)
        self.files: dict[str, list[int]] = {}
        try:
            read = json.loads((target / STAMP).read_text(encoding="utf-8"))
            if read["sources"] == self.sources:
                self.files = dict(read["files"])
        except (OSError, ValueError, KeyError, TypeError):
            pass  # no stamp, or none of ours: all is built

    def has(self, packages: Iterable[str]) -> bool:
        """Return whether the parameter files and archives are there as they were built."""
        wanted = [part for name in packages for part in (name, f"{name}.tar.gz")]
        params = [name for name in self.files if name.startswith("params/")]
        return bool(params) and all(
            (self.target / name).exists() and self.files.get(name) == self._state(name)
            for name in [*params, *wanted]
        )

    def write(self, made: Iterable[Path]) -> None:
        """Note what was built: parameter files, archives, and the folder beside each."""
        names = [path.relative_to(self.target).as_posix() for path in made]
        self.files |= {name: self._state(name) for name in names}
        text = json.dumps({"sources": self.sources, "files": self.files}, indent=1)
        (self.target / STAMP).write_text(text, encoding="utf-8")

    def _state(self, name: str) -> list[int]:
        top = self.target / name
        paths = [top] if top.is_file() else [path for path in top.rglob("*") if path.is_file()]
        states = [path.lstat() for path in paths]
        newest = max((state.st_mtime_ns for state in states), default=0)
        return [len(states), sum(state.st_size for state in states), newest]


def _digest(tree: Tree, settings: Iterable[str]) -> str:
    sources = [*(tree.root / name for name in SOURCES), Path(__file__).parent]
    parts = [*settings, *(digest(source) for source in sources)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
